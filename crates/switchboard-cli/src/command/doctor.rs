//! `doctor`: starts each server, times each step, shows what it found and what to try.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use switchboard::Host;
use switchboard::config::{Endpoint, Scope, ServerConfig, Sharing, StdioEndpoint};
use switchboard::server::{ServerHandle, State};
use tokio::task::JoinSet;

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::notices::unset_words;
use crate::opening::{Answer, Setup, keeping_words};
use crate::view::server::{endpoint, era_word, escaped, own_sessions, state_word, wire_words};
use crate::view::{counted, mask, table};
use crate::{hints, output, progress};

mod pinning;
mod reaching;

/// Which server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  switchboard doctor\n  switchboard doctor git --json")]
pub(crate) struct Wanted {
    /// Only this one
    #[arg(add = server_names())]
    server: Option<String>,
}

pub(crate) fn run(options: &Options, wanted: &Wanted) -> Result<u8, Failure> {
    let setup = Setup::read_for(options, Answer::Everything)?;
    let server = wanted.server.as_deref();
    let only = setup.only(server)?;
    if setup.config.servers.is_empty() {
        output::notice("no server is configured: `switchboard status` shows how to begin");
    }
    let environment = setup.environment.clone();
    setup.run(only, async |host, _| {
        wake(host, server, options.wait).await;
        let ways = reaching::look(host, server, &environment).await;
        host.notices().iter().for_each(|line| output::notice(&escaped(line)));
        // Held back until now: the report is where they belong.
        let warnings = output::take_held_notices();
        let servers = host.servers();
        let handles: Vec<_> =
            servers.iter().filter(|handle| server.is_none_or(|name| name == handle.config.name.as_str())).collect();
        let findings: Vec<_> = handles.iter().map(|handle| examine(handle, host, &ways)).collect();
        let logins = logins_kept_in(host).await;
        if options.json {
            let servers: Vec<_> = findings.iter().map(Finding::as_json).collect();
            let mut document = json!({ "keeping": keeping_words(host.keeping()), "warnings": warnings, "servers": servers });
            if let Some(logins) = logins {
                document["logins"] = logins.into();
            }
            output::print_json(&document.to_string())?;
        } else {
            let mut text = report(&findings, &warnings, keeping_words(host.keeping()));
            text.extend(logins.map(|logins| format!("Logins are kept in: {}\n", escaped(&logins))));
            output::print(&text)?;
        }
        let any = |wanted: fn(&State) -> bool| handles.iter().any(|handle| wanted(&handle.snapshot().state));
        Ok(match (any(is_failed), any(|state| matches!(state, State::NeedsLogin { .. }))) {
            (true, _) => Code::Unreachable as u8,
            (false, true) => Code::Login as u8,
            (false, false) => 0,
        })
    })
}

/// Where tokens are kept, if any server could have one.
async fn logins_kept_in(host: &Host) -> Option<String> {
    let by_url = host
        .servers()
        .iter()
        .any(|handle| matches!(handle.config.endpoint, Endpoint::Http(_)));
    let asked = host.clone();
    // A keyring is asked whether it is there, which may take a moment.
    let place = tokio::task::spawn_blocking(move || by_url.then(|| asked.logins_kept_in()));
    place.await.ok().flatten()
}

