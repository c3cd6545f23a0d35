//! The table of MCP clients for `install`, `uninstall` and `import`: the path of each client's file,
//! and the form of a server's entry in it.

use std::path::{Path, PathBuf};

use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::suggestion;

pub(crate) mod claude;
pub(crate) mod entry;
pub(crate) mod file;
pub(crate) mod preview;
pub(crate) mod program;
pub(crate) mod servers;

/// The name of our entry in a client's file.
pub(crate) const ENTRY_NAME: &str = "switchboard";

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its name on the command line, and for `attach --as`.
    pub(crate) name: &'static str,
    /// Where its file may be; the first that exists is used, else the first.
    files: &'static [Place],
    /// Project files whose servers it starts as well.
    project_files: &'static [&'static str],
    /// Other places that exist only where the client is installed.
    marks: &'static [Place],
    /// Its command, if it has one.
    pub(crate) program: Option<&'static str>,
    /// The keys that lead to the servers.
    container: &'static [&'static str],
    /// Whether it is started from a desktop, without the PATH of a shell.
    pub(crate) is_desktop: bool,
    /// The form of an entry that starts a program.
    pub(crate) stdio: StdioForm,
    /// The form of an entry with a URL.
    pub(crate) http: HttpForm,
}

/// A path below one of the user's folders.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Below the home folder.
    Home(&'static str),
    /// Below the folder of configurations (`XDG_CONFIG_HOME`).
    Config(&'static str),
    /// Below the folder of desktop programs: `~/Library/Application Support` on macOS, else the
    /// folder of configurations.
    Desktop(&'static str),
    /// Below the folder that this variable names, if it is set; else below the home folder.
    Variable(&'static str, &'static str, &'static str),
}

/// The form of an entry that starts a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdioForm {
    /// `command` and `args`.
    Plain,
    /// The same, and `type = "stdio"`.
    Typed,
    /// The same, and `tools = ["*"]`.
    TypedWithTools,
    /// `command` and `args`, and `source = "custom"`.
    Zed,
    /// `command` and `args`, and `disabled = false`.
    WithDisabled,
    /// One list of words.
    Opencode,
    /// `cmd` and `args`, and the fields that goose requires.
    Goose,
    /// A file of its own, with a list.
    Continue,
}

/// The form of an entry with a URL, and of its reference to the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpForm {
    /// `type = "http"`, and a command that prints the headers.
    ClaudeCode,
    /// A command that prints the headers.
    Codex,
    /// The field of the URL, `type` if it is required, and the text before and after the name of a
    /// variable in a header.
    Reference(
        &'static str,
        Option<&'static str>,
        (&'static str, &'static str),
    ),
    /// `type = "remote"` and `{env:NAME}`.
    Opencode,
    /// `uri`, and variables from goose's keyring.
    Goose,
    /// A file of its own, and Continue's secrets.
    Continue,
    /// The field of the URL, and `type` if it is required. The file cannot refer to a token, so it
    /// has the token itself.
    Literal(&'static str, Option<&'static str>),
    /// URLs are not supported.
    None,
}

/// The folder of Cline's settings in VS Code.
const CLINE_IN_VSCODE: &str = "Code/User/globalStorage/saoudrizwan.claude-dev";

/// Every client.
pub(crate) const CLIENTS: &[Client] = &[
    Client {
        name: "claude-code",
        files: &[Place::Variable("CLAUDE_CONFIG_DIR", "", ".claude.json")],
        project_files: &[".mcp.json"],
        marks: &[Place::Variable("CLAUDE_CONFIG_DIR", ".claude", "")],
        program: Some("claude"),
        container: &["mcpServers"],
        is_desktop: false,
        stdio: StdioForm::Typed,
        http: HttpForm::ClaudeCode,
    },
    Client {
        name: "codex",
        files: &[Place::Variable("CODEX_HOME", ".codex", "config.toml")],
        project_files: &[".codex/config.toml"],
        marks: &[Place::Variable("CODEX_HOME", ".codex", "")],
        program: Some("codex"),
        container: &["mcp_servers"],
        is_desktop: false,
        stdio: StdioForm::Plain,
        http: HttpForm::Codex,
    },
    Client {
        name: "gemini",
        files: &[Place::Home(".gemini/settings.json")],
        project_files: &[".gemini/settings.json"],
        marks: &[Place::Home(".gemini")],
        program: Some("gemini"),
        container: &["mcpServers"],
        is_desktop: false,
        stdio: StdioForm::Plain,
        http: HttpForm::Reference("httpUrl", None, ("${", "}")),
    },
    Client {
        name: "vscode",
        files: &[Place::Desktop("Code/User/mcp.json")],
        project_files: &[".vscode/mcp.json"],
        marks: &[Place::Desktop("Code/User")],
        program: Some("code"),
        container: &["servers"],
        is_desktop: true,
        stdio: StdioForm::Typed,
        http: HttpForm::Reference("url", Some("http"), ("${env:", "}")),
    },
    Client {
        name: "cursor",
        files: &[Place::Home(".cursor/mcp.json")],
        project_files: &[".cursor/mcp.json"],
        marks: &[Place::Home(".cursor")],
        program: Some("cursor"),
        container: &["mcpServers"],
        is_desktop: true,
        stdio: StdioForm::Plain,
        http: HttpForm::Reference("url", None, ("${env:", "}")),
    },
    Client {
        name: "windsurf",
        files: &[Place::Home(".codeium/windsurf/mcp_config.json")],
        project_files: &[],
        marks: &[Place::Home(".codeium/windsurf")],
        program: Some("windsurf"),
        container: &["mcpServers"],
        is_desktop: true,
        stdio: StdioForm::Plain,
        http: HttpForm::Reference("serverUrl", None, ("${env:", "}")),
    },
    Client {
        name: "claude-desktop",
        files: &[Place::Desktop("Claude/claude_desktop_config.json")],
        project_files: &[],
        marks: &[Place::Desktop("Claude")],
        program: None,
        container: &["mcpServers"],
        is_desktop: true,
        stdio: StdioForm::Plain,
        http: HttpForm::None,
    },
    Client {
        name: "zed",
        files: &[Place::Config("zed/settings.json")],
        project_files: &[".zed/settings.json"],
        marks: &[Place::Config("zed")],
        program: Some("zed"),
        container: &["context_servers"],
        is_desktop: true,
        stdio: StdioForm::Zed,
        http: HttpForm::Literal("url", None),
    },
    Client {
        name: "opencode",
        files: &[
            Place::Config("opencode/opencode.jsonc"),
            Place::Config("opencode/opencode.json"),
        ],
        project_files: &["opencode.jsonc", "opencode.json"],
        marks: &[Place::Config("opencode")],
        program: Some("opencode"),
        container: &["mcp"],
        is_desktop: false,
        stdio: StdioForm::Opencode,
        http: HttpForm::Opencode,
    },
    Client {
        name: "goose",
        files: &[Place::Config("goose/config.yaml")],
        project_files: &[],
        marks: &[Place::Config("goose")],
        program: Some("goose"),
        container: &["extensions"],
        is_desktop: false,
        stdio: StdioForm::Goose,
        http: HttpForm::Goose,
    },
    Client {
        name: "cline",
        files: &[
            Place::Desktop(
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
            Place::Home(".cline/data/settings/cline_mcp_settings.json"),
        ],
        project_files: &[],
        marks: &[Place::Desktop(CLINE_IN_VSCODE), Place::Home(".cline")],
        program: None,
        container: &["mcpServers"],
        is_desktop: true,
        stdio: StdioForm::WithDisabled,
        http: HttpForm::Literal("url", Some("streamableHttp")),
    },
    Client {
        name: "continue",
        files: &[Place::Home(".continue/mcpServers/switchboard.yaml")],
        project_files: &[],
        marks: &[Place::Home(".continue")],
        program: None,
        container: &[],
        is_desktop: true,
        stdio: StdioForm::Continue,
        http: HttpForm::Continue,
    },
    Client {
        name: "copilot-cli",
        files: &[Place::Variable(
            "COPILOT_HOME",
            ".copilot",
            "mcp-config.json",
        )],
        project_files: &[".mcp.json", ".github/mcp.json"],
        marks: &[Place::Variable("COPILOT_HOME", ".copilot", "")],
        program: Some("copilot"),
        container: &["mcpServers"],
        is_desktop: false,
        stdio: StdioForm::TypedWithTools,
        http: HttpForm::Literal("url", Some("http")),
    },
    Client {
        name: "amp",
        files: &[Place::Config("amp/settings.json")],
        project_files: &[".amp/settings.json"],
        marks: &[Place::Config("amp")],
        program: Some("amp"),
        container: &["amp.mcpServers"],
        is_desktop: false,
        stdio: StdioForm::Plain,
        http: HttpForm::Literal("url", None),
    },
    Client {
        name: "kiro",
        files: &[Place::Home(".kiro/settings/mcp.json")],
        project_files: &[".kiro/settings/mcp.json"],
        marks: &[Place::Home(".kiro")],
        program: Some("kiro"),
        container: &["mcpServers"],
        is_desktop: true,
        stdio: StdioForm::WithDisabled,
        http: HttpForm::Reference("url", None, ("${env:", "}")),
    },
];

impl Client {
    /// The client of this name.
    pub(crate) fn named(name: &str) -> Result<&'static Self, Failure> {
        let known = || CLIENTS.iter().map(|client| client.name);
        CLIENTS
            .iter()
            .find(|client| client.name == name)
            .ok_or_else(|| {
                let near = suggestion::did_you_mean(name, known());
                let known: Vec<_> = known().collect();
                Failure::new(Code::Usage, format!("no client {name:?} is known"))
                    .hint(format!("{near}known clients: {}", known.join(", ")))
            })
    }

    /// Its file, existing or not.
    pub(crate) fn file(&self, paths: &Paths) -> PathBuf {
        let all = self.files.iter().map(|place| place.resolve(paths));
        let mut existing = all.clone().filter(|file| file.symlink_metadata().is_ok());
        let first = || all.clone().next().unwrap_or_default();
        existing.next().unwrap_or_else(first)
    }

    /// The files of this project that it reads, existing or not. Symbolic links are left out.
    pub(crate) fn files_in_project(&self, paths: &Paths) -> Vec<PathBuf> {
        let own = self.file(paths);
        let all = self
            .project_files
            .iter()
            .map(|name| paths.project.join(name));
        let is_no_link = |path: &PathBuf| path.canonicalize().is_ok_and(|real| real == *path);
        all.filter(|path| *path != own && is_no_link(path))
            .collect()
    }

    /// Whether the client is installed here: it has a file, a folder, or a program on the PATH.
    pub(crate) fn is_present(&self, paths: &Paths) -> bool {
        let places = self.files.iter().chain(self.marks);
        places
            .map(|place| place.resolve(paths))
            .any(|path| path.symlink_metadata().is_ok())
            || self
                .program
                .is_some_and(|name| program::find(name).is_some())
    }

    /// The path of keys to the servers of a document. Newer files of opencode have one key more,
    /// unless that is the name of a server.
    pub(crate) fn container(&self, document: Option<&serde_json::Value>) -> Vec<&'static str> {
        let mut keys = self.container.to_vec();
        let deeper = document.and_then(|document| document.get("mcp")?.get("servers"));
        if self.stdio == StdioForm::Opencode
            && deeper.is_some_and(|servers| servers.is_object() && servers.get("type").is_none())
        {
            keys.push("servers");
        }
        keys
    }

    /// The variable that its file refers to for the token.
    pub(crate) fn token_variable(&self) -> String {
        let word = self.name.replace('-', "_").to_uppercase();
        format!("SWITCHBOARD_TOKEN_{word}")
    }
}

impl Place {
    fn resolve(self, paths: &Paths) -> PathBuf {
        let folder = |base: &Path, below: &str| match below {
            "" => base.to_owned(),
            below => base.join(below),
        };
        match self {
            Self::Home(below) => paths.home.join(below),
            Self::Config(below) => paths.config.join(below),
            Self::Desktop(below) if cfg!(target_os = "macos") => {
                paths.home.join("Library/Application Support").join(below)
            }
            Self::Desktop(below) => paths.config.join(below),
            Self::Variable(name, default, below) => {
                let set = std::env::var_os(name).filter(|value| !value.is_empty());
                let base = set.map_or_else(|| folder(&paths.home, default), PathBuf::from);
                folder(&base, below)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_one_name_and_a_file() {
        for (index, client) in CLIENTS.iter().enumerate() {
            assert!(!client.files.is_empty(), "{}", client.name);
            let same = CLIENTS[index + 1..]
                .iter()
                .find(|other| other.name == client.name);
            assert!(same.is_none(), "{}", client.name);
        }
    }
}
