//! One server: from its handle and tools to a [`ServerView`] and an entry of `status --json`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchboard::catalog::Catalog;
use switchboard::config::{Endpoint, ServerConfig, Sharing, StateNames, Timeouts};
use switchboard::server::{ServerHandle, Snapshot, State, Wire};
use switchboard::session::Era;
use switchboard::untrusted::Untrusted;
use switchboard::{Hint, Host};

use super::mask;
use super::status::{Discovery, ServerView, StateWord, StatusView, ToolView};
use super::table::{bytes, duration};
use crate::hints;
use crate::setup::describe_containment;

/// How many changes of state `-v` shows; `switchboard logs` has all.
const SHOWN_HISTORY: usize = 10;

/// All servers of a host.
pub(crate) fn status(host: &Host) -> StatusView {
    let catalog = host.catalog();
    let servers = host
        .servers()
        .iter()
        .map(|handle| server_view(handle, &catalog, host))
        .collect();
    StatusView {
        discovery: discovery_of(host),
        servers,
    }
}

/// `{"discovery", "servers": [{"name", "status", "state", "transport", "era", "protocolVersion",
/// "tools", "withheld": [{"tool", "reason"}], "error", "nextAttempt", "command", "url", "cwd",
/// "timeouts", "dialect", "word"}]}`. `status` is one of three words whatever the dialect; `word`
/// is what the server's own dialect says.
pub(crate) fn status_json(host: &Host, verbose: bool) -> Value {
    let catalog = host.catalog();
    let entry =
        |handle: &ServerHandle| entry(handle, &server_view(handle, &catalog, host), verbose);
    let servers: Vec<_> = host.servers().iter().map(entry).collect();
    json!({ "discovery": discovery_of(host).as_str(), "servers": servers })
}

fn entry(handle: &ServerHandle, view: &ServerView, verbose: bool) -> Value {
    let snapshot = handle.snapshot();
    let (era, version) = match &snapshot.state {
        State::Ready { era, version } => (Some(era_word(*era)), Some(version.clone())),
        _ => (None, None),
    };
    let mut entry = json!({
        "name": view.name,
        "status": snapshot.shown_state().word(StateNames::Three),
        "state": snapshot.state.as_str(),
        "transport": transport_word(&handle.config, &snapshot),
        "era": era,
        "protocolVersion": version,
        "tools": view.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        "withheld": view.withheld.iter().map(|(tool, reason)| json!({ "tool": tool, "reason": reason })).collect::<Vec<_>>(),
        "error": view.why.as_ref().map(|(_, why)| why.as_str()),
        "nextAttempt": view.next_attempt,
        "command": (view.endpoint.0 == "Command").then_some(view.endpoint.1.as_str()),
        "url": (view.endpoint.0 == "URL").then_some(view.endpoint.1.as_str()),
        "cwd": view.working_directory,
        "timeouts": timeouts_json(handle.config.timeouts),
        "dialect": handle.config.dialect.profile().name,
        "word": view.dialect_word,
    });
    if verbose {
        entry["endpoint"] = view.endpoint.1.as_str().into();
        entry["pid"] = snapshot.pid.into();
        entry["uptimeSeconds"] = uptime(&snapshot).map(|span| span.as_secs()).into();
        entry["memoryBytes"] = snapshot.pid.and_then(memory_bytes).into();
        entry["restarts"] = snapshot.restarts.into();
        entry["cached"] = snapshot.cached.into();
        entry["history"] = recent(&snapshot).collect::<Vec<_>>().into();
    }
    entry
}

/// In milliseconds.
fn timeouts_json(limits: Timeouts) -> Value {
    let Timeouts {
        connect,
        call,
        call_max,
    } = limits;
    json!({ "connect": connect.as_millis() as u64, "call": call.as_millis() as u64, "callMax": call_max.as_millis() as u64 })
}

fn server_view(handle: &ServerHandle, catalog: &Catalog, host: &Host) -> ServerView {
    let snapshot = handle.snapshot();
    let config = &handle.config;
    let words = config.dialect.profile().state_names;
    let shown = snapshot.shown_state();
    let seen = word(&shown);
    ServerView {
        name: escaped(config.name.as_str()),
        word: if words == StateNames::All {
            seen
        } else {
            seen.plain()
        },
        dialect_word: shown.word(words),
        docker: matches!(&config.endpoint, Endpoint::Stdio(stdio) if stdio.command.rsplit('/').next() == Some("docker")),
        endpoint: endpoint(config),
        working_directory: match &config.endpoint {
            Endpoint::Stdio(stdio) => stdio.cwd.as_deref().map(escaped),
            Endpoint::Http(_) | Endpoint::Invalid(_) => None,
        },
        timeout_ms: config.written_call_timeout.map(|limit| limit.as_millis()),
        why: why(config, &snapshot, words),
        next_attempt: next_attempt(&shown),
        tools: tools(config, catalog),
        cached: snapshot.cached,
        is_brief: config.dialect.profile().compact_status,
        withheld: withheld(config, catalog),
        facts: facts(handle, &snapshot, host),
    }
}

