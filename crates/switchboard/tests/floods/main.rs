//! Tests of servers that send continuously, on every transport and with every kind of message:
//! deadlines hold (P1) and other servers are served (P2).
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used)]

mod deadlines;

mod neighbours;

mod peer;

mod support;
