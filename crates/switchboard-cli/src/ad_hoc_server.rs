//! A server given on the command line with `--server`: parsed, and accepted by a person.

use std::sync::Arc;

use switchboard::config::{
    Endpoint, HttpEndpoint, ReferenceSyntax, Scope, ServerConfig, Source, StdioEndpoint,
};
use switchboard::name::ServerName;
use switchboard::trust::{self, TrustState};

use crate::command::trust::show;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::setup::Setup;
use crate::shell_words::split_words;
use crate::terminal::tty::Tty;
use crate::view::mask;
use crate::{hints, output};

/// The source of such an entry, in messages and in `trust`.
const SOURCE: &str = "(command line)";

impl Setup {
    /// Replaces the configured servers by this one, after a person has accepted it like a project's
    /// entry.
    pub(crate) fn with_server(mut self, words: &str, yes: bool) -> Result<Self, Failure> {
        let mut server = entry(words, &self.paths)?;
        hints::set_ad_hoc(match &server.endpoint {
            Endpoint::Stdio(stdio) if mask::arguments(&stdio.args) != stdio.args => "COMMAND",
            Endpoint::Http(http) if mask::url(&http.url) != http.url => "URL",
            _ => words,
        });
        match yes {
            // As a file given with `-c`: accepted for this run alone.
            true => server.source.scope = Scope::Given,
            false => self.accept(&server)?,
        }
        self.config.servers = [(server.name.clone(), Arc::new(server))]
            .into_iter()
            .collect();
        Ok(self)
    }

    /// Asks a person, whose yes is remembered for this command line.
    fn accept(&self, server: &ServerConfig) -> Result<(), Failure> {
        let trust_state = trust::trust_state(server, &self.environment, &*self.store);
        if trust_state == TrustState::Trusted {
            return Ok(());
        }
        let disclosure = trust::disclose(server, &self.environment);
        // Another command line of the same name is another server, not a changed one.
        let text = show::entry(server, &TrustState::New, &disclosure);
        let denied = |message: &str| {
            Failure::new(
                Code::Denied,
                format!("server \"{}\": {message}", server.name),
            )
            .server(&server.name)
        };
        let Some(terminal) = Tty::open() else {
            if !self.json {
                output::print_on_stderr(&text);
            }
            return Err(denied(
                "it is in no configuration file, and there is no terminal to ask on",
            )
            .hint("accept it with `--yes`"));
        };
        terminal.write_lines(&text);
        if terminal.confirm_blocking("Start it exactly as shown?")? != Some(true) {
            return Err(denied("you declined to start it"));
        }
        Ok(trust::accept(&disclosure, &*self.store)?)
    }
}

fn entry(words: &str, paths: &Paths) -> Result<ServerConfig, Failure> {
    let source = Source {
        folder: Arc::new(paths.project.clone()),
        ..Source::new(Arc::new(SOURCE.into()), 1, Scope::Project)
    };
    let scheme = words
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    if let Some("http" | "https") = scheme.as_deref() {
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
        .map_err(|error| wrong(&error))?
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

#[cfg(test)]
mod tests {
    use super::*;

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
