use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use switchboard_testkit::{Chaos, Step};

use crate::client::{Gateway, request};
use crate::support::{Home, ProgramOutput};

/// One value for each place in which a secret may stand. Each is long, and unlike every other text
/// here.
const CANARIES: [(&str, &str); 9] = [
    ("env", "canary/env+Zq1 8xJw2"),
    ("expanded", "canary/expanded+Hc3=rT5v"),
    ("header", "canary/header+Lm7?nB9k"),
    ("user", "canaryuserPd4sGf6h"),
    ("query", "canaryqueryWe8yUi0o"),
    ("argument", "canary/argument+Xv2cMz4q"),
    ("argument beside", "canary/beside+Rt6yKp8w"),
    ("assigned", "canary/assigned+Jd1fQs3l"),
    ("default", "canary/default+Ga5hEn7b"),
];

fn canary(place: &str) -> &'static str {
    CANARIES.iter().find(|(name, _)| *name == place).unwrap().1
}

/// The forms in which a value may travel.
fn forms(value: &str) -> Vec<String> {
    let percent = |unreserved: &str, lower: bool| -> String {
        let one = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() || unreserved.as_bytes().contains(&byte) => {
                char::from(byte).to_string()
            }
            byte if lower => format!("%{byte:02x}"),
            byte => format!("%{byte:02X}"),
        };
        value.bytes().map(one).collect()
    };
    let form = percent("-._~", false).replace("%20", "+");
    let mut forms = vec![
        value.to_owned(),
        percent("-._~", false),
        percent("-._~", true),
        form,
    ];
    for url in [false, true] {
        // Also as part of a longer text, where base64 depends on the offset.
        for before in ["", "u", "us", "Bearer ", "user:"] {
            let encoded = base64(&format!("{before}{value}"), url);
            let start = (before.len() * 8).div_ceil(6);
            let end = (before.len() + value.len()) * 8 / 6;
            forms.push(encoded[start..end].to_owned());
        }
    }
    forms
}

fn base64(text: &str, url: bool) -> String {
    let letters: Vec<u8> = (b'A'..=b'Z')
        .chain(b'a'..=b'z')
        .chain(b'0'..=b'9')
        .chain(if url { *b"-_" } else { *b"+/" })
        .collect();
    let bits: Vec<u8> = text
        .bytes()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    bits.chunks(6)
        .map(|six| {
            char::from(
                letters[six
                    .iter()
                    .enumerate()
                    .map(|(at, bit)| usize::from(*bit) << (5 - at))
                    .sum::<usize>()],
            )
        })
        .collect()
}

fn shows_nothing(of: &str, text: &str) {
    for (place, value) in CANARIES {
        for form in forms(value) {
            assert!(
                !text.contains(&form),
                "{of}: the secret of {place} shows as {form:?} in {text}"
            );
        }
    }
}

/// Every way in which a server may print its secrets.
fn blurts() -> String {
    let mut text = String::new();
    for (place, value) in CANARIES
        .iter()
        .filter(|(place, _)| matches!(*place, "env" | "expanded" | "default"))
    {
        text.push_str(&format!("{place}: {value}\n"));
        for form in forms(value).iter().skip(1) {
            text.push_str(&format!("x {form} y\n"));
        }
        let json = Value::from(*value).to_string();
        text.push_str(&format!(
            "Authorization: Basic {}=\n{json}\n",
            base64(&format!("user:{value}"), false)
        ));
    }
    text
}

/// A home with [`secret_entries`].
fn secretive() -> Home {
    let home = Home::new();
    let file = secret_entries(&home);
    home.user_file(&file);
    home
}

