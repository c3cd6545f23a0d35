//! Tests of the core-agent dialect (promises S0): `.agents/mcp.json`.
#![allow(clippy::unwrap_used)]

use super::*;

const FILE: &str = "mcp.json";

/// The document's own examples.
const SCHEMA: &str = include_str!("../../tests/seeds/core-agent/schema.json");
const LINEAR: &str = include_str!("../../tests/seeds/core-agent/linear.json");
const PERMISSIONS: &str = include_str!("../../tests/seeds/core-agent/permissions.json");

fn read(text: &str) -> Foreign {
    load_foreign(Dialect::CoreAgent, FILE, text).unwrap()
}

/// The errors of an invalid file.
fn refused(text: &str) -> String {
    load_foreign(Dialect::CoreAgent, FILE, text)
        .map(|read| read.config)
        .unwrap_err()
}

/// One server with these fields, on line 2.
fn entry(fields: &str) -> String {
    format!("{{\"servers\": {{\n\"x\": {{{fields}}}\n}}}}")
}

fn core_agent(name: &str, line: usize, endpoint: Endpoint) -> ServerConfig {
    expected(Dialect::CoreAgent, name, FILE, line, endpoint)
}

fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> Endpoint {
    inheriting(command, args, env, ReferenceSyntax::Placeholder)
}

fn http(url: &str, headers: &[(&str, &str)]) -> Endpoint {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
        .collect();
    Endpoint::Http(HttpEndpoint {
        headers,
        wire: HttpTransportKind::Streamable,
        syntax: ReferenceSyntax::Placeholder,
        ..HttpEndpoint::new(url)
    })
}

/// Writes files into a project's folder and loads them.
fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Config, ConfigErrors>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join("project").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let nowhere = folder.path().join("nowhere");
    let config = load(&search(&folder.path().join("project"), &nowhere, &nowhere));
    (folder, config)
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

#[test]
fn s0_46_the_documents_three_examples_load_verbatim() {
    let schema = read(SCHEMA);
    let github = http(
        "https://api.githubcopilot.com/mcp/",
        &[("Authorization", "Bearer ${env:GITHUB_TOKEN}")],
    );
    let filesystem = stdio(
        "mcp-server-filesystem",
        &["--root", "/tmp"],
        &[("LOG_LEVEL", "info")],
    );
    assert_eq!(
        schema.servers(),
        [
            core_agent("filesystem", 4, filesystem),
            core_agent("github", 10, github)
        ]
    );
    assert_eq!(schema.warnings(), [""; 0]);

    let linear = read(LINEAR);
    let endpoint = http(
        "https://mcp.linear.app/mcp",
        &[("Authorization", "Bearer ${env:LINEAR_TOKEN}")],
    );
    assert_eq!(linear.servers(), [core_agent("linear", 3, endpoint)]);
    assert_eq!(linear.warnings(), [""; 0]);

    let permissions = read(PERMISSIONS);
    let rules: Vec<_> = permissions
        .config
        .permissions
        .allow
        .iter()
        .map(|rule| (rule.text.as_str(), rule.dialect))
        .collect();
    assert_eq!(rules, [("mcp:filesystem_read_file", Dialect::CoreAgent)]);
    assert_eq!(
        (permissions.servers(), permissions.warnings()),
        (vec![], vec![])
    );
}

#[test]
fn s0_01_servers_are_declared_in_agents_mcp_json_of_the_project() {
    let (folder, config) = project(&[(".agents/mcp.json", SCHEMA)]);
    let config = config.unwrap();
    let names: Vec<_> = config
        .servers
        .values()
        .map(|server| (server.name.as_str(), server.dialect))
        .collect();
    assert_eq!(
        names,
        [
            ("filesystem", Dialect::CoreAgent),
            ("github", Dialect::CoreAgent)
        ]
    );
    let source = &config.servers[0].source;
    let project = folder.path().canonicalize().unwrap().join("project");
    assert_eq!(*source.file, project.join(".agents/mcp.json"));
    assert_eq!(
        *source.folder, project,
        "relative paths start at the project"
    );
    assert_eq!((source.line, source.scope), (4, Scope::Project));
}

