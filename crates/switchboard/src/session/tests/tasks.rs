//! Tests of calls that become tasks, of both kinds: completion, questions, cancellation, deadlines.

use std::collections::HashMap;

use tokio::task::JoinHandle;

use super::*;
use crate::caller::Progress;
use crate::catalog::ToolDefinition;
use crate::catalog::tests::{server, tool};
use crate::gate::Decision;
use crate::transport::TransportFault;

const EVERYTHING: &str = r#"{"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}}"#;

/// A caller that answers forms with its name and records progress.
struct ProgressCaller {
    id: CallerId,
    reports: Mutex<Vec<(f64, Option<f64>, String)>>,
}

impl ProgressCaller {
    fn named(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            id: CallerId::new(name),
            reports: Mutex::default(),
        })
    }

    fn reports(&self) -> Vec<(f64, Option<f64>, String)> {
        self.reports.lock().unwrap().clone()
    }
}

impl Caller for ProgressCaller {
    fn id(&self) -> &CallerId {
        &self.id
    }

    fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities {
            elicit_form: true,
            elicit_url: true,
            ..CallerCapabilities::default()
        }
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        assert!(question.tool.is_some(), "the question says whose it is");
        NamedCaller(self.id.clone()).answer()
    }

    fn progress(&self, progress: &Progress) {
        let words = progress
            .message
            .as_ref()
            .map_or("", |words| words.raw())
            .to_owned();
        self.reports
            .lock()
            .unwrap()
            .push((progress.progress, progress.total, words));
    }
}

impl NamedCaller {
    fn answer<'a>(&self) -> BoxFuture<'a, ElicitAnswer> {
        let fields = json!({"by": self.0.as_str()}).as_object().unwrap().clone();
        Box::pin(async { ElicitAnswer::Accept(fields) })
    }
}

/// A legacy session with a server that declares these capabilities, or a modern session.
async fn open(legacy: Option<&str>) -> (Arc<Session>, ScriptedServer) {
    let Some(capabilities) = legacy else {
        return opened(Era::Modern).await;
    };
    let (connector, peer) = wire();
    let open = tokio::spawn(async move {
        Session::open(&connector, options(Protocol::Legacy))
            .await
            .unwrap()
    });
    let mut peer = peer.await;
    let request = peer.expect("initialize").await;
    let capabilities: Value = serde_json::from_str(capabilities).unwrap();
    peer.answer(&request, json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "peer"}}));
    peer.expect("notifications/initialized").await;
    (open.await.unwrap(), peer)
}

/// Calls a tool with this `execution`, in a task of its own.
fn call(
    session: &Arc<Session>,
    execution: Value,
    caller: &Arc<ProgressCaller>,
) -> JoinHandle<Result<RawJson, RequestFault>> {
    let raw = json!({"name": "errand", "inputSchema": {"type": "object"}, "execution": execution});
    let definition = Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap());
    let tool = Arc::new(tool(server("peer"), definition));
    let caller: Arc<dyn Caller> = caller.clone();
    let permit = Decision::Allow {
        because: "a test".into(),
    }
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

fn required() -> Value {
    json!({"taskSupport": "required"})
}

