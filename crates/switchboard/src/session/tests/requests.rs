//! Tests of requests in flight: deadlines, cancellation, progress, questions in both eras,
//! deviations.

use super::*;
use crate::secret::{Redactor, Secret};
use crate::wire::{OversizedMessage, RequestId};

fn form(id: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"by": {"type": "string"}, "size": {"type": "string", "default": "L"}}});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "who?", "requestedSchema": schema}})
}

/// F1, S1-23: at the deadline the request fails, `notifications/cancelled` is sent, and the session
/// goes on.
#[tokio::test(start_paused = true)]
async fn f1_s1_23_a_late_request_is_cancelled_and_its_response_ignored() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    assert_eq!(
        reading.await.unwrap(),
        Err(RequestFault::Timeout {
            after: Duration::from_secs(60),
            total: false
        })
    );
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    peer.answer(&request, json!({"late": true}));
    assert_eq!(session.deviations().unknown_ids, 1);
    let again = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    peer.answer(&request, json!({"contents": []}));
    assert_eq!(again.await.unwrap().unwrap().as_str(), r#"{"contents":[]}"#);
}

/// F28: a dropped future cancels its request.
#[tokio::test(start_paused = true)]
async fn f28_dropping_a_call_cancels_its_request() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    reading.abort();
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
}

/// P1, C10: progress extends a request's deadline, up to the maximum.
#[tokio::test(start_paused = true)]
async fn p1_progress_extends_a_request_up_to_the_maximum() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let started = tokio::time::Instant::now();
    let mut reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    let token = request["params"]["_meta"]["progressToken"].clone();
    let outcome = loop {
        tokio::select! {
            outcome = &mut reading => break outcome.unwrap(),
            () = tokio::time::sleep(Duration::from_secs(50)) => {
                peer.send(&json!({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}));
            }
        }
    };
    assert_eq!(
        outcome,
        Err(RequestFault::Timeout {
            after: Duration::from_secs(600),
            total: true
        })
    );
    assert_eq!(started.elapsed(), Duration::from_secs(600));
}

/// S3-16, S0-35: a question goes to the caller whose call is in flight; defaults fill in omitted
/// fields (SEP-1034).
#[tokio::test(start_paused = true)]
async fn s3_16_a_question_reaches_the_caller_whose_call_caused_it() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = read(&session, "a:b", "anna");
    let request = peer.expect("resources/read").await;
    peer.send(&form("q1"));
    let answer = peer.next().await;
    let expected = json!({"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept", "content": {"by": "anna", "size": "L"}}});
    assert_eq!(answer, expected);
    peer.answer(&request, json!({}));
    reading.await.unwrap().unwrap();
    assert!(session.asks());
}

/// S3-18, S3-20: with calls of two callers in flight, a question is answered with an error that says
/// why, without any it is declined; both are counted.
#[tokio::test(start_paused = true)]
async fn s3_20_a_question_that_may_belong_to_several_callers_reaches_none() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = [read(&session, "a:b", "anna"), read(&session, "a:b", "bert")];
    let requests = [
        peer.expect("resources/read").await,
        peer.expect("resources/read").await,
    ];
    peer.send(&form("whose"));
    let several = "calls of several callers are in flight, and this transport does not show which call it belongs to";
    assert_eq!(
        peer.next().await,
        json!({"jsonrpc": "2.0", "id": "whose", "error": {"code": -32000, "message": several}})
    );
    requests
        .iter()
        .for_each(|request| peer.answer(request, json!({})));
    for read in reading {
        read.await.unwrap().unwrap();
    }
    peer.send(&form("nobody"));
    assert_eq!(
        peer.next().await,
        json!({"jsonrpc": "2.0", "id": "nobody", "result": {"action": "decline"}})
    );
    assert_eq!(session.deviations().unattributed, 2);
}

