//! Traces: the real program, built with the feature `otel`, and a collector that decodes what it
//! sends. For one test `SWITCHBOARD_COLLECTOR` names a real collector (rotel), which stands between the
//! two.
#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use client::{Gateway, PATIENCE, modern, request};
use otlp::Span;
use switchboard_testkit::KilledOnDrop;

/// A client that speaks HTTP by hand.
#[allow(dead_code)]
#[path = "gateway_http/client.rs"]
mod client;
/// The spans in a message of the collector's protocol.
#[path = "tracing/otlp.rs"]
mod otlp;
mod support;

const CLIENT_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT_SPAN: &str = "b7ad6b7169203331";

#[test]
fn a_call_is_a_span_of_the_gateway_with_the_call_of_the_server_below_it() {
    let collector = Collector::start();
    let gateway = traced(&collector, &[("OTEL_SERVICE_NAME", "front door")]);
    let mut params =
        modern(json!({"name": tool(&gateway), "arguments": {"message": "secret words"}}));
    params["_meta"]["traceparent"] = format!("00-{CLIENT_TRACE}-{CLIENT_SPAN}-01").into();
    params["_meta"]["tracestate"] = "vendor=1".into();
    params["_meta"]["baggage"] = "user=7".into();
    let linked = "00-11111111111111111111111111111111-2222222222222222-01";
    let answer = call(&gateway, &params, &[("traceparent", linked)]);
    assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");

    let [server, client] = collector.pair("echo");
    assert_eq!(server.trace, CLIENT_TRACE);
    assert_eq!(server.parent, CLIENT_SPAN);
    assert_eq!(server.links, ["2222222222222222"]);
    assert_eq!(server.resource["service.name"], "front door");
    assert_eq!(server.status_code, 0);
    let expected = json!({
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "mcp__demo__echo",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2026-07-28",
        "jsonrpc.request.id": "7",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "client.address": "127.0.0.1",
    });
    assert_eq!(server.attributes, expected);
    assert_eq!(server.name, "tools/call mcp__demo__echo");

    assert_eq!(
        (client.trace.as_str(), &client.parent),
        (CLIENT_TRACE, &server.id)
    );
    assert_eq!(client.name, "tools/call echo");
    let expected = json!({
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "echo",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": client.attributes["mcp.protocol.version"],
        "network.transport": "pipe",
        "switchboard.server.name": "demo",
    });
    assert_eq!(client.attributes, expected);
    assert!(server.start <= client.start && client.end <= server.end);

    // What the server was told.
    let sent = received(&gateway, "tools/call");
    let meta = &sent["params"]["_meta"];
    assert_eq!(
        meta["traceparent"],
        format!("00-{CLIENT_TRACE}-{}-01", client.id)
    );
    assert_eq!(
        (&meta["tracestate"], &meta["baggage"]),
        (&json!("vendor=1"), &json!("user=7"))
    );
}

