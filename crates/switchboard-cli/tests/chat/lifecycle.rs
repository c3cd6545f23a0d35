//! A conversation over time: remembered approvals, servers that die, sessions that are continued.

use switchboard_testkit::{Chaos, Step};

use crate::support::Home;
use crate::{CTRL_C, chat, chat_sized, leave, prompt};

/// S2-40, S2-41: in a Gemini file an answer counts for the run, and no second question is asked.
#[test]
fn s2_40_always_allow_this_server_lasts_for_the_run() {
    let home = Home::new();
    let settings = serde_json::json!({"mcpServers": {"demo": {
        "command": crate::support::PROGRAM, "args": ["__demo-server"]
    }}});
    std::fs::write(home.path("project/s.json"), settings.to_string()).unwrap();
    let words = ["-c", "s.json", "--dialect", "gemini", "--model", "demo"];
    let mut terminal = chat(&home, &words);
    terminal.send("call echo {\"message\":\"first\"}\r");
    terminal.wait_for("[s] Always allow this server");
    terminal.send("s");
    terminal.wait_for("all tools of demo: always allowed, for this run");
    terminal.wait_for("echo answered: first");
    // S2-39: another tool of the same server is not asked about.
    terminal.send("call add {\"a\":1,\"b\":2}\r");
    terminal.wait_for("add answered: {\"sum\":3}");
    terminal.send("/permissions demo/add\r");
    terminal.wait_for("demo/add  allowed");
    leave(terminal);
    // The approval ends with the run.
    let mut terminal = chat(&home, &words);
    terminal.send("call add {\"a\":1,\"b\":2}\r");
    terminal.wait_for("[s] Always allow this server");
    terminal.send("n");
    terminal.wait_for("denied: the person declined");
    leave(terminal);
}

/// S2-15, S2-38: a server with `trust` is never asked about.
#[test]
fn s2_38_a_trusted_server_of_a_gemini_file_runs_without_asking() {
    let home = Home::new();
    let settings = serde_json::json!({"mcpServers": {"demo": {
        "command": crate::support::PROGRAM, "args": ["__demo-server"], "trust": true
    }}});
    std::fs::write(home.path("project/s.json"), settings.to_string()).unwrap();
    let words = ["-c", "s.json", "--dialect", "gemini", "--model", "demo"];
    let mut terminal = chat(&home, &words);
    terminal.send("call echo {\"message\":\"unasked\"}\r");
    terminal.wait_for("echo answered: unasked");
    leave(terminal);
}

#[test]
fn an_answer_for_good_has_a_date_and_can_be_revoked() {
    let home = Home::with_demo("");
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__demo__echo {\"message\":\"x\"}\r");
    terminal.wait_for("[t] always this tool");
    terminal.send("t");
    terminal.wait_for("[g] for good");
    terminal.send("g");
    terminal.wait_for("demo/echo: always allowed, for good");
    terminal.wait_for("answered: x");
    terminal.send("/permissions demo/echo\r");
    terminal.wait_for("demo/echo  allowed  your approval of");
    terminal.send("/permissions revoke demo/echo\r");
    terminal.wait_for("the next call asks again");
    terminal.send("call mcp__demo__echo {\"message\":\"y\"}\r");
    terminal.wait_for("[t] always this tool");
    terminal.send("n");
    terminal.wait_for("denied: the person declined");
    leave(terminal);
}

/// S2-34: the connection is kept between messages. A server that dies is reported, and recovers.
#[test]
fn s2_34_a_server_that_dies_comes_back_during_the_conversation() {
    let home = Home::new();
    let server = Chaos::new()
        .tool("die", Step::Exit(7))
        .tool("greet", Step::text("hello"));
    let entry = server.entry("s").render();
    home.user_file(&format!("[permissions]\nallow = ['s']\n{entry}"));
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__s__die {}\r");
    let screen = terminal.wait_for("server \"s\" is connected again");
    assert!(
        screen.contains("server \"s\": lost the connection: its process exited with status 7"),
        "{screen}"
    );
    terminal.send("call mcp__s__greet {}\r");
    terminal.wait_for("mcp__s__greet answered: hello");
    leave(terminal);
}

