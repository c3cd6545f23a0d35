//! Tests with real servers: `server-everything` over each transport, Python's
//! `mcp-server-time` in both eras, and servers of both eras whose handlers ask in the older way.
//!
//! `SWITCHBOARD_REAL_SERVERS` names the file that `.ci/real-servers DIR` writes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, dead_code)] // the table of our own servers is not run here

mod cell;
mod person;
mod server;
mod table;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;

use person::{OFFERS, person};
use serde_json::{Value, json};
use server::{Behind, Kind, Place, Traits, reach};
use switchboard::call::Call;
use switchboard::caller::Caller;
use switchboard::config::{self, ConfigFile, Scope};
use switchboard::launch::Launcher;
use switchboard::server::State;
use switchboard::{Host, HostBuilder};
use switchboard_testkit::{Entry, KilledOnDrop, Launch, Scratch};
use table::Cell::{NotOffered, Run};
use table::{Cell, Era, Wire, run};

const EVERYTHING: Traits = Traits {
    call: (("echo", r#"{"message": "hello"}"#), "hello"),
    read: Some(("demo://resource/static/document/features.md", "Features")),
    prompt: Some(("args-prompt", r#"{"city": "Vienna"}"#, "Vienna")),
    subscribe: Some((
        "demo://resource/static/document/features.md",
        ("toggle-subscriber-updates", "{}"),
    )),
    complete: Some((
        "completable-prompt",
        "department",
        "S",
        r#"["Sales","Support"]"#,
    )),
    elicit: Some((
        ("trigger-elicitation-request", "{}"),
        "Please provide inputs",
        "Ada",
    )),
    sample: Some((
        (
            "trigger-sampling-request",
            r#"{"prompt": "how are you?", "maxTokens": 50}"#,
        ),
        "how are you?",
        "parrot",
    )),
    progress: Some((
        "trigger-long-running-operation",
        r#"{"duration": 0.1, "steps": 4}"#,
    )),
    // It does not check for cancellation, so its duration is limited here.
    cancel: Some((
        (
            "trigger-long-running-operation",
            r#"{"duration": 20, "steps": 400}"#,
        ),
        None,
    )),
};

const TIME: Traits = Traits {
    call: (("get_current_time", r#"{"timezone": "UTC"}"#), "UTC"),
    read: None,
    prompt: None,
    subscribe: None,
    complete: None,
    elicit: None,
    sample: None,
    progress: None,
    cancel: None,
};

/// In the order list, call, read, prompt, subscribe, complete, elicit, sample, progress, cancel.
const ALL: [Cell; 10] = [Run; 10];
const LIST_AND_CALL: [Cell; 10] = [
    Run, Run, NotOffered, NotOffered, NotOffered, NotOffered, NotOffered, NotOffered, NotOffered,
    NotOffered,
];

/// The command of a real server; `None` if this machine is marked as offline.
fn launch(name: &str) -> Option<Launch> {
    if std::env::var("SWITCHBOARD_OFFLINE").as_deref() == Ok("1") {
        println!("skipped: SWITCHBOARD_OFFLINE=1");
        return None;
    }
    let file = std::env::var("SWITCHBOARD_REAL_SERVERS").unwrap_or_else(|_| {
        panic!(
            "SWITCHBOARD_REAL_SERVERS is not set; run `.ci/real-servers DIR` and set it to DIR/servers.json, \
             or set SWITCHBOARD_OFFLINE=1 to skip"
        )
    });
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("SWITCHBOARD_REAL_SERVERS: {file}: {error}"));
    let written: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    let entry = &written[name];
    let mut launch = Launch::new(entry["command"].as_str().unwrap());
    launch.args = entry["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect();
    launch.cwd = entry["cwd"].as_str().map(Into::into);
    Some(launch)
}

/// `server-everything` on an HTTP transport, listening.
fn listening(launch: Launch, mode: &str) -> (u16, KilledOnDrop) {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut command = launch.arg(mode).env("PORT", &port.to_string()).command();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let text: Vec<String> = lines
        .by_ref()
        .map_while(Result::ok)
        .take_while(|line| !line.contains("port"))
        .collect();
    assert!(child.try_wait().unwrap().is_none(), "{text:?}");
    // Drained, so that it never blocks.
    std::thread::spawn(move || lines.count());
    (port, KilledOnDrop(child))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_on_stdio() {
    let Some(launch) = launch("everything") else {
        return;
    };
    let kind = Kind::Real("everything");
    run(
        &reach(
            kind,
            Wire::Stdio,
            Era::Legacy,
            EVERYTHING,
            Place::Launch(launch),
            Behind::Host,
        )
        .await,
        ALL,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_on_streamable_http() {
    let Some(launch) = launch("everything") else {
        return;
    };
    let (port, child) = listening(launch, "streamableHttp");
    let place = Place::Url(format!("http://127.0.0.1:{port}/mcp"));
    let kind = Kind::Real("everything");
    run(
        &reach(
            kind,
            Wire::Http,
            Era::Legacy,
            EVERYTHING,
            place,
            Behind::Process(child),
        )
        .await,
        ALL,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_on_http_sse() {
    let Some(launch) = launch("everything") else {
        return;
    };
    let (port, child) = listening(launch, "sse");
    let place = Place::Url(format!("http://127.0.0.1:{port}/sse"));
    let kind = Kind::Real("everything");
    run(
        &reach(
            kind,
            Wire::Sse,
            Era::Legacy,
            EVERYTHING,
            place,
            Behind::Process(child),
        )
        .await,
        ALL,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_time_on_stdio_in_both_eras() {
    let Some(launch) = launch("time") else { return };
    for era in [Era::Legacy, Era::Modern] {
        let place = Place::Launch(launch.clone());
        run(
            &reach(
                Kind::Real("time"),
                Wire::Stdio,
                era,
                TIME,
                place,
                Behind::Host,
            )
            .await,
            LIST_AND_CALL,
        )
        .await;
    }
}

/// A host with one server whose entry does not set the protocol.
async fn undictated(entry: &str) -> (Host, Scratch) {
    let scratch = Scratch::new();
    let path = scratch.write(
        "switchboard.toml",
        &format!("[permissions]\nmode = \"yolo\"\n{entry}"),
    );
    let config = config::load(&[ConfigFile::new(path, Scope::Given)]).unwrap();
    let launcher = Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
    (
        HostBuilder::new(config)
            .launcher(launcher)
            .capabilities(OFFERS)
            .start()
            .await
            .unwrap(),
        scratch,
    )
}

/// The result or error of a call.
async fn call(host: &Host, tool: &str) -> String {
    let caller: Arc<dyn Caller> = person("person");
    match host
        .call_with(Call::new(tool, json!({})).caller(caller))
        .await
    {
        Ok(result) => result.raw.as_str().to_owned(),
        Err(error) => error.to_string(),
    }
}

fn era(host: &Host) -> State {
    host.server("it").unwrap().snapshot().state.clone()
}

/// The first question is refused; then the server is opened with the other era, and its further
/// questions arrive.
async fn questions_arrive_from_the_second_call_on(host: &Host) {
    host.server("it")
        .unwrap()
        .ready(std::time::Duration::from_secs(60))
        .await
        .unwrap();
    assert!(
        matches!(
            era(host),
            State::Ready {
                era: switchboard::session::Era::Modern,
                ..
            }
        ),
        "{:?}",
        era(host)
    );
    let first = call(host, "it/sample").await;
    assert!(
        first.contains("Cannot send 'sampling/createMessage'"),
        "{first}"
    );
    let sampled = call(host, "it/sample").await;
    assert!(sampled.contains("parrot said: fine"), "{sampled}");
    let elicited = call(host, "it/elicit").await;
    assert!(elicited.contains("accept: name='Ada'"), "{elicited}");
    assert!(
        matches!(
            era(host),
            State::Ready {
                era: switchboard::session::Era::Legacy,
                ..
            }
        ),
        "{:?}",
        era(host)
    );
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_servers_that_ask_in_the_older_way_are_answered_on_stdio() {
    for name in ["asks-sdk", "asks-fastmcp"] {
        let Some(launch) = launch(name) else { return };
        let (host, _scratch) = undictated(&Entry::new("it", &launch).render()).await;
        questions_arrive_from_the_second_call_on(&host).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_servers_that_ask_in_the_older_way_are_answered_over_http() {
    for name in ["asks-sdk", "asks-fastmcp"] {
        let Some(launch) = launch(name) else { return };
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = launch.arg("http").arg(port.to_string()).command();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let text: Vec<String> = lines
            .by_ref()
            .map_while(Result::ok)
            .take_while(|line| !line.contains("running on"))
            .collect();
        assert!(child.try_wait().unwrap().is_none(), "{text:?}");
        std::thread::spawn(move || lines.count());
        let _server = KilledOnDrop(child);
        let (host, _scratch) = undictated(&format!(
            "[servers.it]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"
        ))
        .await;
        questions_arrive_from_the_second_call_on(&host).await;
    }
}
