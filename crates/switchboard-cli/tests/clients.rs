//! `install` and `uninstall`, for every client: the entry is what that client reads, a second run
//! changes nothing, and removing it leaves the file as it was.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use support::{Home, PROGRAM, ProgramOutput};
use switchboard::config::{self, ConfigFile, Dialect, Endpoint, Scope};

/// Every client with its file, a text that the file may have before, and our entry.
struct Case {
    client: &'static str,
    file: &'static str,
    before: &'static str,
    /// Where our entry is in the file.
    keys: &'static [&'static str],
    entry: Value,
}

fn case(
    client: &'static str,
    file: &'static str,
    before: &'static str,
    keys: &'static [&'static str],
    entry: Value,
) -> Case {
    Case {
        client,
        file,
        before,
        keys,
        entry,
    }
}

const NEIGHBOUR: &str = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\", \"env\": { \"TOKEN\": \"sesame\" } }\n  },\n  \"other\": [1.50, true]\n}\n";

fn cases() -> Vec<Case> {
    let plain = |client: &str| json!({"command": PROGRAM, "args": ["attach", "--as", client]});
    let with = |client: &str, more: Value| {
        let mut entry = plain(client);
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        entry
    };
    let mcp: &[&str] = &["mcpServers", "switchboard"];
    let comments =
        "// mine\n{\n  \"theme\": \"One\", // kept\n  /* all */ \"list\": [ 1, 2 ],\n}\n";
    vec![
        case(
            "claude-code",
            ".claude.json",
            NEIGHBOUR,
            mcp,
            with("claude-code", json!({"type": "stdio"})),
        ),
        case(
            "codex",
            ".codex/config.toml",
            "# mine\nmodel = \"m\" # kept\n\n[mcp_servers.a]\ncommand = \"x\"\n\n[history]\nsince = 2026-01-01\n",
            &["mcp_servers", "switchboard"],
            plain("codex"),
        ),
        case(
            "gemini",
            ".gemini/settings.json",
            comments,
            mcp,
            plain("gemini"),
        ),
        case(
            "vscode",
            "config/Code/User/mcp.json",
            "{\n\t\"servers\": {}, // none yet\n\t\"inputs\": []\n}",
            &["servers", "switchboard"],
            with("vscode", json!({"type": "stdio"})),
        ),
        case(
            "cursor",
            ".cursor/mcp.json",
            "{\"mcpServers\":{}}",
            mcp,
            plain("cursor"),
        ),
        case(
            "windsurf",
            ".codeium/windsurf/mcp_config.json",
            "",
            mcp,
            plain("windsurf"),
        ),
        case(
            "claude-desktop",
            "config/Claude/claude_desktop_config.json",
            NEIGHBOUR,
            mcp,
            plain("claude-desktop"),
        ),
        case(
            "zed",
            "config/zed/settings.json",
            comments,
            &["context_servers", "switchboard"],
            with("zed", json!({"source": "custom", "env": {}})),
        ),
        case(
            "opencode",
            "config/opencode/opencode.json",
            "{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}\n",
            &["mcp", "switchboard"],
            json!({"type": "local", "command": [PROGRAM, "attach", "--as", "opencode"], "enabled": true}),
        ),
        case(
            "cline",
            ".cline/data/settings/cline_mcp_settings.json",
            NEIGHBOUR,
            mcp,
            with("cline", json!({"disabled": false})),
        ),
        case(
            "copilot-cli",
            ".copilot/mcp-config.json",
            NEIGHBOUR,
            mcp,
            with("copilot-cli", json!({"type": "stdio", "tools": ["*"]})),
        ),
        case(
            "amp",
            "config/amp/settings.json",
            "{\n  \"amp.url\": \"https://example.com\"\n}\n",
            &["amp.mcpServers", "switchboard"],
            plain("amp"),
        ),
        case(
            "kiro",
            ".kiro/settings/mcp.json",
            NEIGHBOUR,
            mcp,
            with("kiro", json!({"disabled": false})),
        ),
    ]
}

