//! The HTTP edge over real sockets: requests byte for byte, with short limits.
#![allow(clippy::unwrap_used)]

mod support;

/// A running edge, and connections that send bytes as they are.
#[path = "http_edge/client.rs"]
mod client;
/// Limits and deadlines.
#[path = "http_edge/limits.rs"]
mod limits;
/// Requests of modern clients.
#[path = "http_edge/modern.rs"]
mod modern;
/// Web pages of allowed origins.
#[path = "http_edge/origins.rs"]
mod origins;
/// Both readers of requests understand the same.
#[path = "http_edge/readers.rs"]
mod readers;
/// Event streams.
#[path = "http_edge/streams.rs"]
mod streams;
