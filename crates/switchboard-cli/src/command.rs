//! One file for each command, and the functions that several commands use.
//!
//! | files | commands |
//! |---|---|
//! | `call`, `tools`, `prompt`, `prompts`, `read`, `resources`, `complete`, `watch` | use what servers offer |
//! | `chat`, `run`, `replay` (options: `agent_args`) | a model with the tools of all servers |
//! | `serve`, `attach`, `approvals`, `token`, `reload` | the gateway |
//! | `edit` (`add`, `remove`, `enable`, `disable`), `import`, `install`, `trust`, `permissions` | configuration and approvals |
//! | `login`, `logout` | logins of servers, keys of vendors |
//! | `status`, `doctor`, `logs`, `why` | find out what is wrong |
//! | `demo`, `completions` | a demonstration; completion scripts of shells |

use std::sync::Arc;
use std::time::Duration;

use switchboard::catalog::Offerings;
use switchboard::name::ServerName;
use switchboard::server::{NotReady, NotReadyReason, ServerHandle, State};
use switchboard::wire::RawJson;
use switchboard::{Hint, Host};
use tokio::task::JoinSet;

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::progress::WaitLimit;
use crate::setup::Setup;
use crate::view::server::{escaped, login_advice, with_advice};
use crate::{coerce, output, progress};

pub(crate) mod agent_args;
pub(crate) mod approvals;
pub(crate) mod attach;
pub(crate) mod call;
pub(crate) mod chat;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod logs;
pub(crate) mod permissions;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod reload;
pub(crate) mod replay;
pub(crate) mod resources;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod watch;
pub(crate) mod why;

/// Runs a command that queries servers: starts the named server or all of them, waits, then does
/// the work.
fn with_servers(
    options: &Options,
    server: Option<&str>,
    work: impl AsyncFnOnce(&Host) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    with_servers_of(Setup::read(options)?, options, server, work)
}

/// The same with files that were already read.
fn with_servers_of(
    setup: Setup,
    options: &Options,
    server: Option<&str>,
    work: impl AsyncFnOnce(&Host) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let only = setup.servers_to_start(server)?;
    setup.run(only, async |host, _| {
        wait_for_servers(host, options, server).await?;
        work(host).await
    })
}

/// Waits for the servers that a listing needs: the named one, which must be ready, or all of them
/// until the limit.
async fn wait_for_servers(
    host: &Host,
    options: &Options,
    server: Option<&str>,
) -> Result<(), Failure> {
    let limit = WaitLimit::start(options);
    let Some(handle) = server.and_then(|name| host.server(name)) else {
        progress::wait_until_settled(host, limit).await;
        start_unlisted_servers(host, limit).await;
        report_unavailable_servers(host);
        return Ok(());
    };
    wait_until_ready(&handle, limit).await
}

/// Starts a server and waits until it is ready.
async fn wait_until_ready(handle: &ServerHandle, limit: WaitLimit) -> Result<(), Failure> {
    let ready = handle.ready(handle.config.longest_connect() + Duration::from_secs(1));
    tokio::pin!(ready);
    let mut poll = tokio::time::interval(Duration::from_millis(100));
    let waiting = async {
        loop {
            tokio::select! {
                ready = &mut ready => return ready.map(|_| ()),
                _ = poll.tick() => if limit.remaining(handle).is_zero() {
                    let ready = handle.ready(Duration::ZERO).await;
                    return ready.map(|_| ()).map_err(|late| waited_for(limit.elapsed(), late));
                },
            }
        }
    };
    let waited =
        progress::with_spinner(format!("connecting {}", handle.config.name), waiting).await;
    waited.map_err(|not_ready| {
        let is_connecting = matches!(not_ready.reason, NotReadyReason::Connecting { .. });
        let failure = Failure::from(not_ready);
        match (is_connecting, &failure.hint) {
            (false, _) => failure,
            (true, None) => failure.hint("wait longer with --wait SECS"),
            (true, Some(hint)) => {
                let hint = format!("wait longer with --wait SECS, or {hint}");
                failure.hint(hint)
            }
        }
    })
}

/// The same with the time of the whole wait.
fn waited_for(elapsed: Duration, mut not_ready: NotReady) -> NotReady {
    if let NotReadyReason::Connecting { waited, .. } | NotReadyReason::TimedOut { waited } =
        &mut not_ready.reason
    {
        *waited = elapsed;
    }
    not_ready
}

