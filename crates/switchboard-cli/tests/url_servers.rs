//! URL servers as a person sees them: each failure has its own message, without secrets.
#![allow(clippy::unwrap_used)]

mod support;

/// A server over TLS.
#[path = "url_servers/tls.rs"]
mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use support::Home;

/// Status, content type and body of a response.
type Response = (u16, &'static str, String);

/// A server over raw TCP that answers each request with what `answer` makes of its method; ends
/// with the test.
fn serve(answer: impl Fn(&str) -> Response + Send + Sync + 'static) -> u16 {
    serve_messages(move |message| answer(message["method"].as_str().unwrap_or_default()))
}

/// The same, with the whole message.
fn serve_messages(answer: impl Fn(&Value) -> Response + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || exchange(stream, &*answer));
        }
    });
    port
}

/// One request per connection. Invalid HTTP is answered as well.
fn exchange(stream: TcpStream, answer: &dyn Fn(&Value) -> Response) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    let mut body = Vec::new();
    if stream
        .fill_buf()
        .ok()?
        .first()
        .is_some_and(u8::is_ascii_uppercase)
    {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.parse().ok()?;
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).ok()?;
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, kind, text) = answer(&message);
    let text = text.replace("\"ID\"", &message["id"].to_string());
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.get_mut().write_all((head + &text).as_bytes()).ok()
}

fn home(url: &str) -> Home {
    let home = Home::new();
    home.user_file(&format!(
        "[servers.far]\nurl = {url:?}\n[servers.far.headers]\nX-Key = \"the-entry-s-own-key\"\n"
    ));
    home
}

/// F23, F24: refused connection, unknown host, no TLS, HTML instead of JSON, HTTP error: each has its
/// own message and hint.
#[test]
fn f24_each_connection_failure_has_its_own_message() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let page = serve(|_| {
        (
            200,
            "text/html",
            "<html><title>Welcome</title></html>".to_owned(),
        )
    });
    let broken = serve(|_| (500, "text/plain", "boom".to_owned()));
    let elsewhere = serve(|_| (404, "text/plain", String::new()));
    let cases = [
        (format!("http://127.0.0.1:{gone}/mcp"), format!("127.0.0.1:{gone} refused the connection")),
        ("http://no-such-host.invalid/mcp".to_owned(), "cannot resolve no-such-host.invalid:80".to_owned()),
        (format!("https://127.0.0.1:{page}/mcp"), format!("TLS with 127.0.0.1:{page} failed: ")),
        (
            format!("http://127.0.0.1:{page}/mcp"),
            "answered with text/html instead of JSON or events: an HTML page: Welcome (is this the URL of an MCP endpoint?)"
                .to_owned(),
        ),
        (format!("http://127.0.0.1:{broken}/mcp"), "answered the handshake with HTTP 500: boom".to_owned()),
        (
            format!("http://127.0.0.1:{elsewhere}/mcp"),
            "the server refused the handshake: it speaks neither Streamable HTTP (HTTP 404) nor HTTP+SSE (HTTP 404)".to_owned(),
        ),
    ];
    for (url, beginning) in cases {
        let home = home(&url);
        let ran = home.run(&["status", "--json"]);
        let server = &ran.json()["servers"][0];
        let error = server["error"].as_str().unwrap_or_default();
        assert!(error.starts_with(&beginning), "{url}: {error}");
        assert!(
            error.ends_with("; try `switchboard doctor far`"),
            "{url}: {error}"
        );
        assert_eq!(
            (&server["status"], &server["transport"]),
            (&"DISCONNECTED".into(), &"http".into()),
            "{server}"
        );

        let ran = home.run(&["status"]);
        assert!(
            ran.stdout
                .contains(&format!("\n  URL: {url}\n  Error: {beginning}")),
            "{ran:?}"
        );
        let ran = home.run(&["call", "far/anything", "--yes"]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let ran = home.run(&["doctor", "far"]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(
            ran.stdout.starts_with(&format!("✗ far: {beginning}")),
            "{ran:?}"
        );
        for absent in ["pid", "Stderr", "the-entry-s-own-key", "stdout"] {
            assert!(!ran.stdout.contains(absent), "{absent}: {ran:?}");
        }
    }
}

/// F24: `doctor` reports the first failing step, and suggests a `curl` command.
#[test]
fn f24_doctor_reports_the_first_failing_step() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let ran = home(&format!("http://127.0.0.1:{gone}/mcp")).run(&["doctor", "far"]);
    for told in [
        "    Name: 127.0.0.1 resolves to 127.0.0.1 (",
        &format!("    Port: {gone} does not answer: "),
        "    Try: run it by hand: curl -i --max-time 10 ",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
    assert!(
        !ran.stdout.contains("leave out `transport`"),
        "{}",
        ran.stdout
    );
    let named = Home::new();
    named.user_file(&format!(
        "[servers.far]\nurl = \"http://127.0.0.1:{gone}/mcp\"\ntransport = \"sse\"\n"
    ));
    let ran = named.run(&["doctor", "far"]);
    assert!(
        ran.stdout.contains(
            "    Try: remove `transport` from its entry: the transport is then detected\n"
        ),
        "{}",
        ran.stdout
    );
    let broken = serve(|_| (500, "text/plain", "boom".to_owned()));
    let ran = home(&format!(
        "http://127.0.0.1:{broken}/mcp?key=hidden-in-the-query"
    ))
    .run(&["doctor", "far"]);
    assert!(
        ran.stdout
            .contains(&format!("    Port: {broken} is open (")),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stdout.contains("hidden-in-the-query"),
        "{}",
        ran.stdout
    );
}

/// The request that `doctor` gives to copy is one that a server may answer: run in a shell, it
/// accepts both kinds of answers.
#[test]
fn f24_the_request_to_copy_accepts_what_servers_answer_with() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let strict = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(&stream);
            while reader.read_line(&mut head).is_ok_and(|count| count > 2) {}
            let accepts = head
                .to_lowercase()
                .contains("\r\naccept: application/json, text/event-stream\r\n");
            let answer = if accepts {
                "500 X\r\n\r\naccepted"
            } else {
                "406 X\r\n\r\nnot acceptable"
            };
            // The client may have disconnected.
            let _ = (&stream).write_all(format!("HTTP/1.0 {answer}").as_bytes());
        }
    });
    let ran = home(&format!("http://127.0.0.1:{strict}/mcp")).run(&["doctor", "far"]);
    let command = ran
        .stdout
        .lines()
        .find_map(|line| line.split_once("run it by hand: "))
        .map(|(_, command)| command);
    let command = command.unwrap_or_else(|| panic!("no request to copy: {ran:?}"));
    let answer = std::process::Command::new("sh")
        .args(["-c", command])
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.ends_with("accepted"), "{command}: {answer}");
}

