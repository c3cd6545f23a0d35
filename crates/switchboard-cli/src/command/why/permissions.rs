//! The permissions that concern a server: where each is set, whether it applies, and the remembered
//! approvals.

use serde_json::{Value, json};
use switchboard::config::{Mode, ProjectPermissions, ServerConfig};
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
    what: String,
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
        let config = &setup.config;
        let is_accepted = |project: &ProjectPermissions| {
            trust::permissions_trust_state(project, &*setup.store) == TrustState::Trusted
        };
        let ignored =
            |project: &ProjectPermissions| (!is_accepted(project)).then_some(NOT_ACCEPTED);
        let line = |what: String, ignored_because| PermissionLine {
            what,
            place: None,
            ignored_because,
        };
        let mut lines = Vec::new();
        if let (Some(place), mode) = (
            config.locations.get("permissions.mode"),
            config.permissions.mode,
        ) {
            let place = Some(format!(
                "{}:{}",
                escaped(&place.file.display().to_string()),
                place.line
            ));
            let word = match mode {
                Mode::Ask => "ask",
                Mode::Yolo => "yolo",
                Mode::Deny => "deny",
            };
            lines.push(PermissionLine {
                what: format!("mode {word:?}"),
                place,
                ignored_because: None,
            });
        }
        for project in &config.project_permissions {
            if let Some(place) = &project.yolo {
                let place = Some(format!(
                    "{}:{}",
                    escaped(&place.file.display().to_string()),
                    place.line
                ));
                lines.push(PermissionLine {
                    what: "mode \"yolo\"".to_owned(),
                    place,
                    ignored_because: ignored(project),
                });
            }
            if project.file == server.source.file && project.trusted.contains(&server.name) {
                lines.push(line(
                    "trust: all its tools run without asking".to_owned(),
                    ignored(project),
                ));
            }
            if project.file == server.source.file && project.ungated.contains(&server.name) {
                lines.push(line(
                    "no permissions in its file: all its tools run without asking".to_owned(),
                    ignored(project),
                ));
            }
        }
        // With everything that any project would allow, to show that too; if a rule is invalid,
        // only with what applies.
        let gate = Gate::compile_with(config, &[], &|_| true)
            .or_else(|_| Gate::compile_with(config, &[], &is_accepted));
        // Whether a deny rule is skipped depends on the permissions that apply.
        let in_force = Gate::compile_with(config, &[], &is_accepted);
        for (list, rule) in gate.iter().flat_map(|gate| gate.rules_for(&server.name)) {
            let of_project = config
                .project_permissions
                .iter()
                .find(|project| list == "allow" && project.allow.contains(rule));
            let is_skipped = in_force.as_ref().is_ok_and(|gate| gate.skips(rule));
            lines.push(PermissionLine {
                what: format!("{list} {}", escaped(&rule.quoted())),
                place: Some(format!(
                    "{}:{}",
                    escaped(&rule.file.display().to_string()),
                    rule.line
                )),
                ignored_because: of_project
                    .and_then(ignored)
                    .or(is_skipped.then_some(SKIPPED)),
            });
        }
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
            let counts = match line.ignored_because {
                None => "applies".to_owned(),
                Some(why) => format!("ignored: {why}"),
            };
            text.push_str(&format!("  {}{place}: {counts}\n", line.what));
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
        let line = |line: &PermissionLine| json!({ "says": line.what, "place": line.place, "counts": line.ignored_because.is_none(), "because": line.ignored_because });
        document["permissions"] = self.lines.iter().map(line).collect::<Vec<_>>().into();
        document["remembered"] = self
            .remembered
            .iter()
            .map(grant_json)
            .collect::<Vec<_>>()
            .into();
    }
}
