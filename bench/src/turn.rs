//! `bench turn`: what the agent adds to a model's turns, against a raw replay of the same recording;
//! and what a thousand tools add to the first token.
//!
//! A vendor's server in a thread of this process plays a recording: a turn with a call, and a turn
//! with the answer. The raw contestant posts the recorded requests and reads the streams; we build
//! the requests, read the events and dispatch the call through the gate.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use switchboard::{
    CallResult, Caller, Headless, Host, HostBuilder, HostTool, HostToolDefinition, HostToolFuture,
    RawJson,
};
use switchboard_agent::model::TurnFuture;
use switchboard_agent::wire::wire_of;
use switchboard_agent::{
    Agent, AgentEvent, HttpModel, Model, ModelSettings, ModelVendor, TurnContext, TurnEvent,
    UserMessage,
};

use crate::measure::{Fault, median_time};
use crate::options::Options;
use crate::report::{Row, Unit};

/// How many pieces of text the answer of the recording has.
const DELTAS: usize = 200;

/// The vendor's time to the first token, where that is measured: that of a fast vendor.
const FIRST_TOKEN: Duration = Duration::from_millis(200);

/// All rows of the table.
pub(crate) async fn run(options: &Options) -> Result<Vec<Row>, Fault> {
    let runs = if options.quick { 50 } else { 300 };
    let url = start_vendor(Duration::ZERO)?;
    let host = start_host(10).await?;
    let requests = recorded_requests(&host, &url).await?;
    let client = switchboard::transport::http::reqwest_builder()
        .no_proxy()
        .build()?;
    let mut agent = new_agent(&host, &url)?;
    let (mut raw, mut ours) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let mut times = [Vec::with_capacity(runs), Vec::with_capacity(runs)];
        // Interleaved, so that both have the same load of the machine.
        for _ in 0..runs {
            let start = Instant::now();
            for (url, body) in &requests {
                replay(&client, url, body).await?;
            }
            times[0].push(start.elapsed());
            agent.clear();
            let start = Instant::now();
            agent.run(question(), &mut |_| {}).await?;
            times[1].push(start.elapsed());
        }
        if round > 0 {
            raw.push(median_time(&mut times[0]));
            ours.push(median_time(&mut times[1]));
        }
    }
    host.stop().await;
    let turns = Row::new("two turns with a call, p50", Unit::Seconds)
        .cell("raw", raw)
        .cell("us", ours)
        .at_most("us", 1.3, "raw");
    Ok(vec![turns, first_token(options).await?])
}

/// A new conversation to its first token, with ten tools and with a thousand.
async fn first_token(options: &Options) -> Result<Row, Fault> {
    let url = start_vendor(FIRST_TOKEN)?;
    let hosts = [start_host(10).await?, start_host(1000).await?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=options.rounds {
        for (host, times) in hosts.iter().zip(&mut times) {
            let mut agent = new_agent(host, &url)?;
            let start = Instant::now();
            let mut first = None;
            let mut sink = |event: AgentEvent| {
                if let AgentEvent::Model(TurnEvent::Delta(_)) = event {
                    first.get_or_insert_with(|| start.elapsed());
                }
            };
            agent.run(question(), &mut sink).await?;
            let seconds = first.ok_or("no token came")?.as_secs_f64();
            times.extend((round > 0).then_some(seconds));
        }
    }
    for host in hosts {
        host.stop().await;
    }
    let [few, many] = times;
    Ok(
        Row::new("first token of a vendor that takes 200 ms", Unit::Seconds)
            .cell("10 tools", few)
            .cell("1,000 tools", many)
            .at_most("1,000 tools", 1.05, "10 tools"),
    )
}

fn question() -> UserMessage {
    UserMessage::text("How many words has this sentence?")
}

fn new_agent(host: &Host, url: &str) -> Result<Agent, Fault> {
    let model = HttpModel::new(settings(url))?;
    let caller = Arc::new(Headless::new("bench"));
    Ok(Agent::new(host.clone(), model, caller).system("Answer briefly."))
}

fn settings(url: &str) -> ModelSettings {
    let mut settings = ModelSettings::new(ModelVendor::Anthropic, "claude-sonnet-4-6");
    settings.base_url = Some(url.to_owned());
    settings.context_tokens = Some(200_000);
    settings
}

/// A model that records the address and the body of each request.
struct RecordingModel {
    model: HttpModel,
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl Model for RecordingModel {
    fn description(&self) -> String {
        self.model.description()
    }

    fn settings(&self) -> &ModelSettings {
        self.model.settings()
    }

    fn turn<'a>(
        &'a self,
        context: TurnContext<'a>,
        sink: &'a mut (dyn FnMut(TurnEvent) + Send),
    ) -> TurnFuture<'a> {
        let settings = self.settings();
        let wire = wire_of(settings.vendor).expect("a vendor with a wire");
        let request = wire.request(settings, &context);
        let url = format!("{}{}", settings.endpoint(), request.path);
        let mut requests = self.requests.lock().expect("no panic holds it");
        requests.push((url, request.body));
        drop(requests);
        self.model.turn(context, sink)
    }
}

