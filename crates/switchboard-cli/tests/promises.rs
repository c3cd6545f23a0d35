//! `docs/PROMISES.md` against the sources: each id has a sentence, each sentence has tests, and the
//! tests in the table are those that carry the id.
//!
//! The sources are read as text, so nothing is built. A test is a function with a test attribute,
//! in a file that some module declares. It carries an id in its name (`s0_05_…`, `t12_…`), in its
//! doc comment, or in a case of its table.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use sources::{root, rust_files};

mod sources;

/// How many behaviours each of the five documents states; all of them need a row.
const DOCUMENTS: [(&str, usize); 5] = [("S0", 46), ("S1", 31), ("S2", 71), ("S3", 24), ("S4", 28)];

/// A test proves at most this many promises, unless each has a case of its own in a table.
const MAX_IDS_OF_A_TEST: usize = 3;

/// Set to rewrite the column of tests.
const UPDATE: &str = "UPDATE_PROMISES";

#[test]
fn every_id_has_a_sentence_and_every_sentence_has_tests() {
    let sources = sources();
    let file = root().join("docs/PROMISES.md");
    let mut text = std::fs::read_to_string(&file).unwrap();
    if std::env::var_os(UPDATE).is_some() {
        text = with_tests(&text, &carriers(&tests(&sources)));
        std::fs::write(&file, &text).unwrap();
    }
    let wrong = differences(&text, &sources, &document_ids());
    assert!(
        wrong.is_empty(),
        "docs/PROMISES.md and the sources differ; \
         `{UPDATE}=1 cargo test --workspace --test promises` rewrites the column of tests\n{}",
        wrong.join("\n")
    );
}

#[test]
fn what_differs_is_listed() {
    let source = "/// F2: words;\n#[test]\nfn t1_x() {\n    check(\"P1\");\n}\n\nfn t2_no_test() {}\n\n// F3\n";
    let check = |page: &str, expected: &[&str]| {
        let known = BTreeSet::from([Id("S0-01".to_owned())]);
        let found = differences(page, &[source.to_owned()], &known);
        assert_eq!(found, expected, "{page}");
    };
    let row = |id: &str, test: &str| format!("| {id} | promise | {test} |\n");
    let page = row("F2", "`t1_x`") + &row("P1", "`t1_x`") + &row("T1", "`t1_x`");
    check(&page, &["F3: it has no row", "S0-01: it has no row"]);
    let more = page.clone() + &row("F3", "") + &row("S0-01", "`t2_no_test`");
    check(
        &more,
        &[
            "F3: no test carries it",
            "S0-01: no test carries it",
            "S0-01: `t2_no_test` is in its row and does not carry it",
        ],
    );
    let source_ids = differences(
        "| T1 |  | `t1_x` |\n",
        &[source.to_owned()],
        &BTreeSet::new(),
    );
    assert_eq!(source_ids.last().unwrap(), "T1: it has no sentence");
}

/// What is wrong with a page, one line each.
fn differences(page: &str, sources: &[String], known: &BTreeSet<Id>) -> Vec<String> {
    let tests = tests(sources);
    let carriers = carriers(&tests);
    let rows: Vec<Row<'_>> = page.lines().filter_map(row).collect();
    let mut ids = known.clone();
    ids.extend(sources.iter().flat_map(|text| Id::all_in_text(text)));
    ids.extend(carriers.keys().cloned());
    let mut wrong = Vec::new();
    for id in &ids {
        if rows.iter().all(|row| row.id != *id) {
            wrong.push(format!("{}: it has no row", id.0));
        }
    }
    for (index, row) in rows.iter().enumerate() {
        let carrying = carriers.get(&row.id).cloned().unwrap_or_default();
        let id = &row.id.0;
        if rows[..index].iter().any(|earlier| earlier.id == row.id) {
            wrong.push(format!("{id}: it has two rows"));
        }
        if row.sentence.is_empty() {
            wrong.push(format!("{id}: it has no sentence"));
        }
        if carrying.is_empty() {
            wrong.push(format!("{id}: no test carries it"));
        }
        for test in carrying.symmetric_difference(&row.tests) {
            wrong.push(match carrying.contains(test) {
                true => format!("{id}: `{test}` carries it and is not in its row"),
                false => format!("{id}: `{test}` is in its row and does not carry it"),
            });
        }
    }
    for test in &tests {
        let whole: Vec<_> = test.in_head.difference(&test.in_body).collect();
        if whole.len() > MAX_IDS_OF_A_TEST {
            wrong.push(format!("`{}` is to prove {whole:?}", test.name));
        }
    }
    wrong
}

