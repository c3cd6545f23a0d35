//! The child processes of `chaosd`, and facts about its own process.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{getpgrp, getpid, getppid, getsid, setsid};

/// The argument with which `chaosd` only sleeps.
pub(crate) const GRANDCHILD: &str = "--grandchild";
/// The argument with which `chaosd` starts such a one, and exits.
pub(crate) const DAEMON: &str = "--daemon";

/// Starts a sleeping process that ignores SIGTERM.
pub(crate) fn start_grandchild() {
    start(command(GRANDCHILD), true);
}

/// The same, with our stdout for its own.
pub(crate) fn start_grandchild_holding_stdout() {
    let mut command = command(GRANDCHILD);
    command.stdout(Stdio::inherit());
    start(command, true);
}

/// Double fork and setsid: the process in the middle leads a new session, and is gone when this
/// returns.
pub(crate) fn start_daemon() {
    let mut command = command(DAEMON);
    // SAFETY: setsid is async-signal-safe and the closure allocates nothing.
    unsafe { command.pre_exec(|| setsid().map(drop).map_err(Into::into)) };
    if let Some(mut child) = start(command, false) {
        let _ = child.wait();
    }
}

fn command(argument: &str) -> Command {
    let program = std::env::current_exe()
        .unwrap_or_else(|error| crate::fail(&format!("cannot find itself: {error}")));
    let mut command = Command::new(program);
    command
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn start(mut command: Command, ignore_term: bool) -> Option<std::process::Child> {
    if ignore_term {
        // Set before exec, and kept by it: the process ignores SIGTERM from its first instruction
        // on. SAFETY: signal is async-signal-safe and the closure allocates nothing.
        unsafe {
            command.pre_exec(|| {
                signal(Signal::SIGTERM, SigHandler::SigIgn)
                    .map(drop)
                    .map_err(Into::into)
            });
        }
    }
    command
        .spawn()
        .map_err(|error| crate::fail(&format!("cannot start a process: {error}")))
        .ok()
}

/// The numbers of the descriptors open now; called first in `main`, it tells what the parent left
/// open.
pub(crate) fn open_descriptors() -> Vec<i32> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let mut found: Vec<(i32, bool)> = folder
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            // The descriptor that reads this folder is ours.
            let is_this_folder = std::fs::read_link(entry.path())
                .is_ok_and(|path| path.ends_with(format!("{}/fd", getpid())));
            Some((number, is_this_folder))
        })
        .collect();
    found.sort_unstable();
    found
        .into_iter()
        .filter(|(_, is_this_folder)| !is_this_folder)
        .map(|(number, _)| number)
        .collect()
}

/// What the process sees of itself, as a JSON object.
pub(crate) fn describe(inherited_descriptors: &[i32]) -> String {
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect();
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    serde_json::json!({
        "pid": getpid().as_raw(),
        "parent": getppid().as_raw(),
        "session": getsid(None).map(nix::unistd::Pid::as_raw).ok(),
        "group": getpgrp().as_raw(),
        "folder": std::env::current_dir().ok(),
        "arguments": arguments,
        "environment": environment,
        "descriptors": inherited_descriptors,
    })
    .to_string()
}
