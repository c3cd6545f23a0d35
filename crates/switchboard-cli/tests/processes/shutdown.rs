//! However the program ends, it ends in time, ends its servers, and leaves no process.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use switchboard_testkit::record::Event;
use switchboard_testkit::{Entry, Launch, Record, Step, wait_until};

use crate::fixture::{Fixture, PATIENCE, end_of, good, send, stuck};

/// F29, P4: 25 servers, ten of them ignoring SIGTERM with grandchildren, five with a double-forked
/// daemon.
#[test]
fn f29_no_process_is_left_three_seconds_after_kill_9() {
    let fixture = Fixture::new();
    let entry = |number: usize| {
        let chaos = match number {
            0..10 => stuck(),
            10..15 => good().on_start(Step::Daemon),
            20 => good().tool("wait", Step::Drop),
            _ => good(),
        };
        fixture.entry(&format!("s{number}"), chaos).render()
    };
    // A bare name that no earlier run has left a catalog for: all servers start.
    let entries: String = (0..25).map(entry).collect();
    fixture
        .home
        .user_file(&format!("{entries}[naming]\nstyle = \"identity\"\n"));
    let mut child = fixture.start(&["call", "wait", "--yes"]);
    fixture.wait_for("s20", "the call came", |record| {
        record.count("tools/call") == 1
    });
    assert!(
        wait_until(PATIENCE, || fixture.servers().len() == 40),
        "{:#?}",
        fixture.servers()
    );

    send(Signal::SIGKILL, &child);
    fixture.assert_nobody_within(Duration::from_secs(3));
    assert_eq!(end_of(&mut child).0, None);
}

