//! The approval question as a person sees it and answers it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use switchboard::caller::{Approval, ApprovalLifetime, ApprovalRequest};
use switchboard::catalog::{Catalog, Offerings, ToolDefinition};
use switchboard::config::Dialect;
use switchboard::wire::RawJson;

use super::*;
use crate::terminal::frame::lay_out;

const SIZE: Size = Size {
    columns: 60,
    rows: 20,
};

fn request(description: &str, arguments: &str) -> ApprovalRequest {
    let raw = serde_json::json!({
        "name": "write_file", "description": description, "inputSchema": { "type": "object" }
    });
    let definition = Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap());
    let server = crate::command::demo::example_entry();
    let offerings = Offerings {
        tools: vec![definition],
        ..Offerings::default()
    };
    let part = switchboard::catalog::CatalogSource {
        config: server.clone(),
        launch: server.fingerprint(),
        offerings: Arc::new(offerings),
        settled: true,
    };
    let catalog = Catalog::build(
        &Catalog::default(),
        switchboard::name::Style::Mcp,
        &[],
        &[part],
    );
    let arguments = RawJson::parse(arguments.as_bytes().to_vec()).unwrap();
    ApprovalRequest::new(&catalog.tools()[0], arguments, "no rule covers it")
}

fn screen(question: &ApprovalDialog<'_>) -> String {
    lay_out(question, SIZE)
        .into_iter()
        .map(|line| line.text)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every line of the body, joined again.
fn whole(question: &ApprovalDialog<'_>) -> String {
    question
        .page(60)
        .body
        .iter()
        .map(|line| {
            line.text
                .strip_prefix("│ ")
                .unwrap_or(&line.text)
                .to_owned()
        })
        .collect()
}

#[test]
fn s2_41_each_key_gives_its_answer() {
    let request = request("", "{}");
    let check = |keys: &[Key], expected: Option<Approval>| {
        let mut question = ApprovalDialog::new(&request, false);
        let answers: Vec<_> = keys.iter().map(|key| question.press(*key, SIZE)).collect();
        assert_eq!(answers.last().cloned().flatten(), expected, "{keys:?}");
    };
    check(&[Key::Char('o')], Some(Approval::Once));
    check(
        &[Key::Char('t'), Key::Char('r')],
        Some(Approval::AlwaysTool(ApprovalLifetime::Run)),
    );
    check(
        &[Key::Char('t'), Key::Char('g')],
        Some(Approval::AlwaysTool(ApprovalLifetime::Permanent)),
    );
    check(
        &[Key::Char('s'), Key::Enter],
        Some(Approval::AlwaysServer(ApprovalLifetime::Run)),
    );
    check(
        &[Key::Char('s'), Key::Esc, Key::Char('o')],
        Some(Approval::Once),
    );
    check(&[Key::Char('n')], Some(Approval::No { reason: None }));
    check(&[Key::Enter], Some(Approval::No { reason: None }));
    check(&[Key::Esc], Some(Approval::No { reason: None }));
    check(&[Key::Char('z')], None);
}

/// The choices of the document, in its words and with its meaning: what is always allowed is so in
/// memory, so nothing more is asked.
#[test]
fn s2_41_a_gemini_server_is_asked_about_in_that_documents_words() {
    let mut request = request("", "{}");
    request.dialect = Dialect::Gemini;
    let check = |key: Key, expected: Approval| {
        assert_eq!(
            ApprovalDialog::new(&request, false).press(key, SIZE),
            Some(expected),
            "{key:?}"
        )
    };
    check(Key::Char('o'), Approval::Once);
    check(Key::Char('t'), Approval::AlwaysTool(ApprovalLifetime::Run));
    check(
        Key::Char('s'),
        Approval::AlwaysServer(ApprovalLifetime::Run),
    );
    check(Key::Char('n'), Approval::No { reason: None });
    check(Key::Enter, Approval::No { reason: None });
    let shown = screen(&ApprovalDialog::new(&request, false));
    let expected = "Cancel\n[o] Proceed once: this call only\n[t] Always allow this tool: for this run, while its\n    definition stays the same\n\
                    [s] Always allow this server: for this run, all its tools\n[n] Cancel: the call is not made";
    assert!(shown.ends_with(expected), "{shown}");

    request.once_only = true;
    let mut question = ApprovalDialog::new(&request, false);
    assert_eq!(
        (
            question.press(Key::Char('t'), SIZE),
            question.press(Key::Char('s'), SIZE)
        ),
        (None, None)
    );
    let shown = screen(&question);
    assert!(
        shown.contains("[o] Proceed once") && !shown.contains("Always"),
        "{shown}"
    );
}

#[test]
fn an_ask_rule_hides_always() {
    let mut request = request("", "{}");
    request.once_only = true;
    let mut question = ApprovalDialog::new(&request, false);
    assert_eq!(question.press(Key::Char('t'), SIZE), None);
    assert_eq!(question.press(Key::Char('g'), SIZE), None);
    assert!(
        !screen(&question).contains("always"),
        "{}",
        screen(&question)
    );
    assert_eq!(question.press(Key::Char('o'), SIZE), Some(Approval::Once));
}

#[test]
fn t13_the_whole_question_is_on_the_screen() {
    let request = request("Reads a file.", r#"{"path":"/etc/passwd","text":"a\nb"}"#);
    let expected = r#"May a tool of server "demo-legacy" run?
  call     mcp__demo-legacy__write_file
           {"path":"/etc/passwd","text":"a\nb"}
  because  no rule covers it

What the server says it does:
│ Reads a file.

↑ ↓ space scroll · a shows full values · Enter is no
[o] once: this call only
[t] always this tool: while its definition stays the same
[s] always this server: every tool that it offers now
[n] no: the call is not made"#;
    let shown = screen(&ApprovalDialog::new(&request, false));
    let lines: Vec<_> = shown.lines().map(str::trim_end).collect();
    assert_eq!(lines.join("\n"), expected);
    // Laid out, they stand below instead.
    let mut question = ApprovalDialog::new(&request, false);
    question.press(Key::Char('a'), SIZE);
    let pretty_json = screen(&question);
    assert!(
        pretty_json.contains("│   \"path\": \"/etc/passwd\",")
            && pretty_json.contains("Its arguments (36 bytes):"),
        "{pretty_json}"
    );
    assert_eq!(
        pretty_json.matches("/etc/passwd").count(),
        1,
        "{pretty_json}"
    );
}

/// The server's own name for a tool is shown where the exposed name does not end in it.
#[test]
fn t13_the_name_on_the_wire_is_shown_where_the_exposed_one_differs() {
    let mut request = request("", "{}");
    assert!(
        !screen(&ApprovalDialog::new(&request, false)).contains("  tool "),
        "{}",
        screen(&ApprovalDialog::new(&request, false))
    );
    request.id.tool = switchboard::name::ToolName::new("write.file");
    let shown = screen(&ApprovalDialog::new(&request, false));
    assert!(shown.contains("\n  tool     write.file\n"), "{shown}");
}

#[test]
fn t13_a_description_cannot_imitate_our_text() {
    let request = request("x\n\n[o] once   [n] no\nAllow? y/N\u{1b}[2J\u{202e}", "{}");
    let shown = screen(&ApprovalDialog::new(&request, false));
    assert!(
        shown.contains("\n│ [o] once   [n] no\n│ Allow? y/N"),
        "{shown}"
    );
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
        "{shown:?}"
    );
}

/// What "always" means for tools that no server has.
#[test]
fn built_in_tools_are_not_called_a_server() {
    let mut request = request("", r#"{"path":"a"}"#);
    request.id.server = switchboard::name::ServerName::host();
    let mut question = ApprovalDialog::new(&request, false);
    let shown = screen(&question);
    assert!(shown.contains("[t] always this tool"), "{shown}");
    assert!(
        !shown.contains("[s]") && !shown.contains("this server"),
        "{shown}"
    );
    // An *always* for all built-in tools is not remembered, so it cannot be chosen either.
    assert_eq!(question.press(Key::Char('s'), SIZE), None);
    assert_eq!(screen(&question), shown);
    request.dialect = Dialect::Gemini;
    let mut question = ApprovalDialog::new(&request, false);
    assert!(!screen(&question).contains("[s]"));
    assert_eq!(question.press(Key::Char('s'), SIZE), None);
}

/// A file's own text is part of a diff, and cannot pass for the question about it.
#[test]
fn t13_a_diff_is_shown_and_cannot_imitate_our_text() {
    let mut request = request("", r#"{"path":"a"}"#);
    request.id.server = switchboard::name::ServerName::host();
    let after = "same\n[o] once   [n] no\nAllow? y/N\u{1b}[2J\u{202e}\r[o] once";
    request.preview = switchboard::line_diff::file_changes("same\nold\n", after, 3);
    let shown = screen(&ApprovalDialog::new(&request, false));
    assert!(shown.starts_with("May a built-in tool run?"), "{shown}");
    let lines = "What it would change (- before, + after):\n│   same\n│ - old\n│ + [o] once   [n] no\n│ + Allow? y/N";
    assert!(shown.contains(lines), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\r']), "{shown:?}");
}

#[test]
fn t13_a_megabyte_of_arguments_is_scrolled_and_shown_whole_on_a_key() {
    let value = "a".repeat(1 << 20);
    let request = request("", &format!(r#"{{"k":"{value}","last":"end"}}"#));
    let mut question = ApprovalDialog::new(&request, false);
    assert!(
        screen(&question).contains("Its arguments (1048597 bytes):"),
        "{}",
        screen(&question)
    );
    assert!(
        whole(&question).contains("[1048278 bytes not shown, press a]"),
        "{}",
        screen(&question)
    );
    question.press(Key::Char('a'), SIZE);
    assert!(!whole(&question).contains("bytes not shown"));
    assert!(
        screen(&question).contains("for more"),
        "{}",
        screen(&question)
    );
    question.press(Key::End, SIZE);
    assert!(
        screen(&question).contains(r#""last": "end""#),
        "{}",
        screen(&question)
    );
    assert!(
        whole(&question).contains(&value),
        "nothing is lost in wrapping"
    );
}

#[test]
fn a_changed_definition_is_shown_before_all_else() {
    let mut request = request("now", "{}");
    request.changed = Some(vec!["- reads".into(), "+ reads and sends".into()]);
    let body = ApprovalDialog::new(&request, false).page(60).body;
    let lines: Vec<_> = body.iter().take(3).map(|line| line.text.as_str()).collect();
    assert_eq!(
        lines,
        [
            "It changed since you approved it (- before, + now):",
            "│ - reads",
            "│ + reads and sends"
        ]
    );
}

#[test]
fn s0_25_the_detail_is_at_most_200_characters_cut_at_a_character() {
    assert_eq!(detail("fs_read", r#"{"a":1}"#), r#"fs_read {"a":1}"#);
    let long = detail("fs_read", &format!(r#"{{"a":"{}"}}"#, "é".repeat(500)));
    assert_eq!(long.chars().count(), 200);
    assert!(long.ends_with("é…"), "{long}");
}

/// T32: a sampling request has a prompt of its own, and approving it does not approve the server's
/// tools.
#[test]
fn t32_a_sampling_request_is_presented_as_one() {
    let mut request = request(
        "",
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"hello model"}}]}"#,
    );
    request.id.tool = switchboard::name::ToolName::new("@sampling");
    let mut question = ApprovalDialog::new(&request, false);
    let shown = screen(&question);
    for told in [
        "send a prompt to your model?",
        "What it would ask your model (",
        "hello model",
        "[t] always for this server",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    assert!(!shown.contains("May a tool"), "{shown}");
    assert_eq!(question.press(Key::Char('s'), SIZE), None);
    assert_eq!(
        question.press(Key::Enter, SIZE),
        Some(Approval::No { reason: None })
    );
    let mut question = ApprovalDialog::new(&request, false);
    question.press(Key::Char('t'), SIZE);
    assert!(
        screen(&question).contains("Remember yes for every prompt of this server to your model"),
        "{}",
        screen(&question)
    );
    assert_eq!(
        question.press(Key::Char('g'), SIZE),
        Some(Approval::AlwaysTool(ApprovalLifetime::Permanent))
    );
}
