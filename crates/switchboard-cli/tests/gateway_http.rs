//! The gateway over HTTP: the real program, real sockets, clients of both eras, and requests that
//! must be refused.
#![allow(clippy::unwrap_used)]

mod support;

/// `attach` and `reload`.
#[path = "gateway_http/attach.rs"]
mod attach;
/// A client that speaks HTTP by hand.
#[path = "gateway_http/client.rs"]
mod client;
/// Gateways that lead to each other.
#[path = "gateway_http/loops.rs"]
mod loops;

/// What `/metrics` answers.
#[path = "gateway_http/metrics.rs"]
mod metrics;
/// The operator's side.
#[path = "gateway_http/operator.rs"]
mod operator;
/// Sessions, streams, both eras.
#[path = "gateway_http/protocol.rs"]
mod protocol;
/// T19, T20, T21, T36: requests that are refused and run nothing.
#[path = "gateway_http/refusals.rs"]
mod refusals;
/// T36: the states of calls that wait for a modern client.
#[path = "gateway_http/states.rs"]
mod states;
