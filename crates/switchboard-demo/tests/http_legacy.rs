//! Streamable HTTP in its legacy revisions: sessions, streams, resuming.
#![allow(clippy::unwrap_used)]

mod web;

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_demo::http::{Answers, HttpOptions, Questions};
use web::{Event, Web, call, initialize, request};

const LATEST: &str = "2025-11-25";

fn echoed(id: u64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": message}]}})
}

#[tokio::test]
async fn a_session_is_begun_named_and_ended() {
    let mut web = Web::start(HttpOptions::default()).await;
    let mut seen = HashSet::new();
    for _ in 0..20 {
        let session = web.begin(LATEST).await;
        assert!(
            session.len() >= 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{session}"
        );
        assert!(seen.insert(session));
    }
    assert_eq!(
        web.post(
            &[],
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
        )
        .await
        .status,
        202
    );
    let reply = web
        .post(&[], &call(1, "echo", json!({"message": "hi"})))
        .await;
    assert_eq!(
        (reply.header("content-type"), reply.json()),
        ("application/json", echoed(1, "hi"))
    );

    let ping = request(json!(2), "ping", json!({}));
    assert_eq!(
        web.post(&[("mcp-session-id", "")], &ping).await.refusal(),
        (400, -32000, Value::Null)
    );
    assert_eq!(
        web.post(&[("mcp-session-id", "nobody")], &ping)
            .await
            .refusal(),
        (404, -32001, Value::Null)
    );
    assert_eq!(web.delete().await.status, 202);
    assert_eq!(
        web.post(&[], &ping).await.refusal(),
        (404, -32001, Value::Null)
    );
    assert_eq!(web.get(&[]).await.refusal(), (404, -32001, Value::Null));
    assert_eq!(web.delete().await.refusal(), (404, -32001, Value::Null));
}

#[tokio::test]
async fn the_revision_in_the_header_must_be_the_one_agreed_on() {
    let web = Web::legacy("2025-06-18", HttpOptions::default()).await;
    let ping = request(json!(1), "ping", json!({}));
    for (version, status) in [
        ("", 200),
        ("2025-06-18", 200),
        ("2025-11-25", 400),
        ("1999-01-01", 400),
    ] {
        assert_eq!(
            web.post(&[("mcp-protocol-version", version)], &ping)
                .await
                .status,
            status,
            "{version}"
        );
    }
}

#[tokio::test]
async fn bodies_that_are_no_message_or_of_another_kind_are_refused() {
    let options = HttpOptions {
        max_body_bytes: 1000,
        ..HttpOptions::default()
    };
    let web = Web::legacy(LATEST, options).await;
    let url = web.edge.url();
    let ping = request(json!(1), "ping", json!({}));
    for (text, status) in [("{", 400), ("{}", 400), (&*"x".repeat(1001), 413)] {
        let response = web
            .send(reqwest::Method::POST, &url, &[], Some(text.to_owned()))
            .await;
        assert_eq!(response.status(), status, "{text}");
    }
    assert_eq!(
        web.post(&[("content-type", "text/plain")], &ping)
            .await
            .status,
        415
    );
    assert_eq!(
        web.post(
            &[("content-type", "application/json; charset=utf-8")],
            &ping
        )
        .await
        .status,
        200
    );
    assert_eq!(
        web.post(&[("accept", "application/json")], &ping)
            .await
            .status,
        406
    );
    assert_eq!(web.post(&[("accept", "*/*")], &ping).await.status, 200);
    assert_eq!(web.get(&[("accept", "application/json")]).await.status, 406);
    let unknown = request(json!(9), "no/such", json!({}));
    assert_eq!(
        web.post(&[], &unknown).await.refusal(),
        (200, -32601, json!(9))
    );
}

#[tokio::test]
async fn quick_answers_are_streams_if_configured() {
    let web = Web::legacy(
        LATEST,
        HttpOptions {
            answers: Answers::Sse,
            ..HttpOptions::default()
        },
    )
    .await;
    let mut events = web
        .post_stream(&[], &call(1, "echo", json!({"message": "hi"})))
        .await;
    assert_eq!(events.message().await.1, echoed(1, "hi"));
    assert!(events.has_ended().await);
}

