//! Streamable HTTP, in both eras: each message is a POST, answers come as JSON or as a stream of events.

use std::fmt;
use std::sync::Arc;

use super::{ConnectFault, Connector, Inbound, Transport};
use crate::auth::Credentials;
use crate::caller::Answering;
use crate::config::Environment;
use crate::secret::Secret;

/// The pooled HTTP stack that all servers of a host share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpStack {
    // reqwest's name for it; ours is not "client".
    #[allow(dead_code)]
    pool: reqwest::Client,
}

impl HttpStack {
    /// With the proxies that the environment names; nothing else of the process is read.
    pub fn new(environment: &Environment) -> Result<Self, ConnectFault> {
        let _ = environment;
        unimplemented!()
    }
}

/// Which endpoint, and what to say to it.
#[derive(Clone)]
pub struct HttpTarget {
    /// The endpoint, expanded.
    pub url: url::Url,
    /// Sent with each request.
    pub headers: Vec<(String, Secret)>,
    /// What to authorize with.
    pub credentials: Arc<dyn Credentials>,
    /// The longest message, event or body accepted.
    pub max_message_bytes: usize,
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest of the URL may hold a key.
        f.debug_struct("HttpTarget").field("host", &self.url.host_str()).field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// Connects to one endpoint, as often as wanted.
#[derive(Debug)]
pub struct HttpConnector {
    #[allow(dead_code)]
    stack: HttpStack,
    #[allow(dead_code)]
    target: HttpTarget,
}

impl HttpConnector {
    /// To this endpoint over this stack.
    pub fn new(stack: HttpStack, target: HttpTarget) -> Self {
        Self { stack, target }
    }
}

impl Connector for HttpConnector {
    fn connect<'a>(&'a self, inbound: Arc<dyn Inbound>) -> Answering<'a, Result<Arc<dyn Transport>, ConnectFault>> {
        let _ = inbound;
        todo!()
    }
}
