//! A client in another language: a child program that makes the calls itself and reports their
//! times.
//!
//! Each line to it is a command, `one N` or `many WIDTH N`; each line from it is a number: the median
//! time of N sequential calls in seconds, or calls per second. Its first line is `ready`. The traffic
//! on the pipe is not measured.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::measure::{Era, Fault};

/// An SDK of another language.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    TypeScript,
    Python,
}

impl Sdk {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TypeScript => "ts",
            Self::Python => "python",
        }
    }

    /// The interpreter and the script, in the folder that `baseline/sdks` filled.
    fn program(self, folder: &Path) -> (PathBuf, PathBuf) {
        match self {
            Self::TypeScript => ("node".into(), folder.join("http_calls.mjs")),
            Self::Python => (folder.join("venv/bin/python"), folder.join("http_calls.py")),
        }
    }

    /// Whether it is installed in the folder.
    pub(crate) fn is_in(self, folder: &Path) -> bool {
        self.program(folder).1.exists()
    }
}

/// A running child with an open session.
pub(crate) struct ChildPeer {
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl ChildPeer {
    /// Starts the program and waits until its session is open.
    pub(crate) async fn start(sdk: Sdk, folder: &Path, url: &str, era: Era) -> Result<Self, Fault> {
        let (program, script) = sdk.program(folder);
        let mut command = Command::new(program);
        // The SDK adds more listeners for many calls at once than Node likes, and it says so for
        // each.
        command.env("NODE_NO_WARNINGS", "1");
        command
            .arg(script)
            .args([url, era.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut process = command.spawn()?;
        let (orders, answers) = process
            .stdin
            .take()
            .zip(process.stdout.take())
            .ok_or("the child has no pipes")?;
        let mut peer = Self {
            orders,
            answers: BufReader::new(answers).lines(),
            _process: process,
        };
        match peer.answers.next_line().await? {
            Some(line) if line == "ready" => Ok(peer),
            line => Err(format!("the {} SDK did not get ready: {line:?}", sdk.name()).into()),
        }
    }

    /// The median time of `calls` calls made one after the other, in seconds.
    pub(crate) async fn one_in_flight(&mut self, calls: usize) -> Result<f64, Fault> {
        self.order(format!("one {calls}\n")).await
    }

    /// Calls per second with `width` calls in flight.
    pub(crate) async fn many_in_flight(
        &mut self,
        width: usize,
        calls: usize,
    ) -> Result<f64, Fault> {
        self.order(format!("many {width} {calls}\n")).await
    }

    async fn order(&mut self, order: String) -> Result<f64, Fault> {
        self.orders.write_all(order.as_bytes()).await?;
        let line = self
            .answers
            .next_line()
            .await?
            .ok_or("the child ended in the middle of a round")?;
        Ok(line.trim().parse()?)
    }
}
