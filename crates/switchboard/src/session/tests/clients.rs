//! Tests of callers that represent a client: what it did not declare never reaches it, and what it
//! forwards is neither cached nor changed.

use super::*;
use crate::caller::{ForwardedParams, SampleAnswer, Sampling};
use crate::catalog::ToolDefinition;
use crate::catalog::tests::{server, tool};
use crate::config::Fingerprint;
use crate::gate::Decision;

/// The caller of a client that answers a modern server's questions itself.
struct ClientCaller {
    id: CallerId,
    offers: CallerCapabilities,
    forwarded: ForwardedParams,
    handles_input_required: bool,
    asked: Mutex<Vec<&'static str>>,
}

impl ClientCaller {
    fn new(offers: CallerCapabilities) -> Self {
        Self {
            id: CallerId::new("client"),
            offers,
            forwarded: ForwardedParams::default(),
            handles_input_required: true,
            asked: Mutex::default(),
        }
    }

    fn asked(&self) -> Vec<&'static str> {
        self.asked.lock().unwrap().clone()
    }

    fn note(&self, question: &'static str) {
        self.asked.lock().unwrap().push(question);
    }
}

impl Caller for ClientCaller {
    fn id(&self) -> &CallerId {
        &self.id
    }

    fn capabilities(&self) -> CallerCapabilities {
        self.offers
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        self.note("elicitation");
        Box::pin(async { ElicitAnswer::Accept(Default::default()) })
    }

    fn sample<'a>(&'a self, _: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        self.note("sampling");
        Box::pin(async { SampleAnswer::Answer(RawJson::from(json!({}))) })
    }

    fn forwarded(&self) -> Option<&ForwardedParams> {
        Some(&self.forwarded)
    }

    fn handles_input_required(&self) -> bool {
        self.handles_input_required
    }
}

const NOTHING: CallerCapabilities = CallerCapabilities {
    elicit_form: false,
    elicit_url: false,
    sampling: false,
    sampling_tools: false,
};

const ALL: CallerCapabilities = CallerCapabilities {
    elicit_form: true,
    elicit_url: true,
    sampling: true,
    sampling_tools: true,
};

/// Permits all sampling.
#[derive(Debug)]
struct PermittingPolicy;

impl SamplingPolicy for PermittingPolicy {
    fn permit<'a>(
        &'a self,
        _: &'a Sampling,
        _: Fingerprint,
        _: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// A session of this era whose host offers everything, except roots.
async fn opened_offering_all(era: Era) -> (Arc<Session>, ScriptedServer) {
    let sampling_policy: Arc<dyn SamplingPolicy> = Arc::new(PermittingPolicy);
    let options = OpenOptions {
        offers: ALL,
        roots: Roots::new(None),
        sampling_policy: Some(ServerSamplingPolicy {
            policy: sampling_policy,
            launch: Fingerprint([0; 32]),
        }),
        ..options(if era == Era::Modern {
            Protocol::Modern
        } else {
            Protocol::Legacy
        })
    };
    opened_with(era, options).await
}

type Outcome = tokio::task::JoinHandle<Result<RawJson, RequestFault>>;

fn reads(session: &Arc<Session>, client: &Arc<ClientCaller>) -> Outcome {
    let (session, caller) = (session.clone(), client.clone() as Arc<dyn Caller>);
    tokio::spawn(async move { session.read("a:b", &caller, Timeouts::default()).await })
}

fn calls(session: &Arc<Session>, client: &Arc<ClientCaller>) -> Outcome {
    let raw = json!({"name": "errand", "inputSchema": {"type": "object"}});
    let definition = Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap());
    let tool = Arc::new(tool(server("peer"), definition));
    let caller: Arc<dyn Caller> = client.clone();
    let allowed = Decision::Allow {
        because: "a test".into(),
    };
    let permit = allowed
        .permit(&tool, &RawJson::from_value(&json!({})), &caller)
        .unwrap();
    let session = session.clone();
    tokio::spawn(async move {
        let options = call_options(Timeouts::default());
        session
            .call(PermittedCall::new(permit, options))
            .await
            .map_err(|fault| *fault)
    })
}

fn sampling(params: Value) -> Value {
    json!({"q": {"method": "sampling/createMessage", "params": params}})
}

fn plain_sampling() -> Value {
    sampling(json!({"messages": [], "maxTokens": 1}))
}

/// T32: a legacy server has no result that requires input. A client that reads one would answer a
/// question that the gate has not decided on.
#[tokio::test(start_paused = true)]
async fn t32_no_caller_gets_an_incomplete_result_of_a_legacy_server() {
    let (session, mut peer) = opened_offering_all(Era::Legacy).await;
    for handles_input_required in [true, false] {
        let client = Arc::new(ClientCaller {
            handles_input_required,
            ..ClientCaller::new(ALL)
        });
        let outcomes = [calls(&session, &client), reads(&session, &client)];
        for outcome in outcomes {
            let request = peer.next().await;
            let result = json!({"resultType": "input_required", "inputRequests": plain_sampling()});
            peer.answer(&request, result);
            let outcome = outcome.await.unwrap();
            assert!(
                matches!(outcome, Err(RequestFault::Invalid(_))),
                "{} {handles_input_required}: {outcome:?}",
                request["method"]
            );
        }
    }
}

