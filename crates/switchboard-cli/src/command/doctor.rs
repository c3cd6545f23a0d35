//! `doctor`: starts each server, times each step, and reports what it found and what to try.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use switchboard::Host;
use switchboard::config::{Endpoint, Scope, ServerConfig, Sharing, StdioEndpoint};
use switchboard::server::{ConnectStep, ServerHandle, State};
use switchboard_gateway::ToolRepair;
use tokio::task::JoinSet;

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::notices::describe_unset_variable;
use crate::setup::{OutputScope, Setup, describe_containment, no_server_notice};
use crate::view::server::{endpoint, era_word, escaped, session_count, transport_name};
use crate::view::{counted, mask, table};
use crate::working_folder::private_folder_of;
use crate::{hints, output, progress};

mod reachability;
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
        // Held back until now, because the report contains them.
        let warnings = output::take_held_notices();
        let servers = host.servers();
        let handles: Vec<_> =
            servers.iter().filter(|handle| server.is_none_or(|name| name == handle.config.name.as_str())).collect();
        let findings: Vec<_> = handles.iter().map(|handle| {
            let private = private_folder_of(&handle.config, &paths, &*store);
            examine_server(handle, host, &network, private)
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
    let asked = host.clone();
    // Checking for a keyring may block for a moment.
    let location = tokio::task::spawn_blocking(move || by_url.then(|| asked.logins_kept_in()));
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

fn is_failed(state: &State) -> bool {
    matches!(
        state,
        State::Failed { .. } | State::Backoff { .. } | State::Connecting { .. } | State::Stopped
    )
}

/// What was found about one server.
struct Finding {
    name: String,
    state: &'static str,
    headline: String,
    is_ok: bool,
    /// (label, value) in the order of the report; values are masked and escaped.
    facts: Vec<(&'static str, String)>,
    advice: Vec<String>,
}

impl Finding {
    fn as_json(&self) -> Value {
        let facts: Vec<_> = self
            .facts
            .iter()
            .map(|(label, value)| json!({ "fact": label, "value": value }))
            .collect();
        json!({
            "name": self.name, "state": self.state, "ok": self.is_ok, "summary": self.headline, "facts": facts, "try": self.advice
        })
    }
}

fn examine_server(
    handle: &ServerHandle,
    host: &Host,
    network: &reachability::NetworkFacts,
    private_folder: Option<PathBuf>,
) -> Finding {
    let snapshot = handle.snapshot();
    let config = &*handle.config;
    let mut facts = vec![endpoint(config)];
    facts.push((
        "File",
        format!(
            "{}:{}",
            escaped(&config.source.file.display().to_string()),
            config.source.line
        ),
    ));
    if !snapshot.steps.is_empty() {
        let steps: Vec<_> = snapshot
            .steps
            .iter()
            .map(|(step, took)| format!("{step} {}", table::duration(*took)))
            .collect();
        facts.push(("Steps", steps.join(", ")));
    }
    if let (State::Ready { .. }, Some(wire)) = (&snapshot.state, snapshot.wire) {
        facts.push(("Transport", transport_name(Some(wire)).to_owned()));
    }
    facts.extend(network.get(&config.name).into_iter().flatten().cloned());
    push_offers(&mut facts, handle, host);
    if config.session == Sharing::PerCaller {
        facts.push(("Sessions", session_count(handle)));
    }
    let oddities = snapshot.oddities.oddities();
    if oddities.unattributed > 0 {
        facts.push((
            "Questions",
            format!(
                "{} could not be matched to a call and were declined",
                oddities.unattributed
            ),
        ));
    }
    let mut advice = Vec::new();
    for (variable, field) in &snapshot.unset {
        facts.push((
            "Not set",
            describe_unset_variable(&config.endpoint, variable, field),
        ));
        advice.push(format!("set {}", escaped(variable)));
    }
    if let Endpoint::Stdio(stdio) = &config.endpoint
        && let Some(warning) = version_pinning::warning(&stdio.command, &stdio.args)
    {
        facts.push(("Not pinned", escaped(&warning)));
    }
    if oddities.junk_lines > 0 {
        let by_url = matches!(config.endpoint, Endpoint::Http(_));
        let junk = if by_url { "events" } else { "lines on stdout" };
        facts.push((
            "Invalid output",
            format!("{} {junk} that are not messages", oddities.junk_lines),
        ));
        oddities
            .junk_samples
            .iter()
            .for_each(|sample| facts.push(("│", escaped(sample.raw()))));
        if !by_url {
            advice.push("have it log to stderr: stdout is for messages only".to_owned());
        }
    }
    let is_ok = !is_failed(&snapshot.state);
    let lines = handle.stderr.last_lines(if is_ok { 3 } else { 10 });
    if !lines.is_empty() {
        facts.push((
            "Stderr",
            format!("the last {}", counted(lines.len(), "line")),
        ));
        lines
            .iter()
            .for_each(|line| facts.push(("│", line.for_terminal_line().to_string())));
    }
    let headline = headline(&snapshot.state, &snapshot.steps);
    if !is_ok {
        for (_, happened) in snapshot.history.iter().rev().take(5).rev() {
            facts.push(("History", escaped(happened)));
        }
        advice.extend(
            command_to_run(config, private_folder)
                .map(|command| format!("run it by hand: {}", escaped(&command))),
        );
        if let Endpoint::Http(http) = &config.endpoint {
            advice.extend(config.dialect.profile().how_to_change_wire(http.wire));
        }
        advice.push(format!(
            "read {}",
            hints::command(&["logs", config.name.as_str()])
        ));
    }
    match &snapshot.state {
        State::Untrusted { .. } => {
            advice.push(format!(
                "review it with {}",
                hints::command(&["trust", config.name.as_str()])
            ));
        }
        State::NeedsLogin { reason, hint, .. } => {
            facts.push(("Reason", escaped(reason)));
            advice.extend(hints::words(*hint, &config.name, None));
        }
        _ => {}
    }
    Finding {
        name: config.name.to_string(),
        state: snapshot.state.as_str(),
        headline,
        is_ok,
        facts,
        advice,
    }
}

/// The number of tools, prompts and resources, the withheld tools, the definitions that `serve`
/// lists in another form, and the lists that failed.
fn push_offers(facts: &mut Vec<(&'static str, String)>, handle: &ServerHandle, host: &Host) {
    let snapshot = handle.snapshot();
    if !matches!(snapshot.state, State::Ready { .. }) {
        return;
    }
    let catalog = host.catalog();
    let name = &handle.config.name;
    let tools = catalog
        .tools()
        .iter()
        .filter(|tool| tool.id.server == *name)
        .count();
    let offered = &snapshot.offerings;
    facts.push((
        "Offers",
        [
            counted(tools, "tool"),
            counted(offered.prompts.len(), "prompt"),
            counted(offered.resources.len(), "resource"),
            counted(offered.templates.len(), "template"),
        ]
        .join(", "),
    ));
    for withheld in catalog
        .withheld()
        .iter()
        .filter(|withheld| withheld.server == *name)
    {
        facts.push((
            "Withheld",
            format!(
                "{}: {}",
                withheld.tool.untrusted().for_terminal_line(),
                escaped(&withheld.reason)
            ),
        ));
    }
    let repairs = switchboard_gateway::repairs(&catalog);
    for ToolRepair { tool, repair } in repairs.iter().filter(|found| found.tool.server == *name) {
        facts.push((
            "Repaired",
            format!(
                "{}: {} in what `serve` lists: {}",
                tool.tool.untrusted().for_terminal_line(),
                escaped(&repair.pointer),
                repair.change
            ),
        ));
    }
    for (method, what) in &offered.faults {
        facts.push(("Failed list", format!("{method}: {}", escaped(what))));
    }
}

fn headline(state: &State, steps: &[(ConnectStep, Duration)]) -> String {
    match state {
        State::Ready { era, version } => {
            let took: Duration = steps.iter().map(|(_, took)| *took).sum();
            format!(
                "ready in {} ({} era, {})",
                table::duration(took),
                era_word(*era),
                escaped(version)
            )
        }
        State::Failed { error } | State::Backoff { error, .. } => escaped(error),
        State::Connecting { step, .. } => format!("no response yet; current step: {step}"),
        State::Untrusted { reason } => format!("not trusted, not started: {}", escaped(reason)),
        State::Blocked { rule } => format!("blocked: {}", escaped(rule)),
        State::NeedsLogin { .. } => "needs a login".to_owned(),
        State::Disabled => "disabled (`enabled = false`)".to_owned(),
        State::Idle => "idle (lazy)".to_owned(),
        state => state.as_str().to_owned(),
    }
}

/// A command to copy. References stay references for the shell; secrets are masked.
fn command_to_run(config: &ServerConfig, private_folder: Option<PathBuf>) -> Option<String> {
    let stdio = match &config.endpoint {
        Endpoint::Stdio(stdio) => stdio,
        Endpoint::Http(http) => return reachability::curl_command(&http.url),
        Endpoint::Invalid(_) => return None,
    };
    let in_project = (config.source.scope == Scope::Project).then(|| &*config.source.folder);
    let folder = in_project.or(private_folder.as_ref());
    let cwd = stdio
        .cwd
        .clone()
        .or_else(|| folder.map(|folder| folder.display().to_string()));
    let shown = StdioEndpoint {
        args: mask::arguments(&stdio.args),
        cwd,
        ..stdio.clone()
    };
    Some(switchboard::config::shell_command(
        &shown,
        &config.source.folder,
    ))
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
            let colon = if *label == "│" { "" } else { ":" };
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
    fn t7_the_report_of_a_failed_server_tells_what_was_found_and_what_to_try() {
        let finding = Finding {
            name: "files".into(),
            state: "failed",
            headline: "exited with status 1 before the handshake".into(),
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
        let expected = "✗ files: exited with status 1 before the handshake
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
