//! Tests of the gemini dialect (promises S2): `settings.json` with `mcpServers`.
#![allow(clippy::unwrap_used)]

use super::*;

const FILE: &str = "settings.json";

/// The document's own examples, the schematic one without its `...` line.
const STRUCTURE: &str = include_str!("../../tests/seeds/gemini/structure.json");
const PYTHON: &str = include_str!("../../tests/seeds/gemini/python.json");
const NODE: &str = include_str!("../../tests/seeds/gemini/node.json");
const DOCKER: &str = include_str!("../../tests/seeds/gemini/docker.json");
const HTTP: &str = include_str!("../../tests/seeds/gemini/http.json");
const HTTP_HEADERS: &str = include_str!("../../tests/seeds/gemini/http-headers.json");

fn read(text: &str) -> Foreign {
    load_foreign(Dialect::Gemini, FILE, text).unwrap()
}

/// One server with these fields, on line 2.
fn entry(fields: &str) -> String {
    format!("{{\"mcpServers\": {{\n\"x\": {{{fields}}}\n}}}}")
}

/// A server with the documented default deadline.
fn gemini(name: &str, line: usize, endpoint: Endpoint) -> ServerConfig {
    let call = Duration::from_secs(600);
    let timeouts = Timeouts {
        connect: call,
        call,
        call_max: call,
    };
    ServerConfig {
        timeouts,
        ..expected(Dialect::Gemini, name, FILE, line, endpoint)
    }
}

/// With a deadline of its own, which also applies to connecting (S2-21).
fn timed(server: ServerConfig, milliseconds: u64) -> ServerConfig {
    let written = Duration::from_millis(milliseconds);
    ServerConfig {
        timeouts: Timeouts {
            connect: written,
            call: written,
            call_max: written,
        },
        first_connect: None,
        written_call_timeout: Some(written),
        ..server
    }
}

fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> Endpoint {
    inheriting(command, args, env, ReferenceSyntax::Shell)
}

fn within(endpoint: Endpoint, folder: &str) -> Endpoint {
    let Endpoint::Stdio(stdio) = endpoint else {
        panic!("no program")
    };
    Endpoint::Stdio(StdioEndpoint {
        cwd: Some(folder.to_owned()),
        ..stdio
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
        syntax: ReferenceSyntax::Shell,
        ..HttpEndpoint::new(url)
    })
}

#[track_caller]
fn check(text: &str, expected: &[ServerConfig], warnings: &[&str]) {
    let foreign = read(text);
    assert_eq!(foreign.servers(), expected, "{text}");
    assert_eq!(foreign.warnings(), warnings, "{text}");
}

#[test]
fn s2_71_the_documents_six_examples_load_verbatim() {
    let structure = within(
        stdio(
            "path/to/server",
            &["--arg1", "value1"],
            &[("API_KEY", "$MY_API_TOKEN")],
        ),
        "./server-directory",
    );
    check(
        STRUCTURE,
        &[timed(gemini("serverName", 3, structure), 30_000)],
        &[],
    );
    let env = [
        ("DATABASE_URL", "$DB_CONNECTION_STRING"),
        ("API_KEY", "${EXTERNAL_API_KEY}"),
    ];
    let python = within(
        stdio("python", &["-m", "my_mcp_server", "--port", "8080"], &env),
        "./mcp-servers/python",
    );
    check(
        PYTHON,
        &[timed(gemini("pythonTools", 3, python), 15_000)],
        &[],
    );
    let node = within(
        stdio("node", &["dist/server.js", "--verbose"], &[]),
        "./mcp-servers/node",
    );
    check(
        NODE,
        &[ServerConfig {
            trust: true,
            ..gemini("nodeServer", 3, node)
        }],
        &[],
    );
    let args = [
        "run",
        "-i",
        "--rm",
        "-e",
        "API_KEY",
        "-v",
        "${PWD}:/workspace",
        "my-mcp-server:latest",
    ];
    let docker = stdio("docker", &args, &[("API_KEY", "$EXTERNAL_SERVICE_TOKEN")]);
    check(DOCKER, &[gemini("dockerizedServer", 3, docker)], &[]);
    let http = url(
        "http://localhost:3000/mcp",
        HttpTransportKind::Streamable,
        &[],
    );
    check(HTTP, &[timed(gemini("httpServer", 3, http), 5000)], &[]);
    let headers = [
        ("Authorization", "Bearer your-api-token"),
        ("X-Custom-Header", "custom-value"),
        ("Content-Type", "application/json"),
    ];
    let http = url(
        "http://localhost:3000/mcp",
        HttpTransportKind::Streamable,
        &headers,
    );
    check(
        HTTP_HEADERS,
        &[timed(gemini("httpServerWithAuth", 3, http), 5000)],
        &[],
    );
}

