//! One server: from its handle and tools to a [`ServerView`].

use switchboard::Host;
use switchboard::catalog::Catalog;
use switchboard::config::{Endpoint, ServerConfig, StateNames};
use switchboard::server::{DetectedTransport, ServerHandle, State};
use switchboard::session::Era;
use switchboard::untrusted::Untrusted;

pub(crate) use facts::session_count;
pub(crate) use json::status_json;
pub(crate) use reason::{login_advice, with_advice};

use super::mask;
use super::status::{Discovery, ServerView, StateWord, StatusView, ToolView};

mod facts;
mod json;
mod reason;

/// All servers of a host.
pub(crate) fn status(host: &Host) -> StatusView {
    let catalog = host.catalog();
    let servers = host
        .servers()
        .iter()
        .map(|handle| server_view(handle, &catalog, host))
        .collect();
    StatusView {
        discovery: discovery_of(host),
        servers,
    }
}

fn server_view(handle: &ServerHandle, catalog: &Catalog, host: &Host) -> ServerView {
    let snapshot = handle.snapshot();
    let config = &handle.config;
    let words = config.dialect.profile().state_names;
    let shown = snapshot.shown_state();
    let seen = word(&shown);
    ServerView {
        name: escaped(config.name.as_str()),
        word: if words == StateNames::All {
            seen
        } else {
            seen.plain()
        },
        dialect_word: shown.word(words),
        docker: matches!(&config.endpoint, Endpoint::Stdio(stdio) if stdio.command.rsplit('/').next() == Some("docker")),
        endpoint: endpoint(config),
        working_directory: match &config.endpoint {
            Endpoint::Stdio(stdio) => stdio.cwd.as_deref().map(escaped),
            Endpoint::Http(_) | Endpoint::Invalid(_) => None,
        },
        timeout_ms: config.written_call_timeout.map(|limit| limit.as_millis()),
        why: reason::why(config, &snapshot, words),
        next_attempt: reason::next_attempt(&shown),
        second_connection: handle
            .second_connection()
            .map(|second| facts::second_connection(&second)),
        tools: tools(config, catalog),
        cached: snapshot.cached,
        is_brief: config.dialect.profile().compact_status,
        withheld: withheld(config, catalog),
        facts: facts::facts(handle, &snapshot, host),
    }
}

/// `Command` or `URL` as written, masked and escaped.
pub(crate) fn endpoint(config: &ServerConfig) -> (&'static str, String) {
    match &config.endpoint {
        Endpoint::Stdio(stdio) => {
            let mut words = vec![stdio.command.clone()];
            words.extend(mask::arguments(&stdio.args));
            ("Command", escaped(&words.join(" ")))
        }
        Endpoint::Http(http) => ("URL", escaped(&mask::url(&http.url))),
        Endpoint::Invalid(fault) => (
            "Entry",
            escaped(&format!("{}:{}", fault.file.display(), fault.line)),
        ),
    }
}

fn tools(config: &ServerConfig, catalog: &Catalog) -> Vec<ToolView> {
    catalog
        .tools()
        .iter()
        .filter(|tool| tool.id.server == config.name)
        .map(|tool| ToolView {
            name: tool.exposed.to_string(),
            description: tool
                .definition
                .description
                .as_ref()
                .map(|text| text.for_terminal().to_string())
                .unwrap_or_default(),
        })
        .collect()
}

fn withheld(config: &ServerConfig, catalog: &Catalog) -> Vec<(String, String)> {
    let own = catalog
        .withheld()
        .iter()
        .filter(|withheld| withheld.server == config.name);
    own.map(|withheld| {
        (
            withheld.tool.untrusted().for_terminal_line().to_string(),
            escaped(&withheld.reason),
        )
    })
    .collect()
}

fn discovery_of(host: &Host) -> Discovery {
    discovery(host.servers().iter().map(|handle| {
        let snapshot = handle.snapshot();
        (word(&snapshot.shown_state()), snapshot.is_settled())
    }))
}

/// Each server's state word, and whether it is settled. A failed server that is retried counts as
/// discovered.
fn discovery(servers: impl Iterator<Item = (StateWord, bool)>) -> Discovery {
    let servers: Vec<_> = servers.collect();
    if servers.iter().any(|(_, is_settled)| !is_settled) {
        Discovery::InProgress
    } else if servers.iter().all(|(word, _)| {
        matches!(
            word,
            StateWord::Idle | StateWord::Untrusted | StateWord::Blocked | StateWord::Disabled
        )
    }) {
        Discovery::NotStarted
    } else {
        Discovery::Completed
    }
}

/// The state for a person.
pub(crate) fn word(state: &State) -> StateWord {
    match state {
        State::Disabled => StateWord::Disabled,
        State::Blocked { .. } => StateWord::Blocked,
        State::Untrusted { .. } => StateWord::Untrusted,
        State::Idle => StateWord::Idle,
        State::Connecting { .. } => StateWord::Connecting,
        State::Ready { .. } => StateWord::Connected,
        State::NeedsLogin { .. } => StateWord::NeedsLogin,
        State::Stopped => StateWord::Stopped,
        _ => StateWord::Disconnected,
    }
}

/// `legacy` or `modern`.
pub(crate) fn era_word(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// The transport for a person.
pub(crate) fn transport_name(wire: Option<DetectedTransport>) -> &'static str {
    match wire {
        Some(DetectedTransport::Sse) => "HTTP+SSE",
        Some(DetectedTransport::Http) | None => "Streamable HTTP",
    }
}

/// One escaped line.
pub(crate) fn escaped(text: &str) -> String {
    Untrusted::new(text).for_terminal_line().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_48_discovery_is_in_progress_while_any_server_connects() {
        let check = |servers: &[(StateWord, bool)], expected: &str| {
            assert_eq!(
                discovery(servers.iter().copied()).as_str(),
                expected,
                "{servers:?}"
            );
        };
        check(&[], "NOT_STARTED");
        check(
            &[(StateWord::Idle, true), (StateWord::Idle, true)],
            "NOT_STARTED",
        );
        check(
            &[
                (StateWord::Untrusted, true),
                (StateWord::Disabled, true),
                (StateWord::Blocked, true),
            ],
            "NOT_STARTED",
        );
        check(
            &[(StateWord::Connected, true), (StateWord::Connecting, false)],
            "IN_PROGRESS",
        );
        check(
            &[
                (StateWord::Connected, true),
                (StateWord::Disconnected, true),
                (StateWord::Untrusted, true),
            ],
            "COMPLETED",
        );
        // Retried after it failed.
        check(
            &[
                (StateWord::Connected, true),
                (StateWord::Disconnected, true),
            ],
            "COMPLETED",
        );
    }
}
