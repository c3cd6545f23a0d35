//! A3S Code: an HCL file with `mcp_servers` blocks, given with `-c`.

use crate::machine::Machine;

/// The document's three examples, each as it stands; the address of the remote one is a server on this machine.
#[test]
fn s1_31_the_documents_files_are_shown_listed_and_called() {
    let machine = Machine::new().variable("GITHUB_TOKEN", "a-token-of-the-person");
    let remote =
        include_str!("../../../switchboard/tests/seeds/a3s/remote.hcl").replace("https://mcp.example.com", machine.address());
    let machine = machine
        .file("stdio.hcl", include_str!("../../../switchboard/tests/seeds/a3s/stdio.hcl"))
        .file("remote.hcl", &remote)
        .file("reference.hcl", include_str!("../../../switchboard/tests/seeds/a3s/reference.hcl"));
    insta::assert_snapshot!(machine.transcript(&[
        "-c stdio.hcl status",
        "-c stdio.hcl tools",
        "-c stdio.hcl call mcp__filesystem__read_file path=/tmp/x --yes",
        "-c stdio.hcl call mcp__github__create_issue --yes",
        "-c remote.hcl call mcp__remote-tools__echo message=hello --yes",
        "-c reference.hcl status",
    ]));
}

/// Rules in the file decide calls: S1-17 as for any tool, S1-18 a whole server, S1-19 one tool, S1-28 and no other server whose name
/// begins like it.
#[test]
fn s1_17_18_19_rules_of_the_file_decide_calls() {
    let block = |name: &str| format!("mcp_servers {{\n  name = \"{name}\"\n  command = \"mcp-server-filesystem\"\n}}\n");
    let rules = "permissions {\n  allow = [\"mcp__filesystem\", \"mcp__other__read_file\"]\n}\n";
    let text = [block("filesystem"), block("filesystem2"), block("other"), rules.to_owned()].concat();
    let machine = Machine::new().file("agent.hcl", &text);
    let check = |id: &str, tool: &str, expected: Option<i32>| {
        let ran = machine.run(&["-c", "agent.hcl", "call", tool, "--args", "{\"path\": \"x\"}"]);
        assert_eq!(ran.code, expected, "{id} {tool}: {ran:?}");
    };
    check("S1-18", "mcp__filesystem__read_file", Some(0));
    check("S1-18", "mcp__filesystem__write_file", Some(0));
    check("S1-28", "mcp__filesystem2__read_file", Some(5));
    check("S1-19", "mcp__other__read_file", Some(0));
    check("S1-19", "mcp__other__write_file", Some(5));
}
