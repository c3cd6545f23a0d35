//! Which HTTP requests are admitted, and HTTP+SSE (2024-11-05).
#![allow(clippy::unwrap_used)]

mod web;

use reqwest::Method;
use serde_json::{Value, json};
use switchboard_demo::http::HttpOptions;
use web::{Events, Reply, Web, initialize, request};

#[tokio::test]
async fn foreign_origins_and_foreign_host_names_are_refused() {
    let options = HttpOptions {
        origins: vec!["https://friend.example".to_owned()],
        ..HttpOptions::default()
    };
    let web = Web::start(options).await;
    for (header, value, status) in [
        ("origin", "http://localhost:3000", 200),
        ("origin", "https://127.0.0.1", 200),
        ("origin", "https://friend.example", 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://localhost.evil.example", 403),
        ("host", "localhost", 200),
        ("host", "evil.example", 403),
    ] {
        assert_eq!(
            web.post(&[(header, value)], &initialize("2025-11-25"))
                .await
                .status,
            status,
            "{header}: {value}"
        );
    }
}

#[tokio::test]
async fn requests_without_the_token_are_refused() {
    let web = Web::start(HttpOptions {
        token: Some("open sesame".to_owned()),
        ..HttpOptions::default()
    })
    .await;
    for (authorization, status, challenge) in [
        ("", 401, r#"Bearer realm="switchboard-demo""#),
        ("Basic b3Blbg==", 401, r#"Bearer realm="switchboard-demo""#),
        (
            "Bearer open",
            401,
            r#"Bearer realm="switchboard-demo", error="invalid_token""#,
        ),
        ("bearer open sesame", 200, ""),
    ] {
        let reply = web
            .post(
                &[("authorization", authorization)],
                &initialize("2025-11-25"),
            )
            .await;
        assert_eq!(
            (reply.status, reply.header("www-authenticate")),
            (status, challenge),
            "{authorization}"
        );
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let web = Web::start(HttpOptions::default()).await;
    let base = format!("http://{}", web.edge.address());
    for (method, path, status) in [
        (Method::GET, "/", 404),
        (Method::PUT, "/mcp", 405),
        (Method::POST, "/sse", 405),
        (Method::GET, "/message", 405),
        (Method::POST, "/message", 404),
        (Method::POST, "/message?sessionId=nobody", 404),
    ] {
        let response = web
            .send(method.clone(), &format!("{base}{path}"), &[], None)
            .await;
        assert_eq!(response.status(), status, "{method} {path}");
    }
}

#[tokio::test]
async fn http_sse_answers_everything_on_one_stream_and_ends_with_it() {
    let web = Web::start(HttpOptions::default()).await;
    let mut events = Events::of(web.send(Method::GET, &web.edge.sse_url(), &[], None).await);
    let endpoint = events.next().await.unwrap();
    assert_eq!(endpoint.event.as_deref(), Some("endpoint"));
    let url = format!("http://{}{}", web.edge.address(), endpoint.data.unwrap());
    let post = async |message: Value| {
        let reply = Reply::read(
            web.send(Method::POST, &url, &[], Some(message.to_string()))
                .await,
        )
        .await;
        assert_eq!((reply.status, reply.text.as_str()), (202, "Accepted"));
    };
    post(initialize("2024-11-05")).await;
    let (id, answer) = events.message().await;
    assert_eq!(
        (id, answer["result"]["protocolVersion"].as_str()),
        (None, Some("2024-11-05"))
    );
    // HTTP+SSE has no modern revision, and answers as a legacy server does.
    post(web::modern(1, "server/discover", json!({}))).await;
    assert_eq!(events.message().await.1["error"]["code"], -32601);
    post(request(
        json!(2),
        "resources/subscribe",
        json!({"uri": "demo://counter"}),
    ))
    .await;
    assert_eq!(
        events.message().await.1,
        json!({"jsonrpc": "2.0", "id": 2, "result": {}})
    );
    post(request(json!(3), "tools/call", json!({"name": "count_up"}))).await;
    assert_eq!(
        events.message().await.1["method"],
        "notifications/resources/updated"
    );
    assert_eq!(events.message().await.1["id"], 3);

    web.edge.break_streams();
    assert!(events.has_ended().await);
    drop(events);
    while web.edge.counts().sessions > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        web.send(Method::POST, &url, &[], Some("{}".to_owned()))
            .await
            .status(),
        404
    );
}
