//! The trait that every model implements, and the scripted demo model.

use std::future::Future;
use std::pin::Pin;

use crate::conversation::ModelTurn;
use crate::fault::ModelFault;
use crate::settings::ModelSettings;
use crate::tools::{ToolSpec, ToolTreatment};
use crate::wire::{TurnContext, TurnDelta, WireRequest};

pub use demo::DemoModel;

mod demo;

/// A future that is boxed so that the trait can be used behind a pointer.
pub type TurnFuture<'a> = Pin<Box<dyn Future<Output = Result<ModelTurn, ModelFault>> + Send + 'a>>;

/// Something that answers a conversation: a vendor over HTTP, or the scripted demo.
pub trait Model: Send + Sync {
    /// One line about what it is, for a person.
    fn description(&self) -> String;

    /// How it is reached: this decides the form of tools, their limit and the price.
    fn settings(&self) -> &ModelSettings;

    /// Asks for one turn. What arrives before the turn is complete goes to `sink`. Dropping the
    /// future cancels the request.
    fn turn<'a>(
        &'a self,
        context: TurnContext<'a>,
        sink: &'a mut (dyn FnMut(TurnEvent) + Send),
    ) -> TurnFuture<'a>;

    /// The treatment of a tool that the vendor refused before.
    fn treatment(&self, _tool: &ToolSpec) -> Option<ToolTreatment> {
        None
    }

    /// The same model with at most this many tokens in an answer; `None` if it has no such limit.
    fn limited(&self, _max_output_tokens: u32) -> Option<Box<dyn Model>> {
        None
    }

    /// The same model with a limit of at least this many tokens in an answer; `None` if its answers
    /// may have as many already.
    fn with_room_for(&self, _output_tokens: u32) -> Option<Box<dyn Model>> {
        None
    }

    /// Forgets which tools the vendor refused, so that the next request has them again.
    fn forget_refusals(&self) {}
}

/// An event during a turn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TurnEvent {
    /// A piece of the answer.
    Delta(TurnDelta),
    /// The request failed and is sent again after `wait`. Deltas of the failed answer are void.
    Retrying {
        /// How long until then.
        wait: std::time::Duration,
        /// Which attempt comes next: 2 is the first retry.
        attempt: u32,
        /// Why the one before failed.
        fault: ModelFault,
    },
    /// A request was sent. The last one of a turn is the one that was answered.
    RequestSent(Box<WireRequest>),
    /// The vendor refused a tool; the turn went on without it or with a simpler schema.
    ToolRefused {
        /// The name of the tool.
        name: String,
        /// What was done, with the vendor's words.
        treatment: ToolTreatment,
    },
}
