//! The report on one server: facts in the order in which they are printed, and what to try.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::config::{Endpoint, Scope, ServerConfig, Sharing, StdioEndpoint};
use switchboard::server::{ConnectStep, ServerHandle, Snapshot, State};
use switchboard::{Catalog, Host, ServerName};
use switchboard_gateway::{
    PromptClash, ResourceClash, ToolRepair, prompt_clashes, resource_clashes,
};

use super::{reachability, version_pinning};
use crate::hints;
use crate::notices::describe_unset_variable;
use crate::view::server::{endpoint, era_word, escaped, session_count, transport_name};
use crate::view::{counted, mask, table};

/// How many lines of stderr are shown, of a working and of a failed server.
const STDERR_LINES: (usize, usize) = (3, 10);

/// How many past states of a failed server are shown.
const HISTORY_LINES: usize = 5;

/// How many resources that other servers list, too, are shown.
const MAX_CLASHES: usize = 10;

/// The label of a line that is quoted under the fact before it.
pub(super) const QUOTED: &str = "│";

/// Label and value; the value is masked and escaped.
pub(super) type Fact = (&'static str, String);

/// The report on one server.
pub(super) struct Finding {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) headline: String,
    pub(super) is_ok: bool,
    /// In the order of the report.
    pub(super) facts: Vec<Fact>,
    pub(super) advice: Vec<String>,
}

impl Finding {
    pub(super) fn of(
        handle: &ServerHandle,
        host: &Host,
        network: &reachability::NetworkFacts,
        private_folder: Option<PathBuf>,
    ) -> Self {
        let snapshot = handle.snapshot();
        let config = &*handle.config;
        let mut finding = Self {
            name: config.name.to_string(),
            state: snapshot.state.as_str(),
            headline: headline(&snapshot.state, &snapshot.steps),
            is_ok: !is_failed(&snapshot.state),
            facts: connection(config, &snapshot),
            advice: Vec::new(),
        };
        let probed = network.get(&config.name).into_iter().flatten();
        finding.facts.extend(probed.cloned());
        finding.facts.extend(offers(handle, &snapshot, host));
        finding.facts.extend(sessions(handle, &snapshot));
        finding.add_configuration(config, &snapshot);
        finding.add_invalid_output(config, &snapshot);
        finding.add_stderr(handle);
        if !finding.is_ok {
            finding.add_failure(config, &snapshot, private_folder);
        }
        finding.add_next_step(config, &snapshot.state);
        finding
    }

    pub(super) fn as_json(&self) -> Value {
        let mut fact = "";
        let facts: Vec<_> = self
            .facts
            .iter()
            .map(|(label, value)| {
                if *label != QUOTED {
                    fact = label;
                }
                json!({ "fact": fact, "value": value })
            })
            .collect();
        json!({
            "name": self.name, "state": self.state, "ok": self.is_ok, "summary": self.headline, "facts": facts, "try": self.advice
        })
    }

    /// Unset variables, and a package without a version.
    fn add_configuration(&mut self, config: &ServerConfig, snapshot: &Snapshot) {
        for (variable, field) in &snapshot.unset {
            let fact = describe_unset_variable(&config.endpoint, variable, field);
            self.facts.push(("Not set", fact));
            self.advice.push(format!("set {}", escaped(variable)));
        }
        if let Endpoint::Stdio(stdio) = &config.endpoint
            && let Some(warning) = version_pinning::warning(&stdio.command, &stdio.args)
        {
            self.facts.push(("Not pinned", escaped(&warning)));
        }
    }

    fn add_invalid_output(&mut self, config: &ServerConfig, snapshot: &Snapshot) {
        let deviations = snapshot.deviations.deviations();
        if deviations.junk_lines == 0 {
            return;
        }
        let by_url = matches!(config.endpoint, Endpoint::Http(_));
        let junk = if by_url { "events" } else { "lines on stdout" };
        let count = format!("{} {junk} that are not messages", deviations.junk_lines);
        self.facts.push(("Invalid output", count));
        let samples = deviations.junk_samples.iter();
        self.facts
            .extend(samples.map(|sample| (QUOTED, escaped(sample.raw()))));
        if !by_url {
            let advice = "have it log to stderr: stdout is for messages only";
            self.advice.push(advice.to_owned());
        }
    }

    fn add_stderr(&mut self, handle: &ServerHandle) {
        let (few, many) = STDERR_LINES;
        let lines = handle
            .stderr
            .last_lines(if self.is_ok { few } else { many });
        if lines.is_empty() {
            return;
        }
        let count = format!("the last {}", counted(lines.len(), "line"));
        self.facts.push(("Stderr", count));
        let lines = lines.iter();
        self.facts
            .extend(lines.map(|line| (QUOTED, line.for_terminal_line().to_string())));
    }

    fn add_failure(
        &mut self,
        config: &ServerConfig,
        snapshot: &Snapshot,
        private_folder: Option<PathBuf>,
    ) {
        let history = snapshot.history.iter().rev().take(HISTORY_LINES).rev();
        self.facts
            .extend(history.map(|(_, happened)| ("History", escaped(happened))));
        if let Some(command) = command_to_run(config, private_folder) {
            self.advice
                .push(format!("run it by hand: {}", escaped(&command)));
        }
        if let Endpoint::Http(http) = &config.endpoint {
            let other_wire = config.dialect.profile().how_to_change_wire(http.wire);
            self.advice.extend(other_wire);
        }
        let logs = hints::command(&["logs", config.name.as_str()]);
        self.advice.push(format!("read {logs}"));
    }

