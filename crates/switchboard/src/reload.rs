//! Another configuration while servers run: the difference is applied, and what it does not touch
//! goes on.
//!
//! `difference.rs` says what becomes of each server, `watching.rs` notices that a file changed.
//! Here the new picture is built and put in the place of the old one, whole. A server that is
//! replaced takes no new calls; the ones it has end by their own deadlines, then it ends, and only
//! then its successor starts.

#[cfg(feature = "watch")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::caller::BoxFuture;
use crate::config::{Config, ConfigErrors, ServerConfig};
use crate::event::Event;
use crate::host::{Host, HostState, Roster, initial_state};
use crate::name::ServerName;
use crate::server::{ConnectStep, ServerHandle, State};
use crate::sync::lock;
use crate::trust::{self, AcceptError, Disclosure};

use difference::{Difference, ReloadApproval, ServerChange, difference};
#[cfg(feature = "watch")]
pub use watcher::WatchError;

mod difference;
#[cfg(feature = "watch")]
mod watcher;

/// Something of a new configuration that waits until a person says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChange {
    /// Which server it is about; `None` for the rules that all have in common.
    pub server: Option<ServerName>,
    /// What it is, in one line that is safe to show.
    pub reason: String,
}

/// What a new configuration came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Servers that were not there before and may run.
    pub added: Vec<ServerName>,
    /// Servers that are begun anew, after the calls that they have.
    pub restarted: Vec<ServerName>,
    /// Servers that may run no longer; they end after the calls that they have.
    pub stopped: Vec<ServerName>,
    /// Servers that run on, with something else in their entries.
    pub adjusted: Vec<ServerName>,
    /// Servers that are there no longer; they end after the calls that they have.
    pub removed: Vec<ServerName>,
    /// What waits until a person says so.
    pub pending: Vec<PendingChange>,
}

/// What a host remembers of its reloads.
#[derive(Debug, Default)]
pub(crate) struct ReloadState {
    /// One reload at a time.
    turn: tokio::sync::Mutex<()>,
    /// What the files say, where some of it waits.
    latest: Mutex<Option<Arc<Config>>>,
    /// What waits beside servers that were never started.
    pending: Mutex<Vec<PendingChange>>,
    /// Why the files cannot be used now.
    load_errors: Mutex<Option<Vec<String>>>,
    retiring: Mutex<RetiringServers>,
    /// Watches the files; ends with the host.
    watcher: Mutex<Option<AbortHandle>>,
}

/// Servers that have been replaced, and still have calls.
#[derive(Debug, Default)]
struct RetiringServers {
    handles: Vec<ServerHandle>,
    /// Ends with the host.
    tasks: JoinSet<()>,
}

impl Host {
    /// Applies another configuration, because a person said so: all of it holds. Unchanged servers
    /// and their calls are not touched; a project's entry that nobody has accepted still waits.
    /// Of files that are not watched (core-agent), every server is closed before one is begun.
    pub async fn reload(&self, config: Config) -> Result<ReloadReport, ConfigErrors> {
        self.0.apply(config, ReloadCause::Person).await
    }

    /// What a change of a watched file has left waiting until a person says so: by
    /// [`reload`](Self::reload), or for one server by [`accept`](Self::accept).
    pub fn pending_changes(&self) -> Vec<PendingChange> {
        pending_changes(&self.servers(), &lock(&self.0.reload.pending))
    }

    /// What a server that waits would run: to show to a person, whole, before
    /// [`accept`](Self::accept).
    pub fn disclose(&self, server: &ServerName) -> Option<Disclosure> {
        let latest = lock(&self.0.reload.latest)
            .clone()
            .unwrap_or_else(|| self.0.roster.load().config.clone());
        Some(trust::disclose(
            latest.servers.get(server)?,
            &self.0.resources.environment,
        ))
    }

