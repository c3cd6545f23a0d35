//! Many calls, slow readers and broken servers: nobody else is slowed down.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{PATIENCE, client, demo, gateway, stop};
use switchboard_gateway::Gateway;
use switchboard_testkit::{Chaos, Scratch, Step};
use tokio::task::JoinSet;

const ALLOW: &str = "[permissions]\nallow = [\"*\"]\n";

fn echo(id: usize, message: &str) -> Value {
    let params = json!({"name": "mcp__demo__echo", "arguments": {"message": message}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Requests that are answered at once fill the client's queue faster than it is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_many_requests_in_one_write_gets_all_responses() {
    const PINGS: usize = 4000;
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, "").await;
    // Of large requests, few are read at once.
    for bytes in [0, 1000] {
        let mut client = client(&gateway, false, "eager").await;
        let params = json!({"padding": "x".repeat(bytes)});
        let ping = |id| {
            json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": params}).to_string()
        };
        let pings: Vec<String> = (1..=PINGS).map(ping).collect();
        client.send_raw(&pings.join("\n")).await;
        let mut answered = 0;
        while answered < PINGS {
            // A client here is asked for its roots, too.
            if client.next().await.get("method").is_none() {
                answered += 1;
            }
        }
    }
    stop(gateway).await;
}

/// F27: 5,000 calls at once, of ten clients that use the same ids: each gets its own answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f27_five_thousand_calls_at_once_are_all_answered_to_their_own_client() {
    const CALLS: usize = 500;
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", demo("demo", "legacy", ""))).await;
    let mut clients = JoinSet::new();
    for number in 0..10 {
        let gateway = gateway.clone();
        clients.spawn(async move {
            let mut client = client(&gateway, false, "same").await;
            for call in 0..CALLS {
                client.send(echo(call, &format!("{number}-{call}"))).await;
            }
            let mut open: Vec<bool> = vec![true; CALLS];
            while open.contains(&true) {
                let message = client.next().await;
                // Questions and notifications have a method.
                if message.get("method").is_some() {
                    continue;
                }
                let id = usize::try_from(message["id"].as_u64().unwrap()).unwrap();
                let text = &message["result"]["content"][0]["text"];
                assert_eq!(text, &format!("{number}-{id}"), "{message}");
                assert!(std::mem::take(&mut open[id]), "answered twice: {message}");
            }
        });
    }
    clients.join_all().await;
    stop(gateway).await;
}

/// F35: a client that does not read for half a minute is disconnected; another one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_a_client_that_does_not_read_is_disconnected_and_another_is_still_served() {
    let scratch = Scratch::new();
    let gateway = gateway(&scratch, &format!("{ALLOW}{}", demo("demo", "modern", ""))).await;
    let mut slow = client(&gateway, true, "slow").await;
    let mut quick = client(&gateway, false, "quick").await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "debug",
    });
    let message = "x".repeat(1000);
    let flooding = async {
        for id in 0..1000 {
            let params = json!({
                "name": "mcp__demo__log", "arguments": {"message": message}, "_meta": meta,
            });
            let call =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            // The connection may be closed by now.
            if slow.try_send(&call).await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, flooding).await.unwrap();
    assert_eq!(
        quick
            .call(1, "mcp__demo__echo", json!({"message": "hi"}))
            .await,
        "hi"
    );
    // It reads nothing until then.
    let served = tokio::time::timeout(PATIENCE, &mut slow.served).await;
    let served = served.expect("it is disconnected").unwrap();
    assert_eq!(served.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(
        quick
            .call(2, "mcp__demo__echo", json!({"message": "hi"}))
            .await,
        "hi"
    );
    stop(gateway).await;
}

/// The longest but a hundredth of many calls to the healthy server.
async fn p99(gateway: &Gateway) -> Duration {
    let mut client = client(gateway, false, "ada").await;
    let mut times = Vec::new();
    for _ in 0..300 {
        let began = Instant::now();
        let text = client
            .call(1, "mcp__demo__echo", json!({"message": "hi"}))
            .await;
        assert_eq!(text, "hi");
        times.push(began.elapsed());
    }
    times.sort();
    times[times.len() * 99 / 100]
}

/// A dead, a hanging, a flooding and a crash-looping server do not slow a healthy one down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_servers_do_not_slow_a_healthy_one_down() {
    let healthy = format!("{ALLOW}{}", demo("demo", "legacy", ""));
    let scratch = Scratch::new();
    let alone = gateway(&scratch, &healthy).await;
    let limit = p99(&alone).await * 2;
    stop(alone).await;

    let hanging = Chaos::new()
        .on("initialize", Step::Drop)
        .on("server/discover", Step::Drop);
    let broken = [
        ("dead", Chaos::new().on_start(Step::Exit(1))),
        ("hanging", hanging),
        (
            "flooding",
            Chaos::new().background(vec![Step::FloodNotifications(1_000_000)]),
        ),
        (
            "crashing",
            Chaos::new().background(vec![Step::Sleep(50), Step::Exit(3)]),
        ),
    ];
    let entries = broken.iter().map(|(name, server)| {
        let entry = server.entry(name).set("connect_timeout", "2s");
        entry.render()
    });
    let tables = entries.fold(healthy, |tables, entry| tables + &entry);
    let scratch = Scratch::new();
    let beside = gateway(&scratch, &tables).await;
    let measured = p99(&beside).await;
    // On a busy machine the time slices of other processes count more than anything here.
    let limit = limit.max(Duration::from_millis(200));
    assert!(measured <= limit, "{measured:?}, at most {limit:?}");
    stop(beside).await;
}
