//! Requests that the gateway refuses: each gets its status and a sentence, and runs nothing.

use std::io::{Read, Write};
use std::time::Instant;

use serde_json::json;
use switchboard_testkit::LoginServer;

use super::client::{Answer, Gateway, PATIENCE, initialize, modern, request};
use super::operator::Operator;

/// T19: without its own token a client gets 401 and a sentence, on every path of the protocol.
#[test]
fn t19_a_wrong_token_is_refused_and_runs_nothing() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let call = request(
        1,
        "tools/call",
        json!({"name": echo, "arguments": {"message": "x"}}),
    );
    let good = format!("Bearer {}", gateway.token);
    let longer = format!("{good}x");
    for (method, path) in [
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("POST", "/mcp/demo"),
        ("GET", "/sse"),
        ("POST", "/message?sessionId=x"),
    ] {
        for wrong in [
            "",
            "Bearer",
            "Bearer CANARY",
            "Basic dTpw",
            good.strip_suffix(|_| true).unwrap(),
            &longer,
        ] {
            let headers = [
                ("Authorization", wrong),
                ("Mcp-Session-Id", session.as_str()),
            ];
            let answer = gateway.send(method, path, &headers, &call);
            assert_eq!(answer.status, 401, "{method} {path} {wrong:?}");
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.starts_with("Bearer "), "{challenge}");
            let message = answer.json()["error"]["message"].to_string();
            assert!(message.contains("switchboard token new"), "{message}");
        }
    }
    gateway.assert_audited("missing_token");
    gateway.assert_audited("wrong_token");
    let revoked = gateway.home.run(&["token", "revoke", "tester"]);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let headers = [("Mcp-Session-Id", session.as_str())];
    let deadline = Instant::now() + PATIENCE;
    while gateway
        .send("POST", "/mcp", &headers, &request(2, "ping", json!({})))
        .status
        != 401
    {
        assert!(Instant::now() < deadline, "a revoked token is still taken");
    }
    let answer = gateway.send("POST", "/mcp", &headers, &request(3, "ping", json!({})));
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("unknown or was revoked"), "{message}");
    gateway.assert_calls(0);
}

/// T19: the client's token goes to no server: it is not in what the server received.
#[test]
fn t19_the_clients_token_goes_to_no_server() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let whoami = gateway.tool("/mcp", &session, "echo");
    let call = request(
        1,
        "tools/call",
        json!({"name": whoami, "arguments": {"message": "x"}}),
    );
    let headers = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(gateway.send("POST", "/mcp", &headers, &call).status, 200);
    gateway.assert_calls(1);
    let record = std::fs::read_to_string(gateway.home.path("received.jsonl")).unwrap();
    assert!(record.contains("tools/call"), "{record}");
    assert!(!record.contains(&gateway.token));
}

/// T19: no header of a client goes to a server by URL, which gets those of its entry, whatever the
/// client's era.
#[test]
fn t19_no_header_of_a_client_goes_to_a_server_by_url() {
    let far = LoginServer::start();
    far.admit("entry-token", "");
    let entry = format!(
        "[permissions]\nallow = [\"*\"]\n[servers.far]\nurl = {:?}\n[servers.far.headers]\nAuthorization = \"Bearer entry-token\"\n",
        far.url()
    );
    let gateway = Gateway::start_with(&entry, &[]);
    let session = gateway.initialize("/mcp/far");
    let name = gateway.tool("/mcp/far", &session, "whoami");
    let params = json!({"name": name, "arguments": {}});
    let canaries = [
        ("Cookie", "session=canary-cookie"),
        ("X-Canary", "canary-header"),
        ("Proxy-Authorization", "Basic canary-proxy"),
        ("Forwarded", "for=canary-address"),
    ];
    let legacy = [&canaries[..], &[("Mcp-Session-Id", session.as_str())]].concat();
    let versions = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", name.as_str()),
    ];
    let stateless = [&canaries[..], &versions].concat();
    for (headers, params) in [(legacy, params.clone()), (stateless, modern(params))] {
        let answer = gateway.send(
            "POST",
            "/mcp/far",
            &headers,
            &request(1, "tools/call", params),
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains("somebody"), "{answer:?}");
    }
    let seen = far.seen();
    let calls = seen.iter().filter(|one| one.body.contains("tools/call"));
    assert_eq!(calls.count(), 2);
    for request in seen {
        let expected = Some("Bearer entry-token");
        assert_eq!(request.authorization.as_deref(), expected, "{request:?}");
        let text = format!("{request:?}");
        let is_leak = |canary: &&str| text.contains(*canary);
        let leaks = ["canary", &gateway.token, &session];
        assert_eq!(leaks.iter().find(|leak| is_leak(leak)), None, "{text}");
    }
}

