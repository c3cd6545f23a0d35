//! Tests of Streamable HTTP over real sockets, against a peer that a test scripts byte for byte.
//! Each test names the ids of its promises.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used)]

mod peer;

mod support;

mod eras;

mod answers;

mod sessions;

mod streams;

mod connections;

mod bounds;

mod origins;

mod login;
