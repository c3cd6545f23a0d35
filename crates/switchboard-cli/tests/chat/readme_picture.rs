//! The picture in the README: the real screen of a conversation, as docs/chat.svg.

use std::fmt::Write;

use crate::support::Home;
use crate::{SHIFT_TAB, chat, prompt};

/// Set to rewrite the picture.
const UPDATE: &str = "UPDATE_PICTURE";

const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/chat.svg");

#[test]
fn the_picture_in_the_readme_is_the_real_screen() {
    let home = Home::with_demo("");
    let mut terminal = chat(&home, &["--model", "demo", "--no-builtin-tools"]);
    terminal.send("call mcp__demo__add {\"a\":2,\"b\":3}\r");
    terminal.wait_for("[o] once");
    terminal.send("o");
    terminal.wait_for("answered: {\"sum\":5}");
    prompt(&terminal);
    terminal.send("call mcp__demo__hang_up {}\r");
    terminal.wait_for("[w] no, and tell the model why");
    terminal.send("w");
    terminal.wait_for("Why not?");
    terminal.send("keep the line\r");
    terminal.wait_for("failed: The call was not allowed");
    prompt(&terminal);
    terminal.send("/permissions demo/add\r");
    terminal.wait_for("demo/add  asked");
    prompt(&terminal);
    terminal.send(SHIFT_TAB);
    let screen = terminal.wait_for("accept-edits >");
    // How long a turn took differs from run to run.
    let lines: Vec<_> = screen
        .lines()
        .filter(|line| !line.contains(" tokens in, "))
        .collect();
    let drawn = svg(&lines);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(PICTURE, &drawn).unwrap();
    }
    let stored = std::fs::read_to_string(PICTURE).unwrap_or_default();
    assert_eq!(stored, drawn, "{UPDATE}=1 writes docs/chat.svg anew");
    terminal.send("\x04");
    assert_eq!(terminal.end().code, 0);
}

/// Lines of a screen of 80 columns as a picture.
fn svg(lines: &[&str]) -> String {
    let height = 20 * lines.len() + 24;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"700\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"14\">\n\
         <rect width=\"700\" height=\"{height}\" rx=\"6\" fill=\"#1e1e1e\"/>\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let colour = match line.trim_start().chars().next() {
            Some('●') => "#ffffff",
            Some('│') => "#9cdcfe",
            Some('>') => "#dcdcaa",
            _ if line.contains("denied:") => "#f48771",
            _ => "#cccccc",
        };
        let line = line.replace('&', "&amp;").replace('<', "&lt;");
        let y = 20 * number + 24;
        writeln!(
            text,
            "<text x=\"12\" y=\"{y}\" fill=\"{colour}\" xml:space=\"preserve\">{line}</text>"
        )
        .unwrap();
    }
    text + "</svg>\n"
}