/// T20: a web page whose name was made to point here, and a foreign page, are refused on every
/// path, with and without a token.
#[test]
fn t20_foreign_hosts_and_origins_are_refused_on_every_path() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let call = request(
        1,
        "tools/call",
        json!({"name": echo, "arguments": {"message": "x"}}),
    );
    let bearer = format!("Bearer {}", gateway.token);
    for (method, path) in [
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("POST", "/mcp/demo"),
        ("GET", "/sse"),
        ("POST", "/message"),
        ("GET", "/"),
        ("GET", "/metrics"),
        ("GET", "/healthz"),
        ("OPTIONS", "/mcp"),
    ] {
        for token in [bearer.as_str(), ""] {
            for foreign in [
                ("Host", "evil.example"),
                ("Host", "127.0.0.1.evil.example"),
                ("Origin", "http://evil.example"),
                ("Origin", "null"),
                ("Origin", "https://127.0.0.1.evil.example"),
            ] {
                let headers = [
                    ("Authorization", token),
                    ("Mcp-Session-Id", session.as_str()),
                    foreign,
                ];
                let answer = gateway.send(method, path, &headers, &call);
                assert_eq!(answer.status, 403, "{method} {path} {foreign:?}");
                assert_eq!(answer.header("access-control-allow-origin"), None);
            }
        }
    }
    gateway.assert_audited("foreign_host");
    gateway.assert_audited("foreign_origin");
    gateway.assert_calls(0);
}

/// T20: only this machine can connect unless a host name says otherwise.
#[test]
fn t20_another_address_than_loopback_needs_a_host_name() {
    let gateway = Gateway::start();
    let refused = gateway.home.run(&["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--allow-host"), "{refused:?}");
}

/// T21, T36: another client's session, one that was tampered with at any byte, and an unknown one
/// are 404, never 401, and run nothing.
#[test]
fn t21_t36_a_foreign_or_tampered_session_is_unknown() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let call = request(
        1,
        "tools/call",
        json!({"name": echo, "arguments": {"message": "x"}}),
    );
    let other = gateway.home.run(&["token", "new", "other"]);
    let other = format!("Bearer {}", other.stdout.trim_end());
    for method in ["POST", "GET", "DELETE"] {
        let headers = [
            ("Authorization", other.as_str()),
            ("Mcp-Session-Id", session.as_str()),
        ];
        let answer = gateway.send(method, "/mcp", &headers, &call);
        assert_eq!(answer.status, 404, "{method}: {answer:?}");
    }
    for index in 0..session.len() {
        let mut tampered = session.clone();
        let replacement = if &session[index..=index] == "A" {
            "B"
        } else {
            "A"
        };
        tampered.replace_range(index..=index, replacement);
        let headers = [("Mcp-Session-Id", tampered.as_str())];
        let answer = gateway.send("POST", "/mcp", &headers, &call);
        assert_eq!(answer.status, 404, "{tampered}");
    }
    gateway.assert_audited("unknown_session");
    gateway.assert_calls(0);
    let headers = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(gateway.send("POST", "/mcp", &headers, &call).status, 200);
    gateway.assert_calls(1);
}

