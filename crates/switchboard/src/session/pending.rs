//! Requests that wait for their answer, by id.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::RequestFault;
use super::clock::Verdict;
use super::ongoing::Ongoing;
use crate::wire::RawJson;

/// What comes back for a request: the result, or why there is none.
pub(super) type Answer = Result<RawJson, RequestFault>;

/// The table. Ids count up from 1 and are never used twice on a session.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    slots: HashMap<u64, Slot, BuildHasherDefault<IdHasher>>,
    /// Set once, when the connection ends: from then on nothing may wait.
    ended: Option<String>,
}

#[derive(Debug)]
struct Slot {
    reply: oneshot::Sender<Answer>,
    ongoing: Option<Arc<Ongoing>>,
}

impl Pending {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an id and a place to wait.
    pub(super) fn add(&self, ongoing: Option<Arc<Ongoing>>) -> Result<(u64, oneshot::Receiver<Answer>), RequestFault> {
        let (reply, receiver) = oneshot::channel();
        let mut table = self.table();
        if let Some(reason) = &table.ended {
            return Err(RequestFault::Closed(reason.clone()));
        }
        table.last_id += 1;
        let id = table.last_id;
        table.slots.insert(id, Slot { reply, ongoing });
        Ok((id, receiver))
    }

    /// Delivers an answer. False if nobody waits under this id.
    pub(super) fn answer(&self, id: u64, answer: Answer) -> bool {
        let slot = self.table().slots.remove(&id);
        match slot {
            // The waiter may have gone between the answer and this moment; that is no oddity of the server.
            Some(slot) => {
                let _ = slot.reply.send(answer);
                true
            }
            None => false,
        }
    }

    /// Gives a place up. True if it was still waiting.
    pub(super) fn give_up(&self, id: u64) -> bool {
        self.table().slots.remove(&id).is_some()
    }

    /// Whether a request of ours stands under this id.
    pub(super) fn waits_for(&self, id: u64) -> bool {
        self.table().slots.contains_key(&id)
    }

    /// Nobody stands behind this request any more; its answer is still waited for.
    pub(super) fn disown(&self, id: u64) {
        if let Some(slot) = self.table().slots.get_mut(&id) {
            slot.ongoing = None;
        }
    }

    /// The ongoing request under this id.
    pub(super) fn ongoing(&self, id: u64) -> Option<Arc<Ongoing>> {
        self.table().slots.get(&id).and_then(|slot| slot.ongoing.clone())
    }

    /// Every ongoing request that a question could belong to, with its id.
    pub(super) fn all_ongoing(&self) -> Vec<(u64, Arc<Ongoing>)> {
        self.table().slots.iter().filter_map(|(id, slot)| Some((*id, slot.ongoing.clone()?))).collect()
    }

    /// Judges every ongoing request: ends the late ones, whose ids come back with the time of the next look.
    pub(super) fn end_late(&self, now: Instant) -> (Vec<u64>, Option<Instant>) {
        let mut next: Option<Instant> = None;
        let mut late = Vec::new();
        for (id, slot) in &self.table().slots {
            match slot.ongoing.as_ref().map(|ongoing| ongoing.clock.judge(now)) {
                Some(Verdict::Late(fault)) => late.push((*id, fault)),
                Some(Verdict::Wait(until)) => next = Some(next.map_or(until, |next| next.min(until))),
                None => {}
            }
        }
        let ended = late.into_iter().filter_map(|(id, fault)| self.answer(id, Err(fault)).then_some(id)).collect();
        (ended, next)
    }

    /// The connection has ended: every waiter fails now, later ones at once. False if it had ended before.
    pub(super) fn end(&self, reason: &str) -> bool {
        let slots = {
            let mut table = self.table();
            if table.ended.is_some() {
                return false;
            }
            table.ended = Some(reason.to_owned());
            std::mem::take(&mut table.slots)
        };
        for slot in slots.into_values() {
            let _ = slot.reply.send(Err(RequestFault::Closed(reason.to_owned())));
        }
        true
    }
}

/// Ids are small and dense already; mixing them once is enough.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
