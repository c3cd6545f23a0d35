//! The examples do what their first lines say.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use switchboard_testkit::{Chaos, Scratch, Step};

#[test]
fn the_library_is_embedded_in_twenty_lines() {
    let scratch = Scratch::new();
    let config = scratch.config_with(
        "",
        &[Chaos::new()
            .tool("greet", Step::text("hello"))
            .entry("chaos")],
    );
    let ran = example("embed")
        .arg(&config)
        .args(["chaos/greet", r#"{"any": 1}"#])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr)),
        (
            Some(0),
            "hello\n".to_owned(),
            "on offer: mcp__chaos__greet\nasked about mcp__chaos__greet (no rule applies): once\n"
                .to_owned()
        )
    );
}

/// S2-49, S4-04: a model has the program's own tools and the servers' tools in one list, and calls
/// either.
#[test]
fn s2_49_s4_04_a_model_loops_over_own_tools_and_mcp_tools_of_one_catalog() {
    let scratch = Scratch::new();
    let config = scratch.config_with(
        "",
        &[Chaos::new()
            .tool("greet", Step::text("hello to you"))
            .entry("chaos")],
    );
    let ran = example("model_loop")
        .arg(&config)
        .args(["mcp__chaos__greet", "{}"])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr)),
        (
            Some(0),
            "of 2 tools I used two: \"hello to you\" has 3 words\n".to_owned(),
            "may it call mcp__chaos__greet? (no rule applies) yes, once\nmcp__chaos__greet: hello to you\n\
             may it call count_words? (no rule applies) yes, once\ncount_words: 3\n"
                .to_owned()
        )
    );
}

/// An example as `cargo test` has built it. Where only this test was asked for, nobody has: then
/// cargo does, with features resolved for this crate alone, which may take as long as a build from
/// nothing.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().with_file_name("examples").join(name);
    let modified = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    // Newer than its source and the library's map: good enough, since a whole `cargo test` always
    // builds it.
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
    cargo.args(["run", "--quiet", "-p", "switchboard", "--example", name]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo.arg("--");
    cargo
}
