//! Tests of retries (F22, P5): which requests are sent again, and when. In paused time.

use super::*;
use crate::catalog::ToolDefinition;
use crate::catalog::tests::{server, tool};
use crate::gate::Decision;
use crate::transport::TransportFault;

/// The fault of a busy server, with its Retry-After.
fn busy(status: u16, seconds: Option<u64>) -> TransportFault {
    TransportFault::Status {
        status,
        detail: String::new(),
        retry_after: seconds.map(Duration::from_secs),
        error: None,
    }
}

fn lost() -> TransportFault {
    TransportFault::Lost("the connection broke".to_owned())
}

impl ScriptedServer {
    /// Fails a request at the transport.
    fn fail(&self, request: &Value, fault: TransportFault) {
        self.inbound.failed(request["id"].as_u64().unwrap(), fault);
    }
}

/// Calls a tool that the entry names in `idempotent_tools`, or another one.
fn call(
    session: &Arc<Session>,
    idempotent: bool,
) -> tokio::task::JoinHandle<Result<RawJson, RequestFault>> {
    let raw = json!({"name": "errand", "inputSchema": {"type": "object"}});
    let definition = Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap());
    let tool = Arc::new(Tool {
        idempotent,
        ..tool(server("peer"), definition)
    });
    let permit = Decision::Allow {
        because: "a test".into(),
    }
    .permit(&tool, &RawJson::from_value(&json!({})), &caller("ada"));
    let session = session.clone();
    tokio::spawn(async move {
        let timeouts = Timeouts {
            call: Duration::from_secs(60),
            ..Timeouts::default()
        };
        session
            .call(PermittedCall::new(permit.unwrap(), call_options(timeouts)))
            .await
            .map_err(|fault| *fault)
    })
}

/// Asserts that a call with this fault is sent again after `waits`, or fails.
async fn check(era: Era, idempotent: bool, fault: TransportFault, waits: Option<Duration>) {
    let (session, mut peer) = opened(era).await;
    let calling = call(&session, idempotent);
    let first = peer.expect("tools/call").await;
    peer.fail(&first, fault.clone());
    let failed = tokio::time::Instant::now();
    let Some(waits) = waits else {
        assert_eq!(
            calling.await.unwrap(),
            Err(RequestFault::Transport(fault.clone())),
            "{era:?} {fault:?}"
        );
        assert_eq!(failed.elapsed(), Duration::ZERO, "{era:?} {fault:?}");
        return peer.expect_nothing();
    };
    let second = peer.expect("tools/call").await;
    assert_eq!(failed.elapsed(), waits, "{era:?} {fault:?}");
    assert_eq!(second["params"]["arguments"], first["params"]["arguments"]);
    assert_ne!(second["id"], first["id"], "an id is used once");
    // Only one retry is made.
    peer.fail(&second, fault.clone());
    assert_eq!(
        calling.await.unwrap(),
        Err(RequestFault::Transport(fault.clone())),
        "{era:?} {fault:?}"
    );
    peer.expect_nothing();
}

