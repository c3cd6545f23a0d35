//! What a server offers beside calls: subscriptions, completions, logging, answers that may be
//! kept. In both eras.

use tokio::sync::broadcast;

use super::*;
use crate::caller::LogLine;
use crate::catalog::ToolDefinition;
use crate::catalog::tests::{server, tool};
use crate::event::LogLevel;
use crate::gate::Decision;
use crate::secret::{Redactor, Secret};
use crate::transport::WireFault;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const WAIT: Duration = Duration::from_secs(5);

/// An open session with a server that declares `capabilities`, and what happens.
async fn offered(
    era: Era,
    capabilities: Value,
    options: OpenOptions,
) -> (Arc<Session>, Peer, broadcast::Receiver<Event>) {
    let (connector, peer) = wire();
    let (events, seen) = broadcast::channel(64);
    let protocol = if era == Era::Modern {
        Protocol::Modern
    } else {
        Protocol::Legacy
    };
    let options = OpenOptions {
        protocol,
        events: Some(events),
        ..options
    };
    let open = tokio::spawn(async move { Session::open(&connector, options).await.unwrap() });
    let mut peer = peer.await;
    match era {
        Era::Legacy => {
            let request = peer.expect("initialize").await;
            peer.answer(
                &request,
                json!({"protocolVersion": "2025-11-25", "capabilities": capabilities}),
            );
            peer.expect("notifications/initialized").await;
        }
        Era::Modern => {
            let request = peer.expect("server/discover").await;
            peer.answer(
                &request,
                json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
            );
        }
    }
    (open.await.unwrap(), peer, seen)
}

fn plain() -> OpenOptions {
    options(Protocol::Auto)
}

fn subscribes() -> Value {
    json!({"resources": {"subscribe": true}})
}

type Outcome = tokio::task::JoinHandle<Result<(), RequestFault>>;

fn subscribe(session: &Arc<Session>, uri: &'static str) -> Outcome {
    let session = session.clone();
    tokio::spawn(async move { session.subscribe(uri, WAIT).await })
}

fn unsubscribe(session: &Arc<Session>, uri: &'static str) -> Outcome {
    let session = session.clone();
    tokio::spawn(async move { session.unsubscribe(uri, WAIT).await })
}

impl Peer {
    /// The next `subscriptions/listen`, which must want this.
    async fn expect_listen(&mut self, wanted: Value) -> Value {
        let request = self.expect("subscriptions/listen").await;
        assert_eq!(request["params"]["notifications"], wanted);
        request
    }

    fn acknowledge(&self, listen: &Value, agreed: Value) {
        self.tell(
            listen,
            "notifications/subscriptions/acknowledged",
            json!({"notifications": agreed}),
        );
    }

