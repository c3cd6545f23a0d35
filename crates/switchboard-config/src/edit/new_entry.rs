//! Writes the fields of a new entry as its dialect spells them.

use std::path::{self, Path};

use super::{NewServer, NewText, NewValue, ServerTarget};
use crate::Endpoint;
use crate::dialects::{EntrySpelling, ReferenceForm};
use crate::entry_values::texts_with_references;
use crate::reference::{ReferenceSyntax, Segment, TextRole};

impl NewServer {
    /// Relative paths start at the current folder, as in a shell. They become absolute unless those
    /// of the file start there, too; `None` for a file whose paths start at each run's own folder.
    pub(super) fn for_folder(mut self, base: Option<&Path>) -> Self {
        let current = std::env::current_dir().and_then(|folder| folder.canonicalize());
        if current.is_ok_and(|current| base == Some(&current)) {
            return self;
        }
        match &mut self.target {
            // Without a slash it is looked up on the PATH.
            ServerTarget::Command(program, _) if program.contains('/') => {
                *program = absolute(program);
            }
            _ => {}
        }
        self.cwd = self.cwd.as_deref().map(absolute);
        self
    }
}

fn absolute(text: &str) -> String {
    let is_relative = !text.starts_with(['/', '~', '$']);
    let path = is_relative.then(|| path::absolute(text).ok()).flatten();
    path.map_or_else(|| text.to_owned(), |path| path.display().to_string())
}

type NewFields = Vec<(&'static str, NewValue)>;

impl EntrySpelling {
    /// The fields of an entry; the error says what the dialect cannot express.
    pub(super) fn entry(&self, addition: &NewServer) -> Result<NewFields, String> {
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
        match self.reference {
            ReferenceForm::ByName => self.push_by_name(addition, &mut fields)?,
            _ => self.push_values(addition, &mut fields)?,
        }
        Ok(fields)
    }

    fn push_values(&self, addition: &NewServer, fields: &mut NewFields) -> Result<(), String> {
        if !addition.env.is_empty() {
            fields.push(("env", NewValue::Table(self.texts(&addition.env)?)));
        }
        if !addition.headers.is_empty() {
            let headers = self.texts(&addition.headers)?;
            fields.push((self.headers_field()?, NewValue::Table(headers)));
        }
        Ok(())
    }

    fn headers_field(&self) -> Result<&'static str, String> {
        self.headers
            .ok_or_else(|| "a file of this kind has no field for headers".to_owned())
    }

    fn texts(&self, pairs: &[(String, String)]) -> Result<Vec<(String, NewText)>, String> {
        pairs
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.text(name, value)?)))
            .collect()
    }

    /// Converts a value with native references. The error does not repeat it.
    fn text(&self, name: &str, value: &str) -> Result<NewText, String> {
        let segments = segments(name, value)?;
        let variable = |segment: &Segment<'_>| matches!(segment, Segment::Variable { .. });
        match (self.reference, segments.as_slice()) {
            (ReferenceForm::Native, _) => Ok(NewText::Plain(value.to_owned())),
            (ReferenceForm::Braced, segments) => {
                let text = between(name, segments, ("${", "}"), |text| {
                    text.replace("${", "$${")
                });
                text.map(NewText::Plain)
            }
            (ReferenceForm::Between(before, after), segments) => {
                let text = between(name, segments, (before, after), str::to_owned);
                text.map(NewText::Plain)
            }
            (_, segments) if !segments.iter().any(variable) => {
                Ok(NewText::Plain(literal(segments)))
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
            (ReferenceForm::Call, _) => Err(format!(
                "{name}: in a file of this kind a value is one ${{NAME}} or has none"
            )),
            (ReferenceForm::None | ReferenceForm::ByName, _) => Err(format!(
                "{name}: a file of this kind has no references; values are literal"
            )),
        }
    }

    /// Codex has fields of their own for names of variables.
    fn push_by_name(&self, addition: &NewServer, fields: &mut NewFields) -> Result<(), String> {
        let (mut variables, mut passed_on) = (Vec::new(), Vec::new());
        for (name, value) in &addition.env {
            match segments(name, value)?.as_slice() {
                [
                    Segment::Variable {
                        name: variable,
                        default: None,
                    },
                ] if variable == name => passed_on.push(name.clone()),
                [Segment::Variable { .. }] => {
                    return Err(format!(
                        "{name}: in a file of this kind a variable keeps its name; write {name}=${{{name}}}"
                    ));
                }
                _ => variables.push((name.clone(), self.text(name, value)?)),
            }
        }
        let (mut headers, mut named, mut token) = (Vec::new(), Vec::new(), None);
        for (name, value) in &addition.headers {
            match segments(name, value)?.as_slice() {
                [
                    Segment::Variable {
                        name: variable,
                        default: None,
                    },
                ] => named.push((name.clone(), NewText::Plain((*variable).to_owned()))),
                [
                    Segment::Literal("Bearer "),
                    Segment::Variable {
                        name: variable,
                        default: None,
                    },
                ] if name.eq_ignore_ascii_case("authorization") => {
                    token = Some((*variable).to_owned());
                }
                _ => headers.push((name.clone(), self.text(name, value)?)),
            }
        }
        let table = |pairs: Vec<_>| (!pairs.is_empty()).then_some(NewValue::Table(pairs));
        let passed_on = (!passed_on.is_empty()).then_some(NewValue::Texts(passed_on));
        let found = [
            ("env", table(variables)),
            ("env_vars", passed_on),
            ("bearer_token_env_var", token.map(NewValue::Text)),
            (self.headers_field()?, table(headers)),
            ("env_http_headers", table(named)),
        ];
        let found = found
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?)));
        fields.extend(found);
        Ok(())
    }
}

