//! Calls that wait for a modern client's next request, which names them by a sealed `requestState`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use switchboard::RawJson;
use switchboard::sync::lock;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::client::Responder;
use crate::cluster::Cluster;
use crate::principal::Principal;
use crate::seal::{SealKind, SealedContent};

/// How long a client may take for its next request.
pub(crate) const RESUME_WITHIN: Duration = Duration::from_secs(300);

/// How long a state can be opened, by the wall clock. Longer than its call waits: a clock that is
/// set while a person reads a question must not refuse the answer.
const STATE_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// How many calls may wait, of all clients and of one principal.
const MAX_SUSPENDED: usize = 4096;
const MAX_SUSPENDED_OF_PRINCIPAL: usize = 512;

/// The prefix of the states of gateways.
const PREFIX: &str = "switchboard.";

/// The calls that wait, by the number in their sealed states.
#[derive(Debug)]
pub(crate) struct SuspendedCalls {
    cluster: Arc<dyn Cluster>,
    by_number: Mutex<HashMap<u64, SuspendedCall>>,
    last_number: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct SuspendedCall {
    principal: Principal,
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

impl SuspendedCalls {
    /// States are sealed and claimed by the cluster.
    pub(crate) fn new(cluster: Arc<dyn Cluster>) -> Self {
        Self {
            cluster,
            by_number: Mutex::default(),
            last_number: AtomicU64::new(0),
        }
    }

    /// Stores a call; returns its state. `None` if too many wait.
    pub(crate) fn suspend(
        &self,
        principal: &Principal,
        digest: RequestDigest,
        resume: mpsc::Sender<Resumption>,
        cancel: &Arc<Notify>,
    ) -> Option<String> {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed);
        let mut known = lock(&self.by_number);
        let now = Instant::now();
        known.retain(|_, call| call.expires > now && !call.resume.is_closed());
        let own = known.values().filter(|call| call.principal == *principal);
        if known.len() >= MAX_SUSPENDED || own.count() >= MAX_SUSPENDED_OF_PRINCIPAL {
            return None;
        }
        let call = SuspendedCall {
            principal: principal.clone(),
            resume,
            cancel: cancel.clone(),
            expires: now + RESUME_WITHIN,
        };
        known.insert(number, call);
        let content = SealedContent {
            replica: self.cluster.replica(),
            expires: SystemTime::now() + STATE_LIFETIME,
            digest,
            payload: number.to_le_bytes().to_vec(),
        };
        let principal = principal.as_str();
        let sealed = self.cluster.seal(SealKind::State, principal, &content);
        Some(format!("{}{sealed}", self.prefix()))
    }

    /// The prefix of our states: another gateway of the same person may have the same keys.
    fn prefix(&self) -> String {
        format!("{PREFIX}{:016x}.", self.cluster.replica().0)
    }

    /// Whether a state is one of ours: of this process, not of a gateway behind it.
    pub(crate) fn is_ours(&self, state: &str) -> bool {
        state.starts_with(&self.prefix())
    }

    /// The call of a state, once: for the same client and the same request. `None` for a state that
    /// was tampered with, used, has expired, or is for another client or request.
    pub(crate) async fn take(
        &self,
        state: &str,
        principal: &Principal,
        digest: &RequestDigest,
    ) -> Option<SuspendedCall> {
        let sealed = state.strip_prefix(&self.prefix())?;
        let opened = self
            .cluster
            .open_sealed(SealKind::State, principal.as_str(), sealed)
            .and_then(|opened| opened.for_request(digest))
            .ok()?;
        // The prefix may have been changed: an earlier process may have run it, and its numbers
        // were others.
        if opened.content.replica != self.cluster.replica() {
            return None;
        }
        let number = *opened.content.payload.first_chunk()?;
        // Only one request of this process gets the call.
        let call = lock(&self.by_number).remove(&u64::from_le_bytes(number))?;
        let is_waiting = call.expires > Instant::now();
        let is_claimed = self.cluster.claim_once(&opened).await;
        (is_waiting && is_claimed).then_some(call)
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self) {
        for (_, call) in lock(&self.by_number).drain() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Alone;

    #[tokio::test]
    async fn the_suspended_calls_of_one_principal_leave_room_for_others() {
        let calls = SuspendedCalls::new(Arc::new(Alone::ephemeral().expect("random bytes")));
        let mut resumptions = Vec::new();
        let mut suspend = |name: &str| {
            let (sender, receiver) = mpsc::channel(1);
            resumptions.push(receiver);
            let cancel = Arc::new(Notify::new());
            calls.suspend(&Principal::new(name), [0; 32], sender, &cancel)
        };
        for _ in 0..MAX_SUSPENDED_OF_PRINCIPAL {
            assert!(suspend("greedy").is_some());
        }
        assert!(suspend("greedy").is_none());
        assert!(suspend("codex").is_some());
    }

    /// T36: a state that is sent twice continues its call once, and none of another process.
    #[tokio::test]
    async fn t36_a_state_continues_its_call_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            let cluster = Alone::open(folder.path()).expect("keys");
            SuspendedCalls::new(Arc::new(cluster))
        };
        let (calls, later) = (open(), open());
        let (ada, digest) = (Principal::new("ada"), [0; 32]);
        let (sender, _receiver) = mpsc::channel(1);
        let suspend = |calls: &SuspendedCalls| {
            let cancel = Arc::new(Notify::new());
            let state = calls.suspend(&ada, digest, sender.clone(), &cancel);
            state.expect("there is room")
        };
        let state = suspend(&calls);
        // Its first number is the same.
        suspend(&later);
        let other = Principal::new("bob");
        assert!(later.take(&state, &ada, &digest).await.is_none());
        assert!(calls.take(&state, &other, &digest).await.is_none());
        assert!(calls.take(&state, &ada, &[1; 32]).await.is_none());
        assert!(calls.take(&state, &ada, &digest).await.is_some());
        assert!(calls.take(&state, &ada, &digest).await.is_none());
    }

