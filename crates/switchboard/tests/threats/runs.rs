//! Tests of what a run remembers of the runs before it: approvals and pins.

use switchboard::config::{Dialect, Endpoint, ServerConfig, StdioEndpoint};
use switchboard::name::{ServerName, ToolId};
use switchboard::reload::ReloadReport;
use switchboard::store::{Store, StoreError, StoreTable};

use super::*;

/// A host with one ready server `s`, whose environment refers to variables. `PWD` is the folder of
/// the configuration, `TOKEN` is `hunter22`.
async fn run(scratch: &Scratch, tables: &str, chaos: &Chaos, store: Arc<dyn Store>) -> Host {
    start(builder_of(scratch, tables, chaos, store)).await
}

fn builder_of(
    scratch: &Scratch,
    tables: &str,
    chaos: &Chaos,
    store: Arc<dyn Store>,
) -> HostBuilder {
    let environment = r#"{ HERE = "${PWD}", TOKEN = "${TOKEN}" }"#;
    let entry = chaos.entry("s").set_toml("env", environment);
    let path = scratch.config_with(tables, &[entry]);
    let variables = [
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("PWD".to_owned(), scratch.folder().display().to_string()),
        ("TOKEN".to_owned(), "hunter22".to_owned()),
    ];
    HostBuilder::new(load(&[ConfigFile::new(path, Scope::User)]).unwrap())
        .environment(Environment::new(variables))
        .launcher(Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap())
        .store(store)
}

async fn start(builder: HostBuilder) -> Host {
    let host = builder.start().await.unwrap();
    assert!(host.wait_until_settled(TIMEOUT).await);
    host
}

