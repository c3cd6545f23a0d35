//! A second connection, of the other era than the shared one: over HTTP a server can have one of
//! each, if some of its tools need the legacy era and some the modern one.
//!
//! Tools are approved from the shared connection's list. A call uses the other connection only if
//! the tool's definition is the same there.

use std::sync::{Arc, Mutex};

use super::caller_sessions::CallerSessions;
use super::connection_factory::ConnectionFactory;
use super::{ServerHandle, State};
use crate::config::{Endpoint, Protocol};
use crate::future::BoxFuture;
use crate::name::ToolName;
use crate::session::Era;
use crate::sync::lock;

/// The connection that a request was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallRoute {
    /// The shared connection, or the caller's own of the same era.
    Main,
    /// The connection of the other era.
    OtherEra,
    /// The shared connection, although the tool needs the other era: that connection failed, or
    /// does not offer the same tool.
    OtherEraUnavailable,
}

/// The second connection of a server, for display.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SecondConnection {
    /// The era of this connection: not the shared connection's.
    pub era: Era,
    /// `Idle` until one of its tools is called.
    pub state: State,
    /// The tools that are called over this connection.
    pub tools: Vec<ToolName>,
}

impl ServerHandle {
    /// The second connection, if tools of a connected server were found to need one.
    pub fn second_connection(&self) -> Option<SecondConnection> {
        let other_era = self.other_era.as_ref()?;
        let snapshot = self.snapshot();
        let State::Ready { era, .. } = &snapshot.state else {
            return None;
        };
        let era = era.other();
        let tools: Vec<_> = snapshot.other_era_tools.iter().cloned().collect();
        let open = other_era.open_connection(era);
        (!tools.is_empty() || open.is_some()).then(|| SecondConnection {
            era,
            state: open.map_or(State::Idle, |handle| handle.snapshot().state.clone()),
            tools,
        })
    }
}

/// The second connection of a server. Opened when a tool first needs it; closed with the server.
pub(super) struct OtherEra {
    factory: ConnectionFactory,
    state: Mutex<OtherEraState>,
}

#[derive(Debug, Default)]
struct OtherEraState {
    connection: Option<(Era, ServerHandle)>,
    stopped: bool,
}

impl std::fmt::Debug for OtherEra {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtherEra")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl OtherEra {
    /// `None` where only one connection is possible: a process keeps one era for its life, and an
    /// entry may fix the era.
    pub(super) fn new(factory: &ConnectionFactory) -> Option<Arc<Self>> {
        let config = factory.config.get();
        let is_possible = matches!(config.endpoint, Endpoint::Http(_))
            && factory.connector.is_none()
            && config.protocol == Protocol::Auto;
        is_possible.then(|| {
            Arc::new(Self {
                factory: factory.clone(),
                state: Mutex::default(),
            })
        })
    }

    /// The connection of this era, opened if there is none. `None` once the server was stopped.
    pub(super) fn connection(&self, era: Era) -> Option<ServerHandle> {
        let mut state = lock(&self.state);
        if state.stopped {
            return None;
        }
        match &state.connection {
            Some((known, handle)) if *known == era => Some(handle.clone()),
            // A connection of the other era is no longer needed: it ends with its last call.
            _ => {
                let protocol = match era {
                    Era::Legacy => Protocol::Legacy,
                    Era::Modern => Protocol::Modern,
                };
                let factory = self.factory.with_protocol(protocol);
                let handle = ServerHandle {
                    caller_sessions: CallerSessions::new(&factory),
                    ..factory.connect_unremembered()
                };
                state.connection = Some((era, handle.clone()));
                Some(handle)
            }
        }
    }

    /// The connection of this era, if it was opened.
    fn open_connection(&self, era: Era) -> Option<ServerHandle> {
        let state = lock(&self.state);
        let open = state.connection.as_ref().filter(|(known, _)| *known == era);
        open.map(|(_, handle)| handle.clone())
    }

    /// Closes the connection; a later request opens a new one.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.connection = None;
    }

    /// Closes the connection within the stop timing. No new one can be opened.
    pub(super) fn stop(&self) -> BoxFuture<'static, ()> {
        let connection = {
            let mut state = lock(&self.state);
            // Set under the lock, so that no connection is opened after it.
            state.stopped = true;
            state.connection.take()
        };
        Box::pin(async move {
            if let Some((_, handle)) = connection {
                handle.stop().await;
            }
        })
    }
}
