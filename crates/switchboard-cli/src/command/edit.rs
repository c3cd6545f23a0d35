//! `add`, `remove`, `enable`, `disable`: change one entry of the user's own file or of a given
//! file; comments and order stay.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use switchboard::config::{
    self, Change, ConfigFile, Dialect, EditFault, EditOutcome, NewServer, Scope, ServerConfig,
    ServerTarget,
};
use switchboard::shell;

use crate::arguments::{Options, path_completer, server_names};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::terminal::tty::Tty;
use crate::view::server::escaped;
use crate::{hints, output};

/// Arguments of `add`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard add time -- uvx mcp-server-time\n  switchboard add github --env GITHUB_TOKEN='${GITHUB_TOKEN}' -- npx -y server-github\n  switchboard add docs https://example.com/mcp --header Authorization='Bearer ${DOCS_TOKEN}'\n  switchboard add time --file .gemini/settings.json -- uvx mcp-server-time"
)]
pub(crate) struct AddArgs {
    /// Name of the server
    name: String,
    /// URL of an HTTP server
    #[arg(value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Environment variable for the program; ${NAME} refers to one of yours (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Header for each request; ${NAME} refers to a variable (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    header: Vec<(String, String)>,
    /// Working folder of the program; like its path, relative to the current folder
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Transport, if it should not be detected
    #[arg(long, value_parser = ["stdio", "http", "sse"])]
    transport: Option<String>,
    #[command(flatten)]
    pub(crate) target_file: FileArgs,
    /// The program and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Arguments of `remove`, `enable` and `disable`.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// Name of the server
    #[arg(add = server_names())]
    name: String,
    #[command(flatten)]
    pub(crate) target_file: FileArgs,
}

/// The file to change.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Change this file, in its own dialect and format, instead of your own switchboard.toml; `-c
    /// FILE` does the same
    #[arg(long, value_name = "FILE", add = path_completer())]
    pub(crate) file: Option<PathBuf>,
}

impl FileArgs {
    /// The file that was named: with `--file`, or as the only one with `-c`.
    fn path<'a>(&'a self, options: &'a Options) -> Result<Option<&'a PathBuf>, Failure> {
        match (&self.file, options.config.as_slice()) {
            (Some(file), _) => Ok(Some(file)),
            (None, []) => Ok(None),
            (None, [file]) => Ok(Some(file)),
            (None, _) => Err(Failure::new(
                Code::Usage,
                "several files are given with -c, and one of them is to be changed",
            )
            .hint("name it with --file")),
        }
    }
}

pub(crate) fn add(options: &Options, args: AddArgs) -> Result<u8, Failure> {
    let AddArgs {
        name,
        url,
        env,
        header,
        cwd,
        transport,
        target_file,
        command,
    } = args;
    let target = match (url, command.split_first()) {
        (Some(url), _) => ServerTarget::Url(url),
        (None, Some((program, arguments))) => {
            ServerTarget::Command(program.clone(), arguments.to_vec())
        }
        (None, None) => {
            return Err(
                Failure::new(Code::Usage, "neither a URL nor a program is given")
                    .hint("give a URL, or the program after `--`"),
            );
        }
    };
    let addition = NewServer {
        name: name.clone(),
        target,
        transport,
        env,
        headers: header,
        cwd,
    };
    change(options, &target_file, Change::Add(addition), &name, "added")
}

pub(crate) fn remove(options: &Options, args: &EditArgs) -> Result<u8, Failure> {
    change(
        options,
        &args.target_file,
        Change::Remove(args.name.clone()),
        &args.name,
        "removed",
    )
}

pub(crate) fn enable(options: &Options, args: &EditArgs, is_enabled: bool) -> Result<u8, Failure> {
    let done = if is_enabled { "enabled" } else { "disabled" };
    change(
        options,
        &args.target_file,
        Change::Enable(args.name.clone(), is_enabled),
        &args.name,
        done,
    )
}

fn change(
    options: &Options,
    target_file: &FileArgs,
    change: Change,
    name: &str,
    done: &str,
) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    let chosen = target_file.path(options)?;
    let mut file = file_to_change(&paths, options, chosen);
    let mut edited = config::edit(&file, &change);
    if let (Err(EditFault::NoSuchServer { .. }), None) = (&edited, chosen)
        && let Some(holder) = effective_entry(&paths, options, name)
    {
        file = confirm_other_file(options, holder, name, done)?;
        edited = config::edit(&file, &change);
    }
    let edited = edited.map_err(|fault| {
        let is_elsewhere = effective_entry(&paths, options, name).is_some();
        edit_failure(fault, &change, name, chosen, options.dialect, is_elsewhere)
    })?;
    let shown = escaped(&edited.file.display().to_string());
    let verb = match (edited.unchanged, edited.created) {
        (true, _) => format!("already {done}"),
        (false, true) => format!("{done}, in a new file"),
        (false, false) => done.to_owned(),
    };
    if options.json {
        let document = serde_json::json!({
            "server": name, "done": done, "file": edited.file.display().to_string(), "line": edited.line,
            "dialect": edited.dialect.profile().name, "created": edited.created, "unchanged": edited.unchanged
        });
        output::print_json(&document.to_string())?;
    } else {
        output::print(&format!(
            "{verb}: \"{}\" ({shown}:{})\n",
            escaped(name),
            edited.line
        ))?;
    }
    print_follow_up(&paths, options, &file, &edited, &change, name);
    Ok(0)
}

