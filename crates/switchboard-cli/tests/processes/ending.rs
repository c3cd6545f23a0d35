//! However the program ends, it ends in time, tells the servers, and leaves nobody behind.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use switchboard_testkit::record::Event;
use switchboard_testkit::{Entry, Launch, Record, Step, wait_until};

use crate::run::{PATIENCE, Stage, end_of, good, send, stuck};

/// F29, P4: 25 servers, ten of them ignoring SIGTERM with grandchildren, five with a double-forked
/// daemon.
#[test]
fn f29_kill_9_during_a_call_leaves_nobody_after_three_seconds() {
    let stage = Stage::new();
    let entry = |number: usize| {
        let chaos = match number {
            0..10 => stuck(),
            10..15 => good().on_start(Step::Daemon),
            20 => good().tool("wait", Step::Drop),
            _ => good(),
        };
        stage.entry(&format!("s{number}"), chaos).render()
    };
    // A bare name that no earlier run has left a catalog for: all servers start.
    let entries: String = (0..25).map(entry).collect();
    stage
        .home
        .user_file(&format!("{entries}[naming]\nstyle = \"identity\"\n"));
    let mut child = stage.start(&["call", "wait", "--yes"]);
    stage.wait_for("s20", "the call came", |record| {
        record.count("tools/call") == 1
    });
    assert!(
        wait_until(PATIENCE, || stage.servers().len() == 40),
        "{:#?}",
        stage.servers()
    );

    send(Signal::SIGKILL, &child);
    stage.assert_nobody_within(Duration::from_secs(3));
    assert_eq!(end_of(&mut child).0, None);
}

/// A server that says something when its input ends, as servers made with an SDK do, is not met by
/// a broken pipe.
#[test]
fn a_server_that_is_stopped_can_write_until_it_has_ended() {
    let stage = Stage::new();
    let [chaos, written, broken] = [
        good().json(),
        stage.home.path("written").display().to_string(),
        stage.home.path("broken").display().to_string(),
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
    stage.configure(&[Entry::new("late", &launch).env("CANARY", &stage.canary())]);
    let ran = stage.home.run(&["call", "late/ok", "--yes"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let exists = |file: &str| std::path::Path::new(file).exists();
    assert_eq!((exists(&written), exists(&broken)), (true, false));
}

/// A server that first runs a script of the shell beside itself. In it `$keeper` and `$launcher`
/// are pids, and `$done` is a file to make.
fn beside(stage: &Stage, script: &str) -> Entry {
    let pids =
        r#"keeper=$PPID; launcher=$(awk '/^PPid:/ {print $2}' /proc/$PPID/status); done="$2""#;
    let script = format!(r#"{pids}; ({script}) </dev/null >/dev/null 2>&1 & exec "$0" "$1""#);
    let (chaosd, done) = (
        switchboard_testkit::program("chaosd"),
        stage.home.path("done"),
    );
    let chaos = good()
        .ignore_eof()
        .record(stage.record_file("hostile"))
        .json();
    let launch = Launch::new("/bin/sh")
        .arg("-c")
        .arg(script)
        .arg(chaosd.display().to_string())
        .arg(chaos);
    Entry::new("hostile", &launch.arg(done.display().to_string())).env("CANARY", &stage.canary())
}

/// P4, F29: a server cannot outlive us by stopping those who would end it, whether we are killed or
/// end by ourselves.
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
                let stage = Stage::new();
                stage.configure(&[beside(&stage, script)]);
                let mut child = stage.start(&["call", "hostile/hold", "--yes"]);
                stage.wait_for("hostile", "the call came", |record| {
                    record.count("tools/call") == 1
                });
                assert!(
                    wait_until(PATIENCE, || stage.home.path("done").exists()),
                    "{script}"
                );
                assert!(!stage.servers().is_empty(), "{script}");

                send(signal, &child);
                let (_, took) = end_of(&mut child);
                assert!(
                    took < Duration::from_secs(6),
                    "{script}, {signal}: {took:?}"
                );
                stage.assert_nobody_within(Duration::from_secs(4));
            });
        }
    });
}

/// P4: one that goes on stopping its keeper, or kills it, is ended at once.
#[test]
fn p4_a_server_that_fights_its_keeper_is_ended() {
    for script in [
        "sleep 0.3; while kill -STOP $keeper; do :; done",
        "sleep 0.3; kill -KILL $keeper; sleep 1000",
    ] {
        let stage = Stage::new();
        stage.configure(&[beside(&stage, script)]);
        let mut child = stage.start(&["call", "hostile/hold", "--yes"]);
        // The call was sent, and the server is gone: nothing answers it.
        assert_eq!(end_of(&mut child).0, Some(3), "{script}");
        stage.assert_nobody_within(Duration::from_secs(4));
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
                let stage = Stage::new();
                stage
                    .configure(&[stage.entry("held", good().on_start([Step::Fork, Step::Daemon]))]);
                let mut child = stage.start(&["call", "held/hold", "--yes"]);
                stage.wait_for("held", "the call came", |record| {
                    record.count("tools/call") == 1
                });
                assert_eq!(stage.servers().len(), 3);

                send(signal, &child);
                let (exit, took) = end_of(&mut child);
                assert_eq!(exit, Some(code), "{signal}");
                assert_eq!(stage.servers(), [], "{signal}: gone before the program is");
                assert!(took < Duration::from_secs(5), "{signal}: {took:?}");
                let record = stage.record("held");
                let (called, cancelled) = called_and_cancelled(&record);
                assert_eq!(called, cancelled, "{signal}");
                assert_eq!(
                    record.0.last().map(|line| &line.event),
                    Some(&Event::Eof),
                    "{signal}: it was let end by itself"
                );
                stage.assert_nobody_within(Duration::from_secs(3));
            });
        }
    });
}

#[test]
fn f30_a_second_ctrl_c_leaves_at_once_and_leaves_nobody_behind() {
    let stage = Stage::new();
    stage.configure(&[stage.entry("stuck", stuck().on_start([Step::Fork, Step::Daemon]))]);
    let mut child = stage.start(&["call", "stuck/hold", "--yes"]);
    stage.wait_for("stuck", "the call came", |record| {
        record.count("tools/call") == 1
    });

    send(Signal::SIGINT, &child);
    stage.wait_for("stuck", "its input ended", |record| {
        record.0.iter().any(|line| line.event == Event::Eof)
    });
    send(Signal::SIGINT, &child);
    let (exit, took) = end_of(&mut child);
    assert_eq!(exit, Some(130));
    // Stopping it would take three seconds.
    assert!(took < Duration::from_millis(1500), "{took:?}");
    let (called, cancelled) = called_and_cancelled(&stage.record("stuck"));
    assert_eq!(called, cancelled);
    stage.assert_nobody_within(Duration::from_secs(3));
}

#[test]
fn p7_a_command_over_twenty_five_stuck_servers_ends_in_time() {
    let stage = Stage::new();
    stage.configure(
        &(0..25)
            .map(|number| stage.entry(&format!("s{number}"), stuck()))
            .collect::<Vec<Entry>>(),
    );
    let mut child = stage.start(&["--wait", "60", "status", "--json"]);
    let mut answer = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut answer)
        .unwrap();

    // The answer is there; what is left is to stop.
    let began = Instant::now();
    let (exit, _) = end_of(&mut child);
    let took = began.elapsed();
    assert_eq!((exit, stage.servers()), (Some(0), vec![]));
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
