//! Tests of the mcp-json dialect: the files that most programs share.
#![allow(clippy::unwrap_used)]

use super::*;

const FILE: &str = ".mcp.json";

fn read(text: &str) -> Foreign {
    load_foreign(Dialect::McpJson, FILE, text).unwrap()
}

/// One server with these fields, on line 2.
fn entry(fields: &str) -> String {
    format!("{{\"mcpServers\": {{\n\"x\": {{{fields}}}\n}}}}")
}

fn server(name: &str, line: usize, endpoint: Endpoint) -> ServerConfig {
    expected(Dialect::McpJson, name, FILE, line, endpoint)
}

fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> Endpoint {
    let env = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
        .collect();
    Endpoint::Stdio(StdioEndpoint {
        env,
        syntax: ReferenceSyntax::Braced,
        ..StdioEndpoint::new(command, args.iter().copied())
    })
}

fn url(url: &str, wire: HttpTransportKind, headers: &[(&str, &str)]) -> Endpoint {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
        .collect();
    Endpoint::Http(HttpEndpoint {
        headers,
        wire,
        syntax: ReferenceSyntax::Braced,
        ..HttpEndpoint::new(url)
    })
}

#[track_caller]
fn check(fields: &str, endpoint: Endpoint, warnings: &[&str]) {
    let foreign = read(&entry(fields));
    assert_eq!(foreign.servers(), [server("x", 2, endpoint)], "{fields}");
    assert_eq!(foreign.warnings(), warnings, "{fields}");
}

#[track_caller]
fn check_wrong(fields: &str, expected: &str) {
    let foreign = read(&format!(
        "{{\"mcpServers\": {{\n\"x\": {{{fields}}},\n\"neighbour\": {{\"command\": \"a\"}}\n}}}}"
    ));
    let expected = [
        ("x".to_owned(), Some(expected.to_owned())),
        ("neighbour".to_owned(), None),
    ];
    assert_eq!(foreign.faults(), expected, "{fields}");
}

#[test]
fn a_command_is_a_text_or_a_list_and_values_of_env_may_be_numbers() {
    check(
        r#""command": "npx", "args": ["-y", "x"]"#,
        stdio("npx", &["-y", "x"], &[]),
        &[],
    );
    check(
        r#""command": ["npx", "-y", "x"]"#,
        stdio("npx", &["-y", "x"], &[]),
        &[],
    );
    check(
        r#""command": ["npx", "-y"], "args": ["x"]"#,
        stdio("npx", &["-y", "x"], &[]),
        &[],
    );
    check(
        r#""command": "a", "env": {"PORT": 8080, "ON": true, "NONE": null, "T": "${T}"}"#,
        stdio("a", &[], &[("PORT", "8080"), ("ON", "true"), ("T", "${T}")]),
        &[],
    );
    check(
        r#""type": "local", "command": ["a"], "environment": {"A": "b"}"#,
        stdio("a", &[], &[("A", "b")]),
        &[],
    );
    check(
        r#""transport": {"type": "stdio", "command": "a", "args": ["b"]}"#,
        stdio("a", &["b"], &[]),
        &[],
    );
}

