//! What others see of a server: the one place where its snapshot is replaced, told and recorded.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, broadcast, watch};

use super::{ConnectStep, Snapshot, State};
use crate::event::Event;
use crate::name::ServerName;
use crate::store::{LogFile, LogStream};

/// How many state changes are kept (P9).
const HISTORY: usize = 50;

/// The writing end of a server's snapshot. Held by its task and by the attempt that the task runs.
#[derive(Debug)]
pub(super) struct StatusPublisher {
    server: ServerName,
    snapshot: watch::Sender<Arc<Snapshot>>,
    /// Where every change is noted beside what the server itself writes.
    log: Option<LogFile>,
    /// Read by whoever holds `Host::events`; nobody has to.
    events: broadcast::Sender<Event>,
    /// The host waits on it to rebuild its catalog.
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
        let history = vec![(SystemTime::now(), initial.to_string())];
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

    /// Moves to another state; what else is new goes with it, so that no reader sees half of a
    /// change; `also` still sees the state from before. `because` is what led to it.
    pub(super) fn set_state(&self, state: State, because: &str, also: impl FnOnce(&mut Snapshot)) {
        let line = if because.is_empty() {
            state.to_string()
        } else {
            format!("{state}: {because}")
        };
        self.log(&line);
        self.change_state(state, line, also);
    }

    /// Moves to the last state. `quiet`: the log is spared.
    pub(super) fn set_stopped(&self, quiet: bool, also: impl FnOnce(&mut Snapshot)) {
        match quiet {
            true => self.change_state(State::Stopped, State::Stopped.to_string(), also),
            false => self.set_state(State::Stopped, "", also),
        }
    }

    fn change_state(&self, state: State, line: String, also: impl FnOnce(&mut Snapshot)) {
        tracing::debug!("server \"{}\": {line}", self.server);
        let told = state.clone();
        self.update(|snapshot| {
            record(snapshot, line);
            also(snapshot);
            snapshot.state = state;
        });
        let _ = self.events.send(Event::State {
            server: self.server.clone(),
            state: told,
        });
    }

    /// Changes something that is no change of state.
    pub(super) fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        self.update_quietly(change);
        self.changed.notify_one();
    }

    /// Changes something that cannot matter to the catalog.
    pub(super) fn update_quietly(&self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot
            .send_modify(|snapshot| change(Arc::make_mut(snapshot)));
    }

    /// Connecting goes on to `step`. Whoever shows progress is told.
    pub(super) fn set_step(&self, step: ConnectStep) {
        let mut told = None;
        self.update_quietly(|snapshot| {
            if let State::Connecting { step: current, .. } = &mut snapshot.state
                && *current != step
            {
                *current = step;
                told = Some(snapshot.state.clone());
            }
        });
        if let Some(state) = told {
            let _ = self.events.send(Event::State {
                server: self.server.clone(),
                state,
            });
        }
    }

    /// A step of connecting is over.
    pub(super) fn record_step_time(&self, step: ConnectStep, took: Duration) {
        tracing::debug!(
            "server \"{}\": step {step} took {} ms",
            self.server,
            took.as_millis()
        );
        self.update_quietly(|snapshot| snapshot.steps.push((step, took)));
    }

    /// Something a person should know that changes no state.
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
    if snapshot.history.len() >= HISTORY {
        snapshot.history.remove(0);
    }
    snapshot.history.push((SystemTime::now(), line));
}
