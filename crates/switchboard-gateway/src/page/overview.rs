//! The page `/`, from the top down: a summary, waiting calls, servers, running requests, recent
//! requests.

use std::time::Duration;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use switchboard::server::{ServerHandle, State};
use switchboard::store::timestamp;

use super::problems::{is_down, last_stderr, problems, summary};
use super::requests::{self, AuditFilter};
use super::text::{ForeignText, foreign, json, with_code};
use crate::approval_queue::WaitingCall;
use crate::path_segment;
use crate::shown_arguments::shown_arguments;
use crate::{Operations, ShownChange};

pub(super) fn render(operations: &Operations, filter: &AuditFilter, token: &str) -> Markup {
    operations.remove_revoked_clients();
    let waiting = operations.approvals.waiting();
    let summary = summary(operations, waiting.len());
    document(
        &summary,
        html! {
            div id="summary" data-part { h1 { (summary) } }
            (problems(operations))
            (pending_changes(operations, token))
            // Nothing above it follows what clients do, so that no client can move its buttons.
            div id="waiting" data-part data-list {
                @if !waiting.is_empty() {
                    h2 id="waiting-title" { "Waiting for you" }
                    @for call in &waiting { (waiting_call(call, token)) }
                }
            }
            (servers(operations))
            (requests::running(operations, token))
            (requests::audit(operations, filter))
            (about(operations, token))
        },
    )
}

/// The page of one waiting call, with its whole arguments; `None` if it waits no more.
pub(super) fn approval(operations: &Operations, id: u64, token: &str) -> Option<Markup> {
    operations.remove_revoked_clients();
    let waiting = operations.approvals.waiting();
    let call = waiting.iter().find(|call| call.id == id)?;
    Some(document(
        &format!("Approval {id}"),
        html! {
            h1 { "Approval " (id) " waits for you" }
            (waiting_call(call, token))
            h2 { "Arguments" }
            pre.whole { (json(call.arguments.as_str())) }
        },
    ))
}

/// The page for a browser that is not logged in. Without the script, which could load nothing.
pub(super) fn login_needed(operations: &Operations) -> Markup {
    let link = (operations.command_words())(&["approvals", "--page"]);
    plain_document(
        "Log in",
        html! {
            h1 { "This browser is not logged in" }
            p {
                "Open the link that " code { "switchboard serve" } " printed when it started. It works once; "
                (with_code(&link)) " prints a new one."
            }
        },
    )
}

/// The page for an address that leads to nothing.
pub(super) fn not_found(message: &str) -> Markup {
    plain_document("Not found", html! { h1 { (message) } })
}

/// The frame of every page that follows what happens.
pub(super) fn document(title: &str, content: Markup) -> Markup {
    frame(title, html! { script src="/page.js" defer {} }, content)
}

/// The frame of a page without script.
fn plain_document(title: &str, content: Markup) -> Markup {
    frame(title, html! {}, content)
}

fn frame(title: &str, script: Markup, content: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Switchboard" }
                link rel="stylesheet" href="/page.css";
                (script)
            }
            body {
                header { a href="/" { "Switchboard" } span id="live" role="status" {} span id="news" role="status" {} }
                main { (content) }
            }
        }
    }
}

fn waiting_call(call: &WaitingCall, token: &str) -> Markup {
    let tool = call.tool.tool.untrusted();
    let id = call.id;
    let what = html! { (call.principal.as_str()) " calls " (call.tool.server.as_str()) "/" (ForeignText(&tool)) };
    let what = what.into_string();
    html! {
        section.card.wait id={ "approval-" (id) } {
            div.row {
                strong { (call.principal.as_str()) }
                span { "calls " code { (call.tool.server.as_str()) "/" (ForeignText(&tool)) } }
                @match call.held_until {
                    // A clock time, because the card is shown anew whenever its text changes.
                    Some(until) => span.wait-text { "until " (clock(&timestamp(until))) " UTC" },
                    None => span.soft { "answered with an error; allowing it lets the next attempt run" },
                }
                form method="post" action={ "/approvals/" (id) } data-live {
                    input type="hidden" name="token" value=(token);
                    button.primary id={ "allow-" (id) } name="decision" value="allow" aria-label={ "Allow once: " (PreEscaped(&what)) } { "Allow once" }
                    button id={ "deny-" (id) } name="decision" value="deny" aria-label={ "Deny: " (PreEscaped(&what)) } { "Deny" }
                }
            }
            div.soft { a id={ "whole-" (id) } href={ "/approvals/" (id) } { "Approval " (id) } ", asked because: " (call.because) }
            pre { (shown_arguments(&call.arguments)) }
            @if !call.changed.is_empty() {
                pre { @for line in &call.changed { (foreign(line)) "\n" } }
            }
        }
    }
}

