//! What last time's catalogs tell without starting anything: where an exposed name leads, and what
//! completes.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::CompletionCandidate;
use clap_complete::engine::{PathCompleter, ValueCompleter};
use switchboard::builtin::RegisteredTools;
use switchboard::catalog::{Catalog, CatalogSource, Offerings};
use switchboard::config::{self, Config, ConfigFile, Scope, ServerConfig};
use switchboard::name::ServerName;
use switchboard::server::remembered_offerings;
use switchboard::store::{FileStore, Store};
use switchboard::trust::{self, TrustState};

use crate::paths::Paths;
use crate::setup::Setup;
use crate::view::signature;

/// The server that offered a tool of this exposed name last time.
pub(crate) fn server_of(config: &Config, store: &dyn Store, exposed: &str) -> Option<ServerName> {
    catalog(config, store)
        .resolve(exposed)
        .ok()
        .map(|tool| tool.id.server.clone())
}

/// The picture of last time of all servers that may run, or of one; `None` where any of them is not
/// remembered.
pub(crate) fn catalog_of_all(setup: &Setup, only: Option<&ServerName>) -> Option<Catalog> {
    let Setup {
        config,
        store,
        environment,
        ..
    } = setup;
    let may_run = |server: &ServerConfig| {
        let is_blocked = config.security.blocks(&server.name).is_some();
        server.enabled
            && !is_blocked
            && trust::trust_state(server, environment, &**store) == TrustState::Trusted
    };
    let mut parts = Vec::new();
    for server in config
        .servers
        .values()
        .filter(|server| only.is_none_or(|only| *only == server.name) && may_run(server))
    {
        let offerings = cached_offerings(server, &**store)?;
        parts.push(CatalogSource {
            config: server.clone(),
            launch: server.fingerprint(),
            offerings,
            settled: true,
        });
    }
    Some(Catalog::build(
        &Catalog::default(),
        config.naming,
        &RegisteredTools::default(),
        &parts,
    ))
}

/// The one server that offered something last time, where all servers are remembered.
pub(crate) fn only_server(
    setup: &Setup,
    offering: impl FnOnce(&Catalog) -> Vec<ServerName>,
) -> Option<ServerName> {
    match offering(&catalog_of_all(setup, None)?).as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The picture of last time. A server of which nothing is remembered leaves bare names of later
/// ones open (S2-27).
fn catalog(config: &Config, store: &dyn Store) -> Catalog {
    let part = |server: &Arc<ServerConfig>| {
        let cached = cached_offerings(server, store);
        let settled =
            cached.is_some() || !server.enabled || config.security.blocks(&server.name).is_some();
        CatalogSource {
            config: server.clone(),
            launch: server.fingerprint(),
            offerings: cached.unwrap_or_default(),
            settled,
        }
    };
    let parts: Vec<_> = config.servers.values().map(part).collect();
    Catalog::build(
        &Catalog::default(),
        config.naming,
        &RegisteredTools::default(),
        &parts,
    )
}

/// What one server offered last time.
fn cached_offerings(server: &Arc<ServerConfig>, store: &dyn Store) -> Option<Arc<Offerings>> {
    remembered_offerings(store, server.fingerprint()).map(Arc::new)
}

/// Configured server names, for a shell.
pub(crate) fn server_candidates() -> Vec<CompletionCandidate> {
    let Some((config, _)) = read_state() else {
        return Vec::new();
    };
    candidates(config.servers.keys().map(ToString::to_string))
}

/// Exposed names and `server/tool`, for a shell.
pub(crate) fn tool_candidates() -> Vec<CompletionCandidate> {
    let Some((config, store)) = read_state() else {
        return Vec::new();
    };
    let catalog = catalog(&config, &store);
    let servers = config.servers.keys().map(|name| format!("{name}/"));
    let tools = catalog.tools().iter();
    let tools = tools.flat_map(|tool| {
        [
            tool.exposed.to_string(),
            format!("{}/{}", tool.id.server, tool.id.tool.as_wire()),
        ]
    });
    candidates(servers.chain(tools))
}

/// `key=` for each argument of the tool on the line, required ones first.
pub(crate) fn argument_candidates() -> Vec<CompletionCandidate> {
    let Some((config, store)) = read_state() else {
        return Vec::new();
    };
    let catalog = catalog(&config, &store);
    let words: Vec<_> = std::env::args().collect();
    let Some(tool) = words
        .iter()
        .skip_while(|word| *word != "call")
        .find_map(|word| catalog.resolve(word).ok())
    else {
        return Vec::new();
    };
    let schema = tool.definition.input_schema.to_value().unwrap_or_default();
    let names = signature::names(&schema)
        .into_iter()
        .filter(|name| !is_given(&words, name));
    candidates(names.map(|name| format!("{name}=")))
}

fn is_given(words: &[String], name: &str) -> bool {
    words.iter().any(|word| {
        word.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('=') || rest.starts_with(":="))
    })
}