/// On a legacy session every request gets a response: a supported one a result, any other -32601
/// (T32).
#[tokio::test(start_paused = true)]
async fn t32_every_request_of_a_legacy_server_is_answered() {
    let (_session, mut peer) = opened(Era::Legacy).await;
    peer.send(&json!({"id": 1, "method": "ping"}));
    assert_eq!(
        peer.next().await,
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
    peer.send(&json!({"id": "r", "method": "roots/list"}));
    assert_eq!(
        peer.next().await,
        json!({"jsonrpc": "2.0", "id": "r", "result": {"roots": [{"uri": "file:///work"}]}})
    );
    peer.send(&json!({"id": 2, "method": "sampling/createMessage", "params": {}}));
    let refused = peer.next().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(2), &json!(-32601))
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_on_a_modern_session_is_counted_and_not_answered() {
    let (session, mut peer) = opened(Era::Modern).await;
    peer.send(&json!({"id": 1, "method": "ping"}));
    peer.expect_nothing();
    assert_eq!(session.deviations().forbidden_requests, 1);
}

/// Modern: questions come in a result; the answers are sent with a new id and the unchanged state.
#[tokio::test(start_paused = true)]
async fn input_required_is_answered_with_a_new_id_and_the_same_state() {
    let (session, mut peer) = opened(Era::Modern).await;
    let reading = read(&session, "a:b", "anna");
    let first = peer.expect("resources/read").await;
    let declared = &first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(
        declared,
        &json!({"elicitation": {"form": {}}, "roots": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}),
        "what this caller offers, no more"
    );
    let state = " a \"state\" é ";
    let questions = json!({
        "name": {"method": "elicitation/create", "params": form("")["params"]},
        "where": {"method": "roots/list"},
    });
    peer.answer(
        &first,
        json!({"resultType": "input_required", "inputRequests": questions, "requestState": state}),
    );
    let second = peer.expect("resources/read").await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["requestState"], state);
    let expected = json!({
        "name": {"action": "accept", "content": {"by": "anna", "size": "L"}},
        "where": {"roots": [{"uri": "file:///work"}]},
    });
    assert_eq!(second["params"]["inputResponses"], expected);
    peer.answer(
        &second,
        json!({"resultType": "input_required", "requestState": "2"}),
    );
    let third = peer.expect("resources/read").await;
    assert_eq!(
        (
            third["params"].get("inputResponses"),
            &third["params"]["requestState"]
        ),
        (None, &json!("2"))
    );
    peer.answer(&third, json!({"resultType": "complete", "contents": []}));
    assert!(reading.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_result_type_is_invalid_and_endless_questions_are_cut_off() {
    let (session, mut peer) = opened(Era::Modern).await;
    let reading = read(&session, "a:b", "anna");
    let request = peer.expect("resources/read").await;
    peer.answer(&request, json!({"resultType": "dream"}));
    assert!(matches!(
        reading.await.unwrap(),
        Err(RequestFault::Invalid(_))
    ));
    let reading = read(&session, "a:b", "anna");
    for _ in 0..16 {
        let request = peer.expect("resources/read").await;
        peer.answer(
            &request,
            json!({"resultType": "input_required", "requestState": "x"}),
        );
    }
    assert!(matches!(
        reading.await.unwrap(),
        Err(RequestFault::Invalid(_))
    ));
    peer.expect_nothing();
}

/// F6, T30: responses with unknown ids are counted and have no effect.
#[tokio::test(start_paused = true)]
async fn f6_t30_responses_with_unknown_ids_are_counted_and_ignored() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    let id = request["id"].as_u64().unwrap();
    for odd in [
        json!(id.to_string()),
        json!(id as f64 + 0.5),
        json!(id + 1),
        json!(null),
    ] {
        peer.send(&json!({"id": odd, "error": {"code": 1, "message": "x"}}));
    }
    peer.answer(&request, json!({"mine": 1}));
    peer.answer(&request, json!({"twice": 1}));
    assert_eq!(reading.await.unwrap().unwrap().as_str(), r#"{"mine":1}"#);
    assert_eq!(session.deviations().unknown_ids, 5);
}

/// F2: junk is skipped and counted; a thousand consecutive lines end the session with a reason.
#[tokio::test(start_paused = true)]
async fn f2_junk_is_counted_and_a_flood_of_it_ends_the_session() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = read(&session, "a:b", "me");
    peer.expect("resources/read").await;
    for _ in 0..999 {
        peer.inbound.not_a_message(b"npm warn");
    }
    peer.send(&json!({"method": "notifications/x"}));
    for _ in 0..1000 {
        peer.inbound.not_a_message(b"npm warn");
    }
    assert!(
        session
            .closed()
            .await
            .contains("lines or events are not JSON-RPC messages")
    );
    assert!(matches!(
        reading.await.unwrap(),
        Err(RequestFault::Closed(_))
    ));
    let deviations = session.deviations();
    assert_eq!(
        (deviations.junk_lines, deviations.junk_samples.len()),
        (1999, 20)
    );
}

/// F2: a secret is redacted in samples of junk, also where the sample is cut.
#[tokio::test(start_paused = true)]
async fn f2_a_sample_of_junk_contains_no_part_of_a_secret() {
    let mut options = options(Protocol::Legacy);
    options.redactor = Redactor::new([Secret::new("correct-horse-battery")]);
    let (session, peer) = opened_with(Era::Legacy, options).await;
    let line = format!("{}correct-horse-battery", "x".repeat(190));
    peer.inbound.not_a_message(line.as_bytes());
    let samples = session.deviations().junk_samples;
    assert!(!samples[0].raw().contains("corr"), "{samples:?}");
}

/// F4: a response over the size limit fails its call; such a message without a request ends the
/// session.
#[tokio::test(start_paused = true)]
async fn f4_an_oversized_response_fails_its_call_alone() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let (big, small) = (read(&session, "big:", "me"), read(&session, "small:", "me"));
    let first = peer.expect("resources/read").await;
    let second = peer.expect("resources/read").await;
    let id = RequestId::Number(first["id"].as_u64().unwrap());
    peer.inbound.oversized(Some(OversizedMessage::Response(id)));
    assert_eq!(
        big.await.unwrap(),
        Err(RequestFault::TooLarge { limit: 1 << 20 })
    );
    peer.answer(&second, json!({}));
    small.await.unwrap().unwrap();
    peer.inbound.oversized(None);
    assert!(session.closed().await.contains("more than 1048576 bytes"));
}

