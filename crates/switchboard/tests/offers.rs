//! Tests of subscriptions, completions, logs and caching through a whole host: the demo server in
//! both eras, and a misbehaving one.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::call::Call;
use switchboard::caller::{Approval, ApprovalRequest, BoxFuture, Caller, CallerId, LogLine};
use switchboard::config::{self, ConfigFile, Scope};
use switchboard::event::{Event, Events, LogLevel, NextEvent};
use switchboard::launch::Launcher;
use switchboard::name::ServerName;
use switchboard::result::CallResult;
use switchboard::session::CompletionTarget;
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_testkit::script::{Era, Flip};
use switchboard_testkit::{Chaos, Entry, Launch, Record, Scratch, Step, program};

/// The longest that any step may take, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

const ERAS: [&str; 2] = ["legacy", "modern"];

/// A host of one server called `it`.
struct TestHost {
    host: Host,
    it: ServerName,
    scratch: Scratch,
}

impl TestHost {
    async fn open(entry: impl FnOnce(&Scratch) -> Entry) -> Self {
        let scratch = Scratch::new();
        let path = scratch.config(&[entry(&scratch)]);
        let config = config::load(&[ConfigFile::new(path, Scope::Given)]).unwrap();
        let launcher = Launcher::start(program("switchboard-launcher")).unwrap();
        let host = HostBuilder::new(config)
            .launcher(launcher)
            .start()
            .await
            .unwrap();
        assert!(host.wait_until_settled(TIMEOUT).await);
        Self {
            host,
            it: ServerName::new("it").unwrap(),
            scratch,
        }
    }

    /// The demo server in this era.
    async fn demo(era: &str) -> Self {
        Self::open(|_| {
            Entry::new("it", &Launch::new(program("switchboard-demo"))).set("protocol", era)
        })
        .await
    }

    /// A scripted server, whose record is `seen`.
    async fn chaos(server: Chaos) -> Self {
        Self::open(|scratch| server.record(scratch.path("seen")).entry("it")).await
    }

    async fn call(
        &self,
        tool: &str,
        arguments: Value,
        caller: &Arc<RecordingCaller>,
    ) -> Result<CallResult, String> {
        let call =
            Call::new(format!("it/{tool}"), arguments).caller(caller.clone() as Arc<dyn Caller>);
        self.host
            .call_with(call)
            .await
            .map_err(|error| error.to_string())
    }

    fn record(&self) -> Record {
        Record::read(&self.scratch.path("seen"))
    }
}

/// A caller that records notices and logs of its calls.
#[derive(Default)]
struct RecordingCaller {
    level: Option<LogLevel>,
    logged: Mutex<Vec<String>>,
    noticed: Mutex<Vec<String>>,
}

impl Caller for RecordingCaller {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("somebody");
        &ID
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn log_level(&self) -> Option<LogLevel> {
        self.level
    }

    fn log(&self, line: &LogLine) {
        let tool = line.tool.as_ref().map_or("-", |tool| tool.tool.as_wire());
        self.logged.lock().unwrap().push(format!(
            "{tool} {}",
            line.level.map_or("?", LogLevel::as_str)
        ));
    }