    /// Records a person's yes for exactly what was disclosed, and starts it if it is still what the
    /// file says.
    pub async fn accept(&self, disclosure: &Disclosure) -> Result<ReloadReport, AcceptError> {
        trust::accept(disclosure, &*self.0.store)?;
        let latest = lock(&self.0.reload.latest)
            .clone()
            .unwrap_or_else(|| self.0.roster.load().config.clone());
        // Its rules compiled when it was first read.
        Ok(self
            .0
            .apply((*latest).clone(), ReloadCause::FileChange)
            .await
            .unwrap_or_default())
    }

    /// Why the watched files cannot be used now, one line each; empty while they can. The
    /// configuration from before stays.
    pub fn config_errors(&self) -> Vec<String> {
        lock(&self.0.reload.load_errors).clone().unwrap_or_default()
    }

    /// Watches configuration files, the ones that may yet appear too, and applies what `load` then
    /// makes of them as far as nobody must be asked: see [`waiting`](Self::waiting). What
    /// cannot be loaded changes nothing and is an [`Event::ConfigBroken`]. The file in which
    /// answers are remembered may be among `files`: a yes of another process then counts at once.
    /// Ends with the host.
    #[cfg(feature = "watch")]
    pub fn watch(
        &self,
        files: impl IntoIterator<Item = PathBuf>,
        load: impl Fn() -> Result<Config, ConfigErrors> + Send + Sync + 'static,
    ) -> Result<(), WatchError> {
        watcher::begin(&self.0, files.into_iter().collect(), Arc::new(load))
    }
}

/// Who stands behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadCause {
    Person,
    /// A file changed.
    FileChange,
}

impl HostState {
    async fn apply(&self, new: Config, cause: ReloadCause) -> Result<ReloadReport, ConfigErrors> {
        let _turn = self.reload.turn.lock().await;
        let roster = self.roster.load_full();
        let difference = self.difference(&roster, &new, cause);
        let gate = Roster::gate_of(&difference.config, &self.own, &*self.store)?;
        *lock(&self.reload.load_errors) = None;
        *lock(&self.reload.latest) = Some(Arc::new(new));
        let before = pending_changes(&roster.servers, &lock(&self.reload.pending));
        lock(&self.reload.pending).clone_from(&difference.pending);
        if changes_nothing(&roster, &difference) && gate.accepted() == roster.gate.accepted() {
            let reloaded = report(&roster, &difference, &roster.servers);
            self.publish_report(&reloaded, before);
            return Ok(reloaded);
        }
        let (servers, retiring) = self.next_servers(&roster, &difference).await;
        let reloaded = report(&roster, &difference, &servers);
        self.roster.store(Arc::new(Roster::new(
            roster.number + 1,
            Arc::new(difference.config),
            servers,
            gate,
        )));
        self.rebuild();
        // Only now: whoever finds a server on its way out finds its successor.
        self.reload.retire(retiring);
        self.publish_report(&reloaded, before);
        Ok(reloaded)
    }

    /// Unless there is nothing new in it.
    fn publish_report(&self, reloaded: &ReloadReport, before: Vec<PendingChange>) {
        if *reloaded
            != (ReloadReport {
                pending: before,
                ..ReloadReport::default()
            })
        {
            // Nobody listening is fine.
            let _ = self
                .events
                .send(Event::Reloaded(Arc::new(reloaded.clone())));
        }
    }

    fn difference(&self, roster: &Roster, new: &Config, cause: ReloadCause) -> Difference {
        let waits = |name: &ServerName| roster.server(name).ok().and_then(why_untrusted);
        let accepted = |server: &ServerConfig| {
            trust::is_accepted(server, &self.resources.environment, &*self.store)
        };
        let mut found = match cause {
            ReloadCause::Person => difference(&roster.config, &waits, new, ReloadApproval::Person),
            ReloadCause::FileChange => difference(
                &roster.config,
                &waits,
                new,
                ReloadApproval::FileChange(&accepted),
            ),
        };
        if cause == ReloadCause::Person {
            // Whoever says so after a stop wants them back.
            let ended = |name: &ServerName| roster.server(name).is_ok_and(ServerHandle::has_ended);
            let back = found.changes.iter_mut().filter(|(name, change)| {
                matches!(change, ServerChange::Keep | ServerChange::UpdateConfig) && ended(name)
            });
            back.for_each(|(_, change)| *change = ServerChange::Start);
        }
        found
    }

