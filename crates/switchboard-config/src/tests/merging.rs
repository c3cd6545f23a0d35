//! Tests of merging files: whole entries are replaced, and a project can only restrict.
#![allow(clippy::unwrap_used)]

use super::*;

/// Loads files of these names, scopes and texts, highest precedence first; also returns their
/// folder.
fn load_files(files: &[(&str, Scope, &str)]) -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<ConfigFile> = files
        .iter()
        .map(|(name, scope, text)| {
            let path = folder.path().canonicalize().unwrap().join(name);
            std::fs::write(&path, text).unwrap();
            ConfigFile::new(path, *scope)
        })
        .collect();
    let config = load(&files).unwrap();
    (folder, config)
}

fn warnings(config: &Config) -> Vec<String> {
    config
        .warnings
        .iter()
        .map(|warning| {
            let file = Arc::new(PathBuf::from(warning.file.file_name().unwrap()));
            Diagnostic {
                file,
                ..warning.clone()
            }
            .to_string()
        })
        .collect()
}

#[test]
fn every_field_of_a_server_is_read_as_written() {
    let text = r#"
[servers.git]
command = "npx"
args = ["-y", "${PKG}"]
env = { TOKEN = "${T}" }
inherit_env = true
cwd = "sub"
transport = "stdio"
protocol = "legacy"
start = "lazy"
enabled = false
trust = true
asks = "yes"
session = "per-caller"
connect_timeout = "5s"
call_timeout = "500ms"
call_timeout_max = "1h"
include_tools = ["a*"]
exclude_tools = ["ab"]
idempotent_tools = ["get_*"]
description = "the repository"
max_message = "1MiB"
"#;
    let (folder, config) = load_files(&[("user.toml", Scope::User, text)]);
    let file = Arc::new(folder.path().canonicalize().unwrap().join("user.toml"));
    let name = ServerName::new("git").unwrap();
    let expected = ServerConfig {
        name: name.clone(),
        dialect: Dialect::Native,
        source: Source::new(file.clone(), 2, Scope::User),
        endpoint: Endpoint::Stdio(StdioEndpoint {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), "${PKG}".to_owned()],
            env: IndexMap::from([("TOKEN".to_owned(), Secret::new("${T}"))]),
            unset: vec![],
            inherit_env: true,
            cwd: Some("sub".to_owned()),
            syntax: ReferenceSyntax::Native,
        }),
        protocol: Protocol::Legacy,
        start: Start::Lazy,
        enabled: false,
        trust: true,
        asks: Asks::Yes,
        session: Sharing::PerCaller,
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            call: Duration::from_millis(500),
            call_max: Duration::from_secs(3600),
        },
        first_connect: None,
        written_call_timeout: Some(Duration::from_millis(500)),
        include_tools: Some(vec!["a*".to_owned()]),
        exclude_tools: vec!["ab".to_owned()],
        idempotent_tools: vec!["get_*".to_owned()],
        description: Some("the repository".to_owned()),
        max_message_bytes: 1 << 20,
    };
    assert_eq!(*config.servers[&name], expected);
    assert_eq!(
        config.locations["servers.git.cwd"],
        Location {
            file,
            line: 7,
            column: 1
        }
    );
    assert_eq!(config.warnings, []);
}

#[test]
fn omitted_fields_have_their_defaults() {
    let (_folder, config) = load_files(&[(
        "user.toml",
        Scope::User,
        "[servers.x]\nurl = 'https://x.example/mcp'\n",
    )]);
    let server = &config.servers[0];
    let endpoint = HttpEndpoint::new("https://x.example/mcp");
    let expected = ServerConfig {
        name: server.name.clone(),
        dialect: Dialect::Native,
        source: server.source.clone(),
        endpoint: Endpoint::Http(endpoint),
        protocol: Protocol::Auto,
        start: Start::Eager,
        enabled: true,
        trust: false,
        asks: Asks::Auto,
        session: Sharing::Shared,
        timeouts: Timeouts::default(),
        first_connect: None,
        written_call_timeout: None,
        include_tools: None,
        exclude_tools: vec![],
        idempotent_tools: vec![],
        description: None,
        max_message_bytes: MAX_MESSAGE_BYTES,
    };
    assert_eq!(**server, expected);
    assert_eq!(config.permissions, Permissions::default());
    assert_eq!(config.security, Security::default());
    assert_eq!(config.naming, Style::Mcp);
}

