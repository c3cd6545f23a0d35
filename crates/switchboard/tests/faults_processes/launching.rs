//! Tests of the launch of a configured server: environment, descriptors, arguments, program.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::{Value, json};
use switchboard::config::Environment;
use switchboard_testkit::{Chaos, Entry, Launch, Step, program};

use crate::support::{TestHost, is_ready, result_of, settled, snapshot, states};

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
async fn t24_a_server_has_the_configured_environment_and_three_descriptors() {
    // A descriptor that the embedder left inheritable.
    let (inheritable, _other) = std::io::pipe().unwrap();
    fcntl(inheritable.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let test = TestHost {
        environment: environment(&[
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/home/me"),
            ("LANG", "C.UTF-8"),
            ("LC_TIME", "C"),
            ("AWS_SECRET_ACCESS_KEY", "canary"),
            ("LD_LIBRARY_PATH", "/canary"),
            ("SOURCE", "from outside"),
        ]),
        ..TestHost::new()
    };
    let env = r#"{ GIVEN = "as $$written", REFERRED = "${SOURCE}", HOME = "/elsewhere" }"#;
    let host = test
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
async fn t6_arguments_are_passed_byte_for_byte() {
    let test = TestHost::new();
    // White space around JSON is ignored, so a script may carry any other characters inside a
    // string, and line breaks outside.
    let hostile = r#"; $( touch x ) && `id` | * ? ~ ${HOME} $HOME 'é" \ %n"#;
    let script = Chaos {
        script: switchboard_testkit::script::Script {
            instructions: Some(hostile.to_owned()),
            ..inspecting().script
        },
    };
    let argument = format!("\n\t {}\n", script.json());
    let host = test
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
async fn t6_a_program_planted_in_the_working_folder_is_not_run() {
    let test = TestHost::new();
    let canary = test.scratch.path("canary");
    let planted = test.scratch.write(
        "work/npx",
        &format!("#!/bin/sh\ntouch {}\n", canary.display()),
    );
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
    let good = test.scratch.path("bin/npx");
    std::fs::create_dir(test.scratch.path("bin")).unwrap();
    symlink(program("chaosd"), &good).unwrap();

    let bin = test.scratch.path("bin").display().to_string();
    let mut launch = Launch::new("npx").arg(inspecting().json());
    launch.cwd = Some(test.scratch.path("work"));
    // Empty and relative parts would mean the working folder.
    let safe = Entry::new("safe", &launch).env("PATH", &format!(":.:work::{bin}"));
    let none = Entry::new("none", &launch).env("PATH", ":.:./:/nowhere");
    let host = test.host(&[safe, none]).await;
    settled(&host).await;

    assert!(
        is_ready(&snapshot(&host, "safe").state),
        "{:?}",
        states(&host)
    );
    let seen: Value = result_of(&host, "safe/inspect").await.unwrap()["structuredContent"].clone();
    assert_eq!(
        seen["folder"],
        json!(test.scratch.path("work").canonicalize().unwrap())
    );
    let refused =
        "failed: no program \"npx\" in PATH; install it, or give its full path in `command`";
    assert_eq!(snapshot(&host, "none").state.to_string(), refused);
    assert!(!canary.exists());
    host.stop().await;
}
