//! Small answers and errors, written by hand, so that the essentials are tested everywhere.

use serde_json::{Value, json};
use switchboard_agent::conversation::{FinishReason, TurnPart};
use switchboard_agent::{FaultKind, ModelVendor};

use crate::independent_reader::{read, reading_of};
use crate::recorded_answers::read_stream;

/// One stream for each wire: a thought, text, and two parallel calls, one without arguments.
pub(crate) const STREAMS: &[(&str, ModelVendor, &str)] = &[
    ("anthropic", ModelVendor::Anthropic, ANTHROPIC),
    ("responses", ModelVendor::OpenAi, RESPONSES),
    ("chat", ModelVendor::OpenAiChat, CHAT),
    ("gemini", ModelVendor::Gemini, GEMINI),
];

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":12,"cache_read_input_tokens":100,"cache_creation_input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Which "}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"city?"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"bmF0"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me look."}}

data: {"type":"content_block_stop","index":1}

data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"Paris\","}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"days\": 2.0}"}}

data: {"type":"content_block_stop","index":2}

data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}

data: {"type":"content_block_stop","index":3}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":42}}

data: {"type":"message_stop"}

"#;

const RESPONSES: &str = r#"data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}

data: {"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Which city?"}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA","summary":[{"type":"summary_text","text":"Which city?"}]}}

data: {"type":"response.output_text.delta","output_index":1,"delta":"Let me look."}

data: {"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Let me look.","annotations":[]}]}}

data: {"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"weather","arguments":"","status":"in_progress"}}

data: {"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"city\":"}

data: {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"weather","arguments":"{\"city\": \"Paris\", \"days\": 2.0}","status":"completed"}}

data: {"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","id":"fc_2","call_id":"call_2","name":"now","arguments":"","status":"completed"}}

data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA","summary":[{"type":"summary_text","text":"Which city?"}]},{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Let me look.","annotations":[]}]},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"weather","arguments":"{\"city\": \"Paris\", \"days\": 2.0}","status":"completed"},{"type":"function_call","id":"fc_2","call_id":"call_2","name":"now","arguments":"","status":"completed"}],"usage":{"input_tokens":112,"input_tokens_details":{"cached_tokens":100},"output_tokens":42,"output_tokens_details":{"reasoning_tokens":9}}}}

"#;

const CHAT: &str = r#": PROCESSING

data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":"Which "},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"reasoning_content":"city?"},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"content":"Let me look."},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": \"Paris\","}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" \"days\": 2.0}"}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"now","arguments":""}}]},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":112,"completion_tokens":42,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens_details":{"reasoning_tokens":9}}}

data: [DONE]

"#;

const GEMINI: &str = r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Which city?","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":112}}

data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Let me look."}]},"index":0}]}

data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"f1","name":"weather","args":{"city": "Paris", "days": 2.0}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"f2","name":"now"}}]},"index":0}]}

