//! Tests of a server that needs a login: its own state, without a retry loop, left by the next call
//! after a login.

use std::sync::Arc;

use switchboard::Hint;
use switchboard::call::CallError;
use switchboard::server::State;
use switchboard::session::RequestFault;
use switchboard::store::{MemoryStore, Store};
use switchboard::transport::TransportFault;

use crate::peer::{Kind, Peer};
use crate::support::{TIMEOUT, call, entry, found, server, start, state};

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// F19: one attempt, then the state; each call tries once, since another process may have logged
/// in.
#[tokio::test]
async fn f19_a_server_that_needs_a_login_waits_for_it() {
    let peer = Peer::start(Kind::Always(401, "")).await;
    let url = format!(
        "{}?key=secret-in-the-query",
        peer.url().replace("http://", "http://me:word@")
    );
    let host = start(entry(&url), &store()).await;
    assert_eq!(state(&host), needs_login(&peer));
    assert_eq!(
        peer.handshakes(false),
        ["POST /mcp?key=secret-in-the-query server/discover"]
    );

    let refused = server(&host).ready(TIMEOUT).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "server \"peer\": needs a login (there is no login)"
    );
    assert_eq!(refused.hint, Some(Hint::LogIn));
    assert_eq!(refused.state, needs_login(&peer));
    assert_eq!(
        peer.handshakes(false),
        ["POST /mcp?key=secret-in-the-query server/discover"]
    );

    peer.become_kind(Kind::Modern);
    server(&host).ready(TIMEOUT).await.unwrap();
    found(&host);
    host.stop().await;
}

/// F19: a restart by a person tries again as well.
#[tokio::test]
async fn f19_a_restart_tries_again() {
    let peer = Peer::start(Kind::Always(401, "")).await;
    let host = start(entry(&peer.url()), &store()).await;
    assert_eq!(state(&host), needs_login(&peer));
    peer.become_kind(Kind::Legacy);
    server(&host).restart().await;
    server(&host).wait_until_settled().await;
    found(&host);
    host.stop().await;
}

/// F19: an expired login fails the call with that reason, which then is the server's state.
#[tokio::test]
async fn f19_a_rejected_call_changes_the_servers_state() {
    let peer = Peer::start(Kind::ModernWithoutCalls).await;
    let host = start(entry(&peer.url()), &store()).await;
    found(&host);
    let error = call(&host).await.unwrap_err();
    let CallError::Request {
        fault: RequestFault::Transport(TransportFault::NeedsLogin(_)),
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert!(
        matches!(
            &error,
            CallError::Request {
                hint: Some(Hint::LogIn),
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(state(&host), needs_login(&peer));

    // Its tools stay on offer, and the next call succeeds after a login.
    peer.become_kind(Kind::Modern);
    call(&host).await.unwrap();
    found(&host);
    host.stop().await;
}

fn needs_login(peer: &Peer) -> State {
    State::NeedsLogin {
        url: peer.url(),
        reason: "there is no login".to_owned(),
        hint: switchboard::Hint::LogIn,
    }
}
