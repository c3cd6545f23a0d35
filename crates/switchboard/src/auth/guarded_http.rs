//! HTTP that is guarded against server-side request forgery: no redirects, no link-local addresses,
//! and private ones only for the base address's own host, or if the base address itself is one.
//!
//! Every request of a login is sent here, including those of the OAuth library, and those of an
//! agent that fetches pages. A host name is checked by the address that is connected to, so that it
//! cannot change between check and use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, Proxy, RequestBuilder};
#[cfg(feature = "oauth")]
use reqwest::{Request, Response};
use tokio::time::timeout;
use url::{Host, Url};

use super::address::is_this_machine;
use crate::config::Environment;
use crate::transport::http::stack;

/// The proxies of the environment. Nothing else of the process is read.
#[derive(Debug, Clone)]
pub(super) struct ProxyRoutes {
    /// `None` if the environment names an invalid proxy: then nothing is sent.
    proxies: Option<Vec<Proxy>>,
    /// The proxies' hosts, which are trusted because the user configured them.
    hosts: Vec<String>,
}

impl ProxyRoutes {
    pub(super) fn of(environment: &Environment) -> Self {
        let hosts = PROXY_VARIABLES
            .iter()
            .filter_map(|name| host_of(environment.get(name)?.expose()))
            .collect();
        Self {
            proxies: stack::proxies(environment).ok(),
            hosts,
        }
    }

    /// A builder for connections that follow no redirects, or the reason why there is none.
    pub(super) fn builder(&self) -> Result<reqwest::ClientBuilder, &'static str> {
        let proxies = self
            .proxies
            .as_ref()
            .ok_or("invalid proxy URL in the environment (HTTP_PROXY, HTTPS_PROXY or ALL_PROXY)")?;
        let builder = stack::reqwest_builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        Ok(proxies
            .iter()
            .fold(builder, |builder, proxy| builder.proxy(proxy.clone())))
    }
}

/// How long resolving a name may take before the proxy is left to resolve it.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The variables that name proxies.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Sends requests to public addresses, to addresses of the same class as its base address, and to
/// the base address's own host. Follows no redirect.
#[derive(Debug, Clone)]
pub struct GuardedHttp {
    server_class: AddressClass,
    #[cfg(feature = "oauth")]
    origin: url::Origin,
    pool: reqwest::Client,
    /// Set if a proxy may be used. The proxy resolves names itself, so they are checked before.
    check_before_proxy: Option<Arc<GuardedResolver>>,
}

impl GuardedHttp {
    /// For the server that is configured at `base`, with a timeout for each request. The error is
    /// one line, safe to show.
    pub(super) fn new(
        base: &Url,
        patience: Duration,
        routes: &ProxyRoutes,
    ) -> Result<Self, &'static str> {
        Self::with_resolver(base, patience, routes, Arc::new(SystemResolver))
    }

    /// Like `new`, with the proxies of an environment.
    pub fn for_environment(
        base: &Url,
        patience: Duration,
        environment: &Environment,
    ) -> Result<Self, &'static str> {
        Self::new(base, patience, &ProxyRoutes::of(environment))
    }

    fn with_resolver(
        base: &Url,
        patience: Duration,
        routes: &ProxyRoutes,
        lookup: Arc<dyn Resolve>,
    ) -> Result<Self, &'static str> {
        let server_class = AddressClass::of_host(base);
        let resolver = Arc::new(GuardedResolver {
            server_class,
            own_name: base.domain().map(str::to_owned),
            proxies: routes.hosts.clone(),
            lookup,
        });
        let pool = routes
            .builder()?
            .timeout(patience)
            .dns_resolver(resolver.clone())
            .build();
        let check_before_proxy = (!routes.hosts.is_empty()).then_some(resolver);
        Ok(Self {
            server_class,
            #[cfg(feature = "oauth")]
            origin: base.origin(),
            pool: pool.map_err(|_| "the HTTP stack could not be set up")?,
            check_before_proxy,
        })
    }

    /// Builds a request, unless its address is forbidden.
    pub async fn request(&self, method: Method, url: Url) -> Option<RequestBuilder> {
        self.permits(&url)
            .await
            .then(|| self.pool.request(method, url))
    }

    /// Sends a request of a login, unless its address is forbidden. Plain http is permitted to this
    /// machine and to the base address's own origin.
    #[cfg(feature = "oauth")]
    pub(super) async fn send(
        &self,
        request: Request,
    ) -> Result<Response, Box<dyn std::error::Error + Send + Sync>> {
        if !self.is_protected(request.url()) {
            return Err("only https is permitted (http only for this machine)".into());
        }
        if !self.permits(request.url()).await {
            return Err("its address is not permitted".into());
        }
        Ok(self.pool.execute(request).await?)
    }

    #[cfg(feature = "oauth")]
    fn is_protected(&self, url: &Url) -> bool {
        url.scheme() == "https"
            || url.host().is_some_and(|host| is_this_machine(&host))
            || url.origin() == self.origin
    }

    /// Literal addresses are checked here; host names when they are resolved, or before a proxy
    /// resolves them.
    async fn permits(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => match &self.check_before_proxy {
                Some(resolver) => !resolver.is_forbidden_name(name).await,
                None => true,
            },
            Some(Host::Ipv4(address)) => self.server_class.permits(address.into()),
            Some(Host::Ipv6(address)) => self.server_class.permits(address.into()),
            None => false,
        }
    }
}

