//! `login`: logs in to a server through its login page, and stores the tokens. With `--model`, it
//! stores a vendor's key.

use clap::Args;
use serde_json::json;
use switchboard::auth::{self, AuthContext, LoggedIn, LoginFault};

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::setup::{Setup, block_on, open_lasting_vault};
use crate::terminal::login::{OpenInBrowser, PasteRedirect};
use crate::{hints, interrupt, output};

/// The keys of model vendors.
pub(super) mod model_key;

/// Arguments of `login`.
#[derive(Debug, Args)]
#[command(after_help = "\
The login page is opened only after you confirm its address. Tokens and keys are stored in the system keyring, or in a file that only you can read.

Examples:
  switchboard login github
  switchboard login --model anthropic      asks for the vendor's key, or reads it from stdin
  switchboard login github --no-browser    without a browser here: open the address elsewhere,
                                           and paste the redirect address")]
pub(crate) struct LoginArgs {
    /// Name of the server in the configuration
    #[arg(add = server_names(), required_unless_present = "model")]
    server: Option<String>,
    /// Store the key of a model's vendor: anthropic, openai, openai-chat or gemini
    #[arg(long, value_name = "VENDOR", conflicts_with_all = ["server", "no_browser"])]
    model: Option<String>,
    /// Print the address instead of opening it, and read the redirect address from the terminal
    #[arg(long)]
    pub(crate) no_browser: bool,
}

pub(crate) fn run(options: &Options, args: &LoginArgs) -> Result<u8, Failure> {
    let setup = Setup::read(options)?;
    if let Some(vendor) = &args.model {
        return model_key::store(&setup, vendor);
    }
    let entry = setup.trusted_entry(args.server.as_deref().unwrap_or_default())?;
    let auth = AuthContext::with_vault(open_lasting_vault(&setup.paths)?);
    let outcome = block_on(interrupt::run_until_signal(async {
        let login = if args.no_browser {
            auth::login(entry, &setup.environment, &auth, &PasteRedirect).await
        } else {
            auth::login(entry, &setup.environment, &auth, &OpenInBrowser).await
        };
        Ok(login?)
    }))?;
    if options.json {
        output::print_json(&as_json(&outcome).to_string())?;
    } else {
        output::print(&sentence(&outcome))?;
    }
    Ok(0)
}

pub(super) fn sentence(outcome: &LoggedIn) -> String {
    let LoggedIn {
        server,
        issuer,
        scopes,
        lasts,
        ..
    } = outcome;
    let scopes = if scopes.is_empty() {
        String::new()
    } else {
        format!(", scopes: {}", scopes.join(" "))
    };
    let lasts = if *lasts {
        ""
    } else {
        "; it cannot be renewed: log in again when it expires"
    };
    format!("logged in to server \"{server}\" (by {issuer}{scopes}){lasts}\n")
}

fn as_json(outcome: &LoggedIn) -> serde_json::Value {
    json!({ "server": outcome.server.as_str(), "loggedIn": true, "issuer": outcome.issuer, "scopes": outcome.scopes, "renews": outcome.lasts })
}

impl From<LoginFault> for Failure {
    fn from(fault: LoginFault) -> Self {
        let code = match () {
            () if fault.is_of_entry() => Code::Usage,
            () if fault.is_denied() => Code::Login,
            () => Code::Unreachable,
        };
        let advice = fault
            .hint
            .and_then(|hint| hints::describe(hint, &fault.server, None));
        let failure = Self::new(code, fault.to_string()).server(&fault.server);
        match advice {
            Some(advice) => failure.hint(advice),
            None if code == Code::Login => {
                failure.hint(format!("try {} again", hints::login_again(&fault.server)))
            }
            None => failure,
        }
    }
}
