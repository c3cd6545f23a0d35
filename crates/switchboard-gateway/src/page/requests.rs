//! Requests on the page: those that are running, the last lines of the audit log with a filter, and
//! `/calls/NUMBER`, one request.

use std::collections::BTreeSet;
use std::time::Duration;

use maud::{Markup, html};
use serde_json::Value;

use super::overview::{clock, document};
use super::text::{foreign, json};
use crate::{Operations, ShownRequest};

/// Lines of the audit log on the page.
const AUDIT_LINES: usize = 50;

/// The filters: names in the query, and fields of a line.
const FILTERS: [(&str, &str); 3] = [
    ("server", "Server"),
    ("client", "Client"),
    ("outcome", "Outcome"),
];

/// The fields of `/calls/NUMBER`.
const FIELDS: [(&str, &str); 15] = [
    ("client", "Client"),
    ("method", "Method"),
    ("server", "Server"),
    ("name", "Name"),
    ("decision", "Decision"),
    ("rule", "Rule"),
    ("approval", "Approval"),
    ("outcome", "Outcome"),
    ("error", "Error"),
    ("time", "Ended"),
    ("duration_ms", "Took (ms)"),
    ("server_ms", "of which the server (ms)"),
    ("approval_ms", "of which the approval (ms)"),
    (
        "waiting_ms",
        "of which waiting for the server or other calls (ms)",
    ),
    ("questions_ms", "of which questions to the client (ms)"),
];

