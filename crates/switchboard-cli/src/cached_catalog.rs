//! Catalogs cached by earlier runs, used without starting a server: to find the server of a name,
//! and for shell completion.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::CompletionCandidate;
use clap_complete::engine::{PathCompleter, ValueCompleter};
use switchboard::catalog::{Catalog, CatalogSource, Offerings};
use switchboard::config::{self, Config, ConfigFile, Dialect, Scope, ServerConfig};
use switchboard::name::ServerName;
use switchboard::server::remembered_offerings;
use switchboard::store::{FileStore, Store};
use switchboard::trust::{self, TrustState};

use crate::paths::Paths;
use crate::setup::Setup;
use crate::view::signature;

/// The cached catalog of all servers that may run, or of one; `None` if any of them is not cached.
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
        &[],
        &parts,
    ))
}

/// The only server that satisfies `offering`, if the catalogs of all servers are cached.
pub(crate) fn only_server(
    setup: &Setup,
    offering: impl FnOnce(&Catalog) -> Vec<ServerName>,
) -> Option<ServerName> {
    match offering(&catalog_of_all(setup, None)?).as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The cached catalog. Unprefixed names of servers after one without a cache are left out, because
/// that server may have them.
pub(crate) fn catalog(config: &Config, store: &dyn Store) -> Catalog {
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
    Catalog::build(&Catalog::default(), config.naming, &[], &parts)
}

/// The cached offerings of one server.
fn cached_offerings(server: &Arc<ServerConfig>, store: &dyn Store) -> Option<Arc<Offerings>> {
    remembered_offerings(store, server.fingerprint()).map(Arc::new)
}

/// Candidates: configured server names.
pub(crate) fn server_candidates() -> Vec<CompletionCandidate> {
    let Some((config, _)) = read_state() else {
        return Vec::new();
    };
    candidates(config.servers.keys().map(ToString::to_string))
}

/// Candidates: exposed names and `server/tool`.
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

/// Candidates: `key=` for each argument of the tool on the command line, required ones first.
pub(crate) fn argument_candidates() -> Vec<CompletionCandidate> {
    let Some((config, store)) = read_state() else {
        return Vec::new();
    };
    let catalog = catalog(&config, &store);
    let words: Vec<_> = std::env::args_os()
        .filter_map(|word| word.into_string().ok())
        .collect();
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

/// Candidates: resource URIs.
pub(crate) fn resource_candidates() -> Vec<CompletionCandidate> {
    offering_candidates(|offerings| {
        offerings
            .resources
            .iter()
            .map(|resource| resource.uri.clone())
            .collect()
    })
}

/// Candidates: prompt names.
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

/// Candidates: paths. A project's file names are not trusted.
pub(crate) fn path_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let found = PathCompleter::any().complete(typed);
    found
        .into_iter()
        .filter(|path| path.get_value().to_str().is_some_and(is_shell_safe))
        .collect()
}

/// Every candidate passes here: a shell puts it on its command line unquoted, so anything that
/// needs quotes is left out.
fn candidates(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    names
        .filter(|name| is_shell_safe(name))
        .map(CompletionCandidate::new)
        .collect()
}

/// Whether every shell reads it as one plain word, and this program not as an option.
fn is_shell_safe(name: &str) -> bool {
    let is_harmless =
        |character: char| character.is_ascii_alphanumeric() || "_-./:@=".contains(character);
    let rest = name.strip_prefix("~/").unwrap_or(name);
    rest.chars().all(is_harmless) && !name.is_empty() && !name.starts_with(['-', '=', '@'])
}

/// Configuration and store, without any output: a shell is waiting for candidates.
fn read_state() -> Option<(Config, FileStore)> {
    let paths = Paths::find().ok()?;
    let from_options = files_on_command_line();
    let files = if from_options.is_empty() {
        paths.found_files()
    } else {
        from_options
    };
    Some((
        config::load(&files).ok()?,
        FileStore::open(&paths.state).ok()?,
    ))
}

/// The files of `-c FILE` and `--dialect` on the command line being completed.
fn files_on_command_line() -> Vec<ConfigFile> {
    files_of(&std::env::args_os().skip(1).collect::<Vec<_>>())
}

fn files_of(words: &[OsString]) -> Vec<ConfigFile> {
    let (mut files, mut dialect) = (Vec::new(), None);
    for (index, word) in words.iter().enumerate() {
        let Some(text) = word.to_str() else {
            continue;
        };
        let next = || words.get(index + 1).cloned();
        let path = match text.strip_prefix("--config=").or(text.strip_prefix("-c")) {
            Some("") => next(),
            Some(path) => Some(OsString::from(path)),
            None if text == "--config" => next(),
            None => None,
        };
        files.extend(path.map(PathBuf::from));
        let name = match text.strip_prefix("--dialect") {
            Some("") => next(),
            Some(name) => name.strip_prefix('=').map(OsString::from),
            None => None,
        };
        dialect = name
            .and_then(|name| Dialect::parse(name.to_str()?))
            .or(dialect);
    }
    let with_dialect = |path| ConfigFile {
        dialect,
        ..ConfigFile::new(path, Scope::Given)
    };
    files.into_iter().map(with_dialect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_reads_the_files_that_the_command_would() {
        let check = |line: &str, expected: &[&str], dialect: Option<Dialect>| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            let files = files_of(&words).into_iter();
            let files: Vec<_> = files.map(|file| (file.path, file.dialect)).collect();
            let expected = expected.iter().map(|path| (PathBuf::from(path), dialect));
            assert_eq!(files, expected.collect::<Vec<_>>(), "{line}");
        };
        check(
            "-c a --config b --config=d -ce call x",
            &["a", "b", "d", "e"],
            None,
        );
        let gemini = Some(Dialect::Gemini);
        check("-c a --dialect gemini call x", &["a"], gemini);
        check("--dialect=gemini call -c a x", &["a"], gemini);
        check("call x", &[], None);
    }

    #[test]
    fn t6_names_with_shell_syntax_are_not_completed() {
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
