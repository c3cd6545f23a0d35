//! Which era the handlers of a dual-era server need, derived from their refusals. Pure.
//!
//! A handler may ask with a request of its own, which a modern connection cannot carry, or ask in
//! its result, which a legacy connection cannot carry. `server/discover` does not say which, so the
//! first refusal is the evidence. Its text can be forged: a launch is switched to legacy at most
//! once, and back at most once.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::session::{Era, RequestFault};
use crate::wire::RawJson;

/// An unconfirmed switch expires after this time.
const UNCONFIRMED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// A server that was switched back is probed again after this time, since its version may have
/// changed.
const SETTLED_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A refusal is short; a longer result is not searched.
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
    /// It sends requests. `only_sampling`: only sampling requests, which not every caller supports.
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
    pub(crate) fn in_response(answer: Result<&RawJson, &RequestFault>) -> Option<Self> {
        match answer {
            Err(RequestFault::ErrorResponse { code, message, .. }) => {
                in_text(message).or_else(|| {
                    let is_said =
                        |(known, text): &(i64, &str)| known == code && message.contains(text);
                    NEEDS_MODERN
                        .iter()
                        .any(is_said)
                        .then_some(Self::NeedsModern)
                })
            }
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

/// Searches results with `isError` only.
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

/// The remembered era of a launch that was switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "era", rename_all = "lowercase")]
pub(super) enum EraVerdict {
    /// Switched to legacy. `confirmed`: the server has asked a question there.
    Legacy { since: u64, confirmed: bool },
    /// Switched back; not switched again.
    Modern {
        since: u64,
        #[serde(rename = "both")]
        why: SwitchBackReason,
    },
}

/// Why a launch was switched back to modern. Stored as whether both eras are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub(super) enum SwitchBackReason {
    /// Some handlers need one era, some the other.
    Mixed,
    /// The server's questions arrive in neither era.
    NeitherWorks,
}

impl From<bool> for SwitchBackReason {
    fn from(needs_both: bool) -> Self {
        match needs_both {
            true => Self::Mixed,
            false => Self::NeitherWorks,
        }
    }
}

impl From<SwitchBackReason> for bool {
    fn from(why: SwitchBackReason) -> Self {
        why == SwitchBackReason::Mixed
    }
}

impl EraVerdict {
    pub(super) fn era(self) -> Era {
        match self {
            Self::Legacy { .. } => Era::Legacy,
            Self::Modern { .. } => Era::Modern,
        }
    }

    /// Whether questions of at least some handlers arrive, over a connection of either era.
    pub(super) fn is_carried(self) -> bool {
        !matches!(
            self,
            Self::Modern {
                why: SwitchBackReason::NeitherWorks,
                ..
            }
        )
    }

    /// Whether some handlers need one era and some the other.
    pub(super) fn is_both(self) -> bool {
        matches!(
            self,
            Self::Modern {
                why: SwitchBackReason::Mixed,
                ..
            }
        )
    }

    /// The verdict after no connection could be opened. A confirmed switch stays: the legacy era
    /// has worked, so the failure has another cause.
    pub(super) fn failed(self, now: SystemTime) -> Self {
        match self {
            Self::Legacy {
                confirmed: false, ..
            } => self.refuted(now),
            settled => settled,
        }
    }

    /// The verdict after the server was found not to support the legacy era any more.
    pub(super) fn refuted(self, now: SystemTime) -> Self {
        match self {
            Self::Legacy { .. } => Self::Modern {
                since: seconds(now),
                why: SwitchBackReason::NeitherWorks,
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

/// The decision on evidence from a connection of this era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EraDecision {
    Switch(EraVerdict),
    /// The era stays.
    Stay(SwitchBackReason),
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
    use SwitchBackReason::{Mixed, NeitherWorks};
    let since = seconds(now);
    match (era, evidence, verdict) {
        (Era::Modern, NeedsLegacy { .. }, None) => EraDecision::Switch(EraVerdict::Legacy {
            since,
            confirmed: false,
        }),
        (Era::Modern, NeedsLegacy { .. }, Some(EraVerdict::Modern { why, .. })) => {
            EraDecision::Stay(why)
        }
        // A stateless server cannot ask on a legacy connection either.
        (Era::Legacy, NeedsLegacy { .. }, Some(EraVerdict::Legacy { .. })) => {
            EraDecision::Switch(EraVerdict::Modern {
                since,
                why: NeitherWorks,
            })
        }
        (
            Era::Legacy,
            NeedsModern,
            Some(EraVerdict::Legacy {
                confirmed: true, ..
            }),
        ) => EraDecision::Stay(Mixed),
        (Era::Legacy, NeedsModern, Some(EraVerdict::Legacy { .. }) | None) => {
            EraDecision::Switch(EraVerdict::Modern { since, why: Mixed })
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
mod tests;
