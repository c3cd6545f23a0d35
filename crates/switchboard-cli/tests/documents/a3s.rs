//! A3S Code: an HCL file with `mcp_servers` blocks, given with `-c`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::machine::Machine;

/// The document's three examples, unchanged, except for the address of the remote server, which is on
/// this machine.
#[test]
fn s1_31_the_documents_files_are_shown_listed_and_called() {
    let machine = Machine::new().variable("GITHUB_TOKEN", "a-token-of-the-person");
    let remote = include_str!("../../../switchboard-config/tests/seeds/a3s/remote.hcl")
        .replace("https://mcp.example.com", machine.address());
    let machine = machine
        .file(
            "stdio.hcl",
            include_str!("../../../switchboard-config/tests/seeds/a3s/stdio.hcl"),
        )
        .file("remote.hcl", &remote)
        .file(
            "reference.hcl",
            include_str!("../../../switchboard-config/tests/seeds/a3s/reference.hcl"),
        );
    insta::assert_snapshot!(machine.transcript(&[
        "-c stdio.hcl status",
        "-c stdio.hcl tools",
        "-c stdio.hcl call mcp__filesystem__read_file path=/tmp/x --yes",
        "-c stdio.hcl call mcp__github__create_issue --yes",
        "-c remote.hcl call mcp__remote-tools__echo message=hello --yes",
        "-c reference.hcl status",
    ]));
}

/// Rules in the file decide calls: S1-17 as for any tool, S1-18 a whole server, S1-19 one tool,
/// S1-28 and no other server whose name begins like it.
#[test]
fn s1_17_18_19_rules_of_the_file_decide_calls() {
    let block = |name: &str| {
        format!("mcp_servers {{\n  name = \"{name}\"\n  command = \"mcp-server-filesystem\"\n}}\n")
    };
    let rules = "permissions {\n  allow = [\"mcp__filesystem\", \"mcp__other__read_file\"]\n}\n";
    let text = [
        block("filesystem"),
        block("filesystem2"),
        block("other"),
        rules.to_owned(),
    ]
    .concat();
    let machine = Machine::new().file("agent.hcl", &text);
    let check = |id: &str, tool: &str, expected: Option<i32>| {
        let ran = machine.run(&[
            "-c",
            "agent.hcl",
            "call",
            tool,
            "--args",
            "{\"path\": \"x\"}",
        ]);
        assert_eq!(ran.code, expected, "{id} {tool}: {ran:?}");
    };
    check("S1-18", "mcp__filesystem__read_file", Some(0));
    check("S1-18", "mcp__filesystem__write_file", Some(0));
    check("S1-28", "mcp__filesystem2__read_file", Some(5));
    check("S1-19", "mcp__other__read_file", Some(0));
    check("S1-19", "mcp__other__write_file", Some(5));
}

/// S1-13: `env` beside a URL loads, is warned about once, and neither its names nor its values
/// leave this machine: all that is sent to the server is recorded on its way.
#[test]
fn s1_13_env_beside_a_url_is_warned_about_and_sent_nowhere() {
    let machine = Machine::new().variable("HIDDEN", "canary-expanded");
    let (address, sent) = recorded(machine.address());
    let text = format!(
        "mcp_servers {{\n  name = \"far\"\n  transport = \"sse\"\n  url = \"{address}/sse\"\n  env = {{\n    CANARY_NAME = \"canary-literal\"\n    \
         OTHER = env(\"HIDDEN\")\n  }}\n}}\n"
    );
    let machine = machine.file("agent.hcl", &text);
    let ran = machine.run(&[
        "-c",
        "agent.hcl",
        "call",
        "mcp__far__echo",
        "--args",
        "{\"message\": \"hello\"}",
        "--yes",
    ]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "hello\n"),
        "{ran:?}"
    );
    assert_eq!(
        ran.stderr.matches("mcp_servers.far.env: ignored").count(),
        1,
        "{ran:?}"
    );
    let sent = String::from_utf8_lossy(&sent.lock().unwrap()).to_lowercase();
    assert!(
        sent.contains("tools/call") && sent.contains("get /sse"),
        "the requests were recorded: {sent}"
    );
    assert!(!sent.contains("canary"), "{sent}");
}

/// The address of a relay to this one, and all that is sent through it.
fn recorded(target: &str) -> (String, Arc<Mutex<Vec<u8>>>) {
    let target = target.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(Mutex::new(Vec::new()));
    let record = sent.clone();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(&target).unwrap();
            let record = record.clone();
            let (up, down) = (
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            );
            std::thread::spawn(move || {
                relay(up.0, up.1, |bytes| {
                    record.lock().unwrap().extend_from_slice(bytes)
                })
            });
            std::thread::spawn(move || relay(down.0, down.1, |_| ()));
        }
    });
    (address, sent)
}

fn relay(mut from: TcpStream, mut to: TcpStream, record: impl Fn(&[u8])) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        record(&chunk[..count]);
        if to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    // The other end may be gone.
    let _ = to.shutdown(Shutdown::Write);
}
