//! What servers offer beside calls, through a whole host: the demo server in both eras, and one
//! that misbehaves.
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

/// The longest that anything here may take, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

const ERAS: [&str; 2] = ["legacy", "modern"];

/// A host of one server called `it`.
struct Stage {
    host: Host,
    it: ServerName,
    scratch: Scratch,
}

impl Stage {
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
        assert!(host.settled(PATIENCE).await);
        Self {
            host,
            it: ServerName::new("it").unwrap(),
            scratch,
        }
    }

    /// The demo server, spoken to in this era.
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
        caller: &Arc<Somebody>,
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

/// Makes calls, and keeps what they were told meanwhile.
#[derive(Default)]
struct Somebody {
    level: Option<LogLevel>,
    logged: Mutex<Vec<String>>,
    noticed: Mutex<Vec<String>>,
}

impl Caller for Somebody {
    fn id(&self) -> CallerId {
        CallerId::new("somebody")
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

/// The next event that is wanted.
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
    tokio::time::timeout(PATIENCE, waiting)
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
async fn a_subscription_holds_until_it_is_ended_also_over_a_restart() {
    for era in ERAS {
        let stage = Stage::demo(era).await;
        let somebody = Arc::new(Somebody::default());
        let mut events = stage.host.events();
        stage
            .host
            .subscribe(&stage.it, "demo://counter")
            .await
            .unwrap();
        stage.call("count_up", json!({}), &somebody).await.unwrap();
        assert_eq!(next(&mut events, updated).await, "demo://counter", "{era}");

        let server = stage.host.server("it").unwrap();
        server.restart().await;
        server.settled().await;
        // Told by the server, once it was asked again: until then it counts unheard.
        let mut events = stage.host.events();
        let counting = async {
            loop {
                stage.call("count_up", json!({}), &somebody).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            uri = next(&mut events, updated) => assert_eq!(uri, "demo://counter", "{era}"),
            () = counting => unreachable!("it counts for ever"),
        }

        stage
            .host
            .unsubscribe(&stage.it, "demo://counter")
            .await
            .unwrap();
        let mut events = stage.host.events();
        stage.call("count_up", json!({}), &somebody).await.unwrap();
        // The server tells before it answers, and one stream carries both.
        while let Some(NextEvent::Event(event)) = events.happened() {
            assert_eq!(updated(event), None, "{era}");
        }

        let refused = stage
            .host
            .subscribe(&stage.it, "demo://none")
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with("server \"it\": "), "{era}: {refused}");
        stage.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_prompts_and_templates_are_completed() {
    for era in ERAS {
        let stage = Stage::demo(era).await;
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
            let result = stage
                .host
                .complete(&stage.it, of, argument, value, &given)
                .await
                .unwrap();
            assert_eq!(
                result.to_value().unwrap()["completion"]["values"],
                expected,
                "{era}: {of:?} {argument}"
            );
        }
        let unknown = CompletionTarget::Prompt("none".to_owned());
        let refused = stage
            .host
            .complete(&stage.it, &unknown, "a", "", &Map::new())
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            "server \"it\": the server answered with error -32602: unknown prompt \"none\"",
            "{era}"
        );
        stage.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_logs_from_the_level_on_that_was_set() {
    let modern = Stage::demo("modern").await;
    let curious = Arc::new(Somebody {
        level: Some(LogLevel::Critical),
        ..Somebody::default()
    });
    modern.call("log", json!({}), &curious).await.unwrap();
    assert_eq!(
        *curious.logged.lock().unwrap(),
        ["log critical", "log alert", "log emergency"]
    );
    // Whoever sets no level of their own has the server's.
    let other = Arc::new(Somebody::default());
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

    let legacy = Stage::demo("legacy").await;
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
async fn a_server_that_does_not_offer_something_is_named_in_the_refusal() {
    let stage = Stage::chaos(Chaos::new().tool("x", [Step::Answer])).await;
    let refused = stage
        .host
        .subscribe(&stage.it, "a:b")
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "server \"it\": the server does not offer subscriptions to resources"
    );
    let refused = stage
        .host
        .set_log_level(&stage.it, LogLevel::Info)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(refused, "server \"it\": the server does not offer logging");
    let of = CompletionTarget::Prompt("p".to_owned());
    let refused = stage
        .host
        .complete(&stage.it, &of, "a", "", &Map::new())
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "server \"it\": the server does not offer completions"
    );
    stage.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_breaks_its_tools_promise_is_told_and_passes_as_it_came() {
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
    let stage = Stage::chaos(server).await;
    for (tool, _, result, expected) in cases {
        let somebody = Arc::new(Somebody::default());
        let answer = stage.call(tool, json!({}), &somebody).await.unwrap();
        assert_eq!(
            (answer.raw, answer.misfit.clone()),
            (raw(result), expected.clone()),
            "{tool}"
        );
        let told: Vec<_> = expected
            .into_iter()
            .map(|misfit| format!("server \"it\", tool {tool}: {misfit}"))
            .collect();
        assert_eq!(*somebody.noticed.lock().unwrap(), told, "{tool}");
    }
    stage.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_headers_were_refused_is_made_once_more_after_listing_again() {
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
    let stage = Stage::chaos(server).await;
    let somebody = Arc::new(Somebody::default());
    let calls = |tool: &str| {
        let named = |message: &switchboard_testkit::record::Message| {
            message
                .params
                .as_ref()
                .is_some_and(|params| params.get().contains(&format!("\"name\":\"{tool}\"")))
        };
        stage
            .record()
            .with_method("tools/call")
            .iter()
            .filter(|message| named(message))
            .count()
    };
    let answer = stage.call("once", json!({}), &somebody).await.unwrap();
    assert_eq!(answer.untrusted_text().unwrap().raw(), "done");
    assert_eq!((calls("once"), stage.record().count("tools/list")), (2, 2));

    let refused = stage
        .call("always", json!({}), &somebody)
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        "server \"it\": the server answered with error -32020: header mismatch"
    );
    assert_eq!(
        (calls("always"), stage.record().count("tools/list")),
        (2, 3)
    );

    // The definition is another one now; it is decided on anew, and here the answer is yes.
    let answer = stage.call("moved", json!({}), &somebody).await.unwrap();
    assert_eq!(
        (answer.untrusted_text().unwrap().raw(), calls("moved")),
        ("done", 2)
    );
    stage.host.stop().await;
}

/// P5: only a modern server means by this code that it executed nothing.
#[tokio::test(flavor = "multi_thread")]
async fn p5_a_legacy_server_that_happens_to_use_the_code_of_refused_headers_is_called_once() {
    let stage = Stage::chaos(
        Chaos::new()
            .era(Era::Legacy)
            .tool("x", [Step::error(-32020, "done, but late")]),
    )
    .await;
    let refused = stage
        .call("x", json!({}), &Arc::new(Somebody::default()))
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        "server \"it\": the server answered with error -32020: done, but late"
    );
    assert_eq!(stage.record().count("tools/call"), 1);
    stage.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_lets_us_keep_is_not_asked_for_twice() {
    let kept = r#"{"contents":[],"ttlMs":3600000,"cacheScope":"public"}"#;
    let server = Chaos::new()
        .era(Era::Modern)
        .tool("x", [Step::Answer])
        .on("resources/read", [Step::result(kept)]);
    let stage = Stage::chaos(server).await;
    let somebody: Arc<dyn Caller> = Arc::new(Somebody::default());
    for _ in 0..3 {
        assert_eq!(
            stage.host.read(&stage.it, "a:b", &somebody).await.unwrap(),
            raw(kept)
        );
    }
    stage.host.read(&stage.it, "a:c", &somebody).await.unwrap();
    assert_eq!(stage.record().count("resources/read"), 2);
    stage.host.stop().await;
}