/// The time of day of a time stamp.
pub(super) fn clock(timestamp: &str) -> &str {
    timestamp.get(11..19).unwrap_or_default()
}

/// What a changed file would start or allow, and waits for a person.
fn pending_changes(operations: &Operations, token: &str) -> Markup {
    let changes = operations.pending_changes();
    let reload = (operations.command_words())(&["reload"]);
    html! {
        div id="changes" data-part data-list {
            @if !changes.is_empty() {
                h2 id="changes-title" { "Changes of the configuration that wait for you" }
                @for change in &changes { (pending_change(change, token, &reload)) }
            }
        }
    }
}

fn pending_change(shown: &ShownChange, token: &str, reload: &str) -> Markup {
    let server = shown
        .change
        .server
        .as_ref()
        .map_or("", |name| name.as_str());
    html! {
        section.card.wait id=(shown.id) {
            div.row {
                @if let Some(server) = &shown.change.server { strong { (server.as_str()) } }
                span { (foreign(&shown.change.reason)) }
                @if shown.disclosure.is_some() {
                    form method="post" action={ "/changes/" (shown.id) "/accept" } data-live {
                        input type="hidden" name="token" value=(token);
                        button id={ "accept-" (shown.id) } aria-label={ "Accept and start " (server) } { "Accept and start" }
                    }
                }
            }
            @if shown.disclosure.is_some() {
                pre { @for line in shown.lines() { (foreign(line)) "\n" } }
            } @else {
                div.soft { "To apply it, run " (with_code(reload)) "." }
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
    let stderr = last_stderr(server, &state);
    html! {
        tr {
            td { a id={ "server-" (path_segment::encode(name)) } href={ "/servers/" (path_segment::encode(name)) } { (name) } }
            td { span.state .(class(&state)) { (word(&state)) } }
            td {
                (foreign(&reason(&state)))
                @if let Some(line) = &stderr { div.soft { "stderr: " code { (ForeignText(line)) } } }
            }
            td { (era(&state)) }
            td data-label="Restarts" { (snapshot.restarts) }
            td data-label="p50 / p99" { (latency(operations, name)) }
            td data-label="Tools" { (snapshot.offerings.tools.len()) }
        }
    }
}

/// Facts to paste into a bug report.
fn about(operations: &Operations, token: &str) -> Markup {
    let read = operations.config.read();
    html! {
        div id="about" data-part {
            h2 { "This gateway" }
            dl {
                dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
                dt { "Up for" } dd { (coarse(operations.started.elapsed())) }
                @for file in operations.config.files() {
                    dt { "Configuration" } dd { code { (foreign(&file.display().to_string())) } }
                }
                dt { "Read" } dd { (timestamp(read.at)) ", hash " code { (read.hash) } }
                @if let Some(path) = operations.audit.path() {
                    dt { "Audit log" } dd { code { (foreign(&path.display().to_string())) } }
                }
                @if operations.audit.dropped() > 0 {
                    dt { "Audit log" } dd.bad { (operations.audit.dropped()) " lines could not be written" }
                }
                dt { "Examine" } dd { (with_code(&(operations.command_words())(&["doctor"]))) }
            }
            form method="post" action="/logout" {
                input type="hidden" name="token" value=(token);
                button { "Log this browser out" }
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

fn coarse(age: Duration) -> String {
    let minutes = age.as_secs() / 60;
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
