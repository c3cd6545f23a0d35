//! Tests of which requests to the callback address belong to a login.

#![allow(clippy::unwrap_used)]
use super::*;

async fn send(redirect: &str, request: &str) -> String {
    let authority = redirect
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix(PATH)
        .unwrap();
    let mut stream = TcpStream::connect(authority).await.unwrap();
    let request = request.replace("AUTHORITY", authority);
    // The refusal of a long request may arrive before the request was sent completely.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n")
}

/// T18: a wrong state, a wrong path, another host name, a megabyte or a silent connection is not a
/// response, and none prevents the response, which is accepted once.
#[tokio::test]
async fn t18_only_the_exact_path_with_the_exact_state_counts_and_only_once() {
    let callback = CallbackListener::bind(None).await.unwrap();
    let redirect = callback.redirect.clone();
    assert!(callback.listener.local_addr().unwrap().ip().is_loopback());
    let waiting = tokio::spawn(async move { callback.answer("right").await });

    let authority = redirect
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix(PATH)
        .unwrap()
        .to_owned();
    let _silent = TcpStream::connect(&authority).await.unwrap();
    let refused = [
        (
            get("/callback?code=c&state=wrong"),
            "HTTP/1.1 400 Bad Request",
        ),
        (get("/callback?code=c"), "HTTP/1.1 400 Bad Request"),
        (
            get("/callback?code=c&state=right&state=right"),
            "HTTP/1.1 400 Bad Request",
        ),
        (
            get("/callback?code=c&code=d&state=right"),
            "HTTP/1.1 400 Bad Request",
        ),
        (get("/callback?state=right"), "HTTP/1.1 400 Bad Request"),
        (get("/other?code=c&state=right"), "HTTP/1.1 404 Not Found"),
        (
            get("/callback/?code=c&state=right"),
            "HTTP/1.1 404 Not Found",
        ),
        (
            get("//evil/callback?code=c&state=right"),
            "HTTP/1.1 404 Not Found",
        ),
        (
            get("/callback?code=c&state=right").replace("GET", "POST"),
            "HTTP/1.1 405 Method Not Allowed",
        ),
        (
            get("/callback?code=c&state=right").replace("AUTHORITY", "evil.example"),
            "HTTP/1.1 403 Forbidden",
        ),
    ];
    for (request, expected) in refused {
        assert_eq!(send(&redirect, &request).await, expected, "{request}");
    }
    let long = get(&format!(
        "/callback?code={}&state=right",
        "c".repeat(1 << 20)
    ));
    assert!(!send(&redirect, &long).await.contains("200"));
    assert!(!waiting.is_finished());

    let response = send(
        &redirect,
        &get("/callback?code=c-1&state=right&iss=https%3A%2F%2Fas.example"),
    )
    .await;
    assert_eq!(response, "HTTP/1.1 200 OK");
    let expected = CallbackResponse {
        outcome: Ok("c-1".to_owned()),
        iss: Some("https://as.example".to_owned()),
    };
    assert!(waiting.await.unwrap() == expected);
    assert!(
        TcpStream::connect(&authority).await.is_err(),
        "it is closed after one use"
    );
}

/// T18: connections that send nothing do not prevent the response.
#[tokio::test]
async fn t18_idle_connections_do_not_block_the_response() {
    let callback = CallbackListener::bind(None).await.unwrap();
    let redirect = callback.redirect.clone();
    let waiting = tokio::spawn(async move { callback.answer("right").await });
    let authority = redirect
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix(PATH)
        .unwrap()
        .to_owned();
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(&authority).await.unwrap());
    }
    // Before the deadline of the first connection.
    let response = timeout(
        CONNECTION_DEADLINE / 2,
        send(&redirect, &get("/callback?code=c-1&state=right")),
    )
    .await;
    assert_eq!(response.as_deref(), Ok("HTTP/1.1 200 OK"));
    assert_eq!(waiting.await.unwrap().outcome, Ok("c-1".to_owned()));
}

#[test]
fn t18_a_pasted_address_passes_the_same_checks() {
    let redirect = "http://127.0.0.1:7/callback";
    let read =
        |text: &str| parse_returned_address(text, redirect, "s").map(|returned| returned.outcome);
    assert_eq!(
        read(" http://127.0.0.1:7/callback?code=c&state=s\n"),
        Ok(Ok("c".to_owned()))
    );
    let denied = ("access_denied".to_owned(), Some("no".to_owned()));
    assert_eq!(
        read("http://127.0.0.1:7/callback?error=access_denied&error_description=no&state=s"),
        Ok(Err(denied))
    );
    assert!(read("http://127.0.0.1:8/callback?code=c&state=s").is_err());
    assert!(read("http://127.0.0.1:7/callback?code=c&state=t").is_err());
    assert!(read("https://evil.example/callback?code=c&state=s").is_err());
    assert!(read("c").is_err());
    assert!(
        !format!(
            "{:?}",
            parse_returned_address(
                "http://127.0.0.1:7/callback?code=canary&state=s",
                redirect,
                "s"
            )
        )
        .contains("canary")
    );
}