#[tokio::test]
async fn a_call_that_takes_time_is_a_stream_with_ids_that_ends_with_the_answer() {
    let web = Web::legacy(
        LATEST,
        HttpOptions {
            retry: Duration::from_millis(7),
            ..HttpOptions::default()
        },
    )
    .await;
    let mut events = web
        .post_stream(&[], &call(5, "slow", json!({"seconds": 0.01, "steps": 1})))
        .await;
    let priming = Event {
        id: Some("1-0".to_owned()),
        retry: Some(7),
        data: Some(String::new()),
        ..Event::default()
    };
    assert_eq!(events.next().await, Some(priming));
    let params = json!({"progressToken": 5, "progress": 1, "total": 1, "message": "step 1 of 1"});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    assert_eq!(events.message().await, (Some("1-1".to_owned()), progress));
    assert_eq!(
        events.message().await,
        (
            Some("1-2".to_owned()),
            echoed(5, "worked for 0.01 s in 1 steps")
        )
    );
    assert!(events.has_ended().await);
}

#[tokio::test]
async fn a_log_line_before_a_quick_answer_makes_it_a_stream() {
    let web = Web::legacy(LATEST, HttpOptions::default()).await;
    let mut events = web
        .post_stream(
            &[],
            &call(1, "log", json!({"level": "error", "message": "oh"})),
        )
        .await;
    assert_eq!(events.message().await.1["method"], "notifications/message");
    assert_eq!(
        events.message().await.1,
        echoed(1, "1 of 1 messages were sent")
    );
}

#[tokio::test]
async fn a_lost_connection_is_no_cancellation_and_the_stream_is_resumed() {
    let web = Web::legacy(LATEST, HttpOptions::default()).await;
    let mut events = web
        .post_stream(&[], &call(1, "hang_up", json!({"seconds": 0.02})))
        .await;
    assert_eq!(events.next().await.unwrap().id.as_deref(), Some("1-0"));
    assert!(events.has_ended().await);
    for _ in 0..2 {
        // Events that were sent can be requested again by a client that missed them.
        let mut resumed = web.get_stream(&[("last-event-id", "1-0")]).await;
        assert_eq!(
            resumed.message().await,
            (
                Some("1-1".to_owned()),
                echoed(1, "answered after hanging up")
            )
        );
        assert!(resumed.has_ended().await);
    }
    assert!(
        web.get_stream(&[("last-event-id", "1-1")])
            .await
            .next()
            .await
            .unwrap()
            .data
            .is_none()
    );
    for unknown in ["2-0", "x", "1"] {
        assert_eq!(
            web.get(&[("last-event-id", unknown)]).await.refusal(),
            (400, -32000, Value::Null),
            "{unknown}"
        );
    }
}

#[tokio::test]
async fn broken_streams_are_resumed_where_they_broke_with_their_own_messages_only() {
    let web = Web::legacy(LATEST, HttpOptions::default()).await;
    let mut shared = web.get_stream(&[]).await;
    let mut slow = web
        .post_stream(&[], &call(1, "confirm", json!({"subject": "it"})))
        .await;
    assert_eq!(shared.next().await.unwrap().id.as_deref(), Some("0-0"));
    let (id, question) = slow.message().await;
    assert_eq!(
        (id.as_deref(), question["method"].as_str()),
        (Some("1-1"), Some("elicitation/create"))
    );
    web.edge.break_streams();
    assert!(shared.has_ended().await && slow.has_ended().await);

    web.post(
        &[],
        &request(
            json!(2),
            "resources/subscribe",
            json!({"uri": "demo://counter"}),
        ),
    )
    .await;
    web.post(&[], &call(3, "count_up", json!({}))).await;
    web.post(
        &[],
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}),
    )
    .await;
    let mut shared = web.get_stream(&[("last-event-id", "0-0")]).await;
    let mut slow = web.get_stream(&[("last-event-id", "1-1")]).await;
    assert_eq!(
        slow.message().await,
        (Some("1-2".to_owned()), echoed(1, "declined: it stays"))
    );
    let (id, update) = shared.message().await;
    assert_eq!(
        (id.as_deref(), update["method"].as_str()),
        (Some("0-1"), Some("notifications/resources/updated"))
    );
}

#[tokio::test]
async fn a_cancelled_call_ends_its_stream_without_an_answer() {
    let web = Web::legacy(LATEST, HttpOptions::default()).await;
    let mut events = web
        .post_stream(&[], &call(1, "slow", json!({"seconds": 3000})))
        .await;
    events.next().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "enough"}});
    assert_eq!(web.post(&[], &cancel).await.status, 202);
    assert!(events.has_ended().await);
}

