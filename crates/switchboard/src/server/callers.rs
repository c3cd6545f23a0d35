//! Sessions of callers' own, where the entry says `session = "per-caller"`: each is a connection
//! like the shared one, begun when its caller first needs it and ended when it has been idle for a
//! while, when others need the place, or with the server.
//!
//! The shared session lists, and its list is what is approved; a call goes to its caller's own
//! session only if the tool is the same there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::connection_factory::ConnectionFactory;
use super::other_era::{CallRoute, OtherEra};
use super::{NotReady, ServerHandle, Snapshot};
use crate::caller::CallerId;
use crate::catalog::ToolDefinition;
use crate::config::Sharing;
use crate::session::{Era, Session};

/// So many callers may have a session of their own with one server.
const MAX_SEATS: usize = 32;

/// A session that was not used for so long is ended.
const IDLE: Duration = Duration::from_secs(300);

/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(60);

/// Where a request of a caller goes.
#[derive(Debug)]
pub struct Seat {
    session: Arc<Session>,
    /// Holds the caller's place for as long as the request takes; `None` on the shared session.
    own: Option<Arc<Own>>,
    /// The server's connection of the other era, where the request goes over that one.
    other_era: Option<ServerHandle>,
    route: CallRoute,
}

/// One caller's connection.
#[derive(Debug)]
struct Own {
    handle: ServerHandle,
    used: Mutex<Instant>,
}

/// All of them, of one server.
pub(super) struct Callers {
    factory: ConnectionFactory,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    taken: HashMap<CallerId, Arc<Own>>,
    /// Those that are being ended.
    leaving: JoinSet<()>,
    /// Ends those that are idle. Lives while there are any.
    minding: Option<AbortHandle>,
    stopped: bool,
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers")
            .field("seats", &self.seats)
            .finish_non_exhaustive()
    }
}

impl Seat {
    fn shared(session: Arc<Session>) -> Self {
        Self {
            session,
            own: None,
            other_era: None,
            route: CallRoute::Main,
        }
    }

    /// What the request is made on.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Whether the tool is the same here as in the shared list.
    pub(crate) fn offers(&self, tool: &ToolDefinition) -> bool {
        self.not_shared().is_none_or(|handle| {
            let offerings = handle.snapshot().offerings.clone();
            offerings
                .tools
                .iter()
                .any(|offered| offered.name == tool.name && offered.hash == tool.hash)
        })
    }

    /// Whose connection it is: the caller's own, the one of the other era, or the shared one.
    pub(crate) fn handle<'a>(&'a self, shared: &'a ServerHandle) -> &'a ServerHandle {
        self.not_shared().unwrap_or(shared)
    }

    fn not_shared(&self) -> Option<&ServerHandle> {
        self.own
            .as_ref()
            .map(|own| &own.handle)
            .or(self.other_era.as_ref())
    }

    /// Which of the server's connections the request goes over.
    pub(crate) fn route(&self) -> CallRoute {
        self.route
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            *own.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    }
}

impl ServerHandle {
    /// Where requests of this caller go, waking the server and waiting up to `wait` for it.
    pub async fn seat(&self, caller: &CallerId, wait: Duration) -> Result<Seat, NotReady> {
        let began = Instant::now();
        let session = self.ready(wait).await?;
        let Some(callers) = self
            .callers
            .as_ref()
            .filter(|_| session.hello().era() == Era::Legacy)
        else {
            return Ok(Seat::shared(session));
        };
        let own = callers.take(caller).map_err(|fact| NotReady {
            server: self.config.name.clone(),
            fact,
            advice: None,
            state: self.snapshot().state.clone(),
        })?;
        let session = own
            .handle
            .ready(wait.saturating_sub(began.elapsed()))
            .await?;
        let mut seat = Seat::shared(session);
        seat.own = Some(own);
        Ok(seat)
    }

    /// Where calls of this tool go: over the connection of the other era, where the tool was found
    /// to need that one.
    pub(crate) async fn seat_for_tool(
        &self,
        tool: &ToolDefinition,
        caller: &CallerId,
        wait: Duration,
    ) -> Result<Seat, NotReady> {
        let is_usual = |now: &Snapshot| now.session.is_some() && now.other_era_tools.is_empty();
        match &self.other_era {
            Some(other_era) if !is_usual(&self.snapshot.borrow()) => {
                let until = Instant::now() + wait;
                Box::pin(self.seat_by_era(other_era, tool, caller, until)).await
            }
            _ => self.seat(caller, wait).await,
        }
    }

