//! How a dialect writes an entry: where entries stand, and what its fields are called.

use super::{Addition, Target, Text, Value};
use crate::reference::{Part, Piece, Syntax};

/// What a new entry looks like in one dialect.
#[derive(Debug)]
pub(crate) struct Spelling {
    /// The keys that lead to the entries.
    pub(crate) container: &'static [&'static str],
    /// What a program needs said beside its command.
    pub(crate) stdio: Option<(&'static str, &'static str)>,
    /// How an address is written whose wire nobody named, one for Streamable HTTP, and one for
    /// HTTP+SSE.
    pub(crate) auto: Address,
    pub(crate) http: Address,
    pub(crate) sse: Address,
    pub(crate) headers: Option<&'static str>,
    pub(crate) cwd: Option<&'static str>,
    /// The field that switches a server on or off, and its value for on.
    pub(crate) enabled: Option<(&'static str, bool)>,
    /// How the value of a variable or a header refers to a variable.
    pub(crate) reference: Reference,
    /// What a file that did not exist begins with, beside the entries.
    pub(crate) version: Option<(&'static str, u32)>,
}

/// The field of an address, and what is said beside it; none where the dialect has no such wire.
pub(crate) type Address = Option<(&'static str, Option<(&'static str, &'static str)>)>;

/// How a reference is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// Between these.
    Between(&'static str, &'static str),
    /// `env("NAME")`, which is the whole value.
    Call,
    /// Not at all.
    None,
}

impl Spelling {
    /// The fields of an entry. The error tells what such a file cannot say.
    pub(super) fn entry(&self, addition: &Addition) -> Result<Vec<(&'static str, Value)>, String> {
        let mut fields = Vec::new();
        let wire = addition.transport.as_deref();
        match (&addition.target, wire) {
            (Target::Command(command, args), None | Some("stdio")) => {
                fields.extend(
                    self.stdio
                        .map(|(field, word)| (field, Value::Text(word.to_owned()))),
                );
                fields.push(("command", Value::Text(command.clone())));
                if !args.is_empty() {
                    fields.push(("args", Value::Texts(args.clone())));
                }
            }
            (Target::Command(..), Some(_)) => {
                return Err(
                    "a program is reached over stdio; give an address for any other".to_owned(),
                );
            }
            (Target::Url(_), Some("stdio")) => {
                return Err("an address is not reached over stdio; give `-- COMMAND`".to_owned());
            }
            (Target::Url(url), wire) => {
                let address = match wire {
                    None => self.auto,
                    Some("http") => self.http,
                    Some(_) => self.sse,
                };
                let Some((field, beside)) = address else {
                    return Err(format!(
                        "a file of this kind cannot say --transport {}",
                        wire.unwrap_or_default()
                    ));
                };
                fields.extend(beside.map(|(field, word)| (field, Value::Text(word.to_owned()))));
                fields.push((field, Value::Text(url.clone())));
            }
        }
        if let Some(cwd) = &addition.cwd {
            let field = self
                .cwd
                .ok_or("a file of this kind has no word for --cwd")?;
            fields.push((field, Value::Text(cwd.clone())));
        }
        if !addition.env.is_empty() {
            fields.push(("env", Value::Table(self.texts(&addition.env)?)));
        }
        if !addition.headers.is_empty() {
            let field = self
                .headers
                .ok_or("a file of this kind has no word for --header")?;
            fields.push((field, Value::Table(self.texts(&addition.headers)?)));
        }
        Ok(fields)
    }

    fn texts(&self, pairs: &[(String, String)]) -> Result<Vec<(String, Text)>, String> {
        pairs
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.text(name, value)?)))
            .collect()
    }

    /// A value that was written with native references. The error does not repeat it.
    fn text(&self, name: &str, value: &str) -> Result<Text, String> {
        let pieces = Syntax::Native
            .pieces(Part::Value, value)
            .map_err(|fault| format!("{name}: {fault}"))?;
        let variable = |piece: &Piece<'_>| matches!(piece, Piece::Variable { .. });
        match (self.reference, pieces.as_slice()) {
            (Reference::Between("${", "}"), _) if self.is_native() => {
                Ok(Text::Plain(value.to_owned()))
            }
            (_, pieces) if !pieces.iter().any(variable) => Ok(Text::Plain(literals(pieces))),
            (
                Reference::Call,
                [
                    Piece::Variable {
                        name,
                        default: None,
                    },
                ],
            ) => Ok(Text::Call((*name).to_owned())),
            (Reference::Between(before, after), pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Literal(literal) => text.push_str(literal),
                        Piece::Variable {
                            name,
                            default: None,
                        } => text.extend([before, name, after]),
                        Piece::Variable { .. } => {
                            return Err(format!(
                                "{name}: a file of this kind has no word for a default"
                            ));
                        }
                    }
                }
                Ok(Text::Plain(text))
            }
            (Reference::Call, _) => Err(format!(
                "{name}: a file of this kind takes one ${{NAME}} and nothing beside it"
            )),
            (Reference::None, _) => Err(format!(
                "{name}: a file of this kind has no references; a value is taken as it is"
            )),
        }
    }

    /// Its references are the native ones, defaults and `$$` among them.
    fn is_native(&self) -> bool {
        self.container == ["servers"] && self.version.is_none()
    }
}

