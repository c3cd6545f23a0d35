//! `[permissions]`, `[security]` and `[naming]` of one file as meant.

use std::path::PathBuf;
use std::sync::Arc;

use super::diagnostic::Findings;
use super::load::Scope;
use super::written::{At, Fields, Written};
use super::{Dialect, Mode, Place, RuleText};
use crate::name::Style;

/// What one file says beside its servers.
#[derive(Debug, Default)]
pub(super) struct Policy {
    pub(super) mode: Option<Placed<Mode>>,
    pub(super) allow: Vec<RuleText>,
    pub(super) ask: Vec<RuleText>,
    pub(super) deny: Vec<RuleText>,
    /// It says something about permissions.
    pub(super) configured: bool,
    /// Not empty.
    pub(super) allow_servers: Option<Placed<Vec<String>>>,
    pub(super) deny_servers: Option<Placed<Vec<String>>>,
    /// `true`, if set: `false` is how it is anyway.
    pub(super) locked: Option<Placed<bool>>,
    pub(super) naming: Option<Placed<Style>>,
}

/// A value and its place, until it is known which file decides.
pub(super) type Placed<T> = (T, Place);

/// Reads the three sections. What a project's file may not say is left out, with a warning.
pub(super) fn policy(
    written: &Written,
    file: &Arc<PathBuf>,
    scope: Scope,
    dialect: Dialect,
    findings: &mut Findings<'_>,
) -> Policy {
    let Written {
        permissions,
        security,
        naming,
        ..
    } = written;
    let mode = match permissions.choice("mode") {
        Some("ask") => Some(Mode::Ask),
        Some("yolo") => Some(Mode::Yolo),
        Some("deny") => Some(Mode::Deny),
        _ => None,
    };
    let style = match naming.choice("style") {
        Some("mcp") => Some(Style::Mcp),
        Some("server_tool") => Some(Style::ServerTool),
        Some("server-tool") => Some(Style::ServerDashTool),
        Some("first-wins") => Some(Style::FirstWins),
        Some("identity") => Some(Style::Identity),
        _ => None,
    };
    let mut policy = Policy {
        allow: rules(permissions, "allow", file, dialect, findings),
        ask: rules(permissions, "ask", file, dialect, findings),
        deny: rules(permissions, "deny", file, dialect, findings),
        configured: written.gated || !permissions.0.is_empty(),
        allow_servers: placed(
            names(security, "allow_servers", findings),
            security,
            "allow_servers",
            findings,
        ),
        deny_servers: placed(
            names(security, "deny_servers", findings),
            security,
            "deny_servers",
            findings,
        ),
        locked: placed(
            security.flag("locked").filter(|locked| *locked),
            security,
            "locked",
            findings,
        ),
        mode: placed(mode, permissions, "mode", findings),
        naming: placed(style, naming, "style", findings),
    };
    if let (Some([]), Some(at)) = (
        security.texts("allow_servers"),
        security.at("allow_servers"),
    ) {
        let path = format!("security.{}", security.spelt("allow_servers"));
        findings.warn(
            at,
            path,
            "an empty list keeps no server from running; list names, or remove it",
        );
    }
    if scope == Scope::Project {
        drop_settings_of_a_person(&mut policy, written, findings);
    }
    policy
}

/// Which servers may run and how tools are named is never for a project to say. What it would let
/// run without asking is held back by [`ProjectPermissions`](super::ProjectPermissions).
fn drop_settings_of_a_person(policy: &mut Policy, written: &Written, findings: &mut Findings<'_>) {
    let Written {
        security, naming, ..
    } = written;
    if policy.allow_servers.take().is_some() {
        let message =
            "ignored: which servers may run is for your own file to say; a project's can only deny";
        ignored(security, "security", "allow_servers", message, findings);
    }
    if policy.naming.take().is_some() {
        ignored(
            naming,
            "naming",
            "style",
            "ignored: names are for your own file to decide",
            findings,
        );
    }
}

fn ignored(
    fields: &Fields,
    section: &str,
    field: &str,
    message: &str,
    findings: &mut Findings<'_>,
) {
    findings.warn(
        fields.at(field).unwrap_or_default(),
        format!("{section}.{}", fields.spelt(field)),
        message,
    );
}

fn rules(
    permissions: &Fields,
    field: &str,
    file: &Arc<PathBuf>,
    dialect: Dialect,
    findings: &mut Findings<'_>,
) -> Vec<RuleText> {
    let found = permissions.texts(field).unwrap_or_default();
    let empty = "empty; expected \"server\" or \"server/tool\"";
    check_not_empty(found, &format!("permissions.{field}"), empty, findings);
    found
        .iter()
        .map(|rule| RuleText {
            text: rule.value.clone(),
            dialect,
            file: file.clone(),
            line: findings.lines.line(rule.at),
        })
        .collect()
}

/// `None` where there are none.
fn names(security: &Fields, field: &str, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let found = security.texts(field).unwrap_or_default();
    check_not_empty(
        found,
        &format!("security.{}", security.spelt(field)),
        "empty; expected the name of a server",
        findings,
    );
    (!found.is_empty()).then(|| found.iter().map(|name| name.value.clone()).collect())
}

fn placed<T>(
    value: Option<T>,
    fields: &Fields,
    field: &str,
    findings: &Findings<'_>,
) -> Option<Placed<T>> {
    let (line, column) = findings.lines.place(fields.at(field)?);
    Some((
        value?,
        Place {
            file: findings.file.clone(),
            line,
            column,
        },
    ))
}

fn check_not_empty(texts: &[At<String>], path: &str, message: &str, findings: &mut Findings<'_>) {
    for (index, text) in texts.iter().enumerate() {
        if text.value.trim().is_empty() {
            findings.error(text.at, format!("{path}[{index}]"), message);
        }
    }
}
