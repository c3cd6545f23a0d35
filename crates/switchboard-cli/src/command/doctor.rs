//! `doctor`: starts each server, times each step, and reports what it found and what to try.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchboard::Host;
use switchboard::config::Endpoint;
use switchboard::server::State;
use tokio::task::JoinSet;

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::setup::{OutputScope, Setup, describe_containment, no_server_notice};
use crate::view::server::escaped;
use crate::working_folder::private_folder_of;
use crate::{output, progress};

use finding::{Finding, is_failed};

/// The report on one server.
mod finding;
/// Probes of unreachable URL servers.
mod reachability;
/// Package runners without a pinned version.
mod version_pinning;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  switchboard doctor\n  switchboard doctor git --json")]
pub(crate) struct DoctorArgs {
    /// Only this server
    #[arg(add = server_names())]
    server: Option<String>,
}

pub(crate) fn run(options: &Options, args: &DoctorArgs) -> Result<u8, Failure> {
    let setup = Setup::read_for(options, OutputScope::AllFindings)?;
    let server = args.server.as_deref();
    let only = setup.servers_to_start(server)?;
    if setup.config.servers.is_empty() {
        output::notice(&no_server_notice());
    }
    let environment = setup.environment.clone();
    let (paths, store) = (setup.paths.clone(), setup.store.clone());
    setup.run(only, async |host, _| {
        start_and_wait(host, server, options.wait).await;
        let network = reachability::probe_servers(host, server, &environment).await;
        host.notices().iter().for_each(|line| output::notice(&escaped(line)));
        // The report contains these notices, so they are not printed before it.
        let warnings = output::take_held_notices();
        let servers = host.servers();
        let handles: Vec<_> =
            servers.iter().filter(|handle| server.is_none_or(|name| name == handle.config.name.as_str())).collect();
        let findings: Vec<_> = handles.iter().map(|handle| {
            let private = private_folder_of(&handle.config, &paths, &*store);
            Finding::of(handle, host, &network, private)
        }).collect();
        let logins = login_storage(host).await;
        if options.json {
            let servers: Vec<_> = findings.iter().map(Finding::as_json).collect();
            let mut document = json!({ "keeping": describe_containment(host.containment()), "warnings": warnings, "servers": servers });
            if let Some(logins) = logins {
                document["logins"] = logins.into();
            }
            output::print_json(&document.to_string())?;
        } else {
            let mut text = report(&findings, &warnings, describe_containment(host.containment()));
            text.extend(logins.map(|logins| format!("Logins are stored in: {}\n", escaped(&logins))));
            output::print(&text)?;
        }
        let any = |args: fn(&State) -> bool| handles.iter().any(|handle| args(&handle.snapshot().state));
        Ok(match (any(is_failed), any(|state| matches!(state, State::NeedsLogin { .. }))) {
            (true, _) => Code::Unreachable as u8,
            (false, true) => Code::Login as u8,
            (false, false) => 0,
        })
    })
}

/// Where tokens are stored, if any server could have one.
async fn login_storage(host: &Host) -> Option<String> {
    let by_url = host
        .servers()
        .iter()
        .any(|handle| matches!(handle.config.endpoint, Endpoint::Http(_)));
    let host = host.clone();
    // Checking for a keyring may block for a moment.
    let location = tokio::task::spawn_blocking(move || by_url.then(|| host.login_storage()));
    location.await.ok().flatten()
}

/// Starts every server that may start, lazy ones too, and waits for each until its own deadline.
async fn start_and_wait(host: &Host, server: Option<&str>, wait: Option<Duration>) {
    let mut starting = JoinSet::new();
    for handle in host
        .servers()
        .iter()
        .filter(|handle| server.is_none_or(|name| name == handle.config.name.as_str()))
    {
        let handle = handle.clone();
        if matches!(
            handle.snapshot().state,
            State::Disabled | State::Blocked { .. } | State::Untrusted { .. }
        ) {
            continue;
        }
        let wait = wait.unwrap_or(handle.config.longest_connect() + Duration::from_secs(2));
        starting.spawn(async move { handle.ready(wait).await.is_ok() });
    }
    let mut left = starting.len();
    while left > 0 {
        progress::show(format!("examining servers, {left} left"));
        if starting.join_next().await.is_none() {
            break;
        }
        left -= 1;
    }
    progress::clear();
}

fn report(findings: &[Finding], warnings: &[String], keeping: &str) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.state {
            _ if !finding.is_ok => "✗",
            "ready" => "✓",
            _ => "–",
        };
        text.push_str(&format!("{mark} {}: {}\n", finding.name, finding.headline));
        for (label, value) in &finding.facts {
            let colon = if *label == finding::QUOTED { "" } else { ":" };
            text.push_str(&format!("    {label}{colon} {value}\n"));
        }
        finding
            .advice
            .iter()
            .for_each(|line| text.push_str(&format!("    Try: {line}\n")));
        text.push('\n');
    }
    warnings
        .iter()
        .for_each(|warning| text.push_str(&format!("! {warning}\n")));
    text.push_str(&format!("Servers are supervised by: {keeping}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t7_the_report_of_a_failed_server_has_findings_and_next_steps() {
        let finding = Finding {
            name: "files".into(),
            state: "failed",
            headline: "exited with status 1 before the handshake was complete".into(),
            is_ok: false,
            facts: vec![
                ("Command", "npx -y server-files".into()),
                (
                    "Not pinned",
                    version_pinning::warning("npx", &["-y".into(), "server-files".into()])
                        .unwrap_or_default(),
                ),
                ("Stderr", "the last 1 line".into()),
                ("│", "no such folder".into()),
            ],
            advice: vec!["run it by hand: npx -y server-files".into()],
        };
        let expected = "✗ files: exited with status 1 before the handshake was complete
    Command: npx -y server-files
    Not pinned: npx is given no version of \"server-files\"; write server-files@VERSION
    Stderr: the last 1 line
    │ no such folder
    Try: run it by hand: npx -y server-files

! warning: switchboard.toml:3:1: servers.files.comand: unknown field
Servers are supervised by: launcher
";
        let warnings =
            ["warning: switchboard.toml:3:1: servers.files.comand: unknown field".to_owned()];
        assert_eq!(report(&[finding], &warnings, "launcher"), expected);
    }
}
