//! Why a server is not connected, when it is tried again, and what a person can do.

use std::time::{Duration, SystemTime};

use switchboard::Hint;
use switchboard::config::{ServerConfig, StateNames};
use switchboard::server::{Snapshot, State};

use super::escaped;
use crate::hints;
use crate::view::table::duration;

/// Why a server is not connected, under the label of its dialect.
pub(super) fn why(
    config: &ServerConfig,
    snapshot: &Snapshot,
    words: StateNames,
) -> Option<(&'static str, String)> {
    let (label, why) = reason(config, snapshot)?;
    match words {
        StateNames::All => Some((label, why)),
        StateNames::Three => (label != "Step").then_some(("Error", why)),
        StateNames::OkError if label == "Step" => {
            Some(("Err", format!("not connected yet ({why})")))
        }
        StateNames::OkError => Some(("Err", why)),
    }
}

fn reason(config: &ServerConfig, snapshot: &Snapshot) -> Option<(&'static str, String)> {
    let one_line = |text: &str| escaped(text);
    match &snapshot.shown_state() {
        State::Ready { .. } => {
            let faults = &snapshot.offerings.faults;
            let faults_text: Vec<_> = faults
                .iter()
                .map(|(method, what)| format!("{method}: {}", one_line(what)))
                .collect();
            (!faults_text.is_empty()).then(|| ("Error", faults_text.join("; ")))
        }
        State::Connecting { step, .. } => Some(("Step", step.to_string())),
        State::Disabled => Some((
            "Reason",
            format!(
                "disabled; {} in its entry to use it",
                config.dialect.profile().how_to_enable()
            ),
        )),
        State::Blocked { rule } => Some(("Reason", one_line(rule))),
        State::Untrusted { reason } => {
            let trust = hints::command(&["trust", config.name.as_str()]);
            Some((
                "Reason",
                format!("{}; review it with {trust}", one_line(reason)),
            ))
        }
        State::NeedsLogin { reason, hint, .. } => {
            Some(("Reason", login_advice(config, reason, *hint)))
        }
        State::Backoff { error, .. } | State::Failed { error } => {
            Some(("Error", with_advice(one_line(error), Hint::Examine, config)))
        }
        _ => None,
    }
}

/// When a failed server is tried again.
pub(super) fn next_attempt(state: &State) -> Option<String> {
    let State::Backoff {
        attempt, retry_at, ..
    } = state
    else {
        return None;
    };
    let number = attempt + 1;
    Some(match retry_at.duration_since(SystemTime::now()) {
        Ok(wait) if wait >= Duration::from_secs(1) => {
            format!(
                "number {number}, in {}",
                duration(Duration::from_secs(wait.as_secs()))
            )
        }
        Ok(_) => format!("number {number}, in less than a second"),
        Err(_) => format!("number {number}, under way"),
    })
}

/// Why a server needs a login, and the next step. If the entry has a token of its own, a login
/// would not help.
pub(crate) fn login_advice(config: &ServerConfig, reason: &str, hint: Hint) -> String {
    let fact = match config.endpoint.has_own_token() {
        true => escaped(reason),
        false => format!("needs a login ({})", escaped(reason)),
    };
    with_advice(fact, hint, config)
}

/// A fact about a server and the next step, if there is one.
pub(crate) fn with_advice(fact: String, hint: Hint, config: &ServerConfig) -> String {
    match hints::describe(hint, &config.name, None) {
        Some(advice) => format!("{fact}; {advice}"),
        None => fact,
    }
}