    /// The servers of the next picture, and those that leave, each with what its successors wait
    /// for.
    async fn next_servers(
        &self,
        roster: &Roster,
        difference: &Difference,
    ) -> (Vec<ServerHandle>, Vec<RetiringServer>) {
        let (mut servers, mut retiring) = (Vec::new(), Vec::new());
        let mut part = |old: &ServerHandle| {
            let retiring_server = RetiringServer::new(old);
            let ended = retiring_server.ended.subscribe();
            retiring.push(retiring_server);
            ended
        };
        let of_unwatched_files = |server: &&ServerHandle| !server.config.dialect.profile().watched;
        let together: Vec<_> = match difference
            .changes
            .values()
            .any(|change| *change == ServerChange::StartTogether)
        {
            true => roster
                .servers
                .iter()
                .filter(of_unwatched_files)
                .map(|old| (old.config.name.clone(), part(old)))
                .collect(),
            false => Vec::new(),
        };
        for name in &difference.removed {
            if let Ok(old) = roster.server(name)
                && !together
                    .iter()
                    .any(|(retiring_server, _)| retiring_server == name)
            {
                part(old);
            }
        }
        for (name, change) in &difference.changes {
            let entry = difference.config.servers[name].clone();
            let old = roster.server(name).ok();
            let mut after: Vec<watch::Receiver<()>> = Vec::new();
            match (change, old) {
                (ServerChange::Keep | ServerChange::UpdateConfig, Some(old)) => {
                    servers.push(old.update_config(entry).await);
                    continue;
                }
                (ServerChange::StartTogether, _) => {
                    after.extend(together.iter().map(|(_, ended)| ended.clone()))
                }
                (_, Some(old))
                    if !together
                        .iter()
                        .any(|(retiring_server, _)| retiring_server == name) =>
                {
                    after.push(part(old))
                }
                _ => {}
            }
            servers.push(self.start_server(entry, change, &difference.config, after));
        }
        (servers, retiring)
    }

    fn start_server(
        &self,
        entry: Arc<ServerConfig>,
        change: &ServerChange,
        config: &Config,
        after: Vec<watch::Receiver<()>>,
    ) -> ServerHandle {
        let initial = match change {
            ServerChange::Wait(reason) => State::Untrusted {
                reason: reason.clone(),
            },
            _ => initial_state(&entry, config, self.only.as_deref(), &self.resources),
        };
        let (initial, wait_first) = match (initial, after.is_empty()) {
            (State::Connecting { .. }, false) => (
                State::Connecting {
                    since: SystemTime::now(),
                    step: ConnectStep::Drain,
                },
                Some(wait_ended(after)),
            ),
            (initial, false) => (initial, Some(wait_ended(after))),
            (initial, true) => (initial, None),
        };
        ServerHandle::start_after(entry, self.resources.clone(), initial, wait_first)
    }

    /// What the files have come to could not be used.
    #[cfg(feature = "watch")]
    fn set_load_errors(&self, errors: Vec<String>) {
        let mut load_errors = lock(&self.reload.load_errors);
        if load_errors.as_ref() != Some(&errors) {
            *load_errors = Some(errors.clone());
            let _ = self.events.send(Event::ConfigBroken { errors });
        }
    }
}

/// A server that leaves.
struct RetiringServer {
    handle: ServerHandle,
    /// Dropped when it has left.
    ended: watch::Sender<()>,
}

impl RetiringServer {
    fn new(handle: &ServerHandle) -> Self {
        Self {
            handle: handle.clone(),
            ended: watch::Sender::new(()),
        }
    }
}

fn wait_ended(servers: Vec<watch::Receiver<()>>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        for mut retiring_server in servers {
            // Nothing is ever sent: it ends when the sender is gone.
            while retiring_server.changed().await.is_ok() {}
        }
    })
}

