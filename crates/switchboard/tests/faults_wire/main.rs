//! Tests of faults and promises through the public library, against a scripted misbehaving server
//! (Linux).
//!
//! Each test names the ids of its promises. Deadlines are short and configured; tests wait for
//! events, records and responses.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod support;

mod answers;

mod bounds;

mod lists;

mod approval;

mod questions;

mod promises;
