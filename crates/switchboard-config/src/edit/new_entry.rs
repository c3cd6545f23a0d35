//! Writes the fields of a new entry as its dialect spells them.

use super::{NewServer, NewText, NewValue, ServerTarget};
use crate::dialects::{EntrySpelling, ReferenceForm};
use crate::reference::{ReferenceSyntax, Segment, TextRole};

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
