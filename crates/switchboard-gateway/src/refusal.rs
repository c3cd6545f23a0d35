//! Requests that an edge refuses before anything runs, for the audit log.

use std::net::SocketAddr;

use crate::principal::Principal;

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
    /// Its body is too large.
    OversizedBody,
    /// Its headers are too many or too large.
    OversizedHeaders,
    /// It was sent too slowly.
    TooSlow,
    /// The user at the other end of the socket is not ours.
    OtherUser,
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
            Self::OversizedBody => "oversized_body",
            Self::OversizedHeaders => "oversized_headers",
            Self::TooSlow => "too_slow",
            Self::OtherUser => "other_user",
        }
    }
}
