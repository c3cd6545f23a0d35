use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::project_files::MCP_JSON;
use crate::support::{Home, PROGRAM, Terminal};

/// A project with sixteen servers that leave a file each when they start.
fn sixteen(home: &Home) -> Vec<String> {
    let names: Vec<String> = (1..=16).map(|number| format!("s{number}")).collect();
    let entry =
        |name: &str| json!({ "command": "touch", "args": [home.path(&format!("ran-{name}"))] });
    let entries: Vec<(&str, Value)> = names
        .iter()
        .map(|name| (name.as_str(), entry(name)))
        .collect();
    MCP_JSON.write(&home.path("project"), &entries);
    names
}

/// The servers that start in a run after the trust prompt.
fn started(home: &Home, names: &[String]) -> Vec<String> {
    home.run(&["status"]);
    names
        .iter()
        .filter(|name| home.path(&format!("ran-{name}")).exists())
        .cloned()
        .collect()
}

fn answer(terminal: &mut Terminal, question: &str, words: &str) {
    terminal.wait_for(question);
    terminal.send(&format!("{words}\r"));
}

#[test]
fn trusting_sixteen_servers_offers_all_none_details_and_quit_and_asks_again_after_another_answer() {
    let home = Home::new();
    let names = sixteen(&home);
    let mut terminal = home.run_in_terminal(&["trust"]);
    let screen = terminal.wait_for("(1 of 16; y, n, all, none, details, quit)");
    assert!(screen.contains("16 servers need trust"), "{screen}");
    terminal.send("maybe\r");
    answer(
        &mut terminal,
        "Answer y or n, or one of: all, none, details, quit.",
        "details",
    );
    let screen = terminal.wait_for("to start it yourself:");
    assert!(
        screen.contains(".mcp.json:") && screen.contains("the program is /"),
        "{screen}"
    );
    // All are shown before all are accepted, a screen at a time.
    answer(&mut terminal, "Trust server \"s1\"", "all");
    answer(&mut terminal, "Enter shows more", "e");
    answer(
        &mut terminal,
        "Trust these 16 servers exactly as shown",
        "y",
    );
    let ended = terminal.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(started(&home, &names), names);
}

#[test]
fn none_keeps_what_was_accepted_before_and_quit_leaves_everything_as_it_was() {
    for (word, expected) in [("none", &["s1"][..]), ("quit", &[]), ("q", &[])] {
        let home = Home::new();
        let names = sixteen(&home);
        let mut terminal = home.run_in_terminal(&["trust"]);
        answer(&mut terminal, "(1 of 16;", "y");
        answer(&mut terminal, "(2 of 16;", word);
        let ended = terminal.end();
        assert_eq!(ended.code, 5, "{word}: {ended:?}");
        assert_eq!(started(&home, &names), expected, "{word}");
    }
}

/// T1: an entry cannot push its own command off the screen.
#[test]
fn t1_a_command_with_3000_arguments_is_shown_in_pages_and_repeated_before_the_question() {
    let home = Home::new();
    let mut arguments = vec!["evil.sh".to_owned()];
    arguments.extend((1..3000).map(|number| format!("harmless-{number}")));
    MCP_JSON.write(
        &home.path("project"),
        &[("long", json!({ "command": "sh", "args": arguments }))],
    );
    let mut terminal = home.run_in_terminal(&["trust"]);
    let screen = terminal.wait_for("Enter shows more");
    assert!(
        screen.contains("command: \"sh\"") && screen.contains("argument: \"evil.sh\""),
        "{screen}"
    );
    terminal.send("\r");
    // Keys typed before the question do not answer it.
    let screen = terminal.wait_for("(44 of ");
    assert!(screen.contains("harmless-30\""), "{screen}");
    terminal.send("e\r");
    let screen = terminal.wait_for("[y/N]");
    assert!(
        screen.contains("one command with 3000 arguments") && screen.contains("command: \"sh\""),
        "{screen}"
    );
    assert!(screen.contains("lines were not shown"), "{screen}");
    terminal.send("\r");
    assert_eq!(terminal.end().code, 5);

    // Without a terminal all of it is printed, and the command once more at the end.
    let ran = home.run(&["trust"]);
    let last: Vec<&str> = ran.stderr.lines().rev().take(6).collect();
    assert!(
        last.iter().any(|line| line.contains("command: \"sh\""))
            && ran.stderr.contains("harmless-2999"),
        "{last:?}"
    );
}

