//! Reports servers that fail and recover during the conversation, with one line for each change.

use std::collections::BTreeSet;

use switchboard::Host;
use switchboard::event::{Event, NextEvent};
use switchboard::name::ServerName;
use switchboard::server::State;

use super::{notice, screen};
use crate::hints;
use crate::view::server::{escaped, login_advice};

/// Runs the conversation and reports changes of servers meanwhile.
pub(super) async fn during<T>(host: &Host, conversation: impl Future<Output = T>) -> T {
    let mut events = host.events();
    let mut watch = ServerWatch::default();
    // Servers that failed before the subscription sent no event to it.
    for server in host.servers().iter() {
        watch.report(host, &server.config.name, &server.snapshot().state);
    }
    tokio::pin!(conversation);
    loop {
        tokio::select! {
            biased;
            done = &mut conversation => return done,
            Some(next) = events.next() => {
                if let NextEvent::Event(Event::State { server, state }) = next {
                    watch.report(host, &server, &state);
                }
            }
        }
    }
}

/// The servers whose failure was reported.
#[derive(Debug, Default)]
struct ServerWatch {
    /// Failed servers: further attempts of theirs are not reported.
    failed: BTreeSet<ServerName>,
}

impl ServerWatch {
    /// Prints the line about a change of state.
    fn report(&mut self, host: &Host, server: &ServerName, state: &State) {
        let Some(line) = self.change_line(server, state) else {
            return;
        };
        match (host.server(server.as_str()), state) {
            (Some(handle), State::NeedsLogin { reason, hint, .. }) => notice(&format!(
                "server \"{server}\": {}",
                login_advice(&handle.config, reason, *hint)
            )),
            (_, State::Ready { .. }) => screen::note(&line),
            _ => notice(&line),
        }
    }

    /// The line about a change of state, if a person should know it.
    fn change_line(&mut self, server: &ServerName, state: &State) -> Option<String> {
        match state {
            State::Ready { .. } => {
                let had_failed = self.failed.remove(server);
                had_failed.then(|| format!("server \"{server}\" is connected again"))
            }
            State::Backoff { error, .. } | State::Failed { error } => {
                let is_new = self.failed.insert(server.clone());
                let advice = hints::doctor(server);
                is_new.then(|| format!("server \"{server}\": {}; {advice}", escaped(error)))
            }
            State::NeedsLogin { .. } => {
                let is_new = self.failed.insert(server.clone());
                is_new.then(String::new)
            }
            _ => None,
        }
    }
}
