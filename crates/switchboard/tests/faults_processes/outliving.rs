//! Tests that no process outlives the host, however it ends (P4).

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;
use switchboard_testkit::{Step, wait_until};

use crate::support::{TIMEOUT, TestHost, good, settled, stuck};

/// Tells the embedder process of these tests how to end.
const ENDING: &str = "SWITCHBOARD_TEST_ENDING";
const FOLDER: &str = "SWITCHBOARD_TEST_FOLDER";

/// An embedder with servers of every stubborn kind ends in some way; then none of them is left.
fn check(ending: &str, signal: Option<Signal>, ended: impl Fn(ExitStatus) -> bool) {
    let test = TestHost::new();
    let config = test.scratch.config(&[
        test.entry("plain", good()),
        test.entry("stuck", stuck().on_start(Step::Fork)),
        test.entry("daemon", good().on_start(Step::Daemon)),
    ]);
    assert!(config.starts_with(test.scratch.folder()));
    let mut embedder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "outliving::embedder", "--ignored"])
        .env(ENDING, ending)
        .env(FOLDER, test.scratch.folder())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(
        wait_until(TIMEOUT, || test.scratch.path("up").exists()),
        "{ending}: the servers came up"
    );
    assert_eq!(test.all().len(), 5, "{ending}");
    if let Some(signal) = signal {
        kill(Pid::from_raw(embedder.id().cast_signed()), signal).unwrap();
    } else {
        std::fs::write(test.scratch.path("end"), "").unwrap();
    }
    let status = embedder.wait().unwrap();
    assert!(ended(status), "{ending}: {status}");
    let gone = wait_until(Duration::from_secs(3), || test.all().is_empty());
    assert!(gone, "{ending}: {:#?}", test.all());
}

#[test]
fn p4_no_server_outlives_the_host_however_it_ends() {
    std::thread::scope(|scope| {
        scope.spawn(|| check("exit", None, |status| status.code() == Some(7)));
        scope.spawn(|| check("panic", None, |status| status.code() == Some(101)));
        scope.spawn(|| check("abort", None, |status| status.signal() == Some(6)));
        scope.spawn(|| {
            check("wait", Some(Signal::SIGHUP), |status| {
                status.signal() == Some(1)
            })
        });
        scope.spawn(|| {
            check("wait", Some(Signal::SIGTERM), |status| {
                status.signal() == Some(15)
            })
        });
        scope.spawn(|| {
            check("wait", Some(Signal::SIGKILL), |status| {
                status.signal() == Some(9)
            })
        });
    });
}

/// A program that embeds the host and ends without stopping it.
#[tokio::test]
#[ignore = "run by p4_no_server_outlives_the_host_however_it_ends, in a process of its own"]
async fn embedder() {
    // SAFETY: no code of ours runs at the signal. Tests that are started by `nohup` ignore it.
    unsafe { signal(Signal::SIGHUP, SigHandler::SigDfl) }.unwrap();
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let host = TestHost::new()
        .host_of(folder.join("switchboard.toml"))
        .await;
    settled(&host).await;
    std::fs::write(folder.join("up"), "").unwrap();
    while !folder.join("end").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    match std::env::var(ENDING).unwrap().as_str() {
        "exit" => std::process::exit(7),
        "panic" => panic!("as ordered"),
        "abort" => std::process::abort(),
        _ => std::future::pending().await,
    }
}
