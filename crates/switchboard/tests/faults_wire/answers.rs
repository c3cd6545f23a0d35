//! Tests of responses that are missing, invalid, or end with their server.

use std::time::{Duration, Instant};

use switchboard::event::{Event, NextEvent};
use switchboard_testkit::script::{Era, IdForm, Steps};
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{self, DEADLINE, TIMEOUT, TestHost, assert_on_time, chaos, person, until};

const NO_ANSWER: &str = r#"server "chaos": no answer or progress within 300 ms"#;

#[tokio::test]
async fn f1_a_call_without_a_response_ends_at_its_deadline_and_the_connection_stays() {
    let check = async |era: Era| {
        let scratch = Scratch::new();
        let late = [Step::AwaitCancel, Step::text("too late")];
        let server = Chaos::new()
            .era(era)
            .tool("late", late)
            .tool("ok", Step::text("hi"));
        let entry = chaos(&scratch, &server);
        let test = TestHost::open(scratch, &[entry]).await;

        let (sentence, took) = test.failure("chaos/late").await;
        assert_eq!(sentence, NO_ANSWER);
        assert_on_time(took, DEADLINE, "the call");

        until("the server is told", || {
            test.record("seen").count("notifications/cancelled") == 1
        })
        .await;
        let record = test.record("seen");
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
            test.deviations("chaos").unknown_ids == 1
        })
        .await;
        assert_eq!(test.text("chaos/ok").await, "hi");
        assert_eq!(test.record("seen").starts(), 1);
    };
    check(Era::Legacy).await;
    check(Era::Modern).await;
}

