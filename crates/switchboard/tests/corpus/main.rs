//! Tests that messages of every type of every revision, and odd ones, pass every transport byte for
//! byte in params and results.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard::caller::{Caller, CallerId, Headless};
use switchboard::config::{Protocol, Timeouts};
use switchboard::name::ServerName;
use switchboard::session::{Era, OpenOptions, Session};
use switchboard::transport::{Inbound, MessageOrigin, TransportFault};
use switchboard::wire::{Incoming, Outgoing, OversizedMessage, RawJson, RequestMetadata};
use tokio::sync::mpsc;
use tokio::time::timeout;

use example::{Core, Example, corpus};
use peer::{Peer, Wire};

mod example;
mod peer;
mod types;

/// The timeout of these tests, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Records what arrives.
struct Listener(mpsc::UnboundedSender<Heard>);

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Message(Core),
    Trouble(String),
}

impl Listener {
    fn trouble(&self, what: String) {
        let _ = self.0.send(Heard::Trouble(what));
    }
}

impl Inbound for Listener {
    fn message(&self, message: Incoming, _: MessageOrigin) {
        let _ = self.0.send(Heard::Message(Core::of(&message)));
    }

    fn failed(&self, id: u64, fault: TransportFault) {
        self.trouble(format!("no answer to {id}: {fault}"));
    }

    fn session_renewed(&self) {
        self.trouble("renewed".into());
    }

    fn not_a_message(&self, sample: &[u8]) {
        self.trouble(format!("junk: {}", String::from_utf8_lossy(sample)));
    }

    fn oversized(&self, message: Option<OversizedMessage>) {
        self.trouble(format!("too large: {message:?}"));
    }

    fn closed(&self, reason: String) {
        self.trouble(format!("closed: {reason}"));
    }
}

/// The messages that a host may send: all but batches, which it only receives.
#[tokio::test(flavor = "multi_thread")]
async fn every_message_passes_every_transport_byte_for_byte_in_both_directions() {
    let corpus = corpus();
    for wire in Wire::ALL {
        pass(wire, &corpus).await;
    }
}

async fn pass(wire: Wire, corpus: &[Example]) {
    let Peer { connector, script } = Peer::start(wire, corpus).await;
    let (sender, mut heard) = mpsc::unbounded_channel();
    let transport = connector.connect(Arc::new(Listener(sender))).await.unwrap();
    let mut id = 1_000;
    for (index, example) in corpus.iter().enumerate() {
        let about = || {
            format!(
                "{wire:?}, {}, {}, {}",
                example.file,
                example.kind,
                &example.text[..example.text.len().min(200)]
            )
        };
        let send = |body: &str, method: Option<&str>, id: Option<u64>| {
            transport
                .send(Outgoing {
                    id,
                    method,
                    body: body.as_bytes(),
                    metadata: RequestMetadata::default(),
                })
                .unwrap();
        };
        let carrier = |id: u64| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"corpus/say","params":{{"corpus_index":{index}}}}}"#
            )
        };
        if !example.is_batch() {
            id += 1;
            let body = example.with_id(id);
            send(
                &body,
                example.method().as_deref(),
                example.is_request().then_some(id),
            );
            assert_eq!(received(&script).await, body, "{}", about());
            let answer = example.is_request().then(Core::empty);
            expect_messages(&mut heard, answer, &about()).await;
        }
        if wire.carries(example) {
            id += 1;
            send(&carrier(id), Some("corpus/say"), Some(id));
            assert_eq!(received(&script).await, carrier(id), "{}", about());
            let answer = (!example.is_answer()).then(Core::empty);
            expect_messages(
                &mut heard,
                example.cores().into_iter().chain(answer),
                &about(),
            )
            .await;
        }
    }
    drop(transport.close());
}

/// Waits for these messages, in this order.
async fn expect_messages(
    heard: &mut mpsc::UnboundedReceiver<Heard>,
    expected: impl IntoIterator<Item = Core>,
    about: &str,
) {
    for core in expected {
        let next = timeout(TIMEOUT, heard.recv())
            .await
            .unwrap_or_else(|_| panic!("nothing arrives: {about}"))
            .unwrap();
        assert_eq!(next, Heard::Message(core), "{about}");
    }
}

/// The message that the peer received. Some have no response to wait for.
async fn received(script: &peer::Script) -> String {
    let one = timeout(TIMEOUT, script.received())
        .await
        .expect("the peer receives what was sent");
    assert_eq!(script.take_received(), [""; 0]);
    one
}

