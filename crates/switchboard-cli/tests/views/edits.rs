//! `add`, `remove`, `enable`, `disable`: what is written where, and what is printed.

use std::os::unix::fs::PermissionsExt;

use crate::fixture::Fixture;
use crate::support::{PROGRAM, ProgramOutput};

#[test]
fn a_server_is_added_used_disabled_enabled_and_removed() {
    let fixture = Fixture::new();
    std::fs::remove_dir(fixture.home.path("config/switchboard")).unwrap();
    let name = "config/switchboard/switchboard.toml";
    let file = fixture.home.path(name);
    let shown = |line: usize| {
        format!(
            "({}:{line})\n",
            fixture
                .home
                .path("")
                .canonicalize()
                .unwrap()
                .join(name)
                .display()
        )
    };
    let ran = fixture.run(&[
        "add",
        "demo",
        "--env",
        "TOKEN=${TOKEN}",
        "--",
        PROGRAM,
        "__demo-server",
    ]);
    assert_eq!(
        (ran.code, ran.stdout),
        (
            Some(0),
            format!("added, in a new file: \"demo\" {}", shown(1))
        )
    );
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let entry = format!(
        "[servers.demo]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\nenv = {{ TOKEN = \"${{TOKEN}}\" }}\n"
    );
    assert_eq!(fixture.read(name), entry);
    let ran = fixture.run(&["call", "demo/echo", "message=hi", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "hi\n"),
        "{ran:?}"
    );

    let ran = fixture.run(&[
        "add",
        "web",
        "https://example.com/mcp",
        "--header",
        "X-Key=${KEY}",
        "--transport",
        "http",
    ]);
    assert_eq!(
        (ran.code, ran.stdout),
        (Some(0), format!("added: \"web\" {}", shown(6)))
    );
    let web = "\n[servers.web]\ntransport = \"http\"\nurl = \"https://example.com/mcp\"\nheaders = { X-Key = \"${KEY}\" }\n";
    assert_eq!(fixture.read(name), format!("{entry}{web}"));

    let ran = fixture.run(&["add", "demo", "--", "x"]);
    assert!(
        ran.code == Some(2)
            && ran
                .stderr
                .contains("switchboard.toml:1 has a server \"demo\" already"),
        "{ran:?}"
    );

    assert_eq!(
        fixture.run(&["disable", "demo"]).stdout,
        format!("disabled: \"demo\" {}", shown(1))
    );
    assert_eq!(fixture.read(name), format!("{entry}enabled = false\n{web}"));
    assert_eq!(
        fixture
            .run(&["call", "demo/echo", "message=hi", "--yes"])
            .code,
        Some(3)
    );
    assert_eq!(
        fixture.run(&["disable", "demo"]).stdout,
        format!("already disabled: \"demo\" {}", shown(1))
    );
    assert_eq!(fixture.run(&["enable", "demo"]).code, Some(0));
    assert_eq!(
        fixture.run(&["remove", "demo"]).stdout,
        format!("removed: \"demo\" {}", shown(1))
    );
    assert_eq!(fixture.read(name).trim_start(), web.trim_start());
    let ran = fixture.run(&["remove", "demo", "--json"]);
    assert_eq!(
        (ran.code, ran.error()["server"].as_str()),
        (Some(2), Some("demo")),
        "{ran:?}"
    );
}

