//! `trust --list`, `--revoke` and `--folder`: what was accepted, and the current folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use switchboard::store::Store;
use switchboard::trust::{self, AcceptedEntry, AcceptedPermissions};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::output;
use crate::paths::Paths;
use crate::setup::{OutputScope, open_lasting_store, open_store};
use crate::view::server::escaped;

/// What was accepted. No configuration file is read: acceptance can be revoked whatever the files
/// contain now.
struct AcceptedState {
    paths: Paths,
    store: Arc<dyn Store>,
    entries: Vec<AcceptedEntry>,
    permissions: Vec<AcceptedPermissions>,
    folders: Vec<PathBuf>,
}

impl AcceptedState {
    fn read() -> Result<Self, Failure> {
        let paths = Paths::find()?;
        let store = open_store(&paths, OutputScope::Result);
        Self::of(paths, store)
    }

    /// The same, to be changed.
    fn read_to_change() -> Result<Self, Failure> {
        let paths = Paths::find()?;
        let store = open_lasting_store(&paths)?;
        Self::of(paths, store)
    }

    fn of(paths: Paths, store: Arc<dyn Store>) -> Result<Self, Failure> {
        Ok(Self {
            entries: trust::accepted_entries(&*store)?,
            permissions: trust::accepted_permissions(&*store)?,
            folders: trust::accepted_folders(&*store)?,
            paths,
            store,
        })
    }
}

pub(super) fn list(options: &Options) -> Result<u8, Failure> {
    let accepted = AcceptedState::read()?;
    if options.json {
        let servers = accepted.entries.iter().map(
            |entry| json!({ "server": entry.server, "file": entry.file, "accepted": entry.lines }),
        );
        let permissions = accepted
            .permissions
            .iter()
            .map(|of_file| json!({ "file": of_file.file, "accepted": of_file.lines }));
        let document = json!({
            "servers": servers.collect::<Vec<_>>(),
            "permissions": permissions.collect::<Vec<_>>(),
            "folders": accepted.folders
        });
        output::print_json(&document.to_string())?;
        return Ok(0);
    }
    let text = accepted.as_text();
    output::print(if text.is_empty() {
        "nothing was accepted\n"
    } else {
        &text
    })?;
    Ok(0)
}

pub(super) fn revoke(
    options: &Options,
    named: &[String],
    current_folder: bool,
) -> Result<u8, Failure> {
    let accepted = AcceptedState::read_to_change()?;
    if named.is_empty() && !current_folder {
        return Err(Failure::new(Code::Usage, "nothing to revoke was named")
            .hint("name a server, a file or a folder of `switchboard trust --list`, or give --folder for the current folder"));
    }
    let revocation = accepted.named(named, current_folder)?;
    for entry in &revocation.entries {
        entry.revoke(&*accepted.store)?;
    }
    for of_file in &revocation.permissions {
        trust::revoke_permissions(&of_file.file, &*accepted.store)?;
    }
    for folder in &revocation.folders {
        trust::forget_folder(folder, &*accepted.store)?;
    }
    revocation.report(options)
}

/// What is to be revoked.
#[derive(Default)]
struct Revocation<'a> {
    entries: Vec<&'a AcceptedEntry>,
    permissions: Vec<&'a AcceptedPermissions>,
    folders: Vec<PathBuf>,
}

impl Revocation<'_> {
    fn report(&self, options: &Options) -> Result<u8, Failure> {
        if options.json {
            let servers = self
                .entries
                .iter()
                .map(|entry| json!({ "server": entry.server, "file": entry.file }));
            let revoked = json!({
                "servers": servers.collect::<Vec<_>>(),
                "permissions": self.permissions.iter().map(|of_file| &of_file.file).collect::<Vec<_>>(),
                "folders": self.folders
            });
            output::print_json(&json!({ "revoked": revoked }).to_string())?;
            return Ok(0);
        }
        let servers = self.entries.iter().map(|entry| {
            let (server, file) = (escaped(&entry.server), shown(&entry.file));
            format!("revoked: {server} in {file}\n")
        });
        let permissions = self
            .permissions
            .iter()
            .map(|of_file| format!("revoked: permissions of {}\n", escaped(&of_file.file)));
        let folders = self
            .folders
            .iter()
            .map(|folder| format!("revoked: folder {}\n", shown(folder)));
        output::print(
            &servers
                .chain(permissions)
                .chain(folders)
                .collect::<String>(),
        )?;
        Ok(0)
    }
}

