//! A3S Code: an HCL file with `mcp_servers` blocks, given with `-c`.

use crate::machine::Machine;

/// The document's three examples, each as it stands; the address of the remote one is a server on this machine.
#[test]
fn s1_31_the_documents_files_are_shown_listed_and_called() {
    let machine = Machine::new().variable("GITHUB_TOKEN", "a-token-of-the-person");
    let remote = include_str!("a3s/remote.hcl").replace("https://mcp.example.com", machine.address());
    let machine = machine
        .file("stdio.hcl", include_str!("a3s/stdio.hcl"))
        .file("remote.hcl", &remote)
        .file("reference.hcl", include_str!("a3s/reference.hcl"));
    insta::assert_snapshot!(machine.transcript(&[
        "-c stdio.hcl status",
        "-c stdio.hcl tools",
        "-c stdio.hcl call mcp__filesystem__read_file path=/tmp/x --yes",
        "-c stdio.hcl call mcp__github__create_issue --yes",
        "-c remote.hcl call mcp__remote-tools__echo message=hello --yes",
        "-c reference.hcl status",
    ]));
}