/// Starts lazy servers without a cached catalog: a listing needs their offerings too.
async fn start_unlisted_servers(host: &Host, limit: WaitLimit) {
    let servers = host.servers();
    let unlisted = servers.iter().filter(|server| server.may_offer_more());
    start_servers(unlisted.cloned().collect(), limit).await;
}

/// Starts servers, all at once, and waits until each is ready or has failed.
async fn start_servers(servers: Vec<ServerHandle>, limit: WaitLimit) {
    let mut starting = JoinSet::new();
    for handle in servers {
        // The state of a server says why it did not start.
        starting.spawn(async move { wait_until_ready(&handle, limit).await.is_ok() });
    }
    progress::with_spinner("starting lazy servers".to_owned(), starting.join_all()).await;
}

/// Prints one notice for each server that failed or is still connecting.
fn report_unavailable_servers(host: &Host) {
    for handle in host.servers().iter() {
        let name = &handle.config.name;
        match &handle.snapshot().shown_state() {
            State::Failed { error } | State::Backoff { error, .. } => {
                let fact = format!("server \"{name}\": {}", escaped(error));
                output::notice(&with_advice(fact, Hint::Examine, &handle.config));
            }
            State::Connecting { step, .. } => {
                let doing = progress::connecting_step(handle, *step);
                output::notice(&format!(
                    "server \"{name}\": still connecting ({doing}); wait longer with --wait SECS"
                ));
            }
            State::NeedsLogin { reason, hint, .. } => {
                output::notice(&format!(
                    "server \"{name}\": {}",
                    login_advice(&handle.config, reason, *hint)
                ));
            }
            _ => {}
        }
    }
}

/// A server and its offerings.
type ServerOfferings = (ServerName, Arc<Offerings>);

/// The only server in `found`. `offering` is what several servers offer, for the error about them;
/// `none` makes the error for no server.
fn single_server(
    found: &[ServerName],
    offering: &str,
    none: impl FnOnce() -> Failure,
) -> Result<ServerName, Failure> {
    match found {
        [only] => Ok(only.clone()),
        [] => Err(none()),
        several => {
            let names: Vec<_> = several.iter().map(|name| format!("\"{name}\"")).collect();
            Err(Failure::new(
                Code::Usage,
                format!("servers {} offer {offering}", names.join(" and ")),
            )
            .hint("choose one with --server SERVER"))
        }
    }
}

/// The servers whose offerings satisfy `offers`.
fn servers_offering(
    offerings: &[ServerOfferings],
    offers: impl Fn(&Offerings) -> bool,
) -> Vec<ServerName> {
    offerings
        .iter()
        .filter(|(_, offered)| offers(offered))
        .map(|(name, _)| name.clone())
        .collect()
}

/// The offerings of one server, or of all.
fn offerings(host: &Host, server: Option<&str>) -> Vec<ServerOfferings> {
    let catalog = host.catalog();
    let is_selected = |name: &ServerName| server.is_none_or(|server| server == name.as_str());
    catalog
        .offerings()
        .iter()
        .filter(|(name, _)| is_selected(name))
        .cloned()
        .collect()
}

/// A server's JSON object with our fields first. Its own fields keep their text; ours replace those
/// of the same name.
fn with_fields(raw: &RawJson, ours: &[(&str, &str)]) -> String {
    let mut parts: Vec<_> = ours
        .iter()
        .map(|(key, value)| format!("\"{key}\":{}", serde_json::Value::from(*value)))
        .collect();
    for (key, text) in coerce::fields(raw).unwrap_or_default() {
        if !ours.iter().any(|(known, _)| *known == key) {
            parts.push(format!("{}:{text}", serde_json::Value::from(key)));
        }
    }
    format!("{{{}}}", parts.join(","))
}

/// Text that ends in a newline.
fn with_final_newline(text: String) -> String {
    if text.ends_with('\n') || text.is_empty() {
        text
    } else {
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_servers_definition_keeps_every_field_and_its_text() {
        let raw =
            RawJson::parse(&br#"{"name":"x","n":1.00,"server":"liar","_meta":{"b":1,"a":2}}"#[..])
                .unwrap();
        assert_eq!(
            with_fields(
                &raw,
                &[("name", "mcp__s__x"), ("server", "s"), ("tool", "x")]
            ),
            r#"{"name":"mcp__s__x","server":"s","tool":"x","n":1.00,"_meta":{"b":1,"a":2}}"#
        );
    }
}
