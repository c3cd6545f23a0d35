//! `call`: one tool, through the gate; its result for a person, or byte for byte.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use switchboard::Host;
use switchboard::call::{Call, CallError};
use switchboard::catalog::{Catalog, Tool, Unresolved, can_name};
use switchboard::config::{Config, ServerConfig};
use switchboard::event::LogLevel;
use switchboard::name::ServerName;
use switchboard::result::{CallResult, Projection, fit, forget_old};
use switchboard::session::RequestFault;
use switchboard::wire::{NotJson, RawJson};
use tokio::task::JoinSet;

use crate::arguments::{Options, argument_names, paths, seconds, tool_names};
use crate::coerce::{self, Pair};
use crate::failure::{Code, Failure};
use crate::opening::Setup;
use crate::place::Place;
use crate::progress::WaitLimit;
use crate::view::server::escaped;
use crate::view::signature;
use crate::{hints, nearest, notices, output, progress, remembered, saving, terminal};

/// How much of a result is printed on a terminal; the whole is in a file that is named.
const PRINTED_BYTES: usize = 1024 * 1024;

/// Which tool, with what.
#[derive(Debug, Args)]
#[command(after_help = "\
Values are read by the tool's schema; a key given several times makes an array; key:=JSON is taken as JSON.
key=@FILE takes the text of a file, key:=@FILE its JSON; key=@@x is the text @x.

Examples:
  switchboard call time/get_current_time timezone=Europe/Paris
  switchboard call mcp__git__git_log repo_path=. max_count=5 --json
  switchboard call mail/send to=ada@example.com body=@letter.txt
  switchboard call files/write --args @request.json
  switchboard call browser/screenshot --save pictures
  echo '{\"text\":\"hi\"}' | switchboard call demo/echo --args - --yes
  switchboard call --server 'npx -y server-x' TOOL key=value")]
