//! Applies a new configuration while servers run; unchanged servers keep running.
//!
//! `difference` decides what happens to each server, `watcher` detects changed files. The roster is
//! replaced as a whole. A replaced server accepts no new calls; it is stopped after its last call,
//! and then its successor starts.

#[cfg(feature = "watch")]
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::config::{Config, ConfigErrors, Diagnostic, ServerConfig};
use crate::event::Event;
pub use crate::event::{AcceptedChange, PendingChange, ReloadReport};
use crate::host::{Host, HostState, RetiringServer, Roster, initial_state, wait_ended};
use crate::name::ServerName;
use crate::server::ServerHandle;
use crate::state::{ConnectStep, State};
use crate::store::StoreError;
use crate::sync::lock;
use crate::trust::{self, AcceptError, Disclosure};

use difference::{Difference, ReloadApproval, ServerChange, difference, may_run, widening};
#[cfg(feature = "watch")]
pub use watcher::WatchError;

mod difference;
#[cfg(feature = "watch")]
mod watcher;

impl Host {
    /// Applies a new configuration on a person's request, including what allows more, which the
    /// report lists as [`accepted`](ReloadReport::accepted). Unchanged
    /// servers and their calls are not affected; a project's entry that nobody has accepted is
    /// still not started, and one whose acceptance was revoked is stopped. The servers and rules
    /// that the [`HostBuilder`](crate::HostBuilder) got in code stay. In dialects whose files are
    /// not watched (core-agent), every server is stopped before any is started.
    pub async fn reload(&self, mut config: Config) -> Result<ReloadReport, ConfigErrors> {
        self.0.in_code.add_to(&mut config);
        self.0.apply(config, ReloadCause::Person).await
    }

    /// Applies what a new configuration changes without a person's approval, as
    /// [`watch`](Self::watch) does: what would start or allow more is pending.
    pub async fn reload_unattended(
        &self,
        mut config: Config,
    ) -> Result<ReloadReport, ConfigErrors> {
        self.0.in_code.add_to(&mut config);
        self.0.apply(config, ReloadCause::FileChange).await
    }

    /// The changes of watched files that need a person's approval: through
    /// [`reload`](Self::reload), or for one server through [`accept`](Self::accept).
    pub fn pending_changes(&self) -> Vec<PendingChange> {
        pending_changes(&self.servers(), &lock(&self.0.reload.pending))
    }

    /// What a pending server would run, to show to a person before [`accept`](Self::accept).
    pub fn disclose(&self, server: &ServerName) -> Option<Disclosure> {
        Some(trust::disclose(
            self.0.latest_config().servers.get(server)?,
            &self.0.resources.environment,
        ))
    }

    /// Records a person's approval of exactly what was disclosed, and starts the server if its
    /// entry is still the same.
    ///
    /// # Errors
    ///
    /// [`AcceptError::NotApplied`] means that the approval was recorded, but the configuration
    /// could not be applied.
    pub async fn accept(&self, disclosure: &Disclosure) -> Result<ReloadReport, AcceptError> {
        let server = disclosure.name.clone();
        let (disclosure, store) = (disclosure.clone(), self.0.store.clone());
        // The store may wait for a lock of another process.
        let accept = tokio::task::spawn_blocking(move || trust::accept(&disclosure, &*store));
        accept.await.map_err(|_| StoreError::Failed)??;
        let _guard = self.0.reload.reload_lock.lock().await;
        let latest = self.0.latest_config();
        let applied = self
            .0
            .apply_alone((*latest).clone(), ReloadCause::FileChange);
        applied
            .await
            .map_err(|errors| AcceptError::NotApplied { server, errors })
    }

    /// Why the watched files cannot be loaded now, one line each; empty if they can. The previous
    /// configuration stays in force.
    pub fn config_errors(&self) -> Vec<String> {
        lock(&self.0.reload.load_errors).clone().unwrap_or_default()
    }

