//! Lists and resources that a server allowed us to cache, for as long as it said and as long as
//! nothing changed.
//!
//! Belongs to the server and outlives its sessions. Nothing is requested again before it is needed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::caller::CallerId;
use crate::sync::lock;
use crate::wire::RawJson;

/// The longest lifetime.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How many resources are cached, how large one may be, and all of them together.
const MAX_READS: usize = 256;
const MAX_READ_BYTES: usize = 1024 * 1024;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The cache of one server. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cache(Arc<Mutex<CacheState>>);

#[derive(Debug, Default)]
struct CacheState {
    /// Grows with each change: what was requested before a change and answered after it is not
    /// cached.
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
    /// The server reports changes, and this session would have received them.
    is_watched: bool,
}

/// The address, and for whom; `None` is for everybody.
type CachedReadKey = (String, Option<CallerId>);

#[derive(Debug)]
struct CachedRead {
    result: RawJson,
    until: Instant,
}

/// The moment before a request was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheTicket {
    at: Instant,
    changes: u64,
}

/// What a result says of how long and for whom it may be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CacheHint {
    pub(super) ttl: Duration,
    is_public: bool,
}

impl CacheHint {
    /// Absent, negative or malformed means: not at all.
    pub(super) fn of(result: &RawJson) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CacheFields<'a> {
            #[serde(default)]
            ttl_ms: Option<f64>,
            #[serde(borrow, default)]
            cache_scope: Option<std::borrow::Cow<'a, str>>,
        }
        // Most results have none, and some are large.
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
            .min(LONGEST.as_millis() as f64);
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

    /// To be taken before the request, and given back with the result.
    pub(super) fn ticket(&self) -> CacheTicket {
        CacheTicket {
            at: Instant::now(),
            changes: self.state().changes,
        }
    }

    /// A list that need not be requested again.
    pub(super) fn list(&self, method: &'static str) -> Option<Vec<RawJson>> {
        let state = self.state();
        let list = state.lists.get(method)?;
        (list.is_watched || Instant::now() < list.until).then(|| list.items.clone())
    }

    /// Caches a list: for as long as its shortest-lived page, or until the server reports a change.
    pub(super) fn keep_list(
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

    /// A new session has missed the changes before it.
    pub(super) fn session_began(&self) {
        self.state()
            .lists
            .values_mut()
            .for_each(|list| list.is_watched = false);
    }

    /// These lists have changed, or may have.
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

    /// The cached result of reading this address, for this caller.
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

    /// Caches the result of a read that took no input.
    pub(super) fn keep_read(
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
        // A copy: the result may be a small part of a large message.
        let result = RawJson::keep(result.as_str());
        state.reads.insert(
            key,
            CachedRead {
                result,
                until: ticket.at + hint.ttl,
            },
        );
    }

    /// A resource has changed; so have those that it is a part of, or that are parts of it.
    pub(super) fn resource_changed(&self, uri: &str) {
        let mut state = self.state();
        state.changes += 1;
        state.forget_reads(|(known, _)| known.starts_with(uri) || uri.starts_with(known.as_str()));
    }

    /// Empties the cache: another login, or a restart that a person ticket for.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::time::advance;

    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).unwrap()
    }

    fn caller(name: &str) -> CallerId {
        CallerId::new(name)
    }

    fn keep(cache: &Cache, uri: &str, of: &str, result: &str) {
        cache.keep_read(cache.ticket(), uri, &caller(of), &raw(result));
    }

    #[test]
    fn a_hint_is_read_as_the_specification_says() {
        let check = |result: &str, ttl_ms: u64, is_public: bool| {
            assert_eq!(
                CacheHint::of(&raw(result)),
                CacheHint {
                    ttl: Duration::from_millis(ttl_ms),
                    is_public
                },
                "{result}"
            );
        };
        check(r#"{"contents":[]}"#, 0, false);
        check(r#"{"ttlMs":1500,"cacheScope":"public"}"#, 1500, true);
        check(r#"{"ttlMs":1500,"cacheScope":"private"}"#, 1500, false);
        check(r#"{"ttlMs":1500}"#, 1500, false);
        check(r#"{"ttlMs":-1,"cacheScope":"public"}"#, 0, true);
        check(r#"{"ttlMs":1e300}"#, 86_400_000, false);
        check(r#"{"ttlMs":"soon"}"#, 0, false);
        check(r#"{"contents":[{"ttlMs":5}]}"#, 0, false);
    }

    #[tokio::test(start_paused = true)]
    async fn a_public_answer_serves_everybody_and_a_private_one_its_caller_until_it_is_stale() {
        let cache = Cache::default();
        let (public, private) = (
            r#"{"ttlMs":1000,"cacheScope":"public"}"#,
            r#"{"ttlMs":1000,"cacheScope":"private"}"#,
        );
        keep(&cache, "a", "one", public);
        keep(&cache, "b", "one", private);
        keep(&cache, "c", "one", r#"{"ttlMs":0,"cacheScope":"public"}"#);
        assert_eq!(cache.read("a", &caller("two")), Some(raw(public)));
        assert_eq!(
            (
                cache.read("b", &caller("one")),
                cache.read("b", &caller("two"))
            ),
            (Some(raw(private)), None)
        );
        assert_eq!(cache.read("c", &caller("one")), None);
        advance(Duration::from_millis(1000)).await;
        assert_eq!(
            (
                cache.read("a", &caller("one")),
                cache.read("b", &caller("one"))
            ),
            (None, None)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_changed_is_not_kept_not_even_when_its_answer_is_on_the_way() {
        let cache = Cache::default();
        let result = r#"{"ttlMs":1000,"cacheScope":"public"}"#;
        keep(&cache, "file:///a", "one", result);
        keep(&cache, "file:///b", "one", result);
        let ticket = cache.ticket();
        cache.resource_changed("file:///a");
        cache.keep_read(ticket, "file:///a", &caller("one"), &raw(result));
        assert_eq!(
            (
                cache.read("file:///a", &caller("one")),
                cache.read("file:///b", &caller("one"))
            ),
            (None, Some(raw(result)))
        );
        cache.lists_changed(&["resources/list", "resources/templates/list"]);
        assert_eq!(cache.read("file:///b", &caller("one")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded() {
        let cache = Cache::default();
        for number in 0..MAX_READS + 10 {
            keep(
                &cache,
                &format!("r:{number}"),
                "one",
                r#"{"ttlMs":1000,"cacheScope":"public"}"#,
            );
        }
        let state = cache.state();
        assert_eq!(
            (state.reads.len(), state.order.len()),
            (MAX_READS, MAX_READS)
        );
        assert_eq!(
            state.bytes,
            state
                .reads
                .values()
                .map(|read| read.result.as_bytes().len())
                .sum::<usize>()
        );
        assert_eq!(state.order.front(), Some(&("r:10".to_owned(), None)));
        drop(state);
        let large = format!(
            r#"{{"ttlMs":1000,"text":"{}"}}"#,
            "x".repeat(MAX_READ_BYTES)
        );
        keep(&cache, "large", "one", &large);
        assert_eq!(cache.read("large", &caller("one")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_kept_while_it_is_fresh_or_watched() {
        let cache = Cache::default();
        let items = [raw("1"), raw("2")];
        let keep = |ttl: u64, is_watched: bool| {
            cache.keep_list(
                cache.ticket(),
                "tools/list",
                &items,
                Duration::from_millis(ttl),
                is_watched,
            );
        };
        keep(0, false);
        assert_eq!(cache.list("tools/list"), None);
        keep(1000, false);
        assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
        cache.session_began();
        assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
        advance(Duration::from_millis(1000)).await;
        assert_eq!(cache.list("tools/list"), None);
        keep(0, true);
        assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
        cache.session_began();
        assert_eq!(cache.list("tools/list"), None);
        keep(1000, true);
        cache.lists_changed(&["prompts/list"]);
        assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
        cache.lists_changed(&["tools/list"]);
        assert_eq!(cache.list("tools/list"), None);
        keep(1000, true);
        cache.clear();
        assert_eq!(cache.list("tools/list"), None);
    }
}
