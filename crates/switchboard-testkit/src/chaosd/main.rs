//! `chaosd SCRIPT`: an MCP server over stdio that misbehaves as scripted.
//!
//! SCRIPT is JSON, or `@FILE`; its fields are in `switchboard_testkit`'s documentation. Here:
//! start, the reading loop, signals. Steps are run in `behave`, the default responses are in
//! `answer`, the connection to the host is in `peer`.

mod answer;
mod behave;
mod family;
mod peer;

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, raise};
use switchboard_testkit::record::Event;
use switchboard_testkit::script::Script;

use crate::behave::Request;
use crate::peer::Peer;

/// The longest life of a process that a failed test leaves behind.
const LONGEST_LIFE: Duration = Duration::from_secs(600);

fn main() {
    let inherited_descriptors = family::open_descriptors();
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some(family::GRANDCHILD), None) => std::thread::sleep(LONGEST_LIFE),
        (Some(family::DAEMON), None) => family::start_grandchild(),
        (Some(script), None) => match read_script(script) {
            Ok(script) => serve(script, inherited_descriptors),
            Err(error) => fail(&format!("the script is wrong: {error}")),
        },
        _ => fail("usage: chaosd SCRIPT, where SCRIPT is JSON or @FILE"),
    }
}

fn read_script(argument: &str) -> Result<Script, String> {
    let text = match argument.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
        None => argument.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn fail(message: &str) -> ! {
    eprintln!("chaosd: {message}");
    std::process::exit(2);
}

fn serve(script: Script, inherited_descriptors: Vec<i32>) {
    // Blocked before any thread exists, so that only the thread that waits for them gets them.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    if let Err(error) = signals.thread_block() {
        fail(&format!("cannot block signals: {error}"));
    }
    let peer = match Peer::new(script, inherited_descriptors) {
        Ok(peer) => Arc::new(peer),
        Err(error) => fail(&format!("cannot record: {error}")),
    };
    peer.record(Event::Start);
    let watcher = Arc::clone(&peer);
    std::thread::spawn(move || watch_signals(&watcher, &signals));

    behave::run(&peer, &Request::none(), &peer.script.on_start);
    let background = Arc::clone(&peer);
    std::thread::spawn(move || {
        behave::run(&background, &Request::none(), &background.script.background)
    });
    read_messages(&peer);

    peer.record(Event::Eof);
    behave::run(&peer, &Request::none(), &peer.script.on_eof);
    if peer.script.ignore_eof {
        std::thread::sleep(LONGEST_LIFE);
    }
    std::process::exit(0);
}

/// Reads until the end of stdin. Steps that do not wait run here, in order; the others on their own
/// threads.
fn read_messages(peer: &Arc<Peer>) {
    let mut input = BufReader::new(std::io::stdin());
    let mut line = Vec::new();
    while peer.is_reading() {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line));
        let Some(request) = peer.receive(&text) else {
            continue;
        };
        let Some(steps) = behave::steps_for(&peer.script, &request) else {
            answer::give(peer, &request);
            continue;
        };
        if behave::takes_time(&steps) {
            let peer = Arc::clone(peer);
            std::thread::spawn(move || behave::run(&peer, &request, &steps));
        } else {
            behave::run(peer, &request, &steps);
        }
    }
    std::thread::sleep(LONGEST_LIFE);
}

fn watch_signals(peer: &Peer, signals: &SigSet) {
    while let Ok(signal) = signals.wait() {
        peer.record(Event::Signal {
            name: signal.as_str().to_owned(),
        });
        behave::run(peer, &Request::none(), &peer.script.on_term);
        if !peer.script.ignore_term {
            die_of(signal);
        }
    }
}

/// Ends the process by the signal itself, so that the exit status shows it.
fn die_of(signal: Signal) -> ! {
    // Both may fail only for a signal that does not exist; the exit below covers it.
    let _ = SigSet::from_iter([signal]).thread_unblock();
    let _ = raise(signal);
    std::process::exit(128 + signal as i32);
}
