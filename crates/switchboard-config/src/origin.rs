//! Where each value of an entry came from, and which variables it reads: what `switchboard why`
//! tells.

use std::time::Duration;

use super::diagnostic::Findings;
use super::expand::Environment;
use super::reference::{Part, Piece, Syntax};
use super::tree::Node;
use super::written::{At, Fields, Value};
use super::{Endpoint, Place, ServerConfig};
use crate::secret::Secret;

/// One value of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The native field: `command`, `args`, `env.TOKEN`.
    pub field: String,
    /// What the file itself calls it: `httpUrl`, `timeout`.
    pub written: String,
    /// As written. Values of variables and headers, and tokens, are hidden but for the references
    /// in them; arguments and addresses are not, and may hold what a person would rather not
    /// show.
    pub value: Shown,
    /// Where it stands.
    pub place: Place,
    /// It is one of several values of a field: a variable, a header.
    pub is_part: bool,
}

/// A value as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// A text or a word.
    Text(String),
    /// A number, with its unit.
    Quantity(String),
    /// Texts.
    Texts(Vec<String>),
    /// A value that is secret: its references, with `***` for all else.
    Hidden(String),
    /// `true` or `false`.
    Flag(bool),
}

/// A reference to a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The native field that reads it: `command`, `args[0]`, `env.TOKEN`.
    pub field: String,
    /// The variable.
    pub variable: String,
    /// What there is.
    pub found: Found,
}

/// What a reference comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The variable is set.
    Set,
    /// It is set, to nothing.
    Empty,
    /// It is not, and its default is taken.
    Default,
    /// It is not, and counts as empty.
    Unset,
}

/// What an entry says, in the order of the file.
pub(super) fn values(
    entry: &Node,
    fields: &Fields,
    syntax: Syntax,
    findings: &Findings<'_>,
) -> Vec<Origin> {
    let mut found: Vec<(usize, Origin)> = Vec::new();
    for (field, At { at, value }) in &fields.0 {
        let origin = |field: String, written: String, value: Shown, at: usize, is_part: bool| {
            let (line, column) = findings.lines.place(at);
            let place = Place {
                file: findings.file.clone(),
                line,
                column,
            };
            (
                at,
                Origin {
                    field,
                    written,
                    value,
                    place,
                    is_part,
                },
            )
        };
        let written = match fields.spelt(field) {
            own if own != *field => own.to_owned(),
            _ => key_at(entry, *at).unwrap_or(field).to_owned(),
        };
        if let Value::Secrets(secrets) = value {
            for At {
                at,
                value: (name, value),
            } in secrets
            {
                let hidden = Shown::Hidden(hidden(syntax, value));
                found.push(origin(
                    format!("{field}.{name}"),
                    format!("{written}.{name}"),
                    hidden,
                    *at,
                    true,
                ));
            }
        }
        if let Some(shown) = shown(value, syntax) {
            found.push(origin((*field).to_owned(), written, shown, *at, false));
        }
    }
    found.sort_by_key(|(at, origin)| (*at, origin.is_part));
    found.into_iter().map(|(_, origin)| origin).collect()
}

/// What the file calls the field that stands at this offset.
fn key_at(node: &Node, at: usize) -> Option<&str> {
    node.entries().iter().find_map(|entry| {
        if entry.at == at {
            Some(entry.key.as_str())
        } else {
            key_at(&entry.value, at)
        }
    })
}

fn shown(value: &Value, syntax: Syntax) -> Option<Shown> {
    Some(match value {
        Value::Text(text) => Shown::Text(text.clone()),
        Value::Texts(texts) => Shown::Texts(texts.iter().map(|text| text.value.clone()).collect()),
        Value::Secrets(secrets) => Shown::Texts(
            secrets
                .iter()
                .map(|secret| secret.value.0.clone())
                .collect(),
        ),
        Value::Secret(secret) => Shown::Hidden(hidden(syntax, secret)),
        Value::Port(port) => Shown::Quantity(port.to_string()),
        Value::Flag(flag) => Shown::Flag(*flag),
        Value::Duration(duration) => Shown::Quantity(plain(*duration)),
        Value::Bytes(bytes) => Shown::Quantity(format!("{bytes} bytes")),
        Value::Choice(word) => Shown::Text((*word).to_owned()),
        Value::Wrong => return None,
    })
}

