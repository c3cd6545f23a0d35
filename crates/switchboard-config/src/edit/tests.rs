#![allow(clippy::unwrap_used)]
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::*;
use crate::{Scope, load};

fn command(name: &str) -> NewServer {
    NewServer {
        name: name.to_owned(),
        target: ServerTarget::Command("npx".to_owned(), vec!["-y".to_owned(), "server".to_owned()]),
        transport: None,
        env: vec![("TOKEN".to_owned(), "${TOKEN}".to_owned())],
        headers: Vec::new(),
        cwd: None,
    }
}

fn url(name: &str, transport: Option<&str>) -> NewServer {
    NewServer {
        target: ServerTarget::Url("https://example.com/mcp".to_owned()),
        transport: transport.map(str::to_owned),
        env: Vec::new(),
        headers: vec![("Authorization".to_owned(), "Bearer ${T}".to_owned())],
        ..command(name)
    }
}

fn check(file: &str, dialect: Dialect, before: &str, change: &Change, after: &str) {
    let format = Format::of(Path::new(file)).unwrap();
    assert_eq!(
        edited(before, format, dialect, change).unwrap(),
        after,
        "{file} {dialect:?} {change:?}"
    );
}

fn refused(file: &str, dialect: Dialect, before: &str, change: &Change, expected: &str) {
    let fact = edited(
        before,
        Format::of(Path::new(file)).unwrap(),
        dialect,
        change,
    )
    .unwrap_err();
    assert!(fact.contains(expected), "{change:?}: {fact}");
}

#[test]
fn an_entry_is_changed_in_the_section_that_the_file_has() {
    let of = |file: &str, before: &str, change: &Change, after: &str| {
        check(file, Dialect::McpJson, before, change, after)
    };
    let (on, off) = (
        Change::Enable("a".to_owned(), true),
        Change::Enable("a".to_owned(), false),
    );
    let codex = "model = \"m\"\n\n[mcp_servers.a]\ncommand = \"x\"\n";
    let disabled = format!("{codex}enabled = false\n");
    of("config.toml", codex, &off, &disabled);
    of(
        "config.toml",
        &disabled,
        &on,
        &format!("{codex}enabled = true\n"),
    );
    of(
        "config.toml",
        codex,
        &Change::Add(url("b", None)),
        &format!(
            "{codex}\n[mcp_servers.b]\nurl = \"https://example.com/mcp\"\nbearer_token_env_var = \"T\"\n"
        ),
    );
    let mut more = command("b");
    more.env.push(("LEVEL".to_owned(), "a$${b}".to_owned()));
    of(
        "config.toml",
        codex,
        &Change::Add(more),
        &format!(
            "{codex}\n[mcp_servers.b]\ncommand = \"npx\"\nargs = [\"-y\", \"server\"]\nenv = {{ LEVEL = \"a${{b}}\" }}\nenv_vars = [\"TOKEN\"]\n"
        ),
    );
    let mut more = url("b", None);
    more.headers = vec![
        ("X-Key".to_owned(), "${K}".to_owned()),
        ("X-Level".to_owned(), "1".to_owned()),
    ];
    of(
        "config.toml",
        codex,
        &Change::Add(more),
        &format!(
            "{codex}\n[mcp_servers.b]\nurl = \"https://example.com/mcp\"\nhttp_headers = {{ X-Level = \"1\" }}\nenv_http_headers = {{ X-Key = \"K\" }}\n"
        ),
    );
    let mut renamed = command("b");
    renamed.env = vec![("TOKEN".to_owned(), "${OTHER}".to_owned())];
    refused(
        "config.toml",
        Dialect::McpJson,
        codex,
        &Change::Add(renamed),
        "a variable keeps its name",
    );
    of(
        "settings.json",
        "{\n  \"context_servers\": {\n    \"a\": { \"command\": \"x\" }\n  }\n}\n",
        &off,
        "{\n  \"context_servers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"enabled\": false\n    }\n  }\n}\n",
    );
    of(
        "mcp.json",
        "{\n  \"servers\": {\n    \"a\": { \"command\": \"x\" }\n  }\n}\n",
        &off,
        "{\n  \"servers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"disabled\": true\n    }\n  }\n}\n",
    );
    let opencode = "{\n  \"mcp\": {\n    \"a\": { \"command\": [\"x\"] }\n  }\n}\n";
    of(
        "opencode.json",
        opencode,
        &off,
        "{\n  \"mcp\": {\n    \"a\": {\n      \"command\": [\"x\"],\n      \"enabled\": false\n    }\n  }\n}\n",
    );
    refused(
        "opencode.json",
        Dialect::McpJson,
        opencode,
        &Change::Add(command("b")),
        "it is a file of opencode",
    );
    refused(
        "config.yaml",
        Dialect::McpJson,
        "extensions:\n  a:\n    cmd: x\n",
        &Change::Add(command("b")),
        "it is a file of goose",
    );
}

