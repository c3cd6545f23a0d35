//! Whether a person has accepted what a project's file would allow without asking. An acceptance
//! covers exactly that text.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::TrustState;
use crate::config::ProjectPermissions;
use crate::line_diff::all_lines;
use crate::store::{Store, StoreError, StoreTable};

/// What was accepted of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedPermissions {
    /// The file.
    pub file: String,
    /// What it allows without asking, one fact per line.
    pub lines: Vec<String>,
    /// The file's ask and deny rules at that time.
    #[serde(default)]
    exceptions: Vec<String>,
    key: String,
}

/// What is stored for one file.
#[derive(Default, Serialize, Deserialize)]
struct StoredPermissions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted: Option<AcceptedPermissions>,
    /// The key of the permissions that a person was last told about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mentioned: Option<String>,
}

/// Whether what a project's file would allow without asking was accepted in its present form.
pub fn permissions_trust_state(project: &ProjectPermissions, store: &dyn Store) -> TrustState {
    match stored(&project.file, store).accepted {
        Some(accepted)
            if accepted.key == project.key().to_hex() && has_all_exceptions(project, &accepted) =>
        {
            TrustState::Trusted
        }
        Some(accepted) => {
            let then = [accepted.lines, accepted.exceptions].concat();
            TrustState::Changed {
                diff: all_lines(
                    &then,
                    &[project.lines(), project.exceptions.clone()].concat(),
                ),
            }
        }
        None => TrustState::New,
    }
}

/// Whether no earlier ask or deny rule is missing: without one, more would be allowed than was
/// accepted. Additional ones allow less.
fn has_all_exceptions(project: &ProjectPermissions, accepted: &AcceptedPermissions) -> bool {
    accepted
        .exceptions
        .iter()
        .all(|exception| project.exceptions.contains(exception))
}

/// Stores the acceptance of the file's present permissions.
pub fn accept_permissions(
    project: &ProjectPermissions,
    store: &dyn Store,
) -> Result<(), StoreError> {
    let (file, key) = (store_key(&project.file), project.key().to_hex());
    let exceptions = project.exceptions.clone();
    let accepted = AcceptedPermissions {
        file,
        lines: project.lines(),
        exceptions,
        key: key.clone(),
    };
    put(
        &project.file,
        &StoredPermissions {
            accepted: Some(accepted),
            mentioned: Some(key),
        },
        store,
    )
}

/// Whether a person has not been told yet about the file's present permissions. Records that they
/// are told now.
pub fn is_first_mention(project: &ProjectPermissions, store: &dyn Store) -> bool {
    let (mut known, key) = (stored(&project.file, store), project.key().to_hex());
    let is_first = known.mentioned.as_ref() != Some(&key);
    if is_first {
        known.mentioned = Some(key);
        if let Err(fault) = put(&project.file, &known, store) {
            tracing::warn!(%fault, "that a person was told about a project's permissions is not remembered");
        }
    }
    is_first
}

/// All accepted permissions, by file.
pub fn accepted_permissions(store: &dyn Store) -> Result<Vec<AcceptedPermissions>, StoreError> {
    let all = store.all(StoreTable::Permissions)?;
    Ok(all
        .into_iter()
        .filter_map(|(_, text)| {
            serde_json::from_str::<StoredPermissions>(&text)
                .ok()?
                .accepted
        })
        .collect())
}

/// Removes the acceptance of a file.
pub fn revoke_permissions(file: &str, store: &dyn Store) -> Result<(), StoreError> {
    store.remove(StoreTable::Permissions, file)
}

fn stored(file: &Path, store: &dyn Store) -> StoredPermissions {
    let text = store
        .get(StoreTable::Permissions, &store_key(file))
        .unwrap_or_else(|fault| {
            // Unreadable permissions count as not accepted.
            tracing::warn!(%fault, "what project files may let run cannot be read");
            None
        });
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn put(file: &Path, known: &StoredPermissions, store: &dyn Store) -> Result<(), StoreError> {
    let text = serde_json::to_string(known).expect("texts and lists of texts are JSON");
    store.put(StoreTable::Permissions, &store_key(file), &text)
}

/// The key in the store. Its path may be lossy; the fingerprint covers the exact one.
fn store_key(file: &Path) -> String {
    file.to_string_lossy().into_owned()
}