    fn add_next_step(&mut self, config: &ServerConfig, state: &State) {
        match state {
            State::Untrusted { .. } => {
                let trust = hints::command(&["trust", config.name.as_str()]);
                self.advice.push(format!("review it with {trust}"));
            }
            State::NeedsLogin { reason, hint, .. } => {
                self.facts.push(("Reason", escaped(reason)));
                self.advice
                    .extend(hints::describe(*hint, &config.name, None));
            }
            _ => {}
        }
    }
}

pub(super) fn is_failed(state: &State) -> bool {
    matches!(
        state,
        State::Failed { .. } | State::Backoff { .. } | State::Connecting { .. } | State::Stopped
    )
}

/// The entry, its file, and how the connection was made.
fn connection(config: &ServerConfig, snapshot: &Snapshot) -> Vec<Fact> {
    let file = escaped(&config.source.file.display().to_string());
    let mut facts = vec![
        endpoint(config),
        ("File", format!("{file}:{}", config.source.line)),
    ];
    if !snapshot.steps.is_empty() {
        let steps = snapshot.steps.iter();
        let steps = steps.map(|(step, took)| format!("{step} {}", table::duration(*took)));
        facts.push(("Steps", steps.collect::<Vec<_>>().join(", ")));
    }
    if let (State::Ready { .. }, Some(wire)) = (&snapshot.state, snapshot.wire) {
        facts.push(("Transport", transport_name(Some(wire)).to_owned()));
    }
    facts
}

/// Sessions of single callers, and questions that belong to no call.
fn sessions(handle: &ServerHandle, snapshot: &Snapshot) -> Vec<Fact> {
    let mut facts = Vec::new();
    if handle.config.session == Sharing::PerCaller {
        facts.push(("Sessions", session_count(handle)));
    }
    let unattributed = snapshot.deviations.deviations().unattributed;
    if unattributed > 0 {
        let fact = format!("{unattributed} could not be matched to a call and were declined");
        facts.push(("Questions", fact));
    }
    facts
}

/// The number of tools, prompts and resources, the withheld tools, the definitions that `serve`
/// lists in another form, and the lists that failed.
fn offers(handle: &ServerHandle, snapshot: &Snapshot, host: &Host) -> Vec<Fact> {
    if !matches!(snapshot.state, State::Ready { .. }) {
        return Vec::new();
    }
    let catalog = host.catalog();
    let name = &handle.config.name;
    let tools = catalog
        .tools()
        .iter()
        .filter(|tool| tool.id.server == *name)
        .count();
    let offered = &snapshot.offerings;
    let counts = [
        counted(tools, "tool"),
        counted(offered.prompts.len(), "prompt"),
        counted(offered.resources.len(), "resource"),
        counted(offered.templates.len(), "template"),
    ];
    let mut facts = vec![("Offers", counts.join(", "))];
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
    facts.extend(gateway_facts(name, host, &catalog));
    for (method, what) in &offered.faults {
        facts.push(("Failed list", format!("{method}: {}", escaped(what))));
    }
    facts
}

/// What the gateway lists in another form or under another name, or answers from another server.
fn gateway_facts(name: &ServerName, host: &Host, catalog: &Catalog) -> Vec<Fact> {
    let repairs = switchboard_gateway::repairs(catalog).into_iter();
    let repairs = repairs.filter(|found| found.tool.server == *name);
    let mut facts: Vec<Fact> = repairs
        .map(|repair| ("Repaired", repair_fact(&repair)))
        .collect();
    let clashes = resource_clashes(catalog).into_iter();
    let clashes = clashes.filter(|clash| clash.servers.contains(name));
    let clashes: Vec<_> = clashes.map(|clash| clash_fact(name, &clash)).collect();
    facts.extend(limited_facts("Same URI", "more resource", clashes));
    let clashes = prompt_clashes(host, catalog).into_iter();
    let clashes = clashes.filter(|clash| clash.server == *name);
    let clashes: Vec<_> = clashes.map(|clash| prompt_fact(&clash)).collect();
    facts.extend(limited_facts("Same name", "more prompt", clashes));
    facts
}

/// The first facts of one kind, and the number of the others.
fn limited_facts(label: &'static str, more: &str, mut texts: Vec<String>) -> Vec<Fact> {
    let others = texts.len().saturating_sub(MAX_CLASHES);
    texts.truncate(MAX_CLASHES);
    if others > 0 {
        texts.push(counted(others, more));
    }
    texts.into_iter().map(|text| (label, text)).collect()
}

fn repair_fact(ToolRepair { tool, repair }: &ToolRepair) -> String {
    format!(
        "{}: {} in what `serve` lists: {}",
        tool.tool.untrusted().for_terminal_line(),
        escaped(&repair.pointer),
        repair.change
    )
}

/// Who else lists a resource, and who answers.
fn clash_fact(name: &ServerName, clash: &ResourceClash) -> String {
    let others = clash.servers.iter().filter(|server| *server != name);
    let others: Vec<_> = others.map(|server| format!("\"{server}\"")).collect();
    let answers = match clash.servers.first() {
        Some(first) if first != name => format!("\"{first}\" answers"),
        _ => "this one answers".to_owned(),
    };
    format!(
        "{} is listed by {}, too; through the gateway {answers}, because it comes first",
        clash.uri.for_terminal_line(),
        others.join(", ")
    )
}

/// Which name a prompt has in the gateway's list instead of its own.
fn prompt_fact(clash: &PromptClash) -> String {
    let listed = match &clash.listed_as {
        Some(name) => format!("is listed as {}", name.for_terminal_line()),
        None => "is not listed".to_owned(),
    };
    format!(
        "prompt {} is that of \"{}\", which comes first; through the gateway this one {listed}",
        clash.name.for_terminal_line(),
        clash.first
    )
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