/// The id of the session that changed last.
fn current_session(home: &Home) -> String {
    let files = std::fs::read_dir(home.path("state/switchboard/sessions")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let last = files.max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let name = last.unwrap().file_stem().unwrap().to_owned();
    name.into_string().unwrap()
}

#[test]
fn a_conversation_is_continued_forked_and_listed() {
    let home = Home::with_demo("[permissions]\nallow = ['demo/echo']\n");
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__demo__echo {\"message\":\"remember me\"}\r");
    terminal.wait_for("answered: remember me");
    leave(terminal);
    let mut terminal = home.run_in_terminal(&["chat", "--model", "demo", "--continue"]);
    let screen = terminal.wait_for("continuing conversation");
    terminal.wait_for("mcp__demo__echo answered: remember me");
    assert!(screen.contains("conversation "), "{screen}");
    terminal.send("/fork\r");
    terminal.wait_for("continuing in a copy: conversation");
    terminal.send("/resume\r");
    terminal.wait_for(" ago  call mcp__demo__echo");
    let id = current_session(&home);
    terminal.send(&format!("/resume {id}\r"));
    terminal.wait_for("this is the current conversation");
    terminal.send("/context\r");
    terminal.wait_for("server demo");
    terminal.send("/clear\r");
    terminal.wait_for("started a new conversation");
    leave(terminal);
}

/// The second chat reports the conflict and can continue in a copy; both sessions stay complete.
#[test]
fn two_chats_on_one_session_do_not_damage_it() {
    let home = Home::with_demo("[permissions]\nallow = ['demo/echo']\n");
    let mut first = chat(&home, &["--model", "demo"]);
    first.send("call mcp__demo__echo {\"message\":\"from the first\"}\r");
    first.wait_for("answered: from the first");
    prompt(&first);
    let second = home.run(&["chat", "--model", "demo", "--continue"]);
    assert_eq!(second.code, Some(2), "{second:?}");
    let said = &second.stderr;
    assert!(said.contains("in use by another process"), "{said}");
    assert!(said.contains("add --fork to continue in a copy"), "{said}");
    let mut second = home.run_in_terminal(&["chat", "--model", "demo", "--continue", "--fork"]);
    second.wait_for("continuing conversation");
    second.wait_for("answered: from the first");
    second.send("call mcp__demo__echo {\"message\":\"from the copy\"}\r");
    second.wait_for("answered: from the copy");
    first.send("call mcp__demo__echo {\"message\":\"first again\"}\r");
    first.wait_for("answered: first again");
    leave(second);
    leave(first);
    // The session that changed last is the first one.
    let again = home.run_in_terminal(&["chat", "--model", "demo", "--continue"]);
    let screen = again.wait_for("answered: first again");
    assert!(!screen.contains("from the copy"), "{screen}");
    assert!(!screen.contains("session: "), "{screen}");
    leave(again);
}

/// A call stopped with Ctrl-C is recorded as cancelled, not as lost.
#[test]
fn a_stopped_call_is_cancelled_in_the_session_too() {
    let home = Home::new();
    let server = Chaos::new().tool("hang", Step::Drop);
    let entry = server.entry("s").render();
    home.user_file(&format!("[permissions]\nallow = ['s']\n{entry}"));
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__s__hang {}\r");
    terminal.wait_for("calling s/hang");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped;");
    leave(terminal);
    let ran = home.run(&["chat", "--model", "demo", "--continue"]);
    assert!(
        ran.stdout.contains("mcp__s__hang {}\n  cancelled\n"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("lost"), "{ran:?}");
}

/// A result of ten thousand lines and wide characters leaves a readable screen.
#[test]
fn a_long_result_shows_its_beginning_and_how_much_more_there_is() {
    let home = Home::new();
    let lines: String = (0..10_000).map(|number| format!("{number} 漢\n")).collect();
    let server = Chaos::new().tool("long", Step::text(&lines));
    home.user_file(&format!(
        "[permissions]\nallow = ['s']\n{}",
        server.entry("s").render()
    ));
    let mut terminal = chat_sized(&home, &["--model", "demo"], 200, 80);
    terminal.send("call mcp__s__long {}\r");
    let screen = terminal.wait_for("more lines");
    assert!(screen.contains("  │ 7 漢\n  │ … "), "{screen}");
    leave(terminal);
}