pub(crate) struct Wanted {
    /// A name that `switchboard tools` shows, or server/tool
    #[arg(add = tool_names())]
    tool: String,
    /// Arguments, coerced by the tool's schema (key:=JSON is taken as JSON, key=@FILE is read from
    /// a file)
    #[arg(value_name = "KEY=VALUE", value_parser = coerce::pair, add = argument_names())]
    pairs: Vec<Pair>,
    /// All arguments as one JSON object: the text, @FILE, or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    args: Option<String>,
    /// Do not ask: the answer is yes, for this call (deny rules still hold) and to the server of
    /// --server
    #[arg(long)]
    yes: bool,
    /// Use this server, which is in no file: a command line or a URL; TOOL is then one of its
    /// tools
    #[arg(long = "server", value_name = "COMMAND|URL")]
    other: Option<String>,
    /// The longest the call may take in all
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Write images, sound and other binary parts of the result to files in this folder
    #[arg(long, value_name = "DIR", add = paths())]
    save: Option<PathBuf>,
    /// Show on stderr what the server logs meanwhile, from this level on: debug, info, notice,
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

pub(crate) fn run(options: &Options, wanted: &Wanted) -> Result<u8, Failure> {
    let mut setup = Setup::read(options)?;
    let mut name = wanted.tool.clone();
    if let Some(other) = &wanted.other {
        setup = setup.with_server(other, wanted.yes)?;
        name = in_only_server(&setup, name);
    }
    if let Some(failure) = misspelt(&setup, &name) {
        return Err(failure);
    }
    wanted.save.as_deref().map(saving::prepare).transpose()?;
    let base = wanted.args.as_deref().map(read_arguments).transpose()?;
    let server = server_of(&setup, &name)?;
    let only = started_for(&setup, &name, server.as_ref());
    setup.run(only, async |host, place| {
        let tool = find(host, &name, server.as_ref(), options).await?;
        let arguments = arguments(&tool, base.as_ref(), &wanted.pairs)?;
        let mut call = Call::new(
            &*name,
            arguments,
            terminal::caller_with_log(wanted.log_level),
        );
        call.timeout = wanted.timeout;
        call.yes = wanted.yes;
        let doing = format!(
            "calling {}/{}",
            tool.id.server,
            tool.id.tool.untrusted().for_terminal_line()
        );
        let making = progress::during(doing, host.call(call));
        let result = match wanted.log_level {
            None => making.await,
            // A tool of our own has no server that could log.
            Some(_) if tool.id.server.is_host() => making.await,
            Some(level) => {
                want_log(host, &tool.id.server, level).await?;
                notices::telling_log(host, &tool.id.server, level, making).await
            }
        };
        show(&tool, &result?, options.json, place, wanted.save.as_deref())
    })
}

/// A legacy server is told once what to log; a modern one with the call itself.
async fn want_log(host: &Host, server: &ServerName, level: LogLevel) -> Result<(), Failure> {
    match host.set_log_level(server, level).await {
        // The call is worth more than its log.
        Err(CallError::Request { fault, .. }) if !matches!(fault, RequestFault::Closed(_)) => {
            output::notice(&format!(
                "server \"{server}\": its log is not shown: {fault}"
            ));
            Ok(())
        }
        outcome => outcome.map_err(Failure::from),
    }
}

/// The one server to start, where the name tells: `server/tool`, an exposed name of last time, or
/// one that no other server's tool can have.
pub(super) fn server_of(setup: &Setup, tool: &str) -> Result<Option<ServerName>, Failure> {
    let mut names = setup.config.servers.keys();
    let named = names.find(|name| is_pair_of(tool, name));
    if let Some(name) = named {
        return Ok(Some(setup.trusted_entry(name.as_str())?.name.clone()));
    }
    let config = &setup.config;
    let may_have_it = |server: &&Arc<ServerConfig>| can_name(server, config.naming, tool);
    let able: Vec<_> = config
        .servers
        .values()
        .filter(may_have_it)
        .map(|server| server.name.clone())
        .collect();
    if let (Some((server, _)), []) = (tool.split_once('/'), &*able) {
        setup.entry(server)?;
    }
    let only_one = || {
        <[ServerName; 1]>::try_from(able)
            .ok()
            .map(|[server]| server)
    };
    let remembered = remembered::server_of(config, &*setup.store, tool);
    match remembered
        .or_else(only_one)
        .or_else(|| looks_like(config, tool))
    {
        Some(name) => Ok(Some(setup.trusted_entry(name.as_str())?.name.clone())),
        None => Ok(None),
    }
}

/// The servers to start for a tool of this one: a pair needs no other, a name those that it depends
/// on.
pub(super) fn started_for(
    setup: &Setup,
    tool: &str,
    server: Option<&ServerName>,
) -> Option<Vec<ServerName>> {
    let server = server?;
    Some(if is_pair_of(tool, server) {
        vec![server.clone()]
    } else {
        setup.needed_to_name(server)
    })
}

/// Whether a name is `server/tool` of this server.
fn is_pair_of(tool: &str, server: &ServerName) -> bool {
    tool.strip_prefix(server.as_str())
        .is_some_and(|rest| rest.starts_with('/'))
}

/// A tool's own name as that of the only server there is.
fn in_only_server(setup: &Setup, name: String) -> String {
    match setup.config.servers.keys().next() {
        Some(server) if !name.starts_with(&format!("{server}/")) && !name.starts_with("mcp__") => {
            format!("{server}/{name}")
        }
        _ => name,
    }
}

/// The one server whose tools are named like this, known or not.
fn looks_like(config: &Config, name: &str) -> Option<ServerName> {
    let style = |server: &ServerConfig| server.dialect.rules().naming.unwrap_or(config.naming);
    let mut found = config
        .servers
        .values()
        .filter(|server| style(server).may_name(&server.name, name));
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only.name.clone()),
        _ => None,
    }
}