/// Entries with a secret in each place; their servers print all of them on stderr, in log messages,
/// junk and errors. The servers' scripts are in this home.
fn secret_entries(home: &Home) -> String {
    let told = blurts();
    let log = serde_json::json!({ "level": "error", "data": told }).to_string();
    let chatty = Chaos::new()
        .tool("tell", [Step::text("no secret")])
        .tool(
            "fails",
            [
                Step::Stderr(told.clone()),
                Step::notify("notifications/message", Some(&log)),
                Step::error(-32000, &told),
            ],
        )
        .tool("dies", [Step::Stderr(told.clone()), Step::Exit(3)])
        .on_start([
            Step::Stderr(told.clone()),
            Step::say(&told.replace('\n', " ")),
        ]);
    let script = home.path("chatty.json");
    std::fs::write(&script, chatty.json()).unwrap();
    let dying = Chaos::new().on_start([Step::Stderr(told.clone()), Step::Exit(1)]);
    let refusing = Chaos::new().on("initialize", [Step::error(-32000, &told)]);
    let unlisted = Chaos::new().on("tools/list", [Step::error(-32000, &told)]);
    let mut file = String::new();
    for (name, chaos) in [
        ("chatty", chatty),
        ("dying", dying),
        ("refusing", refusing),
        ("unlisted", unlisted),
    ] {
        let path = home.path(&format!("{name}.json"));
        std::fs::write(&path, chaos.json()).unwrap();
        file.push_str(&format!(
            "[servers.{name}]\ncommand = {:?}\nargs = [\"@{}\"]\nenv = {{ KEY = {:?}, OTHER = \"${{HIDDEN}}\", REST = \"${{NOT_SET_AT_ALL:-{}}}\" }}\n",
            switchboard_testkit::program("chaosd"), path.display(), canary("env"), canary("default")
        ));
    }
    // These take arguments that a script of ours cannot have: a shell says what it was given.
    file.push_str(&format!(
        "[servers.args]\ncommand = \"sh\"\nargs = [\"-c\", 'echo \"$$@\" >&2; exit 1', \"sh\", \"--token={}\", \"--api-key\", {:?}, \"-e\", \"API_KEY={}\"]\n",
        canary("argument"), canary("argument beside"), canary("assigned")
    ));
    file.push_str("[servers.nowhere]\ncommand = \"${HIDDEN}/no/such/program\"\n");
    file.push_str("[servers.folder]\ncommand = \"true\"\ncwd = \"/${HIDDEN}\"\n");
    file.push_str(&format!(
        "[servers.web]\nurl = \"https://me:{}@127.0.0.1:1/mcp?key={}\"\nheaders = {{ Authorization = \"Bearer {}\", X-Other = \"${{HIDDEN}}\" }}\n",
        canary("user"), canary("query"), canary("header")
    ));
    file
}

fn run(home: &Home, words: &[&str]) -> ProgramOutput {
    let mut command = home.command(words);
    command
        .env("HIDDEN", canary("expanded"))
        .env("RUST_BACKTRACE", "1")
        .env("RUST_LOG", "trace");
    ProgramOutput::of(&command.output().unwrap())
}

#[test]
fn t25_no_view_error_or_diagnostic_shows_a_secret() {
    let home = secretive();
    let runs: [&[&str]; 16] = [
        &["-vvv", "status"],
        &["-vvv", "status", "--json"],
        &["status", "--descriptions"],
        &["-vvv", "tools"],
        &["tools", "--json"],
        &["-vvv", "doctor"],
        &["doctor", "--json"],
        &["-vvv", "call", "chatty/tell", "--yes"],
        &["-vvv", "call", "chatty/fails", "--yes"],
        &["call", "chatty/fails", "--yes", "--json"],
        &["-vvv", "call", "chatty/dies", "--yes"],
        &["call", "dying/x", "--yes", "--json"],
        &["-vvv", "call", "args/x", "--yes"],
        &["call", "nowhere/x", "--yes"],
        &["logs", "-n", "100000"],
        &["logs", "--json", "-n", "100000"],
    ];
    for words in runs {
        let ran = run(&home, words);
        shows_nothing(&format!("{words:?} stdout"), &ran.stdout);
        shows_nothing(&format!("{words:?} stderr"), &ran.stderr);
    }
    let logs = run(&home, &["logs", "-n", "100000"]).stdout;
    assert!(
        logs.contains("[secret]") && logs.contains("expanded: "),
        "they were told, and taken out: {logs}"
    );
    shows_nothing_below(&home.path("state"));
}

