//! Tests of reading a configuration from files on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use super::*;
use crate::name::{ServerName, Style};
use crate::secret::Secret;

mod a3s;
mod agent_apps;
mod agent_code;
mod bombs;
mod core_agent;
mod fingerprints;
mod formats;
mod gemini;
mod launches;
mod mcp_json;
mod merging;
mod ours;
mod recognition;
mod texts;

/// Loads one file with this text, as `switchboard.toml`.
fn load_text(text: impl AsRef<[u8]>, scope: Scope) -> Result<Config, ConfigErrors> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("switchboard.toml");
    std::fs::write(&path, text).expect("a file in it");
    load(&[ConfigFile::new(path, scope)]).map_err(|errors| {
        let named = |finding: Diagnostic| Diagnostic {
            file: Arc::new("switchboard.toml".into()),
            ..finding
        };
        ConfigErrors(errors.0.into_iter().map(named).collect())
    })
}

/// The errors of a text, line by line, or else its warnings.
fn diagnostics_of(text: impl AsRef<[u8]>, scope: Scope) -> String {
    match load_text(text, scope) {
        Err(errors) => errors.to_string(),
        Ok(config) => {
            let shown = config.warnings.into_iter().map(|warning| {
                let file = Arc::new(Path::new("warning: switchboard.toml").to_owned());
                Diagnostic { file, ..warning }.to_string()
            });
            shown.collect::<Vec<_>>().join("\n")
        }
    }
}

/// A document of another dialect, as it was read.
struct Foreign {
    config: Config,
    /// The file's name, in place of its temporary folder.
    file: Arc<PathBuf>,
}

/// Loads a file of this dialect with this name and text; errors have the bare name.
fn load_foreign(dialect: Dialect, name: &str, text: &str) -> Result<Foreign, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file in it");
    let file = Arc::new(PathBuf::from(name));
    let bare = |finding: Diagnostic| Diagnostic {
        file: file.clone(),
        ..finding
    };
    match load(&[ConfigFile {
        dialect: Some(dialect),
        ..ConfigFile::new(path, Scope::Given)
    }]) {
        Ok(mut config) => {
            config.warnings = std::mem::take(&mut config.warnings)
                .into_iter()
                .map(bare)
                .collect();
            Ok(Foreign { config, file })
        }
        Err(errors) => Err(ConfigErrors(errors.0.into_iter().map(bare).collect()).to_string()),
    }
}

impl Foreign {
    fn warnings(&self) -> Vec<String> {
        self.config
            .warnings
            .iter()
            .map(Diagnostic::to_string)
            .collect()
    }

    /// Every server, independent of where its file was.
    fn servers(&self) -> Vec<ServerConfig> {
        let server = |server: &Arc<ServerConfig>| {
            let mut server = ServerConfig::clone(server);
            server.source = Source::new(self.file.clone(), server.source.line, server.source.scope);
            if let Endpoint::Invalid(fault) = &mut server.endpoint {
                fault.file = self.file.clone();
            }
            server
        };
        self.config.servers.values().map(server).collect()
    }

    /// The names, and the errors of invalid entries.
    fn faults(&self) -> Vec<(String, Option<String>)> {
        let fault = |server: ServerConfig| match &server.endpoint {
            Endpoint::Invalid(fault) => (server.name.to_string(), Some(fault.to_string())),
            _ => (server.name.to_string(), None),
        };
        self.servers().into_iter().map(fault).collect()
    }
}

/// A server of this dialect at this line of `file`, with only an endpoint.
fn expected(
    dialect: Dialect,
    name: &str,
    file: &str,
    line: usize,
    endpoint: Endpoint,
) -> ServerConfig {
    let source = Source::new(Arc::new(file.into()), line, Scope::Given);
    let name = ServerName::lenient(name).expect("a name that dialects allow");
    ServerConfig {
        dialect,
        start: dialect.profile().start,
        ..ServerConfig::new(name, source, endpoint)
    }
}

/// A program as the five dialects start it: with the whole environment.
fn inheriting(
    command: &str,
    args: &[&str],
    env: &[(&str, &str)],
    syntax: ReferenceSyntax,
) -> Endpoint {
    let env = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
        .collect();
    Endpoint::Stdio(StdioEndpoint {
        env,
        inherit_env: true,
        syntax,
        ..StdioEndpoint::new(command, args.iter().copied())
    })
}

/// The environment of a child of this endpoint, given these variables of the host.
fn child_environment(endpoint: &Endpoint, host: &[(&str, &str)]) -> Vec<(String, String)> {
    let Endpoint::Stdio(stdio) = endpoint else {
        panic!("no program: {endpoint:?}")
    };
    let stdio = StdioEndpoint {
        command: "/bin/sh".to_owned(),
        ..stdio.clone()
    };
    let host = Environment::new(
        host.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    let launch = resolve_launch(&stdio, Path::new("/"), &host).expect("a launch");
    launch
        .env
        .into_iter()
        .map(|(name, value)| (name, value.expose().to_owned()))
        .collect()
}
