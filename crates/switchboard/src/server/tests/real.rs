//! Tests with real processes under the real session: what is reported when a server does not start,
//! or dies.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::{ServerHandle, ServerResources};
use super::error_of;
use super::script::{connecting, entry, resources};
use crate::config::{Endpoint, Environment, Protocol, ServerConfig, StdioEndpoint};
use crate::secret::Secret;
use crate::store::LogFile;

/// A server in `sh` that completes the handshake, has one tool, and writes to stderr.
const GOOD: &str = r#"
echo complaint >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}' ;;
    *) continue ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done"#;

fn server(change: impl FnOnce(&mut ServerConfig, &mut StdioEndpoint)) -> Arc<ServerConfig> {
    let mut config = entry();
    config.protocol = Protocol::Legacy;
    let Endpoint::Stdio(mut endpoint) = config.endpoint.clone() else {
        unreachable!()
    };
    endpoint.command = "sh".to_owned();
    change(&mut config, &mut endpoint);
    config.endpoint = Endpoint::Stdio(endpoint);
    Arc::new(config)
}

fn shell(script: &str) -> Arc<ServerConfig> {
    server(|_, endpoint| endpoint.args = vec!["-c".to_owned(), script.to_owned()])
}

fn start(config: Arc<ServerConfig>, log_folder: Option<std::path::PathBuf>) -> ServerHandle {
    let path = std::env::var("PATH").unwrap();
    let resources = ServerResources {
        environment: Arc::new(Environment::new([("PATH".to_owned(), path)])),
        log_folder: log_folder.map(Arc::new),
        ..resources()
    };
    ServerHandle::start(config, resources, connecting())
}

/// S2-65: each failure to start has its own one-line message with its advice.
#[tokio::test]
async fn s2_65_a_server_that_does_not_start_reports_why() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let plain = plain.to_str().unwrap().to_owned();
    let missing = folder.path().join("missing").to_str().unwrap().to_owned();

    let cases = [
        (
            server(|_, endpoint| endpoint.command = "no-such-program-here".to_owned()),
            "no program \"no-such-program-here\" in PATH; install it, or give its full path in `command`".to_owned(),
        ),
        (server(|_, endpoint| endpoint.command.clone_from(&plain)), format!("{plain:?} is not executable; try `chmod +x`")),
        (
            server(|_, endpoint| endpoint.cwd = Some(missing.clone())),
            format!("the working folder {missing:?} does not exist or is not a folder; correct `cwd`"),
        ),
        (
            shell("echo 'TOKEN is not set' >&2; exit 3"),
            "exited with status 3 before the handshake was complete (last stderr: \"TOKEN is not set\")".to_owned(),
        ),
        (shell("kill -9 $$$$"), "was killed by SIGKILL before the handshake was complete".to_owned()),
        (
            server(|config, endpoint| {
                endpoint.args = vec!["-c".to_owned(), "exec sleep 1000".to_owned()];
                config.timeouts.connect = Duration::from_secs(2);
            }),
            "no answer to the handshake within 2 s".to_owned(),
        ),
    ];
    for (config, fact) in cases {
        let handle = start(config, None);
        handle.wait_until_settled().await;
        assert_eq!(error_of(&handle.snapshot().state), format!("{fact}"));
        handle.stop().await;
    }
}

/// F7, S2-63: the end of a process is reported with its signal and last stderr; the next call
/// starts a new process.
#[tokio::test]
async fn f7_a_killed_process_is_reported_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let handle = start(shell(GOOD), Some(folder.path().to_owned()));
    let session = handle.ready(Duration::from_secs(30)).await.unwrap();
    let pid = handle.snapshot().pid.unwrap();
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
    session.closed().await;
    assert_eq!(
        handle.connection_end().await.as_deref(),
        Some("was killed by SIGKILL; last stderr: \"complaint\"")
    );

    handle.ready(Duration::from_secs(30)).await.unwrap();
    let second = handle.snapshot();
    assert_ne!(second.pid, Some(pid));
    handle.stop().await;

    let log = LogFile::read_tail(folder.path(), &handle.config.name, 50).unwrap();
    let lines: Vec<_> = log
        .iter()
        .filter_map(|line| line.raw().split_once(' '))
        .map(|(_, lines)| lines)
        .collect();
    let lost = "note backoff after failure 1: lost the connection: its process was killed by SIGKILL \
                (last stderr: \"complaint\")";
    for expected in [
        "stderr complaint",
        "note ready, legacy 2025-11-25",
        lost,
        "note stopped",
    ] {
        assert!(lines.contains(&expected), "{expected:?} in {lines:#?}");
    }
}

#[tokio::test]
async fn a_secret_in_quoted_stderr_is_redacted() {
    let config = server(|_, endpoint| {
        endpoint.args = vec![
            "-c".to_owned(),
            "echo \"bad token $TOKEN\" >&2; exit 1".to_owned(),
        ];
        endpoint
            .env
            .insert("TOKEN".to_owned(), Secret::new("s3cr3t-value"));
    });
    let handle = start(config, None);
    handle.wait_until_settled().await;
    assert_eq!(
        error_of(&handle.snapshot().state),
        "exited with status 1 before the handshake was complete (last stderr: \"bad token [secret]\")"
    );
}

/// A build without HTTP says so and does not retry.
#[cfg(not(feature = "http"))]
#[tokio::test]
async fn a_url_server_reports_that_this_build_has_no_http() {
    use crate::config::HttpEndpoint;
    let mut config = entry();
    config.endpoint = Endpoint::Http(HttpEndpoint::new("https://example.com/mcp"));
    let handle = start(Arc::new(config), None);
    handle.wait_until_settled().await;
    let error = "this build has no HTTP; use one with the feature `http`, or give a `command`";
    assert_eq!(
        handle.snapshot().state,
        crate::server::State::Failed {
            error: error.to_owned()
        }
    );
}