impl AcceptedState {
    fn as_text(&self) -> String {
        let mut text = String::new();
        let mut add = |head: String, lines: &[String]| {
            text.push_str(&head);
            for line in lines {
                text.push_str(&format!("  │ {}\n", escaped(line)));
            }
        };
        for entry in &self.entries {
            let (server, file) = (escaped(&entry.server), shown(&entry.file));
            add(format!("server {server} in {file}\n"), &entry.lines);
        }
        for of_file in &self.permissions {
            let head = format!("permissions of {}\n", escaped(&of_file.file));
            add(head, &of_file.lines);
        }
        for folder in &self.folders {
            add(format!("folder {}\n", shown(folder)), &[]);
        }
        text
    }

    /// What these names of servers, files and folders stand for.
    fn named(&self, names: &[String], current_folder: bool) -> Result<Revocation<'_>, Failure> {
        let mut revocation = Revocation::default();
        if current_folder {
            let current = &self.paths.current;
            // A remembered no is forgotten, too.
            if trust::folder_answer(current, &*self.store).is_none() {
                let fact = format!("folder {} was not accepted", shown(current));
                return Err(Failure::new(Code::Usage, fact)
                    .hint("`switchboard trust --list` shows what was accepted"));
            }
            revocation.folders.push(current.clone());
        }
        for name in names {
            let path = std::path::absolute(name).unwrap_or_default();
            let path = path.canonicalize().unwrap_or(path);
            let file = as_stored(&path);
            let entries = self.entries.iter().filter(|entry| entry.file == file);
            let of_file: Vec<_> = entries.collect();
            let permissions: Vec<_> = self.permissions_of(&path).collect();
            if self.folders.contains(&path) {
                revocation.folders.push(path);
            } else if of_file.is_empty() && permissions.is_empty() {
                revocation.entries.push(self.entry(name)?);
            } else {
                revocation.entries.extend(of_file);
                revocation.permissions.extend(permissions);
            }
        }
        self.add_permissions_without_server(&mut revocation);
        Ok(revocation)
    }

    /// The permissions of a file are revoked with its last accepted server: accepting a server
    /// again must not bring them back.
    fn add_permissions_without_server<'a>(&'a self, revocation: &mut Revocation<'a>) {
        let is_revoked = |entry: &AcceptedEntry| {
            let mut revoked = revocation.entries.iter();
            revoked.any(|revoked| **revoked == *entry)
        };
        let has_server = |file: &Path| {
            let mut of_file = self.entries.iter().filter(|entry| entry.file == file);
            of_file.any(|entry| !is_revoked(entry))
        };
        let files = revocation.entries.iter().map(|entry| &entry.file);
        let without = files.filter(|file| !has_server(file));
        let more: Vec<_> = without.flat_map(|file| self.permissions_of(file)).collect();
        for of_file in more {
            if !revocation.permissions.contains(&of_file) {
                revocation.permissions.push(of_file);
            }
        }
    }

    fn permissions_of(&self, file: &Path) -> impl Iterator<Item = &AcceptedPermissions> {
        let file = file.to_string_lossy().into_owned();
        let is_of_file = move |of_file: &&AcceptedPermissions| of_file.file == file;
        self.permissions.iter().filter(is_of_file)
    }

    /// The accepted entry of this name: the one of this project if there are several.
    fn entry(&self, name: &str) -> Result<&AcceptedEntry, Failure> {
        let of_name: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.server == name)
            .collect();
        let project = as_stored(&self.paths.project);
        let of_project = of_name
            .iter()
            .filter(|entry| entry.file.starts_with(&project));
        let found = match of_project.collect::<Vec<_>>().as_slice() {
            [one] => Some(**one),
            [] if of_name.len() == 1 => Some(of_name[0]),
            _ => None,
        };
        found.ok_or_else(|| {
            let fact = match of_name.len() {
                0 => format!("no server \"{}\" was accepted", escaped(name)),
                many => format!("{many} servers named \"{}\" were accepted", escaped(name)),
            };
            let files: Vec<_> = of_name.iter().map(|entry| shown(&entry.file)).collect();
            let hint = match files.is_empty() {
                true => "`switchboard trust --list` shows what was accepted".to_owned(),
                false => format!(
                    "name the file instead, which revokes all its servers: {}",
                    files.join(", ")
                ),
            };
            Failure::new(Code::Usage, fact).hint(hint)
        })
    }
}

pub(super) fn accept_folder(options: &Options) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    trust::accept_folder(&paths.current, &*open_lasting_store(&paths)?)?;
    if options.json {
        output::print_json(&json!({ "folder": paths.current.display().to_string() }).to_string())?;
    } else {
        output::print(&format!(
            "your own servers run in {} from now on\n",
            shown(&paths.current)
        ))?;
    }
    Ok(0)
}

/// A path as acceptances contain it: Unicode, if need be with replacement characters.
fn as_stored(path: &Path) -> PathBuf {
    path.to_string_lossy().into_owned().into()
}

fn shown(path: &Path) -> String {
    escaped(&path.display().to_string())
}