/// T32: nor does the result of a modern server's task require input.
#[tokio::test(start_paused = true)]
async fn t32_the_result_of_a_modern_task_is_complete_or_refused() {
    let (session, mut peer) = opened_offering_all(Era::Modern).await;
    let client = Arc::new(ClientCaller::new(ALL));
    let task = |status: &str| json!({"taskId": "t", "status": status, "pollIntervalMs": 500});
    let cases = [
        (
            json!({"resultType": "input_required", "inputRequests": plain_sampling()}),
            false,
        ),
        (
            json!({"resultType": "input_required", "requestState": "s"}),
            false,
        ),
        (json!({"resultType": "task", "taskId": "u"}), false),
        (json!({"resultType": "dream"}), false),
        (json!({"resultType": "complete", "content": []}), true),
        (json!({"content": []}), true),
    ];
    for (result, is_accepted) in cases {
        let calling = calls(&session, &client);
        let request = peer.expect("tools/call").await;
        let mut created = task("working");
        created["resultType"] = json!("task");
        peer.answer(&request, created);
        let poll = peer.expect("tasks/get").await;
        let mut completed = task("completed");
        completed["result"] = result.clone();
        peer.answer(&poll, completed);
        let outcome = calling.await.unwrap();
        match is_accepted {
            true => assert_eq!(outcome.unwrap().to_value().unwrap(), result),
            false => assert!(
                matches!(outcome, Err(RequestFault::Invalid(_))),
                "{result}: {outcome:?}"
            ),
        }
    }
    peer.expect_nothing();
}

