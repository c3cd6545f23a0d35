//! A client's file: read, compared with our entry, backed up and written.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use switchboard::config::{EditFault, EntryAddress, EntryField, replace_file};
use switchboard::store::timestamp;

use super::entry::{self, EntryFields, Ownership};
use super::{Client, ENTRY_NAME, StdioForm};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::view::server::escaped;

/// Larger files are refused. Claude Code's own file grows to several MiB.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How often an edit is repeated because the client wrote the file meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// How many backups are compared with a file.
const MAX_BACKUPS: usize = 50;

const BACKUP_SUFFIX: &str = ".switchboard-backup";

/// The first line of a file that holds our entry alone.
const OWN_FILE: &str = "# Written by `switchboard install`; `switchboard uninstall` removes it.\n";

/// A client's file as it was read.
#[derive(Debug, Clone)]
pub(crate) struct ClientFile {
    pub(crate) client: &'static Client,
    pub(crate) path: PathBuf,
    /// `None` if there is no file.
    pub(crate) text: Option<String>,
}

/// A change of the file.
#[derive(Debug, Clone)]
pub(crate) enum FileChange {
    /// Add our entry; with `force`, replace another one of our name.
    Install { fields: EntryFields, force: bool },
    /// Remove our entry; with `force`, even if it was changed or is not ours.
    Uninstall { force: bool },
}

/// The effect of a change on the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// None: the entry is there already.
    Unchanged,
    /// None: there is no entry of our name.
    NotInstalled,
    /// None, for this reason.
    Left(String),
    /// Write this text.
    Write(String),
    /// Restore this backup, from before the entry was added.
    Restore(PathBuf, String),
    /// Delete the file, which has our entry alone.
    Delete,
}

/// What was done to a file.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) backup: Option<PathBuf>,
}

impl ClientFile {
    /// Reads the file of a client.
    pub(crate) fn read(client: &'static Client, paths: &Paths) -> Result<Self, Failure> {
        let path = client.file(paths);
        let text = read_text(&path).map_err(|fault| failure(client, &path, "read", &fault))?;
        Ok(Self { client, path, text })
    }

    /// Plans a change without writing.
    pub(crate) fn plan(&self, change: &FileChange) -> Result<Plan, Failure> {
        if self.client.stdio == StdioForm::Continue {
            return self.plan_own_file(change);
        }
        let found = self.entry()?;
        let text = self.text.as_deref().unwrap_or_default();
        let ownership = found
            .as_ref()
            .map(|entry| entry::ownership(self.client, entry));
        match (change, found) {
            (FileChange::Install { fields, .. }, Some(entry))
                if entry::has_fields(&entry, fields) =>
            {
                Ok(Plan::Unchanged)
            }
            (FileChange::Install { force: false, .. }, Some(_))
                if ownership == Some(Ownership::Foreign) =>
            {
                Err(self.name_in_use())
            }
            (FileChange::Install { force: false, .. }, Some(_))
                if ownership == Some(Ownership::Changed) =>
            {
                Err(self.entry_changed())
            }
            (FileChange::Install { fields, .. }, _) => {
                Ok(Plan::Write(self.with_entry(text, fields)?))
            }
            (FileChange::Uninstall { .. }, None) => Ok(Plan::NotInstalled),
            (FileChange::Uninstall { force }, Some(entry)) => match ownership {
                Some(Ownership::Ours) => self.plan_removal(text, &entry),
                _ if *force => self.plan_removal(text, &entry),
                Some(Ownership::Changed) => Ok(left_changed()),
                _ => Ok(Plan::Left(format!(
                    "its entry \"{ENTRY_NAME}\" was not written by `install`; `--force` removes it"
                ))),
            },
        }
    }

    /// The text with this entry alone, as `--print` shows it.
    pub(crate) fn sample(&self, fields: &EntryFields) -> Result<String, Failure> {
        if self.client.stdio == StdioForm::Continue {
            return Ok(own_file(fields));
        }
        self.with_entry("", fields)
    }

    /// Applies a change. The file is read again first, and once more each time the client writes it
    /// meanwhile.
    pub(crate) fn apply(mut self, change: &FileChange) -> Result<(Plan, Written), Failure> {
        for _ in 0..MAX_ATTEMPTS {
            let plan = self.plan(change)?;
            let now = read_text(&self.path).map_err(|fault| self.failure("read", &fault))?;
            if now != self.text {
                self.text = now;
                continue;
            }
            let holds_token = matches!(change, FileChange::Install { fields, .. }
                if entry::holds_token(self.client, fields));
            let written = self
                .write(&plan, holds_token)
                .map_err(|fault| self.failure("written", &fault))?;
            return Ok((plan, written));
        }
        Err(self.failed("is being written by another program all the time; close the client first"))
    }

