//! Glob and Grep: what they find, and their bounds.

use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::fixture::Fixture;

async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.file("src/main.rs", "fn main() {\n    needle();\n}\n");
    fixture.file("src/deep/lib.rs", "// Needle\n");
    fixture.file("notes.txt", "a needle\nb\nc\nd\na needle again\n");
    fixture.file(".github/flow.yml", "needle: 1\n");
    fixture.file(".gitignore", "target/\n");
    fixture.file("target/out.rs", "needle\n");
    fixture.file(".git/config", "needle\n");
    fixture.file("binary", b"needle\0\n");
    std::fs::write(fixture.outside("secret.rs"), "needle outside\n").unwrap();
    symlink("../secret.rs", fixture.path("link.rs")).unwrap();
    symlink("..", fixture.path("up")).unwrap();
    mkfifo(&fixture.path("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
    fixture
}

#[tokio::test]
async fn glob_lists_files_without_ignored_ones_and_follows_no_link() {
    let fixture = fixture().await;
    let check = async |arguments: serde_json::Value, expected: &str| {
        let found = fixture.call("Glob", arguments.clone()).await;
        assert_eq!(found.unwrap_or_else(|error| error), expected, "{arguments}");
    };
    check(
        json!({"pattern": "**/*.rs"}),
        "src/deep/lib.rs\nsrc/main.rs",
    )
    .await;
    check(json!({"pattern": "*.rs"}), "[no file matches]").await;
    check(json!({"pattern": "*.rs", "path": "src"}), "src/main.rs").await;
    check(json!({"pattern": "**/flow.yml"}), ".github/flow.yml").await;
    check(json!({"pattern": "./src/*.rs"}), "src/main.rs").await;
    let absolute = fixture.path("src/*.rs").display().to_string();
    check(json!({"pattern": absolute}), "src/main.rs").await;
    check(json!({"pattern": absolute, "path": "src"}), "src/main.rs").await;
    let elsewhere = "pattern \"/etc/*\": it is absolute, and not below the folder of path";
    check(json!({"pattern": "/etc/*"}), elsewhere).await;
    check(json!({"pattern": "up/**"}), "[no file matches]").await;
    check(json!({"pattern": "**/config"}), "[no file matches]").await;
    symlink("src", fixture.path("linked")).unwrap();
    check(
        json!({"pattern": "*.rs", "path": "linked"}),
        "linked/main.rs",
    )
    .await;
    let bad = "pattern \"a[\": unclosed character class; missing ']'";
    check(json!({"pattern": "a["}), bad).await;
    let out = "path \"up\": a symbolic link in it leads out of the workspace";
    check(json!({"pattern": "*", "path": "up"}), out).await;
}

#[tokio::test]
async fn grep_finds_lines_files_and_counts() {
    let fixture = fixture().await;
    let check = async |arguments: serde_json::Value, expected: &str| {
        let found = fixture.call("Grep", arguments.clone()).await;
        assert_eq!(found.unwrap_or_else(|error| error), expected, "{arguments}");
    };
    let lines = ".github/flow.yml:1:needle: 1\nnotes.txt:1:a needle\n\
                 notes.txt:5:a needle again\nsrc/main.rs:2:    needle();";
    check(json!({"pattern": "needle"}), lines).await;
    let rust = "src/deep/lib.rs\nsrc/main.rs";
    let arguments =
        json!({"pattern": "NEEDLE", "ignore_case": true, "output": "files", "glob": "**/*.rs"});
    check(arguments, rust).await;
    let arguments =
        json!({"pattern": "needle", "ignore_case": true, "output": "files", "glob": "*.rs"});
    check(arguments, rust).await;
    let arguments = json!({"pattern": "needle", "output": "files", "glob": "./src/*.rs"});
    check(arguments, "src/main.rs").await;
    check(
        json!({"pattern": "needle", "path": "notes.txt", "output": "count"}),
        "notes.txt:2",
    )
    .await;
    let around =
        "notes.txt:1:a needle\nnotes.txt-2-b\n--\nnotes.txt-4-d\nnotes.txt:5:a needle again";
    check(
        json!({"pattern": "needle", "path": "notes.txt", "context": 1}),
        around,
    )
    .await;
    check(json!({"pattern": "absent"}), "[nothing matches]").await;
    let fifo = "path \"fifo\": it is a FIFO, not a regular file";
    check(json!({"pattern": "x", "path": "fifo"}), fifo).await;
    let out = "path \"link.rs\": a symbolic link in it leads out of the workspace";
    check(json!({"pattern": "needle", "path": "link.rs"}), out).await;
    check(json!({"pattern": "("}), "pattern \"(\": unclosed group").await;
}

/// T26: what a search returns is bounded, whatever the files hold.
#[tokio::test]
async fn t26_results_are_bounded() {
    let fixture = Fixture::new().await;
    for number in 0..600 {
        fixture.file(&format!("f/{number:03}.txt"), "x\nx\n");
    }
    fixture.file("long.txt", "x".repeat(100_000));
    let found = fixture
        .call("Glob", json!({"pattern": "f/*"}))
        .await
        .unwrap();
    assert_eq!(found.lines().count(), 501);
    assert!(found.ends_with("[more than 500 files match; give a narrower pattern]"));
    let found = fixture
        .call("Grep", json!({"pattern": "x", "path": "f"}))
        .await
        .unwrap();
    assert_eq!(found.lines().count(), 251);
    assert!(
        found.ends_with("give a narrower pattern, path or glob]"),
        "{found}"
    );
    let found = fixture
        .call("Grep", json!({"pattern": "x", "path": "long.txt"}))
        .await
        .unwrap();
    assert!(found.len() < 600, "{}", found.len());
    let regex = json!({"pattern": "((a{1000}){1000}){1000}"});
    fixture.call("Grep", regex).await.unwrap_err();
}
