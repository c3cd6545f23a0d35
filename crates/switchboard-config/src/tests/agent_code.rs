//! Tests of the agent-code dialect (promises S4): files with `[mcp_servers.NAME]`.
#![allow(clippy::unwrap_used)]

use super::*;

const FILE: &str = "config.toml";

const EXAMPLES: [&str; 4] = [
    include_str!("../../tests/seeds/agent-code/stdio.toml"),
    include_str!("../../tests/seeds/agent-code/sse.toml"),
    include_str!("../../tests/seeds/agent-code/security.toml"),
    include_str!("../../tests/seeds/agent-code/permissions.toml"),
];

fn read(text: &str) -> Foreign {
    load_foreign(Dialect::AgentCode, FILE, text).unwrap()
}

fn agent_code(name: &str, line: usize, endpoint: Endpoint) -> ServerConfig {
    expected(Dialect::AgentCode, name, FILE, line, endpoint)
}

fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> Endpoint {
    inheriting(command, args, env, ReferenceSyntax::Literal)
}

fn sse(url: &str) -> Endpoint {
    Endpoint::Http(HttpEndpoint {
        wire: HttpTransportKind::Sse,
        syntax: ReferenceSyntax::Literal,
        ..HttpEndpoint::new(url)
    })
}

fn rules(rules: &[RuleText]) -> Vec<(&str, usize)> {
    rules
        .iter()
        .map(|rule| (rule.text.as_str(), rule.line))
        .collect()
}

fn documents_servers(lines: [usize; 2]) -> [ServerConfig; 2] {
    let github = stdio(
        "npx",
        &["-y", "@modelcontextprotocol/server-github"],
        &[("GITHUB_TOKEN", "ghp_...")],
    );
    [
        agent_code("github", lines[0], github),
        agent_code("remote", lines[1], sse("http://localhost:8080")),
    ]
}

#[test]
fn s4_28_the_documents_four_examples_load_verbatim_and_joined() {
    let [github, remote] = documents_servers([1, 1]);
    let [stdio, sse, security, permissions] = EXAMPLES.map(read);
    assert_eq!(stdio.servers(), [github]);
    assert_eq!(sse.servers(), [remote]);
    let lists = Security {
        allow_servers: vec!["github".to_owned(), "filesystem".to_owned()],
        deny_servers: vec!["untrusted".to_owned()],
        locked: false,
    };
    assert_eq!(security.config.security, lists);
    assert_eq!(
        rules(&permissions.config.permissions.allow),
        [("mcp__github__*", 2)]
    );
    for example in [&stdio, &sse, &security, &permissions] {
        assert_eq!(example.warnings(), [""; 0]);
    }

    let joined = read(&EXAMPLES.join("\n"));
    assert_eq!(joined.servers(), documents_servers([1, 6]));
    assert_eq!(
        joined.config.security, lists,
        "what keeps `remote` from connecting"
    );
    assert_eq!(
        rules(&joined.config.permissions.allow),
        [("mcp__github__*", 14)]
    );
    assert_eq!(joined.warnings(), [""; 0]);
}

/// S4-02, S4-05: every `[mcp_servers.NAME]` in the order of the file, among settings that only
/// agent-code uses.
#[test]
fn s4_02_servers_are_read_from_mcp_servers_and_s4_05_are_stdio_by_default() {
    let text = "[api]\nmodel = \"x\"\n[mcp_servers.b]\ncommand = \"one\"\n[mcp_servers.a]\ncommand = \"two\"\nargs = [\"-x\"]\n[ui]\ntheme = \"dark\"\n";
    let foreign = read(text);
    assert_eq!(
        foreign.servers(),
        [
            agent_code("b", 3, stdio("one", &[], &[])),
            agent_code("a", 5, stdio("two", &["-x"], &[]))
        ]
    );
    assert_eq!(foreign.warnings(), [""; 0]);
}

