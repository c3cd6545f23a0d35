//! The loops that every contestant runs, and how they are timed.

use std::future::Future;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An error that ends the run.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The arguments of the echo tool.
pub(crate) const ECHO_ARGUMENTS: &str = r#"{"text":"thirty-two characters of a text.","count":3}"#;

/// The arguments of the demo server's echo tool.
pub(crate) const DEMO_ARGUMENTS: &str = r#"{"message":"thirty-two characters of a text."}"#;

/// The text that the big tool returns, in bytes of the unescaped text.
pub(crate) const BIG_BYTES: usize = 1024 * 1024;

/// A tool of the floor server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Returns its text.
    Echo,
    /// Returns 1 MiB of text.
    Big,
}

impl Tool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Big => "big",
        }
    }

    /// The minimal size of a complete answer.
    fn min_bytes(self) -> usize {
        match self {
            Self::Echo => 32,
            Self::Big => BIG_BYTES,
        }
    }
}

/// The echo tool of a server, or of a gateway in front of it.
#[derive(Clone)]
pub(crate) struct EchoTool {
    pub(crate) name: Arc<str>,
    pub(crate) arguments: &'static str,
}

impl EchoTool {
    /// The floor server's.
    pub(crate) fn of_floor() -> Self {
        Self {
            name: Tool::Echo.name().into(),
            arguments: ECHO_ARGUMENTS,
        }
    }

    /// The demo server's, under the name that a gateway gives it.
    pub(crate) fn of_demo(name: &str) -> Self {
        Self {
            name: name.into(),
            arguments: DEMO_ARGUMENTS,
        }
    }
}

/// The protocol era that all contestants speak in one run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize`, 2025-11-25.
    Legacy,
    /// Self-contained requests, 2026-07-28.
    Modern,
}

impl Era {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// The `_meta` of a modern request.
    pub(crate) fn meta(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Modern => {
                r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"0"}}"#
            }
        }
    }

    /// The first request of a session: its method and params.
    pub(crate) fn hello(self) -> (&'static str, &'static str) {
        match self {
            Self::Legacy => (
                "initialize",
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}"#,
            ),
            Self::Modern => (
                "server/discover",
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"0"}}}"#,
            ),
        }
    }
}

/// A client with an open session, which clones share.
pub(crate) trait Contestant: Clone + Send + Sync + 'static {
    /// Makes one call; returns the size of the answer, so that the answer must be read.
    fn call(&self, tool: Tool) -> impl Future<Output = Result<usize, Fault>> + Send;
}

/// The floor server as a command, with its flags.
pub(crate) fn server_command(flags: &[String]) -> Result<Command, Fault> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(crate::server::MARKER).args(flags);
    Ok(command)
}

/// The median time of `calls` calls made one after the other, in seconds.
pub(crate) async fn one_in_flight(
    contestant: &impl Contestant,
    tool: Tool,
    calls: usize,
) -> Result<f64, Fault> {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        let bytes = contestant.call(tool).await?;
        times.push(start.elapsed());
        check(tool, bytes)?;
    }
    Ok(median_time(&mut times))
}

/// Calls per second with `width` calls in flight: as many tasks, each making its share one after
/// the other.
pub(crate) async fn many_in_flight(
    contestant: &impl Contestant,
    width: usize,
    calls: usize,
) -> Result<f64, Fault> {
    let share = calls.div_ceil(width);
    let start = Instant::now();
    let tasks: Vec<_> = (0..width)
        .map(|_| {
            let contestant = contestant.clone();
            tokio::spawn(async move {
                for _ in 0..share {
                    check(Tool::Echo, contestant.call(Tool::Echo).await?)?;
                }
                Ok::<_, Fault>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok((share * width) as f64 / start.elapsed().as_secs_f64())
}

/// The median in seconds.
pub(crate) fn median_time(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, Duration::as_secs_f64)
}

fn check(tool: Tool, bytes: usize) -> Result<(), Fault> {
    if bytes >= tool.min_bytes() {
        return Ok(());
    }
    Err(format!(
        "tool {}: {bytes} bytes came, at least {} were expected",
        tool.name(),
        tool.min_bytes()
    )
    .into())
}