/// The program gets exactly the value that was given, or the entry is not written.
#[test]
fn a_literal_dollar_is_never_read_as_a_reference() {
    let folder = tempfile::tempdir().unwrap();
    let added = |file: &str, before: &str, value: &str| {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, before).unwrap();
        let file = ConfigFile::new(&path, Scope::Given);
        let mut addition = command("s");
        addition.env = vec![("PW".to_owned(), value.to_owned())];
        edit(&file, &Change::Add(addition)).map_err(|fault| fault.to_string())?;
        let config = load(&[file]).unwrap();
        let crate::Endpoint::Stdio(stdio) = &config.servers[0].endpoint else {
            panic!("{:?}", config.servers[0]);
        };
        let meaning = stdio
            .syntax
            .meaning(crate::reference::TextRole::Value, stdio.env["PW"].expose());
        Ok::<_, String>(meaning.unwrap())
    };
    let literal = |text: &str| Ok(vec![(text.to_owned(), None)]);
    let (mcp_json, vs_code) = ("{\"mcpServers\": {}}", "{\"servers\": {}}");
    for (given, meant) in [("pa$word", "pa$word"), ("$${X}", "${X}"), ("a$$b", "a$b")] {
        assert_eq!(added(".mcp.json", mcp_json, given), literal(meant));
        assert_eq!(added("switchboard.toml", "", given), literal(meant));
    }
    assert_eq!(added(".vscode/mcp.json", vs_code, "a$$b"), literal("a$b"));
    let gemini = ".gemini/settings.json";
    assert_eq!(added(gemini, mcp_json, "pa$$"), literal("pa$"));
    for (file, before, value) in [
        (gemini, mcp_json, "pa$word"),
        (gemini, mcp_json, "$${X}"),
        (".vscode/mcp.json", vs_code, "$${X}"),
    ] {
        let fault = added(file, before, value).unwrap_err();
        assert!(fault.contains("write PW=${VARIABLE}"), "{file}: {fault}");
    }
}

/// The user's gemini file is read in whatever folder a run begins: no path in it may depend on that.
#[test]
fn a_path_in_the_users_gemini_file_is_absolute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".gemini/settings.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "{}").unwrap();
    let addition = NewServer {
        target: ServerTarget::Command("./server".to_owned(), Vec::new()),
        cwd: Some("data".to_owned()),
        ..command("s")
    };
    edit(&ConfigFile::new(&path, Scope::User), &Change::Add(addition)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let current = std::path::absolute(".").unwrap();
    for name in ["server", "data"] {
        let written = format!("{:?}", current.join(name).display().to_string());
        assert!(text.contains(&written), "{text}");
    }
}