    fn write(&self, plan: &Plan, holds_token: bool) -> io::Result<Written> {
        let nothing = Written { backup: None };
        let is_write = !matches!(plan, Plan::Unchanged | Plan::NotInstalled | Plan::Left(_));
        if is_write {
            refuse_read_only(&self.path)?;
        }
        // Before the token is in it: what replaces a file has its permissions.
        if holds_token && self.text.is_some() {
            std::fs::set_permissions(&self.path, Permissions::from_mode(0o600))?;
        }
        if !is_write {
            return Ok(nothing);
        }
        let text = match plan {
            Plan::Unchanged | Plan::NotInstalled | Plan::Left(_) => return Ok(nothing),
            Plan::Delete => {
                std::fs::remove_file(&self.path)?;
                return Ok(nothing);
            }
            Plan::Restore(backup, text) => {
                replace_file(&self.path, text.as_bytes())?;
                std::fs::remove_file(backup)?;
                return Ok(nothing);
            }
            Plan::Write(text) => text,
        };
        let backup = back_up(&self.path, self.text.as_deref())?;
        if let Err(fault) = replace_file(&self.path, text.as_bytes()) {
            if let Some(backup) = backup {
                let _ = std::fs::remove_file(backup);
            }
            return Err(fault);
        }
        Ok(Written { backup })
    }

    /// The entry of our name, whoever wrote it.
    pub(crate) fn entry(&self) -> Result<Option<Value>, Failure> {
        let Some(text) = &self.text else {
            return Ok(None);
        };
        let container = self.container(text)?;
        self.address(&container)
            .read(text)
            .map_err(|fault| self.edit_failure(&fault))
    }

    /// Whether `install` wrote an entry into this file, perhaps changed since.
    pub(crate) fn has_gateway_entry(&self) -> bool {
        let entry = self.entry().ok().flatten();
        entry.is_some_and(|entry| entry::written_fields(self.client, &entry).is_some())
    }

    fn with_entry(&self, text: &str, fields: &EntryFields) -> Result<String, Failure> {
        let container = self.container(self.text.as_deref().unwrap_or_default())?;
        let address = self.address(&container);
        address
            .with(text, fields)
            .map_err(|fault| self.edit_failure(&fault))
    }

    fn container(&self, text: &str) -> Result<Vec<&'static str>, Failure> {
        let document = self.address(&[]).value_at(text, &[]);
        let document = document.map_err(|fault| self.edit_failure(&fault))?;
        Ok(self.client.container(document.as_ref()))
    }

    fn address<'a>(&'a self, container: &'a [&'a str]) -> EntryAddress<'a> {
        EntryAddress {
            file: &self.path,
            container,
            name: ENTRY_NAME,
        }
    }

    /// Restores the backup byte for byte if the file was not changed since; else removes the entry.
    fn plan_removal(&self, text: &str, entry: &Value) -> Result<Plan, Failure> {
        let fields = entry::written_fields(self.client, entry).unwrap_or_default();
        let container = self.container(text)?;
        let address = self.address(&container);
        let is_origin = |before: &str| {
            address.read(before).is_ok_and(|entry| entry.is_none())
                && address
                    .with(before, &fields)
                    .is_ok_and(|after| after == text)
        };
        let backups = backups_of(&self.path);
        let origin = backups.into_iter().take(MAX_BACKUPS).find_map(|backup| {
            let before = read_text(&backup).ok()??;
            is_origin(&before).then_some((backup, before))
        });
        if let Some((backup, before)) = origin {
            return Ok(Plan::Restore(backup, before));
        }
        if is_origin("") {
            return Ok(Plan::Delete);
        }
        let without = address.without(text);
        Ok(Plan::Write(
            without.map_err(|fault| self.edit_failure(&fault))?,
        ))
    }

    /// For a client that reads a folder, where our entry is a file of its own.
    fn plan_own_file(&self, change: &FileChange) -> Result<Plan, Failure> {
        let ownership = self.text.as_ref().map(|text| self.own_file_ownership(text));
        match (change, ownership) {
            (FileChange::Install { fields, .. }, Some(_))
                if self.text.as_ref() == Some(&own_file(fields)) =>
            {
                Ok(Plan::Unchanged)
            }
            (FileChange::Install { force: false, .. }, Some(Ownership::Foreign)) => {
                Err(self.name_in_use())
            }
            (FileChange::Install { force: false, .. }, Some(Ownership::Changed)) => {
                Err(self.entry_changed())
            }
            (FileChange::Install { fields, .. }, _) => Ok(Plan::Write(own_file(fields))),
            (FileChange::Uninstall { .. }, None) => Ok(Plan::NotInstalled),
            (FileChange::Uninstall { force: false }, Some(Ownership::Changed)) => {
                Ok(left_changed())
            }
            (FileChange::Uninstall { .. }, Some(Ownership::Foreign)) => Ok(Plan::Left(
                "it was not written by `install`; remove it by hand".to_owned(),
            )),
            (FileChange::Uninstall { .. }, Some(_)) => Ok(Plan::Delete),
        }
    }

    /// Who wrote the text of such a file.
    fn own_file_ownership(&self, text: &str) -> Ownership {
        if !text.starts_with(OWN_FILE) {
            return Ownership::Foreign;
        }
        let document = self.address(&[]).value_at(text, &[]).ok().flatten();
        let entry = document.and_then(|mut document| {
            let mut entry = document.pointer_mut("/mcpServers/0")?.take();
            let headers = entry
                .pointer_mut("/requestOptions/headers")
                .map(Value::take);
            if let (Some(headers), Some(fields)) = (headers, entry.as_object_mut()) {
                fields.insert("headers".to_owned(), headers);
            }
            Some(entry)
        });
        let fields = entry.and_then(|entry| entry::written_fields(self.client, &entry));
        match fields.is_some_and(|fields| own_file(&fields) == text) {
            true => Ownership::Ours,
            false => Ownership::Changed,
        }
    }

    fn entry_changed(&self) -> Failure {
        let fact =
            format!("has an entry \"{ENTRY_NAME}\" that was changed since `install` wrote it");
        self.failed(&fact)
            .hint("`--force` replaces the entry; the added fields are lost")
    }

    fn name_in_use(&self) -> Failure {
        self.failed(&format!(
            "has another entry \"{ENTRY_NAME}\", which was not written by `install`"
        ))
        .hint("`--force` replaces it")
    }

    fn failed(&self, fact: &str) -> Failure {
        let file = escaped(&self.path.display().to_string());
        Failure::new(Code::Usage, format!("{}: {file} {fact}", self.client.name))
    }

    fn failure(&self, verb: &str, fault: &io::Error) -> Failure {
        failure(self.client, &self.path, verb, fault)
    }

    fn edit_failure(&self, fault: &EditFault) -> Failure {
        let lines: Vec<_> = fault.to_string().lines().map(escaped).collect();
        Failure::new(
            Code::Usage,
            format!("{}: {}", self.client.name, lines.join("\n    ")),
        )
    }
}

