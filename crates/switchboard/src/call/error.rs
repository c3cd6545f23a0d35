//! Why a call did not complete: which server, what happened, and what a person could do as a value.

use crate::advice::Advice;
use crate::catalog::Unresolved;
use crate::name::ServerName;
use crate::result::CallResult;
use crate::schema::ValidationFault;
use crate::server::NotReady;
use crate::session::RequestFault;

/// Why a call did not complete. A tool that answered `isError` is not among these.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// No such tool.
    #[error("no tool {name:?}{}", unresolved_hint(.why))]
    Unresolved {
        /// As asked for.
        name: String,
        /// Why.
        why: Unresolved,
    },
    /// No such server.
    #[error("no server \"{server}\" is configured")]
    UnknownServer {
        /// As asked for.
        server: ServerName,
    },
    /// One reload after another replaced the server while the request looked for it.
    #[error(
        "server \"{server}\": it is being replaced by reloads of the configuration; call again when they have ended"
    )]
    Replaced {
        /// Which server.
        server: ServerName,
    },
    /// The arguments do not fit.
    #[error("{}tool {tool}: {misfit}", of(.server))]
    Misfit {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
        /// How.
        misfit: ValidationFault,
    },
    /// A rule, a mode, or a person said no.
    #[error("{}tool {tool}: denied: {reason}", of(.server))]
    Denied {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
        /// Who or what said no.
        reason: String,
        /// What a person could do about it.
        advice: Option<Advice>,
    },
    /// The server cannot be used.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The definition changed between approval and call.
    #[error(
        "{}tool {tool}: its definition changed after it was approved; look at it again and repeat the call", of(.server)
    )]
    Moved {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
    },
    /// The request did not complete.
    #[error("{}{fault}{}", whose(.server), .detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default())]
    Request {
        /// Which server.
        server: ServerName,
        /// What happened.
        fault: RequestFault,
        /// Exit status and last stderr, where the server died.
        detail: Option<String>,
        /// What a person could do about it.
        advice: Option<Advice>,
    },
}

/// For a model, which may try again or do something else, a call that did not complete is one that
/// failed.
impl From<CallError> for CallResult {
    fn from(error: CallError) -> Self {
        Self::failure(error.to_string())
    }
}

/// Which server's tool it is; this program's own is nobody's.
fn of(server: &ServerName) -> String {
    if server.is_host() {
        String::new()
    } else {
        format!("server \"{server}\", ")
    }
}

fn whose(server: &ServerName) -> String {
    if server.is_host() {
        String::new()
    } else {
        format!("server \"{server}\": ")
    }
}

fn unresolved_hint(why: &Unresolved) -> String {
    match why {
        Unresolved::Unknown { nearest } if nearest.is_empty() => String::new(),
        Unresolved::Unknown { nearest } => format!("; did you mean {}?", nearest.join(", ")),
        Unresolved::Withheld(withheld) => {
            format!(
                "; server \"{}\" offers it, but it is withheld: {}",
                withheld.server, withheld.reason
            )
        }
    }
}
