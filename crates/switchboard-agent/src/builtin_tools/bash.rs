//! The tool Bash: one command of a shell, with its output, in a group of processes that ends with
//! the call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard::config::Environment;
use switchboard::launch::{Child, Command, Exit, Launcher, StopTiming};
use switchboard::{
    CallResult, Caller, HostTool, HostToolDefinition, HostToolFuture, RawJson, ToolEffect,
};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until, timeout};

use super::long_output::LongOutput;
use super::parse_args;
use super::workspace::Workspace;

pub use denylist::Denylist;

mod denylist;
mod shell_words;

const DEFAULT_SECONDS: u64 = 120;
/// Less than the 600 s after which the host ends a call: the model gets the output of a command that
/// runs too long.
const MAX_SECONDS: u64 = 590;
/// A command that writes more is stopped.
const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// How long to wait for output of processes that the command left running.
const DRAIN_TIME: Duration = Duration::from_millis(300);
/// SIGTERM at once, SIGKILL a second later.
const STOP: StopTiming = StopTiming {
    term: Duration::ZERO,
    kill: Duration::from_secs(1),
    verified: Duration::from_millis(1500),
};

pub(super) struct BashTool {
    pub(super) workspace: Arc<Workspace>,
    pub(super) launcher: Launcher,
    /// The settings of commands.
    pub(super) environment: Environment,
    pub(super) denylist: Denylist,
    pub(super) long_output: LongOutput,
}

#[derive(Deserialize)]
struct BashArgs {
    command: String,
    timeout_seconds: Option<u64>,
}

/// How a command ended.
enum CommandEnd {
    Exited(Exit),
    /// It exceeded its time limit.
    Late(u64),
    /// It exceeded its output limit.
    TooMuch,
}

impl HostTool for BashTool {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command, as for bash -c"},
                "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS, "description": "120 by default"},
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        HostToolDefinition::new(
            "Bash",
            "Runs a shell command in the first folder of the workspace and returns its output. It gets no input and no terminal. What it leaves running is ended with it.",
            schema,
        )
        .effect(ToolEffect::Execute)
    }

    fn denies(&self, arguments: &RawJson) -> Option<String> {
        let args: BashArgs = parse_args(arguments).ok()?;
        self.denylist.reason(&args.command)
    }

    fn call<'a>(&'a self, arguments: &'a RawJson, _: &'a Arc<dyn Caller>) -> HostToolFuture<'a> {
        Box::pin(async move { self.run(parse_args(arguments)?).await })
    }
}

impl BashTool {
    async fn run(&self, args: BashArgs) -> Result<CallResult, String> {
        if args.command.contains('\0') {
            return Err("the command has a NUL character".to_owned());
        }
        let seconds = args
            .timeout_seconds
            .unwrap_or(DEFAULT_SECONDS)
            .min(MAX_SECONDS);
        let variables = self.environment.iter();
        let shell = shell();
        // stderr goes to the same pipe as stdout, so that the order of both is kept.
        let both = r#"exec "$0" -c "$1" 2>&1"#.as_ref();
        let command = Command::new(shell)
            .args([
                "-c".as_ref(),
                both,
                shell.as_os_str(),
                args.command.as_ref(),
            ])
            .envs(variables.map(|(name, value)| (name, value.expose())))
            // A pager would wait for a key.
            .envs([("PAGER", "cat"), ("GIT_PAGER", "cat"), ("TERM", "dumb")])
            .current_dir(self.workspace.first());
        let child = self.launcher.spawn(&command).await;
        let mut child = child.map_err(|error| format!("the shell cannot be started: {error}"))?;
        let mut output = Vec::new();
        let limit = Duration::from_secs(seconds);
        let end = match timeout(limit, read_output(&mut child, &mut output)).await {
            Ok(Some(exit)) => CommandEnd::Exited(exit),
            Ok(None) => CommandEnd::TooMuch,
            Err(_) => CommandEnd::Late(seconds),
        };
        // Ends what the command left behind, too. Where this future is dropped, so is the child,
        // which kills all of them.
        child.stop(STOP).await;
        let text = String::from_utf8_lossy(&output).into_owned();
        Ok(self.result(text, end))
    }

    fn result(&self, text: String, end: CommandEnd) -> CallResult {
        let text = self.long_output.fit(text);
        let note = match end {
            CommandEnd::Exited(Exit::Status(0)) => return CallResult::success(text),
            CommandEnd::Exited(exit) => exit.to_string(),
            CommandEnd::Late(seconds) => format!("stopped: it ran longer than {seconds} s"),
            CommandEnd::TooMuch => format!("stopped: it wrote more than {MAX_OUTPUT_BYTES} bytes"),
        };
        let line_end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        CallResult::failure(format!("{text}{line_end}[{note}]"))
    }
}

/// `bash`, or `sh` if there is no `bash`.
fn shell() -> &'static Path {
    let known = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
    let found = known.into_iter().map(Path::new).find(|path| path.exists());
    found.unwrap_or(Path::new("/bin/sh"))
}

/// Reads the output of the child until it ends; `None` over the limit.
async fn read_output(child: &mut Child, output: &mut Vec<u8>) -> Option<Exit> {
    // Without stdin, a command that asks ends instead of waiting.
    drop(child.stdin.take());
    let mut stdout = child.stdout.take()?;
    let mut buffer = vec![0; 16 << 10];
    let mut exit = None;
    let mut drained = Instant::now();
    loop {
        let read = tokio::select! {
            read = stdout.read(&mut buffer) => read.unwrap_or(0),
            ended = child.exited(), if exit.is_none() => {
                exit = Some(ended);
                drained = Instant::now() + DRAIN_TIME;
                continue;
            }
            // A process that the command left running may keep the pipe open.
            () = sleep_until(drained), if exit.is_some() => return exit,
        };
        if read == 0 {
            break;
        }
        output.extend_from_slice(&buffer[..read]);
        if output.len() > MAX_OUTPUT_BYTES {
            output.truncate(MAX_OUTPUT_BYTES);
            return None;
        }
    }
    match exit {
        None => Some(child.exited().await),
        exit => exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard::config::Timeouts;

    #[test]
    fn a_command_ends_before_the_host_ends_its_call() {
        let longest = Duration::from_secs(MAX_SECONDS) + STOP.kill + STOP.verified;
        assert!(longest < Timeouts::default().call_max);
    }
}