    fn notice(&self, line: &str) {
        self.noticed.lock().unwrap().push(line.to_owned());
    }
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

/// The next event that `wanted` accepts.
async fn next<T>(events: &mut Events, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let waiting = async {
        loop {
            match events.next().await {
                Some(NextEvent::Event(event)) => {
                    if let Some(found) = wanted(event) {
                        return found;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(TIMEOUT, waiting)
        .await
        .expect("it has not happened")
}

fn updated(event: Event) -> Option<String> {
    match event {
        Event::ResourceUpdated { uri, .. } => Some(uri.raw().to_owned()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_survives_a_restart_until_it_is_ended() {
    for era in ERAS {
        let test = TestHost::demo(era).await;
        let somebody = Arc::new(RecordingCaller::default());
        let mut events = test.host.events();
        test.host
            .subscribe(&test.it, "demo://counter")
            .await
            .unwrap();
        test.call("count_up", json!({}), &somebody).await.unwrap();
        assert_eq!(next(&mut events, updated).await, "demo://counter", "{era}");

        let server = test.host.server("it").unwrap();
        server.restart().await;
        server.wait_until_settled().await;
        // The server sends updates once it has the subscription again: until then none arrive.
        let mut events = test.host.events();
        let counting = async {
            loop {
                test.call("count_up", json!({}), &somebody).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            uri = next(&mut events, updated) => assert_eq!(uri, "demo://counter", "{era}"),
            () = counting => unreachable!("it counts for ever"),
        }

        test.host
            .unsubscribe(&test.it, "demo://counter")
            .await
            .unwrap();
        let mut events = test.host.events();
        test.call("count_up", json!({}), &somebody).await.unwrap();
        // The server notifies before it responds, on the same stream.
        while let Some(NextEvent::Event(event)) = events.try_next() {
            assert_eq!(updated(event), None, "{era}");
        }

        let refused = test
            .host
            .subscribe(&test.it, "demo://none")
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with("server \"it\": "), "{era}: {refused}");
        test.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_prompts_and_templates_are_completed() {
    for era in ERAS {
        let test = TestHost::demo(era).await;
        let (review, greeting) = (
            CompletionTarget::Prompt("review".to_owned()),
            CompletionTarget::Resource("demo://greeting/{name}".to_owned()),
        );
        for (of, argument, value, expected) in [
            (&review, "language", "ru", json!(["ruby", "rust"])),
            (&review, "style", "", json!(["brief", "kind", "thorough"])),
            (&greeting, "name", "a", json!(["Ada", "Alan"])),
        ] {
            let given = Map::from_iter([("other".to_owned(), Value::from("x"))]);
            let result = test
                .host
                .complete(&test.it, of, argument, value, &given)
                .await
                .unwrap();
            assert_eq!(
                result.to_value().unwrap()["completion"]["values"],
                expected,
                "{era}: {of:?} {argument}"
            );
        }
        let unknown = CompletionTarget::Prompt("none".to_owned());
        let refused = test
            .host
            .complete(&test.it, &unknown, "a", "", &Map::new())
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            "server \"it\": the server answered with error -32602: unknown prompt \"none\"",
            "{era}"
        );
        test.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_logs_from_the_configured_level() {
    let modern = TestHost::demo("modern").await;
    let curious = Arc::new(RecordingCaller {
        level: Some(LogLevel::Critical),
        ..RecordingCaller::default()
    });
    modern.call("log", json!({}), &curious).await.unwrap();
    assert_eq!(
        *curious.logged.lock().unwrap(),
        ["log critical", "log alert", "log emergency"]
    );
    // A caller without its own level has the server's.
    let other = Arc::new(RecordingCaller::default());
    modern.call("log", json!({}), &other).await.unwrap();
    assert_eq!(*other.logged.lock().unwrap(), [] as [&str; 0]);
    modern
        .host
        .set_log_level(&modern.it, LogLevel::Emergency)
        .await
        .unwrap();
    modern.call("log", json!({}), &other).await.unwrap();
    assert_eq!(*other.logged.lock().unwrap(), ["log emergency"]);
    modern.host.stop().await;

    let legacy = TestHost::demo("legacy").await;
    let mut events = legacy.host.events();
    legacy
        .host
        .set_log_level(&legacy.it, LogLevel::Alert)
        .await
        .unwrap();
    legacy.call("log", json!({}), &other).await.unwrap();
    let mut logged = Vec::new();
    for _ in 0..2 {
        let level = |event| {
            if let Event::Log { level, .. } = event {
                Some(level)
            } else {
                None
            }
        };
        logged.push(next(&mut events, level).await);
    }
    assert_eq!(logged, ["alert", "emergency"]);
    legacy.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_capability_is_refused_with_the_servers_name() {
    let test = TestHost::chaos(Chaos::new().tool("x", [Step::Answer])).await;
    let refused = test
        .host
        .subscribe(&test.it, "a:b")
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "server \"it\": the server does not offer subscriptions to resources"
    );
    let refused = test
        .host
        .set_log_level(&test.it, LogLevel::Info)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(refused, "server \"it\": the server does not offer logging");
    let of = CompletionTarget::Prompt("p".to_owned());
    let refused = test
        .host
        .complete(&test.it, &of, "a", "", &Map::new())
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "server \"it\": the server does not offer completions"
    );
    test.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_violates_its_output_schema_is_reported_and_returned_unchanged() {
    let number = r#"{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}"#;
    let no_fit = "its structuredContent does not fit its output schema: ";
    let none = "its result has no structuredContent, though its output schema promises it";
    let cases = [
        (
            "fits",
            number,
            r#"{"content":[],"structuredContent":{"n":1.0}}"#,
            None,
        ),
        (
            "wrong",
            number,
            r#"{"content":[],"structuredContent":{"n":"one"}}"#,
            Some(format!("{no_fit}/n: value is not of type \"number\"")),
        ),
        (
            "missing",
            number,
            r#"{"content":[],"z":1}"#,
            Some(none.to_owned()),
        ),
        ("failed", number, r#"{"content":[],"isError":true}"#, None),
        (
            "anything",
            "true",
            r#"{"content":[],"structuredContent":[1,null]}"#,
            None,
        ),
        (
            "null",
            r#"{"type":"null"}"#,
            r#"{"content":[],"structuredContent":null}"#,
            None,
        ),
        (
            "list",
            r#"{"type":"array","items":{"type":"string"}}"#,
            r#"{"content":[],"structuredContent":["a"]}"#,
            None,
        ),
        (
            "nothing",
            "false",
            r#"{"content":[],"structuredContent":1}"#,
            Some(format!("{no_fit}False schema does not allow value")),
        ),
        (
            "remote",
            r#"{"$ref":"https://example.com/s"}"#,
            r#"{"content":[],"structuredContent":1}"#,
            None,
        ),
    ];
    let server = cases
        .iter()
        .fold(Chaos::new(), |server, (tool, schema, result, _)| {
            server
                .tool(tool, [Step::result(result)])
                .define(tool, "outputSchema", schema)
        });
    let test = TestHost::chaos(server).await;
    for (tool, _, result, expected) in cases {
        let somebody = Arc::new(RecordingCaller::default());
        let answer = test.call(tool, json!({}), &somebody).await.unwrap();
        assert_eq!(
            (answer.raw, answer.schema_violation.clone()),
            (raw(result), expected.clone()),
            "{tool}"
        );
        let output: Vec<_> = expected
            .into_iter()
            .map(|schema_violation| format!("server \"it\", tool {tool}: {schema_violation}"))
            .collect();
        assert_eq!(*somebody.noticed.lock().unwrap(), output, "{tool}");
    }
    test.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_refused_headers_is_repeated_once_after_a_new_listing() {
    let refusal = || Step::error(-32020, "header mismatch");
    let server = Chaos::new()
        .era(Era::Modern)
        .tool(
            "once",
            [Step::turns([
                [refusal()].into(),
                [Step::text("done")].into(),
            ])],
        )
        .tool("always", [refusal()])
        .tool(
            "moved",
            [Step::turns([
                [refusal()].into(),
                [Step::text("done")].into(),
            ])],
        )
        .flip(Flip {
            tool: "moved".to_owned(),
            after_lists: Some(3),
            define: [(
                "description".to_owned(),
                serde_json::value::to_raw_value("another").unwrap(),
            )]
            .into_iter()
            .collect(),
            ..Flip::default()
        });
    let test = TestHost::chaos(server).await;
    let somebody = Arc::new(RecordingCaller::default());
    let calls = |tool: &str| {
        let named = |message: &switchboard_testkit::record::Message| {
            message
                .params
                .as_ref()
                .is_some_and(|params| params.get().contains(&format!("\"name\":\"{tool}\"")))
        };
        test.record()
            .with_method("tools/call")
            .iter()
            .filter(|message| named(message))
            .count()
    };
    let answer = test.call("once", json!({}), &somebody).await.unwrap();
    assert_eq!(answer.untrusted_text().unwrap().raw(), "done");
    assert_eq!((calls("once"), test.record().count("tools/list")), (2, 2));

    let refused = test.call("always", json!({}), &somebody).await.unwrap_err();
    assert_eq!(
        refused,
        "server \"it\": the server answered with error -32020: header mismatch"
    );
    assert_eq!((calls("always"), test.record().count("tools/list")), (2, 3));

    // The definition has changed; it needs a new decision, and here it is approved.
    let answer = test.call("moved", json!({}), &somebody).await.unwrap();
    assert_eq!(
        (answer.untrusted_text().unwrap().raw(), calls("moved")),
        ("done", 2)
    );
    test.host.stop().await;
}

/// P5: only a modern server means by this code that nothing was executed.
#[tokio::test(flavor = "multi_thread")]
async fn p5_a_legacy_error_with_the_header_mismatch_code_is_not_repeated() {
    let test = TestHost::chaos(
        Chaos::new()
            .era(Era::Legacy)
            .tool("x", [Step::error(-32020, "done, but late")]),
    )
    .await;
    let refused = test
        .call("x", json!({}), &Arc::new(RecordingCaller::default()))
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        "server \"it\": the server answered with error -32020: done, but late"
    );
    assert_eq!(test.record().count("tools/call"), 1);
    test.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cacheable_result_is_not_requested_twice() {
    let kept = r#"{"contents":[],"ttlMs":3600000,"cacheScope":"public"}"#;
    let server = Chaos::new()
        .era(Era::Modern)
        .tool("x", [Step::Answer])
        .on("resources/read", [Step::result(kept)]);
    let test = TestHost::chaos(server).await;
    let somebody: Arc<dyn Caller> = Arc::new(RecordingCaller::default());
    for _ in 0..3 {
        assert_eq!(
            test.host.read(&test.it, "a:b", &somebody).await.unwrap(),
            raw(kept)
        );
    }
    test.host.read(&test.it, "a:c", &somebody).await.unwrap();
    assert_eq!(test.record().count("resources/read"), 2);
    test.host.stop().await;
}
