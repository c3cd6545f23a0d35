//! Tests of the agent-apps dialect (promises S3): documents with `metadata.mcp`.
#![allow(clippy::unwrap_used)]

use super::*;

const FILE: &str = "agent.yaml";

fn read(text: &str) -> Foreign {
    load_foreign(Dialect::AgentApps, FILE, text).unwrap()
}

/// Started on first use, with callers serialised.
fn agent_apps(name: &str, line: usize, endpoint: Endpoint) -> ServerConfig {
    ServerConfig {
        asks: Asks::Yes,
        ..expected(Dialect::AgentApps, name, FILE, line, endpoint)
    }
}

fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> Endpoint {
    inheriting(command, args, env, ReferenceSyntax::Native)
}

fn http(url: &str) -> Endpoint {
    Endpoint::Http(HttpEndpoint {
        wire: HttpTransportKind::Streamable,
        ..HttpEndpoint::new(url)
    })
}

/// One server with these lines, and some metadata.
fn entry(lines: &[&str]) -> Foreign {
    read(&format!(
        "metadata:\n  app:\n    name: demo\n    port: 8080\n  mcp:\n    x:\n      {}\n",
        lines.join("\n      ")
    ))
}

#[track_caller]
fn check(id: &str, lines: &[&str], endpoint: Endpoint, warnings: &[&str]) {
    let foreign = entry(lines);
    assert_eq!(
        foreign.servers(),
        [agent_apps("x", 6, endpoint)],
        "{id}: {lines:?}"
    );
    assert_eq!(foreign.warnings(), warnings, "{id}: {lines:?}");
}

#[test]
fn s3_21_the_documents_example_loads_verbatim() {
    let text = include_str!("../../tests/seeds/agent-apps/agent.yaml");
    let foreign = read(text);
    let github = stdio(
        "npx",
        &["-y", "@modelcontextprotocol/server-github"],
        &[("GITHUB_TOKEN", "${GITHUB_TOKEN}")],
    );
    let servers = |start: usize| {
        [
            agent_apps(
                "filesystem",
                start,
                stdio(
                    "npx",
                    &["-y", "@modelcontextprotocol/server-filesystem", "./data"],
                    &[],
                ),
            ),
            agent_apps("github", start + 3, github.clone()),
            agent_apps(
                "remote-tools",
                start + 7,
                http("https://mcp.example.com/tools"),
            ),
        ]
    };
    assert_eq!(foreign.servers(), servers(3));
    assert_eq!(foreign.warnings(), [""; 0]);

    // The same as the front matter of a Markdown file.
    let markdown = format!(
        "---\n{text}---\n\n# Agent\n\n---\nmetadata: {{ mcp: {{ other: {{ command: no }} }} }}\n"
    );
    let foreign = load_foreign(Dialect::AgentApps, "agent.md", &markdown).unwrap();
    let file = Arc::new(PathBuf::from("agent.md"));
    let moved = servers(4).map(|server| ServerConfig {
        source: Source {
            file: file.clone(),
            ..server.source.clone()
        },
        ..server
    });
    assert_eq!(foreign.servers(), moved);
    assert_eq!(foreign.warnings(), [""; 0]);
}

/// S3-06, S3-21: the escaped form in each kind of scalar is replaced by the host's variable at
/// launch.
#[test]
fn s3_06_an_escaped_reference_is_resolved_at_launch_in_every_kind_of_scalar() {
    for value in [
        r#""\${TOKEN}""#,
        r"'\${TOKEN}'",
        r"\${TOKEN}",
        r#""\\${TOKEN}""#,
    ] {
        let endpoint = stdio("run", &[], &[("T", "${TOKEN}")]);
        check(
            "S3-06",
            &["command: run", "env:", &format!("  T: {value}")],
            endpoint.clone(),
            &[],
        );
        let child = child_environment(&endpoint, &[("TOKEN", "a${TOKEN}\\${TOKEN}$")]);
        assert!(
            child.contains(&("T".to_owned(), "a${TOKEN}\\${TOKEN}$".to_owned())),
            "{value}: one pass: {child:?}"
        );
    }
    let mixed = [("T", "Bearer ${TOKEN}, demo at $$5")];
    check(
        "S3-06",
        &[
            "command: run",
            r#"env: { T: "Bearer \${TOKEN}, ${app.name} at $5" }"#,
        ],
        stdio("run", &[], &mixed),
        &[],
    );
}

/// S3-01, S3-02, S3-03, S3-05: a map of names to entries of four fields.
#[test]
fn s3_01_a_map_of_entries_and_s3_02_command_is_a_program_and_s3_03_url_is_streamable_http() {
    check("S3-02", &["command: run"], stdio("run", &[], &[]), &[]);
    check(
        "S3-03",
        &["url: https://x.example/mcp"],
        http("https://x.example/mcp"),
        &[],
    );
    let args = ["-y", "a b", "8080", "true", "$$HOME"];
    let all = [
        "command: run",
        "args: [-y, 'a b', 8080, true, $HOME]",
        "env: { A: plain, PORT: 8080 }",
    ];
    check(
        "S3-05",
        &all,
        stdio("run", &args, &[("A", "plain"), ("PORT", "8080")]),
        &[],
    );
    let foreign = read(
        "metadata:\n  title: an agent\n  mcp:\n    b: { command: one }\n    a: { url: 'http://x.example' }\nother: [1]\n",
    );
    let servers = [
        agent_apps("b", 4, stdio("one", &[], &[])),
        agent_apps("a", 5, http("http://x.example")),
    ];
    assert_eq!(foreign.servers(), servers, "S3-01");
    assert_eq!(foreign.warnings(), [""; 0]);
    assert_eq!(
        read("metadata: { title: an agent }\n").servers(),
        [],
        "S3-01"
    );
}

