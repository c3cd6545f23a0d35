//! Tests of the exact messages for each kind of invalid file.
#![allow(clippy::unwrap_used)]

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(diagnostics_of(text, Scope::User), expected, "\n{text}");
}

#[test]
fn invalid_toml_is_reported_with_its_position_and_without_the_line() {
    check(
        "[servers.git\ncommand = 'x'",
        "switchboard.toml:1:13: not valid TOML: unclosed table, expected `]`",
    );
    check(
        "[servers.git]\ncommand = npx\n",
        "switchboard.toml:2:11: not valid TOML: a string must be in quotes: \"…\"",
    );
    check(
        "[servers.git]\ncommand = \n",
        "switchboard.toml:2:11: not valid TOML: the value is missing",
    );
    check(
        "[servers.git]\ncommand = \"npx\nargs = []\n",
        "switchboard.toml:2:15: not valid TOML: the string is not closed; expected the closing quote before the end of the line",
    );
    check(
        "[servers.git]\ncommand: 'a'\n",
        "switchboard.toml:2:10: not valid TOML: key with no value, expected `=`",
    );
    check(
        "[servers.git]\nargs = ['a' 'b']\ncommand = 'x'\n",
        "switchboard.toml:2:13: not valid TOML: missing comma between array elements, expected `,`",
    );
    check(
        "{ \"mcpServers\": {} }",
        "switchboard.toml:1:1: not valid TOML: this looks like JSON; expected TOML, which begins with [servers.NAME]",
    );
    check(
        "[servers.git]\ncommand = 'a'\ncommand = 'b'\n",
        "switchboard.toml:3:1: not valid TOML: this name is already set above; each may occur once",
    );
    check(
        "[servers.git]\ncommand = 'x'\nconnect_timeout = 5s\n",
        "switchboard.toml:3:19: not valid TOML: neither a number nor a string; a string must be in quotes",
    );
}

#[test]
fn unknown_words_are_errors_that_list_the_known_ones() {
    check(
        "[servers.git]\ncommand = 'x'\ntransport = 'stdin'\n",
        "switchboard.toml:3:13: servers.git.transport: unknown transport \"stdin\"; expected \"stdio\", \"http\" or \"sse\" (did you mean \"stdio\"?)",
    );
    check(
        "[servers.git]\nurl = 'https://x.example'\ntransport = 'websocket'\n",
        "switchboard.toml:3:13: servers.git.transport: unknown transport \"websocket\"; expected \"stdio\", \"http\" or \"sse\"",
    );
    check(
        "[permissions]\nmode = 'allow'\n",
        "switchboard.toml:2:8: permissions.mode: unknown mode \"allow\"; expected \"ask\", \"yolo\" or \"deny\"",
    );
    check(
        "[naming]\nstyle = 'mpc'\n",
        "switchboard.toml:2:9: naming.style: unknown style \"mpc\"; expected \"mcp\", \"server_tool\", \"server-tool\", \"first-wins\" or \
         \"identity\" (did you mean \"mcp\"?)",
    );
}

#[test]
fn c6_two_transports_are_one_error_that_names_both_fields_and_lines() {
    check(
        "[servers.git]\ncommand = 'x'\nargs = ['a']\nurl = 'https://x.example'\nheaders = { A = 'b' }\n",
        "switchboard.toml:4:1: servers.git: both `command` (line 2) and `url` (line 4) are set; a server is either a program to start or a \
         URL to reach: remove one of them",
    );
}

#[test]
fn an_entry_without_an_endpoint_says_what_is_missing() {
    check(
        "\n[servers.git]\nstart = 'lazy'\n",
        "switchboard.toml:2:10: servers.git: neither `command` nor `url` is set; expected a program to start or a URL to reach",
    );
    check(
        "[servers.git]\ntransport = 'http'\n",
        "switchboard.toml:1:10: servers.git: `url` is missing; expected the address of the server",
    );
    check(
        "[servers.git]\ntransport = 'stdio'\n",
        "switchboard.toml:1:10: servers.git: `command` is missing; expected the program to start",
    );
}

