//! What a new configuration changes: a pure function of two configurations.
//!
//! Without a person's approval, restrictions take effect at once, and what would start or allow
//! more is pending.

use std::sync::Arc;

use indexmap::IndexMap;

use super::PendingChange;
use crate::config::{Config, Dialect, Endpoint, Mode, ServerConfig};
use crate::name::ServerName;
use rules::RulesInForce;

mod rules;

/// How a server waits, at the end of the reason.
const STARTS_LATER: &str = "; it starts once a person has accepted it";
const RUNS_AS_BEFORE: &str = "; it runs as before until a person accepts the change";

/// Who approved a new configuration.
#[derive(Clone, Copy)]
pub(crate) enum ReloadApproval<'a> {
    /// A person: all of it takes effect.
    Person,
    /// Nobody: a file changed. Only entries for which this returns true were accepted before.
    FileChange(&'a dyn Fn(&ServerConfig) -> bool),
}

/// What happens to each server, and the configuration in force.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    /// The new configuration without pending changes. Contains the entries of servers that wait for
    /// their first start.
    pub(crate) config: Config,
    /// The change of each of its servers, in order.
    pub(crate) changes: IndexMap<ServerName, ServerChange>,
    /// Servers that were removed.
    pub(crate) removed: Vec<ServerName>,
    /// Pending changes, except servers that wait for their first start.
    pub(crate) pending: Vec<PendingChange>,
}

/// What happens to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerChange {
    /// Keeps running.
    Keep,
    /// Keeps running, with a new entry for the same launch.
    UpdateConfig,
    /// Stopped after its calls have ended, if it runs, and started with its new entry.
    Start,
    /// Like `Start`, but the servers of its dialect start only when all of them have ended.
    StartTogether,
    /// Listed, but not started, with the reason.
    Wait(String),
}

/// Compares two configurations. `waits` returns why an old server waits for a person, if it does:
/// for its first start, or because its acceptance was revoked while it ran.
pub(crate) fn difference(
    old: &Config,
    waits: &dyn Fn(&ServerName) -> Option<String>,
    new: &Config,
    approval: ReloadApproval<'_>,
) -> Difference {
    compare(old, waits, new, approval, |dialect| {
        dialect.profile().watched
    })
}

/// What a person accepts with a new configuration: what would be pending if its files, of whatever
/// dialect, had only been edited.
pub(crate) fn widening(
    old: &Config,
    waits: &dyn Fn(&ServerName) -> Option<String>,
    new: &Config,
    accepted: &dyn Fn(&ServerConfig) -> bool,
) -> Vec<PendingChange> {
    let approval = ReloadApproval::FileChange(accepted);
    let found = compare(old, waits, new, approval, |_| true);
    let starts = found.changes.into_iter().filter_map(|(name, change)| {
        let ServerChange::Wait(reason) = change else {
            return None;
        };
        let server = Some(name);
        Some(PendingChange { server, reason })
    });
    let mut changes: Vec<_> = starts.chain(found.pending).collect();
    for change in &mut changes {
        for how_it_waits in [STARTS_LATER, RUNS_AS_BEFORE] {
            if let Some(what) = change.reason.strip_suffix(how_it_waits) {
                change.reason = what.to_owned();
            }
        }
    }
    changes
}

fn compare(
    old: &Config,
    waits: &dyn Fn(&ServerName) -> Option<String>,
    new: &Config,
    approval: ReloadApproval<'_>,
    is_watched: fn(Dialect) -> bool,
) -> Difference {
    let mut found = RulesInForce {
        old,
        new,
        is_watched,
        pending: Vec::new(),
    };
    let (config, asked) = match approval {
        ReloadApproval::Person => (new.clone(), None),
        ReloadApproval::FileChange(accepted) => (found.in_force(), Some(accepted)),
    };
    let mut found = Difference {
        config,
        changes: IndexMap::new(),
        removed: Vec::new(),
        pending: found.pending,
    };
    let names: Vec<ServerName> = found.config.servers.keys().cloned().collect();
    for name in names {
        let since = waits(&name);
        let before = EntryState::new(old.servers.get(&name).filter(|_| since.is_none()), old);
        let entry = found.config.servers[&name].clone();
        let now = EntryState::new(Some(&entry), new);
        let (entry, change) = match (asked, since) {
            (None, _) => change_on_request(before, now),
            (Some(accepted), Some(why))
                if now.runs && !accepted(&entry) && old.servers[&name] == entry =>
            {
                (entry.clone(), ServerChange::Wait(why))
            }
            (Some(accepted), _) => change_on_file_edit(before, now, accepted, &mut found),
        };
        found.config.servers.insert(name.clone(), entry);
        found.changes.insert(name, change);
    }
    found.removed = old
        .servers
        .keys()
        .filter(|name| !found.config.servers.contains_key(*name))
        .cloned()
        .collect();
    found
}