/// The network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressClass {
    Public,
    /// Addresses of this machine.
    Loopback,
    /// Addresses of the local network.
    Private,
    /// Link-local (cloud metadata services among them), multicast or reserved: never a legitimate
    /// server.
    Forbidden,
}

impl AddressClass {
    /// The class of the URL's host. A host name counts as public whatever it resolves to: its owner
    /// could otherwise widen what is permitted of other hosts.
    fn of_host(base: &Url) -> Self {
        match base.host() {
            Some(host) if is_this_machine(&host) => Self::Loopback,
            Some(Host::Ipv4(address)) => Self::of(address.into()),
            Some(Host::Ipv6(address)) => Self::of(address.into()),
            Some(Host::Domain(_)) | None => Self::Public,
        }
    }

    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => {
                embedded(address).map_or_else(|| Self::of_v6(address), Self::of_v4)
            }
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] => Self::Loopback,
            [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Self::Private,
            [0, ..] | [169, 254, ..] | [224..=255, ..] => Self::Forbidden,
            [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
                Self::Forbidden
            }
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0xfc00..=0xfdff, ..] => Self::Private,
            [0x2001, 0x0db8, ..] => Self::Forbidden,
            [0x2000..=0x3fff, ..] => Self::Public,
            _ => Self::Forbidden,
        }
    }

    /// Whether metadata of a server in this class may name that address.
    fn permits(self, address: IpAddr) -> bool {
        match Self::of(address) {
            Self::Public => true,
            Self::Forbidden => false,
            near => near == self,
        }
    }
}

/// The IPv4 address embedded in an IPv6 address: mapped, compatible, 6to4, NAT64.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

/// Resolves names to permitted addresses only.
struct GuardedResolver {
    server_class: AddressClass,
    /// The host of the base address, if it is a name. It may resolve to a private address: the user
    /// configured it, and the transport connects to it.
    own_name: Option<String>,
    /// The hosts of proxies.
    proxies: Vec<String>,
    lookup: Arc<dyn Resolve>,
}

impl GuardedResolver {
    /// Whether the name is a proxy's: connections to proxies are trusted, requests for a host of the
    /// same name are not.
    fn is_proxy(&self, name: &str) -> bool {
        self.proxies
            .iter()
            .any(|proxy| proxy.eq_ignore_ascii_case(name))
    }

    /// Which addresses a name may resolve to.
    fn permits_for(&self, name: &str) -> impl Fn(IpAddr) -> bool + use<> {
        let is_own = (self.own_name.as_deref()).is_some_and(|own| own.eq_ignore_ascii_case(name));
        let server_class = self.server_class;
        move |address| match is_own {
            true => AddressClass::of(address) != AddressClass::Forbidden,
            false => server_class.permits(address),
        }
    }

    /// Whether a name resolves here to an address that is not permitted: the proxy may choose any of
    /// them. A name that only the proxy can resolve, or that changes before the proxy resolves it, is
    /// left to the proxy.
    async fn is_forbidden_name(&self, name: &str) -> bool {
        let permits = self.permits_for(name);
        let Ok(name) = name.parse() else { return true };
        match timeout(LOOKUP_TIMEOUT, self.lookup.resolve(name)).await {
            Ok(Ok(mut found)) => !found.all(|place| permits(place.ip())),
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

impl std::fmt::Debug for GuardedResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardedResolver")
            .field("server_class", &self.server_class)
            .finish_non_exhaustive()
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (permits, is_proxy) = (
            self.permits_for(name.as_str()),
            self.is_proxy(name.as_str()),
        );
        let found = self.lookup.resolve(name);
        Box::pin(async move {
            let found: Vec<SocketAddr> = found
                .await?
                .filter(|place| is_proxy || permits(place.ip()))
                .collect();
            match found.is_empty() {
                true => Err("it resolves to no permitted address".into()),
                false => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

/// Resolves with the operating system.
struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The host in the value of a proxy variable.
fn host_of(proxy: &str) -> Option<String> {
    let proxy = if proxy.contains("://") {
        proxy.to_owned()
    } else {
        format!("http://{proxy}")
    };
    Url::parse(&proxy).ok()?.host_str().map(str::to_owned)
}

#[cfg(all(test, feature = "oauth"))]
mod tests;
