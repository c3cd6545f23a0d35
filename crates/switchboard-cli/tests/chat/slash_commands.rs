//! Slash commands: what each shows and does, in a few long conversations.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use switchboard_testkit::{Chaos, LoginServer, Step, wait_until};

use crate::browser_visit::visit;
use crate::console::{enter, enter_until, started};
use crate::support::{Home, PROGRAM};
use crate::{ALLOWED, chat_sized, leave, prompt};

/// Asserts that a command's answer contains all of these.
#[track_caller]
fn shows(screen: &str, parts: &[&str]) {
    for part in parts {
        assert!(screen.contains(part), "no {part:?} in:\n{screen}");
    }
}

#[test]
fn a_reload_applies_the_model_and_says_how_to_use_it() {
    let home = Home::with_demo(ALLOWED);
    let file = home.path("config/switchboard/switchboard.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let write = |model: &str| std::fs::write(&file, format!("{text}\n[model]\n{model}")).unwrap();
    let mut terminal = chat_sized(&home, &[], 40, 100);
    // A conversation without a model uses it at once.
    write("vendor = 'demo'\nname = 'demo'\n");
    let screen = enter(&mut terminal, "/reload");
    shows(&screen, &["model demo"]);
    terminal.send("hello\r");
    terminal.wait_for("This is the demo model");
    write("vendor = 'openai-chat'\nname = 'other'\nbase_url = 'http://127.0.0.1:1'\n");
    let screen = enter(&mut terminal, "/reload");
    shows(
        &screen,
        &["[model] changed; `/model other` continues with it"],
    );
    let screen = enter(&mut terminal, "/model other");
    shows(&screen, &["model other (openai-chat at 127.0.0.1)"]);
    leave(terminal);
}

#[test]
fn each_subcommand_of_mcp_works() {
    let home = Home::with_demo(ALLOWED);
    let server = Chaos::new()
        .on_start(Step::Stderr("a line of the server\n".to_owned()))
        .tool("greet", Step::text("hello"))
        .define("greet", "description", r#""Greets whoever calls""#);
    let file = home.path("config/switchboard/switchboard.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n{}", server.entry("s").render())).unwrap();
    let mut terminal = chat_sized(&home, &[], 60, 100);
    let connected = |screen: &str| screen.contains("📡 s (CONNECTED)");
    enter_until(&mut terminal, "/mcp", connected);
    let screen = enter(&mut terminal, "/mcp desc");
    shows(&screen, &["greet", "Greets whoever calls"]);
    let screen = enter(&mut terminal, "/tools s --schema");
    shows(&screen, &["mcp__s__greet", "\"type\""]);
    let screen = enter(&mut terminal, "/mcp logs s");
    shows(&screen, &["a line of the server", "note ready"]);
    let screen = enter(&mut terminal, "/mcp restart s");
    shows(&screen, &["server \"s\" was restarted"]);
    let screen = enter(&mut terminal, "/mcp disable s");
    shows(&screen, &["server \"s\" is disabled in"]);
    let screen = enter(&mut terminal, "/mcp");
    shows(&screen, &["s (DISABLED)"]);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("enabled = false"), "{written}");
    let screen = enter(&mut terminal, "/call s/greet");
    shows(&screen, &["error:", "disabled"]);
    let screen = enter(&mut terminal, "/mcp enable s");
    shows(&screen, &["server \"s\" is enabled in"]);
    enter_until(&mut terminal, "/mcp", connected);
    let screen = enter(&mut terminal, "/mcp reload");
    shows(&screen, &["the configuration is the same"]);
    // An invalid file changes nothing, and is reported with its line.
    let right = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{right}\n[servers.x]\ncomand = 'y'\n")).unwrap();
    let screen = enter(&mut terminal, "/reload");
    shows(&screen, &["error:", "switchboard.toml:", "comand"]);
    std::fs::write(&file, &right).unwrap();
    let screen = enter(&mut terminal, "/mcp help");
    shows(&screen, &["/mcp restart", "/mcp auth"]);
    let screen = enter(&mut terminal, "/mcp restrat s");
    shows(&screen, &["`/mcp` has no action \"restrat\"", "restart"]);
    let screen = enter(&mut terminal, "/mcp auth s");
    shows(&screen, &["error:", "server \"s\""]);
    let screen = enter(&mut terminal, "/mcp restart");
    shows(&screen, &["which server?", "/mcp restart SERVER"]);
    let screen = enter(&mut terminal, "/mcp schema");
    shows(&screen, &["mcp__s__greet"]);
    leave(terminal);
}

