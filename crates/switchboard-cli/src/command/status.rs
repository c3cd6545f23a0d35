//! `status`: how every configured server stands.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::Options;
use crate::failure::Failure;
use crate::opening::{Answer, Setup};
use crate::view::server::escaped;
use crate::view::status::{Detail, render};
use crate::{output, progress, view};

/// What to show.
#[derive(Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  switchboard status --descriptions\n  switchboard -v status          pid, uptime, memory, restarts, timeouts\n  switchboard status --json | jq '.servers[] | select(.status != \"CONNECTED\")'"
)]
pub(crate) struct Wanted {
    /// Show what each tool does
    #[arg(long)]
    descriptions: bool,
}

pub(crate) fn run(options: &Options, wanted: &Wanted) -> Result<u8, Failure> {
    let setup = Setup::read_for(options, Answer::States)?;
    if setup.config.servers.is_empty() && !options.json {
        let looked = if options.config.is_empty() { setup.place.searched() } else { options.config.clone() };
        output::suspended_stderr(&first_steps(&looked));
    }
    setup.run(None, async |host, _| {
        progress::settle(host, options.settle()).await;
        if options.json {
            output::print_json(&view::server::status_json(host, options.verbosity() > 0).to_string())?;
        } else {
            let detail = Detail { descriptions: wanted.descriptions, verbose: options.verbosity() > 0 };
            output::print(&render(&view::server::status(host), detail, output::stdout_columns()))?;
        }
        Ok(0)
    })
}

/// What to do where nothing is configured: something to copy.
fn first_steps(looked: &[PathBuf]) -> String {
    let files: String = looked.iter().map(|file| format!("  {}\n", escaped(&file.display().to_string()))).collect();
    format!(
        "No server is configured in\n{files}\nOne of these files could begin like this:\n\n  [servers.time]\n  command = \"uvx\"\n  \
         args = [\"mcp-server-time\"]\n\n`switchboard add time -- uvx mcp-server-time` writes that. Then `switchboard` shows it, `switchboard tools` what it offers.\n\
         `switchboard demo` shows everything without a file.\n\n"
    )
}
