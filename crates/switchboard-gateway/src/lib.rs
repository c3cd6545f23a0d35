//! A [`Host`](switchboard::Host) offered to MCP clients as one MCP server.
//!
//! The modules stand from the bottom up: each uses those above it.

/// Files that only their owner can read.
mod private_file;

/// Authenticated encryption of what clients keep for us: session ids, states, question ids.
pub mod seal;

/// What replicas share: sealed texts, one-time claims, requests to one another.
pub mod cluster;

/// The bearer tokens of clients.
pub mod tokens;