/// Every variable that an entry refers to counts as a secret, also one that is a part of the path
/// of the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn t9_an_approval_for_good_applies_in_the_next_run_whatever_variables_the_entry_uses() {
    let (scratch, store) = (Scratch::new(), Arc::new(MemoryStore::default()));
    let chaos = Chaos::new().tool("t", [Step::text("fine")]);
    for asked in [1, 0] {
        let host = run(&scratch, "", &chaos, store.clone()).await;
        let person = caller_that_answers(Approval::AlwaysTool(ApprovalLifetime::Permanent));
        let caller: Arc<dyn Caller> = person.clone();
        host.call_with(call("s/t", &caller)).await.unwrap();
        assert_eq!(person.seen().approvals.len(), asked);
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t9_a_definition_that_changed_between_runs_is_asked_about_whatever_variables_the_entry_uses()
 {
    let (scratch, store) = (Scratch::new(), Arc::new(MemoryStore::default()));
    let turned = scratch.path("turned");
    let chaos = changing_server(&turned);
    let tables = "[permissions]\nallow = [\"s\"]\n[security]\nlocked = true\n";
    for asked in [vec![], vec![("s/t".to_owned(), true)]] {
        let host = run(&scratch, tables, &chaos, store.clone()).await;
        let person = caller_that_answers(Approval::Once);
        let caller: Arc<dyn Caller> = person.clone();
        host.call_with(call("s/t", &caller)).await.unwrap();
        assert_eq!(person.seen().approvals, asked);
        host.stop().await;
        std::fs::write(&turned, "").unwrap();
    }
}

/// `a` is never started and could claim the bare name of the tool, which is then callable as `s/t`
/// only.
#[tokio::test(flavor = "multi_thread")]
async fn t9_where_locked_a_tool_whose_exposed_name_is_not_known_yet_is_asked_about_once_it_changed()
{
    let (scratch, store) = (Scratch::new(), Arc::new(MemoryStore::default()));
    let turned = scratch.path("turned");
    let tables = "[permissions]\nallow = [\"s\"]\n[security]\nlocked = true\n";
    for asked in [vec![], vec![("s/t".to_owned(), true)]] {
        let mut builder = builder_of(&scratch, tables, &changing_server(&turned), store.clone());
        let servers = &mut builder.config_mut().servers;
        let s = Arc::make_mut(&mut servers["s"]);
        s.dialect = Dialect::Gemini;
        let a = ServerConfig {
            name: ServerName::new("a").unwrap(),
            endpoint: Endpoint::Stdio(StdioEndpoint::new("a", [""; 0])),
            ..s.clone()
        };
        servers.shift_insert(0, a.name.clone(), Arc::new(a));
        let host = start(builder.start_only([ServerName::new("s").unwrap()])).await;
        assert!(host.catalog().tools().is_empty());
        let person = caller_that_answers(Approval::Once);
        let caller: Arc<dyn Caller> = person.clone();
        host.call_with(call("s/t", &caller)).await.unwrap();
        assert_eq!(person.seen().approvals, asked);
        host.stop().await;
        std::fs::write(&turned, "").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t25_a_grant_for_a_tool_with_a_secret_in_its_name_is_not_stored() {
    let (scratch, store) = (Scratch::new(), Arc::new(MemoryStore::default()));
    let chaos = Chaos::new().tool("t_hunter22", [Step::text("fine")]);
    let host = run(&scratch, "", &chaos, store.clone()).await;
    let mut events = host.events();
    let person = caller_that_answers(Approval::AlwaysTool(ApprovalLifetime::Permanent));
    let caller: Arc<dyn Caller> = person.clone();
    for _ in 0..2 {
        host.call_with(call("s/t_hunter22", &caller)).await.unwrap();
    }
    assert_eq!(person.seen().approvals.len(), 1);
    assert_eq!(store.all(StoreTable::Grants).unwrap(), []);
    let notice = async {
        loop {
            if let Some(NextEvent::Event(Event::Notice { line, .. })) = events.next().await {
                return line;
            }
        }
    };
    assert_eq!(
        tokio::time::timeout(TIMEOUT, notice).await.unwrap(),
        "the approval applies to this run only: a tool's name contains a secret of its entry"
    );
    host.stop().await;
}

/// A store whose writes of grants wait until they are released, and whose removals may panic.
#[derive(Debug, Default)]
struct SlowStore {
    inner: MemoryStore,
    has_begun: AtomicBool,
    is_released: AtomicBool,
    removal_panics: bool,
}

impl Store for SlowStore {
    fn get(&self, table: StoreTable, key: &str) -> Result<Option<String>, StoreError> {
        self.inner.get(table, key)
    }

    fn all(&self, table: StoreTable) -> Result<Vec<(String, String)>, StoreError> {
        self.inner.all(table)
    }

    fn put(&self, table: StoreTable, key: &str, value: &str) -> Result<(), StoreError> {
        if matches!(table, StoreTable::Grants) {
            self.has_begun.store(true, Ordering::Release);
            while !self.is_released.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.inner.put(table, key, value)
    }

    fn remove(&self, table: StoreTable, key: &str) -> Result<(), StoreError> {
        assert!(!self.removal_panics, "the store is broken");
        self.inner.remove(table, key)
    }
}

fn tool_of(host: &Host) -> ToolId {
    host.catalog().tools()[0].id.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn t9_a_grant_that_is_revoked_while_it_is_stored_is_gone_in_the_next_run() {
    let (scratch, store) = (Scratch::new(), Arc::new(SlowStore::default()));
    let chaos = Chaos::new().tool("t", [Step::text("fine")]);
    let host = run(&scratch, "", &chaos, store.clone()).await;
    let caller: Arc<dyn Caller> =
        caller_that_answers(Approval::AlwaysTool(ApprovalLifetime::Permanent));
    let calling = tokio::spawn({
        let (host, call) = (host.clone(), call("s/t", &caller));
        async move { host.call_with(call).await.map(drop) }
    });
    let has_begun = || store.has_begun.load(Ordering::Acquire);
    assert!(wait_until(TIMEOUT, has_begun), "the grant is being stored");
    let tools = [tool_of(&host)];
    let mut revoking = Box::pin(host.revoke(&tools));
    // It waits for the write; if it did not, it would have ended by now.
    let early = tokio::time::timeout(Duration::from_millis(300), &mut revoking).await;
    store.is_released.store(true, Ordering::Release);
    let revoked = match early {
        Ok(revoked) => revoked,
        Err(_) => revoking.await,
    };
    assert_eq!(revoked.unwrap(), 1);
    calling.await.unwrap().unwrap();
    assert_eq!(store.all(StoreTable::Grants).unwrap(), []);
    host.stop().await;
}

/// Another program revokes the approval in the store. The one that was not stored stays.
#[tokio::test(flavor = "multi_thread")]
async fn t9_an_approval_that_another_program_revokes_ends_with_the_next_reload() {
    let (scratch, store) = (Scratch::new(), Arc::new(MemoryStore::default()));
    let chaos = Chaos::new()
        .tool("t", [Step::text("fine")])
        .tool("other", [Step::text("fine")]);
    let mut builder = builder_of(&scratch, "", &chaos, store.clone());
    let config = builder.config_mut().clone();
    let host = start(builder).await;
    let approve = async |tool: &str, lifetime: ApprovalLifetime| {
        let person = caller_that_answers(Approval::AlwaysTool(lifetime));
        let caller: Arc<dyn Caller> = person.clone();
        host.call_with(call(tool, &caller)).await.unwrap();
        person.seen().approvals.len()
    };
    assert_eq!(approve("s/t", ApprovalLifetime::Permanent).await, 1);
    assert_eq!(approve("s/other", ApprovalLifetime::Run).await, 1);
    let reloaded = host.reload(config.clone()).await.unwrap();
    assert_eq!(reloaded, ReloadReport::default());

    let stored = store.all(StoreTable::Grants).unwrap();
    let [(key, _)] = &stored[..] else {
        panic!("{stored:?}")
    };
    store.remove(StoreTable::Grants, key).unwrap();
    assert!(host.reload(config.clone()).await.unwrap().rules_changed);
    assert_eq!(approve("s/other", ApprovalLifetime::Run).await, 0);
    // It is asked about again, and the new answer outlives a reload.
    assert_eq!(approve("s/t", ApprovalLifetime::Run).await, 1);
    let reloaded = host.reload(config).await.unwrap();
    assert_eq!(reloaded, ReloadReport::default());
    assert_eq!(approve("s/t", ApprovalLifetime::Run).await, 0);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_reports_that_the_store_failed() {
    let store = Arc::new(SlowStore {
        is_released: AtomicBool::new(true),
        removal_panics: true,
        ..SlowStore::default()
    });
    let scratch = Scratch::new();
    let chaos = Chaos::new().tool("t", [Step::text("fine")]);
    let host = run(&scratch, "", &chaos, store.clone()).await;
    let caller: Arc<dyn Caller> =
        caller_that_answers(Approval::AlwaysTool(ApprovalLifetime::Permanent));
    host.call_with(call("s/t", &caller)).await.unwrap();
    let revoked = host.revoke(&[tool_of(&host)]).await;
    assert_eq!(
        revoked.unwrap_err().to_string(),
        "the store stopped while it was written; the change may be lost"
    );
    host.stop().await;
}