/// The same for what is launched: the shell of the program may read its own `$`, this program not.
#[test]
fn a_literal_dollar_of_a_launch_is_never_read_as_a_reference() {
    let folder = tempfile::tempdir().unwrap();
    let add = |file: &str, before: &str, addition: NewServer| {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, before).unwrap();
        let file = ConfigFile::new(&path, Scope::Given);
        edit(&file, &Change::Add(addition)).map_err(|fault| fault.to_string())
    };
    let with_argument = |text: &str| NewServer {
        target: ServerTarget::Command("sh".to_owned(), vec!["-c".to_owned(), text.to_owned()]),
        env: Vec::new(),
        ..command("s")
    };
    let (gemini, empty) = (".gemini/settings.json", "{\"mcpServers\": {}}");
    let fault = add(gemini, empty, with_argument("echo $HOME")).unwrap_err();
    assert!(
        fault.contains("args[1]: a file of this kind would read a \"$\""),
        "{fault}"
    );
    let with_url = NewServer {
        target: ServerTarget::Url("https://example.com/$x".to_owned()),
        headers: Vec::new(),
        ..url("s", None)
    };
    let fault = add(gemini, empty, with_url).unwrap_err();
    assert!(fault.contains("url: a file of this kind"), "{fault}");
    // Its reader looks for `${name}` in the document itself.
    #[cfg(feature = "yaml")]
    add(
        "SKILL.md",
        "---\nmetadata:\n  name: x\n  mcp:\n---\n",
        with_argument("echo ${metadata.name}"),
    )
    .unwrap_err();
    for (file, before, text) in [
        (gemini, empty, "costs 5$"),
        (gemini, empty, "${TOKEN}"),
        ("switchboard.toml", "", "echo $HOME"),
        ("switchboard.toml", "", "${TOKEN}"),
        (".mcp.json", empty, "echo $HOME"),
        (
            ".agents/mcp.json",
            "{\"version\": 1, \"servers\": {}}",
            "echo ${HOME}",
        ),
    ] {
        add(file, before, with_argument(text)).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
}

/// A folder that cannot be opened for reading cannot be synced. (The superuser can open it.)
#[test]
fn a_file_is_written_even_if_its_folder_cannot_be_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switchboard.toml");
    std::fs::write(&path, "[servers.a]\ncommand = \"x\"\n").unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o300)).unwrap();
    let file = ConfigFile::new(&path, Scope::Given);
    let edited = edit(&file, &Change::Enable("a".to_owned(), false));
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    edited.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("enabled = false"), "{text}");
}

#[test]
fn lines_of_a_toml_file_that_end_in_cr_lf_still_do() {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let text = crlf("# about all\n\n# about a\n[servers.a]\ncommand = \"x\"\n");
    let of = |change: Change, after: &str| {
        check("x.toml", Dialect::Native, &text, &change, &crlf(after));
    };
    of(
        Change::Enable("a".to_owned(), false),
        "# about all\n\n# about a\n[servers.a]\ncommand = \"x\"\nenabled = false\n",
    );
    of(Change::Remove("a".to_owned()), "# about all\n\n");
    let mut plain = command("b");
    plain.env = Vec::new();
    of(
        Change::Add(plain),
        "# about all\n\n# about a\n[servers.a]\ncommand = \"x\"\n\n[servers.b]\ncommand = \"npx\"\nargs = [\"-y\", \"server\"]\n",
    );
}

#[test]
fn lines_of_a_toml_file_that_end_in_two_ways_keep_their_endings() {
    check(
        "x.toml",
        Dialect::Native,
        "# one\r\n# two\n[servers.a]\ncommand = \"x\"\n\n[servers.b]\ncommand = \"y\"\r\n",
        &Change::Enable("a".to_owned(), false),
        "# one\r\n# two\n[servers.a]\ncommand = \"x\"\nenabled = false\r\n\n[servers.b]\ncommand = \"y\"\r\n",
    );
}

#[test]
fn a_file_of_a_byte_order_mark_alone_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    let file = given(&folder.path().join(".mcp.json"));
    std::fs::write(&file.path, "\u{feff}").unwrap();
    edit(&file, &Change::Add(command("a"))).unwrap();
    let text = std::fs::read_to_string(&file.path).unwrap();
    assert!(text.starts_with("\u{feff}{"), "{text}");
}

#[test]
fn an_edit_with_other_rights_keeps_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let file = given(&folder.path().join("switchboard.toml"));
    std::fs::write(&file.path, "[servers.a]\ncommand = \"x\"\n").unwrap();
    if std::os::unix::fs::chown(&file.path, Some(1000), Some(1000)).is_err() {
        // Only root can give a file away.
        return;
    }
    edit(&file, &Change::Enable("a".to_owned(), false)).unwrap();
    let after = file.path.metadata().unwrap();
    assert_eq!((after.uid(), after.gid()), (1000, 1000));
}