#[tokio::test]
async fn a_question_comes_on_the_stream_of_its_call_or_on_the_shared_one() {
    for questions in [Questions::Post, Questions::Get] {
        let web = Web::legacy(
            LATEST,
            HttpOptions {
                questions,
                ..HttpOptions::default()
            },
        )
        .await;
        let mut shared = web.get_stream(&[]).await;
        let mut events = web
            .post_stream(&[], &call(1, "ask_model", json!({"prompt": "well?"})))
            .await;
        let asking = if questions == Questions::Post {
            &mut events
        } else {
            &mut shared
        };
        let (_, question) = asking.message().await;
        let message = json!({"role": "user", "content": {"type": "text", "text": "well?"}});
        let params = json!({"messages": [message], "maxTokens": 200});
        let asked = json!({"jsonrpc": "2.0", "id": question["id"], "method": "sampling/createMessage", "params": params});
        assert_eq!(question, asked);
        let said =
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "fine"}});
        assert_eq!(
            web.post(
                &[],
                &json!({"jsonrpc": "2.0", "id": question["id"], "result": said})
            )
            .await
            .status,
            202
        );
        assert_eq!(events.message().await.1, echoed(1, "m said: fine"));
    }
}

#[tokio::test]
async fn the_next_get_takes_the_shared_stream_over() {
    let web = Web::legacy("2025-03-26", HttpOptions::default()).await;
    let mut first = web.get_stream(&[]).await;
    assert_eq!(
        first.next().await.unwrap(),
        Event {
            retry: Some(500),
            ..Event::default()
        }
    );
    let mut second = web.get_stream(&[]).await;
    assert!(first.has_ended().await);
    web.post(&[], &call(1, "toggle_tool", json!({}))).await;
    assert_eq!(
        second.message().await.1["method"],
        "notifications/tools/list_changed"
    );
}

#[tokio::test]
async fn an_idle_stream_sends_keep_alives() {
    let web = Web::legacy(
        LATEST,
        HttpOptions {
            keep_alive: Duration::from_millis(5),
            ..HttpOptions::default()
        },
    )
    .await;
    let mut shared = web.get_stream(&[]).await;
    shared.next().await;
    assert_eq!(
        shared.next().await,
        Some(Event {
            comment: true,
            ..Event::default()
        })
    );
}

#[tokio::test]
async fn a_batch_is_answered_by_one_array_where_the_revision_has_them() {
    let web = Web::legacy("2025-03-26", HttpOptions::default()).await;
    let batch = json!([
        call(1, "echo", json!({"message": "a"})),
        call(2, "echo", json!({"message": "b"}))
    ]);
    assert_eq!(
        web.post(&[], &batch).await.json(),
        json!([echoed(1, "a"), echoed(2, "b")])
    );
    assert_eq!(
        web.post(
            &[],
            &json!([{"jsonrpc": "2.0", "method": "notifications/x"}])
        )
        .await
        .status,
        202
    );
    let web = Web::legacy(LATEST, HttpOptions::default()).await;
    assert_eq!(web.post(&[], &batch).await.refusal().1, -32600);
}

#[tokio::test]
async fn beyond_the_limit_the_least_recently_used_session_is_dropped() {
    let mut web = Web::start(HttpOptions {
        max_sessions: 2,
        ..HttpOptions::default()
    })
    .await;
    let ping = request(json!(1), "ping", json!({}));
    let (first, second) = (web.begin(LATEST).await, web.begin(LATEST).await);
    assert_eq!(
        web.post(&[("mcp-session-id", &first)], &ping).await.status,
        200
    );
    let third = web.begin(LATEST).await;
    for (session, status) in [(first, 200), (second, 404), (third, 200)] {
        assert_eq!(
            web.post(&[("mcp-session-id", &session)], &ping)
                .await
                .status,
            status
        );
    }
    assert_eq!(web.edge.counts().sessions, 2);
    web.edge.forget_sessions();
    assert_eq!(web.edge.counts().sessions, 0);
}

#[tokio::test]
async fn a_modern_only_server_has_neither_sessions_nor_get_nor_delete() {
    let web = Web::with(
        switchboard_demo::options::Eras::Modern,
        HttpOptions::default(),
    )
    .await;
    let reply = web.get(&[]).await;
    assert_eq!((reply.status, reply.header("allow")), (405, "POST"));
    assert_eq!(web.delete().await.status, 405);
    let reply = web.post(&[], &initialize(LATEST)).await;
    assert_eq!(
        (reply.refusal(), reply.header("mcp-session-id")),
        ((400, -32022, json!("init")), "")
    );
}
