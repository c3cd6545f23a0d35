//! A server's status in the vocabulary of its dialect's own program.

use super::{ServerHandle, State};
use crate::config::{Dialect, StateNames};
use crate::name::{ServerName, ToolName};

/// The status of one server at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialectStatus {
    /// The server's name.
    pub name: ServerName,
    /// The dialect of its entry.
    pub dialect: Dialect,
    /// The status, in that dialect's vocabulary.
    pub status: &'static str,
    /// Why the server cannot be used; safe to show, secrets redacted.
    pub error: Option<String>,
    /// The names of the server's tools; empty while it is not connected.
    pub tools: Vec<ToolName>,
}

impl ServerHandle {
    /// The current status in the dialect's vocabulary.
    pub fn dialect_status(&self) -> DialectStatus {
        let snapshot = self.snapshot();
        let live = matches!(snapshot.state, State::Ready { .. });
        let tools = snapshot
            .offerings
            .tools
            .iter()
            .filter(|_| live)
            .map(|tool| tool.name.clone())
            .collect();
        let (dialect, state) = (self.config.dialect, snapshot.shown_state());
        DialectStatus {
            name: self.config.name.clone(),
            dialect,
            status: state.word(dialect.profile().state_names),
            error: state.unusable_reason(),
            tools,
        }
    }
}

impl State {
    /// The state in this vocabulary.
    pub fn word(&self, words: StateNames) -> &'static str {
        match (words, self) {
            (StateNames::Three | StateNames::All, Self::Ready { .. }) => "CONNECTED",
            (StateNames::Three | StateNames::All, Self::Connecting { .. }) => "CONNECTING",
            (StateNames::Three, _) => "DISCONNECTED",
            (StateNames::All, Self::Backoff { .. } | Self::Failed { .. }) => "DISCONNECTED",
            (StateNames::All, Self::Disabled) => "DISABLED",
            (StateNames::All, Self::Blocked { .. }) => "BLOCKED",
            (StateNames::All, Self::Untrusted { .. }) => "UNTRUSTED",
            (StateNames::All, Self::Idle) => "IDLE",
            (StateNames::All, Self::NeedsLogin { .. }) => "NEEDS LOGIN",
            (StateNames::All, Self::Stopped) => "STOPPED",
            (StateNames::OkError, state) => {
                if state.unusable_reason().is_some() {
                    "error"
                } else {
                    "ok"
                }
            }
        }
    }

    /// Why a server in this state cannot be used; `None` if it can, or is started by its next call.
    pub fn unusable_reason(&self) -> Option<String> {
        match self {
            Self::Ready { .. } | Self::Idle => None,
            Self::Failed { error } | Self::Backoff { error, .. } => Some(error.clone()),
            Self::Connecting { step, .. } => Some(format!("not connected yet (step: {step})")),
            Self::NeedsLogin { reason, .. } => Some(format!("needs a login: {reason}")),
            Self::Blocked { rule } => Some(format!("blocked: {rule}")),
            Self::Untrusted { reason } => Some(format!("not trusted: {reason}")),
            Self::Disabled => Some("disabled in its entry".to_owned()),
            Self::Stopped => Some("stopped".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::server::ConnectStep;
    use crate::session::Era;

    fn states() -> [State; 10] {
        let error = || "no answer".to_owned();
        let now = SystemTime::UNIX_EPOCH;
        [
            State::Ready {
                era: Era::Legacy,
                version: "2025-11-25".into(),
            },
            State::Connecting {
                since: now,
                step: ConnectStep::Handshake,
            },
            State::Failed { error: error() },
            State::Backoff {
                error: error(),
                attempt: 1,
                retry_at: now,
            },
            State::Disabled,
            State::Blocked {
                rule: "deny_servers".into(),
            },
            State::Untrusted {
                reason: "new".into(),
            },
            State::Idle,
            State::NeedsLogin {
                url: String::new(),
                reason: "there is no login".into(),
                hint: crate::hint::Hint::LogIn,
            },
            State::Stopped,
        ]
    }

    fn check(words: StateNames, expected: [&str; 10]) {
        assert_eq!(
            states().map(|state| state.word(words)),
            expected,
            "{words:?}"
        );
    }

    /// S2-47: exactly three words, and C16: each state has one in every dialect.
    #[test]
    fn s2_47_gemini_has_exactly_three_words_for_every_state() {
        let not = "DISCONNECTED";
        check(
            StateNames::Three,
            [
                "CONNECTED",
                "CONNECTING",
                not,
                not,
                not,
                not,
                not,
                not,
                not,
                not,
            ],
        );
        assert_eq!(Dialect::Gemini.profile().state_names, StateNames::Three);
    }

    /// C16: `error` where there is an `Err`, `ok` otherwise.
    #[test]
    fn c16_core_agent_statuses_are_error_or_ok() {
        let no = "error";
        check(
            StateNames::OkError,
            ["ok", no, no, no, no, no, no, "ok", no, no],
        );
        assert_eq!(
            Dialect::CoreAgent.profile().state_names,
            StateNames::OkError
        );
        for state in states() {
            assert_eq!(
                state.word(StateNames::OkError) == "error",
                state.unusable_reason().is_some(),
                "{state}"
            );
        }
    }

    #[test]
    fn c16_the_native_dialect_has_a_word_for_every_state() {
        check(
            StateNames::All,
            [
                "CONNECTED",
                "CONNECTING",
                "DISCONNECTED",
                "DISCONNECTED",
                "DISABLED",
                "BLOCKED",
                "UNTRUSTED",
                "IDLE",
                "NEEDS LOGIN",
                "STOPPED",
            ],
        );
    }
}