#[test]
fn a_byte_order_mark_stays() {
    check(
        "mcp.json",
        Dialect::McpJson,
        "\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
        &Change::Enable("a".to_owned(), false),
        "\u{feff}{\"mcpServers\": {\"a\": {\n      \"command\": \"x\",\n      \"disabled\": true\n    }}}",
    );
    check(
        "x.toml",
        Dialect::Native,
        "\u{feff}[servers.a]\ncommand = \"x\"\n",
        &Change::Enable("a".to_owned(), false),
        "\u{feff}[servers.a]\ncommand = \"x\"\nenabled = false\n",
    );
    #[cfg(feature = "hcl")]
    check(
        "x.hcl",
        Dialect::A3s,
        "\u{feff}mcp_servers {\n  name = \"a\"\n}\n",
        &Change::Remove("a".to_owned()),
        "\u{feff}",
    );
    #[cfg(feature = "yaml")]
    check(
        "SKILL.md",
        Dialect::AgentApps,
        "\u{feff}---\nmetadata:\n  mcp:\n    a:\n      command: x\n---\nText\n",
        &Change::Remove("a".to_owned()),
        "\u{feff}---\nmetadata:\n  mcp:\n---\nText\n",
    );
}

#[test]
#[cfg(feature = "yaml")]
fn the_last_server_of_a_yaml_file_is_removed_and_another_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("SKILL.md");
    let text = "---\nname: x\nmetadata:\n  mcp:\n    a:\n      command: x\n---\nText\n";
    std::fs::write(&path, text).unwrap();
    let file = ConfigFile {
        dialect: Some(Dialect::AgentApps),
        ..ConfigFile::new(&path, Scope::Given)
    };
    edit(&file, &Change::Remove("a".to_owned())).unwrap();
    let after = std::fs::read_to_string(&path).unwrap();
    assert_eq!(after, "---\nname: x\nmetadata:\n  mcp:\n---\nText\n");
    assert!(
        load(std::slice::from_ref(&file))
            .unwrap()
            .servers
            .is_empty()
    );
    let new = NewServer {
        env: Vec::new(),
        ..command("b")
    };
    edit(&file, &Change::Add(new)).unwrap();
    assert_eq!(load(&[file]).unwrap().servers.len(), 1);
}

#[test]
fn toml_entries_are_added_and_removed_and_everything_else_stays() {
    let native = |before: &str, change: &Change, after: &str| {
        check("x.toml", Dialect::Native, before, change, after)
    };
    let added = "[servers.new]\ncommand = \"npx\"\nargs = [\"-y\", \"server\"]\nenv = { TOKEN = \"${TOKEN}\" }\n";
    native("", &Change::Add(command("new")), added);
    native(
        "# mine\n\n",
        &Change::Add(command("new")),
        &format!("# mine\n\n{added}"),
    );
    native(
        "# mine\n[servers.a] # first\ncommand = \"x\"   # odd spacing\n\n# rules\n[permissions]\nmode = \"ask\"\n",
        &Change::Add(command("new")),
        &format!(
            "# mine\n[servers.a] # first\ncommand = \"x\"   # odd spacing\n\n{added}\n# rules\n[permissions]\nmode = \"ask\"\n"
        ),
    );
    native(
        "[servers]\na = { command = \"x\" }\n",
        &Change::Add(url("new", Some("sse"))),
        "[servers]\na = { command = \"x\" }\nnew = { transport = \"sse\", url = \"https://example.com/mcp\", headers = { Authorization = \"Bearer ${T}\" } }\n",
    );
    // A comment directly above an entry is removed with it; one separated by a blank line stays.
    native(
        "# My servers.\n\n# the first\n[servers.a]\ncommand = \"x\"\n[servers.a.env]\nT = \"1\"\n\n# the second\n[servers.b]\ncommand = \"y\"\n",
        &Change::Remove("a".to_owned()),
        "# My servers.\n\n# the second\n[servers.b]\ncommand = \"y\"\n",
    );
    native(
        "[servers.a]\ncommand = \"x\"\n\n# about all\n\n[servers.b]\ncommand = \"y\"\n",
        &Change::Remove("b".to_owned()),
        "[servers.a]\ncommand = \"x\"\n\n# about all\n\n",
    );
    native(
        "[servers.a]\ncommand = \"x\"\n",
        &Change::Enable("a".to_owned(), false),
        "[servers.a]\ncommand = \"x\"\nenabled = false\n",
    );
    native(
        "[servers.a]\nenabled = false # for now\ncommand = \"x\"\n",
        &Change::Enable("a".to_owned(), true),
        "[servers.a]\nenabled = true # for now\ncommand = \"x\"\n",
    );
    let code = |before: &str, change: &Change, after: &str| {
        check("x.toml", Dialect::AgentCode, before, change, after)
    };
    let literal = NewServer {
        env: vec![("A".to_owned(), "b".to_owned())],
        ..command("new")
    };
    code(
        "",
        &Change::Add(literal),
        "[mcp_servers.new]\ncommand = \"npx\"\nargs = [\"-y\", \"server\"]\nenv = { A = \"b\" }\n",
    );
    refused(
        "x.toml",
        Dialect::AgentCode,
        "",
        &Change::Add(command("new")),
        "has no references",
    );
    refused(
        "x.toml",
        Dialect::AgentCode,
        "",
        &Change::Enable("a".to_owned(), false),
        "has no field for a server that is disabled",
    );
}

