//! Requests of servers and inserted content: prompts, resources, forms, sampling, edits.

use serde_json::json;

use crate::console::enter;
use crate::support::Home;
use crate::vendor::{body, chat_turn, model_section, vendor};
use crate::{ALLOWED, chat, chat_sized, leave, prompt};

/// One field of each kind, in the order of the form, and the keys that fill it in.
const FORM: [(&str, &str); 14] = [
    ("Age", "\x1541"),
    ("Appointment", "2026-07-28T09:30:00Z"),
    ("Birthday", "1815-12-10"),
    ("City", "\x15London"),
    ("Colour", "b"),
    // Monday is ticked already, Wednesday is not.
    ("Days", " \x1b[C "),
    ("E-mail", "ada@example.com"),
    ("Height in metres", "1.65"),
    ("Home page", "https://example.com/ada"),
    ("Name", "Ada Ω"),
    ("Newsletter", "n"),
    ("Shape", "o"),
    ("Size", "\x1b[C"),
    ("Toppings", "\x1b[C "),
];

/// S3-14, S3-16, S3-17: a server's question during a call reaches the conversation that made it: a
/// form is filled in, and the server gets the values; another is cancelled.
#[test]
fn s3_14_a_form_is_filled_in_and_its_values_reach_the_server() {
    let home = Home::with_demo("[permissions]\nallow = ['demo/ask_form']\n");
    let mut terminal = chat_sized(&home, &["--model", "demo"], 90, 100);
    terminal.send("call mcp__demo__ask_form {}\r");
    let screen = terminal.wait_for("Server \"demo\" asks");
    assert!(
        screen.contains("│ Please tell us about yourself"),
        "{screen}"
    );
    for (title, keys) in FORM {
        assert!(
            screen.contains(&format!("│ {title}\n")),
            "{title}: {screen}"
        );
        terminal.send(keys);
        terminal.send("\t");
    }
    terminal.send("\r");
    let screen = terminal.wait_for("question of demo: answered");
    assert!(screen.contains("● demo/ask_form {}"), "{screen}");
    prompt(&terminal);
    terminal.send("call mcp__demo__ask_form {}\r");
    terminal.wait_for("Server \"demo\" asks");
    terminal.send("\x1b");
    terminal.wait_for("question of demo: cancelled");
    leave(terminal);
    // What the server answered is what it was given.
    let ran = home.run(&["chat", "--model", "demo", "--continue"]);
    let answered = ran.stdout.split("the person chose to accept: ").nth(1);
    let answered = answered.unwrap_or_else(|| panic!("{ran:?}"));
    let mut values = serde_json::Deserializer::from_str(answered).into_iter();
    let values: serde_json::Value = values.next().unwrap().unwrap();
    let expected = serde_json::json!({
        "age": 41, "appointment": "2026-07-28T09:30:00Z", "birthday": "1815-12-10",
        "city": "London", "color": "blue", "days": ["we", "fr"], "email": "ada@example.com",
        "height": 1.65, "homepage": "https://example.com/ada", "name": "Ada Ω",
        "newsletter": false, "shape": "square", "size": "l", "toppings": ["cheese", "olives"],
    });
    assert_eq!(values, expected);
}

#[test]
fn a_prompt_of_a_server_is_a_command_and_asks_for_what_is_missing() {
    let home = Home::with_demo(ALLOWED);
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("/call demo/echo message=up\r");
    terminal.wait_for("\nup\n");
    terminal.send("/review --style='very short'\r");
    terminal.wait_for("language: what it is written in");
    terminal.send("Rust\r");
    terminal.wait_for("Give the Rust code that follows a very short review.");
    terminal.wait_for("This is the demo model");
    leave(terminal);
}

#[test]
fn a_resource_and_a_file_are_inserted() {
    let home = Home::with_demo(ALLOWED);
    std::fs::write(home.path("project/notes.txt"), "call Read {\"path\":\"x\"}").unwrap();
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("what is in @demo:demo://greeting/Ada and @nothing?\r");
    terminal.wait_for("demo:demo://greeting/Ada: inserted");
    terminal.wait_for("This is the demo model");
    terminal.wait("the prompt", |screen| screen.trim_end().ends_with('>'));
    // Punctuation is not part of what is mentioned.
    terminal.send("and in @demo:demo://text, or (@demo:demo://greeting/Bob)?\r");
    terminal.wait_for("demo:demo://text: inserted");
    terminal.send("see @demo:demo://greeting/Bob!\r");
    terminal.wait_for("demo:demo://greeting/Bob: inserted");
    terminal.send("follow @notes.txt.\r");
    terminal.wait_for("notes.txt: inserted, 22 bytes");
    // The model read the file: it makes the call that the file contains.
    terminal.wait_for("May a built-in tool run?");
    terminal.send("n");
    terminal.wait_for("denied: the person declined");
    leave(terminal);
}

