//! Loads configuration files: reads, parses, interprets and merges them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::Diagnostics;
use super::dialects::recognise;
use super::entry_values::{self, EntryValue};
use super::format::Format;
use super::policy::{Policy, policy};
use super::raw::RawServer;
use super::server_entry::{self, FileContext};
use super::{Config, ConfigErrors, Diagnostic, Dialect, ProjectPermissions, Scope, ServerConfig};
use crate::name::ServerName;
pub(crate) use file_text::may_exist;
use merge::{merge_policies, merge_servers};

mod file_text;
mod merge;

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// The path.
    pub path: PathBuf,
    /// The owner, which determines the trust.
    pub scope: Scope,
    /// Its dialect, if a person named it; else it is recognised by path and content.
    pub dialect: Option<Dialect>,
}

impl ConfigFile {
    /// A file whose dialect is recognised by path and content.
    pub fn new(path: impl Into<PathBuf>, scope: Scope) -> Self {
        Self {
            path: path.into(),
            scope,
            dialect: None,
        }
    }
}

/// Loads the files, highest precedence first, and merges them. Returns the errors of all files at
/// once.
pub fn load(files: &[ConfigFile]) -> Result<Config, ConfigErrors> {
    merged(files, read)
}

/// Loads a text as the content of the only file.
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
                config.permissions_files.extend(read.permissions_file);
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

/// One file, interpreted and not merged yet.
pub(super) struct LoadedFile {
    pub(super) dialect: Dialect,
    pub(super) format: Format,
    /// Each server with its values and their locations.
    pub(super) servers: Vec<(ServerConfig, Vec<EntryValue>)>,
    /// The file's own policy, then that of its permissions file.
    policies: Vec<Policy>,
    /// The file itself and its permissions file, if it has one.
    permissions_file: Option<(Arc<PathBuf>, Arc<PathBuf>)>,
    /// What it would allow without asking, if it is a project's file.
    project: Option<ProjectPermissions>,
    pub(super) warnings: Vec<Diagnostic>,
}

fn read(file: &ConfigFile) -> Result<LoadedFile, Vec<Diagnostic>> {
    interpret(file, &read_text(file)?)
}

/// The text of a file.
pub(super) fn read_text(file: &ConfigFile) -> Result<String, Vec<Diagnostic>> {
    file_text::read(&Arc::new(file.path.clone()), file.scope)
}

/// Interprets a text as the content of a file. The file itself is not read.
pub(super) fn interpret(file: &ConfigFile, text: &str) -> Result<LoadedFile, Vec<Diagnostic>> {
    let shown = Arc::new(file.path.clone());
    // Links in the folder's path are resolved once, so that relative paths stay stable. If the file
    // itself is a link, it is not followed: the target's folder and trust must not apply to it.
    let located = Arc::new(resolve_links(&file.path));
    let mut diagnostics = Diagnostics::new(shown.clone(), text);
    let format = format_of(&file.path, file.dialect, text);
    let document = format.parse(text, &mut diagnostics);
    let dialect = file
        .dialect
        .unwrap_or_else(|| recognise(&located, format, &document, &mut diagnostics));
    let written = dialect.reader().open(&document, &mut diagnostics);
    let beside = read_permissions_file(file, &located, dialect);
    let context = FileContext {
        folder: Arc::new(base_folder(&located, dialect, file.scope)),
        file: located,
        scope: file.scope,
        dialect,
    };
    let (servers, trusted) = interpret_servers(&written.servers, &context, &mut diagnostics);
    let mut policies = vec![policy(
        &written,
        &shown,
        file.scope,
        dialect,
        &mut diagnostics,
    )];
    let (mut errors, mut warnings) = diagnostics.finish();
    let mut permissions_file = None;
    match beside {
        Ok(None) => {}
        Ok(Some(beside)) => {
            permissions_file = Some((shown, beside.file));
            policies.push(beside.policy);
            warnings.extend(beside.warnings);
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
            permissions_file,
            project,
            warnings,
        })
    } else {
        Err(errors)
    }
}