/// An entry, if there is one, and whether its server may run.
#[derive(Clone, Copy)]
struct EntryState<'a> {
    server: Option<&'a Arc<ServerConfig>>,
    runs: bool,
}

impl<'a> EntryState<'a> {
    fn new(server: Option<&'a Arc<ServerConfig>>, config: &Config) -> Self {
        Self {
            server,
            runs: server.is_some_and(|server| may_run(server, config)),
        }
    }
}

/// Whether a server may run, apart from approval.
pub(crate) fn may_run(server: &ServerConfig, config: &Config) -> bool {
    server.enabled
        && config.security.blocks(&server.name).is_none()
        && !matches!(server.endpoint, Endpoint::Invalid(_))
}

/// The change on a person's request.
fn change_on_request(
    before: EntryState<'_>,
    now: EntryState<'_>,
) -> (Arc<ServerConfig>, ServerChange) {
    let new = now
        .server
        .expect("it is an entry of the new configuration")
        .clone();
    let change = match before.server {
        // In dialects whose files are not watched, a reload stops every server before it starts
        // one.
        _ if !new.dialect.profile().watched => ServerChange::StartTogether,
        Some(old)
            if before.runs
                && now.runs
                && is_same_launch(old, &new)
                && is_same_session(old, &new) =>
        {
            keep_or_update(old, &new)
        }
        _ => ServerChange::Start,
    };
    (new, change)
}

/// The change after a file was edited.
fn change_on_file_edit(
    before: EntryState<'_>,
    now: EntryState<'_>,
    accepted: &dyn Fn(&ServerConfig) -> bool,
    found: &mut Difference,
) -> (Arc<ServerConfig>, ServerChange) {
    let new = now
        .server
        .expect("it is an entry of the new configuration")
        .clone();
    let Some(old) = before.server else {
        return change_by_new_entry(new, now.runs, accepted, found);
    };
    match (before.runs, now.runs) {
        (false, true) if !accepted(&new) => {
            wait_for_approval("it could not run before the change", new)
        }
        (true, true) if !is_same_launch(old, &new) && !accepted(&new) => {
            keep_launch(old, &new, found)
        }
        (ran, runs) => {
            let entry = without_widening(old, (*new).clone(), found);
            let stays = match (ran, runs) {
                (true, true) => is_same_launch(old, &entry) && is_same_session(old, &entry),
                (false, false) => keep_or_update(old, &entry) == ServerChange::Keep,
                // The server stops, or starts because a person has accepted it.
                _ => false,
            };
            let change = if stays {
                keep_or_update(old, &entry)
            } else {
                ServerChange::Start
            };
            (Arc::new(entry), change)
        }
    }
}

/// The change by an entry that a file edit added.
fn change_by_new_entry(
    new: Arc<ServerConfig>,
    runs: bool,
    accepted: &dyn Fn(&ServerConfig) -> bool,
    found: &mut Difference,
) -> (Arc<ServerConfig>, ServerChange) {
    if runs && !accepted(&new) {
        return wait_for_approval("it is new", new);
    }
    // Approval covers what the server runs, not what it may do without asking.
    let asked_about = ServerConfig {
        trust: false,
        ..(*new).clone()
    };
    let entry = without_widening(&asked_about, (*new).clone(), found);
    (Arc::new(entry), ServerChange::Start)
}

