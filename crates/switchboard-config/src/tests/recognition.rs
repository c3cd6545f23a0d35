//! Tests of recognising dialects, and of the search for files.
#![allow(clippy::unwrap_used)]

use super::*;

/// The dialects that the servers of a file were read as, and the notices about it.
fn recognised(path: &str, text: &str) -> (Vec<Dialect>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    let config = load(&[ConfigFile::new(&file, Scope::Given)])
        .unwrap_or_else(|errors| panic!("{path}: {errors}"));
    let notices = config
        .warnings
        .iter()
        .filter(|warning| warning.message.contains("look like this too"));
    (
        config
            .servers
            .values()
            .map(|server| server.dialect)
            .collect(),
        notices.map(|notice| notice.message.clone()).collect(),
    )
}

#[track_caller]
fn check(path: &str, text: &str, dialect: Dialect) {
    assert_eq!(
        recognised(path, text),
        (vec![dialect], vec![]),
        "{path}: {text}"
    );
}

const PLAIN: &str = r#"{"mcpServers": {"x": {"command": "a"}}}"#;

#[test]
fn a_dialect_is_recognised_by_path_first() {
    check(
        "switchboard.toml",
        "[servers.x]\ncommand = \"a\"\n",
        Dialect::Native,
    );
    check(
        ".agents/mcp.json",
        r#"{"servers": {"x": {"transport": "stdio", "command": "a"}}}"#,
        Dialect::CoreAgent,
    );
    check(".gemini/settings.json", PLAIN, Dialect::Gemini);
    for location in [
        ".mcp.json",
        ".cursor/mcp.json",
        "claude_desktop_config.json",
        ".claude.json",
    ] {
        check(location, PLAIN, Dialect::McpJson);
    }
    check(
        ".vscode/mcp.json",
        r#"{"servers": {"x": {"command": "a"}}}"#,
        Dialect::McpJson,
    );
    check(
        ".codex/config.toml",
        "[mcp_servers.x]\ncommand = \"a\"\n",
        Dialect::McpJson,
    );
    let http = r#"{"mcpServers": {"x": {"httpUrl": "https://x.example/mcp"}}}"#;
    check(".mcp.json", http, Dialect::McpJson);
}

#[test]
fn elsewhere_a_dialect_is_recognised_by_its_unique_keys() {
    check(
        "a.json",
        r#"{"mcpServers": {"x": {"httpUrl": "https://x.example/mcp"}}}"#,
        Dialect::Gemini,
    );
    check(
        "a.json",
        r#"{"mcpServers": {"x": {"command": "a", "trust": true}}}"#,
        Dialect::Gemini,
    );
    check(
        "a.json",
        r#"{"version": 1, "servers": {"x": {"transport": "stdio", "command": "a"}}}"#,
        Dialect::CoreAgent,
    );
    check(
        "a.json",
        r#"{"servers": {"x": {"transport": "stdio", "command": "a"}}}"#,
        Dialect::CoreAgent,
    );
    check(
        "a.json",
        r#"{"servers": {"x": {"type": "stdio", "command": "a"}}}"#,
        Dialect::McpJson,
    );
    check(
        "a.json",
        r#"{"mcpServers": {"x": {"type": "stdio", "command": "a"}}}"#,
        Dialect::McpJson,
    );
    check(
        "a.toml",
        "[mcp_servers.x]\ncommand = \"a\"\n[security]\nmcp_server_allowlist = [\"x\"]\n",
        Dialect::AgentCode,
    );
    check(
        "a.toml",
        "[mcp_servers.x]\ncommand = \"a\"\n[[permissions.rules]]\ntool = \"mcp__x__*\"\naction = \"allow\"\n",
        Dialect::AgentCode,
    );
    check(
        "a.toml",
        "[mcp_servers.x]\ncommand = \"a\"\nstartup_timeout_sec = 5\n",
        Dialect::McpJson,
    );
    check(
        "a.toml",
        "[mcp_servers.x]\ncommand = \"a\"\n",
        Dialect::AgentCode,
    );
    check(
        "a.toml",
        "[mcp_servers.x]\nurl = \"http://localhost:8080\"\n",
        Dialect::AgentCode,
    );
    check("a.toml", "[servers.x]\ncommand = \"a\"\n", Dialect::Native);
    check(
        "a.hcl",
        "mcp_servers {\n  name = \"x\"\n  command = \"a\"\n}\n",
        Dialect::A3s,
    );
    check(
        "a.yaml",
        "mcpServers:\n  x:\n    type: stdio\n    command: a\n",
        Dialect::McpJson,
    );
    check(
        "no-ending",
        "{\"mcpServers\": {\"x\": {\"httpUrl\": \"https://x.example/mcp\"}}}",
        Dialect::Gemini,
    );
    check(
        "no-ending",
        "[servers.x]\ncommand = \"a\"\n",
        Dialect::Native,
    );
}

