//! `call`: calls one tool, through the gate, and prints its result.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use switchboard::Host;
use switchboard::call::{Call, CallError};
use switchboard::catalog::{
    Catalog, PossibleOwners, Tool, Unresolved, likely_owner, possible_owners,
};
use switchboard::event::LogLevel;
use switchboard::name::ServerName;
use switchboard::result::{CallResult, Projection, fit, forget_old};
use switchboard::session::RequestFault;
use switchboard::wire::{NotJson, RawJson};
use tokio::task::JoinSet;

use crate::arguments::{Options, argument_names, path_completer, seconds, tool_names};
use crate::coerce::{self, Pair};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::progress::WaitLimit;
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::view::signature;
use crate::{cached_catalog, hints, notices, output, progress, save_files, suggestion, terminal};

/// How much of a result is printed on a terminal; all of it is in a file that is named.
const PRINTED_BYTES: usize = 1024 * 1024;

/// Arguments of `call`.
#[derive(Debug, Args)]
#[command(after_help = "\
Values are converted by the tool's schema; a repeated key makes an array; key:=JSON passes JSON.
key=@FILE passes the text of a file, key:=@FILE its JSON; key=@@x passes the text @x.

Examples:
  switchboard call time/get_current_time timezone=Europe/Paris
  switchboard call mcp__git__git_log repo_path=. max_count=5 --json
  switchboard call mail/send to=ada@example.com body=@letter.txt
  switchboard call files/write --args @request.json
  switchboard call browser/screenshot --save pictures
  echo '{\"text\":\"hi\"}' | switchboard call demo/echo --args - --yes
  switchboard call --server 'npx -y server-x' TOOL key=value")]
pub(crate) struct CallArgs {
    /// A name that `switchboard tools` shows, or server/tool
    #[arg(add = tool_names())]
    tool: String,
    /// Arguments, converted by the tool's schema (key:=JSON passes JSON, key=@FILE reads a file)
    #[arg(value_name = "KEY=VALUE", value_parser = coerce::pair, add = argument_names())]
    pairs: Vec<Pair>,
    /// All arguments as one JSON object: the text, @FILE, or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    args: Option<String>,
    /// Approve this call, and the server of --server, without asking (deny rules still apply)
    #[arg(long)]
    yes: bool,
    /// Use a server that is in no file: a command line or a URL; TOOL is one of its tools
    #[arg(long = "server", value_name = "COMMAND|URL")]
    ad_hoc: Option<String>,
    /// Time limit of the whole call
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Write images, audio and other binary parts of the result to files in this folder
    #[arg(long, value_name = "DIR", add = path_completer())]
    save: Option<PathBuf>,
    /// Show the server's log messages of this level and above on stderr: debug, info, notice,
    /// warning, error, critical, alert, emergency
    #[arg(long, value_name = "LEVEL", value_parser = log_level)]
    log_level: Option<LogLevel>,
}

fn log_level(word: &str) -> Result<LogLevel, String> {
    LogLevel::read(word).ok_or_else(|| {
        let words: Vec<_> = LogLevel::ALL.into_iter().map(LogLevel::as_str).collect();
        format!("expected one of {}", words.join(", "))
    })
}

pub(crate) fn run(options: &Options, args: &CallArgs) -> Result<u8, Failure> {
    let mut setup = Setup::read(options)?;
    let mut name = args.tool.clone();
    if let Some(ad_hoc) = &args.ad_hoc {
        setup = setup.with_server(ad_hoc, args.yes)?;
        name = qualify_with_server(&setup, name);
    }
    if let Some(failure) = misspelled_tool(&setup, &name) {
        return Err(failure);
    }
    args.save.as_deref().map(save_files::prepare).transpose()?;
    let base = args.args.as_deref().map(read_arguments).transpose()?;
    let server = server_to_start(&setup, &name)?;
    let only = servers_to_start(&setup, &name, server.as_ref());
    setup.run(only, async |host, paths| {
        let tool = find_tool(host, &name, server.as_ref(), options).await?;
        let arguments = build_arguments(&tool, base.as_ref(), &args.pairs)?;
        let mut call =
            Call::new(&*name, arguments).caller(terminal::caller_with_log(args.log_level));
        call.timeout = args.timeout;
        call.pre_approved = args.yes;
        let doing = format!(
            "calling {}/{}",
            tool.id.server,
            tool.id.tool.untrusted().for_terminal_line()
        );
        let call = progress::with_spinner(doing, host.call_with(call));
        let result = match args.log_level {
            None => call.await,
            // Host tools have no server that could log.
            Some(_) if tool.id.server.is_host() => call.await,
            Some(level) => {
                request_log_level(host, &tool.id.server, level).await?;
                notices::with_server_log(host, &tool.id.server, level, call).await
            }
        };
        print_outcome(&tool, &result?, options.json, paths, args.save.as_deref())
    })
}

