//! The conversation: start, `/mcp`, approval, modes, Ctrl-C, typing ahead, a pipe.

use std::cell::Cell;

use serde_json::json;
use switchboard_testkit::{Chaos, Step};

use crate::console::paste;
use crate::support::{self, Home};
use crate::vendor::{chat_turn, model_section, vendor};
use crate::{ALLOWED, CTRL_C, SHIFT_TAB, chat, leave, prompt};

#[test]
fn a_conversation_starts_without_a_model_and_says_how_to_configure_one() {
    let home = Home::with_demo(ALLOWED);
    let mut terminal = chat(&home, &[]);
    let screen = terminal.wait_for("/model demo");
    assert!(screen.contains("no model is configured"), "{screen}");
    terminal.send("hello\r");
    terminal.wait_for("error: no model is configured");
    // A call waits for its server.
    terminal.send("/call demo/echo message=up\r");
    terminal.wait_for("\nup\n");
    terminal.send("/mcp\r");
    terminal.wait_for("demo (CONNECTED)");
    leave(terminal);
}

/// S2-45, S2-46, S2-69: the view of the document, with one server that fails and one that works.
#[test]
fn s2_46_mcp_shows_a_failing_and_a_working_server() {
    let home = Home::with_demo(&format!(
        "[servers.broken]\ncommand = \"/no/such/program\"\n{ALLOWED}"
    ));
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.wait_for("there is no file");
    // A call waits for its server.
    terminal.send("/call demo/echo message=up\r");
    terminal.wait_for("\nup\n");
    terminal.send("/mcp\r");
    let screen = terminal.wait_for("Discovery State: COMPLETED");
    assert!(screen.contains("📡 demo (CONNECTED)"), "{screen}");
    assert!(screen.contains("🔌 broken (DISCONNECTED)"), "{screen}");
    leave(terminal);
}

/// S2-41, S2-49: the model's call is asked about, approved once, and answered.
#[test]
fn s2_41_a_call_of_the_model_is_approved_and_its_result_shown() {
    let home = Home::with_demo("");
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__demo__echo {\"message\":\"hello there\"}\r");
    terminal.wait_for("May a tool of server \"demo\" run?");
    terminal.send("o");
    let screen = terminal.wait_for("mcp__demo__echo answered: hello there");
    assert!(
        screen.contains("● demo/echo {\"message\":\"hello there\"}"),
        "{screen}"
    );
    assert!(screen.contains("demo/echo: allowed once"), "{screen}");
    assert!(screen.contains("  │ hello there"), "{screen}");
    leave(terminal);
}

/// A command of the person passes the gate as one of the model does.
#[test]
fn a_line_with_an_exclamation_mark_runs_a_command_with_bash() {
    let home = Home::with_demo("[permissions]\ndeny = ['bash:echo never*', 'bash:@*']\n");
    let mut terminal = chat(&home, &[]);
    terminal.send("!echo 'of the' shell\r");
    let screen = terminal.wait_for("[n] no: the call is not made");
    assert!(screen.contains("May a built-in tool run?"), "{screen}");
    assert!(!screen.contains("tell the model"), "{screen}");
    terminal.send("o");
    terminal.wait_for("\nof the shell\n");
    terminal.send("! echo never\r");
    terminal.wait_for("Bash never runs this");
    // The command itself, and not the text of a file.
    terminal.send("!@of no file\r");
    terminal.wait_for("the deny rule \"bash:@*\"");
    leave(terminal);
}

#[test]
fn the_pause_before_the_next_attempt_is_counted_down() {
    let busy = json!({"error": {"message": "busy", "type": "x"}}).to_string();
    let (url, vendor) = vendor(vec![
        ("503 Busy\r\nretry-after: 4", busy),
        chat_turn(json!({"content": "At last."}), "stop"),
    ]);
    let home = Home::with_demo(&model_section("openai-chat", &url));
    let mut terminal = chat(&home, &[]);
    terminal.send("hello\r");
    // A busy machine may skip numbers.
    let highest = Cell::new(0);
    terminal.wait("two falling numbers", |screen| {
        let is_shown = |seconds: &u8| screen.contains(&format!("attempt 2 in {seconds} s"));
        let now = (1..=4).find(is_shown).unwrap_or_default();
        highest.set(highest.get().max(now));
        (1..highest.get()).contains(&now)
    });
    terminal.wait_for("At last.");
    leave(terminal);
    vendor.join().unwrap();
}

