//! Calls that wait for a modern client's next request, by the `requestState` that it was given.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard::RawJson;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::client::Responder;
use crate::gateway::lock;
use crate::principal::Principal;
use crate::reply::ErrorReply;

/// How long a client may take for its next request.
pub(crate) const RESUME_WITHIN: Duration = Duration::from_secs(300);

/// How many calls may wait.
const MAX_SUSPENDED: usize = 4096;

/// How our states begin; a server's own states are passed on unread.
const PREFIX: &str = "switchboard.1.";

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct SuspendedCalls {
    by_state: Mutex<HashMap<String, SuspendedCall>>,
}

#[derive(Debug)]
pub(crate) struct SuspendedCall {
    principal: Principal,
    /// Of the request that is repeated.
    digest: RequestDigest,
    resume: mpsc::Sender<Resumption>,
    /// Cancels the call.
    pub(crate) cancel: Arc<Notify>,
    expires: Instant,
}

/// What must be the same when a request is repeated: its method, name and arguments.
pub(crate) type RequestDigest = [u8; 32];

/// A client's next request.
#[derive(Debug)]
pub(crate) struct Resumption {
    pub(crate) responder: Responder,
    pub(crate) progress_token: Option<RawJson>,
    pub(crate) responses: Option<RawJson>,
}

/// Of these parts, each with its length.
pub(crate) fn digest(parts: &[&[u8]]) -> RequestDigest {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Whether a state is one of ours.
pub(crate) fn is_ours(state: &str) -> bool {
    state.starts_with(PREFIX)
}

impl SuspendedCalls {
    /// Keeps a call; returns its state. `None` where too many wait.
    pub(crate) fn suspend(
        &self,
        principal: &Principal,
        digest: RequestDigest,
        resume: mpsc::Sender<Resumption>,
        cancel: &Arc<Notify>,
    ) -> Option<String> {
        let mut number = [0; 16];
        aws_lc_rs::rand::fill(&mut number).ok()?;
        let state = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(number));
        let mut known = lock(&self.by_state);
        let now = Instant::now();
        known.retain(|_, call| call.expires > now && !call.resume.is_closed());
        if known.len() >= MAX_SUSPENDED {
            return None;
        }
        let call = SuspendedCall {
            principal: principal.clone(),
            digest,
            resume,
            cancel: cancel.clone(),
            expires: now + RESUME_WITHIN,
        };
        known.insert(state.clone(), call);
        Some(state)
    }

    /// The call of a state, once: for the same client and the same request.
    pub(crate) fn take(
        &self,
        state: &str,
        principal: &Principal,
        digest: &RequestDigest,
    ) -> Result<SuspendedCall, ErrorReply> {
        let unknown = || {
            ErrorReply::invalid_params(
                "requestState is not known: it was used, has expired, or belongs to another request; \
                 the call may have run",
            )
        };
        let mut known = lock(&self.by_state);
        let call = known.get(state).ok_or_else(unknown)?;
        if call.principal != *principal || call.digest != *digest || call.expires <= Instant::now()
        {
            return Err(unknown());
        }
        known.remove(state).ok_or_else(unknown)
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self) {
        for (_, call) in lock(&self.by_state).drain() {
            call.cancel.notify_one();
        }
    }
}

impl SuspendedCall {
    /// Continues it.
    pub(crate) async fn resume(self, resumption: Resumption) -> Result<(), Resumption> {
        self.resume.send(resumption).await.map_err(|error| error.0)
    }
}
