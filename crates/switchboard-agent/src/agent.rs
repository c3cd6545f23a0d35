//! The agent's loop: sends a message of the person to the model, makes the model's calls, and returns
//! its answer.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use switchboard::{Headless, Host};
//! use switchboard_agent::{Agent, DemoModel, UserMessage};
//!
//! let host = Host::open("switchboard.toml").await?;
//! let mut agent = Agent::new(host, DemoModel, Arc::new(Headless::new("my-agent")));
//! let message = UserMessage::text("call files/read {}");
//! let summary = agent.run(message, &mut |event| eprintln!("{event:?}")).await?;
//! println!("{}", summary.text);
//! # Ok(())
//! # }
//! ```

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use switchboard::sync::lock;
use switchboard::{Caller, Host};

use crate::conversation::{
    AwaitingResults, CallOutcome, Conversation, HistoryEntry, ModelTurn, UserMessage,
};
use crate::fault::ModelFault;
use crate::model::{Model, TurnEvent};
use crate::price::CostSum;
use crate::session::recorder::SessionRecorder;
use crate::session::{RequestPrefix, SessionRecord};
use crate::settings::ModelSettings;
use crate::tools::ToolList;
use crate::usage::TokenEstimate;
use crate::usage::TokenUsage;
use crate::wire::WireRequest;
use crate::wire::{TurnContext, TurnDelta};
use offered::OfferedTools;

pub use compaction::Compaction;
pub use context::{ContextBreakdown, ServerContext};
pub use event::{AgentEvent, EventSink};
pub use offered::TreatedTool;
pub use summary::{AgentLimits, CallDecision, CallRecord, RunSummary, StopReason};

mod calls;
mod compaction;
mod context;
mod event;
mod instructions;
mod offered;
mod outcomes;
mod sessions;
mod summary;

/// A host of servers, a model, and a conversation between them.
///
/// Every call that the model makes is a call of the [`Caller`]: the host's gate decides, and that
/// caller is asked.
pub struct Agent {
    host: Host,
    model: Arc<dyn Model>,
    caller: Arc<dyn Caller>,
    system: String,
    limits: AgentLimits,
    /// The beginning of each request. Fixed with the first request, because vendors cache it.
    prefix: Option<RequestPrefix>,
    tools: OfferedTools,
    conversation: Conversation,
    /// The turn whose calls are in flight. Stored here, so that a run that is dropped leaves a
    /// conversation that can be continued.
    awaiting: Option<AwaitingResults>,
    /// Which of these calls have begun, by index.
    started_calls: HashSet<usize>,
    /// The text so far of the answer that the model writes; `None` while no answer is awaited. A run
    /// that is dropped leaves it here.
    unfinished_answer: Mutex<Option<String>>,
    recorder: SessionRecorder,
    /// The settings that the session file has.
    recorded_model: Option<ModelSettings>,
    /// Names of refused tools that the session file has.
    recorded_refusals: HashSet<String>,
    /// Where long results are stored.
    results_folder: Option<PathBuf>,
    estimate: TokenEstimate,
    /// How many tokens the model can read, from the vendor's fault about a conversation that was too
    /// long.
    learned_limit: Option<u64>,
    /// Whether an automatic summary failed in this run: it is tried once for each message.
    has_failed_summary: bool,
    usage: TokenUsage,
    cost: CostSum,
}

impl Agent {
    /// An agent with an empty conversation.
    pub fn new(host: Host, model: impl Model + 'static, caller: Arc<dyn Caller>) -> Self {
        Self::from_shared(host, Arc::new(model), caller)
    }

    /// The same with a model that is chosen at run time, and that others may ask as well.
    pub fn from_shared(host: Host, model: Arc<dyn Model>, caller: Arc<dyn Caller>) -> Self {
        Self {
            tools: OfferedTools::new(model.settings()),
            host,
            model,
            caller,
            system: String::new(),
            limits: AgentLimits::default(),
            prefix: None,
            conversation: Conversation::new(),
            awaiting: None,
            started_calls: HashSet::new(),
            unfinished_answer: Mutex::new(None),
            recorder: SessionRecorder::default(),
            recorded_model: None,
            recorded_refusals: HashSet::new(),
            results_folder: None,
            estimate: TokenEstimate::default(),
            learned_limit: None,
            has_failed_summary: false,
            usage: TokenUsage::default(),
            cost: CostSum::default(),
        }
    }

