//! What a request holds of its server while it is in flight: the count that a reload waits for, and
//! the session that the request is sent on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::ServerHandle;
use super::caller_sessions::CallerConnection;
use super::other_era::CallRoute;
use crate::catalog::{Offerings, ToolDefinition};
use crate::session::Session;

/// The bit that is set once no new request may begin.
const CLOSED_BIT: usize = 1 << (usize::BITS - 1);

/// The number of requests in flight of one server; shared by all its handles.
#[derive(Debug, Default)]
pub(crate) struct InFlightCount {
    /// The count and `CLOSED_BIT`.
    count: AtomicUsize,
    /// Notified when the last request of a closed server ends. Only one task waits for it.
    drained: Notify,
}

impl InFlightCount {
    /// Counts a request that begins. False if the server is being removed; then nothing is counted.
    pub(crate) fn begin(&self) -> bool {
        let is_open = self.count.fetch_add(1, Ordering::AcqRel) & CLOSED_BIT == 0;
        if !is_open {
            self.end();
        }
        is_open
    }

    /// Counts a request that ended.
    pub(crate) fn end(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == CLOSED_BIT + 1 {
            self.drained.notify_one();
        }
    }

    /// Prevents new requests.
    pub(crate) fn close(&self) {
        self.count.fetch_or(CLOSED_BIT, Ordering::AcqRel);
    }

    /// Waits until a closed server has no request in flight.
    pub(crate) async fn drained(&self) {
        while self.count.load(Ordering::Acquire) != CLOSED_BIT {
            self.drained.notified().await;
        }
    }
}

/// The session for one request of a caller.
#[derive(Debug)]
pub(crate) struct CallerSession {
    session: Arc<Session>,
    /// Keeps the connection from being evicted during the request; `None` on the shared session.
    pub(super) connection: Option<Arc<CallerConnection>>,
    /// The connection of the other era, if the request uses it. Boxed to keep a call's future
    /// small.
    pub(super) other_era: Option<Box<ServerHandle>>,
    pub(super) route: CallRoute,
}

impl CallerSession {
    pub(super) fn shared(session: Arc<Session>) -> Self {
        Self {
            session,
            connection: None,
            other_era: None,
            route: CallRoute::Main,
        }
    }

    /// The session to send the request on.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Whether the tool's definition is the same here as in the shared list.
    pub(crate) fn offers(&self, tool: &ToolDefinition) -> bool {
        self.own_definition(tool).is_ok()
    }

    /// The tool's definition as this connection lists it; `None` on the shared connection. The
    /// error means that this connection lists no such tool.
    pub(crate) fn own_definition(
        &self,
        tool: &ToolDefinition,
    ) -> Result<Option<Arc<ToolDefinition>>, ()> {
        match self.not_shared() {
            None => Ok(None),
            Some(handle) => handle.definition(tool).map(Some).ok_or(()),
        }
    }

    /// The handle of the connection: the caller's own, the one of the other era, or the shared one.
    pub(crate) fn handle<'a>(&'a self, shared: &'a ServerHandle) -> &'a ServerHandle {
        self.not_shared().unwrap_or(shared)
    }

    fn not_shared(&self) -> Option<&ServerHandle> {
        self.connection
            .as_ref()
            .map(|connection| &connection.handle)
            .or(self.other_era.as_deref())
    }

    /// Which of the server's connections the request uses.
    pub(crate) fn route(&self) -> CallRoute {
        self.route
    }
}

impl Drop for CallerSession {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.touch();
        }
    }
}

impl ServerHandle {
    /// The shared session, if it is open and every tool is called on it.
    pub(crate) fn session_now(&self) -> Option<CallerSession> {
        let snapshot = self.snapshot.borrow();
        let session = snapshot.session.as_ref()?;
        let is_usual = snapshot.other_era_tools.is_empty() && self.caller_sessions.is_none();
        (is_usual && !session.is_closed()).then(|| CallerSession::shared(session.clone()))
    }

    /// Whether these are its current offerings.
    pub(crate) fn offers_still(&self, offerings: &Arc<Offerings>) -> bool {
        Arc::ptr_eq(offerings, &self.snapshot.borrow().offerings)
    }

    /// Records a successful response, which resets the count of failures. Runs on every call.
    pub(crate) fn record_success(&self) {
        // The flag is usually set: reading first avoids contention for the cache line.
        if !self.worked.load(Ordering::Relaxed) {
            self.worked.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_closed_server_is_drained_by_its_last_request_and_accepts_no_new_one() {
        let uses = Arc::new(InFlightCount::default());
        assert_eq!((uses.begin(), uses.begin()), (true, true));
        uses.close();
        assert!(!uses.begin(), "closed");
        let waiting = tokio::spawn({
            let uses = uses.clone();
            async move { uses.drained().await }
        });
        uses.end();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "one is left");
        uses.end();
        waiting.await.expect("it ends by itself");
        assert!(!uses.begin(), "closed for good");
        uses.drained().await;
    }
}
