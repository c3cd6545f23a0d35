//! What works over HTTP: calls in both eras, one server under its own names, streams that are
//! resumed, HTTP+SSE, draining, and the commands beside `serve`.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Value, json};

use super::client::{Answer, Gateway, initialize, modern, request};

#[test]
fn a_legacy_client_lists_and_calls_and_ends_its_session() {
    let gateway = Gateway::start();
    assert_eq!(gateway.printed.lines().count(), 1, "{}", gateway.printed);
    let session = gateway.initialize("/mcp");
    let headers = [("Mcp-Session-Id", session.as_str())];
    let echo = gateway.tool("/mcp", &session, "echo");
    let call = request(
        7,
        "tools/call",
        json!({"name": echo, "arguments": {"message": "hi"}}),
    );
    let answer = gateway.send("POST", "/mcp", &headers, &call);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["id"], 7);
    assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    gateway.assert_calls(1);

    assert_eq!(gateway.send("DELETE", "/mcp", &headers, "").status, 200);
    let after = gateway.send("POST", "/mcp", &headers, &call);
    assert_eq!(after.status, 404, "{after:?}");
    gateway.assert_calls(1);
}

#[test]
fn a_modern_client_needs_no_session_and_its_headers_must_agree_with_its_body() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let discover = request(1, "server/discover", modern(json!({})));
    let method = ("Mcp-Method", "server/discover");
    let answer = gateway.send("POST", "/mcp", &[version, method], &discover);
    assert_eq!(answer.status, 200, "{answer:?}");
    let versions = answer.json()["result"]["supportedVersions"].clone();
    assert!(versions.as_array().unwrap().contains(&json!("2026-07-28")));

    let params = modern(json!({"name": echo, "arguments": {"message": "hi"}}));
    let call = request(2, "tools/call", params);
    let method = ("Mcp-Method", "tools/call");
    let named = ("Mcp-Name", echo.as_str());
    let answer = gateway.send("POST", "/mcp", &[version, method, named], &call);
    assert_eq!(
        answer.json()["result"]["content"][0]["text"],
        "hi",
        "{answer:?}"
    );
    assert_eq!(answer.header("mcp-session-id"), None);

    gateway.assert_calls(1);
    for wrong in [
        &[version, method][..],
        &[version, method, ("Mcp-Name", "other")],
        &[version, named, ("Mcp-Method", "tools/list")],
        &[method, named, ("MCP-Protocol-Version", "2025-11-25")],
        &[method, named],
    ] {
        let answer = gateway.send("POST", "/mcp", wrong, &call);
        let code = answer.json()["error"]["code"].clone();
        assert_eq!((answer.status, code), (400, json!(-32020)), "{wrong:?}");
    }
    let unknown = request(3, "no/such", modern(json!({})));
    let answer = gateway.send(
        "POST",
        "/mcp",
        &[version, ("Mcp-Method", "no/such")],
        &unknown,
    );
    let code = answer.json()["error"]["code"].clone();
    assert_eq!((answer.status, code), (404, json!(-32601)));
    let future = discover.replace("2026-07-28", "2031-01-01");
    let version = ("MCP-Protocol-Version", "2031-01-01");
    let method = ("Mcp-Method", "server/discover");
    let answer = gateway.send("POST", "/mcp", &[version, method], &future);
    let code = answer.json()["error"]["code"].clone();
    assert_eq!((answer.status, code), (400, json!(-32022)));
    for verb in ["GET", "DELETE"] {
        let version = ("MCP-Protocol-Version", "2026-07-28");
        assert_eq!(gateway.send(verb, "/mcp", &[version], "").status, 405);
    }
    gateway.assert_calls(1);
}