data: {"candidates":[{"content":{"role":"model","parts":[{"text":"","thoughtSignature":"bmF0"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":112,"cachedContentTokenCount":100,"candidatesTokenCount":33,"thoughtsTokenCount":9}}

"#;

#[test]
fn each_wire_reads_the_same_turn() {
    for (name, vendor, body) in STREAMS {
        for size in [1, 7, 100_000] {
            let turn = read_stream(*vendor, "m", body.as_bytes(), size).expect(name);
            assert_eq!(turn.text(), "Let me look.", "{name}");
            assert_eq!(turn.thoughts(), "Which city?", "{name}");
            let kinds: Vec<&str> = turn
                .parts
                .iter()
                .map(|part| match part {
                    TurnPart::Thought(_) => "thought",
                    TurnPart::Text(_) => "text",
                    _ => "call",
                })
                .collect();
            assert_eq!(kinds, ["thought", "text", "call", "call"], "{name}");
            let calls: Vec<_> = turn
                .calls()
                .map(|call| {
                    (
                        call.name.as_str(),
                        call.arguments.object().expect("an object").as_str(),
                    )
                })
                .collect();
            let arguments = "{\"city\": \"Paris\", \"days\": 2.0}";
            assert_eq!(calls, [("weather", arguments), ("now", "{}")], "{name}");
            assert_eq!(turn.finish, FinishReason::Calls, "{name}");
            let usage = turn.usage;
            let counts = (usage.input, usage.cache_read, usage.output);
            assert_eq!(counts, (Some(12), Some(100), Some(42)), "{name}");
            assert_eq!(reading_of(&turn), read(*vendor, true, body), "{name}");
        }
    }
}

#[test]
fn vendors_items_are_kept_byte_for_byte() {
    let turn = read_stream(ModelVendor::OpenAi, "m", RESPONSES.as_bytes(), 50).expect("a turn");
    let items: Vec<&str> = turn.items.iter().map(|item| item.as_str()).collect();
    assert_eq!(items.len(), 4);
    assert!(items.iter().all(|item| RESPONSES.contains(item)));
    let turn = read_stream(ModelVendor::Gemini, "m", GEMINI.as_bytes(), 50).expect("a turn");
    let items: Vec<&str> = turn.items.iter().map(|item| item.as_str()).collect();
    assert_eq!(items.len(), 5);
    assert!(items.iter().all(|item| GEMINI.contains(item)));
    let turn = read_stream(ModelVendor::Anthropic, "m", ANTHROPIC.as_bytes(), 50).expect("a turn");
    let thought: Value = serde_json::from_str(turn.items[0].as_str()).expect("JSON");
    let expected = json!({"type": "thinking", "thinking": "Which city?", "signature": "c2lnbmF0"});
    assert_eq!(thought, expected);
    assert!(
        turn.items[2]
            .as_str()
            .contains("{\"city\": \"Paris\", \"days\": 2.0}")
    );
}

/// Some servers that imitate the Responses API send no index, or the same one with each item.
#[test]
fn items_without_an_index_of_their_own_are_all_read() {
    let item = |id: &str| {
        format!(r#"{{"type":"function_call","call_id":"{id}","name":"f","arguments":"{{}}"}}"#)
    };
    let ids = ["a", "b", "c"];
    let items = ids.map(item).join(",");
    for (index, output) in [("", ""), ("", &*items), ("\"output_index\":0,", &*items)] {
        let done = |id| {
            let item = item(id);
            format!("data: {{\"type\":\"response.output_item.done\",{index}\"item\":{item}}}\n\n")
        };
        let body = ids.map(done).concat()
            + &format!(
                "data: {{\"type\":\"response.completed\",\
                 \"response\":{{\"status\":\"completed\",\"output\":[{output}]}}}}\n\n"
            );
        let turn = read_stream(ModelVendor::OpenAi, "m", body.as_bytes(), 50).expect("a turn");
        assert!(turn.calls().map(|call| &*call.id).eq(ids), "{body}");
    }
}

/// Answers that end too early or say that they failed.
#[test]
fn incomplete_and_failed_answers_are_faults() {
    let overloaded =
        r#"data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let failed = r#"data: {"type":"response.failed","response":{"error":{"code":"server_is_overloaded","message":"busy"}}}"#;
    let in_chat = r#"data: {"error":{"code":502,"message":"Provider returned error"}}"#;
    let malformed =
        r#"data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","index":0}]}"#;
    let done = "data: [DONE]";
    for (vendor, body, kind) in [
        (ModelVendor::Anthropic, overloaded, FaultKind::Overloaded),
        (ModelVendor::OpenAi, failed, FaultKind::Overloaded),
        (ModelVendor::OpenAiChat, in_chat, FaultKind::Overloaded),
        (ModelVendor::OpenAiChat, done, FaultKind::CutOff),
        (ModelVendor::Gemini, malformed, FaultKind::MalformedCall),
        (ModelVendor::Gemini, "data: {}", FaultKind::CutOff),
        (ModelVendor::OpenAi, "data: nonsense", FaultKind::Unreadable),
    ] {
        let body = format!("{body}\n\n");
        let fault = read_stream(vendor, "m", body.as_bytes(), 9).expect_err("a fault");
        assert_eq!(fault.kind, kind, "{body}");
        assert!(fault.may_work_later() || kind == FaultKind::Unreadable);
    }
}

/// A call that the limit on tokens cut off has no arguments that could run.
#[test]
fn calls_that_were_cut_off_never_have_arguments() {
    let anthropic = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}

data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"}}

"#;
    let responses = r#"data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":","status":"incomplete"}}

data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}

"#;
    let chat = r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]},"finish_reason":"length"}]}

"#;
    let routed = r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]},"finish_reason":"tool_calls"}]}

"#;
    let filtered = chat.replace("length", "content_filter");
    let unknown = chat.replace("length", "server_busy");
    for (vendor, body, finish) in [
        (ModelVendor::OpenAiChat, &*filtered, FinishReason::Refused),
        (ModelVendor::OpenAiChat, &*unknown, FinishReason::Calls),
        (ModelVendor::Anthropic, anthropic, FinishReason::Length),
        (ModelVendor::OpenAi, responses, FinishReason::Length),
        (ModelVendor::OpenAiChat, chat, FinishReason::Length),
        (ModelVendor::OpenAiChat, routed, FinishReason::Calls),
    ] {
        let turn = read_stream(vendor, "m", body.as_bytes(), 5).expect("a turn");
        assert_eq!(turn.finish, finish, "{body}");
        let call = turn.calls().next().expect("a call");
        assert_eq!(call.arguments.object(), None, "{body}");
    }
}
