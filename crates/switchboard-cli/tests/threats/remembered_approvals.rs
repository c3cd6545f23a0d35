//! Approvals that are remembered for good: bound to their file, listed, revoked, and stored without
//! blocking a call.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::{Home, PROGRAM, TerminalOutput};

/// A file of this folder with the demo server as `demo`; the launch differs from folder to folder.
fn file(home: &Home, folder: &str) -> String {
    let path = home.path("project").join(folder).join("switchboard.toml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!(
        "[servers.demo]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\nenv = {{ SIDE = {folder:?} }}\n"
    );
    std::fs::write(&path, text).unwrap();
    format!("{folder}/switchboard.toml")
}

/// Makes a call in a terminal, and answers both steps of the prompt.
fn answer(home: &Home, file: &str, tool: &str, keys: [&str; 2]) -> TerminalOutput {
    let mut terminal = home.run_in_terminal(&["-c", file, "call", tool, "message=hi"]);
    terminal.wait_for("[n] no");
    terminal.send(keys[0]);
    terminal.wait_for("[g] for good");
    terminal.send(keys[1]);
    terminal.end()
}

fn code(home: &Home, file: &str, tool: &str) -> Option<i32> {
    home.run(&["-c", file, "call", tool, "message=hi"]).code
}

/// Two files use one server name for different servers: a yes for the one neither replaces nor
/// stands for a yes for the other.
#[test]
fn t9_answers_for_servers_of_one_name_in_two_files_do_not_replace_each_other() {
    let home = Home::new();
    let (one, two) = (file(&home, "one"), file(&home, "two"));
    assert_eq!(answer(&home, &one, "demo/echo", ["t", "g"]).code, 0);
    assert_eq!(
        (
            code(&home, &one, "demo/echo"),
            code(&home, &two, "demo/echo")
        ),
        (Some(0), Some(5))
    );
    assert_eq!(answer(&home, &two, "demo/echo", ["t", "g"]).code, 0);
    assert_eq!(
        (
            code(&home, &one, "demo/echo"),
            code(&home, &two, "demo/echo")
        ),
        (Some(0), Some(0))
    );
}

/// Remembered answers are listed with their file, shown by `why`, and taken back by tool, by
/// server, by file or all at once.
#[test]
fn remembered_approvals_are_listed_shown_by_why_and_revoked() {
    let home = Home::new();
    let (one, two) = (file(&home, "one"), file(&home, "two"));
    assert_eq!(
        home.run(&["permissions"]).stdout,
        "no approval is remembered\n"
    );
    for file in [&one, &two] {
        assert_eq!(answer(&home, file, "demo/echo", ["t", "g"]).code, 0);
    }
    let path = |file: &str| {
        home.path("project")
            .canonicalize()
            .unwrap()
            .join(file)
            .display()
            .to_string()
    };
    let listed = home.run(&["permissions", "list"]);
    for file in [&one, &two] {
        assert!(
            listed
                .stdout
                .contains(&format!("demo/echo    {}", path(file))),
            "{listed:?}"
        );
    }
    let json = home.run(&["permissions", "--json"]).json();
    let tools = serde_json::json!([
        { "server": "demo", "tool": "echo", "file": path(&one) }, { "server": "demo", "tool": "echo", "file": path(&two) }
    ]);
    assert_eq!(json, serde_json::json!({ "tools": tools, "files": [] }));
    let why = home.run(&["-c", &one, "why", "demo"]);
    assert!(
        why.stdout.contains("demo/echo") && !why.stdout.contains(&path(&two)),
        "{why:?}"
    );
    assert_eq!(
        home.run(&["-c", &one, "why", "demo", "--json"]).json()["remembered"][0]["tool"],
        "echo"
    );

    assert_eq!(
        home.run(&["permissions", "revoke", "demo/other"]).code,
        Some(2)
    );
    let taken = home.run(&["permissions", "revoke", &format!("./{one}")]);
    assert!(
        taken.code == Some(0)
            && taken.stdout.contains("demo/echo")
            && !taken.stdout.contains(&path(&two)),
        "{taken:?}"
    );
    assert_eq!(
        (
            code(&home, &one, "demo/echo"),
            code(&home, &two, "demo/echo")
        ),
        (Some(5), Some(0))
    );
    assert_eq!(home.run(&["permissions", "revoke", "demo"]).code, Some(0));
    assert_eq!(code(&home, &two, "demo/echo"), Some(5));
    assert_eq!(answer(&home, &two, "demo/echo", ["s", "g"]).code, 0);
    assert_eq!(home.run(&["permissions", "revoke", "--all"]).code, Some(0));
    assert_eq!(
        home.run(&["permissions"]).stdout,
        "no approval is remembered\n"
    );
}

/// Accepted permissions of a project's file are listed and revoked as well.
#[test]
fn accepted_permissions_of_a_project_are_listed_and_revoked() {
    let home = Home::with_demo("");
    home.project_file("[permissions]\nallow = [\"demo/echo\"]\n");
    let call = ["call", "demo/echo", "message=hi"];
    assert_eq!(home.run(&call).code, Some(5));
    let mut terminal = home.run_in_terminal(&["trust"]);
    terminal.wait_for("without asking? [y/N]");
    terminal.send("y\r");
    assert_eq!(terminal.end().code, 0);
    assert_eq!(
        home.run(&call).code,
        Some(0),
        "as in a file of one's own, also for a server of another file"
    );
    let listed = home.run(&["permissions"]);
    assert!(
        listed.stdout.contains(
            "project/switchboard.toml may let run without asking:\n  allow \"demo/echo\""
        ),
        "{listed:?}"
    );
    assert_eq!(
        home.run(&["permissions", "revoke", "switchboard.toml"])
            .code,
        Some(0)
    );
    assert_eq!(home.run(&call).code, Some(5));
}

/// Another process holds the lock of the answers: the call runs soon, with one line that says that
/// the answer is not kept.
#[test]
fn p1_a_held_lock_file_keeps_no_call_waiting() {
    let home = Home::with_demo("");
    let folder: PathBuf = home.path("state/switchboard");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("grants.lock")).unwrap();
    lock.lock().unwrap();
    let mut terminal = home.run_in_terminal(&["call", "demo/echo", "message=hi"]);
    terminal.wait_for("[n] no");
    terminal.send("s");
    terminal.wait_for("[g] for good");
    let pressed = Instant::now();
    terminal.send("g");
    let ended = terminal.end();
    assert!(ended.code == 0 && ended.screen.contains("hi"), "{ended:?}");
    assert!(
        pressed.elapsed() < Duration::from_secs(20),
        "every tool of the server waited: {:?}",
        pressed.elapsed()
    );
    let shown = ended.screen.replace('\n', " ");
    assert!(
        shown.contains("the approval applies to this run only"),
        "{shown}"
    );
}
