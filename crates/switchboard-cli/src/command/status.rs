//! `status`: how every configured server stands.

use clap::Args;

use crate::arguments::Options;
use crate::failure::Failure;
use crate::opening::Setup;
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
    let setup = Setup::read(options)?;
    if setup.config.servers.is_empty() {
        output::notice("no server is configured: write [servers.NAME] into switchboard.toml, or see `switchboard demo`");
    }
    setup.run(None, async |host, _| {
        progress::settle(host, options.settle()).await;
        if options.json {
            output::print_json(&view::server::status_json(host, options.verbosity() > 0).to_string())?;
        } else {
            let detail = Detail { descriptions: wanted.descriptions, verbose: options.verbosity() > 0 };
            output::print(&render(&view::server::status(host), detail))?;
        }
        Ok(0)
    })
}
