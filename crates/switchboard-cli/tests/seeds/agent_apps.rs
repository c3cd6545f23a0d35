//! Agent Apps: YAML with `metadata.mcp`, a file or the head of a Markdown file, given with `-c`.

use crate::machine::Machine;

/// The document's example as it stands but for the address of the remote server; once as a file, once as the head of a Markdown file.
#[test]
fn s3_21_the_documents_example_is_shown_listed_and_called() {
    let machine = Machine::new().variable("GITHUB_TOKEN", "a-token-of-the-person");
    let text = include_str!("../../../switchboard/tests/seeds/agent-apps/agent.yaml")
        .replace("https://mcp.example.com/tools", &format!("{}/mcp", machine.address()));
    let machine =
        machine.file("skill.yaml", &text).file("SKILL.md", &format!("---\nname: a skill\n{text}---\n\n# What it does\n"));
    insta::assert_snapshot!(machine.transcript(&[
        "-c skill.yaml status",
        "-c skill.yaml tools filesystem",
        "-c skill.yaml call filesystem-read-file path=x --yes",
        "-c SKILL.md call github-create-issue --yes",
        "-c SKILL.md call remote-tools-echo message=hello --yes",
    ]));
}