    /// F32: how long a call waits is not measured by the wall clock.
    #[tokio::test(start_paused = true)]
    async fn f32_a_call_waits_five_minutes_for_its_client_whichever_way_the_clock_jumps() {
        let calls = SuspendedCalls::new(Arc::new(Alone::ephemeral().expect("random bytes")));
        let (ada, digest) = (Principal::new("ada"), [0; 32]);
        let (sender, _receiver) = mpsc::channel(1);
        let suspend = || {
            let cancel = Arc::new(Notify::new());
            let state = calls.suspend(&ada, digest, sender.clone(), &cancel);
            state.expect("there is room")
        };
        let (early, late) = (suspend(), suspend());
        let sealed = early.strip_prefix(&calls.prefix()).expect("it is ours");
        let opened = calls
            .cluster
            .open_sealed(SealKind::State, ada.as_str(), sealed);
        let after_a_jump = SystemTime::now() + STATE_LIFETIME / 2;
        assert!(opened.expect("it is sealed here").content.expires > after_a_jump);

        tokio::time::advance(RESUME_WITHIN - Duration::from_millis(1)).await;
        assert!(calls.take(&early, &ada, &digest).await.is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(calls.take(&late, &ada, &digest).await.is_none());
    }

    /// T36: a state of ours is not passed on to a server, one of another gateway is.
    #[test]
    fn t36_the_states_of_another_gateway_are_not_ours() {
        // Both have the same keys.
        let folder = tempfile::tempdir().expect("a folder");
        let open = || SuspendedCalls::new(Arc::new(Alone::open(folder.path()).expect("keys")));
        let (ours, other) = (open(), open());
        let (sender, _receiver) = mpsc::channel(1);
        let (ada, cancel) = (Principal::new("ada"), Arc::new(Notify::new()));
        let state = ours.suspend(&ada, [0; 32], sender, &cancel);
        let state = state.expect("there is room");
        let changed = format!("{state}x");
        for state in [&state, &changed] {
            assert!(ours.is_ours(state) && !other.is_ours(state), "{state}");
        }
        for state in ["", "state", "switchboard.", "switchboard.v1"] {
            assert!(!ours.is_ours(state), "{state}");
        }
    }
}
