//! Tests of limits: bodies, events, decompressed data; and the number of requests in flight.

use std::time::Duration;

use serde_json::json;
use switchboard::config::Timeouts;
use switchboard::session::RequestFault;
use switchboard::transport::TransportFault;

use crate::support::*;

const TOO_LARGE: RequestFault = RequestFault::TooLarge { limit: 1 << 20 };

#[tokio::test]
async fn f4_an_oversized_body_fails_its_request_and_no_other() {
    let (session, mut peer) = modern().await;
    let reading = read(&session, "a:b");
    peer.expect("resources/read")
        .await
        .json(contents(&"x".repeat(1 << 20)));
    assert_eq!(outcome(reading).await, Err(TOO_LARGE));
    let reading = read(&session, "a:b");
    let nearly = "x".repeat((1 << 20) - 200);
    peer.expect("resources/read").await.json(contents(&nearly));
    assert_eq!(outcome(reading).await, seen(&nearly));
}

#[tokio::test]
async fn f4_an_oversized_event_fails_its_request_and_no_other() {
    let (session, mut peer) = legacy(None).await;
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    asked.stream();
    asked.event_result(None, &asked.body["id"], contents(&"x".repeat(1 << 20)));
    assert_eq!(outcome(reading).await, Err(TOO_LARGE));
    let reading = read(&session, "a:b");
    let asked = peer.expect("resources/read").await;
    asked.stream();
    let nearly = "x".repeat((1 << 20) - 200);
    asked.event_result(None, &asked.body["id"], contents(&nearly));
    assert_eq!(outcome(reading).await, seen(&nearly));
}

#[tokio::test]
async fn f4_an_oversized_notification_on_a_responses_stream_fails_the_request() {
    for end in ["\"}\n\n", ""] {
        let (session, mut peer) = legacy(None).await;
        let reading = read(&session, "a:b");
        let asked = peer.expect("resources/read").await;
        asked.stream();
        let long = "x".repeat(1 << 20);
        asked.send(&format!("data: {{\"params\":\"{long}{end}"));
        assert_eq!(outcome(reading).await, Err(TOO_LARGE));
    }
}

/// The peak memory of this process, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn t23_a_compressed_body_is_limited_by_its_decompressed_size() {
    let bomb = zeros_compressed(1 << 30);
    assert!(bomb.len() < 8 << 20, "{}", bomb.len());
    let unasked = |peer: &Peer| {
        RequestFault::Transport(TransportFault::Lost(format!(
            "{} sent a compressed response, which was not requested",
            peer.url()
                .trim_start_matches("http://")
                .trim_end_matches("/mcp")
        )))
    };
    // Direct connections request no compression and refuse it; the shared stack decompresses.
    for (content_type, is_direct) in [
        ("application/json", false),
        ("text/event-stream", false),
        ("application/json", true),
    ] {
        let (session, mut peer) = if is_direct {
            modern().await
        } else {
            modern_over_the_stack().await
        };
        let before = peak_kib();
        let reading = read(&session, "a:b");
        let asked = peer.expect("resources/read").await;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            bomb.len()
        );
        asked.send(&head);
        asked.send_bytes(bomb.clone());
        let expected = if is_direct { unasked(&peer) } else { TOO_LARGE };
        assert_eq!(outcome(reading).await, Err(expected), "{content_type}");
        let grown = peak_kib() - before;
        assert!(grown < 128 * 1024, "{grown} KiB for {content_type}");
    }
}

/// Gzip of this many zeros: one literal, then copies of the longest length.
#[cfg(target_os = "linux")]
fn zeros_compressed(count: usize) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let (mut held, mut bits) = (0u64, 0);
    let mut put = |text: &str| {
        for bit in text.bytes() {
            held |= u64::from(bit - b'0') << bits;
            bits += 1;
            if bits == 8 {
                out.push(u8::try_from(held).unwrap());
                (held, bits) = (0, 0);
            }
        }
    };
    // Not the last block, fixed codes; the code of 0; then length 258 and distance 1.
    put("010");
    put("00110000");
    for _ in 0..count / 258 {
        put("1100010100000");
    }
    out
}

/// 5,000 at once: never more than the limit in flight, each gets its own response, in the order of
/// arrival.
#[tokio::test]
async fn f27_five_thousand_calls_at_once_are_limited_and_in_order() {
    const CALLS: usize = 5_000;
    const BOUND: usize = 256;
    const BATCH: usize = 64;
    let (session, mut peer) = modern().await;
    let patient = Timeouts {
        call: Duration::from_secs(300),
        call_max: Duration::from_secs(300),
        ..Timeouts::default()
    };
    let readings: Vec<_> = (0..CALLS)
        .map(|number| read_within(&session, &format!("a:{number}"), patient))
        .collect();
    let answering = tokio::spawn(async move {
        let (mut order, mut held) = (Vec::new(), Vec::new());
        while order.len() < CALLS {
            while held.len() < BOUND.min(CALLS - order.len()) {
                held.push(peer.next().await);
            }
            // As many as allowed are in flight: one too many would be seen here or the next time.
            peer.expect_nothing();
            for asked in held.drain(..BATCH.min(held.len())) {
                let uri = asked.body["params"]["uri"].as_str().unwrap().to_owned();
                order.push(uri[2..].parse::<usize>().unwrap());
                asked.json(json!({"contents": [{"uri": "a:b", "text": uri}]}));
            }
        }
        order
    });
    for (number, reading) in readings.into_iter().enumerate() {
        let outcome = tokio::time::timeout(Duration::from_secs(120), reading)
            .await
            .expect("all are served")
            .unwrap();
        assert_eq!(
            outcome.map(|result| result.to_value().unwrap()),
            seen(&format!("a:{number}"))
        );
    }
    let order = answering.await.unwrap();
    let latest = order
        .iter()
        .enumerate()
        .map(|(at, number)| at.abs_diff(*number))
        .max()
        .unwrap();
    assert!(
        latest <= 2 * BOUND,
        "one was {latest} places away from its turn"
    );
}