    /// Watches configuration files, also ones that do not exist yet, and applies what `source`
    /// loads as far as no approval is needed: see [`pending_changes`](Self::pending_changes). A
    /// failed load changes nothing and sends [`Event::ConfigBroken`]. If `files` contains the
    /// store's files of trust, permissions and grants, what other processes accept or revoke there
    /// takes effect at once; their new grants apply from the next run. Ends with the host.
    #[cfg(feature = "watch")]
    pub fn watch(
        &self,
        files: impl IntoIterator<Item = PathBuf>,
        source: impl ConfigSource,
    ) -> Result<(), WatchError> {
        watcher::begin(&self.0, files.into_iter().collect(), Arc::new(source))
    }
}

/// Loads the configuration of watched files. A function that loads it is one, too.
#[cfg(feature = "watch")]
pub trait ConfigSource: Send + Sync + 'static {
    /// Loads the files; the host adds the servers and rules that it got in code. May be called again
    /// before anything is applied, because the files may have been partially written.
    fn load(&self) -> Result<Config, ConfigErrors>;

    /// The host has accepted this configuration.
    fn accepted(&self, config: &Config) {
        let _ = config;
    }
}

#[cfg(feature = "watch")]
impl<F> ConfigSource for F
where
    F: Fn() -> Result<Config, ConfigErrors> + Send + Sync + 'static,
{
    fn load(&self) -> Result<Config, ConfigErrors> {
        self()
    }
}

/// What caused a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadCause {
    Person,
    /// A watched file changed.
    FileChange,
}

impl HostState {
    async fn apply(&self, new: Config, cause: ReloadCause) -> Result<ReloadReport, ConfigErrors> {
        let _guard = self.reload.reload_lock.lock().await;
        self.apply_alone(new, cause).await
    }

    /// The configuration that was read last: the one in force, or one with pending changes.
    fn latest_config(&self) -> Arc<Config> {
        lock(&self.reload.latest)
            .clone()
            .unwrap_or_else(|| self.roster().config.clone())
    }

    /// The caller holds `reload_lock`.
    async fn apply_alone(
        &self,
        new: Config,
        cause: ReloadCause,
    ) -> Result<ReloadReport, ConfigErrors> {
        let has_revoked = self.drop_revoked_grants().await;
        let roster = self.roster();
        let difference = self.difference(&roster, &new, cause);
        let widening = match cause {
            ReloadCause::Person => self.widening(&roster, &new),
            ReloadCause::FileChange => Vec::new(),
        };
        let gate = Roster::gate_of(&difference.config, &self.own, &*self.store)?;
        *lock(&self.reload.load_errors) = None;
        *lock(&self.reload.latest) = Some(Arc::new(new));
        let before = pending_changes(&roster.servers, &lock(&self.reload.pending));
        lock(&self.reload.pending).clone_from(&difference.pending);
        let rules_changed = has_revoked
            || gate.accepted() != roster.gate.accepted()
            || !has_same_rules(&roster.config, &difference.config);
        if changes_nothing(&roster, &difference) && !rules_changed {
            let reloaded = report(&roster, &difference, &roster.servers);
            self.publish_report(&reloaded, before);
            return Ok(reloaded);
        }
        let (servers, retiring) = self.next_servers(&roster, &difference);
        let reloaded = report(&roster, &difference, &servers);
        let reloaded = ReloadReport {
            rules_changed,
            accepted: self.accepted_changes(widening, &reloaded, &difference.config),
            ..reloaded
        };
        self.replace_roster(Roster::new(
            roster.number + 1,
            Arc::new(difference.config),
            servers,
            gate,
        ));
        self.send_new_warnings(&roster);
        // After the new roster is in place, so that a call that finds its server closed then finds
        // the successor.
        self.reload.retire(retiring);
        self.publish_report(&reloaded, before);
        Ok(reloaded)
    }

    /// Sends the warnings about rules and settings that the previous roster did not have.
    fn send_new_warnings(&self, previous: &Roster) {
        let now = self.roster();
        for warning in warnings(&now).filter(|now| warnings(previous).all(|known| known != *now)) {
            let line = format!("warning: {warning}");
            // There may be no listener.
            let _ = self.events.send(Event::Notice { server: None, line });
        }
    }

