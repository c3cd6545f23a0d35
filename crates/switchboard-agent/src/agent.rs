//! The loop: a message of the person becomes an answer, with the model's calls made in between.
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

use std::sync::Arc;

use switchboard::{Caller, Host};

use crate::conversation::{AwaitingResults, CallOutcome, Conversation, ModelTurn, UserMessage};
use crate::fault::ModelFault;
use crate::model::{Model, TurnContext, TurnEvent};
use crate::price::turn_cost;
use offered::OfferedTools;

pub use summary::{AgentLimits, CallDecision, CallRecord, RunSummary, StopReason};

mod calls;
mod instructions;
mod offered;
mod summary;

/// A host of servers, a model, and a conversation between them.
///
/// Every call that the model makes is a call of the [`Caller`]: the host's gate decides, and that
/// caller is asked.
pub struct Agent {
    host: Host,
    model: Box<dyn Model>,
    caller: Arc<dyn Caller>,
    system: String,
    limits: AgentLimits,
    cache_key: String,
    /// What servers said about their use when the conversation began. Fixed, since it stands at the
    /// beginning of each request.
    instructions: Option<String>,
    tools: OfferedTools,
    conversation: Conversation,
    /// The turn whose calls are under way. It is kept here so that a run that is dropped leaves a
    /// conversation that can be continued.
    awaiting: Option<AwaitingResults>,
}

/// What happens during a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// The model writes, its request is sent again, or its vendor refused a tool.
    Model(TurnEvent),
    /// A call begins.
    CallStarted {
        /// The index of the call in its turn.
        index: usize,
        /// The server; empty where the tool is the program's own.
        server: String,
        /// The tool, by the server's name for it.
        tool: String,
        /// The arguments, as the model wrote them.
        arguments: String,
    },
    /// A call has its result. A call that never began has this event alone.
    CallEnded {
        /// The index of the call in its turn.
        index: usize,
        /// Which tool it was, and what was decided.
        record: CallRecord,
        /// What the model reads.
        outcome: CallOutcome,
    },
}

/// Gets the events of a run.
pub type EventSink<'a> = &'a mut (dyn FnMut(AgentEvent) + Send);

impl Agent {
    /// An agent with an empty conversation.
    pub fn new(host: Host, model: impl Model + 'static, caller: Arc<dyn Caller>) -> Self {
        Self::from_boxed(host, Box::new(model), caller)
    }

    /// The same with a model that is chosen at run time.
    pub fn from_boxed(host: Host, model: Box<dyn Model>, caller: Arc<dyn Caller>) -> Self {
        Self {
            tools: OfferedTools::new(model.settings()),
            host,
            model,
            caller,
            system: String::new(),
            limits: AgentLimits::default(),
            cache_key: format!("{:016x}", fastrand::u64(..)),
            instructions: None,
            conversation: Conversation::new(),
            awaiting: None,
        }
    }

    /// With a system prompt. To be set before the first message: vendors cache what a request
    /// begins with.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = prompt.into();
        self
    }

    /// With other limits.
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Continues an earlier conversation.
    pub fn conversation(mut self, conversation: Conversation) -> Self {
        self.conversation = conversation;
        self
    }

    /// The conversation so far. Calls of a run that was dropped are cancelled in it.
    pub fn history(&mut self) -> &Conversation {
        self.close_turn();
        &self.conversation
    }

    /// Runs a message of the person to the end: until the model calls no more tools, or a limit is
    /// reached.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the request or the calls that are under way. The conversation
    /// can be continued: calls without a result are cancelled in it.
    ///
    /// # Errors
    ///
    /// [`ModelFault`] where the model did not answer. What was said and called before stays in the
    /// conversation. A call that fails is not an error: the model reads why.
    pub async fn run(
        &mut self,
        message: UserMessage,
        sink: EventSink<'_>,
    ) -> Result<RunSummary, ModelFault> {
        self.close_turn();
        self.conversation.add_user_message(message);
        let mut summary = RunSummary::default();
        loop {
            let turn = self.next_turn(sink).await?;
            summary.add_turn(&turn, turn_cost(self.model.settings(), &turn.usage));
            let has_calls = turn.calls().next().is_some();
            self.awaiting = Some(std::mem::take(&mut self.conversation).reply(turn));
            let stop = match has_calls {
                false => Some(StopReason::Done),
                true => self.limits.reached(&summary),
            };
            match stop {
                None => self.make_calls(&mut summary, sink).await,
                Some(reason) => {
                    self.deny_calls(reason, &mut summary, sink);
                    self.close_turn();
                    summary.stop = reason;
                    return Ok(summary);
                }
            }
            self.close_turn();
        }
    }

    /// Asks the model for one turn, with the tools that the host offers now.
    async fn next_turn(&mut self, sink: EventSink<'_>) -> Result<ModelTurn, ModelFault> {
        let late = self.tools.update(self.host.catalog());
        self.conversation.add_loaded_tools(late.loaded);
        if let Some(note) = late.note {
            self.conversation.add_note(note);
        }
        let instructions = self
            .instructions
            .get_or_insert_with(|| instructions::of_servers(&self.host));
        let deferred = self.tools.deferred_prompt();
        let sections = [&*self.system, &**instructions, &*deferred];
        let sections = sections.into_iter().filter(|section| !section.is_empty());
        let system = sections.collect::<Vec<_>>().join("\n\n");
        let context = TurnContext {
            conversation: &self.conversation,
            system: &system,
            tools: self.tools.list(),
            cache_key: &self.cache_key,
        };
        let mut show = |event| sink(AgentEvent::Model(event));
        self.model.turn(context, &mut show).await
    }

    /// Ends the turn whose calls were under way.
    fn close_turn(&mut self) {
        if let Some(awaiting) = self.awaiting.take() {
            self.conversation = awaiting.close();
            self.conversation
                .add_loaded_tools(self.tools.take_loaded_by_calls());
        }
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
