//! Request state that passes through the client and must return unchanged: sealed with a key of
//! this process, bound to one tool, its arguments and a time.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Answer;

/// Longer than a person takes to answer.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Seals states with a key of this process, and opens its own.
pub(crate) struct Seal {
    key: [u8; 32],
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seal")
    }
}

/// The call that a state belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binding {
    tool: String,
    arguments_digest: String,
}

impl Binding {
    pub(super) fn new(tool: &str, arguments: &Map<String, Value>) -> Self {
        // The hash is of the value, because a gateway may forward it with other formatting.
        let text = Value::from(arguments.clone()).to_string();
        Self {
            tool: tool.to_owned(),
            arguments_digest: blake3::hash(text.as_bytes()).to_hex().to_string(),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    tool: String,
    arguments_digest: String,
    expires_seconds: u64,
    answers: Vec<Answer>,
}

impl Seal {
    /// With a new random key.
    pub(crate) fn new() -> Self {
        let mut key = [0; 32];
        for (index, part) in key.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&RandomState::new().hash_one(index).to_le_bytes());
        }
        Self { key }
    }

    /// Seals the answers so far.
    pub(super) fn close(&self, answers: &[Answer], binding: &Binding) -> String {
        let expires_seconds = seconds_since_1970() + LIFETIME.as_secs();
        self.close_until(answers, binding, expires_seconds)
    }

    fn close_until(&self, answers: &[Answer], binding: &Binding, expires_seconds: u64) -> String {
        let Binding {
            tool,
            arguments_digest,
        } = binding.clone();
        let state = State {
            tool,
            arguments_digest,
            expires_seconds,
            answers: answers.to_vec(),
        };
        let payload =
            serde_json::to_vec(&state).expect("a state of texts and JSON values always has a text");
        let mark = blake3::keyed_hash(&self.key, &payload);
        format!(
            "{}.{}",
            BASE64URL_NOPAD.encode(&payload),
            BASE64URL_NOPAD.encode(mark.as_bytes())
        )
    }

    /// Opens what `close` made; anything else is refused with a reason.
    pub(super) fn open(&self, state: &str, binding: &Binding) -> Result<Vec<Answer>, &'static str> {
        const FORGED: &str = "requestState is not one that this server made";
        let (payload, mark) = state.split_once('.').ok_or(FORGED)?;
        let payload = BASE64URL_NOPAD
            .decode(payload.as_bytes())
            .map_err(|_| FORGED)?;
        let mark = BASE64URL_NOPAD
            .decode(mark.as_bytes())
            .map_err(|_| FORGED)?;
        let mark: [u8; 32] = mark.try_into().map_err(|_| FORGED)?;
        // Compares in constant time.
        if blake3::keyed_hash(&self.key, &payload) != mark {
            return Err(FORGED);
        }
        let state: State = serde_json::from_slice(&payload).map_err(|_| FORGED)?;
        if state.tool != binding.tool || state.arguments_digest != binding.arguments_digest {
            return Err("requestState belongs to another call");
        }
        if state.expires_seconds < seconds_since_1970() {
            return Err("requestState has expired");
        }
        Ok(state.answers)
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::questions::Action;

    fn binding(tool: &str, argument: &str) -> Binding {
        Binding::new(
            tool,
            &Map::from_iter([("subject".to_owned(), Value::from(argument))]),
        )
    }

    #[test]
    fn a_sealed_state_opens_only_unchanged() {
        let seal = Seal::new();
        let answers = vec![Answer {
            action: Action::Accept,
            content: None,
        }];
        let own = binding("confirm", "all");
        let state = seal.close(&answers, &own);
        let mut changed = state.clone().into_bytes();
        changed[4] ^= 1;
        let forged = Err("requestState is not one that this server made");

        assert_eq!(seal.open(&state, &own), Ok(answers.clone()));
        assert_eq!(
            seal.open(&String::from_utf8(changed).unwrap(), &own),
            forged
        );
        assert_eq!(seal.open(&state[..state.len() - 1], &own), forged);
        assert_eq!(seal.open("", &own), forged);
        assert_eq!(Seal::new().open(&state, &own), forged);
        assert_eq!(
            seal.open(&state, &binding("ask_form", "all")),
            Err("requestState belongs to another call")
        );
        assert_eq!(
            seal.open(&state, &binding("confirm", "some")),
            Err("requestState belongs to another call")
        );
        assert_eq!(
            seal.open(&seal.close_until(&answers, &own, 1), &own),
            Err("requestState has expired")
        );
    }
}
