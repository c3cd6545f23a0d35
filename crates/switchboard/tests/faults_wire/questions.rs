//! Tests of a server's questions, in both eras: they reach the caller of the call, and nobody else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::caller::Caller;
use switchboard_host_testkit::{Seen, TestCaller};
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{self, ALLOWANCE, DEADLINE, TestHost, chaos, person, until};

/// Calls the same tool as both callers at once.
async fn both(
    test: &TestHost,
    tool: &str,
    ada: &Arc<TestCaller>,
    bob: &Arc<TestCaller>,
) -> [String; 2] {
    let call = async |person: &Arc<TestCaller>| {
        let result = test
            .host
            .call_with(support::call(tool, &(person.clone() as Arc<dyn Caller>)))
            .await;
        support::text(&result.unwrap_or_else(|error| panic!("{error}")))
    };
    let (ada, bob) = tokio::join!(call(ada), call(bob));
    [ada, bob]
}

fn people() -> (Arc<TestCaller>, Arc<TestCaller>) {
    (Arc::new(person("ada")), Arc::new(person("bob")))
}

fn asked(question: &str) -> Seen {
    Seen {
        questions: vec![question.to_owned()],
        ..Seen::default()
    }
}

fn accepted(by: &str) -> String {
    format!(r#"{{"result":{{"action":"accept","content":{{"answer":"{by}"}}}}}}"#)
}

#[tokio::test]
async fn legacy_callers_of_a_server_that_asks_are_serialised_and_get_their_own_question() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("ask", [Step::ask("who?"), Step::AnswerReply]);
    let entry = chaos(&scratch, &server)
        .set("call_timeout", "20s")
        .set("asks", "yes");
    let test = TestHost::open(scratch, &[entry]).await;
    let (ada, bob) = people();

    assert_eq!(
        both(&test, "chaos/ask", &ada, &bob).await,
        [accepted("ada"), accepted("bob")]
    );
    assert_eq!([ada.seen(), bob.seen()], [asked("who?"), asked("who?")]);
    let after_list: Vec<String> = test
        .record("seen")
        .messages()
        .into_iter()
        .map(|message| message.method.unwrap_or_else(|| "reply".to_owned()))
        .skip_while(|method| method != "tools/call")
        .collect();
    assert_eq!(
        after_list,
        ["tools/call", "reply", "tools/call", "reply"],
        "the second call is sent after the first has ended"
    );
}

/// `asks = "auto"`: the first time, two callers may have calls in flight. Then the question reaches
/// neither, and the server is told why.
#[tokio::test]
async fn legacy_an_ambiguous_question_is_refused_and_then_callers_are_serialised() {
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let server = Chaos::new().tool(
        "ask",
        [Step::wait_file(&go), Step::ask("who?"), Step::AnswerReply],
    );
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let test = TestHost::open(scratch, &[entry]).await;
    let (ada, bob) = people();

    let together = async {
        until("both are under way", || {
            test.record("seen").count("tools/call") == 2
        })
        .await;
        std::fs::write(&go, "").unwrap();
    };
    let (texts, ()) = tokio::join!(both(&test, "chaos/ask", &ada, &bob), together);
    let unattributed = test.deviations("chaos").unattributed;
    let refused = texts.iter().filter(|text| text.contains("-32000")).count();
    // The second question may come when the other call has ended: then its caller is certain.
    assert!(
        unattributed >= 1 && refused as u64 == unattributed,
        "{unattributed} were unattributed: {texts:?}"
    );

    assert_eq!(
        both(&test, "chaos/ask", &ada, &bob).await,
        [accepted("ada"), accepted("bob")]
    );
    assert_eq!(test.deviations("chaos").unattributed, unattributed);
}

