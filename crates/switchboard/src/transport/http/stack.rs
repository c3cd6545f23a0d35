//! The pool of connections that every URL server of a host shares: proxies, TLS, and the time a
//! connection may take.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{NoProxy, Proxy, redirect};
use url::Url;

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
pub(super) const KEEPALIVE: Duration = Duration::from_secs(30);

/// The pooled HTTP stack that all servers of a host share. Cheap to clone.
#[derive(Clone)]
pub struct HttpStack {
    // reqwest's name for it; ours is not "client".
    pub(in crate::transport) pool: reqwest::Client,
    /// Other connections, for answers.
    answers: reqwest::Client,
    /// Which variables name proxies, and which hosts they leave out.
    named: Arc<Named>,
}

#[derive(Default)]
struct Named {
    proxies: Vec<(&'static str, String)>,
    exempt: Vec<String>,
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
        let proxies = named(environment)?;
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
            let builder = proxies.iter().fold(builder, |builder, (_, _, proxy)| {
                builder.proxy(proxy.clone())
            });
            builder.build().map_err(|error| {
                ConnectFault(format!("the HTTP stack could not be set up: {error:?}"))
            })
        };
        let exempt = variable(environment, "no_proxy")
            .map(|(_, hosts)| hosts)
            .unwrap_or_default();
        let named = Named {
            exempt: exempt
                .split(',')
                .map(|host| host.trim().trim_start_matches('.').to_owned())
                .collect(),
            proxies: proxies
                .iter()
                .map(|(kind, name, _)| (*kind, name.clone()))
                .collect(),
        };
        Ok(Self {
            pool: pool()?,
            answers: pool()?,
            named: Arc::new(named),
        })
    }

    /// The same over connections of its own, for answers to questions: over HTTP/2 a server takes
    /// only so many requests at once, and all of them may be calls that wait for such an
    /// answer.
    pub(in crate::transport) fn for_answers(&self) -> Self {
        Self {
            pool: self.answers.clone(),
            ..self.clone()
        }
    }

    /// Whether the environment names any proxy at all.
    pub(super) fn has_proxies(&self) -> bool {
        !self.named.proxies.is_empty()
    }

    /// Who may be at fault where there is no connection to `place`: also the proxy in front of it,
    /// if one is named.
    pub(in crate::transport) fn way_to(&self, url: &Url, place: &str) -> String {
        let host = url.host_str().unwrap_or_default();
        let is_exempt = |exempt: &String| {
            exempt == "*" || host == exempt || host.ends_with(&format!(".{exempt}"))
        };
        let wanted = format!("{}_proxy", url.scheme());
        let proxy = self
            .named
            .proxies
            .iter()
            .find(|(kind, _)| *kind == wanted || *kind == "all_proxy");
        match proxy {
            Some((_, name)) if !self.named.exempt.iter().any(is_exempt) => {
                format!("{place} or the proxy of {name}")
            }
            _ => place.to_owned(),
        }
    }
}

#[cfg(feature = "oauth")]
/// The proxies that the environment names, in the order in which they are asked.
pub(crate) fn proxies(environment: &Environment) -> Result<Vec<Proxy>, ConnectFault> {
    Ok(named(environment)?
        .into_iter()
        .map(|(_, _, proxy)| proxy)
        .collect())
}

/// The same, each with its kind and its variable.
fn named(environment: &Environment) -> Result<Vec<(&'static str, String, Proxy)>, ConnectFault> {
    let exempt =
        variable(environment, "no_proxy").and_then(|(_, hosts)| NoProxy::from_string(hosts));
    let kinds = [
        ("http_proxy", Proxy::http as fn(_) -> _),
        ("https_proxy", Proxy::https),
        ("all_proxy", Proxy::all),
    ];
    let mut proxies = Vec::new();
    for (kind, make) in kinds {
        let Some((name, url)) = variable(environment, kind) else {
            continue;
        };
        // The value may hold a password.
        let proxy = make(url).map_err(|_| {
            ConnectFault(format!(
                "invalid proxy URL in the environment variable {name}"
            ))
        })?;
        proxies.push((kind, name, proxy.no_proxy(exempt.clone())));
    }
    Ok(proxies)
}

/// A variable in its small or its capital spelling, if it says anything.
fn variable<'a>(environment: &'a Environment, small: &str) -> Option<(String, &'a str)> {
    [small.to_owned(), small.to_uppercase()]
        .into_iter()
        .find_map(|name| {
            environment
                .get(&name)
                .map(|value| (name, value.expose().trim()))
                .filter(|(_, value)| !value.is_empty())
        })
}
