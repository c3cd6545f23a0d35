//! Which servers of project files a person has accepted, by canonical path, name and fingerprint.
//!
//! Decisions about calls are left to the gate. Trust never depends on `.git`, workspace settings or
//! the target of a link.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::{Config, ConfigErrors, Endpoint, Environment, Scope, ServerConfig};
pub use crate::config::{Disclosure, disclose};
use crate::line_diff::all_lines;
use crate::name::ServerName;
use crate::store::{Store, StoreError, StoreTable};

pub use accepted::{AcceptedEntry, accepted_entries};
pub use folders::{
    FolderAnswer, accept_folder, accepted_folders, decline_folder, folder_answer, forget_folder,
};
pub use permissions::{
    AcceptedPermissions, accept_permissions, accepted_permissions, is_first_mention,
    permissions_trust_state, revoke_permissions,
};

mod accepted;
mod folders;
mod permissions;

#[cfg(test)]
mod tests;

/// Whether an entry is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// May start: in the user's own file, given with `-c`, or accepted in its present form.
    Trusted,
    /// Never accepted, or impossible to accept ([`Disclosure::refused`]).
    New,
    /// Accepted in another form.
    Changed {
        /// The difference, line by line: `-` as accepted, `+` now.
        diff: Vec<String>,
    },
}

/// Why an entry could not be accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The entry sets variables that a project's file may not set.
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
    /// The acceptance could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was accepted, but the configuration could not be applied.
    #[error("server \"{server}\" was accepted, but the configuration cannot be applied: {errors}")]
    NotApplied {
        /// The server.
        server: ServerName,
        /// The errors of the configuration.
        #[source]
        errors: ConfigErrors,
    },
}

/// Whether an entry is trusted.
pub fn trust_state(
    server: &ServerConfig,
    environment: &Environment,
    store: &dyn Store,
) -> TrustState {
    if server.source.scope != Scope::Project {
        return TrustState::Trusted;
    }
    stored_state(server, environment, store)
}

/// Whether a person has accepted exactly this entry, in any file. Changes of a watched file need
/// this.
pub fn is_accepted(server: &ServerConfig, environment: &Environment, store: &dyn Store) -> bool {
    stored_state(server, environment, store) == TrustState::Trusted
}

/// Whether a project's entry is not accepted in any form: of one that runs, the acceptance was
/// revoked. False if the store cannot be read.
pub(crate) fn is_revoked(
    server: &ServerConfig,
    environment: &Environment,
    store: &dyn Store,
) -> bool {
    server.source.scope == Scope::Project && {
        let key = store_key(&disclose(server, environment));
        matches!(store.get(StoreTable::Trust, &key), Ok(None))
    }
}

/// The trust state of an entry by the stored acceptances.
fn stored_state(server: &ServerConfig, environment: &Environment, store: &dyn Store) -> TrustState {
    let now = disclose(server, environment);
    if !now.refused.is_empty() {
        return TrustState::New;
    }
    let accepted = match store.get(StoreTable::Trust, &store_key(&now)) {
        Ok(accepted) => {
            accepted.and_then(|accepted| serde_json::from_str::<StoredAcceptance>(&accepted).ok())
        }
        // An unreadable acceptance counts as none; the warning says why the person is asked again.
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

/// Stores the acceptance of exactly what was disclosed.
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
    let accepted = StoredAcceptance {
        server: disclosure.name.to_string(),
        // It may be lossy, for display and for `accepted_entries`: the key covers the exact path.
        file: disclosure.file.to_string_lossy().into_owned().into(),
        key: disclosure.key.to_hex(),
        lines: disclosure.stored_lines.clone(),
        values: disclosure.variable_hashes.clone(),
    };
    let text = serde_json::to_string(&accepted).expect("texts and lists of texts are JSON");
    Ok(store.put(StoreTable::Trust, &store_key(disclosure), &text)?)
}

/// Removes an acceptance.
pub fn revoke(disclosure: &Disclosure, store: &dyn Store) -> Result<(), StoreError> {
    store.remove(StoreTable::Trust, &store_key(disclosure))
}

/// The entries that are not trusted.
pub fn waiting<'a>(
    config: &'a Config,
    environment: &Environment,
    store: &dyn Store,
) -> Vec<(&'a ServerConfig, TrustState)> {
    config
        .servers
        .values()
        // An invalid entry cannot start, so there is nothing to accept.
        .filter(|server| !matches!(server.endpoint, Endpoint::Invalid(_)))
        .map(|server| (&**server, trust_state(server, environment, store)))
        .filter(|(_, trust_state)| *trust_state != TrustState::Trusted)
        .collect()
}

/// A stored acceptance.
#[derive(Serialize, Deserialize)]
struct StoredAcceptance {
    #[serde(default)]
    server: String,
    #[serde(default)]
    file: PathBuf,
    key: String,
    lines: Vec<String>,
    #[serde(default)]
    values: BTreeMap<String, String>,
}

/// The key of an acceptance in the store. Its path may be lossy; the fingerprint covers the exact
/// one.
fn store_key(disclosure: &Disclosure) -> String {
    format!(
        "{} in {}",
        disclosure.name,
        disclosure.file.to_string_lossy()
    )
}

fn difference(accepted: &StoredAcceptance, now: &Disclosure) -> Vec<String> {
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
