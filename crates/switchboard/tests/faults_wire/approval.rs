//! Tests of approvals: bound to the approved definition, and withdrawn with their call.

use std::sync::Arc;

use switchboard::Host;
use switchboard::caller::{Approval, Caller};
use switchboard::catalog::DefinitionHash;
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{self, TestHost, chaos, person, until};

const MOVED: &str = r#"server "chaos", tool ok: its definition changed after it was approved; review the definition and call again"#;

/// A server that changes and reports its tool `ok` once the file `flip` exists.
fn changing_server(scratch: &Scratch) -> Chaos {
    let flip = scratch.path("flip");
    Chaos::new()
        .tool("ok", Step::text("hi"))
        .flip(support::flip("ok", &flip))
        .background([Step::wait_file(&flip), Step::ListChanged(1)])
}

fn definition(host: &Host) -> DefinitionHash {
    host.catalog().resolve("chaos/ok").unwrap().definition.hash
}

/// Creates the file and waits until the host has the new definition.
async fn change(host: &Host, flip: &std::path::Path) {
    let before = definition(host);
    std::fs::write(flip, "").unwrap();
    until("the definition is another", || definition(host) != before).await;
}

/// T9, the race: the definition changes while the approval is open.
#[tokio::test]
async fn p6_t9_a_definition_that_changes_between_approval_and_call_is_not_called() {
    let scratch = Scratch::new();
    let entry = chaos(&scratch, &changing_server(&scratch)).set("call_timeout", "20s");
    let test = TestHost::open_with(scratch, "", &[entry]).await;
    let (host, flip) = (test.host.clone(), test.scratch.path("flip"));
    let slow_reader = person("ada").on_approval(move || {
        let (host, flip) = (host.clone(), flip.clone());
        Box::pin(async move {
            change(&host, &flip).await;
            Approval::Once
        })
    });

    let refused = test
        .host
        .call_with(support::call("chaos/ok", &(slow_reader.arc() as _)))
        .await;
    assert_eq!(refused.unwrap_err().to_string(), MOVED);
    assert_eq!(test.record("seen").count("tools/call"), 0);
    // After a new approval it may run.
    assert_eq!(test.text("chaos/ok").await, "hi");
    assert_eq!(test.record("seen").count("tools/call"), 1);
}

/// The same while the call is queued behind another caller's.
#[tokio::test]
async fn p6_a_definition_that_changes_while_a_call_is_queued_is_not_called() {
    let scratch = Scratch::new();
    let server = changing_server(&scratch).tool("ask", [Step::ask("who?"), Step::AnswerReply]);
    let entry = chaos(&scratch, &server)
        .set("call_timeout", "20s")
        .set("asks", "yes");
    let test = TestHost::open_with(scratch, "", &[entry]).await;

    let ada = Arc::new(person("ada").approves(Approval::Once).never_fills_in());
    let first = tokio::spawn(call(&test, "chaos/ask", &ada));
    ada.until(|asked| asked.questions.len() == 1).await;
    let bob = Arc::new(person("bob"));
    let second = tokio::spawn(call(&test, "chaos/ok", &bob));
    bob.until(|asked| asked.approvals.len() == 1).await;
    change(&test.host, &test.scratch.path("flip")).await;
    first.abort();

    assert_eq!(second.await.unwrap().unwrap_err(), MOVED);
    assert_eq!(
        test.record("seen").count("tools/call"),
        1,
        "only the first was sent"
    );
}

#[tokio::test]
async fn f28_a_dropped_call_is_cancelled_on_the_server() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("never", Step::Drop)
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let test = TestHost::open(scratch, &[entry]).await;

    let never = tokio::spawn(call(&test, "chaos/never", &Arc::new(person("ada"))));
    until("it is under way", || {
        test.record("seen").count("tools/call") == 1
    })
    .await;
    never.abort();
    until("the server is told", || {
        test.record("seen").count("notifications/cancelled") == 1
    })
    .await;
    assert_eq!(test.text("chaos/ok").await, "hi");
    assert_eq!(test.record("seen").starts(), 1);
}

#[tokio::test]
async fn f28_the_questions_of_a_dropped_call_are_withdrawn() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool(
        "ask",
        [
            Step::ask("who?"),
            Step::touch(scratch.path("replied")),
            Step::AnswerReply,
        ],
    );
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let test = TestHost::open_with(scratch, "", &[entry]).await;

    // The approval: nothing has been sent, so nothing is cancelled.
    let ada = Arc::new(person("ada").never_answers());
    let asked = tokio::spawn(call(&test, "chaos/ask", &ada));
    ada.until(|asked| asked.approvals.len() == 1).await;
    asked.abort();
    ada.until(|asked| asked.withdrawn == 1).await;
    assert_eq!(test.record("seen").count("tools/call"), 0);

    // The server's own question: it is cancelled, and the question gets a response.
    let bob = Arc::new(person("bob").never_fills_in());
    let asked = tokio::spawn(call(&test, "chaos/ask", &bob));
    bob.until(|asked| asked.questions.len() == 1).await;
    asked.abort();
    bob.until(|asked| asked.withdrawn == 1).await;
    until("the server has its reply", || {
        test.scratch.path("replied").exists()
    })
    .await;
    let replies: Vec<String> = test
        .record("seen")
        .messages()
        .iter()
        .filter(|message| message.method.is_none())
        .map(|reply| reply.result.as_ref().unwrap().get().to_owned())
        .collect();
    assert_eq!(replies, [r#"{"action":"cancel"}"#]);
}

/// A call to be spawned; returns its text or its error.
fn call(
    test: &TestHost,
    tool: &str,
    person: &Arc<TestCaller>,
) -> impl Future<Output = Result<String, String>> + Send + use<> {
    let call = support::call(tool, &(person.clone() as Arc<dyn Caller>));
    let host = test.host.clone();
    async move {
        host.call_with(call)
            .await
            .map(|result| support::text(&result))
            .map_err(|error| error.to_string())
    }
}
