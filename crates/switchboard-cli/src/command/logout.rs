//! `logout`: revokes the tokens of a server and deletes them.

use clap::Args;
use serde_json::json;
use switchboard::auth::{self, LoggedOut};

use crate::arguments::{Options, server_names};
use crate::failure::Failure;
use crate::setup::{Setup, block_on};
use crate::{interrupt, output};

/// Arguments of `logout`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  switchboard logout github")]
pub(crate) struct LogoutArgs {
    /// Name of the server in the configuration
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
            "there was no login to server \"{server}\"; anything stored for it was deleted\n"
        ),
        (true, true) => {
            format!("logged out of server \"{server}\": the token was revoked and deleted\n")
        }
        (true, false) => format!(
            "logged out of server \"{server}\": the token was deleted here but not revoked; the authorization server may accept it until it expires\n"
        ),
    };
    output::print(&line)?;
    Ok(0)
}
