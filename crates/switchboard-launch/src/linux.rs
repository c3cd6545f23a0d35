//! Children through a launcher process (Linux).
//!
//! Three kinds of process run this code. The host: `launcher_connection` starts the launcher
//! process and sends it requests, `keeper_connection` talks with the keeper of one child. The
//! launcher process: `launcher_process`. A keeper: `keeper`, which starts its child in `exec` and
//! finds the child's descendants with `process_tree`. `protocol` is what host and keeper exchange.

mod exec;
mod keeper;
mod keeper_connection;
mod launcher_connection;
pub(crate) mod launcher_process;
mod process_tree;
pub(crate) mod program_pages;
mod protocol;

pub(crate) use exec::default_signals;
pub(crate) use keeper_connection::KeeperConnection;
pub(crate) use launcher_connection::LauncherConnection;
