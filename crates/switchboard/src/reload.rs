//! Another configuration while servers run: the difference is applied, and what it does not touch
//! goes on.
//!
//! `difference.rs` says what becomes of each server, `watching.rs` notices that a file changed.
//! Here the new picture is built and put in the place of the old one, whole. A server that is
//! replaced takes no new calls; the ones it has end by their own deadlines, then it ends, and only
//! then its successor starts.

#[cfg(feature = "watch")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::caller::BoxFuture;
use crate::config::{Config, ConfigErrors, ServerConfig};
use crate::event::Event;
use crate::host::{Host, HostState, Roster, initial_state};
use crate::name::ServerName;
use crate::server::{ServerHandle, State};
use crate::trust::{self, AcceptError, Disclosure};

use difference::{Difference, Said, Step, difference};
#[cfg(feature = "watch")]
pub use watching::WatchError;

mod difference;
#[cfg(feature = "watch")]
mod watching;

/// Something of a new configuration that waits until a person says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Which server it is about; `None` for the rules that all have in common.
    pub server: Option<ServerName>,
    /// What it is, in one line that is safe to show.
    pub reason: String,
}

/// What a new configuration came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
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
    pub waiting: Vec<Waiting>,
}

/// What a host remembers of its reloads.
#[derive(Debug, Default)]
pub(crate) struct Reloading {
    /// One reload at a time.
    turn: tokio::sync::Mutex<()>,
    /// What the files say, where some of it waits.
    wanted: Mutex<Option<Arc<Config>>>,
    /// What waits beside servers that were never started.
    waiting: Mutex<Vec<Waiting>>,
    /// Why the files cannot be used now.
    broken: Mutex<Option<Vec<String>>>,
    leaving: Mutex<Leaving>,
    /// Watches the files; ends with the host.
    watcher: Mutex<Option<AbortHandle>>,
}

/// Servers that have been replaced, and still have calls.
#[derive(Debug, Default)]
struct Leaving {
    handles: Vec<ServerHandle>,
    /// Ends with the host.
    tasks: JoinSet<()>,
}

impl Host {
    /// Applies another configuration, because a person said so: all of it holds. Unchanged servers
    /// and their calls are not touched; a project's entry that nobody has accepted still waits.
    /// Of files that are not watched (core-agent), every server is closed before one is begun.
    pub async fn reload(&self, config: Config) -> Result<Reloaded, ConfigErrors> {
        self.0.apply(config, By::Person).await
    }

    /// What a change of a watched file has left waiting until a person says so: by
    /// [`reload`](Self::reload), or for one server by [`accept`](Self::accept).
    pub fn waiting(&self) -> Vec<Waiting> {
        waiting(&self.servers(), &locked(&self.0.reloading.waiting))
    }

    /// What a server that waits would run: to show to a person, whole, before
    /// [`accept`](Self::accept).
    pub fn disclose(&self, server: &ServerName) -> Option<Disclosure> {
        let wanted = locked(&self.0.reloading.wanted)
            .clone()
            .unwrap_or_else(|| self.0.roster.load().config.clone());
        Some(trust::disclose(
            wanted.servers.get(server)?,
            &self.0.resources.environment,
        ))
    }

    /// Records a person's yes for exactly what was disclosed, and starts it if it is still what the
    /// file says.
    pub async fn accept(&self, disclosure: &Disclosure) -> Result<Reloaded, AcceptError> {
        trust::accept(disclosure, &*self.0.store)?;
        let wanted = locked(&self.0.reloading.wanted)
            .clone()
            .unwrap_or_else(|| self.0.roster.load().config.clone());
        // Its rules compiled when it was first read.
        Ok(self
            .0
            .apply((*wanted).clone(), By::Nobody)
            .await
            .unwrap_or_default())
    }

    /// Why the watched files cannot be used now, one line each; empty while they can. The
    /// configuration from before stays.
    pub fn config_errors(&self) -> Vec<String> {
        locked(&self.0.reloading.broken).clone().unwrap_or_default()
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
        watching::begin(&self.0, files.into_iter().collect(), Arc::new(load))
    }
}

/// Who stands behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Person,
    /// A file changed.
    Nobody,
}

