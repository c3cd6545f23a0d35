//! Which era the handlers of a dual-era server need, as far as their refusals tell. Pure.
//!
//! A handler may ask with a request of its own, which a modern connection cannot carry, or ask in
//! its result, which a legacy connection cannot carry. `server/discover` says nothing of it, so the
//! first refusal is the evidence. Its text can be forged: a launch is switched to legacy once, and
//! back once.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::session::{Era, RequestFault};
use crate::wire::RawJson;

/// An unconfirmed switch expires after this time.
const UNCONFIRMED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// A server that was switched back is probed again after this time: it may be another version.
const SETTLED_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A refusal is short; a larger result is not searched for one.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// The errors of Python's SDK, FastMCP, the TypeScript SDK and rmcp when a handler sends a request
/// on a modern connection.
const NEEDS_LEGACY: [&str; 5] = [
    "Cannot send 'elicitation/create'",
    "Cannot send 'roots/list'",
    "elicitation via server-initiated requests is unavailable on 2026-07-28",
    "Server-to-client requests are not available on protocol revision",
    "server-to-client requests are not allowed on protocol 2026-07-28",
];
const NEEDS_LEGACY_TO_SAMPLE: &str = "Cannot send 'sampling/createMessage'";

/// The errors of FastMCP, rmcp and Python's SDK when a handler asks in its result on a legacy
/// connection.
const NEEDS_MODERN: [(i64, &str); 3] = [
    (
        -32602,
        "the multi-round-trip result type (SEP-2322) only exists at MCP 2026-07-28",
    ),
    (
        -32600,
        "InputRequiredResult requires negotiated protocol version 2026-07-28",
    ),
    (-32603, "Handler returned an invalid result"),
];

/// A refusal that says which era a handler needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraEvidence {
    /// It sends requests. `only_sampling`: only for sampling, which not every caller offers.
    NeedsLegacy { only_sampling: bool },
    /// It asks in its results.
    NeedsModern,
}

impl EraEvidence {
    /// The era that the handler needs.
    pub(super) fn needed(self) -> Era {
        match self {
            Self::NeedsLegacy { .. } => Era::Legacy,
            Self::NeedsModern => Era::Modern,
        }
    }

    /// The evidence in a response, if there is any.
    pub(crate) fn in_answer(answer: &Result<RawJson, RequestFault>) -> Option<Self> {
        match answer {
            Err(RequestFault::Answered { code, message, .. }) => in_text(message).or_else(|| {
                let is_said = |(known, text): &(i64, &str)| known == code && message.contains(text);
                NEEDS_MODERN
                    .iter()
                    .any(is_said)
                    .then_some(Self::NeedsModern)
            }),
            Ok(result) => in_result(result),
            Err(_) => None,
        }
    }
}

fn in_text(text: &str) -> Option<EraEvidence> {
    let only_sampling = text.contains(NEEDS_LEGACY_TO_SAMPLE);
    let is_said = only_sampling || NEEDS_LEGACY.iter().any(|known| text.contains(known));
    is_said.then_some(EraEvidence::NeedsLegacy { only_sampling })
}

/// Only results with `isError` are searched.
fn in_result(result: &RawJson) -> Option<EraEvidence> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CallToolResult {
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        content: Vec<ContentBlock>,
    }
    #[derive(Deserialize)]
    struct ContentBlock {
        #[serde(default)]
        text: Option<String>,
    }
    // Built once: every result is searched.
    static IS_ERROR: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new(b"\"isError\""));
    let bytes = result.as_bytes();
    if bytes.len() > MAX_REFUSAL_BYTES || IS_ERROR.find(bytes).is_none() {
        return None;
    }
    let result: CallToolResult = result
        .decode()
        .ok()
        .filter(|result: &CallToolResult| result.is_error)?;
    result
        .content
        .iter()
        .filter_map(|block| block.text.as_deref())
        .find_map(in_text)
}

/// What is remembered of a launch whose era was switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "era", rename_all = "lowercase")]
pub(super) enum EraVerdict {
    /// Switched to legacy. `confirmed`: a question arrived there.
    Legacy { since: u64, confirmed: bool },
    /// Switched back, and not switched again. `both`: some handlers need one era, some the other;
    /// else no era carries its questions.
    Modern { since: u64, both: bool },
}

