//! A program to start: its arguments, its whole environment, its working folder.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A program to start. Unlike [`std::process::Command`] it inherits nothing: the child's
/// environment is what [`env`](Self::env) adds, and its standard streams are pipes.
///
/// Values of variables are treated as secrets: they are overwritten when the command is dropped,
/// and `Debug` shows only their names.
#[derive(Clone)]
pub struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arg0: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<OsString, WipedBytes>,
    pub(crate) folder: Option<PathBuf>,
}

impl Command {
    /// The program's path, which is not searched for in `PATH`. It is also `argv[0]` until
    /// [`arg0`](Self::arg0) is called.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self {
            arg0: program.clone().into_os_string(),
            program,
            args: Vec::new(),
            env: BTreeMap::new(),
            folder: None,
        }
    }

    /// Sets `argv[0]`.
    pub fn arg0(mut self, arg0: impl Into<OsString>) -> Self {
        self.arg0 = arg0.into();
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.args.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl AsRef<OsStr>) -> Self {
        let value = WipedBytes(value.as_ref().to_owned().into_vec());
        self.env.insert(name.into(), value);
        self
    }

    /// Sets environment variables.
    pub fn envs(
        self,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl AsRef<OsStr>)>,
    ) -> Self {
        variables
            .into_iter()
            .fold(self, |command, (name, value)| command.env(name, value))
    }

    /// Sets the working folder. Without it the child runs where the launcher was started.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &format_args!("[{} arguments]", self.args.len()))
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Bytes that are overwritten when dropped, because they hold secrets.
#[derive(Clone)]
pub(crate) struct WipedBytes(pub(crate) Vec<u8>);

impl Drop for WipedBytes {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without this the compiler may omit the overwriting: nothing reads the bytes again.
        std::hint::black_box(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_neither_arguments_nor_values() {
        let command = Command::new("/bin/server")
            .arg("--token=canary")
            .env("TOKEN", "canary");
        let shown = format!("{command:?}");
        assert!(
            shown.contains("TOKEN") && !shown.contains("canary"),
            "{shown}"
        );
    }
}
