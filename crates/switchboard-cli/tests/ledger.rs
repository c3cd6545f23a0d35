//! The ledger of behaviours: each id of the five seeds leads to tests that exist, carry it, and are
//! not spread too thin.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many behaviours each seed states.
const SEEDS: [(&str, usize); 5] = [("S0", 46), ("S1", 31), ("S2", 71), ("S3", 24), ("S4", 28)];

/// One test proves at most so many behaviours, unless each has a case of its own in a table.
const IDS_OF_A_TEST: usize = 3;

#[test]
fn every_id_of_the_seeds_has_tests_that_exist_and_carry_it() {
    let ledger = ledger();
    let listed = listed();
    let sources = sources();
    let mut wrong = Vec::new();
    let wanted: BTreeSet<String> = SEEDS
        .iter()
        .flat_map(|(seed, count)| (1..=*count).map(move |number| format!("{seed}-{number:02}")))
        .collect();
    wrong.extend(
        wanted
            .iter()
            .filter(|id| !ledger.contains_key(*id))
            .map(|id| format!("{id}: not in the ledger")),
    );
    wrong.extend(
        ledger
            .keys()
            .filter(|id| !wanted.contains(*id))
            .map(|id| format!("{id}: no seed states it")),
    );

    let mut whole: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (id, tests) in &ledger {
        if tests.is_empty() {
            wrong.push(format!("{id}: no test"));
        }
        for test in tests {
            if !listed.contains(test) {
                wrong.push(format!("{id}: no test {test}"));
            }
            match sources
                .iter()
                .filter_map(|source| carries(source, test, id))
                .max()
            {
                Some(Carried::Whole) => drop(whole.entry(test).or_default().insert(id)),
                Some(Carried::Case) => {}
                None => wrong.push(format!("{id}: {test} does not carry it")),
            }
        }
    }
    for (test, ids) in whole.iter().filter(|(_, ids)| ids.len() > IDS_OF_A_TEST) {
        wrong.push(format!("{test} is to prove {ids:?}"));
    }
    assert!(
        wrong.is_empty(),
        "docs/LEDGER.md and the tests differ:\n{}",
        wrong.join("\n")
    );
}

/// `| id | tests |`, one id a row.
fn ledger() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/LEDGER.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let id = cells.next().filter(|id| id.starts_with('S'))?;
        let tests = cells
            .next()?
            .trim_end_matches('|')
            .split(',')
            .map(|test| test.trim().trim_matches('`').to_owned());
        Some((
            id.to_owned(),
            tests.filter(|test| !test.is_empty()).collect(),
        ))
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    let count = rows.len();
    let ledger: BTreeMap<_, _> = rows.into_iter().collect();
    assert_eq!(ledger.len(), count, "an id stands twice in the ledger");
    ledger
}

/// What `cargo test -- --list` prints, of every test program in the workspace.
fn listed() -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--",
            "--list",
            "--format",
            "terse",
        ])
        .current_dir(root());
    // What the outer cargo tells its tests about themselves would look like a change of the inner
    // one's settings.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || name.starts_with("CARGO_BIN_")
        {
            cargo.env_remove(name);
        }
    }
    let output = cargo.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}

/// How a test carries an id.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Carried {
    /// A case of its table is named so.
    Case,
    /// Its name or its doc says so.
    Whole,
}

/// Whether the test of this name is in this source, and carries the id.
fn carries(source: &str, test: &str, id: &str) -> Option<Carried> {
    let name = test.rsplit("::").next().unwrap();
    let head = [format!("fn {name}("), format!("fn {name}<")]
        .iter()
        .find_map(|head| source.find(head.as_str()))?;
    let start = source[..head]
        .rfind("\n\n")
        .or_else(|| source[..head].rfind("{\n"))
        .unwrap_or(0);
    let depth = source[..head]
        .rsplit('\n')
        .next()
        .unwrap()
        .chars()
        .take_while(|next| *next == ' ')
        .count();
    let end = source[head..]
        .find(&format!("\n{}}}\n", " ".repeat(depth)))
        .map_or(source.len(), |end| head + end);
    if source[head..end].contains(id) {
        return Some(Carried::Case);
    }
    (ids(name).contains(id) || source[start..head].contains(id)).then_some(Carried::Whole)
}

/// The ids that a name spells: `s0_05_06_…` is two of one seed, `…_and_s0_41_…` is one more.
fn ids(name: &str) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let mut seed = None;
    for part in name.split('_') {
        match (seed, part) {
            (_, "s0" | "s1" | "s2" | "s3" | "s4") => seed = Some(part),
            (Some(seed), number)
                if number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                ids.insert(format!("{}-{number}", seed.to_uppercase()));
            }
            _ => seed = None,
        }
    }
    ids
}

fn sources() -> Vec<String> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    sources
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}
