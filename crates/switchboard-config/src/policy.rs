//! The sections `[permissions]`, `[security]`, `[naming]`, `[model]` and `[gateway]` of one file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::diagnostic::Diagnostics;
use super::fields::GATEWAY;
use super::raw::{AtOffset, FieldTable, RawConfig};
use super::source::Scope;
use super::{AuditArguments, Dialect, Location, Mode, ModelEntry, RuleText, TokenPrice};
use crate::name::Style;

/// The settings of one file, without its servers.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// The dialect of the file.
    pub(super) dialect: Option<Dialect>,
    pub(super) mode: Option<WithLocation<Mode>>,
    pub(super) allow: Vec<RuleText>,
    pub(super) ask: Vec<RuleText>,
    pub(super) deny: Vec<RuleText>,
    /// Whether it has a permissions section.
    pub(super) configured: bool,
    /// Not empty.
    pub(super) allow_servers: Option<WithLocation<Vec<String>>>,
    pub(super) deny_servers: Option<WithLocation<Vec<String>>>,
    /// `Some(true)` or `None`: `false` is the default.
    pub(super) locked: Option<WithLocation<bool>>,
    pub(super) naming: Option<WithLocation<Style>>,
    pub(super) model: Option<ModelEntry>,
    pub(super) gateway: GatewayPolicy,
}

/// What the file sets of `[gateway]`.
#[derive(Debug, Default)]
pub(super) struct GatewayPolicy {
    pub(super) audit_arguments: Option<AuditArguments>,
    pub(super) lost_server_grace: Option<Duration>,
    pub(super) public_url: Option<String>,
}

/// A value with its location, until the files are merged.
pub(super) type WithLocation<T> = (T, Location);

