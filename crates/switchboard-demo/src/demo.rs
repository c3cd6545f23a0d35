//! State that all connections share: the tools, the counter, and the subscribers to changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use crate::options::Options;
use crate::outgoing::OutgoingBuffer;
use crate::peer::Peer;
use crate::questions::Seal;
use crate::resources::COUNTER_URI;
use crate::tasks::{self, Tasks};
use crate::tools::Catalog;

/// The key of the server's name and version in every modern result.
pub(crate) const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The server itself; every connection to it is a [`Peer`].
pub struct Demo {
    pub(crate) options: Options,
    pub(crate) tools: Catalog,
    pub(crate) seal: Seal,
    pub(crate) server_info: Value,
    /// The last fields of every complete modern result, made once.
    pub(crate) complete_extra: String,
    /// The last fields of every modern result that asks for input, made once.
    pub(crate) asking_extra: String,
    /// The last fields of every modern result that is a task, made once.
    pub(crate) task_extra: String,
    pub(crate) tasks: Tasks,
    counter: AtomicU64,
    /// How many calls were stopped before they were answered.
    stopped: AtomicU64,
    peers: Mutex<Vec<Weak<Peer>>>,
}

/// A change that peers are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The list of tools changed.
    Tools,
    /// The list of prompts changed.
    Prompts,
    /// The contents of this resource changed.
    Resource(&'static str),
}

impl std::fmt::Debug for Demo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Demo")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Demo {
    /// A server without connections.
    pub fn new(options: Options) -> Arc<Self> {
        let server_info = json!({
            "name": options.name,
            "title": "Switchboard demo",
            "version": env!("CARGO_PKG_VERSION"),
        });
        let meta = json!({SERVER_INFO_KEY: server_info});
        Arc::new(Self {
            tools: Catalog::new(options.extra_tools, options.has_fixtures),
            seal: Seal::new(),
            server_info,
            complete_extra: format!(r#","resultType":"complete","_meta":{meta}"#),
            asking_extra: format!(r#","resultType":"input_required","_meta":{meta}"#),
            task_extra: format!(r#","resultType":"task","_meta":{meta}"#),
            tasks: Tasks::default(),
            counter: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            peers: Mutex::default(),
            options,
        })
    }

    /// A new connection, which is notified of changes on `outlet` until it is dropped.
    pub fn connect(self: &Arc<Self>, outlet: OutgoingBuffer) -> Arc<Peer> {
        let peer = Arc::new(Peer::new(self.clone(), outlet));
        self.add_peer(&peer);
        peer
    }

    /// The peer is notified of changes from now on.
    pub(crate) fn add_peer(&self, peer: &Arc<Peer>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|peer| peer.strong_count() > 0);
        if !peers
            .iter()
            .any(|known| known.as_ptr() == Arc::as_ptr(peer))
        {
            peers.push(Arc::downgrade(peer));
        }
    }

    /// What `demo://counter` shows.
    pub fn count(&self) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }

    /// Increments the counter, and notifies its subscribers.
    pub fn count_up(&self) -> u64 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed) + 1;
        self.announce(Change::Resource(COUNTER_URI));
        count
    }

    /// How many calls were stopped before they were answered.
    pub fn stopped_calls(&self) -> u64 {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn count_stopped(&self) {
        self.stopped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn announce(&self, change: Change) {
        let peers = self
            .peers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for peer in peers.iter().filter_map(Weak::upgrade) {
            peer.notify(change);
        }
    }

    /// The server's capabilities, in either handshake.
    pub(crate) fn capabilities(&self, version: &str) -> Value {
        let mut capabilities = json!({
            "tools": {"listChanged": true},
            "resources": {"subscribe": true},
            "prompts": {},
            "completions": {},
            "logging": {},
        });
        if self.options.has_fixtures {
            capabilities["prompts"] = json!({"listChanged": true});
        }
        tasks::declare(&mut capabilities, version);
        capabilities
    }

    pub(crate) fn instructions(&self) -> &'static str {
        "A server to try things on: tools of every content kind, slow and failing ones, questions of every kind, \
         a counter to subscribe to. Nothing here changes anything outside this process."
    }
}