/// S4-06: `url` selects SSE; everything is literal; if both are set, `command` is used, with a
/// warning (C6).
#[test]
fn s4_06_command_args_and_env_make_a_program_and_url_selects_sse() {
    let check = |lines: &str, endpoint: Endpoint, warnings: &[&str]| {
        let foreign = read(&format!("[mcp_servers.x]\n{lines}\n"));
        assert_eq!(foreign.servers(), [agent_code("x", 1, endpoint)], "{lines}");
        assert_eq!(foreign.warnings(), warnings, "{lines}");
    };
    let literal = stdio("run", &["$HOME", "${A}"], &[("T", "$${T}")]);
    check(
        "command = 'run'\nargs = ['$HOME', '${A}']\nenv = { T = '$${T}' }",
        literal.clone(),
        &[],
    );
    let child = child_environment(&literal, &[("T", "of the host"), ("A", "b")]);
    let untouched =
        [("A", "b"), ("T", "$${T}")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(child, untouched);
    check(
        "url = 'http://localhost:8080/${A}'",
        sse("http://localhost:8080/${A}"),
        &[],
    );
    check(
        "url = 'http://localhost:8080'\ncommand = 'run'",
        stdio("run", &[], &[]),
        &[
            "config.toml:2:1: mcp_servers.x.url: ignored: `command` (line 3) is started instead; remove one of them",
        ],
    );
}

/// C12: an invalid entry does not affect the other servers.
#[test]
fn an_invalid_entry_is_an_error_of_that_server_alone() {
    let foreign = read(
        "[mcp_servers.x]\nargs = []\n[mcp_servers.y]\ncommand = 5\n[mcp_servers.z]\ncommand = 'run'\n",
    );
    let neither = "config.toml:1:14: mcp_servers.x: neither `command` nor `url` is set; expected a program to start or a URL to reach";
    let number =
        "config.toml:4:11: mcp_servers.y.command: expected a string in quotes, found an integer";
    let faults = [("x", Some(neither)), ("y", Some(number)), ("z", None)];
    assert_eq!(
        foreign.faults(),
        faults.map(|(name, fault)| (name.to_owned(), fault.map(str::to_owned)))
    );
}

/// S4-14, S4-15, S4-24: both lists as written, also with servers that are not configured.
#[test]
fn s4_14_and_s4_15_the_lists_are_read_and_s4_24_may_name_unknown_servers() {
    let check = |lines: &str, allow: &[&str], deny: &[&str], warnings: &[&str]| {
        let foreign = read(&format!(
            "[mcp_servers.a]\ncommand = 'run'\n[security]\n{lines}\n"
        ));
        let owned = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let security = Security {
            allow_servers: owned(allow),
            deny_servers: owned(deny),
            locked: false,
        };
        assert_eq!(foreign.config.security, security, "{lines}");
        assert_eq!(foreign.warnings(), warnings, "{lines}");
    };
    check(
        "mcp_server_allowlist = ['nobody', 'a']",
        &["nobody", "a"],
        &[],
        &[],
    );
    check("mcp_server_denylist = ['nobody']", &[], &["nobody"], &[]);
    check(
        "mcp_server_allowlist = ['a']\nmcp_server_denylist = ['a']",
        &["a"],
        &["a"],
        &[],
    );
    check("disable_bypass_permissions = true", &[], &[], &[]);
}

/// S4-17 as far as the file goes: rules by action; a rule that is not understood never allows more.
#[test]
fn s4_17_rules_have_a_tool_and_an_action() {
    let rule = |lines: &str| format!("[[permissions.rules]]\n{lines}\n");
    let foreign = read(
        &[
            rule("tool = 'mcp__a__*'\naction = 'allow'"),
            rule("tool = 'mcp__a__b'\naction = 'deny'"),
            rule("tool = 'mcp__*'\naction = 'ask'"),
            rule("tool = 'Bash'\npattern = 'ls *'\naction = 'allow'"),
            rule("tool = 'Bash'\npattern = 'rm *'\naction = 'deny'"),
        ]
        .concat(),
    );
    let Permissions {
        mode,
        allow,
        ask,
        deny,
        ..
    } = &foreign.config.permissions;
    assert_eq!(*mode, Mode::Ask);
    assert_eq!(
        (rules(allow), rules(ask), rules(deny)),
        (
            vec![("mcp__a__*", 2)],
            vec![("mcp__*", 8)],
            vec![("mcp__a__b", 5), ("Bash", 15)],
        )
    );
    let warnings = [
        "config.toml:12:1: permissions.rules[3].pattern: not known here, so this rule allows nothing; known are `tool` and `action`",
        "config.toml:16:1: permissions.rules[4].pattern: not known here, and ignored; known are `tool` and `action`",
    ];
    assert_eq!(foreign.warnings(), warnings);

    let refused = |lines: &str| load_foreign(Dialect::AgentCode, FILE, &rule(lines)).err();
    let action =
        "config.toml:3:10: permissions.rules[0].action: expected \"allow\", \"ask\" or \"deny\"";
    assert_eq!(
        refused("tool = 'x'\naction = 'block'").as_deref(),
        Some(action)
    );
    let tool = "config.toml:1:1: permissions.rules[0].tool: expected a tool's name in quotes, such as \"mcp__github__*\"";
    assert_eq!(refused("action = 'deny'").as_deref(), Some(tool));
}
