//! Tests that a server's question reaches the caller who caused it, and nobody else: through the
//! public library, against real servers (Linux).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod support;

mod ways;

mod hundred;

mod channels;

mod sampling;

mod per_caller;