/// `Command` or `URL` as written, masked and escaped.
pub(crate) fn endpoint(config: &ServerConfig) -> (&'static str, String) {
    match &config.endpoint {
        Endpoint::Stdio(stdio) => {
            let mut words = vec![stdio.command.clone()];
            words.extend(mask::arguments(&stdio.args));
            ("Command", escaped(&words.join(" ")))
        }
        Endpoint::Http(http) => ("URL", escaped(&mask::url(&http.url))),
        Endpoint::Invalid(fault) => (
            "Entry",
            escaped(&format!("{}:{}", fault.file.display(), fault.line)),
        ),
    }
}

fn tools(config: &ServerConfig, catalog: &Catalog) -> Vec<ToolView> {
    catalog
        .tools()
        .iter()
        .filter(|tool| tool.id.server == config.name)
        .map(|tool| ToolView {
            name: tool.exposed.to_string(),
            description: tool
                .definition
                .description
                .as_ref()
                .map(|text| text.for_terminal().to_string())
                .unwrap_or_default(),
        })
        .collect()
}

fn withheld(config: &ServerConfig, catalog: &Catalog) -> Vec<(String, String)> {
    let own = catalog
        .withheld()
        .iter()
        .filter(|withheld| withheld.server == config.name);
    own.map(|withheld| {
        (
            withheld.tool.untrusted().for_terminal_line().to_string(),
            escaped(&withheld.reason),
        )
    })
    .collect()
}

/// Why a server is not connected, under the label of its dialect.
fn why(
    config: &ServerConfig,
    snapshot: &Snapshot,
    words: StateNames,
) -> Option<(&'static str, String)> {
    let (label, why) = reason(config, snapshot)?;
    match words {
        StateNames::All => Some((label, why)),
        StateNames::Three => (label != "Step").then_some(("Error", why)),
        StateNames::OkError if label == "Step" => {
            Some(("Err", format!("not connected yet ({why})")))
        }
        StateNames::OkError => Some(("Err", why)),
    }
}

fn reason(config: &ServerConfig, snapshot: &Snapshot) -> Option<(&'static str, String)> {
    let one_line = |text: &str| escaped(text);
    match &snapshot.shown_state() {
        State::Ready { .. } => {
            let faults = &snapshot.offerings.faults;
            let faults_text: Vec<_> = faults
                .iter()
                .map(|(method, what)| format!("{method}: {}", one_line(what)))
                .collect();
            (!faults_text.is_empty()).then(|| ("Error", faults_text.join("; ")))
        }
        State::Connecting { step, .. } => Some(("Step", step.to_string())),
        State::Disabled => Some((
            "Reason",
            format!(
                "disabled; {} in its entry to use it",
                config.dialect.profile().how_to_enable()
            ),
        )),
        State::Blocked { rule } => Some(("Reason", one_line(rule))),
        State::Untrusted { reason } => {
            let trust = hints::command(&["trust", config.name.as_str()]);
            Some((
                "Reason",
                format!("{}; review it with {trust}", one_line(reason)),
            ))
        }
        State::NeedsLogin { reason, hint, .. } => {
            Some(("Reason", login_advice(config, reason, *hint)))
        }
        State::Backoff { error, .. } | State::Failed { error } => Some((
            "Error",
            format!("{}; {}", one_line(error), hints::doctor(&config.name)),
        )),
        _ => None,
    }
}

/// When a failed server is tried again.
fn next_attempt(state: &State) -> Option<String> {
    let State::Backoff {
        attempt, retry_at, ..
    } = state
    else {
        return None;
    };
    let number = attempt + 1;
    Some(match retry_at.duration_since(SystemTime::now()) {
        Ok(wait) if wait >= Duration::from_secs(1) => {
            format!(
                "number {number}, in {}",
                duration(Duration::from_secs(wait.as_secs()))
            )
        }
        Ok(_) => format!("number {number}, in less than a second"),
        Err(_) => format!("number {number}, under way"),
    })
}

/// Why a server needs a login, and the next step. If the entry has a token of its own, a login
/// would not help.
pub(crate) fn login_advice(config: &ServerConfig, reason: &str, hint: Hint) -> String {
    let fact = match config.endpoint.has_own_token() {
        true => escaped(reason),
        false => format!("needs a login ({})", escaped(reason)),
    };
    match hints::words(hint, &config.name, None) {
        Some(advice) => format!("{fact}; {advice}"),
        None => fact,
    }
}