#[test]
fn json_entries_are_added_and_removed_in_the_files_own_formatting() {
    let gemini = |before: &str, change: &Change, after: &str| {
        check("x.json", Dialect::Gemini, before, change, after)
    };
    gemini(
        "{\n    // mine\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" } // first\n    }\n}\n",
        &Change::Add(command("new")),
        "{\n    // mine\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" }, // first\n        \"new\": {\n            \
         \"command\": \"npx\",\n            \"args\": [\"-y\", \"server\"],\n            \"env\": {\n                \"TOKEN\": \"${TOKEN}\"\n            }\n        }\n    }\n}\n",
    );
    gemini(
        "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" },\n    // two\n    \"b\": { \"command\": \"y\" }\n  }\n}\n",
        &Change::Remove("a".to_owned()),
        "{\n  \"mcpServers\": {\n    // two\n    \"b\": { \"command\": \"y\" }\n  }\n}\n",
    );
    gemini(
        "{\n  \"mcpServers\": {\n    \"z\": {}, // of z\n    // not about a\n\n    // about a\n    // more\n    \"a\": {},\n    // two\n    \"b\": {}\n  }\n}\n",
        &Change::Remove("a".to_owned()),
        "{\n  \"mcpServers\": {\n    \"z\": {}, // of z\n    // not about a\n\n    // two\n    \"b\": {}\n  }\n}\n",
    );
    gemini(
        "{\n  \"mcpServers\": {\n    \"z\": {}, // of z\n    \"a\": {}\n  }\n}\n",
        &Change::Remove("a".to_owned()),
        "{\n  \"mcpServers\": {\n    \"z\": {} // of z\n  }\n}\n",
    );
    refused(
        "x.json",
        Dialect::Gemini,
        "{}",
        &Change::Enable("a".to_owned(), false),
        "has no field for a server that is disabled",
    );
    check(
        "x.json",
        Dialect::CoreAgent,
        "",
        &Change::Add(url("new", None)),
        "{\n  \"version\": 1,\n  \"servers\": {\n    \"new\": {\n      \"transport\": \"http\",\n      \"url\": \"https://example.com/mcp\",\n      \
         \"headers\": {\n        \"Authorization\": \"Bearer ${env:T}\"\n      }\n    }\n  }\n}\n",
    );
    refused(
        "x.json",
        Dialect::CoreAgent,
        "{}",
        &Change::Add(url("new", Some("sse"))),
        "has no field for the transport sse",
    );
    check(
        "x.json",
        Dialect::McpJson,
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\"\n    }\n  }\n}\n",
        &Change::Enable("a".to_owned(), false),
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"disabled\": true\n    }\n  }\n}\n",
    );
}