#[test]
fn accepted_entries_are_listed_and_revoked_by_server_file_and_folder() {
    let home = Home::new();
    let project = home.path("project").canonicalize().unwrap();
    let entry = json!({ "command": PROGRAM, "args": ["__demo-server"] });
    MCP_JSON.write(&project, &[("one", entry.clone()), ("two", entry.clone())]);
    let other = home.path("other");
    MCP_JSON.write(&other, &[("one", entry)]);
    let state = |name: &str| {
        let document = home.run(&["status", "--json"]).json();
        let servers = document["servers"].as_array().unwrap().clone();
        servers
            .iter()
            .find(|server| server["name"] == name)
            .unwrap()["state"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(home.run(&["trust", "one", "two", "--yes"]).code, Some(0));
    assert!(
        home.command(&["trust", "one", "--yes"])
            .current_dir(&other)
            .status()
            .unwrap()
            .success()
    );

    let listed = home.run(&["trust", "--list"]);
    let file = |folder: &std::path::Path| {
        folder
            .canonicalize()
            .unwrap()
            .join(".mcp.json")
            .display()
            .to_string()
    };
    for line in [
        format!("server one in {}", file(&project)),
        format!("server two in {}", file(&project)),
        format!("server one in {}", file(&other)),
        format!("folder {}", project.display()),
        format!("  │ command: {PROGRAM:?}"),
    ] {
        assert!(
            listed.stdout.lines().any(|listed| listed == line),
            "{line}: {listed:?}"
        );
    }
    let document = home.run(&["trust", "--list", "--json"]).json();
    assert_eq!(
        (
            document["servers"].as_array().unwrap().len(),
            &document["folders"]
        ),
        (3, &json!([project]))
    );

    // Of two with one name the one of this project is meant.
    let ran = home.run(&["trust", "--revoke", "one"]);
    assert_eq!(
        (ran.code, ran.stdout),
        (Some(0), format!("revoked: one in {}\n", file(&project)))
    );
    assert_eq!(
        (state("one").as_str(), state("two").as_str()),
        ("untrusted", "ready")
    );
    let ran = home.run(&["trust", "--revoke", "nobody"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("switchboard trust --list"),
        "{ran:?}"
    );
    let ran = home.run(&[
        "trust",
        "--revoke",
        &file(&other),
        project.to_str().unwrap(),
        &file(&project),
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        home.run(&["trust", "--list"]).stdout,
        "nothing was accepted\n"
    );
    assert_eq!(state("two"), "untrusted");
    let mode = std::fs::metadata(home.path("state/switchboard/folders.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A project's file whose server `bad` cannot be accepted, and that lets tools of `good` run.
fn project_with_permissions() -> Home {
    let home = Home::new();
    home.project_file(&format!(
        "[servers.bad]\ncommand = \"true\"\nenv = {{ LD_PRELOAD = \"/x.so\" }}\n\
         [servers.good]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n\
         [permissions]\nallow = [\"good/*\"]\n"
    ));
    home
}

#[test]
fn a_yes_that_is_refused_for_one_server_accepts_nothing() {
    let home = project_with_permissions();
    let before = home.run(&["trust", "--list"]).stdout;
    for servers in [&["bad"][..], &["good", "bad"]] {
        let ran = home.run(&[&["trust"], servers, &["--yes", "--permissions"]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{ran:?}");
        assert!(ran.stderr.contains("LD_PRELOAD"), "{ran:?}");
        assert_eq!(home.run(&["trust", "--list"]).stdout, before);
    }
    assert_eq!(home.run(&["trust", "good", "--yes"]).code, Some(0));
    let ran = home.run(&["call", "good/echo", "message=hi"]);
    assert_eq!(
        ran.code,
        Some(5),
        "nobody has accepted the permissions: {ran:?}"
    );
}

/// Permissions that wait are refused as servers are, and the command that accepts them reports them.
#[test]
fn permissions_that_wait_without_a_terminal_are_named_with_the_command_that_accepts_them() {
    let home = project_with_permissions();
    std::fs::write(
        home.path("project/switchboard.toml"),
        format!(
            "[servers.good]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n[permissions]\nallow = [\"good/*\"]\n"
        ),
    )
    .unwrap();
    assert_eq!(home.run(&["trust", "good", "--yes"]).code, Some(0));
    for words in [&["trust"][..], &["trust", "--json"]] {
        let ran = home.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{ran:?}");
        let command = "`switchboard trust --yes --permissions good`";
        assert!(ran.stderr.contains(command), "{ran:?}");
    }
    let ran = home.run(&["trust", "--yes", "--permissions", "good"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.starts_with("trusted: permissions of ")
            && !ran.stderr.contains("If you decline"),
        "{ran:?}"
    );
    let ran = home.run(&["call", "good/echo", "message=hi"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "hi\n"),
        "{ran:?}"
    );
}

/// The question goes to the terminal, so that stdout has JSON alone.
#[test]
fn a_person_at_a_terminal_is_asked_with_json_too() {
    let home = project_with_permissions();
    let mut terminal = home.run_in_terminal(&["trust", "good", "--json"]);
    answer(&mut terminal, "Trust server \"good\"", "y");
    answer(&mut terminal, "without asking? [y/N]", "n");
    assert_eq!(terminal.end().code, 0);
    assert!(
        home.run(&["trust", "--list"])
            .stdout
            .contains("server good in")
    );
}
