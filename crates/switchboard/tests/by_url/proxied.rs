//! Tests of a slow or broken network, through a whole host: a proxy between the host and a real
//! server injects faults.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use switchboard::Host;
use switchboard::call::{Call, CallError};
use switchboard::caller::{CallerId, Headless};
use switchboard::config::Protocol;
use switchboard::server::State;
use switchboard::session::RequestFault;
use switchboard::store::{MemoryStore, Store};
use switchboard::transport::TransportFault;
use switchboard::wire::RawJson;
use switchboard_demo::{Demo, HttpEdge, HttpOptions};
use switchboard_testkit::{Fault, FaultProxy, Plan};

use crate::support::{TIMEOUT, entry, server, start, state};

/// The deadline of calls in these tests.
const CALL: Duration = Duration::from_secs(3);

struct ProxiedHost {
    host: Host,
    proxy: FaultProxy,
    _edge: HttpEdge,
}

impl ProxiedHost {
    /// The demo server behind a proxy with this initial plan.
    async fn new(protocol: Protocol, plan: Plan) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place: SocketAddr = listener.local_addr().unwrap();
        let edge = Demo::new(Default::default())
            .serve_http(listener, HttpOptions::default())
            .unwrap();
        let proxy = FaultProxy::start(place).await.unwrap();
        proxy.always(plan);
        let mut entry = entry(&proxy.url("/mcp"));
        entry.protocol = protocol;
        entry.timeouts.call = CALL;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        Self {
            host: start(entry, &store).await,
            proxy,
            _edge: edge,
        }
    }

    async fn call(&self, tool: &str, arguments: &str) -> Result<String, CallError> {
        let caller = Arc::new(Headless(CallerId::new("tester")));
        let call = Call::new(
            format!("peer/{tool}"),
            arguments.parse::<RawJson>().unwrap(),
        )
        .caller(caller);
        let result = tokio::time::timeout(TIMEOUT, self.host.call_with(call))
            .await
            .expect("a call ends")?;
        Ok(result.untrusted_text().unwrap().raw().to_owned())
    }

    /// How often the server has counted, including this time.
    async fn count(&self) -> Result<u32, CallError> {
        let message = self.call("count_up", "{}").await?;
        Ok(message.rsplit(' ').next().unwrap().parse().unwrap())
    }
}

/// F24: bytes that arrive one by one, late or slowly are still the response, byte for byte.
#[tokio::test]
async fn f24_a_slow_network_changes_only_the_duration() {
    let words = "Grüße, 漢字 \u{1f600}".repeat(20);
    let arguments = format!("{{\"message\":\"{words}\"}}");
    let late = Duration::from_millis(20);
    for protocol in [Protocol::Modern, Protocol::Legacy] {
        for plan in [
            Plan::up([Fault::Slice(1)]).and_down([Fault::Slice(1)]),
            Plan::up([Fault::Delay(late)]).and_down([Fault::Delay(late)]),
            Plan::up([Fault::Throttle(200_000)]).and_down([Fault::Throttle(200_000)]),
        ] {
            let scene = ProxiedHost::new(protocol, plan.clone()).await;
            assert!(
                matches!(state(&scene.host), State::Ready { .. }),
                "{protocol:?} {plan:?}: {}",
                state(&scene.host)
            );
            assert_eq!(
                scene.call("echo", &arguments).await.unwrap(),
                words,
                "{protocol:?} {plan:?}"
            );
            scene.host.stop().await;
        }
    }
}

/// F24, P5: a connection that breaks during a call fails that call alone. It is reported, not
/// repeated, and the same server is used once the network is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_a_broken_connection_fails_its_call_once_and_the_server_is_used_again() {
    let breaks = [
        Plan::up([Fault::Pass(20), Fault::Reset]),
        Plan::up([Fault::Pass(20), Fault::Drop]),
        Plan::up([Fault::Blackhole]),
        Plan::down([Fault::Reset]),
        Plan::down([Fault::Pass(10), Fault::Reset]),
        Plan::down([Fault::Pass(10), Fault::Drop]),
        Plan::down([Fault::Pass(10), Fault::HalfClose]),
        Plan::down([Fault::Blackhole]),
    ];
    for protocol in [Protocol::Modern, Protocol::Legacy] {
        for plan in &breaks {
            let scene = ProxiedHost::new(protocol, Plan::clean()).await;
            assert_eq!(scene.count().await.unwrap(), 1, "{protocol:?} {plan:?}");

            scene.proxy.always(plan.clone());
            scene.proxy.cut().await;
            let error = scene.count().await.unwrap_err();
            let CallError::Request { fault, .. } = &error else {
                panic!("{protocol:?} {plan:?}: {error}")
            };
            let is_told = match fault {
                RequestFault::Timeout {
                    after,
                    total: false,
                } => *after == CALL,
                fault => matches!(
                    fault,
                    RequestFault::Transport(TransportFault::Lost(_) | TransportFault::NotSent(_))
                ),
            };
            assert!(is_told, "{protocol:?} {plan:?}: {error}");
            assert!(
                error.to_string().starts_with("server \"peer\": "),
                "{error}"
            );

            scene.proxy.always(Plan::clean());
            scene.proxy.cut().await;
            server(&scene.host).ready(TIMEOUT).await.unwrap();
            // Reset connections are detected by the calls that use them.
            let mut calls = 3;
            let counted = loop {
                match scene.count().await {
                    Ok(counted) => break counted,
                    Err(error) => assert!(
                        calls < 20,
                        "{protocol:?} {plan:?}: there is a way, and it is not used: {error}"
                    ),
                }
                calls += 1;
            };
            assert!(
                (2..=calls).contains(&counted),
                "{protocol:?} {plan:?}: {calls} calls were executed {counted} times"
            );
            scene.host.stop().await;
        }
    }
}