/// The tests that carry each id.
fn carriers(tests: &[TestFn]) -> BTreeMap<Id, BTreeSet<&str>> {
    let mut carriers: BTreeMap<Id, BTreeSet<&str>> = BTreeMap::new();
    for test in tests {
        for id in test.in_head.iter().chain(&test.in_body) {
            carriers.entry(id.clone()).or_default().insert(&test.name);
        }
    }
    carriers
}

/// `S0-05`, `T12`, `F3`, `P1` or `C14`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id(String);

impl Id {
    fn parse(word: &str) -> Option<Self> {
        let is_number = |digits: &str, length: usize| {
            (1..=length).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_id = match word.split_once('-') {
            Some((document, number)) => {
                DOCUMENTS.iter().any(|(known, _)| *known == document)
                    && number.len() == 2
                    && is_number(number, 2)
            }
            None => word
                .strip_prefix(['T', 'F', 'P', 'C'])
                .is_some_and(|rest| is_number(rest, 2) && !rest.starts_with('0')),
        };
        is_id.then(|| Self(word.to_owned()))
    }

    /// Those that stand in a text as words. A `%` before one makes it part of an escaped address.
    fn all_in_text(text: &str) -> BTreeSet<Self> {
        let is_part =
            |character: char| character.is_ascii_alphanumeric() || "-_%".contains(character);
        text.split(|character| !is_part(character))
            .filter_map(|word| Self::parse(word.trim_matches('-')))
            .collect()
    }

    /// Those that a function's name spells: `s0_05_06_…` is two of one document, `…_and_t12_…` is
    /// one more.
    fn all_in_name(name: &str) -> BTreeSet<Self> {
        let mut ids = BTreeSet::new();
        let mut document = None;
        for part in name.split('_').map(str::to_uppercase) {
            if DOCUMENTS.iter().any(|(known, _)| *known == part) {
                document = Some(part);
                continue;
            }
            match document
                .as_ref()
                .and_then(|document| Self::parse(&format!("{document}-{part}")))
            {
                Some(id) => drop(ids.insert(id)),
                None => {
                    document = None;
                    ids.extend(Self::parse(&part));
                }
            }
        }
        ids
    }
}

/// A test, with the ids that it carries.
struct TestFn {
    name: String,
    /// In its name or its doc comment: the whole test is about them.
    in_head: BTreeSet<Id>,
    /// In its body: a case of its table is about each.
    in_body: BTreeSet<Id>,
}

fn tests(sources: &[String]) -> Vec<TestFn> {
    let in_file = |text: &String| {
        let lines: Vec<&str> = text.lines().collect();
        let tests = (0..lines.len()).filter_map(|index| TestFn::at(&lines, index));
        tests.collect::<Vec<_>>()
    };
    sources.iter().flat_map(in_file).collect()
}

impl TestFn {
    /// The test whose signature begins in this line.
    fn at(lines: &[&str], index: usize) -> Option<Self> {
        let line = lines[index];
        let signature = line.trim_start().trim_start_matches("async ");
        let name = signature
            .strip_prefix("fn ")?
            .split(['(', '<'])
            .next()?
            .to_owned();
        let head: Vec<&str> = lines[..index]
            .iter()
            .rev()
            .take_while(|line| {
                let line = line.trim();
                line.starts_with("//") || !line.is_empty() && !line.ends_with(['{', '}', ';'])
            })
            .copied()
            .collect();
        let is_attribute = |line: &&str| {
            let line = line.trim_start();
            line == "#[test]" || line.starts_with("#[tokio::test")
        };
        if !head.iter().any(is_attribute) {
            return None;
        }
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let body: Vec<&str> = lines[index..]
            .iter()
            .take_while(|line| **line != end)
            .copied()
            .collect();
        let mut in_head = Id::all_in_name(&name);
        let docs = head
            .iter()
            .filter(|line| line.trim_start().starts_with("//"));
        in_head.extend(docs.flat_map(|line| Id::all_in_text(line)));
        Some(Self {
            name,
            in_head,
            in_body: Id::all_in_text(&body.join("\n")),
        })
    }
}

/// Every id of the five documents, whether a test has it or not.
fn document_ids() -> BTreeSet<Id> {
    DOCUMENTS
        .iter()
        .flat_map(|(document, count)| {
            (1..=*count).map(move |number| format!("{document}-{number:02}"))
        })
        .map(Id)
        .collect()
}

/// One line of a table.
struct Row<'a> {
    id: Id,
    sentence: &'a str,
    tests: BTreeSet<&'a str>,
}

