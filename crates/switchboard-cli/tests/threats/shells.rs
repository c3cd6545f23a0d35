use std::path::Path;

use crate::support::{Home, PROGRAM, Terminal};

/// A bash with the program's completions, at a terminal in the project's folder.
fn bash(home: &Home) -> Terminal {
    let mut shell = home.spawn_in_terminal(&["bash", "--norc", "--noprofile", "-i"]);
    let folder = Path::new(PROGRAM).parent().unwrap().display();
    shell.send(&format!("PS1='$ ' PATH={folder}:$PATH; source <(switchboard completions bash); echo ready-$((40+2))\r"));
    shell.wait_for("ready-42");
    shell
}

/// Types the words with a TAB after them, runs what the line has become, and waits until the shell
/// has done it.
fn complete_and_run(shell: &mut Terminal, words: &str, number: usize) {
    shell.send(&format!("{words}\t\r"));
    shell.send(&format!("echo done-{number}-$((40+2))\r"));
    shell.wait_for(&format!("done-{number}-42"));
}

/// T1, T6: the shell runs a completed line, so completions from a foreign file have no shell syntax.
#[test]
fn t1_t6_a_name_in_a_projects_file_is_not_run_by_the_shell_that_completes_it() {
    for name in [
        "x$(touch PWNED)",
        "x`touch PWNED`",
        "x;touch PWNED",
        "x|touch${IFS}PWNED",
        "x>PWNED",
        "x&touch PWNED&",
        "x*",
    ] {
        let home = Home::new();
        std::fs::write(home.path("project/x.so"), "").unwrap();
        let file = serde_json::json!({ "mcpServers": { name: { "command": "true" } } });
        std::fs::write(home.path("project/.mcp.json"), file.to_string()).unwrap();
        let mut shell = bash(&home);
        for (number, words) in ["trust x", "why x", "call x", "logs x", "doctor x"]
            .iter()
            .enumerate()
        {
            complete_and_run(&mut shell, &format!("switchboard {words}"), number);
        }
        assert!(!home.path("project/PWNED").exists(), "{name}");
        shell.send("exit\r");
        let screen = shell.end().screen;
        assert!(!screen.contains("x.so"), "{name} was expanded: {screen}");
    }
}

/// T1, T6: names of a project's files are foreign text as well.
#[test]
fn t1_t6_the_name_of_a_projects_file_is_not_run_by_the_shell_that_completes_it() {
    let home = Home::new();
    std::fs::write(home.path("project/x$(touch PWNED)"), "").unwrap();
    std::fs::create_dir(home.path("project/x$(touch PWNED)d")).unwrap();
    let mut shell = bash(&home);
    for (number, words) in ["-c x", "--root x", "--config=x", "add --file x"]
        .iter()
        .enumerate()
    {
        complete_and_run(&mut shell, &format!("switchboard {words}"), number);
    }
    assert!(!home.path("project/PWNED").exists());
    shell.send("exit\r");
    shell.end();
}

/// Ordinary names still complete: those of servers and those of files.
#[test]
fn ordinary_names_complete_in_a_shell() {
    let home = Home::with_demo("");
    std::fs::write(home.path("project/given.toml"), "").unwrap();
    let mut shell = bash(&home);
    shell.send("switchboard doctor d\t");
    shell.wait_for("switchboard doctor demo");
    shell.send("\x15switchboard -c gi\t");
    shell.wait_for("switchboard -c given.toml");
    shell.send("\x15exit\r");
    shell.end();
}

/// T1, T6: every command that is shown to be copied can be copied, whatever a file names its
/// server. `-cevil.toml` would be an option that reads a file and trusts it.
#[test]
fn t1_t6_a_hint_that_is_copied_runs_nothing_of_the_name_in_it() {
    for name in [
        "x$(touch PWNED)",
        "x'`touch PWNED`'",
        "x\"; touch PWNED; \"",
        "x\\",
        "-cevil.toml",
        "--yes",
    ] {
        let home = Home::new();
        let file = serde_json::json!({ "mcpServers": { name: { "command": "false" } } });
        std::fs::write(home.path("project/.mcp.json"), file.to_string()).unwrap();
        std::fs::write(
            home.path("project/evil.toml"),
            "[servers.evil]\ncommand = \"touch\"\nargs = [\"PWNED\"]\n",
        )
        .unwrap();
        let mut hints = copied(&home.run(&["trust"]).stderr);
        assert_eq!(hints.len(), 1, "{name}: {hints:?}");
        hints.extend(copied(
            &home
                .run(&["call", "--yes", "--", &format!("{name}/t")])
                .stderr,
        ));
        let ran = home.run(&["trust", "--yes", "--", name]);
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        for words in [
            &["status"][..],
            &["tools"],
            &["doctor"],
            &["call", "--yes", "--", &format!("{name}/t")],
        ] {
            let ran = home.run(words);
            hints.extend(copied(&format!("{}\n{}", ran.stdout, ran.stderr)));
        }
        assert!(
            hints.iter().any(|hint| hint.contains("doctor ")),
            "{name}: {hints:?}"
        );
        for hint in hints {
            let folder = Path::new(PROGRAM).parent().unwrap().display();
            let line = format!("PATH={folder}:$PATH; set -u; {hint}");
            let mut shell = std::process::Command::new("bash");
            shell
                .args(["-c", &line])
                .env_clear()
                .current_dir(home.path("project"))
                .stdin(std::process::Stdio::null());
            shell.envs(
                home.command(&[])
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            let ran = crate::support::ProgramOutput::of(&shell.output().unwrap());
            assert!(
                !home.path("project/PWNED").exists(),
                "{name}: {hint}: {ran:?}"
            );
            assert_ne!(ran.code, Some(2), "{name}: {hint} was understood: {ran:?}");
        }
    }
}

/// What stands between backticks or double quotes and begins with the program's name, with a name
/// in it.
fn copied(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, end) in [("`switchboard ", "`"), ("\"switchboard ", "\"\n")] {
        for piece in text.split(start).skip(1) {
            let line = format!("{}\n", piece.lines().next().unwrap_or_default());
            // The end of a hint is the last mark of its line: the name itself may have such marks
            // in it.
            let Some(end) = line.rfind(end) else { continue };
            let words = &line[..end];
            if words.contains(' ') {
                found.push(format!("switchboard {words}"));
            }
        }
    }
    found
}
