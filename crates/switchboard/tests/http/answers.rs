//! Tests of responses: batches, error statuses, invalid bodies.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::session::RequestFault;
use switchboard::transport::TransportFault;

use crate::support::*;

fn status(status: u16, line: &str, retry_after: Option<Duration>) -> Result<Value, RequestFault> {
    Err(RequestFault::Transport(TransportFault::Status {
        status,
        detail: line.to_owned(),
        retry_after,
        error: None,
    }))
}

/// Checks what a modern session makes of a whole response.
async fn check(response: &str, expected: Result<Value, RequestFault>) {
    let (session, mut peer) = modern().await;
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    let response = response.replace("{id}", &asked.body["id"].to_string());
    let (head, body) = response.split_once("\n\n").unwrap();
    asked.raw(&format!(
        "HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{body}",
        head.replace('\n', "\r\n"),
        body.len()
    ));
    assert_eq!(outcome(reading).await, expected, "{response}");
}

#[tokio::test]
async fn a_batch_may_contain_the_response_and_notifications() {
    let body =
        json!([{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}]).to_string();
    let batch = body.replace('[', "[ ").replace(
        ']',
        r#",{"jsonrpc":"2.0","id":{id},"result":{"contents":[{"uri":"a:b","text":"hi"}]}}]"#,
    );
    check(
        &format!("200 OK\nContent-Type: application/json; charset=utf-8\n\n{batch}"),
        seen("hi"),
    )
    .await;
}

#[tokio::test]
async fn a_body_may_begin_with_a_byte_order_mark() {
    let body = r#"{"jsonrpc":"2.0","id":{id},"result":{"contents":[{"uri":"a:b","text":"hi"}]}}"#;
    let head = "200 OK\nContent-Type: application/json";
    check(&format!("{head}\n\n\u{feff}{body}"), seen("hi")).await;
}

#[tokio::test]
async fn f22_retry_after_is_reported() {
    let line = ": come back later; retry after 7 s";
    check(
        "503 Busy\nRetry-After: 7\n\ncome back later",
        status(503, line, Some(Duration::from_secs(7))),
    )
    .await;
    let line = "; retry after 3600 s";
    check(
        "429 Slow Down\nRetry-After: 999999999\n\n",
        status(429, line, Some(Duration::from_secs(3600))),
    )
    .await;
}

#[tokio::test]
async fn f23_an_error_status_is_reported_with_the_start_of_its_body() {
    check(
        "500 Oh\nContent-Type: text/html\n\n<h1>Oh\u{1b}[2J</h1>\n",
        status(500, ": <h1>Oh\\u{1b}[2J</h1>", None),
    )
    .await;
    check("502 Bad\n\n", status(502, "", None)).await;
    let long = "x".repeat(5000);
    check(
        &format!("500 Oh\n\n{long}"),
        status(500, &format!(": {}…", "x".repeat(1024)), None),
    )
    .await;
}

#[tokio::test]
async fn f23_a_json_rpc_error_counts_whatever_the_status() {
    let answered = || {
        Err(RequestFault::ErrorResponse {
            code: -32002,
            message: "no such thing".to_owned(),
            data: None,
        })
    };
    let error = r#""error":{"code":-32002,"message":"no such thing"}"#;
    check(&format!("400 Bad\nContent-Type: application/json\n\n{{\"jsonrpc\":\"2.0\",\"id\":{{id}},{error}}}"), answered()).await;
    check(
        &format!(
            "500 Oh\nContent-Type: application/json\n\n{{\"jsonrpc\":\"2.0\",\"id\":null,{error}}}"
        ),
        answered(),
    )
    .await;
    check(
        &format!(
            "200 OK\nContent-Type: application/json\n\n{{\"jsonrpc\":\"2.0\",\"id\":null,{error}}}"
        ),
        answered(),
    )
    .await;
}

#[tokio::test]
async fn f23_a_body_that_is_not_a_message_is_reported() {
    let line = ": answered with text/html instead of JSON or events: <title>Login</title> (is this the URL of an MCP endpoint?)";
    check(
        "200 OK\nContent-Type: text/html\n\n<title>Login</title>",
        status(200, line, None),
    )
    .await;
    check(
        "202 Accepted\n\n",
        status(
            202,
            ": the server accepted the request and sent no response",
            None,
        ),
    )
    .await;
    check(
        "200 OK\nContent-Type: application/json\n\n",
        status(
            200,
            ": the server accepted the request and sent no response",
            None,
        ),
    )
    .await;
    for (body, fact) in [
        ("{oops", "is not a JSON-RPC message: \"{oops\""),
        (r#"{"id":999,"result":{}}"#, "does not answer the request"),
    ] {
        let (session, mut peer) = modern().await;
        let reading = read(&session, "a:b");
        peer.expect("resources/read").await.status_with(
            200,
            "Content-Type: application/json\r\n",
            body,
        );
        let expected =
            TransportFault::Lost(format!("the response from 127.0.0.1:{} {fact}", peer.port));
        assert_eq!(
            outcome(reading).await,
            Err(RequestFault::Transport(expected))
        );
    }
}