/// S2-04, S2-58: each entry is read, in the order of the file; keys of other features are ignored
/// silently.
#[test]
fn s2_04_every_entry_of_mcp_servers_is_read_and_s2_58_other_keys_are_ignored_silently() {
    let text = r#"{
  // comments are fine
  "theme": "Dark", "selectedAuthType": "oauth", "mcp": {"allowed": ["b"]}, "tools": {"core": []},
  "mcpServers": {
    "b": {"command": "one"},
    "a": {"httpUrl": "https://a.example/mcp"},
    "c": {"url": "https://c.example/sse"},
  },
}"#;
    let expected = [
        gemini("b", 5, stdio("one", &[], &[])),
        gemini(
            "a",
            6,
            url("https://a.example/mcp", HttpTransportKind::Streamable, &[]),
        ),
        gemini(
            "c",
            7,
            url("https://c.example/sse", HttpTransportKind::Sse, &[]),
        ),
    ];
    check(text, &expected, &[]);
    check(r#"{"theme": "Dark"}"#, &[], &[]);
    // Also if a key looks like another program's.
    for key in ["servers", "mcp_servers", "context_servers"] {
        check(
            &format!(r#"{{"{key}": {{"x": {{"command": "a"}}}}}}"#),
            &[],
            &[],
        );
    }
}

/// The user's `~/.gemini/settings.json` and the project's `.gemini/settings.json`.
fn found(project: Option<&str>, user: Option<&str>) -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    for (location, text) in [("project", project), ("home", user)] {
        let own = folder.path().join(location).join(".gemini");
        std::fs::create_dir_all(&own).unwrap();
        if let Some(text) = text {
            std::fs::write(own.join("settings.json"), text).unwrap();
        }
    }
    let at = |name: &str| folder.path().join(name);
    let config = load(&search(&at("project"), &at("nowhere"), &at("home"))).unwrap();
    (folder, config)
}