fn plain(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}

/// A secret value with nothing left of it but its references (S0-17), and the word that says how a
/// header authorizes.
fn hidden(syntax: Syntax, value: &Secret) -> String {
    let Ok(pieces) = syntax.pieces(Part::Value, value.expose()) else {
        return "***".to_owned();
    };
    let opening = if syntax == Syntax::Placeholder {
        "${env:"
    } else {
        "${"
    };
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal("Bearer ") => text.push_str("Bearer "),
            Piece::Literal("Basic ") => text.push_str("Basic "),
            Piece::Literal(_) if text.ends_with("***") => {}
            Piece::Literal(_) => text.push_str("***"),
            Piece::Variable { name, default } => {
                text.push_str(opening);
                text.push_str(name);
                text.push_str(if default.is_some() { ":-***}" } else { "}" });
            }
        }
    }
    text
}

/// Which variables an entry reads, and what there is of them. No value is looked at but for being
/// empty.
pub fn readings(server: &ServerConfig, environment: &Environment) -> Vec<Reading> {
    let syntax = server.endpoint.syntax();
    let mut found = Vec::new();
    let mut read = |part: Part, field: String, value: &str| {
        for piece in syntax.pieces(part, value).unwrap_or_default() {
            let Piece::Variable { name, default } = piece else {
                continue;
            };
            let reached = match (
                environment.get(name).map(|value| value.expose().is_empty()),
                default,
            ) {
                (Some(false), _) => Found::Set,
                (_, Some(_)) => Found::Default,
                (Some(true), None) => Found::Empty,
                (None, None) => Found::Unset,
            };
            found.push(Reading {
                field: field.clone(),
                variable: name.to_owned(),
                found: reached,
            });
        }
    };
    match &server.endpoint {
        Endpoint::Stdio(stdio) => {
            read(Part::Launch, "command".to_owned(), &stdio.command);
            stdio
                .args
                .iter()
                .enumerate()
                .for_each(|(index, arg)| read(Part::Launch, format!("args[{index}]"), arg));
            stdio
                .env
                .iter()
                .for_each(|(name, value)| read(Part::Value, format!("env.{name}"), value.expose()));
            stdio
                .cwd
                .iter()
                .for_each(|cwd| read(Part::Launch, "cwd".to_owned(), cwd));
        }
        Endpoint::Http(http) => {
            read(Part::Launch, "url".to_owned(), &http.url);
            http.headers.iter().for_each(|(name, value)| {
                read(Part::Value, format!("headers.{name}"), value.expose())
            });
            let auth = &http.auth;
            auth.bearer_token
                .iter()
                .for_each(|token| read(Part::Value, "bearer_token".to_owned(), token.expose()));
            auth.client_secret.iter().for_each(|secret| {
                read(
                    Part::Value,
                    "oauth_client_secret".to_owned(),
                    secret.expose(),
                )
            });
            for (field, text) in [
                ("oauth_issuer", &auth.issuer),
                ("oauth_client_id", &auth.client_id),
                ("oauth_client_key", &auth.client_key),
                ("oauth_client_metadata_url", &auth.client_metadata_url),
            ] {
                text.iter()
                    .for_each(|text| read(Part::Launch, field.to_owned(), text));
            }
        }
        Endpoint::Wrong(_) => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-17: the placeholder, never the value.
    #[test]
    fn s0_17_of_a_secret_value_only_its_placeholders_are_left() {
        let check = |syntax: Syntax, value: &str, expected: &str| {
            assert_eq!(hidden(syntax, &Secret::new(value)), expected, "{value}");
        };
        check(Syntax::Placeholder, "${env:TOKEN}", "${env:TOKEN}");
        check(
            Syntax::Placeholder,
            "Bearer ${env:TOKEN}",
            "Bearer ${env:TOKEN}",
        );
        check(Syntax::Placeholder, "canary", "***");
        check(Syntax::Placeholder, "Bearer canary", "***");
        check(
            Syntax::Native,
            "user:canary@${HOST:-canary}$$canary",
            "***${HOST:-***}***",
        );
        check(Syntax::Shell, "$A-${B}", "${A}***${B}");
        check(Syntax::Literal, "${A}", "***");
        check(Syntax::Native, "", "");
        check(Syntax::Native, "${broken", "***");
    }
}
