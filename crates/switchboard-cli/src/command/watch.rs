//! `watch`: prints a line for each change of a resource, until Ctrl-C or until nobody reads them.

use std::path::Path;

use clap::Args;
use switchboard::Host;
use switchboard::config::{self, Dialect};
use switchboard::event::{Event, NextEvent};
use switchboard::hint::Hint;
use switchboard::name::ServerName;
use switchboard::reload::ConfigSource;
use switchboard::server::State;

use crate::arguments::{Options, resource_addresses, server_names};
use crate::failure::{Code, Failure, code_of_state};
use crate::paths::Paths;
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::{hints, output, progress};

/// Arguments of `watch`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard watch demo://counter\n  switchboard watch file:///etc/hosts --server files --json"
)]
pub(crate) struct WatchArgs {
    /// URI of the resource
    #[arg(add = resource_addresses())]
    uri: String,
    /// The server that has it, if several do or none lists it
    #[arg(long, short, add = server_names())]
    server: Option<String>,
}

/// Watches the configuration: changes that need no approval are applied, and all are reported.
pub(crate) fn watch_config(host: &Host, paths: &Paths, options: &Options) {
    let (files_of, given) = (paths.clone(), options.clone());
    let load = move || config::load(&files_of.config_files(&given));
    watch_config_with(host, paths, options, load);
}

/// The same, for a command that adjusts the configuration that it loads.
pub(crate) fn watch_config_with(
    host: &Host,
    paths: &Paths,
    options: &Options,
    source: impl ConfigSource,
) {
    let files = if options.config.is_empty() {
        paths.searched()
    } else {
        options.config.clone()
    };
    // What is accepted or revoked in another terminal counts here too.
    let files = files.into_iter().filter(|file| is_watched(file)).chain(
        ["trust.json", "permissions.json", "grants.json"].map(|name| paths.state.join(name)),
    );
    if let Err(error) = host.watch(files, source) {
        output::notice(&error.to_string());
    }
}

/// Whether edits of this file take effect at once. Without that, a half-written one is no news.
fn is_watched(file: &Path) -> bool {
    Dialect::of_path(file).is_none_or(|dialect| dialect.profile().watched)
}

/// Prints a lost connection; an error if the server will send no more events.
fn check_server(host: &Host, server: &ServerName) -> Result<(), Failure> {
    let Some(handle) = host.server(server.as_str()) else {
        return Err(Failure::new(
            Code::Unreachable,
            format!("server \"{server}\" is no longer in the configuration"),
        )
        .server(server));
    };
    match &handle.snapshot().state {
        State::Ready { .. } | State::Connecting { .. } | State::Idle => Ok(()),
        State::Backoff { error, .. } => {
            output::log(format!(
                "server \"{server}\": connection lost: {}; reconnecting",
                escaped(error)
            ));
            Ok(())
        }
        state => {
            let fact = state.unusable_reason().unwrap_or_else(|| state.to_string());
            let hint = match state {
                State::Failed { .. } => Some(Hint::Examine),
                State::Untrusted { .. } => Some(Hint::Accept),
                State::NeedsLogin { hint, .. } => Some(*hint),
                _ => None,
            };
            let failure =
                Failure::new(code_of_state(state), format!("server \"{server}\": {fact}"));
            Err(Failure {
                hint: hint.and_then(|hint| hints::describe(hint, server, None)),
                ..failure.server(server)
            })
        }
    }
}

pub(crate) fn run(options: &Options, args: &WatchArgs) -> Result<u8, Failure> {
    let setup = Setup::read(options)?;
    let only = setup.servers_to_start(args.server.as_deref())?;
    let watched = setup.run(only, async |host, paths| {
        watch_config(host, paths, options);
        super::wait_for_servers(host, options, args.server.as_deref()).await?;
        let server = super::read::server_with_resource(host, &args.uri, args.server.as_deref())?;
        // Before subscribing: the first event may arrive with the response.
        let mut events = host.events();
        progress::with_spinner(
            format!("subscribing at {server}"),
            host.subscribe(&server, &args.uri),
        )
        .await?;
        output::notice(&format!(
            "watching {} of server \"{server}\"; press Ctrl-C to stop",
            escaped(&args.uri)
        ));
        loop {
            match events.next().await {
                Some(NextEvent::Event(Event::ResourceUpdated {
                    server: sender,
                    uri,
                })) if sender == server => {
                    if options.json {
                        output::print_json(
                            &serde_json::json!({"server": sender.as_str(), "uri": uri.raw()})
                                .to_string(),
                        )?;
                    } else {
                        output::print(&format!("{}\n", uri.for_terminal_line()))?;
                    }
                    if output::stdout_is_closed() {
                        return Ok(0);
                    }
                }
                Some(NextEvent::Lagged(missed)) => {
                    output::notice(&format!("{missed} events came too fast and were skipped"));
                    check_server(host, &server)?;
                }
                Some(NextEvent::Event(Event::State { server: sender, .. })) if sender == server => {
                    check_server(host, &server)?
                }
                Some(NextEvent::Event(Event::Reloaded(_))) => check_server(host, &server)?,
                Some(_) => {}
                None => return Err(Failure::new(Code::Unreachable, "the host has stopped")),
            }
        }
    });
    match watched {
        // Ctrl-C is the normal end: the exit code says so, without an error message.
        Err(Failure {
            code: code @ Code::Interrupted,
            ..
        }) => Ok(code as u8),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s0_39_an_edit_of_a_core_agent_file_is_not_noticed() {
        for (file, expected) in [
            ("/project/.agents/mcp.json", false),
            ("/project/switchboard.toml", true),
            ("/project/.mcp.json", true),
            ("/project/other.json", true),
        ] {
            assert_eq!(is_watched(Path::new(file)), expected, "{file}");
        }
    }
}