#[test]
fn a_denied_call_has_a_reason_that_the_model_reads() {
    let home = Home::with_demo("");
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__demo__echo {\"message\":\"x\"}\r");
    terminal.wait_for("[w] no, and tell the model why");
    terminal.send("w");
    terminal.wait_for("Why not?");
    terminal.send("use add instead\r");
    let screen = terminal.wait_for("failed: The call was not allowed");
    let line = "denied: the person declined: use add instead";
    assert!(screen.contains(line), "{screen}");
    // The model repeats what it read.
    assert!(
        screen.contains("person declined: use add instead\n"),
        "{screen}"
    );
    leave(terminal);
}

#[test]
fn shift_tab_switches_the_mode_and_plan_makes_no_call() {
    let home = Home::new();
    let server = Chaos::new().tool("change", Step::text("it changed"));
    let entry = server.entry("s").render();
    home.user_file(&format!("[permissions]\nask = ['s/change']\n{entry}"));
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send(SHIFT_TAB);
    terminal.wait_for("accept-edits > ");
    terminal.send(SHIFT_TAB);
    terminal.wait_for("plan > ");
    terminal.send("call mcp__s__change {}\r");
    terminal.wait_for("denied: plan mode");
    terminal.send(SHIFT_TAB);
    terminal.wait_for("yolo > ");
    terminal.send("call mcp__s__change {}\r");
    terminal.wait_for("s/change: allowed by mode yolo");
    terminal.wait_for("answered: it changed");
    terminal.send("/mode ask\r");
    leave(terminal);
}

/// Ctrl-C stops the turn and keeps the servers; a second one exits.
#[test]
fn f28_ctrl_c_stops_the_turn_and_a_second_one_exits() {
    let home = Home::new();
    let server = Chaos::new()
        .tool("hang", Step::Drop)
        .tool("greet", Step::text("hello"));
    home.user_file(&format!(
        "[permissions]\nallow = ['s']\n{}",
        server.entry("s").render()
    ));
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__s__hang {}\r");
    terminal.wait_for("calling s/hang");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped;");
    terminal.send("call mcp__s__greet {}\r");
    terminal.wait_for("answered: hello");
    terminal.send("call mcp__s__hang {}\r");
    terminal.wait_for("calling s/hang");
    terminal.send(CTRL_C);
    terminal.wait("stopped again", |screen| {
        screen.matches("stopped;").count() == 2
    });
    prompt(&terminal);
    terminal.send(CTRL_C);
    let ended = terminal.end();
    assert_eq!((ended.code, ended.restored), (130, true), "{ended:?}");
}

/// Text in the line is discarded by Ctrl-C, as in a shell; only an empty line counts for leaving.
#[test]
fn ctrl_c_discards_the_line_and_leaves_from_an_empty_one_without_an_error() {
    let home = Home::with_demo(ALLOWED);
    let mut terminal = chat(&home, &["--model", "demo"]);
    for text in ["first", "second", "third"] {
        terminal.send(text);
        terminal.wait_for(&format!("> {text}"));
        terminal.send(CTRL_C);
        prompt(&terminal);
    }
    // The person's own words are in the terminal's own colour.
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!bytes.contains("\x1b[37m"), "{bytes:?}");
    terminal.send(CTRL_C);
    terminal.wait_for("press Ctrl-C again to exit");
    prompt(&terminal);
    terminal.send(CTRL_C);
    let ended = terminal.end();
    assert_eq!((ended.code, ended.restored), (130, true), "{ended:?}");
    assert!(!ended.screen.contains("error:"), "{ended:?}");
}

