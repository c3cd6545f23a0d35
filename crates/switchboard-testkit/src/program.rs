//! Finds the programs of the workspace, and describes how a server is started.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The programs and the crate of each.
const PROGRAMS: [(&str, &str); 6] = [
    ("chaosd", "switchboard-testkit"),
    ("wiretee", "switchboard-testkit"),
    ("switchboard", "switchboard-cli"),
    ("switchboard-demo", "switchboard-demo"),
    ("switchboard-launcher", "switchboard-launch"),
    ("rmcp-fixture", "switchboard-rmcp-fixture"),
];

/// The path of a program of this workspace, in the profile that the running test was built with.
///
/// `cargo test -p CRATE` builds the programs of that crate only, so one that is missing, or older
/// than its crate's sources, is built here. Panics when that fails: a test cannot go on without it.
pub fn program(name: &str) -> PathBuf {
    static FOUND: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    // Held while building: the tests of one process wait for one build.
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let found = found.get_or_insert_default();
    if let Some(path) = found.get(name) {
        return path.clone();
    }
    let path = find(name);
    found.insert(name.to_owned(), path.clone());
    path
}

fn find(name: &str) -> PathBuf {
    let (_, package) = PROGRAMS
        .iter()
        .find(|(program, _)| *program == name)
        .unwrap_or_else(|| panic!("no program {name} in this workspace"));
    let profile_folder = profile_folder();
    let path = profile_folder.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
        .with_file_name(package)
        .join("src");
    if modified(&path).is_none_or(|built| newest(&sources).is_some_and(|source| source > built)) {
        build(name, &profile_folder);
    }
    assert!(
        path.exists(),
        "{} is still missing after a build",
        path.display()
    );
    path
}

/// Test executables are in `target/PROFILE/deps`, programs in `target/PROFILE`.
fn profile_folder() -> PathBuf {
    let executable = std::env::current_exe().expect("a running test knows its executable");
    let folder = executable.parent().expect("an executable is in a folder");
    let is_deps = folder.file_name() == Some(OsStr::new("deps"))
        || folder.file_name() == Some(OsStr::new("examples"));
    if is_deps {
        folder.parent().expect("deps is in a folder").to_owned()
    } else {
        folder.to_owned()
    }
}

fn build(name: &str, profile_folder: &Path) {
    let profile = profile_folder
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or("debug");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // As a part of the whole workspace, so that nothing is built in two ways.
    command.args(["build", "--quiet", "--workspace", "--bin", name]);
    command.args([
        "--profile",
        if profile == "debug" { "dev" } else { profile },
    ]);
    command.arg("--target-dir").arg(
        profile_folder
            .parent()
            .expect("a profile is in the target folder"),
    );
    command
        .arg("--manifest-path")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cargo build of {name} did not start: {error}"));
    assert!(
        output.status.success(),
        "cargo build of {name} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(|entry| {
            if entry.path().is_dir() {
                newest(&entry.path())
            } else {
                modified(&entry.path())
            }
        })
        .max()
}

/// How a server is started: what a configuration entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its folder, if not the caller's.
    pub cwd: Option<PathBuf>,
    /// Variables it gets, in this order.
    pub env: Vec<(String, String)>,
}

impl Launch {
    /// A program without arguments.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            cwd: None,
            env: Vec::new(),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.args.push(argument.into());
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with `wiretee` in front, which records to this file; see [`crate::Passed`].
    pub fn teed(&self, record: &Path) -> Self {
        let mut args = vec![
            "--record".to_owned(),
            text(record),
            "--".to_owned(),
            text(&self.command),
        ];
        args.extend(self.args.iter().cloned());
        Self {
            command: program("wiretee"),
            args,
            cwd: self.cwd.clone(),
            env: self.env.clone(),
        }
    }

    /// The same as a command to run directly.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.cwd {
            command.current_dir(folder);
        }
        command
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("test paths are plain text").to_owned()
}
