//! A [`Host`](switchboard::Host) offered to MCP clients as one MCP server, in both protocol eras.
//!
//! # How an edge plugs in
//!
//! A [`Gateway`] owns the host. An *edge* is where clients connect (standard streams, HTTP, a
//! socket). It authenticates a client as a [`Principal`], calls [`Gateway::connect`], and passes each
//! JSON-RPC message as bytes to [`ClientSession::receive`], with an [`Outbound`] for what belongs to
//! that request: progress, logs, questions to a legacy client, and the response as the last message.
//! The edge writes what the [`OutboundQueue`] returns; a queue that ends means that nothing more
//! comes, and [`OutboundQueue::is_cut_off`] that the client must be disconnected. Dropping the queue
//! of a modern request cancels it.
//!
//! - On a stream of lines ([`edge::lines::serve`]) the connection has one queue for everything.
//! - Over HTTP, a legacy client's session is one [`ClientSession`] under its session id; a modern
//!   POST is a [`ClientSession`] of its own. Each POST brings a queue of its own: when only a
//!   response came, it is sent as JSON, otherwise as an event stream. The outbound queue given to
//!   [`Gateway::connect`] is the GET stream.
//! - [`Received`] says whether a response will follow.
//!
//! # What else plugs in
//!
//! [`Approvals`] decides on calls whose client cannot be asked; a [`Recorder`] records each request
//! ([`GatewaySettings`]).
//!
//! The modules are listed from the bottom up; none uses a later one.

/// Who a client is.
mod principal;

/// Files that only their owner can read.
mod private_file;

/// Digests of several parts.
mod digest;

/// Commands of the program in texts.
mod command_words;

/// Authenticated encryption of what clients store for us: session ids, states, question ids.
pub mod seal;

/// What replicas share: sealed texts, one-time claims, requests to one another.
pub mod cluster;

/// The bearer tokens of clients.
pub mod tokens;

/// Names of servers in the paths of URLs.
mod path_segment;

/// The params of a request.
mod params;

/// The messages that the gateway sends.
mod reply;

/// Which task a legacy message belongs to.
mod related_task;

/// Messages to a client, in a bounded queue.
mod outbound;

/// Approval of calls whose client cannot be asked.
mod approvals;

/// Requests that an edge refuses.
mod refusal;

/// Records of requests.
mod recorder;

/// OpenTelemetry spans of requests.
#[cfg_attr(not(feature = "otel"), path = "spans/off.rs")]
mod spans;

/// The requests in flight at servers.
mod running;

/// The list of tools: repaired schemas, and a search instead of a long list.
mod listing;

/// Resources that several servers list.
mod resource_clashes;

/// The names of prompts in one list of all servers.
mod prompt_names;

/// The settings of a gateway, and which servers a client is offered.
mod settings;

/// Changes of the configuration that wait for a person.
mod pending_changes;

/// Which server has which skill.
mod known_skills;
/// Which servers are lost, and no longer listed.
mod lost_servers;

/// The lists of a client, serialised.
mod client_catalog;

/// One client: its requests in flight and its open questions.
mod client;

/// A parsed request of a client.
mod client_request;

/// What a modern client is asked during one call.
mod inputs;

/// Arguments as a person is asked about them.
mod shown_arguments;

/// The caller of one request, whom the gate and the servers ask.
mod caller;

/// Calls that wait for a modern client's next request.
mod suspended;

/// Calls that have become tasks.
mod client_tasks;

/// Which clients are subscribed to which resources.
mod subscriptions;

/// The open `subscriptions/listen` requests.
mod listeners;

/// The state that all requests of a gateway share.
mod gateway_state;

/// The record of a request that the gateway makes for another one.
mod sent_request;

/// Skills of the servers.
mod skills;

/// Detection of gateways that are connected in a circle.
mod gateway_loop;

/// Notifications of changes to clients.
mod changes;

/// A request that a server answers.
mod server_request;

/// Requests that are answered at once.
mod immediate;

/// Requests whose response takes time.
mod deferred;

/// The tasks that answer deferred requests.
mod request_tasks;

/// Dispatches messages.
mod dispatch;

/// A connected client, as an edge sees it.
mod client_session;

/// A host that is offered to clients.
mod gateway;

/// Which configuration is in force.
mod loaded_config;

/// The queue of calls that wait for an operator.
mod approval_queue;

/// The audit log.
pub mod audit;

/// Metrics for Prometheus.
mod metrics;

/// What an operator sees and decides.
mod operations;

/// Where clients connect.
pub mod edge;

/// The operator's page.
mod page;

pub use approval_queue::{ApprovalEffect, ApprovalQueue, WaitingCall};
pub use approvals::{Approvals, DenyUnasked, HeldCall};
pub use client::ClientHandshake;
pub use client_session::{ClientSession, Received};
pub use command_words::CommandWords;
pub use gateway::Gateway;
pub use listing::{ListingSettings, ToolListing, ToolRepair, repairs};
pub use metrics::{GatewayMetrics, Latency, METRICS, MetricKind, MetricName};
pub use operations::{HintWords, Operations};
pub use outbound::{Outbound, OutboundMeter, OutboundQueue};
pub use page::OperatorPage;
pub use pending_changes::ShownChange;
pub use principal::Principal;
pub use prompt_names::{PromptClash, prompt_clashes};
pub use recorder::{NoRecorder, Recorder, RequestOutcome, RequestRecord};
pub use refusal::{Refusal, RefusalReason};
pub use resource_clashes::{ResourceClash, resource_clashes};
pub use running::{RunningRequests, ShownRequest};
pub use settings::{GatewaySettings, ReviewWords, ServerSelection};
pub use spans::Traces;
#[cfg(feature = "otel")]
pub use spans::{SPAN_ATTRIBUTES, SpanAttribute};

/// The name in `serverInfo`.
const SERVER_NAME: &str = "switchboard";

/// Who answers: `serverInfo`.
fn server_info() -> serde_json::Value {
    serde_json::json!({"name": SERVER_NAME, "version": env!("CARGO_PKG_VERSION")})
}