    /// Sends the event, unless nothing changed.
    fn publish_report(&self, reloaded: &ReloadReport, before: Vec<PendingChange>) {
        if *reloaded
            != (ReloadReport {
                pending: before,
                ..ReloadReport::default()
            })
        {
            // An error means that there is no listener.
            let _ = self
                .events
                .send(Event::Reloaded(Arc::new(reloaded.clone())));
        }
    }

    /// Why a server of the roster waits for a person, if it does.
    fn why_waiting(&self, roster: &Roster, name: &ServerName) -> Option<String> {
        let server = roster.server(name).ok()?;
        why_untrusted(server).or_else(|| {
            (may_run(&server.config, &roster.config) && self.is_revoked(&server.config))
                .then(|| "this project's entry is no longer accepted".to_owned())
        })
    }

    fn is_accepted(&self, server: &ServerConfig) -> bool {
        trust::is_accepted(server, &self.resources.environment, &*self.store)
    }

    /// What a person's reload allows that an edit of the files would not.
    fn widening(&self, roster: &Roster, new: &Config) -> Vec<PendingChange> {
        let waits = |name: &ServerName| self.why_waiting(roster, name);
        let accepted = |server: &ServerConfig| self.is_accepted(server);
        widening(&roster.config, &waits, new, &accepted)
    }

    /// The changes of these that took effect, with what the servers run. A project's entry waits
    /// after a reload, too.
    fn accepted_changes(
        &self,
        widening: Vec<PendingChange>,
        reloaded: &ReloadReport,
        config: &Config,
    ) -> Vec<AcceptedChange> {
        let waits = |change: &PendingChange| {
            let mut pending = reloaded.pending.iter();
            change.server.is_some() && pending.any(|other| other.server == change.server)
        };
        let accepted = widening.into_iter().filter(|change| !waits(change));
        let environment = &self.resources.environment;
        let with_lines = |PendingChange { server, reason }| {
            let entry = server.as_ref().and_then(|name| config.servers.get(name));
            let disclosed = entry.map(|entry| trust::disclose(entry, environment));
            AcceptedChange {
                server,
                reason,
                lines: disclosed.map_or_else(Vec::new, |shown| shown.stored_lines),
            }
        };
        accepted.map(with_lines).collect()
    }

    fn difference(&self, roster: &Roster, new: &Config, cause: ReloadCause) -> Difference {
        let waits = |name: &ServerName| self.why_waiting(roster, name);
        let accepted = |server: &ServerConfig| self.is_accepted(server);
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
            // A reload after a stop starts the servers again.
            let ended = |name: &ServerName| roster.server(name).is_ok_and(ServerHandle::has_ended);
            let back = found.changes.iter_mut().filter(|(name, change)| {
                matches!(change, ServerChange::Keep | ServerChange::UpdateConfig) && ended(name)
            });
            back.for_each(|(_, change)| *change = ServerChange::Start);
        }
        found
    }

    /// Whether a person has revoked the acceptance of a project's entry.
    fn is_revoked(&self, server: &ServerConfig) -> bool {
        trust::is_revoked(server, &self.resources.environment, &*self.store)
    }

    /// The servers of the next roster, and those that are retired.
    fn next_servers(
        &self,
        roster: &Roster,
        difference: &Difference,
    ) -> (Vec<ServerHandle>, Vec<RetiringServer>) {
        let (mut servers, mut retiring) = (Vec::new(), Vec::new());
        let mut retire = |old: &ServerHandle| {
            let retiring_server = RetiringServer::new(old);
            let ended = retiring_server.ended.subscribe();
            retiring.push(retiring_server);
            ended
        };
        let together = retired_together(roster, difference);
        let together_ended: Vec<_> = together.iter().map(|old| retire(old)).collect();
        let is_retired = |name: &ServerName| together.iter().any(|old| old.config.name == *name);
        for name in &difference.removed {
            if let Ok(old) = roster.server(name)
                && !is_retired(name)
            {
                retire(old);
            }
        }
        for (name, change) in &difference.changes {
            let entry = difference.config.servers[name].clone();
            let mut after = match (change, roster.server(name).ok()) {
                (ServerChange::Keep | ServerChange::UpdateConfig, Some(old)) => {
                    servers.push(old.update_config(entry));
                    continue;
                }
                (ServerChange::StartTogether, _) => together_ended.clone(),
                (_, Some(old)) if !is_retired(name) => vec![retire(old)],
                _ => Vec::new(),
            };
            // A server that an earlier reload has replaced may still have calls.
            let is_together = *change == ServerChange::StartTogether;
            after.extend(
                self.reload.ends_of(|old| {
                    old.name == *name || is_together && !old.dialect.profile().watched
                }),
            );
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
                State::connecting(ConnectStep::Drain),
                Some(wait_ended(after)),
            ),
            (initial, false) => (initial, Some(wait_ended(after))),
            (initial, true) => (initial, None),
        };
        ServerHandle::start_after(entry, self.resources.clone(), initial, wait_first)
    }

    /// Records that the files could not be loaded.
    #[cfg(feature = "watch")]
    fn set_load_errors(&self, errors: Vec<String>) {
        let mut load_errors = lock(&self.reload.load_errors);
        if load_errors.as_ref() != Some(&errors) {
            *load_errors = Some(errors.clone());
            let _ = self.events.send(Event::ConfigBroken { errors });
        }
    }
}

