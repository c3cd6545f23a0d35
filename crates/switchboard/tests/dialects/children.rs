//! Tests of the environment of a child of each dialect, as reported by the child.

use std::os::unix::fs::MetadataExt;

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use switchboard::call::Call;
use switchboard::caller::{CallerId, Headless};
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Step};

use crate::support::{TIMEOUT, TestHost, assert_ready, call, snapshot};

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn path() -> String {
    std::env::var("PATH").unwrap()
}

/// S1-10, S1-30: the child gets the host's variable for `env("NAME")`; an unset one is empty, with
/// a warning of its server.
#[tokio::test(flavor = "multi_thread")]
async fn s1_10_env_of_a_block_reaches_the_child_and_s1_30_unset_is_empty_with_a_warning() {
    let test = TestHost::new();
    let text = format!(
        "mcp_servers {{\n  name = \"x\"\n  command = {:?}\n  env = {{ TOKEN = env(\"HOST_TOKEN\"), NONE = env(\"NOT_SET\"), LITERAL = \"$HOST_TOKEN\" }}\n}}\n",
        test.server("x")
    );
    let path = path();
    let host = test
        .host(
            Dialect::A3s,
            "config.hcl",
            &text,
            &[("PATH", &path), ("HOST_TOKEN", "s3cret$ ${PATH}")],
        )
        .await;
    assert_ready(&host, "x");
    let child = [
        ("HOST_TOKEN", "s3cret$ ${PATH}"),
        ("LITERAL", "$HOST_TOKEN"),
        ("NONE", ""),
        ("PATH", &path),
        ("TOKEN", "s3cret$ ${PATH}"),
    ];
    assert_eq!(test.environment("x"), pairs(&child));
    assert_eq!(
        snapshot(&host, "x").unset,
        pairs(&[("NOT_SET", "env.NONE")]),
        "S1-30"
    );
    host.stop().await;
}

/// S4-07, S4-18: the entry's own variables, all of the user's, and the user's own id, as for a
/// shell command.
#[tokio::test(flavor = "multi_thread")]
async fn s4_07_the_child_gets_its_configured_env_and_s4_18_the_users_own_variables_and_id() {
    let test = TestHost::new();
    let text = format!(
        "[mcp_servers.x]\ncommand = {:?}\nenv = {{ GITHUB_TOKEN = \"ghp_${{HOME}}\", LANG = \"C\" }}\n",
        test.server("x")
    );
    let mut users: Vec<(String, String)> = std::env::vars()
        .filter(|(name, _)| {
            name != "GITHUB_TOKEN" && name != "LANG" && name != "SECRET_OF_THE_USER"
        })
        .collect();
    users.push(("SECRET_OF_THE_USER".to_owned(), "also passed on".to_owned()));
    let variables: Vec<(&str, &str)> = users
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let host = test
        .host(Dialect::AgentCode, "config.toml", &text, &variables)
        .await;
    assert_ready(&host, "x");
    let mut expected = users.clone();
    expected.extend(pairs(&[("GITHUB_TOKEN", "ghp_${HOME}"), ("LANG", "C")]));
    expected.sort();
    assert_eq!(test.environment("x"), expected);
    assert_eq!(
        test.user("x"),
        std::fs::metadata("/proc/self").unwrap().uid().to_string(),
        "S4-18"
    );
    host.stop().await;
}

/// S3-06, S3-22: escaped, the host's variable; unescaped, the document's own metadata, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn s3_06_escaped_references_reach_the_child_and_s3_22_unescaped_ones_never_do() {
    let test = TestHost::new();
    let text = format!(
        "metadata:\n  app: {{ name: demo }}\n  mcp:\n    x:\n      command: {:?}\n      env: {{ TOKEN: \"\\${{GITHUB_TOKEN}}\", GITHUB_TOKEN: \"${{GITHUB_TOKEN}}\", APP: \"${{app.name}}\" }}\n",
        test.server("x")
    );
    let path = path();
    let host = test
        .host(
            Dialect::AgentApps,
            "agent.yaml",
            &text,
            &[("PATH", &path), ("GITHUB_TOKEN", "ghp")],
        )
        .await;
    assert_eq!(call(&host, "x/ok", json!({})).await.as_deref(), Ok("fine"));
    assert_eq!(
        test.environment("x"),
        pairs(&[("APP", "demo"), ("PATH", &path), ("TOKEN", "ghp")])
    );
    host.stop().await;
}

/// S0-08: the child has the host's variables, and the entry's override them; S0-09, S0-15, S0-16: `${env:NAME}` is expanded at the start, an unset one is empty, and no
/// other spelling is a reference.
#[tokio::test(flavor = "multi_thread")]
async fn s0_08_s0_15_s0_16_a_child_of_a_core_agent_file_has_its_entrys_env_with_placeholders_read()
{
    let test = TestHost::new();
    let env = json!({"LOG_LEVEL": "info", "T": "${env:TOKEN}", "N": "${env:GONE}", "L": "$TOKEN ${TOKEN}"});
    let text =
        json!({"servers": {"x": {"transport": "stdio", "command": test.server("x"), "env": env}}})
            .to_string();
    let path = path();
    let host = [
        ("PATH", path.as_str()),
        ("TOKEN", "s3cret ${env:PATH}"),
        ("LOG_LEVEL", "debug"),
    ];
    let expected = [
        ("L", "$TOKEN ${TOKEN}"),
        ("LOG_LEVEL", "info"),
        ("N", ""),
        ("PATH", &path),
        ("T", "s3cret ${env:PATH}"),
        ("TOKEN", "s3cret ${env:PATH}"),
    ];
    let host = test
        .host(Dialect::CoreAgent, "mcp.json", &text, &host)
        .await;
    assert_ready(&host, "x");
    assert_eq!(test.environment("x"), pairs(&expected));
    assert_eq!(
        snapshot(&host, "x").unset,
        pairs(&[("GONE", "env.N")]),
        "S0-16"
    );
    host.stop().await;
}