#[tokio::test]
async fn f2_lines_that_are_not_messages_are_skipped_counted_and_limited() {
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
    let test = TestHost::open(scratch, &[entry]).await;

    assert_eq!(test.text("chaos/banner").await, "hi");
    let deviations = test.deviations("chaos");
    let samples: Vec<&str> = deviations
        .junk_samples
        .iter()
        .map(|sample| sample.raw())
        .collect();
    assert_eq!((deviations.junk_lines, samples.len()), (999, 20));
    assert_eq!(
        samples[..2],
        ["\u{1b}[1mwelcome\u{1b}[0m", "npm warn line 0 is no message"]
    );

    let reason = "1000 consecutive lines or events are not JSON-RPC messages; a server on standard streams must log to stderr";
    let (sentence, _) = test.failure("chaos/only_junk").await;
    assert_eq!(
        sentence,
        format!(r#"server "chaos": the connection ended: {reason}"#)
    );
    assert_eq!(
        test.error("chaos").await,
        format!(r#"lost the connection: {reason}"#)
    );
}

#[tokio::test]
async fn f3_a_partial_line_and_an_exit_fail_the_call_at_once_with_status_and_stderr() {
    let scratch = Scratch::new();
    let half = [
        Step::Stderr("giving up\n".to_owned()),
        Step::HalfAnswer,
        Step::Exit(3),
    ];
    let server = Chaos::new().tool("half", half).tool("ok", Step::text("hi"));
    let entry = chaos(&scratch, &server).set("call_timeout", "20s");
    let test = TestHost::open(scratch, &[entry]).await;

    let (sentence, took) = test.failure("chaos/half").await;
    let death = r#"exited with status 3; last stderr: "giving up""#;
    assert_eq!(
        sentence,
        format!(r#"server "chaos": the connection ended: the server closed its stdout ({death})"#)
    );
    assert!(
        took < Duration::from_secs(5),
        "not at the deadline: {took:?}"
    );
    // The server reconnects, and a call waits for that.
    assert_eq!(test.text("chaos/ok").await, "hi");
    assert_eq!(test.record("seen").starts(), 2);
}

#[tokio::test]
async fn f5_a_result_of_any_depth_is_returned_and_only_its_projection_fails() {
    let scratch = Scratch::new();
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let result = format!(r#"{{"content":[],"structuredContent":{{"x":{nested}}}}}"#);
    let server = Chaos::new()
        .tool("deep", Step::result(&result))
        .tool("ok", Step::text("hi"));
    let entry = support::by_file(&scratch, "chaos", &server);
    let test = TestHost::open(scratch, &[entry]).await;

    let deep = test.call("chaos/deep").await.unwrap();
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
    let refused = test
        .host
        .call_with(support::call_with(
            "chaos/ok",
            &arguments,
            &(person("somebody").arc() as _),
        ))
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("nested deeper than 128"), "{refused}");
    assert_eq!(test.text("chaos/ok").await, "hi");
}

/// T30: a server can only respond to a request, with its id, once.
#[tokio::test]
async fn f6_t30_responses_with_other_ids_reach_no_call() {
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
    let test = TestHost::open(scratch, &[entry]).await;

    until("the early answers are counted", || {
        test.deviations("chaos").unknown_ids == 36
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
        let host = test.host.clone();
        failures.spawn(async move {
            host.call_with(support::call(tool, &(person("somebody").arc() as _)))
                .await
                .unwrap_err()
                .to_string()
        });
    }
    assert_eq!(failures.join_all().await, [NO_ANSWER; 5]);
    // A result with the id `null` or without one is not a valid message.
    let deviations = test.deviations("chaos");
    assert_eq!((deviations.unknown_ids, deviations.junk_lines), (36 + 3, 2));

    assert_eq!(test.text("chaos/twice").await, "first");
    assert_eq!(test.text("chaos/ok").await, "hi");
    until("the second answer is counted", || {
        test.deviations("chaos").unknown_ids == 36 + 4
    })
    .await;

    let mut events = test.host.events();
    assert_eq!(test.failure("chaos/many").await.0, NO_ANSWER);
    let notice = loop {
        match tokio::time::timeout(TIMEOUT, events.next())
            .await
            .expect("somebody is told")
        {
            Some(NextEvent::Event(Event::Notice { line, .. })) => break line,
            Some(_) => {}
            None => panic!("the host has stopped"),
        }
    };
    assert_eq!(notice, "it has responded to 100 unknown or ended requests");
    assert_eq!(test.record("seen").starts(), 1);
}

/// P5: a call that may have run is not repeated, however often its server starts.
#[tokio::test]
async fn f7_p5_a_lost_process_fails_the_calls_in_flight_and_none_is_repeated() {
    let check = async |end: Step, death: &str| {
        let scratch = Scratch::new();
        let (go, message) = (scratch.path("go"), scratch.path("said"));
        let last_words = [
            Step::Stderr("out of luck\n".to_owned()),
            Step::touch(&message),
        ];
        let die: Steps = [
            Step::once(scratch.path("saying"), last_words),
            Step::wait_file(&go),
            end,
        ]
        .into();
        let server = Chaos::new().tool("die", die).tool("ok", Step::text("hi"));
        let entry = chaos(&scratch, &server).set("call_timeout", "20s");
        let test = TestHost::open(scratch, &[entry]).await;

        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let host = test.host.clone();
            calls.spawn(async move {
                let error = host
                    .call_with(support::call("chaos/die", &(person("somebody").arc() as _)))
                    .await
                    .unwrap_err();
                (error.to_string(), Instant::now())
            });
        }
        until("all three are under way", || {
            message.exists() && test.record("seen").count("tools/call") == 3
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
            // 100 ms is the promise; the rest is for a busy machine.
            assert!(
                at - died < Duration::from_millis(1_100),
                "{:?} after the death",
                at - died
            );
        }
        assert_eq!(test.text("chaos/ok").await, "hi");
        let record = test.record("seen");
        assert_eq!((record.starts(), record.count("tools/call")), (2, 3 + 1));
    };
    check(Step::Exit(7), "exited with status 7").await;
    check(Step::Signal("SIGKILL".to_owned()), "was killed by SIGKILL").await;
}
