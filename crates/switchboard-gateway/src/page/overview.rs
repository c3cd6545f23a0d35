//! The page `/`: what an operator wants to know first, from the top down: whether all is well, which
//! calls wait, how the servers are, what is running, what happened.

use std::time::Duration;

use maud::{DOCTYPE, Markup, html};
use serde_json::Value;
use switchboard::server::{ServerHandle, State};

use super::text::{ForeignText, foreign, json};
use crate::Operations;
use crate::approval_queue::WaitingCall;
use crate::operations::disclosure_digest;

/// Lines of the audit log on the page.
const AUDIT_LINES: usize = 50;

pub(super) fn render(operations: &Operations, token: &str) -> Markup {
    let waiting = operations.approvals.waiting();
    let summary = summary(operations, waiting.len());
    document(
        &summary,
        html! {
            div id="summary" data-part { h1 { (summary) } }
            div id="waiting" data-part {
                @if !waiting.is_empty() {
                    h2 { "Waiting for you" }
                    @for call in &waiting { (waiting_call(call, token)) }
                }
            }
            (pending_changes(operations, token))
            (servers(operations))
            (running(operations, token))
            (audit(operations))
            (about(operations))
        },
    )
}

/// The page for a browser that is not logged in.
pub(super) fn login_needed() -> Markup {
    document(
        "Log in",
        html! {
            h1 { "This browser is not logged in" }
            p {
                "Open the link that " code { "switchboard serve" } " printed when it started. It works once; "
                code { "switchboard approvals --page" } " prints a new one."
            }
        },
    )
}

/// The frame of every page.
pub(super) fn document(title: &str, content: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Switchboard" }
                link rel="stylesheet" href="/page.css";
                script src="/page.js" defer {}
            }
            body {
                header { a href="/" { "Switchboard" } span id="live" role="status" {} }
                main { (content) }
            }
        }
    }
}

/// One sentence: is it us or them, and does anybody wait?
fn summary(operations: &Operations, waiting: usize) -> String {
    let servers = operations.host.servers();
    let is_down = |server: &&ServerHandle| is_down(&server.snapshot().shown_state());
    let down = servers.iter().filter(is_down).count();
    let of_servers = match (servers.len(), down) {
        (0, _) => "No server is configured".to_owned(),
        (1, 0) => "The server is up".to_owned(),
        (all, 0) => format!("All {all} servers are up"),
        (1, _) => "The server is down".to_owned(),
        (all, 1) => format!("1 of {all} servers is down"),
        (all, down) => format!("{down} of {all} servers are down"),
    };
    let of_calls = match waiting {
        0 => "no call waits for you".to_owned(),
        1 => "1 call waits for you".to_owned(),
        count => format!("{count} calls wait for you"),
    };
    format!("{of_servers}; {of_calls}.")
}

fn is_down(state: &State) -> bool {
    matches!(
        state,
        State::NeedsLogin { .. } | State::Backoff { .. } | State::Failed { .. } | State::Stopped
    )
}

fn waiting_call(call: &WaitingCall, token: &str) -> Markup {
    let tool = call.tool.tool.untrusted();
    html! {
        section.card.wait id={ "approval-" (call.id) } {
            div.row {
                strong { (call.principal.as_str()) }
                span { "calls " code { (call.tool.server.as_str()) "/" (ForeignText(&tool)) } }
                @match call.held_for {
                    Some(left) => span.wait-text { (left.as_secs()) " s left" },
                    None => span.soft { "answered with an error; a yes is for its next try" },
                }
                form method="post" action={ "/approvals/" (call.id) } data-live {
                    input type="hidden" name="token" value=(token);
                    button.primary id={ "allow-" (call.id) } name="decision" value="allow" { "Allow once" }
                    button id={ "deny-" (call.id) } name="decision" value="deny" { "Deny" }
                }
            }
            div.soft { "Approval " (call.id) ", asked because: " (call.because) }
            pre { (json(call.arguments.as_str())) }
            @if !call.changed.is_empty() {
                pre { @for line in &call.changed { (foreign(line)) "\n" } }
            }
        }
    }
}

