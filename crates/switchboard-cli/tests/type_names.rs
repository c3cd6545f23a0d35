//! One name, one type: no two module-level types of the library crates have the same name.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use libraries::{is_test, library_crates};
use sources::{root, rust_files};

mod libraries;
mod sources;

#[test]
fn no_two_types_of_the_library_crates_have_the_same_name() {
    let libraries = library_crates().map(|path| path.join("src"));
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in rust_files(libraries) {
        if is_test(&path) {
            continue;
        }
        let shown = path.strip_prefix(root()).unwrap().display().to_string();
        for (index, line) in text.lines().enumerate() {
            if let Some(name) = declared_type(line) {
                let place = format!("{shown}:{}", index + 1);
                places.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    assert!(places.len() > 100, "the types are found: {}", places.len());
    let ambiguous: Vec<_> = places
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(
        ambiguous.is_empty(),
        "types with the same name:\n{}",
        ambiguous.join("\n")
    );
}

#[test]
fn a_declaration_at_the_left_edge_is_a_module_level_type() {
    let check = |line: &str, expected: Option<&str>| assert_eq!(declared_type(line), expected);
    check("pub struct Host {", Some("Host"));
    check("pub(crate) enum State<'a> {", Some("State"));
    check("trait Caller: Send {", Some("Caller"));
    check("type Rows = Vec<Row>;", Some("Rows"));
    check("    struct Local;", None);
    check("fn structure() {", None);
    check("pub use other::Type;", None);
}

/// The name of the type that a line declares, if it stands at the left edge.
fn declared_type(line: &str) -> Option<&str> {
    let words = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let words = words.strip_prefix("unsafe ").unwrap_or(words);
    let declaration = ["struct ", "enum ", "union ", "trait ", "type "]
        .iter()
        .find_map(|keyword| words.strip_prefix(keyword))?;
    declaration
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .next()
}
