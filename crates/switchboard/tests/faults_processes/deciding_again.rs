//! Tests of rules that change while a call waits: what is sent is decided on the rules of then.

use std::fs;

use switchboard::Host;
use switchboard::call::Call;
use switchboard::caller::Approval;
use switchboard::config::{self, Config, ConfigFile, Scope};
use switchboard::server::State;
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::{Entry, Step};

use crate::support::{TestHost, good, settled, text_of, until_state};

/// The configuration of these entries and permissions.
fn config(test: &TestHost, permissions: &str, entries: &[Entry]) -> Config {
    let file = test.scratch.config_with(permissions, entries);
    config::load(&[ConfigFile::new(file, Scope::Given)]).unwrap()
}

fn calls_of(test: &TestHost, server: &str) -> usize {
    test.record(server).count("tools/call")
}

/// Approves after the host has this configuration.
fn approves_after_reload(host: &Host, config: Config) -> TestCaller {
    let host = host.clone();
    TestCaller::new("ada").on_approval(move || {
        let (host, config) = (host.clone(), config.clone());
        Box::pin(async move {
            host.reload(config).await.unwrap();
            Approval::Once
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deny_rule_that_is_added_while_a_person_is_asked_denies_the_call() {
    let test = TestHost::new();
    let entries = [test.entry("s", good())];
    let host = test.host_of(test.scratch.config_with("", &entries)).await;
    settled(&host).await;
    let denying = config(&test, "[permissions]\ndeny = [\"s/o*\"]\n", &entries);
    let person = approves_after_reload(&host, denying);
    let call = Call::new("s/ok", serde_json::json!({})).caller(person.arc());
    let denied = host.call_with(call).await.unwrap_err().to_string();
    assert!(
        denied.starts_with("server \"s\", tool ok: denied: deny rule \"s/o*\""),
        "{denied}"
    );
    assert_eq!(calls_of(&test, "s"), 0);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_holds_if_the_changed_rules_ask_as_well() {
    let test = TestHost::new();
    let entries = [test.entry("s", good())];
    let host = test.host_of(test.scratch.config_with("", &entries)).await;
    settled(&host).await;
    let asking = config(&test, "[permissions]\nask = [\"s/ok\"]\n", &entries);
    let person = approves_after_reload(&host, asking).arc();
    let call = Call::new("s/ok", serde_json::json!({})).caller(person.clone());
    host.call_with(call).await.unwrap();
    assert_eq!(
        (calls_of(&test, "s"), person.seen().approvals.len()),
        (1, 1)
    );
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allow_rule_that_is_removed_while_the_server_connects_no_longer_counts() {
    let test = TestHost::new();
    let go = test.scratch.path("go");
    let chaos = good().on_start(Step::wait_file(&go));
    let entries = [test.entry("s", chaos).set("start", "lazy")];
    let allowing = "[permissions]\nallow = [\"s/ok\"]\n";
    // Once, so that the tool is known before its server is connected.
    fs::write(&go, "").unwrap();
    let host = test.host_of(test.scratch.config_with(allowing, &entries));
    let host = host.await;
    assert_eq!(text_of(&host, "s/ok").await.unwrap(), "fine");
    host.stop().await;

    fs::remove_file(&go).unwrap();
    let host = test.host_of(test.scratch.config_with(allowing, &entries));
    let host = host.await;
    let call = tokio::spawn({
        let host = host.clone();
        async move {
            text_of(&host, "s/ok")
                .await
                .map_err(|error| error.to_string())
        }
    });
    until_state(&host, "s", |state| {
        matches!(state, State::Connecting { .. })
    })
    .await;
    host.reload(config(&test, "", &entries)).await.unwrap();
    fs::write(&go, "").unwrap();
    let denied = call.await.unwrap().unwrap_err();
    assert!(
        denied.starts_with("server \"s\", tool ok: denied:"),
        "{denied}"
    );
    assert_eq!(calls_of(&test, "s"), 1);
    host.stop().await;
}