    async fn seat_by_era(
        &self,
        other_era: &OtherEra,
        tool: &ToolDefinition,
        caller: &CallerId,
        until: Instant,
    ) -> Result<Seat, NotReady> {
        let left = || until.saturating_duration_since(Instant::now());
        // Which tools need the other era is known once it is connected.
        let shared = self.ready(left()).await?;
        let needs_other = self.snapshot().other_era_tools.contains(&tool.name);
        if !needs_other {
            return self.seat(caller, left()).await;
        }
        if let Some(handle) = other_era.connection(shared.hello().era().other())
            && let Ok(mut seat) = handle.seat(caller, left()).await
        {
            seat.other_era = Some(handle);
            seat.route = CallRoute::OtherEra;
            if seat.offers(tool) {
                return Ok(seat);
            }
        }
        let mut seat = self.seat(caller, left()).await?;
        seat.route = CallRoute::OtherEraUnavailable;
        Ok(seat)
    }

    /// How many callers have a session of their own now.
    pub fn own_sessions(&self) -> usize {
        self.callers
            .as_ref()
            .map_or(0, |callers| callers.seats().taken.len())
    }
}

impl Callers {
    /// For a server whose callers have sessions of their own; `None` where they share one.
    pub(super) fn new(factory: &ConnectionFactory) -> Option<Arc<Self>> {
        (factory.config.session == Sharing::PerCaller).then(|| {
            Arc::new(Self {
                factory: factory.clone(),
                seats: Mutex::default(),
            })
        })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller's connection, begun if it has none. The error is a fact, and what to try.
    fn take(self: &Arc<Self>, caller: &CallerId) -> Result<Arc<Own>, String> {
        let mut seats = self.seats();
        if seats.stopped {
            return Err("it was stopped".to_owned());
        }
        if let Some(own) = seats.taken.get(caller) {
            return Ok(own.clone());
        }
        if seats.taken.len() >= MAX_SEATS && !seats.free_one() {
            return Err(format!(
                "{MAX_SEATS} callers use sessions of their own, and none is idle; try again when a call has ended"
            ));
        }
        let own = Arc::new(Own {
            handle: self.factory.begin(),
            used: Mutex::new(Instant::now()),
        });
        seats.taken.insert(caller.clone(), own.clone());
        if seats.minding.as_ref().is_none_or(AbortHandle::is_finished) {
            seats.minding = Some(tokio::spawn(mind(Arc::downgrade(self))).abort_handle());
        }
        Ok(own)
    }

    /// Ends all; those who come again begin anew.
    pub(super) fn dismiss(&self) {
        self.seats().end_all();
    }

    /// Ends all for good, within the stop timing.
    pub(super) async fn stop(&self) {
        let mut leaving = {
            let mut seats = self.seats();
            // From here on nobody can begin another.
            seats.stopped = true;
            seats.end_all();
            std::mem::take(&mut seats.leaving)
        };
        while leaving.join_next().await.is_some() {}
    }
}

impl Seats {
    /// Ends one that nobody uses, the one that was idle for longest. False if all are in use.
    fn free_one(&mut self) -> bool {
        let idle = self.taken.iter().filter(|(_, own)| !is_used(own));
        let Some(caller) = idle
            .min_by_key(|(_, own)| last_used(own))
            .map(|(caller, _)| caller.clone())
        else {
            return false;
        };
        self.end(&caller);
        true
    }

    fn end(&mut self, caller: &CallerId) {
        while self.leaving.try_join_next().is_some() {}
        if let Some(own) = self.taken.remove(caller) {
            self.leaving.spawn(async move { own.handle.stop().await });
        }
    }

    fn end_all(&mut self) {
        let all: Vec<CallerId> = self.taken.keys().cloned().collect();
        all.iter().for_each(|caller| self.end(caller));
    }

    fn end_idle(&mut self) {
        let is_idle = |own: &Arc<Own>| !is_used(own) && last_used(own).elapsed() >= IDLE;
        let idle: Vec<CallerId> = self
            .taken
            .iter()
            .filter(|(_, own)| is_idle(own))
            .map(|(caller, _)| caller.clone())
            .collect();
        idle.iter().for_each(|caller| self.end(caller));
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        let seats = self.seats.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(minding) = seats.minding.take() {
            minding.abort();
        }
    }
}

/// A request holds it. New ones come to hold it only under the lock of all seats.
fn is_used(own: &Arc<Own>) -> bool {
    Arc::strong_count(own) > 1
}

fn last_used(own: &Own) -> Instant {
    *own.used.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends what is idle, until nothing is left.
async fn mind(callers: Weak<Callers>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(callers) = callers.upgrade() else {
            return;
        };
        let mut seats = callers.seats();
        seats.end_idle();
        if seats.taken.is_empty() {
            seats.minding = None;
            return;
        }
    }
}
