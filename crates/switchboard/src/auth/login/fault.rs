//! Why a login failed.

use super::DEADLINE;
use crate::auth::VaultFault;
use crate::config::UrlFault;
use crate::hint::Hint;
use crate::name::ServerName;

/// Why a login failed: a sentence with the server's name, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("server \"{server}\": {reason}")]
pub struct LoginFault {
    /// The server.
    pub server: ServerName,
    /// What a person could do about it.
    pub hint: Option<Hint>,
    reason: LoginFaultReason,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::auth) enum LoginFaultReason {
    #[error("no such server is configured")]
    Unknown,
    #[error("it is a program on this machine, and only servers with a `url` have logins")]
    NoUrl,
    #[error(
        "it uses the configured `bearer_token` or Authorization header, so there is nothing to log in to"
    )]
    HasToken,
    #[error("{0}")]
    Entry(UrlFault),
    #[error("{0}")]
    Issuer(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("login failed: {0}")]
    Denied(String),
    #[error("no login within {} minutes", DEADLINE.as_secs() / 60)]
    TooLate,
    #[error("{0}")]
    Vault(VaultFault),
}

impl LoginFault {
    pub(in crate::auth) fn new(server: &ServerName, reason: LoginFaultReason) -> Self {
        Self {
            server: server.clone(),
            hint: None,
            reason,
        }
    }

    pub(in crate::auth) fn with_hint(self, hint: Hint) -> Self {
        let hint = Some(hint);
        Self { hint, ..self }
    }

    /// No such server is configured.
    pub(crate) fn unknown(server: &ServerName) -> Self {
        Self::new(server, LoginFaultReason::Unknown)
    }

    /// The reason, without the server's name.
    pub(in crate::auth) fn fact(&self) -> String {
        self.reason.to_string()
    }

    /// Whether a person or the authorization server denied the login, or nobody logged in.
    pub fn is_denied(&self) -> bool {
        matches!(
            self.reason,
            LoginFaultReason::Denied(_) | LoginFaultReason::TooLate
        )
    }

    /// Whether the configuration must change.
    pub fn is_of_entry(&self) -> bool {
        matches!(
            self.reason,
            LoginFaultReason::Unknown
                | LoginFaultReason::NoUrl
                | LoginFaultReason::HasToken
                | LoginFaultReason::Entry(_)
        )
    }
}
