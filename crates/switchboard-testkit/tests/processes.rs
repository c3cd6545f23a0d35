//! Tests of reading the process table.

#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::{Duration, Instant};

use switchboard_testkit::{descendants_with_env, is_alive, peak_rss_bytes, rss_bytes, wait_until};

#[test]
fn a_zombie_is_dead_and_carries_no_canary() {
    let canary = format!("TESTKIT_ZOMBIE={}", std::process::id());
    let (name, value) = canary.split_once('=').unwrap();
    let mut child = Command::new("sleep")
        .arg("60")
        .env(name, value)
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // A program that is just being started has no readable variables for a moment.
    assert!(wait_until(Duration::from_secs(30), || {
        !descendants_with_env(&canary).is_empty()
    }));
    let found = descendants_with_env(&canary);
    assert_eq!(
        found
            .iter()
            .map(|process| (process.pid, process.command.as_str()))
            .collect::<Vec<_>>(),
        [(pid, "sleep 60")]
    );
    child.kill().unwrap();
    // Not waited for yet: it stays in the table as a zombie.
    assert!(wait_until(Duration::from_secs(30), || !is_alive(pid)));
    assert!(descendants_with_env(&canary).is_empty());
    child.wait().unwrap();
}

#[test]
fn memory_is_told_in_bytes() {
    let own = i32::try_from(std::process::id()).unwrap();
    let before = rss_bytes(own).unwrap();
    let block = vec![1_u8; 32 << 20];
    let with_block = rss_bytes(own).unwrap();
    drop(block);
    assert!(
        with_block >= before + (24 << 20),
        "{before} then {with_block}"
    );
    // The block is freed, and the peak still includes it.
    let peak = peak_rss_bytes(own).unwrap();
    assert!(peak >= before + (24 << 20), "{before} then {peak}");
    assert_eq!(rss_bytes(-1), None);
}

#[test]
fn waiting_ends_at_the_first_yes_or_at_the_deadline() {
    let mut asked = 0;
    assert!(wait_until(Duration::from_secs(30), || {
        asked += 1;
        asked == 3
    }));
    assert_eq!(asked, 3);
    let started = Instant::now();
    assert!(!wait_until(Duration::from_millis(30), || false));
    assert!(started.elapsed() >= Duration::from_millis(30));
}
