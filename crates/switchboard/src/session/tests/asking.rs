//! Tests of a server's questions: which caller they go to, sampling, roots, URL elicitations.

use super::*;
use crate::caller::{Root, SampleAnswer, Sampling};
use crate::config::{Asks, Fingerprint};
use crate::transport::TransportFault;

/// A caller that answers everything, and records its notices, logs and questions.
struct RecordingCaller {
    id: CallerId,
    offers: CallerCapabilities,
    roots: Option<Vec<Root>>,
    notes: Mutex<Vec<String>>,
    /// The answer to a URL elicitation.
    url_elicitations: ElicitAnswer,
}

const ALL: CallerCapabilities = CallerCapabilities {
    elicit_form: true,
    elicit_url: true,
    sampling: true,
    sampling_tools: false,
};

impl RecordingCaller {
    fn new(name: &'static str) -> Self {
        Self {
            id: CallerId::new(name),
            offers: ALL,
            roots: None,
            notes: Mutex::default(),
            url_elicitations: ElicitAnswer::Accept(Default::default()),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    fn note(&self, line: impl Into<String>) {
        self.notes.lock().unwrap().push(line.into());
    }
}

impl Caller for RecordingCaller {
    fn id(&self) -> &CallerId {
        &self.id
    }

    fn capabilities(&self) -> CallerCapabilities {
        self.offers
    }

    fn roots(&self) -> Option<Vec<Root>> {
        self.roots.clone()
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::No { reason: None } })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        use crate::caller::ElicitationKind::{Form, Url};
        let answer = match &question.kind {
            Form { message, .. } => {
                self.note(format!("form {}", message.raw()));
                ElicitAnswer::Accept(json!({"by": self.id.as_str()}).as_object().unwrap().clone())
            }
            Url { url, .. } => {
                self.note(format!("page {}", url.raw()));
                self.url_elicitations.clone()
            }
        };
        Box::pin(async { answer })
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        self.note(format!("sample {}", request.params.as_str()));
        let answer = format!(r#"{{"model":"m", "by":"{}","n":1.50}}"#, self.id.as_str());
        Box::pin(async { SampleAnswer::Answer(RawJson::parse(answer).unwrap()) })
    }

    fn log(&self, line: &crate::caller::LogLine) {
        self.note(format!("log {}", line.text.raw()));
    }

    fn notice(&self, line: &str) {
        self.note(line);
    }
}

/// Permits all sampling, or refuses it with this reason.
#[derive(Debug)]
struct FixedOverseer(Result<(), String>);

impl SamplingPolicy for FixedOverseer {
    fn permit<'a>(
        &'a self,
        _: &'a Sampling,
        _: Fingerprint,
        _: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { self.0.clone() })
    }
}

fn sampling_options(protocol: Protocol, lets: Result<(), &str>) -> OpenOptions {
    let sampling_policy: Arc<dyn SamplingPolicy> =
        Arc::new(FixedOverseer(lets.map_err(str::to_owned)));
    OpenOptions {
        offers: ALL,
        sampling_policy: Some(ServerSamplingPolicy {
            policy: sampling_policy,
            launch: Fingerprint([0; 32]),
        }),
        ..options(protocol)
    }
}

fn reads(
    session: &Arc<Session>,
    who: &Arc<RecordingCaller>,
) -> tokio::task::JoinHandle<Result<RawJson, RequestFault>> {
    let (session, caller) = (session.clone(), who.clone() as Arc<dyn Caller>);
    tokio::spawn(async move { session.read("a:b", &caller, Timeouts::default()).await })
}

fn id(request: &Value) -> u64 {
    request["id"].as_u64().unwrap()
}

fn form(id: &str, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": message, "requestedSchema": {}}})
}

fn sample(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
}

