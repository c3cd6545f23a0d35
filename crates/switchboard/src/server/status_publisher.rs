//! Publishes a server's snapshot: the only place where it is changed, logged and sent as an event.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, broadcast, watch};

use super::{ConnectStep, Snapshot, State};
use crate::event::Event;
use crate::name::ServerName;
use crate::store::{LogFile, LogStream};

/// The most entries of a snapshot's history.
const MAX_HISTORY: usize = 50;

/// The writing side of a server's snapshot. Shared by its task and the task's attempt to connect.
#[derive(Debug)]
pub(super) struct StatusPublisher {
    server: ServerName,
    snapshot: watch::Sender<Arc<Snapshot>>,
    /// The server's log file, which gets every state change.
    log: Option<LogFile>,
    /// The sender of `Host::events`.
    events: broadcast::Sender<Event>,
    /// Notifies the host, which rebuilds its catalog.
    changed: Arc<Notify>,
}

impl StatusPublisher {
    pub(super) fn new(
        server: ServerName,
        initial: State,
        log: Option<LogFile>,
        events: broadcast::Sender<Event>,
        changed: Arc<Notify>,
    ) -> (Arc<Self>, watch::Receiver<Arc<Snapshot>>) {
        tracing::debug!("server \"{server}\": {initial}");
        let history = vec![(SystemTime::now(), history_line(&initial))];
        let (snapshot, seen) = watch::channel(Arc::new(Snapshot {
            history,
            ..Snapshot::empty(initial)
        }));
        (
            Arc::new(Self {
                server,
                snapshot,
                log,
                events,
                changed,
            }),
            seen,
        )
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Changes the state, and with `also` other fields of the snapshot in the same step, so that no
    /// reader sees a partial change. `also` sees the old state. `because` is added to log and
    /// history.
    pub(super) fn set_state(&self, state: State, because: &str, also: impl FnOnce(&mut Snapshot)) {
        let mut line = history_line(&state);
        if !because.is_empty() {
            line = format!("{line}: {because}");
        }
        self.log(&line);
        self.change_state(state, line, also);
    }

    /// Changes to the final state. `quiet`: without a line in the log.
    pub(super) fn set_stopped(&self, quiet: bool, also: impl FnOnce(&mut Snapshot)) {
        match quiet {
            true => self.change_state(State::Stopped, State::Stopped.to_string(), also),
            false => self.set_state(State::Stopped, "", also),
        }
    }

    fn change_state(&self, state: State, line: String, also: impl FnOnce(&mut Snapshot)) {
        tracing::debug!("server \"{}\": {line}", self.server);
        let published = state.clone();
        self.update(|snapshot| {
            record(snapshot, line);
            also(snapshot);
            snapshot.state = state;
        });
        let _ = self.events.send(Event::State {
            server: self.server.clone(),
            state: published,
        });
    }

    /// Changes the snapshot but not the state; the host rebuilds its catalog.
    pub(super) fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        self.update_quietly(change);
        self.changed.notify_one();
    }

    /// Changes fields that do not affect the catalog.
    pub(super) fn update_quietly(&self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot
            .send_modify(|snapshot| change(Arc::make_mut(snapshot)));
    }

    /// Sets the current step of connecting, and sends an event for displays of progress.
    pub(super) fn set_step(&self, step: ConnectStep) {
        let mut published = None;
        self.update_quietly(|snapshot| {
            if let State::Connecting { step: current, .. } = &mut snapshot.state
                && *current != step
            {
                *current = step;
                published = Some(snapshot.state.clone());
            }
        });
        if let Some(state) = published {
            let _ = self.events.send(Event::State {
                server: self.server.clone(),
                state,
            });
        }
    }

    /// Records how long a step took.
    pub(super) fn record_step_time(&self, step: ConnectStep, took: Duration) {
        tracing::debug!(
            "server \"{}\": step {step} took {} ms",
            self.server,
            took.as_millis()
        );
        self.update_quietly(|snapshot| snapshot.steps.push((step, took)));
    }

    /// Adds a line for people to log, history and events.
    pub(super) fn notice(&self, line: String) {
        self.log(&line);
        self.update_quietly(|snapshot| record(snapshot, line.clone()));
        let _ = self.events.send(Event::Notice {
            server: Some(self.server.clone()),
            line,
        });
    }

    fn log(&self, line: &str) {
        if let Some(log) = &self.log {
            log.write(LogStream::Note, line);
        }
    }
}

fn record(snapshot: &mut Snapshot, line: String) {
    if snapshot.history.len() >= MAX_HISTORY {
        snapshot.history.remove(0);
    }
    snapshot.history.push((SystemTime::now(), line));
}

/// A state as it appears in log and history.
fn history_line(state: &State) -> String {
    match state {
        // The steps of one attempt are one entry.
        State::Connecting { .. } => state.as_str().to_owned(),
        state => state.to_string(),
    }
}
