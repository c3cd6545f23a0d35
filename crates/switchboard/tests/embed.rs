//! Tests that the examples do what their first lines say.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use switchboard_testkit::{Chaos, Scratch, Step};

const QUICK_START: &str = include_str!("../examples/embed.rs");
const IN_CODE: &str = include_str!("../examples/in_code.rs");

#[test]
fn the_quick_start_goes_from_a_file_to_a_result_in_ten_lines() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("read_file", Step::text("# hello"));
    let rules = "[permissions]\nallow = [\"files/read_*\"]\n";
    scratch.config_with(rules, &[server.entry("files")]);
    let ran = example("embed").current_dir(scratch.folder()).output();
    assert_eq!(
        outcome(ran),
        (Some(0), "# hello\n".to_owned(), String::new())
    );
    let main = QUICK_START.split_once("fn main").unwrap().1;
    assert_eq!(main.lines().count(), 10);
}

#[test]
fn servers_rules_and_approval_can_be_given_in_code() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("write_file", Step::text("written"));
    let launch = server.launch();
    // The program that the example starts, at the path where it expects it.
    let script = scratch.write("script.json", &launch.args[0]);
    let npx = scratch.write(
        "npx",
        &format!(
            "#!/bin/sh\nexec {} \"$(cat {})\"\n",
            launch.command.display(),
            script.display()
        ),
    );
    std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let ran = example("in_code")
        .current_dir(scratch.folder())
        .env("PATH", format!("{}:{path}", scratch.folder().display()))
        .output();
    let message = "server \"files\", tool write_file: denied: this program only reads\n";
    assert_eq!(
        outcome(ran),
        (
            Some(0),
            message.to_owned(),
            "files/write_file: no rule applies\n".to_owned()
        )
    );
}

/// Every library line of the README and of the crate's front page is a line of an example, and the
/// examples are run above.
#[test]
fn the_readme_and_the_front_page_show_the_examples() {
    let code = |example: &str| example[example.find("use ").unwrap()..].to_owned();
    let readme = include_str!("../../../README.md");
    let blocks: Vec<_> = readme
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0.to_owned())
        .collect();
    assert_eq!(blocks, [code(QUICK_START), code(IN_CODE)]);
    let front_page: String = include_str!("../src/lib.rs")
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    assert!(front_page.contains(&code(QUICK_START)));
}

/// Exit code, stdout and stderr.
fn outcome(ran: std::io::Result<Output>) -> (Option<i32>, String, String) {
    let ran = ran.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

/// An example as `cargo test` has built it. If only this test is run, cargo builds it, with
/// features resolved for this crate alone, which may take as long as a full build.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().with_file_name("examples").join(name);
    let modified = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    // Newer than its source and `lib.rs`: good enough, since a whole `cargo test` always builds it.
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
        .with_extension("rs");
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    if modified(&built).is_some_and(|built| {
        [source, library]
            .iter()
            .all(|path| modified(path).is_some_and(|path| path < built))
    }) {
        return Command::new(built);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--example", name]);
    // The example runs in the test's folder, not in the workspace.
    cargo.args([
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo.arg("--");
    cargo
}
