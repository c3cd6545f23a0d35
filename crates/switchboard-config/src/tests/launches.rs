//! Tests of resolving a launch: references, the child's environment, the program.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

fn stdio(command: &str, args: &[&str], env: &[(&str, &str)]) -> StdioEndpoint {
    StdioEndpoint {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
            .collect(),
        ..StdioEndpoint::new("", [""; 0])
    }
}

fn program(path: &Path) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    path.to_owned()
}

fn exposed(pairs: &[(String, Secret)]) -> Vec<(&str, &str)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect()
}

#[test]
fn c7_c8_references_expand_once_and_unset_ones_are_empty_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let tool = program(&folder.path().join("bin/tool"));
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let environment = environment(&[
        ("BIN", folder.path().join("bin").to_str().unwrap()),
        ("TRICKY", "${HOME} $$ $(rm)"),
        ("EMPTY", ""),
        ("WORK", "work"),
        ("HOME", "/home/somebody"),
    ]);
    let args = [
        "${TRICKY}",
        "a${UNSET}b",
        "${UNSET:-x y}",
        "${EMPTY:-filled}",
        "${EMPTY}",
        "$${HOME}",
        "$HOME",
        "${env:HOME}/x",
        "; $(rm) && \n",
    ];
    let mut endpoint = stdio(
        "${BIN}/tool",
        &args,
        &[("TOKEN", "${TRICKY}"), ("GONE", "${UNSET2}")],
    );
    endpoint.cwd = Some("./${WORK}".to_owned());
    let launch = resolve_launch(&endpoint, folder.path(), &environment).unwrap();

    assert_eq!(launch.program, tool);
    assert_eq!(launch.argv0, tool.to_str().unwrap());
    let expected = [
        "${HOME} $$ $(rm)",
        "ab",
        "x y",
        "filled",
        "",
        "${HOME}",
        "$HOME",
        "/home/somebody/x",
        "; $(rm) && \n",
    ];
    assert_eq!(launch.args, expected);
    assert_eq!(launch.cwd, Some(folder.path().join("work")));
    assert_eq!(
        exposed(&launch.env),
        [
            ("GONE", ""),
            ("HOME", "/home/somebody"),
            ("TOKEN", "${HOME} $$ $(rm)")
        ]
    );
    let unset = [("UNSET", "args[1]"), ("UNSET2", "env.GONE")]
        .map(|(name, field)| (name.to_owned(), field.to_owned()));
    assert_eq!(launch.unset, unset);
}

#[test]
fn t24_c9_the_child_gets_the_short_list_and_its_own_variables_only() {
    let folder = tempfile::tempdir().unwrap();
    program(&folder.path().join("tool"));
    let path = folder.path().to_str().unwrap();
    let short = [
        ("ALL_PROXY", "1"),
        ("HOME", "/h"),
        ("HTTPS_PROXY", "2"),
        ("HTTP_PROXY", "3"),
        ("LANG", "C"),
        ("LC_ALL", "C"),
        ("LC_TIME", "C"),
        ("LOGNAME", "u"),
        ("NO_PROXY", "4"),
        ("PATH", path),
        ("SHELL", "/bin/sh"),
        ("TERM", "xterm"),
        ("TMPDIR", "/tmp"),
        ("TZ", "UTC"),
        ("USER", "u"),
        ("all_proxy", "5"),
        ("http_proxy", "6"),
        ("https_proxy", "7"),
        ("no_proxy", "8"),
    ];
    let others = [
        ("AWS_SECRET_ACCESS_KEY", "CANARY"),
        ("SSH_AUTH_SOCK", "/s"),
        ("LD_PRELOAD", "x"),
        ("HOMEX", "x"),
        ("LCX", "x"),
    ];
    let all = environment(&[&short[..], &others[..]].concat());
    let mut endpoint = stdio("tool", &[], &[("OWN", "1"), ("TZ", "CET")]);

    let launch = resolve_launch(&endpoint, folder.path(), &all).unwrap();
    let mut expected: BTreeMap<&str, &str> = short.into_iter().collect();
    expected.extend([("OWN", "1"), ("TZ", "CET")]);
    assert_eq!(
        exposed(&launch.env).into_iter().collect::<BTreeMap<_, _>>(),
        expected
    );

    endpoint.inherit_env = true;
    let launch = resolve_launch(&endpoint, folder.path(), &all).unwrap();
    expected.extend(others);
    assert_eq!(
        exposed(&launch.env).into_iter().collect::<BTreeMap<_, _>>(),
        expected
    );
}

