//! Edits a configuration file: adds, removes, enables or disables one entry, and keeps comments and
//! order.
//!
//! Each format edits text (`edit/toml.rs` and its siblings). This file writes the entry in its
//! dialect, reads the result back before it is saved, and replaces the file as a whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::{Diagnostics, visible_path};
use super::format::Format;
use super::load::{LoadedFile, base_folder, interpret, may_exist, read_text, resolve_links};
use super::{ConfigErrors, ConfigFile, Diagnostic, Dialect, Scope, ServerConfig};
use crate::tree::Node;

mod document;
#[cfg(feature = "hcl")]
mod hcl;
mod json;
#[cfg(any(feature = "hcl", feature = "yaml"))]
mod lines;
mod new_entry;
mod toml;
mod write;
#[cfg(feature = "yaml")]
mod yaml;

pub use document::{EntryAddress, EntryField, replace_file};

/// A change of a file.
#[derive(Debug, Clone)]
pub enum Change {
    /// Adds an entry at the end.
    Add(NewServer),
    /// Removes an entry.
    Remove(String),
    /// Enables or disables a server.
    Enable(String, bool),
}

/// A new entry.
#[derive(Debug, Clone)]
pub struct NewServer {
    /// The entry's key.
    pub name: String,
    /// The command or the URL. A relative path of the command starts at the current folder.
    pub target: ServerTarget,
    /// The transport, if named: `stdio`, `http` or `sse`.
    pub transport: Option<String>,
    /// Variables of the program. References are `${NAME}`; they are written in the syntax of the
    /// dialect.
    pub env: Vec<(String, String)>,
    /// Headers of the requests, with references in the same form.
    pub headers: Vec<(String, String)>,
    /// The program's working folder, relative to the current folder.
    pub cwd: Option<String>,
}

/// The endpoint of a new server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTarget {
    /// A program to start, with its arguments.
    Command(String, Vec<String>),
    /// A URL.
    Url(String),
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditOutcome {
    /// The file that was written, after following links.
    pub file: PathBuf,
    /// The file's dialect.
    pub dialect: Dialect,
    /// The line of the entry, now or before it was removed.
    pub line: usize,
    /// Whether the file was created.
    pub created: bool,
    /// Whether the file was left as it was, because nothing had to change.
    pub unchanged: bool,
}

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditFault {
    /// The file does not load before the edit.
    #[error("the file does not load as it is; correct it first:\n{0}")]
    DoesNotLoad(ConfigErrors),
    /// The edited file would not load.
    #[error("not written, since the file would not load:\n{0}")]
    WouldNotLoad(ConfigErrors),
    /// A server of that name exists.
    #[error("{file}:{line} has a server \"{name}\" already; choose another name, or remove that one first", file = visible_path(.file))]
    AlreadyExists {
        /// The file.
        file: PathBuf,
        /// The line.
        line: usize,
        /// The name.
        name: String,
    },
    /// No server of that name exists.
    #[error("{file} has no server \"{name}\"{known}", file = visible_path(.file), known = listed(.known))]
    NoSuchServer {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// The servers that the file has.
        known: Vec<String>,
    },
    /// The dialect or the format cannot express the change.
    #[error("{file}: {fact}", file = visible_path(.file))]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// Why, and what to do instead.
        fact: String,
    },
    /// Writing failed.
    #[error("{file} cannot be written: {fault}", file = visible_path(.file))]
    Io {
        /// The file.
        file: PathBuf,
        /// The error.
        fault: io::Error,
    },
}

fn listed(known: &[String]) -> String {
    if known.is_empty() {
        String::new()
    } else {
        format!("; it has: {}", known.join(", "))
    }
}

/// Changes a file. For an addition a missing file is created (0600, in a private folder), if its
/// name decides the dialect. Edits by several processes follow each other.
pub fn edit(file: &ConfigFile, change: &Change) -> Result<EditOutcome, EditFault> {
    let path = file
        .path
        .canonicalize()
        .unwrap_or_else(|_| file.path.clone());
    let is_addition = matches!(change, Change::Add(_));
    if !is_addition && !may_exist(&file.path) {
        return Err(EditFault::NoSuchServer {
            file: path,
            name: change.name().to_owned(),
            known: Vec::new(),
        });
    }
    let failed = |fault| EditFault::Io {
        file: path.clone(),
        fault,
    };
    let _lock = write::lock_folder(&path, is_addition).map_err(failed)?;
    let exists = may_exist(&file.path);
    let text = if exists {
        read_text(file).map_err(|errors| EditFault::DoesNotLoad(ConfigErrors(errors)))?
    } else {
        String::new()
    };
    let before = interpret_or_empty(file, &text)
        .map_err(|errors| EditFault::DoesNotLoad(ConfigErrors(errors)))?;
    let dialect = before.dialect;
    if let Some(line) = line_if_unchanged(change, &before, &path)? {
        return Ok(EditOutcome {
            file: path,
            dialect,
            line,
            created: false,
            unchanged: true,
        });
    }
    let unsupported = |fact: String| EditFault::Unsupported {
        file: path.clone(),
        fact,
    };
    let base = base_folder(&resolve_links(&file.path), dialect, file.scope);
    let is_of_each_run =
        file.scope == Scope::User && dialect.profile().user_paths_start_at_current_folder;
    let change = &change.for_folder((!is_of_each_run).then_some(base.as_path()));
    let edited = edited(&text, before.format, dialect, change).map_err(unsupported)?;
    let after = interpret(
        &ConfigFile {
            dialect: Some(dialect),
            ..file.clone()
        },
        &edited,
    )
    .map_err(|errors| EditFault::WouldNotLoad(ConfigErrors(errors)))?;
    let line = check(change, &before, &after).map_err(unsupported)?;
    write::write(&path, edited.as_bytes(), exists).map_err(failed)?;
    Ok(EditOutcome {
        file: path,
        dialect,
        line,
        created: !exists,
        unchanged: false,
    })
}

