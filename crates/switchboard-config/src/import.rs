//! Converts the servers of another program's file to entries of `switchboard.toml`: with native
//! fields and references, and without literal secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::diagnostic::Diagnostics;
use super::edit::EntryField;
use super::entry_values::texts_with_references;
use super::fields::SERVERS;
use super::load::{format_of, interpret};
use super::raw::{FieldTable, FieldValue};
use super::reference::{ReferenceSyntax, Segment, TextRole, escape};
use super::secret::Secret;
use super::{ConfigErrors, ConfigFile, Diagnostic, Endpoint, Scope, ServerConfig, sensitive};
use crate::name::ServerName;

/// A server of another program's file, as a native entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedServer {
    /// The native name.
    pub name: String,
    /// The name in the file, if it is not a valid native one.
    pub renamed_from: Option<String>,
    /// The line of its entry.
    pub line: usize,
    /// The fields of the native entry.
    pub fields: Vec<(&'static str, EntryField)>,
    /// The secrets that were replaced by references: the field, and the variable to set.
    pub secrets: Vec<(String, String)>,
    /// Fields that a native entry does not have; and `trust` of a project's file, which is not the
    /// user's own.
    pub left_out: Vec<String>,
}

/// The servers of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedFile {
    /// The servers, in order.
    pub servers: Vec<ImportedServer>,
    /// Invalid entries, with the reasons.
    pub invalid: Vec<Diagnostic>,
    /// Fields that were not understood or have no effect.
    pub warnings: Vec<Diagnostic>,
}

/// The variables that imported entries refer to: no two secrets share one.
#[derive(Debug, Clone, Default)]
pub struct ImportedSecrets {
    /// The variables in place of secrets.
    secrets: BTreeMap<String, Secret>,
    /// The variables of the user's own file, with the names of the servers that refer to them.
    own: Referred,
    /// The same of the files that are imported, by native names.
    imported: Referred,
}

/// Variables whose values are unknown, with the names of the servers that refer to them.
type Referred = BTreeMap<String, BTreeSet<String>>;

impl ImportedSecrets {
    /// Nothing is imported yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with the variables that the entries of the user's own file refer to.
    pub fn beside(own: &ConfigFile, text: &str) -> Self {
        let mut secrets = Self::default();
        reserve(&mut secrets.own, own, text);
        secrets
    }

    /// Reserves the variables that the entries of a file refer to, before it is imported.
    pub fn reserve(&mut self, file: &ConfigFile, text: &str) {
        reserve(&mut self.imported, file, text);
    }

    /// Whether a variable may stand for this secret of a server. An entry that is imported again
    /// keeps the variables that it has in the user's own file.
    fn is_free(&self, variable: &str, secret: &Secret, server: &str) -> bool {
        match (self.secrets.get(variable), self.own.get(variable)) {
            (Some(known), _) => known == secret,
            (None, Some(servers)) => servers.contains(server),
            (None, None) => self
                .imported
                .get(variable)
                .is_none_or(|servers| servers.iter().all(|name| name == server)),
        }
    }
}

/// Adds the references of a file. One that cannot be read has none.
fn reserve(referred: &mut Referred, file: &ConfigFile, text: &str) {
    let servers = interpret(file, text).map(|loaded| loaded.servers);
    for (server, _) in servers.unwrap_or_default() {
        let name = native_name(server.name.as_str());
        for variable in references(&server.endpoint) {
            let servers = referred.entry(variable.to_owned()).or_default();
            servers.insert(name.clone());
        }
    }
}

/// The variables that an entry refers to.
fn references(endpoint: &Endpoint) -> Vec<&str> {
    let syntax = endpoint.syntax();
    texts_with_references(endpoint)
        .into_iter()
        .flat_map(|(role, _, text)| syntax.variables(role, text))
        .collect()
}

/// Converts the servers of a file with this text. Each variable has one secret, across all files
/// that are converted with the same `known`.
pub fn import_servers(
    file: &ConfigFile,
    text: &str,
    known: &mut ImportedSecrets,
) -> Result<ImportedFile, ConfigErrors> {
    let loaded = interpret(file, text).map_err(ConfigErrors)?;
    known.reserve(file, text);
    let dialect = loaded.dialect;
    let shown = Arc::new(file.path.clone());
    let mut diagnostics = Diagnostics::new(shown, text);
    let format = format_of(&file.path, Some(dialect), text);
    let document = format.parse(text, &mut diagnostics);
    let raw = dialect.reader().open(&document, &mut diagnostics);
    let mut imported = ImportedFile {
        warnings: loaded.warnings,
        ..ImportedFile::default()
    };
    for (server, _) in &loaded.servers {
        if let Endpoint::Invalid(fault) = &server.endpoint {
            imported.invalid.push(fault.clone());
            continue;
        }
        let entry = raw
            .servers
            .iter()
            .find(|raw| raw.name == server.name.as_str());
        let fields = entry.and_then(|entry| dialect.reader().entry(entry, &mut diagnostics));
        if let Some(fields) = fields {
            let syntax = dialect.profile().syntax;
            imported
                .servers
                .push(native(server, &fields, syntax, known));
        }
    }
    Ok(imported)
}

