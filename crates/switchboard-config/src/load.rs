//! Reads files and merges them by whole entries.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use super::diagnostic::Diagnostics;
use super::dialects::recognise;
use super::entry_values::{self, EntryValue};
use super::format::Format;
use super::policy::{Policy, policy};
use super::server_entry::{self, FileContext};
use super::{Config, ConfigErrors, Diagnostic, Dialect, ProjectPermissions, ServerConfig};
use merge::{merge_policies, merge_servers};

mod merge;

/// Whose file it is: decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The user's own: trusted.
    User,
    /// A project's: inert until trusted; what it would let run without asking counts once that was
    /// accepted, too.
    Project,
    /// Given with `-c`: trusted for this run.
    Given,
}

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub scope: Scope,
    /// What kind it is, where a person said so; found out by its path and shape where not.
    pub dialect: Option<Dialect>,
}

impl ConfigFile {
    /// A file whose kind is found out.
    pub fn new(path: impl Into<PathBuf>, scope: Scope) -> Self {
        Self {
            path: path.into(),
            scope,
            dialect: None,
        }
    }
}

/// No configuration is larger; a larger file is a mistake, or meant to exhaust us (T27).
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads the files, highest precedence first, and merges them. All errors of all files come back at
/// once.
pub fn load(files: &[ConfigFile]) -> Result<Config, ConfigErrors> {
    merged(files, read)
}

/// What a text means as the content of the only file.
#[cfg(feature = "fuzzing")]
pub(super) fn load_text(file: &ConfigFile, text: &str) -> Result<Config, ConfigErrors> {
    merged(std::slice::from_ref(file), |file| interpret(file, text))
}

fn merged(
    files: &[ConfigFile],
    read: impl Fn(&ConfigFile) -> Result<LoadedFile, Vec<Diagnostic>>,
) -> Result<Config, ConfigErrors> {
    let mut config = Config::default();
    let mut errors = Vec::new();
    let mut policies = Vec::new();
    for file in files {
        match read(file) {
            Ok(read) => {
                config.warnings.extend(read.warnings);
                merge_servers(&mut config, read.servers);
                config.project_permissions.extend(read.project);
                policies.extend(read.policies.into_iter().map(|policy| (file.scope, policy)));
            }
            Err(found) => errors.extend(found),
        }
    }
    merge_policies(&mut config, policies);
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(ConfigErrors(errors))
    }
}

/// One file as meant, before it meets the others.
pub(super) struct LoadedFile {
    pub(super) dialect: Dialect,
    pub(super) format: Format,
    /// Each with what it says, and where.
    pub(super) servers: Vec<(ServerConfig, Vec<EntryValue>)>,
    /// Its own, then that of the file beside it.
    policies: Vec<Policy>,
    /// What it would let run without asking, where it is a project's.
    project: Option<ProjectPermissions>,
    warnings: Vec<Diagnostic>,
}

fn read(file: &ConfigFile) -> Result<LoadedFile, Vec<Diagnostic>> {
    interpret(file, &text_of(file)?)
}

/// The text of a file.
pub(super) fn text_of(file: &ConfigFile) -> Result<String, Vec<Diagnostic>> {
    let shown = Arc::new(file.path.clone());
    let bytes = read_text(&shown, file.scope)
        .map_err(|message| vec![Diagnostic::of_file(&shown, message)])?;
    as_text(&bytes, &shown).map(str::to_owned)
}

/// What a text means as the content of a file, which is not read.
pub(super) fn interpret(file: &ConfigFile, text: &str) -> Result<LoadedFile, Vec<Diagnostic>> {
    let shown = Arc::new(file.path.clone());
    // The folder is resolved once, so that what is relative to it cannot come to mean another
    // place. The file's own link is not followed: what a link points to must not lend it its
    // folder or its trust.
    let located = Arc::new(locate(&file.path));
    let mut diagnostics = Diagnostics::new(shown.clone(), text);
    let format = Format::of(&file.path).unwrap_or_else(|| Format::guess(file.dialect, text));
    let document = format.parse(text, &mut diagnostics);
    let dialect = file
        .dialect
        .unwrap_or_else(|| recognise(&located, format, &document, &mut diagnostics));
    let written = dialect.reader().open(&document, &mut diagnostics);
    let beside = permissions_beside(file, &located, dialect);
    let context = FileContext {
        folder: Arc::new(folder(&located, dialect, file.scope)),
        file: located,
        scope: file.scope,
        dialect,
    };
    let mut servers = Vec::with_capacity(written.servers.len());
    let mut trusted = Vec::new();
    for entry in &written.servers {
        let told = diagnostics.errors.len();
        let fields = dialect.reader().entry(entry, &mut diagnostics);
        let server = fields
            .as_ref()
            .and_then(|fields| server_entry::server(entry, fields, &context, &mut diagnostics));
        // C12: where a wrong entry stops nobody, the first thing that is wrong with it is its
        // server's state.
        let wrong = if dialect.profile().strict {
            Vec::new()
        } else {
            diagnostics.errors.split_off(told)
        };
        let server = match wrong.into_iter().next() {
            Some(fault) => server_entry::invalid_server(entry, fault, &context, &mut diagnostics),
            None => server,
        };
        if let Some(server) = server {
            if fields
                .as_ref()
                .is_some_and(|fields| fields.flag("trust") == Some(true))
            {
                trusted.push(server.name.clone());
            }
            let values = fields.as_ref().map(|fields| {
                entry_values::values(&entry.node, fields, dialect.profile().syntax, &diagnostics)
            });
            servers.push((server, values.unwrap_or_default()));
        }
    }
    let mut policies = vec![policy(
        &written,
        &shown,
        file.scope,
        dialect,
        &mut diagnostics,
    )];
    let (mut errors, mut warnings) = diagnostics.finish();
    match beside {
        Ok(None) => {}
        Ok(Some((policy, told))) => {
            policies.push(policy);
            warnings.extend(told);
        }
        Err(found) => errors.extend(found),
    }
    let project = (file.scope == Scope::Project).then(|| {
        let names: Vec<_> = servers
            .iter()
            .map(|(server, _): &(ServerConfig, _)| server.name.clone())
            .collect();
        ProjectPermissions::collect(&context.file, dialect, &mut policies, &names, trusted)
    });
    if errors.is_empty() {
        Ok(LoadedFile {
            dialect,
            format,
            servers,
            policies,
            project,
            warnings,
        })
    } else {
        Err(errors)
    }
}