/// The requests of one run of ours.
async fn recorded_requests(host: &Host, url: &str) -> Result<Vec<(String, String)>, Fault> {
    let requests = Arc::default();
    let model = RecordingModel {
        model: HttpModel::new(settings(url))?,
        requests: Arc::clone(&requests),
    };
    let caller = Arc::new(Headless::new("bench"));
    let mut agent = Agent::new(host.clone(), model, caller).system("Answer briefly.");
    agent.run(question(), &mut |_| {}).await?;
    let requests = requests.lock().expect("no panic holds it").clone();
    match requests.len() {
        2 => Ok(requests),
        count => Err(format!("expected two requests, not {count}").into()),
    }
}

/// One recorded request, and its stream read to the end.
async fn replay(client: &reqwest::Client, url: &str, body: &str) -> Result<(), Fault> {
    let request = client.post(url).header("content-type", "application/json");
    let mut response = request.body(body.to_owned()).send().await?;
    while response.chunk().await?.is_some() {}
    Ok(())
}

async fn start_host(tools: usize) -> Result<Host, Fault> {
    let mut config = switchboard::config::Config::default();
    config.permissions.mode = switchboard::config::Mode::Yolo;
    let mut builder = HostBuilder::new(config);
    for number in 0..tools {
        builder = builder.tool(CountWords { number });
    }
    Ok(builder.start().await?)
}

/// A tool in this process, so that no server's time is measured.
struct CountWords {
    number: usize,
}

impl HostTool for CountWords {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({"type": "object", "properties": {
            "text": {"type": "string", "description": "The text whose words are counted"},
            "language": {"type": "string", "enum": ["en", "de", "fr"]},
        }, "required": ["text"]});
        let name = format!("count_words_{}", self.number);
        let description = "Counts the words of a text in one of three languages.";
        HostToolDefinition::new(name, description, schema)
    }

    fn call<'a>(&'a self, _: &'a RawJson, _: &'a Arc<dyn Caller>) -> HostToolFuture<'a> {
        Box::pin(async { Ok(CallResult::success("6")) })
    }
}

/// A vendor's server that plays the recording; its URL. Its threads end with the program.
fn start_vendor(delay: Duration) -> Result<String, Fault> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(&stream, delay));
        }
    });
    Ok(url)
}

fn serve(stream: &TcpStream, delay: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let (calling, answering) = (calling_turn(), answering_turn());
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body);
        let turn = match body.contains("tool_result") {
            true => &answering,
            false => &calling,
        };
        std::thread::sleep(delay);
        writer.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
        // Vendors send a few events at once.
        for events in turn.chunks(8) {
            let text = events.concat();
            writer.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
        }
        writer.write_all(b"0\r\n\r\n")?;
    }
}

/// An event as the vendor lays it out: its type first, then `members`.
fn event(kind: &str, members: &str) -> String {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{members}}}\n\n")
}

fn begin() -> String {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "usage": {"input_tokens": 400, "output_tokens": 1}});
    event("message_start", &format!(r#","message":{message}"#))
}

fn end(reason: &str) -> [String; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    let members = format!(r#","delta":{delta},"usage":{{"output_tokens":220}}"#);
    [event("message_delta", &members), event("message_stop", "")]
}

fn block_start(index: usize, block: &serde_json::Value) -> String {
    let members = format!(r#","index":{index},"content_block":{block}"#);
    event("content_block_start", &members)
}

fn block_delta(index: usize, kind: &str, member: &str, text: &str) -> String {
    let text = json!(text);
    let delta = format!(r#"{{"type":"{kind}","{member}":{text}}}"#);
    let members = format!(r#","index":{index},"delta":{delta}"#);
    event("content_block_delta", &members)
}

fn block_stop(index: usize) -> String {
    event("content_block_stop", &format!(r#","index":{index}"#))
}

/// Some text, then a call whose arguments come in pieces.
fn calling_turn() -> Vec<String> {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "count_words_0", "input": {}});
    let mut events = vec![begin()];
    events.extend(text_block(0, 20));
    events.push(block_start(1, &call));
    for piece in ["{\"text\": \"How many", " words has this", " sentence?\"}"] {
        events.push(block_delta(1, "input_json_delta", "partial_json", piece));
    }
    events.push(block_stop(1));
    events.extend(end("tool_use"));
    events
}

fn answering_turn() -> Vec<String> {
    let mut events = vec![begin()];
    events.extend(text_block(0, DELTAS));
    events.extend(end("end_turn"));
    events
}

fn text_block(index: usize, deltas: usize) -> Vec<String> {
    let mut events = vec![block_start(index, &json!({"type": "text", "text": ""}))];
    for number in 0..deltas {
        let text = format!("piece {number} of the text ");
        events.push(block_delta(index, "text_delta", "text", &text));
    }
    events.push(block_stop(index));
    events
}
