//! The pool of connections that every URL server of a host shares: proxies, TLS, and the time a connection may take.

use std::fmt;
use std::time::Duration;

use reqwest::{NoProxy, Proxy, redirect};

use crate::config::Environment;
use crate::transport::ConnectFault;

/// Who says what is said.
pub(super) const OUR_NAME: &str = concat!("switchboard/", env!("CARGO_PKG_VERSION"));

/// How long a connection may take to come to be, TLS included.
pub(in crate::transport) const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Connections that nobody uses are kept this long, and so many of them for each host.
pub(super) const IDLE_CONNECTION: Duration = Duration::from_secs(60);
const IDLE_CONNECTIONS: usize = 512;

/// A peer that is gone without a word is noticed after a few of these.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The pooled HTTP stack that all servers of a host share. Cheap to clone.
#[derive(Clone)]
pub struct HttpStack {
    // reqwest's name for it; ours is not "client".
    pub(in crate::transport) pool: reqwest::Client,
    /// Other connections, for answers.
    answers: reqwest::Client,
    /// Whether the environment names any.
    pub(super) has_proxies: bool,
}

impl fmt::Debug for HttpStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy may be named with its password.
        f.debug_struct("HttpStack").finish_non_exhaustive()
    }
}

impl HttpStack {
    /// With the proxies that the environment names; nothing else of the process is read.
    pub fn new(environment: &Environment) -> Result<Self, ConnectFault> {
        let proxies = proxies(environment)?;
        let pool = || {
            let builder = reqwest::Client::builder()
                .user_agent(OUR_NAME)
                .connect_timeout(CONNECT_DEADLINE)
                .pool_idle_timeout(IDLE_CONNECTION)
                .pool_max_idle_per_host(IDLE_CONNECTIONS)
                .tcp_nodelay(true)
                .tcp_keepalive(KEEPALIVE)
                .tcp_keepalive_interval(KEEPALIVE)
                // Ours are followed by the endpoint, which knows what may go where.
                .redirect(redirect::Policy::none())
                .referer(false)
                .no_proxy();
            let builder = proxies.iter().cloned().fold(builder, reqwest::ClientBuilder::proxy);
            builder.build().map_err(|error| ConnectFault(format!("the HTTP stack could not be set up: {error:?}")))
        };
        Ok(Self { pool: pool()?, answers: pool()?, has_proxies: !proxies.is_empty() })
    }

    /// The same over connections of its own, for answers to questions: over HTTP/2 a server takes only so many requests at once, and
    /// all of them may be calls that wait for such an answer.
    pub(super) fn for_answers(&self) -> Self {
        Self { pool: self.answers.clone(), ..self.clone() }
    }
}

/// What the usual variables say, in the order in which they are asked.
fn proxies(environment: &Environment) -> Result<Vec<Proxy>, ConnectFault> {
    let exempt = variable(environment, "no_proxy").and_then(|(_, hosts)| NoProxy::from_string(hosts));
    let kinds = [("http_proxy", Proxy::http as fn(_) -> _), ("https_proxy", Proxy::https), ("all_proxy", Proxy::all)];
    let mut proxies = Vec::new();
    for (name, make) in kinds {
        let Some((name, url)) = variable(environment, name) else { continue };
        // The value may hold a password.
        let proxy = make(url).map_err(|_| ConnectFault(format!("the variable {name} names no proxy; expected a URL")))?;
        proxies.push(proxy.no_proxy(exempt.clone()));
    }
    Ok(proxies)
}

/// A variable in its small or its capital spelling, if it says anything.
fn variable<'a>(environment: &'a Environment, small: &str) -> Option<(String, &'a str)> {
    [small.to_owned(), small.to_uppercase()]
        .into_iter()
        .find_map(|name| environment.get(&name).map(|value| (name, value.expose().trim())).filter(|(_, value)| !value.is_empty()))
}
