//! `run`: one request to a model with the tools of all servers, without a person: prints the answer.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;
use switchboard::config::{Dialect, RuleText};
use switchboard_agent::conversation::FinishReason;
use switchboard_agent::tools::ToolTreatment;
use switchboard_agent::{
    Agent, AgentEvent, AgentLimits, FaultKind, ModelFault, RunSummary, StopReason, TurnDelta,
    TurnEvent, UserMessage,
};

use crate::arguments::Options;
use crate::command::agent_args::{AgentArgs, system_prompt};
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::{output, progress};

use caller::RunCaller;

/// The caller of a run, which cannot ask a person.
mod caller;
/// The model of this run.
pub(super) mod model;

/// Limit of a request that is read from stdin.
const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// The beginning of the system prompt.
const SYSTEM_PROMPT: &str = "You are run by a script. Nobody can answer questions or approve \
    calls. Use the tools that are offered where they help, and end with the answer to the request.";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
The model is the one in [model] of switchboard.toml; without it, the built-in script `demo`, which
understands `call TOOL {\"argument\": …}`, one per line. Calls that would be asked about are denied,
and the rule that would allow them is named. Each run is stored as a session in the state folder,
the last 1000 of each project; `--continue` and `--resume` continue one, `replay` checks one.

Examples:
  switchboard run -p 'What changed in this repository today?' --allow git
  git diff | switchboard run -p - --max-turns 5 --output json
  switchboard run -p 'call mcp__demo__echo {\"message\": \"hi\"}' --model demo --allow demo/echo

With --output json or stream-json stdout has the document also if the model fails, with an \"error\".

Exit codes: 0 the model answered · 1 it did not, its answer was cut off, or a limit was reached
4 the key was not accepted
5 it answered, but a call was denied · 75 may work later (the vendor is overloaded, limits the rate or cannot be reached)")]
pub(crate) struct RunArgs {
    /// The request, or - for stdin
    #[arg(short, long, value_name = "TEXT|-", allow_hyphen_values = true)]
    prompt: String,
    /// What is printed: the answer, one JSON document, or one JSON line for each event
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    output: RunOutput,
    /// Let tools run without asking: server, server/tool, a built-in tool such as Read, or globs
    /// (repeatable; deny rules still apply)
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Limit of the model's turns
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: u32,
    /// Limit of the cost in US dollars; if the model's price is unknown, its tool calls are not made
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
    #[command(flatten)]
    agent: AgentArgs,
}

/// What `run` prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum RunOutput {
    /// The answer
    #[default]
    Text,
    /// One document with the answer, the calls, the usage and the cost
    Json,
    /// One line for each event, the last with the document
    StreamJson,
}

fn dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("expected an amount in US dollars, such as 0.50".to_owned()),
    }
}

pub(crate) fn run(options: &Options, args: &RunArgs) -> Result<u8, Failure> {
    let mut setup = Setup::read(options)?;
    let model = model::choose(&setup, args.agent.model.as_deref())?;
    let request = read_request(&args.prompt)?;
    setup
        .config
        .permissions
        .allow
        .extend(allow_rules(&args.allow));
    args.agent.add_builtin_tools(&mut setup, options);
    let system_prompt = system_prompt(SYSTEM_PROMPT, &setup);
    let output = match args.output {
        RunOutput::Text if options.json => RunOutput::Json,
        output => output,
    };
    let store = setup.paths.sessions();
    let session = args.agent.session.load(&store)?;
    setup.run(None, async |host, paths| {
        super::wait_for_servers(host, options, None).await?;
        let limits = AgentLimits {
            max_turns: args.max_turns,
            max_cost_usd: args.max_cost,
        };
        let mut agent = Agent::from_shared(host.clone(), model.into(), Arc::new(RunCaller))
            .system(system_prompt)
            .limits(limits)
            .results_in(paths.conversation_results())
            .sessions(store);
        if let Some(session) = session {
            for repair in agent.resume(session) {
                output::notice(&format!("session: {}", escaped(&repair.to_string())));
            }
        }
        report_withheld_tools(&mut agent);
        let mut written = Ok(());
        let mut sink = |event| {
            show_progress(&event);
            if output == RunOutput::StreamJson && written.is_ok() {
                written = print_event(&event);
            }
        };
        let message = UserMessage::text(request);
        let mut summary = RunSummary::default();
        let outcome = agent.run_into(&mut summary, message, &mut sink).await;
        progress::clear();
        written?;
        let id = agent.session().map(|session| session.id.as_str());
        match outcome {
            Ok(()) => print_outcome(&summary, id, output),
            Err(fault) => {
                let failure = Failure::from(fault);
                print_document(&summary, id, Some(&failure), output)?;
                Err(failure)
            }
        }
    })
}

