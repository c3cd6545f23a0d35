//! Gemini CLI: `.gemini/settings.json` in a project, or the user's own.

use switchboard_testkit::{Chaos, Record, Step};

use crate::machine::Machine;

/// The document's servers in one file: python, node and docker as they stand there.
pub(crate) fn three() -> String {
    let inner = |text: &str| {
        let (start, end) = (
            text.find("\"mcpServers\": {").unwrap() + 15,
            text.rfind("\n  }\n").unwrap(),
        );
        text[start..end].trim_end().to_owned()
    };
    let servers = [
        include_str!("../../../switchboard-config/tests/seeds/gemini/python.json"),
        include_str!("../../../switchboard-config/tests/seeds/gemini/node.json"),
        include_str!("../../../switchboard-config/tests/seeds/gemini/docker.json"),
    ];
    format!(
        "{{\n  \"theme\": \"dark\",\n  \"mcpServers\": {{{}\n  }}\n}}\n",
        servers.map(inner).join(",")
    )
}

/// S2-08, S2-46, S2-58: python, node and docker in a project's file, accepted once. `node` is a
/// program that does not start a server.
#[test]
fn s2_46_the_documents_servers_are_shown_as_the_document_shows_them() {
    let machine = Machine::new()
        .variable("DB_CONNECTION_STRING", "postgres://person:secret-canary@db")
        .variable("EXTERNAL_API_KEY", "api-canary")
        .variable("EXTERNAL_SERVICE_TOKEN", "token-canary")
        .variable("PWD", "/work")
        .file(".gemini/settings.json", &three())
        .file("mcp-servers/python/README", "")
        .file("mcp-servers/node/README", "")
        .program("node", "echo 'Connection refused' >&2; exit 1");
    let transcript = machine.transcript(&[
        "status",
        "trust pythonTools nodeServer dockerizedServer --yes",
        "status",
        "tools",
        "call calculate_sum --yes",
        "call docker__status --yes",
    ]);
    assert!(!transcript.contains("canary"), "{transcript}");
    insta::assert_snapshot!(transcript);
}

/// The HTTP servers at the address of a server on this machine.
#[test]
fn s2_71_each_of_the_documents_examples_loads_as_it_stands() {
    let machine = Machine::new();
    let here = |text: &str| text.replace("http://localhost:3000", machine.address());
    let files = [
        (
            "schematic",
            include_str!("../../../switchboard-config/tests/seeds/gemini/structure.json")
                .to_owned(),
        ),
        (
            "python",
            include_str!("../../../switchboard-config/tests/seeds/gemini/python.json").to_owned(),
        ),
        (
            "node",
            include_str!("../../../switchboard-config/tests/seeds/gemini/node.json").to_owned(),
        ),
        (
            "docker",
            include_str!("../../../switchboard-config/tests/seeds/gemini/docker.json").to_owned(),
        ),
        (
            "http",
            here(include_str!(
                "../../../switchboard-config/tests/seeds/gemini/http.json"
            )),
        ),
        (
            "headers",
            here(include_str!(
                "../../../switchboard-config/tests/seeds/gemini/http-headers.json"
            )),
        ),
    ];
    let machine = files.iter().fold(machine, |machine, (name, text)| {
        machine.file(&format!("{name}.json"), text)
    });
    let machine = machine.file("mcp-servers/python/README", "");
    let why = |name: &str, server: &str| format!("-c {name}.json --dialect gemini why {server}");
    let commands = [
        why("schematic", "serverName"),
        why("python", "pythonTools"),
        why("node", "nodeServer"),
        why("docker", "dockerizedServer"),
        why("http", "httpServer"),
        why("headers", "httpServerWithAuth"),
        "-c http.json --dialect gemini call echo message=hello --yes".to_owned(),
        "-c headers.json --dialect gemini call echo message=hello --yes".to_owned(),
    ];
    insta::assert_snapshot!(machine.transcript(&commands.each_ref().map(String::as_str)));
}

/// A settings file with these entries.
fn settings(entries: &str) -> String {
    format!("{{\"mcpServers\": {{{entries}}}}}")
}

