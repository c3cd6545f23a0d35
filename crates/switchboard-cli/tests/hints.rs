//! Every hint works: the commands and fields that failures suggest are collected and tried.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{DemoServer, Home, PROGRAM, ProgramOutput};
use switchboard_testkit::{Chaos, Launch, Step};

/// A file that a person would name with `-c`, with a blank in its path.
fn write(home: &Home, name: &str, text: &str) -> PathBuf {
    let path = home.path("project").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn entry(launch: &Launch) -> Value {
    json!({ "command": launch.command.to_str().unwrap(), "args": launch.args })
}

/// Every command of ours between backticks.
fn commands(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('`').collect();
    let ours = parts
        .iter()
        .skip(1)
        .step_by(2)
        .filter(|part| part.starts_with("switchboard "));
    ours.map(|part| (*part).to_owned()).collect()
}

/// Runs a line as a person would who copied it into a shell.
fn follow(home: &Home, line: &str) -> ProgramOutput {
    let mut shell = home.command(&[]);
    let line = line.replacen("switchboard", &format!("'{PROGRAM}'"), 1);
    let variables: Vec<_> = shell
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
        .collect();
    shell = Command::new("/bin/sh");
    shell
        .args(["-c", &line])
        .env_clear()
        .envs(variables)
        .current_dir(home.path("project"))
        .stdin(Stdio::null());
    ProgramOutput::of(&shell.output().unwrap())
}

fn hint(ran: &ProgramOutput) -> String {
    let error: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    error["error"]["hint"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Servers that fail in every kind of file, given with `-c`: each command that is recommended is
/// about that server.
#[test]
fn hinted_commands_name_the_given_file_and_work() {
    let home = Home::new();
    let broken = Launch::new("/bin/sh")
        .arg("-c")
        .arg("echo 'no disk' >&2; exit 4");
    let (good, gone) = (
        entry(&Chaos::new().tool("ok", Step::text("fine")).launch()),
        entry(&broken),
    );
    let in_table = |section: &str, more: &str| {
        let one = |name: &str, entry: &Value| {
            format!(
                "[{section}.{name}]\ncommand = {}\nargs = {}\n{more}",
                entry["command"], entry["args"]
            )
        };
        one("gone", &gone) + &one("good", &good)
    };
    let with_transport = |entry: &Value| {
        let mut entry = entry.clone();
        entry["transport"] = json!("stdio");
        entry
    };
    let files = [
        ("my files/switchboard.toml", in_table("servers", ""), None, "mcp__gone__x"),
        ("my files/.mcp.json", json!({ "mcpServers": { "gone": gone, "good": good } }).to_string(), None, "mcp__gone__x"),
        (
            "my files/settings.json",
            json!({ "mcpServers": { "gone": gone, "good": good } }).to_string(),
            Some("gemini"),
            "gone__x",
        ),
        (
            "my files/mcp.json",
            json!({ "version": 1, "servers": { "gone": with_transport(&gone), "good": with_transport(&good) } }).to_string(),
            Some("core-agent"),
            "gone_x",
        ),
        ("my files/config.toml", in_table("mcp_servers", ""), Some("agent-code"), "mcp__gone__x"),
    ];
    for (name, text, dialect, tool) in files {
        let file = write(&home, name, &text);
        let mut given = vec!["-c", file.to_str().unwrap()];
        given.extend(dialect.iter().flat_map(|dialect| ["--dialect", dialect]));
        let mut followed = 0;
        for words in [
            &["status"][..],
            &["tools"],
            &["tools", "gone"],
            &["call", tool],
            &["call", "gone/x"],
            &["prompts"],
            &["doctor"],
        ] {
            let ran = home.run(&[&given[..], words].concat());
            let told = format!("{}{}", ran.stdout, ran.stderr);
            assert!(told.contains("no disk"), "{name}: {words:?}: {ran:?}");
            if words[0] == "call" {
                assert_eq!(
                    ran.code,
                    Some(3),
                    "the failure, not a missing tool: {name}: {words:?}: {ran:?}"
                );
            }
            for line in commands(&told) {
                let ran = follow(&home, &line);
                let answer = format!("{}{}", ran.stdout, ran.stderr);
                assert!(
                    matches!(ran.code, Some(0 | 3)) && answer.contains("no disk"),
                    "{name}: {words:?}: {line}: {ran:?}"
                );
                followed += 1;
            }
        }
        assert!(
            followed >= 6,
            "{name}: {followed} commands were recommended"
        );
    }
}

/// A call that takes too long: the field that is named exists in that kind of file, and gives it
/// longer.
#[test]
fn a_timeout_hint_names_the_field_of_the_servers_own_file() {
    let slow = Chaos::new()
        .tool("slow", [Step::Sleep(1500), Step::text("done")])
        .launch();
    let native = |limits: &str| {
        let args = json!(slow.args);
        format!(
            "[servers.s]\ncommand = {:?}\nargs = {args}\n{limits}\n[permissions]\nmode = \"yolo\"\n",
            slow.command
        )
    };
    let gemini = |limit: u64| {
        json!({ "mcpServers": { "s": { "command": slow.command, "args": slow.args, "timeout": limit, "trust": true } } })
            .to_string()
    };
    let a3s = |limit: u64| {
        let (command, args) = (
            slow.command.display(),
            json!(slow.args).to_string().replace("${", "$${"),
        );
        format!(
            "mcp_servers {{\n  name = \"s\"\n  transport = \"stdio\"\n  command = \"{command}\"\n  args = {args}\n  timeout_ms = {limit}\n}}\n"
        )
    };
    let mcp_json = |limit: &str| {
        json!({ "mcpServers": { "s": { "type": "stdio", "command": slow.command, "args": slow.args, "call_timeout": limit } } })
            .to_string()
    };
    let cases = [
        (
            "switchboard.toml",
            native("call_timeout = \"500ms\""),
            "call_timeout",
            native("call_timeout = \"20s\""),
        ),
        (
            "switchboard.toml",
            native("call_timeout = \"500ms\"\ncall_timeout_max = \"500ms\""),
            "call_timeout_max",
            native("call_timeout_max = \"20s\""),
        ),
        ("settings.json", gemini(900), "timeout", gemini(20_000)),
        ("agent.hcl", a3s(900), "timeout_ms", a3s(20_000)),
        (
            ".mcp.json",
            mcp_json("500ms"),
            "call_timeout",
            mcp_json("20s"),
        ),
    ];
    for (name, short, field, long) in cases {
        let home = Home::new();
        let file = write(&home, name, &short);
        let words = [
            "-c",
            file.to_str().unwrap(),
            "call",
            "s/slow",
            "--yes",
            "--json",
        ];
        let ran = home.run(&words);
        assert_eq!(ran.code, Some(3), "{name}: {ran:?}");
        assert!(
            hint(&ran).contains(&format!("with `{field}` in its entry")),
            "{name}: {ran:?}"
        );
        if hint(&ran).contains("--timeout SECS") {
            let ran = home.run(&[&words[..], &["--timeout", "20"]].concat());
            assert_eq!(ran.code, Some(0), "{name}: --timeout: {ran:?}");
        }
        std::fs::write(&file, long).unwrap();
        let ran = home.run(&words);
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (Some(0), ""),
            "{name}: with a longer `{field}`: {ran:?}"
        );
    }
}

/// A URL in the field of the wrong transport: `doctor` names the field of the other one.
#[test]
fn a_url_in_the_wrong_field_is_reported_with_the_right_field() {
    let remote = DemoServer::start();
    let url = format!("{}/mcp", remote.address);
    let home = Home::new();
    let file = write(
        &home,
        "settings.json",
        &json!({ "mcpServers": { "far": { "url": url, "trust": true } } }).to_string(),
    );
    let given = ["-c", file.to_str().unwrap()];
    let ran = home.run(&[&given[..], &["doctor"]].concat());
    assert!(
        ran.stdout.contains(
            "Try: if it speaks Streamable HTTP, write `httpUrl` instead of `url` in its entry\n"
        ),
        "{ran:?}"
    );
    assert!(!ran.stdout.contains("`transport`"), "{ran:?}");
    std::fs::write(
        &file,
        json!({ "mcpServers": { "far": { "httpUrl": url, "trust": true } } }).to_string(),
    )
    .unwrap();
    assert_eq!(home.run(&[&given[..], &["doctor"]].concat()).code, Some(0));

    let file = write(
        &home,
        ".mcp.json",
        &json!({ "mcpServers": { "far": { "type": "sse", "url": url } } }).to_string(),
    );
    let given = ["-c", file.to_str().unwrap()];
    let ran = home.run(&[&given[..], &["doctor"]].concat());
    assert!(
        ran.stdout
            .contains("Try: remove `type` from its entry: the transport is then detected\n"),
        "{ran:?}"
    );
    std::fs::write(
        &file,
        json!({ "mcpServers": { "far": { "url": url } } }).to_string(),
    )
    .unwrap();
    assert_eq!(home.run(&[&given[..], &["doctor"]].concat()).code, Some(0));
}

/// The reported folder of relative paths is the real one: for a gemini file outside of its folder.
#[test]
fn the_folder_that_relative_paths_start_at_is_the_one_that_is_named() {
    let home = Home::new();
    let file = write(
        &home,
        ".gemini/settings.json",
        &json!({ "mcpServers": { "here": { "command": "./srv" } } }).to_string(),
    );
    let ran = home
        .run(&["-c", file.to_str().unwrap(), "status", "--json"])
        .json();
    let error = ran["servers"][0]["error"].as_str().unwrap();
    let folder = error
        .split("relative paths start at \"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let launch = Chaos::new().tool("ok", Step::text("fine")).launch();
    let script = format!(
        "#!/bin/sh\nexec '{}' '{}'\n",
        launch.command.display(),
        launch.args[0].replace('\'', r"'\''")
    );
    let path = PathBuf::from(folder).join("srv");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = home
        .run(&["-c", file.to_str().unwrap(), "status", "--json"])
        .json();
    assert_eq!(ran["servers"][0]["status"], json!("CONNECTED"), "{ran}");
}

/// Without a terminal a call that needs approval names the rule and the file that would allow it.
#[test]
fn a_denied_call_names_the_rule_and_the_file_that_would_allow_it() {
    let launch = Chaos::new().tool("ok", Step::text("fine")).launch();
    let (command, args) = (json!(launch.command), json!(launch.args));
    let native = format!("[servers.s]\ncommand = {command}\nargs = {args}\n");
    let a3s = format!(
        "mcp_servers {{\n  name = \"s\"\n  transport = \"stdio\"\n  command = {command}\n  args = {}\n}}\n",
        args.to_string().replace("${", "$${")
    );
    let core = |permissions: Value| {
        let server = json!({ "transport": "stdio", "command": command, "args": args });
        json!({ "version": 1, "servers": { "s": server }, "permissions": permissions }).to_string()
    };
    let code = native.replace("[servers.", "[mcp_servers.");
    let rule = "[[permissions.rules]]\ntool = \"mcp__s__ok\"\naction = \"allow\"\n";
    // The file, the rule that is named, and the file with it.
    let cases = [
        (
            "own.toml",
            native.clone(),
            r#"`allow = ["s/ok"]` under [permissions]"#,
            format!("{native}[permissions]\nallow = [\"s/ok\"]\n"),
        ),
        (
            "agent.hcl",
            a3s.clone(),
            r#"`allow = ["mcp__s__ok"]` in a `permissions` block"#,
            format!("{a3s}permissions {{\n  allow = [\"mcp__s__ok\"]\n}}\n"),
        ),
        (
            ".agents/mcp.json",
            core(json!({ "mode": "ask" })),
            r#"`"allow": ["mcp:s_ok"]` under "permissions""#,
            core(json!({ "mode": "ask", "allow": ["mcp:s_ok"] })),
        ),
        (
            "agent-code.toml",
            format!("{code}[[permissions.rules]]\ntool = \"x\"\naction = \"ask\"\n"),
            r#"`tool = "mcp__s__ok"` and `action = "allow"` under [[permissions.rules]]"#,
            format!("{code}{rule}"),
        ),
        (
            ".gemini/settings.json",
            json!({ "mcpServers": { "s": { "command": command, "args": args } } }).to_string(),
            r#"`"trust": true` in its entry"#,
            json!({ "mcpServers": { "s": { "command": command, "args": args, "trust": true } } })
                .to_string(),
        ),
    ];
    for (name, without, rule, with) in cases {
        let home = Home::new();
        let file = write(&home, name, &without);
        let words = ["-c", file.to_str().unwrap(), "call", "s/ok", "--json"];
        let ran = home.run(&words);
        assert_eq!(ran.code, Some(5), "{name}: {ran:?}");
        let expected = format!(
            "allow it with `--yes`, or with {rule} in {}",
            file.display()
        );
        assert_eq!(hint(&ran), expected, "{name}");
        assert_eq!(
            home.run(&[&words[..], &["--yes"]].concat()).code,
            Some(0),
            "{name}"
        );
        std::fs::write(&file, with).unwrap();
        assert_eq!(home.run(&words).code, Some(0), "{name}: with the rule");
    }
    // Without `-c` it is the user's own file, whichever file has the server.
    let home = Home::new();
    write(
        &home,
        ".mcp.json",
        &json!({ "mcpServers": { "s": { "command": command, "args": args } } }).to_string(),
    );
    assert_eq!(home.run(&["trust", "s", "--yes"]).code, Some(0));
    let ran = home.run(&["call", "s/ok", "--json"]);
    let own = home.path("config/switchboard/switchboard.toml");
    assert_eq!(
        hint(&ran),
        format!(
            "allow it with `--yes`, or with `allow = [\"s/ok\"]` under [permissions] in {}",
            own.display()
        )
    );
    home.user_file("[permissions]\nallow = [\"s/ok\"]\n");
    assert_eq!(home.run(&["call", "s/ok", "--json"]).code, Some(0));
}

/// A disabled server that is called by its document's name answers that it is disabled, and how to
/// enable it.
#[test]
fn a_disabled_server_is_reported_with_how_to_enable_it() {
    let launch = Chaos::new().tool("ok", Step::text("fine")).launch();
    let entry = |key: &str, value: bool| {
        let server =
            json!({ "type": "stdio", "command": launch.command, "args": launch.args, key: value });
        json!({ "mcpServers": { "off": server } }).to_string()
    };
    let home = Home::new();
    let file = write(&home, ".mcp.json", &entry("disabled", true));
    let words = [
        "-c",
        file.to_str().unwrap(),
        "call",
        "mcp__off__ok",
        "--yes",
    ];
    let ran = home.run(&words);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stderr.contains("disabled in ") && ran.stderr.contains("set `disabled` to false there"),
        "{ran:?}"
    );
    std::fs::write(&file, entry("disabled", false)).unwrap();
    assert_eq!(home.run(&words).code, Some(0));
}

/// An unknown name is waited for once, as long as `--wait` says.
#[test]
fn an_unknown_name_is_waited_for_no_longer_than_the_wait_option() {
    let home = Home::new();
    let silent = Chaos::new()
        .on("initialize", Step::Drop)
        .on("server/discover", Step::Drop)
        .tool("x", Step::Answer);
    home.user_file(&silent.entry("late").render());
    let began = Instant::now();
    let ran = home.run(&["call", "nosuch"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("server \"late\": still connecting")
            && ran.stderr.contains("--wait SECS"),
        "{ran:?}"
    );
    let took = began.elapsed();
    // Ten seconds of waiting, and what ending the server takes (3.5 s at most); the entry's own
    // deadline is 30 seconds.
    assert!(took < Duration::from_secs(22), "{took:?}");
}

/// A misspelt tool of servers that are remembered starts nothing.
#[test]
fn a_misspelt_tool_is_reported_from_the_cached_catalog() {
    let home = Home::new();
    let starts = home.path("starts");
    let launch = Chaos::new().tool("status", Step::text("fine")).launch();
    let script = format!("echo >> '{}'; exec \"$@\"", starts.display());
    let args = [
        vec![
            "-c".to_owned(),
            script,
            "sh".to_owned(),
            launch.command.display().to_string(),
        ],
        launch.args,
    ]
    .concat();
    home.user_file(&format!(
        "[servers.git]\ncommand = \"/bin/sh\"\nargs = {}\n",
        json!(args)
    ));
    assert_eq!(home.run(&["tools"]).code, Some(0));
    let before = std::fs::read_to_string(&starts).unwrap();
    for (name, meant) in [
        ("git/statsu", "git/status"),
        ("mcp__git__statsu", "mcp__git__status"),
    ] {
        let ran = home.run(&["call", name, "--yes"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr.contains(&format!("did you mean {meant}?")),
            "{ran:?}"
        );
        assert_eq!(
            std::fs::read_to_string(&starts).unwrap(),
            before,
            "{name}: nothing starts"
        );
        let again = commands(&ran.stderr);
        assert_eq!(again.len(), 1, "{ran:?}");
        assert_eq!(follow(&home, &again[0]).code, Some(0));
        std::fs::write(&starts, &before).unwrap();
    }
}

#[test]
fn a_server_that_is_not_ready_in_time_was_waited_for_as_long_as_was_asked() {
    let home = Home::new();
    let silent = Chaos::new()
        .on("initialize", Step::Drop)
        .on("server/discover", Step::Drop);
    home.user_file(&silent.entry("late").render());
    let ran = home.run(&["--wait", "1", "tools", "late"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stderr.contains("still connecting after 1") && ran.stderr.contains("--wait SECS"),
        "{ran:?}"
    );
}

#[test]
fn an_unusable_state_folder_is_named_with_the_variable_that_chooses_another() {
    let home = Home::new();
    let state = home.path("state-file");
    std::fs::write(&state, "").unwrap();
    for words in [&["attach"][..], &["token", "new", "x"]] {
        let mut command = home.command(words);
        let ran = ProgramOutput::of(&command.env("XDG_STATE_HOME", &state).output().unwrap());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr.contains(state.to_str().unwrap())
                && ran.stderr.contains("set XDG_STATE_HOME"),
            "{ran:?}"
        );
    }
}