/// Whether a text is a valid `switchboard.toml`.
pub fn check_text(file: &ConfigFile, text: &str) -> Result<(), ConfigErrors> {
    interpret(file, text).map(drop).map_err(ConfigErrors)
}

/// The conversion of one entry.
struct Conversion<'a> {
    syntax: ReferenceSyntax,
    /// The native name of the server.
    name: &'a str,
    /// The name of the server, for variables.
    prefix: String,
    /// The variables that the entry refers to as it is written.
    referred: Vec<&'a str>,
    folder: &'a Path,
    secrets: Vec<(String, String)>,
    known: &'a mut ImportedSecrets,
    left_out: Vec<String>,
}

fn native(
    server: &ServerConfig,
    fields: &FieldTable,
    syntax: ReferenceSyntax,
    known: &mut ImportedSecrets,
) -> ImportedServer {
    let written = server.name.as_str();
    let name = native_name(written);
    let mut conversion = Conversion {
        syntax,
        name: &name,
        prefix: variable_name(&name),
        referred: references(&server.endpoint),
        folder: &server.source.folder,
        secrets: Vec::new(),
        known,
        left_out: Vec::new(),
    };
    let mut entry = Vec::new();
    // In the order of the table of fields, so that `command` comes first.
    for spec in SERVERS.fields {
        let Some(found) = fields.values.get(spec.name) else {
            continue;
        };
        let is_refused = spec.name == "trust" && server.source.scope == Scope::Project;
        match conversion.value(spec.name, &found.value) {
            Some(value) if !is_refused => entry.push((spec.name, value)),
            _ => conversion
                .left_out
                .push(fields.name_in_file(spec.name).to_owned()),
        }
    }
    let inherits = matches!(&server.endpoint, Endpoint::Stdio(stdio) if stdio.inherit_env);
    if inherits && fields.offset_of("inherit_env").is_none() {
        entry.push(("inherit_env", EntryField::Flag(true)));
    }
    let known: BTreeSet<&str> = SERVERS.fields.iter().map(|spec| spec.name).collect();
    let others = fields.values.keys().filter(|key| !known.contains(*key));
    conversion
        .left_out
        .extend(others.map(|key| fields.name_in_file(key).to_owned()));
    let Conversion {
        secrets, left_out, ..
    } = conversion;
    ImportedServer {
        renamed_from: (name != written).then(|| written.to_owned()),
        name,
        line: server.source.line,
        fields: entry,
        secrets,
        left_out,
    }
}

