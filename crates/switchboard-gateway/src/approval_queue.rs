//! The queue of calls that wait for an operator, because their client cannot be asked.
//!
//! A call is held for a while, then answered with an error that names the approval. A yes after that
//! is stored as a permit for exactly that call: same principal, tool, launch, definition and
//! arguments; used once, within ten minutes. No answer means no.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use switchboard::sync::lock;
use switchboard::{Approval, BoxFuture, RawJson, ToolId};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, interval_at, timeout_at};

use crate::approvals::{Approvals, HeldCall};
use crate::digest::digest_of;
use crate::seal::random;
use crate::{CommandWords, Principal};

/// How long a call is held: common clients give up after 60 s.
const HOLD: Duration = Duration::from_secs(50);

/// How long an unanswered approval and an unused permit are stored.
const LIFETIME: Duration = Duration::from_secs(600);

/// How often a waiting client gets a progress notification.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// How many approvals may wait, of all principals and of one. For more, the oldest whose call was
/// answered already is removed; if all calls are held, the new one is denied.
const MAX_WAITING: usize = 256;
const MAX_WAITING_OF_PRINCIPAL: usize = 32;

/// How many bytes of arguments may wait of one principal. They are stored until the approval is
/// removed.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// How many permits are stored. Of more the oldest is removed.
const MAX_PERMITS: usize = 64;

/// Why a call of a client is denied whose token was revoked.
pub(crate) const REVOKED: &str = "the token of this client was revoked";

/// What identifies a call: principal, tool, launch, definition and arguments.
type CallDigest = blake3::Hash;

/// The queue. An operator answers through [`decide`](Self::decide).
#[derive(Debug)]
pub struct ApprovalQueue {
    state: Mutex<QueueState>,
    /// Counts changes, so that the status page can follow the queue.
    changes: watch::Sender<u64>,
    hold: Duration,
}

#[derive(Debug, Default)]
struct QueueState {
    last_id: u64,
    waiting: BTreeMap<u64, QueueEntry>,
    /// Calls that an operator allowed after they were answered with an error.
    permits: HashMap<CallDigest, StoredPermit>,
}

/// A permit for one call of this principal.
#[derive(Debug)]
struct StoredPermit {
    principal: Principal,
    expires: Instant,
}

#[derive(Debug)]
struct QueueEntry {
    digest: CallDigest,
    shown: WaitingCall,
    /// Sends the operator's answer to the call; `None` while no call is held.
    answer: Option<oneshot::Sender<bool>>,
    /// When the client last made the call.
    last_call: Instant,
    /// The same for people.
    last_call_time: SystemTime,
}

/// A call that waits for an operator, as it is shown.
#[derive(Debug, Clone)]
pub struct WaitingCall {
    /// Its number for an operator.
    pub id: u64,
    /// The client that made the call.
    pub principal: Principal,
    /// The tool.
    pub tool: ToolId,
    /// The arguments, whole.
    pub arguments: RawJson,
    /// Which rule asks, or that none applies.
    pub because: String,
    /// How the tool changed since it was approved, line by line.
    pub changed: Vec<String>,
    /// When the client first made the call.
    pub since: SystemTime,
    /// Until when the call is held; `None` after it was answered, when a yes is stored for the client's
    /// next attempt.
    pub held_until: Option<SystemTime>,
}

/// The effect of an operator's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalEffect {
    /// The call runs.
    Runs,
    /// The client got an error already; its next call with the same arguments runs.
    Kept,
    /// The call is denied.
    Denied,
}

impl ApprovalEffect {
    /// The word for it in the audit log and for `switchboard approvals`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Kept => "kept",
            Self::Denied => "denied",
        }
    }
}

impl Default for ApprovalQueue {
    fn default() -> Self {
        Self::with_hold(HOLD)
    }
}

impl ApprovalQueue {
    /// A queue that holds calls for this time.
    pub(crate) fn with_hold(hold: Duration) -> Self {
        Self {
            state: Mutex::default(),
            changes: watch::channel(0).0,
            hold,
        }
    }

    /// A queue whose ids are not those of an earlier one: a model, or a person, may still have an id of
    /// a gateway that has ended.
    pub(crate) fn with_random_ids() -> Self {
        let queue = Self::default();
        let random = random().map_or(0, u32::from_le_bytes);
        lock(&queue.state).last_id = 100_000 + u64::from(random % 900_000);
        queue
    }

