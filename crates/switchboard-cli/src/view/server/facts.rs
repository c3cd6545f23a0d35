//! The facts of one server that `-v` adds: protocol, connections, process, limits, history.

use std::time::{Duration, SystemTime};

use switchboard::Host;
use switchboard::config::{Endpoint, Sharing, Timeouts};
use switchboard::server::{SecondConnection, ServerHandle, Snapshot, State};

use super::{era_word, escaped, transport_name};
use crate::hints;
use crate::setup::describe_containment;
use crate::view::table::{bytes, duration};

/// How many changes of state `-v` shows; `switchboard logs` has all.
const SHOWN_HISTORY: usize = 10;

/// The facts that `-v` adds.
pub(super) fn facts(
    handle: &ServerHandle,
    snapshot: &Snapshot,
    host: &Host,
) -> Vec<(&'static str, String)> {
    let mut facts = vec![("State", snapshot.state.as_str().to_owned())];
    if let State::Ready { era, version } = &snapshot.state {
        facts.push((
            "Protocol",
            format!("{} era, {}", era_word(*era), escaped(version)),
        ));
    }
    if let Some(hello) = snapshot.session.as_ref().map(|session| session.hello()) {
        let instructions = hello
            .instructions
            .iter()
            .map(|words| words.for_terminal().to_string());
        facts.extend(instructions.map(|words| ("Instructions", words)));
    }
    let by_url = matches!(handle.config.endpoint, Endpoint::Http(_));
    let up = uptime(snapshot).map_or_else(|| "unknown".to_owned(), duration);
    if let (State::Ready { .. }, true) = (&snapshot.state, by_url) {
        facts.push((
            "Connection",
            format!("{}, up {up}", transport_name(snapshot.wire)),
        ));
    }
    if let Some(pid) = snapshot.pid {
        let memory = memory_bytes(pid)
            .map(bytes)
            .unwrap_or_else(|| "unknown".to_owned());
        facts.push(("Process", format!("pid {pid}, up {up}, memory {memory}")));
    }
    if handle.config.session == Sharing::PerCaller {
        facts.push(("Sessions", session_count(handle)));
    }
    facts.push((
        if by_url { "Reconnects" } else { "Restarts" },
        snapshot.restarts.to_string(),
    ));
    facts.push(("Timeouts", timeouts(handle.config.timeouts)));
    if !by_url {
        facts.push((
            "Supervised by",
            describe_containment(host.containment()).to_owned(),
        ));
    }
    facts.push((
        "File",
        format!(
            "{}:{}",
            escaped(&handle.config.source.file.display().to_string()),
            handle.config.source.line
        ),
    ));
    if let Some(shadowed) = &handle.config.source.shadows {
        facts.push((
            "Replaces",
            format!("the entry in {}", escaped(&shadowed.display().to_string())),
        ));
    }
    for (variable, field) in &snapshot.unset {
        facts.push((
            "Not set",
            format!("{} (in {})", escaped(variable), escaped(field)),
        ));
    }
    let oddities = snapshot.oddities.oddities();
    let mut counted = |count: u64, what: &str| {
        if count > 0 {
            facts.push(("Anomaly", format!("{count} {what}")));
        }
    };
    let junk = if by_url { "events" } else { "lines on stdout" };
    counted(
        oddities.junk_lines,
        &format!(
            "{junk} that are not messages ({} shows them)",
            hints::command(&["doctor", handle.config.name.as_str()])
        ),
    );
    counted(oddities.unknown_ids, "responses with an unknown id");
    counted(
        oddities.forbidden_requests,
        "requests that its protocol version does not allow",
    );
    counted(
        oddities.unattributed,
        "questions that could not be matched to a call, declined",
    );
    facts.extend(recent(snapshot).map(|line| ("History", line)));
    facts
}

/// The connection of the other era, and what is called over it.
pub(super) fn second_connection(second: &SecondConnection) -> String {
    let state = match &second.state {
        State::Ready { version, .. } => escaped(version),
        State::Idle => "opened when needed".to_owned(),
        state => state.as_str().to_owned(),
    };
    let tools: Vec<_> = second
        .tools
        .iter()
        .map(|tool| tool.untrusted().for_terminal_line().to_string())
        .collect();
    format!(
        "{} era, {state}, for {}",
        era_word(second.era),
        tools.join(", ")
    )
}

/// How many sessions of single callers are open.
pub(crate) fn session_count(handle: &ServerHandle) -> String {
    format!(
        "one per caller, {} open in addition to the shared one",
        handle.own_sessions()
    )
}

/// The time limits; if progress does not extend the call, it says so.
fn timeouts(limits: Timeouts) -> String {
    let (connect, call, all) = (
        duration(limits.connect),
        duration(limits.call),
        duration(limits.call_max),
    );
    if limits.call == limits.call_max {
        format!("connect {connect}, call {all} in total, regardless of progress")
    } else {
        format!("connect {connect}, call {call} without progress, {all} in total")
    }
}

/// The last changes of state with their reasons.
pub(super) fn recent(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let skipped = snapshot.history.len().saturating_sub(SHOWN_HISTORY);
    snapshot
        .history
        .iter()
        .skip(skipped)
        .map(|(_, happened)| escaped(happened))
}

/// How long the process has run, or the connection has been open.
pub(super) fn uptime(snapshot: &Snapshot) -> Option<Duration> {
    if snapshot.pid.is_none() && !matches!(snapshot.state, State::Ready { .. }) {
        return None;
    }
    SystemTime::now().duration_since(snapshot.started?).ok()
}

/// Resident memory (Linux only).
pub(super) fn memory_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_27_the_timeouts_of_a_server_are_told_with_what_progress_does_to_them() {
        let check = |limits: Timeouts, told: &str| assert_eq!(timeouts(limits), told);
        check(
            Timeouts::default(),
            "connect 30s, call 1m without progress, 10m in total",
        );
        let absolute = Duration::from_secs(600);
        check(
            Timeouts {
                call: absolute,
                call_max: absolute,
                ..Timeouts::default()
            },
            "connect 30s, call 10m in total, regardless of progress",
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn s2_70_memory_of_a_live_process_is_known() {
        assert!(memory_bytes(std::process::id()).is_some_and(|bytes| bytes > 100_000));
    }
}
