//! Which servers of project files a person has accepted: by canonical path, name and fingerprint.
//!
//! Decides nothing about calls; that is the gate's. Never consults `.git`, workspace settings or
//! where a link points.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::{Config, Endpoint, Environment, Scope, ServerConfig};
pub use crate::config::{Disclosure, disclose};
use crate::line_diff::all_lines;
use crate::name::ServerName;
use crate::store::{Store, StoreError, StoreTable};

pub use folders::{
    FolderAnswer, accept_folder, accepted_folders, decline_folder, folder_answer, forget_folder,
};
pub use permissions::{
    AcceptedPermissions, accept_permissions, accepted_permissions, is_first_mention,
    permissions_trust_state, revoke_permissions,
};
pub use remembered::{AcceptedEntry, accepted_entries};

mod folders;
mod permissions;
mod remembered;

#[cfg(test)]
mod tests;

/// What is known about one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// May start: the user's own file, given with `-c`, or accepted as it stands now.
    Trusted,
    /// Never accepted, or not acceptable ([`Disclosure::refused`]).
    New,
    /// Accepted in another form; the lines differ as shown (`-` then, `+` now).
    Changed {
        /// What was accepted, and what stands now, line by line.
        diff: Vec<String>,
    },
}

/// Why a yes was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The entry sets variables that a project may not.
    #[error(
        "server \"{server}\" cannot be accepted: it sets {variables}, which a project's file may not; remove it there, or move the entry to \
         your own file"
    )]
    Refused {
        /// The server.
        server: ServerName,
        /// The variables.
        variables: String,
    },
    /// It could not be remembered.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where an entry stands.
pub fn trust_state(
    server: &ServerConfig,
    environment: &Environment,
    store: &dyn Store,
) -> TrustState {
    if server.source.scope != Scope::Project {
        return TrustState::Trusted;
    }
    recorded(server, environment, store)
}

/// Whether a person has accepted this very entry, whoever's file it stands in. A file that changes
/// while it is watched needs this.
pub fn is_accepted(server: &ServerConfig, environment: &Environment, store: &dyn Store) -> bool {
    recorded(server, environment, store) == TrustState::Trusted
}

/// What the answers given so far say of an entry.
fn recorded(server: &ServerConfig, environment: &Environment, store: &dyn Store) -> TrustState {
    let now = disclose(server, environment);
    if !now.refused.is_empty() {
        return TrustState::New;
    }
    let accepted = match store.get(StoreTable::Trust, &shelf_key(&now)) {
        Ok(accepted) => {
            accepted.and_then(|accepted| serde_json::from_str::<Accepted>(&accepted).ok())
        }
        // What cannot be read was not accepted; but the person should know why they are asked
        // again.
        Err(fault) => {
            tracing::warn!(server = %server.name, %fault, "what was trusted cannot be read");
            None
        }
    };
    match accepted {
        Some(accepted) if accepted.key == now.key.to_hex() => TrustState::Trusted,
        Some(accepted) => TrustState::Changed {
            diff: difference(&accepted, &now),
        },
        None => TrustState::New,
    }
}

/// Records a yes for exactly what was disclosed.
pub fn accept(disclosure: &Disclosure, store: &dyn Store) -> Result<(), AcceptError> {
    if !disclosure.refused.is_empty() {
        let names: Vec<&str> = disclosure
            .refused
            .iter()
            .filter_map(|refused| refused.split(": ").next())
            .collect();
        return Err(AcceptError::Refused {
            server: disclosure.name.clone(),
            variables: names.join(", "),
        });
    }
    let accepted = Accepted {
        server: disclosure.name.to_string(),
        file: disclosure.file.clone(),
        key: disclosure.key.to_hex(),
        lines: disclosure.stored_lines.clone(),
        values: disclosure.variable_hashes.clone(),
    };
    let text = serde_json::to_string(&accepted).expect("texts and lists of texts are JSON");
    Ok(store.put(StoreTable::Trust, &shelf_key(disclosure), &text)?)
}

/// Forgets a yes: the entry waits again.
pub fn revoke(disclosure: &Disclosure, store: &dyn Store) -> Result<(), StoreError> {
    store.remove(StoreTable::Trust, &shelf_key(disclosure))
}

/// The entries of project files that wait for a person.
pub fn waiting<'a>(
    config: &'a Config,
    environment: &Environment,
    store: &dyn Store,
) -> Vec<(&'a ServerConfig, TrustState)> {
    config
        .servers
        .values()
        // What cannot be read cannot start either: there is nothing to accept in it.
        .filter(|server| !matches!(server.endpoint, Endpoint::Invalid(_)))
        .map(|server| (&**server, trust_state(server, environment, store)))
        .filter(|(_, trust_state)| *trust_state != TrustState::Trusted)
        .collect()
}

/// What is remembered of a yes.
#[derive(Serialize, Deserialize)]
struct Accepted {
    #[serde(default)]
    server: String,
    #[serde(default)]
    file: PathBuf,
    key: String,
    lines: Vec<String>,
    #[serde(default)]
    values: BTreeMap<String, String>,
}

/// The place of an entry's yes. The path in the key proper is exact; here it is for people, and may
/// be approximate.
fn shelf_key(disclosure: &Disclosure) -> String {
    format!(
        "{} in {}",
        disclosure.name,
        disclosure.file.to_string_lossy()
    )
}

fn difference(accepted: &Accepted, now: &Disclosure) -> Vec<String> {
    let mut lines = all_lines(&accepted.lines, &now.stored_lines);
    for (name, value) in &now.variable_hashes {
        if accepted.values.get(name).is_some_and(|then| then != value) {
            lines.push(format!(
                "+ the variable {name}, which the launch depends on, holds another value than when it was accepted"
            ));
        }
    }
    lines
}
