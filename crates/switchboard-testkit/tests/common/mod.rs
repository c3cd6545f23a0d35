//! Speaks to a program over its stdio, line by line, with a limit on every wait.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its own part"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use switchboard_testkit::{KilledOnDrop, Launch, wait_until};

/// Generous: it only ends tests that have failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Talk {
    pub(crate) child: KilledOnDrop,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Talk {
    pub(crate) fn start(launch: &Launch) -> Self {
        Self::start_command(launch.command())
    }

    pub(crate) fn start_command(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while stdout
                .read_until(b'\n', &mut line)
                .is_ok_and(|length| length > 0)
            {
                let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child: KilledOnDrop(child),
            lines,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn call(&mut self, id: u64, tool: &str) {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
        ));
    }

    /// The next line with its newline, or what was left when stdout ended without one; `None` when
    /// it has ended.
    pub(crate) fn next(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                panic!("no line and no end of stdout within {PATIENCE:?}")
            }
        }
    }

    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.next().as_deref(), Some(format!("{line}\n").as_str()));
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until(PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.expect("it ends in time")
    }

    pub(crate) fn stderr(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    }
}