/// Addresses of resources, for a shell.
pub(crate) fn resource_candidates() -> Vec<CompletionCandidate> {
    offering_candidates(|offerings| {
        offerings
            .resources
            .iter()
            .map(|resource| resource.uri.clone())
            .collect()
    })
}

/// Names of prompts, for a shell.
pub(crate) fn prompt_candidates() -> Vec<CompletionCandidate> {
    offering_candidates(|offerings| {
        offerings
            .prompts
            .iter()
            .map(|prompt| prompt.name.clone())
            .collect()
    })
}

fn offering_candidates(names: impl Fn(&Offerings) -> Vec<String>) -> Vec<CompletionCandidate> {
    let Some((config, store)) = read_state() else {
        return Vec::new();
    };
    let all = config
        .servers
        .values()
        .filter_map(|server| cached_offerings(server, &store));
    candidates(all.flat_map(|offerings| names(&offerings)))
}

/// Paths, for a shell. A project's files are named by strangers too.
pub(crate) fn path_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = PathCompleter::any().complete(typed);
    found
        .into_iter()
        .filter(|path| path.get_value().to_str().is_some_and(is_shell_safe))
        .collect()
}

/// The one way to a shell: what it would not take as it stands is left out, because a shell puts it
/// on its command line unquoted (T6).
fn candidates(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    names
        .filter(|name| is_shell_safe(name))
        .map(CompletionCandidate::new)
        .collect()
}

/// Whether every shell reads it as itself, and this program as no option.
fn is_shell_safe(name: &str) -> bool {
    let is_harmless =
        |character: char| character.is_ascii_alphanumeric() || "_-./:@=".contains(character);
    let rest = name.strip_prefix("~/").unwrap_or(name);
    rest.chars().all(is_harmless) && !name.is_empty() && !name.starts_with(['-', '=', '@'])
}

/// Files and state, in silence: a shell is waiting for words.
fn read_state() -> Option<(Config, FileStore)> {
    let paths = Paths::find().ok()?;
    let given = files_on_command_line();
    let files = if given.is_empty() {
        paths.found_files()
    } else {
        given
    };
    Some((
        config::load(&files).ok()?,
        FileStore::open(&paths.state).ok()?,
    ))
}

/// The `-c FILE` words of the line being completed.
fn files_on_command_line() -> Vec<ConfigFile> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let mut files = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let path = match word.to_str() {
            Some("-c" | "--config") => words.get(index + 1).map(PathBuf::from),
            Some(text) => text.strip_prefix("--config=").map(PathBuf::from),
            None => None,
        };
        files.extend(path.map(|path| ConfigFile::new(path, Scope::Given)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t6_what_a_shell_would_obey_does_not_complete() {
        let check =
            |name: &str, expected: bool| assert_eq!(is_shell_safe(name), expected, "{name}");
        for name in [
            "git",
            "git/",
            "mcp__git__log",
            "key=",
            "file:///etc/hosts",
            "a.b@c",
            "~/x.toml",
        ] {
            check(name, true);
        }
        for name in [
            "",
            "x$(y)",
            "x`y`",
            "a b",
            "a;b",
            "a|b",
            "a&b",
            "a>b",
            "*",
            "?",
            "[a]",
            "{a,b}",
            "~root",
            "-cevil.toml",
            "--yes",
        ] {
            check(name, false);
        }
        for name in [
            "a'b", "a\"b", "a\\b", "a!b", "a#b", "=ls", "@(x)", "é", "a\nb", "%1", "^x",
        ] {
            check(name, false);
        }
    }
}
