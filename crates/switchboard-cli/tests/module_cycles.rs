//! No cycles: the top-level modules of a library crate use each other in one direction only.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use libraries::{is_test, library_crates};
use sources::{root, rust_files};

mod libraries;
mod sources;

#[test]
fn no_two_modules_of_a_library_crate_depend_on_each_other() {
    let mut unexpected = String::new();
    for folder in library_crates() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let uses = uses_of(&folder.join("src"));
        assert!(uses.len() > 2, "{name}: the uses are found: {}", uses.len());
        let found = cycles(&uses);
        if !found.is_empty() {
            unexpected += &format!("{name}: {found:?}\n{}", shown(&uses, &found));
        }
    }
    assert!(
        unexpected.is_empty(),
        "modules that use each other:\n{unexpected}"
    );
}

/// The front pages of these crates say that their modules are listed from the bottom up.
#[test]
fn no_module_of_a_crate_that_is_listed_from_the_bottom_up_uses_a_later_one() {
    let (mut ordered, mut unexpected) = (Vec::new(), String::new());
    for folder in library_crates() {
        let src = folder.join("src");
        let text = std::fs::read_to_string(src.join("lib.rs")).unwrap();
        if !text.contains("from the bottom up") {
            continue;
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let modules = modules_in_order(&text);
        let place_of = |module: &String| modules.iter().position(|other| other == module);
        for ((from, to), place) in uses_of(&src) {
            if place_of(&to) > place_of(&from) {
                unexpected +=
                    &format!("{name}: {from} uses {to}, which is listed later: {place}\n");
            }
        }
        ordered.push(name);
    }
    ordered.sort();
    let expected = ["switchboard", "switchboard-agent", "switchboard-gateway"];
    assert_eq!(ordered, expected);
    assert_eq!(unexpected, "");
}

#[test]
fn a_path_from_the_crate_root_is_a_use() {
    let roots = BTreeMap::from([("Host".to_owned(), "host".to_owned())]);
    let check = |text: &str, expected: &[&str]| {
        let found: Vec<String> = (used_modules(text, 0, &roots).into_iter())
            .map(|(_, module)| module)
            .collect();
        assert_eq!(found, expected, "{text}");
    };
    check("use crate::call::Call;", &["call"]);
    check("use crate::{call::Call, Host};", &["call", "host"]);
    check(
        "use crate::{\n    call::{Call, error::CallError},\n    gate,\n};",
        &["call", "gate"],
    );
    check("pub(crate) use crate::Host;", &["host"]);
    check("use super::call::Call;", &["call"]);
    check("    state: crate::state::State,", &["state"]);
    check("/// See [`Call`](crate::call::Call).", &[]);
    check(
        "#[cfg(test)]\nmod tests {\n    use crate::call::Call;\n}",
        &[],
    );
    check(
        "#[cfg(test)]\nuse crate::call::Call;\nuse crate::gate::Gate;",
        &["gate"],
    );
}

#[test]
fn modules_that_reach_each_other_are_one_cycle() {
    let uses = |pairs: &[(&str, &str)]| -> Uses {
        let edge = |(from, to): &(&str, &str)| (((*from).into(), (*to).into()), String::new());
        pairs.iter().map(edge).collect()
    };
    assert!(cycles(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let group = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        cycles(&uses(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("c", "d"),
            ("x", "y"),
            ("y", "x")
        ])),
        [group(&["a", "b", "c"]), group(&["x", "y"])]
    );
}

/// Which module uses which, and one place where it does.
type Uses = BTreeMap<(String, String), String>;

fn uses_of(src: &Path) -> Uses {
    let roots = reexports(&std::fs::read_to_string(src.join("lib.rs")).unwrap());
    let mut uses = Uses::new();
    for (path, text) in rust_files([src.to_owned()]) {
        let inner = path.strip_prefix(src).unwrap().with_extension("");
        let parts: Vec<_> = inner.iter().map(|part| part.to_str().unwrap()).collect();
        if is_test(&path) || ["lib", "main"].contains(&parts[0]) {
            continue;
        }
        for (line, module) in used_modules(&text, parts.len() - 1, &roots) {
            // What is no module is an item of another crate that is re-exported at the root.
            let is_module =
                src.join(&module).is_dir() || src.join(format!("{module}.rs")).is_file();
            if module != parts[0] && is_module {
                let place = format!(
                    "{}:{}",
                    path.strip_prefix(root()).unwrap().display(),
                    line + 1
                );
                uses.entry((parts[0].to_owned(), module)).or_insert(place);
            }
        }
    }
    uses
}

/// The modules that `lib.rs` declares, in its order.
fn modules_in_order(text: &str) -> Vec<&str> {
    let declared = text.lines().filter_map(|line| line.strip_suffix(';'));
    let words = declared.map(|line| line.rsplit_once("mod "));
    words
        .flatten()
        .filter(|(visibility, _)| ["", "pub ", "pub(crate) "].contains(visibility))
        .map(|(_, module)| module)
        .collect()
}

/// The module of each name that `lib.rs` re-exports.
fn reexports(text: &str) -> BTreeMap<String, String> {
    let mut roots = BTreeMap::new();
    for statement in text.split(';') {
        let Some((_, path)) = statement.split_once("use ") else {
            continue;
        };
        let Some((module, names)) = path.split_once("::") else {
            continue;
        };
        for name in names.split(|character: char| !is_word(character)) {
            roots.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    roots
}

/// The modules that a file `depth` folders below `src` names from the crate's root outside its
/// tests, each with its line.
fn used_modules(
    text: &str,
    depth: usize,
    roots: &BTreeMap<String, String>,
) -> Vec<(usize, String)> {
    let code = product_code(text);
    let mut used = Vec::new();
    for prefix in ["crate::".to_owned(), "super::".repeat(depth + 1)] {
        for (at, _) in code.match_indices(&prefix) {
            if code[..at].ends_with(|before: char| is_word(before) || before == ':') {
                continue;
            }
            let line = code[..at].matches('\n').count();
            for name in first_names(&code[at + prefix.len()..]) {
                let module = roots.get(name).map_or(name, String::as_str);
                used.push((line, module.to_owned()));
            }
        }
    }
    used
}

/// The first name of the path that a text begins with, or of each path in its braces.
fn first_names(text: &str) -> Vec<&str> {
    let name = |text: &str| text.find(|end: char| !is_word(end)).unwrap_or(text.len());
    let Some(group) = text.strip_prefix('{') else {
        return vec![&text[..name(text)]];
    };
    let (mut names, mut depth, mut begins) = (Vec::new(), 0, true);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' => begins |= depth == 0,
            _ if begins && is_word(character) => {
                names.push(&group[at..at + name(&group[at..])]);
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// The text without comments and tests; lines keep their numbers.
fn product_code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    // The indentation of the test that the line belongs to.
    let mut test: Option<usize> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.split("//").next().unwrap_or_default();
        let is_test = test.is_some();
        match test {
            None if line.trim_start().starts_with("#[cfg(test)]") => test = Some(indent),
            None if line.trim_start().starts_with("#[cfg(all(test") => test = Some(indent),
            Some(outer)
                if indent == outer
                    && (line.starts_with('}') || line.trim_end().ends_with([';', '}'])) =>
            {
                test = None
            }
            _ => {}
        }
        if !is_test && test.is_none() {
            code.push_str(line);
        }
        code.push('\n');
    }
    code
}

/// The groups of modules that reach each other.
fn cycles(uses: &Uses) -> Vec<Vec<String>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in uses.keys() {
        reached.entry(from).or_default().insert(to);
    }
    loop {
        let further: Vec<(&str, &str)> = reached
            .iter()
            .flat_map(|(from, via)| via.iter().map(|via| (*from, *via)))
            .filter_map(|(from, via)| Some((from, reached.get(via)?)))
            .flat_map(|(from, to)| to.iter().map(move |to| (from, *to)))
            .filter(|(from, to)| !reached[from].contains(to))
            .collect();
        if further.is_empty() {
            break;
        }
        for (from, to) in further {
            reached.entry(from).or_default().insert(to);
        }
    }
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let groups: BTreeSet<Vec<String>> = reached
        .keys()
        .filter(|module| reaches(module, module))
        .map(|module| {
            let same = reached
                .keys()
                .filter(|to| reaches(module, to) && reaches(to, module));
            same.map(ToString::to_string).collect()
        })
        .collect();
    groups.into_iter().collect()
}

/// The uses between modules of the same group, one line each.
fn shown(uses: &Uses, groups: &[Vec<String>]) -> String {
    let within = |group: &[String], (from, to): &(String, String)| {
        group.contains(from) && group.contains(to)
    };
    uses.iter()
        .filter(|(edge, _)| groups.iter().any(|group| within(group, edge)))
        .map(|((from, to), place)| format!("{from} uses {to} at {place}\n"))
        .collect()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
