//! Every MCP server you use, behind one gate.
//!
//! A [`Host`] reads a configuration, keeps its servers alive, merges their tools, prompts and
//! resources into one [`Catalog`], passes each call through its gate, and returns every result as
//! the server sent it.
//!
//! ```no_run
//! use serde_json::json;
//! use switchboard::Host;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     switchboard::launcher_main(); // first: the servers then end with this process
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let host = Host::open("switchboard.toml").await?;
//!         let arguments = json!({"path": "README.md"});
//!         println!("{}", host.call("files/read_file", arguments).await?.text());
//!         host.stop().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The types that most programs need are at the root. Servers and rules can be configured in code
//! ([`Host::builder`], [`Server`]); a program answers the questions of the gate and the servers
//! with closures ([`Callbacks`]) or as a [`Caller`]; [`HostBuilder::tool`] adds tools of its own.
//!
//! A program that needs more finds it in the modules: [`transport`], [`store`] and [`auth`] for
//! transports, stores and login pages of its own; [`catalog`], [`gate`], [`trust`], [`server`],
//! [`session`], [`reload`] and [`vendor`] for front ends such as a command line or a gateway.
//!
//! # Systems
//!
//! Unix. Child processes are kept from outliving this one by a launcher process on Linux, and by
//! process groups elsewhere ([`launcher_main`]).
//!
//! # Features
//!
//! - `http` (default): servers that are reached by a URL, over Streamable HTTP and HTTP+SSE, with
//!   headers and static tokens. Without it, an entry with a `url` fails and says so.
//! - `oauth` (implies `http`): logging in to them (`Host::login`). Without it, a server that
//!   requires a login stays in [`State::NeedsLogin`] until its entry has a token.
//! - `keyring` (implies `oauth`): logins are kept in the system keyring. Without it they are kept
//!   in a file that only its owner can read.
//! - `watch`: `Host::watch` applies changes of the configuration files while servers run.
//! - `hcl`, `yaml`: configuration files in these formats, beside TOML and JSON.
//! - `full`: all of them.

#[doc(inline)]
pub use switchboard_config as config;
#[doc(inline)]
pub use switchboard_config::{name, secret, shell, untrusted};

/// Child processes: the launcher, spawn, bounded stderr, stop.
pub use switchboard_launch as launch;

// Ordered from the bottom up: each module uses only those above it.

/// Boxed futures.
mod future;

/// Panics in tasks, caught for their owners.
mod panics;

/// Locks that a panic does not break.
#[doc(hidden)]
pub mod sync;

/// Durations in messages.
mod duration_text;

/// Line diffs for display.
#[doc(hidden)]
pub mod line_diff;

/// What a person could do about a failure.
pub mod hint;

/// The store: what is remembered between runs.
pub mod store;

/// Which project files a person has accepted, per server, by fingerprint.
pub mod trust;

/// The revisions of the protocol, and its two eras.
pub mod revision;

/// JSON-RPC messages over raw JSON; bounded parsers of lines and event streams.
pub mod wire;

/// The result of a call: all content kinds, and projections for models and people.
pub mod result;

/// Validation of arguments, bounded and without network access.
pub mod schema;

/// The immutable snapshot of all tools, prompts and resources.
pub mod catalog;

/// Tool definitions adapted to a model vendor's API, and the model's calls mapped back.
pub mod vendor;

/// The states of a server.
mod state;

/// The identity of a caller.
mod caller_id;

/// Events that belong to no call.
pub mod event;

/// The caller of a call, and the questions it answers.
pub mod caller;

/// Host tools: tools without a server.
pub mod host_tools;

/// Decides on each call: allow, ask or deny; and the permit that every call needs.
pub mod gate;

/// A channel of messages to one server.
pub mod transport;

/// How requests to a server with a URL are authorized: a token, or a login.
pub mod auth;

/// One live connection to a server, in either protocol era.
pub mod session;

/// Supervises one configured server.
pub mod server;

/// All servers together: their catalog, leases, logins, stop.
pub mod host;

/// One call, from its name to its result.
pub mod call;

/// Requests other than calls: read, prompt, complete, subscribe, log level.
mod requests;

/// Applies a new configuration while servers run.
pub mod reload;

/// Configures and starts a host.
pub mod builder;

/// Private parsers, for the fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use builder::{HostBuilder, Server, launcher_main};
pub use call::{Call, CallError, DenialReason};
pub use caller::{
    Approval, ApprovalLifetime, ApprovalRequest, BoxFuture, Callbacks, Caller, CallerCapabilities,
    ElicitAnswer, Elicitation, ForwardedParams, Headless,
};
pub use caller_id::CallerId;
pub use catalog::{Catalog, Tool, ToolAnnotations, ToolDefinition, ToolEffect, Vendor};
pub use event::{Event, Events, NextEvent};
pub use hint::Hint;
pub use host::Host;
pub use host_tools::{HostTool, HostToolDefinition, HostToolFuture};
pub use name::{ServerName, ToolId, ToolName};
pub use result::{CallResult, Content, ModelContent};
pub use state::State;
pub use untrusted::Untrusted;
pub use vendor::Toolset;
pub use wire::RawJson;

/// The libraries whose types appear in signatures.
pub use {bytes, indexmap, serde_json, url};
