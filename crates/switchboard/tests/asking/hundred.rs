//! Tests of one hundred concurrent calls with questions, of two callers, over one shared server.

use std::sync::Arc;

use serde_json::json;
use switchboard::Host;
use switchboard::call::Call;
use switchboard::caller::Caller;
use switchboard::event::{Event, NextEvent};
use switchboard::wire::RawJson;
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::Scratch;
use tokio::task::JoinSet;

use crate::support::{TIMEOUT, YOLO, call, open, person, server};
use crate::ways::{
    HTTP_LEGACY, HTTP_LEGACY_GET, HTTP_MODERN, HTTP_SSE, Reached, STDIO_LEGACY, STDIO_MODERN, Way,
};

const CALLS: usize = 100;

/// What happened to the questions.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Calls whose question came to their caller and was answered.
    reached: usize,
    /// Calls whose question was answered with an error, since its caller was not certain.
    refused: usize,
    /// Questions that reached a caller who had not caused them.
    crossed: Vec<String>,
    /// Questions that the session counted as unattributed.
    counted: u64,
}

const ALL_REACHED: Outcome = Outcome {
    reached: CALLS,
    refused: 0,
    crossed: Vec::new(),
    counted: 0,
};

async fn host(scratch: &Scratch, reached: &Reached, asks: &str) -> Host {
    let entry = &reached.entry;
    open(
        scratch,
        &format!("{YOLO}[servers.demo]\n{entry}asks = \"{asks}\"\ncall_timeout = \"60s\"\n"),
    )
    .await
}

/// Makes the calls: each question names its call's subject, which names its caller.
async fn hundred(host: &Host) -> Outcome {
    let before = server(host).snapshot().deviations.deviations().unattributed;
    let people: Vec<Arc<TestCaller>> = ["ada", "bob"].map(|name| person(name).arc()).into();
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let (host, name) = (host.clone(), ["ada", "bob"][number % 2]);
        let who = people[number % 2].clone();
        calls.spawn(async move {
            let subject = format!("{name}-{number}");
            let text = call(&host, "demo/confirm", &json!({"subject": subject}), &who)
                .await
                .unwrap();
            (subject, text)
        });
    }
    let mut outcome = Outcome {
        reached: 0,
        refused: 0,
        crossed: Vec::new(),
        counted: 0,
    };
    for (subject, text) in calls.join_all().await {
        match text {
            text if text == format!("accepted: {subject} would be erased now") => {
                outcome.reached += 1
            }
            text if text.starts_with("the peer refused the question:") => outcome.refused += 1,
            text => outcome.crossed.push(text),
        }
    }
    for (person, name) in people.iter().zip(["ada", "bob"]) {
        let own = format!("Really erase {name}-");
        outcome.crossed.extend(
            person
                .lines()
                .into_iter()
                .filter(|question| !question.starts_with(&own)),
        );
    }
    let asked: usize = people.iter().map(|person| person.lines().len()).sum();
    assert_eq!(asked, outcome.reached, "each was asked once");
    outcome.counted = server(host).snapshot().deviations.deviations().unattributed - before;
    outcome
}

/// S3-20, first run: nothing is known of the server. Ambiguous questions are refused and counted;
/// from then on callers are serialised.
async fn learns(way: &Way) {
    let (scratch, reached) = (Scratch::new(), way.reach());
    let host = host(&scratch, &reached, "auto").await;
    let first = hundred(&host).await;
    if way.single_stream {
        assert_eq!(first.crossed, [""; 0], "{}", way.name);
        assert_eq!(
            (first.reached + first.refused, first.refused as u64),
            (CALLS, first.counted),
            "{}: {first:?}",
            way.name
        );
    } else {
        assert_eq!(first, ALL_REACHED, "{}", way.name);
    }
    let asks = server(&host).snapshot().session.as_ref().unwrap().asks();
    assert_eq!(
        asks, way.single_stream,
        "{}: turns are for wires that do not say whose a question is",
        way.name
    );
    assert_eq!(
        hundred(&host).await,
        ALL_REACHED,
        "{}: it is known by now",
        way.name
    );
    host.stop().await;
}