/// C10: the limits of a call adjust each other; that of connecting is separate from both.
#[test]
fn c10_connecting_and_calling_have_separate_limits_and_one_of_a_call_adjusts_the_other() {
    let check = |written: &str, connect: u64, call_seconds: u64, max_seconds: u64| {
        let (_folder, config) = load_files(&[(
            "user.toml",
            Scope::User,
            &format!("[servers.x]\ncommand = 'x'\n{written}\n"),
        )]);
        let expected = Timeouts {
            connect: Duration::from_secs(connect),
            call: Duration::from_secs(call_seconds),
            call_max: Duration::from_secs(max_seconds),
        };
        assert_eq!(config.servers[0].timeouts, expected, "{written}");
    };
    check("", 30, 60, 600);
    check("connect_timeout = '5s'", 5, 60, 600);
    check("connect_timeout = '20m'", 1200, 60, 600);
    check("call_timeout = '30m'", 30, 1800, 1800);
    check("call_timeout_max = '10s'", 30, 10, 10);
    check("call_timeout = '5s'\ncall_timeout_max = '5s'", 30, 5, 5);
}

#[test]
fn an_entry_of_higher_precedence_replaces_the_lower_one_completely() {
    let (folder, config) = load_files(&[
        (
            "project.toml",
            Scope::Project,
            "[servers.b]\ncommand = 'theirs'\n[servers.a]\ncommand = 'a'\n",
        ),
        (
            "user.toml",
            Scope::User,
            "[servers.c]\ncommand = 'c'\n[servers.b]\ncommand = 'mine'\nargs = ['-x']\nenv = { K = 'v' }\n",
        ),
    ]);
    let place = |name: &str| Arc::new(folder.path().canonicalize().unwrap().join(name));
    let shown: Vec<(&str, Scope, Option<Arc<PathBuf>>)> = config
        .servers
        .values()
        .map(|server| {
            (
                server.name.as_str(),
                server.source.scope,
                server.source.shadows.clone().map(|entry| entry.file),
            )
        })
        .collect();
    let expected = [
        ("b", Scope::Project, Some(place("user.toml"))),
        ("a", Scope::Project, None),
        ("c", Scope::User, None),
    ];
    assert_eq!(shown, expected);
    let Endpoint::Stdio(b) = &config.servers[0].endpoint else {
        panic!()
    };
    assert_eq!(
        (b.command.as_str(), b.args.len(), b.env.len()),
        ("theirs", 0, 0),
        "no field of the lower entry shows through"
    );
    assert_eq!(
        config.locations["servers.b.command"],
        Location {
            file: place("project.toml"),
            line: 2,
            column: 1
        }
    );
    assert!(!config.locations.contains_key("servers.b.args"));
}

/// S0-27: a permissions section configures a gate, even if it is empty and in any file; without one
/// there is no gate.
#[test]
fn s0_27_a_permissions_section_in_any_file_configures_a_gate() {
    let check = |projects: &str, users: &str, expected: bool| {
        let (_folder, config) = load_files(&[
            ("p.toml", Scope::Project, projects),
            ("u.toml", Scope::User, users),
        ]);
        assert_eq!(
            config.permissions.configured, expected,
            "{projects:?} {users:?}"
        );
    };
    check(
        "",
        "[servers.x]\ncommand = 'x'\n[security]\nlocked = true\n",
        false,
    );
    check("", "[permissions]\n", true);
    check("", "[permissions]\nmode = 'ask'\n", true);
    check("[permissions]\ndeny = ['x']\n", "", true);
}