/// The server is listed and starts once a person has accepted it.
fn wait_for_approval(why: &str, new: Arc<ServerConfig>) -> (Arc<ServerConfig>, ServerChange) {
    let reason = format!("{}{STARTS_LATER}", with_place(why, &new));
    (new, ServerChange::Wait(reason))
}

/// The server runs on as it was launched; what it would run now is pending.
fn keep_launch(
    old: &ServerConfig,
    new: &ServerConfig,
    found: &mut Difference,
) -> (Arc<ServerConfig>, ServerChange) {
    let reason = format!(
        "{}{RUNS_AS_BEFORE}",
        with_place("what it runs has changed", new)
    );
    found.pending.push(PendingChange {
        server: Some(new.name.clone()),
        reason,
    });
    let entry = without_widening(old, as_launched(old, new), found);
    let change = keep_or_update(old, &entry);
    (Arc::new(entry), change)
}

fn with_place(what: &str, server: &ServerConfig) -> String {
    format!(
        "{what} ({}:{})",
        crate::config::visible_path(&server.source.file),
        server.source.line
    )
}

/// Whether the same program or URL is used, from the same file.
fn is_same_launch(old: &ServerConfig, new: &ServerConfig) -> bool {
    old.endpoint == new.endpoint
        && old.dialect == new.dialect
        && (&old.source.file, &old.source.folder, old.source.scope)
            == (&new.source.file, &new.source.folder, new.source.scope)
}

/// Whether the open session would be opened with the same options.
fn is_same_session(old: &ServerConfig, new: &ServerConfig) -> bool {
    (old.protocol, old.asks, old.session, old.max_message_bytes)
        == (new.protocol, new.asks, new.session, new.max_message_bytes)
}

fn keep_or_update(old: &ServerConfig, new: &ServerConfig) -> ServerChange {
    // An entry that only moved within its file is unchanged.
    let moved = ServerConfig {
        source: new.source.clone(),
        ..old.clone()
    };
    if moved == *new {
        ServerChange::Keep
    } else {
        ServerChange::UpdateConfig
    }
}

/// The new entry, with everything that affects the running launch from the old one.
fn as_launched(old: &ServerConfig, new: &ServerConfig) -> ServerConfig {
    ServerConfig {
        dialect: old.dialect,
        source: old.source.clone(),
        endpoint: old.endpoint.clone(),
        protocol: old.protocol,
        asks: old.asks,
        session: old.session,
        max_message_bytes: old.max_message_bytes,
        ..new.clone()
    }
}

/// The new entry without what it would allow beyond the old one.
fn without_widening(
    old: &ServerConfig,
    mut new: ServerConfig,
    found: &mut Difference,
) -> ServerConfig {
    let mut widened = |reason: &str| {
        found.pending.push(PendingChange {
            server: Some(old.name.clone()),
            reason: reason.to_owned(),
        })
    };
    if new.trust && !old.trust {
        new.trust = false;
        widened("`trust = true` would let its tools run without a question");
    }
    let permissions = &found.config.permissions;
    let is_ungated = new.dialect.profile().ungated_by_default && !permissions.configured;
    let unasked = new.trust
        || is_ungated
        || permissions.mode == Mode::Yolo
        || !permissions.allow.is_empty()
        || !found.config.project_permissions.is_empty();
    if unasked && may_offer_more(old, &new) {
        new.include_tools.clone_from(&old.include_tools);
        new.exclude_tools.clone_from(&old.exclude_tools);
        widened("its filter would let more tools run, some perhaps without a question");
    }
    new
}

/// Whether the new filter may include more tools; true if unsure.
fn may_offer_more(old: &ServerConfig, new: &ServerConfig) -> bool {
    let is_within =
        |inner: &[String], outer: &[String]| inner.iter().all(|pattern| outer.contains(pattern));
    let includes_more = match (&old.include_tools, &new.include_tools) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(old), Some(new)) => !is_within(new, old),
    };
    includes_more || !is_within(&old.exclude_tools, &new.exclude_tools)
}

#[cfg(test)]
mod tests;
