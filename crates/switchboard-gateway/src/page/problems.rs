//! Problems and next steps: the summary of the page, and one line for each problem.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use switchboard::hint::Hint;
use switchboard::server::{ServerHandle, Snapshot, State};
use switchboard::untrusted::Untrusted;

use super::overview::reason;
use super::text::{ForeignText, foreign, with_code};
use crate::path_segment;
use crate::{Operations, PromptClash, ResourceClash, prompt_clashes, resource_clashes};

/// A server that was restarted this often and is up only for a short time is called unstable.
const UNSTABLE_RESTARTS: u32 = 3;

/// How many resources that several servers list are shown, and how many prompts of one name.
const MAX_CLASHES: usize = 5;

/// How long it must be up to be called stable again.
const STABLE_AFTER: Duration = Duration::from_secs(600);

/// The summary in one sentence: servers, the gateway's own problems, and what waits.
pub(super) fn summary(operations: &Operations, waiting: usize) -> String {
    let servers = operations.host.servers();
    let states = servers.iter().map(|server| server.snapshot().shown_state());
    let mut parts = vec![servers_summary(states)];
    if !operations.host.config_errors().is_empty() {
        parts.push("the changed configuration is invalid".to_owned());
    }
    if operations.audit.fault().borrow().is_some() {
        parts.push("the audit log cannot be written".to_owned());
    }
    match operations.pending_changes().len() {
        0 => {}
        1 => parts.push("1 change of the configuration waits for you".to_owned()),
        count => parts.push(format!("{count} changes of the configuration wait for you")),
    }
    parts.push(match waiting {
        0 => "no call waits for you".to_owned(),
        1 => "1 call waits for you".to_owned(),
        count => format!("{count} calls wait for you"),
    });
    format!("{}.", parts.join("; "))
}

/// How many servers are up, and what the others are. One that is disabled does not count; a lazy one
/// that is not needed yet is up.
fn servers_summary(states: impl Iterator<Item = State>) -> String {
    let mut counts = [
        ("down", 0),
        ("connecting", 0),
        ("untrusted", 0),
        ("blocked", 0),
    ];
    let (mut up, mut disabled) = (0, 0);
    for state in states {
        match state {
            State::Disabled => disabled += 1,
            State::Connecting { .. } => counts[1].1 += 1,
            State::Untrusted { .. } => counts[2].1 += 1,
            State::Blocked { .. } => counts[3].1 += 1,
            state if is_down(&state) => counts[0].1 += 1,
            _ => up += 1,
        }
    }
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    let others: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    let all = up + others.iter().map(|(_, count)| count).sum::<usize>();
    match (all, others.as_slice()) {
        (0, _) if disabled > 0 => "All servers are disabled".to_owned(),
        (0, _) => "No server is configured".to_owned(),
        (1, []) => "The server is up".to_owned(),
        (all, []) => format!("All {all} servers are up"),
        (1, [(state, _), ..]) => format!("The server is {state}"),
        (all, [(state, count)]) => format!("{count} of {all} servers {} {state}", is(*count)),
        (all, others) => {
            let others = others
                .iter()
                .map(|(state, count)| format!("{count} {} {state}", is(*count)));
            let others: Vec<_> = others.collect();
            format!("{up} of {all} servers {} up, {}", is(up), others.join(", "))
        }
    }
}

pub(super) fn is_down(state: &State) -> bool {
    matches!(
        state,
        State::NeedsLogin { .. } | State::Backoff { .. } | State::Failed { .. } | State::Stopped
    )
}

/// All problems, the gateway's own first.
pub(super) fn problems(operations: &Operations) -> Markup {
    let servers = operations.host.servers();
    let problems: Vec<Markup> = config_problem(operations)
        .into_iter()
        .chain(audit_problem(operations))
        .chain(
            servers
                .iter()
                .filter_map(|server| server_problem(operations, server)),
        )
        .chain(clash_problems(operations))
        .collect();
    html! {
        div id="problems" data-part {
            @if !problems.is_empty() {
                ul.problems { @for problem in &problems { li { (problem) } } }
            }
        }
    }
}

fn config_problem(operations: &Operations) -> Option<Markup> {
    let errors = operations.host.config_errors();
    (!errors.is_empty()).then(|| {
        html! {
            "The changed configuration is invalid; the previous one stays in use. Correct the file: it is read "
            "again when it is saved."
            pre { @for line in &errors { (foreign(line)) "\n" } }
        }
    })
}

fn audit_problem(operations: &Operations) -> Option<Markup> {
    let fault = operations.audit.fault().borrow().clone()?;
    let path = operations
        .audit
        .path()
        .map(|path| path.display().to_string());
    let dropped = operations.audit.dropped();
    Some(html! {
        "The audit log cannot be written: " (foreign(&fault)) " ("
        code { (foreign(&path.unwrap_or_default())) } "). Calls go on; their lines wait in memory"
        @if dropped > 0 { ", and " (dropped) " are lost" }
        ". Make room, or correct the permissions of the folder."
    })
}

