//! Tests of the callers' own sessions: how many there are, and which are closed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{advance, sleep, timeout};

use super::super::{
    CallerSession, Connectors, NotReady, NotReadyReason, ServerHandle, ServerResources,
};
use super::own::InProcessConnector;
use super::script::{connecting, entry, resources};
use super::{LONG, MOMENT};
use crate::caller::CallerId;
use crate::config::{Protocol, ServerConfig, Sharing};

/// The most sessions of callers.
const LIMIT: usize = 32;

/// When an idle session is closed, and how often idle ones are looked for.
const IDLE: Duration = Duration::from_secs(300);
const INTERVAL: Duration = Duration::from_secs(60);

fn start() -> ServerHandle {
    let config = ServerConfig {
        session: Sharing::PerCaller,
        protocol: Protocol::Legacy,
        ..entry()
    };
    let mut connectors = Connectors::default();
    connectors.insert("script", Arc::new(InProcessConnector::new()));
    let resources = ServerResources {
        connectors: Arc::new(connectors),
        ..resources()
    };
    ServerHandle::start(Arc::new(config), resources, connecting())
}

async fn session_of(server: &ServerHandle, caller: &str) -> Result<CallerSession, NotReady> {
    server.session_for(&CallerId::new(caller), LONG).await
}

#[tokio::test(start_paused = true)]
async fn p3_beyond_the_limit_the_longest_idle_session_is_evicted_and_none_in_use() {
    let server = start();
    let mut requests = Vec::new();
    for number in 0..LIMIT {
        let request = session_of(&server, &format!("caller {number}")).await;
        requests.push(request.unwrap());
    }
    let sessions: Vec<_> = requests.iter().map(|one| one.session().clone()).collect();
    let refused = session_of(&server, "one more").await.unwrap_err();
    let limit = LIMIT;
    assert_eq!(refused.reason, NotReadyReason::TooManyCallers { limit });

    // The last one ends its request first, and is used once more.
    for request in requests.into_iter().rev() {
        advance(MOMENT).await;
        drop(request);
    }
    advance(MOMENT).await;
    let last = format!("caller {}", LIMIT - 1);
    drop(session_of(&server, &last).await.unwrap());

    let longest_idle = LIMIT - 2;
    session_of(&server, "one more").await.unwrap();
    let closed = timeout(LONG, sessions[longest_idle].closed()).await;
    assert!(closed.is_ok());
    let open = sessions.iter().map(|session| !session.is_closed());
    let expected = (0..LIMIT).map(|number| number != longest_idle);
    assert_eq!(open.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(server.own_sessions(), LIMIT);
}

#[tokio::test(start_paused = true)]
async fn p3_a_session_that_was_idle_for_five_minutes_is_closed() {
    let server = start();
    let busy = session_of(&server, "busy").await.unwrap();
    let idle = session_of(&server, "idle").await.unwrap();
    let session = idle.session().clone();
    drop(idle);
    sleep(IDLE - MOMENT).await;
    assert_eq!((server.own_sessions(), session.is_closed()), (2, false));
    sleep(INTERVAL + MOMENT).await;
    assert_eq!((server.own_sessions(), session.is_closed()), (1, true));
    assert!(!busy.session().is_closed(), "it is in use");

    drop(busy);
    sleep(IDLE + INTERVAL).await;
    assert_eq!(server.own_sessions(), 0);
    // Later callers are served as before, and their sessions are closed as well.
    drop(session_of(&server, "later").await.unwrap());
    assert_eq!(server.own_sessions(), 1);
    sleep(IDLE + INTERVAL).await;
    assert_eq!(server.own_sessions(), 0);
}
