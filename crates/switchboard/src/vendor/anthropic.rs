//! Schemas for Anthropic's tools: no `anyOf`, `oneOf` or `allOf` at the root, and argument names in
//! a limited set of characters, mapped back when the model calls.

use std::collections::HashSet;

use super::json::{Json, Members};
use super::{ToolDraft, walk};

/// The longest argument name.
const MAX_KEY_LENGTH: usize = 64;

pub(super) fn adapt(draft: &mut ToolDraft) -> Result<(), String> {
    walk::flatten_root(&mut draft.schema, &mut draft.description)?;
    let Some(root) = draft.schema.members_mut() else {
        return Ok(());
    };
    let Some(Json::Object(named)) = root.get("properties") else {
        return Ok(());
    };
    if named.keys().all(|name| is_accepted(name)) {
        return Ok(());
    }
    let mut taken: HashSet<String> = named
        .keys()
        .filter(|name| is_accepted(name))
        .cloned()
        .collect();
    for name in named.keys().filter(|name| !is_accepted(name)) {
        let here = accepted_name(name, &mut taken);
        draft.renamed.push((here, name.clone()));
    }
    let here = |name: &str| match draft.renamed.iter().find(|(_, there)| there == name) {
        Some((here, _)) => here.clone(),
        None => name.to_owned(),
    };
    let properties: Members = named
        .iter()
        .map(|(name, of)| (here(name), of.clone()))
        .collect();
    let required: Vec<_> = walk::texts(root.get("required"))
        .iter()
        .map(|name| Json::Text(here(name)))
        .collect();
    root.insert("properties".to_owned(), Json::Object(properties));
    if !required.is_empty() {
        root.insert("required".to_owned(), Json::List(required));
    }
    Ok(())
}

fn is_accepted(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=MAX_KEY_LENGTH).contains(&name.len()) && name.bytes().all(fits)
}

/// A similar name that is accepted, and that no other argument has.
fn accepted_name(name: &str, taken: &mut HashSet<String>) -> String {
    let safe = |character: char| {
        if character.is_ascii() && is_accepted(&character.to_string()) {
            character
        } else {
            '_'
        }
    };
    let base: String = name.chars().map(safe).take(MAX_KEY_LENGTH - 6).collect();
    let base = if base.is_empty() {
        "_".to_owned()
    } else {
        base
    };
    let mut wanted = base.clone();
    let mut count = 1;
    while !taken.insert(wanted.clone()) {
        count += 1;
        wanted = format!("{base}_{count}");
    }
    wanted
}
