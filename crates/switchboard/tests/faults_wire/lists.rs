//! Tests of lists that change, do not end, or contain invalid items.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use switchboard::Host;
use switchboard::caller::{Approval, ApprovalLifetime};
use switchboard::catalog::{Catalog, Tool};
use switchboard::event::{Event, NextEvent};
use switchboard_testkit::script::{Cursor, Era};
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{self, TIMEOUT, TestHost, chaos, person, until};

#[tokio::test]
async fn f14_a_burst_of_changes_causes_few_listings_and_a_new_definition_needs_approval() {
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
        let test = TestHost::open_with(scratch, "", &[entry]).await;
        let person = Arc::new(person("ada").approves(Approval::AlwaysTool(ApprovalLifetime::Run)));
        let call = async |tool: &str| {
            support::text(
                &test
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

        let mut events = test.host.events();
        let began = Instant::now();
        assert_eq!(call("chaos/storm").await, "over");
        let changed = loop {
            match tokio::time::timeout(TIMEOUT, events.next())
                .await
                .expect("the catalog changes")
            {
                Some(NextEvent::Event(Event::Catalog { changed, .. })) => break changed,
                Some(_) => {}
                None => panic!("the host has stopped"),
            }
        };
        assert_eq!(changed, ["chaos/ok"]);
        // At most one listing per 200 ms, however many changes are reported.
        let allowed = 2 + began.elapsed().as_millis() as usize / 200;
        let lists = test.record("seen").count("tools/list");
        assert!(lists <= allowed, "{lists} lists in {:?}", began.elapsed());

        // T9: the approval covered the previous definition only.
        assert_eq!(call("chaos/ok").await, "hi");
        assert_eq!(
            person.seen().approvals,
            [known(false), ("chaos/storm".to_owned(), false), known(true)]
        );
    };
    check(Era::Legacy).await;
    check(Era::Modern).await;
}

/// F16: more than 20,000 items are an error.
#[tokio::test]
async fn f15_t28_an_endless_list_is_an_error_and_not_a_loop() {
    let check = async |server: Chaos, pages: usize, fact: &str| {
        let scratch = Scratch::new();
        let entry = chaos(&scratch, &server);
        let well = Chaos::new().tool("ok", Step::text("well")).entry("well");
        let test = TestHost::open(scratch, &[entry, well]).await;
        let expected =
            format!(r#"connected, but tools/list failed: the answer is not valid: {fact}"#);
        assert_eq!(test.error("chaos").await, expected);
        assert_eq!(test.record("seen").count("tools/list"), pages, "{fact}");
        assert_eq!(test.text("well/ok").await, "well");
        let names: Vec<String> = test
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
async fn f16_invalid_tools_are_withheld_one_by_one_and_the_rest_is_offered() {
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
    // Ten thousand tools take time on a busy machine.
    let entry = chaos(&scratch, &server)
        .set("connect_timeout", "110s")
        .set("call_timeout", "110s");
    let test = TestHost::open(scratch, &[entry]).await;

    let catalog = test.host.catalog();
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
    : its name is not a string
    : it has no name
    : its definition is not an object
    deep: its inputSchema is nested deeper than 128
    tool_00007: its server lists another tool of the same name before it
    Bash: its name is that of a built-in tool
    ");
    assert_eq!(test.text("chaos/tool_09999").await, "ok");
}

/// P8: every reader sees a consistent catalog, in order, and never an older one than before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p8_the_catalog_is_consistent_however_servers_change() {
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
    let test = TestHost::open(Scratch::new(), &["b", "a", "c"].map(server)).await;
    let reader = Reader::start(test.host.clone());

    for _ in 0..5 {
        let before = test.host.catalog().generation;
        for tool in ["a/churn", "b/churn", "c/churn"] {
            assert_eq!(test.text(tool).await, "churned");
        }
        until("a change is seen", || {
            test.host.catalog().generation > before
        })
        .await;
        test.call("a/die").await.unwrap_err();
    }
    assert!(reader.catalogs() >= 5);
}

/// Reads the catalog repeatedly, on its own thread, until it is dropped or its result is requested.
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
            let mut catalogs = 0;
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
                    _ => catalogs += 1,
                }
                last = Some((catalog, tools));
                std::thread::yield_now();
            }
            catalogs
        });
        Self { stop, thread }
    }

    /// The number of different catalogs.
    fn catalogs(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every picture was whole")
    }
}

/// Checks one catalog: in the order of the configuration, each name resolves to its tool, and
/// offerings stay while a server restarts.
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
