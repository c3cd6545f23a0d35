//! `trust --list`, `--revoke` and `--folder`: what was accepted, and the current folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use switchboard::store::Store;
use switchboard::trust::{self, AcceptedEntry};

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
        let (entries, folders) = (
            trust::accepted_entries(&*store)?,
            trust::accepted_folders(&*store)?,
        );
        Ok(Self {
            paths,
            store,
            entries,
            folders,
        })
    }
}

pub(super) fn list(options: &Options) -> Result<u8, Failure> {
    let AcceptedState {
        entries, folders, ..
    } = AcceptedState::read()?;
    if options.json {
        let servers: Vec<_> =
            entries.iter().map(|entry| json!({ "server": entry.server, "file": entry.file, "accepted": entry.lines })).collect();
        output::print_json(&json!({ "servers": servers, "folders": folders }).to_string())?;
        return Ok(0);
    }
    let mut text = String::new();
    for entry in &entries {
        text.push_str(&format!(
            "server {} in {}\n",
            escaped(&entry.server),
            shown(&entry.file)
        ));
        entry
            .lines
            .iter()
            .for_each(|line| text.push_str(&format!("  │ {}\n", escaped(line))));
    }
    folders
        .iter()
        .for_each(|folder| text.push_str(&format!("folder {}\n", shown(folder))));
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
    let (mut entries, mut folders) = (Vec::new(), Vec::new());
    if current_folder {
        folders.push(accepted.paths.current.clone());
    }
    for name in named {
        let path = std::path::absolute(name).unwrap_or_default();
        let path = path.canonicalize().unwrap_or(path);
        let of_file: Vec<_> = accepted
            .entries
            .iter()
            .filter(|entry| entry.file == path)
            .collect();
        if accepted.folders.contains(&path) {
            folders.push(path);
        } else if of_file.is_empty() {
            entries.push(accepted.entry(name)?);
        } else {
            entries.extend(of_file);
        }
    }
    for entry in &entries {
        entry.revoke(&*accepted.store)?;
    }
    for folder in &folders {
        trust::forget_folder(folder, &*accepted.store)?;
    }
    if options.json {
        let servers: Vec<_> = entries
            .iter()
            .map(|entry| json!({ "server": entry.server, "file": entry.file }))
            .collect();
        output::print_json(
            &json!({ "revoked": { "servers": servers, "folders": folders } }).to_string(),
        )?;
    } else {
        let servers = entries.iter().map(|entry| {
            format!(
                "revoked: {} in {}\n",
                escaped(&entry.server),
                shown(&entry.file)
            )
        });
        let folders = folders
            .iter()
            .map(|folder| format!("revoked: folder {}\n", shown(folder)));
        output::print(&servers.chain(folders).collect::<String>())?;
    }
    Ok(0)
}

impl AcceptedState {
    /// The accepted entry of this name: the one of this project if there are several.
    fn entry(&self, name: &str) -> Result<&AcceptedEntry, Failure> {
        let of_name: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.server == name)
            .collect();
        let of_project = of_name
            .iter()
            .filter(|entry| entry.file.starts_with(&self.paths.project));
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
        output::print_json(&json!({ "folder": paths.current }).to_string())?;
    } else {
        output::print(&format!(
            "your own servers run in {} from now on\n",
            shown(&paths.current)
        ))?;
    }
    Ok(0)
}

fn shown(path: &Path) -> String {
    escaped(&path.display().to_string())
}
