//! The text of `status`, whole.

use super::*;

fn server(name: &str, word: StateWord, command: &str, tools: &[&str]) -> ServerView {
    ServerView {
        name: name.into(),
        word,
        dialect_word: match word {
            StateWord::Connected => "CONNECTED",
            StateWord::Connecting => "CONNECTING",
            _ => "DISCONNECTED",
        },
        docker: command.starts_with("docker "),
        endpoint: ("Command", command.into()),
        working_directory: None,
        timeout_ms: None,
        why: None,
        second_connection: None,
        next_attempt: None,
        tools: tools
            .iter()
            .map(|name| ToolView {
                name: (*name).into(),
                description: format!("does {name}"),
            })
            .collect(),
        cached: false,
        is_brief: true,
        withheld: Vec::new(),
        facts: vec![("Process", "pid 7".into())],
    }
}

fn documents_example() -> StatusView {
    StatusView {
        servers: vec![
            ServerView {
                working_directory: Some("./mcp-servers/python".into()),
                timeout_ms: Some(15000),
                ..server(
                    "pythonTools",
                    StateWord::Connected,
                    "python -m my_mcp_server --port 8080",
                    &["calculate_sum", "file_analyzer", "data_processor"],
                )
            },
            ServerView {
                // Configured, and still not shown: only connected servers show these lines.
                working_directory: Some("./elsewhere".into()),
                timeout_ms: Some(1),
                why: Some(("Error", "Connection refused".into())),
                ..server(
                    "nodeServer",
                    StateWord::Disconnected,
                    "node dist/server.js --verbose",
                    &[],
                )
            },
            server(
                "dockerizedServer",
                StateWord::Connected,
                "docker run -i --rm -e API_KEY my-mcp-server:latest",
                &["docker__deploy", "docker__status"],
            ),
        ],
        discovery: Discovery::Completed,
    }
}

fn plain(view: &StatusView, detail: Detail) -> String {
    anstream::adapter::strip_str(&render(view, detail, None)).to_string()
}

#[test]
fn a_screen_wraps_the_names_of_tools_between_them_and_counts_those_past_sixty() {
    let names: Vec<_> = (0..62)
        .map(|number| format!("mcp__a__tool_{number}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let view = StatusView {
        servers: vec![server("a", StateWord::Connected, "run", &names)],
        discovery: Discovery::Completed,
    };
    let text =
        anstream::adapter::strip_str(&render(&view, Detail::default(), Some(40))).to_string();
    let lines: Vec<_> = text.lines().skip(4).collect();
    assert_eq!(
        &lines[..2],
        [
            "  Tools: mcp__a__tool_0, mcp__a__tool_1,",
            "    mcp__a__tool_2, mcp__a__tool_3,"
        ]
    );
    assert!(lines.iter().all(|line| line.len() <= 40), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "mcp__a__tool_58, mcp__a__tool_59, and 2 more (`switchboard tools a`) Discovery"
        ),
        "{text}"
    );
}

#[test]
fn many_servers_take_a_line_each_unless_their_document_prescribes_the_view() {
    let mut servers: Vec<_> = (1..=9)
        .map(|number| {
            server(
                &format!("s{number}"),
                StateWord::Connected,
                "run",
                &["a", "b"],
            )
        })
        .collect();
    servers[1] = ServerView {
        why: Some(("Error", "exited".into())),
        ..server("s2", StateWord::Disconnected, "run", &[])
    };
    servers[8].is_brief = false;
    let view = StatusView {
        servers,
        discovery: Discovery::Completed,
    };
    let text = plain(&view, Detail::default());
    let expected = "MCP Servers Status:\n\n📡 s1 (CONNECTED)  2 tools\n🔌 s2 (DISCONNECTED)\n  Error: exited\n📡 s3 (CONNECTED)  2 tools\n";
    assert!(text.starts_with(expected), "{text}");
    let end = "📡 s8 (CONNECTED)  2 tools\n\n`switchboard -v status` shows the details of each\n\n📡 s9 (CONNECTED)\n  Command: run\n  Tools: a, b\n\nDiscovery";
    assert!(text.contains(end), "{text}");
    let whole = plain(
        &view,
        Detail {
            verbose: true,
            ..Detail::default()
        },
    );
    assert_eq!(whole.matches("  Command: run\n").count(), 9, "{whole}");
}

#[test]
fn s2_46_the_documents_example_is_rendered_byte_for_byte() {
    let expected = "MCP Servers Status:

📡 pythonTools (CONNECTED)
  Command: python -m my_mcp_server --port 8080
  Working Directory: ./mcp-servers/python
  Timeout: 15000ms
  Tools: calculate_sum, file_analyzer, data_processor

🔌 nodeServer (DISCONNECTED)
  Command: node dist/server.js --verbose
  Error: Connection refused

🐳 dockerizedServer (CONNECTED)
  Command: docker run -i --rm -e API_KEY my-mcp-server:latest
  Tools: docker__deploy, docker__status

Discovery State: COMPLETED
";
    assert_eq!(plain(&documents_example(), Detail::default()), expected);
}

#[test]
fn s2_68_descriptions_are_shown_when_asked_for() {
    let view = StatusView {
        servers: vec![server("a", StateWord::Connected, "run", &["x"])],
        discovery: Discovery::Completed,
    };
    let expected = "MCP Servers Status:

📡 a (CONNECTED)
  Command: run
  Tools:
  - x
      does x

Discovery State: COMPLETED
";
    assert_eq!(
        plain(
            &view,
            Detail {
                descriptions: true,
                verbose: false
            }
        ),
        expected
    );
}

#[test]
fn s2_24_withheld_tools_are_shown_with_reasons_up_to_a_limit() {
    let check = |count: usize, expected: &str| {
        let withheld = (1..=count)
            .map(|number| {
                (
                    format!("t{number}"),
                    "its inputSchema is not an object".into(),
                )
            })
            .collect();
        let mut text = String::new();
        super::withheld(
            &mut text,
            &ServerView {
                withheld,
                ..server("a", StateWord::Connected, "run", &[])
            },
        );
        assert_eq!(text, expected);
    };
    let shown: String = (1..=5)
        .map(|number| format!("  Withheld: t{number} (its inputSchema is not an object)\n"))
        .collect();
    check(0, "");
    check(1, "  Withheld: t1 (its inputSchema is not an object)\n");
    check(5, &shown);
    check(
        7,
        &format!("{shown}  Withheld: 2 more (`switchboard tools a` says why)\n"),
    );
}

/// T12: a server that says several lines cannot make one look like ours, and cannot fill the
/// screen.
#[test]
fn t12_the_lines_of_one_fact_are_behind_a_bar_and_limited() {
    let check = |value: &str, expected: &str| {
        let mut text = String::new();
        fact(&mut text, "Instructions", value);
        assert_eq!(text, expected);
    };
    check("one line\n", "  Instructions: one line\n");
    check(
        "Hello\n\n  State: ready",
        "  Instructions:\n  │ Hello\n  │\n  │   State: ready\n",
    );
    let long = "x\n".repeat(MAX_FACT_LINES + 3);
    check(
        &long,
        &format!(
            "  Instructions:\n{}  │ … and 3 more lines\n",
            "  │ x\n".repeat(MAX_FACT_LINES)
        ),
    );
}

#[test]
fn s2_70_facts_are_shown_in_the_verbose_view_only() {
    let view = documents_example();
    assert!(!plain(&view, Detail::default()).contains("pid"));
    assert!(
        plain(
            &view,
            Detail {
                descriptions: false,
                verbose: true
            }
        )
        .contains("\n  Process: pid 7\n")
    );
}