/// A modern call repeats the arguments that its tool's schema marks in headers: what is wrong,
/// missing or too much there is refused and runs nothing.
#[test]
fn mirrored_arguments_must_agree_with_the_headers_of_a_modern_call() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp/demo");
    let route = gateway.tool("/mcp/demo", &session, "route");
    let arguments = json!({"region": "Zürich", "priority": 7});
    let params = modern(json!({"name": route, "arguments": arguments}));
    let call = request(2, "tools/call", params);
    let send = |more: &[(&str, &str)]| {
        let standard = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", route.as_str()),
        ];
        gateway.send("POST", "/mcp/demo", &[&standard[..], more].concat(), &call)
    };
    let region = ("Mcp-Param-Region", "=?base64?WsO8cmljaA==?=");
    let priority = ("Mcp-Param-Priority", "7");
    for wrong in [
        &[][..],
        &[region],
        &[priority],
        &[region, ("Mcp-Param-Priority", "8")],
        &[priority, ("Mcp-Param-Region", "Zurich")],
        &[priority, ("Mcp-Param-Region", "=?base64?Ws?=")],
        &[region, priority, ("Mcp-Param-Express", "true")],
    ] {
        let answer = send(wrong);
        let code = answer.json()["error"]["code"].clone();
        assert_eq!((answer.status, code), (400, json!(-32020)), "{wrong:?}");
    }
    gateway.assert_calls(0);
    // Headers that the schema does not name are none of our business.
    let answer = send(&[region, priority, ("Mcp-Param-Other", "x")]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.json()["result"]["content"].is_array(), "{answer:?}");
    // Integers are compared as numbers.
    assert_eq!(send(&[region, ("Mcp-Param-Priority", "7.0")]).status, 200);
    gateway.assert_calls(2);
}

#[test]
fn one_server_is_offered_under_its_own_names() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp/demo");
    let echo = gateway.tool("/mcp/demo", &session, "echo");
    assert_eq!(echo, "echo");
    let call = request(
        7,
        "tools/call",
        json!({"name": echo, "arguments": {"message": "hi"}}),
    );
    let headers = [("Mcp-Session-Id", session.as_str())];
    let answer = gateway.send("POST", "/mcp/demo", &headers, &call);
    assert_eq!(
        answer.json()["result"]["content"][0]["text"],
        "hi",
        "{answer:?}"
    );
    // A session is for what it was opened for.
    assert_eq!(gateway.send("POST", "/mcp", &headers, &call).status, 404);
    let unknown = gateway.send("POST", "/mcp/nobody", &[], &initialize("2025-11-25"));
    assert_eq!(unknown.status, 404);
}

/// A call with progress is a stream of events with ids; a client that lost its connection gets the
/// rest with Last-Event-ID.
#[test]
fn a_stream_that_was_cut_is_resumed_where_it_ended() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let slow = gateway.tool("/mcp", &session, "slow");
    let params = json!({
        "name": slow,
        "arguments": {"seconds": 1, "steps": 4},
        "_meta": {"progressToken": "p"},
    });
    let mut headers = gateway.headers();
    headers.push(("Mcp-Session-Id".into(), session.clone()));
    let call = request(9, "tools/call", params);
    let stream = gateway.open("POST", "/mcp", &headers, &call);
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let first = lines
        .find(|line| line.contains("notifications/progress"))
        .unwrap();
    let first: Value = serde_json::from_str(first.strip_prefix("data: ").unwrap()).unwrap();
    drop(lines);
    assert_eq!(first["params"]["progressToken"], "p");

    let resume = [
        ("Mcp-Session-Id", session.as_str()),
        ("Last-Event-ID", "1-1"),
    ];
    let answer = gateway.send("GET", "/mcp", &resume, "");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.events();
    assert_eq!(events.last().unwrap()["id"], 9, "{events:?}");
    assert!(events.last().unwrap()["result"].is_object(), "{events:?}");
    assert!(!events.contains(&first), "what was read is not sent again");
    gateway.assert_calls(1);
    let unknown = [
        ("Mcp-Session-Id", session.as_str()),
        ("Last-Event-ID", "99-1"),
    ];
    assert_eq!(gateway.send("GET", "/mcp", &unknown, "").status, 400);
}

