//! `logout`: gives a server's token back, and forgets it.

use clap::Args;
use serde_json::json;
use switchboard::auth::{self, LoggedOut};

use crate::arguments::{Options, server_names};
use crate::failure::Failure;
use crate::setup::{Setup, block_on};
use crate::{interrupt, output};

/// Where.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  switchboard logout github")]
pub(crate) struct LogoutArgs {
    /// The server, by its name in the configuration
    #[arg(add = server_names())]
    server: String,
}

pub(crate) fn run(options: &Options, args: &LogoutArgs) -> Result<u8, Failure> {
    let setup = Setup::read(options)?;
    let entry = setup.trusted_entry(&args.server)?;
    let auth = setup.auth();
    let done = block_on(interrupt::run_until_signal(async {
        Ok(auth::logout(entry, &setup.environment, &auth).await?)
    }))?;
    let LoggedOut {
        server,
        was_logged_in,
        revoked,
    } = &done;
    if options.json {
        let document =
            json!({ "server": server.as_str(), "wasLoggedIn": was_logged_in, "revoked": revoked });
        output::print_json(&document.to_string())?;
        return Ok(0);
    }
    let line = match (was_logged_in, revoked) {
        (false, _) => format!(
            "nobody was logged in to server \"{server}\"; all that was kept of it is forgotten\n"
        ),
        (true, true) => {
            format!("logged out of server \"{server}\": the token is given back and forgotten\n")
        }
        (true, false) => format!(
            "logged out of server \"{server}\": the token is forgotten here; its authorization server was not told, and may honour it until it ends\n"
        ),
    };
    output::print(&line)?;
    Ok(0)
}