/// S3-14, S3-15, S3-20: a question on the stream of a response belongs to that call, whichever
/// other callers have calls in flight; callers are not serialised for it.
#[tokio::test(start_paused = true)]
async fn s3_14_a_question_on_a_response_stream_goes_to_that_calls_caller() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let (anna, bert) = (
        Arc::new(RecordingCaller::new("anna")),
        Arc::new(RecordingCaller::new("bert")),
    );
    let first = reads(&session, &anna);
    let of_anna = peer.expect("resources/read").await;
    let second = reads(&session, &bert);
    let of_bert = peer.expect("resources/read").await;
    for (request, name) in [(&of_bert, "bert"), (&of_anna, "anna")] {
        peer.send_on(&form("q", name), MessageOrigin::Response(id(request)));
        let expected = json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "content": {"by": name}}});
        assert_eq!(peer.next().await, expected);
        let log =
            json!({"method": "notifications/message", "params": {"level": "info", "data": name}});
        peer.send_on(&log, MessageOrigin::Response(id(request)));
    }
    assert_eq!(
        [anna.notes(), bert.notes()],
        [["form anna", "log anna"], ["form bert", "log bert"]]
    );
    assert_eq!(
        (session.asks(), session.deviations().unattributed),
        (false, 0)
    );

    // A request that has ended, or has no caller, has no questions.
    peer.answer(&of_anna, json!({}));
    first.await.unwrap().unwrap();
    for request in [id(&of_anna), 1] {
        peer.send_on(&form("late", "?"), MessageOrigin::Response(request));
        assert_eq!(peer.next().await["result"], json!({"action": "decline"}));
    }
    assert_eq!(
        (session.asks(), session.deviations().unattributed),
        (false, 2)
    );
    peer.answer(&of_bert, json!({}));
    second.await.unwrap().unwrap();
}

/// S3-20: a server may ask on behalf of an abandoned call, so no other caller is asked for a while.
#[tokio::test(start_paused = true)]
async fn s3_20_a_question_of_an_abandoned_call_never_goes_to_another_caller() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let (anna, bert) = (
        Arc::new(RecordingCaller::new("anna")),
        Arc::new(RecordingCaller::new("bert")),
    );
    let given_up = reads(&session, &anna);
    let of_anna = peer.expect("resources/read").await;
    given_up.abort();
    peer.expect("notifications/cancelled").await;
    let second = reads(&session, &bert);
    let of_bert = peer.expect("resources/read").await;
    peer.send(&form("whose", "?"));
    assert_eq!(peer.next().await["error"], of_an_abandoned_call());
    assert_eq!(
        (bert.notes(), session.deviations().unattributed),
        (vec![], 1)
    );

    // Once the server has responded, it asks no more on behalf of that request.
    peer.answer(&of_anna, json!({}));
    peer.send(&form("berts", "?"));
    assert_eq!(
        peer.next().await["result"]["content"],
        json!({"by": "bert"})
    );
    peer.answer(&of_bert, json!({}));
    second.await.unwrap().unwrap();
}