#[test]
fn s0_02_every_server_is_started_eagerly() {
    let config = read(SCHEMA).config;
    assert_eq!(
        config
            .servers
            .values()
            .map(|server| server.start)
            .collect::<Vec<_>>(),
        [Start::Eager, Start::Eager]
    );
}

#[test]
fn s0_03_version_is_the_integer_1_and_s0_41_may_be_left_out() {
    let with = |version: &str| format!("{{{version}\n\"servers\": {{}}}}");
    for fine in ["", "\"version\": 1,"] {
        assert_eq!(read(&with(fine)).warnings(), [""; 0], "{fine}");
    }
    let check = |version: &str, told: &str| assert_eq!(refused(&with(version)), told, "{version}");
    check(
        "\"version\": 2,",
        "mcp.json:1:13: version: version 2 is not known; expected 1",
    );
    check(
        "\"version\": 0,",
        "mcp.json:1:13: version: version 0 is not known; expected 1",
    );
    check(
        "\"version\": \"1\",",
        "mcp.json:1:13: version: expected 1, found a string",
    );
    check(
        "\"version\": 1.0,",
        "mcp.json:1:13: version: expected 1, found a decimal number",
    );
    check(
        "\"version\": null,",
        "mcp.json:1:13: version: expected 1, found nothing",
    );
}

/// Tools are prefixed with the name, so it stays as written: only the exposed name is sanitised.
#[test]
fn s0_04_servers_is_a_map_from_name_to_spec() {
    let text = r#"{"servers": {
        "my-server": {"transport": "stdio", "command": "one"},
        "file.system": {"transport": "http", "url": "https://x.example/mcp"}
    }}"#;
    let expected = [
        core_agent("my-server", 2, stdio("one", &[], &[])),
        core_agent("file.system", 3, http("https://x.example/mcp", &[])),
    ];
    assert_eq!(read(text).servers(), expected);
    let told = refused("{\"servers\": [\n{\"transport\": \"stdio\"}]}");
    let form =
        "expected an object with an entry for each server, { \"NAME\": { … } }, found a list";
    assert_eq!(told, format!("mcp.json:1:13: servers: {form}"));
    assert_eq!(
        refused("{\"servers\": {\"a\": 5}}"),
        "mcp.json:1:19: servers.a: expected an object, { … }, found an integer"
    );
}

#[test]
fn s0_05_transport_is_required_and_stdio_or_http() {
    let check = |fields: &str, told: &str| assert_eq!(refused(&entry(fields)), told, "{fields}");
    let missing =
        "`transport` is missing; expected \"stdio\" with a `command`, or \"http\" with a `url`";
    check(
        r#""command": "a""#,
        &format!("mcp.json:2:1: servers.x: {missing}"),
    );
    check(
        r#""url": "https://x.example/mcp""#,
        &format!("mcp.json:2:1: servers.x: {missing}"),
    );
    let at = "mcp.json:2:20: servers.x.transport";
    check(r#""transport": "sse", "url": "https://x.example/mcp""#, &{
        format!("{at}: unknown transport \"sse\"; expected \"stdio\" or \"http\"")
    });
    check(r#""transport": "HTTP", "url": "https://x.example/mcp""#, &{
        format!(
            "{at}: unknown transport \"HTTP\"; expected \"stdio\" or \"http\" (did you mean \"http\"?)"
        )
    });
    check(
        r#""transport": 1, "command": "a""#,
        &format!("{at}: expected \"stdio\" or \"http\", found an integer"),
    );
}