impl Conversion<'_> {
    fn value(&mut self, field: &'static str, value: &FieldValue) -> Option<EntryField> {
        Some(match value {
            FieldValue::Text(text) => {
                let is_path = match field {
                    // Without a slash it is looked up on the PATH.
                    "command" => text.contains('/'),
                    "cwd" | "oauth_client_key" => true,
                    _ => false,
                };
                let text = match is_path && !text.starts_with(['/', '~', '$']) {
                    true => self.folder.join(text).display().to_string(),
                    false => text.clone(),
                };
                EntryField::Text(self.launch_text(field, &text))
            }
            FieldValue::Texts(texts) if field == "args" => {
                let texts: Vec<String> = texts.iter().map(|text| text.value.clone()).collect();
                EntryField::Texts(self.arguments(&texts))
            }
            FieldValue::Texts(texts) => {
                EntryField::Texts(texts.iter().map(|text| text.value.clone()).collect())
            }
            FieldValue::Secrets(pairs) => {
                let pair = |pair: &super::raw::AtOffset<(String, Secret)>| {
                    let (name, value) = &pair.value;
                    let value = self.secret(field, name, value.expose());
                    (name.clone(), value)
                };
                EntryField::Table(pairs.iter().map(pair).collect())
            }
            FieldValue::Secret(secret) => {
                EntryField::Text(self.secret(field, field, secret.expose()))
            }
            FieldValue::Port(port) => EntryField::Number(u32::from(*port)),
            FieldValue::Flag(flag) => EntryField::Flag(*flag),
            FieldValue::Duration(duration) => EntryField::Text(duration_text(*duration)),
            FieldValue::Bytes(bytes) => EntryField::Number(u32::try_from(*bytes).ok()?),
            FieldValue::Choice(word) => EntryField::Text((*word).to_owned()),
            // A field of another section than the servers', or reported already.
            _ => return None,
        })
    }

    /// Converts a text to the native syntax. A password in a URL becomes a reference.
    fn launch_text(&mut self, field: &str, text: &str) -> String {
        match field {
            "url" => self.without(field, text, sensitive::find_in_url(text)),
            _ => self.rewritten(TextRole::Launch, text),
        }
    }

    fn arguments(&mut self, texts: &[String]) -> Vec<String> {
        let secrets = sensitive::find_in_arguments(texts);
        let found = texts.iter().zip(secrets);
        found
            .map(|(text, secrets)| self.without("args", text, secrets))
            .collect()
    }

    /// Converts a text to the native syntax, with a reference in place of each of these secrets.
    fn without(&mut self, field: &str, text: &str, mut secrets: Vec<Range<usize>>) -> String {
        // A secret that is a reference stays one.
        secrets.retain(|secret| !self.syntax.reads(TextRole::Launch, &text[secret.clone()]));
        let mut written = String::new();
        let mut end = 0;
        for secret in secrets {
            written += &self.rewritten(TextRole::Launch, &text[end..secret.start]);
            end = secret.end;
            let variable = self.variable(&format!("{}_SECRET", self.prefix), &text[secret]);
            written += &format!("${{{variable}}}");
            let replaced = (field.to_owned(), variable);
            if !self.secrets.contains(&replaced) {
                self.secrets.push(replaced);
            }
        }
        written + &self.rewritten(TextRole::Launch, &text[end..])
    }

    /// The value of a variable, a header or a secret field: literal secrets become references.
    fn secret(&mut self, field: &str, name: &str, value: &str) -> String {
        let is_literal = !self.syntax.reads(TextRole::Value, value);
        let is_secret = field == name || !sensitive::secrets_of(name, value).is_empty();
        if !is_literal || !is_secret || value.is_empty() {
            return self.rewritten(TextRole::Value, value);
        }
        let preferred = match field {
            "env" => variable_name(name),
            _ => format!("{}_{}", self.prefix, variable_name(name)),
        };
        let scheme = ["Bearer ", "Basic "]
            .into_iter()
            .find(|scheme| value.starts_with(scheme))
            .unwrap_or_default();
        let variable = self.variable(&preferred, &value[scheme.len()..]);
        let place = if field == name {
            field.to_owned()
        } else {
            format!("{field}.{name}")
        };
        self.secrets.push((place, variable.clone()));
        format!("{scheme}${{{variable}}}")
    }

    /// A variable without another secret: the preferred name, or a similar one.
    fn variable(&mut self, preferred: &str, secret: &str) -> String {
        let secret = Secret::new(secret);
        let prefixed = format!("{}_{preferred}", self.prefix);
        let numbered = (2..).map(|number| format!("{prefixed}_{number}"));
        let mut names = [preferred.to_owned(), prefixed.clone()]
            .into_iter()
            .chain(numbered);
        let is_free = |name: &String| {
            !self.referred.contains(&name.as_str()) && self.known.is_free(name, &secret, self.name)
        };
        let name = names.find(is_free).unwrap_or_default();
        self.known.secrets.insert(name.clone(), secret);
        name
    }

    fn rewritten(&self, role: TextRole, text: &str) -> String {
        let Ok(segments) = self.syntax.segments(role, text) else {
            return escape(text);
        };
        let segment = |segment: &Segment<'_>| match segment {
            Segment::Literal(text) => escape(text),
            Segment::Variable {
                name,
                default: None,
            } => format!("${{{name}}}"),
            Segment::Variable {
                name,
                default: Some(default),
            } => format!("${{{name}:-{default}}}"),
        };
        segments.iter().map(segment).collect()
    }
}

fn duration_text(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds.is_multiple_of(1000) {
        format!("{}s", milliseconds / 1000)
    } else {
        format!("{milliseconds}ms")
    }
}

fn variable_name(text: &str) -> String {
    let word: String = text
        .chars()
        .map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
            _ => '_',
        })
        .collect();
    match word.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("_{word}"),
        false => word,
    }
}

/// The name itself if it is a valid native one; otherwise a similar one.
fn native_name(name: &str) -> String {
    if ServerName::new(name).is_ok() {
        return name.to_owned();
    }
    let mut plain = String::new();
    for letter in name.chars().take(32) {
        match letter {
            letter if letter.is_ascii_alphanumeric() => plain.push(letter),
            _ if !plain.ends_with(['-', '_']) => plain.push('-'),
            _ => {}
        }
    }
    let plain = plain.trim_matches(['-', '_']);
    match ServerName::new(plain) {
        Ok(name) => name.as_str().to_owned(),
        // Reserved, or nothing is left.
        Err(_) => format!("{plain}-server").trim_matches('-').to_owned(),
    }
}