/// F4: a server's request over the size limit is refused. The server chose its id, which may be the
/// id of a request of ours.
#[tokio::test(start_paused = true)]
async fn f4_an_oversized_request_of_the_server_is_refused_and_fails_no_call() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = read(&session, "a:b", "me");
    let request = peer.expect("resources/read").await;
    let id = RequestId::Number(request["id"].as_u64().unwrap());
    peer.inbound.oversized(Some(OversizedMessage::Request(id)));
    let refusal = peer.next().await;
    assert_eq!(refusal["id"], request["id"]);
    assert_eq!(refusal["error"]["code"], -32600);
    peer.answer(&request, json!({}));
    reading.await.unwrap().unwrap();
}

/// F3, F7: the end of the connection fails every pending and later request at once.
#[tokio::test(start_paused = true)]
async fn f7_the_end_of_the_connection_fails_every_pending_request_at_once() {
    let (session, mut peer) = opened(Era::Legacy).await;
    let reading = read(&session, "a:b", "me");
    peer.expect("resources/read").await;
    peer.inbound.closed("the server closed its stdout".into());
    let closed = Err(RequestFault::Closed("the server closed its stdout".into()));
    assert_eq!(reading.await.unwrap(), closed);
    assert_eq!(read(&session, "a:b", "me").await.unwrap(), closed);
}

