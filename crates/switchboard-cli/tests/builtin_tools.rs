//! The built-in tools through the program, with the scripted model: allowed by rules, limited to the
//! folder, ended with the program.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switchboard_testkit::{descendants_with_env, wait_until};

use support::Home;

mod support;

const PATIENCE: Duration = Duration::from_secs(60);

fn run(home: &Home, prompt: &str, more: &[&str]) -> support::ProgramOutput {
    let mut words = vec!["run", "--model", "demo", "-p", prompt];
    words.extend(more);
    home.run(&words)
}

#[test]
fn a_built_in_tool_is_denied_unless_a_rule_allows_it_and_the_rule_is_named() {
    let home = Home::new();
    std::fs::write(home.path("project/a.txt"), "hello\n").unwrap();
    let read = r#"call Read {"path": "a.txt"}"#;
    let ran = run(&home, read, &[]);
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    let advice = "built-in tool Read: denied: approval needed, and `run` cannot ask; allow it with `--allow Read`";
    assert!(ran.stderr.contains(advice), "{}", ran.stderr);
    assert!(!ran.stdout.contains("hello"), "{}", ran.stdout);
    let ran = run(&home, read, &["--allow", "Read"]);
    assert_eq!(
        (ran.code, &*ran.stdout),
        (Some(0), "Read answered: 1\thello\n"),
        "{}",
        ran.stderr
    );
    // A rule for one tool does not apply to another, nor to a server's tool.
    for rule in ["Rea", "Grep", "read", "mcp__*"] {
        assert_eq!(run(&home, read, &["--allow", rule]).code, Some(5), "{rule}");
    }
    home.user_file("[permissions]\ndeny = [\"Read\"]\n");
    let ran = run(&home, read, &["--allow", "Read"]);
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("matches no configured server"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_file_is_read_and_then_edited() {
    let home = Home::new();
    std::fs::write(home.path("project/a.txt"), "hello\n").unwrap();
    let steps = "call Read {\"path\": \"a.txt\"}\nthen\n\
        call Edit {\"path\": \"a.txt\", \"old_text\": \"hello\", \"new_text\": \"bye\"}\nthen\n\
        call Bash {\"command\": \"cat a.txt\"}";
    let ran = run(
        &home,
        steps,
        &["--allow", "Read", "--allow", "Edit", "--allow", "Bash"],
    );
    assert_eq!(
        (ran.code, &*ran.stdout),
        (Some(0), "Bash answered: bye\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn file_tools_stay_in_the_current_folder_and_those_of_root() {
    let home = Home::new();
    std::fs::create_dir(home.path("other")).unwrap();
    std::fs::write(home.path("other/b.txt"), "other\n").unwrap();
    let read = format!(
        "call Read {{\"path\": {:?}}}",
        home.path("other/b.txt").canonicalize().unwrap()
    );
    let ran = run(&home, &read, &["--allow", "Read"]);
    assert!(
        ran.stdout.contains("it is outside the workspace ("),
        "{}",
        ran.stdout
    );
    let other = home.path("other");
    let ran = run(
        &home,
        &read,
        &["--allow", "Read", "--root", other.to_str().unwrap()],
    );
    assert!(ran.stdout.contains("1\tother"), "{}", ran.stdout);
}

#[test]
fn a_long_result_can_be_read_in_its_project_only() {
    let home = Home::new();
    let long = r#"call Bash {"command": "seq 20000"}"#;
    run(&home, long, &["--allow", "Bash"]);
    let only = |folder: &Path| folder.read_dir().unwrap().next().unwrap().unwrap().path();
    let file = only(&only(&home.path("state/switchboard/results")));
    // Later results leave the earlier ones, which the model was told to read.
    run(&home, &[long; 21].join("\nthen\n"), &["--allow", "Bash"]);
    let read = format!("call Read {{\"path\": \"{}\"}}", file.display());
    let words = ["run", "--model", "demo", "-p", &read, "--allow", "Read"];
    let own = home.run(&words);
    assert!(own.stdout.contains("1\t1\n2\t2\n"), "{own:?}");
    let folder = home.path("elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let other = home.command(&words).current_dir(&folder).output().unwrap();
    let other = String::from_utf8(other.stdout).unwrap();
    assert!(other.contains("outside"), "{other}");
}

#[test]
fn without_built_in_tools_there_are_only_those_of_servers() {
    let home = Home::new();
    std::fs::write(home.path("project/a.txt"), "hello\n").unwrap();
    let read = r#"call Read {"path": "a.txt"}"#;
    let ran = run(&home, read, &["--no-builtin-tools", "--allow", "*"]);
    assert!(
        ran.stdout.contains("there is no tool named \"Read\""),
        "{}",
        ran.stdout
    );
    assert!(
        run(&home, "hello", &[])
            .stdout
            .contains("Tools: Read, Write, Edit, Glob, Grep, Bash, WebFetch")
    );
}

/// S0-26: `yolo` of a core-agent file skips the gate, but not the denylist of Bash, which does not
/// apply to tools of servers.
#[test]
fn s0_26_the_bash_denylist_holds_in_yolo_and_not_for_servers() {
    let home = Home::new();
    let program = support::PROGRAM;
    let file = serde_json::json!({
        "servers": {"demo": {"transport": "stdio", "command": program, "args": ["__demo-server"]}},
        "permissions": {"mode": "yolo", "deny": ["bash:touch marked*"]},
    });
    let path = home.path("project/mcp.json");
    std::fs::write(&path, file.to_string()).unwrap();
    let steps = "call Bash {\"command\": \"touch fine; touch marked\"}\n\
        call Bash {\"command\": \"sudo rm -rf /\"}\n\
        call demo_echo {\"message\": \"touch marked\"}\nthen\n\
        call Bash {\"command\": \"touch fine && ls\"}";
    let words = [
        "-c",
        path.to_str().unwrap(),
        "--dialect",
        "core-agent",
        "run",
        "--model",
        "demo",
        "--output",
        "json",
        "-p",
        steps,
    ];
    let ran = home.run(&words);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let decisions: Vec<_> = document["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["decision"].clone())
        .collect();
    assert_eq!(
        decisions,
        ["denied", "denied", "allowed", "allowed"],
        "{document:#} {}",
        ran.stderr
    );
    assert!(home.path("project/fine").exists() && !home.path("project/marked").exists());
    assert_eq!(ran.code, Some(5));
}

/// Commands end with the program, also when it is killed.
#[test]
fn a_command_never_outlives_the_program() {
    for signal in [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM] {
        let home = Home::new();
        let canary = format!("HOME={}", home.path("").display());
        let prompt = r#"call Bash {"command": "(setsid sleep 600 &) ; sleep 601"}"#;
        let mut child = home
            .command(&["run", "--model", "demo", "-p", prompt, "--allow", "Bash"])
            .spawn()
            .unwrap();
        let sleepers = || {
            let all = descendants_with_env(&canary);
            all.iter()
                .filter(|process| process.command.starts_with("sleep "))
                .count()
        };
        assert!(wait_until(PATIENCE, || sleepers() == 2), "{signal}");
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        child.wait().unwrap();
        let is_empty = wait_until(PATIENCE, || descendants_with_env(&canary).is_empty());
        assert!(is_empty, "{signal}: {:#?}", descendants_with_env(&canary));
    }
}

/// A command gets the person's variables, but not the keys of models.
#[test]
fn commands_do_not_get_the_keys_of_models() {
    let home = Home::new();
    home.user_file("[model]\nvendor = \"openai-chat\"\nname = \"m\"\napi_key = \"${WORK_KEY}\"\n");
    let prompt = r#"call Bash {"command": "echo $MINE $ANTHROPIC_API_KEY $OPENAI_API_KEY $GROQ_API_KEY $WORK_KEY $ALSO_KEY"}"#;
    let mut command = home.command(&["run", "--model", "demo", "-p", prompt, "--allow", "Bash"]);
    command
        .env("MINE", "mine")
        .env("ANTHROPIC_API_KEY", "sk-1")
        .env("OPENAI_API_KEY", "sk-2")
        .env("GROQ_API_KEY", "sk-3")
        .env("WORK_KEY", "sk-4")
        .env("ALSO_KEY", "sk-4");
    let output = command.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "Bash answered: mine\n"
    );
}