/// F19: the state, the message and the exit code of a server that needs a login.
#[test]
fn f19_a_missing_login_is_reported_with_the_command_to_run() {
    let closed = serve(|_| (401, "text/plain", String::new()));
    let home = home(&format!("http://127.0.0.1:{closed}/mcp"));
    let server = home.run(&["status", "--json"]).json()["servers"][0].clone();
    assert_eq!(server["state"], "needs-login", "{server}");
    assert_eq!(
        server["error"], "needs a login (there is no login); run `switchboard login far`",
        "{server}"
    );

    let ran = home.run(&["status"]);
    assert!(ran.stdout.contains("far (NEEDS LOGIN)"), "{ran:?}");
    let ran = home.run(&["call", "far/anything", "--yes"]);
    let sentence = "server \"far\": needs a login (there is no login); run `switchboard login far`";
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains(sentence), "{ran:?}");
    let error = home
        .run(&["call", "far/anything", "--yes", "--json"])
        .error();
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&4.into(), &"run `switchboard login far`".into()),
        "{error}"
    );

    let ran = home.run(&["tools"]);
    assert!(
        ran.stderr.contains(
            "server \"far\": needs a login (there is no login); run `switchboard login far`\n"
        ),
        "{ran:?}"
    );
    let ran = home.run(&["doctor", "far"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(
        ran.stdout.contains("    Reason: there is no login\n"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("far: needs a login\n"), "{ran:?}");
    assert!(
        ran.stdout
            .contains("    Try: run `switchboard login far`\n"),
        "{ran:?}"
    );
}

/// S2-46: a server that is up is shown with its URL, the wire that worked and its tools, and
/// without a process.
#[test]
fn a_connected_url_server_is_shown_with_its_transport() {
    let modern = serve(|method| {
        let result = match method {
            "server/discover" => {
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#
            }
            _ => {
                r#"{"resultType":"complete","tools":[{"name":"one","inputSchema":{"type":"object"}}]}"#
            }
        };
        (
            200,
            "application/json",
            format!(r#"{{"jsonrpc":"2.0","id":"ID","result":{result}}}"#),
        )
    });
    let url = format!("http://127.0.0.1:{modern}/mcp");
    let home = home(&format!("{url}?key=hidden-in-the-query"));
    let server = home.run(&["-v", "status", "--json"]).json()["servers"][0].clone();
    let shown = [
        &server["state"],
        &server["transport"],
        &server["era"],
        &server["endpoint"],
        &server["pid"],
    ];
    assert_eq!(
        shown,
        [
            &"ready".into(),
            &"http".into(),
            &"modern".into(),
            &url.clone().into(),
            &Value::Null
        ]
    );

    let ran = home.run(&["-v", "status"]);
    assert!(
        ran.stdout
            .contains(&format!("📡 far (CONNECTED)\n  URL: {url}\n")),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains("\n  Connection: Streamable HTTP, up "),
        "{ran:?}"
    );
    for absent in ["Process", "Supervised by", "hidden-in-the-query"] {
        assert!(!ran.stdout.contains(absent), "{absent}: {ran:?}");
    }
    let ran = home.run(&["doctor", "far"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("    Transport: Streamable HTTP\n"),
        "{ran:?}"
    );
    let ran = home.run(&["tools", "far"]);
    assert!(ran.stdout.contains("one"), "{ran:?}");
}

/// A server that a run does not start writes nothing to its log.
#[test]
fn a_server_that_was_not_started_has_nothing_in_its_log() {
    let closed = serve(|_| (500, "text/plain", String::new()));
    let home = Home::with_demo(&format!(
        "[servers.far]\nurl = \"http://127.0.0.1:{closed}/mcp\"\n"
    ));
    assert_eq!(
        home.run(&["call", "demo/echo", "message=x", "--yes"]).code,
        Some(0)
    );
    let logs = |server: &str| home.run(&["logs", server]).stdout;
    assert!(!logs("far").contains("note stopped"), "{}", logs("far"));
    assert!(logs("demo").contains("note stopped"), "{}", logs("demo"));
}

/// A server whose tool answers with events that never end, and whose own stream (GET) does the same
/// if `floods_get`.
fn serve_flood(floods_get: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || flood(stream, floods_get));
        }
    });
    port
}