#[test]
fn hcl_blocks_are_added_and_removed_and_everything_else_stays() {
    let a3s = |before: &str, change: &Change, after: &str| {
        check("x.hcl", Dialect::A3s, before, change, after)
    };
    let first = "# mine\nmodel = \"x\"\n\n# files\nmcp_servers {\n  name    = \"a\" # odd\n  command = \"x\"\n}\n";
    a3s(
        first,
        &Change::Add(command("new")),
        &format!(
            "{first}\nmcp_servers {{\n  name      = \"new\"\n  transport = \"stdio\"\n  command   = \"npx\"\n  args      = [\"-y\", \"server\"]\n  \
             env       = {{\n    TOKEN = env(\"TOKEN\")\n  }}\n}}\n"
        ),
    );
    a3s(
        first,
        &Change::Remove("a".to_owned()),
        "# mine\nmodel = \"x\"\n",
    );
    a3s(
        first,
        &Change::Enable("a".to_owned(), false),
        "# mine\nmodel = \"x\"\n\n# files\nmcp_servers {\n  name    = \"a\" # odd\n  command = \"x\"\n  enabled = false\n}\n",
    );
    a3s(
        "mcp_servers {\n  name = \"a\"\n  enabled = true # yes\n  command = \"x\"\n}\n",
        &Change::Enable("a".to_owned(), false),
        "mcp_servers {\n  name = \"a\"\n  enabled = false # yes\n  command = \"x\"\n}\n",
    );
    let odd = NewServer {
        env: vec![("A-B".to_owned(), "$${x} \"%{\n".to_owned())],
        ..command("new")
    };
    let made = edited("", Format::Hcl, Dialect::A3s, &Change::Add(odd)).unwrap();
    assert!(made.contains("\"A-B\" = \"$${x} \\\"%%{\\n\""), "{made}");
    let mixed = NewServer {
        env: vec![("A".to_owned(), "x${B}".to_owned())],
        ..command("new")
    };
    refused(
        "x.hcl",
        Dialect::A3s,
        "",
        &Change::Add(mixed),
        "is one ${NAME} or has none",
    );
    refused(
        "x.hcl",
        Dialect::A3s,
        "mcp_servers = []\n",
        &Change::Add(command("new")),
        "edit the file by hand",
    );
}

#[test]
fn yaml_entries_are_added_and_removed_and_no_other_line_changes() {
    let apps = |before: &str, change: &Change, after: &str| {
        check("x.yaml", Dialect::AgentApps, before, change, after)
    };
    let new = "    new:\n      command: npx\n      args: ['-y', server]\n      env:\n        TOKEN: '\\${TOKEN}'\n";
    apps(
        "",
        &Change::Add(command("new")),
        &format!("metadata:\n  mcp:\n{new}"),
    );
    let file = "# mine\nmetadata:\n  title: x\n  mcp:\n    a: # first\n      command: x\n\n    # second\n    \"b\":\n      url: https://b.example\n\nrest: 1\n";
    apps(
        file,
        &Change::Add(command("new")),
        &file.replace(
            "url: https://b.example\n",
            &format!("url: https://b.example\n{new}"),
        ),
    );
    apps(
        file,
        &Change::Remove("b".to_owned()),
        "# mine\nmetadata:\n  title: x\n  mcp:\n    a: # first\n      command: x\n\nrest: 1\n",
    );
    apps(
        file,
        &Change::Remove("a".to_owned()),
        "# mine\nmetadata:\n  title: x\n  mcp:\n\n    # second\n    \"b\":\n      url: https://b.example\n\nrest: 1\n",
    );
    apps(
        "metadata:\n  title: x\n",
        &Change::Add(command("new")),
        &format!("metadata:\n  title: x\n  mcp:\n{new}"),
    );
    refused(
        "x.yaml",
        Dialect::AgentApps,
        "metadata: { mcp: { a: { command: x } } }\n",
        &Change::Remove("a".to_owned()),
        "one line",
    );
    // A carriage return alone ends a line.
    let mixed = "metadata:\n  mcp:\n    a:\n      command: x\n\r    b:\n      command: y\n";
    apps(
        mixed,
        &Change::Add(command("new")),
        &format!("{mixed}{new}"),
    );
    check(
        "x.md",
        Dialect::AgentApps,
        "---\nmetadata:\n  title: x\n---\n# Text\n\nmetadata:\n",
        &Change::Add(command("new")),
        &format!("---\nmetadata:\n  title: x\n  mcp:\n{new}---\n# Text\n\nmetadata:\n"),
    );
    for (text, written) in [
        ("true", "'true'"),
        ("it's", "'it''s'"),
        ("1.5", "'1.5'"),
        ("./x", "./x"),
        ("a\nb", "\"a\\nb\""),
    ] {
        let addition = NewServer {
            target: ServerTarget::Command(text.to_owned(), Vec::new()),
            env: Vec::new(),
            ..command("new")
        };
        let made = edited("", Format::Yaml, Dialect::AgentApps, &Change::Add(addition)).unwrap();
        assert_eq!(
            made,
            format!("metadata:\n  mcp:\n    new:\n      command: {written}\n")
        );
    }
}