#[test]
fn s0_06_command_is_required_with_stdio_and_s0_10_url_with_http() {
    let check = |fields: &str, told: &str| assert_eq!(refused(&entry(fields)), told, "{fields}");
    check(
        r#""transport": "stdio""#,
        "mcp.json:2:1: servers.x: `command` is missing; expected the program to start",
    );
    check(
        r#""transport": "http""#,
        "mcp.json:2:1: servers.x: `url` is missing; expected the address of the server",
    );
    check(r#""transport": "stdio", "command": """#, {
        "mcp.json:2:29: servers.x.command: empty; expected the program to start, such as \"npx\" or \"./server\""
    });
    check(r#""transport": "http", "url": "ftp://x""#, {
        "mcp.json:2:28: servers.x.url: unsupported scheme \"ftp\"; expected http or https"
    });
}

#[test]
fn s0_07_args_are_the_tail_of_the_command_line() {
    let endpoint = stdio("a", &["--root", "/tmp", ""], &[]);
    assert_eq!(
        read(&entry(
            r#""transport": "stdio", "command": "a", "args": ["--root", "/tmp", ""]"#
        ))
        .servers(),
        [core_agent("x", 2, endpoint)]
    );
    assert_eq!(
        read(&entry(r#""transport": "stdio", "command": "a""#)).servers(),
        [core_agent("x", 2, stdio("a", &[], &[]))]
    );
    let told = refused(&entry(
        r#""transport": "stdio", "command": "a", "args": "--root""#,
    ));
    assert_eq!(
        told,
        "mcp.json:2:53: servers.x.args: expected a list of strings, such as [\"a\", \"b\"], found a string"
    );
}

#[test]
fn s0_08_env_is_layered_on_the_whole_parent_environment_and_wins() {
    let config = read(&entry(
        r#""transport": "stdio", "command": "a", "env": {"LOG_LEVEL": "info", "NEW": "1"}"#,
    ))
    .config;
    let child = child_environment(
        &config.servers[0].endpoint,
        &[
            ("LOG_LEVEL", "debug"),
            ("SECRET_OF_PARENT", "kept"),
            ("PATH", "/bin"),
        ],
    );
    let pairs: BTreeMap<_, _> = child
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("LOG_LEVEL", "info"),
        ("NEW", "1"),
        ("PATH", "/bin"),
        ("SECRET_OF_PARENT", "kept"),
    ];
    assert_eq!(pairs, BTreeMap::from(expected));
}

#[test]
fn s0_09_env_values_expand_env_placeholders() {
    let config = read(&entry(
        r#""transport": "stdio", "command": "a", "env": {"T": "<${env:TOKEN}|${env:TOKEN}>"}"#,
    ))
    .config;
    let child = child_environment(&config.servers[0].endpoint, &[("TOKEN", "${env:HOME}")]);
    let found = child.iter().find(|(name, _)| name == "T").unwrap();
    assert_eq!(
        found.1, "<${env:HOME}|${env:HOME}>",
        "once, and never again"
    );
}

#[test]
fn s0_11_headers_are_custom_and_s0_12_expand_env_placeholders() {
    let text = entry(
        r#""transport": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}", "X-Own": "a"}"#,
    );
    let config = read(&text).config;
    let Endpoint::Http(http) = &config.servers[0].endpoint else {
        panic!("no URL")
    };
    assert_eq!(http.wire, HttpTransportKind::Streamable);
    let resolved = resolve_url(http, &environment(&[("TOKEN", "s3cret")])).unwrap();
    let headers: Vec<_> = resolved
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(
        headers,
        [("Authorization", "Bearer s3cret"), ("X-Own", "a")]
    );
}

/// C12: every entry is checked when the file is loaded, and all errors are reported at once.
#[test]
fn s0_13_validation_runs_at_load_and_one_wrong_entry_is_fatal() {
    let text = r#"{"servers": {
"fine": {"transport": "stdio", "command": "a"},
"one": {"transport": "stdio"},
"two": {"transport": "http", "url": 5}
}}"#;
    let told = refused(text);
    let expected = "mcp.json:3:1: servers.one: `command` is missing; expected the program to start\n\
                    mcp.json:4:37: servers.two.url: expected a string in quotes, found an integer";
    assert_eq!(told, expected);
}

