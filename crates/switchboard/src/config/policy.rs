//! `[permissions]`, `[security]` and `[naming]` of one file as meant. A project's file can only tighten.

use std::path::PathBuf;
use std::sync::Arc;

use super::diagnostic::Findings;
use super::load::Scope;
use super::written::{At, Fields, Written};
use super::{Mode, RuleText};
use crate::name::Style;

/// What one file says beside its servers.
#[derive(Debug, Default)]
pub(super) struct Policy {
    pub(super) mode: Option<Mode>,
    pub(super) allow: Vec<RuleText>,
    pub(super) ask: Vec<RuleText>,
    pub(super) deny: Vec<RuleText>,
    pub(super) allow_servers: Vec<String>,
    pub(super) deny_servers: Vec<String>,
    pub(super) locked: bool,
    pub(super) naming: Option<Style>,
}

/// Reads the three sections. What a project's file may not say is left out, with a warning.
pub(super) fn policy(written: &Written, file: &Arc<PathBuf>, scope: Scope, findings: &mut Findings<'_>) -> Policy {
    let Written { permissions, security, naming, .. } = written;
    let mut policy = Policy {
        mode: match permissions.choice("mode") {
            Some("ask") => Some(Mode::Ask),
            Some("yolo") => Some(Mode::Yolo),
            Some("deny") => Some(Mode::Deny),
            _ => None,
        },
        allow: rules(permissions, "allow", file, findings),
        ask: rules(permissions, "ask", file, findings),
        deny: rules(permissions, "deny", file, findings),
        allow_servers: names(security, "allow_servers", findings),
        deny_servers: names(security, "deny_servers", findings),
        locked: security.flag("locked").unwrap_or(false),
        naming: match naming.choice("style") {
            Some("mcp") => Some(Style::Mcp),
            Some("server_tool") => Some(Style::ServerTool),
            Some("server-tool") => Some(Style::ServerDashTool),
            Some("first-wins") => Some(Style::FirstWins),
            Some("identity") => Some(Style::Identity),
            _ => None,
        },
    };
    if let (Some([]), Some(at)) = (security.texts("allow_servers"), security.at("allow_servers")) {
        findings.warn(at, "security.allow_servers", "an empty list keeps no server from running; list names, or remove it");
    }
    if scope == Scope::Project {
        tighten(&mut policy, written, findings);
    }
    policy
}

/// Drops whatever could widen.
fn tighten(policy: &mut Policy, written: &Written, findings: &mut Findings<'_>) {
    let Written { permissions, security, naming, .. } = written;
    if policy.mode == Some(Mode::Yolo) {
        policy.mode = None;
        ignored(
            permissions,
            "permissions",
            "mode",
            "\"yolo\" is ignored: a project's file can only tighten permissions",
            findings,
        );
    }
    if !policy.allow.is_empty() {
        policy.allow.clear();
        ignored(permissions, "permissions", "allow", "ignored: a project's file can only tighten permissions", findings);
    }
    if !policy.allow_servers.is_empty() {
        policy.allow_servers.clear();
        let message = "ignored: which servers may run is for your own file to say; a project's can only deny";
        ignored(security, "security", "allow_servers", message, findings);
    }
    if policy.naming.is_some() {
        policy.naming = None;
        ignored(naming, "naming", "style", "ignored: names are for your own file to decide", findings);
    }
}

fn ignored(fields: &Fields, section: &str, field: &str, message: &str, findings: &mut Findings<'_>) {
    findings.warn(fields.at(field).unwrap_or_default(), format!("{section}.{field}"), message);
}

fn rules(permissions: &Fields, field: &str, file: &Arc<PathBuf>, findings: &mut Findings<'_>) -> Vec<RuleText> {
    let found = permissions.texts(field).unwrap_or_default();
    let empty = "empty; expected \"server\" or \"server/tool\"";
    check_not_empty(found, &format!("permissions.{field}"), empty, findings);
    found
        .iter()
        .map(|rule| RuleText { text: rule.value.clone(), file: file.clone(), line: findings.lines.line(rule.at) })
        .collect()
}

fn names(security: &Fields, field: &str, findings: &mut Findings<'_>) -> Vec<String> {
    let found = security.texts(field).unwrap_or_default();
    check_not_empty(found, &format!("security.{field}"), "empty; expected the name of a server", findings);
    found.iter().map(|name| name.value.clone()).collect()
}

fn check_not_empty(texts: &[At<String>], path: &str, message: &str, findings: &mut Findings<'_>) {
    for (index, text) in texts.iter().enumerate() {
        if text.value.trim().is_empty() {
            findings.error(text.at, format!("{path}[{index}]"), message);
        }
    }
}