    /// The calls that wait, the oldest first.
    pub fn waiting(&self) -> Vec<WaitingCall> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.remove_expired(now);
        let shown = |entry: &QueueEntry| WaitingCall {
            held_until: entry
                .answer
                .as_ref()
                .map(|_| entry.last_call_time + self.hold),
            ..entry.shown.clone()
        };
        state.waiting.values().map(shown).collect()
    }

    /// An operator's answer; `None` if no such approval waits (any more).
    pub fn decide(&self, id: u64, is_allowed: bool) -> Option<(WaitingCall, ApprovalEffect)> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.remove_expired(now);
        let entry = state.waiting.remove(&id)?;
        let was_held = entry
            .answer
            .is_some_and(|answer| answer.send(is_allowed).is_ok());
        let effect = match (is_allowed, was_held) {
            (false, _) => ApprovalEffect::Denied,
            (true, true) => ApprovalEffect::Runs,
            (true, false) => {
                let permit = StoredPermit {
                    principal: entry.shown.principal.clone(),
                    expires: now + LIFETIME,
                };
                state.add_permit(entry.digest, permit);
                ApprovalEffect::Kept
            }
        };
        drop(state);
        self.changed();
        Some((entry.shown, effect))
    }

    /// Removes the waiting calls and the permits of clients whose token was revoked; returns the
    /// calls.
    pub(crate) fn remove_clients(
        &self,
        is_revoked: impl Fn(&Principal) -> bool,
    ) -> Vec<WaitingCall> {
        let mut state = lock(&self.state);
        state
            .permits
            .retain(|_, permit| !is_revoked(&permit.principal));
        let removed = state
            .waiting
            .extract_if(.., |_, entry| is_revoked(&entry.shown.principal));
        let removed: Vec<_> = removed.map(|(_, entry)| entry.shown).collect();
        drop(state);
        if !removed.is_empty() {
            self.changed();
        }
        removed
    }

    /// Counts changes of the queue.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Uses a permit for this call, or enters it into the queue. The error is for the client.
    fn enter(&self, call: &HeldCall<'_>) -> Result<Entered<'_>, String> {
        let now = Instant::now();
        let digest = digest(call);
        let (answer, receiver) = oneshot::channel();
        let mut state = lock(&self.state);
        state.remove_expired(now);
        if state.permits.remove(&digest).is_some() {
            return Ok(Entered::Permitted);
        }
        let repeated = state
            .waiting
            .values_mut()
            .find(|entry| entry.digest == digest && entry.answer.is_none());
        let id = match repeated {
            Some(entry) => {
                entry.answer = Some(answer);
                entry.last_call = now;
                entry.last_call_time = SystemTime::now();
                entry.shown.id
            }
            None => {
                state.make_room(call)?;
                state.add(call, digest, answer, now)
            }
        };
        drop(state);
        self.changed();
        Ok(Entered::Waiting(WaitGuard {
            queue: self,
            id,
            answer: receiver,
            is_done: false,
        }))
    }

    async fn hold(&self, call: &HeldCall<'_>) -> Approval {
        let mut waiting = match self.enter(call) {
            Ok(Entered::Permitted) => return Approval::Once,
            Ok(Entered::Waiting(waiting)) => waiting,
            Err(reason) => return Approval::no(reason),
        };
        let deadline = Instant::now() + self.hold;
        let mut reports = interval_at(Instant::now(), REPORT_INTERVAL);
        loop {
            tokio::select! {
                answer = timeout_at(deadline, &mut waiting.answer) => {
                    return match answer {
                        Ok(answer) => waiting.decided(answer.ok()),
                        Err(_) => waiting.release(call.command_words),
                    };
                }
                _ = reports.tick() => {
                    (call.keep_alive)(&format!("approval {} waits for an operator", waiting.id));
                }
            }
        }
    }
}

impl Approvals for ApprovalQueue {
    fn approve<'a>(&'a self, call: &'a HeldCall<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(self.hold(call))
    }
}

enum Entered<'q> {
    Permitted,
    Waiting(WaitGuard<'q>),
}

/// A held call in the queue. If the client disconnects, its approval is withdrawn.
struct WaitGuard<'q> {
    queue: &'q ApprovalQueue,
    id: u64,
    answer: oneshot::Receiver<bool>,
    is_done: bool,
}

