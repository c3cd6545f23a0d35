//! The connection pool that all URL servers of a host share, with proxies and TLS.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{NoProxy, Proxy, redirect};
use url::Url;

use crate::config::Environment;
use crate::transport::ConnectFault;

/// The value of `User-Agent`.
pub(super) const OUR_USER_AGENT: &str = concat!("switchboard/", env!("CARGO_PKG_VERSION"));

/// The deadline for connecting, TLS included.
pub(in crate::transport) const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// How long idle connections are kept, and how many for each host.
pub(super) const IDLE_CONNECTION: Duration = Duration::from_secs(60);
const IDLE_CONNECTIONS: usize = 512;

/// The TCP keep-alive interval: a vanished peer is detected after a few of these.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(30);

/// The pooled HTTP stack that all servers of a host share. Cheap to clone.
#[derive(Clone)]
pub struct HttpStack {
    // reqwest's name; in this project a client is a program that connects to the gateway.
    pub(in crate::transport) pool: reqwest::Client,
    /// A second pool, for responses to the server.
    reply_pool: reqwest::Client,
    /// The configured proxies, for messages.
    proxy_settings: Arc<ProxySettings>,
}

#[derive(Default)]
struct ProxySettings {
    proxies: Vec<(&'static str, String)>,
    exempt: Vec<String>,
}

impl fmt::Debug for HttpStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy URL may contain a password.
        f.debug_struct("HttpStack").finish_non_exhaustive()
    }
}

impl HttpStack {
    /// A stack with the proxies of the environment; nothing else of the process is read.
    pub fn new(environment: &Environment) -> Result<Self, ConnectFault> {
        let proxies = configured_proxies(environment)?;
        let pool = || {
            let builder = reqwest_builder()
                .user_agent(OUR_USER_AGENT)
                .connect_timeout(CONNECT_DEADLINE)
                .pool_idle_timeout(IDLE_CONNECTION)
                .pool_max_idle_per_host(IDLE_CONNECTIONS)
                .tcp_nodelay(true)
                .tcp_keepalive(KEEPALIVE)
                .tcp_keepalive_interval(KEEPALIVE)
                // The endpoint follows redirects, since it checks which are safe.
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
        let proxy_settings = ProxySettings {
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
            reply_pool: pool()?,
            proxy_settings: Arc::new(proxy_settings),
        })
    }

    /// A stack over separate connections, for responses to the server: HTTP/2 limits the requests
    /// in flight, and all of them may be calls that wait for such a response.
    pub(in crate::transport) fn for_replies(&self) -> Self {
        Self {
            pool: self.reply_pool.clone(),
            ..self.clone()
        }
    }

    /// Whether any proxy is configured.
    pub(super) fn has_proxies(&self) -> bool {
        !self.proxy_settings.proxies.is_empty()
    }

    /// The address for a connection error, and the proxy in front of it if there is one.
    pub(in crate::transport) fn describe_route(&self, url: &Url, address: &str) -> String {
        let host = url.host_str().unwrap_or_default();
        let is_exempt = |exempt: &String| {
            exempt == "*" || host == exempt || host.ends_with(&format!(".{exempt}"))
        };
        let wanted = format!("{}_proxy", url.scheme());
        let proxy = self
            .proxy_settings
            .proxies
            .iter()
            .find(|(kind, _)| *kind == wanted || *kind == "all_proxy");
        match proxy {
            Some((_, name)) if !self.proxy_settings.exempt.iter().any(is_exempt) => {
                format!("{address} or the proxy of {name}")
            }
            _ => address.to_owned(),
        }
    }
}

/// A builder of HTTP connections with TLS by `ring`, unless the program has chosen another provider
/// of cryptography for the whole process.
pub fn reqwest_builder() -> reqwest::ClientBuilder {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    reqwest::Client::builder()
}

/// The proxies of the environment, in the order in which they are tried.
pub(crate) fn proxies(environment: &Environment) -> Result<Vec<Proxy>, ConnectFault> {
    Ok(configured_proxies(environment)?
        .into_iter()
        .map(|(_, _, proxy)| proxy)
        .collect())
}

/// The proxies, each with its kind and its variable.
fn configured_proxies(
    environment: &Environment,
) -> Result<Vec<(&'static str, String, Proxy)>, ConnectFault> {
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
        // The value may contain a password, so it is not shown.
        let proxy = make(url).map_err(|_| {
            ConnectFault(format!(
                "invalid proxy URL in the environment variable {name}"
            ))
        })?;
        proxies.push((kind, name, proxy.no_proxy(exempt.clone())));
    }
    Ok(proxies)
}

/// A variable in lower or upper case, if it is not empty.
fn variable<'a>(environment: &'a Environment, lowercase: &str) -> Option<(String, &'a str)> {
    [lowercase.to_owned(), lowercase.to_uppercase()]
        .into_iter()
        .find_map(|name| {
            environment
                .get(&name)
                .map(|value| (name, value.expose().trim()))
                .filter(|(_, value)| !value.is_empty())
        })
}