/// T20: what is too large or too slow is refused, and the gateway goes on.
#[test]
fn t20_oversized_and_slow_requests_are_refused() {
    let gateway = Gateway::start();
    // A body that says it is larger than the limit is not even read.
    let mut stream = gateway.connect();
    let mut head = String::from("POST /mcp HTTP/1.1\r\n");
    for (name, value) in gateway.headers() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let declared = format!(
        "{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
        65 << 20
    );
    stream.write_all(declared.as_bytes()).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 413, "{answer:?}");
    // One that does not say it is cut off at the limit.
    let mut stream = gateway.connect();
    stream
        .write_all(
            format!("{head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .unwrap();
    let piece = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    while stream.write_all(piece.as_bytes()).is_ok() {}

    // A hundred thousand headers.
    let mut stream = gateway.connect();
    let many = head.clone() + &"X-Filler: x\r\n".repeat(100_000) + "\r\n";
    let _ = stream.write_all(many.as_bytes());
    let answer = Answer::read(&mut stream);
    assert!(matches!(answer.status, 0 | 431), "{answer:?}");

    // A head that comes one byte a second, and a body that never comes.
    let mut slow_head = gateway.connect();
    slow_head.write_all(head.as_bytes()).unwrap();
    let mut slow_body = gateway.connect();
    let waiting = format!("{head}Content-Length: 100\r\n\r\n{{");
    slow_body.write_all(waiting.as_bytes()).unwrap();
    let mut end = Vec::new();
    let _ = slow_head.read_to_end(&mut end);
    let answer = Answer::read(&mut slow_body);
    assert_eq!(answer.status, 408, "{answer:?}");

    let answer = gateway.send("POST", "/mcp", &[], &initialize("2025-11-25"));
    assert_eq!(answer.status, 200);
    for reason in ["oversized_body", "oversized_headers", "too_slow"] {
        gateway.assert_audited(reason);
    }
    gateway.assert_calls(0);
}

/// T19, T20: whoever is refused, also by the operator's routes, leaves one line in the audit log.
#[test]
fn t19_t20_each_refusal_is_one_line_of_the_audit_log() {
    let gateway = Gateway::start();
    let operator = Operator::log_in(&gateway);
    let send = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        gateway.send(method, path, headers, body).status
    };
    let no_token = ("Authorization", "");
    let ping = request(1, "ping", json!({}));
    let large = "x".repeat(100 << 10);
    let mut expected = Vec::new();
    let mut refused = |status: u16, expected_status: u16, reason: &'static str| {
        assert_eq!(status, expected_status, "{reason}");
        expected.push(reason);
    };
    refused(
        send("GET", "/metrics", &[no_token], ""),
        401,
        "missing_token",
    );
    let wrong = ("Authorization", "Bearer wrong");
    refused(send("GET", "/metrics", &[wrong], ""), 401, "wrong_token");
    refused(
        send("GET", "/login?k=wrong", &[no_token], ""),
        401,
        "wrong_login",
    );
    let approval = "/approvals/1";
    refused(
        send("POST", approval, &[no_token], "decision=allow"),
        401,
        "missing_login",
    );
    let origin = format!("http://{}", gateway.address);
    let forged = operator.post(&gateway, approval, &origin, "decision=allow&token=wrong");
    refused(forged, 403, "forged_form");
    refused(
        send("POST", approval, &[no_token], &large),
        413,
        "oversized_body",
    );
    refused(send("POST", "/mcp/none", &[], &ping), 404, "unknown_server");
    let text = ("Content-Type", "text/plain");
    refused(
        send("POST", "/mcp", &[text], &ping),
        415,
        "wrong_media_type",
    );
    let page = ("Accept", "text/html");
    refused(
        send("POST", "/mcp", &[page], &ping),
        406,
        "wrong_media_type",
    );
    refused(send("GET", "/mcp", &[page], ""), 406, "wrong_media_type");
    let raw = |bytes: &str| {
        let mut stream = gateway.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        Answer::read(&mut stream).status
    };
    refused(raw("GET / HTTP/9\r\n\r\n"), 400, "malformed_request");
    for path in ["/mcp", approval] {
        let mut head = format!("POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n");
        for (name, value) in gateway.headers() {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        refused(raw(&format!("{head}\r\nzz\r\n")), 400, "malformed_request");
    }
    // The page itself is only not shown.
    assert_eq!(send("GET", "/", &[no_token], ""), 401);
    refused(
        send("POST", "/mcp", &[no_token], &ping),
        401,
        "missing_token",
    );
    let deadline = Instant::now() + PATIENCE;
    while gateway.refusals().len() < expected.len() && Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(gateway.refusals(), expected);
    gateway.assert_calls(0);
}