/// S3-20: a proxy may end an exchange whose call the server still executes.
#[tokio::test(start_paused = true)]
async fn s3_20_a_question_of_a_lost_call_never_goes_to_another_caller() {
    let status = |status, error: Option<&str>| TransportFault::Status {
        status,
        detail: String::new(),
        retry_after: None,
        error: error.map(|error| error.parse().unwrap()),
    };
    let refused = json!({"error": of_an_abandoned_call()});
    let answered = json!({"result": {"action": "accept", "content": {"by": "bert"}}});
    for (fault, expected) in [
        (
            TransportFault::Lost("the connection ended".to_owned()),
            &refused,
        ),
        (status(502, None), &refused),
        (status(202, None), &refused),
        (status(403, None), &answered),
        (status(500, Some(r#"{"code":1,"message":""}"#)), &answered),
        (
            TransportFault::NotSent("no connection".to_owned()),
            &answered,
        ),
    ] {
        let (session, mut peer) = opened(Era::Legacy).await;
        let (anna, bert) = (
            Arc::new(RecordingCaller::new("anna")),
            Arc::new(RecordingCaller::new("bert")),
        );
        let lost = reads(&session, &anna);
        let of_anna = peer.expect("resources/read").await;
        peer.inbound.failed(id(&of_anna), fault.clone());
        lost.await.unwrap().unwrap_err();
        let _second = reads(&session, &bert);
        peer.expect("resources/read").await;
        peer.send(&form("whose", "?"));
        let reply = peer.next().await;
        for key in ["result", "error"] {
            assert_eq!(reply.get(key), expected.get(key), "{fault:?}");
        }
    }
}

/// S3-20: after an oversized message that is not the response, the server may still ask.
#[tokio::test(start_paused = true)]
async fn s3_20_a_question_of_a_call_with_an_oversized_message_never_goes_to_another_caller() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let (anna, bert) = (
        Arc::new(RecordingCaller::new("anna")),
        Arc::new(RecordingCaller::new("bert")),
    );
    let failed = reads(&session, &anna);
    let of_anna = peer.expect("resources/read").await;
    peer.inbound.oversized_on_stream(id(&of_anna));
    let too_large = RequestFault::TooLarge { limit: 1 << 20 };
    assert_eq!(failed.await.unwrap(), Err(too_large));
    let _second = reads(&session, &bert);
    peer.expect("resources/read").await;
    peer.send(&form("whose", "?"));
    assert_eq!(peer.next().await["error"], of_an_abandoned_call());
}

/// A question that reaches no caller although there is one: nobody has declined it.
fn of_an_abandoned_call() -> Value {
    let message = "a call of another caller was cancelled recently, and this transport does not show which call it belongs to";
    json!({"code": -32000, "message": message})
}

/// S3-20: each request of a client without sessions is a caller of its own, but none is a stranger to
/// the other.
#[tokio::test(start_paused = true)]
async fn s3_20_a_cancelled_request_refuses_no_questions_of_the_same_clients_next_one() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let request = |client: &'static str, number: u64| {
        Arc::new(RecordingCaller {
            id: CallerId::of_request(client, number),
            ..RecordingCaller::new(client)
        })
    };
    let given_up = reads(&session, &request("anna", 1));
    peer.expect("resources/read").await;
    given_up.abort();
    peer.expect("notifications/cancelled").await;
    for (client, expected) in [("anna", json!({"by": "anna#2"})), ("bert", Value::Null)] {
        let next = reads(&session, &request(client, 2));
        let of_next = peer.expect("resources/read").await;
        peer.send(&form("whose", "?"));
        assert_eq!(peer.next().await["result"]["content"], expected);
        peer.answer(&of_next, json!({}));
        next.await.unwrap().unwrap();
    }
}

/// A question that keeps a call of another caller waiting is cancelled before that call's deadline.
#[tokio::test(start_paused = true)]
async fn an_unanswered_question_is_cancelled_for_the_calls_that_wait_for_it() {
    for is_contended in [false, true] {
        let asking = OpenOptions {
            asks: Asks::Yes,
            ..options(Protocol::Legacy)
        };
        let (session, mut peer) = opened_with(Era::Legacy, asking).await;
        let first = tokio::spawn({
            let (session, caller) = (session.clone(), Arc::new(UnansweringCaller));
            async move {
                let caller: Arc<dyn Caller> = caller;
                session.read("a:b", &caller, Timeouts::default()).await
            }
        });
        let bert = Arc::new(RecordingCaller::new("bert"));
        let of_anna = peer.expect("resources/read").await;
        let asked = tokio::time::Instant::now();
        peer.send(&form("q", "?"));
        let second = is_contended.then(|| reads(&session, &bert));
        assert_eq!(peer.next().await["result"], json!({"action": "cancel"}));
        let expected = if is_contended { 30 } else { 300 };
        assert_eq!(asked.elapsed().as_secs(), expected);
        peer.answer(&of_anna, json!({}));
        first.await.unwrap().unwrap();
        if let Some(second) = second {
            let of_bert = peer.expect("resources/read").await;
            peer.answer(&of_bert, json!({}));
            second.await.unwrap().unwrap();
        }
    }
}