    /// Tells something under a standing request.
    fn tell(&self, listen: &Value, method: &str, mut params: Value) {
        params["_meta"] = json!({SUBSCRIPTION: listen["id"]});
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

/// The addresses of resources that changed, as far as they were told.
fn updates(seen: &mut broadcast::Receiver<Event>) -> Vec<String> {
    let mut updates = Vec::new();
    while let Ok(event) = seen.try_recv() {
        if let Event::ResourceUpdated { uri, .. } = event {
            updates.push(uri.raw().to_owned());
        }
    }
    updates
}

#[tokio::test(start_paused = true)]
async fn what_a_server_does_not_offer_is_not_asked_for() {
    for era in [Era::Legacy, Era::Modern] {
        let (session, mut peer, _) = offered(era, json!({"resources": {}}), plain()).await;
        let refused =
            |what: &str| RequestFault::NotSent(format!("the server does not offer {what}"));
        let of = CompletionTarget::Prompt("p".to_owned());
        let completed = session
            .completions(&of, "a", "", &serde_json::Map::new(), WAIT)
            .await;
        assert_eq!(completed, Err(refused("completions")));
        assert_eq!(
            session.subscribe("a:b", WAIT).await,
            Err(refused("subscriptions to resources"))
        );
        assert_eq!(
            session.set_log_level(LogLevel::Info, WAIT).await,
            Err(refused("logging"))
        );
        assert_eq!(session.unsubscribe("a:b", WAIT).await, Ok(()));
        peer.quiet();
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_told_of_each_subscription_and_again_when_it_forgot() {
    let (session, mut peer, mut seen) = offered(Era::Legacy, subscribes(), plain()).await;
    let first = subscribe(&session, "a:b");
    let request = peer.expect("resources/subscribe").await;
    assert_eq!(request["params"], json!({"uri": "a:b"}));
    assert!(!first.is_finished());
    peer.answer(&request, json!({}));
    assert_eq!(first.await.unwrap(), Ok(()));
    peer.say(
        &json!({"method": "notifications/resources/updated", "params": {"uri": "a:b", "x": 1}}),
    );
    assert_eq!(updates(&mut seen), ["a:b"]);

    let refused = subscribe(&session, "a:c");
    let request = peer.expect("resources/subscribe").await;
    peer.refuse(&request, -32002);
    assert!(matches!(
        refused.await.unwrap(),
        Err(RequestFault::Answered { code: -32002, .. })
    ));

    // A renewed session knows nothing: what was agreed to is asked for again, what was refused is
    // not.
    peer.inbound.session_renewed();
    let request = peer.expect("resources/subscribe").await;
    assert_eq!(request["params"], json!({"uri": "a:b"}));
    peer.answer(&request, json!({}));

    let ended = unsubscribe(&session, "a:b");
    let request = peer.expect("resources/unsubscribe").await;
    assert_eq!(request["params"], json!({"uri": "a:b"}));
    peer.answer(&request, json!({}));
    assert_eq!(ended.await.unwrap(), Ok(()));
    peer.quiet();
}

#[tokio::test(start_paused = true)]
async fn subscriptions_outlive_a_session_and_a_refusal_of_one_is_told() {
    let subscriptions = Subscriptions::default();
    let options = || OpenOptions {
        subscriptions: subscriptions.clone(),
        ..plain()
    };
    let declared = json!({"resources": {"subscribe": true}, "logging": {}});
    let (session, mut peer, _) = offered(Era::Legacy, declared.clone(), options()).await;
    let subscribed = subscribe(&session, "a:b");
    let request = peer.expect("resources/subscribe").await;
    peer.answer(&request, json!({}));
    subscribed.await.unwrap().unwrap();
    let level = tokio::spawn(async move { session.set_log_level(LogLevel::Warning, WAIT).await });
    let request = peer.expect("logging/setLevel").await;
    assert_eq!(request["params"], json!({"level": "warning"}));
    peer.answer(&request, json!({}));
    level.await.unwrap().unwrap();

    let (_second, mut peer, mut seen) = offered(Era::Legacy, declared, options()).await;
    let request = peer.expect("logging/setLevel").await;
    assert_eq!(request["params"], json!({"level": "warning"}));
    peer.answer(&request, json!({}));
    let request = peer.expect("resources/subscribe").await;
    assert_eq!(request["params"], json!({"uri": "a:b"}));
    peer.refuse(&request, -32002);
    let told = loop {
        if let Event::Notice { line, .. } = seen.recv().await.unwrap() {
            break line;
        }
    };
    assert_eq!(
        told,
        "the subscription to \"a:b\" is lost: the server answered with error -32002: no"
    );

    let (_third, mut peer, _) = offered(Era::Modern, subscribes(), options()).await;
    peer.expect_listen(json!({"resourceSubscriptions": ["a:b"]}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_listened_to_by_one_request_that_fits_the_subscriptions() {
    let declared = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let (session, mut peer, mut seen) = offered(Era::Modern, declared, plain()).await;
    let lists = peer.expect_listen(json!({"toolsListChanged": true})).await;
    peer.acknowledge(&lists, json!({"toolsListChanged": true}));

    let subscribed = subscribe(&session, "a:b");
    let both = peer
        .expect_listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}))
        .await;
    // The old one stands until the new one does.
    peer.tell(&lists, "notifications/tools/list_changed", json!({}));
    session.list_changed().await;
    assert!(!subscribed.is_finished());
    peer.acknowledge(
        &both,
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}),
    );
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], lists["id"]);
    assert_eq!(subscribed.await.unwrap(), Ok(()));