/// S3-20, the worst first run: a call of a third caller is in flight throughout, so that no
/// question's caller is certain. Each is refused with the reason and counted, and reaches nobody.
async fn cannot_tell(way: &Way) {
    let (scratch, reached) = (Scratch::new(), way.reach());
    let host = host(&scratch, &reached, "auto").await;
    let mut events = host.events();
    let eve = person("eve").arc();
    let (calling, who) = (host.clone(), eve.clone());
    let under_way = tokio::spawn(async move {
        let arguments = RawJson::from_value(&json!({"seconds": 600, "steps": 60000}));
        calling
            .call_with(Call::new("demo/slow", arguments).caller(who as Arc<dyn Caller>))
            .await
            .map(|_| ())
    });
    tokio::time::timeout(TIMEOUT, eve.until(|seen| !seen.progress.is_empty()))
        .await
        .expect("it is under way");

    let nobodys = Outcome {
        reached: 0,
        refused: CALLS,
        crossed: Vec::new(),
        counted: CALLS as u64,
    };
    assert_eq!(hundred(&host).await, nobodys, "{}", way.name);
    assert_eq!(
        eve.lines(),
        [""; 0],
        "{}: nor was it guessed that they were hers",
        way.name
    );
    assert!(!under_way.is_finished(), "{}", way.name);

    let expected = "calls of several callers are in flight, and this transport does not show which call it belongs to";
    let mut message = 0;
    while message < CALLS {
        match tokio::time::timeout(TIMEOUT, events.next())
            .await
            .expect("each is told")
            .unwrap()
        {
            NextEvent::Event(Event::QuestionDeclined { reason, .. }) if reason == expected => {
                message += 1
            }
            NextEvent::Event(_) => {}
            missed => panic!("{}: {missed:?}", way.name),
        }
    }
    under_way.abort();
    host.stop().await;
}

/// S3-20, with `asks = "yes"`: every question reaches its caller.
async fn knows(way: &Way) {
    let (scratch, reached) = (Scratch::new(), way.reach());
    let host = host(&scratch, &reached, "yes").await;
    assert_eq!(hundred(&host).await, ALL_REACHED, "{}", way.name);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_stdio_legacy_the_first_questions_make_callers_serialised() {
    learns(&STDIO_LEGACY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_stdio_legacy_a_hundred_ambiguous_questions_are_refused_and_counted() {
    cannot_tell(&STDIO_LEGACY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_stdio_legacy_a_hundred_questions_reach_their_callers() {
    knows(&STDIO_LEGACY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_stdio_modern_a_hundred_calls_are_not_serialised() {
    learns(&STDIO_MODERN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_stdio_modern_a_hundred_questions_reach_their_callers() {
    knows(&STDIO_MODERN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_legacy_a_hundred_calls_are_not_serialised() {
    learns(&HTTP_LEGACY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_legacy_a_hundred_questions_reach_their_callers() {
    knows(&HTTP_LEGACY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_legacy_get_the_first_questions_make_callers_serialised() {
    learns(&HTTP_LEGACY_GET).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_legacy_get_a_hundred_ambiguous_questions_are_refused_and_counted() {
    cannot_tell(&HTTP_LEGACY_GET).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_legacy_get_a_hundred_questions_reach_their_callers() {
    knows(&HTTP_LEGACY_GET).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_modern_a_hundred_calls_are_not_serialised() {
    learns(&HTTP_MODERN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_modern_a_hundred_questions_reach_their_callers() {
    knows(&HTTP_MODERN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_sse_the_first_questions_make_callers_serialised() {
    learns(&HTTP_SSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_sse_a_hundred_ambiguous_questions_are_refused_and_counted() {
    cannot_tell(&HTTP_SSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_20_http_sse_a_hundred_questions_reach_their_callers() {
    knows(&HTTP_SSE).await;
}

/// One hundred concurrent callers, two rounds each, with a state that the server seals to its call:
/// none is returned on another's call.
async fn keeps_states_apart(way: &Way) {
    let (scratch, reached) = (Scratch::new(), way.reach());
    let host = host(&scratch, &reached, "auto").await;
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let host = host.clone();
        calls.spawn(async move {
            let who = person(&format!("caller-{number}")).arc();
            let text = call(&host, "demo/ask_twice", &json!({}), &who)
                .await
                .unwrap();
            let came = who.lines();
            assert_eq!(text, format!("pleased to meet you, caller-{number}"));
            assert_eq!(
                came,
                [
                    "What is your name?".to_owned(),
                    format!("Is \"caller-{number}\" really your name?")
                ]
            );
        });
    }
    calls.join_all().await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stdio_modern_a_hundred_parallel_calls_never_mix_their_states() {
    keeps_states_apart(&STDIO_MODERN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_modern_a_hundred_parallel_calls_never_mix_their_states() {
    keeps_states_apart(&HTTP_MODERN).await;
}
