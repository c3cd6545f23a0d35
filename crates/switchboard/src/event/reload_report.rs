//! The report of a reload, and the changes that wait for approval.

use crate::name::ServerName;

/// A change that takes effect only after a person has approved it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingChange {
    /// The server; `None` for rules that apply to all.
    pub server: Option<ServerName>,
    /// What would change, in one line that is safe to show.
    pub reason: String,
}

/// A change that took effect because a person asked for the reload: after an edit of a watched file
/// alone it would wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptedChange {
    /// The server; `None` for rules that apply to all.
    pub server: Option<ServerName>,
    /// What would change without the reload, in one line that is safe to show.
    pub reason: String,
    /// What the server runs, without secrets.
    pub lines: Vec<String>,
}

/// What a reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadReport {
    /// New servers that may run.
    pub added: Vec<ServerName>,
    /// Servers that restart after their calls have ended.
    pub restarted: Vec<ServerName>,
    /// Servers that may no longer run; they stop after their calls have ended.
    pub stopped: Vec<ServerName>,
    /// Servers that keep running with changed entries.
    pub adjusted: Vec<ServerName>,
    /// Removed servers; they stop after their calls have ended.
    pub removed: Vec<ServerName>,
    /// Whether other rules about calls or servers are in force, or another program has revoked
    /// approvals.
    pub rules_changed: bool,
    /// Changes that need a person's approval.
    pub pending: Vec<PendingChange>,
    /// Changes that the person who asked for the reload has approved with it.
    pub accepted: Vec<AcceptedChange>,
}
