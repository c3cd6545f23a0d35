//! The agent of Switchboard: a conversation between a person, a model and tools.
//!
//! An [`Agent`] offers the tools of a [`switchboard::Host`] to a [`Model`] and makes its calls,
//! through the host's gate, until the model is done. The lower modules turn a [`Conversation`] into
//! a vendor's request and the vendor's answer into a complete [`ModelTurn`]. They can be used without
//! a host:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use switchboard_agent::{
//!     CallOutcome, Conversation, HttpModel, Model, ModelSettings, ModelVendor, ToolList,
//!     TurnContext, UserMessage,
//! };
//!
//! let model = HttpModel::new(ModelSettings::new(ModelVendor::Anthropic, "claude-sonnet-4-6"))?;
//! let tools = ToolList::new(None);
//! let mut conversation = Conversation::new();
//! conversation.add_user_message(UserMessage::text("Which files are here?"));
//! loop {
//!     let context = TurnContext {
//!         conversation: &conversation,
//!         system: "Answer briefly.",
//!         tools: &tools,
//!         cache_key: "session-1",
//!     };
//!     let turn = model.turn(context, &mut |event| println!("{event:?}")).await?;
//!     let mut waiting = conversation.reply(turn);
//!     let calls: Vec<usize> = waiting.open_calls().map(|(index, _)| index).collect();
//!     for index in &calls {
//!         waiting.answer(*index, CallOutcome::answered("…"))?;
//!     }
//!     conversation = waiting.close();
//!     if calls.is_empty() {
//!         break;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! - A request is built from a [`Conversation`], in which each call has exactly one result. A
//!   conversation with a call that has none is an [`AwaitingResults`].
//! - A call that was cut off or whose arguments are not a JSON object never runs.
//! - The same vendor gets its own items back; another vendor gets the neutral view.
//! - The beginning of requests does not change while a conversation grows: vendors cache it.
//! - A key never prints, and a vendor's text never reaches a message with control characters.
//!
//! The modules are listed from the bottom up; only [`agent`] and [`builtin_tools`] use the host.

pub use agent::{
    Agent, AgentEvent, AgentLimits, CallDecision, CallRecord, Compaction, ContextBreakdown,
    RunSummary, ServerContext, StopReason,
};
pub use agents_file::{agents_prompt, read_agents_files};
pub use conversation::{
    AwaitingResults, CallArguments, CallOutcome, ContentPart, Conversation, HistoryEntry,
    ModelTurn, ToolCall, ToolOutput, UserMessage,
};
pub use driver::HttpModel;
pub use fault::{FaultKind, ModelFault};
pub use model::{DemoModel, Model, TurnEvent};
pub use session::{SessionError, SessionInfo, SessionStore};
pub use settings::{ModelSettings, ModelVendor};
pub use tools::{ToolList, ToolSpec};
pub use usage::TokenUsage;
pub use wire::{TurnContext, TurnDelta};

/// JSON as text, unchanged.
pub mod json;

/// Texts that are too long for a model.
mod long_text;

/// Server-sent events.
pub mod sse;

/// Tokens of a turn.
pub mod usage;

/// The cost of a turn.
pub mod price;

/// The settings of a model.
pub mod settings;

/// The history: messages, turns of the model, results of calls.
pub mod conversation;

/// The list of tools that a model is offered.
pub mod tools;

/// Tools that a vendor refuses.
pub mod refusal;

/// Why there is no turn.
pub mod fault;

/// The four vendors' APIs.
pub mod wire;

/// The trait of models, and the demo model.
pub mod model;

/// Models over HTTP.
pub mod driver;

/// The file of a conversation.
pub mod session;

/// When and what to summarise.
pub mod compact;

/// `AGENTS.md` files.
pub mod agents_file;

/// The agent's own tools.
pub mod builtin_tools;

/// The agent's loop.
pub mod agent;
