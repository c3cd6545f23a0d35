//! Tests of the a3s dialect (promises S1): files with `mcp_servers` blocks.
#![allow(clippy::unwrap_used)]

use super::*;

const FILE: &str = "config.hcl";
const MINUTE: Duration = Duration::from_secs(60);

fn read(text: &str) -> Foreign {
    load_foreign(Dialect::A3s, FILE, text).unwrap()
}

/// A server whose calls take a minute at most (S1-14).
fn a3s(name: &str, line: usize, endpoint: Endpoint) -> ServerConfig {
    let timeouts = Timeouts {
        call: MINUTE,
        call_max: MINUTE,
        ..Timeouts::default()
    };
    ServerConfig {
        timeouts,
        ..expected(Dialect::A3s, name, FILE, line, endpoint)
    }
}

fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> Endpoint {
    inheriting(command, args, env, ReferenceSyntax::Native)
}

fn sse(url: &str) -> Endpoint {
    Endpoint::Http(HttpEndpoint {
        wire: HttpTransportKind::Sse,
        ..HttpEndpoint::new(url)
    })
}

/// A block with these lines beside its name.
fn block(lines: &[&str]) -> Foreign {
    read(&format!(
        "mcp_servers {{\n  name = \"x\"\n  {}\n}}\n",
        lines.join("\n  ")
    ))
}

/// The one server of a block, and what is warned about.
#[track_caller]
fn check(id: &str, lines: &[&str], expected: ServerConfig, warnings: &[&str]) {
    let foreign = block(lines);
    assert_eq!(foreign.servers(), [expected], "{id}: {lines:?}");
    assert_eq!(foreign.warnings(), warnings, "{id}: {lines:?}");
}

#[track_caller]
fn check_wrong(id: &str, lines: &[&str], fault: &str) {
    assert_eq!(
        block(lines).faults(),
        [("x".to_owned(), Some(format!("{FILE}:{fault}")))],
        "{id}: {lines:?}"
    );
}

#[test]
fn s1_31_the_documents_three_files_load_verbatim() {
    let filesystem = "@modelcontextprotocol/server-filesystem";
    let github = "@modelcontextprotocol/server-github";
    let foreign = read(include_str!("../../tests/seeds/a3s/stdio.hcl"));
    let servers = [
        a3s(
            "filesystem",
            1,
            stdio("npx", &["-y", filesystem, "/tmp"], &[]),
        ),
        a3s(
            "github",
            9,
            stdio("npx", &["-y", github], &[("GITHUB_TOKEN", "ghp_...")]),
        ),
    ];
    assert_eq!(foreign.servers(), servers);
    assert_eq!(foreign.warnings(), [""; 0]);

    let foreign = read(include_str!("../../tests/seeds/a3s/remote.hcl"));
    assert_eq!(
        foreign.servers(),
        [a3s("remote-tools", 1, sse("https://mcp.example.com/sse"))]
    );
    assert_eq!(foreign.warnings().len(), 1, "{:?}", foreign.warnings());

    let foreign = read(include_str!("../../tests/seeds/a3s/reference.hcl"));
    let servers = [
        a3s(
            "filesystem",
            1,
            stdio("npx", &["-y", filesystem, "/workspace"], &[]),
        ),
        a3s(
            "github",
            7,
            stdio(
                "npx",
                &["-y", github],
                &[("GITHUB_TOKEN", "${GITHUB_TOKEN}")],
            ),
        ),
    ];
    assert_eq!(foreign.servers(), servers);
    assert_eq!(foreign.warnings(), [""; 0]);
}

/// S1-03: a list of blocks in the order of the file, among settings that only A3S uses.
#[test]
fn s1_03_repeated_blocks_are_servers_in_the_order_of_the_file() {
    let text = "default_model = \"x/y\"\nproviders {\n  name = \"z\"\n}\nmcp_servers {\n  name = \"b\"\n  command = \"one\"\n}\n\
                mcp_servers {\n  name = \"a\"\n  command = \"two\"\n}\n";
    let foreign = read(text);
    assert_eq!(
        foreign.servers(),
        [
            a3s("b", 5, stdio("one", &[], &[])),
            a3s("a", 9, stdio("two", &[], &[]))
        ]
    );
    assert_eq!(foreign.warnings(), [""; 0]);
}