#[test]
fn what_is_typed_during_a_turn_is_queued() {
    let home = Home::new();
    let go = home.path("go");
    let server = Chaos::new().tool("slow", vec![Step::wait_file(&go), Step::text("well")]);
    home.user_file(&format!(
        "[permissions]\nallow = ['s']\n{}",
        server.entry("s").render()
    ));
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__s__slow {}\r");
    terminal.wait_for("calling s/slow");
    terminal.send("/help\r");
    terminal.wait_for("queued: /help");
    // A pasted text is one message, with its empty line.
    paste(&mut terminal, &["first line", "", "last line"]);
    terminal.wait_for("queued: first line⏎⏎last line");
    terminal.send("/too");
    std::fs::write(&go, "").unwrap();
    terminal.wait_for("/resources [SERVER]");
    terminal.wait_for("> first line⏎⏎last line");
    terminal.wait_for("> /too");
    terminal.send("ls s\r");
    terminal.wait_for("s, 1 tool");
    leave(terminal);
}

#[test]
fn what_is_typed_ahead_waits_at_the_prompt_after_ctrl_c() {
    let home = Home::new();
    let server = Chaos::new().tool("hang", Step::Drop);
    home.user_file(&format!(
        "[permissions]\nallow = ['s']\n{}",
        server.entry("s").render()
    ));
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__s__hang {}\r");
    terminal.wait_for("calling s/hang");
    terminal.send("/tools\rand more");
    terminal.wait_for("queued: /tools");
    terminal.wait_for("and more");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped; what was typed ahead is at the prompt");
    terminal.wait_for("> /tools\n  and more");
    terminal.send(CTRL_C);
    let screen = prompt(&terminal);
    assert!(!screen.contains("s, 1 tool"), "{screen}");
    leave(terminal);
}

/// Runs a conversation whose inputs are lines of a pipe.
fn pipe(home: &Home, words: &[&str], lines: &str) -> support::ProgramOutput {
    use std::io::Write;
    let mut child = home
        .command(words)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    support::ProgramOutput::of(&child.wait_with_output().unwrap())
}

/// The first command waits for the servers, and a listing starts those that are lazy.
#[test]
fn a_pipes_first_command_sees_connected_servers() {
    let home = Home::with_demo("[servers.late]\ncommand = '/no/such'\n");
    let ran = pipe(&home, &["chat"], "/mcp\n");
    assert!(ran.stdout.contains("📡 demo (CONNECTED)"), "{ran:?}");
    assert!(ran.stdout.contains("Discovery State: COMPLETED"), "{ran:?}");
    let home = Home::with_demo("start = 'lazy'\n");
    let ran = pipe(&home, &["chat"], "/mcp\n/tools\n");
    assert!(ran.stdout.contains("demo (IDLE)"), "{ran:?}");
    assert!(ran.stdout.contains("mcp__demo__echo"), "{ran:?}");
    let home = Home::with_demo("start = 'lazy'\n");
    let ran = pipe(&home, &["chat", "--model", "demo"], "hello\n");
    assert!(ran.stdout.contains("mcp__demo__echo"), "{ran:?}");
}

#[test]
fn a_pipe_whose_inputs_fail_has_an_exit_code() {
    let home = Home::new();
    let ran = pipe(&home, &["chat"], "hi\n");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("no model is configured"), "{ran:?}");
    let ran = pipe(&home, &["chat", "--model", "demo"], "hi\n/cost\n/exit\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_pipe_gets_answers_alone_and_each_line_is_an_input() {
    let home = Home::with_demo("[permissions]\nallow = ['demo/add']\n");
    let lines = "call mcp__demo__add {\"a\":1,\"b\":2}\n/nonsense\n/cost\n";
    let ran = pipe(&home, &["chat", "--model", "demo"], lines);
    // That of the command that failed.
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stdout
            .starts_with("mcp__demo__add answered: {\"sum\":3}\n"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("output tokens"), "{ran:?}");
    assert!(ran.stderr.contains("● demo/add"), "{ran:?}");
    assert!(ran.stderr.contains("no command \"/nonsense\""), "{ran:?}");
}
