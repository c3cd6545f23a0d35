//! The demo MCP server: every kind of tool, resource, prompt and question, in both protocol eras.
//!
//! `switchboard demo` embeds it, and tests and benchmarks use it. The modules are listed in the order
//! in which a message passes them. A [`Peer`] handles messages without knowing the transport, which
//! gives it messages and an [`OutgoingBuffer`] for the responses.

/// Flags and variables.
pub mod options;

/// The stdio transport.
pub mod stdio;

/// The HTTP transport.
pub mod http;

/// The buffer of messages to a peer.
pub mod outgoing;

/// JSON-RPC messages: split without parsing their payload, and built.
pub mod rpc;

/// The protocol era of a request, and the capabilities of its sender.
pub mod era;

/// State that all peers share: tools, the counter, subscribers.
pub mod demo;

/// One peer: its messages, its calls in flight, its open questions.
pub mod peer;

/// One request while it is answered.
mod exchange;

/// The modern stream of changes.
mod listen;

/// Lists in pages.
mod lists;

/// The tools.
mod tools;

/// Questions to the caller.
mod questions;

/// Calls that become tasks.
mod tasks;

/// The resources.
mod resources;

/// The prompts, and the completion of their arguments.
mod prompts;

/// Tools, prompts and resources for the protocol's conformance suite.
mod fixtures;

/// A small image and a short sound.
mod media;

pub use demo::Demo;
pub use http::{HttpEdge, HttpOptions};
pub use options::Options;
pub use outgoing::OutgoingBuffer;
pub use peer::Peer;
pub use stdio::{main_stdio, serve_stdio};