/// T32: a client that answers a modern server's questions itself gets only those that it has
/// declared support for. The host answers the others as for any caller.
#[tokio::test(start_paused = true)]
async fn t32_a_client_gets_no_question_that_it_did_not_declare() {
    let form = json!({"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}});
    let page = json!({"q": {"method": "elicitation/create", "params": {"mode": "url", "message": "?", "url": "https://x.example/p", "elicitationId": "p"}}});
    let roots = json!({"q": {"method": "roots/list"}});
    let unknown = json!({"q": {"method": "secrets/list", "params": {}}});
    let with_tools = sampling(json!({"messages": [], "maxTokens": 1, "tools": []}));
    let forms = CallerCapabilities {
        elicit_form: true,
        ..NOTHING
    };
    let plain = CallerCapabilities {
        sampling: true,
        ..NOTHING
    };
    #[derive(Debug, PartialEq)]
    enum Expected {
        Passed,
        Declined,
        Failed,
    }
    use Expected::{Declined, Failed, Passed};
    let cases = [
        (&form, ALL, Passed),
        (&page, ALL, Passed),
        (&with_tools, ALL, Passed),
        (&form, forms, Passed),
        (&page, forms, Declined),
        (&form, NOTHING, Declined),
        (&page, NOTHING, Declined),
        (&plain_sampling(), plain, Passed),
        (&with_tools, plain, Failed),
        (&plain_sampling(), NOTHING, Failed),
        (&roots, ALL, Failed),
        (&unknown, ALL, Failed),
    ];
    let (session, mut peer) = opened_offering_all(Era::Modern).await;
    for (questions, offers, expected) in cases {
        let client = Arc::new(ClientCaller::new(offers));
        let calling = calls(&session, &client);
        let request = peer.expect("tools/call").await;
        let required = json!({"resultType": "input_required", "inputRequests": questions, "requestState": "s"});
        peer.answer(&request, required.clone());
        let (mut outcome, mut declined) = (None, None);
        let mut calling = calling;
        tokio::select! {
            ended = &mut calling => outcome = Some(ended.unwrap()),
            again = peer.next() => declined = Some(again),
        }
        let seen = match (outcome, declined) {
            (Some(Ok(result)), _) => {
                assert_eq!(result.to_value().unwrap(), required);
                Passed
            }
            (Some(Err(RequestFault::Invalid(_))), _) => Failed,
            (None, Some(again)) => {
                let answered = &again["params"]["inputResponses"];
                assert_eq!(answered, &json!({"q": {"action": "decline"}}));
                calling.abort();
                let _ = calling.await;
                peer.expect("notifications/cancelled").await;
                Declined
            }
            other => panic!("{questions} {offers:?}: {other:?}"),
        };
        assert_eq!(seen, expected, "{questions} {offers:?}");
        assert_eq!(client.asked(), Vec::<&str>::new(), "{questions}");
    }
}

/// A read with other params than the URI is neither answered from the cache nor cached: its result
/// may depend on them.
#[tokio::test(start_paused = true)]
async fn a_read_with_params_of_the_client_bypasses_the_cache() {
    let (session, mut peer) = opened_offering_all(Era::Modern).await;
    let fresh =
        |of: &str| json!({"contents": [], "of": of, "ttlMs": 60_000, "cacheScope": "private"});
    let plain = Arc::new(ClientCaller::new(ALL));
    let client = |forwarded: ForwardedParams| {
        Arc::new(ClientCaller {
            forwarded,
            ..ClientCaller::new(ALL)
        })
    };
    let with_param = |member: &'static str, value: Value| {
        client(ForwardedParams {
            params: vec![(member.into(), RawJson::from(value))],
            ..ForwardedParams::default()
        })
    };
    let with_meta = client(ForwardedParams {
        meta: vec![("com.example/lang".into(), RawJson::from(json!("de")))],
        ..ForwardedParams::default()
    });
    let clients = [
        with_param("requestState", json!("s")),
        with_param("inputResponses", json!({"q": {"action": "accept"}})),
        with_param("range", json!("1")),
        with_meta,
    ];
    // Not cached: the plain request after it is sent.
    for client in &clients {
        let reading = reads(&session, client);
        let request = peer.expect("resources/read").await;
        peer.answer(&request, fresh("other"));
        reading.await.unwrap().unwrap();
    }
    let reading = reads(&session, &plain);
    let request = peer.expect("resources/read").await;
    peer.answer(&request, fresh("plain"));
    reading.await.unwrap().unwrap();
    let cached = reads(&session, &plain).await.unwrap().unwrap();
    assert_eq!(cached.to_value().unwrap(), fresh("plain"));
    peer.expect_nothing();
    // Not answered from the cache.
    for client in &clients {
        let reading = reads(&session, client);
        let request = peer.expect("resources/read").await;
        peer.answer(&request, fresh("other"));
        let result = reading.await.unwrap().unwrap();
        assert_eq!(result.to_value().unwrap(), fresh("other"));
    }
}

/// What a client answered in its own retry is not sent once more when the host answers a later round.
#[tokio::test(start_paused = true)]
async fn a_later_round_repeats_no_answer_of_the_clients_retry() {
    let (session, mut peer) = opened_offering_all(Era::Modern).await;
    let member = |key: &'static str, value: Value| (key.into(), RawJson::from(value));
    let client = Arc::new(ClientCaller {
        handles_input_required: false,
        forwarded: ForwardedParams {
            params: vec![
                member("inputResponses", json!({"old": {"action": "accept"}})),
                member("requestState", json!("old")),
                member("other", json!(1)),
            ],
            ..ForwardedParams::default()
        },
        ..ClientCaller::new(NOTHING)
    });
    let _calling = calls(&session, &client);
    let mut request = peer.expect("tools/call").await;
    assert_eq!(request["params"]["requestState"], "old");
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    let questions = json!({"q": {"method": "elicitation/create", "params": form}});
    let answers = json!({"q": {"action": "decline"}});
    for (required, state, responses) in [
        (json!({"requestState": "new"}), json!("new"), Value::Null),
        (json!({"inputRequests": questions}), Value::Null, answers),
    ] {
        let mut result = required;
        result["resultType"] = json!("input_required");
        peer.answer(&request, result);
        request = peer.expect("tools/call").await;
        let params = &request["params"];
        assert_eq!(
            [
                &params["requestState"],
                &params["inputResponses"],
                &params["other"]
            ],
            [&state, &responses, &json!(1)]
        );
    }
}

/// T31: a request that requires a page fails for a client that did not declare pages.
#[tokio::test(start_paused = true)]
async fn t31_a_client_that_did_not_declare_pages_is_sent_to_none() {
    let (session, mut peer) = opened_offering_all(Era::Legacy).await;
    let client = Arc::new(ClientCaller::new(CallerCapabilities {
        elicit_form: true,
        ..NOTHING
    }));
    let reading = reads(&session, &client);
    let request = peer.expect("resources/read").await;
    let page =
        json!({"mode": "url", "message": "?", "url": "https://x.example/p", "elicitationId": "p"});
    let error = json!({"code": -32042, "message": "first this", "data": {"elicitations": [page]}});
    peer.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    assert!(matches!(
        reading.await.unwrap(),
        Err(RequestFault::ErrorResponse { code: -32042, .. })
    ));
    assert_eq!(client.asked(), Vec::<&str>::new());
    peer.expect_nothing();
}

/// T32: the host's offer of tools in sampling is that of all callers, not of each.
#[tokio::test(start_paused = true)]
async fn t32_sampling_with_tools_reaches_no_client_that_did_not_declare_it() {
    let (session, mut peer) = opened_offering_all(Era::Legacy).await;
    let plain = CallerCapabilities {
        sampling: true,
        ..NOTHING
    };
    for (offers, is_refused) in [(ALL, false), (plain, true)] {
        let client = Arc::new(ClientCaller::new(offers));
        let reading = reads(&session, &client);
        let request = peer.expect("resources/read").await;
        let params = json!({"messages": [], "maxTokens": 1, "tools": []});
        peer.send(&json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params}));
        let answer = peer.next().await;
        match is_refused {
            true => assert_eq!(
                (&answer["error"]["code"], client.asked()),
                (&json!(-32602), vec![])
            ),
            false => assert_eq!(
                (&answer["result"], client.asked()),
                (&json!({}), vec!["sampling"])
            ),
        }
        peer.answer(&request, json!({}));
        reading.await.unwrap().unwrap();
    }
}
