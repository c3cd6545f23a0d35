//! Tests of `session = "per-caller"`: each caller has its own process, within limits, and all end
//! with the server.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard::Host;
use switchboard::config::{self, ConfigFile, Scope};
use switchboard::event::{Event, LogLevel, NextEvent};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::script::Flip;
use switchboard_testkit::{Chaos, Scratch, Step, is_alive, until};

use crate::support::{TIMEOUT, YOLO, call, open, person, server};
use crate::ways::{STDIO_LEGACY, STDIO_MODERN};

const OWN: &str = "session = \"per-caller\"\n";

/// The process that answers this caller.
async fn process_of(host: &Host, who: &Arc<TestCaller>) -> u32 {
    let text = call(host, "chaos/inspect", &json!({}), who).await.unwrap();
    let seen: Value = serde_json::from_str(&text).unwrap();
    u32::try_from(seen["pid"].as_u64().unwrap()).unwrap()
}

fn inspecting(scratch: &Scratch) -> String {
    let chaos = Chaos::new()
        .tool("inspect", Step::Inspect)
        .record(scratch.path("seen"));
    format!(
        "{YOLO}{}",
        chaos.entry("chaos").set("session", "per-caller").render()
    )
}

/// S3-20: nothing is shared, so no question can cross, and no caller waits for another.
#[tokio::test(flavor = "multi_thread")]
async fn s3_20_each_caller_has_a_process_of_its_own_and_all_end_with_the_server() {
    let scratch = Scratch::new();
    let host = open(&scratch, &inspecting(&scratch)).await;
    let shared = server(&host).snapshot().pid.unwrap();
    let (ada, bob) = (person("ada").arc(), person("bob").arc());
    let pids = [process_of(&host, &ada).await, process_of(&host, &bob).await];
    assert_eq!(
        [process_of(&host, &ada).await, process_of(&host, &bob).await],
        pids,
        "it is kept"
    );
    assert!(
        pids[0] != pids[1] && !pids.contains(&shared),
        "{pids:?}, shared {shared}"
    );
    assert_eq!(server(&host).own_sessions(), 2);

    server(&host).restart().await;
    server(&host).wait_until_settled().await;
    let again = process_of(&host, &ada).await;
    assert!(!pids.contains(&again), "a restart is one for all");
    assert_eq!(server(&host).own_sessions(), 1);
    host.stop().await;
    for pid in pids.into_iter().chain([again, shared]) {
        assert!(!is_alive(pid as i32), "{pid} is left");
    }
}

/// The shared process is running; the caller's own is opened after the reload, and never answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_entry_applies_to_the_callers_own_connections_too() {
    let scratch = Scratch::new();
    let go = scratch.write("go", "");
    let chaos = Chaos::new()
        .tool("inspect", Step::Inspect)
        .on_start(Step::wait_file(&go));
    let tables = |timeout: &str| {
        let entry = chaos.entry("chaos").set("session", "per-caller");
        format!("{YOLO}{}", entry.set("connect_timeout", timeout).render())
    };
    let host = open(&scratch, &tables("600s")).await;
    let shared = server(&host).snapshot().pid;
    std::fs::remove_file(&go).unwrap();
    let file = scratch.write("switchboard.toml", &tables("200ms"));
    let config = config::load(&[ConfigFile::new(file, Scope::Given)]).unwrap();
    let reloaded = host.reload(config).await.unwrap();
    assert_eq!(reloaded.adjusted, [server(&host).config.name.clone()]);
    let ada = person("ada").arc();
    let attempt_ends = async {
        loop {
            let failed = call(&host, "chaos/inspect", &json!({}), &ada).await;
            let message = failed.unwrap_err().to_string();
            // Otherwise the call's own wait has ended a moment before.
            if message.contains("within 200 ms") {
                break;
            }
        }
    };
    let ended = tokio::time::timeout(TIMEOUT, attempt_ends).await;
    assert!(ended.is_ok(), "it connects for longer than that");
    assert_eq!(server(&host).snapshot().pid, shared);
    host.stop().await;
}