#[test]
fn s2_08_settings_are_found_in_the_users_home_and_in_the_project() {
    let text = entry(r#""command": "a""#);
    for (project, user, scope) in [
        (Some(text.as_str()), None, Scope::Project),
        (None, Some(text.as_str()), Scope::User),
    ] {
        let (_folder, config) = found(project, user);
        let servers: Vec<_> = config
            .servers
            .values()
            .map(|server| (server.name.as_str(), server.dialect, server.source.scope))
            .collect();
        assert_eq!(servers, [("x", Dialect::Gemini, scope)]);
    }
}

/// S2-09, S2-20, C6: one of three is required, in the documented order; the others are reported.
#[test]
fn s2_20_http_url_comes_before_url_before_command_and_s2_09_each_of_them_does() {
    let (streamable, sse) = (HttpTransportKind::Streamable, HttpTransportKind::Sse);
    let lost = |column: usize, loser: &str, winner: &str| {
        format!(
            "settings.json:2:{column}: mcpServers.x.{loser}: ignored: `{winner}` (line 2) comes before it; remove one of them"
        )
    };
    let check = |fields: &str, endpoint: Endpoint, warnings: &[String]| {
        let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
        check(&entry(fields), &[gemini("x", 2, endpoint)], &warnings);
    };
    check(r#""command": "a""#, stdio("a", &[], &[]), &[]);
    check(
        r#""url": "http://localhost:8080/sse""#,
        url("http://localhost:8080/sse", sse, &[]),
        &[],
    );
    check(
        r#""httpUrl": "http://h/mcp""#,
        url("http://h/mcp", streamable, &[]),
        &[],
    );
    check(
        r#""command": "a", "url": "http://u/sse""#,
        url("http://u/sse", sse, &[]),
        &[lost(7, "command", "url")],
    );
    check(
        r#""command": "a", "url": "http://u/sse", "httpUrl": "http://h/mcp""#,
        url("http://h/mcp", streamable, &[]),
        &[lost(7, "command", "httpUrl"), lost(23, "url", "httpUrl")],
    );
    check(
        r#""httpUrl": "", "command": "a""#,
        stdio("a", &[], &[]),
        &["settings.json:2:7: mcpServers.x.httpUrl: ignored: it is empty; remove it".to_owned()],
    );
    check(
        r#""url": "http://u/mcp", "type": "http""#,
        url("http://u/mcp", streamable, &[]),
        &[],
    );
}

#[test]
fn s2_10_args_are_strings_and_s2_13_cwd_may_be_relative() {
    let text = entry(r#""command": "a", "args": ["--x", "1"], "cwd": "./mcp-servers/python""#);
    check(
        &text,
        &[gemini(
            "x",
            2,
            within(stdio("a", &["--x", "1"], &[]), "./mcp-servers/python"),
        )],
        &[],
    );
    let wrong = read(&entry(r#""command": "a", "args": ["--x", 1]"#));
    let expected =
        "settings.json:2:39: mcpServers.x.args[1]: expected a string, found an integer".to_owned();
    assert_eq!(wrong.faults(), [("x".to_owned(), Some(expected))]);
}

/// S2-11, S2-17: any header may be set, also one that an HTTP client sets itself.
#[test]
fn s2_11_and_s2_17_custom_headers_of_any_name_are_kept() {
    let fields = r#""httpUrl": "http://h/mcp", "headers": {"Authorization": "Bearer $T", "X-Custom-Header": "v", "Content-Type": "application/json"}"#;
    let config = read(&entry(fields)).config;
    let Endpoint::Http(http) = &config.servers[0].endpoint else {
        panic!("no URL")
    };
    let host = Environment::new([("T".to_owned(), "s3cret".to_owned())]);
    let resolved = resolve_url(http, &host).unwrap();
    let headers: Vec<_> = resolved
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(
        headers,
        [
            ("Authorization", "Bearer s3cret"),
            ("X-Custom-Header", "v"),
            ("Content-Type", "application/json")
        ]
    );
}

#[test]
fn s2_12_env_values_refer_to_the_hosts_variables_with_a_bare_or_braced_name() {
    let fields = r#""command": "a", "env": {"A": "$TOKEN", "B": "${TOKEN}", "C": "<$TOKEN-${OTHER}>", "D": "$5 ${a-b}", "PORT": 8080}"#;
    let config = read(&entry(fields)).config;
    let child = child_environment(
        &config.servers[0].endpoint,
        &[("TOKEN", "$OTHER"), ("OTHER", "o")],
    );
    let value = |name: &str| {
        child
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
            .unwrap()
    };
    let values = ["A", "B", "C", "D", "PORT", "OTHER"].map(value);
    assert_eq!(
        values,
        ["$OTHER", "$OTHER", "<$OTHER-o>", "$5 ${a-b}", "8080", "o"],
        "each in one pass"
    );
}

/// S2-14, S2-18: milliseconds, absolute, ten minutes by default, on every transport.
#[test]
fn s2_14_timeout_is_in_milliseconds_with_a_default_of_ten_minutes_and_s2_18_holds_for_http_too() {
    let calls = |fields: &str| {
        let timeouts = read(&entry(fields)).config.servers[0].timeouts;
        (timeouts.call, timeouts.call_max)
    };
    let both = |milliseconds| {
        (
            Duration::from_millis(milliseconds),
            Duration::from_millis(milliseconds),
        )
    };
    assert_eq!(calls(r#""command": "a""#), both(600_000));
    assert_eq!(calls(r#""command": "a", "timeout": 15000"#), both(15_000));
    assert_eq!(
        calls(r#""httpUrl": "http://h/mcp", "timeout": 5000"#),
        both(5000)
    );
    assert_eq!(calls(r#""url": "http://u/sse", "timeout": 1"#), both(1));
    for wrong in ["0", "-1", "1.5", "\"15000\""] {
        let [(_, fault)] =
            &read(&entry(&format!(r#""command": "a", "timeout": {wrong}"#))).faults()[..]
        else {
            panic!("one")
        };
        let expected = "settings.json:2:34: mcpServers.x.timeout: expected a whole number of milliseconds, more than 0";
        assert!(
            fault.as_deref().unwrap().starts_with(expected),
            "{wrong}: {fault:?}"
        );
    }
}

/// S2-21: connecting has the configured timeout, or the documented default of ten minutes.
#[test]
fn s2_21_the_timeout_and_its_default_of_ten_minutes_hold_for_connecting() {
    let connect = |fields: &str| read(&entry(fields)).config.servers[0].timeouts.connect;
    assert_eq!(connect(r#""command": "a""#), Duration::from_secs(600));
    assert_eq!(
        connect(r#""httpUrl": "http://h/mcp""#),
        Duration::from_secs(600)
    );
    assert_eq!(
        connect(r#""command": "a", "timeout": 15000"#),
        Duration::from_secs(15)
    );
}

/// S2-15: false by default; a project's file removes no approval by itself.
#[test]
fn s2_15_trust_is_false_by_default_and_held_back_in_a_projects_file() {
    let trust = |fields: &str| read(&entry(fields)).config.servers[0].trust;
    assert!(!trust(r#""command": "a""#));
    assert!(!trust(r#""command": "a", "trust": false"#));
    assert!(trust(r#""command": "a", "trust": true"#));
    let text = entry(r#""command": "a", "trust": true"#);
    let (_folder, users) = found(None, Some(&text));
    assert_eq!((users.servers[0].trust, users.warnings.len()), (true, 0));
    let (_folder, projects) = found(Some(&text), None);
    assert!(!projects.servers[0].trust);
    assert_eq!(projects.warnings, []);
    assert_eq!(
        projects.project_permissions[0].lines(),
        ["trust of server \"x\": every tool of it"]
    );
}

/// `${PWD}` is in the arguments, not in the environment: both are expanded.
#[test]
fn s2_16_the_docker_example_gets_the_folder_and_the_token() {
    let config = read(DOCKER).config;
    let Endpoint::Stdio(stdio) = &config.servers[0].endpoint else {
        panic!("no program")
    };
    let stdio = StdioEndpoint {
        command: "/bin/sh".to_owned(),
        ..stdio.clone()
    };
    let host = [
        ("PWD", "/work/my project"),
        ("EXTERNAL_SERVICE_TOKEN", "t0ken"),
        ("PATH", "/bin"),
    ];
    let host = Environment::new(host.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let launch = resolve_launch(&stdio, Path::new("/"), &host).unwrap();
    let args = [
        "run",
        "-i",
        "--rm",
        "-e",
        "API_KEY",
        "-v",
        "/work/my project:/workspace",
        "my-mcp-server:latest",
    ];
    assert_eq!(launch.args, args);
    let key = launch
        .env
        .iter()
        .find(|(name, _)| name == "API_KEY")
        .unwrap();
    assert_eq!(key.1.expose(), "t0ken");
}

#[test]
fn s2_59_user_and_project_files_merge_and_the_projects_entry_wins() {
    let user = r#"{"mcpServers": {"both": {"command": "user"}, "only": {"command": "user"}}}"#;
    let project = r#"{"mcpServers": {"both": {"command": "project"}}}"#;
    let (folder, config) = found(Some(project), Some(user));
    let commands: Vec<_> = config
        .servers
        .values()
        .map(|server| match &server.endpoint {
            Endpoint::Stdio(stdio) => (
                server.name.as_str(),
                stdio.command.as_str(),
                server.source.scope,
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        commands,
        [
            ("both", "project", Scope::Project),
            ("only", "user", Scope::User)
        ]
    );
    let shadowed = folder
        .path()
        .canonicalize()
        .unwrap()
        .join("home/.gemini/settings.json");
    let shadows = config.servers[0].source.shadows.as_ref().unwrap();
    assert_eq!((&*shadows.file, shadows.scope), (&shadowed, Scope::User));
}

/// S2-60: paths start at the folder that contains `.gemini`, or at the working folder for the
/// user's file.
#[test]
fn s2_60_relative_paths_start_at_the_project_or_at_the_working_folder() {
    let text = entry(r#""command": "./server", "cwd": "sub""#);
    let (folder, config) = found(Some(&text), None);
    assert_eq!(
        *config.servers[0].source.folder,
        folder.path().canonicalize().unwrap().join("project")
    );
    let (_folder, config) = found(None, Some(&text));
    assert_eq!(
        *config.servers[0].source.folder,
        std::env::current_dir().unwrap()
    );
    let (folder, _) = found(Some(&text), None);
    let given = load(&[ConfigFile::new(
        folder.path().join("project/.gemini/settings.json"),
        Scope::Given,
    )])
    .unwrap();
    assert_eq!(
        *given.servers[0].source.folder,
        folder.path().canonicalize().unwrap().join("project")
    );
}

/// S2-62, C12: only that entry fails, with its location; those before and after it run.
#[test]
fn s2_62_an_entry_with_none_of_the_three_fails_alone() {
    let text = r#"{"mcpServers": {
"before": {"command": "a"},
"none": {"args": ["x"]},
"list": [],
"after": {"command": "b"}
}}"#;
    let none = "settings.json:3:1: mcpServers.none: none of `httpUrl`, `url` and `command` is set; expected a URL to reach or a \
                program to start";
    let list = "settings.json:4:9: mcpServers.list: expected an object, { … }, found a list";
    let expected = [
        ("before", None),
        ("none", Some(none)),
        ("list", Some(list)),
        ("after", None),
    ];
    assert_eq!(
        read(text).faults(),
        expected.map(|(name, fault)| (name.to_owned(), fault.map(str::to_owned)))
    );
}

#[test]
fn s2_64_an_unset_variable_is_the_empty_string_with_a_warning() {
    let config = read(&entry(
        r#""command": "/bin/sh", "args": ["<$GONE>"], "env": {"A": "${GONE}x"}"#,
    ))
    .config;
    let Endpoint::Stdio(stdio) = &config.servers[0].endpoint else {
        panic!("no program")
    };
    let launch = resolve_launch(stdio, Path::new("/"), &Environment::default()).unwrap();
    assert_eq!(launch.args, ["<>"]);
    assert_eq!(
        launch
            .env
            .iter()
            .find(|(name, _)| name == "A")
            .unwrap()
            .1
            .expose(),
        "x"
    );
    // The warnings of the host, by name and field.
    let unset = [
        ("GONE".to_owned(), "args[0]".to_owned()),
        ("GONE".to_owned(), "env.A".to_owned()),
    ];
    assert_eq!(launch.unset, unset);
}

/// C18, and fields of later versions: fields of the other transport are reported and ignored; the
/// rest is read.
#[test]
fn c18_fields_of_the_other_transport_are_warned_about_and_later_fields_arrive() {
    let fields = r#""httpUrl": "https://h.example/mcp", "env": {"A": "b"}, "includeTools": ["a*"], "excludeTools": ["ab"], "description": "d", "oauth": {"enabled": true, "clientId": "id", "clientSecret": "s3cret", "scopes": ["s"], "redirectUri": "x"}"#;
    let foreign = read(&entry(fields));
    let warnings = foreign.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains(
            "mcpServers.x.env: ignored: belongs to servers with a `command`; this one is a URL to reach (`httpUrl`, line 2)"
        ),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("mcpServers.x.oauth.redirectUri: unknown field, ignored"),
        "{warnings:?}"
    );
    let server = &foreign.servers()[0];
    let Endpoint::Http(http) = &server.endpoint else {
        panic!("no URL")
    };
    let auth = HttpAuth {
        client_id: Some("id".to_owned()),
        client_secret: Some(Secret::new("s3cret")),
        scopes: vec!["s".to_owned()],
        ..HttpAuth::default()
    };
    assert_eq!(http.auth, auth);
    let rest = (
        &server.include_tools,
        &server.exclude_tools,
        &server.description,
    );
    assert_eq!(
        rest,
        (
            &Some(vec!["a*".to_owned()]),
            &vec!["ab".to_owned()],
            &Some("d".to_owned())
        )
    );
}

#[test]
fn messages_use_the_files_own_field_names() {
    let fault = |fields: &str| read(&entry(fields)).faults()[0].1.clone().unwrap();
    assert_eq!(fault(r#""httpUrl": "nowhere""#), {
        "settings.json:2:7: mcpServers.x.httpUrl: not a URL: relative URL without a base; expected one such as \"https://example.com/mcp\""
    });
    let warnings = read(&entry(r#""command": "a", "timout": 5, "includeTool": []"#)).warnings();
    assert_eq!(
        warnings,
        [
            "settings.json:2:23: mcpServers.x.timout: unknown field, ignored; did you mean `timeout`?",
            "settings.json:2:36: mcpServers.x.includeTool: unknown field, ignored; did you mean `includeTools`?",
        ]
    );
}
