//! Finds the era and performs the handshake, within one deadline.
//!
//! Unknown servers are probed with `server/discover`. A result or a modern error means modern; any
//! other error means legacy; after [`PROBE_ALONE`] without a response `initialize` is sent as well,
//! and the first success decides.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::fault::{ResponseResult, read_error};
use super::legacy::initialize;
use super::modern::{discover, discover_once, read_discovery, start_discover};
use super::peer::{Peer, PendingResponse};
use super::{Era, Hello, OpenFault, RequestFault, Revision, retry};
use crate::config::Protocol;
use crate::secret::Redactor;
use crate::transport::TransportFault;

/// How long to wait for a response to the probe before `initialize` is sent as well. Slow starters
/// (`npx`, `uvx`) read both in time.
const PROBE_ALONE: Duration = Duration::from_secs(5);

/// Errors that only a modern server sends: header mismatch, missing capability, unsupported
/// version.
const MODERN_ERRORS: std::ops::RangeInclusive<i64> = -32022..=-32020;
const UNSUPPORTED_VERSION: i64 = -32022;
const UNKNOWN_METHOD: i64 = -32601;

/// Performs the handshake, in the era that the server speaks.
pub(super) async fn handshake(peer: &Peer) -> Result<Hello, OpenFault> {
    let wait = peer.receiver.options.connect_timeout;
    let deadline = Instant::now() + wait;
    let attempts = async {
        let first = handshake_once(peer).await;
        let pause = match &first {
            Err(OpenFault::Transport(fault)) => retry::pause_if_busy(fault, deadline),
            _ => None,
        };
        match pause {
            Some(pause) => {
                sleep(pause).await;
                handshake_once(peer).await
            }
            None => first,
        }
    };
    match timeout_at(deadline, attempts).await {
        Ok(outcome) => outcome,
        Err(_) => Err(OpenFault::Timeout(wait)),
    }
}

async fn handshake_once(peer: &Peer) -> Result<Hello, OpenFault> {
    let options = &peer.receiver.options;
    match (options.protocol, options.known_era) {
        (Protocol::Legacy, _) => initialize(peer).await.map_err(open_fault),
        (Protocol::Modern, _) => discover(peer).await.map_err(open_fault),
        (Protocol::Auto, Some(Era::Legacy)) => legacy_first(peer).await,
        (Protocol::Auto, _) => probe(peer).await,
    }
}

/// The server was legacy last time. If it refuses now, it may have become modern.
async fn legacy_first(peer: &Peer) -> Result<Hello, OpenFault> {
    match initialize(peer).await {
        Ok(hello) => Ok(hello),
        Err(fault @ RequestFault::ErrorResponse { .. }) => {
            discover(peer).await.map_err(|_| open_fault(fault))
        }
        Err(fault) => Err(open_fault(fault)),
    }
}

/// Nothing is known: sends the modern probe and classifies the response.
async fn probe(peer: &Peer) -> Result<Hello, OpenFault> {
    let newest = Revision::newest(Era::Modern);
    let mut discovery = start_discover(peer, newest).map_err(open_fault)?;
    let response = tokio::select! {
        response = &mut discovery => response,
        () = sleep(PROBE_ALONE) => return race(peer, discovery).await,
    };
    match classify(response, &peer.receiver.options.redactor) {
        ProbeOutcome::Modern(hello) => Ok(*hello),
        ProbeOutcome::ModernRefusal(fault) => {
            match supported_revisions(&fault, Era::Modern).max() {
                Some(revision) => discover_once(peer, revision).await.map_err(open_fault),
                None => Err(open_fault(fault)),
            }
        }
        ProbeOutcome::Unreachable(fault) => Err(open_fault(fault)),
        ProbeOutcome::Legacy => initialize(peer).await.map_err(open_fault_after_probe),
        // Some servers exit when their first message is unknown to them.
        ProbeOutcome::Closed => Err(OpenFault::RefusedAfterProbe),
    }
}

/// The probe got no response: sends `initialize` as well; the first success decides.
async fn race(peer: &Peer, mut discovery: PendingResponse<'_>) -> Result<Hello, OpenFault> {
    let initializing = initialize(peer);
    tokio::pin!(initializing);
    let mut is_probe_open = true;
    let mut refusal: Option<RequestFault> = None;
    loop {
        tokio::select! {
            response = &mut discovery, if is_probe_open => {
                match classify(response, &peer.receiver.options.redactor) {
                    ProbeOutcome::Modern(hello) => return Ok(*hello),
                    ProbeOutcome::Unreachable(fault) => return Err(open_fault(fault)),
                    ProbeOutcome::Closed => return Err(OpenFault::RefusedAfterProbe),
                    ProbeOutcome::ModernRefusal(_) | ProbeOutcome::Legacy => {
                        is_probe_open = false;
                        if let Some(fault) = refusal.take() {
                            return Err(open_fault_after_probe(fault));
                        }
                    }
                }
            }
            outcome = &mut initializing, if refusal.is_none() => match outcome {
                Ok(hello) => return Ok(hello),
                Err(fault) if !is_probe_open => return Err(open_fault_after_probe(fault)),
                Err(fault) => refusal = Some(fault),
            },
        }
    }
}

