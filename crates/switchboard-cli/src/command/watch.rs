//! `watch`: one line for each change of a resource, until Ctrl-C.

use clap::Args;
use switchboard::Host;
use switchboard::advice::Advice;
use switchboard::config;
use switchboard::event::{Event, NextEvent};
use switchboard::name::ServerName;
use switchboard::server::{NotReady, State};

use crate::arguments::{Options, resource_addresses, server_names};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::{output, progress};

/// Which resource.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard watch demo://counter\n  switchboard watch file:///etc/hosts --server files --json"
)]
pub(crate) struct WatchArgs {
    /// Its address
    #[arg(add = resource_addresses())]
    uri: String,
    /// The server that has it, where several do or none lists it
    #[arg(long, short, add = server_names())]
    server: Option<String>,
}

/// A person may edit the configuration meanwhile: what it changes is told, and done as far as
/// nobody must be asked.
fn watch_config(host: &Host, paths: &Paths, options: &Options) {
    let files = if options.config.is_empty() {
        paths.searched()
    } else {
        options.config.clone()
    };
    let (paths, options) = (paths.clone(), options.clone());
    // A yes that is given in another terminal counts here.
    let files = files
        .into_iter()
        .chain(["trust.json", "permissions.json"].map(|name| paths.state.join(name)));
    if let Err(error) = host.watch(files, move || config::load(&paths.config_files(&options))) {
        output::notice(&error.to_string());
    }
}

/// Says what became of the server; an error where nothing will be heard from it any more (P9).
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
                "server \"{server}\": connection lost: {}; trying again",
                escaped(error)
            ));
            Ok(())
        }
        state => {
            let fact = state.unusable_reason().unwrap_or_else(|| state.to_string());
            let advice = match state {
                State::Failed { .. } => Some(Advice::Examine),
                State::Untrusted { .. } => Some(Advice::Accept),
                State::NeedsLogin { .. } if !handle.config.endpoint.has_own_token() => {
                    Some(Advice::LogIn)
                }
                _ => None,
            };
            Err(NotReady {
                server: server.clone(),
                fact,
                advice,
                state: state.clone(),
            }
            .into())
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
        // Before the server agrees: its first word may come with the yes.
        let mut events = host.events();
        progress::with_spinner(
            format!("subscribing at {server}"),
            host.subscribe(&server, &args.uri),
        )
        .await?;
        output::notice(&format!(
            "watching {} of server \"{server}\"; Ctrl-C ends it",
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
                }
                Some(NextEvent::Gap(missed)) => {
                    output::notice(&format!("{missed} events came too fast to be told"));
                    check_server(host, &server)?;
                }
                Some(NextEvent::Event(Event::State { server: sender, .. })) if sender == server => {
                    check_server(host, &server)?
                }
                Some(NextEvent::Event(Event::Reloaded(_))) => check_server(host, &server)?,
                Some(NextEvent::Event(_)) => {}
                None => return Err(Failure::new(Code::Unreachable, "the host has stopped")),
            }
        }
    });
    match watched {
        // This is how watching ends: the exit code says so, and nobody is told of an error.
        Err(Failure {
            code: code @ Code::Interrupted,
            ..
        }) => Ok(code as u8),
        outcome => outcome,
    }
}