/// A caller that is asked everything and answers nothing.
struct UnansweringCaller;

impl Caller for UnansweringCaller {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("silent");
        &ID
    }

    fn capabilities(&self) -> CallerCapabilities {
        ALL
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(std::future::pending())
    }

    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(std::future::pending())
    }

    fn sample<'a>(&'a self, _: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        Box::pin(std::future::pending())
    }
}

/// F28: a question that only an ended call caused is withdrawn, with the response that fits its
/// kind.
#[tokio::test(start_paused = true)]
async fn f28_questions_are_withdrawn_with_the_call_that_caused_them() {
    let (session, mut peer) =
        opened_with(Era::Legacy, sampling_options(Protocol::Legacy, Ok(()))).await;
    let caller: Arc<dyn Caller> = Arc::new(UnansweringCaller);
    let reading = tokio::spawn({
        let session = session.clone();
        async move { session.read("a:b", &caller, Timeouts::default()).await }
    });
    let request = peer.expect("resources/read").await;
    peer.send_on(&form("form", "?"), MessageOrigin::Response(id(&request)));
    peer.send_on(&sample("sample"), MessageOrigin::Response(id(&request)));
    tokio::task::yield_now().await;
    peer.answer(&request, json!({}));
    reading.await.unwrap().unwrap();
    let mut responses = [peer.next().await, peer.next().await];
    responses.sort_by_key(|message| message["id"].to_string());
    assert_eq!(responses[0]["result"], json!({"action": "cancel"}));
    assert_eq!(
        responses[1]["error"],
        json!({"code": -1, "message": "the call that caused it has ended"})
    );
}

/// The id of a question is compared as text, with the escapes that the server wrote.
#[tokio::test(start_paused = true)]
async fn a_cancelled_question_is_withdrawn_whatever_its_id() {
    for question_id in [
        "7",
        "7.0",
        r#""q""#,
        r#""a\u0062\/c""#,
        "-1",
        "12345678901234567890123",
    ] {
        let (session, mut peer) = opened(Era::Legacy).await;
        let reading = read(&session, "a:b", "me");
        let request = peer.expect("resources/read").await;
        let origin = MessageOrigin::Response(id(&request));
        let send = |text: String| {
            parse(&text, &RawJson::keep, &mut |message| {
                peer.inbound.message(message, origin)
            })
            .unwrap();
        };
        let schema = r#"{"type":"object","properties":{}}"#;
        send(format!(
            r#"{{"id":{question_id},"method":"elicitation/create","params":{{"message":"?","requestedSchema":{schema}}}}}"#
        ));
        send(format!(
            r#"{{"method":"notifications/cancelled","params":{{"requestId":{question_id}}}}}"#
        ));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        peer.expect_nothing();
        peer.answer(&request, json!({}));
        reading.await.unwrap().unwrap();
        peer.expect_nothing();
    }
}

/// T32: sampling is advertised where it is offered, permitted by the policy, answered byte for byte,
/// and counted.
#[tokio::test(start_paused = true)]
async fn t32_sampling_is_permitted_answered_and_bounded() {
    let (session, mut peer) =
        opened_with(Era::Legacy, sampling_options(Protocol::Legacy, Ok(()))).await;
    let anna = Arc::new(RecordingCaller::new("anna"));
    let reading = reads(&session, &anna);
    let request = peer.expect("resources/read").await;
    for number in 0..16 {
        peer.send(&sample(&format!("s{number}")));
        assert_eq!(
            peer.next().await["result"],
            json!({"model": "m", "by": "anna", "n": 1.5})
        );
    }
    peer.send(&sample("one more"));
    let expected =
        json!({"code": -1, "message": "at most 16 sampling requests are allowed during one call"});
    assert_eq!(peer.next().await["error"], expected);
    assert_eq!(
        anna.notes().len(),
        17,
        "16 answers, and why there is no more"
    );
    let mut tools = sample("tools");
    tools["params"]["tools"] = json!([]);
    peer.send(&tools);
    let expected =
        json!({"code": -32602, "message": "sampling/createMessage: tools are not offered"});
    assert_eq!(peer.next().await["error"], expected);
    peer.answer(&request, json!({}));
    reading.await.unwrap().unwrap();
}