#[test]
fn an_edit_is_asked_about_with_its_diff() {
    let home = Home::with_demo("[permissions]\nallow = ['Read']\n");
    let file = home.path("project/a.txt");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call Read {\"path\":\"a.txt\"}\r");
    terminal.wait_for("Read answered");
    let edit = r#"{"path":"a.txt","old_text":"two","new_text":"three"}"#;
    terminal.send(&format!("call Edit {edit}\r"));
    let screen = terminal.wait_for("What it would change");
    assert!(
        screen.contains("-two") || screen.contains("- two"),
        "{screen}"
    );
    assert!(
        screen.contains("+three") || screen.contains("+ three"),
        "{screen}"
    );
    terminal.send("o");
    terminal.wait_for("Edit answered");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\nthree\n");
    leave(terminal);
}

/// A server's request to the model is asked about, and answered by the conversation's model.
#[test]
fn sampling_is_approved_and_answered_by_the_model_of_the_conversation() {
    let home = Home::with_demo("[permissions]\nallow = ['demo/ask_model']\n");
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__demo__ask_model {\"prompt\":\"hello model\"}\r");
    let screen = terminal.wait_for("send a prompt to your model?");
    assert!(screen.contains("hello model"), "{screen}");
    terminal.send("o");
    terminal.wait_for("demo asks the model");
    terminal.wait_for("mcp__demo__ask_model answered");
    leave(terminal);
}

/// An approval of sampling is listed and revoked as any other.
#[test]
fn an_approval_of_sampling_is_shown_and_revoked() {
    let home = Home::with_demo("[permissions]\nallow = ['demo/ask_model']\n");
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("call mcp__demo__ask_model {\"prompt\":\"hello model\"}\r");
    terminal.wait_for("send a prompt to your model?");
    terminal.send("t");
    terminal.wait_for("[r] for this run");
    terminal.send("g");
    terminal.wait_for("mcp__demo__ask_model answered");
    let screen = enter(&mut terminal, "/permissions");
    assert!(screen.contains("demo/@sampling"), "{screen}");
    assert!(screen.contains("your approval of"), "{screen}");
    let screen = enter(&mut terminal, "/permissions revoke demo/@sampling");
    assert!(
        screen.contains("demo/@sampling: approval revoked"),
        "{screen}"
    );
    terminal.send("call mcp__demo__ask_model {\"prompt\":\"hello again\"}\r");
    terminal.wait_for("send a prompt to your model?");
    terminal.send("n");
    terminal.wait_for("mcp__demo__ask_model");
    leave(terminal);
}

/// The server's limit reaches the vendor, and an answer that is none reaches no server.
#[test]
fn sampling_keeps_the_servers_limit_and_refuses_an_empty_answer() {
    let arguments = "{\"prompt\":\"hello model\"}";
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "mcp__demo__ask_model", "arguments": arguments}});
    let (url, vendor) = vendor(vec![
        chat_turn(json!({"tool_calls": [call]}), "tool_calls"),
        chat_turn(json!({"content": ""}), "stop"),
        chat_turn(json!({"content": "That is all."}), "stop"),
    ]);
    let allow = "[permissions]\nallow = ['demo/ask_model']\n";
    let home = Home::with_demo(&format!("{allow}{}", model_section("openai-chat", &url)));
    let mut terminal = chat(&home, &[]);
    terminal.send("ask\r");
    terminal.wait_for("send a prompt to your model?");
    terminal.send("o");
    terminal.wait_for("That is all.");
    leave(terminal);
    let requests = vendor.join().unwrap();
    assert!(body(&requests[0]).get("max_tokens").is_none());
    assert!(
        body(&requests[1])["max_tokens"].as_u64() > Some(0),
        "{}",
        requests[1]
    );
    assert!(requests[2].contains("answer is empty"), "{}", requests[2]);
}