/// P1: a call that is queued behind another caller's has a deadline, too.
#[tokio::test]
async fn p1_a_queued_call_ends_at_its_deadline() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("ask", [Step::ask("who?"), Step::AnswerReply])
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("asks", "yes");
    let test = TestHost::open(scratch, &[entry]).await;

    let ada = Arc::new(person("ada").never_answers());
    let first = support::call("chaos/ask", &(ada.clone() as Arc<dyn Caller>));
    let host = test.host.clone();
    let first = tokio::spawn(async move {
        host.call_with(first)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    });
    ada.until(|asked| asked.questions.len() == 1).await;

    let began = Instant::now();
    let waited = tokio::time::timeout(Duration::from_secs(10), test.call("chaos/ok"))
        .await
        .expect("it ends");
    let expected = r#"server "chaos": not sent within 300 ms: calls of other callers were in flight, and a server that asks questions gets those of one caller at a time"#;
    assert_eq!(waited.unwrap_err().to_string(), expected);
    assert!(
        began.elapsed() < DEADLINE + ALLOWANCE,
        "{:?}",
        began.elapsed()
    );

    assert!(
        !first.is_finished(),
        "the time that a person takes is not counted"
    );
    first.abort();
    assert_eq!(test.text("chaos/ok").await, "hi", "the line goes on");
    assert_eq!(test.record("seen").count("tools/call"), 2);
}

#[tokio::test]
async fn modern_questions_come_with_their_call_and_calls_of_different_callers_overlap() {
    let scratch = Scratch::new();
    let form = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}"#;
    let requests = format!(r#"{{"q":{{"method":"elicitation/create","params":{form}}}}}"#);
    let go = scratch.path("go");
    let ask = [
        Step::input_required(Some(&requests), Some("state 1")),
        Step::wait_file(&go),
        Step::AnswerInput,
    ];
    let server = Chaos::new().era(Era::Modern).tool("ask", ask).tool(
        "forbidden",
        [
            Step::say(
                r#"{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"message":"no","requestedSchema":{}}}"#,
            ),
            Step::text("hi"),
        ],
    );
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let test = TestHost::open(scratch, &[entry]).await;
    let (ada, bob) = people();

    // Both retries are in flight at once: callers are not serialised.
    let together = async {
        until("four rounds were sent", || {
            test.record("seen").count("tools/call") == 4
        })
        .await;
        std::fs::write(&go, "").unwrap();
    };
    let (texts, ()) = tokio::join!(both(&test, "chaos/ask", &ada, &bob), together);
    let answered = |by: &str| {
        format!(
            r#"{{"inputResponses":{{"q":{{"action":"accept","content":{{"answer":"{by}"}}}}}},"requestState":"state 1"}}"#
        )
    };
    assert_eq!(texts, [answered("ada"), answered("bob")]);
    assert_eq!([ada.seen(), bob.seen()], [asked("who?"), asked("who?")]);

    // A request is not how this era asks: it is counted and ignored.
    assert_eq!(
        both(&test, "chaos/forbidden", &ada, &bob).await,
        ["hi", "hi"]
    );
    assert_eq!(test.deviations("chaos").forbidden_requests, 2);
    assert_eq!([ada.seen(), bob.seen()], [asked("who?"), asked("who?")]);
}

/// P1: a server that returns its state endlessly, without a question, is cut off.
#[tokio::test]
async fn p1_endless_modern_rounds_are_cut_off() {
    let scratch = Scratch::new();
    // A retry continues after the first step that returned its state: here always before the
    // second, which returns it again.
    let again = || Step::input_required(None, Some("again"));
    let server = Chaos::new()
        .era(Era::Modern)
        .tool("again", [again(), again(), Step::text("never")])
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let test = TestHost::open(scratch, &[entry]).await;
    let expected = r#"server "chaos": the answer is not valid: the server required input 16 times without completing"#;
    assert_eq!(test.failure("chaos/again").await.0, expected);
    assert_eq!(test.record("seen").count("tools/call"), 16);
    assert_eq!(test.text("chaos/ok").await, "hi");
}