    /// With a system prompt. To be set before the first message: vendors cache the beginning of
    /// requests.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = prompt.into();
        self
    }

    /// With other limits.
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// With a folder for long results: the model reads the beginning and the end, and the name of
    /// the file with all of it.
    pub fn results_in(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        // Read knows the folder without symbolic links.
        self.results_folder = Some(folder.canonicalize().unwrap_or(folder));
        self
    }

    /// The model that is asked.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// Uses another model from now on. It gets the conversation so far, with a new beginning of
    /// requests.
    pub fn set_model(&mut self, model: Arc<dyn Model>) {
        self.close_turn();
        self.model = model;
        self.learned_limit = None;
        self.tools.restart(self.model.settings());
        self.forget_prefix();
    }

    /// The tools that the model was offered so far.
    pub fn tools(&self) -> &ToolList {
        self.tools.list()
    }

    /// The tools of the host that the model gets with a simpler schema or not at all, and why.
    pub fn treated_tools(&mut self) -> Vec<TreatedTool> {
        self.tools.treated(&self.host, &*self.model)
    }

    /// Forgets which tools the vendor refused: they are offered again, with a new beginning of
    /// requests.
    pub fn forget_refusals(&mut self) {
        self.close_turn();
        self.model.forget_refusals();
        self.tools.renew(self.model.settings());
        self.forget_prefix();
    }

    /// The conversation so far. Calls of a run that was dropped are cancelled in it.
    pub fn history(&mut self) -> &Conversation {
        self.close_turn();
        &self.conversation
    }

    /// The tokens of all turns of the session.
    pub fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// The cost of all turns of the session.
    pub fn cost(&self) -> CostSum {
        self.cost
    }

    /// Runs a message of the person to the end: until the model calls no more tools, or a limit is
    /// reached.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the request or the calls in flight. The conversation
    /// can be continued: calls without a result are cancelled in it, and a note says where an answer
    /// was stopped.
    ///
    /// # Errors
    ///
    /// [`ModelFault`] if the model did not answer. Earlier messages and calls stay in the
    /// conversation. A failed call is not an error: the model reads why it failed.
    pub async fn run(
        &mut self,
        message: UserMessage,
        sink: EventSink<'_>,
    ) -> Result<RunSummary, ModelFault> {
        let mut summary = RunSummary::default();
        self.run_into(&mut summary, message, sink).await?;
        Ok(summary)
    }

    /// As [`run`](Self::run), with a summary that also has what was done before a fault.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_into(
        &mut self,
        summary: &mut RunSummary,
        message: UserMessage,
        sink: EventSink<'_>,
    ) -> Result<(), ModelFault> {
        self.close_turn();
        self.has_failed_summary = false;
        self.recorder.record(&SessionRecord::User(message.clone()));
        self.conversation.add_user_message(message);
        loop {
            *lock(&self.unfinished_answer) = Some(String::new());
            let turn = self.next_turn(summary, sink).await;
            *lock(&self.unfinished_answer) = None;
            let turn = turn?;
            let cost = self.model.settings().turn_cost(&turn.usage);
            self.count(turn.usage, cost);
            summary.add_turn(&turn, cost);
            let has_calls = turn.calls().next().is_some();
            self.started_calls.clear();
            self.awaiting = Some(std::mem::take(&mut self.conversation).reply(turn));
            let stop = match has_calls {
                false => Some(StopReason::Done),
                true => self.limits.reached(summary),
            };
            match stop {
                None => self.make_calls(summary, sink).await,
                Some(reason) => self.deny_calls(reason, summary, sink),
            }
            self.close_turn();
            if let Some(error) = self.recorder.take_error() {
                let message = error.to_string();
                sink(AgentEvent::NotSaved { message });
            }
            if let Some(reason) = stop {
                summary.stop = reason;
                return Ok(());
            }
        }
    }

    /// Asks the model for one turn, with the tools that the host offers now. A conversation that is
    /// too long is summarised first.
    async fn next_turn(
        &mut self,
        summary: &mut RunSummary,
        sink: EventSink<'_>,
    ) -> Result<ModelTurn, ModelFault> {
        self.begin_request();
        self.compact_if_due(summary, sink).await?;
        let outcome = self.ask(sink).await;
        let (turn, request) = match outcome {
            Err(fault) if self.compact_after(&fault, summary, sink).await? => {
                self.ask(sink).await?
            }
            outcome => outcome?,
        };
        self.estimate.calibrate(self.context_bytes(), &turn.usage);
        self.record_turn(&turn, request);
        Ok(turn)
    }

    /// Updates the beginning of the next request, and records it.
    fn begin_request(&mut self) {
        let update = self.tools.update(&self.host, self.model.settings());
        self.record_model();
        if update.restarts {
            self.forget_prefix();
        }
        let begins = self.prefix.is_none();
        if begins {
            let prefix = RequestPrefix {
                system: self.system_prompt(),
                cache_key: format!("{:016x}", fastrand::u64(..)),
            };
            self.recorder.record(&SessionRecord::Prefix(prefix.clone()));
            self.prefix = Some(prefix);
        }
        if let Some(record) = update.record {
            self.recorder.record(&SessionRecord::Tools(record));
        }
        self.add_loaded_tools(update.loaded);
        let late = (update.is_new && !begins).then(|| self.late_instructions());
        let notes: Vec<String> = update.note.into_iter().chain(late.flatten()).collect();
        if !notes.is_empty() {
            self.add_note(notes.join("\n\n"));
        }
    }

    fn add_note(&mut self, text: String) {
        let record = SessionRecord::Note { text: text.clone() };
        self.recorder.record(&record);
        self.conversation.add_note(text);
    }

    /// The instructions of servers that connected after the conversation began, or that changed.
    fn late_instructions(&self) -> Option<String> {
        let system = self.prefix.as_ref().map_or("", |prefix| &prefix.system);
        let entries = self.conversation.entries().iter();
        let notes = entries.filter_map(|entry| match entry {
            HistoryEntry::Note(note) => Some(note.as_str()),
            _ => None,
        });
        let known: Vec<&str> = notes.chain([system]).collect();
        instructions::of_servers(&self.host, |section| {
            !known.iter().any(|text| text.contains(section))
        })
    }

    /// The person's system prompt, the servers' instructions, and the names of deferred tools.
    fn system_prompt(&self) -> String {
        let instructions = instructions::of_servers(&self.host, |_| true).unwrap_or_default();
        let deferred = self.tools.deferred_prompt();
        let sections = [&*self.system, &*instructions, &*deferred].into_iter();
        let sections = sections.filter(|section| !section.is_empty());
        sections.collect::<Vec<_>>().join("\n\n")
    }

    /// Sends the conversation. Returns the turn and the request that it answers.
    async fn ask(
        &self,
        sink: EventSink<'_>,
    ) -> Result<(ModelTurn, Option<Box<WireRequest>>), ModelFault> {
        let mut last_request = None;
        let mut show = |event| match event {
            TurnEvent::RequestSent(request) => last_request = Some(request),
            event => {
                self.follow_answer(&event);
                sink(AgentEvent::Model(event));
            }
        };
        let context = self.turn_context(&self.conversation);
        let turn = self.model.turn(context, &mut show).await?;
        Ok((turn, last_request))
    }

    fn follow_answer(&self, event: &TurnEvent) {
        if let Some(text) = &mut *lock(&self.unfinished_answer) {
            match event {
                TurnEvent::Delta(TurnDelta::Text(piece)) => text.push_str(piece),
                TurnEvent::Retrying { .. } => text.clear(),
                _ => {}
            }
        }
    }

    fn turn_context<'a>(&'a self, conversation: &'a Conversation) -> TurnContext<'a> {
        let prefix = self.prefix.as_ref();
        TurnContext {
            conversation,
            system: prefix.map_or(&self.system, |prefix| &prefix.system),
            tools: self.tools.list(),
            cache_key: prefix.map_or("", |prefix| &prefix.cache_key),
        }
    }

    /// Ends a run that was dropped: its calls without a result are recorded as cancelled, and its
    /// answer as stopped. Otherwise the next run does this, or the end of the agent.
    pub fn close_dropped_run(&mut self) {
        self.close_turn();
    }

    /// Ends the turn of a run that was dropped. Does nothing after any other turn.
    fn close_turn(&mut self) {
        let unfinished = lock(&self.unfinished_answer).take();
        if let Some(text) = unfinished {
            self.add_note(stopped_note(&text));
        }
        if let Some(mut awaiting) = self.awaiting.take() {
            let open: Vec<usize> = awaiting.open_calls().map(|(index, _)| index).collect();
            for call in open {
                let outcome = match self.started_calls.contains(&call) {
                    true => CallOutcome::Cancelled,
                    false => CallOutcome::Denied {
                        reason: "the turn was stopped before this call began".to_owned(),
                    },
                };
                self.recorder.record(&SessionRecord::Result {
                    call,
                    outcome: outcome.clone(),
                });
                let answered = awaiting.answer(call, outcome);
                debug_assert!(answered.is_ok(), "{answered:?}");
            }
            self.conversation = awaiting.close();
            let names = self.tools.take_loaded_by_calls();
            self.add_loaded_tools(names);
        }
    }

    fn add_loaded_tools(&mut self, names: Vec<String>) {
        if !names.is_empty() {
            let record = SessionRecord::ToolsLoaded {
                names: names.clone(),
            };
            self.recorder.record(&record);
            self.conversation.add_loaded_tools(names);
        }
    }

    /// Counts a turn of the model outside the conversation, such as the answer to a server's sampling
    /// request. The session file does not have it.
    pub fn count(&mut self, usage: TokenUsage, cost: Option<f64>) {
        self.usage += usage;
        self.cost.add(cost);
    }
}

/// Tells the model that its answer was stopped: otherwise it would read the message before it as one
/// that is still to be answered.
fn stopped_note(shown: &str) -> String {
    let note = "The answer was stopped here. Do not act on what was asked before, unless you are \
                asked again.";
    match shown.trim() {
        "" => note.to_owned(),
        shown => {
            let lines: Vec<String> = shown.lines().map(|line| format!("> {line}")).collect();
            let shown = lines.join("\n");
            format!("{note} This much of the answer was shown:\n\n{shown}")
        }
    }
}

impl Drop for Agent {
    /// The session has the end of a run that was dropped, so that it is not taken for a crash.
    fn drop(&mut self) {
        self.close_turn();
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("model", &self.model.description())
            .field("caller", &self.caller.id())
            .finish_non_exhaustive()
    }
}