/// S0-42: what the file beside says of permissions, where the dialect has one and it is there.
fn permissions_beside(
    file: &ConfigFile,
    located: &Path,
    dialect: Dialect,
) -> Result<Option<(Policy, Vec<Diagnostic>)>, Vec<Diagnostic>> {
    let Some(name) = dialect
        .profile()
        .permissions_file
        .filter(|_| in_own_folder(located, dialect))
    else {
        return Ok(None);
    };
    let path = file.path.with_file_name(name);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let shown = Arc::new(path);
    let bytes = read_text(&shown, file.scope)
        .map_err(|message| vec![Diagnostic::of_file(&shown, message)])?;
    let text = as_text(&bytes, &shown)?;
    let mut diagnostics = Diagnostics::new(shown.clone(), text);
    let document = dialect.profile().format.parse(text, &mut diagnostics);
    let written = dialect.reader().permissions(&document, &mut diagnostics);
    let policy = policy(&written, &shown, file.scope, dialect, &mut diagnostics);
    let (errors, warnings) = diagnostics.finish();
    if errors.is_empty() {
        Ok(Some((policy, warnings)))
    } else {
        Err(errors)
    }
}

fn as_text<'t>(bytes: &'t [u8], shown: &Arc<PathBuf>) -> Result<&'t str, Vec<Diagnostic>> {
    std::str::from_utf8(bytes).map_err(|fault| {
        let (line, column) = place_of_bad_byte(bytes, fault.valid_up_to());
        vec![Diagnostic {
            file: shown.clone(),
            line,
            column,
            field: String::new(),
            message: "not UTF-8 text; save the file as UTF-8".to_owned(),
        }]
    })
}

fn read_text(path: &Path, scope: Scope) -> Result<Vec<u8>, String> {
    // A pipe planted in a project must not make us wait: it is opened without waiting, and refused
    // below.
    let flags = if scope == Scope::Given {
        OFlag::empty()
    } else {
        OFlag::O_NONBLOCK
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err("is a folder; expected a file".to_owned());
    }
    if !metadata.is_file() && scope != Scope::Given {
        return Err("is not a regular file; expected one".to_owned());
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(
            "larger than 1 MiB, which no configuration is; is it the right file?".to_owned(),
        );
    }
    Ok(text)
}

pub(super) fn unreadable(fault: std::io::Error) -> String {
    match fault.kind() {
        std::io::ErrorKind::NotFound => "no such file; correct the path".to_owned(),
        std::io::ErrorKind::PermissionDenied => {
            "cannot be read: permission denied; try `chmod u+r`, or another file".to_owned()
        }
        _ => format!("cannot be read: {fault}"),
    }
}

fn place_of_bad_byte(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    (
        line,
        String::from_utf8_lossy(&before[line_start..])
            .chars()
            .count()
            + 1,
    )
}

/// The file's place: its folder with all links followed, and its own name.
fn locate(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (
        absolute
            .parent()
            .and_then(|folder| folder.canonicalize().ok()),
        absolute.file_name(),
    ) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// What relative paths of a file start at: its folder; the folder around it, where the dialect
/// keeps its file in a folder of its own; and the current folder for the user's file of a dialect
/// that says so (S2-60).
fn folder(located: &Path, dialect: Dialect, scope: Scope) -> PathBuf {
    let own = located.parent().unwrap_or(Path::new(""));
    if !in_own_folder(located, dialect) {
        return own.to_owned();
    }
    let around = own.parent().unwrap_or(own).to_owned();
    match scope == Scope::User && dialect.profile().user_paths_start_at_current_folder {
        true => std::path::absolute(".").unwrap_or(around),
        false => around,
    }
}

fn in_own_folder(located: &Path, dialect: Dialect) -> bool {
    let folder = located.parent().and_then(Path::file_name);
    dialect
        .profile()
        .own_folder
        .is_some_and(|name| folder.is_some_and(|folder| folder == name))
}
