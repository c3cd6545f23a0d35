//! Host events printed on stderr. Notices are printed once; declined questions, messages of servers
//! and reloads each time.

use switchboard::Host;
use switchboard::config::{Endpoint, HttpEndpoint, StdioEndpoint};
use switchboard::event::{Event, Events, LogLevel, NextEvent};
use switchboard::name::ServerName;
use switchboard::reload::{PendingChange, ReloadReport};
use switchboard::secret::Secret;
use switchboard::server::ServerHandle;
use switchboard::untrusted::Untrusted;

use crate::view::server::escaped;
use crate::{hints, output};

/// Runs the work and prints notices of the host meanwhile.
pub(crate) async fn with_notices<T>(host: &Host, work: impl Future<Output = T>) -> T {
    let mut events = host.events();
    host.notices()
        .iter()
        .for_each(|line| output::notice(&escaped(line)));
    tokio::pin!(work);
    loop {
        tokio::select! {
            // Checked first, so that finished work ends the loop; the remaining events are printed
            // below.
            biased;
            done = &mut work => {
                print_remaining(host, &mut events);
                return done;
            }
            Some(next) = events.next() => print_event(host, next),
        }
    }
}

fn print_remaining(host: &Host, events: &mut Events) {
    while let Some(next) = events.try_next() {
        print_event(host, next);
    }
}

/// Runs the work and prints the server's log messages of this level and above that belong to no
/// call.
pub(crate) async fn with_server_log<T>(
    host: &Host,
    server: &ServerName,
    least: LogLevel,
    work: impl Future<Output = T>,
) -> T {
    let mut events = host.events();
    let print_event = |next: NextEvent| {
        if let NextEvent::Event(Event::Log {
            server: sender,
            level,
            text,
            ..
        }) = next
            && sender == *server
            && LogLevel::read(&level).is_none_or(|level| level >= least)
        {
            log_line(&sender, &level, &text);
        }
    };
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                while let Some(next) = events.try_next() {
                    print_event(next);
                }
                return done;
            }
            Some(next) = events.next() => print_event(next),
        }
    }
}

/// Prints one log message of a server. Not a notice: repeated messages are printed again.
pub(crate) fn log_line(server: &ServerName, level: &str, text: &Untrusted) {
    output::log(format!(
        "server \"{server}\", {level}: {}",
        text.for_terminal_indented()
    ));
}

fn print_event(host: &Host, next: NextEvent) {
    match next {
        NextEvent::Event(Event::Notice { server: None, line }) => output::notice(&escaped(&line)),
        NextEvent::Event(Event::Notice {
            server: Some(server),
            line,
        }) => {
            output::notice(&format!("server \"{server}\": {}", escaped(&line)));
        }
        // One line for each question, also if it is the same.
        NextEvent::Event(Event::QuestionDeclined { server, reason }) => output::log(format!(
            "server \"{server}\": a question of the server was declined: {}",
            escaped(&reason)
        )),
        NextEvent::Event(Event::State { server, .. }) => host
            .server(server.as_str())
            .iter()
            .for_each(report_unset_variables),
        // Events were lost, so the servers' current states are read.
        NextEvent::Lagged(_) => host.servers().iter().for_each(report_unset_variables),
        NextEvent::Event(Event::Reloaded(reloaded)) => {
            reload_lines(&reloaded).into_iter().for_each(output::log)
        }
        NextEvent::Event(Event::ConfigBroken { errors }) => {
            output::log(
                "the changed configuration is invalid; the previous one stays in use".to_owned(),
            );
            errors.iter().for_each(|line| output::log(escaped(line)));
        }
        _ => {}
    }
}

