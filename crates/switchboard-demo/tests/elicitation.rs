//! Questions: by request in the legacy era, by result in the modern one.
#![allow(clippy::unwrap_used)]

mod process;

use process::{Process, error, words};
use serde_json::{Value, json};

fn capable() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}})
}

/// Makes one call that asks, answers each question with the next of `answers`, and returns the
/// questions and the result.
fn converse(
    server: &mut Process,
    tool: &str,
    arguments: Value,
    answers: &[Value],
) -> (Vec<Value>, Value) {
    let mut questions = Vec::new();
    let mut params = json!({"name": tool, "arguments": arguments});
    let mut answers = answers.iter();
    if server.is_modern() {
        loop {
            let reply = server.request("tools/call", params.clone());
            if reply["result"]["resultType"] != "input_required" {
                return (questions, server.plain(&reply));
            }
            let requests = reply["result"]["inputRequests"].as_object().unwrap();
            assert_eq!(requests.len(), 1, "{reply}");
            let (key, request) = requests.iter().next().unwrap();
            assert_eq!(request["method"], "elicitation/create");
            questions.push(request["params"].clone());
            params["inputResponses"] = json!({key: answers.next().unwrap()});
            params["requestState"] = reply["result"]["requestState"].clone();
        }
    }
    let id = server.begin("tools/call", params);
    loop {
        let message = server.next();
        match message["method"].as_str() {
            Some("elicitation/create") => {
                questions.push(message["params"].clone());
                server.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answers.next().unwrap()}));
            }
            Some("notifications/elicitation/complete") => {
                assert_eq!(
                    message["params"]["elicitationId"],
                    questions.last().unwrap()["elicitationId"]
                );
            }
            _ => {
                assert_eq!(message["id"], id);
                return (questions, server.plain(&message));
            }
        }
    }
}

fn both() -> [Process; 2] {
    [
        Process::legacy("2025-11-25", capable(), &[]),
        Process::modern(capable(), &[]),
    ]
}

#[test]
fn accept_decline_and_cancel_are_distinguished_in_both_eras() {
    for mut server in both() {
        for (answer, expected) in [
            (
                json!({"action": "accept", "content": {"yes": true}}),
                "accepted: the attic would be erased now",
            ),
            (
                json!({"action": "accept", "content": {"yes": false}}),
                "accepted, with no: the attic stays",
            ),
            (json!({"action": "decline"}), "declined: the attic stays"),
            (json!({"action": "cancel"}), "cancelled: the attic stays"),
        ] {
            let (questions, result) = converse(
                &mut server,
                "confirm",
                json!({"subject": "the attic"}),
                &[answer],
            );
            assert_eq!(words(&result), expected);
            assert_eq!(questions.len(), 1);
            assert_eq!(questions[0]["message"], "Really erase the attic?");
        }
    }
}

#[test]
fn the_form_holds_every_kind_of_field_and_the_answer_comes_back_whole() {
    let given = json!({
        "name": "Ada", "email": "ada@example.com", "homepage": "https://example.com", "birthday": "1815-12-10",
        "appointment": "2026-11-15T10:00:00Z", "city": "London", "height": 1.65, "age": 36, "newsletter": false,
        "color": "blue", "size": "l", "shape": "circle", "toppings": ["olives"], "days": ["mo", "we"],
    });
    for mut server in both() {
        let answer = json!({"action": "accept", "content": given});
        let (questions, result) = converse(
            &mut server,
            "ask_form",
            json!({}),
            std::slice::from_ref(&answer),
        );
        assert_eq!(result["structuredContent"], answer);
        let fields = questions[0]["requestedSchema"]["properties"]
            .as_object()
            .unwrap();
        let mut asked: Vec<_> = fields.keys().collect();
        let mut expected: Vec<_> = given.as_object().unwrap().keys().collect();
        asked.sort();
        expected.sort();
        assert_eq!(asked, expected);
        assert_eq!(
            (&questions[0]["mode"], &fields["shape"]["enumNames"][0]),
            (&json!("form"), &json!("A round one"))
        );
    }
}