/// Reads a file that may be missing or empty. Its dialect then follows from its path or
/// `ConfigFile::dialect`.
fn interpret_or_empty(file: &ConfigFile, text: &str) -> Result<LoadedFile, Vec<Diagnostic>> {
    let is_json = Format::of(&file.path) == Some(Format::Json);
    match text.trim_start_matches('\u{feff}').trim().is_empty() {
        true if is_json => interpret(file, "{}"),
        true => interpret(file, ""),
        false => interpret(file, text),
    }
}

/// The line of an entry that the change would leave as it is. The error is that the entry to add
/// exists, or that the entry to change does not.
fn line_if_unchanged(
    change: &Change,
    before: &LoadedFile,
    path: &Path,
) -> Result<Option<usize>, EditFault> {
    let mut servers = before.servers.iter().map(|(server, _)| server);
    let found = servers.find(|server| server.name.as_str() == change.name());
    match (change, found) {
        (Change::Add(_), Some(existing)) => Err(EditFault::AlreadyExists {
            file: path.to_owned(),
            line: existing.source.line,
            name: existing.name.to_string(),
        }),
        (Change::Remove(name) | Change::Enable(name, _), None) => {
            let servers = before.servers.iter();
            Err(EditFault::NoSuchServer {
                file: path.to_owned(),
                name: name.clone(),
                known: servers.map(|(server, _)| server.name.to_string()).collect(),
            })
        }
        (Change::Enable(_, is_enabled), Some(server)) if server.enabled == *is_enabled => {
            Ok(Some(server.source.line))
        }
        _ => Ok(None),
    }
}

/// The text that [`edit`] would write.
#[cfg(feature = "fuzzing")]
pub(super) fn edited_text(
    file: &ConfigFile,
    text: &str,
    change: &Change,
) -> Option<(String, Dialect)> {
    let before = interpret(file, text).ok()?;
    let text = edited(text, before.format, before.dialect, change).ok()?;
    let after = interpret(
        &ConfigFile {
            dialect: Some(before.dialect),
            ..file.clone()
        },
        &text,
    )
    .ok()?;
    check(change, &before, &after).ok()?;
    Some((text, before.dialect))
}

/// The content of the file with only this entry, in its dialect and format. `None` if the dialect
/// is unknown or cannot express the entry.
pub fn sample(file: &ConfigFile, addition: NewServer) -> Option<String> {
    let text = read_text(file).unwrap_or_default();
    let read = interpret_or_empty(file, &text).ok()?;
    edited("", read.format, read.dialect, &Change::Add(addition)).ok()
}

impl Change {
    fn name(&self) -> &str {
        match self {
            Self::Add(addition) => &addition.name,
            Self::Remove(name) | Self::Enable(name, _) => name,
        }
    }

    /// The change of a file whose relative paths start at this folder.
    fn for_folder(&self, base: Option<&Path>) -> Self {
        match self {
            Self::Add(addition) => Self::Add(addition.clone().for_folder(base)),
            other => other.clone(),
        }
    }
}

/// Edits what follows the byte order mark of a text, if it has one. The mark stays.
fn after_mark(
    text: &str,
    edit: impl FnOnce(&str) -> Result<String, String>,
) -> Result<String, String> {
    match text.strip_prefix('\u{feff}') {
        Some(text) => Ok(format!("\u{feff}{}", edit(text)?)),
        None => edit(text),
    }
}

