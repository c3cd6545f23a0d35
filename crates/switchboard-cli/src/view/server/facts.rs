//! The facts of one server that `-v` adds: protocol, connections, process, limits, history.

use std::time::{Duration, SystemTime};

use switchboard::Host;
use switchboard::config::{Endpoint, Sharing, Timeouts};
use switchboard::server::{SecondConnection, ServerHandle, Snapshot, State};

use super::{era_word, escaped, transport_name};
use crate::hints;
use crate::setup::describe_containment;
use crate::view::table::{bytes, duration};

/// How many state changes `-v` shows; `switchboard logs` has all.
const SHOWN_HISTORY: usize = 10;

/// Label and value.
type Fact = (&'static str, String);

/// The facts that `-v` adds.
pub(super) fn facts(handle: &ServerHandle, snapshot: &Snapshot, host: &Host) -> Vec<Fact> {
    let by_url = matches!(handle.config.endpoint, Endpoint::Http(_));
    let mut facts = vec![("State", snapshot.state.as_str().to_owned())];
    facts.extend(protocol(snapshot));
    facts.extend(connection(handle, snapshot, by_url));
    facts.push((
        if by_url { "Reconnects" } else { "Restarts" },
        snapshot.restarts.to_string(),
    ));
    facts.push(("Timeouts", timeouts(handle.config.timeouts)));
    if !by_url {
        let containment = describe_containment(host.containment());
        facts.push(("Supervised by", containment.to_owned()));
    }
    facts.extend(entry(handle, snapshot));
    facts.extend(anomalies(handle, snapshot, by_url));
    facts.extend(recent(snapshot).map(|line| ("History", line)));
    facts
}

/// The revision, and the server's instructions.
fn protocol(snapshot: &Snapshot) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let State::Ready { era, version } = &snapshot.state {
        let revision = format!("{} era, {}", era_word(*era), escaped(version));
        facts.push(("Protocol", revision));
    }
    if let Some(hello) = snapshot.session.as_ref().map(|session| session.hello()) {
        let instructions = hello.instructions.iter();
        let instructions = instructions.map(|text| text.for_terminal().to_string());
        facts.extend(instructions.map(|text| ("Instructions", text)));
    }
    facts
}

/// The open connection or process, and the sessions of single callers.
fn connection(handle: &ServerHandle, snapshot: &Snapshot, by_url: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    let up = uptime(snapshot).map_or_else(|| "unknown".to_owned(), duration);
    if let (State::Ready { .. }, true) = (&snapshot.state, by_url) {
        let wire = transport_name(snapshot.wire);
        facts.push(("Connection", format!("{wire}, up {up}")));
    }
    if let Some(pid) = snapshot.pid {
        let memory = memory_bytes(pid).map_or_else(|| "unknown".to_owned(), bytes);
        facts.push(("Process", format!("pid {pid}, up {up}, memory {memory}")));
    }
    if handle.config.session == Sharing::PerCaller {
        facts.push(("Sessions", session_count(handle)));
    }
    facts
}

/// Where the entry is, which entry it replaces, and which of its variables are not set.
fn entry(handle: &ServerHandle, snapshot: &Snapshot) -> Vec<Fact> {
    let source = &handle.config.source;
    let file = escaped(&source.file.display().to_string());
    let mut facts = vec![("File", format!("{file}:{}", source.line))];
    if let Some(shadowed) = &source.shadows {
        let shadowed = escaped(&shadowed.file.display().to_string());
        facts.push(("Replaces", format!("the entry in {shadowed}")));
    }
    for (variable, field) in &snapshot.unset {
        let unset = format!("{} (in {})", escaped(variable), escaped(field));
        facts.push(("Not set", unset));
    }
    facts
}

/// Violations of the protocol.
fn anomalies(handle: &ServerHandle, snapshot: &Snapshot, by_url: bool) -> Vec<Fact> {
    let deviations = snapshot.deviations.deviations();
    let junk = if by_url { "events" } else { "lines on stdout" };
    let doctor = hints::command(&["doctor", handle.config.name.as_str()]);
    let junk = format!("{junk} that are not messages ({doctor} shows them)");
    [
        (deviations.junk_lines, junk.as_str()),
        (deviations.unknown_ids, "responses with an unknown id"),
        (
            deviations.forbidden_requests,
            "requests that its protocol version does not allow",
        ),
        (
            deviations.unattributed,
            "questions that could not be matched to a call, declined",
        ),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| ("Anomaly", format!("{count} {what}")))
    .collect()
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
    fn s4_27_timeouts_are_shown_with_the_effect_of_progress() {
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
