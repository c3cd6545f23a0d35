//! What a run of the agent reports while it goes on.

use super::{CallRecord, Compaction};
use crate::conversation::CallOutcome;
use crate::model::TurnEvent;

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
    /// The conversation fills the context: the model is asked for a summary of it.
    CompactionStarted,
    /// A summary took the place of the oldest entries.
    Compacted(Compaction),
    /// The session file cannot be written; the conversation goes on without it.
    NotSaved {
        /// Why.
        message: String,
    },
}

/// Gets the events of a run.
pub type EventSink<'a> = &'a mut (dyn FnMut(AgentEvent) + Send);