/// Reads these sections. Settings that a project's file may not have are ignored with a
/// warning.
pub(super) fn policy(
    written: &RawConfig,
    file: &Arc<PathBuf>,
    scope: Scope,
    dialect: Dialect,
    diagnostics: &mut Diagnostics<'_>,
) -> Policy {
    let RawConfig {
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
    let style = naming.choice("style").and_then(Style::parse);
    let mut policy = Policy {
        dialect: Some(dialect),
        allow: rules(permissions, "allow", file, dialect, diagnostics),
        ask: rules(permissions, "ask", file, dialect, diagnostics),
        deny: rules(permissions, "deny", file, dialect, diagnostics),
        configured: written.has_permissions || !permissions.values.is_empty(),
        allow_servers: with_location(
            names(security, "allow_servers", diagnostics),
            security,
            "allow_servers",
            diagnostics,
        ),
        deny_servers: with_location(
            names(security, "deny_servers", diagnostics),
            security,
            "deny_servers",
            diagnostics,
        ),
        locked: with_location(
            security.flag("locked").filter(|locked| *locked),
            security,
            "locked",
            diagnostics,
        ),
        mode: with_location(mode, permissions, "mode", diagnostics),
        naming: with_location(style, naming, "style", diagnostics),
        model: model(written, diagnostics),
        gateway: gateway(&written.gateway),
    };
    warn_of_empty_allow_list(security, diagnostics);
    if scope == Scope::Project {
        drop_user_only_settings(&mut policy, written, diagnostics);
    }
    policy
}

fn warn_of_empty_allow_list(security: &FieldTable, diagnostics: &mut Diagnostics<'_>) {
    let field = "allow_servers";
    if let (Some([]), Some(at)) = (security.texts(field), security.offset_of(field)) {
        let path = format!("security.{}", security.name_in_file(field));
        let message = "an empty list blocks no server; list names, or remove it";
        diagnostics.warn(at, path, message);
    }
}

fn gateway(fields: &FieldTable) -> GatewayPolicy {
    GatewayPolicy {
        audit_arguments: match fields.choice("audit_arguments") {
            Some("shape") => Some(AuditArguments::Shape),
            Some("full") => Some(AuditArguments::Full),
            Some("none") => Some(AuditArguments::None),
            _ => None,
        },
        lost_server_grace: fields.duration("lost_server_grace"),
        public_url: fields.text("public_url").map(str::to_owned),
    }
}

/// The model, as written.
fn model(written: &RawConfig, diagnostics: &mut Diagnostics<'_>) -> Option<ModelEntry> {
    let AtOffset { at, value: fields } = written.model.as_ref()?;
    let Some(vendor) = fields.choice("vendor") else {
        // An unknown vendor has been reported.
        if fields.offset_of("vendor").is_none() {
            diagnostics.error(
                *at,
                "model",
                "`vendor` is not set; expected anthropic, openai, openai-chat, gemini or demo",
            );
        }
        return None;
    };
    Some(ModelEntry {
        vendor: vendor.to_owned(),
        name: fields.text("name").map(str::to_owned),
        base_url: fields.text("base_url").map(str::to_owned),
        api_key: fields.secret("api_key").cloned(),
        context_tokens: fields.count("context_tokens"),
        max_output_tokens: fields.count("max_output_tokens"),
        effort: fields.text("effort").map(str::to_owned),
        thinking_tokens: fields.count("thinking_tokens"),
        images: fields.flag("images"),
        price: fields.amounts("price").and_then(|amounts| {
            let price = TokenPrice::from_amounts(amounts);
            if let (None, Some(at)) = (&price, fields.offset_of("price")) {
                diagnostics.error(at, "model.price", "`input` and `output` must both be set");
            }
            price
        }),
    })
}

/// Drops settings that a project may not have: which servers run, how tools are named, which model
/// answers. What it would allow without asking is in
/// [`ProjectPermissions`](super::ProjectPermissions).
fn drop_user_only_settings(
    policy: &mut Policy,
    written: &RawConfig,
    diagnostics: &mut Diagnostics<'_>,
) {
    let RawConfig {
        security, naming, ..
    } = written;
    if policy.allow_servers.take().is_some() {
        let message = "ignored: only your own file decides which servers may run; a project's file can only deny";
        ignored(security, "security", "allow_servers", message, diagnostics);
    }
    if policy.naming.take().is_some() {
        ignored(
            naming,
            "naming",
            "style",
            "ignored: only your own file decides how tools are named",
            diagnostics,
        );
    }
    policy.gateway = GatewayPolicy::default();
    for field in GATEWAY.fields {
        if written.gateway.offset_of(field.name).is_some() {
            let message = "ignored: only your own file decides how the gateway works";
            ignored(
                &written.gateway,
                "gateway",
                field.name,
                message,
                diagnostics,
            );
        }
    }
    // The model's URL would receive the API key of whoever opens the project.
    if policy.model.take().is_some() {
        let at = written.model.as_ref().map_or(0, |model| model.at);
        let message = "ignored: only your own file decides which model answers";
        diagnostics.warn(at, "model".to_owned(), message);
    }
}

fn ignored(
    fields: &FieldTable,
    section: &str,
    field: &str,
    message: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    diagnostics.warn(
        fields.offset_of(field).unwrap_or_default(),
        format!("{section}.{}", fields.name_in_file(field)),
        message,
    );
}

fn rules(
    permissions: &FieldTable,
    field: &str,
    file: &Arc<PathBuf>,
    dialect: Dialect,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<RuleText> {
    let found = permissions.rules(field);
    for (index, rule) in found.iter().enumerate() {
        if rule.value.text.trim().is_empty() {
            let path = format!("permissions.{field}[{index}]");
            let message = "empty; expected \"server\" or \"server/tool\"";
            diagnostics.error(rule.at, path, message);
        }
    }
    found
        .into_iter()
        .map(|rule| RuleText {
            text: rule.value.text,
            client: rule.value.client,
            dialect,
            file: file.clone(),
            line: diagnostics.lines.line(rule.at),
        })
        .collect()
}

/// `None` if there are none.
fn names(
    security: &FieldTable,
    field: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Vec<String>> {
    let found = security.texts(field).unwrap_or_default();
    check_not_empty(
        found,
        &format!("security.{}", security.name_in_file(field)),
        "empty; expected the name of a server",
        diagnostics,
    );
    (!found.is_empty()).then(|| found.iter().map(|name| name.value.clone()).collect())
}

fn with_location<T>(
    value: Option<T>,
    fields: &FieldTable,
    field: &str,
    diagnostics: &Diagnostics<'_>,
) -> Option<WithLocation<T>> {
    let (line, column) = diagnostics.lines.line_and_column(fields.offset_of(field)?);
    Some((
        value?,
        Location {
            file: diagnostics.file.clone(),
            line,
            column,
        },
    ))
}

fn check_not_empty(
    texts: &[AtOffset<String>],
    path: &str,
    message: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    for (index, text) in texts.iter().enumerate() {
        if text.value.trim().is_empty() {
            diagnostics.error(text.at, format!("{path}[{index}]"), message);
        }
    }
}