#[test]
fn c18_fields_of_the_other_transport_are_rejected() {
    check(
        "[servers.git]\ncommand = 'x'\nheaders = { A = 'b' }\ntransport = 'sse'\n",
        "switchboard.toml:3:1: servers.git.headers: belongs to servers with a `url`; this one is a program to start (`command`, line 2): \
         remove `headers`\n\
         switchboard.toml:4:1: servers.git.transport: \"sse\" does not fit a program to start (`command`, line 2); expected \"stdio\", or no \
         transport at all",
    );
    check(
        "[servers.git]\nurl = 'https://x.example'\nargs = []\nenv = {}\ncwd = '.'\ninherit_env = true\ntransport = 'stdio'\n",
        "switchboard.toml:3:1: servers.git.args: belongs to servers with a `command`; this one is a URL to reach (`url`, line 2): remove `args`\n\
         switchboard.toml:4:1: servers.git.env: belongs to servers with a `command`; this one is a URL to reach (`url`, line 2): remove `env`\n\
         switchboard.toml:5:1: servers.git.cwd: belongs to servers with a `command`; this one is a URL to reach (`url`, line 2): remove `cwd`\n\
         switchboard.toml:6:1: servers.git.inherit_env: belongs to servers with a `command`; this one is a URL to reach (`url`, line 2): \
         remove `inherit_env`\n\
         switchboard.toml:7:1: servers.git.transport: \"stdio\" does not fit a URL to reach (`url`, line 2); expected \"http\" or \"sse\", or no \
         transport at all",
    );
}

#[test]
fn empty_values_are_reported() {
    check(
        "[servers.git]\ncommand = ''\n",
        "switchboard.toml:2:1: servers.git.command: empty; expected the program to start, such as \"npx\" or \"./server\"",
    );
    check(
        "[servers.git]\ncommand = '  '\n",
        "switchboard.toml:2:1: servers.git.command: empty; expected the program to start, such as \"npx\" or \"./server\"",
    );
    check(
        "[servers.git]\ncommand = 'x'\ncwd = ''\n",
        "switchboard.toml:3:1: servers.git.cwd: empty; expected a folder, or no `cwd` at all",
    );
    check(
        "[permissions]\ndeny = ['a', ' ']\n",
        "switchboard.toml:2:14: permissions.deny[1]: empty; expected \"server\" or \"server/tool\"",
    );
    check(
        "[security]\nallow_servers = []\n",
        "warning: switchboard.toml:2:1: security.allow_servers: an empty list blocks no server; list names, or remove it",
    );
}

#[test]
fn an_invalid_duration_or_size_is_reported_with_the_expected_form() {
    check(
        "[servers.git]\ncommand = 'x'\nconnect_timeout = 'soon'\n",
        "switchboard.toml:3:19: servers.git.connect_timeout: \"soon\" is not a duration; expected a whole number and a unit, such as \
         \"500ms\", \"30s\", \"10m\" or \"1h\"",
    );
    check(
        "[servers.git]\ncommand = 'x'\ncall_timeout = 30\n",
        "switchboard.toml:3:16: servers.git.call_timeout: expected a whole number and a unit, such as \"500ms\", \"30s\", \"10m\" or \"1h\", \
         found an integer",
    );
    check(
        "[servers.git]\ncommand = 'x'\ncall_timeout = '2m'\ncall_timeout_max = '1m'\n",
        "switchboard.toml:4:1: servers.git.call_timeout_max: shorter than `call_timeout` (line 3); expected at least as long",
    );
    check(
        "[servers.git]\ncommand = 'x'\nmax_message = -1\n",
        "switchboard.toml:3:15: servers.git.max_message: expected a whole number of bytes, or one with a unit, such as \"512KiB\" or \"64MiB\"",
    );
    check(
        "[servers.git]\ncommand = 'x'\nmax_message = '2GiB'\n",
        "switchboard.toml:3:15: servers.git.max_message: too large; expected at most \"1GiB\"",
    );
}

#[test]
fn an_invalid_server_name_is_reported_with_the_rule() {
    let rule =
        "expected 1 to 32 of A-Z a-z 0-9 _ -, without \"__\" and without \"_\" at either end";
    for (key, shown) in [
        ("a__b", "servers.a__b: \"a__b\" cannot name a server: "),
        ("_a", "servers._a: \"_a\" cannot name a server: "),
        (
            "\"my server\"",
            "servers.\"my server\": \"my server\" cannot name a server: ",
        ),
        (
            "\"\\u001b[2J\"",
            "servers.\"\\u{1b}[2J\": \"\\u{1b}[2J\" cannot name a server: ",
        ),
        ("\"\"", "servers.\"\": \"\" cannot name a server: "),
        (
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "servers.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" cannot name a server: ",
        ),
    ] {
        let messages = diagnostics_of(format!("[servers.{key}]\ncommand = 'x'\n"), Scope::User);
        assert!(
            messages.starts_with(&format!("switchboard.toml:1:10: {shown}"))
                && messages.ends_with(rule),
            "{messages}"
        );
    }
}

