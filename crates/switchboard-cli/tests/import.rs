//! `import`: copies servers of clients' files into the user's own file; secrets become references,
//! and everything that is left out is reported.
#![allow(clippy::unwrap_used)]

mod support;

use support::{Home, ProgramOutput};

fn write(home: &Home, file: &str, text: &str) {
    let path = home.path(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Runs where no client is on the PATH.
fn run(home: &Home, words: &[&str]) -> ProgramOutput {
    let mut command = home.command(words);
    command.env("PATH", home.path("project"));
    ProgramOutput::of(&command.output().unwrap())
}

fn own_text(home: &Home) -> String {
    std::fs::read_to_string(home.path("config/switchboard/switchboard.toml")).unwrap()
}

#[test]
fn import_copies_the_servers_of_every_client_without_their_secrets() {
    let home = Home::new();
    home.user_file("# mine\n[servers.kept]\ncommand = \"mine\"\n");
    write(
        &home,
        ".codex/config.toml",
        "[mcp_servers.git]\ncommand = \"uvx\"\nargs = [\"mcp-server-git\", \"--token\", \"hunter2xyz\"]\nstartup_timeout_sec = 20\n\n\
         [mcp_servers.web]\nurl = \"https://example.com/mcp\"\nbearer_token_env_var = \"WEB_TOKEN\"\n\n\
         [mcp_servers.switchboard]\ncommand = \"switchboard\"\nargs = [\"attach\", \"--as\", \"codex\"]\n",
    );
    write(
        &home,
        ".cursor/mcp.json",
        r#"{"mcpServers": {
            "hub": {"command": "npx", "args": ["-y", "hub"], "env": {"HUB_TOKEN": "ghp_16C7e42F292c6912E7710c838347", "LEVEL": "info", "HERE": "${env:USER}"}},
            "kept": {"command": "theirs"},
            "my server!": {"command": "x", "cwd": "work"},
            "broken": {"args": []}
        }}"#,
    );
    write(
        &home,
        "config/goose/config.yaml",
        "extensions:\n  developer:\n    type: builtin\n    enabled: true\n  notes:\n    type: stdio\n    cmd: notes-mcp\n    args: [serve]\n    env_keys: [NOTES_KEY]\n    timeout: 60\n    enabled: true\n",
    );
    let ran = run(&home, &["import"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for secret in ["hunter2xyz", "ghp_16C7e42F292c6912E7710c838347"] {
        assert!(
            !ran.stderr.contains(secret) && !own_text(&home).contains(secret),
            "{ran:?}"
        );
    }
    let cursor = home.path(".cursor").canonicalize().unwrap();
    let expected = format!(
        "# mine\n[servers.kept]\ncommand = \"mine\"\n\n\
         [servers.git]\ncommand = \"uvx\"\nargs = [\"mcp-server-git\", \"--token\", \"${{GIT_SECRET}}\"]\nconnect_timeout = \"20s\"\n\n\
         [servers.web]\nurl = \"https://example.com/mcp\"\nbearer_token = \"${{WEB_TOKEN}}\"\n\n\
         [servers.hub]\ncommand = \"npx\"\nargs = [\"-y\", \"hub\"]\nenv = {{ HUB_TOKEN = \"${{HUB_TOKEN}}\", LEVEL = \"info\", HERE = \"${{USER}}\" }}\n\n\
         [servers.my-server]\ncommand = \"x\"\ncwd = \"{}/work\"\n\n\
         [servers.notes]\ncommand = \"notes-mcp\"\nargs = [\"serve\"]\nenv = {{ NOTES_KEY = \"${{NOTES_KEY}}\" }}\nenabled = true\ncall_timeout = \"60s\"\n",
        cursor.display()
    );
    assert_eq!(own_text(&home), expected, "{}", ran.stderr);
    for told in [
        "set GIT_SECRET in the environment of switchboard: its value is `args` of \"git\"",
        "set HUB_TOKEN in the environment of switchboard: its value is `env.HUB_TOKEN` of \"hub\"",
        "\"kept\"",
        "was not imported: your file has another entry of that name",
        "is called \"my-server\" here",
        "not imported, since it does not work",
        "\"developer\" is not an MCP server",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    let names: Vec<_> = ran
        .stdout
        .lines()
        .map(|line| line.split('"').nth(1).unwrap())
        .collect();
    assert_eq!(names, ["git", "web", "hub", "my-server", "notes"]);

    let again = run(&home, &["import"]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (Some(0), "nothing to import\n")
    );
    assert_eq!(own_text(&home), expected);
}

/// `install` says which servers a client still starts itself; both commands that it names
/// work, and once the servers are gone from the client's files it says no more.
#[test]
fn servers_that_a_client_still_starts_itself_are_named_and_can_be_moved() {
    let home = Home::new();
    let project = home.path("project").canonicalize().unwrap();
    write(
        &home,
        "project/.mcp.json",
        r#"{"mcpServers": {"notes": {"command": "./notes"}}}"#,
    );
    let own = r#"{"mcpServers": {"git": {"command": "uvx"}, "web": {"type": "http", "url": "https://example.com/mcp"}}}"#;
    write(&home, ".claude.json", own);
    let installed = run(&home, &["install", "claude-code", "--yes"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    for said in [
        format!(
            "claude-code still connects to 2 servers itself, bypassing the gateway: \"git\", \"web\" ({}); to move them behind the gateway: `switchboard import claude-code`, then remove them from that file",
            home.path(".claude.json").display()
        ),
        format!(
            "claude-code still connects to 1 server itself, bypassing the gateway: \"notes\" ({}); to move them behind the gateway: `switchboard import --project claude-code`, then remove them from that file",
            project.join(".mcp.json").display()
        ),
    ] {
        assert!(
            installed.stderr.contains(&said),
            "{said}\n{}",
            installed.stderr
        );
    }
    let imported = run(&home, &["import", "claude-code"]);
    assert!(!own_text(&home).contains("notes"), "{imported:?}");
    let refused = run(&home, &["import", "--project", "claude-code"]);
    assert!(
        refused.code == Some(5) && refused.stderr.contains("`--yes`"),
        "{refused:?}"
    );
    assert!(!own_text(&home).contains("notes"), "{refused:?}");
    let imported = run(&home, &["import", "--project", "claude-code", "--yes"]);
    let moved = format!(
        "[servers.notes]\ncommand = \"{0}/./notes\"\ncwd = \"{0}\"\n",
        project.display()
    );
    assert!(
        own_text(&home).contains(&moved),
        "{}\n{imported:?}",
        own_text(&home)
    );
    let again = run(&home, &["install", "claude-code"]);
    assert!(
        again
            .stderr
            .contains("already in your switchboard.toml: remove "),
        "{again:?}"
    );
    std::fs::remove_file(home.path("project/.mcp.json")).unwrap();
    let text = std::fs::read_to_string(home.path(".claude.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["mcpServers"]
        .as_object_mut()
        .unwrap()
        .retain(|name, _| name == "switchboard");
    write(&home, ".claude.json", &document.to_string());
    let last = run(&home, &["install", "claude-code"]);
    assert!(!last.stderr.contains("bypassing the gateway"), "{last:?}");
}

/// A project's servers become the user's own, which need no trust.
#[test]
fn a_projects_servers_are_imported_only_after_a_yes_and_without_their_trust() {
    let home = Home::new();
    let project = home.path("project").canonicalize().unwrap();
    write(
        &home,
        "project/.gemini/settings.json",
        r#"{"mcpServers": {"srv": {"command": "bin/server", "cwd": "./srv", "trust": true}}}"#,
    );
    for words in [
        &["import", "--project", "gemini"][..],
        &["import", "--project", "gemini", "--json"],
    ] {
        let refused = run(&home, words);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(!home.path("config/switchboard/switchboard.toml").exists());
    }
    let imported = run(&home, &["import", "--project", "gemini", "--yes"]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let folder = project.display();
    let expected =
        format!("[servers.srv]\ncommand = \"{folder}/bin/server\"\ncwd = \"{folder}/./srv\"\n");
    let written = own_text(&home);
    assert!(
        written.starts_with(&expected) && !written.contains("trust"),
        "{written}"
    );
    assert!(
        imported
            .stderr
            .contains("`trust` is your own decision, and was left out"),
        "{imported:?}"
    );
    // The editors' folders are not the project's either.
    for (client, file) in [
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
    ] {
        let key = if client == "cursor" {
            "mcpServers"
        } else {
            "servers"
        };
        let text = format!(r#"{{"{key}": {{"{client}-srv": {{"command": "x", "cwd": "srv"}}}}}}"#);
        write(&home, &format!("project/{file}"), &text);
        let imported = run(&home, &["import", "--project", client, "--yes"]);
        let expected = format!("[servers.{client}-srv]\ncommand = \"x\"\ncwd = \"{folder}/srv\"\n");
        assert!(own_text(&home).contains(&expected), "{imported:?}");
    }
}

#[test]
fn an_edit_of_the_own_file_during_the_question_is_kept() {
    let home = Home::new();
    home.user_file("# mine\n");
    write(
        &home,
        ".cursor/mcp.json",
        r#"{"mcpServers": {"k": {"command": "x"}}}"#,
    );
    let mut terminal = home.run_in_terminal(&["import", "cursor"]);
    terminal.wait_for("Write this file?");
    home.user_file("# edited meanwhile\n");
    terminal.send("y\r");
    let ended = terminal.end();
    assert_eq!(ended.code, 2, "{ended:?}");
    assert_eq!(own_text(&home), "# edited meanwhile\n");
}

#[test]
fn a_percent_encoded_secret_of_a_url_becomes_a_reference() {
    let home = Home::new();
    write(
        &home,
        ".cursor/mcp.json",
        r#"{"mcpServers": {"web": {"url": "https://me:p%40ss%2Fw0rd@example.com/mcp?api_key=k%2Fe%2By9%3D&page=1"}}}"#,
    );
    let ran = run(&home, &["import", "cursor"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        own_text(&home),
        "[servers.web]\nurl = \"https://me:${WEB_SECRET}@example.com/mcp?api_key=${WEB_WEB_SECRET}&page=1\"\n"
    );
}

#[test]
fn a_variable_never_stands_for_two_secrets() {
    let home = Home::new();
    let entry = |value: &str| format!(r#"{{"command": "x", "env": {{"API_TOKEN": "{value}"}}}}"#);
    let text = format!(
        r#"{{"mcpServers": {{"a": {}, "b": {}, "c": {}}}}}"#,
        entry("9fK2xQ7vLm04ZtB8"),
        entry("4f9c2e1ab07d"),
        entry("9fK2xQ7vLm04ZtB8")
    );
    write(&home, ".cursor/mcp.json", &text);
    let ran = run(&home, &["import", "cursor", "--json"]);
    let found = ran.json()["servers"].clone();
    let variables: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["variables"][0].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["API_TOKEN", "B_API_TOKEN", "API_TOKEN"]);
}

/// The value of a variable that an entry refers to is known to nobody here: it is no other secret's.
#[test]
fn a_variable_that_an_entry_refers_to_stands_for_no_imported_secret() {
    let home = Home::new();
    home.user_file("[servers.mine]\ncommand = \"x\"\nenv = { A_TOKEN = \"${A_TOKEN}\" }\n");
    write(
        &home,
        ".cursor/mcp.json",
        r#"{"mcpServers": {
            "a": {"command": "x", "env": {"A_TOKEN": "9fK2xQ7vLm04ZtB8", "B_TOKEN": "4f9c2e1ab07d9fK2"}},
            "b": {"command": "x", "env": {"OTHER": "${env:B_TOKEN}"}}
        }}"#,
    );
    let ran = run(&home, &["import", "cursor", "--json"]);
    let found = ran.json()["servers"][0]["variables"].clone();
    assert_eq!(
        found,
        serde_json::json!(["A_A_TOKEN", "A_B_TOKEN"]),
        "{ran:?}"
    );
    // Imported again, each entry is the one that is there.
    let ran = run(&home, &["import", "cursor"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("nothing to import\n", "")
    );
}

#[test]
fn a_broken_file_is_named_and_the_others_are_imported() {
    let home = Home::new();
    write(&home, ".codex/config.toml", "a = 1\nb = = 2\n");
    write(
        &home,
        ".kiro/settings/mcp.json",
        r#"{"mcpServers": {"k": {"command": "x"}}}"#,
    );
    let ran = run(&home, &["import"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains(".codex/config.toml:2:"), "{ran:?}");
    assert_eq!(own_text(&home), "[servers.k]\ncommand = \"x\"\n");
}

/// `install --http`, then `import`: the gateway would be a server of its own.
#[test]
fn the_gateways_own_entry_is_never_imported() {
    let home = Home::new();
    let neighbour = r#"{"mcpServers": {"k": {"command": "x"}}}"#;
    write(&home, ".claude.json", neighbour);
    write(&home, ".codex/config.toml", "");
    write(&home, ".gemini/settings.json", "{}");
    for form in [&["--http"][..], &[]] {
        let install = ["install", "claude-code", "codex", "gemini", "--yes"];
        let words: Vec<_> = install.iter().chain(form).copied().collect();
        assert_eq!(run(&home, &words).code, Some(0), "{form:?}");
        let ran = run(&home, &["import", "--yes"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(own_text(&home), "[servers.k]\ncommand = \"x\"\n");
        assert!(!ran.stderr.contains("switchboard.headersHelper"), "{ran:?}");
    }
}

#[test]
fn an_entry_that_no_file_of_ours_can_have_is_left_out_and_the_others_are_imported() {
    let home = Home::new();
    write(
        &home,
        ".cursor/mcp.json",
        r#"{"mcpServers": {"slow": {"command": "x", "timeout": 999999999}, "quick": {"command": "y"}}}"#,
    );
    write(
        &home,
        "config/goose/config.yaml",
        "extensions:\n  endless:\n    type: stdio\n    cmd: z\n    timeout: 18446744073709551615\n    enabled: true\n",
    );
    let ran = run(&home, &["import"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        own_text(&home),
        "[servers.quick]\ncommand = \"y\"\n",
        "{ran:?}"
    );
    let cursor = home.path(".cursor").canonicalize().unwrap();
    assert!(
        ran.stderr.contains(&format!(
            "cursor: \"slow\" ({}/mcp.json:1) was not imported: ",
            cursor.display()
        )),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("goose: \"endless\" ("), "{ran:?}");
}

/// A secret of one character is also a part of the host, and a reference has the letters of the next
/// secret.
#[test]
fn import_replaces_a_secret_only_where_it_is_one() {
    let home = Home::new();
    write(
        &home,
        ".cursor/mcp.json",
        r#"{"mcpServers": {
            "u": {"url": "https://u:a@a.example.com/api?key=1&port=8011"},
            "t": {"url": "https://canarytoken@h.example.com/mcp"},
            "args": {"command": "x", "args": ["--token", "SECRET", "--key", "S", "--env=API_KEY=canary", "SECRETS", "-H", "Authorization: Basic canary=="]}
        }}"#,
    );
    let ran = run(&home, &["import"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = own_text(&home);
    for expected in [
        r#""https://u:${U_SECRET}@a.example.com/api?key=${U_U_SECRET}&port=8011""#,
        r#""https://${T_SECRET}@h.example.com/mcp""#,
        r#"["--token", "${ARGS_SECRET}", "--key", "${ARGS_ARGS_SECRET}", "--env=API_KEY=${"#,
        r#""SECRETS", "-H", "Authorization: ${"#,
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("canary"), "{text}");
}