#[test]
fn the_first_revision_with_forms_gets_no_newer_field_kinds() {
    let mut server = Process::legacy("2025-06-18", json!({"elicitation": {}}), &[]);
    let (questions, result) = converse(
        &mut server,
        "ask_form",
        json!({}),
        &[json!({"action": "cancel"})],
    );
    let fields = questions[0]["requestedSchema"]["properties"]
        .as_object()
        .unwrap();
    assert_eq!((fields.len(), questions[0].get("mode")), (11, None));
    assert_eq!(words(&result), "the person chose to cancel");
}

#[test]
fn an_answer_that_does_not_fit_the_form_is_refused_with_its_faults() {
    for mut server in both() {
        let answer = json!({"action": "accept", "content": {"color": "mauve", "age": 200}});
        let (_, result) = converse(&mut server, "ask_form", json!({}), &[answer]);
        assert_eq!(result["isError"], true);
        assert_eq!(
            words(&result),
            "the answer does not fit the form: name is missing; age must be at most 150; \
             color must be one of the choices, not \"mauve\""
        );
    }
}

#[test]
fn an_address_is_asked_for_with_its_own_mode() {
    for mut server in both() {
        let (questions, result) = converse(
            &mut server,
            "ask_url",
            json!({}),
            &[json!({"action": "accept"})],
        );
        assert_eq!(words(&result), "the person chose to accept");
        assert_eq!(
            (&questions[0]["mode"], &questions[0]["url"]),
            (
                &json!("url"),
                &json!("https://example.com/switchboard/demo?step=1&for=you")
            )
        );
        assert_eq!(
            questions[0].get("elicitationId").is_some(),
            !server.is_modern()
        );
    }
}

#[test]
fn a_secret_is_asked_for_and_never_repeated() {
    for mut server in both() {
        let answer = json!({"action": "accept", "content": {"password": "hunter2"}});
        let (questions, result) = converse(&mut server, "ask_secret", json!({}), &[answer]);
        assert!(questions[0]["requestedSchema"]["properties"]["password"].is_object());
        assert_eq!(
            result,
            json!({"content": [{"type": "text", "text": "the person chose to accept"}]})
        );
    }
}

#[test]
fn a_call_may_ask_more_than_once() {
    for mut server in both() {
        let name = json!({"action": "accept", "content": {"name": "Grace"}});
        let yes = json!({"action": "accept", "content": {"yes": true}});
        let (questions, result) =
            converse(&mut server, "ask_twice", json!({}), &[name.clone(), yes]);
        assert_eq!(
            (questions.len(), words(&result)),
            (2, "pleased to meet you, Grace".to_owned())
        );
        assert_eq!(questions[1]["message"], "Is \"Grace\" really your name?");
        let (_, result) = converse(
            &mut server,
            "ask_twice",
            json!({}),
            &[name, json!({"action": "decline"})],
        );
        assert_eq!(words(&result), "so you are not Grace");
        let (questions, result) = converse(
            &mut server,
            "ask_twice",
            json!({}),
            &[json!({"action": "decline"})],
        );
        assert_eq!(
            (questions.len(), words(&result)),
            (1, "the person chose to decline".to_owned())
        );
    }
}

#[test]
fn a_peer_without_the_capability_is_not_asked() {
    for (capabilities, tool, required) in [
        (json!({}), "confirm", json!({"elicitation": {"form": {}}})),
        (
            json!({"elicitation": {"url": {}}}),
            "ask_form",
            json!({"elicitation": {"form": {}}}),
        ),
        (
            json!({"elicitation": {}}),
            "ask_url",
            json!({"elicitation": {"url": {}}}),
        ),
    ] {
        let mut legacy = Process::legacy("2025-11-25", capabilities.clone(), &[]);
        let result = legacy.call(tool, json!({}));
        assert_eq!(result["isError"], true);
        assert!(words(&result).contains(&required.to_string()), "{result}");

        let mut modern = Process::modern(capabilities, &[]);
        assert_eq!(
            modern.error("tools/call", json!({"name": tool})),
            (-32021, json!({"requiredCapabilities": required}))
        );
    }
}

