//! The specification of each field: its name, kind and transport. Used for reading, suggestions and
//! the JSON schema.
//!
//! `servers` has the table of `[servers.NAME]`, `sections` those of all other sections.

pub(super) use sections::{GATEWAY, MODEL, NAMING, PERMISSIONS, SECURITY};
pub(super) use servers::SERVERS;

mod sections;
mod servers;

/// One `[section]`, or one `[servers.NAME]`.
#[derive(Debug)]
pub(super) struct Section {
    /// The key at the top of the file.
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) fields: &'static [FieldSpec],
}

/// One field.
#[derive(Debug)]
pub(super) struct FieldSpec {
    pub(super) name: &'static str,
    pub(super) kind: ValueKind,
    /// The transports that have the field.
    pub(super) applies_to: FieldTransport,
    /// The purpose, shown by editors.
    pub(super) description: &'static str,
    /// The default, as it would be written.
    pub(super) default: Option<&'static str>,
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueKind {
    Text,
    Texts,
    /// Texts, or tables that name a tool and a client.
    Rules,
    /// Names and secret values.
    Secrets,
    /// A string that is never shown.
    Secret,
    /// A TCP port.
    Port,
    Flag,
    Duration,
    /// A duration as a bare number.
    Milliseconds,
    /// A duration as a bare number, which may have decimals.
    Seconds,
    Bytes,
    /// A whole number above zero.
    Count,
    /// A table of amounts of money, each with one of these names.
    Amounts(&'static [&'static str]),
    /// One of these words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
}

/// Which transports a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldTransport {
    Both,
    /// A child process only.
    Stdio,
    /// A URL only.
    Http,
}

const fn field(
    name: &'static str,
    kind: ValueKind,
    applies_to: FieldTransport,
    default: Option<&'static str>,
    description: &'static str,
) -> FieldSpec {
    FieldSpec {
        name,
        kind,
        applies_to,
        description,
        default,
    }
}

/// Native fields of a child process that every dialect has.
pub(super) const PROCESS: &[&str] = &["command", "args", "env"];

/// Native fields that no other program has, and that entries of every dialect may have.
pub(super) const OURS: &[&str] = &[
    "connect_timeout",
    "call_timeout",
    "call_timeout_max",
    "protocol",
    "start",
];

/// As [`OURS`], for dialects with one absolute deadline of calls.
pub(super) const OURS_WITH_ONE_DEADLINE: &[&str] =
    &["connect_timeout", "call_timeout", "protocol", "start"];

/// A field that only other programs' files have.
pub(super) const fn foreign_field(name: &'static str, kind: ValueKind) -> FieldSpec {
    field(name, kind, FieldTransport::Both, None, "")
}

/// The native fields of a server's entry with these names.
pub(super) fn native_fields(
    names: &'static [&'static [&'static str]],
) -> impl Iterator<Item = &'static FieldSpec> + Clone {
    SERVERS
        .fields
        .iter()
        .filter(|field| names.iter().any(|list| list.contains(&field.name)))
}

/// Names of fields in other programs, with the native ones.
const ALIASES: &[(&str, &str)] = &[
    ("mcpServers", "servers"),
    ("mcp_servers", "servers"),
    ("context_servers", "servers"),
    ("server", "servers"),
    ("cmd", "command"),
    ("arguments", "args"),
    ("environment", "env"),
    ("envs", "env"),
    ("env_vars", "env"),
    ("type", "transport"),
    ("httpUrl", "url"),
    ("serverUrl", "url"),
    ("uri", "url"),
    ("http_headers", "headers"),
    ("token", "bearer_token"),
    ("bearer", "bearer_token"),
    ("client_id", "oauth_client_id"),
    ("clientId", "oauth_client_id"),
    ("client_secret", "oauth_client_secret"),
    ("clientSecret", "oauth_client_secret"),
    ("scopes", "oauth_scopes"),
    ("callback_port", "oauth_callback_port"),
    ("timeout", "call_timeout"),
    ("timeout_ms", "call_timeout"),
    ("tool_timeout_sec", "call_timeout"),
    ("startup_timeout_sec", "connect_timeout"),
    ("startup_timeout_ms", "connect_timeout"),
    ("disabled", "enabled"),
    ("working_directory", "cwd"),
    ("includeTools", "include_tools"),
    ("enabled_tools", "include_tools"),
    ("excludeTools", "exclude_tools"),
    ("disabled_tools", "exclude_tools"),
];

/// The known name most similar to an unknown one, if any is similar.
pub(super) fn nearest(
    unknown: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> Option<&'static str> {
    if let Some((_, ours)) = ALIASES.iter().find(|(theirs, _)| *theirs == unknown)
        && known.clone().any(|name| name == *ours)
    {
        return Some(ours);
    }
    // Such a long name is not a typing mistake, and computing the distance takes quadratic time.
    if unknown.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.replace('-', "_").to_ascii_lowercase();
    let typed = plain(unknown);
    known
        .map(|name| (strsim::damerau_levenshtein(&typed, &plain(name)), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_is_suggested_the_nearest_one() {
        let check = |unknown: &str, expected: Option<&str>| {
            assert_eq!(
                nearest(unknown, SERVERS.fields.iter().map(|field| field.name)),
                expected,
                "{unknown}"
            );
        };
        check("comand", Some("command"));
        check("commnad", Some("command"));
        check("Args", Some("args"));
        check("call-timeout", Some("call_timeout"));
        check("call_timout_max", Some("call_timeout_max"));
        check("timeout", Some("call_timeout"));
        check("environment", Some("env"));
        check("type", Some("transport"));
        check("frobnicate", None);
        check("x", None);
    }
}