/// S2-07, S2-27, S2-28: a program, an SSE address and an HTTP address in one file; the first in the
/// file keeps the bare name.
#[test]
fn s2_07_a_program_and_both_kinds_of_addresses_work_from_one_file() {
    let machine = Machine::new();
    let text = settings(&format!(
        r#""files": {{"command": "mcp-server-filesystem"}}, "old": {{"url": "{0}/sse"}}, "new": {{"httpUrl": "{0}/mcp"}}"#,
        machine.address()
    ));
    let machine = machine.file("settings.json", &text);
    let given = |rest: &str| format!("-c settings.json --dialect gemini {rest}");
    let status = machine
        .run(&[
            "-c",
            "settings.json",
            "--dialect",
            "gemini",
            "status",
            "--json",
        ])
        .json();
    let wires: Vec<_> = status["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (&server["name"], &server["transport"]))
        .collect();
    assert_eq!(
        serde_json::json!(wires),
        serde_json::json!([["files", "stdio"], ["old", "sse"], ["new", "http"]])
    );
    insta::assert_snapshot!(machine.transcript(&[
        &given("call read_file path=x --yes"),
        &given("call echo message=first --yes"),
        &given("call new__echo message=second --yes"),
    ]));
}

/// S2-01, S2-02, S2-03: names, descriptions and schemas are found; a call has arguments and a
/// structured answer; a resource is read.
#[test]
fn s2_01_02_03_tools_are_found_and_executed_and_resources_read() {
    let machine = Machine::new();
    let text = settings(&format!(
        r#""remote": {{"httpUrl": "{}/mcp"}}"#,
        machine.address()
    ));
    let machine = machine.file("settings.json", &text);
    let run = |words: &[&str]| {
        machine.run(&[&["-c", "settings.json", "--dialect", "gemini"], words].concat())
    };
    let tools = run(&["tools", "--json"]).json();
    let echo = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "echo")
        .unwrap()
        .clone();
    assert!(
        echo["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{echo}"
    );
    assert_eq!(
        echo["inputSchema"]["properties"]["message"]["type"], "string",
        "{echo}"
    );
    let answer = run(&["call", "echo", "message=hello", "--yes", "--json"]).json();
    assert_eq!(answer["content"][0]["text"], "hello", "{answer}");
    let listed = run(&["resources", "--json"]).json();
    let uri = listed["resources"][0]["uri"].as_str().unwrap().to_owned();
    let read = run(&["read", &uri]);
    let text = "A switchboard joins those who call with those who answer.\n";
    assert_eq!(
        (read.code, uri.as_str(), read.stdout.as_str()),
        (Some(0), "demo://text", text),
        "{read:?}"
    );
}

/// The entry's timeout is also how long connecting may take; the server is then DISCONNECTED, with
/// the reason, and in its log.
#[test]
fn s2_21_22_connecting_takes_no_longer_than_the_timeout_and_the_failure_is_logged() {
    let text = settings(
        r#""slow": {"command": "sleeper", "timeout": 700}, "files": {"command": "mcp-server-filesystem"}"#,
    );
    let machine = Machine::new()
        .file("settings.json", &text)
        .program("sleeper", "exec sleep 60");
    let run = |words: &[&str]| {
        machine.run(&[&["-c", "settings.json", "--dialect", "gemini"], words].concat())
    };
    let status = run(&["status", "--json"]).json();
    let statuses: Vec<_> = status["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| &server["status"])
        .collect();
    assert_eq!(
        serde_json::json!(statuses),
        serde_json::json!(["DISCONNECTED", "CONNECTED"]),
        "{status}"
    );
    let error = status["servers"][0]["error"].as_str().unwrap();
    assert!(error.contains("0.7 s") || error.contains("700"), "{error}");
    let logs = run(&["logs", "slow"]);
    assert!(
        logs.stdout.contains("did not answer") || logs.stdout.contains("no answer"),
        "{logs:?}"
    );
}

/// S2-19, S2-36: right after the start servers are CONNECTING; later each is CONNECTED or
/// DISCONNECTED.
#[test]
fn s2_19_36_a_server_is_connecting_until_it_is_connected_or_not() {
    let text = |timeout: u32| {
        settings(&format!(
            r#""slow": {{"command": "sleeper", "timeout": {timeout}}}, "broken": {{"command": "no-such-program"}}"#,
        ))
    };
    let machine = Machine::new()
        .file("long.json", &text(600_000))
        .file("short.json", &text(1000))
        .program("sleeper", "exec sleep 600");
    let run = |file: &str, wait: &str| {
        let words = [
            "-c",
            file,
            "--dialect",
            "gemini",
            "--wait",
            wait,
            "status",
            "--json",
        ];
        machine.run(&words)
    };
    let statuses = |ran: crate::support::ProgramOutput| {
        let status = ran.json();
        let words = status["servers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|server| server["status"].clone())
            .collect::<Vec<_>>();
        (
            status["discovery"].as_str().unwrap().to_owned(),
            serde_json::Value::from(words),
        )
    };
    // A busy machine may need longer to find that there is no such program.
    let (discovery, words) = ["0.5", "4", "30"]
        .into_iter()
        .map(|wait| statuses(run("long.json", wait)))
        .find(|(_, words)| words[1] == "DISCONNECTED")
        .unwrap();
    assert_eq!(
        (discovery.as_str(), words),
        (
            "IN_PROGRESS",
            serde_json::json!(["CONNECTING", "DISCONNECTED"])
        )
    );
    let (discovery, words) = statuses(run("short.json", "60"));
    assert_eq!(
        (discovery.as_str(), words),
        (
            "COMPLETED",
            serde_json::json!(["DISCONNECTED", "DISCONNECTED"])
        )
    );
}

/// A tool that takes too long, and one that fails, are failures of the call; the entry's timeout is
/// what to raise. S2-18: also for a server by URL.
#[test]
fn s2_54_a_call_that_fails_or_takes_too_long_is_a_failure_that_names_the_timeout() {
    let machine = Machine::new();
    let address = machine.address().to_owned();
    let text = |timeout: u32| {
        settings(&format!(
            r#""remote": {{"httpUrl": "{address}/mcp", "timeout": {timeout}}}"#
        ))
    };
    let machine = machine
        .file("short.json", &text(2000))
        .file("long.json", &text(60000));
    let run = |file: &str, words: &[&str]| {
        machine.run(&[&["-c", file, "--dialect", "gemini"], words].concat())
    };
    let late = run("short.json", &["call", "slow", "seconds=4", "--yes"]);
    assert_eq!(late.code, Some(3), "{late:?}");
    assert!(late.stderr.contains("timeout"), "{late:?}");
    assert_eq!(
        run("long.json", &["call", "slow", "seconds=4", "--yes"]).code,
        Some(0),
        "raised, it is long enough"
    );
    let failed = run("long.json", &["call", "fail", "--yes"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
}

/// The same of a process in the person's own `settings.json`: an exception in the tool, an error of
/// the server, its end and a timeout are each a failure of that call, which was sent once; the same
/// call succeeds once `timeout` was raised in that file.
#[test]
fn s2_54_each_failure_at_execution_is_a_failure_of_the_call_and_a_raised_timeout_helps() {
    let machine = Machine::new();
    let seen = machine.path("seen");
    let raised = r#"{"content":[{"type":"text","text":"ZeroDivisionError: division by zero"}],"isError":true}"#;
    let server = Chaos::new()
        .tool("late", [Step::Sleep(3000), Step::text("late, but done")])
        .tool("raises", Step::result(raised))
        .tool("refuses", Step::error(-32603, "the database is locked"))
        .tool(
            "dies",
            [Step::Stderr("out of memory\n".to_owned()), Step::Exit(1)],
        );
    machine.stand_in("worker", &server.record(&seen));
    let write = |timeout: u32| {
        let file = machine.path(".gemini/settings.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(
            file,
            settings(&format!(
                r#""worker": {{"command": "worker", "timeout": {timeout}}}"#
            )),
        )
        .unwrap();
    };
    let sent = |method: &str| Record::read(&seen).count(method);
    write(1000);
    let cases = [
        ("late", 3, "server \"worker\"", "timeout"),
        ("raises", 1, "", "ZeroDivisionError: division by zero"),
        ("refuses", 1, "server \"worker\"", "the database is locked"),
        ("dies", 3, "server \"worker\"", "exited with status 1"),
    ];
    for (count, (tool, code, who, what)) in cases.into_iter().enumerate() {
        let ran = machine.run(&["call", tool, "--yes"]);
        assert_eq!(ran.code, Some(code), "{tool}: {ran:?}");
        // An error of the tool is its result; other failures have an error of their own.
        let (said, result) = if who.is_empty() {
            (&ran.stdout, what)
        } else {
            (&ran.stderr, "")
        };
        assert!(
            said.contains(who) && said.contains(what) && ran.stdout.trim_end() == result,
            "{tool}: {ran:?}"
        );
        assert_eq!(sent("tools/call"), count + 1, "{tool} was sent once");
    }
    write(60_000);
    let ran = machine.run(&["call", "late", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "late, but done\n"),
        "{ran:?}"
    );
}

/// Once the connection stands, the server is asked for its tools, before anything is called.
#[test]
fn s2_23_after_connecting_the_servers_tools_are_listed() {
    let machine = Machine::new().file(
        "settings.json",
        &settings(r#""files": {"command": "recorded"}"#),
    );
    let seen = machine.path("seen");
    machine.stand_in(
        "recorded",
        &Chaos::new()
            .tool("read_file", Step::text("read"))
            .record(&seen),
    );
    let ran = machine.run(&[
        "-c",
        "settings.json",
        "--dialect",
        "gemini",
        "call",
        "read_file",
        "--yes",
    ]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "read\n"),
        "{ran:?}"
    );
    let methods = Record::read(&seen).methods();
    let place = |method: &str| methods.iter().position(|seen| seen == method);
    assert!(
        place("initialize") < place("tools/list") && place("tools/list") < place("tools/call"),
        "{methods:?}"
    );
    assert!(place("initialize").is_some(), "{methods:?}");
}

/// A call is confirmed in a dialogue, unless its server is trusted.
#[test]
fn s2_50_a_dialogue_is_shown_unless_the_server_is_trusted() {
    let entry = |trust: bool| {
        settings(&format!(
            r#""files": {{"command": "mcp-server-filesystem", "trust": {trust}}}"#
        ))
    };
    let machine = Machine::new()
        .file("asked.json", &entry(false))
        .file("trusted.json", &entry(true));
    let words = |file| {
        [
            "-c",
            file,
            "--dialect",
            "gemini",
            "call",
            "read_file",
            "path=x",
        ]
    };
    let mut terminal = machine.spawn_in_terminal(&words("asked.json"));
    terminal.wait_for("Proceed once");
    terminal.send("o");
    let ended = terminal.end();
    assert!(
        ended.code == 0 && ended.screen.contains("hello from the disk"),
        "{ended:?}"
    );
    let ended = machine.spawn_in_terminal(&words("trusted.json")).end();
    assert!(
        ended.code == 0 && ended.screen.contains("hello from the disk"),
        "{ended:?}"
    );
    assert!(!ended.screen.contains("Proceed"), "{ended:?}");
}

/// A server without tools has another error than a server that does not connect.
#[test]
fn s2_53_a_server_without_tools_is_disconnected_because_no_tools_were_discovered() {
    let text = settings(
        r#""empty": {"command": "without-tools"}, "broken": {"command": "no-such-program"}"#,
    );
    let machine = Machine::new().file("settings.json", &text);
    let prompts = r#"{"prompts":[{"name":"greet"}]}"#;
    machine.stand_in(
        "without-tools",
        &Chaos::new().on("prompts/list", [Step::result(prompts)]),
    );
    let status = machine
        .run(&[
            "-c",
            "settings.json",
            "--dialect",
            "gemini",
            "status",
            "--json",
        ])
        .json();
    let server = |index: usize| {
        (
            &status["servers"][index]["status"],
            status["servers"][index]["error"].as_str().unwrap(),
        )
    };
    let ((empty, nothing), (broken, lost)) = (server(0), server(1));
    assert_eq!(
        (empty, broken),
        (&"DISCONNECTED".into(), &"DISCONNECTED".into()),
        "{status}"
    );
    assert!(
        nothing.starts_with("closed: no tools discovered"),
        "{nothing}"
    );
    assert!(lost.starts_with("no program \"no-such-program\""), "{lost}");
}

/// S2-05, in gemini's own file: each server is connected by its transport, then asked for its
/// tools; a schema is cleaned or its tool left out; then names are given, the first server in the
/// file keeping the bare one.
#[test]
fn s2_05_discovery_connects_fetches_sanitises_and_registers_in_this_order() {
    let machine = Machine::new();
    let record = machine.path("record");
    let schema = r#"{"$schema":"x","type":"object","additionalProperties":false,"properties":{"q":{"type":"string"}}}"#;
    let first = Chaos::new()
        .tool("echo", Step::text("the first's"))
        .define("echo", "inputSchema", schema)
        .extra_tool(r#"{"name":"broken","inputSchema":{"type":"string"}}"#)
        .record(&record);
    machine.stand_in("first", &first);
    let text = format!(
        r#"{{"mcpServers": {{"first": {{"command": "first"}}, "second": {{"httpUrl": "{}/mcp"}}}}}}"#,
        machine.address()
    );
    let machine = machine.file("settings.json", &text);
    let listed = machine
        .run(&["-c", "settings.json", "tools", "--json"])
        .json();
    let methods = Record::read(&record).methods();
    let known = [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
    ];
    let steps: Vec<&str> = methods
        .iter()
        .map(String::as_str)
        .filter(|method| known.contains(method))
        .collect();
    assert_eq!(
        (steps.first(), steps.last()),
        (Some(&"server/discover"), Some(&"tools/list")),
        "{methods:?}"
    );
    let of = |server: &str, tool: &str| {
        let tools = listed["tools"].as_array().unwrap();
        tools
            .iter()
            .find(|listed| listed["server"] == server && listed["tool"] == tool)
            .unwrap()
            .clone()
    };
    assert_eq!(
        of("first", "echo")["inputSchema"].to_string(),
        r#"{"properties":{"q":{"type":"string"}},"type":"object"}"#
    );
    assert_eq!(
        (&of("first", "echo")["name"], &of("second", "echo")["name"]),
        (&"echo".into(), &"second__echo".into())
    );
    let withheld = listed["withheld"].as_array().unwrap();
    assert!(
        withheld.iter().any(|tool| tool["tool"] == "broken"),
        "{withheld:?}"
    );
    let call = |name: &str| {
        machine.run(&[
            "-c",
            "settings.json",
            "call",
            name,
            "--args",
            r#"{"message": "hello"}"#,
            "--yes",
        ])
    };
    assert_eq!(call("second__echo").stdout.trim(), "hello");
}

/// S2-27, S2-28: `a` stands first and both offer `search`. Whatever is remembered of earlier runs,
/// `search` is the tool of `a`, and that of `b` is `b__search`; an answer that `b` needs none of
/// does not count for `a`.
#[test]
fn s2_27_28_a_bare_name_is_the_first_servers_whichever_servers_are_remembered() {
    let text = settings(r#""a": {"command": "first"}, "b": {"command": "second", "trust": true}"#);
    let machine = Machine::new().file("settings.json", &text);
    let (first, second) = (machine.path("first-seen"), machine.path("second-seen"));
    let offers = |tool: &str, said: &str| Chaos::new().tool(tool, Step::text(said));
    machine.stand_in("first", &offers("search", "of a").record(&first));
    machine.stand_in("second", &offers("search", "of b").record(&second));
    let run = |words: &[&str]| {
        machine.run(&[&["-c", "settings.json", "--dialect", "gemini"], words].concat())
    };
    let calls = |seen: &std::path::Path| {
        if seen.exists() {
            Record::read(seen).count("tools/call")
        } else {
            0
        }
    };

    // Only `b` is remembered after this, and `a` was never started.
    assert_eq!(run(&["call", "b/search"]).stdout, "of b\n");
    assert!(!first.exists(), "a pair starts its own server only");
    let refused = run(&["call", "search"]);
    assert_eq!(
        refused.code,
        Some(5),
        "`a` is not trusted, so its tool is asked about: {refused:?}"
    );
    assert_eq!((calls(&first), calls(&second)), (0, 1));
    assert_eq!(run(&["call", "search", "--yes"]).stdout, "of a\n");
    assert_eq!(run(&["call", "b__search"]).stdout, "of b\n");
    let listed = run(&["tools", "b", "--json"]).json();
    assert_eq!(listed["tools"][0]["name"], "b__search", "{listed}");

    // The cached catalog of `a` is outdated: it offers the name again.
    machine.stand_in("first", &offers("other", "of a").record(&first));
    assert_eq!(
        run(&["call", "search"]).stdout,
        "of b\n",
        "no other server offers it"
    );
    machine.stand_in("first", &offers("search", "of a").record(&first));
    assert_eq!(run(&["call", "search", "--yes"]).stdout, "of a\n");
}

/// The four choices, at the terminal, for a call of the document's own kind of file: what each is
/// called, what it does, and how long an answer holds.
#[test]
fn s2_41_the_four_choices_are_offered_and_each_does_what_it_says() {
    let machine = Machine::new().file(
        "settings.json",
        &settings(r#""files": {"command": "recorded"}"#),
    );
    let seen = machine.path("seen");
    machine.stand_in(
        "recorded",
        &Chaos::new()
            .tool("read_file", Step::text("what stands in it"))
            .record(&seen),
    );
    let call = [
        "-c",
        "settings.json",
        "--dialect",
        "gemini",
        "call",
        "read_file",
    ];
    let calls = || {
        if seen.exists() {
            Record::read(&seen).count("tools/call")
        } else {
            0
        }
    };
    // Each command is a run of its own, so it asks again.
    for (key, code, made) in [
        ("n", 5, 0),
        ("\r", 5, 0),
        ("o", 0, 1),
        ("t", 0, 2),
        ("s", 0, 3),
        ("n", 5, 3),
    ] {
        let mut terminal = machine.spawn_in_terminal(&call);
        let screen = terminal.wait_for("[n] Cancel: the call is not made");
        for choice in [
            "[o] Proceed once: this call only",
            "[t] Always allow this tool: for this run",
            "[s] Always allow this server: for this run",
        ] {
            assert!(screen.contains(choice), "{choice}: {screen}");
        }
        terminal.send(key);
        let ended = terminal.end();
        assert_eq!((ended.code, calls()), (code, made), "{key:?}: {ended:?}");
        assert_eq!(
            ended.screen.contains("what stands in it"),
            code == 0,
            "{key:?}: {ended:?}"
        );
    }
    assert_eq!(
        machine.run(&["permissions"]).stdout,
        "no approval is remembered\n",
        "keys are in memory"
    );
}

/// The document's python example as it stands: `$NAME` and `${NAME}` in `env` are read from the
/// environment of whoever runs it.
#[test]
fn s2_12_the_server_gets_its_env_with_both_kinds_of_references_read() {
    let machine = Machine::new()
        .variable("DB_CONNECTION_STRING", "postgres://db")
        .variable("EXTERNAL_API_KEY", "a key $HOME")
        .file(
            ".gemini/settings.json",
            include_str!("../../../switchboard-config/tests/seeds/gemini/python.json"),
        )
        .file("mcp-servers/python/README", "");
    machine.stand_in(
        "my-server",
        &Chaos::new().tool("calculate_sum", Step::text("done")),
    );
    let seen = machine.path("environment");
    let body = format!(
        "printf '%s|%s' \"$DATABASE_URL\" \"$API_KEY\" > {}; exec my-server",
        seen.display()
    );
    let machine = machine.program("python", &body);
    assert_eq!(
        machine.run(&["trust", "pythonTools", "--yes"]).code,
        Some(0)
    );
    let ran = machine.run(&["call", "calculate_sum", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "done\n"),
        "{ran:?}"
    );
    assert_eq!(
        std::fs::read_to_string(&seen).unwrap(),
        "postgres://db|a key $HOME",
        "in one pass"
    );
}

/// The document's docker example as it stands: `${PWD}` is read in the arguments, and the token
/// reaches the container's program by `-e`.
#[test]
fn s2_16_the_docker_example_is_run_with_the_folder_and_the_token() {
    let machine = Machine::new()
        .variable("EXTERNAL_SERVICE_TOKEN", "t0ken")
        .variable("PWD", "/home/ada/my project")
        .file(
            ".gemini/settings.json",
            include_str!("../../../switchboard-config/tests/seeds/gemini/docker.json"),
        );
    machine.stand_in(
        "container",
        &Chaos::new().tool("docker__status", Step::text("up")),
    );
    let seen = machine.path("seen");
    let body = format!(
        "printf '%s\\n' \"$API_KEY\" \"$@\" > {}; exec container",
        seen.display()
    );
    let machine = machine.program("docker", &body);
    assert_eq!(
        machine.run(&["trust", "dockerizedServer", "--yes"]).code,
        Some(0)
    );
    let ran = machine.run(&["call", "docker__status", "--yes"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "up\n"),
        "{ran:?}"
    );
    let seen = std::fs::read_to_string(&seen).unwrap();
    let expected = [
        "t0ken",
        "run",
        "-i",
        "--rm",
        "-e",
        "API_KEY",
        "-v",
        "/home/ada/my project:/workspace",
        "my-mcp-server:latest",
    ];
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
}
