//! Gemini CLI in a conversation: `.gemini/settings.json`, `/mcp`, confirmations, function calls.

use std::path::Path;

use serde_json::{Value, json};
use switchboard_testkit::{Chaos, Record, Step};

use crate::console::{enter, enter_until, leave, prompt, started_sized};
use crate::gemini::three;
use crate::machine::Machine;
use crate::support::Terminal;
use crate::vendor::{body, gemini_turn, model_section, vendor};

/// A conversation over the settings of a project, which the person names.
const CHAT: [&str; 3] = ["-c", ".gemini/settings.json", "chat"];

fn chat(machine: &Machine) -> Terminal {
    let terminal = machine.spawn_in_terminal(&[&CHAT[..], &["--model", "demo"]].concat());
    started_sized(terminal, 50, 160)
}

/// The document's three servers; `node` does not start one.
fn documents_machine() -> Machine {
    Machine::new()
        .variable("DB_CONNECTION_STRING", "postgres://person:secret-canary@db")
        .variable("EXTERNAL_API_KEY", "api-canary")
        .variable("EXTERNAL_SERVICE_TOKEN", "token-canary")
        .variable("PWD", "/work")
        .file(".gemini/settings.json", &three())
        .file("mcp-servers/python/README", "")
        .file("mcp-servers/node/README", "")
        .program("node", "echo 'Connection refused' >&2; exit 1")
}

/// The document's sample, but for what `node` says of itself, and for the mount of `docker`, which
/// the sample leaves out.
const SAMPLE: [&str; 3] = [
    "MCP Servers Status:

📡 pythonTools (CONNECTED)
  Command: python -m my_mcp_server --port 8080
  Working Directory: ./mcp-servers/python
  Timeout: 15000ms
  Tools: calculate_sum, file_analyzer, data_processor

🔌 nodeServer (DISCONNECTED)
  Command: node dist/server.js --verbose
  Error: ",
    "Connection refused",
    "

🐳 dockerizedServer (CONNECTED)
  Command: docker run -i --rm -e API_KEY -v ${PWD}:/workspace my-mcp-server:latest
  Tools: docker__deploy, docker__status

Discovery State: COMPLETED
",
];

/// S2-45, S2-46, S2-47, S2-48, S2-61, S2-69: `/mcp` around each change. Nothing is started for a
/// project that nobody accepted (NOT_STARTED). Otherwise all servers are started with the program,
/// before anything is entered: while one still connects (CONNECTING, IN_PROGRESS), another is
/// connected and a third has failed. Then the document's sample (COMPLETED); then a connection is
/// lost.
#[test]
fn s2_45_s2_46_s2_47_s2_48_s2_61_s2_69_mcp_shows_the_documents_view_live() {
    let machine = documents_machine();
    let (go, stop) = (machine.path("go"), machine.path("stop"));
    let python = ["calculate_sum", "file_analyzer", "data_processor"];
    let python = python.iter().fold(
        Chaos::new().on_start(Step::wait_file(&go)),
        |server, tool| server.tool(tool, Step::text("done")),
    );
    machine.stand_in("python", &python);
    let docker = Chaos::new()
        .tool("docker__deploy", Step::text("deployed"))
        .tool("docker__status", Step::text("up"))
        .background([Step::wait_file(&stop), Step::Exit(3)]);
    machine.stand_in("docker", &docker);

    let mut terminal = started_sized(
        machine.spawn_in_terminal(&["chat", "--model", "demo"]),
        50,
        160,
    );
    let screen = enter(&mut terminal, "/mcp");
    // S2-47, S2-48: the words before anything is started.
    assert_eq!(screen.matches("(DISCONNECTED)").count(), 3, "{screen}");
    assert!(
        screen.contains("Discovery State: NOT_STARTED\n"),
        "{screen}"
    );
    leave(terminal);

    // S2-61: all servers at once, before anything is entered.
    let mut terminal = chat(&machine);
    let screen = enter_until(&mut terminal, "/mcp", |screen| {
        screen.contains("🐳 dockerizedServer (CONNECTED)")
            && screen.contains("🔌 nodeServer (DISCONNECTED)")
    });
    assert!(screen.contains("🔄 pythonTools (CONNECTING)\n"), "{screen}");
    assert!(
        screen.contains("Discovery State: IN_PROGRESS\n"),
        "{screen}"
    );

    // S2-46: the sample.
    std::fs::write(&go, "").unwrap();
    let screen = enter_until(&mut terminal, "/mcp", |screen| {
        screen.contains("Discovery State: COMPLETED")
    });
    let parts = SAMPLE.map(|part| screen.find(part));
    assert!(
        parts.iter().all(Option::is_some) && parts.is_sorted(),
        "{screen}"
    );
    // S2-45: "Available tools: list of tools from each server with descriptions".
    let screen = enter(&mut terminal, "/mcp desc");
    assert!(screen.contains("does file_analyzer"), "{screen}");

    // S2-69: a connection that is lost.
    std::fs::write(&stop, "").unwrap();
    enter_until(&mut terminal, "/mcp", |screen| {
        screen.contains("🔌 dockerizedServer (DISCONNECTED)")
    });
    let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!shown.contains("canary"), "{shown}");
    leave(terminal);
}

