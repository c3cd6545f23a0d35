//! Faults and promises through the public library, against a real server that misbehaves on order
//! (Linux).
//!
//! Each test carries the ids of the rows that it shows. Deadlines are short and set in the
//! configuration; tests wait for events, records and answers.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod support;

mod answers;

mod bounds;

mod lists;

mod approval;

mod questions;

mod promises;
