//! Pending requests by id, and the timer that ends the late ones: one timer for a whole session, so
//! that a call does not need its own.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::fault::ResponseResult;
use super::in_flight::{DeadlineCheck, InFlightCall};
use super::receiver::{Receiver, TaskGuard};
use super::{RequestFault, RequestResult};
use crate::caller::CallerId;
use crate::event::SessionCallers;
use crate::sync::lock;

/// A server may still ask a question on behalf of an abandoned request: for this long no other
/// caller is asked instead.
const ABANDONED_FOR: Duration = Duration::from_secs(60);

/// The most abandoned requests that are remembered.
const MAX_ABANDONED: usize = 1024;

/// The pending requests. Ids count up from 1 and are never reused on a session.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    table: Mutex<PendingTable>,
    /// Notified for a deadline before the next check. The timer's task waits on it.
    earlier_deadline: Notify,
}

#[derive(Debug, Default)]
struct PendingTable {
    last_id: u64,
    /// Until the waiter takes the response, or gives up. The response is stored here and not in a
    /// channel of its own, which would be one more allocation for each request.
    requests: RequestSlots,
    /// Abandoned requests without a response, oldest first.
    abandoned: VecDeque<AbandonedRequest>,
    /// A legacy server may log for a call that has ended.
    callers: SessionCallers,
    /// Set once, when the connection ends: later requests fail at once.
    ended: Option<String>,
    /// The next check of the timer; `None` if it waits for no deadline.
    next_check: Option<Instant>,
}

/// Requests by id: each has the slot that the low bits of its id name. An id whose slot is taken is
/// not assigned. Every request is added, found by its response, and found twice by its waiter; a
/// hash map takes 45 instructions for each.
#[derive(Debug, Default)]
struct RequestSlots {
    /// A power of two of them, at most half of which are taken, or none at all.
    slots: Vec<Option<PendingRequest>>,
    taken: usize,
}

impl RequestSlots {
    const MIN_SLOTS: usize = 32;

