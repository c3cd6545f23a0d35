//! Tests of which addresses a login may connect to.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::Mutex;

use super::*;

const CONNECTION_DEADLINE: Duration = Duration::from_secs(20);

/// Resolves each query to the next address.
/// The addresses of each look-up.
struct ScriptedResolver(Mutex<VecDeque<Vec<SocketAddr>>>);

impl Resolve for ScriptedResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let next = self.0.lock().unwrap().pop_front().ok_or("no such name");
        Box::pin(async move { Ok(Box::new(next?.into_iter()) as Addrs) })
    }
}

#[test]
fn t17_an_address_is_classified_by_its_network() {
    let check = |base: &str, expected: &[(&str, bool)]| {
        let server_class = AddressClass::of_host(&Url::parse(base).unwrap());
        for (address, permitted) in expected {
            assert_eq!(
                server_class.permits(address.parse().unwrap()),
                *permitted,
                "{base}: {address}"
            );
        }
    };
    let never = [
        "169.254.169.254",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "fe80::1",
        "ff02::1",
        "::",
        "fec0::1",
    ];
    let hidden = [
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ];
    for base in [
        "https://mcp.example/",
        "http://127.0.0.1:3000/mcp",
        "http://10.1.2.3/",
        "http://169.254.169.254/",
    ] {
        for address in never.iter().chain(&hidden) {
            check(base, &[(address, false)]);
        }
        check(
            base,
            &[("93.184.216.34", true), ("2606:2800:220:1::1", true)],
        );
    }
    let near = |loopback: bool, private: bool| {
        [
            ("127.0.0.1", loopback),
            ("::1", loopback),
            ("::ffff:127.0.0.1", loopback),
            ("10.0.0.1", private),
            ("172.16.0.1", private),
            ("192.168.1.1", private),
            ("100.64.0.1", private),
            ("fd00::1", private),
            ("64:ff9b::a00:1", private),
        ]
    };
    check("https://mcp.example/", &near(false, false));
    check("http://localhost:3000/", &near(true, false));
    check("http://[::1]:3000/", &near(true, false));
    check("http://192.168.0.7/", &near(false, true));
}

/// T17: whoever can change plain http could name another authorization server.
#[cfg(feature = "oauth")]
#[tokio::test]
async fn t17_a_login_uses_plain_http_only_to_this_machine_and_its_servers_own_origin() {
    let check = async |base: &str, url: &str, permitted: bool| {
        let guarded = GuardedHttp::with_resolver(
            &Url::parse(base).unwrap(),
            CONNECTION_DEADLINE,
            &ProxyRoutes::of(&Environment::default()),
            Arc::new(ScriptedResolver(Mutex::default())),
        );
        let request = Request::new(Method::GET, Url::parse(url).unwrap());
        let error = guarded.unwrap().send(request).await.unwrap_err();
        let is_refused = error.to_string().starts_with("only https is permitted");
        assert_eq!(is_refused, !permitted, "{base}, {url}: {error}");
    };
    check("https://mcp.example/", "https://as.example/", true).await;
    check("https://mcp.example/", "http://as.example/", false).await;
    check("https://mcp.example/", "http://mcp.example/", false).await;
    check("http://mcp.example/", "http://mcp.example/x", true).await;
    check("http://mcp.example/", "http://mcp.example:81/x", false).await;
    check("http://mcp.example/", "http://as.localhost:9/", true).await;
}

/// T17: a name that resolves to cloud metadata, then to a private network, then to a listener of
/// this machine: none of them is connected to, however often its address changes.
#[tokio::test]
async fn t17_a_name_that_changes_its_addresses_is_never_connected_to() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    let answers = [
        "169.254.169.254:80".parse().unwrap(),
        "10.0.0.1:80".parse().unwrap(),
        here,
    ];
    let scripted = |answers: &[SocketAddr]| {
        Arc::new(ScriptedResolver(Mutex::new(
            answers.iter().map(|address| vec![*address]).collect(),
        )))
    };
    let base = Url::parse("https://mcp.example/mcp").unwrap();
    let target = Url::parse(&format!("http://rebound.example:{}/revoke", here.port())).unwrap();

    let guarded = GuardedHttp::with_resolver(
        &base,
        CONNECTION_DEADLINE,
        &ProxyRoutes::of(&Environment::default()),
        scripted(&answers),
    )
    .unwrap();
    for answer in answers {
        let asked = guarded
            .request(Method::POST, target.clone())
            .await
            .unwrap()
            .send()
            .await
            .unwrap_err();
        assert!(
            format!("{asked:?}").contains("resolves to no permitted address"),
            "{answer}: {asked:?}"
        );
    }
    assert!(
        tokio::time::timeout(Duration::ZERO, listener.accept())
            .await
            .is_err(),
        "nobody came"
    );
    // A proxy is configured by the user, so it may have any address. Other requests to its host may
    // not.
    let proxy = format!("http://Rebound.example:{}", here.port());
    let routes = ProxyRoutes::of(&Environment::new([("http_proxy".to_owned(), proxy)]));
    let public = "93.184.216.34:80".parse().unwrap();
    let lookup = scripted(&[here, public, here]);
    let guarded = GuardedHttp::with_resolver(&base, CONNECTION_DEADLINE, &routes, lookup).unwrap();
    assert!(guarded.request(Method::POST, target).await.is_none());
    let target = Url::parse("http://named.example/revoke").unwrap();
    let asking = tokio::spawn(guarded.request(Method::POST, target).await.unwrap().send());
    assert!(
        tokio::time::timeout(CONNECTION_DEADLINE, listener.accept())
            .await
            .is_ok()
    );
    asking.abort();
}