#[test]
fn t6_the_program_is_found_in_the_childs_path_and_never_in_the_current_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = program(&folder.path().join("first/npx"));
    let second = program(&folder.path().join("second/npx"));
    let planted = program(&folder.path().join("planted/npx"));
    let at = |path: &Path| path.parent().unwrap().to_str().unwrap().to_owned();
    let planted_folder = planted.parent().unwrap();
    let find = |path: &str, own: &[(&str, &str)]| {
        let mut endpoint = stdio("npx", &[], own);
        endpoint.cwd = Some(".".to_owned());
        resolve_launch(
            &endpoint,
            planted_folder,
            &environment(&[("PATH", path), ("SECOND", &at(&second))]),
        )
        .map(|launch| launch.program)
    };
    assert_eq!(
        find(&format!("{}:{}", at(&first), at(&second)), &[]),
        Ok(first.clone())
    );
    assert_eq!(
        find(&at(&first), &[("PATH", "${SECOND}")]),
        Ok(second.clone()),
        "the child's own PATH decides"
    );
    let nothing = Err(LaunchFault::NoSuchProgram {
        command: "npx".to_owned(),
    });
    for path in ["", ":", ".", ".:", "planted", "./planted:..", "/nowhere"] {
        assert_eq!(find(path, &[]), nothing, "{path:?}");
    }
    assert_eq!(find(&format!(":.:{}", at(&first)), &[]), Ok(first));
}

#[test]
fn t6_a_relative_path_starts_at_the_files_folder() {
    let folder = tempfile::tempdir().unwrap();
    let server = program(&folder.path().join("tools/server"));
    let none = environment(&[]);
    for command in [
        "./tools/server",
        "tools/server",
        "./tools/../tools/./server",
    ] {
        let launch = resolve_launch(&stdio(command, &[], &[]), folder.path(), &none).unwrap();
        assert_eq!(
            launch.program.canonicalize().unwrap(),
            server.canonicalize().unwrap(),
            "{command}"
        );
        assert!(launch.program.is_absolute());
        assert_eq!(launch.argv0, command);
    }
}

#[test]
fn an_impossible_launch_reports_why_and_what_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("plain"), "").unwrap();
    std::fs::set_permissions(
        folder.path().join("plain"),
        PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    let environment = environment(&[("PATH", root), ("SECRET", "hunter2"), ("NUL", "a\0b")]);
    let check = |endpoint: &StdioEndpoint, expected: &str| {
        let said = resolve_launch(endpoint, folder.path(), &environment)
            .unwrap_err()
            .to_string();
        assert_eq!(said, expected);
    };
    check(
        &stdio("absent", &[], &[]),
        "no program \"absent\" in PATH; install it, or give its full path in `command`",
    );
    check(
        &stdio("x${SECRET}", &[], &[]),
        "no program \"x${SECRET}\" in PATH; install it, or give its full path in `command`",
    );
    check(
        &stdio("${UNSET}", &[], &[]),
        "no program \"${UNSET}\" in PATH; install it, or give its full path in `command`",
    );
    check(
        &stdio("plain", &[], &[]),
        &format!("\"{root}/plain\" is not executable; try `chmod +x`"),
    );
    check(
        &stdio("./plain", &[], &[]),
        &format!("\"{root}/plain\" is not executable; try `chmod +x`"),
    );
    check(
        &stdio("./absent", &[], &[]),
        &format!(
            "there is no file \"{root}/absent\"; correct `command` (relative paths start at \"{root}\")"
        ),
    );
    check(
        &stdio("/${SECRET}/absent", &[], &[]),
        "there is no file \"/[secret]/absent\"; correct `command`",
    );
    check(
        &stdio("plain", &["${NUL}"], &[]),
        "`args[0]` cannot be passed to a program: it contains a zero byte",
    );
    let endpoint = StdioEndpoint {
        cwd: Some("nowhere".to_owned()),
        ..stdio("plain", &[], &[])
    };
    check(
        &endpoint,
        &format!(
            "the working folder \"{root}/nowhere\" does not exist or is not a folder; correct `cwd`"
        ),
    );
}

