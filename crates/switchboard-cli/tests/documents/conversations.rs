//! Conversations over the files of core-agent, agent-code and Agent Apps.

use serde_json::json;
use switchboard_testkit::{Chaos, Record, Step};

use crate::console::{enter, leave, paste, prompt, started_sized};
use crate::machine::Machine;
use crate::vendor::{anthropic_turn, body, model_section, vendor};

/// `yolo` in a core-agent file: neither a server's tool nor Bash is asked about. The denylist of
/// Bash still holds for Bash; a server's tool gets the same command, whatever it is called.
#[test]
fn s0_26_yolo_skips_the_gate_and_the_denylist_holds_for_bash_alone() {
    let file = json!({
        "version": 1,
        "permissions": {"mode": "yolo"},
        "servers": {"remote": {"transport": "stdio", "command": "remote-shell"}},
    });
    let machine = Machine::new().file(".agents/mcp.json", &file.to_string());
    let record = machine.path("record");
    machine.stand_in(
        "remote-shell",
        &Chaos::new().tool("bash", Step::Echo).record(&record),
    );
    // Harmless if it ran: there is no such disk.
    let denied = r#"{"command":"mkfs.ext4 /dev/sdzz9"}"#;
    let text = format!(
        "call remote_bash {denied}\ncall Bash {denied}\ncall Bash {{\"command\":\"echo it ran\"}}"
    );
    let words = ["-c", ".agents/mcp.json", "run", "--model", "demo"];
    let ran = machine.run(&[&words[..], &["--output", "json", "-p", &text]].concat());
    let document = ran.json();
    let decisions: Vec<_> = document["calls"].as_array().unwrap().iter().collect();
    let decisions: Vec<_> = decisions
        .iter()
        .map(|call| json!([call["tool"], call["decision"], call["is_error"]]))
        .collect();
    let expected = json!([
        ["bash", "allowed", false],
        ["Bash", "denied", true],
        ["Bash", "allowed", false]
    ]);
    assert_eq!(json!(decisions), expected, "{ran:?}");
    assert_eq!(Record::read(&record).count("tools/call"), 1);
    let answer = document["text"].as_str().unwrap();
    assert!(answer.contains("it ran"), "{answer}");
}

/// The document's file and rule with a model that speaks `tool_use`: the servers' tools stand beside
/// the built-in ones (S4-04), the call reaches `github` as `create_issue`, and its answer returns
/// to the conversation.
#[test]
fn s4_04_a_model_has_the_servers_tools_alongside_the_built_in_ones() {
    let input = json!({"title": "a fault"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "mcp__github__create_issue",
        "input": input});
    let (url, vendor) = vendor(vec![
        anthropic_turn(&call, "tool_use"),
        anthropic_turn(
            &json!({"type": "text", "text": "It is issue 42."}),
            "end_turn",
        ),
    ]);
    let github = include_str!("../../../switchboard-config/tests/seeds/agent-code/stdio.toml");
    let rule = include_str!("../../../switchboard-config/tests/seeds/agent-code/permissions.toml");
    let machine = Machine::new()
        .file("agent.toml", &format!("{github}\n{rule}"))
        .file("model.toml", &model_section("anthropic", &url));
    let words = [
        "-c",
        "agent.toml",
        "-c",
        "model.toml",
        "run",
        "-p",
        "file it",
    ];
    let ran = machine.run(&words);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "It is issue 42.\n"),
        "{ran:?}"
    );
    let requests = vendor.join().unwrap();
    let tools = body(&requests[0])["tools"].clone();
    let names: Vec<_> = tools.as_array().unwrap().iter().collect();
    let names: Vec<_> = names.iter().map(|tool| tool["name"].clone()).collect();
    for name in [
        "Read",
        "Bash",
        "ReadMcpResource",
        "mcp__github__create_issue",
    ] {
        assert!(names.contains(&json!(name)), "{names:?}");
    }
    let messages = body(&requests[1])["messages"].clone();
    let last = messages.as_array().unwrap().last().unwrap().to_string();
    assert!(
        last.contains("tool_result") && last.contains("Issue created: #42"),
        "{last}"
    );
}

/// A server of an Agent Apps file whose tools ask, and a question that belongs to no call, once the
/// file `go` is there.
fn desk(machine: &Machine) {
    let reads = r#"{"type":"object","properties":{"subject":{"type":"string"}}}"#;
    let server = Chaos::new()
        .tool(
            "Read_Letter",
            [Step::ask("Read the letter?"), Step::AnswerReply],
        )
        .define("Read_Letter", "inputSchema", reads)
        .tool(
            "light_lamp",
            [Step::ask("Light the lamp?"), Step::AnswerReply],
        )
        .tool("ring", Step::text("it rang"))
        .on(
            "notifications/initialized",
            [
                Step::wait_file(machine.path("go")),
                Step::ask("Is anybody there?"),
                Step::touch(machine.path("answered")),
            ],
        )
        .record(machine.path("desk.record"));
    machine.stand_in("desk-server", &server);
}