/// T17: a proxy resolves names itself, so they are checked before by their addresses here. Names
/// that only the proxy can resolve are left to it.
#[tokio::test]
async fn t17_a_name_is_checked_before_a_proxy_resolves_it() {
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let routes = ProxyRoutes::of(&Environment::new([("https_proxy".to_owned(), address)]));
    let base = Url::parse("https://mcp.example/mcp").unwrap();
    let asking = |addresses: Vec<SocketAddr>| {
        let answers = (!addresses.is_empty()).then_some(addresses);
        let scripted = Arc::new(ScriptedResolver(Mutex::new(answers.into_iter().collect())));
        let guarded =
            GuardedHttp::with_resolver(&base, CONNECTION_DEADLINE, &routes, scripted).unwrap();
        let request = Request::new(
            Method::POST,
            Url::parse("https://named.example/token").unwrap(),
        );
        tokio::spawn(async move {
            guarded
                .send(request)
                .await
                .map(drop)
                .map_err(|fault| fault.to_string())
        })
    };
    for never in [
        &["169.254.169.254:80"][..],
        &["10.0.0.1:80"],
        &["127.0.0.1:80"],
        // The proxy may choose either.
        &["93.184.216.34:80", "10.0.0.1:80"],
    ] {
        let addresses = never.iter().map(|address| address.parse().unwrap());
        let refused = tokio::time::timeout(CONNECTION_DEADLINE, asking(addresses.collect()))
            .await
            .unwrap()
            .unwrap();
        assert!(refused.is_err(), "{never:?}");
    }
    assert!(
        tokio::time::timeout(Duration::ZERO, proxy.accept())
            .await
            .is_err(),
        "the proxy was not asked"
    );
    for fine in [vec!["93.184.216.34:80".parse().unwrap()], Vec::new()] {
        let asked = asking(fine);
        assert!(
            tokio::time::timeout(CONNECTION_DEADLINE, proxy.accept())
                .await
                .is_ok()
        );
        asked.abort();
    }
}

/// T17: the configured server may be a name of the local network, to which the transport connects
/// anyway. Its metadata leads to no other private host, and its name to no metadata service.
#[tokio::test]
async fn t17_a_configured_name_may_be_private_and_no_other() {
    let resolves = async |name: &str, address: &str| {
        let answer = vec![address.parse().unwrap()];
        let resolver = GuardedResolver {
            server_class: AddressClass::Public,
            own_name: Some("mcp.corp.example".to_owned()),
            proxies: Vec::new(),
            lookup: Arc::new(ScriptedResolver(Mutex::new([answer].into()))),
        };
        let found = resolver.resolve(name.parse().unwrap()).await;
        found.is_ok()
    };
    for private in ["10.1.2.3:443", "127.0.0.1:443", "[fd00::1]:443"] {
        assert!(resolves("MCP.corp.example", private).await, "{private}");
        assert!(!resolves("as.corp.example", private).await, "{private}");
    }
    assert!(!resolves("mcp.corp.example", "169.254.169.254:443").await);
    assert!(resolves("as.corp.example", "93.184.216.34:443").await);
}

/// T17: a literal address is not resolved, so it is checked before.
#[tokio::test]
async fn t17_a_forbidden_literal_address_is_never_requested() {
    let guarded = |base: &str| {
        GuardedHttp::new(
            &Url::parse(base).unwrap(),
            CONNECTION_DEADLINE,
            &ProxyRoutes::of(&Environment::default()),
        )
        .unwrap()
    };
    let asks = async |base: &str, url: &str| {
        guarded(base)
            .request(Method::POST, Url::parse(url).unwrap())
            .await
            .is_some()
    };
    assert!(asks("https://mcp.example/", "https://as.example/revoke").await);
    assert!(!asks("https://mcp.example/", "https://169.254.169.254/revoke").await);
    assert!(!asks("https://mcp.example/", "https://[::ffff:a9fe:a9fe]/revoke").await);
    // In any notation.
    assert!(!asks("https://mcp.example/", "https://0xa9fea9fe/revoke").await);
    assert!(!asks("https://mcp.example/", "http://127.1/revoke").await);
    assert!(asks("http://127.0.0.1:3000/mcp", "http://127.0.0.1:9/revoke").await);
}