#[test]
fn errors_of_a_tool_of_a_request_and_of_a_server_that_dies_are_told_apart() {
    let collector = Collector::start();
    let chaosd = switchboard_testkit::program("chaosd");
    let more = format!(
        "[servers.fragile]\ncommand = {chaosd:?}\nargs = ['{{\"tools\":{{\"crash\":[{{\"exit\":1}}]}}}}']\n\
         [servers.dead]\ncommand = \"false\"\n[permissions]\nallow = [\"*\"]\n"
    );
    let gateway = Gateway::start_with_environment(&more, &[], &environment(&collector));
    tool(&gateway);
    let failing = modern(json!({"name": "demo/fail", "arguments": {}}));
    call(&gateway, &failing, &[]);
    let [server, client] = collector.pair("fail");
    for span in [server, client] {
        assert_eq!(span.attributes["error.type"], "tool_error");
        assert_eq!(span.status_code, 2);
    }

    let crashing = modern(json!({"name": "fragile/crash", "arguments": {}}));
    call(&gateway, &crashing, &[]);
    for span in collector.pair("crash") {
        assert_eq!(span.attributes["error.type"], "connection_closed");
        assert_eq!(span.status_code, 2);
    }

    let dead = modern(json!({"name": "dead/anything", "arguments": {}}));
    call(&gateway, &dead, &[]);
    let spans = collector.until(|spans| spans.iter().any(|span| span.name.ends_with("anything")));
    let dead: Vec<_> = spans
        .iter()
        .filter(|span| span.name.ends_with("anything"))
        .collect();
    assert_eq!(dead.len(), 1, "nothing was sent to it: {dead:?}");
    assert_eq!(dead[0].attributes["error.type"], "not_ready");

    let unknown = request(8, "no/such", modern(json!({})));
    gateway.send("POST", "/mcp", &modern_headers("no/such"), &unknown);
    let spans = collector.until(|spans| spans.iter().any(|span| span.name == "no/such"));
    let unknown = spans.iter().find(|span| span.name == "no/such").unwrap();
    assert_eq!(unknown.attributes["rpc.response.status_code"], "-32601");
    assert_eq!(unknown.attributes["error.type"], "-32601");
}

#[test]
fn a_legacy_session_is_named_by_a_digest_and_a_resource_by_no_name() {
    let collector = Collector::start();
    let gateway = traced(&collector, &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
    let session = gateway.initialize("/mcp");
    let headers = [("Mcp-Session-Id", session.as_str())];
    let read = request(3, "resources/read", json!({"uri": "demo://text"}));
    gateway.send("POST", "/mcp", &headers, &read);
    let of_read = |spans: &[Span]| {
        spans
            .iter()
            .filter(|span| span.name == "resources/read")
            .count()
    };
    let spans = collector.until(|spans| of_read(spans) == 2);
    let server = spans
        .iter()
        .find(|span| span.name == "resources/read" && span.kind == otlp::SERVER);
    let server = server.unwrap();
    let digest = server.attributes["mcp.session.id"].as_str().unwrap();
    assert_eq!(digest.len(), 16);
    assert!(!session.contains(digest));
    assert_eq!(server.attributes["mcp.protocol.version"], "2025-11-25");
    assert!(!format!("{spans:?}").contains(&session));
}

#[test]
fn what_the_client_does_not_sample_is_not_sent_and_stays_unsampled() {
    let collector = Collector::start();
    let gateway = traced(&collector, &[]);
    let mut params = modern(json!({"name": tool(&gateway), "arguments": {"message": "x"}}));
    params["_meta"]["traceparent"] = format!("00-{CLIENT_TRACE}-{CLIENT_SPAN}-00").into();
    call(&gateway, &params, &[]);
    let meta = received(&gateway, "tools/call")["params"]["_meta"].clone();
    let parent = meta["traceparent"].as_str().unwrap();
    assert!(
        parent.starts_with(&format!("00-{CLIENT_TRACE}-")) && parent.ends_with("-00"),
        "{parent}"
    );
    assert!(!parent.contains(CLIENT_SPAN));
    let spans = stop(gateway, &collector);
    assert!(
        spans.iter().all(|span| span.trace != CLIENT_TRACE),
        "{spans:?}"
    );
}

#[test]
fn the_last_spans_are_sent_when_the_gateway_is_stopped() {
    let collector = Collector::start();
    // Nothing is sent before the end.
    let gateway = traced(&collector, &[("OTEL_BSP_SCHEDULE_DELAY", "3600000")]);
    let params = modern(json!({"name": tool(&gateway), "arguments": {"message": "x"}}));
    call(&gateway, &params, &[]);
    assert!(collector.taken().is_empty());
    let spans = stop(gateway, &collector);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert!(
        names.contains(&"tools/call mcp__demo__echo") && names.contains(&"tools/call echo"),
        "{names:?}"
    );
}

#[test]
fn a_collector_that_is_down_or_silent_delays_no_call_and_is_logged_once_without_secrets() {
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for address in [silent.local_addr().unwrap(), closed] {
        let endpoint = format!("http://user:hidden@{address}");
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hidden"),
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "30000"),
        ];
        let allow = "[permissions]\nallow = [\"*\"]\n";
        let mut gateway = Gateway::start_with_environment(allow, &[], &environment);
        let params = modern(json!({"name": tool(&gateway), "arguments": {"message": "x"}}));
        let began = Instant::now();
        for _ in 0..50 {
            let answer = call(&gateway, &params, &[]);
            assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
        let began = Instant::now();
        terminate(&gateway);
        gateway.wait();
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
        let log = gateway.last_words();
        assert!(!log.contains("hidden"), "{log}");
        if address == closed {
            let told = format!("traces do not reach the collector at {address}");
            assert_eq!(log.matches(&told).count(), 1, "{log}");
        }
    }
}