#[track_caller]
fn check_bytes(meta: &str, fields: &[ParamField<'_>], reports_progress: bool, expected: &str) {
    let request = OutboundRequest {
        meta,
        ..legacy::request("tools/call", fields)
    };
    // What the buffer had before is gone.
    let mut message = b"an earlier request".to_vec();
    request.encode(7, reports_progress, None, &mut message);
    assert_eq!(String::from_utf8(message), Ok(expected.to_owned()));
}

/// S4-23: `tools/call` carries name and arguments, the arguments byte for byte.
#[test]
fn s4_23_requests_of_both_eras_are_encoded_as_specified() {
    let fields: &[ParamField<'_>] = &[("name", b"\"a\""), ("arguments", br#"{"b": 1.0 }"#)];
    let modern = r#""v":1"#;
    check_bytes(
        "",
        &[],
        false,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#,
    );
    check_bytes(
        "",
        fields,
        true,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":7},"name":"a","arguments":{"b": 1.0 }}}"#,
    );
    check_bytes(
        modern,
        fields,
        true,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"v":1,"progressToken":7},"name":"a","arguments":{"b": 1.0 }}}"#,
    );
    check_bytes(
        modern,
        &[],
        false,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"v":1}}}"#,
    );
}

/// T33: a forwarded method is written into the message as it is, so it cannot contain anything that
/// the server would read as another method or as further members.
#[tokio::test(start_paused = true)]
async fn t33_a_forwarded_method_cannot_become_a_tool_call() {
    for era in [Era::Legacy, Era::Modern] {
        let (session, mut peer) = opened(era).await;
        for method in [
            "tools/call",
            r"tools\u002fcall",
            r"tools\/call",
            r#"prompts/get","method":"tools/call"#,
            "prompts/get\n",
            "",
        ] {
            let caller = caller("me");
            let forwarded = session.forward(method, None, &caller, Timeouts::default());
            let refused = tokio::time::timeout(Duration::from_secs(1), forwarded).await;
            let refused = refused.expect("it is refused at once").unwrap_err();
            assert!(
                matches!(refused, RequestFault::NotSent(_)),
                "{method:?}: {refused}"
            );
            peer.expect_nothing();
        }
    }
}

/// The server does not have the request of a caller that waits for its turn.
#[tokio::test(start_paused = true)]
async fn p1_the_wait_for_other_callers_counts_against_the_total_only() {
    let asking = OpenOptions {
        asks: Asks::Yes,
        ..options(Protocol::Legacy)
    };
    let (session, mut peer) = opened_with(Era::Legacy, asking).await;
    let most_of_the_idle_time = Timeouts::default().call * 2 / 3;
    let first = read(&session, "a:b", "anna");
    let request = peer.expect("resources/read").await;
    let second = read(&session, "a:c", "bob");
    tokio::time::sleep(most_of_the_idle_time).await;
    peer.answer(&request, json!({"contents": []}));
    first.await.unwrap().unwrap();
    let request = peer.expect("resources/read").await;
    tokio::time::sleep(most_of_the_idle_time).await;
    peer.answer(&request, json!({"contents": []}));
    second.await.unwrap().unwrap();
}

/// A server that only wants its state back has answered.
#[tokio::test(start_paused = true)]
async fn p1_each_round_of_required_input_restarts_the_idle_deadline() {
    let (session, mut peer) = opened(Era::Modern).await;
    let reading = read(&session, "a:b", "anna");
    for round in 0..3 {
        let request = peer.expect("resources/read").await;
        tokio::time::sleep(Timeouts::default().call * 2 / 3).await;
        let state = json!({"resultType": "input_required", "requestState": round.to_string()});
        peer.answer(&request, state);
    }
    let request = peer.expect("resources/read").await;
    peer.answer(&request, json!({"contents": []}));
    reading.await.unwrap().unwrap();
}