/// Clients that go away without DELETE leave their sessions for an hour: each must be small.
#[cfg(target_os = "linux")]
#[test]
fn a_session_that_is_not_used_takes_less_than_two_kilobytes() {
    const SESSIONS: usize = 800;
    let gateway = Gateway::start();
    let anonymous_bytes = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes: usize = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kilobytes * 1024
    };
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let params = json!({"name": echo, "arguments": {"message": "hi"}});
    let call = request(1, "tools/call", params);
    let leave_session = || {
        let session = gateway.initialize("/mcp");
        let headers = [("Mcp-Session-Id", session.as_str())];
        assert_eq!(gateway.send("POST", "/mcp", &headers, &call).status, 200);
    };
    // What grows once grows before.
    (0..200).for_each(|_| leave_session());
    let before = anonymous_bytes();
    (0..SESSIONS).for_each(|_| leave_session());
    let grown = anonymous_bytes().saturating_sub(before) / SESSIONS;
    println!("{grown} bytes per session");
    assert!(grown < 2048, "{grown} bytes per session");
}

#[test]
fn the_older_transport_works_under_sse() {
    let gateway = Gateway::start();
    let stream = gateway.open("GET", "/sse", &gateway.headers(), "");
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut next = |prefix: &str| {
        let line = lines.find(|line| line.starts_with(prefix)).unwrap();
        line[prefix.len()..].to_owned()
    };
    let endpoint = next("data: ");
    assert!(endpoint.starts_with("/message?sessionId="), "{endpoint}");
    let accepted = gateway.send("POST", &endpoint, &[], &initialize("2024-11-05"));
    assert_eq!(accepted.status, 202);
    let answer: Value = serde_json::from_str(&next("data: ")).unwrap();
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
    let ping = gateway.send("POST", &endpoint, &[], &request(4, "ping", json!({})));
    assert_eq!(ping.status, 202);
    let answer: Value = serde_json::from_str(&next("data: ")).unwrap();
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
}

/// SIGTERM: a call in flight is answered, the GET stream ends, nothing is left, and the last line says
/// what happened.
#[test]
fn sigterm_drains() {
    let mut gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let slow = gateway.tool("/mcp", &session, "slow");
    let mut headers = gateway.headers();
    headers.push(("Mcp-Session-Id".into(), session));
    let mut listening = gateway.open("GET", "/mcp", &headers, "");
    let mut first = [0; 12];
    listening.read_exact(&mut first).unwrap();
    let call = request(
        9,
        "tools/call",
        json!({
            "name": slow,
            "arguments": {"seconds": 2, "steps": 2},
            "_meta": {"progressToken": "p"},
        }),
    );
    let calling = gateway.open("POST", "/mcp", &headers, &call);
    let mut calling = BufReader::new(calling);
    let mut line = String::new();
    while !line.contains("notifications/progress") {
        line.clear();
        assert_ne!(
            calling.read_line(&mut line).unwrap(),
            0,
            "the stream ended early"
        );
    }
    let pid = nix::unistd::Pid::from_raw(gateway.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let mut rest = String::new();
    calling.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"result\""), "{rest}");
    Answer::read(&mut listening);
    assert_eq!(gateway.wait(), Some(143));
    let printed = gateway.last_words();
    assert!(!printed.contains("error"), "{printed}");
    assert_eq!(
        printed.lines().last(),
        Some("the gateway was stopped (terminated); none of its servers runs any more")
    );
}

