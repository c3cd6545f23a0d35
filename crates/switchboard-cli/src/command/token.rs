//! `token`: creates, lists and revokes the tokens of clients that connect to the gateway over HTTP.

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard::store::StoreError;
use switchboard_gateway::tokens::{ClientTokens, TokenError};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::output;
use crate::paths::Paths;

/// Arguments of `token`.
#[derive(Debug, Args)]
#[command(after_help = "\
A client sends its token as `Authorization: Bearer TOKEN`. Rules name it with `client = \"NAME\"`. Only a digest is stored: to replace a lost token, revoke it and create another. Revoking it also removes the client's calls that wait for approval.
The token of a client that runs `token headers` for its headers is stored in clear, in a file that only you can read (header-tokens.json in the state folder). After it is revoked, `token headers` fails until `token new`.

Examples:
  switchboard token new codex        prints the token, once
  switchboard token list
  switchboard token revoke codex     a running gateway refuses it within a second")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Create a token for a client and print it
    New {
        /// Name of the client, such as codex
        name: String,
    },
    /// Print the headers of a client's requests, as JSON, for clients that run a command for them;
    /// creates the token if there was none
    Headers {
        /// Name of the client
        name: String,
    },
    /// List the clients that have a token
    List,
    /// Revoke the token of a client
    Revoke {
        /// Name of the client
        name: String,
    },
}

pub(crate) fn run(options: &Options, args: &TokenArgs) -> Result<u8, Failure> {
    let tokens = ClientTokens::new(&Paths::find()?.state);
    match &args.action {
        TokenAction::New { name } => {
            let token = tokens.create(name).map_err(failure)?;
            let printed = if options.json {
                output::print_json(&json!({ "client": name, "token": token }).to_string())
            } else {
                output::print(&format!("{token}\n"))
            };
            let printed = match output::stdout_is_closed() {
                true => Err(Failure::new(
                    Code::Usage,
                    "no token was created: stdout is closed, so nobody would have seen it",
                )),
                false => printed,
            };
            // A token that nobody saw can only be guessed at: it would block the name.
            printed.inspect_err(|_| drop(tokens.revoke(name)))?;
        }
        TokenAction::Headers { name } => {
            let token = tokens.for_headers(name).map_err(headers_failure)?;
            let headers = json!({ "Authorization": format!("Bearer {token}") });
            output::print(&format!("{headers}\n"))?;
        }
        TokenAction::List => {
            let list = tokens.list().map_err(failure)?;
            if options.json {
                let clients: Vec<_> = list
                    .iter()
                    .map(|(name, token)| json!({ "client": name, "created": token.created_unix_s }))
                    .collect();
                output::print_json(&json!({ "tokens": clients }).to_string())?;
            } else if list.is_empty() {
                output::print(
                    "no client has a token; create one with `switchboard token new NAME`\n",
                )?;
            } else {
                let lines: String = list.keys().map(|name| format!("{name}\n")).collect();
                output::print(&lines)?;
            }
        }
        TokenAction::Revoke { name } => {
            tokens.revoke(name).map_err(failure)?;
            if options.json {
                output::print_json(&json!({ "client": name, "revoked": true }).to_string())?;
            } else {
                output::print(&format!("the token of client \"{name}\" was revoked\n"))?;
            }
        }
    }
    Ok(0)
}

/// Why no headers can be printed for a client.
pub(super) fn headers_failure(error: TokenError) -> Failure {
    match error {
        // The token itself is stored nowhere, so that another must take its place.
        TokenError::Exists(name) => Failure::new(
            Code::Usage,
            format!("client \"{name}\" has a token that was shown once and cannot be shown again"),
        )
        .hint(format!(
            "revoke it with `switchboard token revoke {name}`, then run this again"
        )),
        error => failure(error),
    }
}

fn failure(error: TokenError) -> Failure {
    let failure = Failure::new(Code::Usage, error.to_string());
    match error {
        TokenError::File { path, source } => StoreError::Io { path, source }.into(),
        TokenError::Exists(name) => failure.hint(format!(
            "to replace it: `switchboard token revoke {name}`, then `switchboard token new {name}`"
        )),
        TokenError::Revoked(name) => {
            failure.hint(format!("to create another: `switchboard token new {name}`"))
        }
        TokenError::Unknown(_) => failure.hint("`switchboard token list` shows who has one"),
        _ => failure,
    }
}