/// S1-04: a block without a name is an error; the other servers run.
#[test]
fn s1_04_a_block_without_a_name_is_an_error_of_that_block_alone() {
    let foreign = read(
        "mcp_servers {\n  command = \"one\"\n}\nmcp_servers {\n  name = \"a\"\n  command = \"two\"\n}\n",
    );
    assert_eq!(foreign.faults(), [("a".to_owned(), None)]);
    let missing =
        "config.hcl:1:1: mcp_servers[0]: `name` is missing; expected the name of the server";
    assert_eq!(foreign.warnings(), [missing]);
}

/// S1-02, S1-05, S1-06, S1-12, S1-29: the names of the two transports, and the default.
#[test]
fn s1_05_transport_is_stdio_by_default_and_every_other_name_is_http_and_sse() {
    let program = || a3s("x", 1, stdio("run", &[], &[]));
    let remote = || a3s("x", 1, sse("https://x.example/sse"));
    check(
        "S1-02",
        &["transport = \"stdio\"", "command = \"run\""],
        program(),
        &[],
    );
    check("S1-06", &["command = \"run\""], program(), &[]);
    for word in ["sse", "http", "http+sse"] {
        check(
            "S1-29",
            &[
                &format!("transport = \"{word}\""),
                "url = \"https://x.example/sse\"",
            ],
            remote(),
            &[],
        );
    }
    check(
        "S1-12",
        &["url = \"https://x.example/sse\"", "transport = \"sse\""],
        remote(),
        &[],
    );
    check_wrong(
        "S1-05",
        &["transport = \"tcp\"", "command = \"run\""],
        "3:15: mcp_servers.x.transport: unknown transport \"tcp\"; expected \"stdio\", \"sse\", \"http\" or \"http+sse\"",
    );
    check_wrong(
        "S1-05",
        &["url = \"https://x.example/sse\""],
        "1:1: mcp_servers.x: `transport` is left out, which means \"stdio\", and `command` is missing; for a URL write transport = \"sse\"",
    );
}

/// S1-07, S1-08, S1-09: the fields of a program, as written; a `$` is literal.
#[test]
fn s1_07_command_args_and_env_are_taken_as_written() {
    check(
        "S1-07",
        &["command = \"run\""],
        a3s("x", 1, stdio("run", &[], &[])),
        &[],
    );
    check_wrong(
        "S1-07",
        &["transport = \"stdio\"", "args = []"],
        "1:1: mcp_servers.x: `command` is missing; expected the program to start",
    );
    check(
        "S1-08",
        &["command = \"run\"", "args = [\"-y\", \"a b\", \"$HOME\"]"],
        a3s("x", 1, stdio("run", &["-y", "a b", "$$HOME"], &[])),
        &[],
    );
    let env = "env = { A = \"plain\", \"B\" = \"$A ${\", C = \"$${A}\" }".replace("${\"", "$\"");
    let endpoint = stdio(
        "run",
        &[],
        &[("A", "plain"), ("B", "$$A $$"), ("C", "$${A}")],
    );
    check(
        "S1-09",
        &["command = \"run\"", &env],
        a3s("x", 1, endpoint.clone()),
        &[],
    );
    let child = child_environment(&endpoint, &[("A", "of the host")]);
    let literal = [("A", "plain"), ("B", "$A $"), ("C", "${A}")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(child, literal, "S1-09");
    check(
        "S1-09",
        &["command = \"run\"", "env {\n    A = \"block\"\n  }"],
        a3s("x", 1, stdio("run", &[], &[("A", "block")])),
        &[],
    );
}

/// S1-10, S1-30: `env("NAME")` is the host's variable; an unset one is empty, with a warning.
#[test]
fn s1_10_env_calls_read_the_hosts_environment_and_s1_30_unset_is_empty() {
    let lines = [
        "command = \"run\"",
        "env = { TOKEN = env(\"HOST_TOKEN\"), H = \"Bearer ${env(\"HOST_TOKEN\")}!\" }",
    ];
    let foreign = block(&lines);
    let endpoint = stdio(
        "run",
        &[],
        &[("TOKEN", "${HOST_TOKEN}"), ("H", "Bearer ${HOST_TOKEN}!")],
    );
    assert_eq!(foreign.servers(), [a3s("x", 1, endpoint.clone())]);
    let pairs = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<Vec<_>>()
    };
    let child = child_environment(&endpoint, &[("HOST_TOKEN", "a${B}$c")]);
    assert_eq!(
        child,
        pairs(&[
            ("H", "Bearer a${B}$c!"),
            ("HOST_TOKEN", "a${B}$c"),
            ("TOKEN", "a${B}$c")
        ])
    );

    assert_eq!(
        child_environment(&endpoint, &[]),
        pairs(&[("H", "Bearer !"), ("TOKEN", "")]),
        "S1-30"
    );
    let Endpoint::Stdio(unset) = stdio("/bin/sh", &[], &[("TOKEN", "${HOST_TOKEN}")]) else {
        unreachable!()
    };
    let launch = resolve_launch(&unset, Path::new("/"), &Environment::default()).unwrap();
    assert_eq!(
        launch.unset,
        [("HOST_TOKEN".to_owned(), "env.TOKEN".to_owned())],
        "S1-30: what a server's warning is made of"
    );
}