/// The gateway: its answers to clients, its page, `/metrics`, and what it prints and stores.
#[test]
fn t25_no_answer_page_or_line_of_a_gateway_shows_a_secret() {
    let scripts = Home::new();
    let entries = secret_entries(&scripts);
    let more = format!("[permissions]\nallow = [\"*\"]\n{entries}");
    let hidden = [("HIDDEN", canary("expanded")), ("RUST_LOG", "trace")];
    let mut gateway = Gateway::start_with_environment(&more, &["-vvv"], &hidden);
    let session = gateway.initialize("/mcp");
    let headers = [("Mcp-Session-Id", session.as_str())];
    gateway.tool("/mcp", &session, "chatty__tell");
    let mut seen = String::new();
    for name in [
        "chatty__tell",
        "chatty__fails",
        "chatty__dies",
        "dying__x",
        "refusing__x",
        "unlisted__x",
        "args__x",
        "nowhere__x",
        "folder__x",
        "web__x",
    ] {
        let params = json!({"name": format!("mcp__{name}"), "arguments": {}});
        let call = request(3, "tools/call", params);
        seen += &gateway.send("POST", "/mcp", &headers, &call).body;
    }
    assert!(
        seen.contains("[secret]"),
        "a server's error is passed on: {seen}"
    );
    for (path, params) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/read", json!({"uri": "x://y"})),
    ] {
        let body = request(4, path, params);
        seen += &gateway.send("POST", "/mcp", &headers, &body).body;
    }
    shows_nothing("an answer", &seen);
    shows_nothing("/metrics", &gateway.send("GET", "/metrics", &[], "").body);
    let servers = [
        "chatty", "dying", "refusing", "unlisted", "args", "nowhere", "folder", "web",
    ];
    let paths = servers.map(|name| format!("/servers/{name}"));
    let cookie = operator_cookie(&gateway);
    let cookie = [("Authorization", ""), ("Cookie", cookie.as_str())];
    for path in paths.iter().map(String::as_str).chain(["/"]) {
        let page = gateway.send("GET", path, &cookie, "");
        assert_eq!(page.status, 200, "{path}: {page:?}");
        shows_nothing(path, &page.body);
    }
    kill(Pid::from_raw(gateway.pid()), Signal::SIGTERM).unwrap();
    gateway.wait();
    let printed = gateway.printed.clone() + &gateway.last_words();
    assert!(printed.contains("dying"), "{printed}");
    shows_nothing("stderr", &printed);
    shows_nothing_below(&gateway.home.path("state"));
}

