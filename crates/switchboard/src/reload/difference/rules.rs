//! Which rules and global settings of a changed file take effect without a person's approval.

use crate::config::{
    Config, Dialect, Mode, Permissions, ProjectPermissions, RuleText, ServerConfig,
};
use crate::event::PendingChange;
use crate::name::ServerName;

/// Computes the global settings that take effect without approval.
pub(super) struct RulesInForce<'a> {
    pub(super) old: &'a Config,
    pub(super) new: &'a Config,
    /// Whether the files of this dialect are watched: an edit of others has no effect.
    pub(super) is_watched: fn(Dialect) -> bool,
    pub(super) pending: Vec<PendingChange>,
}

impl RulesInForce<'_> {
    /// The new configuration with the stricter of both rules; what it would additionally allow is
    /// pending.
    pub(super) fn in_force(&mut self) -> Config {
        let mut config = self.new.clone();
        keep_unwatched_servers(self.old, &mut config, self.is_watched);
        self.restrict_permissions(&mut config);
        let is_watched = |project: &&ProjectPermissions| (self.is_watched)(project.dialect);
        let (before, now) = (&self.old.project_permissions, &self.new.project_permissions);
        config.project_permissions = now
            .iter()
            .filter(is_watched)
            .chain(before.iter().filter(|project| !is_watched(project)))
            .cloned()
            .collect();
        config.security.locked = self.old.security.locked || self.new.security.locked;
        if config.security.locked != self.new.security.locked {
            self.add_pending("definitions would no longer be locked".to_owned());
        }
        config
    }

    /// Sets the stricter mode and rules of both configurations.
    fn restrict_permissions(&mut self, config: &mut Config) {
        let (old, new) = (&self.old.permissions, &self.new.permissions);
        let watched = |old: &[RuleText], new: &[RuleText]| watched_rules(old, new, self.is_watched);
        let has_watched = |permissions: &Permissions| {
            permissions.configured
                && (!permissions.only_unwatched || (self.is_watched)(Dialect::CoreAgent))
        };
        let (allow, more) = rules_in_both(&old.allow, &watched(&old.allow, &new.allow));
        let (ask, fewer_asked) = rules_in_either(&old.ask, &watched(&old.ask, &new.ask));
        let (deny, fewer_denied) = rules_in_either(&old.deny, &watched(&old.deny, &new.deny));
        let is_mode_pending = restrict_mode(self.old, config, self.is_watched);
        let permissions = &mut config.permissions;
        permissions.configured = old.configured || (new.configured && !new.only_unwatched);
        permissions.only_unwatched =
            permissions.configured && !has_watched(old) && !has_watched(new);
        let is_section_pending = has_watched(old) && !new.configured;
        (permissions.allow, permissions.ask, permissions.deny) = (allow, ask, deny);
        if is_mode_pending {
            self.add_pending("the mode would be less strict".to_owned());
        }
        for rule in more {
            self.add_pending(format!("a new rule would allow {rule}"));
        }
        for rule in fewer_asked {
            self.add_pending(format!("{rule} would no longer be asked about"));
        }
        for rule in fewer_denied {
            self.add_pending(format!("{rule} would no longer be denied"));
        }
        if is_section_pending {
            self.add_pending("the permissions section would be removed".to_owned());
        }
    }

    fn add_pending(&mut self, reason: String) {
        self.pending.push(PendingChange {
            server: None,
            reason,
        });
    }
}

/// Sets the stricter mode, or keeps that of a file that is not watched; true if the new mode would
/// ask about less.
fn restrict_mode(old: &Config, config: &mut Config, is_watched: fn(Dialect) -> bool) -> bool {
    let (before, now) = (&old.permissions, &mut config.permissions);
    let (was_watched, is_now_watched) = (
        before.mode_dialect.map(is_watched),
        now.mode_dialect.map(is_watched),
    );
    // An edit of a file that is not watched sets the mode, or no longer does.
    let is_kept =
        is_now_watched == Some(false) || (was_watched == Some(false) && is_now_watched.is_none());
    let mode = stricter(before.mode, now.mode);
    if !is_kept && mode == now.mode {
        return false;
    }
    let is_pending = mode != now.mode && (!is_kept || was_watched == Some(true));
    (now.mode, now.mode_dialect) = (before.mode, before.mode_dialect);
    let field = "permissions.mode";
    match old.locations.get(field) {
        Some(location) => config.locations.insert(field.to_owned(), location.clone()),
        None => config.locations.remove(field),
    };
    is_pending
}

/// Entries of files that are not watched stay as they were loaded.
fn keep_unwatched_servers(old: &Config, config: &mut Config, is_watched: fn(Dialect) -> bool) {
    let is_unwatched = |server: &ServerConfig| !is_watched(server.dialect);
    let was_unwatched = |name: &ServerName| {
        old.servers
            .get(name)
            .is_some_and(|server| is_unwatched(server))
    };
    config
        .servers
        .retain(|name, server| !is_unwatched(server) || was_unwatched(name));
    for (name, server) in old
        .servers
        .iter()
        .filter(|(_, server)| is_unwatched(server))
    {
        let now = config
            .servers
            .entry(name.clone())
            .or_insert_with(|| server.clone());
        if is_unwatched(now) {
            now.clone_from(server);
        }
    }
}

/// The new rules of files that are watched, with the old ones of those that are not.
fn watched_rules(
    old: &[RuleText],
    new: &[RuleText],
    is_watched: fn(Dialect) -> bool,
) -> Vec<RuleText> {
    let is_watched = |rule: &&RuleText| is_watched(rule.dialect);
    new.iter()
        .filter(is_watched)
        .chain(old.iter().filter(|rule| !is_watched(rule)))
        .cloned()
        .collect()
}

pub(super) fn stricter(one: Mode, other: Mode) -> Mode {
    match (one, other) {
        (Mode::Deny, _) | (_, Mode::Deny) => Mode::Deny,
        (Mode::Ask, _) | (_, Mode::Ask) => Mode::Ask,
        (Mode::Yolo, Mode::Yolo) => Mode::Yolo,
    }
}

pub(super) fn is_same_rule(one: &RuleText, other: &RuleText) -> bool {
    (&one.text, &one.client, one.dialect) == (&other.text, &other.client, other.dialect)
}

/// The new rules that existed before, and the texts of the added ones.
fn rules_in_both(old: &[RuleText], new: &[RuleText]) -> (Vec<RuleText>, Vec<String>) {
    let (kept, more): (Vec<_>, Vec<_>) = new
        .iter()
        .cloned()
        .partition(|rule| old.iter().any(|before| is_same_rule(before, rule)));
    (kept, more.iter().map(RuleText::quoted).collect())
}

/// The new rules and the removed ones, and the texts of the removed ones.
fn rules_in_either(old: &[RuleText], new: &[RuleText]) -> (Vec<RuleText>, Vec<String>) {
    let gone: Vec<RuleText> = old
        .iter()
        .filter(|rule| !new.iter().any(|now| is_same_rule(now, rule)))
        .cloned()
        .collect();
    let texts = gone.iter().map(RuleText::quoted).collect();
    (new.iter().cloned().chain(gone).collect(), texts)
}