/// P3: the number of processes is limited; the session that was idle for longest is evicted.
#[tokio::test(flavor = "multi_thread")]
async fn p3_callers_beyond_the_limit_evict_the_longest_idle_session() {
    let scratch = Scratch::new();
    let host = open(&scratch, &inspecting(&scratch)).await;
    let callers: Vec<_> = (0..33)
        .map(|number| person(&format!("caller-{number}")).arc())
        .collect();
    let (last, before) = callers.split_last().unwrap();
    let mut pids = Vec::new();
    for caller in before {
        pids.push(process_of(&host, caller).await);
    }
    assert_eq!(process_of(&host, &callers[0]).await, pids[0], "it is kept");
    process_of(&host, last).await;
    assert_eq!(server(&host).own_sessions(), 32);
    until("the process of the second ends", || {
        !is_alive(pids[1] as i32)
    })
    .await;
    let alive: Vec<bool> = pids.iter().map(|pid| is_alive(*pid as i32)).collect();
    assert_eq!(alive.iter().filter(|alive| !**alive).count(), 1);
    assert_ne!(
        process_of(&host, &callers[1]).await,
        pids[1],
        "it comes again with a new one"
    );
    host.stop().await;
}

/// T33: tools are approved from the shared session's list; a caller's own session that defines the
/// tool differently is not called.
#[tokio::test(flavor = "multi_thread")]
async fn t33_a_tool_that_differs_in_the_callers_own_session_is_not_called() {
    let scratch = Scratch::new();
    let flipped = scratch.path("flipped");
    let description = serde_json::value::to_raw_value("does something else").unwrap();
    let flip = Flip {
        tool: "inspect".to_owned(),
        after_file: Some(flipped.clone()),
        define: [("description".to_owned(), description)]
            .into_iter()
            .collect(),
        ..Flip::default()
    };
    let chaos = Chaos::new()
        .tool("inspect", Step::Inspect)
        .flip(flip)
        .record(scratch.path("seen"));
    let host = open(
        &scratch,
        &format!(
            "{YOLO}{}",
            chaos.entry("chaos").set("session", "per-caller").render()
        ),
    )
    .await;
    std::fs::write(&flipped, "").unwrap();
    let refused = call(&host, "chaos/inspect", &json!({}), &person("ada").arc())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("changed"), "{refused}");
    assert_eq!(
        switchboard_testkit::Record::read(&scratch.path("seen")).count("tools/call"),
        0
    );
    host.stop().await;
}

/// Subscriptions and the log level apply to each connection of the server: also to a caller's own
/// process.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_and_log_level_apply_to_a_callers_own_session() {
    let scratch = Scratch::new();
    let host = open(
        &scratch,
        &format!("{YOLO}[servers.demo]\n{}{OWN}", STDIO_LEGACY.reach().entry),
    )
    .await;
    let demo = server(&host).config.name.clone();
    host.set_log_level(&demo, LogLevel::Alert).await.unwrap();
    host.subscribe(&demo, "demo://counter").await.unwrap();
    let ada = person("ada").arc();
    let mut events = host.events();
    let mut message = async || {
        let message = async {
            loop {
                match events.next().await {
                    Some(NextEvent::Event(Event::ResourceUpdated { uri, .. })) => {
                        return uri.raw().to_owned();
                    }
                    Some(NextEvent::Event(Event::Log { level, .. })) => return level,
                    Some(_) => {}
                    None => panic!("the host has ended"),
                }
            }
        };
        tokio::time::timeout(TIMEOUT, message)
            .await
            .expect("it is told")
    };
    // Her process sends nothing until it has the subscription, and the level before that.
    let counting = async {
        loop {
            call(&host, "demo/count_up", &json!({}), &ada)
                .await
                .unwrap();
        }
    };
    tokio::select! {
        uri = message() => assert_eq!(uri, "demo://counter"),
        () = counting => unreachable!("it counts for ever"),
    }
    call(&host, "demo/log", &json!({}), &ada).await.unwrap();
    let mut logged = Vec::new();
    while logged.len() < 2 {
        logged.push(message().await);
        logged.retain(|message| message != "demo://counter");
    }
    assert_eq!(logged, ["alert", "emergency"]);
    assert_eq!(server(&host).own_sessions(), 1);
    host.stop().await;
}

/// A modern server keeps no state between requests: one session serves all.
#[tokio::test(flavor = "multi_thread")]
async fn modern_callers_share_one_session() {
    let scratch = Scratch::new();
    let host = open(
        &scratch,
        &format!("{YOLO}[servers.demo]\n{}{OWN}", STDIO_MODERN.reach().entry),
    )
    .await;
    call(
        &host,
        "demo/confirm",
        &json!({"subject": "x"}),
        &person("ada").arc(),
    )
    .await
    .unwrap();
    assert_eq!(server(&host).own_sessions(), 0);
    host.stop().await;
}