fn literals(pieces: &[Piece<'_>]) -> String {
    pieces
        .iter()
        .filter_map(|piece| {
            if let Piece::Literal(text) = piece {
                Some(*text)
            } else {
                None
            }
        })
        .collect()
}

const URL: Address = Some(("url", None));
const SSE: Address = Some(("url", Some(("transport", "sse"))));

/// `switchboard.toml`.
pub(crate) const NATIVE: Spelling = Spelling {
    container: &["servers"],
    stdio: None,
    auto: URL,
    http: Some(("url", Some(("transport", "http")))),
    sse: SSE,
    headers: Some("headers"),
    cwd: Some("cwd"),
    enabled: Some(("enabled", true)),
    reference: Reference::Between("${", "}"),
    version: None,
};

pub(crate) const CORE_AGENT: Spelling = Spelling {
    stdio: Some(("transport", "stdio")),
    auto: Some(("url", Some(("transport", "http")))),
    sse: None,
    cwd: None,
    enabled: None,
    reference: Reference::Between("${env:", "}"),
    version: Some(("version", 1)),
    ..NATIVE
};

pub(crate) const A3S: Spelling = Spelling {
    container: &["mcp_servers"],
    stdio: Some(("transport", "stdio")),
    auto: SSE,
    http: None,
    cwd: None,
    reference: Reference::Call,
    ..NATIVE
};

pub(crate) const GEMINI: Spelling = Spelling {
    container: &["mcpServers"],
    auto: Some(("httpUrl", None)),
    http: Some(("httpUrl", None)),
    sse: URL,
    enabled: None,
    ..NATIVE
};

pub(crate) const AGENT_APPS: Spelling = Spelling {
    container: &["metadata", "mcp"],
    http: URL,
    sse: None,
    headers: None,
    cwd: None,
    enabled: None,
    reference: Reference::Between("\\${", "}"),
    ..NATIVE
};

pub(crate) const AGENT_CODE: Spelling = Spelling {
    container: &["mcp_servers"],
    http: None,
    sse: URL,
    headers: None,
    cwd: None,
    enabled: None,
    reference: Reference::None,
    ..NATIVE
};

pub(crate) const MCP_JSON: Spelling = Spelling {
    container: &["mcpServers"],
    http: Some(("url", Some(("type", "http")))),
    sse: Some(("url", Some(("type", "sse")))),
    enabled: Some(("disabled", false)),
    ..NATIVE
};
