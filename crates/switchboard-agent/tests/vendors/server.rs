//! A vendor's server, scripted: it checks each request by the vendor's rules, refuses like the
//! vendor, and otherwise sends the next reply of its script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::secret::Secret;
use switchboard_agent::driver::DriverLimits;
use switchboard_agent::{HttpModel, ModelSettings, ModelVendor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::rules;

pub(crate) const KEY: &str = "sk-test-key";

/// What the server does with a request that it accepts.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// An event stream, whole.
    Stream(String),
    /// An event stream whose connection breaks at its end.
    Broken(String),
    /// An event stream whose connection stays open after its last event.
    Open(String),
    /// One JSON document.
    Document(String),
    /// A status with headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Nothing, until the client disconnects.
    Silence,
}

/// Which tools the server refuses, and how it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    Accepts,
    /// Refuses a `pattern` in a schema, and names the tool.
    NamesPatterns,
    /// Refuses it and names nothing.
    HidesPatterns,
}

#[derive(Debug)]
struct Script {
    replies: VecDeque<Reply>,
    requests: Vec<Value>,
    /// Clients that disconnected while the server was silent.
    gone: usize,
}

pub(crate) struct VendorServer {
    pub(crate) vendor: ModelVendor,
    url: String,
    script: Arc<Mutex<Script>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for VendorServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl VendorServer {
    pub(crate) async fn start(vendor: ModelVendor, replies: Vec<Reply>) -> Self {
        Self::start_strict(vendor, replies, Strictness::Accepts).await
    }

    pub(crate) async fn start_strict(
        vendor: ModelVendor,
        replies: Vec<Reply>,
        strictness: Strictness,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let script = Arc::new(Mutex::new(Script {
            replies: replies.into(),
            requests: Vec::new(),
            gone: 0,
        }));
        let shared = Arc::clone(&script);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, vendor, strictness, &shared).await;
            }
        });
        Self {
            vendor,
            url,
            script,
            task,
        }
    }

    /// A model that is reached here, with short pauses.
    pub(crate) fn model(&self) -> HttpModel {
        let mut settings = ModelSettings::new(self.vendor, "gemini-3-x");
        settings.base_url = Some(self.url.clone());
        settings.api_key = Some(Secret::new(KEY));
        let limits = DriverLimits {
            idle_timeout: Duration::from_secs(5),
            end_timeout: Duration::from_millis(50),
            first_pause: Duration::from_millis(5),
            max_event_bytes: 64 * 1024,
            ..DriverLimits::default()
        };
        HttpModel::with_limits(settings, limits).expect("a model")
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.script.lock().expect("a script").requests.clone()
    }

    pub(crate) fn gone(&self) -> usize {
        self.script.lock().expect("a script").gone
    }
}

async fn serve(
    mut stream: TcpStream,
    vendor: ModelVendor,
    strictness: Strictness,
    script: &Mutex<Script>,
) {
    let Some((head, body)) = read_request(&mut stream).await else {
        return;
    };
    let body: Value = serde_json::from_str(&body).expect("a JSON body");
    let refused = refuse(vendor, strictness, &head, &body);
    let reply = {
        let mut script = script.lock().expect("a script");
        script.requests.push(body);
        match refused {
            Some((status, words)) => {
                let body = error_body(vendor, status, &words).to_string();
                Reply::Status(status, Vec::new(), body)
            }
            None => script.replies.pop_front().expect("a reply is left"),
        }
    };
    let stays_open = matches!(reply, Reply::Open(_));
    let (kind, status, headers, text, is_broken) = match reply {
        Reply::Stream(text) => ("text/event-stream", 200, Vec::new(), text, false),
        Reply::Broken(text) | Reply::Open(text) => {
            ("text/event-stream", 200, Vec::new(), text, true)
        }
        Reply::Document(text) => ("application/json", 200, Vec::new(), text, false),
        Reply::Status(status, headers, text) => ("application/json", status, headers, text, false),
        Reply::Silence => {
            let mut byte = [0];
            let read = stream.read(&mut byte).await;
            assert!(!matches!(read, Ok(count) if count > 0));
            script.lock().expect("a script").gone += 1;
            return;
        }
    };
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    // A broken answer promises more than it sends.
    let length = text.len() + usize::from(is_broken);
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n{headers}\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).await;
    // In two pieces, so that events are cut on the way.
    let middle = text.len() / 2;
    let (first, second) = text.as_bytes().split_at(middle);
    let _ = stream.write_all(first).await;
    let _ = stream.flush().await;
    tokio::task::yield_now().await;
    let _ = stream.write_all(second).await;
    if stays_open {
        // Until the client closes it.
        let _ = stream.read(&mut [0]).await;
    }
    let _ = stream.shutdown().await;
}

pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut buffer = [0; 4096];
        let count = stream
            .read(&mut buffer)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    };
    let head = String::from_utf8(bytes[..end].to_vec())
        .expect("a head")
        .to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.expect("a length").trim().parse().expect("a number");
    let mut body = bytes[end..].to_vec();
    body.resize(length.max(body.len()), 0);
    let have = bytes.len() - end;
    stream.read_exact(&mut body[have..]).await.ok()?;
    Some((head, String::from_utf8(body).expect("text")))
}

/// Status and words of a refusal, if the vendor would refuse.
fn refuse(
    vendor: ModelVendor,
    strictness: Strictness,
    head: &str,
    body: &Value,
) -> Option<(u16, String)> {
    let (path, header) = match vendor {
        ModelVendor::Anthropic => ("/v1/messages ", format!("x-api-key: {KEY}")),
        ModelVendor::OpenAi => ("/v1/responses ", format!("authorization: bearer {KEY}")),
        ModelVendor::OpenAiChat => (
            "/v1/chat/completions ",
            format!("authorization: bearer {KEY}"),
        ),
        _ => (
            "/v1beta/models/gemini-3-x:streamgeneratecontent?alt=sse ",
            format!("x-goog-api-key: {KEY}"),
        ),
    };
    if !head.starts_with(&format!("post {path}")) {
        return Some((404, "not found".to_owned()));
    }
    if !head.contains(&header) {
        return Some((401, "invalid key".to_owned()));
    }
    if let Err(words) = rules::check(vendor, "gemini-3-x", body) {
        return Some((400, words));
    }
    let tools = tools_of(vendor, body);
    let (index, name) = tools.iter().enumerate().find_map(|(index, tool)| {
        let has_pattern = tool.to_string().contains("\"pattern\":\"");
        let name = tool["name"].as_str().or(tool["function"]["name"].as_str());
        has_pattern.then(|| (index, name.unwrap_or_default().to_owned()))
    })?;
    match (strictness, vendor) {
        (Strictness::Accepts, _) => None,
        (Strictness::HidesPatterns, ModelVendor::Gemini) => {
            Some((400, "Request contains an invalid argument.".to_owned()))
        }
        (Strictness::HidesPatterns, _) => Some((
            400,
            "Failed to initialize samplers: failed to parse grammar".to_owned(),
        )),
        (Strictness::NamesPatterns, ModelVendor::Anthropic) => Some((
            400,
            format!("tools.{index}.custom.input_schema: pattern is not supported"),
        )),
        (Strictness::NamesPatterns, ModelVendor::Gemini) => Some((
            400,
            format!(
                "Unknown name \"pattern\" at 'tools[0].function_declarations[{index}].parameters'"
            ),
        )),
        (Strictness::NamesPatterns, _) => Some((
            400,
            format!(
                "Invalid schema for function '{name}': In context=('properties', 'p'), 'pattern' is not permitted."
            ),
        )),
    }
}

fn tools_of(vendor: ModelVendor, body: &Value) -> Vec<Value> {
    let tools = match vendor {
        ModelVendor::Gemini => &body["tools"][0]["functionDeclarations"],
        _ => &body["tools"],
    };
    tools.as_array().cloned().unwrap_or_default()
}

/// An error as the vendor words it.
pub(crate) fn error_body(vendor: ModelVendor, status: u16, words: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400 => "invalid_request_error",
        _ => "api_error",
    };
    match vendor {
        ModelVendor::Anthropic => json!({
            "type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1",
        }),
        ModelVendor::Gemini => json!({"error": {"code": status, "message": words}}),
        _ => json!({"error": {"message": words, "type": kind, "param": null, "code": null}}),
    }
}

/// A stream that says one text and ends.
pub(crate) fn text_stream(vendor: ModelVendor, text: &str) -> String {
    let text = Value::from(text);
    match vendor {
        ModelVendor::Anthropic => format!(
            "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n\
             data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}\n\n\
             data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
             data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}},\"usage\":{{\"output_tokens\":1}}}}\n\n\
             data: {{\"type\":\"message_stop\"}}\n\n"
        ),
        ModelVendor::OpenAi => {
            let item = format!(
                "{{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{{\"type\":\"output_text\",\"text\":{text}}}]}}"
            );
            format!(
                "data: {{\"type\":\"response.output_text.delta\",\"delta\":{text}}}\n\n\
                 data: {{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{item}}}\n\n\
                 data: {{\"type\":\"response.completed\",\"response\":{{\"status\":\"completed\",\"output\":[{item}]}}}}\n\n"
            )
        }
        ModelVendor::OpenAiChat => format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text}}}}}]}}\n\n\
             data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
        ),
        _ => format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":{text}}}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
        ),
    }
}
