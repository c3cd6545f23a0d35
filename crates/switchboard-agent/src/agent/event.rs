//! Events of a run of the agent.

use super::{CallRecord, Compaction};
use crate::conversation::CallOutcome;
use crate::fault::ModelFault;
use crate::model::TurnEvent;

/// An event during a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// The model writes, its request is sent again, or its vendor refused a tool.
    Model(TurnEvent),
    /// A call begins.
    CallStarted {
        /// The index of the call in its turn.
        index: usize,
        /// The server; empty for a tool of the program.
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
        /// The result that the model reads.
        outcome: CallOutcome,
    },
    /// The conversation fills the context: the model is asked for a summary of it.
    CompactionStarted,
    /// A summary replaced the oldest entries.
    Compacted(Compaction),
    /// There is no summary; the conversation continues as it is.
    CompactionFailed(ModelFault),
    /// The session file cannot be written; the conversation continues without it.
    NotSaved {
        /// Why.
        message: String,
    },
}

/// Receives the events of a run.
pub type EventSink<'a> = &'a mut (dyn FnMut(AgentEvent) + Send);