/// T32: a refusal has the specification's message; the caller gets the reason, the server does not.
#[tokio::test(start_paused = true)]
async fn t32_refused_sampling_never_reaches_the_model() {
    let (session, mut peer) = opened_with(
        Era::Legacy,
        sampling_options(Protocol::Legacy, Err("rule x")),
    )
    .await;
    let anna = Arc::new(RecordingCaller::new("anna"));
    let reading = reads(&session, &anna);
    let request = peer.expect("resources/read").await;
    peer.send(&sample("s"));
    assert_eq!(
        peer.next().await["error"],
        json!({"code": -1, "message": "User rejected sampling request"})
    );
    assert_eq!(
        anna.notes(),
        [r#"a sampling request of server "peer" was refused: rule x"#]
    );
    peer.answer(&request, json!({}));
    reading.await.unwrap().unwrap();
}

/// T32, modern: sampling is declared as the caller offers it, permitted, and answered within the
/// round; a refusal ends the call.
#[tokio::test(start_paused = true)]
async fn t32_modern_sampling_is_answered_in_the_round_and_a_refusal_ends_the_call() {
    let questions = json!({"q": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}});
    let asks = || json!({"resultType": "input_required", "inputRequests": questions});
    let (session, mut peer) =
        opened_with(Era::Modern, sampling_options(Protocol::Modern, Ok(()))).await;
    let anna = Arc::new(RecordingCaller {
        roots: Some(vec![root("file:///annas")]),
        ..RecordingCaller::new("anna")
    });
    let reading = reads(&session, &anna);
    let first = peer.expect("resources/read").await;
    let declared = &first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(
        declared,
        &json!({
            "elicitation": {"form": {}, "url": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
            "sampling": {},
            "roots": {},
        })
    );
    peer.answer(&first, asks());
    let second = peer.expect("resources/read").await;
    assert_eq!(
        second["params"]["inputResponses"],
        json!({"q": {"model": "m", "by": "anna", "n": 1.5}})
    );
    assert_eq!(second["params"].get("requestState"), None);
    let state =
        json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    peer.answer(&second, state);
    let third = peer.expect("resources/read").await;
    assert_eq!(
        third["params"]["inputResponses"],
        json!({"r": {"roots": [{"uri": "file:///annas"}]}}),
        "the caller's own"
    );
    peer.answer(&third, json!({"resultType": "complete"}));
    reading.await.unwrap().unwrap();

    let (session, mut peer) = opened_with(
        Era::Modern,
        sampling_options(Protocol::Modern, Err("rule x")),
    )
    .await;
    let reading = reads(&session, &anna);
    let first = peer.expect("resources/read").await;
    peer.answer(&first, asks());
    let refused = reading.await.unwrap().unwrap_err();
    assert_eq!(refused, RequestFault::Declined("rule x".into()));
    peer.expect_nothing();
    let modest = Arc::new(RecordingCaller {
        offers: CallerCapabilities::default(),
        ..RecordingCaller::new("modest")
    });
    let reading = reads(&session, &modest);
    let first = peer.expect("resources/read").await;
    peer.answer(&first, asks());
    let undeclared = "the server requested \"sampling/createMessage\", which was not offered";
    assert_eq!(
        reading.await.unwrap(),
        Err(RequestFault::Invalid(undeclared.into()))
    );
}

/// Several questions of one round are asked in the server's order.
#[tokio::test(start_paused = true)]
async fn questions_of_one_round_are_asked_in_order() {
    let (session, mut peer) =
        opened_with(Era::Modern, sampling_options(Protocol::Modern, Ok(()))).await;
    let anna = Arc::new(RecordingCaller::new("anna"));
    let reading = reads(&session, &anna);
    let first = peer.expect("resources/read").await;
    let questions: String = (0..9)
        .rev()
        .map(|n| format!(r#","{n}":{{"method":"elicitation/create","params":{{"message":"{n}","requestedSchema":{{}}}}}}"#))
        .collect();
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","inputRequests":{{{}}}}}}}"#,
        first["id"],
        &questions[1..]
    );
    parse(&text, &RawJson::keep, &mut |message| {
        peer.inbound.message(message, MessageOrigin::Shared)
    })
    .unwrap();
    let second = peer.expect("resources/read").await;
    assert_eq!(
        anna.notes(),
        (0..9)
            .rev()
            .map(|n| format!("form {n}"))
            .collect::<Vec<_>>()
    );
    peer.answer(&second, json!({"resultType": "input_required"}));
    assert!(
        matches!(reading.await.unwrap(), Err(RequestFault::Invalid(_))),
        "input of no kind is no question"
    );
}

/// Roots: what is advertised, what is answered, and the notification of a change.
#[tokio::test(start_paused = true)]
async fn legacy_servers_are_notified_of_changed_roots() {
    let options = options(Protocol::Legacy);
    let roots = options.roots.clone();
    let (connector, peer) = wire();
    let open = tokio::spawn(async move { Session::open(&connector, options).await.unwrap() });
    let mut peer = peer.await;
    let request = peer.expect("initialize").await;
    assert_eq!(
        request["params"]["capabilities"]["roots"],
        json!({"listChanged": true})
    );
    peer.answer(
        &request,
        json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
    );
    peer.expect("notifications/initialized").await;
    let session = open.await.unwrap();

    let now = Root {
        uri: "file:///other".to_owned(),
        name: Some("other".to_owned()),
    };
    assert!(roots.set(vec![now]));
    peer.expect("notifications/roots/list_changed").await;
    peer.send(&json!({"id": 1, "method": "roots/list"}));
    assert_eq!(
        peer.next().await["result"],
        json!({"roots": [{"uri": "file:///other", "name": "other"}]})
    );
    assert!(
        !Roots::new(None).set(vec![]),
        "what was not advertised cannot be offered later"
    );
    drop(session);
}

fn page(id: &str) -> Value {
    json!({"mode": "url", "message": "please", "url": format!("https://x.example/{id}"), "elicitationId": id})
}

/// T31, URL mode: accepted without content, completion reported to its caller only, a mode that was
/// not offered refused.
#[tokio::test(start_paused = true)]
async fn t31_only_the_visiting_caller_is_notified_of_a_completed_page() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let (anna, bert) = (
        Arc::new(RecordingCaller::new("anna")),
        Arc::new(RecordingCaller {
            url_elicitations: ElicitAnswer::Decline,
            ..RecordingCaller::new("bert")
        }),
    );
    let readings = [reads(&session, &anna), reads(&session, &bert)];
    let requests = [
        peer.expect("resources/read").await,
        peer.expect("resources/read").await,
    ];
    let of_anna = usize::from(requests[0]["id"].as_u64() > requests[1]["id"].as_u64());
    let ask = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": page(id)});
    peer.send_on(&ask("v1"), MessageOrigin::Response(id(&requests[of_anna])));
    assert_eq!(peer.next().await["result"], json!({"action": "accept"}));
    peer.send_on(
        &ask("v2"),
        MessageOrigin::Response(id(&requests[1 - of_anna])),
    );
    assert_eq!(peer.next().await["result"], json!({"action": "decline"}));
    for done in ["v1", "v2", "v1", "nobody's"] {
        peer.send(&json!({"method": "notifications/elicitation/complete", "params": {"elicitationId": done}}));
    }
    let done = r#"server "peer": the step on its page is complete"#;
    assert_eq!(
        [anna.notes(), bert.notes()],
        [
            vec!["page https://x.example/v1", done],
            vec!["page https://x.example/v2"]
        ]
    );
    requests
        .iter()
        .for_each(|request| peer.answer(request, json!({})));
    for reading in readings {
        reading.await.unwrap().unwrap();
    }

    let forms = CallerCapabilities {
        elicit_url: false,
        ..ALL
    };
    let (_session, mut peer) = opened_with(
        Era::Legacy,
        OpenOptions {
            offers: forms,
            ..options(Protocol::Legacy)
        },
    )
    .await;
    peer.send(&ask("v3"));
    let expected = json!({"code": -32602, "message": "urls are not offered"});
    assert_eq!(peer.next().await["error"], expected);
}

fn needs_pages(request: &Value, ids: &[&str]) -> Value {
    let pages: Vec<Value> = ids.iter().map(|id| page(id)).collect();
    let error = json!({"code": -32042, "message": "first this", "data": {"elicitations": pages}});
    json!({"jsonrpc": "2.0", "id": request["id"], "error": error})
}

/// -32042: the caller is sent to the pages; once they are visited the request, which was not
/// executed, is sent once more.
#[tokio::test(start_paused = true)]
async fn t31_a_request_that_requires_pages_is_sent_once_more_after_the_visits() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let anna = Arc::new(RecordingCaller::new("anna"));
    let reading = reads(&session, &anna);
    let first = peer.expect("resources/read").await;
    peer.send(&needs_pages(&first, &["p1", "p2"]));
    let began = tokio::time::Instant::now();
    for done in ["p2", "p1"] {
        while anna.notes().len() < 2 {
            tokio::task::yield_now().await;
        }
        peer.send(&json!({"method": "notifications/elicitation/complete", "params": {"elicitationId": done}}));
    }
    let second = peer.expect("resources/read").await;
    assert_eq!(
        began.elapsed(),
        Duration::ZERO,
        "the server said that both are done"
    );
    assert_ne!(first["id"], second["id"]);
    assert_eq!(first["params"]["uri"], second["params"]["uri"]);
    peer.send(&needs_pages(&second, &["p3"]));
    assert!(matches!(
        reading.await.unwrap(),
        Err(RequestFault::ErrorResponse { code: -32042, .. })
    ));
    assert_eq!(
        anna.notes()[..2],
        ["page https://x.example/p1", "page https://x.example/p2"]
    );
    peer.expect_nothing();
}

/// -32042: a server need not report completion, and a person may decline.
#[tokio::test(start_paused = true)]
async fn t31_an_unconfirmed_visit_is_followed_by_a_retry_and_a_declined_one_is_not() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = reads(&session, &Arc::new(RecordingCaller::new("anna")));
    let first = peer.expect("resources/read").await;
    peer.send(&needs_pages(&first, &["p"]));
    let began = tokio::time::Instant::now();
    let second = peer.expect("resources/read").await;
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    peer.answer(&second, json!({"contents": []}));
    reading.await.unwrap().unwrap();

    for (url_elicitations, ids) in [
        (ElicitAnswer::Decline, &["p"][..]),
        (ElicitAnswer::Accept(Default::default()), &[]),
    ] {
        let reading = reads(
            &session,
            &Arc::new(RecordingCaller {
                url_elicitations,
                ..RecordingCaller::new("anna")
            }),
        );
        let first = peer.expect("resources/read").await;
        peer.send(&needs_pages(&first, ids));
        assert!(matches!(
            reading.await.unwrap(),
            Err(RequestFault::ErrorResponse { code: -32042, .. })
        ));
        peer.expect_nothing();
    }
}