const SKILL: &str = "metadata:\n  mcp:\n    desk:\n      command: desk-server\n";

/// S3-13: tools are public: listed with their schema, and callable by the person. S3-14, S3-15,
/// S3-16, S3-17: a question during a call of the conversation is put where the conversation is held,
/// and its answer goes to that call. S3-20: also with two calls at once. S3-18: a question that
/// belongs to no call is declined with one line, and shown to nobody.
#[test]
fn s3_13_s3_14_s3_15_s3_16_s3_17_s3_18_s3_20_questions_in_an_agent_apps_conversation() {
    let machine = Machine::new().file("skill.yaml", SKILL);
    desk(&machine);
    let words = ["-c", "skill.yaml", "chat", "--model", "demo"];
    let mut terminal = started_sized(machine.spawn_in_terminal(&words), 40, 100);
    // S3-13
    let screen = enter(&mut terminal, "/tools desk-read-letter --schema");
    assert!(screen.contains("\"subject\""), "{screen}");
    let screen = enter(&mut terminal, "/call desk-ring");
    assert!(screen.contains("\nit rang\n"), "{screen}");

    // S3-18
    std::fs::write(machine.path("go"), "").unwrap();
    let line = "a question of the server was declined: no call is in flight";
    let screen = terminal.wait_for(line);
    assert!(!screen.contains("Is anybody there?"), "{screen}");

    // S3-14, S3-17
    crate::console::clear(&mut terminal);
    terminal.send("call desk-read-letter {\"subject\":\"rent\"}\r");
    let screen = terminal.wait_for("Server \"desk\" asks");
    assert!(screen.contains("│ Read the letter?"), "{screen}");
    terminal.send("yes please\r\r");
    terminal.wait_for("question of desk: answered");
    prompt(&terminal);

    // S3-20
    crate::console::clear(&mut terminal);
    paste(
        &mut terminal,
        &["call desk-read-letter {}", "call desk-light-lamp {}"],
    );
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let questions = ["Read the letter?", "Light the lamp?"];
        let is_new = |screen: &str, question: &&str| {
            screen.contains("Server \"desk\" asks")
                && screen.contains(*question)
                && !asked.contains(question)
        };
        let screen = terminal.wait("a question", |screen| {
            questions.iter().any(|question| is_new(screen, question))
        });
        let question = questions
            .into_iter()
            .find(|question| is_new(&screen, question));
        asked.extend(question);
        let answer = ["letter", "lamp"]
            .into_iter()
            .find(|word| asked[asked.len() - 1].contains(word));
        terminal.send(&format!("the {}\r\r", answer.unwrap()));
    }
    terminal.wait("both answers", |screen| {
        screen.matches("question of desk: answered").count() == 2
    });
    prompt(&terminal);
    leave(terminal);

    let record = Record::read(&machine.path("desk.record"));
    let replies = record
        .messages()
        .into_iter()
        .filter_map(|message| message.result);
    let replies: Vec<_> = replies.map(|reply| reply.get().to_owned()).collect();
    assert_eq!(replies.len(), 4, "{replies:?}");
    assert_eq!(replies[0], r#"{"action":"decline"}"#);
    assert!(replies[1].contains("yes please"), "{replies:?}");
    // S3-15, S3-16: which call got which answer, as the session recorded it.
    let session = machine.run(&["-c", "skill.yaml", "chat", "--model", "demo", "--continue"]);
    let shown = format!("{}{}", session.stdout, session.stderr);
    for (tool, answer) in [
        ("desk-read-letter", "the letter"),
        ("desk-light-lamp", "the lamp"),
    ] {
        let line = shown
            .lines()
            .find(|line| line.contains(&format!("{tool} answered")) && line.contains("the "));
        assert!(line.is_some_and(|line| line.contains(answer)), "{shown}");
    }
}

/// S3-18, S3-19: a pipeline that nobody watches has no console to ask at. What a server asks during
/// its call is answered by the defaults: declined, with one line on stderr.
#[test]
fn s3_18_s3_19_a_run_without_a_person_asks_at_no_console() {
    let machine = Machine::new().file("skill.yaml", SKILL);
    desk(&machine);
    let text = "call desk-light-lamp {}";
    let words = ["-c", "skill.yaml", "run", "--model", "demo", "-p", text];
    let ran = machine.run(&words);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("decline"), "{ran:?}");
    let told: Vec<_> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("declined"))
        .collect();
    assert_eq!(told.len(), 1, "{ran:?}");
}
