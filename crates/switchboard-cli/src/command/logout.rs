//! `logout`: revokes the tokens of a server and deletes them, or deletes a vendor's key.

use clap::Args;
use serde_json::json;
use switchboard::auth::{self, AuthContext, LoggedOut};

use crate::arguments::{Options, server_names};
use crate::command::login::model_key;
use crate::failure::Failure;
use crate::setup::{Setup, block_on, open_lasting_vault};
use crate::{interrupt, output};

/// Arguments of `logout`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard logout github\n  switchboard logout --model anthropic"
)]
pub(crate) struct LogoutArgs {
    /// Name of the server in the configuration
    #[arg(add = server_names(), required_unless_present = "model")]
    server: Option<String>,
    /// Delete the stored key of a model's vendor
    #[arg(long, value_name = "VENDOR", conflicts_with = "server")]
    model: Option<String>,
}

pub(crate) fn run(options: &Options, args: &LogoutArgs) -> Result<u8, Failure> {
    let setup = Setup::read(options)?;
    if let Some(vendor) = &args.model {
        return model_key::delete(&setup, vendor);
    }
    let entry = setup.trusted_entry(args.server.as_deref().unwrap_or_default())?;
    let auth = AuthContext::with_vault(open_lasting_vault(&setup.paths)?);
    let done = block_on(interrupt::run_until_signal(async {
        Ok(auth::logout(entry, &setup.environment, &auth).await?)
    }))?;
    let LoggedOut {
        server,
        was_logged_in,
        revoked,
        ..
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