#[test]
fn a_wrong_type_is_reported_with_what_was_expected_and_found() {
    check(
        "servers = 1\n",
        "switchboard.toml:1:11: servers: expected a table for each server, [servers.NAME], found an integer",
    );
    check(
        "[[servers]]\nname = 'git'\n",
        "switchboard.toml:1:1: servers: expected a table for each server, [servers.NAME], found a list",
    );
    check(
        "servers.git = 'npx'\n",
        "switchboard.toml:1:15: servers.git: expected a table, [servers.git], found a string",
    );
    check(
        "permissions = 'ask'\n",
        "switchboard.toml:1:15: permissions: expected a table, [permissions], found a string",
    );
    check(
        "[servers.git]\ncommand = ['npx', '-y']\nargs = '-y'\nenv = ['A=b']\nenabled = 'yes'\nstart = true\nexclude_tools = [1, 'b', 2.5]\n",
        "switchboard.toml:2:11: servers.git.command: expected a string in quotes, found a list\n\
         switchboard.toml:3:8: servers.git.args: expected a list of strings, such as [\"a\", \"b\"], found a string\n\
         switchboard.toml:4:7: servers.git.env: expected a table of strings, such as { NAME = \"value\" }, found a list\n\
         switchboard.toml:5:11: servers.git.enabled: expected true or false, found a string\n\
         switchboard.toml:6:9: servers.git.start: expected \"eager\" or \"lazy\", found true or false without quotes\n\
         switchboard.toml:7:18: servers.git.exclude_tools[0]: expected a string, found an integer\n\
         switchboard.toml:7:26: servers.git.exclude_tools[2]: expected a string, found a decimal number",
    );
    check(
        "[servers.git]\ncommand = 'x'\nenv = { PORT = 8080 }\n",
        "switchboard.toml:3:16: servers.git.env.PORT: expected a string, found an integer; put the value in quotes",
    );
}

#[test]
fn a_malformed_reference_is_reported_at_load() {
    check(
        "[servers.git]\ncommand = 'x'\nargs = ['a', '${TOKEN']\nenv = { A = 'hunter2 ${input:x}' }\n",
        "switchboard.toml:3:14: servers.git.args[1]: a reference opened with \"${\" is not closed with \"}\"; write \"$${\" for the text itself\n\
         switchboard.toml:4:13: servers.git.env.A: malformed reference; expected ${NAME}, ${env:NAME} or ${NAME:-default}, or \"$${\" for the \
         text itself",
    );
}

#[test]
fn an_invalid_url_or_header_is_reported_without_its_text() {
    check(
        "[servers.git]\nurl = 'x.example/hunter2'\n",
        "switchboard.toml:2:1: servers.git.url: not a URL: relative URL without a base; expected one such as \"https://example.com/mcp\"",
    );
    check(
        "[servers.git]\nurl = 'ftp://hunter2@x.example'\n",
        "switchboard.toml:2:1: servers.git.url: unsupported scheme \"ftp\"; expected http or https",
    );
    check(
        "[servers.git]\nurl = 'https://x.example'\nheaders = { 'a b' = 'c', X = \"hunter2\\r\\nY: z\", A = '1', a = '2' }\n",
        "switchboard.toml:3:13: servers.git.headers.\"a b\": not the name of a header; expected letters, digits and -\n\
         switchboard.toml:3:26: servers.git.headers.X: contains a line break or a zero byte, which a header cannot contain\n\
         switchboard.toml:3:58: servers.git.headers.a: set twice; header names are case-insensitive: remove one of them",
    );
    check("[servers.git]\nurl = '${BASE}/mcp'\n", "");
}

#[test]
fn a_zero_byte_or_an_invalid_glob_is_reported() {
    check(
        "[servers.git]\ncommand = \"a\\u0000b\"\nenv = { 'A=B' = 'c' }\ninclude_tools = ['a[']\n",
        "switchboard.toml:2:1: servers.git.command: contains a zero byte, which cannot be passed to a program\n\
         switchboard.toml:3:9: servers.git.env.\"A=B\": not the name of a variable; expected a name without \"=\"\n\
         switchboard.toml:4:18: servers.git.include_tools[0]: not a glob: \"a[\": unclosed character class; missing ']'; expected a tool name, \
         with * and ? where needed",
    );
}

#[test]
fn unknown_fields_are_warnings_with_the_nearest_known_name() {
    check(
        "[mcpServers.x]\ncommand = 'y'\n[servers.git]\ncommand = 'x'\ncomand = 'y'\ntimeout = 5\nfrobnicate = 1\n[permisions]\n[extra]\n",
        "warning: switchboard.toml:1:2: mcpServers: unknown section, ignored; did you mean `servers`?\n\
         warning: switchboard.toml:5:1: servers.git.comand: unknown field, ignored; did you mean `command`?\n\
         warning: switchboard.toml:6:1: servers.git.timeout: unknown field, ignored; did you mean `call_timeout`?\n\
         warning: switchboard.toml:7:1: servers.git.frobnicate: unknown field, ignored\n\
         warning: switchboard.toml:8:2: permisions: unknown section, ignored; did you mean `permissions`?\n\
         warning: switchboard.toml:9:2: extra: unknown section, ignored; known are `servers`, `permissions`, `security`, `naming`, `model`, `gateway`",
    );
}