/// The edited text; or why the change is not possible, and what to do instead.
fn edited(text: &str, format: Format, dialect: Dialect, change: &Change) -> Result<String, String> {
    let profile = &dialect.profile().entry_spelling;
    let document = format.parse(text, &mut Diagnostics::new(Arc::default(), text));
    let section = dialect.section_of(&document);
    let (container, spelling) = match &section {
        Some((container, spelling)) => (*container, spelling),
        None => (profile.container, profile),
    };
    if let (Change::Add(_), Some(program)) = (change, program_with_own_form(&document, container)) {
        return Err(format!(
            "it is a file of {program}, whose entries have another form; add the server with \
             {program} itself"
        ));
    }
    let entry_path = EntryPath {
        container,
        version: spelling.version,
        name: change.name(),
    };
    let operation = match change {
        Change::Add(addition) => Operation::Add(spelling.entry(addition)?),
        Change::Remove(_) => Operation::Remove,
        Change::Enable(_, is_enabled) => {
            let Some((field, means_enabled)) = spelling.enabled else {
                let state = if *is_enabled { "enabled" } else { "disabled" };
                return Err(format!(
                    "a file of this kind ({}) has no field for a server that is {state}",
                    dialect.profile().name
                ));
            };
            Operation::Set(field, *is_enabled == means_enabled)
        }
    };
    after_mark(text, |text| match format {
        Format::Toml => toml::edit(text, &entry_path, &operation),
        Format::Json => json::edit(text, &entry_path, &operation),
        #[cfg(feature = "hcl")]
        Format::Hcl => hcl::edit(text, &entry_path, &operation),
        #[cfg(not(feature = "hcl"))]
        Format::Hcl => Err(super::format::NO_HCL.to_owned()),
        #[cfg(feature = "yaml")]
        Format::Yaml | Format::FrontMatter => {
            yaml::edit(text, &entry_path, &operation, format == Format::FrontMatter)
        }
        #[cfg(not(feature = "yaml"))]
        Format::Yaml | Format::FrontMatter => Err(super::format::NO_YAML.to_owned()),
    })
}

/// The program of a file whose entries this program reads but cannot write.
fn program_with_own_form(document: &Node, container: &[&str]) -> Option<&'static str> {
    let is_goose = document.get("extensions").is_some() && document.get(container[0]).is_none();
    if container == ["mcp"] {
        Some("opencode")
    } else {
        is_goose.then_some("goose")
    }
}

/// Identifies an entry of a document.
struct EntryPath<'a> {
    /// The keys that lead to the entries.
    container: &'a [&'a str],
    /// The version field of a new file.
    version: Option<(&'static str, u32)>,
    name: &'a str,
}

/// The change to the entry.
enum Operation {
    Add(Vec<(&'static str, NewValue)>),
    Remove,
    Set(&'static str, bool),
}

/// A value of a new entry, independent of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NewValue {
    Text(String),
    Texts(Vec<String>),
    Flag(bool),
    Number(u32),
    Table(Vec<(String, NewText)>),
}

/// The value of a variable or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NewText {
    Plain(String),
    /// A reference that the format writes as a call: `env("NAME")`.
    Call(String),
}

const NOT_FOUND: &str = "the entry is not written as a table of its own; edit the file by hand";

/// Checks that only this entry was added, removed or changed. Returns its line.
fn check(change: &Change, before: &LoadedFile, after: &LoadedFile) -> Result<usize, String> {
    let amiss =
        || Err("the edit would change more than this one entry; edit the file by hand".to_owned());
    let name = change.name();
    fn find<'f>(file: &'f LoadedFile, name: &str) -> Option<&'f ServerConfig> {
        file.servers
            .iter()
            .map(|(server, _)| server)
            .find(|server| server.name.as_str() == name)
    }
    let others = |file: &LoadedFile| -> Vec<ServerConfig> {
        let others = file
            .servers
            .iter()
            .map(|(server, _)| server)
            .filter(|server| server.name.as_str() != name);
        others.map(without_lines).collect()
    };
    if others(before) != others(after) {
        return amiss();
    }
    match (change, find(before, name), find(after, name)) {
        (Change::Add(addition), None, Some(new)) => {
            if let super::Endpoint::Invalid(fault) = &new.endpoint {
                return Err(format!("the entry would not work: {}", fault.message));
            }
            match new_entry::changed_text(addition, &new.endpoint) {
                Some(fault) => Err(fault),
                None => Ok(new.source.line),
            }
        }
        (Change::Remove(_), Some(old), None) => Ok(old.source.line),
        (Change::Enable(_, is_enabled), Some(old), Some(new)) if new.enabled == *is_enabled => {
            let same = ServerConfig {
                enabled: *is_enabled,
                ..without_lines(old)
            } == without_lines(new);
            if same { Ok(new.source.line) } else { amiss() }
        }
        _ => amiss(),
    }
}

/// Ignores line numbers, which change when an entry above is added or removed.
fn without_lines(server: &ServerConfig) -> ServerConfig {
    let mut server = server.clone();
    server.source.line = 0;
    if let super::Endpoint::Invalid(fault) = &mut server.endpoint {
        (fault.line, fault.column) = (0, 0);
    }
    server
}

#[cfg(test)]
mod tests;
