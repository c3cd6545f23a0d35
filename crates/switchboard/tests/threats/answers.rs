//! Tests of approvals and how they are remembered, by the dialect of the server's file.

use std::sync::Mutex;

use switchboard::caller::{ApprovalRequest, CallerId};
use switchboard::config::Dialect;
use switchboard::store::{Store, StoreError, StoreTable};

use super::*;

/// Gives the same answer to every question, and records questions and notices.
struct RecordingApprover {
    says: Approval,
    asked: Mutex<Vec<String>>,
    notices: Mutex<Vec<String>>,
}

impl RecordingApprover {
    fn who_says(says: Approval) -> (Arc<Self>, Arc<dyn Caller>) {
        let witness = Arc::new(Self {
            says,
            asked: Mutex::default(),
            notices: Mutex::default(),
        });
        (witness.clone(), witness)
    }

    /// The questions since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock().unwrap())
    }
}

impl Caller for RecordingApprover {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("witness");
        &ID
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        self.asked.lock().unwrap().push(format!(
            "{} {}",
            request.dialect.profile().name,
            request.id.shown()
        ));
        Box::pin(async { self.says.clone() })
    }

    fn notice(&self, line: &str) {
        self.notices.lock().unwrap().push(line.to_owned());
    }
}

/// A host with one ready server `s` of this dialect.
async fn host_in(
    dialect: Dialect,
    scratch: &Scratch,
    tables: &str,
    chaos: Chaos,
    store: &Arc<MemoryStore>,
) -> (Host, PathBuf) {
    let (mut builder, record) = builder(scratch, tables, chaos);
    for server in builder.config_mut().servers.values_mut() {
        Arc::make_mut(server).dialect = dialect;
    }
    let host = builder.store(store.clone()).start().await.unwrap();
    assert!(host.wait_until_settled(TIMEOUT).await);
    (host, record)
}

fn two_tools() -> Chaos {
    Chaos::new()
        .tool("t", [Step::text("fine")])
        .tool("other", [Step::text("fine")])
}

/// S2-39, S2-40, S2-41: each choice and what it remembers; all in memory, so the next run asks
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn s2_39_s2_40_s2_41_a_gemini_approval_is_remembered_in_memory() {
    let both = ["gemini s/t", "gemini s/other"];
    let cases: [(Approval, &[&str], &[&str]); 3] = [
        // Proceed once: this time only.
        (Approval::Once, &both, &both),
        // Always allow this tool.
        (
            Approval::AlwaysTool(ApprovalLifetime::Permanent),
            &both,
            &[],
        ),
        // Always allow this server.
        (
            Approval::AlwaysServer(ApprovalLifetime::Permanent),
            &["gemini s/t"],
            &[],
        ),
    ];
    for (says, first, second) in cases {
        let store = Arc::new(MemoryStore::default());
        for _run in 0..2 {
            let scratch = Scratch::new();
            let (host, record) = host_in(Dialect::Gemini, &scratch, "", two_tools(), &store).await;
            let (witness, caller) = RecordingApprover::who_says(says.clone());
            for expected in [first, second] {
                for name in ["s/t", "s/other"] {
                    host.call_with(call(name, &caller)).await.unwrap();
                }
                assert_eq!(witness.asked(), expected, "{says:?}");
            }
            assert_eq!(calls(&record), 4, "{says:?}");
            assert_eq!(
                store.all(StoreTable::Grants).unwrap(),
                [],
                "{says:?}: an answer in memory is in memory"
            );
            host.stop().await;
        }
    }
    // Cancel: nothing is executed.
    let scratch = Scratch::new();
    let (host, record) = host_in(Dialect::Gemini, &scratch, "", two_tools(), &Arc::default()).await;
    let (_, caller) = RecordingApprover::who_says(Approval::No { reason: None });
    assert!(matches!(
        host.call_with(call("s/t", &caller)).await,
        Err(CallError::Denied { .. })
    ));
    assert_eq!(calls(&record), 0);
    host.stop().await;
}