#[test]
fn a_misspelt_field_is_reported_with_the_error_it_causes() {
    check(
        "[servers.git]\ncomand = 'x'\n",
        "switchboard.toml:1:10: servers.git: neither `command` nor `url` is set; expected a program to start or a URL to reach\n\
         switchboard.toml:2:1: servers.git.comand: unknown field; did you mean `command`?",
    );
}

#[test]
fn syntax_of_other_programs_is_warned_about() {
    check(
        "[servers.git]\ncommand = '~/bin/x'\nenv = { A = '$TOKEN', PATH = '/x' }\n",
        "warning: switchboard.toml:2:1: servers.git.command: \"~\" is not expanded; write \"${HOME}\" for your home folder\n\
         warning: switchboard.toml:3:9: servers.git.env.A: \"$NAME\" is not expanded; a reference is written \"${NAME}\"\n\
         warning: switchboard.toml:3:23: servers.git.env.PATH: decides which programs are found and run; keep it only if you mean it",
    );
}

/// C12: a file that does not parse is fatal, and so is a wrong entry of a native file.
#[test]
fn all_errors_of_a_file_are_reported_at_once_with_syntax_errors() {
    check(
        "[servers.a]\ncommand = ''\n[servers.b]\ncommand = npx\n[servers.c__d]\nurl = 'https://x.example'\nasks = 'maybe'\n[permissions]\nmode = 'x'\n",
        &format!(
            "switchboard.toml:2:1: servers.a.command: empty; expected the program to start, such as \"npx\" or \"./server\"\n\
         switchboard.toml:4:11: not valid TOML: a string must be in quotes: \"…\"\n\
         switchboard.toml:5:10: servers.c__d: {}\n\
         switchboard.toml:7:8: servers.c__d.asks: unknown value \"maybe\"; expected \"auto\", \"yes\" or \"no\"\n\
         switchboard.toml:9:8: permissions.mode: unknown mode \"x\"; expected \"ask\", \"yolo\" or \"deny\"",
            ServerName::new("c__d").unwrap_err()
        ),
    );
}

#[test]
fn an_unreadable_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, scope: Scope, expected: &str| {
        let path = folder.path().join(name);
        let messages = load(&[ConfigFile::new(path.clone(), scope)])
            .unwrap_err()
            .to_string();
        assert_eq!(messages, format!("{}: {expected}", path.display()));
    };
    check(
        "missing.toml",
        Scope::Given,
        "no such file; correct the path",
    );
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    check("folder", Scope::Given, "is a folder; expected a file");
    std::fs::write(
        folder.path().join("large.toml"),
        vec![b'#'; 1024 * 1024 + 1],
    )
    .unwrap();
    check(
        "large.toml",
        Scope::Given,
        "larger than 1 MiB, which no configuration is; is it the right file?",
    );
    let mut large = vec![b' '; 16 * 1024 * 1024 - 2];
    large.extend(b"{}");
    std::fs::write(folder.path().join("large.json"), &large).unwrap();
    check(
        "large.json",
        Scope::User,
        "larger than 1 MiB, which no configuration is; is it the right file?",
    );
    let given = ConfigFile::new(folder.path().join("large.json"), Scope::Given);
    load(std::slice::from_ref(&given)).expect("Claude Code's file has several MiB");
    large.push(b' ');
    std::fs::write(&given.path, &large).unwrap();
    check(
        "large.json",
        Scope::Given,
        "larger than 16 MiB, which no configuration is; is it the right file?",
    );
    nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    check(
        "pipe",
        Scope::Project,
        "is not a regular file; expected one",
    );
    let messages = diagnostics_of(b"# \xc3\xa9\n[servers.a]\n# \xff\n", Scope::User);
    assert_eq!(
        messages,
        "switchboard.toml:3:3: not UTF-8 text; save the file as UTF-8"
    );
}

#[test]
fn all_errors_of_all_files_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.toml", "b.toml"].map(|name| {
        let path = folder.path().join(name);
        std::fs::write(&path, "[permissions]\nmode = 1\n").unwrap();
        ConfigFile::new(path, Scope::Given)
    });
    let messages = load(&files).unwrap_err().to_string();
    let expected = files.map(|file| {
        format!(
            "{}:2:8: permissions.mode: expected \"ask\", \"yolo\" or \"deny\", found an integer",
            file.path.display()
        )
    });
    assert_eq!(messages, expected.join("\n"));
}