#[tokio::test(start_paused = true)]
async fn f22_only_idempotent_calls_are_repeated_after_retry_after() {
    let seconds = Duration::from_secs;
    for era in [Era::Legacy, Era::Modern] {
        for status in [429, 503] {
            check(era, true, busy(status, Some(7)), Some(seconds(7))).await;
            check(
                era,
                true,
                busy(status, Some(0)),
                Some(Duration::from_millis(100)),
            )
            .await;
            // Longer than the call may take, or unknown.
            check(era, true, busy(status, Some(60)), None).await;
            check(era, true, busy(status, Some(3600)), None).await;
            check(era, true, busy(status, None), None).await;
            // The call may have been executed.
            check(era, false, busy(status, Some(7)), None).await;
        }
        check(era, true, busy(500, Some(7)), None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn p5_a_call_whose_response_was_lost_is_repeated_only_if_the_entry_says_so() {
    for era in [Era::Legacy, Era::Modern] {
        check(era, true, lost(), Some(Duration::from_millis(100))).await;
        check(era, false, lost(), None).await;
        check(
            era,
            true,
            TransportFault::NotSent("refused".to_owned()),
            None,
        )
        .await;
    }
}

/// F22: after the delay the call is checked again before it is sent.
#[tokio::test(start_paused = true)]
async fn f22_a_tool_that_changed_during_the_delay_is_not_called() {
    let (session, mut peer) = opened(Era::Modern).await;
    let raw = json!({"name": "errand", "inputSchema": {"type": "object"}});
    let definition = Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap());
    let tool = Arc::new(Tool {
        idempotent: true,
        ..tool(server("peer"), definition)
    });
    let permit = Decision::Allow {
        because: "a test".into(),
    }
    .permit(&tool, &RawJson::from_value(&json!({})), &caller("ada"));
    let options = call_options(Timeouts::default());
    let calling = tokio::spawn(async move {
        session
            .call(PermittedCall::new(permit.unwrap(), options))
            .await
    });
    let first = peer.expect("tools/call").await;
    peer.fail(&first, busy(503, Some(7)));
    tool.definition.offer.withdraw();
    let changed = Err(Box::new(RequestFault::DefinitionChanged));
    assert_eq!(calling.await.unwrap(), changed);
    peer.expect_nothing();
}

/// The definitions of the call's own connection and of a tool that the configuration hides count
/// too.
#[tokio::test(start_paused = true)]
async fn p6_a_call_is_not_sent_once_one_of_its_definitions_is_withdrawn() {
    for (hides, own) in [(false, false), (false, true), (true, false), (true, true)] {
        let (session, mut peer) = opened(Era::Legacy).await;
        let raw =
            RawJson::from_value(&json!({"name": "errand", "inputSchema": {"type": "object"}}));
        let parse = || Arc::new(ToolDefinition::parse(&raw).unwrap());
        let tool = Arc::new(tool(server("peer"), parse()));
        let own_definition = parse();
        let gone = if own {
            &own_definition
        } else {
            &tool.definition
        };
        match hides {
            true => gone.offer.hide(true),
            false => gone.offer.withdraw(),
        }
        let options = CallOptions {
            own_definition: Some(own_definition.clone()),
            ..call_options(Timeouts::default())
        };
        let permit = Decision::Allow {
            because: "a test".into(),
        }
        .permit(&tool, &RawJson::from_value(&json!({})), &caller("ada"));
        assert_eq!(
            session
                .call(PermittedCall::new(permit.unwrap(), options))
                .await,
            Err(Box::new(RequestFault::DefinitionChanged)),
            "hides {hides}, own {own}"
        );
        peer.expect_nothing();
    }
}

/// F22: handshakes and lists are idempotent, so they are repeated once after Retry-After, within
/// the deadline.
#[tokio::test(start_paused = true)]
async fn f22_handshakes_and_lists_wait_for_a_busy_server() {
    let capabilities = json!({"tools": {}});
    let (connector, peer) = wire();
    let opening =
        tokio::spawn(async move { Session::open(&connector, options(Protocol::Auto)).await });
    let mut peer = peer.await;
    let began = tokio::time::Instant::now();
    let first = peer.expect("server/discover").await;
    peer.fail(&first, busy(503, Some(4)));
    let second = peer.expect("server/discover").await;
    assert_eq!(began.elapsed(), Duration::from_secs(4));
    peer.answer(
        &second,
        json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
    );
    let session = opening.await.unwrap().unwrap();

    let listing = {
        let session = session.clone();
        tokio::spawn(async move { session.offerings().await })
    };
    let first = peer.expect("tools/list").await;
    peer.fail(&first, busy(429, Some(9)));
    let second = peer.expect("tools/list").await;
    assert_eq!(began.elapsed(), Duration::from_secs(13));
    peer.answer(
        &second,
        json!({"tools": [{"name": "errand", "inputSchema": {"type": "object"}}]}),
    );
    let offerings = listing.await.unwrap().unwrap();
    assert_eq!((offerings.tools.len(), offerings.faults), (1, Vec::new()));
    // A resource is read for a caller, who decides about retries.
    let reading = read(&session, "a:b", "ada");
    let asked = peer.expect("resources/read").await;
    peer.fail(&asked, busy(429, Some(9)));
    assert_eq!(
        reading.await.unwrap(),
        Err(RequestFault::Transport(busy(429, Some(9))))
    );
    peer.expect_nothing();
}

#[tokio::test(start_paused = true)]
async fn f22_a_retry_after_beyond_the_connect_deadline_fails_at_once() {
    for (waits, twice) in [(4, true), (3600, false)] {
        let (connector, peer) = wire();
        let opening =
            tokio::spawn(async move { Session::open(&connector, options(Protocol::Legacy)).await });
        let mut peer = peer.await;
        let first = peer.expect("initialize").await;
        peer.fail(&first, busy(503, Some(waits)));
        if twice {
            let second = peer.expect("initialize").await;
            peer.fail(&second, busy(503, Some(waits)));
        }
        assert_eq!(
            opening.await.unwrap().unwrap_err(),
            OpenFault::Transport(busy(503, Some(waits)))
        );
        peer.expect_nothing();
    }
}