/// A legacy server gets the log level in a request of its own; a modern one with each call.
async fn request_log_level(
    host: &Host,
    server: &ServerName,
    level: LogLevel,
) -> Result<(), Failure> {
    match host.set_log_level(server, level).await {
        // A log that cannot be had does not prevent the call.
        Err(CallError::Request { fault, .. }) if !matches!(fault, RequestFault::Closed(_)) => {
            output::notice(&format!(
                "server \"{server}\": its log is not shown: {fault}"
            ));
            Ok(())
        }
        outcome => outcome.map_err(Failure::from),
    }
}

/// The only server to start, if the name determines it.
pub(super) fn server_to_start(setup: &Setup, tool: &str) -> Result<Option<ServerName>, Failure> {
    let config = &setup.config;
    let owners = possible_owners(config, tool);
    let has_none = matches!(owners, PossibleOwners::AnyOf(able) if able.is_empty());
    if let (Some((server, _)), true) = (tool.split_once('/'), has_none) {
        setup.entry(server)?;
    }
    let cached = || cached_catalog::catalog(config, &*setup.store);
    match likely_owner(config, cached, tool) {
        Some(server) => Ok(Some(
            setup.trusted_entry(server.name.as_str())?.name.clone(),
        )),
        None => Ok(None),
    }
}

/// The servers to start for a tool of this server: `server/tool` needs no other, an exposed name
/// may depend on several.
pub(super) fn servers_to_start(
    setup: &Setup,
    tool: &str,
    server: Option<&ServerName>,
) -> Option<Vec<ServerName>> {
    let server = server?;
    Some(if is_tool_of(tool, server) {
        vec![server.clone()]
    } else {
        setup.needed_to_name(server)
    })
}

/// Whether a name is `server/tool` of this server.
fn is_tool_of(tool: &str, server: &ServerName) -> bool {
    tool.strip_prefix(server.as_str())
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Prefixes a tool's own name with the only server.
fn qualify_with_server(setup: &Setup, name: String) -> String {
    match setup.config.servers.keys().next() {
        Some(server) if !name.starts_with(&format!("{server}/")) && !name.starts_with("mcp__") => {
            format!("{server}/{name}")
        }
        _ => name,
    }
}

/// An error if the cached catalogs have no tool of this name but a similar one: then no server
/// needs to start.
fn misspelled_tool(setup: &Setup, name: &str) -> Option<Failure> {
    let named = match possible_owners(&setup.config, name) {
        PossibleOwners::Named(server) => Some(&server.name),
        PossibleOwners::AnyOf(_) => None,
    };
    if named.is_none() && name.contains('/') {
        // The server is not configured, which is an error of its own.
        return None;
    }
    let catalog = cached_catalog::catalog_of_all(setup, named)?;
    let nearest = suggested_names(&catalog, name, catalog.resolve(name).err()?)?;
    let look_again =
        hints::command(&[&["tools"], named.map(ServerName::as_str).as_slice()].concat());
    let message = format!("no tool {name:?} in the cached catalogs");
    Some(Failure::new(Code::Usage, message).hint(format!(
        "did you mean {}? {look_again} lists the current tools",
        nearest.join(", ")
    )))
}

/// `--args`: the text itself, `@FILE`, or `-` for stdin.
fn read_arguments(given: &str) -> Result<RawJson, Failure> {
    let wrong = |message: String| Failure::new(Code::Usage, message);
    let bytes = if given == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| wrong(format!("--args: stdin: {error}")))?;
        bytes
    } else if let Some(file) = given.strip_prefix('@') {
        std::fs::read(file).map_err(|error| {
            wrong(format!("--args: {file:?} cannot be read: {error}"))
                .hint("give @FILE, a JSON object, or - for stdin")
        })?
    } else {
        given.as_bytes().to_vec()
    };
    RawJson::parse(bytes).map_err(|error| {
        wrong(format!("--args is not valid JSON: {error}"))
            .hint("give a JSON object, @FILE, or - for stdin")
    })
}