/// S4-28: each documented example is recognised, whatever its file name, without a notice.
#[test]
fn s4_28_each_documents_own_examples_are_recognised() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds");
    let documents = [
        ("a3s", Dialect::A3s, 3),
        ("agent-apps", Dialect::AgentApps, 1),
        ("agent-code", Dialect::AgentCode, 4),
        ("core-agent", Dialect::CoreAgent, 3),
        ("gemini", Dialect::Gemini, 6),
    ];
    for (folder, dialect, count) in documents {
        let examples: Vec<_> = std::fs::read_dir(seeds.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(examples.len(), count, "{folder}");
        for example in examples {
            let text = std::fs::read_to_string(&example).unwrap();
            let elsewhere = format!("a.{}", example.extension().unwrap().to_str().unwrap());
            assert_eq!(kind(&elsewhere, &text), dialect, "{}", example.display());
        }
    }
}

/// The dialect that a file is read as, with servers in it or without.
fn kind(path: &str, text: &str) -> Dialect {
    let path = std::path::Path::new(path);
    let mut diagnostics = diagnostic::Diagnostics::new(std::sync::Arc::new(path.to_owned()), text);
    let format = format::Format::of(path).unwrap();
    let document = format.parse(text, &mut diagnostics);
    let dialect = dialects::recognise(path, format, &document, &mut diagnostics);
    assert_eq!(diagnostics.warnings, [], "{text}");
    dialect
}

#[test]
fn an_ambiguous_file_is_read_as_mcp_json_with_a_notice() {
    let gemini = "read as mcp-json; files of gemini look like this too: name its dialect: gemini or mcp-json";
    assert_eq!(
        recognised("a.json", PLAIN),
        (vec![Dialect::McpJson], vec![gemini.to_owned()])
    );
    assert_eq!(
        recognised("a.json", r#"{"mcpServers": {}}"#),
        (vec![], vec![]),
        "nothing to tell apart"
    );
}

#[test]
fn a_given_dialect_takes_precedence_over_path_and_content() {
    for (dialect, path) in [
        (Dialect::Gemini, ".mcp.json"),
        (Dialect::McpJson, ".gemini/settings.json"),
        (Dialect::Gemini, "x"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, PLAIN).unwrap();
        let config = load(&[ConfigFile {
            dialect: Some(dialect),
            ..ConfigFile::new(file, Scope::Given)
        }])
        .unwrap();
        assert_eq!(
            (config.servers[0].dialect, config.warnings.len()),
            (dialect, 0),
            "{path}"
        );
    }
}

/// Files of different dialects at once: each server has its own dialect's profile, and an entry of
/// higher precedence replaces the lower one.
#[test]
fn files_of_different_dialects_are_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let texts = [
        ("switchboard.toml", "[servers.a]\ncommand = \"native\"\n"),
        (
            "gemini.json",
            r#"{"mcpServers": {"a": {"httpUrl": "https://g.example"}, "b": {"httpUrl": "https://g.example"}}}"#,
        ),
        (
            "core.json",
            r#"{"version": 1, "servers": {"b": {"transport": "stdio", "command": "c"}, "c": {"transport": "stdio", "command": "c"}}}"#,
        ),
        (
            "a3s.hcl",
            "mcp_servers {\n  name = \"d\"\n  command = \"d\"\n}\n",
        ),
    ];
    let files: Vec<_> = texts
        .iter()
        .map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            ConfigFile::new(path, Scope::Given)
        })
        .collect();
    let config = load(&files).unwrap();
    let read: Vec<_> = config
        .servers
        .values()
        .map(|server| {
            (
                server.name.as_str(),
                server.dialect,
                server.source.shadows.is_some(),
            )
        })
        .collect();
    let expected = [
        ("a", Dialect::Native, true),
        ("b", Dialect::Gemini, true),
        ("c", Dialect::CoreAgent, false),
        ("d", Dialect::A3s, false),
    ];
    assert_eq!(read, expected);
}

