//! Recognises the dialect of a file: by its path, then by keys that only one dialect has. A file
//! that matches two is reported.

use std::path::Path;

use super::Dialect;
use crate::diagnostic::Diagnostics;
use crate::format::Format;
use crate::tree::{Node, TableEntry, Tree};

/// The files of known programs: folder (any, if empty) and name.
const KNOWN_PATHS: &[(&str, &str, Dialect)] = &[
    ("", "switchboard.toml", Dialect::Native),
    (".agents", "mcp.json", Dialect::CoreAgent),
    (".gemini", "settings.json", Dialect::Gemini),
    ("gemini-cli", "settings.json", Dialect::Gemini),
    ("", ".mcp.json", Dialect::McpJson),
    (".cursor", "mcp.json", Dialect::McpJson),
    (".vscode", "mcp.json", Dialect::McpJson),
    (".copilot", "mcp-config.json", Dialect::McpJson),
    (".codex", "config.toml", Dialect::McpJson),
    ("", ".claude.json", Dialect::McpJson),
    ("", "claude_desktop_config.json", Dialect::McpJson),
    ("", "cline_mcp_settings.json", Dialect::McpJson),
    ("windsurf", "mcp_config.json", Dialect::McpJson),
];

/// The keys of sections with servers.
pub(super) const CONTAINERS: [&str; 4] =
    ["mcpServers", "servers", "mcp_servers", "context_servers"];

/// Fields that, among files with `mcpServers`, only gemini's have.
const GEMINI_FIELDS: &[&str] = &["httpUrl", "trust", "includeTools", "excludeTools"];

/// Fields that, among files with `mcpServers`, gemini's do not have.
const MCP_JSON_FIELDS: &[&str] = &[
    "type",
    "transport",
    "disabled",
    "enabled",
    "autoApprove",
    "alwaysAllow",
    "serverUrl",
    "baseUrl",
    "envFile",
    "environment",
];

/// Fields that, among files with `mcp_servers`, only Codex's have.
const CODEX_FIELDS: &[&str] = &[
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
    "env_vars",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "tool_timeout_sec",
    "enabled_tools",
    "disabled_tools",
    "enabled",
    "required",
    "cwd",
    "scopes",
    "oauth",
];

/// The dialect of a file with this absolute path and document.
pub(crate) fn recognise(
    path: &Path,
    format: Format,
    document: &Node,
    diagnostics: &mut Diagnostics<'_>,
) -> Dialect {
    by_path(path).unwrap_or_else(|| by_shape(format, document, diagnostics))
}

pub(super) fn by_path(path: &Path) -> Option<Dialect> {
    let name = path.file_name()?;
    let folder = path.parent().and_then(Path::file_name);
    let lies = |(of, called, _): &&(&str, &str, Dialect)| {
        name == *called && (of.is_empty() || folder.is_some_and(|folder| folder == *of))
    };
    KNOWN_PATHS
        .iter()
        .find(lies)
        .map(|(_, _, dialect)| *dialect)
}

