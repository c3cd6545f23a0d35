//! Folders and variables. The library reads neither; the program reads them here, once, and hands them over.

use std::path::PathBuf;

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use switchboard::auth::VaultChoice;
use switchboard::config::{self, ConfigFile, Environment, Scope};

use crate::arguments::Options;
use crate::failure::{Code, Failure};

/// Where things are on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The working folder, which is the project's.
    pub(crate) project: PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub(crate) config: PathBuf,
    /// The home folder.
    pub(crate) home: PathBuf,
    /// `switchboard` under `XDG_STATE_HOME` or `~/.local/state`.
    pub(crate) state: PathBuf,
}

impl Place {
    /// Looks around.
    pub(crate) fn find() -> Result<Self, Failure> {
        let project = std::env::current_dir()
            .map_err(|error| Failure::new(Code::Usage, format!("the working folder cannot be read: {error}")))?;
        let base = Xdg::new().map_err(|_| Failure::new(Code::Usage, "no home folder is known").hint("set HOME"))?;
        let state = base.state_dir().unwrap_or_else(|| base.home_dir().join(".local/state"));
        Ok(Self { project, config: base.config_dir(), home: base.home_dir().to_owned(), state: state.join("switchboard") })
    }

    /// The files to read, highest precedence first: those given, or those found.
    pub(crate) fn config_files(&self, options: &Options) -> Vec<ConfigFile> {
        if options.config.is_empty() {
            return self.found_files();
        }
        let given = |path: &PathBuf| ConfigFile { dialect: options.dialect, ..ConfigFile::new(path, Scope::Given) };
        options.config.iter().map(given).collect()
    }

    /// The files of the search order that exist.
    pub(crate) fn found_files(&self) -> Vec<ConfigFile> {
        config::search(&self.project, &self.config, &self.home)
    }

    /// Every file of the search order, there or not.
    pub(crate) fn searched(&self) -> Vec<PathBuf> {
        config::search_order(&self.project, &self.config, &self.home).into_iter().map(|file| file.path).collect()
    }

    /// Where each server's log stands.
    pub(crate) fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// Where answers go that are too long to print.
    pub(crate) fn results(&self) -> PathBuf {
        self.state.join("results")
    }
}

/// The process's variables. One that is not Unicode cannot be referred to, and is left out.
pub(crate) fn environment() -> Environment {
    Environment::new(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))))
}

/// Where tokens are kept, where a person or a test says so: `SWITCHBOARD_VAULT=keyring` or `file`.
pub(crate) fn vault_choice() -> VaultChoice {
    match std::env::var("SWITCHBOARD_VAULT").as_deref() {
        Ok("keyring") => VaultChoice::Keyring,
        Ok("file") => VaultChoice::File,
        _ => VaultChoice::Auto,
    }
}
