//! Every MCP server you use, behind one gate.
//!
//! A [`Host`] reads a configuration, keeps its servers alive, offers what they offer as one
//! [`Catalog`], asks before each call, and returns every result as the server
//! sent it.
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
//! The types that most programs need stand at the root. Servers and rules can be given in code
//! ([`Host::builder`], [`Server`]); a program answers the gate's and the servers' questions with
//! closures ([`Callbacks`]) or as a [`Caller`]; [`HostBuilder::tool`] adds tools of its own.
//!
//! The modules below stand from the bottom up: each uses only those above it.
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
//! - `oauth` (implies `http`): logging in to them (`Host::login`). Without it, a server that wants
//!   a login is in [`State::NeedsLogin`] until its entry brings a token.
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

/// Boxed futures.
mod future;

/// Panics in tasks, caught for their owners.
mod panics;

/// Locks that a panic does not break.
pub mod sync;

/// The difference of two texts, for people.
pub mod line_diff;

/// What a person could do about a failure.
pub mod hint;

/// What is remembered between runs.
pub mod store;

/// Which project files a person has accepted, per server, by fingerprint.
pub mod trust;

/// The revisions of the protocol, and its two eras.
pub mod revision;

/// JSON-RPC envelopes over raw JSON; lines and streams of events, cut with bounds.
pub mod wire;

/// What a call returned: every content kind kept, projected for a model and for a person.
pub mod result;

/// Argument validation, bounded and without network.
pub mod schema;

/// The immutable snapshot of all that is on offer.
pub mod catalog;

/// Definitions adapted to what a model's vendor takes, and the model's calls mapped back.
pub mod vendor;

/// The states of a server.
mod state;

/// What happened that belongs to no call.
pub mod event;

/// The questions we may ask whoever made a call.
pub mod caller;

/// Tools that are not a server's.
pub mod builtin;

/// Allow, ask or deny; and the permit without which nothing is called.
pub mod gate;

/// A channel of messages to one server.
pub mod transport;

/// How requests to a server with a URL are authorized: a token, or a login.
pub mod auth;

/// One live connection to a server, in either protocol era.
pub mod session;

/// Keeps one configured server alive.
pub mod server;

/// All servers together: their catalog, leases, logins, stop.
pub mod host;

/// One call, from its name to its result.
pub mod call;

/// Requests other than calls: read, prompt, complete, subscribe, log level.
mod requests;

/// Another configuration while servers run.
pub mod reload;

/// What a host is made of, and its start.
pub mod builder;

/// Private parsers, for the fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use builder::{HostBuilder, Server, launcher_main};
pub use builtin::{HostTool, HostToolDefinition, HostToolFuture};
pub use call::{Call, CallError, DenialReason};
pub use caller::{
    Approval, ApprovalRequest, BoxFuture, Callbacks, Caller, CallerId, ElicitAnswer, Elicitation,
    ForwardedParams, Headless, Keep, Offers,
};
pub use catalog::{Catalog, Tool, ToolAnnotations, ToolDefinition, ToolEffect, Vendor};
pub use event::{Event, Events, NextEvent};
pub use hint::Hint;
pub use host::Host;
pub use name::{ServerName, ToolId, ToolName};
pub use result::{CallResult, Content, ModelContent};
pub use state::State;
pub use untrusted::Untrusted;
pub use vendor::Toolset;
pub use wire::RawJson;

/// The JSON library that appears in signatures.
pub use serde_json;
