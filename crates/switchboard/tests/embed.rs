//! The example does what its first line says.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use switchboard_testkit::{Chaos, Scratch, Step};

#[test]
fn the_library_is_embedded_in_twenty_lines() {
    let scratch = Scratch::new();
    let config = scratch.config_with("", &[Chaos::new().tool("greet", Step::text("hello")).entry("chaos")]);
    let ran = embed().arg(&config).args(["chaos/greet", r#"{"any": 1}"#]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr)),
        (
            Some(0),
            "hello\n".to_owned(),
            "on offer: mcp__chaos__greet\nasked about mcp__chaos__greet (no rule applies): once\n".to_owned()
        )
    );
}

/// The example as `cargo test` has built it. Where only this test was asked for, nobody has: then cargo does, with features resolved for
/// this crate alone, which may take as long as a build from nothing.
fn embed() -> Command {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().with_file_name("examples").join("embed");
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    // Newer than its source and the library's map: good enough, since a whole `cargo test` always builds it.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/embed.rs");
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    if modified(&built).is_some_and(|built| [source, library].iter().all(|path| modified(path).is_some_and(|path| path < built)))
    {
        return Command::new(built);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "-p", "switchboard", "--example", "embed"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo.arg("--");
    cargo
}