/// A home where no client is installed, and neither is this program.
struct Machine {
    home: Home,
}

impl Machine {
    fn new() -> Self {
        let home = Home::new();
        std::fs::create_dir(home.path("bin")).unwrap();
        Self { home }
    }

    fn run(&self, words: &[&str]) -> ProgramOutput {
        let mut command = self.home.command(words);
        command.env("PATH", self.home.path("bin"));
        ProgramOutput::of(&command.output().unwrap())
    }

    fn done(&self, words: &[&str]) -> ProgramOutput {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.home.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.home.path(file)).unwrap()
    }

    /// The names in the folder of a file.
    fn beside(&self, file: &str) -> Vec<String> {
        let folder = self.home.path(file).parent().unwrap().to_owned();
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The document of a file, comments left out.
fn document(file: &str, text: &str) -> Value {
    if file.ends_with(".toml") {
        let table: toml::Table = text.parse().unwrap();
        return serde_json::to_value(table).unwrap();
    }
    let document = jsonc_parser::parse_to_value(text, &Default::default());
    plain(document.unwrap().unwrap())
}

fn plain(value: jsonc_parser::JsonValue<'_>) -> Value {
    use jsonc_parser::JsonValue;
    match value {
        JsonValue::String(text) => Value::String(text.into_owned()),
        JsonValue::Number(number) => serde_json::from_str(number).unwrap(),
        JsonValue::Boolean(flag) => flag.into(),
        JsonValue::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, plain(value)))
            .collect(),
        JsonValue::Array(items) => items.into_iter().map(plain).collect(),
        JsonValue::Null => Value::Null,
    }
}

#[test]
fn what_install_writes_is_what_each_client_reads_and_uninstall_restores_the_bytes() {
    for Case {
        client,
        file,
        before,
        keys,
        entry,
    } in cases()
    {
        let machine = Machine::new();
        machine.write(file, before);
        let ran = machine.done(&["install", client]);
        assert!(
            ran.stdout.starts_with(&format!("{client}: installed (")),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("+ "), "a diff: {ran:?}");
        assert!(!ran.stderr.contains("sesame"), "{client}: {}", ran.stderr);

        let after = machine.text(file);
        let mut found = document(file, &after);
        let mut at = &mut found;
        for key in &keys[..keys.len() - 1] {
            at = &mut at[*key];
        }
        assert_eq!(
            at.as_object_mut().unwrap().remove("switchboard"),
            Some(entry),
            "{client}"
        );
        for line in before
            .lines()
            .filter(|line| line.contains("//") || line.contains('#'))
        {
            let comment = line
                .split("//")
                .last()
                .unwrap()
                .split('#')
                .next_back()
                .unwrap();
            assert!(after.contains(comment), "{client}: {comment:?} in {after}");
        }
        let backups: Vec<_> = machine
            .beside(file)
            .into_iter()
            .filter(|name| name.ends_with(".switchboard-backup"))
            .collect();
        assert_eq!(backups.len(), 1, "{client}: {backups:?}");

        let again = machine.done(&["install", client]);
        assert!(again.stdout.contains("already installed"), "{again:?}");
        let mut said = again.stderr.lines();
        let is_about_neighbours = |line: &str| line.contains("itself, bypassing the gateway");
        assert!(said.all(is_about_neighbours), "{client}: {again:?}");
        assert_eq!(machine.text(file), after, "{client}");

        machine.done(&["uninstall", client]);
        assert_eq!(machine.text(file), before, "{client}");
        let left: Vec<_> = machine
            .beside(file)
            .into_iter()
            .filter(|name| name.ends_with(".switchboard-backup"))
            .collect();
        assert_eq!(left, Vec::<String>::new(), "{client}");
    }
}

