//! Which servers of project files a person has accepted: by canonical path, name and fingerprint.
//!
//! Decides nothing about calls; that is the gate's. Never consults `.git`, workspace settings or where a link points.

use std::path::PathBuf;

use crate::config::{Config, Environment, Fingerprint, ServerConfig};
use crate::name::ServerName;
use crate::store::Store;

/// What is known about one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// May start: the user's own file, given with `-c`, or accepted as it stands now.
    Trusted,
    /// Never accepted.
    New,
    /// Accepted in another form; the lines differ as shown (`-` then, `+` now).
    Changed {
        /// What was accepted, and what stands now, line by line.
        diff: Vec<String>,
    },
}

/// The full text of what would start, untruncated: command, every argument, cwd, variables, URL, header names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disclosure {
    /// The server.
    pub name: ServerName,
    /// The file it stands in.
    pub file: PathBuf,
    /// One fact a line.
    pub lines: Vec<String>,
    /// What binds the answer.
    pub key: Fingerprint,
    /// Loader variables that a project may not set (T5): the entry is refused while there are any.
    pub refused: Vec<String>,
}

/// Where an entry stands.
pub fn standing(server: &ServerConfig, environment: &Environment, store: &dyn Store) -> Standing {
    let _ = (server, environment, store);
    todo!()
}

/// What a person must see before accepting.
pub fn disclose(server: &ServerConfig, environment: &Environment) -> Disclosure {
    let _ = (server, environment);
    todo!()
}

/// Records a yes for exactly what was disclosed.
pub fn accept(disclosure: &Disclosure, store: &dyn Store) -> Result<(), crate::store::StoreError> {
    let _ = (disclosure, store);
    todo!()
}

/// The entries of project files that wait for a person.
pub fn waiting<'a>(config: &'a Config, environment: &Environment, store: &dyn Store) -> Vec<(&'a ServerConfig, Standing)> {
    config
        .servers
        .values()
        .map(|server| (&**server, standing(server, environment, store)))
        .filter(|(_, standing)| *standing != Standing::Trusted)
        .collect()
}