fn server_problem(operations: &Operations, server: &ServerHandle) -> Option<Markup> {
    let snapshot = server.snapshot();
    let state = snapshot.shown_state();
    let name = &server.config.name;
    let hint = match &state {
        State::NeedsLogin { hint, .. } => *hint,
        State::Stopped => Hint::StartAgain,
        State::Untrusted { .. } => Hint::Accept,
        State::Blocked { .. } => Hint::ChangeServerList,
        _ => Hint::Examine,
    };
    let to_do = operations.hint(hint, name);
    if is_unstable(&snapshot) {
        return Some(html! {
            (link(name.as_str())) " is unstable: it was restarted " (snapshot.restarts) " times"
            @if let Some(exit) = &snapshot.last_exit { "; last: " (foreign(exit)) }
            "." (to_do_sentence(to_do.as_deref()))
        });
    }
    let problem = match &state {
        State::NeedsLogin { .. } => "needs a login",
        State::Untrusted { .. } => "is untrusted",
        State::Blocked { .. } => "is blocked",
        state if is_down(state) => "is down",
        _ => return None,
    };
    let stderr = last_stderr(server, &state);
    Some(html! {
        (link(name.as_str())) " " (problem) ": " (foreign(&reason(&state))) "."
        @if let State::Backoff { retry_at, .. } = &state { (retry_sentence(*retry_at)) }
        @for (variable, field) in &snapshot.unset {
            " " code { (foreign(variable)) } ", which its " code { (foreign(field)) } " refers to, is not set."
        }
        (to_do_sentence(to_do.as_deref()))
        @if let Some(line) = &stderr { div.soft { "Last line of stderr: " code { (ForeignText(line)) } } }
    })
}

/// Resources that several servers list, and prompts of one name; the first few.
fn clash_problems(operations: &Operations) -> Vec<Markup> {
    let clashes = resource_clashes(&operations.host.catalog());
    let more = clashes.len().saturating_sub(MAX_CLASHES);
    let mut problems: Vec<_> = clashes
        .iter()
        .take(MAX_CLASHES)
        .map(clash_problem)
        .collect();
    if more > 0 {
        problems.push(html! { "Servers list " (more) " more resources that another one lists." });
    }
    let clashes = prompt_clashes(&operations.host, &operations.host.catalog());
    problems.extend(clashes.iter().take(MAX_CLASHES).map(prompt_problem));
    let more = clashes.len().saturating_sub(MAX_CLASHES);
    if more > 0 {
        problems.push(html! { "Servers have " (more) " more prompts whose name is taken." });
    }
    problems
}

fn prompt_problem(clash: &PromptClash) -> Markup {
    html! {
        "Prompt " code { (ForeignText(&clash.name)) } " is that of " (link(clash.first.as_str()))
        ", which comes first in the configuration; that of " (link(clash.server.as_str()))
        @match &clash.listed_as {
            Some(name) => { " is listed as " code { (ForeignText(name)) } "." }
            None => { " is found under " code { "/mcp/NAME" } " only." }
        }
    }
}

fn clash_problem(clash: &ResourceClash) -> Markup {
    let (first, others) = clash.servers.split_at(1);
    html! {
        "Resource " code { (ForeignText(&clash.uri)) } " is listed by several servers: "
        @for server in first { (link(server.as_str())) }
        " answers, because it comes first in the configuration; "
        @for (index, server) in others.iter().enumerate() {
            @if index > 0 { ", " }
            (link(server.as_str()))
        }
        @if others.len() > 1 { " do" } @else { " does" }
        " only under " code { "/mcp/NAME" } "."
    }
}

/// The last line of stderr, unless the reason of the state contains it.
pub(super) fn last_stderr(server: &ServerHandle, state: &State) -> Option<Untrusted> {
    let line = server.stderr.last_lines(1).pop()?;
    (!reason(state).contains("last stderr")).then_some(line)
}

/// Up now, after many restarts.
fn is_unstable(snapshot: &Snapshot) -> bool {
    let up_for = snapshot.started.and_then(|started| started.elapsed().ok());
    matches!(snapshot.state, State::Ready { .. })
        && snapshot.restarts >= UNSTABLE_RESTARTS
        && up_for.is_some_and(|up_for| up_for < STABLE_AFTER)
}

fn retry_sentence(retry_at: SystemTime) -> Markup {
    let left = retry_at
        .duration_since(SystemTime::now())
        .unwrap_or_default();
    html! {
        @match left.as_secs() {
            0 => " It is being tried again.",
            seconds => { " It is tried again in " (seconds) " s." }
        }
    }
}

fn to_do_sentence(to_do: Option<&str>) -> Markup {
    html! { @if let Some(to_do) = to_do { " To do: " (with_code(to_do)) "." } }
}

fn link(name: &str) -> Markup {
    html! { a href={ "/servers/" (path_segment::encode(name)) } { (name) } }
}

#[cfg(test)]
mod tests {
    use switchboard::revision::Era;

    use super::*;

    #[test]
    fn only_servers_that_can_be_used_are_called_up() {
        let ready = || State::Ready {
            era: Era::Modern,
            version: String::new(),
        };
        let connecting = || State::Connecting {
            since: SystemTime::now(),
            step: switchboard::server::ConnectStep::Handshake,
        };
        let untrusted = || State::Untrusted {
            reason: String::new(),
        };
        for (states, expected) in [
            (vec![], "No server is configured"),
            (vec![State::Disabled], "All servers are disabled"),
            (vec![State::Disabled, ready()], "The server is up"),
            (vec![State::Idle, ready()], "All 2 servers are up"),
            (
                vec![State::Disabled, connecting()],
                "The server is connecting",
            ),
            (vec![untrusted(), ready()], "1 of 2 servers is untrusted"),
            (
                vec![State::Stopped, State::Stopped],
                "2 of 2 servers are down",
            ),
            (
                vec![ready(), connecting(), untrusted(), untrusted()],
                "1 of 4 servers is up, 1 is connecting, 2 are untrusted",
            ),
        ] {
            assert_eq!(servers_summary(states.into_iter()), expected);
        }
    }
}