/// Which lines are shown: those whose fields are the given values.
#[derive(Debug, Default)]
pub(super) struct AuditFilter(Vec<(&'static str, String)>);

impl AuditFilter {
    pub(super) fn read(query: Option<&str>) -> Self {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let conditions = pairs.filter_map(|(key, value)| {
            let (name, _) = FILTERS.iter().find(|(name, _)| *name == key)?;
            (!value.is_empty()).then(|| (*name, value.into_owned()))
        });
        Self(conditions.collect())
    }

    fn matches(&self, line: &Value) -> bool {
        self.0.iter().all(|(field, value)| match *field {
            "outcome" => outcome(line) == *value,
            field => line[field] == *value,
        })
    }

    fn value(&self, field: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| *known == field);
        found.map_or("", |(_, value)| value)
    }
}

/// Requests in flight at servers.
pub(super) fn running(operations: &Operations, token: &str) -> Markup {
    let running = operations.running.shown();
    html! {
        div id="running" data-part {
            h2 { "Running requests" }
            @if running.is_empty() { p.soft { "None." } }
            @for request in &running { (running_card(request, token)) }
        }
    }
}

fn running_card(request: &ShownRequest, token: &str) -> Markup {
    html! {
        section.card id={ "call-" (request.id) } {
            div.row {
                strong { (request.principal.as_str()) }
                span { (foreign(&request.method)) " " a id={ "running-" (request.id) } href={ "/calls/" (request.id) } { code { (foreign(&request.name)) } } }
                span.soft { "for " (seconds(request.age)) }
                @if request.awaits_client { span.wait-text { "waits for its client's answer" } }
                form method="post" action={ "/calls/" (request.id) "/cancel" } data-live {
                    input type="hidden" name="token" value=(token);
                    button id={ "cancel-" (request.id) } aria-label={ "Cancel: " (foreign(&request.method)) " " (foreign(&request.name)) " of " (request.principal.as_str()) } { "Cancel" }
                }
            }
        }
    }
}

/// The last lines of the audit log.
pub(super) fn audit(operations: &Operations, filter: &AuditFilter) -> Markup {
    let lines = recent_lines(operations);
    let shown: Vec<_> = lines
        .iter()
        .filter(|line| filter.matches(line))
        .take(AUDIT_LINES)
        .collect();
    html! {
        h2 id="recent" { "Recent requests" }
        (filter_form(&lines, filter))
        div id="audit" data-part {
            @if shown.is_empty() {
                p.soft { @if filter.0.is_empty() { "None yet." } @else { "None of the last " (lines.len()) " lines." } }
            } @else {
                table.wide {
                    thead { tr {
                        th { "Time (UTC)" } th { "Client" } th { "What" } th { "Decision" } th { "Outcome" } th { "ms" }
                    } }
                    tbody { @for line in &shown { (audit_row(line)) } }
                }
            }
        }
    }
}

/// The form of the filters, which works without script. Its options are the values in the lines.
fn filter_form(lines: &[Value], filter: &AuditFilter) -> Markup {
    html! {
        form.filter method="get" action="/#recent" {
            @for (field, label) in FILTERS {
                label {
                    (label) " "
                    select name=(field) {
                        option value="" { "all" }
                        @for value in values(lines, field, filter) {
                            option value=(value) selected[filter.value(field) == value] { (foreign(&value)) }
                        }
                    }
                }
            }
            button { "Filter" }
            @if !filter.0.is_empty() { a href="/#recent" { "Show all" } }
        }
    }
}

fn values(lines: &[Value], field: &str, filter: &AuditFilter) -> BTreeSet<String> {
    let in_line = |line: &Value| match field {
        "outcome" => outcome(line),
        field => line[field].as_str().unwrap_or_default().to_owned(),
    };
    let chosen = filter.value(field).to_owned();
    let mut values: BTreeSet<_> = lines.iter().map(in_line).chain([chosen]).collect();
    values.remove("");
    values
}

/// The last lines of the audit log as JSON, the newest first.
fn recent_lines(operations: &Operations) -> Vec<Value> {
    let lines = operations.audit.recent(usize::MAX);
    let parsed = |line: &String| serde_json::from_str(line).unwrap_or_default();
    lines.iter().map(parsed).collect()
}

/// How a line's request ended, or what the line is about.
fn outcome(line: &Value) -> String {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    match (text("event"), text("approval"), text("outcome")) {
        ("approval", answer, _) => format!("approval: {answer}"),
        (event, _, "") => event.to_owned(),
        (_, _, outcome) => outcome.to_owned(),
    }
}

fn audit_row(line: &Value) -> Markup {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let time = clock(text("time"));
    html! {
        tr {
            td.soft title=(text("time")) {
                @match line["request"].as_u64() {
                    Some(number) => a id={ (text("event")) "-" (number) } href={ "/calls/" (number) } { (time) },
                    None => (time),
                }
            }
            td { (foreign(text("client"))) }
            td {
                (foreign(text("server")))
                @if !text("server").is_empty() && !text("name").is_empty() { "/" }
                (foreign(text("name")))
            }
            td {
                (foreign(text("decision")))
                div.soft { (foreign(text("rule"))) (text("by")) }
            }
            td {
                (outcome_word(line))
                @if !text("error").is_empty() { div.soft { (foreign(text("error"))) } }
            }
            td data-label="ms" { @if let Some(ms) = line["duration_ms"].as_f64() { (format!("{ms:.1}")) } }
        }
    }
}

fn outcome_word(line: &Value) -> Markup {
    let outcome = outcome(line);
    let is_bad = matches!(
        outcome.as_str(),
        "denied" | "failed" | "refused" | "tool error"
    );
    html! { span.bad[is_bad] { (foreign(&outcome)) } }
}

/// The page of one request; `None` if it is neither running nor among the last lines.
pub(super) fn one(operations: &Operations, number: u64, token: &str) -> Option<Markup> {
    let running = operations
        .running
        .shown()
        .into_iter()
        .find(|request| request.id == number);
    let lines = recent_lines(operations);
    let mut ended = lines.iter().filter(|line| line["request"] == number);
    let ended = ended.find(|line| line["event"] == "request");
    let content = match (&running, ended) {
        (Some(request), _) => html! {
            h1 { "Request " (number) " is running" }
            (running_card(request, token))
            @if let Some(shape) = request.arguments.as_ref().and_then(|arguments| operations.audit.arguments(arguments)) {
                h2 { "Arguments" } pre { (json(&shape)) }
            }
        },
        (None, Some(line)) => ended_request(number, line),
        (None, None) => return None,
    };
    let title = format!("Request {number}");
    Some(document(
        &title,
        html! { div id="request" data-part { (content) } },
    ))
}

fn ended_request(number: u64, line: &Value) -> Markup {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    html! {
        h1 { "Request " (number) ": " (outcome_word(line)) }
        dl {
            @for (field, label) in FIELDS.iter().filter(|(field, _)| !line[field].is_null()) {
                dt { (label) } dd { (foreign(&shown(&line[field]))) }
            }
        }
        @if !line["arguments"].is_null() {
            h2 { "Arguments" } pre { (json(&line["arguments"].to_string())) }
        }
        @if !line["client_info"].is_null() {
            h2 { "What the client says of itself" } pre { (json(&line["client_info"].to_string())) }
        }
    }
}

/// The page for a number that is not known.
pub(super) fn unknown(operations: &Operations, number: &str) -> Markup {
    document(
        "Unknown request",
        html! {
            h1 { "Request " (foreign(number)) " is not among the last ones" }
            @if let Some(path) = operations.audit.path() {
                p { "Look for it in the audit log: " code { (foreign(&path.display().to_string())) } }
            }
        },
    )
}

fn seconds(age: Duration) -> String {
    format!("{:.1} s", age.as_secs_f64())
}
