//! Edits a file as a person would: one entry added, removed, switched on or off; every comment and
//! all order kept.
//!
//! The formats edit texts (`edit/toml.rs` and its siblings), each a pure function. Here an entry is
//! put into the words of its dialect, the outcome is read back before it is written, and the file
//! is replaced whole or not at all.

use std::io;
use std::path::PathBuf;

use super::diagnostic::visible_path;
use super::format::Format;
use super::load::{LoadedFile, interpret, text_of};
use super::{ConfigErrors, ConfigFile, Dialect, ServerConfig};
use crate::shell;

pub(super) mod entry_spelling;
#[cfg(feature = "hcl")]
mod hcl;
mod json;
#[cfg(any(feature = "hcl", feature = "yaml"))]
mod lines;
mod toml;
mod write;
#[cfg(feature = "yaml")]
mod yaml;

/// What to do to a file.
#[derive(Debug, Clone)]
pub enum Change {
    /// One entry more, at the end.
    Add(NewServer),
    /// An entry less.
    Remove(String),
    /// The server may run, or may not.
    Enable(String, bool),
}

/// A new entry.
#[derive(Debug, Clone)]
pub struct NewServer {
    /// Its key.
    pub name: String,
    /// How to reach the server.
    pub target: ServerTarget,
    /// Which wire, where it is said: `stdio`, `http` or `sse`.
    pub transport: Option<String>,
    /// Variables of the program. References are written `${NAME}`; the file gets them as its
    /// dialect has them.
    pub env: Vec<(String, String)>,
    /// Headers of the requests, likewise.
    pub headers: Vec<(String, String)>,
    /// The program's working folder.
    pub cwd: Option<String>,
}

/// How a new server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTarget {
    /// A program to start, with its arguments.
    Command(String, Vec<String>),
    /// An address.
    Url(String),
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditOutcome {
    /// The file that was written; a link has been followed.
    pub file: PathBuf,
    /// What kind of file it is.
    pub dialect: Dialect,
    /// The line of the entry: as it is now, or as it was before it was removed.
    pub line: usize,
    /// The file was not there before.
    pub created: bool,
    /// It said so already, and was left alone.
    pub unchanged: bool,
}

