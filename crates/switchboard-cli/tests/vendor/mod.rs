//! A vendor of models on a loopback socket that answers from a list.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// A status line with its headers, and a body.
pub type Reply = (&'static str, String);

const EVENT_STREAM: &str = "200 OK\r\ncontent-type: text/event-stream";

/// Answers each request with the next of these and returns the requests.
pub fn vendor(replies: Vec<Reply>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for (head, body) in replies {
            let (mut stream, _) = listener.accept().unwrap();
            requests.push(read_request(&mut stream));
            let length = body.len();
            let reply = format!(
                "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(reply.as_bytes()).unwrap();
        }
        requests
    });
    (url, thread)
}

/// One request, head and body.
fn read_request(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() >= length || count == 0 {
            return text;
        }
    }
}

/// The body of a request.
pub fn body(request: &str) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// A turn of the Chat Completions API as a stream of events.
pub fn chat_turn(delta: Value, finish: &str) -> Reply {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    (EVENT_STREAM, format!("data: {chunk}\n\ndata: [DONE]\n\n"))
}

/// A turn of Gemini with one part.
pub fn gemini_turn(part: &Value) -> Reply {
    let chunk = json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2},
    });
    (EVENT_STREAM, format!("data: {chunk}\n\n"))
}

/// A turn of Anthropic with one block of content.
pub fn anthropic_turn(block: &Value, stop_reason: &str) -> Reply {
    let start = match block["type"].as_str() {
        Some("tool_use") => {
            json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}})
        }
        _ => json!({"type": "text", "text": ""}),
    };
    let delta = match block["type"].as_str() {
        Some("tool_use") => {
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        }
        _ => json!({"type": "text_delta", "text": block["text"]}),
    };
    let usage = json!({"input_tokens": 5, "output_tokens": 1});
    let events = [
        json!({"type": "message_start", "message":
            {"id": "m", "role": "assistant", "content": [], "usage": usage}}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason},
            "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let events = events.map(|event| format!("data: {event}\n\n"));
    (EVENT_STREAM, events.concat())
}

/// A native file's section that names it.
pub fn model_section(vendor: &str, url: &str) -> String {
    format!(
        "[model]\nvendor = '{vendor}'\nname = 'm'\nbase_url = '{url}'\napi_key = '${{MY_KEY:-sk-mine}}'\n"
    )
}