#[test]
fn nothing_is_sent_and_nothing_is_changed_unless_a_variable_asks_for_traces() {
    let collector = Collector::start();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint.as_str());
    let cases: [&[(&str, &str)]; 4] = [
        &[],
        &[endpoint, ("OTEL_SDK_DISABLED", "true")],
        &[endpoint, ("OTEL_TRACES_EXPORTER", "none")],
        &[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
    ];
    let allow = "[permissions]\nallow = [\"*\"]\n";
    for environment in cases {
        let gateway = Gateway::start_with_environment(allow, &[], environment);
        let mut params = modern(json!({"name": tool(&gateway), "arguments": {"message": "x"}}));
        params["_meta"]["traceparent"] = "as it came".into();
        call(&gateway, &params, &[]);
        let meta = received(&gateway, "tools/call")["params"]["_meta"].clone();
        assert_eq!(meta["traceparent"], "as it came");
        assert_eq!(stop(gateway, &collector), []);
    }
}

#[test]
fn a_real_collector_takes_the_spans() {
    let Some(program) = std::env::var_os("SWITCHBOARD_COLLECTOR") else {
        return switchboard_testkit::skipped("SWITCHBOARD_COLLECTOR names no program");
    };
    let collector = Collector::start().behind(&program);
    let gateway = traced(&collector, &[]);
    let mut params = modern(json!({"name": tool(&gateway), "arguments": {"message": "x"}}));
    params["_meta"]["traceparent"] = format!("00-{CLIENT_TRACE}-{CLIENT_SPAN}-01").into();
    call(&gateway, &params, &[]);
    let [server, client] = collector.pair("echo");
    assert_eq!(
        (server.trace.as_str(), server.parent.as_str()),
        (CLIENT_TRACE, CLIENT_SPAN)
    );
    assert_eq!((&client.trace, &client.parent), (&server.trace, &server.id));
    assert_eq!(server.resource["service.name"], "switchboard");
}

/// A gateway that sends its traces.
fn traced(collector: &Collector, more: &[(&str, &str)]) -> Gateway {
    let mut environment = environment(collector).to_vec();
    environment.extend(more);
    let allow = "[permissions]\nallow = [\"*\"]\n";
    Gateway::start_with_environment(allow, &[], &environment)
}

fn environment(collector: &Collector) -> [(&str, &str); 2] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
    ]
}

/// The name of the tool that echoes, once its server has listed it.
fn tool(gateway: &Gateway) -> String {
    let session = gateway.initialize("/mcp");
    gateway.tool("/mcp", &session, "echo")
}