/// What is probably a mistake in the files of a roster.
fn warnings(roster: &Roster) -> impl Iterator<Item = &Diagnostic> {
    roster.config.warnings.iter().chain(roster.gate.warnings())
}

/// Whether the same calls and servers are allowed, asked about and denied.
fn has_same_rules(old: &Config, new: &Config) -> bool {
    old.permissions == new.permissions
        && old.project_permissions == new.project_permissions
        && old.security == new.security
}

/// Whether the reload changes nothing.
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

/// The servers of files that are not watched, if any of them starts: all of them end first.
fn retired_together<'a>(roster: &'a Roster, difference: &Difference) -> Vec<&'a ServerHandle> {
    let starts = difference
        .changes
        .values()
        .any(|change| *change == ServerChange::StartTogether);
    roster
        .servers
        .iter()
        .filter(|server| starts && !server.config.dialect.profile().watched)
        .collect()
}

/// Servers that wait for their first start, and the other pending changes.
fn pending_changes(servers: &[ServerHandle], rest: &[PendingChange]) -> Vec<PendingChange> {
    let first = servers.iter().filter_map(|server| {
        Some(PendingChange {
            server: Some(server.config.name.clone()),
            reason: why_untrusted(server)?,
        })
    });
    first.chain(rest.iter().cloned()).collect()
}

/// Whether a server of a roster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// The roster has no such server.
    Absent,
    /// It waits for a person's approval.
    Untrusted,
    /// It is disabled or blocked.
    Off,
    /// It runs, or starts when it is needed.
    On,
}

impl Activity {
    fn of(servers: &[ServerHandle], name: &ServerName) -> Self {
        let server = servers.iter().find(|server| server.config.name == *name);
        match server.map(|server| server.snapshot().state.clone()) {
            None => Self::Absent,
            Some(State::Untrusted { .. }) => Self::Untrusted,
            Some(State::Disabled | State::Blocked { .. }) => Self::Off,
            Some(_) => Self::On,
        }
    }
}

fn report(roster: &Roster, difference: &Difference, servers: &[ServerHandle]) -> ReloadReport {
    use Activity::{Absent, Off, On, Untrusted};
    let mut report = ReloadReport {
        removed: difference.removed.clone(),
        pending: pending_changes(servers, &difference.pending),
        ..ReloadReport::default()
    };
    for (name, change) in &difference.changes {
        let before = Activity::of(&roster.servers, name);
        let after = Activity::of(servers, name);
        let list = match (change, before, after) {
            (ServerChange::UpdateConfig, ..) => &mut report.adjusted,
            (ServerChange::Keep, ..) => continue,
            (_, Absent | Untrusted, Off | On) => &mut report.added,
            (_, Off | On, On) => &mut report.restarted,
            (_, On, Absent | Untrusted | Off) => &mut report.stopped,
            (_, Absent | Untrusted, Absent | Untrusted) => continue,
            (_, Off, Absent | Untrusted | Off) => continue,
        };
        list.push(name.clone());
    }
    report
}