#[test]
fn a_project_can_only_restrict() {
    let loosening = "[servers.x]\ncommand = 'x'\ntrust = true\n[permissions]\nmode = 'yolo'\nallow = ['*']\nask = ['x/a']\ndeny = ['x/b']\n\
                     [security]\nallow_servers = ['evil']\ndeny_servers = ['y']\nlocked = true\n[naming]\nstyle = 'identity'\n";
    let (folder, config) = load_files(&[
        ("project.toml", Scope::Project, loosening),
        (
            "user.toml",
            Scope::User,
            "[permissions]\ndeny = ['z']\n[security]\ndeny_servers = ['w']\n",
        ),
    ]);
    let file = |name: &str| Arc::new(folder.path().canonicalize().unwrap().join(name));
    let rule = |text: &str, name: &str, line: usize| RuleText {
        text: text.to_owned(),
        client: None,
        dialect: Dialect::Native,
        file: file(name),
        line,
    };
    let permissions = Permissions {
        mode: Mode::Ask,
        mode_dialect: None,
        allow: vec![],
        ask: vec![rule("x/a", "project.toml", 7)],
        deny: vec![rule("x/b", "project.toml", 8), rule("z", "user.toml", 2)],
        configured: true,
        only_unwatched: false,
    };
    assert_eq!(config.permissions, permissions);
    let security = Security {
        allow_servers: vec![],
        deny_servers: vec!["y".to_owned(), "w".to_owned()],
        locked: true,
    };
    assert_eq!(config.security, security);
    assert_eq!(config.naming, Style::Mcp);
    assert!(!config.servers[0].trust);
    let expected = [
        "project.toml:10:1: security.allow_servers: ignored: only your own file decides which servers may run; a project's file can only deny",
        "project.toml:14:1: naming.style: ignored: only your own file decides how tools are named",
    ];
    assert_eq!(warnings(&config), expected);
    assert!(
        !config.locations.contains_key("permissions.mode")
            && config.locations.contains_key("security.locked")
    );
    // What would allow more is held back for approval.
    let [held_back] = &config.project_permissions[..] else {
        panic!("{:?}", config.project_permissions)
    };
    assert_eq!(held_back.file, file("project.toml"));
    assert_eq!(
        held_back.lines(),
        [
            "mode \"yolo\": no tool of any server is asked about, your own servers included",
            "allow \"*\": every tool that this matches",
            "trust of server \"x\": every tool of it",
        ]
    );
}

/// An acceptance is bound to the file and everything that it allows: a change of that changes the
/// key, any other change does not.
#[test]
fn a_projects_permissions_have_their_own_fingerprint() {
    let key = |name: &str, text: &str| {
        let (_folder, config) = load_files(&[(name, Scope::Project, text)]);
        let project = config.project_permissions.into_iter().next().unwrap();
        crate::ProjectPermissions {
            file: Arc::new(name.into()),
            ..project
        }
        .key()
    };
    let text = "[servers.x]\ncommand = 'x'\n[permissions]\nallow = ['x/a']\n";
    let first = key("0.toml", text);
    assert_eq!(
        first,
        key("0.toml", &text.replace("'x'\n", "'y'\nstart = 'lazy'\n")),
        "the entry is another question"
    );
    assert_eq!(
        first,
        key("0.toml", &format!("# a remark\n{text}deny = ['x/b']\n")),
        "what tightens needs no yes"
    );
    for other in [
        text.replace("x/a", "x/b"),
        text.replace("['x/a']", "['x/a', 'x/b']"),
        format!("{text}mode = 'yolo'\n"),
        text.replace("'x'\n", "'x'\ntrust = true\n"),
    ] {
        assert_ne!(first, key("0.toml", &other), "{other}");
    }
    assert_ne!(first, key("1.toml", text));
}

/// A project that also sets `ask` or `deny` does not lift approvals by `yolo`; a setting that one
/// file lacks may come from another.
#[test]
fn a_projects_yolo_gives_way_to_any_configured_mode() {
    let lines = |files: &[(&str, Scope, &str)]| {
        let (_folder, config) = load_files(files);
        config
            .project_permissions
            .iter()
            .flat_map(|project| project.lines())
            .count()
    };
    let (yolo, ask) = (
        "[permissions]\nmode = 'yolo'\n",
        "[permissions]\nmode = 'ask'\n",
    );
    assert_eq!(
        lines(&[
            ("0.toml", Scope::Project, yolo),
            ("1.toml", Scope::User, ask)
        ]),
        1
    );
    assert_eq!(
        lines(&[
            ("0.toml", Scope::Project, yolo),
            ("1.toml", Scope::Project, ask)
        ]),
        0
    );
    let silent = r#"{"version": 1, "servers": {"x": {"transport": "stdio", "command": "x"}}}"#;
    assert_eq!(lines(&[("mcp.json", Scope::Project, silent)]), 1);
    assert_eq!(
        lines(&[
            ("mcp.json", Scope::Project, silent),
            ("1.toml", Scope::User, ask)
        ]),
        0
    );
    assert_eq!(
        lines(&[
            ("0.toml", Scope::Project, "[servers.x]\ncommand = 'y'\n"),
            ("mcp.json", Scope::Project, silent)
        ]),
        0
    );
    assert_eq!(
        lines(&[
            ("0.toml", Scope::User, yolo),
            ("mcp.json", Scope::User, silent)
        ]),
        0,
        "only a project's is held back"
    );
}

