//! Tests that what a call causes reaches its caller's channel and no other.

use std::sync::Arc;

use serde_json::json;
use switchboard::call::Call;
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation,
};
use switchboard::config::{ConfigFile, Dialect, Scope};
use switchboard::event::{Event, NextEvent};
use switchboard::wire::RawJson;
use switchboard_testkit::{Chaos, Record, Scratch, Step};

use tokio::sync::Notify;

use crate::support::{TIMEOUT, YOLO, call, open, open_file, person, server};
use crate::ways;

/// S3-15, S3-17: a call from a mailbox is asked about by mail, while a person at the terminal calls
/// the same server and is asked there.
#[tokio::test(flavor = "multi_thread")]
async fn s3_17_s3_19_a_call_from_mail_is_asked_about_by_mail() {
    for way in ways::ALL {
        let (scratch, reached) = (Scratch::new(), way.reach());
        let host = open(
            &scratch,
            &format!("{YOLO}[servers.demo]\n{}asks = \"yes\"\n", reached.entry),
        )
        .await;
        let (mail, terminal) = (person("mail").arc(), person("terminal").arc());
        let (letter, lamp) = (
            json!({"subject": "the letter"}),
            json!({"subject": "the lamp"}),
        );
        let answers = tokio::join!(
            call(&host, "demo/confirm", &letter, &mail),
            call(&host, "demo/confirm", &lamp, &terminal)
        );
        let texts = (answers.0.unwrap(), answers.1.unwrap());
        let erased = |what: &str| format!("accepted: {what} would be erased now");
        assert_eq!(
            texts,
            (erased("the letter"), erased("the lamp")),
            "{}",
            way.name
        );
        let asked = |what: &str| vec![format!("Really erase {what}?")];
        assert_eq!(
            (mail.lines(), terminal.lines()),
            (asked("the letter"), asked("the lamp")),
            "{}",
            way.name
        );
        host.stop().await;
    }
}

/// S3-20, with an agent-apps file that does not set `asks`: a legacy server on stdio, which cannot
/// show which call it asks for; two channels call at once, repeatedly, and no question crosses or
/// is declined.
#[tokio::test(flavor = "multi_thread")]
async fn s3_20_concurrent_calls_from_two_channels_of_an_agent_apps_file_do_not_cross() {
    let scratch = Scratch::new();
    let demo = switchboard_testkit::program("switchboard-demo");
    let text = format!(
        "metadata:\n  mcp:\n    demo:\n      command: {demo:?}\n      args: [\"--era\", \"legacy\"]\n"
    );
    let path = scratch.write("agent.yaml", &text);
    let host = open_file(ConfigFile {
        dialect: Some(Dialect::AgentApps),
        ..ConfigFile::new(path, Scope::Given)
    })
    .await;
    let channel = async |name: &str| {
        let person = person(name).arc();
        for turn in 0..20 {
            let what = format!("{name} {turn}");
            let reply = call(&host, "demo/confirm", &json!({"subject": what}), &person)
                .await
                .unwrap();
            assert_eq!(reply, format!("accepted: {what} would be erased now"));
        }
        let asked = person
            .lines()
            .into_iter()
            .filter(|line| line.starts_with("Really"));
        assert_eq!(
            asked.collect::<Vec<_>>(),
            (0..20)
                .map(|turn| format!("Really erase {name} {turn}?"))
                .collect::<Vec<_>>()
        );
    };
    tokio::join!(channel("mail"), channel("terminal"));
    assert_eq!(
        server(&host)
            .snapshot()
            .deviations
            .deviations()
            .unattributed,
        0
    );
    host.stop().await;
}

/// An embedder's own prompt waits for its user: the call waits with it, and continues with the
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn s0_38_a_hosts_own_prompt_blocks_the_call_until_the_user_has_answered() {
    /// A caller whose answer comes from elsewhere.
    struct Prompt {
        opened: Notify,
        typed: Notify,
    }
    impl Caller for Prompt {
        fn id(&self) -> &CallerId {
            static ID: CallerId = CallerId::from_static("prompt");
            &ID
        }
        fn capabilities(&self) -> CallerCapabilities {
            CallerCapabilities {
                elicit_form: true,
                ..CallerCapabilities::default()
            }
        }
        fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
            Box::pin(async { Approval::Once })
        }
        fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
            Box::pin(async {
                self.opened.notify_one();
                self.typed.notified().await;
                ElicitAnswer::Accept(json!({"yes": true}).as_object().unwrap().clone())
            })
        }
    }
    let (scratch, reached) = (Scratch::new(), ways::ALL[0].reach());
    let host = open(
        &scratch,
        &format!("{YOLO}[servers.demo]\n{}", reached.entry),
    )
    .await;
    let prompt = Arc::new(Prompt {
        opened: Notify::new(),
        typed: Notify::new(),
    });
    let call = Call::new(
        "demo/confirm",
        RawJson::from_value(&json!({"subject": "the letter"})),
    )
    .caller(prompt.clone() as Arc<dyn Caller>);
    let waiting = host.clone();
    let mut calling = tokio::spawn(async move { waiting.call_with(call).await });
    tokio::time::timeout(TIMEOUT, prompt.opened.notified())
        .await
        .expect("the prompt opens");
    assert!(!calling.is_finished(), "the call waits for the user");
    prompt.typed.notify_one();
    let result = tokio::time::timeout(TIMEOUT, &mut calling)
        .await
        .expect("it goes on")
        .unwrap()
        .unwrap();
    assert_eq!(
        result.untrusted_text().unwrap().raw(),
        "accepted: the letter would be erased now"
    );
    host.stop().await;
}