#[test]
fn a_login_during_the_conversation_makes_the_server_usable() {
    let (home, server) = (Home::new(), LoginServer::start());
    home.user_file(&format!(
        "[servers.guarded]\nurl = \"{}\"\n[permissions]\nallow = [\"guarded\"]\n",
        server.url()
    ));
    let (seen, recorder) = (home.path("seen"), home.path("recorder"));
    let script = format!(
        "#!/bin/sh\necho \"$1\" > {0}.new\nmv {0}.new {0}\n",
        seen.display()
    );
    std::fs::write(&recorder, script).unwrap();
    std::fs::set_permissions(&recorder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let browser = format!("BROWSER={} %s", recorder.display());
    let mut terminal =
        started(home.spawn_in_terminal(&["env", &browser, PROGRAM, "chat", "--model", "demo"]));
    terminal.wait_for("server \"guarded\":");
    terminal.send("/mcp auth guarded\r");
    terminal.wait_for("[o] open it");
    terminal.send("o");
    assert!(wait_until(Duration::from_secs(30), || seen.exists()));
    let address = std::fs::read_to_string(&seen).unwrap();
    let page = visit(&visit(address.trim_end()));
    assert!(page.contains("Switchboard received the login"), "{page}");
    terminal.wait_for("logged in to server \"guarded\"");
    prompt(&terminal);
    terminal.send("call mcp__guarded__whoami {}\r");
    terminal.wait_for("mcp__guarded__whoami answered: somebody");
    leave(terminal);
}

#[test]
fn commands_of_the_conversation_and_its_session() {
    let home = Home::with_demo(ALLOWED);
    let mut terminal = chat_sized(&home, &[], 60, 100);
    for command in [
        "/context", "/cost", "/compact", "/clear", "/fork", "/save x",
    ] {
        let screen = enter(&mut terminal, command);
        shows(&screen, &["error: no model is configured"]);
    }
    let screen = enter(&mut terminal, "/model");
    shows(&screen, &["no model is configured"]);
    let screen = enter(&mut terminal, "/model nobody/x");
    shows(&screen, &["error:", "nobody"]);
    let screen = enter(&mut terminal, "/model demo");
    shows(&screen, &["model demo: a built-in script"]);
    for (command, answer) in [
        ("/compact", "there is nothing to summarise"),
        ("/fork", "there is nothing to copy yet"),
        ("/save x.jsonl", "there is nothing to save yet"),
    ] {
        shows(&enter(&mut terminal, command), &[answer]);
    }
    let screen = enter(
        &mut terminal,
        "call mcp__demo__echo {\"message\":\"a secret word\"}",
    );
    shows(&screen, &["answered: a secret word", "2 turns"]);
    let screen = enter(&mut terminal, "/context");
    shows(
        &screen,
        &[
            "tokens",
            "system prompt",
            "built-in tools",
            "server demo",
            "results",
        ],
    );
    let screen = enter(&mut terminal, "/cost");
    shows(&screen, &["input tokens", "output tokens", "$0.0000"]);
    let screen = enter(&mut terminal, "/permissions");
    shows(
        &screen,
        &[
            "mode ask",
            "demo/echo",
            "allowed",
            "switchboard.toml:",
            "Bash",
            "asked",
        ],
    );
    let screen = enter(&mut terminal, "/permissions revoke demo/add");
    shows(&screen, &["no approval is remembered for demo/add"]);
    let screen = enter(&mut terminal, "/save copy.jsonl");
    shows(&screen, &["the session is in copy.jsonl"]);
    let saved = home.path("project/copy.jsonl");
    let mode = std::fs::metadata(&saved).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        std::fs::read_to_string(&saved)
            .unwrap()
            .contains("a secret word")
    );
    let screen = enter(&mut terminal, "/compact");
    shows(&screen, &["the conversation was summarised"]);
    let screen = enter(&mut terminal, "/fork");
    shows(&screen, &["continuing in a copy: conversation"]);
    let screen = enter(&mut terminal, "/clear");
    shows(&screen, &["started a new conversation"]);
    let screen = enter(&mut terminal, "/context");
    shows(&screen, &["your messages  0"]);
    let screen = enter(&mut terminal, "/resume");
    let ids = screen.lines().filter(|line| line.contains(" ago  "));
    let ids: Vec<_> = ids
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2, "{screen}");
    let screen = enter(&mut terminal, &format!("/resume {}", ids[1]));
    shows(&screen, &[&format!("continuing conversation {}", ids[1])]);
    let screen = enter(&mut terminal, "/resume nothing");
    shows(&screen, &["`/resume` lists them"]);
    shows(&screen, &["error:", "nothing"]);
    let screen = enter(&mut terminal, "/exitt");
    shows(&screen, &["no command \"/exitt\"", "exit"]);
    terminal.send("/exit\r");
    assert_eq!(terminal.end().code, 0);
}