fn by_shape(format: Format, document: &Node, diagnostics: &mut Diagnostics<'_>) -> Dialect {
    match format {
        Format::Hcl => return Dialect::A3s,
        Format::FrontMatter => return Dialect::AgentApps,
        Format::Toml | Format::Json | Format::Yaml => {}
    }
    let get = |key| document.get(key).map(|entry| &entry.value);
    if get("metadata").is_some_and(|metadata| metadata.get("mcp").is_some()) {
        return Dialect::AgentApps;
    }
    let lists_servers = |security: &Node| {
        security
            .entries()
            .iter()
            .any(|entry| entry.key.starts_with("mcp_server_"))
    };
    let has_rules = |permissions: &Node| {
        permissions
            .get("rules")
            .is_some_and(|rules| matches!(rules.value.value, Tree::List(_)))
    };
    if get("security").is_some_and(lists_servers) || get("permissions").is_some_and(has_rules) {
        return Dialect::AgentCode;
    }
    if get("permissions").is_some_and(names_mcp_tools) {
        return Dialect::CoreAgent;
    }
    if let Some(servers) = get("servers") {
        return match format {
            Format::Toml => Dialect::Native,
            // VS Code has `type` instead of `transport`, and no version.
            _ if get("version").is_some() || has_any(servers, &["transport"]) => Dialect::CoreAgent,
            _ => Dialect::McpJson,
        };
    }
    if let Some(entry) = document.get("mcpServers") {
        return match (
            has_any(&entry.value, GEMINI_FIELDS),
            has_any(&entry.value, MCP_JSON_FIELDS),
        ) {
            (true, _) => Dialect::Gemini,
            (false, true) => Dialect::McpJson,
            (false, false) if has_bare_reference(&entry.value) => Dialect::Gemini,
            (false, false) => fits_two(entry, Dialect::Gemini, diagnostics),
        };
    }
    if let Some(entry) = document.get("mcp_servers") {
        // Codex's own file is recognised by its path; elsewhere this is agent-code's format.
        return if has_any(&entry.value, CODEX_FIELDS) {
            Dialect::McpJson
        } else {
            Dialect::AgentCode
        };
    }
    match format {
        Format::Toml => Dialect::Native,
        Format::Yaml if document.get("context_servers").is_none() => Dialect::AgentApps,
        _ => Dialect::McpJson,
    }
}

/// Whether any of the entries has any of these fields.
fn has_any(servers: &Node, fields: &[&str]) -> bool {
    let known = |entry: &TableEntry| fields.contains(&entry.key.as_str());
    servers
        .entries()
        .iter()
        .any(|server| server.value.entries().iter().any(known))
}

/// Whether there is a reference `$NAME`, which, among files with `mcpServers`, only gemini's have.
fn has_bare_reference(servers: &Node) -> bool {
    let starts_name =
        |text: &str| text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_bare = |entry: &TableEntry| {
        entry
            .value
            .text()
            .and_then(|text| text.strip_prefix('$'))
            .is_some_and(starts_name)
    };
    let environments = servers
        .entries()
        .iter()
        .filter_map(|server| server.value.get("env"));
    environments
        .flat_map(|environment| environment.value.entries())
        .any(is_bare)
}

/// Whether a rule is spelled `mcp:tool`, as only core-agent's are.
fn names_mcp_tools(permissions: &Node) -> bool {
    let names_one = |rules: &TableEntry| match &rules.value.value {
        Tree::List(rules) => rules
            .iter()
            .any(|rule| rule.text().is_some_and(|text| text.starts_with("mcp:"))),
        _ => false,
    };
    permissions.entries().iter().any(names_one)
}

fn fits_two(container: &TableEntry, other: Dialect, diagnostics: &mut Diagnostics<'_>) -> Dialect {
    if !container.value.entries().is_empty() {
        let (read, other) = (Dialect::McpJson.profile().name, other.profile().name);
        let message = format!(
            "read as {read}; files of {other} look like this too: name its dialect: {other} or {read}"
        );
        diagnostics.warn(container.at, container.key.clone(), message);
    }
    Dialect::McpJson
}

/// Warns about a section with servers of another dialect, which would not be read. Returns whether
/// it is one.
pub(super) fn warn_of_foreign_container(
    entry: &TableEntry,
    expected: &'static str,
    dialect: Dialect,
    diagnostics: &mut Diagnostics<'_>,
) -> bool {
    let is_container = entry.key != expected && CONTAINERS.contains(&entry.key.as_str());
    if !is_container || !matches!(entry.value.value, Tree::Table(_)) {
        return false;
    }
    let rules = dialect.profile();
    let message = format!(
        "not read: expected `{expected}`, where {} files have their servers, or another dialect",
        rules.name
    );
    if rules.strict {
        diagnostics.error(entry.at, entry.key.clone(), message);
    } else {
        diagnostics.warn(entry.at, entry.key.clone(), message);
    }
    true
}
