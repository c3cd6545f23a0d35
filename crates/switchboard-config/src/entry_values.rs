//! The values of an entry with their locations, and the variables they refer to, as `switchboard
//! why` shows them.

use std::time::Duration;

use super::diagnostic::Diagnostics;
use super::environment::Environment;
use super::raw::{AtOffset, FieldTable, FieldValue};
use super::reference::{ReferenceSyntax, Segment, TextRole};
use super::tree::Node;
use super::{Endpoint, Location, ServerConfig};
use crate::secret::Secret;

/// One value of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryValue {
    /// The native field: `command`, `args`, `env.TOKEN`.
    pub field: String,
    /// The field's name in the file: `httpUrl`, `timeout`.
    pub written: String,
    /// As written. Values of variables and headers, and tokens, are masked except for their
    /// references; arguments and URLs are not masked.
    pub value: DisplayValue,
    /// Where it is written.
    pub location: Location,
    /// Whether it is one of several values of a field: a variable, a header.
    pub is_part: bool,
}

/// A value that may be displayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisplayValue {
    /// A string or a keyword.
    Text(String),
    /// A number, with its unit.
    Quantity(String),
    /// Strings.
    Texts(Vec<String>),
    /// A secret value: its references, and `***` for everything else.
    Masked(String),
    /// `true` or `false`.
    Flag(bool),
}

/// A reference to a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableUse {
    /// The native field that reads it: `command`, `args[0]`, `env.TOKEN`.
    pub field: String,
    /// The variable.
    pub variable: String,
    /// Whether the variable is set.
    pub state: VariableState,
}

/// Whether a variable is set, and what a reference to it expands to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableState {
    /// The variable is set.
    Set,
    /// It is set to the empty string.
    Empty,
    /// It is not set or empty, and the reference has a default.
    Default,
    /// It is not set; the reference expands to the empty string.
    Unset,
}

/// The values of an entry, in the order of the file.
pub(super) fn values(
    entry: &Node,
    fields: &FieldTable,
    syntax: ReferenceSyntax,
    diagnostics: &Diagnostics<'_>,
) -> Vec<EntryValue> {
    let mut found: Vec<(usize, EntryValue)> = Vec::new();
    let mut add = |at: usize, field: String, written: String, value: DisplayValue, is_part| {
        let (line, column) = diagnostics.lines.line_and_column(at);
        let location = Location {
            file: diagnostics.file.clone(),
            line,
            column,
        };
        let value = EntryValue {
            field,
            written,
            value,
            location,
            is_part,
        };
        found.push((at, value));
    };
    for (field, AtOffset { at, value }) in &fields.values {
        let written = match fields.name_in_file(field) {
            own if own != *field => own.to_owned(),
            _ => key_at(entry, *at).unwrap_or(field).to_owned(),
        };
        if let FieldValue::Secrets(secrets) = value {
            for secret in secrets {
                let (name, value) = &secret.value;
                add(
                    secret.at,
                    format!("{field}.{name}"),
                    format!("{written}.{name}"),
                    DisplayValue::Masked(masked(syntax, value)),
                    true,
                );
            }
        }
        if let Some(shown) = shown(value, syntax) {
            add(*at, (*field).to_owned(), written, shown, false);
        }
    }
    found.sort_by_key(|(at, value)| (*at, value.is_part));
    found.into_iter().map(|(_, value)| value).collect()
}

/// The key at this offset.
fn key_at(node: &Node, at: usize) -> Option<&str> {
    node.entries().iter().find_map(|entry| {
        if entry.at == at {
            Some(entry.key.as_str())
        } else {
            key_at(&entry.value, at)
        }
    })
}

fn shown(value: &FieldValue, syntax: ReferenceSyntax) -> Option<DisplayValue> {
    Some(match value {
        FieldValue::Text(text) => DisplayValue::Text(text.clone()),
        FieldValue::Texts(texts) => {
            DisplayValue::Texts(texts.iter().map(|text| text.value.clone()).collect())
        }
        FieldValue::Rules(rules) => {
            DisplayValue::Texts(rules.iter().map(|rule| rule.value.text.clone()).collect())
        }
        FieldValue::Secrets(secrets) => DisplayValue::Texts(
            secrets
                .iter()
                .map(|secret| secret.value.0.clone())
                .collect(),
        ),
        FieldValue::Secret(secret) => DisplayValue::Masked(masked(syntax, secret)),
        FieldValue::Port(port) => DisplayValue::Quantity(port.to_string()),
        FieldValue::Flag(flag) => DisplayValue::Flag(*flag),
        FieldValue::Duration(duration) => DisplayValue::Quantity(plain(*duration)),
        FieldValue::Bytes(bytes) => DisplayValue::Quantity(format!("{bytes} bytes")),
        FieldValue::Count(count) => DisplayValue::Quantity(count.to_string()),
        FieldValue::Amounts(amounts) => {
            let amount = |(name, amount): &(&str, f64)| format!("{name} {amount}");
            DisplayValue::Texts(amounts.iter().map(amount).collect())
        }
        FieldValue::Choice(word) => DisplayValue::Text((*word).to_owned()),
        FieldValue::Invalid => return None,
    })
}