fn left_changed() -> Plan {
    Plan::Left("its entry was changed since; `--force` removes it".to_owned())
}

fn failure(client: &Client, path: &Path, verb: &str, fault: &io::Error) -> Failure {
    let file = escaped(&path.display().to_string());
    let message = format!("{}: {file} cannot be {verb}: {fault}", client.name);
    Failure::new(Code::Usage, message)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The text of a regular file; `None` if there is none.
pub(crate) fn read_text(path: &Path) -> io::Result<Option<String>> {
    let invalid = |message: &str| io::Error::new(io::ErrorKind::InvalidData, message);
    let found = match path.metadata() {
        Ok(found) => found,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return Ok(None);
        }
        Err(_) if path.is_symlink() => {
            return Err(invalid("it is a symbolic link that leads nowhere"));
        }
        Err(fault) => return Err(fault),
    };
    if !found.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    if found.len() > MAX_BYTES {
        return Err(invalid("it is larger than 64 MiB"));
    }
    let text = String::from_utf8(std::fs::read(path)?);
    text.map(Some)
        .map_err(|_| invalid("it is not UTF-8 text; save the file as UTF-8"))
}

/// Writes a file's text to a new file beside it:
/// `NAME.2026-11-16T17:00:00.000Z.switchboard-backup`. Only the user may read it: it may hold
/// secrets.
pub(crate) fn back_up(path: &Path, text: Option<&str>) -> io::Result<Option<PathBuf>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let stamp = timestamp(SystemTime::now());
    let name = format!("{}.{stamp}{BACKUP_SUFFIX}", file_name(path));
    let backup = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&backup)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(Some(backup))
}

/// Refuses a read-only file: replacing it would work, but somebody made it read-only on purpose.
fn refuse_read_only(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.permissions().mode() & 0o200 == 0 => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is read-only",
        )),
        _ => Ok(()),
    }
}

/// The backups of a file, the newest first.
fn backups_of(path: &Path) -> Vec<PathBuf> {
    let prefix = format!("{}.", file_name(path));
    let Some(Ok(entries)) = path.parent().map(std::fs::read_dir) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = file_name(path);
            name.starts_with(&prefix) && name.ends_with(BACKUP_SUFFIX)
        })
        .collect();
    found.sort();
    found.reverse();
    found
}

/// A file for Continue with our entry alone.
fn own_file(fields: &EntryFields) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let mut text = format!(
        "{OWN_FILE}name: {ENTRY_NAME}\nversion: 1.0.0\nschema: v1\nmcpServers:\n  - name: {ENTRY_NAME}\n"
    );
    for (key, field) in fields {
        match field {
            EntryField::Table(pairs) => {
                text.push_str("    requestOptions:\n      headers:\n");
                for (name, value) in pairs {
                    text.push_str(&format!("        {name}: {}\n", quoted(value)));
                }
            }
            // JSON is YAML.
            field => text.push_str(&format!("    {key}: {}\n", field.to_json())),
        }
    }
    text
}