fn modern_headers(method: &str) -> [(&'static str, &str); 2] {
    [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
    ]
}

/// A modern `tools/call`.
fn call(gateway: &Gateway, params: &Value, more: &[(&str, &str)]) -> Value {
    let name = params["name"].as_str().unwrap();
    let mut headers = modern_headers("tools/call").to_vec();
    headers.push(("Mcp-Name", name));
    headers.extend(more);
    let call = request(7, "tools/call", params.clone());
    gateway.send("POST", "/mcp", &headers, &call).json()
}

/// The last request of this method that reached the demo server.
fn received(gateway: &Gateway, method: &str) -> Value {
    gateway.assert_calls(1);
    let record = std::fs::read_to_string(gateway.home.path("received.jsonl")).unwrap();
    let mut messages = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages
        .rfind(|message| message["method"] == method)
        .unwrap()
}

fn terminate(gateway: &Gateway) {
    let pid = nix::unistd::Pid::from_raw(gateway.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
}

/// Stops a gateway; returns all spans that came.
fn stop(mut gateway: Gateway, collector: &Collector) -> Vec<Span> {
    terminate(&gateway);
    gateway.wait();
    collector.taken()
}

/// Takes what is sent to it.
struct Collector {
    endpoint: String,
    spans: Receiver<Vec<Span>>,
    taken: std::cell::RefCell<Vec<Span>>,
    /// A real collector, which passes everything on to this one.
    between: Option<KilledOnDrop>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, spans) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                std::thread::spawn(move || take(stream.unwrap(), &sender));
            }
        });
        Self {
            endpoint: format!("http://{address}"),
            spans,
            taken: Default::default(),
            between: None,
        }
    }

    /// The same behind a real collector, which passes everything on.
    fn behind(mut self, program: &OsStr) -> Self {
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
        };
        let (http, grpc) = (free(), free());
        let between = Command::new(program)
            .args(["start", "--exporter", "otlp", "--batch-timeout", "50ms"])
            .args(["--otlp-http-endpoint", &http.to_string()])
            .args(["--otlp-grpc-endpoint", &grpc.to_string()])
            .args(["--otlp-exporter-endpoint", &self.endpoint])
            .args(["--otlp-exporter-protocol", "http"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.between = Some(KilledOnDrop(between.unwrap()));
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(http).is_err() {
            assert!(Instant::now() < deadline, "the collector does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.endpoint = format!("http://{http}");
        self
    }

    /// All spans that came so far.
    fn taken(&self) -> Vec<Span> {
        self.taken
            .borrow_mut()
            .extend(self.spans.try_iter().flatten());
        self.taken.borrow().clone()
    }

    /// Waits until the spans that came are enough.
    fn until(&self, is_enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let deadline = Instant::now() + PATIENCE;
        while !is_enough(&self.taken()) {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Ok(more) = self.spans.recv_timeout(rest) else {
                panic!("these spans came: {:#?}", self.taken());
            };
            self.taken.borrow_mut().extend(more);
        }
        self.taken()
    }

    /// The span of a call of this tool at the gateway, and the one of the server's call.
    fn pair(&self, tool: &str) -> [Span; 2] {
        let find = |spans: &[Span], kind: u64| {
            let is_wanted = |span: &&Span| {
                span.kind == kind
                    && span.name.starts_with("tools/call")
                    && span.name.ends_with(tool)
            };
            spans.iter().find(is_wanted).cloned()
        };
        let both = [otlp::SERVER, otlp::CLIENT];
        let spans = self.until(|spans| both.iter().all(|kind| find(spans, *kind).is_some()));
        both.map(|kind| find(&spans, kind).unwrap())
    }
}

/// One request of an exporter.
fn take(mut stream: TcpStream, spans: &Sender<Vec<Span>>) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec())
                .unwrap()
                .to_lowercase();
            assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
            assert!(
                head.contains("content-type: application/x-protobuf"),
                "{head}"
            );
            let (_, length) = head.split_once("content-length: ").unwrap();
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            if bytes.len() >= end + 4 + length {
                // Counted before the answer: an exporter that has it may end.
                let body = match head.contains("content-encoding: gzip") {
                    true => decompress(&bytes[end + 4..]),
                    false => bytes[end + 4..].to_vec(),
                };
                let _ = spans.send(otlp::spans(&body));
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Shorter than what a pipe holds.
fn decompress(body: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    gzip.stdin.take().unwrap().write_all(body).unwrap();
    gzip.wait_with_output().unwrap().stdout
}