/// A task's state as either kind encodes it: the modern one flat, with units in its names.
fn state(era: Era, status: &str, more: Value) -> Value {
    let mut task = json!({"taskId": "t-1", "status": status, "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"});
    match era {
        Era::Legacy => (task["ttl"], task["pollInterval"]) = (json!(60_000), json!(500)),
        Era::Modern => (task["ttlMs"], task["pollIntervalMs"]) = (json!(60_000), json!(500)),
    }
    for (key, value) in more.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

fn created(era: Era) -> Value {
    match era {
        Era::Legacy => json!({"task": state(era, "working", json!({"statusMessage": "begun"}))}),
        Era::Modern => state(
            era,
            "working",
            json!({"resultType": "task", "statusMessage": "begun"}),
        ),
    }
}

impl ScriptedServer {
    /// Responds with these bytes as the result.
    fn answer_bytes(&self, request: &Value, result: &str) {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
            request["id"]
        );
        parse(&text, &RawJson::keep, &mut |message| {
            self.inbound.message(message, MessageOrigin::Shared)
        })
        .unwrap();
    }

    /// Responds to the next poll with this state.
    async fn polled(&mut self, era: Era, status: &str, more: Value) {
        let poll = self.expect("tasks/get").await;
        assert_eq!(poll["params"]["taskId"], "t-1");
        self.answer(&poll, state(era, status, more));
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_tasks_result_is_the_calls_result_byte_for_byte() {
    let (session, mut peer) = open(None).await;
    let watcher = ProgressCaller::named("anna");
    let started = tokio::time::Instant::now();
    let calling = call(&session, json!({}), &watcher);
    let request = peer.expect("tools/call").await;
    let declared = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(
        declared["extensions"],
        json!({"io.modelcontextprotocol/tasks": {}})
    );
    assert_eq!(request["params"].get("task"), None);
    peer.answer(&request, created(Era::Modern));
    peer.polled(Era::Modern, "working", json!({"statusMessage": "begun"}))
        .await;
    peer.polled(
        Era::Modern,
        "working",
        json!({"statusMessage": "half", "resultType": "complete"}),
    )
    .await;
    let poll = peer.expect("tasks/get").await;
    assert_eq!(
        poll["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"],
        *declared
    );
    assert_eq!(started.elapsed(), Duration::from_millis(1_500));
    let odd = r#"{"z":1e400, "content":[{"type":"hologram","x":12345678901234567890123}],"isError":true ,"z":0.70}"#;
    peer.answer_bytes(
        &poll,
        &format!(r#"{{"resultType":"complete","taskId":"t-1","result":{odd},"status":"completed","ttlMs":null}}"#),
    );
    assert_eq!(calling.await.unwrap().unwrap().as_str(), odd);
    assert_eq!(
        watcher.reports(),
        [
            (1.0, None, "begun".to_owned()),
            (2.0, None, "half".to_owned())
        ]
    );
    peer.expect_nothing();
}

/// An input request is answered once, however often the server repeats it.
#[tokio::test(start_paused = true)]
async fn a_modern_tasks_question_is_answered_by_its_caller_once() {
    let (session, mut peer) = open(None).await;
    let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    peer.answer(&request, created(Era::Modern));
    let form = |words: &str| {
        let schema = json!({"type": "object", "properties": {"by": {"type": "string"}}});
        json!({"method": "elicitation/create", "params": {"mode": "form", "message": words, "requestedSchema": schema}})
    };
    peer.polled(
        Era::Modern,
        "input_required",
        json!({"inputRequests": {"a": form("who?")}}),
    )
    .await;
    let update = peer.expect("tasks/update").await;
    assert_eq!(update["params"]["taskId"], "t-1");
    assert_eq!(
        update["params"]["inputResponses"],
        json!({"a": {"action": "accept", "content": {"by": "anna"}}})
    );
    peer.answer(&update, json!({"resultType": "complete"}));
    peer.polled(
        Era::Modern,
        "input_required",
        json!({"inputRequests": {"a": form("who?")}}),
    )
    .await;
    peer.polled(
        Era::Modern,
        "input_required",
        json!({"inputRequests": {"a": form("who?"), "b": form("really?")}}),
    )
    .await;
    let update = peer.expect("tasks/update").await;
    assert_eq!(
        update["params"]["inputResponses"],
        json!({"b": {"action": "accept", "content": {"by": "anna"}}})
    );
    peer.answer(&update, json!({"resultType": "complete"}));
    peer.polled(Era::Modern, "completed", json!({"result": {"content": []}}))
        .await;
    assert_eq!(
        calling.await.unwrap().unwrap().as_str(),
        r#"{"content":[]}"#
    );
}

#[test]
fn each_task_fault_is_one_sentence() {
    for (fault, expected) in [
        (TaskFault::Failed(None), "the task failed"),
        (
            TaskFault::Failed(Some("no ink".into())),
            "the task failed: no ink",
        ),
        (TaskFault::Cancelled(None), "the server cancelled the task"),
        (
            TaskFault::Cancelled(Some("too dear".into())),
            "the server cancelled the task: too dear",
        ),
        (
            TaskFault::Expired("no".into()),
            "the task expired before its result was fetched: no",
        ),
    ] {
        assert_eq!(RequestFault::Task(fault).to_string(), expected);
    }
}

/// The ends of a modern task other than a result.
#[tokio::test(start_paused = true)]
async fn a_failed_modern_task_reports_why() {
    let words = |words: &str| Some(words.to_owned());
    let cases = [
        (
            "failed",
            json!({"error": {"code": -32603, "message": "no paper"}}),
            RequestFault::ErrorResponse {
                code: -32603,
                message: "no paper".into(),
                data: None,
            },
        ),
        (
            "failed",
            json!({"statusMessage": "no ink\u{1b}[2J"}),
            RequestFault::Task(TaskFault::Failed(words(r"no ink\u{1b}[2J"))),
        ),
        (
            "cancelled",
            json!({}),
            RequestFault::Task(TaskFault::Cancelled(None)),
        ),
        (
            "cancelled",
            json!({"statusMessage": "too dear"}),
            RequestFault::Task(TaskFault::Cancelled(words("too dear"))),
        ),
        (
            "completed",
            json!({}),
            RequestFault::Invalid("a completed task without its result".into()),
        ),
    ];
    for (status, more, expected) in cases {
        let (session, mut peer) = open(None).await;
        let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        peer.answer(&request, created(Era::Modern));
        peer.polled(Era::Modern, status, more).await;
        assert_eq!(calling.await.unwrap(), Err(expected));
        peer.expect_nothing();
    }
}

/// P5: the task is running, so an error of a poll is no reason to repeat the call.
#[tokio::test(start_paused = true)]
async fn p5_a_header_mismatch_means_not_executed_only_in_the_first_response() {
    let expected = |code| RequestFault::ErrorResponse {
        code,
        message: "no".into(),
        data: None,
    };
    let (session, mut peer) = open(None).await;
    let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    peer.answer(&request, created(Era::Modern));
    let poll = peer.expect("tasks/get").await;
    peer.respond_error(&poll, -32020);
    assert_eq!(calling.await.unwrap(), Err(expected(-32020)));
    peer.expect("tasks/cancel").await;

    let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    peer.answer(
        &request,
        json!({"resultType": "input_required", "requestState": "half way"}),
    );
    let request = peer.expect("tools/call").await;
    peer.respond_error(&request, -32020);
    assert_eq!(calling.await.unwrap(), Err(expected(-32020)));

    let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    peer.respond_error(&request, -32020);
    assert_eq!(
        calling.await.unwrap(),
        Err(RequestFault::HeaderMismatch {
            message: "no".into(),
            data: None
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_server_forgot_is_an_error_and_is_not_cancelled() {
    for legacy in [Some(EVERYTHING), None] {
        let era = if legacy.is_some() {
            Era::Legacy
        } else {
            Era::Modern
        };
        let (session, mut peer) = open(legacy).await;
        let calling = call(&session, required(), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        peer.answer(&request, created(era));
        let poll = peer.expect("tasks/get").await;
        peer.respond_error(&poll, -32602);
        assert_eq!(
            calling.await.unwrap(),
            Err(RequestFault::Task(TaskFault::Expired("no".into())))
        );
        peer.expect_nothing();
    }
}

/// F28: also while no request is in flight.
#[tokio::test(start_paused = true)]
async fn f28_dropping_a_call_cancels_its_task() {
    for legacy in [Some(EVERYTHING), None] {
        let era = if legacy.is_some() {
            Era::Legacy
        } else {
            Era::Modern
        };
        let (session, mut peer) = open(legacy).await;
        let calling = call(&session, required(), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        peer.answer(&request, created(era));
        peer.polled(era, "working", json!({})).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        calling.abort();
        let cancel = peer.expect("tasks/cancel").await;
        assert_eq!(cancel["params"]["taskId"], "t-1");
        peer.answer(&cancel, json!({"resultType": "complete"}));
        assert_eq!(session.deviations().unknown_ids, 0);
        peer.expect_nothing();
    }
}

/// A legacy request that creates a task is not cancelled by a notification.
#[tokio::test(start_paused = true)]
async fn f28_dropping_a_call_before_its_task_is_created_cancels_the_task_later() {
    let (session, mut peer) = open(Some(EVERYTHING)).await;
    let calling = call(&session, required(), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    calling.abort();
    let _ = calling.await;
    peer.expect_nothing();
    peer.answer(&request, created(Era::Legacy));
    assert_eq!(peer.expect("tasks/cancel").await["params"]["taskId"], "t-1");
}

/// A legacy request that creates a task is not cancelled by a notification.
#[tokio::test(start_paused = true)]
async fn p1_a_task_that_is_created_after_the_deadline_is_cancelled() {
    let (session, mut peer) = open(Some(EVERYTHING)).await;
    let calling = call(&session, required(), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    let fault = calling.await.unwrap().unwrap_err();
    assert!(matches!(fault, RequestFault::Timeout { .. }), "{fault:?}");
    peer.expect_nothing();
    peer.answer(&request, created(Era::Legacy));
    assert_eq!(peer.expect("tasks/cancel").await["params"]["taskId"], "t-1");
    assert_eq!(session.deviations().unknown_ids, 0);
}

#[tokio::test(start_paused = true)]
async fn f28_unanswered_requests_of_a_dropped_task_release_their_room() {
    let (session, mut peer) = open(Some(EVERYTHING)).await;
    for is_created in [false, true] {
        let calling = call(&session, required(), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        calling.abort();
        let _ = calling.await;
        let unanswered = if is_created {
            peer.answer(&request, created(Era::Legacy));
            let cancel = peer.expect("tasks/cancel").await;
            let cancelled = peer.expect("notifications/cancelled").await;
            assert_eq!(cancelled["params"]["requestId"], cancel["id"]);
            cancel
        } else {
            tokio::time::sleep(Duration::from_secs(11)).await;
            peer.expect_nothing();
            request
        };
        let released = std::mem::take(&mut *peer.released.lock().unwrap());
        assert_eq!(released, [unanswered["id"].as_u64().unwrap()]);
    }
}

/// A server that answers polls is alive, so only the total deadline applies.
#[tokio::test(start_paused = true)]
async fn p1_a_task_is_cancelled_at_the_total_deadline() {
    for legacy in [Some(EVERYTHING), None] {
        let era = if legacy.is_some() {
            Era::Legacy
        } else {
            Era::Modern
        };
        let (session, mut peer) = open(legacy).await;
        let started = tokio::time::Instant::now();
        let calling = call(&session, required(), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        peer.answer(&request, created(era));
        let cancel = loop {
            let message = peer.next().await;
            match message["method"].as_str() {
                Some("tasks/get") => peer.answer(&message, state(era, "working", json!({}))),
                _ => break message,
            }
        };
        assert_eq!(
            (&cancel["method"], &cancel["params"]["taskId"]),
            (&json!("tasks/cancel"), &json!("t-1"))
        );
        assert_eq!(
            calling.await.unwrap(),
            Err(RequestFault::Timeout {
                after: Duration::from_secs(600),
                total: true
            })
        );
        assert_eq!(started.elapsed(), Duration::from_secs(600));
    }
}

/// A server that does not answer polls is silent.
#[tokio::test(start_paused = true)]
async fn f1_a_poll_without_a_response_is_late_at_the_idle_deadline() {
    let (session, mut peer) = open(None).await;
    let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    peer.answer(&request, created(Era::Modern));
    peer.expect("tasks/get").await;
    assert_eq!(
        calling.await.unwrap(),
        Err(RequestFault::Timeout {
            after: Duration::from_secs(60),
            total: false
        })
    );
    peer.expect("notifications/cancelled").await;
    peer.expect("tasks/cancel").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_ends_a_task() {
    let (session, mut peer) = open(None).await;
    let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    let started = tokio::time::Instant::now();
    peer.answer(
        &request,
        state(
            Era::Modern,
            "working",
            json!({"resultType": "task", "pollIntervalMs": 4_000}),
        ),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    peer.inbound.closed("it exited".into());
    assert_eq!(
        calling.await.unwrap(),
        Err(RequestFault::Closed("it exited".into()))
    );
    assert_eq!(started.elapsed(), Duration::from_secs(1));
}

/// Only if the tool requires it, and the server and the revision support it.
#[tokio::test(start_paused = true)]
async fn a_legacy_tool_is_called_as_a_task_only_if_it_requires_that() {
    let cases = [
        (EVERYTHING, required(), true),
        (EVERYTHING, json!({"taskSupport": "optional"}), false),
        (EVERYTHING, json!({"taskSupport": "forbidden"}), false),
        (EVERYTHING, json!({}), false),
        (r#"{"tasks":{"list":{}}}"#, required(), false),
        ("{}", required(), false),
    ];
    for (capabilities, execution, is_task) in cases {
        let (session, mut peer) = open(Some(capabilities)).await;
        let calling = call(&session, execution.clone(), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        let task = is_task.then(|| json!({"ttl": 900_000}));
        assert_eq!(
            request["params"].get("task"),
            task.as_ref(),
            "{capabilities} {execution}"
        );
        // The server may respond with the result at once.
        peer.answer(&request, json!({"content": []}));
        assert_eq!(
            calling.await.unwrap().unwrap().as_str(),
            r#"{"content":[]}"#
        );
    }
}

/// The token of the first request stays valid for as long as the task lives.
#[tokio::test(start_paused = true)]
async fn a_legacy_task_is_polled_with_progress_and_its_result_is_fetched() {
    let (session, mut peer) = open(Some(EVERYTHING)).await;
    let watcher = ProgressCaller::named("anna");
    let calling = call(&session, required(), &watcher);
    let request = peer.expect("tools/call").await;
    peer.answer(&request, created(Era::Legacy));
    peer.polled(Era::Legacy, "working", json!({})).await;
    let token = &request["params"]["_meta"]["progressToken"];
    peer.send(&json!({"method": "notifications/progress", "params": {"progressToken": token, "progress": 3, "total": 4, "message": "far"}}));
    peer.polled(Era::Legacy, "working", json!({"statusMessage": "nearly"}))
        .await;
    peer.polled(Era::Legacy, "completed", json!({"statusMessage": "nearly"}))
        .await;
    let fetch = peer.expect("tasks/result").await;
    assert_eq!(fetch["params"]["taskId"], "t-1");
    let odd = r#"{"content":[ ],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}},"n":1.10}"#;
    peer.answer_bytes(&fetch, odd);
    assert_eq!(calling.await.unwrap().unwrap().as_str(), odd);
    let reports = [
        (1.0, None, "begun"),
        (3.0, Some(4.0), "far"),
        (3.0, Some(4.0), "nearly"),
    ];
    assert_eq!(
        watcher.reports(),
        reports.map(|(progress, total, words)| (progress, total, words.to_owned()))
    );
    peer.expect_nothing();
}

/// S3-16: also while the only request in flight is another caller's.
#[tokio::test(start_paused = true)]
async fn s3_16_a_question_of_a_legacy_task_reaches_the_tasks_caller() {
    let (session, mut peer) = open(Some(EVERYTHING)).await;
    let calling = call(&session, required(), &ProgressCaller::named("anna"));
    let request = peer.expect("tools/call").await;
    peer.answer(&request, created(Era::Legacy));
    peer.polled(Era::Legacy, "working", json!({})).await;
    let other = call(&session, json!({}), &ProgressCaller::named("bert"));
    let other_request = peer.expect("tools/call").await;
    let schema = json!({"type": "object", "properties": {}});
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
    let question = |id: &str, meta: &Value| {
        let params = json!({"message": "who?", "requestedSchema": schema, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
    };
    peer.send(&question("of the task", &related));
    let result = json!({"action": "accept", "content": {"by": "anna"}, "_meta": related});
    assert_eq!(
        peer.next().await,
        json!({"jsonrpc": "2.0", "id": "of the task", "result": result})
    );
    // A question of an unknown task, or of none while two callers have calls in flight, belongs to
    // no caller.
    let unknown = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-2"}});
    for (id, meta, answered) in [
        ("unknown", &unknown, (json!("decline"), Value::Null)),
        ("unsaid", &json!({}), (Value::Null, json!(-32000))),
    ] {
        peer.send(&question(id, meta));
        let answer = peer.next().await;
        let (action, code) = answered;
        assert_eq!(
            [
                &answer["id"],
                &answer["result"]["action"],
                &answer["error"]["code"]
            ],
            [&json!(id), &action, &code]
        );
    }
    peer.answer(&other_request, json!({"content": []}));
    other.await.unwrap().unwrap();
    calling.abort();
    peer.expect("tasks/cancel").await;
}

/// `input_required`: while `tasks/result` is open the question is asked and the state is polled.
#[tokio::test(start_paused = true)]
async fn a_legacy_task_that_requires_input_has_its_question_answered() {
    let (session, mut peer) = open(Some(EVERYTHING)).await;
    let watcher = ProgressCaller::named("anna");
    let calling = call(&session, required(), &watcher);
    let request = peer.expect("tools/call").await;
    peer.answer(&request, created(Era::Legacy));
    peer.polled(
        Era::Legacy,
        "input_required",
        json!({"statusMessage": "who?"}),
    )
    .await;
    let fetch = peer.expect("tasks/result").await;
    let schema = json!({"type": "object", "properties": {}});
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
    let params = json!({"message": "who?", "requestedSchema": schema, "_meta": related});
    peer.send(
        &json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}),
    );
    assert_eq!(
        peer.next().await["result"]["content"],
        json!({"by": "anna"})
    );
    peer.polled(Era::Legacy, "working", json!({"statusMessage": "on"}))
        .await;
    peer.polled(Era::Legacy, "completed", json!({})).await;
    peer.answer(&fetch, json!({"content": []}));
    assert_eq!(
        calling.await.unwrap().unwrap().as_str(),
        r#"{"content":[]}"#
    );
    assert_eq!(
        watcher
            .reports()
            .into_iter()
            .map(|reports| reports.2)
            .collect::<Vec<_>>(),
        ["begun", "who?", "on"]
    );
    peer.expect_nothing();
}

/// The result states how the task failed; an error also quotes the task's status message.
#[tokio::test(start_paused = true)]
async fn a_failed_legacy_task_fails_its_call_with_the_same_error() {
    let (session, mut peer) = open(Some(EVERYTHING)).await;
    for is_error in [false, true] {
        let calling = call(&session, required(), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        peer.answer(&request, created(Era::Legacy));
        peer.polled(Era::Legacy, "failed", json!({"statusMessage": "no paper"}))
            .await;
        let fetch = peer.expect("tasks/result").await;
        if is_error {
            peer.respond_error(&fetch, -32603);
            let message = "no (of the task: no paper)".to_owned();
            assert_eq!(
                calling.await.unwrap(),
                Err(RequestFault::ErrorResponse {
                    code: -32603,
                    message,
                    data: None
                })
            );
        } else {
            peer.answer(&fetch, json!({"isError": true}));
            assert_eq!(
                calling.await.unwrap().unwrap().as_str(),
                r#"{"isError":true}"#
            );
        }
        peer.expect_nothing();
    }
}

/// T31: after -32042 instead of a task, or as its outcome, the call was not executed: it is
/// repeated once after the visit.
#[tokio::test(start_paused = true)]
async fn t31_a_legacy_task_that_requires_a_page_is_created_once_more_after_the_visit() {
    let page = json!({"mode": "url", "message": "log in", "url": "https://x.example/p", "elicitationId": "p"});
    let error = json!({"code": -32042, "message": "first this", "data": {"elicitations": [page]}});
    let needs = |request: &Value| json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
    for is_created_first in [false, true] {
        let (session, mut peer) = open(Some(EVERYTHING)).await;
        let calling = call(&session, required(), &ProgressCaller::named("anna"));
        let first = peer.expect("tools/call").await;
        if is_created_first {
            peer.answer(&first, created(Era::Legacy));
            peer.polled(Era::Legacy, "failed", json!({})).await;
            let fetch = peer.expect("tasks/result").await;
            peer.send(&needs(&fetch));
        } else {
            peer.send(&needs(&first));
        }
        let second = peer.expect("tools/call").await;
        assert_ne!(first["id"], second["id"]);
        assert_eq!(first["params"]["task"], second["params"]["task"]);
        peer.answer(&second, created(Era::Legacy));
        peer.polled(Era::Legacy, "completed", json!({})).await;
        let fetch = peer.expect("tasks/result").await;
        peer.answer(&fetch, json!({"content": []}));
        assert_eq!(
            calling.await.unwrap().unwrap().as_str(),
            r#"{"content":[]}"#,
            "{is_created_first}"
        );
        peer.expect_nothing();
    }
}

/// After a report of a change the next poll is sent at once, at most every 100 ms. A modern server
/// is asked to report changes if polls are far apart.
#[tokio::test(start_paused = true)]
async fn a_reported_change_is_polled_before_the_next_interval() {
    for legacy in [Some(EVERYTHING), None] {
        let (era, method) = if legacy.is_some() {
            (Era::Legacy, "notifications/tasks/status")
        } else {
            (Era::Modern, "notifications/tasks")
        };
        let interval = if legacy.is_some() {
            "pollInterval"
        } else {
            "pollIntervalMs"
        };
        let (session, mut peer) = open(legacy).await;
        let calling = call(&session, required(), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        let mut first = created(era);
        let first_task = if era == Era::Legacy {
            &mut first["task"]
        } else {
            &mut first
        };
        first_task[interval] = json!(90_000);
        peer.answer(&request, first);
        if era == Era::Modern {
            let listen = peer.expect("subscriptions/listen").await;
            assert_eq!(
                listen["params"]["notifications"],
                json!({"taskIds": ["t-1"]})
            );
        }
        let started = tokio::time::Instant::now();
        for _ in 0..5 {
            peer.send(&json!({"jsonrpc": "2.0", "method": method, "params": state(era, "working", json!({}))}));
        }
        peer.polled(era, "working", json!({interval: 90_000})).await;
        assert_eq!(started.elapsed(), Duration::from_millis(100));
        // Without a report of a change the task is polled at the longest interval.
        peer.polled(era, "completed", json!({"result": {}})).await;
        assert_eq!(started.elapsed(), Duration::from_millis(30_100));
        match era {
            Era::Legacy => {
                let fetch = peer.expect("tasks/result").await;
                peer.answer(&fetch, json!({}));
            }
            Era::Modern => assert_eq!(
                peer.expect("notifications/cancelled").await["params"]["requestId"],
                3
            ),
        }
        assert_eq!(calling.await.unwrap().unwrap().as_str(), "{}");
    }
}

/// Each `subscriptions/listen` request occupies one of the request slots that polls need.
#[tokio::test(start_paused = true)]
async fn the_number_of_tasks_with_a_listen_request_is_bounded() {
    let (session, mut peer) = open(None).await;
    let calls: Vec<_> = (0..40)
        .map(|_| call(&session, json!({}), &ProgressCaller::named("anna")))
        .collect();
    for number in 0..40 {
        let request = peer.expect("tools/call").await;
        let slow = json!({"resultType": "task", "taskId": format!("t-{number}"), "pollIntervalMs": 30_000});
        peer.answer(&request, state(Era::Modern, "working", slow));
    }
    let mut listens = 0;
    loop {
        let request = peer.next().await;
        match request["method"].as_str() {
            Some("subscriptions/listen") => listens += 1,
            _ => break assert_eq!(request["method"], "tasks/get"),
        }
    }
    assert_eq!(listens, 32);
    calls.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn parallel_tasks_are_not_mixed() {
    let (session, mut peer) = open(None).await;
    let calls: Vec<_> = (0..100)
        .map(|_| call(&session, json!({}), &ProgressCaller::named("anna")))
        .collect();
    let mut polls: HashMap<String, u32> = HashMap::new();
    let (mut begun, mut open_tasks) = (0_u32, 100);
    while open_tasks > 0 {
        let message = peer.next().await;
        match message["method"].as_str() {
            Some("tools/call") => {
                peer.answer(
                    &message,
                    state(
                        Era::Modern,
                        "working",
                        json!({"resultType": "task", "taskId": format!("t-{begun}")}),
                    ),
                );
                begun += 1;
            }
            _ => {
                let id = message["params"]["taskId"].as_str().unwrap().to_owned();
                let count = polls
                    .entry(id.clone())
                    .and_modify(|count| *count += 1)
                    .or_insert(1);
                let number: u32 = id[2..].parse().unwrap();
                let is_done = *count > (100 - number) / 20;
                open_tasks -= i32::from(is_done);
                let status = if is_done { "completed" } else { "working" };
                peer.answer(
                    &message,
                    state(
                        Era::Modern,
                        status,
                        json!({"taskId": id, "result": {"of": id}}),
                    ),
                );
            }
        }
    }
    // The calls began in the order of their request ids.
    for (number, calling) in calls.into_iter().enumerate() {
        assert_eq!(
            calling.await.unwrap().unwrap().as_str(),
            format!(r#"{{"of":"t-{number}"}}"#)
        );
    }
}

/// A poll only reads: if the transport loses it, it is repeated, up to three consecutive times.
#[tokio::test(start_paused = true)]
async fn a_poll_that_the_transport_loses_is_repeated() {
    let lost = || TransportFault::Lost("the connection broke".into());
    let (session, mut peer) = open(None).await;
    for losses in [3, 4] {
        let calling = call(&session, json!({}), &ProgressCaller::named("anna"));
        let request = peer.expect("tools/call").await;
        peer.answer(&request, created(Era::Modern));
        for _ in 0..losses {
            let poll = peer.expect("tasks/get").await;
            peer.inbound.failed(poll["id"].as_u64().unwrap(), lost());
        }
        if losses == 3 {
            peer.polled(Era::Modern, "completed", json!({"result": {}}))
                .await;
            assert_eq!(calling.await.unwrap().unwrap().as_str(), "{}");
        } else {
            assert_eq!(calling.await.unwrap(), Err(RequestFault::Transport(lost())));
            peer.expect("tasks/cancel").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_tool_call_may_become_a_task() {
    let (session, mut peer) = open(None).await;
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    peer.answer(&request, created(Era::Modern));
    assert_eq!(
        reading.await.unwrap(),
        Err(RequestFault::Invalid(
            "a task in response to resources/read".into()
        ))
    );
}
