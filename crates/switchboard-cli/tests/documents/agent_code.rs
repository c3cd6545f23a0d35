//! agent-code: TOML with `[mcp_servers.NAME]`, given with `-c`.

use crate::machine::Machine;

/// The document's four examples; joined into one file, its allow list keeps `remote` from
/// connecting.
#[test]
fn s4_28_the_documents_examples_alone_and_joined() {
    let machine = Machine::new();
    let remote = include_str!("../../../switchboard-config/tests/seeds/agent-code/sse.toml")
        .replace("http://localhost:8080", machine.address());
    let (github, security, permissions) = (
        include_str!("../../../switchboard-config/tests/seeds/agent-code/stdio.toml"),
        include_str!("../../../switchboard-config/tests/seeds/agent-code/security.toml"),
        include_str!("../../../switchboard-config/tests/seeds/agent-code/permissions.toml"),
    );
    let joined = [github, &remote, security, permissions].join("\n");
    let machine = machine
        .file("github.toml", github)
        .file("remote.toml", &remote)
        .file("security.toml", security)
        .file("permissions.toml", permissions)
        .file("joined.toml", &joined);
    insta::assert_snapshot!(machine.transcript(&[
        "-c github.toml status",
        "-c remote.toml call mcp__remote__echo message=hello --yes",
        "-c security.toml status",
        "-c permissions.toml status",
        "-c joined.toml status",
        "-c joined.toml tools",
        "-c joined.toml call mcp__github__create_issue",
        "-c joined.toml call mcp__remote__echo message=hello --yes",
        "-c joined.toml call ListMcpResources --yes",
    ]));
}