/// Starts what may start, lazy servers too, and waits for each as long as its own deadline allows.
async fn wake(host: &Host, server: Option<&str>, wait: Option<Duration>) {
    let mut waking = JoinSet::new();
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
        waking.spawn(async move { handle.ready(wait).await.is_ok() });
    }
    let mut left = waking.len();
    while left > 0 {
        progress::show(format!("examining, {left} to go"));
        if waking.join_next().await.is_none() {
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
    good: bool,
    /// (label, value) in the order of the report; values are masked and escaped.
    facts: Vec<(&'static str, String)>,
    try_next: Vec<String>,
}

impl Finding {
    fn as_json(&self) -> Value {
        let facts: Vec<_> = self
            .facts
            .iter()
            .map(|(label, value)| json!({ "fact": label, "value": value }))
            .collect();
        json!({
            "name": self.name, "state": self.state, "ok": self.good, "summary": self.headline, "facts": facts, "try": self.try_next
        })
    }
}

fn examine(handle: &ServerHandle, host: &Host, ways: &reaching::Ways) -> Finding {
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
        facts.push(("Wire", wire_words(Some(wire)).to_owned()));
    }
    facts.extend(ways.get(&config.name).into_iter().flatten().cloned());
    offers(&mut facts, handle, host);
    if config.session == Sharing::PerCaller {
        facts.push(("Sessions", own_sessions(handle)));
    }
    let odd = snapshot.noticed.oddities();
    if odd.unattributed > 0 {
        facts.push((
            "Questions",
            format!(
                "{} belonged to no call that could be told, and were declined",
                odd.unattributed
            ),
        ));
    }
    let mut try_next = Vec::new();
    for (variable, field) in &snapshot.unset {
        facts.push(("Not set", unset_words(&config.endpoint, variable, field)));
        try_next.push(format!("set {}", escaped(variable)));
    }
    if let Endpoint::Stdio(stdio) = &config.endpoint
        && let Some(advice) = pinning::advice(&stdio.command, &stdio.args)
    {
        facts.push(("Not pinned", escaped(&advice)));
    }
    if odd.junk_lines > 0 {
        let by_url = matches!(config.endpoint, Endpoint::Http(_));
        let junk = if by_url { "events" } else { "lines on stdout" };
        facts.push((
            "Junk",
            format!("{} {junk} that are no messages", odd.junk_lines),
        ));
        odd.junk_samples
            .iter()
            .for_each(|sample| facts.push(("│", escaped(sample.raw()))));
        if !by_url {
            try_next.push("have it log to stderr: stdout is for messages only".to_owned());
        }
    }
    let good = !is_failed(&snapshot.state);
    let lines = handle.stderr.last_lines(if good { 3 } else { 10 });
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
    if !good {
        for (_, happened) in snapshot.history.iter().rev().take(5).rev() {
            facts.push(("History", escaped(happened)));
        }
        try_next.extend(
            by_hand(config).map(|command| format!("run it by hand: {}", escaped(&command))),
        );
        if let Endpoint::Http(http) = &config.endpoint {
            try_next.extend(config.dialect.rules().to_change_wire(http.wire));
        }
        try_next.push(format!(
            "read {}",
            hints::command(&["logs", config.name.as_str()])
        ));
    }
    match &snapshot.state {
        State::Untrusted { .. } => {
            try_next.push(format!(
                "look at it with {}",
                hints::command(&["trust", config.name.as_str()])
            ));
        }
        State::NeedsLogin { reason, .. } => match reason.rsplit_once("; ") {
            // A login would change nothing: what to check in the entry stands at the end of the
            // reason.
            Some((fact, advice)) if config.endpoint.has_own_token() => {
                facts.push(("Reason", escaped(fact)));
                try_next.push(escaped(advice));
            }
            _ => {
                facts.push(("Reason", escaped(reason)));
                try_next.push(format!(
                    "run {}",
                    hints::command(&["login", config.name.as_str()])
                ));
            }
        },
        _ => {}
    }
    Finding {
        name: config.name.to_string(),
        state: state_word(&snapshot.state),
        headline,
        good,
        facts,
        try_next,
    }
}

/// How many of each kind, what is withheld and why, which lists failed.
fn offers(facts: &mut Vec<(&'static str, String)>, handle: &ServerHandle, host: &Host) {
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
    for (method, what) in &offered.faults {
        facts.push(("Failed list", format!("{method}: {}", escaped(what))));
    }
}

fn headline(state: &State, steps: &[(&'static str, Duration)]) -> String {
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
        State::Connecting { step, .. } => format!("no answer yet; it is still at: {step}"),
        State::Untrusted { reason } => format!("not trusted, not started: {}", escaped(reason)),
        State::Blocked { rule } => format!("blocked: {}", escaped(rule)),
        State::NeedsLogin { .. } => "needs a login".to_owned(),
        State::Disabled => "disabled (`enabled = false`)".to_owned(),
        State::Idle => "idle (lazy)".to_owned(),
        State::Stopped => "stopped".to_owned(),
    }
}

/// A command that can be copied (S2-65). References stay references for the shell; secrets are
/// masked.
fn by_hand(config: &ServerConfig) -> Option<String> {
    let stdio = match &config.endpoint {
        Endpoint::Stdio(stdio) => stdio,
        Endpoint::Http(http) => return reaching::by_hand(&http.url),
        Endpoint::Wrong(_) => return None,
    };
    let in_project = || {
        (config.source.scope == Scope::Project).then(|| config.source.folder.display().to_string())
    };
    let cwd = stdio.cwd.clone().or_else(in_project);
    let shown = StdioEndpoint {
        args: mask::arguments(&stdio.args),
        cwd,
        ..stdio.clone()
    };
    Some(switchboard::config::by_hand(&shown, &config.source.folder))
}

fn report(findings: &[Finding], warnings: &[String], keeping: &str) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.state {
            _ if !finding.good => "✗",
            "ready" => "✓",
            _ => "–",
        };
        text.push_str(&format!("{mark} {}: {}\n", finding.name, finding.headline));
        for (label, value) in &finding.facts {
            let colon = if *label == "│" { "" } else { ":" };
            text.push_str(&format!("    {label}{colon} {value}\n"));
        }
        finding
            .try_next
            .iter()
            .for_each(|advice| text.push_str(&format!("    Try: {advice}\n")));
        text.push('\n');
    }
    warnings
        .iter()
        .for_each(|warning| text.push_str(&format!("! {warning}\n")));
    text.push_str(&format!("Servers are kept by: {keeping}\n"));
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
            good: false,
            facts: vec![
                ("Command", "npx -y server-files".into()),
                (
                    "Not pinned",
                    pinning::advice("npx", &["-y".into(), "server-files".into()])
                        .unwrap_or_default(),
                ),
                ("Stderr", "the last 1 line".into()),
                ("│", "no such folder".into()),
            ],
            try_next: vec!["run it by hand: npx -y server-files".into()],
        };
        let expected = "✗ files: exited with status 1 before the handshake
    Command: npx -y server-files
    Not pinned: npx takes whatever version \"server-files\" has that day; write server-files@VERSION
    Stderr: the last 1 line
    │ no such folder
    Try: run it by hand: npx -y server-files

! warning: switchboard.toml:3:1: servers.files.comand: unknown field
Servers are kept by: launcher
";
        let warnings =
            ["warning: switchboard.toml:3:1: servers.files.comand: unknown field".to_owned()];
        assert_eq!(report(&[finding], &warnings, "launcher"), expected);
    }
}
