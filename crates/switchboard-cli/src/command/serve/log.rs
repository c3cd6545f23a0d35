//! The gateway's log: one line when a server or the audit log fails, one when it works again.

use std::collections::HashSet;

use switchboard::event::{Event, NextEvent};
use switchboard::hint::Hint;
use switchboard::server::State;
use switchboard::{Host, ServerName};
use switchboard_gateway::Operations;

use crate::view::server::escaped;
use crate::{hints, output};

/// Prints until the gateway ends. Over HTTP, servers have paths of their own.
pub(super) async fn report(host: &Host, operations: &Operations, has_http: bool) {
    let mut events = host.events();
    let mut fault = operations.audit().fault();
    let path = operations
        .audit()
        .path()
        .map(|path| path.display().to_string());
    let path = escaped(&path.unwrap_or_default());
    let mut is_fault_known = false;
    let mut down = HashSet::new();
    let mut log_state = |server: &ServerName, state: &State| {
        if let Some(line) = state_line(server, state, &mut down) {
            output::log(line);
        }
    };
    // A server may have failed before the subscription.
    for server in host.servers().iter() {
        log_state(&server.config.name, &server.snapshot().state);
    }
    let mut reserved = HashSet::new();
    let mut log_reserved = || {
        if has_http {
            let servers = host.servers();
            let names = servers.iter().map(|server| &server.config.name);
            reserved_lines(names, &mut reserved).for_each(output::log);
        }
    };
    log_reserved();
    loop {
        tokio::select! {
            next = events.next() => match next {
                Some(NextEvent::Event(Event::Reloaded(_)) | NextEvent::Lagged(_)) => log_reserved(),
                Some(NextEvent::Event(Event::State { server, state })) => {
                    log_state(&server, &state);
                }
                Some(_) => {}
                None => return,
            },
            Ok(()) = fault.changed() => {
                let fault = fault.borrow_and_update().clone();
                match &fault {
                    Some(fault) => output::log(format!(
                        "the audit log cannot be written: {}: {path}; calls go on, and their lines wait in memory", escaped(fault)
                    )),
                    None if is_fault_known => output::log(format!("the audit log is written again: {path}")),
                    None => {}
                }
                is_fault_known = fault.is_some();
            }
        }
    }
}

/// One line for each server whose path is used for something else.
fn reserved_lines<'a>(
    names: impl Iterator<Item = &'a ServerName>,
    known: &mut HashSet<ServerName>,
) -> impl Iterator<Item = String> {
    let is_new = |name: &&ServerName| {
        ServerName::RESERVED.contains(&name.as_str()) && known.insert((*name).clone())
    };
    names.filter(is_new).map(|name| {
        format!(
            "server \"{name}\" has no path of its own: /mcp/{name} is reserved; rename it in its file"
        )
    })
}

/// One line when a server fails and one when it recovers; none for the attempts between.
fn state_line(
    server: &ServerName,
    state: &State,
    down: &mut HashSet<ServerName>,
) -> Option<String> {
    let (reason, hint) = match state {
        State::Ready { .. } if down.remove(server) => {
            return Some(format!("server \"{server}\" is up again"));
        }
        State::Backoff { error, .. } => (error, Hint::Examine),
        State::Failed { error } => (error, Hint::Examine),
        State::NeedsLogin { reason, hint, .. } => (reason, *hint),
        _ => return None,
    };
    let problem = match state {
        State::NeedsLogin { .. } => "needs a login",
        State::Backoff { .. } => "is down and is tried again",
        _ => "is down",
    };
    let hint = hints::describe(hint, server, None);
    let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
    down.insert(server.clone())
        .then(|| format!("server \"{server}\" {problem}: {}{hint}", escaped(reason)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::SystemTime;
    use switchboard::revision::Era;

    #[test]
    fn a_server_that_breaks_and_recovers_is_reported_once_each() {
        let server = ServerName::new("github").unwrap();
        let mut down = HashSet::new();
        let backoff = |attempt| State::Backoff {
            error: "exited with status 1".to_owned(),
            attempt,
            retry_at: SystemTime::now(),
        };
        let ready = State::Ready {
            era: Era::Legacy,
            version: "2025-11-25".to_owned(),
        };
        let mut line = |state: &State| state_line(&server, state, &mut down);
        assert_eq!(line(&ready), None);
        assert_eq!(
            line(&backoff(1)).unwrap(),
            "server \"github\" is down and is tried again: exited with status 1; try `switchboard doctor github`"
        );
        assert_eq!(line(&backoff(2)), None);
        assert_eq!(line(&ready).unwrap(), "server \"github\" is up again");
        assert_eq!(line(&ready), None);
    }

    #[test]
    fn a_reserved_name_is_reported_once_also_after_a_reload() {
        let name = |text: &str| ServerName::lenient(text).unwrap();
        let mut known = HashSet::new();
        let mut lines = |names: &[ServerName]| -> Vec<String> {
            reserved_lines(names.iter(), &mut known).collect()
        };
        assert_eq!(lines(&[name("git")]), [""; 0]);
        let both = [name("git"), name("server-card")];
        assert_eq!(
            lines(&both),
            [
                "server \"server-card\" has no path of its own: /mcp/server-card is reserved; rename it in its file"
            ]
        );
        assert_eq!(lines(&both), [""; 0]);
    }
}
