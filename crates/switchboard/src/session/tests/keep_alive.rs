//! F25: who is gone without a word is noticed, and nobody who is there is taken for gone. With
//! paused time.

use super::*;
use crate::transport::WireFault;

/// An open legacy session on a wire that does not show its end.
async fn unseen() -> (Arc<Session>, Peer) {
    let (connector, peer) = wire();
    let connector = Wire {
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
    peer.welcome().await;
    (open.await.unwrap(), peer)
}

#[tokio::test(start_paused = true)]
async fn f25_a_server_that_answers_no_ping_is_gone() {
    let (session, _peer) = unseen().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(
        session.closed().await,
        "nobody answers: 2 pings in a row brought nothing"
    );
    assert!(
        begun.elapsed() <= Duration::from_secs(150),
        "{:?}",
        begun.elapsed()
    );
}

/// One that does not know `ping`, or is too busy for it, or misses one now and then, is there.
#[tokio::test(start_paused = true)]
async fn f25_a_server_that_says_anything_at_all_is_there() {
    let (session, mut peer) = unseen().await;
    for round in 0..10 {
        let ping = peer.expect("ping").await;
        match round % 5 {
            0 => peer.answer(&ping, json!({})),
            1 => peer.refuse(&ping, -32601),
            2 => {
                let busy = WireFault::Status {
                    status: 503,
                    detail: String::new(),
                    retry_after: None,
                    error: None,
                };
                peer.inbound.failed(ping["id"].as_u64().unwrap(), busy);
            }
            3 => drop(peer.expect("notifications/cancelled").await),
            _ => peer.say(&json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}})),
        }
    }
    peer.quiet();
    drop(session);
}

/// A server that is busy with a call may answer nothing else; the call's own deadlines are what
/// ends it.
#[tokio::test(start_paused = true)]
async fn f25_nobody_is_pinged_during_a_call() {
    let (session, mut peer) = unseen().await;
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    peer.quiet();
    peer.answer(&request, json!({"contents": []}));
    assert!(reading.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wire_that_shows_its_end_is_not_pinged() {
    let (_session, mut peer) = opened(Era::Legacy).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    peer.quiet();
}