fn plain(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}

/// A secret value as `***`, except for its references and the scheme of an Authorization header.
fn masked(syntax: ReferenceSyntax, value: &Secret) -> String {
    let Ok(segments) = syntax.segments(TextRole::Value, value.expose()) else {
        return "***".to_owned();
    };
    let opening = if syntax == ReferenceSyntax::Placeholder {
        "${env:"
    } else {
        "${"
    };
    let mut text = String::new();
    for segment in segments {
        match segment {
            Segment::Literal("Bearer ") => text.push_str("Bearer "),
            Segment::Literal("Basic ") => text.push_str("Basic "),
            Segment::Literal(_) if text.ends_with("***") => {}
            Segment::Literal(_) => text.push_str("***"),
            Segment::Variable { name, default } => {
                text.push_str(opening);
                text.push_str(name);
                text.push_str(if default.is_some() { ":-***}" } else { "}" });
            }
        }
    }
    text
}

/// The variables that an entry refers to, and whether they are set. Values are only checked for
/// being empty.
pub fn variable_uses(server: &ServerConfig, environment: &Environment) -> Vec<VariableUse> {
    let syntax = server.endpoint.syntax();
    let mut uses = Vec::new();
    for (role, field, text) in texts_with_references(&server.endpoint) {
        for segment in syntax.segments(role, text).unwrap_or_default() {
            let Segment::Variable { name, default } = segment else {
                continue;
            };
            let is_empty = environment.get(name).map(|value| value.expose().is_empty());
            let state = match (is_empty, default) {
                (Some(false), _) => VariableState::Set,
                (_, Some(_)) => VariableState::Default,
                (Some(true), None) => VariableState::Empty,
                (None, None) => VariableState::Unset,
            };
            uses.push(VariableUse {
                field: field.clone(),
                variable: name.to_owned(),
                state,
            });
        }
    }
    uses
}

/// Every text of an endpoint in which references are expanded: its role, its field, and the text as
/// written.
pub(crate) fn texts_with_references(endpoint: &Endpoint) -> Vec<(TextRole, String, &str)> {
    fn launch<'a>(field: &str, text: &'a str) -> (TextRole, String, &'a str) {
        (TextRole::Launch, field.to_owned(), text)
    }
    fn secret(field: String, value: &Secret) -> (TextRole, String, &str) {
        (TextRole::Value, field, value.expose())
    }
    let mut texts = Vec::new();
    match endpoint {
        Endpoint::Stdio(stdio) => {
            texts.push(launch("command", &stdio.command));
            for (index, arg) in stdio.args.iter().enumerate() {
                texts.push(launch(&format!("args[{index}]"), arg));
            }
            for (name, value) in &stdio.env {
                texts.push(secret(format!("env.{name}"), value));
            }
            texts.extend(stdio.cwd.iter().map(|cwd| launch("cwd", cwd)));
        }
        Endpoint::Http(http) => {
            texts.push(launch("url", &http.url));
            for (name, value) in &http.headers {
                texts.push(secret(format!("headers.{name}"), value));
            }
            let auth = &http.auth;
            for (field, value) in [
                ("bearer_token", &auth.bearer_token),
                ("oauth_client_secret", &auth.client_secret),
            ] {
                texts.extend(value.iter().map(|value| secret(field.to_owned(), value)));
            }
            for (field, text) in [
                ("oauth_issuer", &auth.issuer),
                ("oauth_client_id", &auth.client_id),
                ("oauth_client_key", &auth.client_key),
                ("oauth_client_metadata_url", &auth.client_metadata_url),
            ] {
                texts.extend(text.iter().map(|text| launch(field, text)));
            }
        }
        Endpoint::Invalid(_) => {}
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-17: the placeholder is shown, never the value.
    #[test]
    fn s0_17_only_the_placeholders_of_a_secret_value_are_shown() {
        let check = |syntax: ReferenceSyntax, value: &str, expected: &str| {
            assert_eq!(masked(syntax, &Secret::new(value)), expected, "{value}");
        };
        check(ReferenceSyntax::Placeholder, "${env:TOKEN}", "${env:TOKEN}");
        check(
            ReferenceSyntax::Placeholder,
            "Bearer ${env:TOKEN}",
            "Bearer ${env:TOKEN}",
        );
        check(ReferenceSyntax::Placeholder, "canary", "***");
        check(ReferenceSyntax::Placeholder, "Bearer canary", "***");
        check(
            ReferenceSyntax::Native,
            "user:canary@${HOST:-canary}$$canary",
            "***${HOST:-***}***",
        );
        check(ReferenceSyntax::Shell, "$A-${B}", "${A}***${B}");
        check(ReferenceSyntax::Literal, "${A}", "***");
        check(ReferenceSyntax::Native, "", "");
        check(ReferenceSyntax::Native, "${broken", "***");
    }
}
