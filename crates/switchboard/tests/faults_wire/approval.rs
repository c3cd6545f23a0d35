//! Approvals: bound to what was approved, and withdrawn with the call they were for.

use std::sync::Arc;

use switchboard::Host;
use switchboard::caller::{Approval, Caller};
use switchboard::catalog::DefinitionHash;
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{self, Stage, chaos, person, until};

const MOVED: &str = r#"server "chaos", tool ok: its definition changed after it was approved; look at it again and repeat the call"#;

/// A server that changes what `ok` is, and says so, once the file `flip` is there.
fn turncoat(scratch: &Scratch) -> Chaos {
    let flip = scratch.path("flip");
    Chaos::new()
        .tool("ok", Step::text("hi"))
        .flip(support::flip("ok", &flip))
        .background([Step::wait_file(&flip), Step::ListChanged(1)])
}

fn definition(host: &Host) -> DefinitionHash {
    host.catalog().resolve("chaos/ok").unwrap().definition.hash
}

/// Makes the file and waits until the host has the other definition.
async fn change(host: &Host, flip: &std::path::Path) {
    let before = definition(host);
    std::fs::write(flip, "").unwrap();
    until("the definition is another", || definition(host) != before).await;
}

/// T9, the race: the definition changes while somebody reads the question.
#[tokio::test]
async fn p6_t9_a_definition_that_changes_between_approval_and_call_is_not_called() {
    let scratch = Scratch::new();
    let entry = chaos(&scratch, &turncoat(&scratch)).set("call_timeout", "20s");
    let stage = Stage::open_with(scratch, "", &[entry]).await;
    let (host, flip) = (stage.host.clone(), stage.scratch.path("flip"));
    let slow_reader = person("ada").on_approval(move || {
        let (host, flip) = (host.clone(), flip.clone());
        Box::pin(async move {
            change(&host, &flip).await;
            Approval::Once
        })
    });

    let refused = stage
        .host
        .call_with(support::call("chaos/ok", &(slow_reader.arc() as _)))
        .await;
    assert_eq!(refused.unwrap_err().to_string(), MOVED);
    assert_eq!(stage.record("seen").count("tools/call"), 0);
    // Looked at again, it may run.
    assert_eq!(stage.text("chaos/ok").await, "hi");
    assert_eq!(stage.record("seen").count("tools/call"), 1);
}

/// The same while the call waits for its turn behind another caller's.
#[tokio::test]
async fn p6_a_definition_that_changes_while_a_call_waits_in_line_is_not_called() {
    let scratch = Scratch::new();
    let server = turncoat(&scratch).tool("ask", [Step::ask("who?"), Step::AnswerReply]);
    let entry = chaos(&scratch, &server)
        .set("call_timeout", "20s")
        .set("asks", "yes");
    let stage = Stage::open_with(scratch, "", &[entry]).await;

    let ada = Arc::new(person("ada").approves(Approval::Once).never_fills_in());
    let first = tokio::spawn(call(&stage, "chaos/ask", &ada));
    ada.until(|asked| asked.questions.len() == 1).await;
    let bob = Arc::new(person("bob"));
    let second = tokio::spawn(call(&stage, "chaos/ok", &bob));
    bob.until(|asked| asked.approvals.len() == 1).await;
    change(&stage.host, &stage.scratch.path("flip")).await;
    first.abort();

    assert_eq!(second.await.unwrap().unwrap_err(), MOVED);
    assert_eq!(
        stage.record("seen").count("tools/call"),
        1,
        "only the first was sent"
    );
}

#[tokio::test]
async fn f28_a_call_that_is_dropped_is_cancelled_at_the_server() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("never", Step::Drop)
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let stage = Stage::open(scratch, &[entry]).await;

    let never = tokio::spawn(call(&stage, "chaos/never", &Arc::new(person("ada"))));
    until("it is under way", || {
        stage.record("seen").count("tools/call") == 1
    })
    .await;
    never.abort();
    until("the server is told", || {
        stage.record("seen").count("notifications/cancelled") == 1
    })
    .await;
    assert_eq!(stage.text("chaos/ok").await, "hi");
    assert_eq!(stage.record("seen").starts(), 1);
}

#[tokio::test]
async fn f28_the_questions_of_a_call_that_is_dropped_are_withdrawn() {
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
    let stage = Stage::open_with(scratch, "", &[entry]).await;

    // The approval: nothing has been sent, so there is nothing to cancel.
    let ada = Arc::new(person("ada").never_answers());
    let asked = tokio::spawn(call(&stage, "chaos/ask", &ada));
    ada.until(|asked| asked.approvals.len() == 1).await;
    asked.abort();
    ada.until(|asked| asked.withdrawn == 1).await;
    assert_eq!(stage.record("seen").count("tools/call"), 0);

    // The server's own question: it is told, and its question is answered for good.
    let bob = Arc::new(person("bob").never_fills_in());
    let asked = tokio::spawn(call(&stage, "chaos/ask", &bob));
    bob.until(|asked| asked.questions.len() == 1).await;
    asked.abort();
    bob.until(|asked| asked.withdrawn == 1).await;
    until("the server has its reply", || {
        stage.scratch.path("replied").exists()
    })
    .await;
    let replies: Vec<String> = stage
        .record("seen")
        .messages()
        .iter()
        .filter(|message| message.method.is_none())
        .map(|reply| reply.result.as_ref().unwrap().get().to_owned())
        .collect();
    assert_eq!(replies, [r#"{"action":"cancel"}"#]);
}

/// A call to be spawned: its text, or its sentence.
fn call(
    stage: &Stage,
    tool: &str,
    person: &Arc<TestCaller>,
) -> impl Future<Output = Result<String, String>> + Send + use<> {
    let call = support::call(tool, &(person.clone() as Arc<dyn Caller>));
    let host = stage.host.clone();
    async move {
        host.call_with(call)
            .await
            .map(|result| support::text(&result))
            .map_err(|error| error.to_string())
    }
}