/// Logs in at the operator's page.
fn operator_cookie(gateway: &Gateway) -> String {
    let link = gateway.home.run(&["approvals", "--page"]).stdout;
    let (_, path) = link.trim_end().split_once("/login").unwrap();
    let path = format!("/login{path}");
    let answer = gateway.send("GET", &path, &[("Authorization", "")], "");
    let cookie = answer.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// A person at a terminal is shown no more.
#[test]
fn t25_no_prompt_or_progress_line_shows_a_secret_of_the_entry() {
    let home = secretive();
    let hidden = format!("HIDDEN={}", canary("expanded"));
    for words in [
        &["-vvv", "status"][..],
        &["doctor"],
        &["call", "chatty/fails", "--yes"],
    ] {
        let mut all = vec!["env", &hidden, "RUST_BACKTRACE=1", crate::support::PROGRAM];
        all.extend(words);
        let ended = home.spawn_in_terminal(&all).end();
        shows_nothing(
            &format!("{words:?}"),
            &String::from_utf8_lossy(&ended.bytes),
        );
    }
}

/// Errors in a file are reported without its values.
#[test]
fn t25_no_complaint_about_a_file_quotes_a_secret() {
    let home = Home::new();
    let secret = canary("env");
    let files = [
        format!("[servers.a]\ncommand = 'x'\nenv = {{ KEY = {secret:?} \n"),
        format!("[servers.a]\ncommand = 'x'\nenv = {{ KEY = {secret:?}, KEY = 'x' }}\n"),
        format!("[servers.a]\ncommand = 'x'\nenv = {{ KEY = [{secret:?}] }}\n"),
        format!("[servers.a]\ncommand = 'x'\nenv = {secret:?}\n"),
        format!("[servers.a]\ncommand = 'x'\nenv = {{ KEY = \"{secret}${{\" }}\n"),
        format!("[servers.a]\nurl = 'https://x/'\nheaders = {{ A = \"{secret}\\n\" }}\n"),
        format!("[servers.a]\nurl = 'http://me:{}@[/'\n", canary("user")),
        format!("[servers.a]\ncommand = 'x'\nargs = [\"--token\", {secret:?}\n"),
    ];
    for file in files {
        home.user_file(&file);
        for words in [&["-vvv", "status"][..], &["status", "--json"]] {
            let ran = run(&home, words);
            assert_eq!(ran.code, Some(2), "{file}: {ran:?}");
            shows_nothing(&file.replace(secret, "…"), &ran.stderr);
        }
    }
}

/// The accepted form of a project's entry is stored, to show changes; its values are not.
#[test]
fn t25_what_is_remembered_of_an_accepted_entry_holds_no_secret() {
    let home = Home::new();
    home.project_file(&format!(
        "[servers.a]\ncommand = \"true\"\nargs = [\"--token={}\", \"--api-key\", {:?}]\nenv = {{ KEY = {:?} }}\n\
         [servers.web]\nurl = \"https://me:{}@127.0.0.1:1/mcp?key={}\"\nheaders = {{ Authorization = \"Bearer {}\" }}\n",
        canary("argument"),
        canary("argument beside"),
        canary("env"),
        canary("user"),
        canary("query"),
        canary("header")
    ));
    let ran = home.run(&["trust", "a", "web", "--yes"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains(canary("env")),
        "the person saw all of it: {ran:?}"
    );
    shows_nothing_below(&home.path("state"));
}

fn shows_nothing_below(folder: &Path) {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            shows_nothing_below(&entry.path());
        } else {
            files += 1;
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
            shows_nothing(&entry.path().display().to_string(), &text);
        }
    }
    assert!(
        files > 0 || folder.ends_with("state"),
        "{} is empty",
        folder.display()
    );
}

