//! The four wires against recorded traffic and against scripted vendor servers.
//!
//! The recordings are not part of the project. They are looked for in the folder that
//! `SWITCHBOARD_RECORDINGS` names, else in `../shared/recordings` beside the workspace; where they
//! are absent, each test that needs them says on stderr that it was skipped. The fixtures in
//! `fixtures.rs` are always read.

mod connections;
mod continuation;
mod driver;
mod fixtures;
mod independent_reader;
mod limits;
mod mixed_vendors;
mod projection;
mod recorded_answers;
mod recordings;
mod refused_tools;
mod rules;
mod server;
mod truncation;