/// `| id | sentence | tests |`.
fn row(line: &str) -> Option<Row<'_>> {
    let mut cells = line.strip_prefix("| ")?.strip_suffix('|')?.split(" | ");
    let id = Id::parse(cells.next()?)?;
    let sentence = cells.next()?.trim();
    let tests = cells.next().unwrap_or_default().split(", ");
    let tests = tests.map(|test| test.trim().trim_matches('`'));
    Some(Row {
        id,
        sentence,
        tests: tests.filter(|test| !test.is_empty()).collect(),
    })
}

/// The page with the tests that were found.
fn with_tests(text: &str, carriers: &BTreeMap<Id, BTreeSet<&str>>) -> String {
    let mut page = String::new();
    for line in text.lines() {
        match row(line) {
            None => writeln!(page, "{line}").unwrap(),
            Some(Row { id, sentence, .. }) => {
                let tests = carriers.get(&id).into_iter().flatten();
                let tests: Vec<_> = tests.map(|test| format!("`{test}`")).collect();
                writeln!(page, "| {} | {sentence} | {} |", id.0, tests.join(", ")).unwrap();
            }
        }
    }
    page
}

/// The source files of the workspace that belong to some module. This file's ids are examples.
fn sources() -> Vec<String> {
    let folders = ["crates", "bench", "fuzz"].map(|name| root().join(name));
    let mut files = rust_files(folders);
    files.retain(|(path, _)| !path.ends_with(file!()));
    let declared: BTreeSet<String> = files
        .iter()
        .flat_map(|(_, text)| text.lines().filter_map(declared_file))
        .collect();
    files.retain(|(path, _)| is_root(path) || declared.contains(&module_name(path)));
    files.into_iter().map(|(_, text)| text).collect()
}

/// Whether cargo starts a program, a library or a test at this file.
fn is_root(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    let folder = path.parent().and_then(Path::file_name);
    let folder = folder.unwrap_or_default().to_string_lossy();
    matches!(&*name, "lib.rs" | "main.rs")
        || matches!(&*folder, "tests" | "examples" | "benches" | "bin")
}

/// The name of the module that a line declares, or of the file that it names.
fn declared_file(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(path) = line.strip_prefix("#[path = \"") {
        return Some(module_name(Path::new(path.strip_suffix("\"]")?)));
    }
    let declaration = line.strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then(|| name.to_owned())
}

/// `foo` of `foo.rs` and of `foo/mod.rs`.
fn module_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    let name = match path.parent().and_then(Path::file_name) {
        Some(folder) if stem == "mod" => folder,
        _ => stem,
    };
    name.to_string_lossy().into_owned()
}
