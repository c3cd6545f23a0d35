//! What a configured server is given: its environment, its descriptors, its arguments, its program.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::{Value, json};
use switchboard::config::Environment;
use switchboard_testkit::{Chaos, Entry, Launch, Step, program};

use crate::support::{Stage, is_ready, result_of, settled, snapshot, states};

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

fn inspecting() -> Chaos {
    Chaos::new().tool("inspect", Step::Inspect)
}

#[tokio::test]
async fn t24_a_server_has_the_environment_that_was_written_and_three_descriptors() {
    // The embedder left one inheritable.
    let (inheritable, _other) = std::io::pipe().unwrap();
    fcntl(inheritable.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let stage = Stage {
        environment: environment(&[
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/home/me"),
            ("LANG", "C.UTF-8"),
            ("LC_TIME", "C"),
            ("AWS_SECRET_ACCESS_KEY", "canary"),
            ("LD_LIBRARY_PATH", "/canary"),
            ("SOURCE", "from outside"),
        ]),
        ..Stage::new()
    };
    let env = r#"{ GIVEN = "as $$written", REFERRED = "${SOURCE}", HOME = "/elsewhere" }"#;
    let host = stage
        .host(&[inspecting().entry("one").set_toml("env", env)])
        .await;

    let seen = &result_of(&host, "one/inspect").await.unwrap()["structuredContent"];
    let expected = BTreeMap::from([
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/elsewhere"),
        ("LANG", "C.UTF-8"),
        ("LC_TIME", "C"),
        ("GIVEN", "as $written"),
        ("REFERRED", "from outside"),
    ]);
    assert_eq!(seen["environment"], json!(expected));
    assert_eq!(seen["descriptors"], json!([0, 1, 2]));
    let pid = snapshot(&host, "one").pid.unwrap();
    assert_eq!(
        [&seen["pid"], &seen["session"], &seen["group"]],
        [&json!(pid); 3],
        "it leads a session of its own"
    );
    host.stop().await;
}

#[tokio::test]
async fn t6_arguments_arrive_byte_for_byte() {
    let stage = Stage::new();
    // Space around JSON is nobody's, so a script may carry anything that is no space inside a text,
    // and new lines outside.
    let hostile = r#"; $( touch x ) && `id` | * ? ~ ${HOME} $HOME 'é" \ %n"#;
    let script = Chaos {
        script: switchboard_testkit::script::Script {
            instructions: Some(hostile.to_owned()),
            ..inspecting().script
        },
    };
    let argument = format!("\n\t {}\n", script.json());
    let host = stage
        .host(&[Entry::new(
            "one",
            &Launch::new(program("chaosd")).arg(argument.as_str()),
        )])
        .await;
    let seen = &result_of(&host, "one/inspect").await.unwrap()["structuredContent"];
    assert_eq!(seen["arguments"], json!([program("chaosd"), argument]));
    host.stop().await;
}

#[tokio::test]
async fn t6_a_program_planted_in_the_working_folder_is_not_picked() {
    let stage = Stage::new();
    let canary = stage.scratch.path("canary");
    let planted = stage.scratch.write(
        "work/npx",
        &format!("#!/bin/sh\ntouch {}\n", canary.display()),
    );
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
    let good = stage.scratch.path("bin/npx");
    std::fs::create_dir(stage.scratch.path("bin")).unwrap();
    symlink(program("chaosd"), &good).unwrap();

    let bin = stage.scratch.path("bin").display().to_string();
    let mut launch = Launch::new("npx").arg(inspecting().json());
    launch.cwd = Some(stage.scratch.path("work"));
    // Empty and relative parts would mean the working folder.
    let safe = Entry::new("safe", &launch).env("PATH", &format!(":.:work::{bin}"));
    let none = Entry::new("none", &launch).env("PATH", ":.:./:/nowhere");
    let host = stage.host(&[safe, none]).await;
    settled(&host).await;

    assert!(
        is_ready(&snapshot(&host, "safe").state),
        "{:?}",
        states(&host)
    );
    let seen: Value = result_of(&host, "safe/inspect").await.unwrap()["structuredContent"].clone();
    assert_eq!(
        seen["folder"],
        json!(stage.scratch.path("work").canonicalize().unwrap())
    );
    let refused =
        "failed: no program \"npx\" in PATH; install it, or give its full path in `command`";
    assert_eq!(snapshot(&host, "none").state.to_string(), refused);
    assert!(!canary.exists());
    host.stop().await;
}
