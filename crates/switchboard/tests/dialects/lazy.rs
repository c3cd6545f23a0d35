//! Tests that servers of agent-apps start with their first use, each once.

use switchboard::config::Dialect;
use switchboard::server::State;

use crate::support::{TestHost, call, snapshot};

/// S3-08, S3-09: starting a host starts no process; twenty concurrent first calls start their
/// server once, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn s3_08_nothing_is_spawned_before_the_first_call_and_s3_09_concurrent_first_calls_initialise_once()
 {
    let test = TestHost::new();
    let entry = |name: &str| format!("    {name}: {{ command: {:?} }}\n", test.server(name));
    let text = format!("metadata:\n  mcp:\n{}{}", entry("one"), entry("other"));
    let path = std::env::var("PATH").unwrap();
    let host = test
        .host(Dialect::AgentApps, "agent.yaml", &text, &[("PATH", &path)])
        .await;
    let starts = || ["one", "other"].map(|name| test.record(name).starts());
    assert_eq!(starts(), [0, 0], "S3-08");
    assert_eq!(snapshot(&host, "one").state, State::Idle);

    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let host = host.clone();
        calls.spawn(async move { call(&host, "one/ok", serde_json::json!({})).await });
    }
    assert_eq!(calls.join_all().await, vec![Ok("fine".to_owned()); 20]);
    let record = test.record("one");
    assert_eq!(
        (
            record.starts(),
            record.count("initialize"),
            record.count("tools/call")
        ),
        (1, 1, 20),
        "S3-09"
    );
    assert_eq!(starts(), [1, 0], "S3-08: only what was needed");
    host.stop().await;
}
