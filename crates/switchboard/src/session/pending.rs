//! Requests that wait for their answer, by id.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::RequestFault;
use super::clock::Verdict;
use super::ongoing::Ongoing;
use crate::caller::CallerId;
use crate::wire::RawJson;

/// What comes back for a request: the result, or why there is none.
pub(super) type Answer = Result<RawJson, RequestFault>;

/// A server may still ask for so long what a request wanted that we have given up: then nobody else
/// is asked instead.
const LINGER: Duration = Duration::from_secs(60);

/// So many requests that were given up are remembered.
const MAX_GHOSTS: usize = 1024;

/// The table. Ids count up from 1 and are never used twice on a session.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    slots: HashMap<u64, Slot, BuildHasherDefault<IdHasher>>,
    /// Requests that we have given up and that the server has not answered, oldest first.
    ghosts: VecDeque<Ghost>,
    /// Set once, when the connection ends: from then on nothing may wait.
    ended: Option<String>,
}

#[derive(Debug)]
struct Slot {
    reply: oneshot::Sender<Answer>,
    ongoing: Option<Arc<Ongoing>>,
}

#[derive(Debug)]
struct Ghost {
    id: u64,
    caller: CallerId,
    until: Instant,
}

impl Table {
    /// Takes a request out that the server may still be busy with.
    fn give_up(&mut self, id: u64) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        if let Some(ongoing) = &slot.ongoing {
            self.haunt(id, ongoing);
        }
        Some(slot)
    }

    fn haunt(&mut self, id: u64, ongoing: &Ongoing) {
        if self.ghosts.len() >= MAX_GHOSTS {
            self.ghosts.pop_front();
        }
        self.ghosts.push_back(Ghost {
            id,
            caller: ongoing.caller_id.clone(),
            until: Instant::now() + LINGER,
        });
    }
}

impl Pending {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an id and a place to wait.
    pub(super) fn add(
        &self,
        ongoing: Option<Arc<Ongoing>>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), RequestFault> {
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
        let slot = {
            let mut table = self.table();
            if !table.ghosts.is_empty() {
                table.ghosts.retain(|ghost| ghost.id != id);
            }
            table.slots.remove(&id)
        };
        slot.is_some_and(|slot| deliver(slot, answer))
    }

    /// Gives a place up. True if it was still waiting.
    pub(super) fn give_up(&self, id: u64) -> bool {
        self.table().give_up(id).is_some()
    }

    /// Whether nothing is waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.table().slots.is_empty()
    }

    /// Whether a request of ours stands under this id.
    pub(super) fn waits_for(&self, id: u64) -> bool {
        self.table().slots.contains_key(&id)
    }

    /// Nobody stands behind this request any more; its answer is still waited for.
    pub(super) fn disown(&self, id: u64) {
        let mut table = self.table();
        if let Some(ongoing) = table
            .slots
            .get_mut(&id)
            .and_then(|slot| slot.ongoing.take())
        {
            table.haunt(id, &ongoing);
        }
    }

    /// The ongoing request under this id.
    pub(super) fn ongoing(&self, id: u64) -> Option<Arc<Ongoing>> {
        self.table()
            .slots
            .get(&id)
            .and_then(|slot| slot.ongoing.clone())
    }

    /// Every ongoing request that a question could belong to, with its id; and whose requests were
    /// given up not long ago.
    pub(super) fn suspects(&self) -> (Vec<(u64, Arc<Ongoing>)>, Vec<CallerId>) {
        let now = Instant::now();
        let mut table = self.table();
        table.ghosts.retain(|ghost| ghost.until > now);
        let gone = table
            .ghosts
            .iter()
            .map(|ghost| ghost.caller.clone())
            .collect();
        (
            table
                .slots
                .iter()
                .filter_map(|(id, slot)| Some((*id, slot.ongoing.clone()?)))
                .collect(),
            gone,
        )
    }

    /// Judges every ongoing request: ends the late ones, whose ids come back with the time of the
    /// next look.
    pub(super) fn end_late(&self, now: Instant) -> (Vec<u64>, Option<Instant>) {
        let mut next: Option<Instant> = None;
        let mut late = Vec::new();
        let mut table = self.table();
        for (id, slot) in &table.slots {
            match slot
                .ongoing
                .as_ref()
                .map(|ongoing| ongoing.clock.judge(now))
            {
                Some(Verdict::Late(fault)) => late.push((*id, fault)),
                Some(Verdict::Wait(until)) => {
                    next = Some(next.map_or(until, |next| next.min(until)))
                }
                None => {}
            }
        }
        let ended = late
            .into_iter()
            .filter_map(|(id, fault)| Some((id, table.give_up(id)?, fault)))
            .collect::<Vec<_>>();
        drop(table);
        (
            ended
                .into_iter()
                .filter_map(|(id, slot, fault)| deliver(slot, Err(fault)).then_some(id))
                .collect(),
            next,
        )
    }

    /// The connection has ended: every waiter fails now, later ones at once. False if it had ended
    /// before.
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
            let _ = slot
                .reply
                .send(Err(RequestFault::Closed(reason.to_owned())));
        }
        true
    }
}

/// The waiter may have gone between the answer and this moment; that is no oddity of the server.
fn deliver(slot: Slot, answer: Answer) -> bool {
    let _ = slot.reply.send(answer);
    true
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
