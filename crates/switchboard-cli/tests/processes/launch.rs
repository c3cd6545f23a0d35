//! What a server inherits from the program, and which program is started.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use switchboard_testkit::{Chaos, Step};

use crate::fixture::Fixture;
use crate::support::ProgramOutput;

#[test]
fn t24_servers_inherit_neither_our_environment_nor_our_descriptors() {
    let fixture = Fixture::new();
    fixture.configure(&[fixture
        .entry("one", Chaos::new().tool("inspect", Step::Inspect))
        .env("GIVEN", "as written")]);
    let mut command = fixture
        .home
        .command(&["call", "one/inspect", "--yes", "--json"]);
    command
        .env("AWS_SECRET_ACCESS_KEY", "canary")
        .env("LD_BIND_NOW", "1")
        .env("SWITCHBOARD_ANY", "thing")
        .env("TZ", "UTC");
    let ran = ProgramOutput::of(&command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let seen = &ran.json()["structuredContent"];
    let expected = BTreeMap::from([
        ("HOME", fixture.home.path("").display().to_string()),
        ("PATH", std::env::var("PATH").unwrap()),
        ("TERM", "xterm".to_owned()),
        ("TZ", "UTC".to_owned()),
        ("CANARY", fixture.home.path("canary").display().to_string()),
        ("GIVEN", "as written".to_owned()),
    ]);
    assert_eq!(seen["environment"], json!(expected));
    assert_eq!(seen["descriptors"], json!([0, 1, 2]));
    assert_eq!(
        seen["session"], seen["pid"],
        "a session of its own has no terminal to write to"
    );
}

#[test]
fn t6_a_program_planted_in_the_current_folder_is_not_started() {
    let fixture = Fixture::new();
    let canary = fixture.home.path("planted-ran");
    let planted = fixture.home.path("project/npx");
    std::fs::write(&planted, format!("#!/bin/sh\ntouch {}\n", canary.display())).unwrap();
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
    fixture
        .home
        .user_file("[servers.one]\ncommand = \"npx\"\nargs = [\"-y\", \"server@1.0.0\"]\n");
    for path in ["", ".", ":", "./:project", "/nowhere"] {
        let ran = ProgramOutput::of(
            &fixture
                .home
                .command(&["call", "one/x", "--yes"])
                .env("PATH", path)
                .output()
                .unwrap(),
        );
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(3), ""),
            "{path:?}: {ran:?}"
        );
        assert!(
            ran.stderr.contains("no program \"npx\" in PATH"),
            "{path:?}: {ran:?}"
        );
    }
    assert!(!canary.exists());
}