/// Paths mean what they mean in the shell, wherever the file is.
#[test]
fn relative_paths_of_a_new_server_start_at_the_current_folder() {
    let fixture = Fixture::new();
    let project = fixture.home.path("project").canonicalize().unwrap();
    let add = |more: &[&str]| {
        let ran = fixture.run(&[&["add"], more].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
    };
    add(&["own", "--cwd", ".", "--", "bin/server", "./argument"]);
    add(&["found", "--cwd", "~/x", "--", "npx"]);
    assert_eq!(
        fixture.read("config/switchboard/switchboard.toml"),
        format!(
            "[servers.own]\ncommand = \"{0}/bin/server\"\nargs = [\"./argument\"]\ncwd = \"{0}\"\n\n\
             [servers.found]\ncommand = \"npx\"\ncwd = \"~/x\"\n",
            project.display()
        )
    );
    // In a file of this folder they stay relative.
    let here = [
        "here",
        "--file",
        "here.toml",
        "--cwd",
        "sub",
        "--",
        "./server",
    ];
    add(&here);
    assert_eq!(
        fixture.read("project/here.toml"),
        "[servers.here]\ncommand = \"./server\"\ncwd = \"sub\"\n"
    );
}

#[test]
fn a_projects_file_is_edited_in_its_own_dialect_and_still_needs_trust() {
    let fixture = Fixture::new();
    let before = "{\n  // ours\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"true\" }\n  }\n}\n";
    fixture.write("project/.gemini/settings.json", before);
    let ran = fixture.run(&[
        "add",
        "demo",
        "--file",
        ".gemini/settings.json",
        "--env",
        "T=${T}",
        "--",
        PROGRAM,
        "__demo-server",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr
            .contains("review it with `switchboard trust demo`"),
        "{ran:?}"
    );
    let text = fixture.read("project/.gemini/settings.json");
    assert!(
        text.starts_with(
            "{\n  // ours\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"true\" },\n    \"demo\": {\n"
        ),
        "{text}"
    );
    let ProgramOutput { code, .. } = fixture.run(&["call", "demo/echo", "message=hi", "--yes"]);
    assert_eq!(code, Some(5), "not trusted yet");
    fixture.run(&["trust", "demo", "--yes"]);
    let ran = fixture.run(&["call", "demo/echo", "message=hi", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "hi\n"),
        "{ran:?}"
    );
    let ran = fixture.run(&["disable", "demo", "--file", ".gemini/settings.json"]);
    assert!(
        ran.code == Some(2)
            && ran
                .stderr
                .contains("try `switchboard -c .gemini/settings.json remove demo`"),
        "{ran:?}"
    );
    assert_eq!(
        fixture
            .run(&["remove", "demo", "--file", ".gemini/settings.json"])
            .code,
        Some(0)
    );
    assert_eq!(fixture.read("project/.gemini/settings.json"), before);
}

#[test]
fn hcl_and_yaml_files_are_edited_too_and_read_only_where_given() {
    let fixture = Fixture::new();
    let hcl = fixture.write(
        "project/a3s.hcl",
        "# mine\nmcp_servers {\n  name    = \"a\"\n  command = \"true\"\n}\n",
    );
    let yaml = fixture.write(
        "project/app.yaml",
        "# mine\nmetadata:\n  mcp:\n    a:\n      command: \"true\"\n",
    );
    for (file, dialect) in [(hcl, "a3s"), (yaml, "agent-apps")] {
        let before = std::fs::read_to_string(&file).unwrap();
        let file = file.display().to_string();
        let ran = fixture.run(&[
            "add",
            "demo",
            "--file",
            &file,
            "--env",
            "T=${T}",
            "--",
            PROGRAM,
            "__demo-server",
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(
            ran.stderr.contains("reads this file only with `-c`"),
            "{ran:?}"
        );
        let ran = fixture.run(&["-c", &file, "call", "demo/echo", "message=hi", "--yes"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "hi\n"),
            "{dialect}: {ran:?}"
        );
        assert_eq!(
            fixture.run(&["remove", "demo", "--file", &file]).code,
            Some(0),
            "{dialect}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "{dialect}");
    }
}

/// A person need not know which file a server stands in: the file is named, and at a terminal
/// changed after a yes.
#[test]
fn disabling_a_projects_server_offers_to_edit_the_projects_file() {
    let fixture = Fixture::new();
    let before = "[servers.here]\ncommand = \"true\"\n";
    fixture.write("project/switchboard.toml", before);
    let file = fixture
        .home
        .path("project")
        .canonicalize()
        .unwrap()
        .join("switchboard.toml")
        .display()
        .to_string();
    let ran = fixture.run(&["disable", "here"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    // What the hint says works as it stands.
    let hint = ran
        .stderr
        .split('`')
        .find(|part| part.starts_with("switchboard -c"))
        .unwrap();
    assert_eq!(
        hint,
        format!("switchboard -c {file} disable here"),
        "{ran:?}"
    );

    let mut terminal = fixture.home.run_in_terminal(&["disable", "here"]);
    let screen = terminal.wait_for("Change that file? [y/N]");
    assert!(screen.contains("switchboard.toml"), "{screen}");
    terminal.send("\r");
    assert_eq!(terminal.end().code, 2);
    assert_eq!(fixture.read("project/switchboard.toml"), before);

    for (verb, after) in [
        ("disable", format!("{before}enabled = false\n")),
        ("remove", String::new()),
    ] {
        let mut terminal = fixture.home.run_in_terminal(&[verb, "here"]);
        terminal.wait_for("[y/N]");
        terminal.send("y\r");
        let ended = terminal.end();
        assert_eq!(
            (ended.code, fixture.read("project/switchboard.toml").trim()),
            (0, after.trim()),
            "{verb}: {ended:?}"
        );
    }
    let ran = fixture.run(&["disable", "nobody"]);
    assert!(
        ran.code == Some(2) && !ran.stderr.contains("-c /"),
        "{ran:?}"
    );
}

/// What is shown where nothing is configured can be copied into the file that is named, and the
/// command writes the same.
#[test]
fn the_sample_shown_without_configuration_is_one_of_the_file_it_is_for() {
    for (name, dialect, blank) in [
        (None, None, ""),
        (Some("x/.mcp.json"), None, "{}"),
        (Some("x/.gemini/settings.json"), None, "{}"),
        (Some("x/.agents/mcp.json"), None, "{\n  \"version\": 1\n}\n"),
        (Some("x/agent.toml"), Some("agent-code"), ""),
        (Some("x/a3s.hcl"), None, ""),
    ] {
        let fixture = Fixture::new();
        let own = fixture.home.path("config/switchboard/switchboard.toml");
        let file = name.map_or(own, |name| fixture.write(name, blank));
        let path = file.display().to_string();
        let mut words = if name.is_some() {
            vec!["-c", path.as_str()]
        } else {
            Vec::new()
        };
        words.extend(dialect.iter().flat_map(|dialect| ["--dialect", dialect]));
        let ran = fixture.run(&[&words[..], &["status"]].concat());
        let (_, after) = ran
            .stderr
            .split_once(&format!("\n{path} could look like this:\n\n"))
            .unwrap_or_else(|| panic!("{ran:?}"));
        let (sample, rest) = after.split_once("\n\n`switchboard ").unwrap();
        let sample: String = sample
            .lines()
            .map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line)))
            .collect();

        let command: Vec<&str> = rest.split('`').next().unwrap().split(' ').collect();
        let added = fixture.run(&command);
        assert_eq!(added.code, Some(0), "{name:?}: {added:?}");
        assert_eq!(
            std::fs::read_to_string(&file).unwrap().trim(),
            sample.trim(),
            "{name:?}: the command writes the sample"
        );
        let names = fixture
            .run(&[&words[..], &["--wait", "0.1", "status", "--json"]].concat())
            .json();
        assert_eq!(names["servers"][0]["name"], "time", "{name:?}: {names}");
    }
}

#[test]
fn a_file_given_with_c_is_the_one_that_is_changed() {
    let fixture = Fixture::new();
    fixture.home.user_file("[servers.a]\ncommand = \"own\"\n");
    let given = fixture.home.path("project/given.toml");
    std::fs::write(&given, "[servers.a]\ncommand = \"given\"\n").unwrap();
    for (words, expected) in [
        (
            &["disable", "a"][..],
            "[servers.a]\ncommand = \"given\"\nenabled = false\n",
        ),
        (
            &["add", "b", "--", "more"],
            "[servers.a]\ncommand = \"given\"\nenabled = false\n\n[servers.b]\ncommand = \"more\"\n",
        ),
        (&["remove", "a"], "[servers.b]\ncommand = \"more\"\n"),
    ] {
        let ran = fixture.run(&[&["-c", "given.toml"], words].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(
            std::fs::read_to_string(&given).unwrap(),
            expected,
            "{words:?}"
        );
    }
    let own = fixture.read("config/switchboard/switchboard.toml");
    assert_eq!(own, "[servers.a]\ncommand = \"own\"\n");
    let ran = fixture.run(&["-c", "given.toml", "-c", "other.toml", "remove", "a"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("name it with --file"), "{ran:?}");
}

#[test]
fn hints_of_edits_work_when_they_are_followed() {
    let fixture = Fixture::new();
    fixture.home.user_file("[servers.a]\ncommand = \"own\"\n");
    let ran = fixture.run(&["remove", "nothere"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(!ran.stderr.contains("switchboard why"), "{ran:?}");
    std::fs::write(fixture.home.path("project/other.toml"), "").unwrap();
    let ran = fixture.run(&["remove", "--file", "other.toml", "a"]);
    assert!(ran.stderr.contains("`switchboard why a`"), "{ran:?}");
    std::fs::write(
        fixture.home.path("project/SKILL.md"),
        "---\nname: x\nmetadata:\n  mcp:\n    n:\n      command: [\"x\"]\n---\nText\n",
    )
    .unwrap();
    let ran = fixture.run(&["disable", "n", "--file", "SKILL.md"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr
            .contains("try `switchboard -c SKILL.md remove n`"),
        "{ran:?}"
    );
    assert_eq!(
        fixture.run(&["-c", "SKILL.md", "remove", "n"]).code,
        Some(0)
    );
    let ran = fixture.run(&["add", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("give a URL, or the program after `--`"),
        "{ran:?}"
    );
}

/// Followed without the dialect, the hint would read the file as one of another kind.
#[test]
fn hints_of_edits_keep_the_dialect_that_was_given() {
    let fixture = Fixture::new();
    let file = fixture.write(
        "project/g.json",
        r#"{"mcpServers": {"a": {"command": "true"}}}"#,
    );
    let given = ["-c", "g.json", "--dialect", "gemini"];
    let added = fixture.run(&[&given[..], &["add", "b", "--", "true"]].concat());
    assert!(
        added
            .stderr
            .contains("`switchboard -c g.json --dialect gemini`"),
        "{added:?}"
    );
    let disabled = fixture.run(&[&given[..], &["disable", "a"]].concat());
    let hint = "try `switchboard -c g.json --dialect gemini remove a`";
    assert!(disabled.stderr.contains(hint), "{disabled:?}");
    std::fs::write(file, "{}").unwrap();
    let named = ["--file", "g.json", "--dialect", "gemini"];
    let added = fixture.run(&[&["add", "c"], &named[..], &["--", "true"]].concat());
    assert_eq!(added.code, Some(0), "{added:?}");
    let without_file = fixture.run(&["--dialect", "gemini", "status"]);
    assert_eq!(without_file.code, Some(2), "{without_file:?}");
    assert!(without_file.stderr.contains("with -c"), "{without_file:?}");
}

#[test]
fn removing_one_of_two_entries_says_that_the_server_is_still_configured() {
    let fixture = Fixture::new();
    fixture.home.user_file("[servers.a]\ncommand = \"own\"\n");
    fixture.write("project/switchboard.toml", "[servers.a]\ncommand = \"x\"\n");
    let ran = fixture.run(&["remove", "a"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("\"a\" is still configured: ")
            && ran
                .stderr
                .contains("switchboard.toml:1 has an entry of this name"),
        "{ran:?}"
    );
}