/// A settings file with these entries.
fn settings(entries: &Value) -> String {
    json!({ "mcpServers": entries }).to_string()
}

/// What a server was called with: name and arguments.
fn calls(record: &Path) -> Vec<Value> {
    let calls = Record::read(record).with_method("tools/call");
    let params = calls.iter().map(|call| call.params.as_ref().unwrap().get());
    params
        .map(|params| {
            let params: Value = serde_json::from_str(params).unwrap();
            json!([params["name"], params["arguments"]])
        })
        .collect()
}

/// The document's execution flow with a Gemini model. S2-49: its request declares the servers'
/// tools like the built-in ones. S2-37: its `functionCall` has the registered name, here with a
/// prefix, and an object of arguments. S2-42: arguments that do not match the schema are neither
/// asked about nor sent. S2-41: it is confirmed, once. S2-43: the server is called with its own name
/// of the tool. S2-44: the model gets the raw result, the person a formatted one.
#[test]
fn s2_37_s2_42_s2_43_s2_44_s2_49_a_function_call_of_a_gemini_model() {
    let result = r#"{"found":["a file with a long name","another one"],"count":2}"#;
    let look = |record: &Path| {
        let content = json!({"content": [{"type": "text", "text": result}]});
        Chaos::new()
            .tool("look", Step::result(&content.to_string()))
            .define(
                "look",
                "inputSchema",
                r#"{"type":"object","properties":{"depth":{"type":"integer"}},"required":["depth"]}"#,
            )
            .record(record)
    };
    let machine = Machine::new().file(
        ".gemini/settings.json",
        &settings(&json!({"first": {"command": "first"}, "second": {"command": "second"}})),
    );
    let records = ["first.record", "second.record"].map(|name| machine.path(name));
    machine.stand_in("first", &look(&records[0]));
    machine.stand_in("second", &look(&records[1]));
    let call = |depth: Value| {
        let arguments = json!({ "depth": depth });
        gemini_turn(&json!({"functionCall": {"name": "second__look", "args": arguments}}))
    };
    let (url, vendor) = vendor(vec![
        call(json!("deep")),
        call(json!(3)),
        gemini_turn(&json!({"text": "Two files."})),
    ]);
    let machine = machine.file("model.toml", &model_section("gemini", &url));
    let words = [&["-c", "model.toml"], &CHAT[..]].concat();
    let mut terminal = started_sized(machine.spawn_in_terminal(&words), 50, 100);
    terminal.send("look around\r");
    // S2-37, S2-42: the first call was neither asked about nor sent.
    let screen = terminal.wait_for("[o] Proceed once");
    assert!(screen.contains("second__look {\"depth\":3}"), "{screen}");
    assert_eq!(calls(&records[1]), [json!(null); 0]);
    // S2-41
    terminal.send("o");
    // S2-44: for the person.
    let screen = terminal.wait_for("Two files.");
    let formatted = "  │   \"found\": [\n  │     \"a file with a long name\",\n";
    assert!(screen.contains(formatted), "{screen}");
    leave(terminal);

    // S2-43
    assert_eq!(calls(&records[1]), [json!(["look", {"depth": 3}])]);
    assert_eq!(calls(&records[0]), [json!(null); 0]);
    let requests = vendor.join().unwrap();
    // S2-49
    let declared = body(&requests[0])["tools"][0]["functionDeclarations"].clone();
    let names: Vec<_> = declared.as_array().unwrap().iter().collect();
    let names: Vec<_> = names.iter().map(|tool| tool["name"].clone()).collect();
    for name in ["Read", "Bash", "look", "second__look"] {
        assert!(names.contains(&json!(name)), "{names:?}");
    }
    let contents = |request: &str| body(request)["contents"].as_array().unwrap().clone();
    // The invalid arguments are told to the model, which corrects them.
    let refused = contents(&requests[1]).last().unwrap().to_string();
    assert!(
        refused.contains("functionResponse") && refused.contains("depth"),
        "{refused}"
    );
    // S2-44: for the model.
    let answered = contents(&requests[2]).last().unwrap().to_string();
    let raw = serde_json::to_string(result).unwrap();
    assert!(
        answered.contains("\"name\":\"second__look\"") && answered.contains(&raw[1..raw.len() - 1]),
        "{answered}"
    );
}