    peer.tell(
        &both,
        "notifications/resources/updated",
        json!({"uri": "a:b"}),
    );
    peer.tell(
        &lists,
        "notifications/resources/updated",
        json!({"uri": "a:late"}),
    );
    assert_eq!(updates(&mut seen), ["a:b"]);

    // It may agree to less.
    let refused = subscribe(&session, "a:c");
    let three = peer
        .expect_listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b", "a:c"]}))
        .await;
    peer.acknowledge(
        &three,
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}),
    );
    peer.expect("notifications/cancelled").await;
    let told = refused.await.unwrap();
    assert_eq!(
        told,
        Err(RequestFault::NotSupported(
            "the server does not tell of changes to this resource".to_owned()
        ))
    );
    let again = peer
        .expect_listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}))
        .await;
    peer.acknowledge(
        &again,
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}),
    );
    peer.expect("notifications/cancelled").await;

    // A clean end is followed by another request, and so is a stream that broke.
    peer.answer(
        &again,
        json!({"resultType": "complete", "_meta": {SUBSCRIPTION: again["id"]}}),
    );
    let anew = peer
        .expect_listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}))
        .await;
    peer.acknowledge(
        &anew,
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}),
    );
    peer.inbound.failed(
        anew["id"].as_u64().unwrap(),
        WireFault::Lost("reset".to_owned()),
    );
    let anew = peer
        .expect_listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}))
        .await;
    peer.acknowledge(
        &anew,
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}),
    );

    let ended = unsubscribe(&session, "a:b");
    let lists = peer.expect_listen(json!({"toolsListChanged": true})).await;
    peer.acknowledge(&lists, json!({"toolsListChanged": true}));
    assert_eq!(ended.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn what_may_have_changed_while_nothing_was_heard_is_listed_again() {
    let (session, mut peer, _) = offered(
        Era::Modern,
        json!({"tools": {"listChanged": true}}),
        plain(),
    )
    .await;
    let wanted = json!({"toolsListChanged": true});
    let changed = async || {
        tokio::time::timeout(Duration::from_millis(10), session.list_changed())
            .await
            .is_ok()
    };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let listen = peer.expect_listen(wanted.clone()).await;
        peer.acknowledge(&listen, wanted.clone());
        seen.push(changed().await);
        peer.inbound.failed(
            listen["id"].as_u64().unwrap(),
            WireFault::Lost("it broke".to_owned()),
        );
        seen.push(changed().await);
    }
    assert_eq!(seen, [false, false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_new_wish_does_not_wait_for_the_pause_after_a_stream_that_ended() {
    let declared = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let (session, mut peer, _) = offered(Era::Modern, declared, plain()).await;
    for _ in 0..5 {
        let listen = peer.expect_listen(json!({"toolsListChanged": true})).await;
        peer.inbound.failed(
            listen["id"].as_u64().unwrap(),
            WireFault::Lost("it broke".to_owned()),
        );
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let subscribed = subscribe(&session, "a:b");
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]});
    let listen = peer.expect_listen(wanted.clone()).await;
    peer.acknowledge(&listen, wanted);
    assert_eq!(subscribed.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_will_not_listen_is_not_asked_again_for_the_same() {
    let (session, mut peer, _) = offered(Era::Modern, subscribes(), plain()).await;
    let refused = subscribe(&session, "a:b");
    let request = peer.expect("subscriptions/listen").await;
    peer.refuse(&request, -32601);
    assert!(matches!(
        refused.await.unwrap(),
        Err(RequestFault::Answered { code: -32601, .. })
    ));
    tokio::time::sleep(Duration::from_secs(600)).await;
    peer.quiet();
    let silent = subscribe(&session, "a:b");
    peer.expect("subscriptions/listen").await;
    assert_eq!(
        silent.await.unwrap(),
        Err(RequestFault::Timeout {
            after: WAIT,
            total: true
        })
    );
}

#[tokio::test(start_paused = true)]
async fn completions_are_asked_with_what_is_known_already() {
    for era in [Era::Legacy, Era::Modern] {
        let (session, mut peer, _) = offered(era, json!({"completions": {}}), plain()).await;
        let ask = |of: CompletionTarget, given: Value| {
            let session = session.clone();
            let given = given.as_object().unwrap().clone();
            tokio::spawn(async move {
                session
                    .completions(&of, "framework", "fla", &given, WAIT)
                    .await
            })
        };
        let asked = ask(
            CompletionTarget::Prompt("review".to_owned()),
            json!({"language": "python"}),
        );
        let mut request = peer.expect("completion/complete").await;
        request["params"].as_object_mut().unwrap().remove("_meta");
        let argument = json!({"name": "framework", "value": "fla"});
        let reference = json!({"type": "ref/prompt", "name": "review"});
        let context = json!({"arguments": {"language": "python"}});
        assert_eq!(
            request["params"],
            json!({"ref": reference, "argument": argument, "context": context})
        );
        peer.answer(
            &request,
            json!({"completion": {"values": ["flask"]}, "x": 1.0}),
        );
        assert_eq!(
            asked.await.unwrap().unwrap().as_str(),
            r#"{"completion":{"values":["flask"]},"x":1.0}"#
        );

        let asked = ask(
            CompletionTarget::Resource("a:{framework}".to_owned()),
            json!({}),
        );
        let mut request = peer.expect("completion/complete").await;
        request["params"].as_object_mut().unwrap().remove("_meta");
        assert_eq!(
            request["params"],
            json!({"ref": {"type": "ref/resource", "uri": "a:{framework}"}, "argument": argument})
        );
        peer.refuse(&request, -32602);
        assert!(matches!(
            asked.await.unwrap(),
            Err(RequestFault::Answered { code: -32602, .. })
        ));
    }
}

/// Keeps what a server logs during their calls.
struct Reader {
    name: &'static str,
    level: Option<LogLevel>,
    lines: Mutex<Vec<String>>,
}

impl Reader {
    fn new(name: &'static str, level: Option<LogLevel>) -> Arc<Self> {
        Arc::new(Self {
            name,
            level,
            lines: Mutex::default(),
        })
    }

    fn reads(
        self: &Arc<Self>,
        session: &Arc<Session>,
    ) -> tokio::task::JoinHandle<Result<RawJson, RequestFault>> {
        let (session, caller) = (session.clone(), self.clone() as Arc<dyn Caller>);
        tokio::spawn(async move { session.read("a:b", &caller, Timeouts::default()).await })
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

impl Caller for Reader {
    fn id(&self) -> CallerId {
        CallerId::new(self.name)
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn log_level(&self) -> Option<LogLevel> {
        self.level
    }

    fn log(&self, line: &LogLine) {
        let logger = line.logger.as_ref().map_or("-", |logger| logger.raw());
        let level = line.level.map_or("?", LogLevel::as_str);
        self.lines
            .lock()
            .unwrap()
            .push(format!("{level} {logger} {}", line.text.raw()));
    }
}

fn logs(seen: &mut broadcast::Receiver<Event>) -> Vec<String> {
    let mut logs = Vec::new();
    while let Ok(event) = seen.try_recv() {
        if let Event::Log { level, text, .. } = event {
            logs.push(format!("{level} {}", text.raw()));
        }
    }
    logs
}

fn message(level: &str, text: &str) -> Value {
    json!({"method": "notifications/message", "params": {"level": level, "logger": "db", "data": text}})
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_told_with_each_request_from_which_level_on_it_may_log() {
    let (session, mut peer, mut seen) = offered(Era::Modern, json!({"logging": {}}), plain()).await;
    let level =
        |request: &Value| request["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone();
    let (curious, quiet) = (
        Reader::new("curious", Some(LogLevel::Debug)),
        Reader::new("quiet", None),
    );
    let _one = curious.reads(&session);
    let first = peer.expect("resources/read").await;
    let _two = quiet.reads(&session);
    let second = peer.expect("resources/read").await;
    assert_eq!(
        (level(&first), level(&second)),
        (json!("debug"), Value::Null)
    );
    // Only one of the two calls may be logged for.
    peer.say(&message("info", "hello"));
    assert_eq!(
        (curious.lines(), quiet.lines(), logs(&mut seen)),
        (vec!["info db hello".to_owned()], vec![], vec![])
    );

    session.set_log_level(LogLevel::Error, WAIT).await.unwrap();
    let _three = quiet.reads(&session);
    let third = peer.expect("resources/read").await;
    let _four = curious.reads(&session);
    let fourth = peer.expect("resources/read").await;
    assert_eq!(
        (level(&third), level(&fourth)),
        (json!("error"), json!("debug"))
    );
    // Now it could be anybody's: nobody's call it is, and it is told to whoever looks after the
    // server.
    peer.say(&message("error", "whose?"));
    assert_eq!(
        (curious.lines(), quiet.lines(), logs(&mut seen)),
        (vec![], vec![], vec!["error whose?".to_owned()])
    );
    // A wire that marks the origin leaves no doubt.
    let text = message("error", "yours").to_string();
    let origin = MessageOrigin::Response(third["id"].as_u64().unwrap());
    parse(&text, &RawJson::keep, &mut |message| {
        peer.inbound.message(message, origin)
    })
    .unwrap();
    assert_eq!(
        (curious.lines(), quiet.lines(), logs(&mut seen)),
        (vec![], vec!["error db yours".to_owned()], vec![])
    );
}

/// T25: a library's user gets the words of a server without the secrets of its launch, in events
/// and as a caller.
#[tokio::test(start_paused = true)]
async fn t25_events_and_callers_get_no_secret() {
    let redactor = Redactor::new([Secret::new("canary")]);
    let (session, mut peer, mut seen) = offered(
        Era::Legacy,
        json!({"logging": {}}),
        OpenOptions {
            redactor,
            ..plain()
        },
    )
    .await;
    let reader = Reader::new("reader", Some(LogLevel::Debug));
    let _reading = reader.reads(&session);
    let request = peer.expect("resources/read").await;
    peer.say(&message("canary level", "a canary"));
    assert_eq!(logs(&mut seen), ["[secret] level a [secret]"]);
    let text = message("info", "a canary")
        .to_string()
        .replace("db", "canary");
    let origin = MessageOrigin::Response(request["id"].as_u64().unwrap());
    parse(&text, &RawJson::keep, &mut |message| {
        peer.inbound.message(message, origin)
    })
    .unwrap();
    assert_eq!(reader.lines(), ["info [secret] a [secret]"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_legacy_server_logs_belongs_to_a_call_only_where_the_wire_says_so() {
    let (session, mut peer, mut seen) = offered(Era::Legacy, json!({"logging": {}}), plain()).await;
    let reader = Reader::new("reader", Some(LogLevel::Debug));
    let _reading = reader.reads(&session);
    let request = peer.expect("resources/read").await;
    assert_eq!(
        request["params"]["_meta"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["progressToken"]
    );
    peer.say(&message("info", "hello"));
    assert_eq!(
        (reader.lines(), logs(&mut seen)),
        (vec![], vec!["info hello".to_owned()])
    );
    let text = message("odd", "yours").to_string();
    let origin = MessageOrigin::Response(request["id"].as_u64().unwrap());
    parse(&text, &RawJson::keep, &mut |message| {
        peer.inbound.message(message, origin)
    })
    .unwrap();
    assert_eq!(
        (reader.lines(), logs(&mut seen)),
        (vec!["? db yours".to_owned()], vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_fresh_answer_is_not_asked_for_again_until_it_changes() {
    let (session, mut peer, _) = offered(Era::Modern, subscribes(), plain()).await;
    let fresh = json!({"contents": [], "ttlMs": 60_000, "cacheScope": "private"});
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    peer.answer(&request, fresh.clone());
    let first = reading.await.unwrap().unwrap();
    assert_eq!(read(&session, "a:b", "me").await.unwrap().unwrap(), first);
    peer.quiet();
    // It was private.
    let other = read(&session, "a:b", "other");
    let request = peer.expect("resources/read").await;
    peer.answer(&request, fresh.clone());
    other.await.unwrap().unwrap();
    // It changed.
    peer.say(&json!({"method": "notifications/resources/updated", "params": {"uri": "a:b"}}));
    let again = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    // This answer depends on more than the question.
    peer.answer(
        &request,
        json!({"resultType": "input_required", "requestState": "s"}),
    );
    let request = peer.expect("resources/read").await;
    assert_eq!(request["params"]["requestState"], "s");
    peer.answer(&request, fresh);
    again.await.unwrap().unwrap();
    let _once_more = read(&session, "a:b", "me");
    peer.expect("resources/read").await;
}

/// T15: on a wire that says headers, a tool whose annotation no header can follow is withheld;
/// elsewhere the annotation means nothing.
#[tokio::test(start_paused = true)]
async fn t15_a_tool_whose_headers_cannot_be_said_is_withheld_where_headers_are_said() {
    let tool = |name: &str, header: &str| {
        let region = json!({"type": "string", "x-mcp-header": header});
        json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}})
    };
    for (era, sends_headers, expected) in [
        (Era::Modern, true, vec!["good"]),
        (Era::Modern, false, vec!["good", "evil"]),
        (Era::Legacy, true, vec!["good", "evil"]),
    ] {
        let (connector, peer) = wire();
        let connector = Wire {
            properties: TransportProperties {
                sends_headers,
                ..TransportProperties::default()
            },
            ..connector
        };
        let protocol = if era == Era::Modern {
            Protocol::Modern
        } else {
            Protocol::Legacy
        };
        let listing = tokio::spawn(async move {
            let session = Session::open(&connector, options(protocol)).await.unwrap();
            session.offerings().await.unwrap()
        });
        let mut peer = peer.await;
        let request = peer.next().await;
        let versions = json!({"supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}});
        peer.answer(&request, versions);
        if era == Era::Legacy {
            peer.expect("notifications/initialized").await;
        }
        let request = peer.expect("tools/list").await;
        peer.answer(
            &request,
            json!({"tools": [tool("good", "Region"), tool("evil", "Region\r\nX-Evil: 1")]}),
        );
        let offerings = listing.await.unwrap();
        assert_eq!(tools(&offerings), expected, "{era:?}, {sends_headers}");
        let reasons: Vec<_> = offerings
            .withheld
            .iter()
            .map(|(name, reason)| (name.as_wire(), reason.as_str()))
            .collect();
        let reason =
            r#"its x-mcp-header "Region\u{d}\u{a}X-Evil: 1" cannot be part of a header's name"#;
        let withheld = if expected.len() == 1 {
            vec![("evil", reason)]
        } else {
            vec![]
        };
        assert_eq!(reasons, withheld, "{era:?}, {sends_headers}");
    }
}

/// The specification allows integers in headers only as far as JavaScript counts exactly: beyond
/// that a call is not sent, and told why.
#[tokio::test(start_paused = true)]
async fn an_integer_that_no_header_may_carry_is_not_sent_where_headers_are_said() {
    let schema = json!({"type": "object", "properties": {"shard": {"type": "integer", "x-mcp-header": "Shard"}}});
    let raw = json!({"name": "errand", "inputSchema": schema});
    let definition = Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap());
    let tool = Arc::new(tool(server("peer"), definition));
    for (sends_headers, shard, is_sent) in [
        (true, 9_007_199_254_740_991_u64, true),
        (true, 9_007_199_254_740_993, false),
        (false, 9_007_199_254_740_993, true),
    ] {
        let (connector, peer) = wire();
        let connector = Wire {
            properties: TransportProperties {
                sends_headers,
                ..TransportProperties::default()
            },
            ..connector
        };
        let arguments = RawJson::from_value(&json!({"shard": shard}));
        let permit = Decision::Allow {
            because: "a test".into(),
        }
        .permit(&tool, &arguments, &caller("ada"))
        .unwrap();
        let call_options = call_options(&tool, Timeouts::default());
        let calling = tokio::spawn(async move {
            let session = Session::open(&connector, options(Protocol::Modern))
                .await
                .unwrap();
            session.call(permit, call_options).await
        });
        let mut peer = peer.await;
        let request = peer.expect("server/discover").await;
        peer.answer(&request, json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}));
        let expected = if is_sent {
            let request = peer.expect("tools/call").await;
            assert_eq!(request["params"]["arguments"]["shard"], shard);
            peer.answer(&request, json!({"resultType": "complete", "content": []}));
            Ok(())
        } else {
            Err(RequestFault::NotSent(
                "not sent: the argument \"shard\" goes into a header, which takes integers of at most 9007199254740991 either way, \
                 not 9007199254740993"
                    .to_owned(),
            ))
        };
        assert_eq!(
            calling.await.unwrap().map(drop),
            expected,
            "{sends_headers}, {shard}"
        );
        peer.quiet();
    }
}

/// Lists in a task of its own.
fn list(session: &Arc<Session>) -> tokio::task::JoinHandle<Result<Offerings, RequestFault>> {
    let session = session.clone();
    tokio::spawn(async move { session.offerings().await })
}

fn tools(offerings: &Offerings) -> Vec<&str> {
    offerings
        .tools
        .iter()
        .map(|tool| tool.name.as_wire())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn f14_only_the_list_that_changed_is_listed_again() {
    let declared = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}});
    let (session, mut peer, _) = offered(Era::Legacy, declared, plain()).await;
    let listing = list(&session);
    let request = peer.expect("tools/list").await;
    peer.answer(
        &request,
        json!({"tools": [{"name": "one", "inputSchema": {}}]}),
    );
    let request = peer.expect("prompts/list").await;
    peer.answer(&request, json!({"prompts": [{"name": "p"}]}));
    assert_eq!(tools(&listing.await.unwrap().unwrap()), ["one"]);

    peer.say(&json!({"method": "notifications/tools/list_changed"}));
    session.list_changed().await;
    let listing = list(&session);
    let request = peer.expect("tools/list").await;
    peer.answer(
        &request,
        json!({"tools": [{"name": "two", "inputSchema": {}}]}),
    );
    let offerings = listing.await.unwrap().unwrap();
    assert_eq!(
        (tools(&offerings), offerings.prompts.len()),
        (vec!["two"], 1)
    );
    peer.quiet();

    peer.inbound.session_renewed();
    session.list_changed().await;
    let _listing = list(&session);
    peer.expect("tools/list").await;
    peer.expect("prompts/list").await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_list_is_not_asked_for_again_when_the_server_is_connected_anew() {
    let cache = Cache::default();
    let options = || OpenOptions {
        cache: cache.clone(),
        ..plain()
    };
    let page = |name: &str, ttl_ms: u64| json!({"tools": [{"name": name, "inputSchema": {}}], "ttlMs": ttl_ms});
    let (session, mut peer, _) = offered(Era::Modern, json!({"tools": {}}), options()).await;
    let listing = list(&session);
    let request = peer.expect("tools/list").await;
    let mut first = page("one", 60_000);
    first["nextCursor"] = json!("two");
    peer.answer(&request, first);
    let request = peer.expect("tools/list").await;
    peer.answer(&request, page("two", 1_000));
    assert_eq!(tools(&listing.await.unwrap().unwrap()), ["one", "two"]);

    let (session, mut peer, _) = offered(Era::Modern, json!({"tools": {}}), options()).await;
    assert_eq!(
        tools(&list(&session).await.unwrap().unwrap()),
        ["one", "two"]
    );
    peer.quiet();
    // All pages are as fresh as the one that spoils first.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let _listing = list(&session);
    peer.expect("tools/list").await;
}
