//! Lists that change, do not end, or hold what cannot be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use switchboard::Host;
use switchboard::caller::{Approval, Keep};
use switchboard::catalog::{Catalog, Tool};
use switchboard::event::{Event, NextEvent};
use switchboard_testkit::script::{Cursor, Era};
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{self, PATIENCE, Stage, chaos, person, until};

#[tokio::test]
async fn f14_a_storm_of_changes_is_listed_a_few_times_and_the_new_definition_is_asked_about() {
    let check = async |era: Era| {
        let scratch = Scratch::new();
        let flip = support::flip("ok", &scratch.path("flip"));
        let storm = [
            Step::touch(scratch.path("flip")),
            Step::ListChanged(5_000),
            Step::text("over"),
        ];
        let server = Chaos::new()
            .era(era)
            .tool("ok", Step::text("hi"))
            .tool("storm", storm)
            .flip(flip);
        let entry = chaos(&scratch, &server).set("call_timeout", "20s");
        let stage = Stage::open_with(scratch, "", &[entry]).await;
        let person = Arc::new(person("ada").approves(Approval::AlwaysTool(Keep::Run)));
        let call = async |tool: &str| {
            support::text(
                &stage
                    .host
                    .call_with(support::call(tool, &(person.clone() as _)))
                    .await
                    .unwrap(),
            )
        };

        assert_eq!(
            [call("chaos/ok").await, call("chaos/ok").await],
            ["hi", "hi"]
        );
        let known = |changed| ("chaos/ok".to_owned(), changed);
        assert_eq!(person.seen().approvals, [known(false)]);

        let mut events = stage.host.events();
        let began = Instant::now();
        assert_eq!(call("chaos/storm").await, "over");
        let changed = loop {
            match tokio::time::timeout(PATIENCE, events.next())
                .await
                .expect("the catalog changes")
            {
                Some(NextEvent::Event(Event::Catalog { changed, .. })) => break changed,
                Some(_) => {}
                None => panic!("the host has stopped"),
            }
        };
        assert_eq!(changed, ["chaos/ok"]);
        // One list per 200 ms at most, however many changes are cried.
        let allowed = 2 + began.elapsed().as_millis() as usize / 200;
        let lists = stage.record("seen").count("tools/list");
        assert!(lists <= allowed, "{lists} lists in {:?}", began.elapsed());

        // T9: the yes was for what it was.
        assert_eq!(call("chaos/ok").await, "hi");
        assert_eq!(
            person.seen().approvals,
            [known(false), ("chaos/storm".to_owned(), false), known(true)]
        );
    };
    check(Era::Legacy).await;
    check(Era::Modern).await;
}