/// No tool has this name, and last time's catalogs have one that was probably meant: nothing needs
/// to start to say so.
fn misspelt(setup: &Setup, name: &str) -> Option<Failure> {
    let named = setup.config.servers.keys().find(|server| {
        name.strip_prefix(server.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    });
    if named.is_none() && name.contains('/') {
        // A server that is not configured, which is told as that.
        return None;
    }
    let catalog = remembered::catalog_of_all(setup, named)?;
    let nearest = nearest_pairs(&catalog, name, catalog.resolve(name).err()?)?;
    let look_again =
        hints::command(&[&["tools"], named.map(ServerName::as_str).as_slice()].concat());
    let message = format!("no tool {name:?} as of last time");
    Some(Failure::new(Code::Usage, message).hint(format!(
        "did you mean {}? {look_again} looks again",
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
        wrong(format!("--args is not one JSON value: {error}"))
            .hint("give a JSON object, @FILE, or - for stdin")
    })
}

fn arguments(tool: &Tool, base: Option<&RawJson>, pairs: &[Pair]) -> Result<RawJson, Failure> {
    let schema = tool.definition.input_schema.to_value().unwrap_or_default();
    let (server, name) = (&tool.id.server, tool.id.tool.untrusted());
    let name = name.for_terminal_line();
    for key in coerce::unnamed(pairs, &schema) {
        let meant = nearest::question(key, signature::names(&schema));
        output::notice(&format!(
            "server \"{server}\", tool {name}: it names no argument \"{}\"; {meant}sent anyway",
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
            "{} shows what is expected",
            hints::command(&["tools", &format!("{server}/{name}")])
        ))
    })
}

/// The tool, as soon as its server has come; other servers are not waited for.
pub(super) async fn find(
    host: &Host,
    name: &str,
    server: Option<&ServerName>,
    options: &Options,
) -> Result<Arc<Tool>, Failure> {
    let limit = WaitLimit::start(options);
    if let Some(handle) = server.and_then(|server| host.server(server.as_str())) {
        if let Ok(tool) = host.catalog().resolve(name) {
            // Offered now, or last time: the call itself waits for the server.
            return Ok(tool.clone());
        }
        let wait = options
            .wait
            .unwrap_or_else(|| handle.config.longest_connect());
        progress::during(
            format!("connecting {}", handle.config.name),
            handle.ready(wait),
        )
        .await?;
    }
    if let Some(tool) = appears(host, name, limit).await {
        return Ok(tool);
    }
    if !server.is_some_and(|server| is_pair_of(name, server)) {
        // Last time's catalog led astray, or there is none of a lazy server: ask everybody who may
        // have it.
        wake_all(host, name, limit).await;
        if let Some(tool) = appears(host, name, limit).await {
            return Ok(tool);
        }
    }
    progress::clear();
    if server.is_none() {
        super::say_who_is_missing(host);
    }
    Err(unresolved(host, name))
}

/// No such tool: a server's name is explained, and a pair is told the nearest pairs.
fn unresolved(host: &Host, name: &str) -> Failure {
    let catalog = host.catalog();
    if let Some(handle) = host.server(name.trim_end_matches('/')) {
        let server = &handle.config.name;
        return Failure::new(
            Code::Usage,
            format!("\"{server}\" is a server; a tool of it is {server}/TOOL"),
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
    if let Some(pairs) = nearest_pairs(&catalog, name, why.clone()) {
        why = Unresolved::Unknown { nearest: pairs };
    }
    CallError::Unresolved {
        name: name.to_owned(),
        why,
    }
    .into()
}

/// The names that were probably meant, as pairs where a pair was given; `None` where there are
/// none.
fn nearest_pairs(catalog: &Catalog, name: &str, why: Unresolved) -> Option<Vec<String>> {
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

/// Waits for a name to be on offer, until every server is settled.
async fn appears(host: &Host, name: &str, limit: WaitLimit) -> Option<Arc<Tool>> {
    let mut events = host.events();
    let settled = progress::settle(host, limit);
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

async fn wake_all(host: &Host, name: &str, limit: WaitLimit) {
    let mut waking = JoinSet::new();
    for handle in host.servers_for(name) {
        waking.spawn(async move { super::connected(&handle, limit).await.is_ok() });
    }
    while waking.join_next().await.is_some() {}
}

/// Prints the result, whatever else fails: the tool has run (F31). One that answers `isError` has
/// answered: its words are the answer on stdout, and stderr says that it failed.
fn show(
    tool: &Tool,
    result: &CallResult,
    json: bool,
    place: &Place,
    save: Option<&Path>,
) -> Result<u8, Failure> {
    if json {
        output::print_json(result.raw.as_str())?;
    } else {
        print(result, place)?;
    }
    save.map(|folder| saving::save(&result.raw, folder))
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

/// A terminal gets the text for a person, cut where it is very long; a program gets the text alone,
/// whole.
fn print(result: &CallResult, place: &Place) -> Result<(), Failure> {
    let unreadable = |error: NotJson| {
        Failure::new(
            Code::Answered,
            format!("the result cannot be shown: {error}"),
        )
        .hint("--json prints it as it came")
    };
    forget_old(&place.results());
    if output::stdout_columns().is_none() {
        let text = result.for_model().map_err(unreadable)?;
        // JSON stays JSON: what a terminal would obey is escaped in JSON's own way.
        return match RawJson::parse(text.raw().to_owned()) {
            Ok(_) => output::print(&super::ended(output::escape_for_terminal(text.raw()))),
            Err(_) => output::print(&super::ended(text.for_terminal().to_string())),
        };
    }
    let text = result.for_person().map_err(unreadable)?;
    let folder = place.results();
    let fitted = fit(text.clone(), PRINTED_BYTES, &folder).unwrap_or_else(|error| {
        output::notice(&format!(
            "the result is long, and could not be kept in {}: {error}",
            escaped(&folder.display().to_string())
        ));
        Projection {
            text,
            spilled: None,
        }
    });
    output::print(&super::ended(fitted.text.for_terminal().to_string()))?;
    // After a text that fills many screens, so that it is seen.
    if let Some(file) = &fitted.spilled {
        let file = escaped(&file.display().to_string());
        output::notice(&format!(
            "the result is long; the whole of it is in {file}, escaped as on this screen (--json prints it as it came)"
        ));
    }
    Ok(())
}