#[test]
fn a_state_that_was_changed_or_moved_to_another_call_is_refused() {
    let mut server = Process::modern(capable(), &[]);
    let asked = server.request(
        "tools/call",
        json!({"name": "confirm", "arguments": {"subject": "a"}}),
    );
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    let answer = json!({"question_1": {"action": "accept", "content": {"yes": true}}});
    let mut retry = |tool: &str, subject: &str, state: &str, responses: &Value| {
        let arguments = json!({"subject": subject});
        server.request(
            "tools/call",
            json!({"name": tool, "arguments": arguments, "requestState": state, "inputResponses": responses}),
        )
    };
    let tampered = format!(
        "{}{}",
        if state.starts_with('A') { "B" } else { "A" },
        &state[1..]
    );
    for (tool, subject, state) in [
        ("confirm", "a", tampered.as_str()),
        ("confirm", "b", &state),
        ("ask_form", "a", &state),
    ] {
        assert_eq!(
            error(&retry(tool, subject, state, &answer)),
            (-32602, Value::Null),
            "{tool} {subject}"
        );
    }
    for wrong in [
        json!([]),
        json!({"question_1": {"action": "shrug"}}),
        json!({"question_1": 5}),
    ] {
        assert_eq!(
            error(&retry("confirm", "a", &state, &wrong)),
            (-32602, Value::Null),
            "{wrong}"
        );
    }
    // An answer to another question is ignored, and the question is asked again.
    let again = retry(
        "confirm",
        "a",
        &state,
        &json!({"other": {"action": "accept"}}),
    );
    assert_eq!(
        again["result"]["inputRequests"],
        asked["result"]["inputRequests"]
    );
    let done = retry(
        "confirm",
        "a",
        &state,
        &json!({"question_1": answer["question_1"], "other": 1}),
    );
    assert_eq!(words(&done["result"]), "accepted: a would be erased now");
}

#[test]
fn a_legacy_peer_that_refuses_the_question_gets_a_failure() {
    let mut server = Process::legacy("2025-11-25", capable(), &[]);
    for (reaction, expected) in [
        (
            json!({"error": {"code": -32601, "message": "no"}}),
            "the peer refused the question",
        ),
        (
            json!({"result": {"action": "shrug"}}),
            "the peer's answer is invalid",
        ),
    ] {
        server.begin_call("confirm", json!({}));
        let mut reply = json!({"jsonrpc": "2.0", "id": server.next()["id"]});
        reply
            .as_object_mut()
            .unwrap()
            .extend(reaction.as_object().unwrap().clone());
        server.send(&reply);
        let result = server.next()["result"].clone();
        assert_eq!(result["isError"], true);
        assert!(words(&result).starts_with(expected), "{result}");
    }
}

#[test]
fn cancelling_a_call_cancels_its_question() {
    let mut server = Process::legacy("2025-11-25", capable(), &[]);
    let id = server.begin_call("confirm", json!({}));
    let question = server.next();
    server.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "changed my mind"}}),
    );
    let cancelled = server.next();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
    // A late answer is ignored.
    server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "cancel"}}));
    assert_eq!(
        server.next_log(),
        format!("confirm: call {id} cancelled: changed my mind")
    );
    assert_eq!(server.words("echo", json!({"message": "next"})), "next");
}

#[test]
fn two_questions_at_once_are_answered_each_on_its_own() {
    let mut server = Process::legacy("2025-11-25", capable(), &[]);
    let calls = ["a", "b"].map(|subject| server.begin_call("confirm", json!({"subject": subject})));
    let questions = [server.next(), server.next()];
    for (question, yes) in questions.iter().zip([true, false]).rev() {
        let result = json!({"action": "accept", "content": {"yes": yes}});
        server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }
    let mut replies = [server.next(), server.next()]
        .map(|reply| (reply["id"].as_u64().unwrap(), words(&reply["result"])));
    replies.sort();
    let expected = [
        "accepted: a would be erased now",
        "accepted, with no: b stays",
    ];
    assert_eq!(
        replies,
        [
            (calls[0], expected[0].to_owned()),
            (calls[1], expected[1].to_owned())
        ]
    );
}