/// S2-15, S2-38: a trusted server is not asked about. S2-39, S2-40, S2-41: the four choices and what
/// each adds: nothing for once and cancel, the key of the tool, the key of the server. S2-34: all of
/// it over one connection to each server, from the first message to the last.
#[test]
fn s2_34_s2_38_s2_39_s2_40_s2_41_what_each_choice_of_a_confirmation_allows() {
    let machine = Machine::new().file(
        ".gemini/settings.json",
        &settings(&json!({
            "files": {"command": "files"},
            "web": {"command": "web"},
            "mine": {"command": "mine", "trust": true},
        })),
    );
    let server = |record: &Path, tools: &[&str]| {
        tools
            .iter()
            .fold(Chaos::new().record(record), |server, tool| {
                server.tool(tool, Step::text(&format!("{tool} done")))
            })
    };
    let records = ["files", "web", "mine"].map(|name| machine.path(&format!("{name}.record")));
    machine.stand_in("files", &server(&records[0], &["open", "copy"]));
    machine.stand_in("web", &server(&records[1], &["fetch"]));
    machine.stand_in("mine", &server(&records[2], &["anything"]));
    let mut terminal = chat(&machine);
    // The call, what is pressed if it is asked about, and how it ends.
    let steps = [
        // S2-15, S2-38
        ("anything", None, "anything answered: anything done"),
        // S2-41
        ("open", Some("n"), "denied: the person declined"),
        ("open", Some("o"), "open answered: open done"),
        // S2-39, S2-40
        (
            "open",
            Some("t"),
            "files/open: always allowed, for this run",
        ),
        ("open", None, "open answered: open done"),
        (
            "copy",
            Some("s"),
            "all tools of files: always allowed, for this run",
        ),
        ("copy", None, "copy answered: copy done"),
        ("fetch", Some("n"), "denied: the person declined"),
    ];
    for (tool, key, end) in steps {
        crate::console::clear(&mut terminal);
        terminal.send(&format!("call {tool} {{}}\r"));
        if let Some(key) = key {
            let screen = terminal.wait_for("[n] Cancel");
            let choices = [
                "[o] Proceed once",
                "[t] Always allow this tool",
                "[s] Always allow this server",
            ];
            assert!(
                choices.iter().all(|choice| screen.contains(choice)),
                "{screen}"
            );
            terminal.send(key);
        }
        terminal.wait_for(end);
        let screen = prompt(&terminal);
        let is_allowed = screen.contains(": allowed once") || screen.contains(": always allowed");
        assert_eq!(is_allowed, matches!(key, Some("o" | "t" | "s")), "{screen}");
    }
    leave(terminal);
    let done = records.each_ref().map(|record| calls(record).len());
    assert_eq!(done, [5, 0, 1], "a cancelled call is not made");
    // S2-34
    let starts = records.map(|record| Record::read(&record).starts());
    assert_eq!(starts, [1, 1, 1]);
}