impl EraVerdict {
    pub(super) fn era(self) -> Era {
        match self {
            Self::Legacy { .. } => Era::Legacy,
            Self::Modern { .. } => Era::Modern,
        }
    }

    /// Whether the questions of some handlers arrive over a connection of either era.
    pub(super) fn is_carried(self) -> bool {
        !matches!(self, Self::Modern { both: false, .. })
    }

    /// Some handlers need one era, some the other.
    pub(super) fn is_both(self) -> bool {
        matches!(self, Self::Modern { both: true, .. })
    }

    /// The legacy connection failed.
    pub(super) fn failed(self, now: SystemTime) -> Self {
        match self {
            Self::Legacy { .. } => Self::Modern {
                since: seconds(now),
                both: false,
            },
            settled => settled,
        }
    }

    pub(super) fn confirmed(self) -> Self {
        match self {
            Self::Legacy { since, .. } => Self::Legacy {
                since,
                confirmed: true,
            },
            settled => settled,
        }
    }

    /// Whether it has expired.
    pub(super) fn is_expired(self, now: SystemTime) -> bool {
        let age = |since: u64| Duration::from_secs(seconds(now).saturating_sub(since));
        match self {
            Self::Legacy {
                confirmed: true, ..
            } => false,
            Self::Legacy { since, .. } => age(since) > UNCONFIRMED_FOR,
            Self::Modern { since, .. } => age(since) > SETTLED_FOR,
        }
    }
}

/// What follows from evidence on a connection of this era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EraDecision {
    Switch(EraVerdict),
    /// It stays as it is. `both` as in [`EraVerdict::Modern`].
    Stay {
        both: bool,
    },
    /// The evidence does not concern this connection.
    Ignore,
}

pub(super) fn decide(
    era: Era,
    verdict: Option<EraVerdict>,
    evidence: EraEvidence,
    now: SystemTime,
) -> EraDecision {
    use EraEvidence::{NeedsLegacy, NeedsModern};
    let since = seconds(now);
    match (era, evidence, verdict) {
        (Era::Modern, NeedsLegacy { .. }, None) => EraDecision::Switch(EraVerdict::Legacy {
            since,
            confirmed: false,
        }),
        (Era::Modern, NeedsLegacy { .. }, Some(EraVerdict::Modern { both, .. })) => {
            EraDecision::Stay { both }
        }
        // A stateless server cannot ask on a legacy connection either.
        (Era::Legacy, NeedsLegacy { .. }, Some(EraVerdict::Legacy { .. })) => {
            EraDecision::Switch(EraVerdict::Modern { since, both: false })
        }
        (
            Era::Legacy,
            NeedsModern,
            Some(EraVerdict::Legacy {
                confirmed: true, ..
            }),
        ) => EraDecision::Stay { both: true },
        (Era::Legacy, NeedsModern, Some(EraVerdict::Legacy { .. }) | None) => {
            EraDecision::Switch(EraVerdict::Modern { since, both: true })
        }
        _ => EraDecision::Ignore,
    }
}

pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LEGACY: EraEvidence = EraEvidence::NeedsLegacy {
        only_sampling: false,
    };
    const SAMPLING: EraEvidence = EraEvidence::NeedsLegacy {
        only_sampling: true,
    };

    fn error(code: i64, message: &str) -> Result<RawJson, RequestFault> {
        Err(RequestFault::Answered {
            code,
            message: message.to_owned(),
            data: None,
        })
    }

    fn result(text: &str) -> Result<RawJson, RequestFault> {
        Ok(RawJson::parse(text.to_owned()).unwrap())
    }

    /// The words of the servers themselves, as they were recorded.
    #[test]
    fn a_refusal_is_evidence_in_errors_and_in_results_that_failed_and_nowhere_else() {
        let no_way_back = "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.";
        let guard = "Tool 'newer' returned an InputRequiredResult to request client input, but the multi-round-trip result type \
                     (SEP-2322) only exists at MCP 2026-07-28; this connection negotiated '2025-11-25'.";
        let unavailable =
            "elicitation via server-initiated requests is unavailable on 2026-07-28 connections.";
        let said = |is_error: bool| {
            result(&format!(
                r#"{{"content":[{{"type":"text","text":"{unavailable}"}}],"isError":{is_error}}}"#
            ))
        };
        let cases = [
            (error(-32600, no_way_back), Some(LEGACY)),
            (
                error(
                    -32600,
                    "Cannot send 'sampling/createMessage': this transport context has no back-channel",
                ),
                Some(SAMPLING),
            ),
            (error(-32600, "Cannot send 'roots/list': …"), Some(LEGACY)),
            (
                error(
                    -32603,
                    "Server-to-client requests are not available on protocol revision 2026-07-28",
                ),
                Some(LEGACY),
            ),
            (
                error(
                    -32603,
                    "server-to-client requests are not allowed on protocol 2026-07-28 or later; return …",
                ),
                Some(LEGACY),
            ),
            (said(true), Some(LEGACY)),
            (said(false), None),
            (result(r#"{"content":[],"isError":true}"#), None),
            (
                result(
                    r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}],"isError":true}"#,
                ),
                None,
            ),
            (error(-32602, guard), Some(EraEvidence::NeedsModern)),
            (
                error(
                    -32600,
                    "InputRequiredResult requires negotiated protocol version 2026-07-28 or newer",
                ),
                Some(EraEvidence::NeedsModern),
            ),
            (
                error(-32603, "Handler returned an invalid result"),
                Some(EraEvidence::NeedsModern),
            ),
            (error(-32000, "Handler returned an invalid result"), None),
            (error(-32600, "Invalid request"), None),
            (Err(RequestFault::Closed(no_way_back.to_owned())), None),
        ];
        for (answer, expected) in cases {
            assert_eq!(EraEvidence::in_answer(&answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_launch_is_switched_once_and_back_once() {
        let now = UNIX_EPOCH + Duration::from_secs(9);
        let legacy = |confirmed| EraVerdict::Legacy {
            since: 9,
            confirmed,
        };
        let modern = |both| EraVerdict::Modern { since: 9, both };
        let table = [
            (
                Era::Modern,
                None,
                LEGACY,
                EraDecision::Switch(legacy(false)),
            ),
            (
                Era::Modern,
                Some(modern(true)),
                LEGACY,
                EraDecision::Stay { both: true },
            ),
            (
                Era::Modern,
                Some(modern(false)),
                LEGACY,
                EraDecision::Stay { both: false },
            ),
            (
                Era::Modern,
                None,
                EraEvidence::NeedsModern,
                EraDecision::Ignore,
            ),
            (Era::Legacy, None, LEGACY, EraDecision::Ignore),
            (
                Era::Legacy,
                None,
                EraEvidence::NeedsModern,
                EraDecision::Switch(modern(true)),
            ),
            (
                Era::Legacy,
                Some(legacy(false)),
                LEGACY,
                EraDecision::Switch(modern(false)),
            ),
            (
                Era::Legacy,
                Some(legacy(true)),
                LEGACY,
                EraDecision::Switch(modern(false)),
            ),
            (
                Era::Legacy,
                Some(legacy(false)),
                EraEvidence::NeedsModern,
                EraDecision::Switch(modern(true)),
            ),
            (
                Era::Legacy,
                Some(legacy(true)),
                EraEvidence::NeedsModern,
                EraDecision::Stay { both: true },
            ),
            (
                Era::Legacy,
                Some(modern(true)),
                EraEvidence::NeedsModern,
                EraDecision::Ignore,
            ),
        ];
        for (era, verdict, evidence, expected) in table {
            assert_eq!(
                decide(era, verdict, evidence, now),
                expected,
                "{era:?}, {verdict:?}, {evidence:?}"
            );
        }
    }

    #[test]
    fn only_a_confirmed_switch_is_remembered_for_good() {
        let day = |days: u64| UNIX_EPOCH + Duration::from_secs(days * 24 * 3600);
        let table = [
            (
                EraVerdict::Legacy {
                    since: 0,
                    confirmed: true,
                },
                3650,
                false,
            ),
            (
                EraVerdict::Legacy {
                    since: 0,
                    confirmed: false,
                },
                6,
                false,
            ),
            (
                EraVerdict::Legacy {
                    since: 0,
                    confirmed: false,
                },
                8,
                true,
            ),
            (
                EraVerdict::Modern {
                    since: 0,
                    both: true,
                },
                29,
                false,
            ),
            (
                EraVerdict::Modern {
                    since: 0,
                    both: false,
                },
                31,
                true,
            ),
        ];
        for (verdict, days, expired) in table {
            assert_eq!(
                verdict.is_expired(day(days)),
                expired,
                "{verdict:?} after {days} days"
            );
        }
    }
}