impl HostState {
    async fn apply(&self, new: Config, by: By) -> Result<Reloaded, ConfigErrors> {
        let _turn = self.reloading.turn.lock().await;
        let roster = self.roster.load_full();
        let difference = self.difference(&roster, &new, by);
        let gate = Roster::gate_of(&difference.config, &self.own, &*self.store)?;
        *locked(&self.reloading.broken) = None;
        *locked(&self.reloading.wanted) = Some(Arc::new(new));
        let before = waiting(&roster.servers, &locked(&self.reloading.waiting));
        locked(&self.reloading.waiting).clone_from(&difference.waiting);
        if is_nothing(&roster, &difference) && gate.accepted() == roster.gate.accepted() {
            let reloaded = report(&roster, &difference, &roster.servers);
            self.tell(&reloaded, before);
            return Ok(reloaded);
        }
        let (servers, leaving) = self.next_servers(&roster, &difference).await;
        let reloaded = report(&roster, &difference, &servers);
        self.roster.store(Arc::new(Roster::new(
            roster.number + 1,
            Arc::new(difference.config),
            servers,
            gate,
        )));
        self.rebuild();
        // Only now: whoever finds a server on its way out finds its successor.
        self.reloading.see_off(leaving);
        self.tell(&reloaded, before);
        Ok(reloaded)
    }

    /// Unless there is nothing new in it.
    fn tell(&self, reloaded: &Reloaded, before: Vec<Waiting>) {
        if *reloaded
            != (Reloaded {
                waiting: before,
                ..Reloaded::default()
            })
        {
            // Nobody listening is fine.
            let _ = self
                .events
                .send(Event::Reloaded(Arc::new(reloaded.clone())));
        }
    }

    fn difference(&self, roster: &Roster, new: &Config, by: By) -> Difference {
        let waits = |name: &ServerName| roster.server(name).ok().and_then(why_untrusted);
        let accepted = |server: &ServerConfig| {
            trust::is_accepted(server, &self.resources.environment, &*self.store)
        };
        let mut found = match by {
            By::Person => difference(&roster.config, &waits, new, Said::Person),
            By::Nobody => difference(&roster.config, &waits, new, Said::Nobody(&accepted)),
        };
        if by == By::Person {
            // Whoever says so after a stop wants them back.
            let gone = |name: &ServerName| roster.server(name).is_ok_and(ServerHandle::has_ended);
            let back = found
                .steps
                .iter_mut()
                .filter(|(name, step)| matches!(step, Step::Keep | Step::Adopt) && gone(name));
            back.for_each(|(_, step)| *step = Step::Begin);
        }
        found
    }

    /// The servers of the next picture, and those that leave, each with what its successors wait
    /// for.
    async fn next_servers(
        &self,
        roster: &Roster,
        difference: &Difference,
    ) -> (Vec<ServerHandle>, Vec<Parting>) {
        let (mut servers, mut leaving) = (Vec::new(), Vec::new());
        let mut part = |old: &ServerHandle| {
            let parting = Parting::new(old);
            let gone = parting.gone.subscribe();
            leaving.push(parting);
            gone
        };
        let of_unwatched_files = |server: &&ServerHandle| !server.config.dialect.profile().watched;
        let together: Vec<_> = match difference
            .steps
            .values()
            .any(|step| *step == Step::BeginTogether)
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
                && !together.iter().any(|(parting, _)| parting == name)
            {
                part(old);
            }
        }
        for (name, step) in &difference.steps {
            let entry = difference.config.servers[name].clone();
            let old = roster.server(name).ok();
            let mut after: Vec<watch::Receiver<()>> = Vec::new();
            match (step, old) {
                (Step::Keep | Step::Adopt, Some(old)) => {
                    servers.push(old.update_config(entry).await);
                    continue;
                }
                (Step::BeginTogether, _) => {
                    after.extend(together.iter().map(|(_, gone)| gone.clone()))
                }
                (_, Some(old)) if !together.iter().any(|(parting, _)| parting == name) => {
                    after.push(part(old))
                }
                _ => {}
            }
            servers.push(self.begin(entry, step, &difference.config, after));
        }
        (servers, leaving)
    }

    fn begin(
        &self,
        entry: Arc<ServerConfig>,
        step: &Step,
        config: &Config,
        after: Vec<watch::Receiver<()>>,
    ) -> ServerHandle {
        let initial = match step {
            Step::Wait(reason) => State::Untrusted {
                reason: reason.clone(),
            },
            _ => initial_state(&entry, config, self.only.as_deref(), &self.resources),
        };
        let (initial, others) = match (initial, after.is_empty()) {
            (State::Connecting { .. }, false) => (
                State::Connecting {
                    since: SystemTime::now(),
                    step: "drain",
                },
                Some(all_gone(after)),
            ),
            (initial, false) => (initial, Some(all_gone(after))),
            (initial, true) => (initial, None),
        };
        ServerHandle::start_after(entry, self.resources.clone(), initial, others)
    }

    /// What the files have come to could not be used.
    #[cfg(feature = "watch")]
    fn broken(&self, errors: Vec<String>) {
        let mut broken = locked(&self.reloading.broken);
        if broken.as_ref() != Some(&errors) {
            *broken = Some(errors.clone());
            let _ = self.events.send(Event::ConfigBroken { errors });
        }
    }
}