#[test]
fn the_stricter_mode_of_project_and_user_applies() {
    let check = |files: &[(Scope, &str)], expected: Mode| {
        let texts: Vec<String> = files
            .iter()
            .map(|(_, mode)| format!("[permissions]\nmode = '{mode}'\n"))
            .collect();
        let names = ["0.toml", "1.toml", "2.toml"];
        let files: Vec<_> = files
            .iter()
            .zip(&texts)
            .zip(names)
            .map(|(((scope, _), text), name)| (name, *scope, text.as_str()))
            .collect();
        assert_eq!(load_files(&files).1.permissions.mode, expected, "{files:?}");
    };
    check(&[(Scope::Project, "yolo"), (Scope::User, "ask")], Mode::Ask);
    check(
        &[(Scope::Project, "yolo"), (Scope::User, "yolo")],
        Mode::Yolo,
    );
    check(&[(Scope::Project, "ask"), (Scope::User, "yolo")], Mode::Ask);
    check(
        &[(Scope::Project, "ask"), (Scope::User, "deny")],
        Mode::Deny,
    );
    check(
        &[(Scope::Project, "deny"), (Scope::User, "yolo")],
        Mode::Deny,
    );
    check(&[(Scope::Project, "yolo")], Mode::Ask);
    check(
        &[(Scope::Given, "yolo"), (Scope::Given, "deny")],
        Mode::Yolo,
    );
    check(&[(Scope::Given, "ask"), (Scope::User, "yolo")], Mode::Ask);
}

#[test]
fn existing_files_are_found_the_projects_first() {
    let folder = tempfile::tempdir().unwrap();
    let (project, own) = (folder.path().join("project"), folder.path().join("config"));
    std::fs::create_dir_all(&project).unwrap();
    std::fs::create_dir_all(own.join("switchboard")).unwrap();
    assert_eq!(search(&project, &own, &own), []);
    let users = ConfigFile::new(own.join("switchboard/switchboard.toml"), Scope::User);
    std::fs::write(&users.path, "").unwrap();
    assert_eq!(search(&project, &own, &own), std::slice::from_ref(&users));
    let projects = ConfigFile::new(project.join("switchboard.toml"), Scope::Project);
    std::fs::write(&projects.path, "").unwrap();
    assert_eq!(search(&project, &own, &own), [projects, users.clone()]);
    assert_eq!(
        search(&own.join("switchboard"), &own, &own),
        [users],
        "the user's own folder is no project"
    );
}

/// A gateway that used its own entry in a client's file would connect to itself.
#[test]
fn the_gateways_own_entry_in_a_clients_file_is_not_a_server() {
    let (_folder, config) = load_files(&[(
        ".mcp.json",
        Scope::Given,
        r#"{"mcpServers": {
            "switchboard": {"command": "/opt/switchboard", "args": ["attach", "--as", "cursor"]},
            "other": {"command": "switchboard", "args": ["attach", "-c", "other.toml"]}
        }}"#,
    )]);
    assert_eq!(
        config
            .servers
            .keys()
            .map(ServerName::as_str)
            .collect::<Vec<_>>(),
        ["other"]
    );
    let by_url = |name: &str, url: &str| {
        let text = format!(r#"{{"mcpServers": {{"{name}": {{"type": "http", "url": "{url}"}}}}}}"#);
        load_files(&[(".mcp.json", Scope::Given, &text)])
            .1
            .servers
            .len()
    };
    assert_eq!(by_url("switchboard", "http://127.0.0.1:8808/mcp"), 0);
    assert_eq!(by_url("switchboard", "https://example.com/mcp"), 1);
    assert_eq!(by_url("mine", "http://127.0.0.1:8808/mcp"), 1);
}
