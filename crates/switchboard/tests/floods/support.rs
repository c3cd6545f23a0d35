//! Sessions with the flooding peer, over each transport and in each kind of runtime.

use std::fs::File;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use switchboard::auth::NoCredentials;
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId,
};
use switchboard::config::{Environment, Protocol, Timeouts};
use switchboard::name::ServerName;
use switchboard::session::{OpenFault, OpenOptions, RequestFault, Session};
use switchboard::transport::Connector;
use switchboard::transport::http::{HttpConnector, HttpStack, HttpTarget};
use switchboard::transport::sse::SseConnector;
use switchboard::transport::stdio::StdioConnector;
use switchboard::wire::RawJson;
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Runtime};

use crate::peer::{Kind, Peer, Sent, Where, over_pipes};

/// How a flood arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    /// Streamable HTTP over connections of our own.
    Direct(Where),
    /// Streamable HTTP, or HTTP+SSE, over the stack that all servers share.
    Stack(Where),
    Sse,
    SseOverStack,
}

/// Runs the test in a runtime with one thread, and in one with two.
pub(crate) fn in_each_runtime<F: Future<Output = ()>>(test: impl Fn() -> F) {
    // Two floods at once would affect each other.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtimes: [Runtime; 2] = [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap(),
    ];
    for runtime in runtimes {
        runtime.block_on(test());
        // Does not wait for the peer's connections.
        runtime.shutdown_background();
    }
}

/// An open session with a server that floods this way, and the number of bytes it has sent.
pub(crate) async fn open(way: Way, kind: Kind) -> (Arc<Session>, Sent) {
    let (opened, sent) = try_open(way, kind, Duration::from_secs(20)).await;
    (opened.unwrap(), sent)
}

/// Like [`open`], with this connect timeout.
pub(crate) async fn try_open(
    way: Way,
    kind: Kind,
    limit: Duration,
) -> (Result<Arc<Session>, OpenFault>, Sent) {
    let (connector, sent): (Box<dyn Connector>, Sent) = match way {
        Way::Stdio => {
            let (stdin, input) = pipe::pipe().unwrap();
            let (output, stdout) = pipe::pipe().unwrap();
            let [input, output] = [
                input.into_blocking_fd().unwrap(),
                output.into_blocking_fd().unwrap(),
            ];
            let sent = over_pipes(File::from(input), File::from(output), kind);
            (Box::new(StdioConnector::new(stdin, stdout, 1 << 20)), sent)
        }
        Way::Direct(at) | Way::Stack(at) => {
            let peer = Peer::start(at, kind);
            (
                Box::new(HttpConnector::new(stack(way), target(&peer))),
                peer.sent,
            )
        }
        Way::Sse | Way::SseOverStack => {
            let peer = Peer::start(Where::Sse, kind);
            (
                Box::new(SseConnector::new(stack(way), target(&peer))),
                peer.sent,
            )
        }
    };
    let mut options = OpenOptions::new(ServerName::new("peer").unwrap());
    options.protocol = Protocol::Legacy;
    options.connect_timeout = limit;
    options.max_message_bytes = 1 << 20;
    (Session::open(&*connector, options).await, sent)
}

/// With a proxy in the environment, though not for this server, the shared stack is used.
fn stack(way: Way) -> HttpStack {
    let is_shared = matches!(way, Way::Stack(_) | Way::SseOverStack);
    let proxy = is_shared.then(|| ("https_proxy".to_owned(), "http://127.0.0.1:9".to_owned()));
    HttpStack::new(&Environment::new(proxy)).unwrap()
}

fn target(peer: &Peer) -> HttpTarget {
    let url = peer.url().parse().unwrap();
    HttpTarget {
        url,
        headers: Vec::new(),
        credentials: Arc::new(NoCredentials),
        max_message_bytes: 1 << 20,
    }
}

/// Reads a resource within this limit, whether or not there is progress.
pub(crate) async fn read(session: &Session, limit: Duration) -> Result<RawJson, RequestFault> {
    let caller: Arc<dyn Caller> = Arc::new(SilentCaller);
    session
        .read(
            "a:b",
            &caller,
            Timeouts {
                connect: limit,
                call: limit,
                call_max: limit,
            },
        )
        .await
}

struct SilentCaller;

impl Caller for SilentCaller {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("test");
        &ID
    }

    fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities::default()
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }
}