/// An expression of HCL is an error of that entry, which says what is supported; the other servers
/// run.
#[test]
fn an_expression_is_an_error_of_that_entry_alone() {
    let functions = "a function other than env(\"NAME\"), which is the only one that is read";
    let computed = "an expression; only plain values and env(\"NAME\") are read";
    let template = "a template with other expressions; only ${env(\"NAME\")} is read in it, and $${ is the text ${";
    let name = "env() without the name of one variable; expected env(\"NAME\")";
    for (value, found) in [
        ("file(\"token\")", functions),
        ("\"${upper(\"x\")}\"", functions),
        ("var.token", computed),
        ("1 == 1 ? \"a\" : \"b\"", computed),
        ("\"a ${token}\"", template),
        ("\"%{ if true }a%{ endif }\"", template),
        ("env()", name),
        ("env(\"A\", \"B\")", name),
        ("env(\"not a name\")", name),
    ] {
        let text = format!(
            "mcp_servers {{\n  name = \"x\"\n  command = \"run\"\n  env = {{ T = {value} }}\n}}\nmcp_servers {{\n  name = \"y\"\n  command = \"run\"\n}}\n"
        );
        let fault =
            format!("config.hcl:4:15: mcp_servers.x.env.T: expected a string, found {found}");
        assert_eq!(
            read(&text).faults(),
            [("x".to_owned(), Some(fault)), ("y".to_owned(), None)],
            "{value}"
        );
    }
    check_wrong(
        "args",
        &["command = \"run\"", "args = [\"a\", upper(\"b\")]"],
        &format!("4:16: mcp_servers.x.args[1]: expected a string, found {functions}"),
    );
}

/// S1-11, S1-25: `enabled` is true when left out.
#[test]
fn s1_11_a_server_can_be_present_but_disabled_and_s1_25_is_enabled_when_that_is_left_out() {
    let enabled = |enabled| ServerConfig {
        enabled,
        ..a3s("x", 1, stdio("run", &[], &[]))
    };
    check(
        "S1-11",
        &["command = \"run\"", "enabled = true"],
        enabled(true),
        &[],
    );
    check(
        "S1-11",
        &["command = \"run\"", "enabled = false"],
        enabled(false),
        &[],
    );
    check("S1-25", &["command = \"run\""], enabled(true), &[]);
}

#[test]
fn s1_13_env_with_a_url_is_ignored_with_a_warning() {
    check(
        "S1-13",
        &[
            "transport = \"sse\"",
            "url = \"https://x.example/sse\"",
            "env = { T = \"token\" }",
        ],
        a3s("x", 1, sse("https://x.example/sse")),
        &[
            "config.hcl:5:3: mcp_servers.x.env: ignored: belongs to servers with a `command`; this one is a URL to reach (`url`, line 4): remove `env`",
        ],
    );
}

