//! The line editor and the screen: completion, `$EDITOR`, pastes, narrow screens, no colours.

use std::os::unix::fs::PermissionsExt;

use crate::console::{CTRL_C, clear, enter, enter_until, paste, started};
use crate::support::{Home, PROGRAM};
use crate::{ALLOWED, chat, chat_sized, leave, prompt};

const CTRL_O: &str = "\x0f";
const CTRL_U: &str = "\x15";

#[test]
fn tab_completes_commands_servers_tools_prompts_resources_and_files() {
    let home = Home::with_demo(ALLOWED);
    std::fs::create_dir(home.path("project/notes")).unwrap();
    std::fs::write(home.path("project/notes/today.txt"), "x").unwrap();
    let mut terminal = chat(&home, &["--model", "demo"]);
    enter_until(&mut terminal, "/mcp", |screen| {
        screen.contains("CONNECTED)")
    });
    clear(&mut terminal);
    let cases = [
        ("/comp", "> /compact"),
        ("/mcp rest", "> /mcp restart"),
        ("/mcp logs d", "> /mcp logs demo"),
        ("/tools demo/ad", "> /tools demo/add"),
        ("/call demo/ec", "> /call demo/echo"),
        ("/call demo/echo me", "> /call demo/echo message="),
        (
            "/permissions revoke demo/ad",
            "> /permissions revoke demo/add",
        ),
        ("/mode pl", "> /mode plan"),
        ("/revi", "> /review"),
        ("/review --la", "> /review --language="),
        ("read @demo:demo://te", "> read @demo:demo://text"),
        ("read @no", "> read @notes/"),
        ("read @notes/to", "> read @notes/today.txt"),
    ];
    for (typed, completed) in cases {
        terminal.send(&format!("{typed}\t"));
        terminal.wait_for(completed);
        // A menu that is still open is closed first.
        terminal.send(CTRL_U);
        terminal.wait("an empty line", |screen| screen.trim_end().ends_with('>'));
    }
    // Several are listed, with what each does.
    terminal.send("/mcp re\t");
    let screen = terminal.wait_for("restart SERVER");
    assert!(screen.contains("read the configuration again"), "{screen}");
    terminal.send(CTRL_C);
    leave(terminal);
}

/// An editor with arguments; and ones that cannot be started, which end nothing.
#[test]
fn an_editor_may_have_arguments_and_its_failure_is_a_notice() {
    let home = Home::with_demo(ALLOWED);
    let editor = home.path("edit");
    let script = "#!/bin/sh\nprintf 'wrote %s' \"$1\" > \"$2\"\n";
    std::fs::write(&editor, script).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let start = |value: &str| {
        let variable = format!("EDITOR={value}");
        let words = [
            "env", "VISUAL=", &variable, PROGRAM, "chat", "--model", "demo",
        ];
        started(home.spawn_in_terminal(&words))
    };
    let mut terminal = start(&format!("{} --wait", editor.display()));
    terminal.send(CTRL_O);
    terminal.wait_for("> wrote --wait");
    terminal.send(CTRL_U);
    leave(terminal);
    let mut terminal = start("/no/such/editor -f");
    terminal.send(&format!("kept{CTRL_O}"));
    terminal.wait_for("the editor failed: No such file");
    terminal.wait_for("> kept");
    terminal.send(CTRL_U);
    leave(terminal);
}

#[test]
fn a_message_is_written_in_the_editor_and_pasted_lines_are_one_message() {
    let home = Home::with_demo(ALLOWED);
    let editor = home.path("my editor");
    let script = "#!/bin/sh\nprintf 'call mcp__demo__add {\"a\":20,\"b\":3}' > \"$1\"\n";
    std::fs::write(&editor, script).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let variable = format!("EDITOR={}", editor.display());
    let words = ["env", &variable, PROGRAM, "chat", "--model", "demo"];
    let mut terminal = started(home.spawn_in_terminal(&words));
    terminal.send(CTRL_O);
    terminal.wait_for("> call mcp__demo__add");
    terminal.send("\r");
    terminal.wait_for("answered: {\"sum\":23}");
    prompt(&terminal);
    // Two calls of one turn, written with wide characters.
    clear(&mut terminal);
    paste(
        &mut terminal,
        &[
            "call mcp__demo__echo {\"message\":\"漢字 é\"}",
            "",
            "call mcp__demo__add {\"a\":1,\"b\":1}",
        ],
    );
    let screen = terminal.wait_for("mcp__demo__add answered: {\"sum\":2}");
    assert!(
        screen.contains("mcp__demo__echo answered: 漢字 é"),
        "{screen}"
    );
    prompt(&terminal);
    // The history has both, for the next conversation, and only its owner can read it.
    let history = home.path("state/switchboard/chat_history");
    let mode = std::fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    leave(terminal);
    let mut terminal = chat(&home, &["--model", "demo"]);
    terminal.send("\x1b[A");
    terminal.wait_for("call mcp__demo__add {\"a\":1,\"b\":1}");
    terminal.send(CTRL_C);
    leave(terminal);
}

#[test]
fn a_narrow_screen_is_used_and_a_new_width_too() {
    let home = Home::with_demo(ALLOWED);
    let mut terminal = chat_sized(&home, &["--model", "demo"], 60, 36);
    terminal.send("hello\r");
    // Between words, not within them.
    terminal.wait_for("This is the demo model: a script,\nnot an AI model.");
    prompt(&terminal);
    terminal.send("/help\r");
    terminal.wait_for("/fork\n    continue in a copy of the\n");
    prompt(&terminal);
    terminal.resize(60, 120);
    terminal.send("/help\r");
    terminal.wait_for("/fork                            continue in a copy of the conversation\n");
    leave(terminal);
}

#[test]
fn without_colours_nothing_is_coloured() {
    let home = Home::with_demo("");
    let words = ["env", "NO_COLOR=1", PROGRAM, "chat", "--model", "demo"];
    let mut terminal = started(home.spawn_in_terminal(&words));
    terminal.send("call mcp__demo__echo {\"message\":\"**bold**\"}\r");
    terminal.wait_for("[o] once");
    terminal.send("o");
    terminal.wait_for("answered: bold");
    enter(&mut terminal, "/nonsense");
    let bytes = terminal.bytes();
    leave(terminal);
    let text = String::from_utf8_lossy(&bytes);
    let sequences = text.split("\u{1b}[").skip(1);
    let styles = sequences.filter_map(|rest| rest.split_once('m').map(|(style, _)| style));
    let is_colour = |style: &str| {
        let numbers = style.split(';').map(str::parse::<u16>);
        let numbers: Result<Vec<_>, _> = numbers.collect();
        numbers.is_ok_and(|numbers| numbers.iter().any(|number| (30..=107).contains(number)))
    };
    let coloured: Vec<_> = styles.filter(|style| is_colour(style)).collect();
    assert!(coloured.is_empty(), "{coloured:?}");
}