#[test]
fn t25_every_value_that_must_not_be_logged_is_listed_and_ordinary_words_are_not() {
    let folder = tempfile::tempdir().unwrap();
    program(&folder.path().join("tool"));
    let environment = environment(&[
        ("PATH", folder.path().to_str().unwrap()),
        ("HOME", "/home/somebody"),
        ("PWD", "/home/somebody/work"),
        ("TOKEN", "tok-123"),
        ("https_proxy", "http://u:pw-456@proxy"),
    ]);
    let args = [
        "--api-key",
        "key-789",
        "--Password=pw-000",
        "--verbose",
        "plain",
        "${HOME}/x",
        "${PWD}/x",
        "${TOKEN}",
        "${https_proxy}",
        "--token",
        "--next",
        "-e",
        "API_KEY=key-321",
        "-H",
        "Authorization: Bearer abc-654",
        "postgres://me:pw-987@db/name",
        "token",
        "is no flag",
    ];
    let launch = resolve_launch(
        &stdio(
            "tool",
            &args,
            &[("K", "Bearer ${TOKEN}"), ("LEVEL", "debug"), ("E", "")],
        ),
        folder.path(),
        &environment,
    )
    .unwrap();
    let mut secrets: Vec<&str> = launch.secrets.iter().map(Secret::expose).collect();
    secrets.sort_unstable();
    secrets.dedup();
    let expected = [
        "Bearer abc-654",
        "Bearer tok-123",
        "abc-654",
        "http://u:pw-456@proxy",
        "key-321",
        "key-789",
        "pw-000",
        "pw-456",
        "pw-987",
        "tok-123",
    ];
    assert_eq!(secrets, expected);
    let shown = format!("{launch:?}");
    assert!(
        secrets.iter().all(|secret| !shown.contains(secret)),
        "{shown}"
    );
}

#[test]
fn a_url_and_its_headers_expand_when_they_are_used() {
    let environment = environment(&[
        ("HOST", "x.example"),
        ("TOKEN", "tok-123"),
        ("LINES", "a\r\nEvil: b"),
    ]);
    let endpoint = |url: &str, value: &str| HttpEndpoint {
        url: url.to_owned(),
        headers: IndexMap::from([("Authorization".to_owned(), Secret::new(value))]),
        ..HttpEndpoint::new(url)
    };
    let resolved = resolve_url(
        &endpoint("https://${HOST}/mcp?k=${TOKEN}", "Bearer ${TOKEN}${GONE}"),
        &environment,
    )
    .unwrap();
    assert_eq!(resolved.url.as_str(), "https://x.example/mcp?k=tok-123");
    assert_eq!(
        exposed(&resolved.headers),
        [("Authorization", "Bearer tok-123")]
    );
    assert_eq!(
        resolved.unset,
        [("GONE".to_owned(), "headers.Authorization".to_owned())]
    );
    assert!(!format!("{resolved:?}").contains("tok-123"));
    let literal = resolve_url(
        &endpoint("https://user:pw-1@x.example/?key=k-2&debug=true", "h-3"),
        &environment,
    )
    .unwrap();
    assert_eq!(
        literal
            .secrets
            .iter()
            .map(Secret::expose)
            .collect::<Vec<_>>(),
        ["h-3", "pw-1", "k-2"]
    );
    let token = resolve_url(&endpoint("https://tok-4@x.example/", "h-3"), &environment).unwrap();
    assert!(token.secrets.contains(&Secret::new("tok-4")), "{token:?}");

    let said = |url: &str, value: &str| {
        resolve_url(&endpoint(url, value), &environment)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        said("${TOKEN}", "x"),
        "`url` cannot be used: not a URL: relative URL without a base; expected one such as \"https://example.com/mcp\""
    );
    assert_eq!(
        said("https://x.example", "${LINES}"),
        "`headers.Authorization` cannot be used: contains a line break or a zero byte, which a header cannot contain"
    );
}