/// What is wrong with the first text that has another meaning in the file that was written.
pub(super) fn changed_text(addition: &NewServer, written: &Endpoint) -> Option<String> {
    let value = changed_value(addition, written).map(|name| {
        format!(
            "{name}: a file of this kind would read a \"$\" of this value as a reference; set a \
             variable to the value and write {name}=${{VARIABLE}}"
        )
    });
    value.or_else(|| {
        let field = changed_launch_text(addition, written)?;
        Some(format!(
            "{field}: a file of this kind would read a \"$\" of this text as a reference; set a \
             variable to the text and write ${{VARIABLE}} in its place"
        ))
    })
}

/// The first part of the launch that the file reads neither as the text that was given nor as that
/// text with native references.
fn changed_launch_text(addition: &NewServer, written: &Endpoint) -> Option<String> {
    let mut given: Vec<(String, &str)> = match &addition.target {
        ServerTarget::Command(command, args) => {
            let args = args.iter().enumerate();
            let args = args.map(|(index, text)| (format!("args[{index}]"), text.as_str()));
            std::iter::once(("command".to_owned(), command.as_str()))
                .chain(args)
                .collect()
        }
        ServerTarget::Url(url) => vec![("url".to_owned(), url)],
    };
    given.extend(addition.cwd.iter().map(|cwd| ("cwd".to_owned(), &**cwd)));
    let role = TextRole::Launch;
    let is_changed = |(_, field, text): &(TextRole, String, &str)| {
        let given = given.iter().find(|(known, _)| known == field);
        given.is_some_and(|(_, given)| {
            let found = written.syntax().meaning(role, text);
            let is_literal = found.as_ref().is_ok_and(|found| match found.as_slice() {
                [] => given.is_empty(),
                found => matches!(found, [(literal, None)] if literal == given),
            });
            !is_literal && found != ReferenceSyntax::Native.meaning(role, given)
        })
    };
    let mut texts = texts_with_references(written).into_iter();
    texts.find(is_changed).map(|(_, field, _)| field)
}

/// The first of these values that has another meaning in the file that was written.
fn changed_value(addition: &NewServer, written: &Endpoint) -> Option<String> {
    let (given, found) = match written {
        Endpoint::Stdio(stdio) => (&addition.env, &stdio.env),
        Endpoint::Http(http) => (&addition.headers, &http.headers),
        Endpoint::Invalid(_) => return None,
    };
    let is_changed = |(name, value): &&(String, String)| {
        let meaning = ReferenceSyntax::Native.meaning(TextRole::Value, value);
        found.get(name).is_some_and(|found| {
            written.syntax().meaning(TextRole::Value, found.expose()) != meaning
        })
    };
    given.iter().find(is_changed).map(|(name, _)| name.clone())
}

fn segments<'v>(name: &str, value: &'v str) -> Result<Vec<Segment<'v>>, String> {
    ReferenceSyntax::Native
        .segments(TextRole::Value, value)
        .map_err(|fault| format!("{name}: {fault}"))
}

/// Writes each variable between two texts, and the literal text between variables with `escape`.
fn between(
    name: &str,
    segments: &[Segment<'_>],
    (before, after): (&str, &str),
    escape: impl Fn(&str) -> String,
) -> Result<String, String> {
    let (mut text, mut pending) = (String::new(), String::new());
    for segment in segments {
        match segment {
            Segment::Literal(literal) => pending.push_str(literal),
            Segment::Variable {
                name: variable,
                default: None,
            } => {
                text.push_str(&escape(&std::mem::take(&mut pending)));
                text.extend([before, variable, after]);
            }
            Segment::Variable { .. } => {
                return Err(format!(
                    "{name}: a file of this kind has no defaults in references"
                ));
            }
        }
    }
    Ok(text + &escape(&pending))
}

fn literal(segments: &[Segment<'_>]) -> String {
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
