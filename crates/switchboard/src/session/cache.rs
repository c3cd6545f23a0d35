//! Caches lists and resources for as long as the server allowed and until it reports a change.
//!
//! The cache belongs to the server and outlives its sessions. Nothing is requested again before it
//! is needed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::caller::CallerId;
use crate::sync::lock;
use crate::wire::RawJson;

#[cfg(test)]
mod tests;

/// The longest lifetime.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How many resources are cached, how large one may be, and all of them together.
const MAX_READS: usize = 256;
const MAX_READ_BYTES: usize = 1024 * 1024;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The cache of one server. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache(Arc<Mutex<CacheState>>);

#[derive(Debug, Default)]
struct CacheState {
    /// Incremented with each change: a result that was requested before a change and arrived after
    /// it is not cached.
    changes: u64,
    lists: HashMap<&'static str, CachedList>,
    reads: HashMap<CachedReadKey, CachedRead>,
    /// Keys of `reads`, the oldest first.
    order: VecDeque<CachedReadKey>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedList {
    items: Vec<RawJson>,
    until: Instant,
    /// Whether the current session receives the server's reports of changes: then the list is valid
    /// until one comes, whatever its lifetime.
    is_watched: bool,
}

/// The URI and the caller; `None` for every caller.
type CachedReadKey = (String, Option<CallerId>);

#[derive(Debug)]
struct CachedRead {
    result: RawJson,
    until: Instant,
}

/// The state of the cache before a request was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheTicket {
    at: Instant,
    changes: u64,
}

/// How long and for whom a result may be cached, as the server said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CacheHint {
    pub(super) ttl: Duration,
    is_public: bool,
}

impl CacheHint {
    /// An absent, negative or malformed lifetime means that the result is not cached.
    pub(super) fn of(result: &RawJson) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CacheFields<'a> {
            #[serde(default)]
            ttl_ms: Option<f64>,
            #[serde(borrow, default)]
            cache_scope: Option<std::borrow::Cow<'a, str>>,
        }
        // Most results have no lifetime, and some are large.
        if memchr::memmem::find(result.as_bytes(), b"\"ttlMs\"").is_none() {
            return Self::default();
        }
        let Ok(read) = result.decode::<CacheFields<'_>>() else {
            return Self::default();
        };
        let ttl_ms = read
            .ttl_ms
            .filter(|ttl| *ttl > 0.0)
            .unwrap_or_default()
            .min(MAX_LIFETIME.as_millis() as f64);
        Self {
            ttl: Duration::from_millis(ttl_ms as u64),
            is_public: read.cache_scope.as_deref() == Some("public"),
        }
    }
}

impl Cache {
    fn state(&self) -> MutexGuard<'_, CacheState> {
        lock(&self.0)
    }

    /// Taken before the request, and passed back with the result.
    pub(super) fn ticket(&self) -> CacheTicket {
        CacheTicket {
            at: Instant::now(),
            changes: self.state().changes,
        }
    }

    /// A cached list that is still fresh.
    pub(super) fn list(&self, method: &'static str) -> Option<Vec<RawJson>> {
        let state = self.state();
        let list = state.lists.get(method)?;
        (list.is_watched || Instant::now() < list.until).then(|| list.items.clone())
    }

    /// Caches a list for the shortest lifetime of its pages, or until the server reports a change.
    pub(super) fn store_list(
        &self,
        ticket: CacheTicket,
        method: &'static str,
        items: &[RawJson],
        ttl: Duration,
        is_watched: bool,
    ) {
        let mut state = self.state();
        if state.changes == ticket.changes && (is_watched || !ttl.is_zero()) {
            state.lists.insert(
                method,
                CachedList {
                    items: items.to_vec(),
                    until: ticket.at + ttl,
                    is_watched,
                },
            );
        }
    }

    /// A new session has missed reports of changes: lists that relied on them are valid for their
    /// lifetime only.
    pub(super) fn session_began(&self) {
        self.state()
            .lists
            .values_mut()
            .for_each(|list| list.is_watched = false);
    }

    /// Invalidates these lists.
    pub(super) fn lists_changed(&self, methods: &[&str]) {
        let mut state = self.state();
        state.changes += 1;
        methods
            .iter()
            .for_each(|method| drop(state.lists.remove(*method)));
        if methods.contains(&"resources/list") {
            state.forget_reads(|_| true);
        }
    }

    /// The cached result of reading this URI, for this caller.
    pub(super) fn read(&self, uri: &str, caller: &CallerId) -> Option<RawJson> {
        let mut state = self.state();
        if state.reads.is_empty() {
            return None;
        }
        let now = Instant::now();
        for key in [
            (uri.to_owned(), None),
            (uri.to_owned(), Some(caller.clone())),
        ] {
            match state.reads.get(&key) {
                Some(read) if now < read.until => return Some(read.result.clone()),
                Some(_) => state.forget_reads(|(known, _)| known == uri),
                None => {}
            }
        }
        None
    }

    /// Caches the result of a read that needed no input.
    pub(super) fn store_read(
        &self,
        ticket: CacheTicket,
        uri: &str,
        caller: &CallerId,
        result: &RawJson,
    ) {
        let hint = CacheHint::of(result);
        let bytes = result.as_bytes().len();
        if hint.ttl.is_zero() || bytes > MAX_READ_BYTES {
            return;
        }
        let mut state = self.state();
        if state.changes != ticket.changes {
            return;
        }
        let key = (uri.to_owned(), (!hint.is_public).then(|| caller.clone()));
        state.forget_reads(|known| *known == key);
        while state.order.len() >= MAX_READS || state.bytes + bytes > MAX_BYTES {
            let Some(oldest) = state.order.front().cloned() else {
                break;
            };
            state.forget_reads(|known| *known == oldest);
        }
        state.bytes += bytes;
        state.order.push_back(key.clone());
        // Copied, because the result may be a small part of a large message.
        let result = RawJson::keep(result.as_str());
        state.reads.insert(
            key,
            CachedRead {
                result,
                until: ticket.at + hint.ttl,
            },
        );
    }

    /// Invalidates a resource, those that contain it and those that it contains.
    pub(super) fn resource_changed(&self, uri: &str) {
        let mut state = self.state();
        state.changes += 1;
        state.forget_reads(|(known, _)| known.starts_with(uri) || uri.starts_with(known.as_str()));
    }

    /// Empties the cache, after another login or a restart by a person.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        *state = CacheState {
            changes: state.changes + 1,
            ..CacheState::default()
        };
    }
}

impl CacheState {
    fn forget_reads(&mut self, is_stale: impl Fn(&CachedReadKey) -> bool) {
        let Self {
            reads,
            order,
            bytes,
            ..
        } = self;
        order.retain(|key| {
            let stale = is_stale(key);
            if stale && let Some(read) = reads.remove(key) {
                *bytes -= read.result.as_bytes().len();
            }
            !stale
        });
    }
}