#[tokio::test]
async fn f15_t28_a_list_without_end_is_a_reason_and_not_a_loop() {
    let check = async |server: Chaos, pages: usize, fact: &str| {
        let scratch = Scratch::new();
        let entry = chaos(&scratch, &server);
        let well = Chaos::new().tool("ok", Step::text("well")).entry("well");
        let stage = Stage::open(scratch, &[entry, well]).await;
        let expected =
            format!(r#"connected, but tools/list failed: the answer is not valid: {fact}"#);
        assert_eq!(stage.error("chaos").await, expected);
        assert_eq!(stage.record("seen").count("tools/list"), pages, "{fact}");
        assert_eq!(stage.text("well/ok").await, "well");
        let names: Vec<String> = stage
            .host
            .catalog()
            .tools()
            .iter()
            .map(|tool| tool.id.shown().to_string())
            .collect();
        assert_eq!(names, ["well/ok"], "{fact}");
    };
    let server = || Chaos::new().tool("ok", Step::text("hi"));
    check(
        server().cursor(Cursor::Repeat),
        2,
        "the same cursor came twice, so the list would never end",
    )
    .await;
    check(
        server().cursor(Cursor::Huge(100_000)),
        1,
        "a cursor of 100000 bytes",
    )
    .await;
    check(
        server().cursor(Cursor::Endless).page_size(500),
        41,
        "more than 20000 items",
    )
    .await;
    check(
        server().cursor(Cursor::Endless),
        1_000,
        "more than 1000 pages",
    )
    .await;
}

#[tokio::test]
async fn f16_what_cannot_be_used_is_withheld_one_by_one_and_the_rest_is_on_offer() {
    let scratch = Scratch::new();
    let deep = format!(
        r#"{{"name":"deep","inputSchema":{{"x":{}{}}}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let server = Chaos::new()
        .fill(10_000)
        .page_size(1_000)
        .extra_tool(r#"{"name":"tool_00007","inputSchema":{"type":"object"}}"#)
        .extra_tool(r#"{"name":"Bash","inputSchema":{"type":"object"}}"#)
        .extra_tool(r#"{"name":"no_schema"}"#)
        .extra_tool(r#"{"name":"odd_schema","inputSchema":"object"}"#)
        .extra_tool(r#"{"name":7,"inputSchema":{"type":"object"}}"#)
        .extra_tool(r#"{"inputSchema":{"type":"object"}}"#)
        .extra_tool(r#""a text""#)
        .extra_tool(&deep)
        .extra_tool(r#"{"name":"last","inputSchema":{"type":"object"}}"#);
    // Ten thousand tools take their time on a busy machine.
    let entry = chaos(&scratch, &server)
        .set("connect_timeout", "110s")
        .set("call_timeout", "110s");
    let stage = Stage::open(scratch, &[entry]).await;

    let catalog = stage.host.catalog();
    let names: Vec<&str> = catalog
        .tools()
        .iter()
        .map(|tool| tool.id.tool.as_wire())
        .collect();
    let filled: Vec<String> = (0..10_000)
        .map(|number| format!("tool_{number:05}"))
        .collect();
    assert!(names[..10_000] == filled[..], "in the server's order");
    assert_eq!(names[10_000..], ["last"]);
    let withheld: Vec<String> = catalog
        .withheld()
        .iter()
        .map(|tool| {
            format!(
                "{}: {}",
                tool.tool.untrusted().for_terminal_line(),
                tool.reason
            )
        })
        .collect();
    insta::assert_snapshot!(withheld.join("\n"), @r"
    no_schema: it has no inputSchema
    odd_schema: its inputSchema is not an object
    : its name is not a text
    : it has no name
    : its definition is not an object
    deep: its inputSchema is nested deeper than 128
    tool_00007: its server lists another tool of the same name before it
    Bash: its name is that of a built-in tool
    ");
    assert_eq!(stage.text("chaos/tool_09999").await, "ok");
}

/// P8: whoever looks sees one whole picture, in order, and never an older one than before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p8_the_catalog_is_one_consistent_picture_however_servers_change() {
    let server = |name: &str| {
        let churn = [Step::ListChanged(1), Step::text("churned")];
        let server = Chaos::new()
            .tool("churn", churn)
            .tool("shifty", Step::Answer)
            .tool("die", Step::Exit(1))
            .fill(50);
        (1..30)
            .fold(server, |server, lists| {
                server.flip(support::flip_after_lists("shifty", lists))
            })
            .entry(name)
    };
    let stage = Stage::open(Scratch::new(), &["b", "a", "c"].map(server)).await;
    let reader = Reader::start(stage.host.clone());

    for _ in 0..5 {
        let before = stage.host.catalog().generation;
        for tool in ["a/churn", "b/churn", "c/churn"] {
            assert_eq!(stage.text(tool).await, "churned");
        }
        until("a change is seen", || {
            stage.host.catalog().generation > before
        })
        .await;
        stage.call("a/die").await.unwrap_err();
    }
    assert!(reader.pictures() >= 5);
}

/// Looks at the catalog again and again, on a thread of its own, until it is dropped or asked what
/// it saw.
struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Reader {
    fn start(host: Host) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut last: Option<(Arc<Catalog>, Vec<String>)> = None;
            let mut pictures = 0;
            while !stopped.load(Ordering::Relaxed) {
                let catalog = host.catalog();
                let tools = check(&catalog);
                match &last {
                    Some((before, _)) if before.generation > catalog.generation => {
                        panic!("older than the one before")
                    }
                    Some((before, shown)) if before.generation == catalog.generation => {
                        assert_eq!(*shown, tools)
                    }
                    _ => pictures += 1,
                }
                last = Some((catalog, tools));
                std::thread::yield_now();
            }
            pictures
        });
        Self { stop, thread }
    }

    /// How many different ones it saw.
    fn pictures(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every picture was whole")
    }
}

/// One picture: in the order of the configuration, each name leading to its tool, what a server
/// offered still there while it starts again.
fn check(catalog: &Catalog) -> Vec<String> {
    let place = |tool: &&Arc<Tool>| {
        ["b", "a", "c"]
            .iter()
            .position(|name| *name == tool.id.server.as_str())
    };
    assert!(catalog.tools().iter().is_sorted_by_key(|tool| place(&tool)));
    assert!(
        catalog
            .tools()
            .iter()
            .all(|tool| Arc::ptr_eq(catalog.resolve(tool.exposed.as_str()).unwrap(), tool))
    );
    let tools: Vec<String> = catalog
        .tools()
        .iter()
        .map(|tool| format!("{} {:?}", tool.exposed.as_str(), tool.definition.hash))
        .collect();
    assert_eq!(tools.len(), 3 * 53);
    tools
}