/// The file to change, with its scope.
fn file_to_change(paths: &Paths, options: &Options, chosen: Option<&PathBuf>) -> ConfigFile {
    let Some(path) = chosen else {
        return ConfigFile::new(paths.own_file(), Scope::User);
    };
    let same = |other: &PathBuf| matches!((path.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other);
    let found = paths
        .found_files()
        .into_iter()
        .find(|file| same(&file.path));
    let scope = found.as_ref().map_or(Scope::Given, |file| file.scope);
    let dialect = options
        .dialect
        .or_else(|| found.and_then(|file| file.dialect));
    ConfigFile {
        dialect,
        ..ConfigFile::new(path, scope)
    }
}

/// The effective entry of this name in this folder, from any file.
fn effective_entry(paths: &Paths, options: &Options, name: &str) -> Option<Arc<ServerConfig>> {
    let files = paths.config_files(&Options {
        config: Vec::new(),
        ..options.clone()
    });
    config::load(&files)
        .ok()?
        .servers
        .values()
        .find(|server| server.name.as_str() == name)
        .cloned()
}

/// The file of an entry that is not in the user's own file: changed after a yes at a terminal;
/// otherwise an error that names it.
fn confirm_other_file(
    options: &Options,
    holder: Arc<ServerConfig>,
    name: &str,
    done: &str,
) -> Result<ConfigFile, Failure> {
    let path = holder.source.file.to_path_buf();
    let shown = escaped(&path.display().to_string());
    let fact = format!(
        "server \"{}\" is in {shown}, not in your own file",
        escaped(name)
    );
    if let Some(terminal) = Tty::open().filter(|_| !options.json) {
        let question = format!("{fact}. Change that file?");
        if terminal.confirm_blocking(&question)? == Some(true) {
            return Ok(ConfigFile {
                dialect: Some(holder.dialect),
                ..ConfigFile::new(path, holder.source.scope)
            });
        }
    }
    let verb = match done {
        "removed" => "remove",
        "enabled" => "enable",
        _ => "disable",
    };
    let hint = format!(
        "to change that file: {}",
        hints::with_file(&path, None, &[verb], &[name])
    );
    Err(Failure::new(Code::Usage, fact)
        .server(escaped(name))
        .hint(hint))
}

/// Notices about what else the change needs: trust, another file's entry, a file that is not read
/// by default.
fn print_follow_up(
    paths: &Paths,
    options: &Options,
    file: &ConfigFile,
    edited: &EditOutcome,
    change: &Change,
    name: &str,
) {
    let same = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == edited.file);
    let found = paths
        .found_files()
        .into_iter()
        .find(|other| same(&other.path));
    let name = escaped(name);
    if let (Change::Add(_), Some(Scope::Project)) = (change, found.as_ref().map(|file| file.scope))
    {
        let trust = hints::command(&["trust", name.as_str()]);
        output::notice(&format!(
            "a project's server starts once it is trusted: review it with {trust}"
        ));
    }
    if found.is_none() {
        output::notice(&format!(
            "Switchboard reads this file only with `-c`: {}",
            hints::with_file(&file.path, options.dialect, &[], &[])
        ));
        return;
    }
    if let Some(holder) =
        effective_entry(paths, options, &name).filter(|holder| !same(&holder.source.file))
    {
        let source = &holder.source;
        let place = format!(
            "{}:{}",
            escaped(&source.file.display().to_string()),
            source.line
        );
        output::notice(&match change {
            Change::Remove(_) => {
                format!("\"{name}\" is still configured: {place} has an entry of this name")
            }
            _ => format!("another file's entry of this name takes precedence: {place}"),
        });
    }
}

/// `chosen` is the file that the command line names; `is_elsewhere`: a file that is read by default
/// has such an entry.
fn edit_failure(
    fault: EditFault,
    change: &Change,
    name: &str,
    chosen: Option<&PathBuf>,
    dialect: Option<Dialect>,
    is_elsewhere: bool,
) -> Failure {
    let message = fault.to_string();
    let lines: Vec<_> = message.lines().map(escaped).collect();
    let failure = Failure::new(Code::Usage, lines.join("\n")).server(escaped(name));
    match fault {
        EditFault::NoSuchServer { .. } if is_elsewhere => failure.hint(format!(
            "`switchboard why {}` shows which file has the entry; name that file with --file",
            shell::argument(name)
        )),
        EditFault::Unsupported { .. } if matches!(change, Change::Enable(..)) => {
            let command = match chosen {
                Some(file) => hints::with_file(file, dialect, &["remove"], &[name]),
                None => format!("`switchboard remove {}`", shell::argument(name)),
            };
            failure.hint(format!("try {command}"))
        }
        _ => failure,
    }
}

/// `NAME=VALUE`. The error does not repeat the value.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
