//! `demo`: starts two embedded servers, one per protocol era, and shows status, approval, a call and
//! its result.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard::call::{Call, CallError};
use switchboard::caller::CallerCapabilities;
use switchboard::catalog::Tool;
use switchboard::config::{Config, Endpoint, Protocol, Scope, ServerConfig, Source, StdioEndpoint};
use switchboard::name::ServerName;
use switchboard::shell;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::paths;
use crate::setup::{block_on, launcher};
use crate::terminal::{self, tty::Tty};
use crate::view::server::escaped;
use crate::view::status::{Detail, render};
use crate::{interrupt, notices, output, progress, view};

mod gateway;

/// The first argument that makes this program the demo server.
const SERVER_WORD: &str = "__demo-server";

/// Options of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Show the gateway: two clients, a call that its client is asked about, one that an operator
    /// allows, and the audit log
    #[arg(long)]
    gateway: bool,
}

pub(crate) fn run(options: &Options, args: &DemoArgs) -> Result<u8, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("switchboard-demo-")
        .tempdir()
        .map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("cannot create a temporary folder: {error}"),
            )
        })?;
    block_on(async {
        let host = HostBuilder::new(config(folder.path().to_owned())?)
            .environment(paths::environment())
            .launcher(launcher())
            .capabilities(CallerCapabilities {
                elicit_form: true,
                elicit_url: true,
                ..CallerCapabilities::default()
            })
            .start()
            .await?;
        let demo = async {
            match args.gateway {
                true => gateway::run(&host, folder.path(), options).await,
                false => run_demo(&host, options).await,
            }
        };
        interrupt::run_with_host(&host, notices::with_notices(&host, demo)).await
    })
}

/// The demo server's options, if this process was started as one.
pub(crate) fn server_options() -> Option<Vec<String>> {
    let mut words = std::env::args_os().skip(1);
    let is_server = words.next()? == SERVER_WORD;
    is_server.then(|| words.filter_map(|word| word.into_string().ok()).collect())
}

async fn run_demo(host: &Host, options: &Options) -> Result<u8, Failure> {
    if options.json {
        return run_as_json(host, options).await;
    }
    output::print(
        "Starting two demo servers: this program itself, once for each protocol era.\n\n",
    )?;
    progress::wait_until_settled(host, progress::WaitLimit::start(options)).await;
    for handle in host.servers().iter() {
        let snapshot = handle.snapshot();
        let took: Duration = snapshot.steps.iter().map(|(_, took)| *took).sum();
        let state = snapshot.state.as_str();
        output::print(&format!(
            "  {} is {state} after {}\n",
            handle.config.name,
            view::table::duration(took)
        ))?;
    }
    output::print("\nTo run the commands below yourself, add both servers first:\n")?;
    for handle in host.servers().iter() {
        output::print(&add_command(&handle.config))?;
    }
    output::print("\n$ switchboard status\n")?;
    let detail = Detail {
        descriptions: false,
        verbose: options.verbosity() > 0,
    };
    output::print(&render(
        &view::server::status(host),
        detail,
        output::stdout_columns(),
    ))?;
    for handle in host.servers().iter() {
        run_call(host, &handle.config.name).await?;
    }
    output::print(
        "\nThe demo is over and the servers stop. Next: `switchboard add NAME -- COMMAND`, then `switchboard status`.\n",
    )?;
    Ok(0)
}

/// The same as one JSON document: `{"status", "calls": [{"tool", "arguments", "result"}]}`; a
/// denied call has `denied` instead.
async fn run_as_json(host: &Host, options: &Options) -> Result<u8, Failure> {
    progress::wait_until_settled(host, progress::WaitLimit::start(options)).await;
    let mut calls = Vec::new();
    for handle in host.servers().iter() {
        let (name, arguments, call) = example_call(host, &handle.config.name)?;
        let outcome = match host.call_with(call).await {
            Ok(result) => format!("\"result\":{}", result.raw.as_str()),
            Err(error @ CallError::Denied { .. }) => {
                format!("\"denied\":{}", serde_json::Value::from(error.to_string()))
            }
            Err(error) => return Err(Failure::of_call(error)),
        };
        let name = serde_json::Value::from(name);
        calls.push(format!(
            "{{\"tool\":{name},\"arguments\":{},{outcome}}}",
            arguments.as_str()
        ));
    }
    let status = view::server::status_json(host, options.verbosity() > 0);
    output::print_json(&format!(
        "{{\"status\":{status},\"calls\":[{}]}}",
        calls.join(",")
    ))?;
    Ok(0)
}