/// A server that writes after the end of its input, as servers of SDKs do, gets no broken pipe.
#[test]
fn a_server_that_is_stopped_can_write_until_it_has_ended() {
    let fixture = Fixture::new();
    let [chaos, written, broken] = [
        good().json(),
        fixture.home.path("written").display().to_string(),
        fixture.home.path("broken").display().to_string(),
    ];
    // The line is written well after the input has ended, and would be lost in the pipe if nobody
    // read it.
    let script = r#"trap "" PIPE; "$0" "$1"; sleep 0.3; if head -c 200000 /dev/zero; then touch "$2"; else touch "$3"; fi"#;
    let chaosd = switchboard_testkit::program("chaosd").display().to_string();
    let launch = Launch::new("/bin/sh")
        .arg("-c")
        .arg(script)
        .arg(chaosd)
        .arg(chaos)
        .arg(&written)
        .arg(&broken);
    fixture.configure(&[Entry::new("late", &launch).env("CANARY", &fixture.canary())]);
    let ran = fixture.home.run(&["call", "late/ok", "--yes"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let exists = |file: &str| std::path::Path::new(file).exists();
    assert_eq!((exists(&written), exists(&broken)), (true, false));
}

/// A server that first runs a script of the shell beside itself. In it `$keeper` and `$launcher`
/// are pids, and `$done` is a file to make.
fn beside(fixture: &Fixture, script: &str) -> Entry {
    let pids =
        r#"keeper=$PPID; launcher=$(awk '/^PPid:/ {print $2}' /proc/$PPID/status); done="$2""#;
    let script = format!(r#"{pids}; ({script}) </dev/null >/dev/null 2>&1 & exec "$0" "$1""#);
    let (chaosd, done) = (
        switchboard_testkit::program("chaosd"),
        fixture.home.path("done"),
    );
    let chaos = good()
        .ignore_eof()
        .record(fixture.record_file("hostile"))
        .json();
    let launch = Launch::new("/bin/sh")
        .arg("-c")
        .arg(script)
        .arg(chaosd.display().to_string())
        .arg(chaos);
    Entry::new("hostile", &launch.arg(done.display().to_string())).env("CANARY", &fixture.canary())
}

/// P4, F29: a server cannot outlive the program by stopping its keeper or the launcher, whether the
/// program is killed or exits.
#[test]
fn p4_f29_a_server_that_stops_its_keeper_does_not_outlive_us() {
    let scripts = [
        "sleep 0.3; kill -STOP $keeper; touch $done",
        "sleep 0.3; kill -STOP $launcher; touch $done",
        "sleep 0.3; kill -STOP $launcher; kill -STOP $keeper; touch $done",
    ];
    std::thread::scope(|scope| {
        for (script, signal) in scripts
            .iter()
            .flat_map(|script| [(script, Signal::SIGKILL), (script, Signal::SIGTERM)])
        {
            scope.spawn(move || {
                let fixture = Fixture::new();
                fixture.configure(&[beside(&fixture, script)]);
                let mut child = fixture.start(&["call", "hostile/hold", "--yes"]);
                fixture.wait_for("hostile", "the call came", |record| {
                    record.count("tools/call") == 1
                });
                assert!(
                    wait_until(PATIENCE, || fixture.home.path("done").exists()),
                    "{script}"
                );
                assert!(!fixture.servers().is_empty(), "{script}");

                send(signal, &child);
                let (_, took) = end_of(&mut child);
                assert!(
                    took < Duration::from_secs(6),
                    "{script}, {signal}: {took:?}"
                );
                fixture.assert_nobody_within(Duration::from_secs(4));
            });
        }
    });
}

/// P4: a server that keeps stopping its keeper, or kills it, is ended at once.
#[test]
fn p4_a_server_that_attacks_its_keeper_is_ended() {
    for script in [
        "sleep 0.3; while kill -STOP $keeper; do :; done",
        "sleep 0.3; kill -KILL $keeper; sleep 1000",
    ] {
        let fixture = Fixture::new();
        fixture.configure(&[beside(&fixture, script)]);
        let mut child = fixture.start(&["call", "hostile/hold", "--yes"]);
        // The call was sent, and the server is gone: nothing answers it.
        assert_eq!(end_of(&mut child).0, Some(3), "{script}");
        fixture.assert_nobody_within(Duration::from_secs(4));
    }
}

/// What a server was told about the one call it got: the call's id, and the id that was cancelled.
fn called_and_cancelled(record: &Record) -> (Value, Value) {
    let call = &record.with_method("tools/call")[0];
    let cancelled = &record.with_method("notifications/cancelled")[0];
    let params: Value = serde_json::from_str(cancelled.params.as_ref().unwrap().get()).unwrap();
    (
        serde_json::from_str(call.id.as_ref().unwrap().get()).unwrap(),
        params["requestId"].clone(),
    )
}

#[test]
fn f30_a_signal_during_a_call_cancels_it_stops_the_servers_and_tells_by_exit_code() {
    std::thread::scope(|scope| {
        for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
            scope.spawn(move || {
                let fixture = Fixture::new();
                fixture.configure(&[
                    fixture.entry("held", good().on_start([Step::Fork, Step::Daemon]))
                ]);
                let mut child = fixture.start(&["call", "held/hold", "--yes"]);
                fixture.wait_for("held", "the call came", |record| {
                    record.count("tools/call") == 1
                });
                assert_eq!(fixture.servers().len(), 3);

                send(signal, &child);
                let (exit, took) = end_of(&mut child);
                assert_eq!(exit, Some(code), "{signal}");
                assert_eq!(
                    fixture.servers(),
                    [],
                    "{signal}: gone before the program is"
                );
                assert!(took < Duration::from_secs(5), "{signal}: {took:?}");
                let record = fixture.record("held");
                let (called, cancelled) = called_and_cancelled(&record);
                assert_eq!(called, cancelled, "{signal}");
                assert_eq!(
                    record.0.last().map(|line| &line.event),
                    Some(&Event::Eof),
                    "{signal}: it was let end by itself"
                );
                fixture.assert_nobody_within(Duration::from_secs(3));
            });
        }
    });
}

#[test]
fn f30_a_second_ctrl_c_exits_at_once_and_leaves_no_process() {
    let fixture = Fixture::new();
    fixture.configure(&[fixture.entry("stuck", stuck().on_start([Step::Fork, Step::Daemon]))]);
    let mut child = fixture.start(&["call", "stuck/hold", "--yes"]);
    fixture.wait_for("stuck", "the call came", |record| {
        record.count("tools/call") == 1
    });

    send(Signal::SIGINT, &child);
    fixture.wait_for("stuck", "its input ended", |record| {
        record.0.iter().any(|line| line.event == Event::Eof)
    });
    send(Signal::SIGINT, &child);
    let (exit, took) = end_of(&mut child);
    assert_eq!(exit, Some(130));
    // Stopping it would take three seconds.
    assert!(took < Duration::from_millis(1500), "{took:?}");
    let (called, cancelled) = called_and_cancelled(&fixture.record("stuck"));
    assert_eq!(called, cancelled);
    fixture.assert_nobody_within(Duration::from_secs(3));
}

#[test]
fn p7_a_command_over_twenty_five_stuck_servers_ends_in_time() {
    let fixture = Fixture::new();
    fixture.configure(
        &(0..25)
            .map(|number| fixture.entry(&format!("s{number}"), stuck()))
            .collect::<Vec<Entry>>(),
    );
    let mut child = fixture.start(&["--wait", "60", "status", "--json"]);
    let mut answer = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut answer)
        .unwrap();

    // The answer was printed; only stopping is left.
    let began = Instant::now();
    let (exit, _) = end_of(&mut child);
    let took = began.elapsed();
    assert_eq!((exit, fixture.servers()), (Some(0), vec![]));
    assert!(took < Duration::from_secs(5), "{took:?}");
    let servers = serde_json::from_str::<Value>(&answer).unwrap()["servers"].take();
    let states: Vec<_> = servers
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["state"].clone())
        .collect();
    assert_eq!(states, vec![json!("ready"); 25]);
}