/// One notice about the tools that the model is not offered.
fn report_withheld_tools(agent: &mut Agent) {
    let treated = agent.treated_tools().into_iter();
    let withheld = treated.filter_map(|row| match row.treatment {
        ToolTreatment::Withheld { words } => {
            let separator = if row.server.is_empty() { "" } else { "/" };
            Some(format!("{}{separator}{} ({words})", row.server, row.tool))
        }
        ToolTreatment::Loosened { .. } => None,
    });
    let withheld: Vec<String> = withheld.collect();
    if !withheld.is_empty() {
        output::notice(&format!(
            "not offered, because the model's vendor does not accept them: {}",
            escaped(&withheld.join("; "))
        ));
    }
}

/// `--allow` as rules.
fn allow_rules(rules: &[String]) -> impl Iterator<Item = RuleText> {
    let file = Arc::new(PathBuf::from("--allow"));
    rules.iter().map(move |text| RuleText {
        text: text.clone(),
        client: None,
        dialect: Dialect::Native,
        file: file.clone(),
        line: 0,
    })
}

/// `-p`: the text itself, or `-` for stdin.
fn read_request(option: &str) -> Result<String, Failure> {
    let usage = |message: String| Failure::new(Code::Usage, message);
    let mut text = option.to_owned();
    if option == "-" {
        text.clear();
        let mut stdin = std::io::stdin().lock().take(MAX_REQUEST_BYTES + 1);
        stdin
            .read_to_string(&mut text)
            .map_err(|error| usage(format!("-p: stdin cannot be read as text: {error}")))?;
        if text.len() as u64 > MAX_REQUEST_BYTES {
            return Err(usage("-p: stdin has more than 16 MiB".to_owned()));
        }
    }
    if text.trim().is_empty() {
        return Err(
            usage("-p: the request is empty".to_owned()).hint("give a text, or - for stdin")
        );
    }
    Ok(text)
}

/// Shows an event on the spinner's line, or as a notice.
fn show_progress(event: &AgentEvent) {
    match event {
        AgentEvent::Model(TurnEvent::Delta(_)) => progress::show("the model answers".to_owned()),
        AgentEvent::Model(TurnEvent::Retrying {
            wait,
            attempt,
            fault,
        }) => {
            output::notice(&format!(
                "{}; attempt {attempt} in {:.1} s",
                escaped(&fault.to_string()),
                wait.as_secs_f64()
            ));
            progress::show_countdown(format!("attempt {attempt}"), *wait);
        }
        AgentEvent::Model(TurnEvent::ToolRefused { name, treatment }) => output::notice(&format!(
            "the vendor refused the tool {}, so {}",
            escaped(name),
            escaped(&describe_treatment(treatment))
        )),
        AgentEvent::CallStarted { server, tool, .. } => {
            let separator = if server.is_empty() { "" } else { "/" };
            progress::show(format!(
                "calling {}{separator}{}",
                escaped(server),
                escaped(tool)
            ));
        }
        AgentEvent::CallEnded { .. } => progress::show("waiting for the model".to_owned()),
        AgentEvent::CompactionStarted => {
            progress::show("the model summarises the conversation".to_owned());
        }
        AgentEvent::Compacted(compaction) => output::notice(&format!(
            "the conversation filled the context: {} entries were replaced by a summary, {} of {} tokens are left",
            compaction.replaced, compaction.tokens_after, compaction.tokens_before
        )),
        AgentEvent::CompactionFailed(fault) => output::notice(&format!(
            "the conversation fills the context and was not summarised: {}",
            escaped(&fault.to_string())
        )),
        AgentEvent::NotSaved { message } => {
            output::notice(&format!("not saved: {}", escaped(message)));
        }
        _ => {}
    }
}

/// What was done about a tool that the vendor refused, with the vendor's message.
pub(super) fn describe_treatment(treatment: &ToolTreatment) -> String {
    match treatment {
        ToolTreatment::Loosened { words } => format!("its schema was simplified: {words}"),
        ToolTreatment::Withheld { words } => format!("it is not offered: {words}"),
    }
}