/// One call through the gate: asked on a terminal, approved without one.
async fn run_call(host: &Host, server: &ServerName) -> Result<(), Failure> {
    let (name, arguments, call) = example_call(host, server)?;
    output::print(&format!(
        "\n$ switchboard call {name} {}{}\n",
        typed_arguments(&arguments),
        if call.pre_approved { " --yes" } else { "" }
    ))?;
    if !call.pre_approved {
        output::print("The gate asks, because no rule covers this tool.\n")?;
    } else {
        output::print(
            "The gate would ask, because no rule covers this tool. Without a terminal the demo answers yes, as --yes does.\n",
        )?;
    }
    match host.call_with(call).await {
        Ok(result) => {
            output::print("The decision: allowed. The result:\n\n")?;
            let text = result
                .for_person()
                .map_err(|error| Failure::new(Code::Answered, error.to_string()))?;
            let text = text.for_terminal().to_string();
            output::print(
                &text
                    .lines()
                    .map(|line| format!("  {line}\n"))
                    .collect::<String>(),
            )
        }
        // Declining is part of the demo.
        Err(error @ CallError::Denied { .. }) => output::print(&format!("The decision: {error}\n")),
        Err(error) => Err(Failure::of_call(error)),
    }
}

/// `$ switchboard add NAME -- COMMAND`, which adds the same server.
fn add_command(config: &ServerConfig) -> String {
    let Endpoint::Stdio(stdio) = &config.endpoint else {
        return String::new();
    };
    let words: Vec<_> = std::iter::once(&stdio.command)
        .chain(&stdio.args)
        .map(|word| shell::word(word))
        .collect();
    format!(
        "  $ switchboard add {} -- {}\n",
        config.name.for_shell(),
        words.join(" ")
    )
}

/// Arguments as typed: `key=value`, or `key:=JSON`.
fn typed_arguments(arguments: &RawJson) -> String {
    let fields = arguments
        .to_value()
        .ok()
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default();
    let word = |(key, value): (&String, &serde_json::Value)| match value.as_str() {
        Some(text) => format!("{key}={text}"),
        None => format!("{key}:={value}"),
    };
    let words: Vec<_> = fields
        .iter()
        .map(word)
        .map(|word| shell::word(&escaped(&word)).into_owned())
        .collect();
    words.join(" ")
}

/// The example call: the tool's name as shown, its arguments, and the call.
fn example_call(host: &Host, server: &ServerName) -> Result<(String, RawJson, Call), Failure> {
    let Some((tool, arguments)) = example(host, server) else {
        let message = format!("server \"{server}\" offers nothing to call");
        return Err(Failure::new(Code::Unreachable, message)
            .server(server)
            .hint("try `switchboard -v demo`"));
    };
    let name = format!("{server}/{}", tool.id.tool.untrusted().for_terminal_line());
    let name = shell::argument(&name).into_owned();
    let mut call = Call::new(
        format!("{server}/{}", tool.id.tool.as_wire()),
        arguments.clone(),
    )
    .caller(terminal::caller());
    call.timeout = Some(Duration::from_secs(30));
    call.pre_approved = Tty::open().is_none();
    Ok((name, arguments, call))
}

/// A tool that can be called without knowing the server: `echo`, or one without required arguments.
fn example(host: &Host, server: &ServerName) -> Option<(Arc<Tool>, RawJson)> {
    let catalog = host.catalog();
    let own: Vec<_> = catalog
        .tools()
        .iter()
        .filter(|tool| tool.id.server == *server)
        .cloned()
        .collect();
    if let Some(echo) = own.iter().find(|tool| tool.id.tool.as_wire() == "echo") {
        let schema = echo.definition.input_schema.to_value().unwrap_or_default();
        let key = schema
            .pointer("/required/0")
            .and_then(|key| key.as_str())
            .unwrap_or("text")
            .to_owned();
        let words =
            serde_json::Map::from_iter([(key, "hello from the other side of the gate".into())]);
        return Some((echo.clone(), RawJson::from_value(&words)));
    }
    let needs_nothing = |tool: &&Arc<Tool>| {
        let schema = tool.definition.input_schema.to_value().unwrap_or_default();
        schema
            .get("required")
            .and_then(|required| required.as_array())
            .is_none_or(Vec::is_empty)
    };
    own.iter()
        .find(needs_nothing)
        .map(|tool| (tool.clone(), RawJson::from_value(&serde_json::Map::new())))
}

#[cfg(test)]
pub(crate) fn example_entry() -> Arc<ServerConfig> {
    config(PathBuf::from("/"))
        .unwrap_or_else(|failure| panic!("{failure:?}"))
        .servers[0]
        .clone()
}

fn config(folder: PathBuf) -> Result<Config, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(
            Code::Usage,
            format!("cannot find the path of this program: {error}"),
        )
    })?;
    let mut config = Config::default();
    for (name, era, protocol) in [
        ("demo-legacy", "legacy", Protocol::Legacy),
        ("demo-modern", "modern", Protocol::Modern),
    ] {
        let name =
            ServerName::new(name).map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
        let source = Source::new(Arc::new(folder.join("demo.toml")), 1, Scope::Given);
        // A `$` in the path of the program is not a reference.
        let command = program.display().to_string().replace('$', "$$");
        let endpoint = Endpoint::Stdio(StdioEndpoint::new(command, [SERVER_WORD, "--era", era]));
        let description = Some("The embedded demo server".to_owned());
        let entry = ServerConfig {
            protocol,
            description,
            ..ServerConfig::new(name.clone(), source, endpoint)
        };
        config.servers.insert(name, Arc::new(entry));
    }
    Ok(config)
}