/// C5: the named transport is used, in every program's spelling; without one it is detected.
#[test]
fn c5_the_named_transport_is_used_and_that_of_a_bare_url_is_detected() {
    let address = "https://x.example/mcp";
    for (word, wire) in [
        ("http", HttpTransportKind::Streamable),
        ("streamable-http", HttpTransportKind::Streamable),
        ("streamable_http", HttpTransportKind::Streamable),
        ("streamableHttp", HttpTransportKind::Streamable),
        ("sse", HttpTransportKind::Sse),
        ("remote", HttpTransportKind::Auto),
    ] {
        check(
            &format!(r#""type": "{word}", "url": "{address}""#),
            url(address, wire, &[]),
            &[],
        );
        check(
            &format!(r#""transport": "{word}", "url": "{address}""#),
            url(address, wire, &[]),
            &[],
        );
    }
    for field in ["url", "serverUrl", "baseUrl", "httpUrl"] {
        check(
            &format!(r#""{field}": "{address}""#),
            url(address, HttpTransportKind::Auto, &[]),
            &[],
        );
    }
    check_wrong(r#""type": "ws", "url": "wss://x.example""#, {
        ".mcp.json:2:7: mcpServers.x.type: unknown transport; expected \"stdio\", \"http\" or \"sse\""
    });
}

#[test]
fn c6_two_endpoints_are_an_error_unless_the_type_decides() {
    let both = r#""command": "a", "serverUrl": "https://x.example/mcp""#;
    check_wrong(both, {
        ".mcp.json:2:23: mcpServers.x: both `command` (line 2) and `serverUrl` (line 2) are set; a server is either a program to \
         start or a URL to reach: remove one of them"
    });
    let ignored = |column: usize, lost: &str, kept: &str| {
        format!(
            ".mcp.json:2:{column}: mcpServers.x.{lost}: ignored: the server is reached by its `{kept}`; remove one of them"
        )
    };
    check(
        &format!("{both}, \"type\": \"stdio\""),
        stdio("a", &[], &[]),
        &[&ignored(23, "serverUrl", "command")],
    );
    check(
        &format!("{both}, \"type\": \"http\""),
        url("https://x.example/mcp", HttpTransportKind::Streamable, &[]),
        &[&ignored(7, "command", "serverUrl")],
    );
}

#[test]
fn headers_are_a_map_or_a_list() {
    let endpoint = || {
        url(
            "https://x.example/mcp",
            HttpTransportKind::Auto,
            &[("A", "b: c"), ("Authorization", "Bearer ${T}")],
        )
    };
    check(
        r#""url": "https://x.example/mcp", "headers": {"A": "b: c", "Authorization": "Bearer ${T}"}"#,
        endpoint(),
        &[],
    );
    check(
        r#""url": "https://x.example/mcp", "headers": ["A: b: c", "Authorization: Bearer ${T}"]"#,
        endpoint(),
        &[],
    );
    check_wrong(
        r#""url": "https://x.example/mcp", "headers": ["no colon"]"#,
        {
            ".mcp.json:2:50: mcpServers.x.headers: expected an object of strings, such as { \"NAME\": \"value\" }, found a list"
        },
    );
}

#[test]
fn disabled_servers_stay_listed_and_approvals_of_other_programs_are_ignored_with_a_warning() {
    let enabled = |fields: &str| read(&entry(fields)).config.servers[0].enabled;
    assert!(enabled(r#""command": "a""#));
    assert!(enabled(r#""command": "a", "disabled": false"#));
    assert!(!enabled(r#""command": "a", "disabled": true"#));
    assert!(!enabled(r#""command": "a", "enabled": false"#));
    assert!(!enabled(
        r#""command": "a", "enabled": false, "disabled": false"#
    ));
    let ignored = "ignored: use `permissions.allow` of your own file instead";
    check(
        r#""command": "a", "autoApprove": ["x"]"#,
        stdio("a", &[], &[]),
        &[&format!(
            ".mcp.json:2:23: mcpServers.x.autoApprove: {ignored}"
        )],
    );
    check(
        r#""command": "a", "alwaysAllow": []"#,
        stdio("a", &[], &[]),
        &[&format!(
            ".mcp.json:2:23: mcpServers.x.alwaysAllow: {ignored}"
        )],
    );
}

/// A value that only an editor can provide is an error of that server; the other servers run.
#[test]
fn a_value_that_only_an_editor_knows_is_an_error_of_that_server_alone() {
    check_wrong(r#""command": "a", "env": {"T": "${input:token}"}"#, {
        ".mcp.json:2:36: mcpServers.x.env.T: \"${input:…}\" is a prompt that only an editor shows; set an environment variable and \
         write \"${NAME}\""
    });
    check_wrong(
        r#""command": "a", "args": ["-C", "${workspaceFolder}/x"]"#,
        {
            ".mcp.json:2:38: mcpServers.x.args[1]: \"${workspaceFolder}\" is known to an editor only; write the folder, or a relative path"
        },
    );
    check_wrong(r#""command": "a", "args": ["${A"]"#, {
        ".mcp.json:2:32: mcpServers.x.args[0]: a reference opened with \"${\" is not closed with \"}\"; write \"$${\" for the text itself"
    });
    check(
        r#""command": "${userHome}/a""#,
        stdio("${HOME}/a", &[], &[]),
        &[],
    );
}

/// C7: only braced names are references; a password with dollars is literal.
#[test]
fn c7_only_braced_names_are_references() {
    let config =
        read(&entry(r#""command": "a", "env": {"A": "pa$$word", "B": "${env:T}", "C": "${GONE:-d}", "D": "x$T", "E": "$${T}"}"#))
            .config;
    let child = child_environment(
        &config.servers[0].endpoint,
        &[("T", "t"), ("OTHERS_SECRET", "s")],
    );
    let pairs: Vec<_> = child
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("A", "pa$$word"),
        ("B", "t"),
        ("C", "d"),
        ("D", "x$T"),
        ("E", "${T}"),
    ];
    assert_eq!(
        pairs, expected,
        "and nothing of the host's that the short list does not name (C9)"
    );
}

#[test]
fn the_format_of_vs_code_is_read() {
    let text = r#"{
  "inputs": [{"type": "promptString", "id": "key"}],
  "servers": {
    "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp"},
    "local": {"command": "npx", "args": ["-y", "x"], "dev": {"watch": "src"}, "envFile": ".env"}
  }
}"#;
    let foreign = read(text);
    let github = url(
        "https://api.githubcopilot.com/mcp",
        HttpTransportKind::Streamable,
        &[],
    );
    assert_eq!(
        foreign.servers(),
        [
            server("github", 4, github),
            server("local", 5, stdio("npx", &["-y", "x"], &[]))
        ]
    );
    let expected = "not read; put its variables into `env`, or set them before the start";
    assert_eq!(
        foreign.warnings(),
        [format!(".mcp.json:5:79: servers.local.envFile: {expected}")]
    );
}

/// Codex's TOML: no text has references, variables are named instead; times are in seconds.
#[test]
fn the_format_of_codex_is_read() {
    let text = r#"model = "o"
[mcp_servers.docs]
command = "docs-server"
args = ["${LITERAL}"]
env = { A = "a$B" }
env_vars = ["TOKEN"]
startup_timeout_sec = 20
tool_timeout_sec = 45
enabled_tools = ["search"]
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Key" = "KEY" }
enabled = false
"#;
    let foreign = load_foreign(Dialect::McpJson, "config.toml", text).unwrap();
    assert_eq!(foreign.warnings(), [""; 0]);
    let named = |name: &str, line: usize, endpoint: Endpoint| {
        expected(Dialect::McpJson, name, "config.toml", line, endpoint)
    };
    let [docs, figma] = &foreign.servers()[..] else {
        panic!("two servers")
    };
    let second = Duration::from_secs(1);
    assert_eq!(
        docs.timeouts,
        Timeouts {
            connect: 20 * second,
            call: 45 * second,
            call_max: 600 * second
        }
    );
    assert_eq!(docs.include_tools, Some(vec!["search".to_owned()]));
    assert_eq!(
        docs.endpoint,
        stdio(
            "docs-server",
            &["$${LITERAL}"],
            &[("A", "a$B"), ("TOKEN", "${TOKEN}")]
        )
    );
    let Endpoint::Stdio(launch) = &docs.endpoint else {
        panic!("no program")
    };
    let launch = StdioEndpoint {
        command: "/bin/sh".to_owned(),
        ..launch.clone()
    };
    let launch = resolve_launch(&launch, Path::new("/"), &Environment::default()).unwrap();
    assert_eq!(launch.args, ["${LITERAL}"]);
    let Endpoint::Http(endpoint) = url(
        "https://mcp.figma.com/mcp",
        HttpTransportKind::Auto,
        &[("X-Region", "eu"), ("X-Key", "${KEY}")],
    ) else {
        panic!("no URL")
    };
    let auth = HttpAuth {
        bearer_token: Some(Secret::new("${FIGMA_TOKEN}")),
        ..HttpAuth::default()
    };
    let endpoint = Endpoint::Http(HttpEndpoint { auth, ..endpoint });
    assert_eq!(
        *figma,
        ServerConfig {
            enabled: false,
            ..named("figma", 10, endpoint)
        }
    );
}

/// Codex has a table of approval modes under `tools`, and decimals in timeouts.
#[test]
fn codexs_tools_table_and_decimal_timeouts_do_not_fail_the_entry() {
    let codex = |fields: &str| {
        let text = format!("[mcp_servers.x]\ncommand = 'a'\n{fields}");
        load_foreign(Dialect::McpJson, "config.toml", &text).unwrap()
    };
    let foreign = codex("startup_timeout_sec = 30.0\ntool_timeout_sec = 1.5\n");
    let timeouts = &foreign.config.servers[0].timeouts;
    assert_eq!(
        (timeouts.connect, timeouts.call),
        (Duration::from_secs(30), Duration::from_millis(1500))
    );
    assert_eq!(foreign.warnings(), [""; 0]);
    let foreign = codex("[mcp_servers.x.tools.search]\napproval_mode = 'approve'\n");
    assert_eq!(foreign.faults(), [("x".to_owned(), None)]);
    assert_eq!(
        foreign.warnings(),
        [
            "config.toml:3:16: mcp_servers.x.tools: ignored: use `permissions.allow` of your own file instead"
        ]
    );
    let foreign = codex("tool_timeout_sec = -1\n");
    let fault = foreign.faults().remove(0).1.unwrap();
    assert!(
        fault.ends_with("expected a number of seconds, more than 0"),
        "{fault}"
    );
}

#[test]
fn opencodes_references_are_variables_and_its_file_references_are_reported() {
    let read = |header: &str| {
        let text = format!(
            r#"{{"mcp": {{"x": {{"type": "remote", "url": "https://x.example", "headers": {{"Authorization": "{header}"}}}}}}}}"#
        );
        load_foreign(Dialect::McpJson, "opencode.json", &text).unwrap()
    };
    let foreign = read("Bearer {env:T}");
    let Endpoint::Http(http) = &foreign.config.servers[0].endpoint else {
        panic!("{:?}", foreign.config.servers[0]);
    };
    assert_eq!(http.headers["Authorization"].expose(), "Bearer ${T}");
    let fault = read("{file:~/token}").faults().remove(0).1.unwrap();
    assert!(fault.contains("set a variable and write"), "{fault}");
}

#[test]
fn clines_timeout_is_in_seconds() {
    let text = entry(r#""command": "a", "timeout": 90"#);
    let foreign = load_foreign(Dialect::McpJson, "cline_mcp_settings.json", &text).unwrap();
    let timeouts = &foreign.config.servers[0].timeouts;
    assert_eq!(timeouts.call, Duration::from_secs(90));
    assert_eq!(foreign.warnings(), [""; 0]);
}

#[test]
fn a_timeout_is_in_milliseconds_or_zeds_seconds() {
    let call = |text: &str| read(text).config.servers[0].timeouts.call;
    assert_eq!(
        call(&entry(r#""command": "a", "timeout": 90000"#)),
        Duration::from_secs(90)
    );
    assert_eq!(
        call(r#"{"context_servers": {"x": {"command": "a", "timeout": 90}}}"#),
        Duration::from_secs(90)
    );
    check(
        r#""command": "a", "timeout": 60"#,
        stdio("a", &[], &[]),
        &[
            ".mcp.json:2:23: mcpServers.x.timeout: ignored: less than a second; expected milliseconds, such as 60000",
        ],
    );
}

/// C12: the error of an entry is the state of its server, and of no other.
#[test]
fn c12_one_invalid_entry_does_not_affect_the_others() {
    let text = r#"{"mcpServers": {
"a": {"command": "a"}, "b": null, "c": {"command": 5}, "d": {}, "e/f": {"command": "a"}, "g": {"url": "not a url"}, "h": {"command": "h"}
}}"#;
    let foreign = read(text);
    let names: Vec<_> = foreign
        .faults()
        .into_iter()
        .map(|(name, fault)| (name, fault.is_some()))
        .collect();
    let expected = [
        ("a", false),
        ("b", true),
        ("c", true),
        ("d", true),
        ("g", true),
        ("h", false),
    ];
    assert_eq!(
        names,
        expected.map(|(name, wrong)| (name.to_owned(), wrong))
    );
    assert!(
        foreign.warnings()[0].contains("mcpServers.\"e/f\""),
        "a name that cannot be one is expected: {:?}",
        foreign.warnings()
    );
}

#[test]
fn a_file_without_servers_says_which_key_was_expected() {
    assert_eq!(read("{}").warnings(), [""; 0]);
    let expected = [".mcp.json:1:1: no server is in this file; expected them in `mcpServers`"];
    assert_eq!(
        read(r#"{"mcp-servers": {"x": {"command": "a"}}}"#).warnings(),
        expected
    );
    let two = read(r#"{"servers": {}, "mcpServers": {}}"#);
    assert_eq!(
        two.warnings(),
        [".mcp.json:1:2: servers: not read beside `mcpServers`; expected all servers there"]
    );
}