/// One line of `stream-json`.
fn print_event(event: &AgentEvent) -> Result<(), Failure> {
    let line = match event {
        AgentEvent::Model(TurnEvent::Delta(TurnDelta::Text(text))) => {
            json!({"type": "text", "text": text})
        }
        AgentEvent::Model(TurnEvent::Delta(TurnDelta::Thought(text))) => {
            json!({"type": "thought", "text": text})
        }
        AgentEvent::Model(TurnEvent::Retrying { attempt, fault, .. }) => {
            json!({"type": "retrying", "attempt": attempt, "message": fault.to_string()})
        }
        AgentEvent::Model(TurnEvent::ToolRefused { name, .. }) => {
            json!({"type": "tool_refused", "name": name})
        }
        AgentEvent::CallStarted {
            index,
            server,
            tool,
            arguments,
        } => {
            let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
            json!({"type": "call_started", "index": index, "server": server, "tool": tool, "arguments": arguments})
        }
        AgentEvent::CallEnded {
            index,
            record,
            outcome,
        } => {
            let mut line = json!({"type": "call_ended", "index": index, "text": outcome.text()});
            add_fields(&mut line, json!(record));
            line
        }
        AgentEvent::Compacted(compaction) => json!({
            "type": "compacted",
            "replaced": compaction.replaced,
            "tokens_before": compaction.tokens_before,
            "tokens_after": compaction.tokens_after,
        }),
        AgentEvent::CompactionFailed(fault) => {
            json!({"type": "compaction_failed", "message": fault.to_string()})
        }
        _ => return Ok(()),
    };
    output::print_json(&line.to_string())
}

/// Adds the members of one object to another.
fn add_fields(object: &mut serde_json::Value, more: serde_json::Value) {
    if let (Some(object), serde_json::Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}

/// The whole run as one JSON document, also of one that failed.
fn document(
    summary: &RunSummary,
    session: Option<&str>,
    failure: Option<&Failure>,
) -> serde_json::Value {
    let mut document = json!({
        "text": summary.text,
        "turns": summary.turns,
        "calls": summary.calls,
        "usage": summary.usage,
        "cost": summary.cost.total_usd(),
        "stop": summary.stop,
        "finish": summary.finish,
        "session": session,
    });
    if let Some(failure) = failure {
        document["stop"] = "failed".into();
        document["error"] = json!({"code": failure.code as u8, "message": failure.message});
    }
    document
}

/// Prints the answer, or the document. The text of a run that failed is no answer.
fn print_document(
    summary: &RunSummary,
    session: Option<&str>,
    failure: Option<&Failure>,
    format: RunOutput,
) -> Result<(), Failure> {
    match format {
        RunOutput::Text if failure.is_some() => Ok(()),
        RunOutput::Text => output::print_model_text(&summary.text),
        RunOutput::Json => output::print_json(&document(summary, session, failure).to_string()),
        RunOutput::StreamJson => {
            let mut line = json!({"type": "result"});
            add_fields(&mut line, document(summary, session, failure));
            output::print_json(&line.to_string())
        }
    }
}

fn print_outcome(
    summary: &RunSummary,
    session: Option<&str>,
    format: RunOutput,
) -> Result<u8, Failure> {
    print_document(summary, session, None, format)?;
    let stopped = match summary.stop {
        StopReason::Done => None,
        StopReason::MaxTurns => Some(
            "the limit of --max-turns is reached; the model's last calls were not made; `--continue` continues from here",
        ),
        StopReason::MaxCost => Some(
            "the limit of --max-cost is reached; the model's last calls were not made; `--continue` continues from here",
        ),
        StopReason::UnknownCost => Some(
            "the price of this model is unknown, so --max-cost cannot be enforced: its calls were not made; set `price` in [model]",
        ),
        _ => Some("the run ended early"),
    };
    if let Some(line) = stopped {
        output::notice(line);
        return Ok(Code::Answered as u8);
    }
    if let Some(line) = describe_early_end(summary) {
        output::notice(line);
        return Ok(Code::Answered as u8);
    }
    let is_denied = |call: &switchboard_agent::CallRecord| {
        call.decision == switchboard_agent::CallDecision::Denied
    };
    match summary.calls.iter().any(is_denied) {
        true => Ok(Code::Denied as u8),
        false => Ok(0),
    }
}

/// Why the last answer is not complete; `None` if it is.
pub(super) fn describe_early_end(summary: &RunSummary) -> Option<&'static str> {
    match summary.finish {
        Some(FinishReason::Length) => {
            Some("the answer was cut off: the limit on tokens was reached")
        }
        Some(FinishReason::Refused) => Some("the model or its vendor refused to answer"),
        Some(FinishReason::Other) => Some("the vendor ended the answer before it was complete"),
        _ if summary.stop == StopReason::Done && summary.text.trim().is_empty() => {
            Some("the answer is empty")
        }
        _ => None,
    }
}

impl From<ModelFault> for Failure {
    fn from(fault: ModelFault) -> Self {
        let code = match fault.kind {
            _ if fault.may_work_later() => Code::MayWorkLater,
            FaultKind::Authentication => Code::Login,
            FaultKind::UnknownModel => Code::Usage,
            _ => Code::Answered,
        };
        Self::new(code, escaped(&fault.to_string()))
    }
}