/// S0-26: rules for commands of Bash are those of the file as it was read last.
#[test]
fn s0_26_reload_applies_new_deny_rules_for_commands() {
    let home = Home::new();
    let rules = |deny: &str| {
        home.user_file(&format!("[permissions]\nallow = [\"Bash\"]\n{deny}"));
    };
    rules("");
    let mut terminal = chat_sized(&home, &["--model", "demo"], 60, 100);
    terminal.send("call Bash {\"command\": \"echo $((1+1))1\"}\r");
    terminal.wait_for("Bash answered: 21");
    prompt(&terminal);
    rules("deny = [\"bash:echo*\"]\n");
    enter(&mut terminal, "/reload");
    terminal.send("call Bash {\"command\": \"echo $((1+1))2\"}\r");
    terminal.wait_for("the deny rule \"bash:echo*\" matches it");
    leave(terminal);
}

/// S0-39, S0-40: an edit of a core-agent file is not watched. `/reload` closes every old server
/// before it builds the new ones, also one whose entry is the same.
#[test]
fn s0_40_reload_of_a_core_agent_file_closes_all_servers_first() {
    let home = Home::new();
    let record = home.path("record");
    let server = Chaos::new()
        .tool("greet", Step::text("hello"))
        .record(&record);
    let launch = server.launch();
    let entry = serde_json::json!({"transport": "stdio", "command": launch.command,
        "args": launch.args});
    let file = home.path("project/mcp.json");
    let write = |names: &[&str]| {
        let servers: serde_json::Map<_, _> = names
            .iter()
            .map(|name| ((*name).to_owned(), entry.clone()))
            .collect();
        let text = serde_json::json!({"version": 1, "servers": servers});
        std::fs::write(&file, text.to_string()).unwrap();
    };
    write(&["a"]);
    let words = ["-c", "mcp.json", "--dialect", "core-agent", "chat"];
    let mut terminal = started(home.run_in_terminal(&words));
    let connected =
        |names: &'static [&str]| move |screen: &str| names.iter().all(|name| screen.contains(name));
    enter_until(&mut terminal, "/mcp", connected(&["Tools: a_greet"]));
    write(&["a", "b"]);
    let screen = enter(&mut terminal, "/call b_greet");
    shows(&screen, &["error:"]);
    enter(&mut terminal, "/reload");
    let both = connected(&["Tools: a_greet", "Tools: b_greet"]);
    enter_until(&mut terminal, "/mcp", both);
    leave(terminal);
    let record = switchboard_testkit::Record::read(&record);
    // The process of `a`, ended; then two new ones.
    assert_eq!(record.starts(), 3);
    let first = record.0[0].pid;
    let end_of_first = record
        .0
        .iter()
        .rposition(|entry| entry.pid == first)
        .unwrap();
    let second_start = record
        .0
        .iter()
        .position(|entry| entry.pid != first)
        .unwrap();
    assert!(end_of_first < second_start, "{record:?}");
}