/// A server that leaves.
struct Parting {
    handle: ServerHandle,
    /// Dropped when it has left.
    gone: watch::Sender<()>,
}

impl Parting {
    fn new(handle: &ServerHandle) -> Self {
        Self {
            handle: handle.clone(),
            gone: watch::Sender::new(()),
        }
    }
}

fn all_gone(partings: Vec<watch::Receiver<()>>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        for mut parting in partings {
            // Nothing is ever sent: it ends when the sender is gone.
            while parting.changed().await.is_ok() {}
        }
    })
}

impl Reloading {
    /// Lets servers end once their calls have.
    fn see_off(&self, leaving: Vec<Parting>) {
        let mut seen_off = locked(&self.leaving);
        seen_off.handles.retain(|handle| !handle.has_ended());
        while seen_off.tasks.try_join_next().is_some() {}
        for Parting { handle, gone } in leaving {
            seen_off.handles.push(handle.clone());
            seen_off.tasks.spawn(async move {
                handle.retire().await;
                drop(gone);
            });
        }
    }

    /// Those that still have calls.
    pub(crate) fn leaving(&self) -> Vec<ServerHandle> {
        locked(&self.leaving).handles.clone()
    }

    pub(crate) fn stop_watching(&self) {
        if let Some(watcher) = locked(&self.watcher).take() {
            watcher.abort();
        }
    }
}

impl Drop for Reloading {
    fn drop(&mut self) {
        self.stop_watching();
    }
}

/// Whether nobody would see a difference.
fn is_nothing(roster: &Roster, difference: &Difference) -> bool {
    let stays = |name: &ServerName, step: &Step| match step {
        Step::Keep => true,
        Step::Wait(why) => roster.server(name).is_ok_and(|server| {
            why_untrusted(server).as_ref() == Some(why)
                && server.config == difference.config.servers[name]
        }),
        Step::Adopt | Step::Begin | Step::BeginTogether => false,
    };
    difference.config == *roster.config
        && difference
            .config
            .servers
            .keys()
            .eq(roster.config.servers.keys())
        && difference
            .steps
            .iter()
            .all(|(name, step)| stays(name, step))
}

fn why_untrusted(server: &ServerHandle) -> Option<String> {
    match &server.snapshot().state {
        State::Untrusted { reason } => Some(reason.clone()),
        _ => None,
    }
}

/// The servers that wait for their first start, and the rest.
fn waiting(servers: &[ServerHandle], rest: &[Waiting]) -> Vec<Waiting> {
    let first = servers.iter().filter_map(|server| {
        Some(Waiting {
            server: Some(server.config.name.clone()),
            reason: why_untrusted(server)?,
        })
    });
    first.chain(rest.iter().cloned()).collect()
}

fn report(roster: &Roster, difference: &Difference, servers: &[ServerHandle]) -> Reloaded {
    let may_run = |name: &ServerName| {
        servers
            .iter()
            .any(|server| server.config.name == *name && why_untrusted(server).is_none())
    };
    let named = |wanted: &dyn Fn(&ServerName, &Step) -> bool| -> Vec<ServerName> {
        difference
            .steps
            .iter()
            .filter(|(name, step)| wanted(name, step))
            .map(|(name, _)| name.clone())
            .collect()
    };
    let was_there = |name: &ServerName| {
        roster
            .server(name)
            .is_ok_and(|server| why_untrusted(server).is_none())
    };
    let begins = |step: &Step| matches!(step, Step::Begin | Step::BeginTogether);
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
    Reloaded {
        added: named(&|name, step| begins(step) && !was_there(name) && may_run(name)),
        restarted: named(&|name, step| begins(step) && was_there(name) && !rests(servers, name)),
        stopped: named(&|name, step| {
            begins(step) && !rests(&roster.servers, name) && rests(servers, name)
        }),
        adjusted: named(&|_, step| *step == Step::Adopt),
        removed: difference.removed.clone(),
        waiting: waiting(servers, &difference.waiting),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