impl WaitGuard<'_> {
    /// An operator's answer. `None` if the approval was removed without one.
    fn decided(mut self, is_allowed: Option<bool>) -> Approval {
        self.is_done = true;
        match is_allowed {
            Some(true) => Approval::Once,
            Some(false) => Approval::no("an operator denied it"),
            None => Approval::no(REVOKED),
        }
    }

    /// Answers the call with an error, while its approval still waits.
    fn release(mut self, command_words: CommandWords) -> Approval {
        let mut state = lock(&self.queue.state);
        let Some(entry) = state.waiting.get_mut(&self.id) else {
            // An operator has answered since the deadline.
            drop(state);
            let answer = self.answer.try_recv();
            return self.decided(answer.ok());
        };
        entry.answer = None;
        drop(state);
        self.is_done = true;
        self.queue.changed();
        let id = self.id;
        let allow = command_words(&["approvals", "allow", &id.to_string()]);
        Approval::Pending {
            number: id,
            next_step: format!(
                "once an operator has allowed it ({allow}, or the status page), call again with the same \
                 arguments"
            ),
        }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            lock(&self.queue.state).waiting.remove(&self.id);
            self.queue.changed();
        }
    }
}

impl QueueState {
    fn add(
        &mut self,
        call: &HeldCall<'_>,
        digest: CallDigest,
        answer: oneshot::Sender<bool>,
        now: Instant,
    ) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let request = call.request;
        let shown = WaitingCall {
            id,
            principal: call.principal.clone(),
            tool: request.id.clone(),
            // Not as a part of the client's message, all of which would be stored.
            arguments: request.arguments.copy(),
            because: request.because.clone(),
            changed: request.changed.clone().unwrap_or_default(),
            since: SystemTime::now(),
            held_until: None,
        };
        let entry = QueueEntry {
            digest,
            shown,
            answer: Some(answer),
            last_call: now,
            last_call_time: SystemTime::now(),
        };
        self.waiting.insert(id, entry);
        id
    }

    /// Makes room for the approval of this call. The error is for the client.
    fn make_room(&mut self, call: &HeldCall<'_>) -> Result<(), String> {
        let length = call.request.arguments.as_bytes().len();
        if length > MAX_WAITING_BYTES {
            return Err(format!(
                "its arguments are too long to wait for approval: {length} bytes, and the limit is {MAX_WAITING_BYTES}"
            ));
        }
        loop {
            let is_own = |entry: &&QueueEntry| entry.shown.principal == *call.principal;
            let own = || self.waiting.values().filter(is_own);
            let bytes: usize = own()
                .map(|entry| entry.shown.arguments.as_bytes().len())
                .sum();
            let is_full =
                own().count() >= MAX_WAITING_OF_PRINCIPAL || bytes + length > MAX_WAITING_BYTES;
            if !is_full && self.waiting.len() < MAX_WAITING {
                return Ok(());
            }
            let mut removable = self
                .waiting
                .values()
                .filter(|entry| entry.answer.is_none() && (!is_full || is_own(entry)));
            let Some(oldest) = removable.next().map(|entry| entry.shown.id) else {
                let message = "too many calls wait for approval already; try again later";
                return Err(message.to_owned());
            };
            self.waiting.remove(&oldest);
        }
    }

    /// Stores a permit. If there are too many, the one that would expire first is removed.
    fn add_permit(&mut self, digest: CallDigest, permit: StoredPermit) {
        if self.permits.len() >= MAX_PERMITS {
            let first = self.permits.iter().min_by_key(|(_, permit)| permit.expires);
            if let Some(first) = first.map(|(digest, _)| *digest) {
                self.permits.remove(&first);
            }
        }
        self.permits.insert(digest, permit);
    }

    fn remove_expired(&mut self, now: Instant) {
        self.waiting
            .retain(|_, entry| entry.answer.is_some() || entry.last_call + LIFETIME > now);
        self.permits.retain(|_, permit| permit.expires > now);
    }
}

fn digest(call: &HeldCall<'_>) -> CallDigest {
    let request = call.request;
    digest_of([
        call.principal.as_str().as_bytes(),
        request.id.server.as_str().as_bytes(),
        request.id.tool.as_wire().as_bytes(),
        &request.launch.0,
        &request.definition.hash.0,
        request.arguments.as_bytes(),
    ])
}

#[cfg(test)]
mod tests;