#[test]
fn files_are_searched_in_a_fixed_order_the_projects_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (project, config, home) = (at("project"), at("config"), at("home"));
    let order = [
        ("project/switchboard.toml", Scope::Project),
        ("project/.mcp.json", Scope::Project),
        ("project/.agents/mcp.json", Scope::Project),
        ("project/.gemini/settings.json", Scope::Project),
        ("config/switchboard/switchboard.toml", Scope::User),
        ("home/.agents/mcp.json", Scope::User),
        ("home/.gemini/settings.json", Scope::User),
    ];
    let expected = order.map(|(name, scope)| ConfigFile::new(at(name), scope));
    assert_eq!(search_order(&project, &config, &home), expected);
    assert_eq!(search(&project, &config, &home), [], "none is there");
    for file in expected.iter().rev() {
        std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
        std::fs::write(&file.path, "").unwrap();
    }
    assert_eq!(search(&project, &config, &home), expected);
    let own = search(&home, &config, &home);
    assert_eq!(
        own,
        expected[4..],
        "in the home folder the user's files are the user's"
    );
}

/// T1: a project's file is found only by a path without links; the user's own may be a link.
#[test]
fn t1_a_projects_file_behind_a_link_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in [
        "good/.agents",
        "good/.gemini",
        "home",
        "project/.gemini",
        "config",
    ] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::write(at("good/.agents/mcp.json"), "{}").unwrap();
    std::fs::write(at("good/.gemini/settings.json"), "{}").unwrap();
    std::os::unix::fs::symlink(at("good/.agents"), at("project/.agents")).unwrap();
    std::os::unix::fs::symlink(
        at("good/.gemini/settings.json"),
        at("project/.gemini/settings.json"),
    )
    .unwrap();
    std::os::unix::fs::symlink(at("good/.gemini"), at("home/.gemini")).unwrap();
    let (project, config, home) = (at("project"), at("config"), at("home"));
    let users = ConfigFile::new(at("home/.gemini/settings.json"), Scope::User);
    assert_eq!(
        search(&project, &config, &home),
        std::slice::from_ref(&users)
    );
    let linked = |file: &str, link: &str| LinkedFile {
        file: at(file),
        link: at(link),
    };
    let expected = [
        linked("project/.agents/mcp.json", "project/.agents"),
        linked(
            "project/.gemini/settings.json",
            "project/.gemini/settings.json",
        ),
    ];
    assert_eq!(linked_project_files(&project, &config, &home), expected);
    assert_eq!(
        search(&home, &config, &home),
        [users],
        "also where the home folder is the current one"
    );
    assert_eq!(linked_project_files(&home, &config, &home), []);
}

#[test]
fn the_projects_folder_is_the_nearest_with_a_file_up_to_the_repositorys_root() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("root/a/b")).unwrap();
    std::fs::write(at(".mcp.json"), "{}").unwrap();
    std::fs::write(at("root/.mcp.json"), "{}").unwrap();
    let check =
        |from: &str, expected: &str| assert_eq!(project_folder(&at(from)), at(expected), "{from}");
    check("root/a/b", "root/a/b");
    for kind in [".git", ".hg", ".jj", ".svn"] {
        std::fs::create_dir(at("root").join(kind)).unwrap();
        check("root/a/b", "root");
        check("root", "root");
        std::fs::remove_dir(at("root").join(kind)).unwrap();
    }
    // The work tree of a submodule has a file of that name.
    std::fs::write(at("root/a/.git"), "gitdir: elsewhere").unwrap();
    check("root/a/b", "root/a/b");
}
