//! The agent's part of Switchboard: a conversation between a person, a model and tools.
//!
//! An [`Agent`] offers the tools of a [`switchboard::Host`] to a [`Model`] and makes its calls,
//! through the host's gate, until the model is done. Below it, this crate turns a [`Conversation`]
//! into a vendor's request, reads the vendor's answer into a complete [`ModelTurn`], and keeps the
//! conversation in a state that every vendor accepts. That part can be used without a host:
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
//! # What always holds
//!
//! - A request is built from a [`Conversation`], in which each call has exactly one result. While
//!   a call has none there is only [`AwaitingResults`].
//! - A call that was cut off or whose arguments are not a JSON object never runs.
//! - The same vendor gets its own items back; another vendor gets the neutral view.
//! - What a request begins with does not change while a conversation grows: vendors cache it.
//! - A key never prints, and a vendor's text never reaches a message with control characters.
//!
//! # Modules, from the bottom up
//!
//! [`json`] and [`sse`] are the formats, [`usage`] and [`price`] count, [`settings`] says which
//! model is asked, [`conversation`] is the history, [`tools`] the list of tools, [`refusal`] and
//! [`fault`] what goes wrong, [`wire`] the four vendors' APIs, [`model`] what answers,
//! [`driver`] the HTTP requests, [`session`] the file of a conversation, and [`compact`] makes a
//! long one short. [`agent`] is the loop, and [`builtin_tools`] are tools of the agent itself; these
//! two alone use the host. [`agents_file`] reads the `AGENTS.md` of a project.

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

pub mod json;
pub mod sse;

pub mod price;
pub mod settings;
pub mod usage;

pub mod conversation;
pub mod tools;

pub mod fault;
pub mod refusal;

pub mod wire;

pub mod driver;
pub mod model;

pub mod compact;
pub mod session;

pub mod agent;
pub mod agents_file;

pub mod builtin_tools;
