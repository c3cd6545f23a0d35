//! The demo MCP server: every kind of tool, resource, prompt and question, in both protocol eras,
//! fast.
//!
//! It is what `switchboard demo` embeds, what tests drive and what benchmarks measure against. The
//! modules stand in the order in which a message passes them. The handling of messages ([`Peer`])
//! knows no transport; a transport hands it messages and an [`Outlet`] for the responses.

/// Flags and variables.
pub mod options;

/// Lines in, lines out: the stdio edge.
pub mod stdio;

/// Requests in, answers and streams of events out: the HTTP edge.
pub mod http;

/// Where messages to the peer wait to be written.
pub mod outlet;

/// JSON-RPC: a message taken apart without parsing what it carries, and replies put together.
pub mod rpc;

/// Which protocol a request is made in, and what its sender can do.
pub mod era;

/// What all peers share: tools, the counter, the peers to notify of changes.
pub mod demo;

/// One peer: its messages, what it started, what it was asked.
pub mod peer;

/// One request while it is answered.
mod exchange;

/// The modern stream of changes.
mod listen;

/// Lists in pages.
mod lists;

/// What can be called.
mod tools;

/// Questions to the caller.
mod asks;

/// Calls that become tasks.
mod tasks;

/// What can be read.
mod resources;

/// What can be prompted, and the completion of arguments.
mod prompts;

/// What the protocol's conformance suite calls by name.
mod fixtures;

/// A small real picture and a small real sound.
mod media;

pub use demo::Demo;
pub use http::{HttpEdge, HttpOptions};
pub use options::Options;
pub use outlet::Outlet;
pub use peer::Peer;
pub use stdio::{main_stdio, serve_stdio};
