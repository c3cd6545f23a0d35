//! Tests of the handshake: which era is found, and servers that are slow, silent or refuse.

use super::*;

const PROBE_ALONE: Duration = Duration::from_secs(5);

fn discovery() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "instructions": "be kind",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1"}},
    })
}

fn open(
    options: OpenOptions,
) -> (
    tokio::task::JoinHandle<Result<Arc<Session>, OpenFault>>,
    impl Future<Output = ScriptedServer>,
) {
    let (connector, peer) = wire();
    (
        tokio::spawn(async move { Session::open(&connector, options).await }),
        peer,
    )
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_answers_the_probe() {
    let (session, peer) = open(options(Protocol::Auto));
    let mut peer = peer.await;
    let probe = peer.expect("server/discover").await;
    let meta = &probe["params"]["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    assert_eq!(
        meta["io.modelcontextprotocol/clientInfo"]["name"],
        "switchboard"
    );
    peer.answer(&probe, discovery());
    let session = session.await.unwrap().unwrap();
    let hello = session.hello();
    assert_eq!(
        (hello.era(), hello.revision.as_str()),
        (Era::Modern, "2026-07-28")
    );
    assert_eq!(
        hello.instructions.as_ref().map(|words| words.raw()),
        Some("be kind")
    );
    peer.expect_nothing();
}

/// S4-03: the order of messages with a legacy server. Any error but a recognised modern one means
/// legacy.
#[tokio::test(start_paused = true)]
async fn s4_03_a_legacy_server_is_initialised_after_any_refusal_of_the_probe() {
    for code in [-32601, -32602, -32600, -32000, 0] {
        let (session, peer) = open(options(Protocol::Auto));
        let mut peer = peer.await;
        let probe = peer.expect("server/discover").await;
        peer.respond_error(&probe, code);
        let request = peer.expect("initialize").await;
        assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
        assert_eq!(
            request["params"]["capabilities"],
            json!({"elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": true}})
        );
        peer.answer(
            &request,
            json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
        );
        assert_eq!(
            peer.next().await,
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
        );
        assert_eq!(
            session.await.unwrap().unwrap().hello().era(),
            Era::Legacy,
            "{code}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_four_legacy_versions_are_negotiated_and_no_other() {
    for (version, accepted) in [
        ("2024-11-05", true),
        ("2025-03-26", true),
        ("2025-06-18", true),
        ("2025-11-25", true),
        ("2019-01-01", false),
    ] {
        let (session, peer) = open(options(Protocol::Legacy));
        let mut peer = peer.await;
        let request = peer.expect("initialize").await;
        peer.answer(
            &request,
            json!({"protocolVersion": version, "capabilities": {}}),
        );
        let outcome = session.await.unwrap();
        assert_eq!(
            outcome
                .map(|session| session.hello().revision.to_string())
                .ok(),
            accepted.then(|| version.to_owned())
        );
    }
}

/// F17: a slow starter reads both messages late; the one it answers decides.
#[tokio::test(start_paused = true)]
async fn f17_after_five_silent_seconds_initialize_is_sent_as_well() {
    for modern in [false, true] {
        let (session, peer) = open(options(Protocol::Auto));
        let mut peer = peer.await;
        let asked_at = tokio::time::Instant::now();
        let probe = peer.expect("server/discover").await;
        let request = peer.expect("initialize").await;
        assert_eq!(asked_at.elapsed(), PROBE_ALONE);
        if modern {
            peer.answer(&probe, discovery());
        } else {
            peer.answer(
                &request,
                json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
            );
        }
        let era = session.await.unwrap().unwrap().hello().era();
        assert_eq!(era, if modern { Era::Modern } else { Era::Legacy });
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_initialize_after_a_probe_must_be_restarted() {
    let (session, peer) = open(options(Protocol::Auto));
    let mut peer = peer.await;
    let probe = peer.expect("server/discover").await;
    peer.respond_error(&probe, -32601);
    let request = peer.expect("initialize").await;
    peer.respond_error(&request, -32600);
    assert_eq!(
        session.await.unwrap().err(),
        Some(OpenFault::RefusedAfterProbe)
    );

    let (session, peer) = open(options(Protocol::Auto));
    let mut peer = peer.await;
    peer.expect("server/discover").await;
    peer.inbound.closed("the server closed its stdout".into());
    assert_eq!(
        session.await.unwrap().err(),
        Some(OpenFault::RefusedAfterProbe)
    );
}

#[tokio::test(start_paused = true)]
async fn a_known_legacy_server_is_not_probed_and_may_have_become_modern() {
    for turned in [false, true] {
        let (session, peer) = open(OpenOptions {
            known_era: Some(Era::Legacy),
            ..options(Protocol::Auto)
        });
        let mut peer = peer.await;
        if turned {
            let request = peer.expect("initialize").await;
            peer.respond_error(&request, -32601);
            let probe = peer.expect("server/discover").await;
            peer.answer(&probe, discovery());
        } else {
            peer.complete_handshake().await;
        }
        let era = session.await.unwrap().unwrap().hello().era();
        assert_eq!(era, if turned { Era::Modern } else { Era::Legacy });
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_refusal_that_names_a_legacy_version_means_legacy() {
    let (session, peer) = open(options(Protocol::Auto));
    let mut peer = peer.await;
    let probe = peer.expect("server/discover").await;
    let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2025-11-25"]}});
    peer.send(&json!({"jsonrpc": "2.0", "id": probe["id"], "error": error}));
    peer.complete_handshake().await;
    assert_eq!(session.await.unwrap().unwrap().hello().era(), Era::Legacy);
}

/// With a fixed era and without: the refusal names a version, which is tried once.
#[tokio::test(start_paused = true)]
async fn a_version_refusal_that_names_our_version_is_tried_once_more() {
    for (protocol, content) in [
        (Protocol::Auto, true),
        (Protocol::Modern, true),
        (Protocol::Auto, false),
        (Protocol::Modern, false),
    ] {
        let (session, peer) = open(options(protocol));
        let mut peer = peer.await;
        let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}});
        let probe = peer.expect("server/discover").await;
        peer.send(&json!({"jsonrpc": "2.0", "id": probe["id"], "error": error}));
        let again = peer.expect("server/discover").await;
        if content {
            peer.answer(&again, discovery());
        } else {
            peer.send(&json!({"jsonrpc": "2.0", "id": again["id"], "error": error}));
        }
        let outcome = session.await.unwrap().map(|session| session.hello().era());
        let refused = OpenFault::Refused("the server answered with error -32022: no".to_owned());
        assert_eq!(
            outcome,
            if content {
                Ok(Era::Modern)
            } else {
                Err(refused)
            },
            "{protocol:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_connect_deadline() {
    let (session, peer) = open(options(Protocol::Auto));
    let _peer = peer.await;
    let started = tokio::time::Instant::now();
    assert_eq!(
        session.await.unwrap().err(),
        Some(OpenFault::Timeout(Duration::from_secs(30)))
    );
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}
