//! Answers that do not come, come wrong, or end with their server.

use std::time::{Duration, Instant};

use switchboard::event::{Event, NextEvent};
use switchboard_testkit::script::{Era, IdForm, Steps};
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{self, DEADLINE, PATIENCE, Stage, assert_on_time, chaos, person, until};

const NO_ANSWER: &str = r#"server "chaos": no answer within 300ms"#;

#[tokio::test]
async fn f1_a_call_without_answer_ends_at_its_deadline_and_the_connection_stays() {
    let check = async |era: Era| {
        let scratch = Scratch::new();
        let late = [Step::AwaitCancel, Step::text("too late")];
        let server = Chaos::new()
            .era(era)
            .tool("late", late)
            .tool("ok", Step::text("hi"));
        let entry = chaos(&scratch, &server);
        let stage = Stage::open(scratch, &[entry]).await;

        let (sentence, took) = stage.failure("chaos/late").await;
        assert_eq!(sentence, NO_ANSWER);
        assert_on_time(took, DEADLINE, "the call");

        until("the server is told", || {
            stage.record("seen").count("notifications/cancelled") == 1
        })
        .await;
        let record = stage.record("seen");
        let id = record.with_method("tools/call")[0]
            .id
            .as_ref()
            .unwrap()
            .get()
            .to_owned();
        let params = record.with_method("notifications/cancelled")[0]
            .params
            .clone()
            .unwrap();
        let cancelled: serde_json::Value = serde_json::from_str(params.get()).unwrap();
        assert_eq!(cancelled["requestId"].to_string(), id);

        until("the late answer is counted", || {
            stage.oddities("chaos").unknown_ids == 1
        })
        .await;
        assert_eq!(stage.text("chaos/ok").await, "hi");
        assert_eq!(stage.record("seen").starts(), 1);
    };
    check(Era::Legacy).await;
    check(Era::Modern).await;
}

#[tokio::test]
async fn f2_lines_that_are_no_messages_are_skipped_counted_and_in_the_end_too_many() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool(
            "banner",
            [
                Step::say("\u{1b}[1mwelcome\u{1b}[0m"),
                Step::Junk(998),
                Step::text("hi"),
            ],
        )
        .tool("only_junk", [Step::Junk(1_000), Step::Drop]);
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let stage = Stage::open(scratch, &[entry]).await;

    assert_eq!(stage.text("chaos/banner").await, "hi");
    let oddities = stage.oddities("chaos");
    let samples: Vec<&str> = oddities
        .junk_samples
        .iter()
        .map(|sample| sample.raw())
        .collect();
    assert_eq!((oddities.junk_lines, samples.len()), (999, 20));
    assert_eq!(
        samples[..2],
        ["\u{1b}[1mwelcome\u{1b}[0m", "npm warn line 0 is no message"]
    );

    let reason =
        "it prints non-JSON to stdout; a server must keep stdout for messages and log to stderr";
    let (sentence, _) = stage.failure("chaos/only_junk").await;
    assert_eq!(
        sentence,
        format!(r#"server "chaos": the connection ended: {reason}"#)
    );
    assert_eq!(
        stage.error("chaos").await,
        format!(r#"lost the connection: {reason}"#)
    );
}

#[tokio::test]
async fn f3_half_a_line_and_an_exit_fail_the_call_now_with_status_and_last_words() {
    let scratch = Scratch::new();
    let half = [
        Step::Stderr("giving up\n".to_owned()),
        Step::HalfAnswer,
        Step::Exit(3),
    ];
    let server = Chaos::new().tool("half", half).tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let stage = Stage::open(scratch, &[entry]).await;

    let (sentence, took) = stage.failure("chaos/half").await;
    let death = r#"exited with status 3; last stderr: "giving up""#;
    assert_eq!(
        sentence,
        format!(r#"server "chaos": the connection ended: the server closed its stdout ({death})"#)
    );
    assert!(
        took < Duration::from_secs(5),
        "not at the deadline: {took:?}"
    );
    // It comes back by itself, and a call waits for that.
    assert_eq!(stage.text("chaos/ok").await, "hi");
    assert_eq!(stage.record("seen").starts(), 2);
}

#[tokio::test]
async fn f5_a_result_of_any_depth_is_carried_and_only_its_projection_fails() {
    let scratch = Scratch::new();
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let result = format!(r#"{{"content":[],"structuredContent":{{"x":{nested}}}}}"#);
    let server = Chaos::new()
        .tool("deep", Step::result(&result))
        .tool("ok", Step::text("hi"));
    let entry = support::by_file(&scratch, "chaos", &server);
    let stage = Stage::open(scratch, &[entry]).await;

    let deep = stage.call("chaos/deep").await.unwrap();
    assert!(
        deep.raw.as_str() == result,
        "{} bytes of {}",
        deep.raw.as_bytes().len(),
        result.len()
    );
    assert_eq!(
        deep.untrusted_text().unwrap_err().to_string(),
        "nested deeper than 128"
    );
    assert_eq!(
        deep.for_person().unwrap_err().to_string(),
        "nested deeper than 128"
    );
    assert!(!deep.is_error());

    let arguments = format!(r#"{{"x":{nested}}}"#);
    let refused = stage
        .host
        .call_with(support::call_with(
            "chaos/ok",
            &arguments,
            &(person("somebody").arc() as _),
        ))
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("nested deeper than 128"), "{refused}");
    assert_eq!(stage.text("chaos/ok").await, "hi");
}

/// T30: a server can answer only what it was asked, under the id it was asked with, once.
#[tokio::test]
async fn f6_t30_answers_under_other_ids_reach_no_call() {
    let scratch = Scratch::new();
    let early = (4..40).map(|id| {
        Step::say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#
        ))
    });
    let listed: Vec<Step> = std::iter::once(Step::Answer).chain(early).collect();
    let server = Chaos::new()
        .on("tools/list", listed)
        .tool("wrong", Step::AnswerAs(IdForm::Wrong))
        .tool("float", Step::AnswerAs(IdForm::Float))
        .tool("string", Step::AnswerAs(IdForm::String))
        .tool("null", Step::AnswerAs(IdForm::Null))
        .tool("missing", Step::AnswerAs(IdForm::Missing))
        .tool("twice", [Step::text("first"), Step::text("second")])
        .tool("many", vec![Step::AnswerAs(IdForm::Wrong); 60])
        .tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server);
    let stage = Stage::open(scratch, &[entry]).await;

    until("the early answers are counted", || {
        stage.oddities("chaos").unknown_ids == 36
    })
    .await;
    let misplaced = [
        "chaos/wrong",
        "chaos/float",
        "chaos/string",
        "chaos/null",
        "chaos/missing",
    ];
    let mut failures = tokio::task::JoinSet::new();
    for tool in misplaced {
        let host = stage.host.clone();
        failures.spawn(async move {
            host.call_with(support::call(tool, &(person("somebody").arc() as _)))
                .await
                .unwrap_err()
                .to_string()
        });
    }
    assert_eq!(failures.join_all().await, [NO_ANSWER; 5]);
    // A result under `null` or under no id answers nothing, so it is no message at all.
    let oddities = stage.oddities("chaos");
    assert_eq!((oddities.unknown_ids, oddities.junk_lines), (36 + 3, 2));

    assert_eq!(stage.text("chaos/twice").await, "first");
    assert_eq!(stage.text("chaos/ok").await, "hi");
    until("the second answer is counted", || {
        stage.oddities("chaos").unknown_ids == 36 + 4
    })
    .await;

    let mut events = stage.host.events();
    assert_eq!(stage.failure("chaos/many").await.0, NO_ANSWER);
    let notice = loop {
        match tokio::time::timeout(PATIENCE, events.next())
            .await
            .expect("somebody is told")
        {
            Some(NextEvent::Event(Event::Notice { line, .. })) => break line,
            Some(_) => {}
            None => panic!("the host has stopped"),
        }
    };
    assert_eq!(
        notice,
        "it has answered 100 requests that nobody made, or that were over by then"
    );
    assert_eq!(stage.record("seen").starts(), 1);
}