/// The servers of a file with their values, and the names of those with `trust = true`.
fn interpret_servers(
    entries: &[RawServer],
    context: &FileContext,
    diagnostics: &mut Diagnostics<'_>,
) -> (Vec<(ServerConfig, Vec<EntryValue>)>, Vec<ServerName>) {
    let dialect = context.dialect;
    let mut servers = Vec::with_capacity(entries.len());
    let mut trusted = Vec::new();
    for entry in entries {
        let errors_before = diagnostics.errors.len();
        let fields = dialect.reader().entry(entry, diagnostics);
        let server = fields
            .as_ref()
            .and_then(|fields| server_entry::server(entry, fields, context, diagnostics));
        // In a lenient dialect the first error of an entry becomes its server's state.
        let errors = if dialect.profile().strict {
            Vec::new()
        } else {
            diagnostics.errors.split_off(errors_before)
        };
        let server = match errors.into_iter().next() {
            Some(error) => server_entry::invalid_server(entry, error, context, diagnostics),
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
                entry_values::values(&entry.node, fields, dialect.profile().syntax, diagnostics)
            });
            servers.push((server, values.unwrap_or_default()));
        }
    }
    (servers, trusted)
}

/// The format of a file: by its extension, by its dialect if a person named it, or by how it begins.
pub(super) fn format_of(path: &Path, dialect: Option<Dialect>, text: &str) -> Format {
    let of_dialect = || dialect.map(|dialect| dialect.profile().format);
    Format::of(path)
        .or_else(of_dialect)
        .unwrap_or_else(|| Format::guess(text))
}

/// A file that has permissions alone, interpreted.
struct LoadedPermissions {
    file: Arc<PathBuf>,
    policy: Policy,
    warnings: Vec<Diagnostic>,
}

/// Reads the dialect's separate permissions file, if it has one and the file exists.
fn read_permissions_file(
    file: &ConfigFile,
    located: &Path,
    dialect: Dialect,
) -> Result<Option<LoadedPermissions>, Vec<Diagnostic>> {
    let Some(name) = dialect
        .profile()
        .permissions_file
        .filter(|_| in_own_folder(located, dialect))
    else {
        return Ok(None);
    };
    let path = file.path.with_file_name(name);
    if !may_exist(&path) {
        return Ok(None);
    }
    let shown = Arc::new(path);
    if file.scope == Scope::Project && shown.is_symlink() {
        let message = "is a symbolic link; a project's file is read only without one";
        return Err(vec![Diagnostic::of_file(&shown, message)]);
    }
    let text = file_text::read(&shown, file.scope)?;
    let mut diagnostics = Diagnostics::new(shown.clone(), &text);
    let document = dialect.profile().format.parse(&text, &mut diagnostics);
    let written = dialect.reader().permissions(&document, &mut diagnostics);
    let policy = policy(&written, &shown, file.scope, dialect, &mut diagnostics);
    let (errors, warnings) = diagnostics.finish();
    if errors.is_empty() {
        Ok(Some(LoadedPermissions {
            file: shown,
            policy,
            warnings,
        }))
    } else {
        Err(errors)
    }
}

/// The file's path with all links of its folder resolved.
pub(super) fn resolve_links(path: &Path) -> PathBuf {
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

/// Folders in which editors keep the `mcp.json` of a project.
const EDITOR_FOLDERS: [&str; 2] = [".vscode", ".cursor"];

/// The base of a file's relative paths: its folder; the folder around it, if the dialect or an
/// editor keeps its file in a folder of its own; or the current folder, for the user's file of a dialect that says
/// so.
pub(super) fn base_folder(located: &Path, dialect: Dialect, scope: Scope) -> PathBuf {
    let own = located.parent().unwrap_or(Path::new(""));
    let is_of_editor = scope != Scope::User
        && dialect == Dialect::McpJson
        && EDITOR_FOLDERS.iter().any(|name| own.ends_with(name));
    if !is_of_editor && !in_own_folder(located, dialect) {
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