/// A server that repeats its secret in every text about itself.
fn outspoken(home: &Home) {
    let secret = canary("env");
    let log = serde_json::json!({ "level": "info", "logger": secret, "data": { "key": secret } })
        .to_string();
    let odd = serde_json::json!({ "level": format!("{secret} level"), "data": secret }).to_string();
    let progress = serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": "@id@", "progress": 1, "message": format!("half way with {secret}") } });
    let mut chaos = Chaos::new()
        .tool(
            "work",
            [
                Step::notify("notifications/message", Some(&log)),
                Step::notify("notifications/message", Some(&odd)),
                Step::say(&progress.to_string().replace("\"@id@\"", "@id@")),
                Step::Sleep(300),
                Step::text("done"),
            ],
        )
        .tool("kept", [Step::text("kept")])
        .define("kept", "description", &Value::from(format!("connects with {secret}")).to_string())
        .extra_tool(&serde_json::json!({ "name": format!("no schema {secret}") }).to_string())
        .on("logging/setLevel", [Step::result("{}")])
        .on("prompts/list", [Step::result(
            &serde_json::json!({ "prompts": [{ "name": "p", "description": format!("asks with {secret}") }, { "name": "q" }] })
                .to_string(),
        )]);
    chaos.script.instructions = Some(format!("log in with {secret} first"));
    chaos.script.capabilities =
        Some(serde_json::from_str(r#"{"tools":{},"prompts":{},"logging":{}}"#).unwrap());
    let path = home.path("outspoken.json");
    std::fs::write(&path, chaos.json()).unwrap();
    home.user_file(&format!(
        "[servers.outspoken]\ncommand = {:?}\nargs = [\"@{}\"]\nenv = {{ KEY = {secret:?} }}\n[permissions]\nallow = [\"outspoken\"]\n\
         [security]\nlocked = true\n",
        switchboard_testkit::program("chaosd"),
        path.display()
    ));
}

/// Log messages, progress, withheld tools and instructions are told without secrets, on a pipe and
/// on a terminal.
#[test]
fn t25_logs_progress_and_instructions_of_a_server_show_no_secret() {
    let home = Home::new();
    outspoken(&home);
    let runs: [(&[&str], &str); 4] = [
        (
            &["call", "outspoken/work", "--log-level", "debug"],
            "[secret]",
        ),
        (&["status", "-v"], "log in with [secret] first"),
        (&["tools", "outspoken"], "no schema [secret]"),
        (&["doctor"], ""),
    ];
    for (words, shown) in runs {
        let ran = run(&home, words);
        let all = format!("{}{}", ran.stdout, ran.stderr)
            .replace(&format!("connects with {}", canary("env")), "");
        shows_nothing(&format!("{words:?}"), &all);
        assert!(all.contains(shown), "{words:?}: {all}");
    }
    let terminal = home.run_in_terminal(&["call", "outspoken/work"]);
    let ended = terminal.end();
    let all = String::from_utf8_lossy(&ended.bytes);
    shows_nothing("progress", &all);
    assert!(all.contains("half way with [secret]"), "{all}");
}

/// What is remembered between runs holds no secret that a server put into its definitions; the rest
/// of its catalog is remembered.
#[test]
fn t25_a_remembered_catalog_holds_no_secret() {
    let home = Home::new();
    outspoken(&home);
    for words in [
        &["tools"][..],
        &["call", "outspoken/kept"],
        &["call", "outspoken/work"],
        &["prompts"],
    ] {
        let ran = run(&home, words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
    }
    shows_nothing_below(&home.path("state"));
    let catalog: String = std::fs::read_dir(home.path("state/switchboard/catalogs"))
        .unwrap()
        .flatten()
        .map(|file| std::fs::read_to_string(file.path()).unwrap())
        .collect();
    assert!(
        catalog.contains("work") && catalog.contains(r#"\"q\""#) | catalog.contains(r#""q""#),
        "{catalog}"
    );
    // The omitted definition is listed once the server runs.
    assert_eq!(run(&home, &["call", "outspoken/kept"]).stdout, "kept\n");
}

/// C14: a value is taken out of free text where its name or its form says that it is a secret; an
/// ordinary word stays readable.
#[test]
fn t25_an_ordinary_word_of_an_entry_does_not_make_a_log_unreadable() {
    let home = Home::new();
    let told = "transport to eu-west-1 at https://api.example.com/v2 lost: swordfish 9fK2xQ7vLm04ZtB8 opensesame";
    let chaos = Chaos::new()
        .tool("x", [Step::Answer])
        .on_start([Step::Stderr(format!("{told}\n"))]);
    let path = home.path("plain.json");
    std::fs::write(&path, chaos.json()).unwrap();
    home.user_file(&format!(
        "[servers.plain]\ncommand = {:?}\nargs = [\"@{}\"]\n[servers.plain.env]\nREGION = \"transport\"\nZONE = \"eu-west-1\"\n\
         ENDPOINT = \"https://api.example.com/v2\"\nDB_PASSWORD = \"swordfish\"\nOTHER = \"9fK2xQ7vLm04ZtB8\"\nREAD = \"${{HIDDEN}}\"\n",
        switchboard_testkit::program("chaosd"),
        path.display()
    ));
    let mut command = home.command(&["status", "-v"]);
    let status = ProgramOutput::of(&command.env("HIDDEN", "opensesame").output().unwrap());
    let logs = home.run(&["logs", "-n", "1000"]).stdout;
    assert!(
        logs.contains(
            "transport to eu-west-1 at https://api.example.com/v2 lost: [secret] [secret] [secret]"
        ),
        "{logs}"
    );
    // S2-45, S2-56: where the entry itself is shown, no value is, whether or not it is a secret.
    for value in [
        "transport\"",
        "eu-west-1\n",
        "swordfish",
        "9fK2xQ7vLm04ZtB8",
        "opensesame",
    ] {
        assert!(!status.stdout.contains(value), "{value}: {status:?}");
    }
}
