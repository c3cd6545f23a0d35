//! The folders of a client, as it lists them.

use serde::Deserialize;
use switchboard::RawJson;
use switchboard::caller::Root;

/// Reads a client's result of `roots/list`.
pub(crate) fn read_roots(listed: &RawJson) -> Option<Vec<Root>> {
    #[derive(Deserialize)]
    struct ListedRoots {
        roots: Vec<ListedRoot>,
    }
    #[derive(Deserialize)]
    struct ListedRoot {
        uri: String,
        name: Option<String>,
    }
    let ListedRoots { roots } = listed.decode().ok()?;
    let root = |ListedRoot { uri, name }| Root { uri, name };
    Some(roots.into_iter().map(root).collect())
}