/// What the response to the probe means.
enum ProbeOutcome {
    Modern(Box<Hello>),
    /// A modern server that refuses our revision.
    ModernRefusal(RequestFault),
    Legacy,
    /// The transport does not reach the server, whatever its era.
    Unreachable(RequestFault),
    Closed,
}

fn classify(response: ResponseResult, redactor: &Redactor) -> ProbeOutcome {
    match response
        .map_err(|fault| as_error(*fault))
        .and_then(|result| read_discovery(&result, redactor))
    {
        Ok(hello) => ProbeOutcome::Modern(Box::new(hello)),
        Err(fault) if supported_revisions(&fault, Era::Legacy).next().is_some() => {
            ProbeOutcome::Legacy
        }
        Err(fault @ RequestFault::ErrorResponse { code, .. }) if MODERN_ERRORS.contains(&code) => {
            ProbeOutcome::ModernRefusal(fault)
        }
        Err(RequestFault::Closed(_)) => ProbeOutcome::Closed,
        Err(RequestFault::Transport(fault)) if !may_be_legacy(&fault) => {
            ProbeOutcome::Unreachable(RequestFault::Transport(fault))
        }
        Err(_) => ProbeOutcome::Legacy,
    }
}

/// A modern server sends its errors with an HTTP status as well: the error object decides, whatever
/// the status.
pub(super) fn as_error(fault: RequestFault) -> RequestFault {
    let RequestFault::Transport(TransportFault::Status {
        status,
        error: Some(error),
        ..
    }) = &fault
    else {
        return fault;
    };
    match read_error(error) {
        answered @ RequestFault::ErrorResponse { code, .. } if MODERN_ERRORS.contains(&code) => {
            answered
        }
        // A modern server's response to `initialize`. A legacy server would send neither 404 nor
        // this body.
        answered @ RequestFault::ErrorResponse {
            code: UNKNOWN_METHOD,
            ..
        } if *status == 404 => answered,
        _ => fault,
    }
}

/// Whether a legacy server may have refused the probe with this fault: a status that concerns the
/// message.
fn may_be_legacy(fault: &TransportFault) -> bool {
    match fault {
        // 408 and 429 concern timing; the others reject the message.
        TransportFault::Status { status, .. } => {
            matches!(status, 200..=501) && !matches!(status, 408 | 429)
        }
        TransportFault::Lost(_) => true,
        TransportFault::NotSent(_) | TransportFault::NeedsLogin(_) => false,
    }
}

/// The revisions of an era that both sides support, if the server refused ours and named its own.
pub(super) fn supported_revisions(
    fault: &RequestFault,
    era: Era,
) -> impl Iterator<Item = Revision> + use<> {
    #[derive(Deserialize)]
    struct UnsupportedVersionData {
        supported: Vec<String>,
    }
    let supported = match fault {
        RequestFault::ErrorResponse {
            code: UNSUPPORTED_VERSION,
            data: Some(data),
            ..
        } => data
            .decode()
            .map(|data: UnsupportedVersionData| data.supported)
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    supported
        .into_iter()
        .filter_map(move |version| Revision::parse_in(era, &version))
}

fn open_fault(fault: RequestFault) -> OpenFault {
    match as_error(fault) {
        RequestFault::Closed(reason) => OpenFault::Channel(reason),
        RequestFault::Transport(TransportFault::NeedsLogin(needed)) => {
            OpenFault::NeedsLogin(needed)
        }
        RequestFault::Transport(
            fault @ TransportFault::Status {
                status: 400 | 404 | 405,
                ..
            },
        ) => OpenFault::WrongTransport(fault.to_string()),
        RequestFault::Transport(fault) => OpenFault::Transport(fault),
        fault => OpenFault::Refused(fault.to_string()),
    }
}

/// The fault after a refusal that the probe may have caused: a restart without a probe may succeed.
fn open_fault_after_probe(fault: RequestFault) -> OpenFault {
    match as_error(fault) {
        RequestFault::ErrorResponse { .. } | RequestFault::Closed(_) => {
            OpenFault::RefusedAfterProbe
        }
        fault => open_fault(fault),
    }
}