fn flood(stream: TcpStream, floods_get: bool) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let message: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut stream = stream;
    let result = match message["method"].as_str() {
        None if !floods_get => {
            return stream
                .write_all(b"HTTP/1.1 405 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .ok();
        }
        None | Some("tools/call") => {
            stream.write_all(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n").ok()?;
            let block = ": nothing\n".repeat(10_000);
            while stream.write_all(block.as_bytes()).is_ok() {}
            return None;
        }
        Some("initialize") => {
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"flood","version":"1"}}"#
        }
        Some(_) => r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#,
    };
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
        message["id"]
    );
    let (status, text) = if message.get("id").is_some() {
        (200, text)
    } else {
        (202, String::new())
    };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + &text).as_bytes()).ok()
}

/// P1, F26: an event stream that never pauses keeps no call past its limit.
#[test]
fn p1_f26_a_call_ends_at_its_limit_while_its_server_floods() {
    for floods_get in [false, true] {
        let port = serve_flood(floods_get);
        let home = Home::new();
        home.user_file(&format!(
            "[servers.far]\nurl = \"http://127.0.0.1:{port}/mcp\"\nprotocol = \"legacy\"\n"
        ));
        let mut call = home
            .command(&["call", "far/t", "--yes", "--timeout", "2s"])
            .spawn()
            .unwrap();
        // The limit, an allowance for a busy machine, and the time to start and to stop.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(12);
        let status = loop {
            if let Some(status) = call.try_wait().unwrap() {
                break status;
            }
            if std::time::Instant::now() > deadline {
                call.kill().unwrap();
                panic!("the call goes on (GET flooded: {floods_get})");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let mut stderr = String::new();
        call.stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert_eq!(status.code(), Some(3), "{stderr}");
        assert!(stderr.contains("not completed within 2 s"), "{stderr}");
    }
}

/// A server of both eras with a tool that asks with a request and one that asks in its result.
fn dual_era_server() -> u16 {
    serve_messages(|message| {
        let is_modern =
            !message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null();
        let answer = match (
            message["method"].as_str(),
            message["params"]["name"].as_str(),
        ) {
            (Some("server/discover"), _) => {
                r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#
            }
            (Some("initialize"), _) => {
                r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"both","version":"1"}}"#
            }
            (Some("tools/list"), _) => {
                r#""result":{"resultType":"complete","tools":[{"name":"newer","inputSchema":{"type":"object"}},{"name":"older","inputSchema":{"type":"object"}}]}"#
            }
            (Some("tools/call"), Some("older")) if is_modern => {
                r#""error":{"code":-32603,"message":"Cannot send 'elicitation/create'"}"#
            }
            (Some("tools/call"), Some("newer")) if !is_modern => {
                r#""error":{"code":-32600,"message":"InputRequiredResult requires negotiated protocol version 2026-07-28"}"#
            }
            (Some("tools/call"), _) => r#""result":{"resultType":"complete","content":[]}"#,
            _ => return (202, "text/plain", String::new()),
        };
        (
            200,
            "application/json",
            format!(r#"{{"jsonrpc":"2.0","id":"ID",{answer}}}"#),
        )
    })
}

/// Tools that need the other era than the shared connection's are shown with the connection that
/// they are called over.
#[test]
fn a_second_connection_is_shown_with_its_tools() {
    let home = home(&format!("http://127.0.0.1:{}/mcp", dual_era_server()));
    let server = || home.run(&["status", "--json"]).json()["servers"][0].clone();
    assert_eq!(server()["secondConnection"], Value::Null);
    home.run(&["call", "far/older", "--yes"]);
    home.run(&["call", "far/newer", "--yes"]);
    let shown = server();
    assert_eq!(shown["era"], "modern", "{shown}");
    assert_eq!(
        shown["secondConnection"],
        json!({"era": "legacy", "state": "idle", "protocolVersion": null, "tools": ["older"]}),
        "{shown}"
    );
    let ran = home.run(&["status"]);
    assert!(
        ran.stdout
            .contains("\n  Second connection: legacy era, opened when needed, for older\n"),
        "{ran:?}"
    );
}