#[test]
fn s0_14_mixing_transports_is_rejected_at_load() {
    let check = |fields: &str, field: &str, rest: &str| {
        let told = refused(&entry(fields));
        let column = fields.find(&format!("\"{field}\"")).unwrap() + 7;
        assert_eq!(
            told,
            format!(
                "mcp.json:2:{column}: servers.x.{field}: mixes transports: {rest}; remove one of them"
            ),
            "{fields}"
        );
    };
    let stdio = |field: &str| {
        format!(
            "`{field}` belongs to \"http\", and this server is \"stdio\" (`transport`, line 2) with `command` in line 2"
        )
    };
    let http = |field: &str| {
        format!(
            "`{field}` belongs to \"stdio\", and this server is \"http\" (`transport`, line 2) with `url` in line 2"
        )
    };
    let url = r#""url": "https://x.example/mcp""#;
    check(
        &format!(r#""transport": "stdio", "command": "a", {url}"#),
        "url",
        &stdio("url"),
    );
    check(
        r#""transport": "stdio", "command": "a", "headers": {}"#,
        "headers",
        &stdio("headers"),
    );
    check(
        &format!(r#""transport": "http", {url}, "command": "a""#),
        "command",
        &http("command"),
    );
    check(
        &format!(r#""transport": "http", {url}, "args": []"#),
        "args",
        &http("args"),
    );
    check(
        &format!(r#""transport": "http", {url}, "env": {{}}"#),
        "env",
        &http("env"),
    );
    let lone = "`url` belongs to \"http\", and this server is \"stdio\" (`transport`, line 2)";
    check(&format!(r#""transport": "stdio", {url}"#), "url", lone);

    let both = refused(&entry(&format!(r#""command": "a", {url}"#)));
    assert!(
        both.contains("both `command` (line 2) and `url` (line 2) are set"),
        "{both}"
    );
    assert!(both.contains("`transport` is missing"), "{both}");
}

/// The placeholder is kept until the start: two starts in two environments differ.
#[test]
fn s0_15_placeholders_expand_at_start_with_the_environment_of_that_moment() {
    let config = read(&entry(
        r#""transport": "stdio", "command": "a", "env": {"T": "${env:TOKEN}"}"#,
    ))
    .config;
    let at_start = |token: &str| {
        let child = child_environment(&config.servers[0].endpoint, &[("TOKEN", token)]);
        child.into_iter().find(|(name, _)| name == "T").unwrap().1
    };
    assert_eq!(
        (at_start("one"), at_start("two")),
        ("one".to_owned(), "two".to_owned())
    );
}

#[test]
fn s0_16_an_unset_name_expands_to_the_empty_string_and_is_no_error() {
    let config = read(&entry(
        r#""transport": "http", "url": "https://x.example/mcp", "headers": {"A": "<${env:GONE}>"}"#,
    ))
    .config;
    let Endpoint::Http(http) = &config.servers[0].endpoint else {
        panic!("no URL")
    };
    let resolved = resolve_url(http, &environment(&[])).unwrap();
    assert_eq!(resolved.headers[0].1.expose(), "<>");
    assert_eq!(
        resolved.unset,
        [("GONE".to_owned(), "headers.A".to_owned())]
    );
    let config = read(&entry(
        r#""transport": "stdio", "command": "a", "env": {"T": "<${env:GONE}>"}"#,
    ))
    .config;
    assert_eq!(
        child_environment(&config.servers[0].endpoint, &[]),
        [("T".to_owned(), "<>".to_owned())]
    );
}

/// The placeholder is what is stored and shown; the value never is.
#[test]
fn s0_17_the_placeholder_is_stored_and_shown_instead_of_the_value() {
    let config = read(SCHEMA).config;
    let host = environment(&[("GITHUB_TOKEN", "ghp_CANARY")]);
    let github = &config.servers[1];
    let Endpoint::Http(http) = &github.endpoint else {
        panic!("no URL")
    };
    assert_eq!(
        http.headers["Authorization"].expose(),
        "Bearer ${env:GITHUB_TOKEN}"
    );
    let disclosure = crate::disclose(github, &host);
    let lines = disclosure.lines.join("\n");
    assert!(lines.contains("\"Bearer ${env:GITHUB_TOKEN}\""), "{lines}");
    let resolved = resolve_url(http, &host).unwrap();
    for shown in [lines, format!("{config:?}"), format!("{resolved:?}")] {
        assert!(!shown.contains("CANARY"), "{shown}");
    }
}

/// S0-42: `permissions` of the same file and of `config.json` next to it; the file's own mode takes
/// precedence, the rules of both apply.
#[test]
fn s0_42_permissions_are_read_from_the_file_and_from_config_json_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let agents = folder.path().join(".agents");
    std::fs::create_dir(&agents).unwrap();
    let file = ConfigFile::new(agents.join("mcp.json"), Scope::Given);
    let check = |own: &str, beside: Option<&str>, expected: (Mode, &[&str], &[&str])| {
        std::fs::write(agents.join("mcp.json"), own).unwrap();
        let _ = std::fs::remove_file(agents.join("config.json"));
        if let Some(beside) = beside {
            std::fs::write(agents.join("config.json"), beside).unwrap();
        }
        let config = load(std::slice::from_ref(&file)).unwrap();
        let rules = |rules: &[RuleText]| {
            rules
                .iter()
                .map(|rule| rule.text.clone())
                .collect::<Vec<_>>()
        };
        let Permissions {
            mode, allow, deny, ..
        } = &config.permissions;
        assert_eq!(
            (*mode, rules(allow), rules(deny)),
            (expected.0, owned(expected.1), owned(expected.2)),
            "{own} {beside:?}"
        );
        assert_eq!(config.warnings, [], "{own} {beside:?}");
        let permissions = &config.permissions;
        let mode_location = config.locations.get("permissions.mode");
        assert_eq!(
            (permissions.mode_dialect, permissions.only_unwatched),
            (
                mode_location.map(|_| Dialect::CoreAgent),
                permissions.configured
            )
        );
    };
    let owned_rule = r#"{"permissions": {"allow": ["mcp:filesystem_read_file"]}}"#;
    check("{}", None, (Mode::Ask, &[], &[]));
    check(
        owned_rule,
        None,
        (Mode::Ask, &["mcp:filesystem_read_file"], &[]),
    );
    check(
        "{}",
        Some(PERMISSIONS),
        (Mode::Ask, &["mcp:filesystem_read_file"], &[]),
    );
    check(
        "{}",
        Some(r#"{"model": "x", "permissions": {"mode": "yolo"}}"#),
        (Mode::Yolo, &[], &[]),
    );
    check(
        r#"{"permissions": {"mode": "ask", "allow": ["mcp:a_b"]}}"#,
        Some(r#"{"permissions": {"mode": "yolo", "deny": ["mcp:c_d"]}}"#),
        (Mode::Ask, &["mcp:a_b"], &["mcp:c_d"]),
    );

    std::fs::write(
        agents.join("config.json"),
        "{\"permissions\": {\n\"allow\": 5}}",
    )
    .unwrap();
    let told = load(std::slice::from_ref(&file)).unwrap_err();
    let line = format!(
        "{}:2:10: permissions.allow: expected a list of strings, such as [\"a\", \"b\"], found an integer",
        agents.join("config.json").display()
    );
    assert_eq!(told.to_string(), line);
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// S0-42 in a project: what allows more is held back, in either file; what restricts applies.
#[test]
fn s0_42_a_projects_config_json_can_only_tighten_until_it_is_accepted() {
    let beside = r#"{"permissions": {"mode": "yolo", "allow": ["mcp:a_b"], "deny": ["mcp:c_d"]}}"#;
    let (_folder, config) = project(&[(".agents/mcp.json", "{}"), (".agents/config.json", beside)]);
    let config = config.unwrap();
    assert_eq!(
        (
            config.permissions.mode,
            config.permissions.allow.len(),
            config.permissions.deny.len()
        ),
        (Mode::Ask, 0, 1)
    );
    assert_eq!(config.warnings, []);
    let held_back: Vec<_> = config
        .project_permissions
        .iter()
        .flat_map(|project| project.lines())
        .collect();
    assert!(
        held_back.len() == 2 && held_back[0].contains("yolo") && held_back[1].contains("mcp:a_b"),
        "{held_back:?}"
    );
    let (_folder, alone) = project(&[(".agents/config.json", beside)]);
    assert_eq!(
        alone.unwrap(),
        Config::default(),
        "without servers it is no file of ours"
    );
}

/// S0-43: only the values of env and headers expand, and only `${env:NAME}`.
#[test]
fn s0_43_everything_but_env_placeholders_in_env_and_headers_stays_literal() {
    let host = environment(&[("X", "expanded"), ("PATH", "/bin")]);
    let texts = ["${env:X}", "$X", "${X}", "$$", "${env:}"];
    let args = serde_json::to_string(&texts).unwrap();
    let env = r#"{"A": "$X", "B": "${X}", "C": "${env:X}", "D": "$${env:X}", "E": "${X:-d}"}"#;
    let config = read(&entry(&format!(
        r#""transport": "stdio", "command": "/bin/sh", "args": {args}, "env": {env}"#
    )))
    .config;
    let Endpoint::Stdio(stdio) = &config.servers[0].endpoint else {
        panic!("no program")
    };
    let launch = resolve_launch(stdio, Path::new("/"), &host).unwrap();
    assert_eq!(launch.args, texts);
    let own: Vec<_> = launch
        .env
        .iter()
        .filter(|(name, _)| name.len() == 1 && name != "X")
        .map(|(_, value)| value.expose())
        .collect();
    assert_eq!(own, ["$X", "${X}", "expanded", "$expanded", "${X:-d}"]);

    let command = StdioEndpoint {
        command: "${env:X}".to_owned(),
        ..stdio.clone()
    };
    let fault = resolve_launch(&command, Path::new("/"), &host).unwrap_err();
    assert_eq!(
        fault,
        LaunchFault::NoSuchProgram {
            command: "${env:X}".to_owned()
        }
    );
    let text = entry(
        r#""transport": "http", "url": "https://x.example/$X/${X}/${env:X}", "headers": {"A": "$X ${env:X}"}"#,
    );
    let config = read(&text).config;
    let Endpoint::Http(http) = &config.servers[0].endpoint else {
        panic!("no URL")
    };
    let resolved = resolve_url(http, &host).unwrap();
    assert!(
        !resolved.url.as_str().contains("expanded"),
        "{}",
        resolved.url
    );
    assert_eq!(resolved.headers[0].1.expose(), "$X expanded");
}

#[test]
fn an_unknown_field_is_reported_with_the_nearest_and_a_foreign_section_with_ours() {
    let text = "{\"version\": 1, \"server\": {},\n\"servers\": {\"x\": {\"transport\": \"stdio\", \"command\": \"a\", \"evn\": {}, \"timeout\": 5}}}";
    let expected = [
        "mcp.json:1:16: server: unknown field, ignored; did you mean `servers`?",
        "mcp.json:2:57: servers.x.evn: unknown field, ignored; did you mean `env`?",
        "mcp.json:2:68: servers.x.timeout: unknown field, ignored; did you mean `call_timeout`?",
    ];
    assert_eq!(read(text).warnings(), expected);
    let told = refused("{\"mcpServers\": {\"x\": {\"command\": \"a\"}}}");
    let expected = "not read: expected `servers`, where core-agent files have their servers, or another dialect";
    assert_eq!(told, format!("mcp.json:1:2: mcpServers: {expected}"));
}
