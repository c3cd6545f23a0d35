//! Agent Apps: YAML with `metadata.mcp`, a file or the head of a Markdown file, given with `-c`.

use crate::machine::Machine;

/// The document's example as it stands but for the address of the remote server; once as a file,
/// once as the head of a Markdown file.
#[test]
fn s3_21_the_documents_example_is_shown_listed_and_called() {
    let machine = Machine::new().variable("GITHUB_TOKEN", "a-token-of-the-person");
    let text = include_str!("../../../switchboard-config/tests/seeds/agent-apps/agent.yaml")
        .replace(
            "https://mcp.example.com/tools",
            &format!("{}/mcp", machine.address()),
        );
    let machine = machine.file("skill.yaml", &text).file(
        "SKILL.md",
        &format!("---\nname: a skill\n{text}---\n\n# What it does\n"),
    );
    insta::assert_snapshot!(machine.transcript(&[
        "-c skill.yaml status",
        "-c skill.yaml tools filesystem",
        "-c skill.yaml call filesystem-read-file path=x --yes",
        "-c SKILL.md call github-create-issue --yes",
        "-c SKILL.md call remote-tools-echo message=hello --yes",
    ]));
}

/// The document has no gate, so a tool of a file that the person gives is called without a
/// question, unless some file configures permissions.
#[test]
fn s3_13_tools_of_a_given_file_are_called_without_a_gate_unless_a_file_configures_one() {
    let machine = Machine::new()
        .file(
            "skill.yaml",
            "metadata:\n  mcp:\n    filesystem:\n      command: mcp-server-filesystem\n",
        )
        .file("own.toml", "[permissions]\nmode = \"ask\"\n")
        .file(
            "rule.toml",
            "[permissions]\ndeny = [\"filesystem/write_file\"]\n",
        );
    let read = ["call", "filesystem-read-file", "path=x"];
    let ran = machine.run(&[&["-c", "skill.yaml"], &read[..]].concat());
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "hello from the disk\n"),
        "{ran:?}"
    );
    for gate in ["own.toml", "rule.toml"] {
        let asked = machine.run(&[&["-c", "skill.yaml", "-c", gate], &read[..]].concat());
        assert_eq!(asked.code, Some(5), "{gate}: {asked:?}");
    }
}
