//! `call`: calls one tool, through the gate, and prints its result.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use switchboard::Host;
use switchboard::call::{Call, CallError};
use switchboard::catalog::Tool;
use switchboard::event::LogLevel;
use switchboard::name::ServerName;
use switchboard::session::RequestFault;
use switchboard::wire::RawJson;

use crate::arguments::{Options, argument_names, path_completer, seconds, tool_names};
use crate::coerce::{self, Pair};
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::view::signature;
use crate::{hints, notices, output, progress, save_files, suggestion, terminal};

pub(super) use lookup::{find_tool, server_to_start, servers_to_start};
pub(super) use outcome::print_outcome;

use lookup::{misspelled_tool, qualify_with_server};

mod lookup;
mod outcome;

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
    // Before any question: its signal handlers stay installed, and Ctrl-C could no longer end the
    // reading of stdin.
    let base = args.args.as_deref().map(read_arguments).transpose()?;
    if let Some(ad_hoc) = &args.ad_hoc {
        setup = setup.with_server(ad_hoc, args.yes)?;
        name = qualify_with_server(&setup, name);
    }
    if let Some(failure) = misspelled_tool(&setup, &name) {
        return Err(failure);
    }
    args.save.as_deref().map(save_files::prepare).transpose()?;
    let server = server_to_start(&setup, &name)?;
    let only = servers_to_start(&setup, &name, server.as_ref());
    setup.run(only, async |host, paths| {
        let tool = find_tool(host, &name, server.as_ref(), options).await?;
        let arguments = build_arguments(&tool, base.as_ref(), &args.pairs)?;
        let mut call =
            Call::new(&*name, arguments).caller(terminal::caller_with_log(args.log_level));
        call.timeout = args.timeout;
        call.pre_approved = args.yes;
        let activity = format!(
            "calling {}/{}",
            tool.id.server,
            tool.id.tool.untrusted().for_terminal_line()
        );
        let call = progress::with_spinner(activity, host.call_with(call));
        let result = match args.log_level {
            None => call.await,
            // Host tools have no server that could log.
            Some(_) if tool.id.server.is_host() => call.await,
            Some(level) => {
                request_log_level(host, &tool.id.server, level).await?;
                notices::with_server_log(host, &tool.id.server, level, call).await
            }
        };
        let result = result.map_err(Failure::of_call)?;
        print_outcome(&tool, &result, options.json, paths, args.save.as_deref())
    })
}

/// A legacy server gets the log level in a request of its own; a modern one with each call.
async fn request_log_level(
    host: &Host,
    server: &ServerName,
    level: LogLevel,
) -> Result<(), Failure> {
    match host.set_log_level(server, level).await {
        // A missing log does not prevent the call.
        Err(CallError::Request { fault, .. }) if !matches!(fault, RequestFault::Closed(_)) => {
            output::notice(&format!(
                "server \"{server}\": its log is not shown: {fault}"
            ));
            Ok(())
        }
        outcome => outcome.map_err(Failure::from),
    }
}

/// `--args`: the text itself, `@FILE`, or `-` for stdin.
fn read_arguments(option: &str) -> Result<RawJson, Failure> {
    let usage = |message: String| Failure::new(Code::Usage, message);
    let bytes = if option == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| usage(format!("--args: stdin: {error}")))?;
        bytes
    } else if let Some(file) = option.strip_prefix('@') {
        std::fs::read(file).map_err(|error| {
            usage(format!("--args: {file:?} cannot be read: {error}"))
                .hint("give @FILE, a JSON object, or - for stdin")
        })?
    } else {
        option.as_bytes().to_vec()
    };
    RawJson::parse(bytes).map_err(|error| {
        usage(format!("--args is not valid JSON: {error}"))
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
        let suggestion = suggestion::did_you_mean(key, signature::names(&schema));
        output::notice(&format!(
            "server \"{server}\", tool {name}: its schema has no argument \"{}\"; {suggestion}it is passed on as given",
            escaped(key)
        ));
    }
    coerce::arguments(base, pairs, &schema).map_err(|fault| {
        Failure::new(
            Code::Usage,
            format!("server \"{server}\", tool {name}: {fault}"),
        )
        .server(server)
        .hint(format!(
            "{} shows its arguments",
            hints::command(&["tools", &format!("{server}/{name}")])
        ))
    })
}
