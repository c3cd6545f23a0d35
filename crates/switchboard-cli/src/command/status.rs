//! `status`: shows the state of every configured server.

use clap::Args;
use switchboard::config::{self, ConfigFile, NewServer, Scope, ServerTarget};

use crate::arguments::Options;
use crate::failure::Failure;
use crate::progress::WaitLimit;
use crate::setup::{OutputScope, Setup};
use crate::view::server::escaped;
use crate::view::status::{Detail, render};
use crate::{hints, output, progress, view};

/// Arguments of `status`.
#[derive(Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  switchboard status --descriptions\n  switchboard -v status          pid, uptime, memory, restarts, timeouts\n  switchboard status --json | jq '.servers[] | select(.status != \"CONNECTED\")'"
)]
pub(crate) struct StatusArgs {
    /// Show the description of each tool
    #[arg(long)]
    descriptions: bool,
    /// Show a server that is in no file: a command line or a URL
    #[arg(long = "server", value_name = "COMMAND|URL")]
    ad_hoc: Option<String>,
    /// Start the server of --server without asking
    #[arg(long, requires = "ad_hoc")]
    yes: bool,
}

pub(crate) fn run(options: &Options, args: &StatusArgs) -> Result<u8, Failure> {
    let mut setup = Setup::read_for(options, OutputScope::ServerStates)?;
    if let Some(ad_hoc) = &args.ad_hoc {
        setup = setup.with_server(ad_hoc, args.yes)?;
    }
    if setup.config.servers.is_empty() && !options.json {
        output::print_on_stderr(&first_steps(&setup, options));
    }
    setup.run(None, async |host, _| {
        progress::wait_until_settled(host, WaitLimit::start(options)).await;
        if options.json {
            output::print_json(
                &view::server::status_json(host, options.verbosity() > 0).to_string(),
            )?;
        } else {
            let detail = Detail {
                descriptions: args.descriptions,
                verbose: options.verbosity() > 0,
            };
            output::print(&render(
                &view::server::status(host),
                detail,
                output::stdout_columns(),
            ))?;
        }
        Ok(0)
    })
}

/// Instructions for an empty configuration, with an example in the format of the file.
fn first_steps(setup: &Setup, options: &Options) -> String {
    let searched = if options.config.is_empty() {
        setup.paths.searched()
    } else {
        options.config.clone()
    };
    let files: String = searched
        .iter()
        .map(|file| format!("  {}\n", escaped(&file.display().to_string())))
        .collect();
    let own = setup.paths.own_file();
    let file = options.config.first().unwrap_or(&own);
    let kind = ConfigFile {
        dialect: options.dialect,
        ..ConfigFile::new(file, Scope::Given)
    };
    let addition = NewServer {
        name: "time".to_owned(),
        target: ServerTarget::Command("uvx".to_owned(), vec!["mcp-server-time".to_owned()]),
        transport: None,
        env: Vec::new(),
        headers: Vec::new(),
        cwd: None,
    };
    let mut text = format!("No server is configured in\n{files}\n");
    if let Some(sample) = config::sample(&kind, addition) {
        let sample: String = sample.lines().map(|line| format!("  {line}\n")).collect();
        text.push_str(&format!(
            "{} could look like this:\n\n{sample}\n{} adds it. Then {} shows its state and {} its tools.\n",
            escaped(&file.display().to_string()),
            add_command(options),
            hints::command(&["status"]),
            hints::command(&["tools"]),
        ));
    }
    text.push_str("`switchboard demo` needs no configuration.\n\n");
    text
}

/// The command that adds the example to the file.
fn add_command(options: &Options) -> String {
    let words = ["add", "time", "--", "uvx", "mcp-server-time"];
    match options.config.first() {
        Some(file) => hints::with_file(file, options.dialect, &words, &[]),
        None => hints::command_with(&words, &[]),
    }
}