/// How many sessions of single callers are open.
pub(crate) fn session_count(handle: &ServerHandle) -> String {
    format!(
        "one per caller, {} open in addition to the shared one",
        handle.own_sessions()
    )
}

/// The facts that `-v` adds.
fn facts(handle: &ServerHandle, snapshot: &Snapshot, host: &Host) -> Vec<(&'static str, String)> {
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
fn recent(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let skipped = snapshot.history.len().saturating_sub(SHOWN_HISTORY);
    snapshot
        .history
        .iter()
        .skip(skipped)
        .map(|(_, happened)| escaped(happened))
}

fn discovery_of(host: &Host) -> Discovery {
    discovery(host.servers().iter().map(|handle| {
        let snapshot = handle.snapshot();
        (word(&snapshot.shown_state()), snapshot.is_settled())
    }))
}

/// Each server's state word, and whether it is settled. A failed server that is retried counts as
/// discovered.
fn discovery(servers: impl Iterator<Item = (StateWord, bool)>) -> Discovery {
    let servers: Vec<_> = servers.collect();
    if servers.iter().any(|(_, is_settled)| !is_settled) {
        Discovery::InProgress
    } else if servers.iter().all(|(word, _)| {
        matches!(
            word,
            StateWord::Idle | StateWord::Untrusted | StateWord::Blocked | StateWord::Disabled
        )
    }) {
        Discovery::NotStarted
    } else {
        Discovery::Completed
    }
}

/// The state for a person.
pub(crate) fn word(state: &State) -> StateWord {
    match state {
        State::Disabled => StateWord::Disabled,
        State::Blocked { .. } => StateWord::Blocked,
        State::Untrusted { .. } => StateWord::Untrusted,
        State::Idle => StateWord::Idle,
        State::Connecting { .. } => StateWord::Connecting,
        State::Ready { .. } => StateWord::Connected,
        State::NeedsLogin { .. } => StateWord::NeedsLogin,
        State::Stopped => StateWord::Stopped,
        _ => StateWord::Disconnected,
    }
}

/// `legacy` or `modern`.
pub(crate) fn era_word(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// The transport that worked, or else the one of the entry.
fn transport_word(config: &ServerConfig, snapshot: &Snapshot) -> &'static str {
    use switchboard::config::HttpWire;
    match (&config.endpoint, snapshot.wire) {
        (Endpoint::Stdio(_), _) => "stdio",
        (Endpoint::Http(_), Some(Wire::Sse)) => "sse",
        (Endpoint::Http(_), Some(Wire::Http)) => "http",
        (Endpoint::Http(http), None) if http.wire == HttpWire::Sse => "sse",
        (Endpoint::Http(_), None) => "http",
        (Endpoint::Invalid(_), _) => "none",
    }
}

/// The transport for a person.
pub(crate) fn transport_name(wire: Option<Wire>) -> &'static str {
    match wire {
        Some(Wire::Sse) => "HTTP+SSE",
        Some(Wire::Http) | None => "Streamable HTTP",
    }
}

fn uptime(snapshot: &Snapshot) -> Option<Duration> {
    if snapshot.pid.is_none() && !matches!(snapshot.state, State::Ready { .. }) {
        return None;
    }
    SystemTime::now().duration_since(snapshot.started?).ok()
}

/// Resident memory (Linux only).
fn memory_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// A path quoted for a shell, to be copied.
pub(crate) fn shell_word(text: &Path) -> String {
    escaped(&switchboard::shell::word(&text.to_string_lossy()))
}

/// One escaped line.
pub(crate) fn escaped(text: &str) -> String {
    Untrusted::new(text).for_terminal_line().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_48_discovery_is_in_progress_while_any_server_connects() {
        let check = |servers: &[(StateWord, bool)], expected: &str| {
            assert_eq!(
                discovery(servers.iter().copied()).as_str(),
                expected,
                "{servers:?}"
            );
        };
        check(&[], "NOT_STARTED");
        check(
            &[(StateWord::Idle, true), (StateWord::Idle, true)],
            "NOT_STARTED",
        );
        check(
            &[
                (StateWord::Untrusted, true),
                (StateWord::Disabled, true),
                (StateWord::Blocked, true),
            ],
            "NOT_STARTED",
        );
        check(
            &[(StateWord::Connected, true), (StateWord::Connecting, false)],
            "IN_PROGRESS",
        );
        check(
            &[
                (StateWord::Connected, true),
                (StateWord::Disconnected, true),
                (StateWord::Untrusted, true),
            ],
            "COMPLETED",
        );
        // Retried after it failed.
        check(
            &[
                (StateWord::Connected, true),
                (StateWord::Disconnected, true),
            ],
            "COMPLETED",
        );
    }

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