/// A modern client hears of changes on the stream of `subscriptions/listen`, which ends with the
/// gateway.
#[test]
fn a_modern_client_listens_on_the_stream_of_its_request() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp/demo");
    let toggle = gateway.tool("/mcp/demo", &session, "toggle_tool");
    let params = modern(json!({"notifications": {"toolsListChanged": true}}));
    let mut headers = gateway.headers();
    headers.push(("MCP-Protocol-Version".into(), "2026-07-28".into()));
    headers.push(("Mcp-Method".into(), "subscriptions/listen".into()));
    let listen = request(5, "subscriptions/listen", params);
    let stream = gateway.open("POST", "/mcp/demo", &headers, &listen);
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut next = |method: &str| {
        let line = lines.find(|line| line.starts_with("data: ") && line.contains(method));
        let line = line.unwrap();
        serde_json::from_str::<Value>(line.strip_prefix("data: ").unwrap()).unwrap()
    };
    next("notifications/subscriptions/acknowledged");
    let call = request(6, "tools/call", json!({"name": toggle, "arguments": {}}));
    let headers = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(
        gateway.send("POST", "/mcp/demo", &headers, &call).status,
        200
    );
    let changed = next("notifications/tools/list_changed");
    let subscription = &changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(subscription, &json!(5), "{changed}");
}

/// Server cards (SEP-2127): of the gateway for anybody, of one server for its clients.
#[test]
fn server_cards_are_served_only_with_a_public_address_and_name_no_server_to_strangers() {
    let get = |gateway: &Gateway, path: &str, token: &str| {
        let host = ("Host", "mcp.example.com");
        gateway.send("GET", path, &[host, ("Authorization", token)], "")
    };
    let without = Gateway::start();
    let local = without.send("GET", "/mcp/server-card", &[], "");
    assert_eq!(local.status, 404, "{local:?}");
    assert_eq!(get(&without, "/mcp/server-card", "").status, 403);

    let gateway = Gateway::start_with(
        "[permissions]\nallow = [\"*\"]\n",
        &["--public-url", "https://mcp.example.com/"],
    );
    let token = format!("Bearer {}", gateway.token);
    let expected = |name: &str, description: &str, url: &str| {
        json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
            "name": name,
            "version": env!("CARGO_PKG_VERSION"),
            "description": description,
            "remotes": [{
                "type": "streamable-http",
                "url": url,
                "supportedProtocolVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
                "headers": [{
                    "name": "Authorization",
                    "description": "`Bearer` and the token that the gateway's operator has made for the client",
                    "isRequired": true,
                    "isSecret": true,
                }],
            }],
        })
    };
    let all = get(&gateway, "/mcp/server-card", "");
    assert_eq!(
        (all.status, all.header("content-type")),
        (200, Some("application/mcp-server-card+json"))
    );
    let description = "All MCP servers of a gateway as one";
    assert_eq!(
        all.json(),
        expected(
            "com.example.mcp/switchboard",
            description,
            "https://mcp.example.com/mcp"
        )
    );
    // A web page of any origin may read this card, and nothing else.
    let foreign = |path: &str| {
        let host = ("Host", "mcp.example.com");
        let origin = ("Origin", "https://elsewhere.example");
        gateway.send("GET", path, &[host, origin, ("Authorization", &token)], "")
    };
    let read = foreign("/mcp/server-card");
    assert_eq!(
        (read.status, read.header("access-control-allow-origin")),
        (200, Some("*"))
    );
    for path in ["/mcp/demo/server-card", "/mcp", "/"] {
        assert_eq!(foreign(path).status, 403, "{path}");
    }
    for (path, token) in [
        ("/mcp/demo/server-card", ""),
        ("/mcp/nobody/server-card", ""),
        ("/mcp/nobody/server-card", token.as_str()),
    ] {
        assert_eq!(get(&gateway, path, token).status, 404, "{path}");
    }
    let one = get(&gateway, "/mcp/demo/server-card", &token);
    let description = "One MCP server behind a gateway, under its own names";
    assert_eq!(
        one.json(),
        expected(
            "com.example.mcp/demo",
            description,
            "https://mcp.example.com/mcp/demo"
        )
    );
    assert_eq!(
        gateway.send("POST", "/mcp/server-card", &[], "{}").status,
        405
    );
}