fn given(path: &Path) -> ConfigFile {
    ConfigFile::new(path, Scope::Given)
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn a_new_file_and_its_folder_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switchboard/switchboard.toml");
    let done = edit(&given(&path), &Change::Add(command("new"))).unwrap();
    assert_eq!(
        (done.created, done.line, done.dialect),
        (true, 1, Dialect::Native)
    );
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(load(&[given(&path)]).unwrap().servers.len(), 1);
}

#[test]
fn permissions_and_links_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (
        folder.path().join("real.toml"),
        folder.path().join("switchboard.toml"),
    );
    std::fs::write(&real, "[servers.a]\ncommand = \"x\"\n").unwrap();
    std::fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
    symlink(&real, &link).unwrap();
    edit(&given(&link), &Change::Enable("a".to_owned(), false)).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(mode(&real), 0o640);
    assert_eq!(
        std::fs::read_to_string(&real).unwrap(),
        "[servers.a]\ncommand = \"x\"\nenabled = false\n"
    );
    assert!(
        edit(&given(&link), &Change::Enable("a".to_owned(), false))
            .unwrap()
            .unchanged
    );
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "nothing else is left: {left:?}");
}

#[test]
fn an_impossible_edit_leaves_the_file_unchanged_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switchboard.toml");
    let text = "# top\n[servers.a]\ncommand = \"x\"\n";
    std::fs::write(&path, text).unwrap();
    let shown = path.canonicalize().unwrap().display().to_string();
    let check = |change: Change, expected: &str| {
        let fault = edit(&given(&path), &change).unwrap_err().to_string();
        assert!(fault.contains(expected), "{change:?}: {fault}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    };
    check(
        Change::Add(command("a")),
        &format!("{shown}:2 has a server \"a\" already"),
    );
    check(
        Change::Remove("b".to_owned()),
        &format!("{shown} has no server \"b\"; it has: a"),
    );
    check(
        Change::Add(command("a__b")),
        "not written, since the file would not load",
    );
    check(
        Change::Add(NewServer {
            cwd: Some(String::new()),
            ..command("new")
        }),
        "empty; expected a folder",
    );
    std::fs::write(&path, "[servers.a\n").unwrap();
    let fault = edit(&given(&path), &Change::Add(command("new")))
        .unwrap_err()
        .to_string();
    assert!(
        fault.starts_with("the file does not load as it is; correct it first:\n"),
        "{fault}"
    );
}

#[test]
fn edits_at_the_same_time_keep_each_others_entries() {
    let folder = tempfile::tempdir().unwrap();
    let file = ConfigFile::new(folder.path().join("new/switchboard.toml"), Scope::User);
    let names: Vec<_> = (0..16).map(|number| format!("s{number:02}")).collect();
    std::thread::scope(|threads| {
        for name in &names {
            threads.spawn(|| edit(&file, &Change::Add(command(name))).unwrap());
        }
    });
    let servers = load(&[file]).unwrap().servers;
    let mut found: Vec<_> = servers.keys().map(|name| name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, names);
}
