//! Tests of every fault of the proxy, as both sides of a connection see it.
#![allow(clippy::unwrap_used)]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use switchboard_testkit::{Fault, FaultProxy, Plan, Traffic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Only ends tests that have failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The two ends of a connection through a proxy with this plan.
async fn ends(plan: Plan) -> (FaultProxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap())
        .await
        .unwrap();
    proxy.next(plan);
    let (caller, server) = tokio::join!(TcpStream::connect(proxy.address()), listener.accept());
    (proxy, caller.unwrap(), server.unwrap().0)
}

/// The data until the end, and how the connection ended.
async fn rest(stream: &mut TcpStream) -> (String, Result<(), ErrorKind>) {
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .unwrap();
    (
        String::from_utf8(bytes).unwrap(),
        ended.map(|_| ()).map_err(|error| error.kind()),
    )
}

async fn take(stream: &mut TcpStream, count: usize) -> String {
    let mut bytes = vec![0; count];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_clean_connection_passes_everything_and_is_counted() {
    let (proxy, mut caller, mut server) = ends(Plan::clean()).await;
    caller.write_all(b"question").await.unwrap();
    caller.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, ("question".to_owned(), Ok(())));
    server.write_all(b"answer").await.unwrap();
    drop(server);
    assert_eq!(rest(&mut caller).await, ("answer".to_owned(), Ok(())));
    assert_eq!(
        proxy.traffic(),
        Traffic {
            connections: 1,
            bytes_up: 8,
            bytes_down: 6
        }
    );
}

#[tokio::test]
async fn a_reset_is_seen_by_both_after_what_passed() {
    let (_proxy, mut caller, mut server) = ends(Plan::down([Fault::Pass(3), Fault::Reset])).await;
    server.write_all(b"abc").await.unwrap();
    let (came, ended) = rest(&mut caller).await;
    assert!("abc".starts_with(&came), "{came}");
    assert_eq!(ended, Err(ErrorKind::ConnectionReset));
    assert_eq!(rest(&mut server).await.1, Err(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_drop_is_an_orderly_end_after_what_passed() {
    let (_proxy, mut caller, mut server) = ends(Plan::down([Fault::Pass(3), Fault::Drop])).await;
    server.write_all(b"abc").await.unwrap();
    assert_eq!(rest(&mut caller).await, ("abc".to_owned(), Ok(())));
    assert_eq!(rest(&mut server).await, (String::new(), Ok(())));
}

#[tokio::test]
async fn a_half_closed_connection_still_passes_the_other_way() {
    let (_proxy, mut caller, mut server) =
        ends(Plan::down([Fault::Pass(1), Fault::HalfClose])).await;
    server.write_all(b"abc").await.unwrap();
    assert_eq!(rest(&mut caller).await, ("a".to_owned(), Ok(())));
    caller.write_all(b"still here").await.unwrap();
    assert_eq!(take(&mut server, 10).await, "still here");
}

#[tokio::test]
async fn slices_arrive_one_by_one() {
    let (proxy, mut caller, mut server) =
        ends(Plan::down([Fault::Slice(2), Fault::Throttle(100)])).await;
    let begin = Instant::now();
    server.write_all(b"abcdef").await.unwrap();
    let mut buffer = [0; 64];
    let mut pieces = Vec::new();
    while pieces.iter().sum::<usize>() < 6 {
        pieces.push(
            tokio::time::timeout(PATIENCE, caller.read(&mut buffer))
                .await
                .unwrap()
                .unwrap(),
        );
    }
    // A busy reader may find two pieces at once, but never one that was not sent yet.
    assert!(pieces.iter().all(|piece| piece % 2 == 0), "{pieces:?}");
    assert!(
        begin.elapsed() >= Duration::from_millis(40),
        "six bytes at a hundred a second, the last two not waited for"
    );
    assert_eq!(proxy.traffic().bytes_down, 6);
}

#[tokio::test]
async fn a_delay_counts_from_when_the_bytes_came() {
    let (_proxy, mut caller, mut server) =
        ends(Plan::down([Fault::Delay(Duration::from_millis(50))])).await;
    tokio::time::sleep(Duration::from_millis(60)).await; // longer than the delay, which has not begun
    let begin = Instant::now();
    server.write_all(b"late").await.unwrap();
    assert_eq!(take(&mut caller, 4).await, "late");
    assert!(begin.elapsed() >= Duration::from_millis(50));
    server.write_all(b"then at once").await.unwrap();
    assert_eq!(take(&mut caller, 12).await, "then at once");
}

#[tokio::test]
async fn a_black_hole_takes_everything_and_tells_nobody() {
    let (proxy, mut caller, mut server) = ends(Plan::up([Fault::Pass(2), Fault::Blackhole])).await;
    caller.write_all(b"abcdef").await.unwrap();
    assert_eq!(take(&mut server, 2).await, "ab");
    let more = tokio::time::timeout(Duration::from_millis(50), server.read(&mut [0; 8])).await;
    assert!(more.is_err(), "{more:?}");
    server.write_all(b"back").await.unwrap();
    assert_eq!(take(&mut caller, 4).await, "back");
    proxy.cut().await;
    assert_eq!(rest(&mut caller).await.1, Err(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn plans_are_followed_in_order_and_then_the_usual_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap())
        .await
        .unwrap();
    proxy.next(Plan::down([Fault::Pass(1), Fault::Drop]));
    proxy.next(Plan::down([Fault::Pass(2), Fault::Drop]));
    proxy.always(Plan::down([Fault::Pass(3), Fault::Drop]));
    for expected in ["a", "ab", "abc", "abc"] {
        let (caller, server) = tokio::join!(TcpStream::connect(proxy.address()), listener.accept());
        let (mut caller, mut server) = (caller.unwrap(), server.unwrap().0);
        server.write_all(b"abcdef").await.unwrap();
        assert_eq!(rest(&mut caller).await.0, expected);
    }
    assert_eq!(proxy.traffic().connections, 4);
}

#[tokio::test]
async fn without_a_server_a_connection_is_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap())
        .await
        .unwrap();
    drop(listener);
    let mut caller = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(rest(&mut caller).await.1, Err(ErrorKind::ConnectionReset));
}