/// S1-14, S1-22: one deadline for the whole call, a minute unless `timeout_ms` sets another.
#[test]
fn s1_14_timeout_ms_limits_the_whole_call_with_a_default_of_a_minute() {
    let within = |time: Duration| {
        let timeouts = Timeouts {
            call: time,
            call_max: time,
            ..Timeouts::default()
        };
        ServerConfig {
            timeouts,
            ..a3s("x", 1, stdio("run", &[], &[]))
        }
    };
    let written = |time: Duration| ServerConfig {
        written_call_timeout: Some(time),
        ..within(time)
    };
    check("S1-22", &["command = \"run\""], within(MINUTE), &[]);
    check(
        "S1-14",
        &["command = \"run\"", "timeout_ms = 1500"],
        written(Duration::from_millis(1500)),
        &[],
    );
    check(
        "S1-14",
        &["command = \"run\"", "timeout_ms = 3600000"],
        written(Duration::from_secs(3600)),
        &[],
    );
    for wrong in ["0", "-5", "1.5", "\"60s\""] {
        let foreign = block(&["command = \"run\"", &format!("timeout_ms = {wrong}")]);
        let fault = foreign.faults()[0].1.clone().unwrap();
        assert!(
            fault.starts_with(
                "config.hcl:4:16: mcp_servers.x.timeout_ms: expected a whole number of milliseconds"
            ),
            "{fault}"
        );
    }
}

#[test]
fn s1_26_two_blocks_with_one_name_are_a_load_error_that_names_both_lines() {
    let text = "mcp_servers {\n  name = \"a\"\n  command = \"one\"\n}\n\nmcp_servers {\n  name = \"a\"\n  command = \"two\"\n}\n";
    let error_text = load_foreign(Dialect::A3s, FILE, text).err();
    let error = "config.hcl:6:1: mcp_servers.a: two blocks have this name (lines 1 and 6); rename or remove one of them";
    assert_eq!(error_text.as_deref(), Some(error));
}

/// C6: `transport` decides; without it two endpoints are an error of the entry.
#[test]
fn c6_transport_decides_between_command_and_url() {
    let both = ["command = \"run\"", "url = \"https://x.example/sse\""];
    check(
        "C6",
        &["transport = \"stdio\"", both[0], both[1]],
        a3s("x", 1, stdio("run", &[], &[])),
        &["config.hcl:5:3: mcp_servers.x.url: ignored: `transport` (line 3) decides for `command`"],
    );
    check(
        "C6",
        &["transport = \"sse\"", both[0], both[1]],
        a3s("x", 1, sse("https://x.example/sse")),
        &["config.hcl:4:3: mcp_servers.x.command: ignored: `transport` (line 3) decides for `url`"],
    );
    check_wrong(
        "C6",
        &both,
        "4:3: mcp_servers.x: both `command` (line 3) and `url` (line 4) are set; a server is either a program to start or a URL to reach: \
         remove one of them",
    );
}

/// C14: the rules of this dialect, with their locations.
#[test]
fn rules_are_read_from_the_permissions_block() {
    let foreign = read(
        "permissions {\n  allow = [\"mcp__filesystem\"]\n  ask   = [\"mcp__github\"]\n  deny  = [\"mcp__github__create_issue\", \"mcp__*\"]\n}\n\
         permissions {\n  deny = [\"mcp__$x\"]\n}\n",
    );
    let rules = |rules: &[RuleText]| {
        rules
            .iter()
            .map(|rule| (rule.text.clone(), rule.dialect, rule.line))
            .collect::<Vec<_>>()
    };
    let rule = |text: &str, line| (text.to_owned(), Dialect::A3s, line);
    let Permissions {
        mode,
        allow,
        ask,
        deny,
        ..
    } = &foreign.config.permissions;
    assert_eq!(*mode, Mode::Ask);
    assert_eq!(rules(allow), [rule("mcp__filesystem", 2)]);
    assert_eq!(rules(ask), [rule("mcp__github", 3)]);
    assert_eq!(
        rules(deny),
        [
            rule("mcp__github__create_issue", 4),
            rule("mcp__*", 4),
            rule("mcp__$x", 7)
        ]
    );
}