/// S3-18: a question that no call caused is declined, counted, and reported in one line.
#[tokio::test(flavor = "multi_thread")]
async fn s3_18_a_question_without_a_call_is_declined_and_reported() {
    let scratch = Scratch::new();
    let (go, answered) = (scratch.path("go"), scratch.path("answered"));
    let chaos = Chaos::new()
        .tool("ok", [Step::wait_file(&answered), Step::text("hi")])
        .on(
            "notifications/initialized",
            [
                Step::wait_file(&go),
                Step::ask("anybody?"),
                Step::touch(&answered),
            ],
        )
        .record(scratch.path("seen"));
    let host = open(
        &scratch,
        &format!("{YOLO}{}", chaos.entry("chaos").render()),
    )
    .await;
    let mut events = host.events();
    std::fs::write(&go, "").unwrap();
    let output = async {
        loop {
            if let Some(NextEvent::Event(Event::QuestionDeclined { server, reason })) =
                events.next().await
            {
                return (server.to_string(), reason);
            }
        }
    };
    let output = tokio::time::timeout(TIMEOUT, output)
        .await
        .expect("it is told");
    let reason = "no call is in flight that it could belong to";
    assert_eq!(output, ("chaos".to_owned(), reason.to_owned()));
    assert_eq!(
        server(&host)
            .snapshot()
            .deviations
            .deviations()
            .unattributed,
        1
    );
    // The server continues only after its answer, and so does this call.
    let person = person("later").arc();
    assert_eq!(
        call(&host, "chaos/ok", &json!({}), &person).await.unwrap(),
        "hi"
    );
    let answers = Record::read(&scratch.path("seen"))
        .messages()
        .into_iter()
        .filter_map(|message| message.result);
    let answers: Vec<_> = answers.map(|answer| answer.get().to_owned()).collect();
    assert_eq!(
        (answers, person.lines()),
        (vec![r#"{"action":"decline"}"#.to_owned()], vec![])
    );
    host.stop().await;
}

/// S0-35, S0-38: the embedder supplies a function for questions; a server of a core-agent file
/// reaches it during a call, and continues with its answer: accepted with fields, or declined.
#[tokio::test(flavor = "multi_thread")]
async fn s0_35_a_host_supplied_function_answers_the_questions_of_a_core_agent_server() {
    struct Elicitor(ElicitAnswer);
    impl Caller for Elicitor {
        fn id(&self) -> &CallerId {
            static ID: CallerId = CallerId::from_static("elicitor");
            &ID
        }
        fn capabilities(&self) -> CallerCapabilities {
            CallerCapabilities {
                elicit_form: true,
                ..CallerCapabilities::default()
            }
        }
        fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
            Box::pin(async { Approval::No { reason: None } })
        }
        fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
            let answer = self.0.clone();
            Box::pin(async move { answer })
        }
    }
    let scratch = Scratch::new();
    let launch = Chaos::new()
        .tool("order", [Step::ask("Which size?"), Step::AnswerReply])
        .launch();
    let entry = json!({"transport": "stdio", "command": launch.command, "args": launch.args});
    let path = scratch.write(
        "mcp.json",
        &json!({"version": 1, "servers": {"shop": entry}}).to_string(),
    );
    let host = open_file(ConfigFile {
        dialect: Some(Dialect::CoreAgent),
        ..ConfigFile::new(path, Scope::Given)
    })
    .await;
    let large = json!({"answer": "large"}).as_object().unwrap().clone();
    for (answer, expected) in [
        (ElicitAnswer::Accept(large), ["accept", "large"]),
        (ElicitAnswer::Decline, ["decline", ""]),
    ] {
        let caller: Arc<dyn Caller> = Arc::new(Elicitor(answer));
        let result = host
            .call_with(Call::new("shop_order", RawJson::from_value(&json!({}))).caller(caller))
            .await
            .unwrap();
        let text = result.untrusted_text().unwrap().raw().to_owned();
        assert!(
            expected.iter().all(|word| text.contains(word)),
            "{expected:?}: {text}"
        );
    }
    host.stop().await;
}
