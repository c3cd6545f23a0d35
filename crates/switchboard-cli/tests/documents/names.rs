//! The names of tools in the documents' own files: how they are listed, which are withheld, and
//! which server a name starts.

use serde_json::{Value, json};
use switchboard_testkit::{Chaos, Step};

use crate::machine::Machine;

/// The files of the dialects that spell `mcp__server__tool`, each with the one server `srv`, whose
/// command is `srv`.
const NATIVE_SPELLING: [(&str, &str); 3] = [
    (
        "agent.hcl",
        "mcp_servers {\n  name = \"srv\"\n  command = \"srv\"\n  transport = \"stdio\"\n}\n",
    ),
    ("agent-code.toml", "[mcp_servers.srv]\ncommand = \"srv\"\n"),
    ("switchboard.toml", "[servers.srv]\ncommand = \"srv\"\n"),
];

fn machine(server: &Chaos) -> Machine {
    let machine = NATIVE_SPELLING
        .iter()
        .fold(Machine::new(), |machine, (name, text)| {
            machine.file(name, text)
        });
    machine.stand_in("srv", server);
    machine
}

fn names(listed: &Value) -> Vec<&str> {
    listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

/// S1-16, S4-03: `mcp__srv__a.b` is what is listed and what is called; a vendor's name for it can
/// be called, too.
#[test]
fn s1_16_s4_03_a_tool_is_listed_and_called_in_the_documents_spelling() {
    let machine = machine(
        &Chaos::new()
            .tool("a.b", Step::text("dotted"))
            .tool("a_b", Step::text("plain")),
    );
    for (file, _) in NATIVE_SPELLING {
        let listed = machine.run(&["-c", file, "tools", "--json"]).json();
        let servers_own: Vec<_> = names(&listed)
            .into_iter()
            .filter(|name| name.starts_with("mcp__"))
            .collect();
        assert_eq!(servers_own, ["mcp__srv__a.b", "mcp__srv__a_b"], "{file}");
        let call = |name: &str| machine.run(&["-c", file, "call", name, "--yes"]);
        assert_eq!(
            (
                call("mcp__srv__a.b").stdout.trim(),
                call("mcp__srv__a_b").stdout.trim()
            ),
            ("dotted", "plain"),
            "{file}"
        );
        let offered = machine
            .run(&["-c", file, "tools", "srv", "--vendor", "openai"])
            .json();
        let projected: Vec<_> = offered
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert!(
            projected[0].starts_with("mcp__srv__a_b_") && projected[1] == "mcp__srv__a_b",
            "{file}: {projected:?}"
        );
        assert_eq!(
            call(projected[0]).stdout.trim(),
            "dotted",
            "{file}: {projected:?}"
        );
    }
}

/// S1-21: in capitals or not.
#[test]
fn s1_21_a_built_in_name_in_other_letters_is_withheld_with_the_reason() {
    let machine = machine(
        &Chaos::new()
            .tool("bash", Step::text("x"))
            .tool("READ", Step::text("x"))
            .tool("fine", Step::text("x")),
    );
    let listed = machine.run(&["-c", "agent.hcl", "tools", "--json"]).json();
    assert_eq!(names(&listed), ["mcp__srv__fine"]);
    let reason = "its name is that of a built-in tool";
    let withheld =
        ["bash", "READ"].map(|tool| json!({"server": "srv", "tool": tool, "reason": reason}));
    assert_eq!(listed["withheld"], json!(withheld));
    let ran = machine.run(&["-c", "agent.hcl", "call", "mcp__srv__bash", "--yes"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains(reason),
        "{ran:?}"
    );
}

/// A tool of a server's own app is shown to a person with the reason, and offered to no model.
#[test]
fn a_tool_that_is_for_an_app_only_is_listed_with_the_reason_and_offered_to_no_model() {
    let server = Chaos::new()
        .tool("show", Step::text("shown"))
        .tool("refresh", Step::text("refreshed"))
        .define("refresh", "_meta", r#"{"ui":{"visibility":["app"]}}"#);
    let machine = machine(&server);
    let listed = machine
        .run(&["-c", "switchboard.toml", "tools", "--json"])
        .json();
    assert_eq!(names(&listed), ["mcp__srv__show"]);
    let reason = "it is for its server's own app, not for models (_meta.ui.visibility)";
    assert_eq!(
        listed["withheld"],
        json!([{"server": "srv", "tool": "refresh", "reason": reason}])
    );
    let shown = machine.run(&["-c", "switchboard.toml", "tools"]);
    assert!(
        shown.stdout.contains("refresh") && shown.stdout.contains("own app"),
        "{shown:?}"
    );
    for vendor in ["gemini", "openai", "anthropic"] {
        let offered = machine
            .run(&["-c", "switchboard.toml", "tools", "--vendor", vendor])
            .stdout;
        assert!(
            offered.contains("mcp__srv__show") && !offered.contains("refresh"),
            "{offered}"
        );
    }
    let ran = machine.run(&["-c", "switchboard.toml", "call", "srv/refresh", "--yes"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains(reason),
        "{ran:?}"
    );
}

/// S3-08: on a fresh machine a call by the document's name starts the server of that name and no
/// other, lazy or not.
#[test]
fn s3_08_a_call_by_the_documents_name_on_a_fresh_state_starts_only_that_server() {
    let core_agent = json!({"version": 1, "servers": {
        "one": {"transport": "stdio", "command": "one"}, "two": {"transport": "stdio", "command": "two"}}});
    let block = |name: &str| {
        format!(
            "mcp_servers {{\n  name = \"{name}\"\n  command = \"{name}\"\n  transport = \"stdio\"\n}}\n"
        )
    };
    let files = [
        (
            "apps.yaml",
            "metadata:\n  mcp:\n    one:\n      command: one\n    two:\n      command: two\n"
                .to_owned(),
            "one-do",
        ),
        ("agent.hcl", block("one") + &block("two"), "mcp__one__do"),
        (
            "agent-code.toml",
            "[mcp_servers.one]\ncommand = \"one\"\n[mcp_servers.two]\ncommand = \"two\"\n"
                .to_owned(),
            "mcp__one__do",
        ),
        ("core.json", core_agent.to_string(), "one_do"),
        (
            "switchboard.toml",
            "[servers.one]\ncommand = \"one\"\n[servers.two]\ncommand = \"two\"\n".to_owned(),
            "mcp__one__do",
        ),
    ];
    for (file, text, tool) in files {
        let machine = Machine::new().file(file, &text);
        for name in ["one", "two"] {
            machine.counted(name, &Chaos::new().tool("do", Step::text(name)));
        }
        let ran = machine.run(&["-c", file, "call", tool, "--yes"]);
        assert_eq!(
            (ran.code, ran.stdout.trim()),
            (Some(0), "one"),
            "{file}: {ran:?}"
        );
        assert_eq!(
            (machine.starts("one"), machine.starts("two")),
            (1, 0),
            "{file}"
        );
    }
}
