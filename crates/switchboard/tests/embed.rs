//! The example does what its first line says.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use switchboard_testkit::{Chaos, Scratch, Step};

#[test]
fn the_library_is_embedded_in_twenty_lines() {
    let scratch = Scratch::new();
    let config = scratch.config_with("", &[Chaos::new().tool("greet", Step::text("hello")).entry("chaos")]);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "-p", "switchboard", "--example", "embed"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let ran = cargo.arg("--").arg(&config).args(["chaos/greet", r#"{"any": 1}"#]).output().unwrap();
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
