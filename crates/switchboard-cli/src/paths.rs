//! Folders, files and environment variables of this run. The library reads none of them by itself.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use switchboard::auth::VaultChoice;
use switchboard::config::{self, ConfigFile, Environment, LinkedFile, Scope, is_valid_name};
use switchboard::untrusted::Untrusted;
use switchboard_agent::builtin_tools::results_of_project;
use switchboard_agent::{SessionStore, agents_prompt, read_agents_files};

use crate::arguments::Options;
use crate::failure::{Code, Failure};

/// The folders of this run.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// The current folder, symbolic links resolved.
    pub(crate) current: PathBuf,
    /// The root folder of the current project, or the current folder.
    pub(crate) project: PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub(crate) config: PathBuf,
    /// The home folder.
    pub(crate) home: PathBuf,
    /// `switchboard` under `XDG_STATE_HOME` or `~/.local/state`.
    pub(crate) state: PathBuf,
    /// `switchboard` under `XDG_RUNTIME_DIR`; `run` in the state folder if that is not set.
    pub(crate) runtime: PathBuf,
}

impl Paths {
    /// Determines the folders.
    pub(crate) fn find() -> Result<Self, Failure> {
        let current = std::env::current_dir()
            .and_then(|folder| folder.canonicalize())
            .map_err(|error| {
                Failure::new(
                    Code::Usage,
                    format!("the current folder cannot be read: {error}"),
                )
            })?;
        let project = config::project_folder(&current);
        let base = Xdg::new()
            .map_err(|_| Failure::new(Code::Usage, "no home folder is known").hint("set HOME"))?;
        let state = base
            .state_dir()
            .unwrap_or_else(|| base.home_dir().join(".local/state"));
        let state = state.join("switchboard");
        Ok(Self {
            current,
            project,
            config: base.config_dir(),
            home: base.home_dir().to_owned(),
            runtime: base
                .runtime_dir()
                .map_or_else(|| state.join("run"), |folder| folder.join("switchboard")),
            state,
        })
    }

    /// The configuration files to read, highest precedence first: those given, or those of the
    /// search order.
    pub(crate) fn config_files(&self, options: &Options) -> Vec<ConfigFile> {
        if options.config.is_empty() {
            return self.found_files();
        }
        let with_dialect = |path: &PathBuf| ConfigFile {
            dialect: options.dialect,
            ..ConfigFile::new(path, Scope::Given)
        };
        options.config.iter().map(with_dialect).collect()
    }

    /// The socket of the gateway that serves these configuration files: one gateway for the files of
    /// each project, since these are for that project's clients. The user's own files do not count:
    /// a gateway reads those that appear later, and `install` may write one while it runs.
    pub(crate) fn gateway_socket(&self, options: &Options) -> PathBuf {
        let files = self.config_files(options).into_iter();
        let files = files.filter(|file| file.scope != Scope::User).map(|file| {
            let path = file.path.canonicalize();
            path.unwrap_or(file.path)
        });
        let folders = [&self.state, &self.config, &self.home].map(PathBuf::clone);
        let parts: Vec<_> = files.chain(folders).collect();
        switchboard_gateway::edge::socket::socket_path(&self.runtime, &parts)
    }

    /// The path of the user's own native file, which may not exist.
    pub(crate) fn own_file(&self) -> PathBuf {
        self.config.join("switchboard/switchboard.toml")
    }

    /// The files of the search order that exist.
    pub(crate) fn found_files(&self) -> Vec<ConfigFile> {
        config::search(&self.project, &self.config, &self.home)
    }

    /// Notices about the project's files: those used from above the current folder, and those not
    /// read.
    pub(crate) fn project_notices(&self) -> Vec<String> {
        let shown = |path: &Path| {
            Untrusted::new(path.display().to_string())
                .for_terminal_line()
                .to_string()
        };
        let mut lines = Vec::new();
        if self.project != self.current {
            let files = self
                .found_files()
                .into_iter()
                .filter(|file| file.scope == Scope::Project);
            let files: Vec<_> = files.map(|file| shown(&file.path)).collect();
            lines
                .extend((!files.is_empty()).then(|| {
                    format!("using {}, found above the current folder", files.join(", "))
                }));
        }
        let foreign = config::foreign_project_files(&self.current);
        lines.extend(foreign.iter().map(|file| {
            format!(
                "{} was not read: it is above the current folder and belongs to another user, or its folder does; to use it, give it with `-c`",
                shown(file)
            )
        }));
        let linked = config::linked_project_files(&self.project, &self.config, &self.home);
        lines.extend(linked.into_iter().map(|LinkedFile { file, link }| match file == link {
            true => {
                format!("{} is a symbolic link and was not read: a project's file must be in the project itself", shown(&file))
            }
            false => format!(
                "{} was not read: {} is a symbolic link, and a project's file must be in the project itself",
                shown(&file),
                shown(&link)
            ),
        }));
        lines
    }

    /// Every file of the search order, existing or not.
    pub(crate) fn searched(&self) -> Vec<PathBuf> {
        config::search_order(&self.project, &self.config, &self.home)
            .into_iter()
            .map(|file| file.path)
            .collect()
    }

    /// The folder of the servers' logs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The working folder of user servers without `cwd`, while the current folder is not accepted.
    pub(crate) fn private_folder(&self) -> PathBuf {
        self.state.join("private")
    }

    /// The stored conversations with models, those of this project listed.
    pub(crate) fn sessions(&self) -> SessionStore {
        SessionStore::new(self.state.join("sessions"), Some(self.project.clone()))
    }

    /// The text of the `AGENTS.md` files for a model: the user's own and the project's.
    pub(crate) fn agents_prompt(&self) -> String {
        let user = self.config.join("switchboard");
        let files = read_agents_files(&user, &self.project, &self.current);
        agents_prompt(&files)
    }

    /// The folder of results that are too long to print.
    pub(crate) fn results(&self) -> PathBuf {
        self.state.join("results")
    }

    /// The folder of results that are too long for a model, in conversations of this project.
    pub(crate) fn conversation_results(&self) -> PathBuf {
        results_of_project(&self.results(), &self.project)
    }
}

/// The environment variables of this process, except those that are not Unicode.
pub(crate) fn environment() -> Environment {
    Environment::new(
        std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }),
    )
}

/// The names of the variables of this process that servers do not get: not Unicode, in name or
/// value, or with a name that no variable of a child process can have.
pub(crate) fn unreadable_variables() -> Vec<String> {
    let unreadable = std::env::vars_os().filter(|(name, value)| {
        !name.to_str().is_some_and(is_valid_name) || value.to_str().is_none()
    });
    unreadable
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect()
}

/// Where tokens are stored: `SWITCHBOARD_VAULT=keyring` or `file` overrides the default.
pub(crate) fn vault_choice() -> VaultChoice {
    match std::env::var("SWITCHBOARD_VAULT").as_deref() {
        Ok("keyring") => VaultChoice::Keyring,
        Ok("file") => VaultChoice::File,
        _ => VaultChoice::Auto,
    }
}