pub(super) fn build_arguments(
    tool: &Tool,
    base: Option<&RawJson>,
    pairs: &[Pair],
) -> Result<RawJson, Failure> {
    let schema = tool.definition.input_schema.to_value().unwrap_or_default();
    let (server, name) = (&tool.id.server, tool.id.tool.untrusted());
    let name = name.for_terminal_line();
    for key in coerce::unknown_keys(pairs, &schema) {
        let meant = suggestion::did_you_mean(key, signature::names(&schema));
        output::notice(&format!(
            "server \"{server}\", tool {name}: its schema has no argument \"{}\"; {meant}sent anyway",
            escaped(key)
        ));
    }
    coerce::arguments(base, pairs, &schema).map_err(|what| {
        Failure::new(
            Code::Usage,
            format!("server \"{server}\", tool {name}: {what}"),
        )
        .server(server)
        .hint(format!(
            "{} shows its arguments",
            hints::command(&["tools", &format!("{server}/{name}")])
        ))
    })
}

/// Finds the tool as soon as its server is ready, without waiting for other servers.
pub(super) async fn find_tool(
    host: &Host,
    name: &str,
    server: Option<&ServerName>,
    options: &Options,
) -> Result<Arc<Tool>, Failure> {
    let limit = WaitLimit::start(options);
    if let Some(handle) = server.and_then(|server| host.server(server.as_str())) {
        if let Ok(tool) = host.catalog().resolve(name) {
            // Known now or from the cache: the call itself waits for the server.
            return Ok(tool.clone());
        }
        let wait = options
            .wait
            .unwrap_or_else(|| handle.config.longest_connect());
        progress::with_spinner(
            format!("connecting {}", handle.config.name),
            handle.ready(wait),
        )
        .await?;
    }
    if let Some(tool) = wait_for_tool(host, name, limit).await {
        return Ok(tool);
    }
    if !server.is_some_and(|server| is_tool_of(name, server)) {
        // The cached catalog was wrong, or a lazy server has none: start every server that may have
        // the tool.
        start_candidates(host, name, limit).await;
        if let Some(tool) = wait_for_tool(host, name, limit).await {
            return Ok(tool);
        }
    }
    progress::clear();
    if server.is_none() {
        super::report_unavailable_servers(host);
    }
    Err(unknown_tool(host, name))
}

/// The error for an unknown tool. If the name is a server's, it says so; for `server/tool` it
/// suggests similar pairs.
fn unknown_tool(host: &Host, name: &str) -> Failure {
    let catalog = host.catalog();
    if let Some(handle) = host.server(name.trim_end_matches('/')) {
        let server = &handle.config.name;
        return Failure::new(
            Code::Usage,
            format!("\"{server}\" is a server; name one of its tools as {server}/TOOL"),
        )
        .server(server)
        .hint(format!(
            "{} lists them",
            hints::command(&["tools", server.as_str()])
        ));
    }
    let mut why = catalog.resolve(name).err().unwrap_or(Unresolved::Unknown {
        nearest: Vec::new(),
    });
    if let Some(pairs) = suggested_names(&catalog, name, why.clone()) {
        why = Unresolved::Unknown { nearest: pairs };
    }
    CallError::Unresolved {
        name: name.to_owned(),
        why,
    }
    .into()
}

