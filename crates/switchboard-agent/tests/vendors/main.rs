//! The four wires against recorded traffic and against scripted vendor servers.
//!
//! The recordings are not part of the project. They are looked for in the folder that
//! `SWITCHBOARD_RECORDINGS` names, else in `../shared/recordings` beside the workspace; where they
//! are absent, each test that needs them says on stderr that it was skipped. The fixtures in
//! `fixtures.rs` are always read.

mod connecting;
mod cutting;
mod driving;
mod fixtures;
mod independent;
mod limiting;
mod mixing;
mod projecting;
mod reading;
mod rebuilding;
mod recordings;
mod refusing;
mod rules;
mod server;