/// Why a file was not changed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditFault {
    /// It does not load as it is, so what an edit would make of it cannot be known.
    #[error("the file does not load as it is; correct it first:\n{0}")]
    Broken(ConfigErrors),
    /// What came out would not load.
    #[error("not written, since the file would not load:\n{0}")]
    WouldNotLoad(ConfigErrors),
    /// There is such an entry.
    #[error("{file}:{line} has a server \"{name}\" already; choose another name, or remove that one first", file = visible_path(.file))]
    Taken {
        /// The file.
        file: PathBuf,
        /// Where.
        line: usize,
        /// The name.
        name: String,
    },
    /// There is none.
    #[error("{file} has no server \"{name}\"{known}", file = visible_path(.file), known = listed(.known))]
    Missing {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// It cannot be said in such a file, or not without writing it anew.
    #[error("{file}: {fact}", file = visible_path(.file))]
    Unwilling {
        /// The file.
        file: PathBuf,
        /// Why, and what to do instead.
        fact: String,
    },
    /// The disk.
    #[error("{file} cannot be written: {fault}", file = visible_path(.file))]
    Disk {
        /// The file.
        file: PathBuf,
        /// Why.
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

/// Changes a file. One that is not there is made for an addition (0600, its folder too), if its
/// name says what it is to hold.
pub fn edit(file: &ConfigFile, change: &Change) -> Result<EditOutcome, EditFault> {
    let path = file
        .path
        .canonicalize()
        .unwrap_or_else(|_| file.path.clone());
    let exists = file.path.symlink_metadata().is_ok();
    if !exists && !matches!(change, Change::Add(_)) {
        return Err(EditFault::Missing {
            file: path,
            name: change.name().to_owned(),
            known: Vec::new(),
        });
    }
    let text = if exists {
        text_of(file).map_err(|errors| EditFault::Broken(ConfigErrors(errors)))?
    } else {
        String::new()
    };
    // A file that is not there is what its path, its name or the person says.
    let blank = if Format::of(&file.path) == Some(Format::Json) {
        "{}"
    } else {
        ""
    };
    let read_as = if text.trim().is_empty() { blank } else { &text };
    let before =
        interpret(file, read_as).map_err(|errors| EditFault::Broken(ConfigErrors(errors)))?;
    let dialect = before.dialect;
    let found = before
        .servers
        .iter()
        .map(|(server, _)| server)
        .find(|server| server.name.as_str() == change.name());
    match (change, found) {
        (Change::Add(_), Some(taken)) => {
            return Err(EditFault::Taken {
                file: path,
                line: taken.source.line,
                name: taken.name.to_string(),
            });
        }
        (Change::Remove(name) | Change::Enable(name, _), None) => {
            let known = before
                .servers
                .iter()
                .map(|(server, _)| server.name.to_string())
                .collect();
            return Err(EditFault::Missing {
                file: path,
                name: name.clone(),
                known,
            });
        }
        (Change::Enable(_, wanted), Some(server)) if server.enabled == *wanted => {
            return Ok(EditOutcome {
                file: path,
                dialect,
                line: server.source.line,
                created: false,
                unchanged: true,
            });
        }
        _ => {}
    }
    let unwilling = |fact: String| EditFault::Unwilling {
        file: path.clone(),
        fact,
    };
    let edited = edited(&text, before.format, dialect, change).map_err(unwilling)?;
    let after = interpret(
        &ConfigFile {
            dialect: Some(dialect),
            ..file.clone()
        },
        &edited,
    )
    .map_err(|errors| EditFault::WouldNotLoad(ConfigErrors(errors)))?;
    let line = check(change, &before, &after).map_err(unwilling)?;
    write::write(&path, edited.as_bytes(), exists).map_err(|fault| EditFault::Disk {
        file: path.clone(),
        fault,
    })?;
    Ok(EditOutcome {
        file: path,
        dialect,
        line,
        created: !exists,
        unchanged: false,
    })
}

/// What [`edit`] would write, if it can be checked.
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

/// What a file would begin with if the entry were added to it while it is empty: in its own dialect
/// and format. `None` where that cannot be known or written.
pub fn sample(file: &ConfigFile, addition: NewServer) -> Option<String> {
    let text = text_of(file).unwrap_or_default();
    let blank = if Format::of(&file.path) == Some(Format::Json) {
        "{}"
    } else {
        ""
    };
    let read = interpret(file, if text.trim().is_empty() { blank } else { &text }).ok()?;
    edited("", read.format, read.dialect, &Change::Add(addition)).ok()
}

impl Change {
    fn name(&self) -> &str {
        match self {
            Self::Add(addition) => &addition.name,
            Self::Remove(name) | Self::Enable(name, _) => name,
        }
    }
}

/// The text with the change in it; or why that cannot be, and what to do instead.
fn edited(text: &str, format: Format, dialect: Dialect, change: &Change) -> Result<String, String> {
    let spelling = &dialect.profile().entry_spelling;
    let entry_path = EntryPath {
        container: spelling.container,
        version: spelling.version,
        name: change.name(),
    };
    let operation = match change {
        Change::Add(addition) => Operation::Add(spelling.entry(addition)?),
        Change::Remove(_) => Operation::Remove,
        Change::Enable(name, wanted) => {
            let Some((field, means_enabled)) = spelling.enabled else {
                let what = if *wanted { "enabled" } else { "disabled" };
                return Err(format!(
                    "a file of this kind ({}) has no word for a server that is {what}; try `switchboard remove {}`",
                    dialect.profile().name,
                    shell::argument(name)
                ));
            };
            Operation::Set(field, *wanted == means_enabled)
        }
    };
    match format {
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
    }
}

/// Which entry of a document.
struct EntryPath<'a> {
    /// The keys that lead to the entries.
    container: &'static [&'static str],
    /// What a new file begins with.
    version: Option<(&'static str, u32)>,
    name: &'a str,
}

/// What is done to it.
enum Operation {
    Add(Vec<(&'static str, NewValue)>),
    Remove,
    Set(&'static str, bool),
}

/// A value of a new entry, whatever the format.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NewValue {
    Text(String),
    Texts(Vec<String>),
    Table(Vec<(String, NewText)>),
}

/// The value of a variable or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NewText {
    Plain(String),
    /// A reference that the format writes as a call: `env("NAME")`.
    Call(String),
}

/// What could not be found in a document that was just read.
const NOT_FOUND: &str = "the entry is not written as a table of its own; edit the file by hand";

/// That the entry came, went or changed, and nothing else did; and its line.
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
        (Change::Add(_), None, Some(new)) => match &new.endpoint {
            super::Endpoint::Invalid(fault) => {
                Err(format!("the entry would not work: {}", fault.message))
            }
            _ => Ok(new.source.line),
        },
        (Change::Remove(_), Some(old), None) => Ok(old.source.line),
        (Change::Enable(_, wanted), Some(old), Some(new)) if new.enabled == *wanted => {
            let same = ServerConfig {
                enabled: *wanted,
                ..without_lines(old)
            } == without_lines(new);
            if same { Ok(new.source.line) } else { amiss() }
        }
        _ => amiss(),
    }
}

/// Lines move when an entry above comes or goes.
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
