//! Reads, writes or removes one entry of another program's file, found by its keys. Text to text;
//! comments and everything else stay.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{EditFault, EntryPath, NewText, NewValue, Operation, json, toml, write};
use crate::ConfigErrors;
use crate::diagnostic::Diagnostics;
use crate::format::Format;
use crate::tree::{Node, Tree};

/// The address of an entry.
#[derive(Debug, Clone, Copy)]
pub struct EntryAddress<'a> {
    /// The file: its extension determines the format (JSON with comments, TOML or YAML).
    pub file: &'a Path,
    /// The keys that lead to the entries.
    pub container: &'a [&'a str],
    /// The key of the entry.
    pub name: &'a str,
}

/// A field of a new entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryField {
    /// A string.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(u32),
    /// A table of strings.
    Table(Vec<(String, String)>),
}

impl EntryField {
    /// The value as JSON, to compare it with the file's.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Texts(texts) => texts.clone().into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Number(number) => (*number).into(),
            Self::Table(pairs) => {
                let pair = |(key, text): &(String, String)| (key.clone(), text.as_str().into());
                Value::Object(pairs.iter().map(pair).collect())
            }
        }
    }
}

impl EntryAddress<'_> {
    /// The value at these keys of a document, as JSON.
    pub fn value_at(&self, text: &str, keys: &[&str]) -> Result<Option<Value>, EditFault> {
        let document = self.parse(text).map_err(EditFault::DoesNotLoad)?;
        let mut at = &document;
        for key in keys {
            match at.get(*key) {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        Ok(Some(at.clone()))
    }

    /// The entry, as JSON; `None` if there is none.
    pub fn read(&self, text: &str) -> Result<Option<Value>, EditFault> {
        let keys: Vec<&str> = self.container.iter().copied().chain([self.name]).collect();
        self.value_at(text, &keys)
    }

    /// The text with this entry, in place of the existing one or after the others.
    pub fn with(
        &self,
        text: &str,
        fields: &[(&'static str, EntryField)],
    ) -> Result<String, EditFault> {
        let add = Operation::Add(
            fields
                .iter()
                .map(|(key, field)| (*key, new_value(field)))
                .collect(),
        );
        let cleared = match self.read(text)? {
            Some(_) => self.operate(text, &Operation::Remove)?,
            None => text.to_owned(),
        };
        let edited = self.operate(&cleared, &add)?;
        let expected: Map<String, Value> = fields
            .iter()
            .map(|(key, field)| ((*key).to_owned(), field.to_json()))
            .collect();
        self.check(text, &edited, Some(&Value::Object(expected)))?;
        Ok(edited)
    }

    /// The text without this entry.
    pub fn without(&self, text: &str) -> Result<String, EditFault> {
        let edited = self.operate(text, &Operation::Remove)?;
        self.check(text, &edited, None)?;
        Ok(edited)
    }

    fn operate(&self, text: &str, operation: &Operation) -> Result<String, EditFault> {
        let entry_path = EntryPath {
            container: self.container,
            version: None,
            name: self.name,
        };
        let edited = super::after_mark(text, |text| match self.format() {
            Format::Toml => toml::edit(text, &entry_path, operation),
            Format::Json => json::edit(text, &entry_path, operation),
            #[cfg(feature = "yaml")]
            Format::Yaml => super::yaml::edit(text, &entry_path, operation, false),
            _ => Err("a file of this format cannot be edited here".to_owned()),
        });
        edited.map_err(|fact| self.unsupported(fact))
    }

    /// Checks that the edited text has the expected entry, and everything else as before.
    fn check(&self, before: &str, after: &str, expected: Option<&Value>) -> Result<(), EditFault> {
        let mut old = self.parse(before).map_err(EditFault::DoesNotLoad)?;
        let mut new = self.parse(after).map_err(EditFault::WouldNotLoad)?;
        remove(&mut old, self.container, self.name);
        let entry = remove(&mut new, self.container, self.name);
        if old == new && entry.as_ref() == expected {
            Ok(())
        } else {
            Err(self.unsupported(
                "the edit would change more than this one entry; edit the file by hand".to_owned(),
            ))
        }
    }

    fn parse(&self, text: &str) -> Result<Value, ConfigErrors> {
        if text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        let mut diagnostics = Diagnostics::new(Arc::new(self.file.to_owned()), text);
        let document = self.format().parse(text, &mut diagnostics);
        let (errors, _) = diagnostics.finish();
        if errors.is_empty() {
            Ok(plain(&document))
        } else {
            Err(ConfigErrors(errors))
        }
    }

    fn format(&self) -> Format {
        Format::of(self.file).unwrap_or(Format::Json)
    }

    fn unsupported(&self, fact: String) -> EditFault {
        EditFault::Unsupported {
            file: self.file.to_owned(),
            fact,
        }
    }
}

/// Replaces a file atomically. Its permissions stay; a new file gets 0600. A symbolic link is
/// followed.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let exists = path.symlink_metadata().is_ok();
    let target = if exists {
        path.canonicalize()?
    } else {
        path.to_owned()
    };
    write::write(&target, bytes, exists)
}

fn new_value(field: &EntryField) -> NewValue {
    match field {
        EntryField::Text(text) => NewValue::Text(text.clone()),
        EntryField::Texts(texts) => NewValue::Texts(texts.clone()),
        EntryField::Flag(flag) => NewValue::Flag(*flag),
        EntryField::Number(number) => NewValue::Number(*number),
        EntryField::Table(pairs) => {
            let pair = |(key, text): &(String, String)| (key.clone(), NewText::Plain(text.clone()));
            NewValue::Table(pairs.iter().map(pair).collect())
        }
    }
}

fn plain(node: &Node) -> Value {
    match &node.value {
        Tree::Text(text) => text.as_str().into(),
        Tree::Number(number) => serde_json::from_str(number).unwrap_or(number.as_str().into()),
        Tree::Flag(flag) => (*flag).into(),
        Tree::Null => Value::Null,
        Tree::List(items) => items.iter().map(plain).collect(),
        Tree::Table(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), plain(&entry.value)))
            .collect(),
        Tree::Other(kind) => (*kind).into(),
    }
}

/// Removes the entry from a document, and containers that are then empty: an edit may have created
/// them.
fn remove(document: &mut Value, container: &[&str], name: &str) -> Option<Value> {
    let Some((key, deeper)) = container.split_first() else {
        return document.as_object_mut()?.remove(name);
    };
    let removed = remove(document.get_mut(key)?, deeper, name);
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    if document.get(key).is_some_and(is_empty) {
        document.as_object_mut()?.remove(*key);
    }
    removed
}
