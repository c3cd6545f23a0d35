//! The permissions that concern a server: where each is set, whether it applies, and the remembered
//! approvals.

use std::path::Path;

use serde_json::{Value, json};
use switchboard::config::{Config, Mode, ProjectPermissions, ServerConfig};
use switchboard::gate::{Gate, Grant};
use switchboard::store::StoreTable;
use switchboard::trust::{self, TrustState};

use crate::command::permissions::{grant_json, grant_line};
use crate::setup::Setup;
use crate::view::server::escaped;

/// The permissions of one server's calls.
pub(super) struct ServerPermissions {
    lines: Vec<PermissionLine>,
    remembered: Vec<Grant>,
}

/// One permission of some file, escaped.
struct PermissionLine {
    permission: String,
    /// File and line of a rule or mode.
    place: Option<String>,
    /// Why it does not apply.
    ignored_because: Option<&'static str>,
}

const NOT_ACCEPTED: &str =
    "the project's permissions were not accepted; accept them with `switchboard trust`";
const SKIPPED: &str = "mode \"yolo\" of its file skips it";

impl ServerPermissions {
    pub(super) fn of(setup: &Setup, server: &ServerConfig) -> Self {
        let is_accepted = |project: &ProjectPermissions| {
            trust::permissions_trust_state(project, &*setup.store) == TrustState::Trusted
        };
        let mut lines: Vec<_> = mode_line(&setup.config).into_iter().collect();
        lines.extend(project_lines(&setup.config, server, &is_accepted));
        lines.extend(rule_lines(&setup.config, server, &is_accepted));
        let grants = setup.store.all(StoreTable::Grants).unwrap_or_default();
        let grants = grants
            .into_iter()
            .filter_map(|(_, text)| Grant::from_json(&text));
        let remembered = grants
            .filter(|grant| grant.id.server == server.name && grant.file == server.source.file)
            .collect();
        Self { lines, remembered }
    }

    pub(super) fn as_text(&self) -> String {
        let mut text = String::new();
        if !self.lines.is_empty() {
            text.push_str("\nPermissions of its calls:\n");
        }
        for line in &self.lines {
            let place = line
                .place
                .as_ref()
                .map(|place| format!(" ({place})"))
                .unwrap_or_default();
            let effect = match line.ignored_because {
                None => "applies".to_owned(),
                Some(why) => format!("ignored: {why}"),
            };
            text.push_str(&format!("  {}{place}: {effect}\n", line.permission));
        }
        if !self.remembered.is_empty() {
            text.push_str(
                "\nYour remembered approvals (`switchboard permissions revoke` revokes them):\n",
            );
            self.remembered
                .iter()
                .for_each(|grant| text.push_str(&format!("  {}\n", grant_line(grant))));
        }
        text
    }

    pub(super) fn write_json(&self, document: &mut Value) {
        let line = |line: &PermissionLine| json!({ "says": line.permission, "place": line.place, "counts": line.ignored_because.is_none(), "because": line.ignored_because });
        document["permissions"] = self.lines.iter().map(line).collect::<Vec<_>>().into();
        document["remembered"] = self
            .remembered
            .iter()
            .map(grant_json)
            .collect::<Vec<_>>()
            .into();
    }
}

/// The mode of the user's own files.
fn mode_line(config: &Config) -> Option<PermissionLine> {
    let place = config.locations.get("permissions.mode")?;
    let word = match config.permissions.mode {
        Mode::Ask => "ask",
        Mode::Yolo => "yolo",
        Mode::Deny => "deny",
    };
    Some(PermissionLine {
        permission: format!("mode {word:?}"),
        place: Some(position(&place.file, place.line)),
        ignored_because: None,
    })
}

/// What project files would allow as a whole: their mode, trust in the server, and the lack of
/// permissions in its file.
fn project_lines(
    config: &Config,
    server: &ServerConfig,
    is_accepted: &dyn Fn(&ProjectPermissions) -> bool,
) -> Vec<PermissionLine> {
    let mut lines = Vec::new();
    for project in &config.project_permissions {
        let line = |permission: &str, place| PermissionLine {
            permission: permission.to_owned(),
            place,
            ignored_because: (!is_accepted(project)).then_some(NOT_ACCEPTED),
        };
        if let Some(place) = &project.yolo {
            let place = position(&place.file, place.line);
            lines.push(line("mode \"yolo\"", Some(place)));
        }
        let is_own = project.file == server.source.file;
        if is_own && project.trusted.contains(&server.name) {
            lines.push(line("trust: all its tools run without asking", None));
        }
        if is_own && project.ungated.contains(&server.name) {
            let permission = "no permissions in its file: all its tools run without asking";
            lines.push(line(permission, None));
        }
    }
    lines
}

/// The rules that match tools of the server.
fn rule_lines(
    config: &Config,
    server: &ServerConfig,
    is_accepted: &dyn Fn(&ProjectPermissions) -> bool,
) -> Vec<PermissionLine> {
    // Includes rules of projects that are not accepted, to show them too; if one of them is invalid,
    // only the accepted ones.
    let gate = Gate::compile_with(config, &[], &|_| true)
        .or_else(|_| Gate::compile_with(config, &[], is_accepted));
    // Whether a deny rule is skipped depends on the permissions that apply.
    let in_force = Gate::compile_with(config, &[], is_accepted);
    let rules = gate.iter().flat_map(|gate| gate.rules_for(&server.name));
    rules
        .map(|(list, rule)| {
            let mut projects = config.project_permissions.iter();
            let of_project =
                projects.find(|project| list == "allow" && project.allow.contains(rule));
            let is_ignored = of_project.is_some_and(|project| !is_accepted(project));
            let is_skipped = in_force.as_ref().is_ok_and(|gate| gate.skips(rule));
            PermissionLine {
                permission: format!("{list} {}", escaped(&rule.quoted())),
                place: Some(position(&rule.file, rule.line)),
                ignored_because: is_ignored
                    .then_some(NOT_ACCEPTED)
                    .or(is_skipped.then_some(SKIPPED)),
            }
        })
        .collect()
}

fn position(file: &Path, line: usize) -> String {
    format!("{}:{line}", escaped(&file.display().to_string()))
}
