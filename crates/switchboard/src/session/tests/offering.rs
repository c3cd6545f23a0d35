//! Tests of subscriptions, completions, logging and cached results, in both eras.

use tokio::sync::broadcast;

use super::*;
use crate::caller::LogLine;
use crate::catalog::ToolDefinition;
use crate::catalog::tests::{server, tool};
use crate::event::{LogLevel, SessionCallers};
use crate::gate::Decision;
use crate::secret::{Redactor, Secret};
use crate::transport::TransportFault;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const WAIT: Duration = Duration::from_secs(5);

/// An open session with a server that declares `capabilities`, its server, and the host's events.
async fn offered(
    era: Era,
    capabilities: Value,
    options: OpenOptions,
) -> (Arc<Session>, ScriptedServer, broadcast::Receiver<Event>) {
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

impl ScriptedServer {
    /// The next `subscriptions/listen`, which must have this filter.
    async fn expect_listen(&mut self, wanted: Value) -> Value {
        let request = self.expect("subscriptions/listen").await;
        assert_eq!(request["params"]["notifications"], wanted);
        request
    }

    fn acknowledge(&self, listen: &Value, agreed: Value) {
        self.notify(
            listen,
            "notifications/subscriptions/acknowledged",
            json!({"notifications": agreed}),
        );
    }

    /// Sends a notification for a `subscriptions/listen` request.
    fn notify(&self, listen: &Value, method: &str, mut params: Value) {
        params["_meta"] = json!({SUBSCRIPTION: listen["id"]});
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

/// The URIs of the resources that were reported as changed.
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
async fn a_capability_that_a_server_does_not_declare_is_never_requested() {
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
        peer.expect_nothing();
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_gets_each_subscription_and_again_after_a_renewed_session() {
    let (session, mut peer, mut seen) = offered(Era::Legacy, subscribes(), plain()).await;
    let first = subscribe(&session, "a:b");
    let request = peer.expect("resources/subscribe").await;
    assert_eq!(request["params"], json!({"uri": "a:b"}));
    assert!(!first.is_finished());
    peer.answer(&request, json!({}));
    assert_eq!(first.await.unwrap(), Ok(()));
    peer.send(
        &json!({"method": "notifications/resources/updated", "params": {"uri": "a:b", "x": 1}}),
    );
    assert_eq!(updates(&mut seen), ["a:b"]);

    let refused = subscribe(&session, "a:c");
    let request = peer.expect("resources/subscribe").await;
    peer.respond_error(&request, -32002);
    assert!(matches!(
        refused.await.unwrap(),
        Err(RequestFault::ErrorResponse { code: -32002, .. })
    ));

    // A renewed session has no subscriptions: those agreed to are requested again, refused ones are
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
    peer.expect_nothing();
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_follows_an_unsubscription_is_confirmed_after_it() {
    let (session, mut peer, _) = offered(Era::Legacy, subscribes(), plain()).await;
    let first = subscribe(&session, "a:b");
    let request = peer.expect("resources/subscribe").await;
    peer.answer(&request, json!({}));
    assert_eq!(first.await.unwrap(), Ok(()));

    let _ending = unsubscribe(&session, "a:b");
    let ending = peer.expect("resources/unsubscribe").await;
    let second = subscribe(&session, "a:b");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!second.is_finished(), "the server still ends the first");
    peer.answer(&ending, json!({}));
    let request = peer.expect("resources/subscribe").await;
    peer.answer(&request, json!({}));
    assert_eq!(second.await.unwrap(), Ok(()));
    peer.expect_nothing();
}

#[tokio::test(start_paused = true)]
async fn subscriptions_outlive_a_session_and_a_lost_one_is_reported() {
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
    peer.respond_error(&request, -32002);
    let notice = loop {
        if let Event::Notice { line, .. } = seen.recv().await.unwrap() {
            break line;
        }
    };
    assert_eq!(
        notice,
        "the subscription to \"a:b\" is lost: the server answered with error -32002: no"
    );

    let (_third, mut peer, _) = offered(Era::Modern, subscribes(), options()).await;
    peer.expect_listen(json!({"resourceSubscriptions": ["a:b"]}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn one_listen_request_to_a_modern_server_matches_the_subscriptions() {
    let declared = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let (session, mut peer, mut seen) = offered(Era::Modern, declared, plain()).await;
    let lists = peer.expect_listen(json!({"toolsListChanged": true})).await;
    peer.acknowledge(&lists, json!({"toolsListChanged": true}));

    let subscribed = subscribe(&session, "a:b");
    let both = peer
        .expect_listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}))
        .await;
    // The old stream stays open until the new one is.
    peer.notify(&lists, "notifications/tools/list_changed", json!({}));
    session.list_changed().await;
    assert!(!subscribed.is_finished());
    peer.acknowledge(
        &both,
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}),
    );
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], lists["id"]);
    assert_eq!(subscribed.await.unwrap(), Ok(()));

    peer.notify(
        &both,
        "notifications/resources/updated",
        json!({"uri": "a:b"}),
    );
    peer.notify(
        &lists,
        "notifications/resources/updated",
        json!({"uri": "a:late"}),
    );
    assert_eq!(updates(&mut seen), ["a:b"]);

    // The server may agree to less.
    let refused = subscribe(&session, "a:c");
    let three = peer
        .expect_listen(json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b", "a:c"]}))
        .await;
    peer.acknowledge(
        &three,
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}),
    );
    peer.expect("notifications/cancelled").await;
    let refusal = refused.await.unwrap();
    assert_eq!(
        refusal,
        Err(RequestFault::NotSupported(
            "the server does not report changes of this resource".to_owned()
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

    // A clean end is followed by another request, and so is a broken stream.
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
        TransportFault::Lost("reset".to_owned()),
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
async fn lists_are_requested_again_after_a_gap_between_streams() {
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
            TransportFault::Lost("it broke".to_owned()),
        );
        seen.push(changed().await);
    }
    assert_eq!(seen, [false, false, true, false]);
}

/// On stdio a server has no stream to close: it ends a subscription by a notification.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_the_server_cancels_is_opened_again() {
    let declared = json!({"tools": {"listChanged": true}});
    let (session, mut peer, _) = offered(Era::Modern, declared, plain()).await;
    let wanted = json!({"toolsListChanged": true});
    let cancelled = |id: &Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    let first = peer.expect_listen(wanted.clone()).await;
    peer.acknowledge(&first, wanted.clone());
    // A server cannot end any other request so.
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    peer.send(&cancelled(&request["id"]));
    peer.send(&cancelled(&json!("1")));
    tokio::time::sleep(Duration::from_secs(5)).await;
    peer.expect_nothing();
    peer.answer(&request, json!({"contents": []}));
    reading.await.unwrap().unwrap();

    let began = tokio::time::Instant::now();
    peer.send(&cancelled(&first["id"]));
    let second = peer.expect_listen(wanted.clone()).await;
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    peer.acknowledge(&second, wanted);
    // Changes between the two were not reported.
    session.list_changed().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_subscription_does_not_wait_for_the_delay_after_an_ended_stream() {
    let declared = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let (session, mut peer, _) = offered(Era::Modern, declared, plain()).await;
    for _ in 0..5 {
        let listen = peer.expect_listen(json!({"toolsListChanged": true})).await;
        peer.inbound.failed(
            listen["id"].as_u64().unwrap(),
            TransportFault::Lost("it broke".to_owned()),
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
async fn a_refused_listen_request_is_not_repeated_unchanged() {
    let (session, mut peer, _) = offered(Era::Modern, subscribes(), plain()).await;
    let refused = subscribe(&session, "a:b");
    let request = peer.expect("subscriptions/listen").await;
    peer.respond_error(&request, -32601);
    assert!(matches!(
        refused.await.unwrap(),
        Err(RequestFault::ErrorResponse { code: -32601, .. })
    ));
    tokio::time::sleep(Duration::from_secs(600)).await;
    peer.expect_nothing();
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
async fn a_resource_that_a_modern_server_refuses_does_not_end_the_reports_of_others() {
    let declared = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let subscriptions = Subscriptions::default();
    let options = OpenOptions {
        subscriptions: subscriptions.clone(),
        ..plain()
    };
    let (session, mut peer, mut seen) = offered(Era::Modern, declared, options).await;
    let lists = json!({"toolsListChanged": true});
    let good = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]});
    let all = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b", "bad:c"]});
    let first = peer.expect_listen(lists.clone()).await;
    peer.acknowledge(&first, lists);
    let subscribed = subscribe(&session, "a:b");
    let stream = peer.expect_listen(good.clone()).await;
    peer.acknowledge(&stream, good.clone());
    peer.expect("notifications/cancelled").await;
    subscribed.await.unwrap().unwrap();

    // Not confirmed, as a client of the gateway does it: the resource stays subscribed to.
    subscriptions.add("bad:c").unwrap();
    let refused = peer.expect_listen(all).await;
    peer.respond_error(&refused, -32602);
    tokio::time::sleep(Duration::from_secs(600)).await;
    peer.expect_nothing();
    let changed = json!({"uri": "a:b"});
    peer.notify(&stream, "notifications/resources/updated", changed);
    assert_eq!(updates(&mut seen), ["a:b"]);

    // A broken stream is opened again without it.
    let broken = TransportFault::Lost("reset".to_owned());
    peer.inbound.failed(stream["id"].as_u64().unwrap(), broken);
    let stream = peer.expect_listen(good.clone()).await;
    peer.acknowledge(&stream, good);
    // Whoever subscribes to it gets the server's refusal, and ending it succeeds.
    for _ in 0..2 {
        let again = subscribe(&session, "bad:c");
        let request = peer.expect("subscriptions/listen").await;
        peer.respond_error(&request, -32602);
        let outcome = again.await.unwrap();
        assert!(matches!(outcome, Err(RequestFault::ErrorResponse { .. })));
    }
    unsubscribe(&session, "bad:c").await.unwrap().unwrap();
}

/// After a reconnect the new session does not know which one the server refuses.
#[tokio::test(start_paused = true)]
async fn the_resource_that_a_modern_server_refuses_is_found_among_others() {
    let declared = json!({"resources": {"subscribe": true}});
    let subscriptions = Subscriptions::default();
    for uri in ["a:1", "a:2", "bad:3", "c:4", "c:5"] {
        subscriptions.add(uri).unwrap();
    }
    let options = OpenOptions {
        subscriptions,
        ..plain()
    };
    let (_session, mut peer, mut seen) = offered(Era::Modern, declared, options).await;
    let mut last = Value::Null;
    let all = json!({"resourceSubscriptions": ["a:1", "a:2", "c:4", "c:5"]});
    while last["params"]["notifications"] != all {
        let request = peer.next().await;
        if request["method"] != "subscriptions/listen" {
            continue;
        }
        let wanted = request["params"]["notifications"].clone();
        match wanted.to_string().contains("bad:3") {
            true => peer.respond_error(&request, -32602),
            false => peer.acknowledge(&request, wanted),
        }
        last = request;
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    peer.notify(
        &last,
        "notifications/resources/updated",
        json!({"uri": "c:5"}),
    );
    assert_eq!(updates(&mut seen), ["c:5"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_server_never_answers_leaves_later_logs_to_others() {
    let (session, mut peer, mut seen) = offered(Era::Legacy, json!({"logging": {}}), plain()).await;
    // The callers that a log may belong to while this one reads; the server never responds.
    let mut callers_of_log = async |name| {
        let reading = read(&session, "a:b", name);
        peer.expect("resources/read").await;
        peer.send(&message("info", "whose?"));
        let callers = loop {
            if let Event::Log { callers, .. } = seen.try_recv().unwrap() {
                break callers;
            }
        };
        reading.abort();
        peer.expect("notifications/cancelled").await;
        callers
    };
    let only = |name| SessionCallers::One(CallerId::new(name));
    assert_eq!(callers_of_log("ada").await, only("ada"));
    assert_eq!(callers_of_log("bert").await, SessionCallers::Several);
    // For a minute, a question of the server may belong to a call that was given up.
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(callers_of_log("clara").await, only("clara"));
}

#[tokio::test(start_paused = true)]
async fn completions_are_requested_with_the_arguments_so_far() {
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
        peer.respond_error(&request, -32602);
        assert!(matches!(
            asked.await.unwrap(),
            Err(RequestFault::ErrorResponse { code: -32602, .. })
        ));
    }
}

/// A caller that records the logs of its calls.
struct LogCaller {
    id: CallerId,
    level: Option<LogLevel>,
    lines: Mutex<Vec<String>>,
}

impl LogCaller {
    fn new(name: &'static str, level: Option<LogLevel>) -> Arc<Self> {
        Arc::new(Self {
            id: CallerId::new(name),
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

impl Caller for LogCaller {
    fn id(&self) -> &CallerId {
        &self.id
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
async fn p2_log_messages_of_a_flood_become_few_events() {
    let (session, mut peer, mut seen) = offered(Era::Modern, json!({"logging": {}}), plain()).await;
    (0..1_000).for_each(|_| peer.send(&message("info", "again")));
    assert_eq!(logs(&mut seen).len(), 50);
    // Those of a call are all passed on.
    let reader = LogCaller::new("reader", Some(LogLevel::Debug));
    let _reading = reader.reads(&session);
    let _request = peer.expect("resources/read").await;
    (0..1_000).for_each(|_| peer.send(&message("info", "again")));
    assert_eq!((reader.lines().len(), logs(&mut seen).len()), (1_000, 0));
}

/// Updates of a resource that nobody subscribed to are no events at all.
#[tokio::test(start_paused = true)]
async fn p2_updates_of_a_flood_become_few_events() {
    let (session, mut peer, mut seen) = offered(Era::Legacy, subscribes(), plain()).await;
    let subscribed = subscribe(&session, "a:b");
    let request = peer.expect("resources/subscribe").await;
    peer.answer(&request, json!({}));
    subscribed.await.unwrap().unwrap();
    let update =
        |uri: &str| json!({"method": "notifications/resources/updated", "params": {"uri": uri}});
    for uri in ["a:c", "a:", "a:b/part", "a:b"] {
        peer.send(&update(uri));
    }
    assert_eq!(updates(&mut seen), ["a:b/part", "a:b"]);
    let mut events = 0;
    for _ in 0..200 {
        (0..10).for_each(|_| peer.send(&update("a:b")));
        events += updates(&mut seen).len();
    }
    assert_eq!(events, 498);
}

/// A server causes one with each question that nobody can answer.
#[tokio::test(start_paused = true)]
async fn p2_notices_of_declined_questions_are_few() {
    let (session, peer, mut seen) = offered(Era::Legacy, json!({}), plain()).await;
    let mut notices = 0;
    for number in 0..1_000 {
        let params = json!({"message": "?", "requestedSchema": {}});
        peer.send(&json!({"id": number, "method": "elicitation/create", "params": params}));
        let seen = seen.try_recv();
        notices += usize::from(matches!(seen, Ok(Event::QuestionDeclined { .. })));
    }
    assert_eq!((notices, session.deviations().unattributed), (200, 1_000));
}

#[tokio::test(start_paused = true)]
async fn each_modern_request_carries_its_callers_log_level() {
    let (session, mut peer, mut seen) = offered(Era::Modern, json!({"logging": {}}), plain()).await;
    let level =
        |request: &Value| request["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone();
    let (curious, expect_nothing) = (
        LogCaller::new("curious", Some(LogLevel::Debug)),
        LogCaller::new("expect_nothing", None),
    );
    let _one = curious.reads(&session);
    let first = peer.expect("resources/read").await;
    let _two = expect_nothing.reads(&session);
    let second = peer.expect("resources/read").await;
    assert_eq!(
        (level(&first), level(&second)),
        (json!("debug"), Value::Null)
    );
    // Only one of the two calls asked for logs.
    peer.send(&message("info", "hello"));
    assert_eq!(
        (curious.lines(), expect_nothing.lines(), logs(&mut seen)),
        (vec!["info db hello".to_owned()], vec![], vec![])
    );

    session.set_log_level(LogLevel::Error, WAIT).await.unwrap();
    let _three = expect_nothing.reads(&session);
    let third = peer.expect("resources/read").await;
    let _four = curious.reads(&session);
    let fourth = peer.expect("resources/read").await;
    assert_eq!(
        (level(&third), level(&fourth)),
        (json!("error"), json!("debug"))
    );
    // Now the log may belong to either call: it goes to the host's events.
    peer.send(&message("error", "whose?"));
    assert_eq!(
        (curious.lines(), expect_nothing.lines(), logs(&mut seen)),
        (vec![], vec![], vec!["error whose?".to_owned()])
    );
    // A transport that marks the origin leaves no doubt.
    let text = message("error", "yours").to_string();
    let origin = MessageOrigin::Response(third["id"].as_u64().unwrap());
    parse(&text, &RawJson::keep, &mut |message| {
        peer.inbound.message(message, origin)
    })
    .unwrap();
    assert_eq!(
        (curious.lines(), expect_nothing.lines(), logs(&mut seen)),
        (vec![], vec!["error db yours".to_owned()], vec![])
    );
}

/// T25: a library user gets a server's texts without the secrets of its launch, in events and as a
/// caller.
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
    let reader = LogCaller::new("reader", Some(LogLevel::Debug));
    let _reading = reader.reads(&session);
    let request = peer.expect("resources/read").await;
    peer.send(&message("canary level", "a canary"));
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
async fn a_legacy_servers_log_belongs_to_a_call_only_if_its_origin_is_marked() {
    let (session, mut peer, mut seen) = offered(Era::Legacy, json!({"logging": {}}), plain()).await;
    let reader = LogCaller::new("reader", Some(LogLevel::Debug));
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
    peer.send(&message("info", "hello"));
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
async fn a_fresh_result_is_not_requested_again_until_it_changes() {
    let (session, mut peer, _) = offered(Era::Modern, subscribes(), plain()).await;
    let fresh = json!({"contents": [], "ttlMs": 60_000, "cacheScope": "private"});
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    peer.answer(&request, fresh.clone());
    let first = reading.await.unwrap().unwrap();
    assert_eq!(read(&session, "a:b", "me").await.unwrap().unwrap(), first);
    peer.expect_nothing();
    // The result was private.
    let other = read(&session, "a:b", "other");
    let request = peer.expect("resources/read").await;
    peer.answer(&request, fresh.clone());
    other.await.unwrap().unwrap();
    peer.send(&json!({"method": "notifications/resources/updated", "params": {"uri": "a:b"}}));
    let again = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    // This result depends on the caller's input.
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

/// T15: on a transport with headers, a tool with an annotation that no header can carry is
/// withheld; on others the annotation has no effect.
#[tokio::test(start_paused = true)]
async fn t15_a_tool_with_invalid_header_annotations_is_withheld_on_transports_with_headers() {
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
        let connector = TestConnector {
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

/// The specification allows integers in headers only within the safe range of JavaScript: beyond it
/// the call is not sent, with the reason.
#[tokio::test(start_paused = true)]
async fn a_call_with_an_integer_too_large_for_a_header_is_not_sent() {
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
        let connector = TestConnector {
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
        let call_options = call_options(Timeouts::default());
        let calling = tokio::spawn(async move {
            let session = Session::open(&connector, options(Protocol::Modern))
                .await
                .unwrap();
            session
                .call(PermittedCall::new(permit, call_options))
                .await
                .map_err(|fault| *fault)
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
                "not sent: the argument \"shard\" is sent in a header, which allows integers from -9007199254740991 \
                 to 9007199254740991, not 9007199254740993"
                    .to_owned(),
            ))
        };
        assert_eq!(
            calling.await.unwrap().map(drop),
            expected,
            "{sends_headers}, {shard}"
        );
        peer.expect_nothing();
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
async fn f14_only_the_changed_list_is_requested_again() {
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

    peer.send(&json!({"method": "notifications/tools/list_changed"}));
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
    peer.expect_nothing();

    peer.inbound.session_renewed();
    session.list_changed().await;
    let _listing = list(&session);
    peer.expect("tools/list").await;
    peer.expect("prompts/list").await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_list_is_not_requested_again_after_a_reconnect() {
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
    peer.expect_nothing();
    // All pages are as fresh as the one with the shortest lifetime.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let _listing = list(&session);
    peer.expect("tools/list").await;
}
