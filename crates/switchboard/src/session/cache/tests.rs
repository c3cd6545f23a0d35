//! Tests of what is cached, for whom and for how long.

#![allow(clippy::unwrap_used)]

use tokio::time::advance;

use super::*;

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn caller(name: &str) -> CallerId {
    CallerId::new(name)
}

fn store(cache: &Cache, uri: &str, of: &str, result: &str) {
    cache.store_read(cache.ticket(), uri, &caller(of), &raw(result));
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
async fn a_public_result_is_cached_for_every_caller_and_a_private_one_for_its_caller() {
    let cache = Cache::default();
    let (public, private) = (
        r#"{"ttlMs":1000,"cacheScope":"public"}"#,
        r#"{"ttlMs":1000,"cacheScope":"private"}"#,
    );
    store(&cache, "a", "one", public);
    store(&cache, "b", "one", private);
    store(&cache, "c", "one", r#"{"ttlMs":0,"cacheScope":"public"}"#);
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
async fn a_changed_resource_is_not_cached_even_if_its_result_was_in_flight() {
    let cache = Cache::default();
    let result = r#"{"ttlMs":1000,"cacheScope":"public"}"#;
    store(&cache, "file:///a", "one", result);
    store(&cache, "file:///b", "one", result);
    let ticket = cache.ticket();
    cache.resource_changed("file:///a");
    cache.store_read(ticket, "file:///a", &caller("one"), &raw(result));
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
async fn the_cache_is_bounded() {
    let cache = Cache::default();
    for number in 0..MAX_READS + 10 {
        store(
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
    store(&cache, "large", "one", &large);
    assert_eq!(cache.read("large", &caller("one")), None);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_cached_while_it_is_fresh_or_its_changes_are_reported() {
    let cache = Cache::default();
    let items = [raw("1"), raw("2")];
    let store = |ttl: u64, is_watched: bool| {
        cache.store_list(
            cache.ticket(),
            "tools/list",
            &items,
            Duration::from_millis(ttl),
            is_watched,
        );
    };
    store(0, false);
    assert_eq!(cache.list("tools/list"), None);
    store(1000, false);
    assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
    cache.session_began();
    assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
    advance(Duration::from_millis(1000)).await;
    assert_eq!(cache.list("tools/list"), None);
    store(0, true);
    assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
    cache.session_began();
    assert_eq!(cache.list("tools/list"), None);
    store(1000, true);
    cache.lists_changed(&["prompts/list"]);
    assert_eq!(cache.list("tools/list"), Some(items.to_vec()));
    cache.lists_changed(&["tools/list"]);
    assert_eq!(cache.list("tools/list"), None);
    store(1000, true);
    cache.clear();
    assert_eq!(cache.list("tools/list"), None);
}