impl ReloadState {
    /// Lets servers end once their calls have.
    fn retire(&self, servers: Vec<RetiringServer>) {
        let mut retiring = lock(&self.retiring);
        retiring.handles.retain(|handle| !handle.has_ended());
        while retiring.tasks.try_join_next().is_some() {}
        for RetiringServer { handle, ended } in servers {
            retiring.handles.push(handle.clone());
            retiring.tasks.spawn(async move {
                handle.retire().await;
                drop(ended);
            });
        }
    }

    /// Those that still have calls.
    pub(crate) fn retiring(&self) -> Vec<ServerHandle> {
        lock(&self.retiring).handles.clone()
    }

    pub(crate) fn stop_watching(&self) {
        if let Some(watcher) = lock(&self.watcher).take() {
            watcher.abort();
        }
    }
}

impl Drop for ReloadState {
    fn drop(&mut self) {
        self.stop_watching();
    }
}

/// Whether nobody would see a difference.
fn changes_nothing(roster: &Roster, difference: &Difference) -> bool {
    let stays = |name: &ServerName, change: &ServerChange| match change {
        ServerChange::Keep => true,
        ServerChange::Wait(why) => roster.server(name).is_ok_and(|server| {
            why_untrusted(server).as_ref() == Some(why)
                && server.config == difference.config.servers[name]
        }),
        ServerChange::UpdateConfig | ServerChange::Start | ServerChange::StartTogether => false,
    };
    difference.config == *roster.config
        && difference
            .config
            .servers
            .keys()
            .eq(roster.config.servers.keys())
        && difference
            .changes
            .iter()
            .all(|(name, change)| stays(name, change))
}

fn why_untrusted(server: &ServerHandle) -> Option<String> {
    match &server.snapshot().state {
        State::Untrusted { reason } => Some(reason.clone()),
        _ => None,
    }
}

/// The servers that wait for their first start, and the rest.
fn pending_changes(servers: &[ServerHandle], rest: &[PendingChange]) -> Vec<PendingChange> {
    let first = servers.iter().filter_map(|server| {
        Some(PendingChange {
            server: Some(server.config.name.clone()),
            reason: why_untrusted(server)?,
        })
    });
    first.chain(rest.iter().cloned()).collect()
}

fn report(roster: &Roster, difference: &Difference, servers: &[ServerHandle]) -> ReloadReport {
    let may_run = |name: &ServerName| {
        servers
            .iter()
            .any(|server| server.config.name == *name && why_untrusted(server).is_none())
    };
    let named = |latest: &dyn Fn(&ServerName, &ServerChange) -> bool| -> Vec<ServerName> {
        difference
            .changes
            .iter()
            .filter(|(name, change)| latest(name, change))
            .map(|(name, _)| name.clone())
            .collect()
    };
    let was_there = |name: &ServerName| {
        roster
            .server(name)
            .is_ok_and(|server| why_untrusted(server).is_none())
    };
    let begins =
        |change: &ServerChange| matches!(change, ServerChange::Start | ServerChange::StartTogether);
    let rests = |servers: &[ServerHandle], name: &ServerName| {
        let state = servers
            .iter()
            .find(|server| server.config.name == *name)
            .map(|server| server.snapshot().state.clone());
        state.is_none_or(|state| {
            matches!(
                state,
                State::Disabled | State::Blocked { .. } | State::Untrusted { .. }
            )
        })
    };
    ReloadReport {
        added: named(&|name, change| begins(change) && !was_there(name) && may_run(name)),
        restarted: named(&|name, change| {
            begins(change) && was_there(name) && !rests(servers, name)
        }),
        stopped: named(&|name, change| {
            begins(change) && !rests(&roster.servers, name) && rests(servers, name)
        }),
        adjusted: named(&|_, change| *change == ServerChange::UpdateConfig),
        removed: difference.removed.clone(),
        pending: pending_changes(servers, &difference.pending),
    }
}
