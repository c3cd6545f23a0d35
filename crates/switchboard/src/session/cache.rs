//! What a modern server let us keep: lists and resources, for as long as it said and as long as
//! nothing changed.
//!
//! Belongs to the server and outlives its sessions. A hint is no promise and no interval: nothing
//! is asked again before it is needed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::caller::CallerId;
use crate::wire::RawJson;

/// No hint is followed for longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How many resources are kept, how large one may be, and all of them together.
const MAX_READS: usize = 256;
const MAX_READ_BYTES: usize = 1024 * 1024;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What is kept of one server. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cache(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Grows with everything that makes something stale: what was asked before and answered after
    /// is not kept.
    changes: u64,
    lists: HashMap<&'static str, List>,
    reads: HashMap<Key, Read>,
    /// Keys of `reads`, the oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

#[derive(Debug)]
struct List {
    items: Vec<RawJson>,
    until: Instant,
    /// The server says when it changes, and this session would have heard.
    is_watched: bool,
}

/// Which answer: the address, and for whom; `None` is for everybody.
type Key = (String, Option<CallerId>);

#[derive(Debug)]
struct Read {
    result: RawJson,
    until: Instant,
}

/// The moment before a question was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: Instant,
    changes: u64,
}

/// What a result says of how long and for whom it may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Hint {
    pub(super) ttl: Duration,
    is_public: bool,
}

impl Hint {
    /// Absent, negative or odd means: not at all.
    pub(super) fn of(result: &RawJson) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(default)]
            ttl_ms: Option<f64>,
            #[serde(borrow, default)]
            cache_scope: Option<std::borrow::Cow<'a, str>>,
        }
        // Most results have none, and some are large.
        if memchr::memmem::find(result.as_bytes(), b"\"ttlMs\"").is_none() {
            return Self::default();
        }
        let Ok(wire) = result.decode::<Wire<'_>>() else {
            return Self::default();
        };
        let ttl_ms = wire
            .ttl_ms
            .filter(|ttl| *ttl > 0.0)
            .unwrap_or_default()
            .min(LONGEST.as_millis() as f64);
        Self {
            ttl: Duration::from_millis(ttl_ms as u64),
            is_public: wire.cache_scope.as_deref() == Some("public"),
        }
    }
}

impl Cache {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is whole before anything in it could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be taken before asking, and given back with the answer.
    pub(super) fn asking(&self) -> Asked {
        Asked {
            at: Instant::now(),
            changes: self.kept().changes,
        }
    }

    /// A list that need not be asked for again.
    pub(super) fn list(&self, method: &'static str) -> Option<Vec<RawJson>> {
        let kept = self.kept();
        let list = kept.lists.get(method)?;
        (list.is_watched || Instant::now() < list.until).then(|| list.items.clone())
    }

    /// Keeps a list: for as long as its shortest-lived page, or until its server says that it
    /// changed.
    pub(super) fn keep_list(
        &self,
        asked: Asked,
        method: &'static str,
        items: &[RawJson],
        ttl: Duration,
        is_watched: bool,
    ) {
        let mut kept = self.kept();
        if kept.changes == asked.changes && (is_watched || !ttl.is_zero()) {
            kept.lists.insert(
                method,
                List {
                    items: items.to_vec(),
                    until: asked.at + ttl,
                    is_watched,
                },
            );
        }
    }

    /// A new session has not heard of what changed before it.
    pub(super) fn session_began(&self) {
        self.kept()
            .lists
            .values_mut()
            .for_each(|list| list.is_watched = false);
    }

    /// These lists have changed, or may have.
    pub(super) fn lists_changed(&self, methods: &[&str]) {
        let mut kept = self.kept();
        kept.changes += 1;
        methods
            .iter()
            .for_each(|method| drop(kept.lists.remove(*method)));
        if methods.contains(&"resources/list") {
            kept.forget_reads(|_| true);
        }
    }

    /// The answer to reading this address, for this caller.
    pub(super) fn read(&self, uri: &str, caller: &CallerId) -> Option<RawJson> {
        let mut kept = self.kept();
        if kept.reads.is_empty() {
            return None;
        }
        let now = Instant::now();
        for key in [
            (uri.to_owned(), None),
            (uri.to_owned(), Some(caller.clone())),
        ] {
            match kept.reads.get(&key) {
                Some(read) if now < read.until => return Some(read.result.clone()),
                Some(_) => kept.forget_reads(|(known, _)| known == uri),
                None => {}
            }
        }
        None
    }

    /// Keeps the answer to a reading that took no input.
    pub(super) fn keep_read(&self, asked: Asked, uri: &str, caller: &CallerId, result: &RawJson) {
        let hint = Hint::of(result);
        let bytes = result.as_bytes().len();
        if hint.ttl.is_zero() || bytes > MAX_READ_BYTES {
            return;
        }
        let mut kept = self.kept();
        if kept.changes != asked.changes {
            return;
        }
        let key = (uri.to_owned(), (!hint.is_public).then(|| caller.clone()));
        kept.forget_reads(|known| *known == key);
        while kept.order.len() >= MAX_READS || kept.bytes + bytes > MAX_BYTES {
            let Some(oldest) = kept.order.front().cloned() else {
                break;
            };
            kept.forget_reads(|known| *known == oldest);
        }
        kept.bytes += bytes;
        kept.order.push_back(key.clone());
        // A copy: the result may be a small part of a large message.
        let result = RawJson::keep(result.as_str());
        kept.reads.insert(
            key,
            Read {
                result,
                until: asked.at + hint.ttl,
            },
        );
    }

    /// A resource has changed; so have those that it is a part of, or that are parts of it.
    pub(super) fn resource_changed(&self, uri: &str) {
        let mut kept = self.kept();
        kept.changes += 1;
        kept.forget_reads(|(known, _)| known.starts_with(uri) || uri.starts_with(known.as_str()));
    }

    /// Nothing holds any more: another login, a restart that a person asked for.
    pub(crate) fn forget(&self) {
        let mut kept = self.kept();
        *kept = Kept {
            changes: kept.changes + 1,
            ..Kept::default()
        };
    }
}

impl Kept {
    fn forget_reads(&mut self, is_stale: impl Fn(&Key) -> bool) {
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
        cache.keep_read(cache.asking(), uri, &caller(of), &raw(result));
    }

    #[test]
    fn a_hint_is_read_as_the_specification_says() {
        let check = |result: &str, ttl_ms: u64, is_public: bool| {
            assert_eq!(
                Hint::of(&raw(result)),
                Hint {
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
        let asked = cache.asking();
        cache.resource_changed("file:///a");
        cache.keep_read(asked, "file:///a", &caller("one"), &raw(result));
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
        let kept = cache.kept();
        assert_eq!((kept.reads.len(), kept.order.len()), (MAX_READS, MAX_READS));
        assert_eq!(
            kept.bytes,
            kept.reads
                .values()
                .map(|read| read.result.as_bytes().len())
                .sum::<usize>()
        );
        assert_eq!(kept.order.front(), Some(&("r:10".to_owned(), None)));
        drop(kept);
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
                cache.asking(),
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
        cache.forget();
        assert_eq!(cache.list("tools/list"), None);
    }
}
