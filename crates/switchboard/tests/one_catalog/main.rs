//! Tests of one catalog for all: tools of servers of every dialect, host tools, the resource tools;
//! their names, and the one gate.
#![allow(clippy::unwrap_used)]

mod naming;
mod order;
mod own;
mod own_transport;
mod resources;
mod support;