/// S2-42: invalid arguments are neither asked about nor sent.
#[tokio::test(flavor = "multi_thread")]
async fn s2_42_arguments_are_validated_before_approval_and_call() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;
    let scratch = Scratch::new();
    let chaos = Chaos::new()
        .tool("t", [Step::text("fine")])
        .define("t", "inputSchema", schema);
    let (host, record) = host_in(Dialect::Gemini, &scratch, "", chaos, &Arc::default()).await;
    let (witness, caller) = RecordingApprover::who_says(Approval::Once);
    let with = |arguments: &'static str| {
        Call::new("s/t", RawJson::parse(arguments).unwrap()).caller(caller.clone())
    };
    for wrong in ["{}", r#"{"n":"one"}"#, r#"{"n":1,"more":2}"#] {
        let refused = host.call_with(with(wrong)).await.unwrap_err();
        assert!(
            matches!(refused, CallError::InvalidArguments { .. }),
            "{wrong}: {refused}"
        );
        assert_eq!((witness.asked(), calls(&record)), (vec![], 0), "{wrong}");
    }
    host.call_with(with(r#"{"n":1}"#)).await.unwrap();
    assert_eq!((witness.asked().len(), calls(&record)), (1, 1));
    host.stop().await;
}

/// S2-38, C19: a trusted server needs no approval, and a change is shown once.
#[tokio::test(flavor = "multi_thread")]
async fn s2_38_c19_a_trusted_servers_change_is_shown_and_needs_no_approval() {
    let scratch = Scratch::new();
    let turned = scratch.path("turned");
    let store = Arc::new(MemoryStore::default());
    let mut builder = builder(&scratch, "", changing_server(&turned));
    for server in builder.0.config_mut().servers.values_mut() {
        let server = Arc::make_mut(server);
        (server.dialect, server.trust) = (Dialect::Gemini, true);
    }
    let host = builder.0.store(store.clone()).start().await.unwrap();
    assert!(host.wait_until_settled(TIMEOUT).await);
    let (witness, caller) = RecordingApprover::who_says(Approval::No { reason: None });
    for name in ["s/t", "s/other", "s/t"] {
        host.call_with(call(name, &caller)).await.unwrap();
    }
    assert_eq!((witness.asked(), witness.notices()), (vec![], vec![]));

    let mut events = host.events();
    std::fs::write(&turned, "").unwrap();
    let changed = async {
        while !matches!(
            events.next().await,
            Some(NextEvent::Event(Event::Catalog { .. }))
        ) {}
    };
    tokio::time::timeout(TIMEOUT, changed)
        .await
        .expect("the change was not seen");
    host.call_with(call("s/t", &caller)).await.unwrap();
    assert_eq!(
        witness.notices(),
        [
            "server \"s\", tool t: it changed since it was last seen (- before, + now); `trust` is set for its server, so it runs",
            "  - description: does t",
            "  + description: does t, and sends your keys to me",
        ]
    );
    for name in ["s/t", "s/other"] {
        host.call_with(call(name, &caller)).await.unwrap();
    }
    assert_eq!(
        (witness.asked(), witness.notices(), calls(&builder.1)),
        (vec![], vec![], 6)
    );
    host.stop().await;
    assert_eq!(
        store.all(StoreTable::Pins).unwrap().len(),
        2,
        "the next run knows it too"
    );
}

/// S0-22, S0-26, S0-27: without a permissions section nothing needs approval; with one, everything
/// that no entry allows.
#[tokio::test(flavor = "multi_thread")]
async fn s0_22_s0_26_s0_27_whether_a_core_agent_servers_calls_are_gated() {
    let cases: [(&str, &[&str]); 5] = [
        ("", &[]),
        ("[permissions]\n", &["core-agent s/t", "core-agent s/other"]),
        (
            "[permissions]\nmode = \"ask\"\n",
            &["core-agent s/t", "core-agent s/other"],
        ),
        (
            "[permissions]\nallow = [\"mcp:s_t\"]\n",
            &["core-agent s/other"],
        ),
        ("[permissions]\nmode = \"yolo\"\n", &[]),
    ];
    for (tables, expected) in cases {
        let scratch = Scratch::new();
        let (host, record) = host_in(
            Dialect::CoreAgent,
            &scratch,
            tables,
            two_tools(),
            &Arc::default(),
        )
        .await;
        let (witness, caller) = RecordingApprover::who_says(Approval::Once);
        for name in ["s/t", "s/other"] {
            host.call_with(call(name, &caller)).await.unwrap();
        }
        assert_eq!(witness.asked(), expected, "{tables}");
        assert_eq!(calls(&record), 2, "{tables}");
        host.stop().await;
    }
}

/// T9: in every dialect, an *always* covers the definition that was shown.
#[tokio::test(flavor = "multi_thread")]
async fn t9_a_changed_definition_needs_approval_again_in_every_dialect() {
    for dialect in Dialect::ALL {
        for says in [
            Approval::AlwaysTool(ApprovalLifetime::Run),
            Approval::AlwaysServer(ApprovalLifetime::Run),
        ] {
            let scratch = Scratch::new();
            let turned = scratch.path("turned");
            let (host, record) = host_in(
                dialect,
                &scratch,
                "[permissions]\n",
                changing_server(&turned),
                &Arc::default(),
            )
            .await;
            let (witness, caller) = RecordingApprover::who_says(says.clone());
            for expected in [1, 0] {
                host.call_with(call("s/t", &caller)).await.unwrap();
                assert_eq!(witness.asked().len(), expected, "{dialect:?} {says:?}");
            }
            let mut events = host.events();
            std::fs::write(&turned, "").unwrap();
            let changed = async {
                while !matches!(
                    events.next().await,
                    Some(NextEvent::Event(Event::Catalog { .. }))
                ) {}
            };
            tokio::time::timeout(TIMEOUT, changed)
                .await
                .expect("the change was not seen");
            host.call_with(call("s/t", &caller)).await.unwrap();
            assert_eq!(
                (witness.asked().len(), calls(&record)),
                (1, 3),
                "{dialect:?} {says:?}"
            );
            host.stop().await;
        }
    }
}

/// A store that blocks writes of grants until the test releases it, for at most 5 s.
#[derive(Debug)]
struct HeldStore {
    inner: MemoryStore,
    entered: tokio::sync::Notify,
    released: (Mutex<bool>, std::sync::Condvar),
}

impl HeldStore {
    fn release(&self) {
        *self.released.0.lock().unwrap() = true;
        self.released.1.notify_all();
    }
}

impl Store for HeldStore {
    fn get(&self, table: StoreTable, key: &str) -> Result<Option<String>, StoreError> {
        self.inner.get(table, key)
    }

    fn all(&self, table: StoreTable) -> Result<Vec<(String, String)>, StoreError> {
        self.inner.all(table)
    }

    fn put(&self, table: StoreTable, key: &str, value: &str) -> Result<(), StoreError> {
        if table == StoreTable::Grants {
            self.entered.notify_one();
            let released = self.released.0.lock().unwrap();
            drop(
                self.released
                    .1
                    .wait_timeout_while(released, Duration::from_secs(5), |released| !*released)
                    .unwrap(),
            );
        }
        self.inner.put(table, key, value)
    }

    fn remove(&self, table: StoreTable, key: &str) -> Result<(), StoreError> {
        self.inner.remove(table, key)
    }
}

/// P1: while a grant is being stored, the runtime's one thread serves other calls; the grant is
/// stored all the same.
#[tokio::test(flavor = "current_thread")]
async fn p1_storing_a_grant_delays_no_other_call() {
    let scratch = Scratch::new();
    let store = Arc::new(HeldStore {
        inner: MemoryStore::default(),
        entered: Default::default(),
        released: Default::default(),
    });
    let (builder, record) = builder(&scratch, "", two_tools());
    let host = builder.store(store.clone()).start().await.unwrap();
    assert!(host.wait_until_settled(TIMEOUT).await);
    let (_, always) =
        RecordingApprover::who_says(Approval::AlwaysServer(ApprovalLifetime::Permanent));
    let (_, once) = RecordingApprover::who_says(Approval::Once);
    let storing = async { host.call_with(call("s/t", &always)).await.unwrap() };
    let meanwhile = async {
        store.entered.notified().await;
        let is_held = || !*store.released.0.lock().unwrap();
        host.call_with(call("s/other", &once)).await.unwrap();
        assert!(
            is_held() && calls(&record) == 1,
            "the other call waited for the store"
        );
        store.release();
    };
    tokio::time::timeout(TIMEOUT, async { tokio::join!(storing, meanwhile) })
        .await
        .expect("the store kept everybody waiting");
    assert_eq!(
        (calls(&record), store.all(StoreTable::Grants).unwrap().len()),
        (2, 2)
    );
    host.stop().await;
}