/// P5: what may have run is not sent again, however often its server starts.
#[tokio::test]
async fn f7_p5_a_death_fails_the_calls_in_flight_with_its_cause_and_sends_none_again() {
    let check = async |end: Step, death: &str| {
        let scratch = Scratch::new();
        let (go, said) = (scratch.path("go"), scratch.path("said"));
        let last_words = [Step::Stderr("out of luck\n".to_owned()), Step::touch(&said)];
        let die: Steps = [
            Step::once(scratch.path("saying"), last_words),
            Step::wait_file(&go),
            end,
        ]
        .into();
        let server = Chaos::new().tool("die", die).tool("ok", Step::text("hi"));
        let entry = chaos(&scratch, &server).set("call_timeout", "20s");
        let stage = Stage::open(scratch, &[entry]).await;

        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let host = stage.host.clone();
            calls.spawn(async move {
                let error = host
                    .call_with(support::call("chaos/die", &(person("somebody").arc() as _)))
                    .await
                    .unwrap_err();
                (error.to_string(), Instant::now())
            });
        }
        until("all three are under way", || {
            said.exists() && stage.record("seen").count("tools/call") == 3
        })
        .await;
        let died = Instant::now();
        std::fs::write(&go, "").unwrap();
        let words = r#"last stderr: "out of luck""#;
        let expected = format!(
            r#"server "chaos": the connection ended: the server closed its stdout ({death}; {words})"#
        );
        for (sentence, at) in calls.join_all().await {
            assert_eq!(sentence, expected);
            // 100 ms is the promise; the rest is for a machine that is busy.
            assert!(
                at - died < Duration::from_millis(1_100),
                "{:?} after the death",
                at - died
            );
        }
        assert_eq!(stage.text("chaos/ok").await, "hi");
        let record = stage.record("seen");
        assert_eq!((record.starts(), record.count("tools/call")), (2, 3 + 1));
    };
    check(Step::Exit(7), "exited with status 7").await;
    check(Step::Signal("SIGKILL".to_owned()), "was killed by SIGKILL").await;
}
