//! `login`: brings a server's login page before the person, and keeps what it gives.

use clap::Args;
use serde_json::json;
use switchboard::auth::{self, LoggedIn, LoginFault};

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::opening::{Setup, in_runtime};
use crate::terminal::login::{Asking, Pasting};
use crate::{hints, interrupt, output};

/// Where, and how.
#[derive(Debug, Args)]
#[command(after_help = "\
The address is shown and nothing is opened before a yes. Tokens go to the system keyring, or to a file that only you can read.

Examples:
  switchboard login github
  switchboard login github --no-browser    on a machine without one: open the address elsewhere, paste what it leads to")]
pub(crate) struct Wanted {
    /// The server, by its name in the configuration
    #[arg(add = server_names())]
    server: String,
    /// Print the address instead of opening it, and read the address that it leads to
    #[arg(long)]
    no_browser: bool,
}

pub(crate) fn run(options: &Options, wanted: &Wanted) -> Result<u8, Failure> {
    let setup = Setup::read(options)?;
    let entry = setup.trusted_entry(&wanted.server)?;
    let means = setup.auth();
    let given = in_runtime(interrupt::watch(async {
        let login = if wanted.no_browser {
            auth::login(entry, &setup.environment, &means, &Pasting).await
        } else {
            auth::login(entry, &setup.environment, &means, &Asking).await
        };
        Ok(login?)
    }))?;
    if options.json {
        output::print_json(&as_json(&given).to_string())?;
    } else {
        output::print(&sentence(&given))?;
    }
    Ok(0)
}

fn sentence(given: &LoggedIn) -> String {
    let LoggedIn {
        server,
        issuer,
        scopes,
        lasts,
    } = given;
    let scopes = if scopes.is_empty() {
        String::new()
    } else {
        format!(", scopes: {}", scopes.join(" "))
    };
    let lasts = if *lasts {
        ""
    } else {
        "; it ends without renewal, and you will be asked again"
    };
    format!("logged in to server \"{server}\" (by {issuer}{scopes}){lasts}\n")
}

fn as_json(given: &LoggedIn) -> serde_json::Value {
    json!({ "server": given.server.as_str(), "loggedIn": true, "issuer": given.issuer, "scopes": given.scopes, "renews": given.lasts })
}

impl From<LoginFault> for Failure {
    fn from(fault: LoginFault) -> Self {
        let code = match () {
            () if fault.is_of_entry() => Code::Usage,
            () if fault.is_denied() => Code::Login,
            () => Code::Unreachable,
        };
        let (fact, advice) = match fault.to_string().split_once("; ") {
            Some((fact, advice)) => (fact.to_owned(), Some(advice.to_owned())),
            None => (fault.to_string(), None),
        };
        let failure = Self::new(code, fact).server(&fault.server);
        match advice {
            Some(advice) => failure.hint(advice),
            None if code == Code::Login => failure.hint(format!(
                "try {} again",
                hints::command(&["login", fault.server.as_str()])
            )),
            None => failure,
        }
    }
}