    fn place(&self, id: u64) -> usize {
        id as usize & self.slots.len().wrapping_sub(1)
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut PendingRequest> {
        let place = self.place(id);
        let request = self.slots.get_mut(place)?.as_mut()?;
        (request.id == id).then_some(request)
    }

    fn remove(&mut self, id: u64) -> Option<PendingRequest> {
        let place = self.place(id);
        let slot = self.slots.get_mut(place)?;
        let removed = slot.take_if(|request| request.id == id)?;
        self.taken -= 1;
        Some(removed)
    }

    /// Adds a request under the first id after `last_id` that has a free slot.
    fn add(&mut self, last_id: u64, call: Option<Arc<InFlightCall>>) -> u64 {
        if self.taken * 2 >= self.slots.len() {
            self.grow();
        }
        let mut id = last_id + 1;
        while self.slots[self.place(id)].is_some() {
            id += 1;
        }
        let place = self.place(id);
        let response = Response::Awaited(None);
        self.slots[place] = Some(PendingRequest { id, response, call });
        self.taken += 1;
        id
    }

    /// Two ids that had slots of their own have them among twice as many slots, too.
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(Self::MIN_SLOTS);
        let old = std::mem::take(&mut self.slots);
        self.slots.resize_with(count, || None);
        for request in old.into_iter().flatten() {
            let place = self.place(request.id);
            self.slots[place] = Some(request);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &PendingRequest> {
        self.slots.iter().flatten()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut PendingRequest> {
        self.slots.iter_mut().flatten()
    }
}

#[derive(Debug)]
struct PendingRequest {
    id: u64,
    response: Response,
    call: Option<Arc<InFlightCall>>,
}

#[derive(Debug)]
enum Response {
    /// Not arrived yet; the waker of the task that waits for it.
    Awaited(Option<Waker>),
    /// Here, and not yet taken.
    Arrived(ResponseResult),
}

impl PendingRequest {
    fn is_awaited(&self) -> bool {
        matches!(self.response, Response::Awaited(_))
    }

    /// Stores the response.
    fn arrived(&mut self, result: ResponseResult) -> Waiter {
        let waker = match std::mem::replace(&mut self.response, Response::Arrived(result)) {
            Response::Awaited(waker) => waker,
            Response::Arrived(_) => None,
        };
        let call = self.call.take();
        Waiter { waker, call }
    }
}

/// Who waited for a response that has arrived: woken, and the call dropped, once the table is
/// unlocked.
struct Waiter {
    waker: Option<Waker>,
    call: Option<Arc<InFlightCall>>,
}

impl Waiter {
    fn wake(self) {
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

#[derive(Debug)]
struct AbandonedRequest {
    id: u64,
    caller: CallerId,
    until: Instant,
}

/// The calls that a message of the server may belong to.
#[derive(Debug)]
pub(super) struct CandidateCalls {
    /// The calls in flight, by the id of their request.
    pub(super) in_flight: Vec<(u64, Arc<InFlightCall>)>,
    /// The callers of recently abandoned calls.
    pub(super) abandoned_by: Vec<CallerId>,
}

impl PendingTable {
    /// The request of this id, if its response has not arrived.
    fn awaited(&mut self, id: u64) -> Option<&mut PendingRequest> {
        let request = self.requests.get_mut(id);
        request.filter(|request| request.is_awaited())
    }

    /// Removes a request that the server may still be executing.
    fn abandon(&mut self, id: u64) -> Option<PendingRequest> {
        let request = self
            .requests
            .remove(id)
            .filter(PendingRequest::is_awaited)?;
        if let Some(call) = &request.call {
            self.remember_abandoned(id, call);
        }
        Some(request)
    }

    /// Gives a request up and stores the reason in place of its response.
    fn fail(&mut self, id: u64, fault: RequestFault) -> Option<Waiter> {
        let waiter = self.awaited(id)?.arrived(Err(Box::new(fault)));
        if let Some(call) = &waiter.call {
            self.remember_abandoned(id, call);
        }
        Some(waiter)
    }

    fn forget_old_abandoned(&mut self) {
        if self.abandoned.is_empty() {
            return;
        }
        let now = Instant::now();
        self.abandoned.retain(|request| request.until > now);
    }

    fn remember_abandoned(&mut self, id: u64, call: &InFlightCall) {
        if self.abandoned.len() >= MAX_ABANDONED {
            self.abandoned.pop_front();
        }
        self.abandoned.push_back(AbandonedRequest {
            id,
            caller: call.caller_id().clone(),
            until: Instant::now() + ABANDONED_FOR,
        });
    }
}

impl PendingRequests {
    fn table(&self) -> MutexGuard<'_, PendingTable> {
        lock(&self.table)
    }

    /// Takes an id, under which [`poll_response`](Self::poll_response) waits.
    pub(super) fn add(&self, call: Option<Arc<InFlightCall>>) -> Result<u64, Box<RequestFault>> {
        let mut table = self.table();
        if let Some(reason) = &table.ended {
            return Err(Box::new(RequestFault::Closed(reason.clone())));
        }
        // Compared under the lock: the timer takes its next check from the table.
        let first = call.as_ref().map(|call| call.deadlines.first);
        let is_earlier = |first| table.next_check.is_none_or(|next| first < next);
        if first.is_some_and(is_earlier) {
            table.next_check = first;
            self.earlier_deadline.notify_one();
        }
        if let Some(call) = &call
            && !table.callers.are_only(call.caller_id())
        {
            table.forget_old_abandoned();
            // Requests that belong to no caller do not count.
            let is_idle = table.abandoned.is_empty()
                && table.requests.iter().all(|request| request.call.is_none());
            table.callers.add(call.caller_id(), is_idle);
        }
        let last_id = table.last_id;
        table.last_id = table.requests.add(last_id, call);
        Ok(table.last_id)
    }

    /// Takes the response to a request, or has the task woken when it arrives.
    #[inline(always)]
    pub(super) fn poll_response(&self, id: u64, task: &mut Context<'_>) -> Poll<ResponseResult> {
        let mut table = self.table();
        match table
            .requests
            .get_mut(id)
            .map(|request| &mut request.response)
        {
            Some(Response::Awaited(waker)) => {
                match waker {
                    Some(waker) => waker.clone_from(task.waker()),
                    None => *waker = Some(task.waker().clone()),
                }
                return Poll::Pending;
            }
            Some(Response::Arrived(_)) => {}
            // Whoever gave it up waits no longer.
            None => return Poll::Ready(Err(Box::new(RequestFault::session_dropped()))),
        }
        // Whoever stored the response has taken the call, so little is dropped under the lock.
        Poll::Ready(match table.requests.remove(id) {
            Some(PendingRequest {
                response: Response::Arrived(result),
                ..
            }) => result,
            _ => Err(Box::new(RequestFault::session_dropped())),
        })
    }

    /// Waits for the response to a request. Cancel-safe: the request stays.
    pub(super) async fn response(&self, id: u64) -> RequestResult {
        Ok(poll_fn(|task| self.poll_response(id, task)).await?)
    }

    /// Delivers a response. False if no request with this id is pending.
    pub(super) fn deliver(&self, id: u64, result: ResponseResult) -> bool {
        let mut table = self.table();
        if !table.abandoned.is_empty() {
            table.abandoned.retain(|request| request.id != id);
        }
        let Some(request) = table.awaited(id) else {
            return false;
        };
        let waiter = request.arrived(result);
        drop(table);
        waiter.wake();
        true
    }

    /// Fails a request that the server may still be executing. False if no request with this id is
    /// pending.
    pub(super) fn fail(&self, id: u64, fault: RequestFault) -> bool {
        let failed = self.table().fail(id, fault);
        let is_pending = failed.is_some();
        failed.into_iter().for_each(Waiter::wake);
        is_pending
    }

    /// Fails a request that belongs to no caller. False if no such request with this id is pending.
    pub(super) fn fail_without_caller(&self, id: u64, fault: RequestFault) -> bool {
        let mut table = self.table();
        let request = table.awaited(id);
        if request.is_none_or(|request| request.call.is_some()) {
            return false;
        }
        let waiter = table.fail(id, fault);
        drop(table);
        waiter.into_iter().for_each(Waiter::wake);
        true
    }

    /// Stops waiting for a request. True if its response had not arrived.
    pub(super) fn abandon(&self, id: u64) -> bool {
        self.table().abandon(id).is_some()
    }

    /// Whether no request is pending.
    pub(super) fn is_empty(&self) -> bool {
        !self.table().requests.iter().any(PendingRequest::is_awaited)
    }

    /// Whether a request with this id is pending.
    pub(super) fn contains(&self, id: u64) -> bool {
        self.table().awaited(id).is_some()
    }

    /// Detaches a request from its caller; its response is still awaited.
    pub(super) fn detach_caller(&self, id: u64) {
        let mut table = self.table();
        if let Some(call) = table.awaited(id).and_then(|request| request.call.take()) {
            table.remember_abandoned(id, &call);
        }
    }

    /// The call whose request has this id.
    pub(super) fn call(&self, id: u64) -> Option<Arc<InFlightCall>> {
        let mut table = self.table();
        table.awaited(id).and_then(|request| request.call.clone())
    }

    /// The callers of all calls since none was in flight.
    pub(super) fn callers(&self) -> SessionCallers {
        self.table().callers.clone()
    }

    /// Every call that a message of the server may belong to.
    pub(super) fn candidates(&self) -> CandidateCalls {
        let mut table = self.table();
        table.forget_old_abandoned();
        let abandoned = table.abandoned.iter();
        let requests = table.requests.iter();
        CandidateCalls {
            abandoned_by: abandoned.map(|request| request.caller.clone()).collect(),
            in_flight: requests
                .filter_map(|request| Some((request.id, request.call.clone()?)))
                .collect(),
        }
    }

    /// Fails all pending requests and all later ones, when the connection has ended.
    pub(super) fn end(&self, reason: &str) {
        let waiters: Vec<_> = {
            let mut table = self.table();
            table.ended.get_or_insert_with(|| reason.to_owned());
            let awaited = table
                .requests
                .iter_mut()
                .filter(|request| request.is_awaited());
            awaited
                .map(|request| {
                    request.arrived(Err(Box::new(RequestFault::Closed(reason.to_owned()))))
                })
                .collect()
        };
        waiters.into_iter().for_each(Waiter::wake);
    }

    /// Ends the late requests, except those whose waiter checks the deadlines itself. Returns their
    /// ids and the time of the next check.
    fn end_late(
        &self,
        now: Instant,
        has_own_check: impl Fn(u64) -> bool,
    ) -> (Vec<u64>, Option<Instant>) {
        let mut next: Option<Instant> = None;
        let mut late = Vec::new();
        let mut table = self.table();
        for request in table.requests.iter() {
            let Some(call) = &request.call else { continue };
            match call.deadlines.check(now) {
                DeadlineCheck::Late(_) if has_own_check(request.id) => {}
                DeadlineCheck::Late(fault) => late.push((request.id, fault)),
                DeadlineCheck::Wait(until) => {
                    next = Some(next.map_or(until, |next| next.min(until)))
                }
            }
        }
        let (ids, waiters): (Vec<_>, Vec<_>) = late
            .into_iter()
            .filter_map(|(id, fault)| Some((id, table.fail(id, fault)?)))
            .unzip();
        table.next_check = next;
        drop(table);
        waiters.into_iter().for_each(Waiter::wake);
        (ids, next)
    }
}

/// Starts the timer of a session.
pub(super) fn start_timer(receiver: &Arc<Receiver>) -> TaskGuard {
    receiver.spawn(run_timer(Arc::downgrade(receiver)))
}

async fn run_timer(receiver: Weak<Receiver>) {
    /// Practically forever: a new deadline wakes the timer.
    const IDLE: Duration = Duration::from_secs(24 * 60 * 60);
    loop {
        let Some(receiver) = receiver.upgrade() else {
            return;
        };
        let pending = &receiver.pending;
        // A request that creates a task must not be cancelled by a notification.
        let creates_task = |id| receiver.tasks.is_creation(id);
        let (late, next) = pending.end_late(Instant::now(), creates_task);
        for id in late {
            receiver.cancel(id, "it took too long");
        }
        tokio::select! {
            () = pending.earlier_deadline.notified() => {}
            () = sleep_until(next.unwrap_or_else(|| Instant::now() + IDLE)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_their_ids_however_many_wait_and_for_how_long() {
        let mut slots = RequestSlots::default();
        assert!(slots.get_mut(0).is_none() && slots.remove(1).is_none());
        // One request that stays, as a stream that the server reports changes on.
        let staying = slots.add(0, None);
        let mut last_id = staying;
        for waiting in [1, 31, 32, 33, 200] {
            for _ in 0..5 {
                let ids: Vec<u64> = (0..waiting)
                    .map(|_| {
                        let id = slots.add(last_id, None);
                        assert!(id > last_id, "no id is used twice");
                        last_id = id;
                        id
                    })
                    .collect();
                assert_eq!(slots.iter().count(), waiting + 1);
                for id in ids {
                    assert_eq!(slots.get_mut(id).map(|request| request.id), Some(id));
                    assert_eq!(slots.remove(id).map(|request| request.id), Some(id));
                    assert!(slots.get_mut(id).is_none() && slots.remove(id).is_none());
                }
                assert!(slots.get_mut(staying).is_some());
            }
        }
        assert_eq!(slots.taken, 1);
        assert!(slots.slots.len() <= 1024, "{}", slots.slots.len());
    }
}