/// The same through a session, in both eras: arguments and results are unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_and_results_pass_a_session_byte_for_byte_on_every_transport() {
    let corpus = corpus();
    let params: Vec<String> = corpus.iter().filter_map(Example::params).collect();
    for (wire, era) in Wire::ALL
        .into_iter()
        .flat_map(|wire| [(wire, Era::Legacy), (wire, Era::Modern)])
    {
        if !wire.has(era) {
            continue;
        }
        let Peer { connector, script } = Peer::start(wire, &corpus).await;
        let session = Session::open(&*connector, options(era)).await.unwrap();
        script.take_received();
        let caller: Arc<dyn Caller> = Arc::new(Headless(CallerId::new("corpus")));
        for (index, example) in corpus.iter().enumerate() {
            // A modern session continues with an incomplete result, and a legacy one refuses it.
            let Some(result) = example.result().filter(|result| is_complete(result)) else {
                continue;
            };
            let carried = &params[index % params.len()];
            let arguments: RawJson = format!(r#"{{"corpus_index":{index}, "carried":{carried}}}"#)
                .parse()
                .unwrap();
            let got = session
                .prompt("corpus", &arguments, &caller, Timeouts::default())
                .await
                .unwrap();
            assert_eq!(got.as_str(), result, "{wire:?} {era:?} {}", example.kind);
            let sent = script.take_received();
            let arguments = format!(r#""arguments":{}}}}}"#, arguments.as_str());
            assert_eq!(
                sent.iter()
                    .filter(|message| message.ends_with(&arguments))
                    .count(),
                1,
                "{sent:?}"
            );
        }
        session.close();
    }
}

fn is_complete(result: &str) -> bool {
    let kind = serde_json::from_str::<serde_json::Value>(result)
        .ok()
        .and_then(|result| Some(result["resultType"].as_str()?.to_owned()));
    kind.is_none_or(|kind| kind == "complete")
}

fn options(era: Era) -> OpenOptions {
    let mut options = OpenOptions::new(ServerName::new("corpus").unwrap());
    options.protocol = match era {
        Era::Legacy => Protocol::Legacy,
        Era::Modern => Protocol::Modern,
    };
    options.connect_timeout = TIMEOUT;
    options.max_message_bytes = 1 << 20;
    options
}

/// Every message type of a revision has an example.
#[test]
fn the_corpus_has_every_message_type_of_every_revision() {
    let corpus = corpus();
    for (revision, types) in types::REVISIONS {
        let there: BTreeSet<&str> = corpus
            .iter()
            .filter(|example| example.file == revision)
            .map(|example| &*example.kind)
            .collect();
        let missing: Vec<&str> = types()
            .into_iter()
            .filter(|kind| !there.contains(kind))
            .collect();
        assert_eq!(missing, [""; 0], "{revision}");
    }
    let odd: BTreeSet<&str> = corpus
        .iter()
        .filter(|example| example.file == "odd")
        .map(|example| &*example.kind)
        .collect();
    for kind in types::ODD {
        assert!(odd.contains(kind), "{kind}");
    }
}

/// The specification's examples, which are not part of the project: `SWITCHBOARD_SCHEMA_EXAMPLES`
/// names their folder.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs SWITCHBOARD_SCHEMA_EXAMPLES, the folder schema/2026-07-28/examples of the specification"]
async fn the_public_schema_examples_pass_every_transport_byte_for_byte() {
    let folder = std::env::var("SWITCHBOARD_SCHEMA_EXAMPLES")
        .expect("SWITCHBOARD_SCHEMA_EXAMPLES names a folder");
    let mut files = Vec::new();
    collect(Path::new(&folder), &mut files);
    let examples: Vec<Example> = files.iter().map(|file| Example::public(file)).collect();
    assert!(!examples.is_empty(), "no examples in {folder}");
    let messages = examples
        .iter()
        .filter(|example| !example.is_wrapped())
        .count();
    for wire in Wire::ALL {
        pass(wire, &examples).await;
        let heard = examples
            .iter()
            .filter(|example| wire.carries(example))
            .count();
        println!(
            "{wire:?}: {} examples sent, {heard} received; {messages} are whole messages",
            examples.len()
        );
    }
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => collect(&path, files),
            path if path
                .extension()
                .is_some_and(|extension| extension == "json") =>
            {
                files.push(path)
            }
            _ => {}
        }
    }
    files.sort();
}
