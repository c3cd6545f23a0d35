//! Tests of the credentials of a request, and of rejections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use switchboard::auth::{AuthRejection, Credentials, NeedsLogin};
use switchboard::caller::BoxFuture;
use switchboard::config::Protocol;
use switchboard::secret::Secret;
use switchboard::session::OpenFault;
use switchboard::transport::TransportFault;

use crate::support::*;

/// Returns `Bearer 0`, and the next number after each rejection; after `last` a login is needed.
#[derive(Debug, Default)]
struct CountingCredentials {
    last: usize,
    now: AtomicUsize,
    refusals: Mutex<Vec<String>>,
}

impl Credentials for CountingCredentials {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        Box::pin(async {
            Ok(Some(Secret::new(format!(
                "Bearer {}",
                self.now.load(Ordering::SeqCst)
            ))))
        })
    }

    fn rejected<'a>(
        &'a self,
        rejection: AuthRejection<'a>,
    ) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        Box::pin(async move {
            let sent = rejection.sent.map(Secret::expose).unwrap_or_default();
            self.refusals.lock().unwrap().push(format!(
                "{} {} {}",
                rejection.status,
                sent,
                rejection.challenge.unwrap_or("-")
            ));
            match self.now.fetch_add(1, Ordering::SeqCst) {
                now if now < self.last => Ok(()),
                _ => Err(NeedsLogin::new("log in")),
            }
        })
    }
}

/// Opens a session whose first request is rejected with each of these before it is served.
async fn check(
    last: usize,
    refusals: &[(u16, &str)],
    expected: Result<(), OpenFault>,
    message: &[&str],
) {
    let mut peer = Peer::start().await;
    let credentials = Arc::new(CountingCredentials {
        last,
        ..CountingCredentials::default()
    });
    let opening = open(
        authorized(&peer.url(), credentials.clone()),
        Protocol::Modern,
    );
    for (number, (status, headers)) in refusals.iter().enumerate() {
        let asked = peer.expect("server/discover").await;
        assert_eq!(
            asked.header("authorization"),
            Some(format!("Bearer {number}").as_str())
        );
        asked.status_with(*status, headers, "");
    }
    if expected.is_ok() {
        peer.discover().await;
    }
    assert_eq!(opening.await.unwrap().map(drop), expected);
    assert_eq!(*credentials.refusals.lock().unwrap(), message);
    peer.expect_nothing();
}

#[tokio::test]
async fn a_rejected_request_is_sent_again_after_a_successful_login() {
    let challenge = "WWW-Authenticate: Bearer realm=\"a\"\r\n";
    check(
        9,
        &[(401, challenge)],
        Ok(()),
        &["401 Bearer 0 Bearer realm=\"a\""],
    )
    .await;
    let more = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"x\"\r\n";
    let message = [
        "401 Bearer 0 -",
        "403 Bearer 1 Bearer error=\"insufficient_scope\", scope=\"x\"",
    ];
    check(9, &[(401, ""), (403, more)], Ok(()), &message).await;
}

#[tokio::test]
async fn a_rejection_that_no_refresh_resolves_needs_a_login() {
    let needed = OpenFault::NeedsLogin(NeedsLogin::new("log in"));
    check(0, &[(401, "")], Err(needed), &["401 Bearer 0 -"]).await;
}

/// A person who has declined a login would be asked again.
#[tokio::test]
async fn the_end_of_a_session_asks_for_no_login() {
    let mut peer = Peer::start().await;
    let credentials = Arc::new(CountingCredentials::default());
    let opening = open(
        authorized(&peer.url(), credentials.clone()),
        Protocol::Legacy,
    );
    peer.handshake_without_stream(Some("s-1")).await;
    let session = opening.await.unwrap().unwrap();
    session.close();
    let mut ended = peer.expect_line("DELETE /mcp").await;
    ended.send("HTTP/1.1 401 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    ended.closed().await;
    assert_eq!(*credentials.refusals.lock().unwrap(), [""; 0]);
    peer.expect_nothing();
}

#[tokio::test]
async fn a_server_that_rejects_endlessly_is_given_up() {
    let refused = OpenFault::Transport(TransportFault::Status {
        status: 401,
        detail: String::new(),
        retry_after: None,
        error: None,
    });
    let message = ["401 Bearer 0 -", "401 Bearer 1 -", "401 Bearer 2 -"];
    check(9, &[(401, ""); 4], Err(refused), &message).await;
}

#[tokio::test]
async fn a_rejection_that_no_login_resolves_is_reported_as_it_is() {
    let refused = OpenFault::Transport(TransportFault::Status {
        status: 403,
        detail: String::new(),
        retry_after: None,
        error: None,
    });
    check(9, &[(403, "")], Err(refused), &[]).await;
}
