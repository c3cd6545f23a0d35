//! The callers' own sessions, for entries with `session = "per-caller"`. Each is a connection like
//! the shared one: opened at its caller's first request, closed when it was idle for a while, when
//! the limit is reached and another caller needs a session, or with the server.
//!
//! Tools are approved from the shared session's list. A call uses its caller's own session only if
//! the tool's definition is the same there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::connection_factory::ConnectionFactory;
use super::other_era::{CallRoute, OtherEra};
use super::{CallerSession, NotReady, NotReadyReason, ServerHandle, Snapshot};
use crate::caller::CallerId;
use crate::catalog::ToolDefinition;
use crate::config::Sharing;
use crate::hint::Hint;
use crate::session::Era;
use crate::sync::lock;

/// The most per-caller sessions of one server.
const MAX_CALLER_SESSIONS: usize = 32;

/// A session that was idle for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// How often idle sessions are evicted.
const EVICTION_INTERVAL: Duration = Duration::from_secs(60);

/// One caller's connection.
#[derive(Debug)]
pub(super) struct CallerConnection {
    pub(super) handle: ServerHandle,
    used: Mutex<Instant>,
}

/// All callers' connections to one server.
pub(super) struct CallerSessions {
    factory: ConnectionFactory,
    connections: Mutex<CallerConnections>,
}

#[derive(Debug, Default)]
struct CallerConnections {
    by_caller: HashMap<CallerId, Arc<CallerConnection>>,
    /// Connections that are closing.
    stopping: JoinSet<()>,
    /// The task that evicts idle connections. Runs while there are any.
    eviction: Option<AbortHandle>,
    stopped: bool,
}

impl CallerConnection {
    /// Records that it was used until now.
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }
}

impl std::fmt::Debug for CallerSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallerSessions")
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// The session for requests of this caller. Starts the server if needed and waits up to `wait`
    /// for it.
    pub(crate) async fn session_for(
        &self,
        caller: &CallerId,
        wait: Duration,
    ) -> Result<CallerSession, NotReady> {
        let began = Instant::now();
        let session = self.ready(wait).await?;
        let Some(callers) = self
            .caller_sessions
            .as_ref()
            .filter(|_| session.hello().era() == Era::Legacy)
        else {
            return Ok(CallerSession::shared(session));
        };
        let connection = callers
            .connection(caller)
            .map_err(|(reason, hint)| NotReady {
                server: self.config.name.clone(),
                reason,
                hint,
                state: self.snapshot().state.clone(),
            })?;
        let session = connection
            .handle
            .ready(wait.saturating_sub(began.elapsed()))
            .await?;
        let mut caller_session = CallerSession::shared(session);
        caller_session.connection = Some(connection);
        Ok(caller_session)
    }

    /// The session for calls of this tool: the one of the other era, if the tool was found to need
    /// that era.
    pub(crate) async fn session_for_tool(
        &self,
        tool: &ToolDefinition,
        caller: &CallerId,
        wait: Duration,
    ) -> Result<CallerSession, NotReady> {
        let is_usual = |now: &Snapshot| now.session.is_some() && now.other_era_tools.is_empty();
        match &self.other_era {
            Some(other_era) if !is_usual(&self.snapshot.borrow()) => {
                let until = Instant::now() + wait;
                self.session_by_era(other_era, tool, caller, until).await
            }
            _ => self.session_for(caller, wait).await,
        }
    }

    async fn session_by_era(
        &self,
        other_era: &OtherEra,
        tool: &ToolDefinition,
        caller: &CallerId,
        until: Instant,
    ) -> Result<CallerSession, NotReady> {
        let left = || until.saturating_duration_since(Instant::now());
        // Which tools need the other era is known once the server is connected.
        let shared = self.ready(left()).await?;
        let needs_other = self.snapshot().other_era_tools.contains(&tool.name);
        if !needs_other {
            return self.session_for(caller, left()).await;
        }
        if let Some(handle) = other_era.connection(shared.hello().era().other())
            && let Ok(mut caller_session) = handle.session_for(caller, left()).await
        {
            caller_session.other_era = Some(Box::new(handle));
            caller_session.route = CallRoute::OtherEra;
            if caller_session.offers(tool) {
                return Ok(caller_session);
            }
        }
        let mut caller_session = self.session_for(caller, left()).await?;
        caller_session.route = CallRoute::OtherEraUnavailable;
        Ok(caller_session)
    }

    /// The number of per-caller sessions.
    pub fn own_sessions(&self) -> usize {
        self.caller_sessions
            .as_ref()
            .map_or(0, |callers| callers.connections().by_caller.len())
    }
}

