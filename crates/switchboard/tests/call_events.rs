//! Tests that each call is one span and one event, with caller, tool, decision, outcome and times.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use switchboard::{Approval, Call, Headless, HostBuilder};
use switchboard_testkit::{Chaos, Scratch, Step};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The events of the target `switchboard::calls`, each with its fields.
#[derive(Clone, Default)]
struct Captured {
    events: Arc<Mutex<Vec<Fields>>>,
    spans: Arc<Mutex<Vec<&'static str>>>,
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Captured {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "switchboard::calls"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.spans.lock().unwrap().push(span.metadata().name());
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.events.lock().unwrap().push(fields);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn each_call_is_one_event_with_decision_outcome_and_times() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("look", Step::text("fine"))
        .tool("change", Step::text("written"))
        .tool("drop", Step::text("never"))
        .tool("fail", Step::result(r#"{"content":[],"isError":true}"#));
    let rules = "[permissions]\nallow = [\"s/look\", \"s/fail\"]\ndeny = [\"s/drop\"]\n";
    let file = scratch.config_with(rules, &[server.entry("s")]);
    let host = HostBuilder::open(file)
        .unwrap()
        .on_approval(|_| async { Approval::no("not today") })
        .start()
        .await
        .unwrap();
    let captured = Captured::default();
    let guard = tracing::subscriber::set_default(captured.clone());
    let other = Call::new("s/look", json!({})).caller(Arc::new(Headless::new("other")));
    host.call("s/look", json!({})).await.unwrap();
    host.call_with(other).await.unwrap();
    host.call("s/fail", json!({})).await.unwrap();
    host.call("s/change", json!({})).await.unwrap_err();
    host.call("s/drop", json!({})).await.unwrap_err();
    host.call("s/none", json!({})).await.unwrap_err();
    drop(guard);
    host.stop().await;

    let events = captured.events.lock().unwrap();
    let message: Vec<_> = events
        .iter()
        .map(|Fields(fields)| {
            let names = ["caller", "server", "tool", "decision", "outcome"];
            names.map(|name| fields[name].as_str())
        })
        .collect();
    assert_eq!(
        message,
        [
            ["host", "s", "look", "allow", "answered"],
            ["other", "s", "look", "allow", "answered"],
            ["host", "s", "fail", "allow", "tool error"],
            ["host", "s", "change", "ask", "denied"],
            ["host", "s", "drop", "deny", "denied"],
            ["host", "", "", "none", "unresolved"],
        ]
    );
    assert_eq!(*captured.spans.lock().unwrap(), ["call"; 6]);
    for Fields(fields) in events.iter() {
        for time in [
            "approval_ms",
            "waiting_ms",
            "questions_ms",
            "server_ms",
            "total_ms",
        ] {
            assert!(fields[time].parse::<u64>().is_ok(), "{time}");
        }
    }
    assert!(events[0].0["rule"].starts_with("allow rule \"s/look\""));
    assert_eq!(
        events[3].0["error"],
        "server \"s\", tool change: denied: not today"
    );
}

/// A call that never reached its server says how long it waited for it.
#[tokio::test]
async fn a_call_whose_server_did_not_come_back_reports_the_wait() {
    let scratch = Scratch::new();
    let server = Chaos::new()
        .tool("look", Step::text("fine"))
        .tool("die", Step::Exit(1));
    let rules = "[permissions]\nallow = [\"s\"]\n";
    let file = scratch.config_with(rules, &[server.entry("s")]);
    let host = HostBuilder::open(file).unwrap().start().await.unwrap();
    assert!(host.wait_until_settled(Duration::from_secs(60)).await);
    let captured = Captured::default();
    let guard = tracing::subscriber::set_default(captured.clone());
    host.call("s/die", json!({})).await.unwrap_err();
    let limit = Duration::from_millis(20);
    let early = Call::new("s/look", json!({})).timeout(limit);
    host.call_with(early).await.unwrap_err();
    drop(guard);
    host.stop().await;

    let events = captured.events.lock().unwrap();
    let Fields(fields) = &events[1];
    assert_eq!(fields["outcome"], "not ready");
    let waited: u64 = fields["waiting_ms"].parse().unwrap();
    assert!(waited >= 20, "{waited}");
}

/// The debug log of a call whose times nobody measures.
#[derive(Clone, Default)]
struct DebugLog(Arc<Mutex<Vec<String>>>);

impl Subscriber for DebugLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "switchboard::call::trace"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0["message"].clone());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn the_log_has_no_time_of_a_call_that_was_not_measured() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("look", Step::text("fine"));
    let rules = "[permissions]\nallow = [\"s\"]\n";
    let file = scratch.config_with(rules, &[server.entry("s")]);
    let host = HostBuilder::open(file).unwrap().start().await.unwrap();
    let log = DebugLog::default();
    let guard = tracing::subscriber::set_default(log.clone());
    host.call("s/look", json!({})).await.unwrap();
    drop(guard);
    host.stop().await;
    assert_eq!(
        *log.0.lock().unwrap(),
        [
            "tool s/look: resolved from \"s/look\"",
            "tool s/look: sent",
            "tool s/look: answered",
        ]
    );
}