/// F35: a client that does not read is disconnected; the others do not notice.
#[test]
fn f35_a_client_that_does_not_read_is_disconnected_and_others_are_served() {
    let gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let big = gateway.tool("/mcp", &session, "big");
    let echo = gateway.tool("/mcp", &session, "echo");
    let mut headers = gateway.headers();
    headers.push(("Mcp-Session-Id".into(), session.clone()));
    let size = 16 << 20;
    let call = request(
        1,
        "tools/call",
        json!({"name": big, "arguments": {"bytes": size}}),
    );
    let mut stalled = gateway.open("POST", "/mcp", &headers, &call);
    let mut first = [0; 1];
    stalled.read_exact(&mut first).unwrap();
    let port = stalled.local_addr().unwrap().port();
    // The gateway's end of the connection: its peer has our port, and a file refers to it.
    let is_connected = || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        sockets.lines().skip(1).any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields[2].ends_with(&format!(":{port:04X}")) && fields[9] != "0"
        })
    };
    assert!(is_connected());
    let deadline = Instant::now() + PATIENCE;
    while is_connected() {
        assert!(Instant::now() < deadline, "it is still connected");
        let call = request(
            2,
            "tools/call",
            json!({"name": echo, "arguments": {"message": "x"}}),
        );
        let session = [("Mcp-Session-Id", session.as_str())];
        assert_eq!(gateway.send("POST", "/mcp", &session, &call).status, 200);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let mut rest = Vec::new();
    let _ = stalled.read_to_end(&mut rest);
    assert!(rest.len() < size, "{} bytes came", rest.len());
}

/// F34 on one machine: after the gateway was killed and started again, an old session is unknown
/// (404), and the client begins a new one.
#[test]
fn f34_a_session_of_a_gateway_that_was_killed_is_unknown_to_the_next() {
    let mut gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    gateway.restart_after_kill();
    let headers = [("Mcp-Session-Id", session.as_str())];
    let ping = request(2, "ping", json!({}));
    assert_eq!(gateway.send("POST", "/mcp", &headers, &ping).status, 404);
    let session = gateway.initialize("/mcp");
    let headers = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(gateway.send("POST", "/mcp", &headers, &ping).status, 200);
}

/// F34: a call that was in flight when the gateway was killed is not sent again by the next one.
#[test]
fn f34_a_call_in_flight_at_a_gateway_that_was_killed_is_not_run_again() {
    let mut gateway = Gateway::start();
    let session = gateway.initialize("/mcp");
    let call = |tool: &str, arguments| {
        request(
            2,
            "tools/call",
            json!({"name": tool, "arguments": arguments}),
        )
    };
    let slow = gateway.tool("/mcp", &session, "slow");
    let mut headers = gateway.headers();
    headers.push(("Mcp-Session-Id".to_owned(), session));
    let body = call(&slow, json!({"seconds": 600}));
    let _held = gateway.open("POST", "/mcp", &headers, &body);
    gateway.assert_calls(1);
    gateway.restart_after_kill();
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let headers = [("Mcp-Session-Id", session.as_str())];
    // Whatever the new gateway sent by itself came before this call.
    let body = call(&echo, json!({"message": "again"}));
    let answer = gateway.send("POST", "/mcp", &headers, &body);
    assert!(answer.body.contains("again"), "{answer:?}");
    gateway.assert_calls(2);
}