impl CallerSessions {
    /// `None` if the callers share one session.
    pub(super) fn new(factory: &ConnectionFactory) -> Option<Arc<Self>> {
        (factory.config.get().session == Sharing::PerCaller).then(|| {
            Arc::new(Self {
                factory: factory.clone(),
                connections: Mutex::default(),
            })
        })
    }

    fn connections(&self) -> MutexGuard<'_, CallerConnections> {
        lock(&self.connections)
    }

    /// The caller's connection, opened if there is none.
    fn connection(
        self: &Arc<Self>,
        caller: &CallerId,
    ) -> Result<Arc<CallerConnection>, (NotReadyReason, Option<Hint>)> {
        let owner = caller.connection_owner();
        let mut connections = self.connections();
        if connections.stopped {
            return Err((NotReadyReason::Stopped, Some(Hint::StartAgain)));
        }
        if let Some(connection) = connections.by_caller.get(&owner) {
            return Ok(connection.clone());
        }
        if connections.by_caller.len() >= MAX_CALLER_SESSIONS && !connections.evict_least_recent() {
            let limit = MAX_CALLER_SESSIONS;
            return Err((
                NotReadyReason::TooManyCallers { limit },
                Some(Hint::CallLater),
            ));
        }
        let connection = Arc::new(CallerConnection {
            handle: self.factory.connect_for(owner.clone()),
            used: Mutex::new(Instant::now()),
        });
        connections.by_caller.insert(owner, connection.clone());
        if connections
            .eviction
            .as_ref()
            .is_none_or(AbortHandle::is_finished)
        {
            connections.eviction =
                Some(tokio::spawn(run_eviction(Arc::downgrade(self))).abort_handle());
        }
        Ok(connection)
    }

    /// Closes all sessions; later requests open new ones.
    pub(super) fn end_all(&self) {
        self.connections().end_all();
    }

    /// Closes all sessions within the stop timing. No new ones can be opened.
    pub(super) async fn stop(&self) {
        let mut stopping = {
            let mut connections = self.connections();
            // Set under the lock, so that no session is opened after it.
            connections.stopped = true;
            connections.end_all();
            std::mem::take(&mut connections.stopping)
        };
        while stopping.join_next().await.is_some() {}
    }
}

impl CallerConnections {
    /// Closes the connection that was idle for longest. False if all are in use.
    fn evict_least_recent(&mut self) -> bool {
        let idle = self
            .by_caller
            .iter()
            .filter(|(_, connection)| !is_used(connection));
        let Some(caller) = idle
            .min_by_key(|(_, connection)| last_used(connection))
            .map(|(caller, _)| caller.clone())
        else {
            return false;
        };
        self.end(&caller);
        true
    }

    fn end(&mut self, caller: &CallerId) {
        while self.stopping.try_join_next().is_some() {}
        if let Some(connection) = self.by_caller.remove(caller) {
            self.stopping
                .spawn(async move { connection.handle.stop().await });
        }
    }

    fn end_all(&mut self) {
        let all: Vec<CallerId> = self.by_caller.keys().cloned().collect();
        all.iter().for_each(|caller| self.end(caller));
    }

    fn evict_idle(&mut self) {
        let is_idle = |connection: &Arc<CallerConnection>| {
            !is_used(connection) && last_used(connection).elapsed() >= IDLE_TIMEOUT
        };
        let idle: Vec<CallerId> = self
            .by_caller
            .iter()
            .filter(|(_, connection)| is_idle(connection))
            .map(|(caller, _)| caller.clone())
            .collect();
        idle.iter().for_each(|caller| self.end(caller));
    }
}

impl Drop for CallerSessions {
    fn drop(&mut self) {
        let connections = self
            .connections
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(eviction) = connections.eviction.take() {
            eviction.abort();
        }
    }
}

/// Whether a request uses the connection. Requests acquire it only under the lock, so this cannot
/// change while the lock is held.
fn is_used(connection: &Arc<CallerConnection>) -> bool {
    Arc::strong_count(connection) > 1
}

fn last_used(connection: &CallerConnection) -> Instant {
    *lock(&connection.used)
}

/// Evicts idle connections until none is left.
async fn run_eviction(callers: Weak<CallerSessions>) {
    loop {
        tokio::time::sleep(EVICTION_INTERVAL).await;
        let Some(callers) = callers.upgrade() else {
            return;
        };
        let mut connections = callers.connections();
        connections.evict_idle();
        if connections.by_caller.is_empty() {
            connections.eviction = None;
            return;
        }
    }
}