/// What a changed file would start or allow, and waits for a person.
fn pending_changes(operations: &Operations, token: &str) -> Markup {
    let changes = operations.host.pending_changes();
    html! {
        div id="changes" data-part {
            @if !changes.is_empty() {
                h2 { "Changed configuration" }
                @for change in &changes {
                    section.card.wait {
                        div.row {
                            @if let Some(server) = &change.server { strong { (server.as_str()) } }
                            span { (foreign(&change.reason)) }
                            @if let Some(disclosure) = change.server.as_ref().and_then(|server| operations.host.disclose(server)) {
                                form method="post" action={ "/servers/" (disclosure.name.as_str()) "/accept" } data-live {
                                    input type="hidden" name="token" value=(token);
                                    input type="hidden" name="shown" value=(disclosure_digest(&disclosure));
                                    button { "Accept and start" }
                                }
                            }
                        }
                        @if let Some(disclosure) = change.server.as_ref().and_then(|server| operations.host.disclose(server)) {
                            pre { @for line in &disclosure.stored_lines { (foreign(line)) "\n" } }
                        } @else {
                            div.soft { "Apply it with " code { "switchboard reload" } "." }
                        }
                    }
                }
            }
        }
    }
}

fn servers(operations: &Operations) -> Markup {
    html! {
        div id="servers" data-part {
            h2 { "Servers" }
            table.wide {
                thead { tr {
                    th { "Server" } th { "State" } th { "Reason" } th { "Era" } th { "Restarts" } th { "p50 / p99" } th { "Tools" }
                } }
                tbody {
                    @for server in operations.host.servers().iter() { (server_row(operations, server)) }
                }
            }
        }
    }
}

fn server_row(operations: &Operations, server: &ServerHandle) -> Markup {
    let name = server.config.name.as_str();
    let snapshot = server.snapshot();
    let state = snapshot.shown_state();
    let stderr = is_down(&state)
        .then(|| server.stderr.last_lines(1).pop())
        .flatten();
    html! {
        tr {
            td { a href={ "/servers/" (name) } { (name) } }
            td { span.state .(class(&state)) { (word(&state)) } }
            td {
                (foreign(&reason(&state)))
                @if let Some(line) = &stderr { div.soft { "stderr: " code { (ForeignText(line)) } } }
            }
            td { (era(&state)) }
            td { (snapshot.restarts) }
            td { (latency(operations, name)) }
            td { (snapshot.offerings.tools.len()) }
        }
    }
}

fn running(operations: &Operations, token: &str) -> Markup {
    let running = operations.running.shown();
    html! {
        div id="running" data-part {
            h2 { "Running requests" }
            @if running.is_empty() { p.soft { "None." } }
            @for request in &running {
                section.card id={ "call-" (request.id) } {
                    div.row {
                        strong { (request.principal.as_str()) }
                        span { (request.method) " " code { (foreign(&request.name)) } }
                        span.soft { "for " (seconds(request.age)) }
                        form method="post" action={ "/calls/" (request.id) "/cancel" } data-live {
                            input type="hidden" name="token" value=(token);
                            button id={ "cancel-" (request.id) } { "Cancel" }
                        }
                    }
                }
            }
        }
    }
}

fn audit(operations: &Operations) -> Markup {
    let lines = operations.audit.recent(AUDIT_LINES);
    html! {
        div id="audit" data-part {
            h2 { "Recent requests" }
            @if lines.is_empty() { p.soft { "None yet." } }
            @else {
                table.wide {
                    thead { tr {
                        th { "Time" } th { "Client" } th { "What" } th { "Decision" } th { "Outcome" } th { "ms" }
                    } }
                    tbody { @for line in &lines { (audit_row(line)) } }
                }
            }
        }
    }
}

