//! A server given on the command line with `--server`: from its words to an accepted entry.

use std::sync::Arc;

use switchboard::config::{
    Endpoint, HttpEndpoint, ReferenceSyntax, Scope, ServerConfig, Source, StdioEndpoint,
};
use switchboard::name::ServerName;
use switchboard::trust::{self, TrustState};

use crate::command::trust::show;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::setup::{Setup, block_on};
use crate::terminal::tty::Tty;
use crate::{interrupt, output};

/// The source of such an entry, in messages and in `trust`.
const SOURCE: &str = "(command line)";

impl Setup {
    /// Replaces the configured servers by this one, after a person has accepted it like a project's
    /// entry.
    pub(crate) fn with_server(mut self, words: &str, yes: bool) -> Result<Self, Failure> {
        let server = entry(words, &self.paths)?;
        self.accept(&server, yes)?;
        self.config.servers = [(server.name.clone(), Arc::new(server))]
            .into_iter()
            .collect();
        Ok(self)
    }

    fn accept(&self, server: &ServerConfig, yes: bool) -> Result<(), Failure> {
        let trust_state = trust::trust_state(server, &self.environment, &*self.store);
        if trust_state == TrustState::Trusted {
            return Ok(());
        }
        let disclosure = trust::disclose(server, &self.environment);
        let text = show::entry(server, &trust_state, &disclosure);
        let denied = |message: &str| {
            Failure::new(
                Code::Denied,
                format!("server \"{}\": {message}", server.name),
            )
            .server(&server.name)
        };
        if !yes {
            let Some(terminal) = Tty::open().filter(|_| !self.json) else {
                output::print_on_stderr(&text);
                return Err(denied(
                    "it is in no configuration file, and there is no terminal to ask on",
                )
                .hint("accept it with `--yes`"));
            };
            terminal.write_lines(&text);
            let answer = block_on(interrupt::run_until_signal(async {
                Ok(terminal
                    .line("Start it exactly as shown? [y/N] ")
                    .await
                    .unwrap_or_default())
            }))?;
            if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
                return Err(denied("you declined to start it"));
            }
        }
        Ok(trust::accept(&disclosure, &*self.store)?)
    }
}

fn entry(words: &str, paths: &Paths) -> Result<ServerConfig, Failure> {
    let source = Source {
        folder: Arc::new(paths.project.clone()),
        ..Source::new(Arc::new(SOURCE.into()), 1, Scope::Project)
    };
    if words.starts_with("http://") || words.starts_with("https://") {
        let endpoint = HttpEndpoint {
            syntax: ReferenceSyntax::Literal,
            ..HttpEndpoint::new(words)
        };
        let host = words
            .split("://")
            .nth(1)
            .unwrap_or_default()
            .split(['/', ':', '?'])
            .next()
            .unwrap_or_default();
        return Ok(ServerConfig::new(
            name_from(host),
            source,
            Endpoint::Http(endpoint),
        ));
    }
    let wrong = |message: &str| Failure::new(Code::Usage, format!("--server: {message}"));
    let mut words = split_words(words)
        .ok_or_else(|| wrong("unclosed quote"))?
        .into_iter();
    let command = words
        .next()
        .ok_or_else(|| wrong("expected a command line or a URL"))?;
    let args: Vec<String> = words.collect();
    let endpoint = Endpoint::Stdio(StdioEndpoint {
        syntax: ReferenceSyntax::Literal,
        ..StdioEndpoint::new(&command, &args)
    });
    let package = args
        .iter()
        .find(|word| !word.starts_with('-'))
        .filter(|_| endpoint.package_runner().is_some());
    Ok(ServerConfig::new(
        name_from(package.unwrap_or(&command)),
        source,
        endpoint,
    ))
}

/// A server name derived from a program or package: `@scope/server-x@1.2` becomes `server-x`.
fn name_from(text: &str) -> ServerName {
    let last = text.rsplit('/').next().unwrap_or_default();
    let plain: String = last
        .split('@')
        .find(|part| !part.is_empty())
        .unwrap_or_default()
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '-'
            }
        })
        .take(32)
        .collect();
    ServerName::new(plain.trim_matches('-'))
        .unwrap_or_else(|_| ServerName::new("server").expect("a plain name"))
}

/// Splits words as a shell does, with quotes and backslashes. Nothing is expanded.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(next) = characters.next() {
        match (quote, next) {
            (Some(open), close) if open == close => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().push(characters.next()?),
            (Some(_), other) => word.get_or_insert_default().push(other),
            (None, '\'' | '"') => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let check = |line: &str, expected: Option<&[&str]>| {
            let words = split_words(line);
            assert_eq!(
                words
                    .as_ref()
                    .map(|words| words.iter().map(String::as_str).collect::<Vec<_>>()),
                expected.map(<[_]>::to_vec)
            );
        };
        check("npx -y server-x", Some(&["npx", "-y", "server-x"]));
        check(
            r#"run 'a b' "c \"d" e\ f '' $HOME"#,
            Some(&["run", "a b", "c \"d", "e f", "", "$HOME"]),
        );
        check("", Some(&[]));
        check("run 'a", None);
    }

    #[test]
    fn a_server_is_named_after_its_package() {
        for (text, name) in [
            ("@scope/server-x@1.2", "server-x"),
            ("/usr/bin/srv.py", "srv-py"),
            ("mcp_time", "mcp-time"),
            ("@", "server"),
        ] {
            assert_eq!(name_from(text).as_str(), name);
        }
    }
}
