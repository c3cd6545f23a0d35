//! F25: a server that is gone is detected, and a live one is not taken for gone. In paused time.

use super::*;
use crate::transport::TransportFault;

/// An open legacy session on a transport that does not detect its end.
async fn on_silent_transport() -> (Arc<Session>, ScriptedServer) {
    let (connector, peer) = wire();
    let connector = TestConnector {
        properties: TransportProperties {
            needs_keep_alive: true,
            ..TransportProperties::default()
        },
        ..connector
    };
    let open = tokio::spawn(async move {
        Session::open(&connector, options(Protocol::Legacy))
            .await
            .unwrap()
    });
    let mut peer = peer.await;
    peer.complete_handshake().await;
    (open.await.unwrap(), peer)
}

#[tokio::test(start_paused = true)]
async fn f25_a_server_that_answers_no_ping_is_disconnected() {
    let (session, _peer) = on_silent_transport().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(
        session.closed().await,
        "the server does not respond: 2 consecutive pings got no response"
    );
    assert!(
        begun.elapsed() <= Duration::from_secs(150),
        "{:?}",
        begun.elapsed()
    );
}

/// A server that does not know `ping`, is too busy for it, or misses one occasionally is alive.
#[tokio::test(start_paused = true)]
async fn f25_a_server_that_sends_anything_is_alive() {
    let (session, mut peer) = on_silent_transport().await;
    for round in 0..10 {
        let ping = peer.expect("ping").await;
        match round % 5 {
            0 => peer.answer(&ping, json!({})),
            1 => peer.respond_error(&ping, -32601),
            2 => {
                let busy = TransportFault::Status {
                    status: 503,
                    detail: String::new(),
                    retry_after: None,
                    error: None,
                };
                peer.inbound.failed(ping["id"].as_u64().unwrap(), busy);
            }
            3 => drop(peer.expect("notifications/cancelled").await),
            _ => peer.send(&json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}})),
        }
    }
    peer.expect_nothing();
    drop(session);
}

/// A server that is busy with a call may answer nothing else; the call's own deadlines apply.
#[tokio::test(start_paused = true)]
async fn f25_no_ping_is_sent_during_a_call() {
    let (session, mut peer) = on_silent_transport().await;
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    peer.expect_nothing();
    peer.answer(&request, json!({"contents": []}));
    assert!(reading.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_detects_its_end_is_not_pinged() {
    let (_session, mut peer) = opened(Era::Legacy).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    peer.expect_nothing();
}