/// A YAML file of goose is not empty: its servers are elsewhere.
#[test]
fn a_section_with_servers_of_another_program_is_named() {
    let foreign = read("extensions:\n  a: { cmd: x, type: stdio }\nGOOSE_MODEL: m\n");
    assert_eq!(foreign.servers(), []);
    assert_eq!(
        foreign.warnings(),
        [
            "agent.yaml:1:1: extensions: not read: expected `metadata.mcp`, where agent-apps files have their servers, or another dialect"
        ]
    );
}

#[test]
fn s3_04_url_takes_precedence_over_command() {
    check(
        "S3-04",
        &["command: run", "url: https://x.example/mcp"],
        http("https://x.example/mcp"),
        &["agent.yaml:7:7: metadata.mcp.x.command: ignored: `url` (line 8) takes precedence"],
    );
}

/// S3-07, S3-22: an unescaped reference uses only the document's own metadata; a missing one is
/// unset in the child, even if the host has a variable of that name, and the warning shows the
/// escaped form.
#[test]
fn s3_07_and_s3_22_an_unescaped_reference_never_reads_the_environment() {
    let host = [
        ("GITHUB_TOKEN", "of the host"),
        ("name", "of the host"),
        ("PATH", "/bin"),
    ];
    let foreign = entry(&[
        "command: run",
        r#"env: { GITHUB_TOKEN: "${GITHUB_TOKEN}", PLAIN: "x" }"#,
    ]);
    let [server] = &foreign.servers()[..] else {
        panic!()
    };
    let Endpoint::Stdio(endpoint) = stdio("run", &[], &[("PLAIN", "x")]) else {
        unreachable!()
    };
    let endpoint = Endpoint::Stdio(StdioEndpoint {
        unset: vec!["GITHUB_TOKEN".to_owned()],
        ..endpoint
    });
    assert_eq!(*server, agent_apps("x", 6, endpoint.clone()));
    let warning = "agent.yaml:8:28: metadata.mcp.x.env.GITHUB_TOKEN: \"${GITHUB_TOKEN}\" is not in the document's own metadata, so the \
                   variable is left unset; to take it from the environment when the server starts, write \"\\${GITHUB_TOKEN}\"";
    assert_eq!(foreign.warnings(), [warning]);
    let child = child_environment(&endpoint, &host);
    let names: Vec<_> = child.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["PATH", "PLAIN", "name"],
        "S3-07: undefined, not the host's"
    );

    let resolved = stdio(
        "demo-server",
        &["--port=8080"],
        &[("A", "demo-8080"), ("B", "demo")],
    );
    let lines = [
        "command: ${app.name}-server",
        "args: ['--port=${app.port}']",
        "env: { A: '${app.name}-${app.port}', B: '${metadata.app.name}' }",
    ];
    check("S3-22", &lines, resolved, &[]);
}

/// S3-22: replaced text is not expanded again, and a missing reference is an error outside of
/// `env`.
#[test]
fn s3_22_references_are_replaced_in_one_pass_and_only_env_may_lack_one() {
    let text = "metadata:\n  a: '${b} \\${HOME} $'\n  b: no\n  mcp:\n    x:\n      command: run\n      env: { A: '${a}' }\n";
    let endpoint = stdio("run", &[], &[("A", "$${b} \\$${HOME} $$")]);
    let foreign = read(text);
    assert_eq!(foreign.servers(), [agent_apps("x", 5, endpoint.clone())]);
    assert_eq!(
        child_environment(&endpoint, &[]),
        [("A".to_owned(), "${b} \\${HOME} $".to_owned())]
    );

    let foreign = entry(&["command: run", "args: ['${nothing}']"]);
    let fault = "agent.yaml:8:14: metadata.mcp.x.args[0]: expected a string, found a reference to something that the document's own metadata \
                 does not have";
    assert_eq!(foreign.faults(), [("x".to_owned(), Some(fault.to_owned()))]);
    check(
        "S3-06",
        &["command: run", r"args: ['\${HOME}']"],
        stdio("run", &["$${HOME}"], &[]),
        &[
            "agent.yaml:8:14: metadata.mcp.x.args: \"\\${…}\" is left for the start of the server in `env` only; here it is the text \"${…}\"",
        ],
    );
}

#[test]
fn s3_23_an_entry_with_neither_command_nor_url_is_an_error_of_that_server_alone() {
    let foreign =
        read("metadata:\n  mcp:\n    x: { args: [a] }\n    y: { command: run }\n    z: 5\n");
    let neither = "agent.yaml:3:5: metadata.mcp.x: neither `command` nor `url` is set; expected a program to start or a URL to reach";
    let number =
        "agent.yaml:5:8: metadata.mcp.z: expected a table, [metadata.mcp.z], found an integer";
    let faults = [("x", Some(neither)), ("y", None), ("z", Some(number))];
    assert_eq!(
        foreign.faults(),
        faults.map(|(name, fault)| (name.to_owned(), fault.map(str::to_owned)))
    );
}