#[test]
fn a_client_that_is_named_gets_a_file_and_loses_it_again() {
    let machine = Machine::new();
    for Case {
        client,
        file,
        keys,
        entry,
        ..
    } in cases()
    {
        let file = match client {
            "opencode" => "config/opencode/opencode.jsonc",
            "cline" => {
                "config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
            }
            _ => file,
        };
        machine.done(&["install", client]);
        let mode = machine
            .home
            .path(file)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{client}");
        let mut found = &document(file, &machine.text(file));
        for key in keys {
            found = &found[*key];
        }
        assert_eq!(found, &entry, "{client}");
        machine.done(&["uninstall", client]);
        assert!(!machine.home.path(file).exists(), "{client}");
    }
}

#[test]
fn goose_and_continue_have_their_entry_in_yaml() {
    let machine = Machine::new();
    let file = "config/goose/config.yaml";
    let before = "GOOSE_MODEL: m # kept\nextensions:\n  developer:\n    enabled: true\n    type: builtin\n\nlast: 1\n";
    machine.write(file, before);
    machine.done(&["install", "goose"]);
    let added = format!(
        "  switchboard:\n    type: stdio\n    name: switchboard\n    cmd: {PROGRAM}\n    args: [attach, '--as', goose]\n    \
         env_keys: []\n    envs: {{}}\n    timeout: 300\n    enabled: true\n    description: 'Every MCP server you use, behind one gate'\n"
    );
    let expected = before.replace("builtin\n", &format!("builtin\n{added}"));
    assert_eq!(machine.text(file), expected);
    assert!(
        machine
            .done(&["install", "goose"])
            .stdout
            .contains("already installed")
    );
    machine.done(&["uninstall", "goose"]);
    assert_eq!(machine.text(file), before);

    let file = ".continue/mcpServers/switchboard.yaml";
    machine.done(&["install", "continue"]);
    assert_eq!(
        machine.text(file),
        format!(
            "# Written by `switchboard install`; `switchboard uninstall` removes it.\nname: switchboard\nversion: 1.0.0\nschema: v1\n\
             mcpServers:\n  - name: switchboard\n    command: \"{PROGRAM}\"\n    args: [\"attach\",\"--as\",\"continue\"]\n"
        )
    );
    assert!(
        machine
            .done(&["install", "continue"])
            .stdout
            .contains("already installed")
    );
    // What a person added stays.
    let own = machine.text(file);
    let changed = format!("{own}    env: {{\"A\": \"1\"}}\n");
    std::fs::write(machine.home.path(file), &changed).unwrap();
    let refused = machine.run(&["install", "continue", "--http"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("`--force` replaces"), "{refused:?}");
    let left = machine.run(&["uninstall", "continue"]);
    assert!(left.stdout.contains("was changed since"), "{left:?}");
    assert_eq!(machine.text(file), changed);
    // Another program or URL is no change.
    let moved = own.replace(PROGRAM, "/old/switchboard");
    std::fs::write(machine.home.path(file), &moved).unwrap();
    machine.done(&["install", "continue"]);
    assert_eq!(machine.text(file), own);
    machine.done(&["uninstall", "continue"]);
    assert!(!machine.home.path(file).exists());
}

#[test]
fn our_own_reader_finds_the_program_that_install_wrote() {
    let machine = Machine::new();
    for Case {
        client,
        file,
        before,
        ..
    } in cases()
    {
        if client == "amp" {
            continue;
        }
        machine.write(file, before);
        machine.done(&["install", client]);
        let dialect = match client {
            "gemini" => Dialect::Gemini,
            _ => Dialect::McpJson,
        };
        let load = || {
            let file = ConfigFile {
                dialect: Some(dialect),
                ..ConfigFile::new(machine.home.path(file), Scope::Given)
            };
            config::load(&[file]).unwrap().servers
        };
        let entry_of = |name: &str| {
            load()
                .into_values()
                .find(|server| server.name.as_str() == name)
        };
        // Under the name that `install` writes, the entry is the gateway itself, not a server.
        assert!(entry_of("switchboard").is_none(), "{client}");
        let renamed = machine.text(file).replace("switchboard", "renamed");
        machine.write(file, &renamed);
        let entry = entry_of("renamed").unwrap();
        let Endpoint::Stdio(stdio) = &entry.endpoint else {
            panic!("{client}: {entry:?}")
        };
        let program = PROGRAM.replace("switchboard", "renamed");
        assert_eq!(stdio.command, program, "{client}");
        assert_eq!(stdio.args, ["attach", "--as", client]);
    }
}

#[test]
fn a_changed_neighbour_stays_and_only_our_entry_goes() {
    let machine = Machine::new();
    let file = ".cursor/mcp.json";
    machine.write(file, NEIGHBOUR);
    machine.done(&["install", "cursor"]);
    let changed = machine.text(file).replace("\"x\"", "\"y\"");
    machine.write(file, &changed);
    machine.done(&["uninstall", "cursor"]);
    assert_eq!(machine.text(file), NEIGHBOUR.replace("\"x\"", "\"y\""));
}

#[test]
fn an_entry_that_is_not_ours_is_replaced_or_removed_only_by_force() {
    let machine = Machine::new();
    let file = ".cursor/mcp.json";
    let theirs = "{\n  \"mcpServers\": {\n    \"switchboard\": { \"command\": \"other\", \"env\": { \"KEY\": \"hunter2\" } }\n  }\n}\n";
    machine.write(file, theirs);
    let ran = machine.run(&["install", "cursor"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("has another entry \"switchboard\""),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("`--force` replaces it"), "{ran:?}");
    let ran = machine.done(&["uninstall", "cursor"]);
    assert!(ran.stdout.contains("left as it is"), "{ran:?}");
    assert!(ran.stdout.contains("`--force` removes it"), "{ran:?}");
    assert_eq!(machine.text(file), theirs);
    let ran = machine.done(&["uninstall", "cursor", "--force"]);
    assert!(ran.stdout.contains("backup beside it"), "{ran:?}");
    assert!(
        ran.stderr.contains("***") && !ran.stderr.contains("hunter2"),
        "{ran:?}"
    );
    assert!(!machine.text(file).contains("other"));
    machine.write(file, theirs);

    machine.done(&["install", "cursor", "--force"]);
    assert!(machine.text(file).contains("attach"));
    // A field that a person added to our entry stays, and the entry counts as installed.
    let more = machine
        .text(file)
        .replace("\"args\"", "\"env\": { \"A\": \"1\" },\n      \"args\"");
    machine.write(file, &more);
    assert!(
        machine
            .done(&["install", "cursor"])
            .stdout
            .contains("already installed")
    );
    assert!(
        machine
            .done(&["uninstall", "cursor"])
            .stdout
            .contains("`--force` removes it")
    );
    assert_eq!(machine.text(file), more);
    machine.done(&["uninstall", "cursor", "--force"]);
    assert!(!machine.text(file).contains("attach"));
}

#[test]
fn all_means_the_clients_that_are_there() {
    let machine = Machine::new();
    let ran = machine.run(&["install", "--all"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no client was found"), "{ran:?}");

    std::fs::create_dir(machine.home.path(".cursor")).unwrap();
    machine.write("bin/gemini", "#!/bin/sh\n");
    let bin = machine.home.path("bin/gemini");
    std::fs::set_permissions(bin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran = machine.done(&["install", "--all", "--json"]);
    let clients = ran.json()["clients"].clone();
    let names: Vec<_> = clients
        .as_array()
        .unwrap()
        .iter()
        .map(|client| &client["client"])
        .collect();
    assert_eq!(names, ["gemini", "cursor"]);
    assert!(!machine.home.path(".codex").exists());
}

#[test]
fn the_folders_that_variables_name_are_used() {
    let machine = Machine::new();
    for (client, variable, file) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("copilot-cli", "COPILOT_HOME", "mcp-config.json"),
    ] {
        let folder = machine.home.path(client);
        let mut command = machine.home.command(&["install", client]);
        command
            .env("PATH", machine.home.path("bin"))
            .env(variable, &folder);
        assert_eq!(ProgramOutput::of(&command.output().unwrap()).code, Some(0));
        assert!(folder.join(file).exists(), "{client}");
    }
}

#[test]
fn a_shell_client_gets_the_plain_name_where_the_path_leads_here() {
    let machine = Machine::new();
    let link = machine.home.path("bin/switchboard");
    std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
    machine.done(&["install", "codex", "claude-desktop"]);
    let text = machine.text(".codex/config.toml");
    assert!(text.contains("command = \"switchboard\"\n"), "{text}");
    let desktop = machine.text("config/Claude/claude_desktop_config.json");
    assert!(
        desktop.contains(&format!("\"command\": \"{}\"", link.display())),
        "{desktop}"
    );
}

#[test]
fn the_url_form_refers_to_the_token_and_holds_none() {
    let machine = Machine::new();
    let entry = |client: &str| {
        let ran = machine.done(&["install", client, "--http", "--print", "--json"]);
        ran.json()["entry"].clone()
    };
    let url = "http://127.0.0.1:8808/mcp";
    let helper = |client: &str| format!("{PROGRAM} token headers {client}");
    assert_eq!(
        entry("claude-code"),
        json!({"type": "http", "url": url, "headersHelper": helper("claude-code")})
    );
    assert_eq!(
        entry("codex"),
        json!({"url": url, "http_headers_helper": helper("codex")})
    );
    assert_eq!(
        entry("gemini"),
        json!({"httpUrl": url, "headers": {"Authorization": "Bearer ${SWITCHBOARD_TOKEN_GEMINI}"}})
    );
    assert_eq!(
        entry("opencode"),
        json!({
            "type": "remote", "url": url, "oauth": false, "enabled": true,
            "headers": {"Authorization": "Bearer {env:SWITCHBOARD_TOKEN_OPENCODE}"}
        })
    );
    assert_eq!(
        entry("windsurf"),
        json!({"serverUrl": url, "headers": {"Authorization": "Bearer ${env:SWITCHBOARD_TOKEN_WINDSURF}"}})
    );
    for client in ["claude-desktop", "zed", "cline", "copilot-cli", "amp"] {
        let ran = machine.run(&["install", client, "--http"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("without --http"), "{ran:?}");
    }
    // From one form to the other and out again.
    let file = ".gemini/settings.json";
    machine.write(file, "{}\n");
    let ran = machine.done(&["install", "gemini", "--http"]);
    assert!(ran.stderr.contains("SWITCHBOARD_TOKEN_GEMINI"), "{ran:?}");
    machine.done(&["install", "gemini"]);
    assert!(machine.text(file).contains("attach") && !machine.text(file).contains("httpUrl"));
    machine.done(&["install", "gemini", "--http"]);
    machine.done(&["uninstall", "gemini"]);
    assert!(!machine.text(file).contains("switchboard"));
}

#[test]
fn a_file_that_cannot_refer_to_a_token_gets_the_token_itself_on_request() {
    let machine = Machine::new();
    let cline =
        "config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    for (client, file) in [
        ("zed", "config/zed/settings.json"),
        ("cline", cline),
        ("copilot-cli", ".copilot/mcp-config.json"),
        ("amp", "config/amp/settings.json"),
    ] {
        let path = machine.write(file, "{}\n");
        let install = ["install", client, "--http", "--token-in-file"];
        let ran = machine.done(&install);
        assert!(machine.text(file).contains("Bearer swb_"), "{client}");
        assert!(!format!("{ran:?}").contains("swb_"), "{ran:?}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{client}");
        let again = machine.done(&install);
        assert!(again.stdout.contains("already installed"), "{again:?}");
        machine.done(&["uninstall", client]);
        assert_eq!(machine.text(file), "{}\n", "{client}");
    }
}

/// Neither is the token created before the answer, nor does it wait in a file that others can read.
#[test]
fn a_token_for_a_file_is_created_after_the_yes_and_never_readable_by_others() {
    let home = Home::new();
    let file = home.path("config/zed/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{}\n").unwrap();
    let install = ["install", "zed", "--http", "--token-in-file"];
    for (answer, code) in [("n\r", 5), ("y\r", 0)] {
        let mut terminal = home.run_in_terminal(&install);
        terminal.wait_for("Write this file? [y/N]");
        terminal.send(answer);
        assert_eq!(terminal.end().code, code);
        let listed = home.run(&["token", "list"]).stdout;
        assert_eq!(listed.contains("zed"), code == 0, "{listed}");
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("Bearer swb_"), "{text}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_entry_that_was_changed_since_is_replaced_only_by_force() {
    let machine = Machine::new();
    let file = ".cursor/mcp.json";
    machine.done(&["install", "cursor"]);
    let more = machine
        .text(file)
        .replace("\"args\"", "\"env\": { \"A\": \"1\" },\n      \"args\"");
    machine.write(file, &more);
    let ran = machine.run(&["install", "cursor", "--http"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("was changed since"), "{ran:?}");
    assert_eq!(machine.text(file), more);
    machine.done(&["install", "cursor", "--http", "--force"]);
    assert!(!machine.text(file).contains("\"A\""));
}

#[test]
fn claude_code_alone_takes_always_load() {
    let machine = Machine::new();
    let file = ".claude.json";
    machine.write(file, "{}\n");
    machine.done(&["install", "claude-code", "--always-load"]);
    assert!(machine.text(file).contains("\"alwaysLoad\": true"));
    machine.done(&["uninstall", "claude-code"]);
    assert_eq!(machine.text(file), "{}\n");
    let ran = machine.run(&["install", "codex", "--always-load"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("only claude-code"), "{ran:?}");
}

#[test]
fn print_shows_the_entry_and_writes_nothing() {
    let machine = Machine::new();
    let ran = machine.done(&["install", "codex", "--print"]);
    assert_eq!(
        ran.stdout,
        format!(
            "[mcp_servers.switchboard]\ncommand = \"{PROGRAM}\"\nargs = [\"attach\", \"--as\", \"codex\"]\n"
        )
    );
    assert!(!machine.home.path(".codex").exists());
}

#[test]
fn a_broken_file_is_reported_with_its_line_and_the_others_are_written() {
    let machine = Machine::new();
    machine.write(".cursor/mcp.json", "{\n  \"mcpServers\": {\n");
    machine.write(".codex/config.toml", "a = 1\nb = = 2\n");
    machine.write("config/goose/config.yaml", "extensions:\n  a: [\n");
    let ran = machine.run(&["install", "cursor", "codex", "goose", "kiro"]);
    assert_eq!(ran.code, Some(2));
    for place in [
        ".cursor/mcp.json:",
        ".codex/config.toml:2:",
        "goose/config.yaml:",
    ] {
        assert!(ran.stderr.contains(place), "{place}: {}", ran.stderr);
    }
    assert!(ran.stdout.starts_with("kiro: installed"), "{ran:?}");
    assert_eq!(machine.text(".cursor/mcp.json"), "{\n  \"mcpServers\": {\n");
    assert_eq!(machine.beside(".cursor/mcp.json"), ["mcp.json"]);
}

#[test]
fn a_link_stays_a_link_and_a_file_that_cannot_be_written_is_left() {
    let machine = Machine::new();
    let target = machine.write("dotfiles/cursor.json", "{}\n");
    std::fs::create_dir(machine.home.path(".cursor")).unwrap();
    let link = machine.home.path(".cursor/mcp.json");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    machine.done(&["install", "cursor"]);
    assert!(link.is_symlink());
    assert!(machine.text("dotfiles/cursor.json").contains("attach"));
    machine.done(&["uninstall", "cursor"]);
    assert_eq!(machine.text("dotfiles/cursor.json"), "{}\n");

    let kiro = machine.write(".kiro/settings/mcp.json", "{}\n");
    std::fs::set_permissions(&kiro, std::fs::Permissions::from_mode(0o444)).unwrap();
    let ran = machine.run(&["install", "kiro"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("cannot be written: it is read-only"),
        "{ran:?}"
    );
    assert_eq!(machine.beside(".kiro/settings/mcp.json"), ["mcp.json"]);

    machine.write(".codeium", "a file");
    let ran = machine.run(&["install", "windsurf"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    std::os::unix::fs::symlink("/nowhere/at/all", machine.home.path(".claude.json")).unwrap();
    let ran = machine.run(&["install", "claude-code"]);
    assert!(ran.stderr.contains("leads nowhere"), "{ran:?}");
}

#[test]
fn at_a_terminal_nothing_is_written_before_a_yes() {
    let home = Home::new();
    let mut terminal = home.run_in_terminal(&["install", "cursor"]);
    let screen = terminal.wait_for("Write this file? [y/N]");
    assert!(
        screen.contains("\"attach\", \"--as\", \"cursor\""),
        "{screen}"
    );
    terminal.send("n\r");
    let ended = terminal.end();
    assert_eq!(ended.code, 5);
    assert!(
        ended.screen.contains("nothing was written"),
        "{}",
        ended.screen
    );
    assert!(!home.path(".cursor").exists());

    let mut terminal = home.run_in_terminal(&["install", "cursor"]);
    terminal.wait_for("Write this file? [y/N]");
    terminal.send("y\r");
    assert_eq!(terminal.end().code, 0);
    assert!(home.path(".cursor/mcp.json").exists());
}

/// Claude Code rewrites its file often, so `claude mcp` changes it.
#[test]
fn claude_codes_program_changes_its_file_and_a_failing_one_does_not_keep_us_from_it() {
    let machine = Machine::new();
    let script = |body: &str| {
        let path = machine.write("bin/claude", &format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    // As `claude mcp add-json --scope user NAME JSON` leaves its file.
    script(
        "echo \"$1 $2 $3 $4 $5\" >> \"$HOME/asked\"; [ \"$2\" = add-json ] && printf '{\"mcpServers\":{\"%s\":%s},\"n\":1}' \"$5\" \"$6\" > \"$HOME/.claude.json\" || printf '{}' > \"$HOME/.claude.json\"",
    );
    machine.done(&["install", "claude-code"]);
    assert_eq!(
        machine.text("asked"),
        "mcp add-json --scope user switchboard\n"
    );
    let found: Value = serde_json::from_str(&machine.text(".claude.json")).unwrap();
    assert_eq!(found["n"], 1);
    assert_eq!(
        found["mcpServers"]["switchboard"]["args"],
        json!(["attach", "--as", "claude-code"])
    );
    machine.done(&["uninstall", "claude-code"]);
    assert!(
        machine
            .text("asked")
            .ends_with("mcp remove --scope user switchboard\n")
    );

    script("echo 'no such option' >&2; exit 3");
    let ran = machine.done(&["install", "claude-code"]);
    assert!(
        ran.stderr
            .contains("no such option; the file is edited directly"),
        "{ran:?}"
    );
    assert!(machine.text(".claude.json").contains("attach"));
}

#[test]
fn a_client_whose_headers_cannot_be_printed_is_not_installed_with_a_url() {
    let machine = Machine::new();
    machine.done(&["token", "new", "codex"]);
    for words in [
        &["install", "codex", "--http"][..],
        &["token", "headers", "codex"],
    ] {
        let ran = machine.run(words);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr
                .contains("`switchboard token revoke codex`, then run this again"),
            "{ran:?}"
        );
    }
    assert!(!machine.home.path(".codex").exists());
    // What the hints say works. Only a person makes another token for a client whose token was revoked.
    machine.done(&["token", "revoke", "codex"]);
    let ran = machine.run(&["install", "codex", "--http"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("`switchboard token new codex`"),
        "{ran:?}"
    );
    machine.done(&["token", "new", "codex"]);
    machine.done(&["install", "codex", "--http"]);
    machine.done(&["token", "headers", "codex"]);
    machine.done(&["install", "codex", "--http"]);
}

#[test]
fn a_token_that_nobody_saw_is_not_stored() {
    let machine = Machine::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = machine.home.command(&["token", "new", "codex"]);
    let ran = command.stdout(full.unwrap()).output().unwrap();
    assert_ne!(ran.status.code(), Some(0), "{ran:?}");
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = machine.home.command(&["token", "new", "codex"]);
    let ran = command.stdout(closed).output().unwrap();
    assert_ne!(ran.status.code(), Some(0), "{ran:?}");
    machine.done(&["token", "new", "codex"]);
}

#[test]
fn files_given_with_c_are_part_of_the_entry() {
    let machine = Machine::new();
    let given = machine.write("project/mine.toml", "");
    let given = given.canonicalize().unwrap().display().to_string();
    machine.done(&["-c", "mine.toml", "install", "cursor"]);
    let entry = document(".cursor/mcp.json", &machine.text(".cursor/mcp.json"));
    assert_eq!(
        entry["mcpServers"]["switchboard"]["args"],
        json!(["attach", "--as", "cursor", "-c", given])
    );
    let again = machine.done(&["-c", "mine.toml", "install", "cursor"]);
    assert!(again.stdout.contains("already installed"), "{again:?}");
    let ran = machine.done(&["-c", "mine.toml", "install", "gemini", "--http"]);
    assert!(ran.stderr.contains("-c is not part of"), "{ran:?}");
    machine.done(&["uninstall", "cursor"]);
    assert!(!machine.home.path(".cursor/mcp.json").exists());
}

#[test]
fn the_gateways_own_entry_does_not_bypass_the_gateway_but_one_that_cannot_be_imported_does() {
    let machine = Machine::new();
    machine.write(
        "config/Code/User/mcp.json",
        r#"{"servers": {"asks": {"command": "x", "env": {"KEY": "${input:key}"}}}}"#,
    );
    for _ in 0..2 {
        let ran = machine.done(&["install", "codex", "--http"]);
        assert!(!ran.stderr.contains("bypassing"), "{ran:?}");
        let ran = machine.done(&["install", "vscode"]);
        assert!(
            ran.stderr
                .contains("still connects to 1 server itself, bypassing the gateway: \"asks\""),
            "{ran:?}"
        );
    }
}

#[test]
fn several_entries_are_printed_as_one_document() {
    let machine = Machine::new();
    let ran = machine.done(&["install", "codex", "cursor", "--print", "--json"]);
    let clients: Vec<_> = ran.json()["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["client"].clone())
        .collect();
    assert_eq!(clients, ["codex", "cursor"]);
}

#[test]
fn a_url_that_no_client_can_use_is_refused() {
    let machine = Machine::new();
    for url in ["foo", "ftp://example.com/mcp", "http://"] {
        let ran = machine.run(&["install", "gemini", "--http", "--url", url]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr.contains("expected a URL with http://"),
            "{ran:?}"
        );
    }
    assert!(!machine.home.path(".gemini").exists());
}

#[test]
fn a_read_only_file_is_never_replaced() {
    let machine = Machine::new();
    let read_only = |path: &PathBuf, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = ".cursor/mcp.json";
    let path = machine.write(file, NEIGHBOUR);
    machine.done(&["install", "cursor"]);
    let installed = machine.text(file);
    read_only(&path, 0o444);
    let own = machine.write(
        "config/switchboard/switchboard.toml",
        "[servers.a]\ncommand = \"x\"\n",
    );
    let before = machine.text("config/switchboard/switchboard.toml");
    read_only(&own, 0o444);
    machine.write(
        ".kiro/settings/mcp.json",
        &NEIGHBOUR.replace("\"a\"", "\"b\""),
    );
    for words in [
        &["uninstall", "cursor"][..],
        &["disable", "a"],
        &["import", "kiro", "-y"],
    ] {
        let ran = machine.run(words);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("it is read-only"), "{ran:?}");
    }
    assert_eq!(machine.text(file), installed);
    assert_eq!(machine.text("config/switchboard/switchboard.toml"), before);
}