/// Similar names, as `server/tool` if that form was given; `None` if there are none.
fn suggested_names(catalog: &Catalog, name: &str, why: Unresolved) -> Option<Vec<String>> {
    let Unresolved::Unknown { nearest } = why else {
        return None;
    };
    let pair = |near: &String| match catalog.resolve(near) {
        Ok(tool) if name.contains('/') => format!(
            "{}/{}",
            tool.id.server,
            tool.id.tool.untrusted().for_terminal_line()
        ),
        _ => near.clone(),
    };
    let pairs: Vec<_> = nearest.iter().map(pair).collect();
    (!pairs.is_empty()).then_some(pairs)
}

/// Waits until a tool of this name is listed, or every server is settled.
async fn wait_for_tool(host: &Host, name: &str, limit: WaitLimit) -> Option<Arc<Tool>> {
    let mut events = host.events();
    let settled = progress::wait_until_settled(host, limit);
    tokio::pin!(settled);
    loop {
        if let Ok(tool) = host.catalog().resolve(name) {
            return Some(tool.clone());
        }
        tokio::select! {
            _ = &mut settled => return host.catalog().resolve(name).ok().cloned(),
            _ = events.next() => {}
        }
    }
}

async fn start_candidates(host: &Host, name: &str, limit: WaitLimit) {
    let mut starting = JoinSet::new();
    for handle in host.servers_for(name) {
        starting.spawn(async move { super::wait_until_ready(&handle, limit).await.is_ok() });
    }
    while starting.join_next().await.is_some() {}
}

/// Prints the result whatever else fails, because the tool has run. With `isError`, the text still
/// goes to stdout, and stderr says that it failed.
pub(super) fn print_outcome(
    tool: &Tool,
    result: &CallResult,
    json: bool,
    paths: &Paths,
    save: Option<&Path>,
) -> Result<u8, Failure> {
    if json {
        output::print_json(result.raw.as_str())?;
    } else {
        print_text(result, paths)?;
    }
    save.map(|folder| save_files::save(&result.raw, folder))
        .transpose()?;
    if !result.is_error() {
        return Ok(0);
    }
    let (server, name) = (&tool.id.server, tool.id.tool.untrusted());
    let name = name.for_terminal_line();
    Err(Failure::new(
        Code::Answered,
        format!("server \"{server}\", tool {name}: the tool reported a failure"),
    )
    .server(server))
}

/// A terminal gets the text for a person, cut if it is very long; a pipe gets the text for a model,
/// complete.
fn print_text(result: &CallResult, paths: &Paths) -> Result<(), Failure> {
    let unreadable = |error: NotJson| {
        Failure::new(
            Code::Answered,
            format!("the result cannot be shown: {error}"),
        )
        .hint("--json prints it unchanged")
    };
    forget_old(&paths.results());
    if output::stdout_columns().is_none() {
        let text = result.untrusted_text().map_err(unreadable)?;
        // JSON stays valid: control characters become JSON escapes.
        return match RawJson::parse(text.raw().to_owned()) {
            Ok(_) => output::print(&super::with_final_newline(output::escape_for_terminal(
                text.raw(),
            ))),
            Err(_) => output::print(&super::with_final_newline(text.for_terminal().to_string())),
        };
    }
    let text = result.for_person().map_err(unreadable)?;
    let folder = paths.results();
    let fitted = fit(text.clone(), PRINTED_BYTES, &folder).unwrap_or_else(|error| {
        output::notice(&format!(
            "the result is long and could not be saved in {}: {error}",
            escaped(&folder.display().to_string())
        ));
        Projection {
            text,
            spilled: None,
        }
    });
    output::print(&super::with_final_newline(
        fitted.text.for_terminal().to_string(),
    ))?;
    // Printed last, because the text may fill many screens.
    if let Some(file) = &fitted.spilled {
        let file = escaped(&file.display().to_string());
        output::notice(&format!(
            "the result is long; all of it is in {file}, escaped as shown here (--json prints it unchanged)"
        ));
    }
    Ok(())
}
