//! Requests that an edge refuses before anything runs, for the audit log.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use switchboard::sync::lock;

use crate::principal::Principal;

/// So many refusals are written to the audit log at once.
const REFUSAL_BURST: u32 = 1000;

/// After them, one in this time.
const REFUSAL_INTERVAL: Duration = Duration::from_millis(100);

/// A request that was refused at an edge.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// Where it came from, over HTTP.
    pub peer: Option<SocketAddr>,
    /// Who sent it, if the client was authenticated before.
    pub principal: Option<Principal>,
    /// The path of the request, over HTTP; text of the client, at most 200 characters.
    pub path: String,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// It is for another host: a web page may use DNS rebinding.
    ForeignHost,
    /// A foreign web page sent it.
    ForeignOrigin,
    /// It has no token.
    MissingToken,
    /// Its token is unknown.
    WrongToken,
    /// Its session does not exist, has ended, was tampered with, or is another client's.
    UnknownSession,
    /// Its state was tampered with, has expired, was used before, or is another client's.
    InvalidState,
    /// It answers a question that was not asked, was asked of another client, or was tampered with.
    UnknownQuestion,
    /// Its body is too large.
    OversizedBody,
    /// Its headers are too many or too large.
    OversizedHeaders,
    /// It was sent too slowly.
    TooSlow,
    /// The user at the other end of the socket is not ours.
    OtherUser,
    /// It is a form of the operator's page, from a browser that is not logged in.
    MissingLogin,
    /// Its login code is unknown, was used, or has expired.
    WrongLogin,
    /// It is a form that the operator's page did not send.
    ForgedForm,
    /// It is not HTTP, or its body is not encoded as its head says.
    MalformedRequest,
    /// It sends or accepts other media types than the protocol has.
    WrongMediaType,
    /// It is for a server that does not exist.
    UnknownServer,
    /// Its client has too many connections.
    TooManyConnections,
}

impl RefusalReason {
    /// The word for it in the audit log and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ForeignHost => "foreign_host",
            Self::ForeignOrigin => "foreign_origin",
            Self::MissingToken => "missing_token",
            Self::WrongToken => "wrong_token",
            Self::UnknownSession => "unknown_session",
            Self::InvalidState => "invalid_state",
            Self::UnknownQuestion => "unknown_question",
            Self::OversizedBody => "oversized_body",
            Self::OversizedHeaders => "oversized_headers",
            Self::TooSlow => "too_slow",
            Self::OtherUser => "other_user",
            Self::MissingLogin => "missing_login",
            Self::WrongLogin => "wrong_login",
            Self::ForgedForm => "forged_form",
            Self::MalformedRequest => "malformed_request",
            Self::WrongMediaType => "wrong_media_type",
            Self::UnknownServer => "unknown_server",
            Self::TooManyConnections => "too_many_connections",
        }
    }
}

/// Limits how many refusals are written to the audit log: whoever is refused must not replace the
/// lines of others.
#[derive(Debug)]
pub(crate) struct RefusalLimit(Mutex<RefusalAllowance>);

#[derive(Debug)]
struct RefusalAllowance {
    /// How many may be written now.
    left: u32,
    /// When it grew the last time.
    refilled: Instant,
    /// How many were not written since the last one that was.
    skipped: u64,
}

impl RefusalLimit {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(RefusalAllowance {
            left: REFUSAL_BURST,
            refilled: now,
            skipped: 0,
        }))
    }

    /// `None` if a refusal is not to be written; else how many before it were not.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut allowance = lock(&self.0);
        let since = now.saturating_duration_since(allowance.refilled);
        let refill = (since.as_millis() / REFUSAL_INTERVAL.as_millis()) as u32;
        if refill > 0 {
            allowance.left = allowance.left.saturating_add(refill).min(REFUSAL_BURST);
            allowance.refilled = now;
        }
        if allowance.left == 0 {
            allowance.skipped += 1;
            return None;
        }
        allowance.left -= 1;
        Some(std::mem::take(&mut allowance.skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_written_at_a_limited_rate_and_counted() {
        let start = Instant::now();
        let limit = RefusalLimit::new(start);
        for _ in 0..REFUSAL_BURST {
            assert_eq!(limit.admit(start), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(limit.admit(start), None);
        }
        assert_eq!(limit.admit(start + REFUSAL_INTERVAL), Some(5));
        assert_eq!(limit.admit(start + REFUSAL_INTERVAL), None);
        let later = start + 2 * REFUSAL_BURST * REFUSAL_INTERVAL;
        assert_eq!(limit.admit(later), Some(1));
        let written = (0..2 * REFUSAL_BURST).filter(|_| limit.admit(later).is_some());
        assert_eq!(written.count(), REFUSAL_BURST as usize - 1);
    }
}