fn audit_row(line: &str) -> Markup {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let time = text("time").get(11..19).unwrap_or_default();
    let outcome = match (text("event"), text("approval"), text("outcome")) {
        ("approval", answer, _) => format!("answered {answer}"),
        (event, _, "") => event.to_owned(),
        (_, _, outcome) => outcome.to_owned(),
    };
    let is_bad = matches!(
        outcome.as_str(),
        "denied" | "failed" | "refused" | "tool error"
    );
    html! {
        tr {
            td.soft { (time) }
            td { (foreign(text("client"))) }
            td {
                @if !text("server").is_empty() { (foreign(text("server"))) "/" }
                (foreign(text("name")))
            }
            td {
                (foreign(text("decision")))
                div.soft { (foreign(text("rule"))) }
            }
            td {
                span.bad[is_bad] { (foreign(&outcome)) }
                @if !text("error").is_empty() { div.soft { (foreign(text("error"))) } }
            }
            td { @if let Some(ms) = line["duration_ms"].as_f64() { (format!("{ms:.1}")) } }
        }
    }
}

/// What to paste into a report.
fn about(operations: &Operations) -> Markup {
    html! {
        div id="about" data-part {
            h2 { "This gateway" }
            dl {
                dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
                dt { "Up for" } dd { (coarse(operations.started.elapsed())) }
                @for file in &operations.config_files {
                    dt { "Configuration" } dd { code { (foreign(&file.display().to_string())) } }
                }
                @if let Some(path) = operations.audit.path() {
                    dt { "Audit log" } dd { code { (foreign(&path.display().to_string())) } }
                }
                @if operations.audit.dropped() > 0 {
                    dt { "Audit log" } dd.bad { (operations.audit.dropped()) " lines could not be written" }
                }
                dt { "Examine" } dd { code { "switchboard doctor" } }
            }
        }
    }
}

pub(super) fn word(state: &State) -> &'static str {
    match state {
        State::Disabled => "disabled",
        State::Blocked { .. } => "blocked",
        State::Untrusted { .. } => "untrusted",
        State::Idle => "idle",
        State::Connecting { .. } => "connecting",
        State::Ready { .. } => "ready",
        State::NeedsLogin { .. } => "needs a login",
        State::Backoff { .. } | State::Failed { .. } => "down",
        State::Stopped => "stopped",
        _ => "unknown",
    }
}

pub(super) fn class(state: &State) -> &'static str {
    match state {
        State::Ready { .. } => "good",
        state if is_down(state) => "bad",
        _ => "soft",
    }
}

pub(super) fn reason(state: &State) -> String {
    match state {
        State::Blocked { rule } => rule.clone(),
        State::Untrusted { reason } => reason.clone(),
        State::NeedsLogin { reason, .. } => reason.clone(),
        State::Connecting { step, .. } => step.to_string(),
        State::Backoff { error, attempt, .. } => format!("{error} (failure {attempt})"),
        State::Failed { error } => error.clone(),
        _ => String::new(),
    }
}

fn era(state: &State) -> String {
    match state {
        State::Ready { era, version, .. } => {
            format!("{} {version}", format!("{era:?}").to_lowercase())
        }
        _ => String::new(),
    }
}

pub(super) fn latency(operations: &Operations, server: &str) -> String {
    let shown = |took: Duration| match took.as_millis() {
        0..10 => format!("{:.1} ms", took.as_secs_f64() * 1e3),
        millis => format!("{millis} ms"),
    };
    match operations.metrics.latency(server) {
        Some(latency) => format!("{} / {}", shown(latency.p50), shown(latency.p99)),
        None => String::new(),
    }
}

fn seconds(age: Duration) -> String {
    format!("{:.1} s", age.as_secs_f64())
}

fn coarse(age: Duration) -> String {
    let minutes = age.as_secs() / 60;
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