/// S1-14, S1-22: a block's timeout limits its calls, and the error says so. S1-23: the server is
/// sent a cancellation, its late response is ignored, and it stays connected.
#[tokio::test(flavor = "multi_thread")]
async fn s1_22_s1_23_a_call_ends_after_its_blocks_timeout_and_its_server_stays() {
    let test = TestHost::new();
    let late = [Step::AwaitCancel, Step::text("too late")];
    let text = format!(
        "mcp_servers {{\n  name = \"x\"\n  command = {:?}\n  timeout_ms = 300\n}}\n",
        test.server_that(
            "x",
            Chaos::new()
                .tool("late", late)
                .tool("ok", Step::text("fine"))
        )
    );
    let host = test
        .host(Dialect::A3s, "config.hcl", &text, &[("PATH", &path())])
        .await;
    let started = Instant::now();
    let calling = Call::new("x/late", json!({}))
        .caller(Arc::new(Headless(CallerId::new("tester"))))
        .pre_approved();
    let late = tokio::time::timeout(TIMEOUT, host.call_with(calling))
        .await
        .expect("far before the default of a minute");
    let error = late.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("within 300 ms"), "{error}");
    assert!(started.elapsed().as_millis() >= 300);

    assert_eq!(
        call(&host, "x/ok", json!({})).await.as_deref(),
        Ok("fine"),
        "S1-23"
    );
    let record = test.record("x");
    assert_eq!(
        (
            record.count("notifications/cancelled"),
            record.count("tools/call"),
            record.starts()
        ),
        (1, 2, 1),
        "S1-23"
    );
    host.stop().await;
}

/// S1-25: a disabled server is never started and still listed.
#[tokio::test(flavor = "multi_thread")]
async fn s1_25_a_disabled_block_is_never_spawned_and_still_listed() {
    let test = TestHost::new();
    let block = |name: &str, more: &str| {
        format!(
            "mcp_servers {{\n  name = \"{name}\"\n  command = {:?}\n{more}}}\n",
            test.server(name)
        )
    };
    let text = block("off", "  enabled = false\n") + &block("on", "");
    let host = test
        .host(Dialect::A3s, "config.hcl", &text, &[("PATH", &path())])
        .await;
    let states: Vec<_> = host
        .servers()
        .iter()
        .map(|server| {
            (
                server.config.name.to_string(),
                test.record(server.config.name.as_str()).starts(),
            )
        })
        .collect();
    assert_eq!(states, [("off".to_owned(), 0), ("on".to_owned(), 1)]);
    assert_eq!(
        snapshot(&host, "off").state,
        switchboard::server::State::Disabled
    );
    host.stop().await;
}

/// S4-14, S4-15, S4-28: only listed servers run, and a denied one never; a blocked one names its
/// list.
#[tokio::test(flavor = "multi_thread")]
async fn s4_14_only_listed_servers_run_and_s4_15_a_denied_one_never_does() {
    let test = TestHost::new();
    let names = ["listed", "denied", "unlisted"];
    let servers: String = names
        .iter()
        .map(|name| format!("[mcp_servers.{name}]\ncommand = {:?}\n", test.server(name)))
        .collect();
    let lists = "[security]\nmcp_server_allowlist = [\"listed\", \"denied\", \"nobody\"]\nmcp_server_denylist = [\"denied\"]\n";
    let host = test
        .host(
            Dialect::AgentCode,
            "config.toml",
            &(servers.clone() + lists),
            &[("PATH", &path())],
        )
        .await;
    assert_eq!(names.map(|name| test.record(name).starts()), [1, 0, 0]);
    assert_ready(&host, "listed");
    host.stop().await;

    // A deny list applies without an allow list too.
    let only_denied = "[security]\nmcp_server_allowlist = []\nmcp_server_denylist = [\"denied\"]\n";
    let host = test
        .host(
            Dialect::AgentCode,
            "config.toml",
            &(servers + only_denied),
            &[("PATH", &path())],
        )
        .await;
    assert_eq!(names.map(|name| test.record(name).starts()), [2, 0, 1]);
    host.stop().await;

    let examples = ["stdio", "sse", "security", "permissions"];
    let joined = examples
        .map(|name| {
            std::fs::read_to_string(format!(
                "../switchboard-config/tests/seeds/agent-code/{name}.toml"
            ))
            .unwrap()
        })
        .join("\n");
    let joined = joined
        .replace("\"npx\"", &format!("{:?}", test.server("github")))
        .replace("args = [", "args = [] # [");
    let host = test
        .host(
            Dialect::AgentCode,
            "config.toml",
            &joined,
            &[("PATH", &path())],
        )
        .await;
    assert_ready(&host, "github");
    let remote = snapshot(&host, "remote").state.clone();
    assert!(
        matches!(remote, switchboard::server::State::Blocked { .. }),
        "S4-28: {remote}"
    );
    host.stop().await;
}
