//! How a dialect writes a new entry: the section, and the names of its fields.

use super::{NewServer, NewText, NewValue, ServerTarget};
use crate::reference::{ReferenceSyntax, Segment, TextRole};

/// What a new entry looks like in one dialect.
#[derive(Debug)]
pub(crate) struct EntrySpelling {
    /// The keys that lead to the entries.
    pub(crate) container: &'static [&'static str],
    /// A field that is written beside `command`.
    pub(crate) stdio: Option<(&'static str, &'static str)>,
    /// How a URL is written if no transport is named, for Streamable HTTP, and for HTTP+SSE.
    pub(crate) auto: UrlField,
    pub(crate) http: UrlField,
    pub(crate) sse: UrlField,
    pub(crate) headers: Option<&'static str>,
    pub(crate) cwd: Option<&'static str>,
    /// The field that enables a server, and its value for enabled.
    pub(crate) enabled: Option<(&'static str, bool)>,
    /// How the value of a variable or a header refers to a variable.
    pub(crate) reference: ReferenceForm,
    /// The version field of a new file.
    pub(crate) version: Option<(&'static str, u32)>,
}

/// The field of a URL, and a field written beside it; `None` if the dialect has no such transport.
pub(crate) type UrlField = Option<(&'static str, Option<(&'static str, &'static str)>)>;

/// How a reference is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceForm {
    /// The name between these two texts.
    Between(&'static str, &'static str),
    /// `env("NAME")`, which is the whole value.
    Call,
    /// The dialect has no references.
    None,
}

impl EntrySpelling {
    /// The fields of an entry; the error says what the dialect cannot express.
    pub(super) fn entry(
        &self,
        addition: &NewServer,
    ) -> Result<Vec<(&'static str, NewValue)>, String> {
        let mut fields = Vec::new();
        let wire = addition.transport.as_deref();
        match (&addition.target, wire) {
            (ServerTarget::Command(command, args), None | Some("stdio")) => {
                fields.extend(
                    self.stdio
                        .map(|(field, word)| (field, NewValue::Text(word.to_owned()))),
                );
                fields.push(("command", NewValue::Text(command.clone())));
                if !args.is_empty() {
                    fields.push(("args", NewValue::Texts(args.clone())));
                }
            }
            (ServerTarget::Command(..), Some(_)) => {
                return Err(
                    "a program is reached over stdio; give a URL for another transport".to_owned(),
                );
            }
            (ServerTarget::Url(_), Some("stdio")) => {
                return Err("a URL is not reached over stdio; give a command".to_owned());
            }
            (ServerTarget::Url(url), wire) => {
                let address = match wire {
                    None => self.auto,
                    Some("http") => self.http,
                    Some(_) => self.sse,
                };
                let Some((field, beside)) = address else {
                    return Err(format!(
                        "a file of this kind has no field for the transport {}",
                        wire.unwrap_or_default()
                    ));
                };
                fields.extend(beside.map(|(field, word)| (field, NewValue::Text(word.to_owned()))));
                fields.push((field, NewValue::Text(url.clone())));
            }
        }
        if let Some(cwd) = &addition.cwd {
            let field = self
                .cwd
                .ok_or("a file of this kind has no field for the working folder")?;
            fields.push((field, NewValue::Text(cwd.clone())));
        }
        if !addition.env.is_empty() {
            fields.push(("env", NewValue::Table(self.texts(&addition.env)?)));
        }
        if !addition.headers.is_empty() {
            let field = self
                .headers
                .ok_or("a file of this kind has no field for headers")?;
            fields.push((field, NewValue::Table(self.texts(&addition.headers)?)));
        }
        Ok(fields)
    }

    fn texts(&self, pairs: &[(String, String)]) -> Result<Vec<(String, NewText)>, String> {
        pairs
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.text(name, value)?)))
            .collect()
    }

    /// Converts a value with native references. The error does not repeat it.
    fn text(&self, name: &str, value: &str) -> Result<NewText, String> {
        let segments = ReferenceSyntax::Native
            .segments(TextRole::Value, value)
            .map_err(|fault| format!("{name}: {fault}"))?;
        let variable = |segment: &Segment<'_>| matches!(segment, Segment::Variable { .. });
        match (self.reference, segments.as_slice()) {
            (ReferenceForm::Between("${", "}"), _) if self.is_native() => {
                Ok(NewText::Plain(value.to_owned()))
            }
            (_, segments) if !segments.iter().any(variable) => {
                Ok(NewText::Plain(literals(segments)))
            }
            (
                ReferenceForm::Call,
                [
                    Segment::Variable {
                        name,
                        default: None,
                    },
                ],
            ) => Ok(NewText::Call((*name).to_owned())),
            (ReferenceForm::Between(before, after), segments) => {
                let mut text = String::new();
                for segment in segments {
                    match segment {
                        Segment::Literal(literal) => text.push_str(literal),
                        Segment::Variable {
                            name,
                            default: None,
                        } => text.extend([before, name, after]),
                        Segment::Variable { .. } => {
                            return Err(format!(
                                "{name}: a file of this kind has no defaults in references"
                            ));
                        }
                    }
                }
                Ok(NewText::Plain(text))
            }
            (ReferenceForm::Call, _) => Err(format!(
                "{name}: in a file of this kind a value is one ${{NAME}} or has none"
            )),
            (ReferenceForm::None, _) => Err(format!(
                "{name}: a file of this kind has no references; values are literal"
            )),
        }
    }

    /// Whether it has native references, with defaults and `$$`.
    fn is_native(&self) -> bool {
        self.container == ["servers"] && self.version.is_none()
    }
}

fn literals(segments: &[Segment<'_>]) -> String {
    segments
        .iter()
        .filter_map(|segment| {
            if let Segment::Literal(text) = segment {
                Some(*text)
            } else {
                None
            }
        })
        .collect()
}

/// A URL, and nothing beside it.
pub(crate) const URL: UrlField = Some(("url", None));
/// A URL of HTTP+SSE in the native file.
pub(crate) const SSE: UrlField = Some(("url", Some(("transport", "sse"))));