/// What a change of the configuration did, one line each.
fn reload_lines(reloaded: &ReloadReport) -> Vec<String> {
    let ReloadReport {
        added,
        restarted,
        stopped,
        adjusted,
        removed,
        rules_changed,
        pending,
        accepted: accepted_changes,
        ..
    } = reloaded;
    let line_about = |servers: &[ServerName], outcome: &str| {
        let names: Vec<String> = servers
            .iter()
            .map(|server| format!("\"{server}\""))
            .collect();
        (!names.is_empty())
            .then(|| format!("the configuration changed: {} {outcome}", names.join(", ")))
    };
    let mut lines: Vec<String> = [
        line_about(added, "added"),
        line_about(restarted, "restarted after calls in flight ended"),
        line_about(stopped, "stopped after calls in flight ended"),
        line_about(adjusted, "changed without a restart"),
        line_about(removed, "removed after calls in flight ended"),
    ]
    .into_iter()
    .flatten()
    .collect();
    lines.extend(
        rules_changed
            .then(|| "the configuration changed: the new permission rules apply".to_owned()),
    );
    lines.extend(accepted_changes.iter().map(|change| {
        let server = change.server.as_ref().map(ServerName::as_str);
        let runs = change.lines.iter().map(String::as_str);
        accepted(server, &change.reason, runs).trim_end().to_owned()
    }));
    lines.extend(pending.iter().map(|PendingChange { server, reason, .. }| {
        let reason = escaped(reason);
        match server {
            Some(server) => {
                let trust = hints::command(&["trust", server.as_str()]);
                format!(
                    "server \"{server}\" is not applied yet: {reason}; review it with {trust}, or restart"
                )
            }
            None => {
                let reload = hints::command(&["reload"]);
                format!("a change of the rules is not applied yet: {reason}; apply it with {reload}, or restart")
            }
        }
    }));
    lines
}

/// A change that was accepted with a reload: what it is, and below it what its server runs.
pub(crate) fn accepted<'a>(
    server: Option<&str>,
    reason: &str,
    lines: impl Iterator<Item = &'a str>,
) -> String {
    let about = match server {
        Some(server) => format!("server \"{}\": ", escaped(server)),
        None => String::new(),
    };
    let mut shown = format!("accepted: {about}{}\n", escaped(reason));
    for line in lines {
        shown.push_str(&format!("    {}\n", escaped(line)));
    }
    shown
}

/// Reports references to unset variables: they become empty, which often makes a server fail later.
fn report_unset_variables(handle: &ServerHandle) {
    for (variable, field) in &handle.snapshot().unset {
        output::notice(&format!(
            "server \"{}\": {}",
            handle.config.name,
            describe_unset_variable(&handle.config.endpoint, variable, field)
        ));
    }
}

/// What an unset variable does to a field: empties it, or is left out of its text.
pub(crate) fn describe_unset_variable(endpoint: &Endpoint, variable: &str, field: &str) -> String {
    let text = match endpoint {
        Endpoint::Stdio(stdio) => stdio_value(stdio, field),
        Endpoint::Http(http) => header_value(http, field),
        _ => None,
    };
    let syntax = endpoint.syntax();
    let is_empty = text.is_some_and(|text| syntax.is_only_reference(text, variable));
    let (variable, field) = (escaped(variable), escaped(field));
    match is_empty {
        true => format!("{variable} is not set; {field} is empty"),
        false => format!("{variable} is not set, and is left out of {field}"),
    }
}

/// The text of `env.NAME` or `args[INDEX]`, as written.
fn stdio_value<'a>(stdio: &'a StdioEndpoint, field: &str) -> Option<&'a str> {
    if let Some(name) = field.strip_prefix("env.") {
        return stdio.env.get(name).map(Secret::expose);
    }
    let index = field.strip_prefix("args[")?.strip_suffix(']')?;
    let arg = stdio.args.get(index.parse::<usize>().ok()?)?;
    Some(arg)
}

/// The text of `headers.NAME`, as written.
fn header_value<'a>(http: &'a HttpEndpoint, field: &str) -> Option<&'a str> {
    let name = field.strip_prefix("headers.")?;
    http.headers.get(name).map(Secret::expose)
}
