//! Runs the program with scripted servers whose processes can be found after they are detached.

use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switchboard_testkit::{Chaos, Entry, Process, Record, Step, descendants_with_env, wait_until};

use crate::support::Home;

/// The longest that anything may take on a machine that is busy with other things; a test that
/// passes does not wait for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A person's folders, with scripted servers in the file.
pub(crate) struct Fixture {
    pub(crate) home: Home,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { home: Home::new() }
    }

    /// An entry whose record is found by [`record`](Self::record).
    pub(crate) fn entry(&self, server: &str, chaos: Chaos) -> Entry {
        chaos
            .record(self.record_file(server))
            .entry(server)
            .env("CANARY", &self.canary())
    }

    pub(crate) fn configure(&self, entries: &[Entry]) {
        let entries: Vec<String> = entries.iter().map(Entry::render).collect();
        self.home.user_file(&entries.join("\n"));
    }

    /// The program, started.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        self.home.command(words).spawn().unwrap()
    }

    /// The live processes of all servers.
    pub(crate) fn servers(&self) -> Vec<Process> {
        descendants_with_env(&format!("CANARY={}", self.canary()))
    }

    /// The same, and whatever else the program started: all that has this home.
    pub(crate) fn everybody(&self) -> Vec<Process> {
        let mut all = descendants_with_env(&format!("HOME={}", self.home.path("").display()));
        all.extend(self.servers());
        all
    }

    pub(crate) fn assert_nobody_within(&self, limit: Duration) {
        assert!(
            wait_until(limit, || self.everybody().is_empty()),
            "left after {limit:?}: {:#?}",
            self.everybody()
        );
    }

    pub(crate) fn record(&self, server: &str) -> Record {
        Record::read(&self.record_file(server))
    }

    /// Waits until the server's record shows something.
    pub(crate) fn wait_for(&self, server: &str, what: &str, shown: impl Fn(&Record) -> bool) {
        assert!(
            wait_until(PATIENCE, || shown(&self.record(server))),
            "{server}: {what}: {:#?}",
            self.record(server)
        );
    }

    pub(crate) fn record_file(&self, server: &str) -> PathBuf {
        self.home.path(&format!("{server}.record"))
    }

    pub(crate) fn canary(&self) -> String {
        self.home.path("canary").display().to_string()
    }
}

/// A well-behaved server with a call that never ends.
pub(crate) fn good() -> Chaos {
    Chaos::new()
        .tool("ok", Step::text("fine"))
        .tool("hold", Step::Drop)
}

/// A server that ignores the end of its input and SIGTERM, with a grandchild that ignores SIGTERM.
pub(crate) fn stuck() -> Chaos {
    good().ignore_eof().ignore_term().on_start(Step::Fork)
}

pub(crate) fn send(signal: Signal, child: &Child) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// Waits for the end of the program: its exit code, and how long that took.
pub(crate) fn end_of(child: &mut Child) -> (Option<i32>, Duration) {
    let began = Instant::now();
    let mut code = None;
    let ended = wait_until(PATIENCE, || match child.try_wait().unwrap() {
        Some(status) => {
            code = status.code();
            true
        }
        None => false,
    });
    assert!(ended, "the program does not end");
    (code, began.elapsed())
}
