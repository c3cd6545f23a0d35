//! Tests of logins against a scripted authorization server on this machine.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_testkit::LoginServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use url::Url;

use super::*;
use crate::config::{Endpoint, Environment, HttpEndpoint, OAuthGrant, Scope, Source, resolve_url};
use crate::future::BoxFuture;
use crate::hint::Hint;
use crate::name::ServerName;
use crate::secret::Secret;

/// Follows the page's redirects as a browser would, but returns the last address instead of
/// visiting it.
#[derive(Debug, Default)]
struct FollowingOpener {
    /// Visits the last address as well.
    visits: bool,
}

impl Opener for FollowingOpener {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async move {
            let redirects = if self.visits {
                reqwest::redirect::Policy::limited(5)
            } else {
                reqwest::redirect::Policy::none()
            };
            let browser = crate::transport::http::reqwest_builder()
                .redirect(redirects)
                .build()
                .unwrap();
            let answer = browser.get(page.url.clone()).send().await.unwrap();
            match answer.headers().get("location") {
                Some(location) => PageOutcome::Returned(location.to_str().unwrap().to_owned()),
                None => PageOutcome::Shown,
            }
        })
    }
}

/// Refuses every page.
#[derive(Debug)]
struct RefusingOpener;

impl Opener for RefusingOpener {
    fn open<'a>(&'a self, _: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async { PageOutcome::Refused("nobody is there".to_owned()) })
    }
}

struct LoginTest {
    server: LoginServer,
    context: AuthContext,
    auth: HttpAuth,
    now: Arc<AtomicU64>,
}

impl LoginTest {
    fn new() -> Self {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let clock = now.clone();
        let clock: WallClock =
            Arc::new(move || UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::SeqCst)));
        let context = AuthContext {
            clock,
            ..AuthContext::default()
        };
        Self {
            server: LoginServer::start(),
            context,
            auth: HttpAuth::default(),
            now,
        }
    }

    fn entry(&self) -> ServerConfig {
        let source = Source::new(Arc::new("/x/switchboard.toml".into()), 1, Scope::User);
        let endpoint = HttpEndpoint {
            auth: self.auth.clone(),
            ..HttpEndpoint::new(self.server.url())
        };
        ServerConfig::new(
            ServerName::new("guarded").unwrap(),
            source,
            Endpoint::Http(endpoint),
        )
    }

    fn credentials(&self) -> Arc<dyn Credentials> {
        let entry = self.entry();
        let Endpoint::Http(endpoint) = &entry.endpoint else {
            unreachable!("it is a URL")
        };
        let environment = Environment::default();
        for_server(
            &entry,
            &resolve_url(endpoint, &environment).unwrap(),
            &environment,
            &self.context,
        )
    }

    fn with_logins(mut self) -> Self {
        self.context.logins = Some(Arc::new(FollowingOpener::default()));
        self
    }

    async fn login(&self) -> Result<LoggedIn, String> {
        let entry = self.entry();
        login(
            &entry,
            &Environment::default(),
            &self.context,
            &FollowingOpener::default(),
        )
        .await
        .map_err(|fault| fault.to_string())
    }

    fn challenge(&self, more: &str) -> String {
        format!(
            "Bearer resource_metadata=\"http://{}/.well-known/oauth-protected-resource/mcp\"{more}",
            self.server.authority
        )
    }

    /// The outcome of a request that was rejected with this status.
    async fn refused(
        &self,
        credentials: &dyn Credentials,
        status: u16,
        more: &str,
        sent: Option<&Secret>,
    ) -> Result<(), String> {
        let challenge = self.challenge(more);
        let rejection = AuthRejection {
            status,
            challenge: Some(&challenge),
            sent,
        };
        credentials
            .rejected(rejection)
            .await
            .map_err(|needs| needs.reason)
    }

    fn token_requests(&self) -> usize {
        self.server
            .seen()
            .iter()
            .filter(|request| request.path.ends_with("/token"))
            .count()
    }
}

async fn header(credentials: &dyn Credentials) -> Option<Secret> {
    credentials.authorization().await.unwrap()
}

/// The whole login uses the proxy of the host's environment, and none of the process's; with an
/// invalid proxy nothing is sent.
#[tokio::test]
async fn a_login_uses_the_proxies_of_the_hosts_environment() {
    let test = LoginTest::new();
    let proxy = switchboard_testkit::FaultProxy::start(test.server.authority.parse().unwrap())
        .await
        .unwrap();
    let through = |proxy: String| Environment::new([("http_proxy".to_owned(), proxy)]);
    let given = login(
        &test.entry(),
        &through(proxy.url("")),
        &test.context,
        &FollowingOpener::default(),
    )
    .await;
    assert!(given.is_ok(), "{given:?}");
    // The server closes each connection after one request; the page is not visited by us.
    let ours = test
        .server
        .seen()
        .iter()
        .filter(|request| !request.path.ends_with("/authorize"))
        .count();
    assert_eq!((ours > 3, proxy.traffic().connections), (true, ours as u64));

    let before = test.server.seen().len();
    let away = login(
        &test.entry(),
        &through("http://127.0.0.1:9".to_owned()),
        &test.context,
        &FollowingOpener::default(),
    )
    .await;
    assert!(away.is_err(), "{away:?}");
    let odd = login(
        &test.entry(),
        &through("http://".to_owned()),
        &test.context,
        &FollowingOpener::default(),
    )
    .await;
    let message = "server \"guarded\": invalid proxy URL in the environment (HTTP_PROXY, HTTPS_PROXY or ALL_PROXY)";
    assert_eq!(odd.unwrap_err().to_string(), message);
    assert_eq!(test.server.seen().len(), before, "nobody was asked");
}

#[tokio::test]
async fn t18_a_login_uses_pkce_state_and_resource_and_is_stored() {
    let test = LoginTest::new();
    test.server
        .set(|terms| terms.scope = Some("read".to_owned()));
    let given = test.login().await.unwrap();
    let issuer = format!("http://{}/as1", test.server.authority);
    assert_eq!(
        given,
        LoggedIn {
            server: test.entry().name,
            issuer,
            scopes: vec!["read".to_owned()],
            lasts: true
        }
    );

    let asked = &test.server.seen_at("/as1/authorize")[0].fields;
    assert_eq!(
        (
            asked["code_challenge_method"].as_str(),
            asked["scope"].as_str()
        ),
        ("S256", "read")
    );
    assert_eq!(
        (asked["resource"].as_str(), asked["client_id"].as_str()),
        (test.server.url().as_str(), "as1-registered-1")
    );
    assert!(
        asked["redirect_uri"].starts_with("http://127.0.0.1:")
            && asked["redirect_uri"].ends_with("/callback")
    );
    assert!(asked["state"].len() >= 16 && asked["code_challenge"].len() == 43);
    let redeemed = &test.server.seen_at("/as1/token")[0].fields;
    assert_eq!(redeemed["resource"], test.server.url());
    assert!(redeemed["code_verifier"].len() >= 43);

    // A later process finds the stored login.
    assert_eq!(
        header(&*test.credentials()).await.unwrap().expose(),
        "Bearer canary-access-as1-3"
    );
}

#[tokio::test]
async fn t18_the_response_may_arrive_at_the_redirect_address() {
    let test = LoginTest::new();
    let entry = test.entry();
    let given = login(
        &entry,
        &Environment::default(),
        &test.context,
        &FollowingOpener { visits: true },
    )
    .await;
    assert!(given.is_ok(), "{given:?}");
}

#[tokio::test]
async fn t18_a_code_of_another_issuer_is_never_exchanged() {
    let unproven = "server \"guarded\": login failed: the response does not name the authorization server that was asked as its issuer";
    let evil = "https://evil.example";
    // `/` tests that issuers are compared without normalization.
    for (name, iss, announced) in [
        ("missing", None, true),
        ("wrong", Some(evil), true),
        ("not announced", Some(evil), false),
        ("normalised", Some("/"), true),
    ] {
        let test = LoginTest::new();
        let own = format!("http://{}/as1/", test.server.authority);
        let iss = iss.map(|iss| if iss == "/" { own } else { iss.to_owned() });
        test.server.set(|terms| {
            terms.iss = iss;
            terms.metadata = json!({ "authorization_response_iss_parameter_supported": announced });
        });
        assert_eq!(test.login().await, Err(unproven.to_owned()), "{name}");
        assert_eq!(test.token_requests(), 0, "{name}");
    }
    // Without `iss`, and without announcing it, the response is accepted.
    let test = LoginTest::new();
    test.server.set(|terms| {
        terms.iss = None;
        terms.metadata = json!({ "authorization_response_iss_parameter_supported": null });
    });
    assert!(test.login().await.is_ok());
    // An error of another issuer is not quoted.
    let test = LoginTest::new();
    test.server.set(|terms| {
        terms.denied = Some("see https://evil.example".to_owned());
        terms.iss = Some("https://evil.example".to_owned());
    });
    assert_eq!(test.login().await, Err(unproven.to_owned()));
}

/// Shows the page to nobody; then the paused clock advances while every task waits.
#[derive(Debug, Default)]
struct IdleOpener(std::sync::Mutex<String>);

impl Opener for IdleOpener {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        *self.0.lock().unwrap() = page.redirect.clone();
        tokio::time::pause();
        Box::pin(async { PageOutcome::Shown })
    }
}

/// T18: the listener is on this machine only, and closes after ten minutes.
#[tokio::test]
async fn t18_a_pending_login_times_out_after_ten_minutes_and_stops_listening() {
    let test = LoginTest::new();
    let away = IdleOpener::default();
    let began = tokio::time::Instant::now();
    let fault = login(&test.entry(), &Environment::default(), &test.context, &away)
        .await
        .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "server \"guarded\": no login within 10 minutes"
    );
    assert!(fault.is_denied());
    let waited = began.elapsed();
    assert!((600..605).contains(&waited.as_secs()), "{waited:?}");
    let redirect = Url::parse(&away.0.lock().unwrap()).unwrap();
    assert_eq!(redirect.host_str(), Some("127.0.0.1"));
    assert!(std::net::TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).is_err());
}

#[tokio::test]
async fn a_denied_login_reports_the_denial() {
    let test = LoginTest::new();
    test.server
        .set(|terms| terms.denied = Some("access_denied".to_owned()));
    let message =
        "server \"guarded\": login failed: the authorization server answered access_denied";
    assert_eq!(test.login().await, Err(message.to_owned()));
    let fault = login(
        &test.entry(),
        &Environment::default(),
        &test.context,
        &RefusingOpener,
    )
    .await
    .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "server \"guarded\": login failed: nobody is there"
    );
    assert!(fault.is_denied());
}

/// T17, T18: forbidden addresses in metadata are neither requested nor opened.
#[tokio::test]
async fn t17_t18_metadata_cannot_name_a_forbidden_address() {
    let check = async |metadata: serde_json::Value, resource: serde_json::Value, expected: &str| {
        let test = LoginTest::new();
        test.server.set(|terms| {
            terms.metadata = metadata.clone();
            terms.resource = resource.clone();
        });
        let message = test.login().await.unwrap_err();
        assert!(
            message.contains(expected),
            "{metadata} {resource}: {message}"
        );
        assert_eq!(test.token_requests(), 0, "{metadata} {resource}");
    };
    let none = json!({});
    check(
        none.clone(),
        json!({ "authorization_servers": ["http://169.254.169.254/"] }),
        "none published usable metadata",
    )
    .await;
    check(
        none.clone(),
        json!({ "authorization_servers": ["http://10.0.0.1/"] }),
        "none published usable metadata",
    )
    .await;
    check(
        none.clone(),
        json!({ "resource": "https://other.example/mcp" }),
        "mismatch",
    )
    .await;
    check(
        json!({ "token_endpoint": "https://169.254.169.254/token" }),
        none.clone(),
        "exchanging the login code failed",
    )
    .await;
    check(
        json!({ "registration_endpoint": "https://10.0.0.1/register" }),
        none.clone(),
        "address is not permitted",
    )
    .await;
    check(
        json!({ "token_endpoint": "http://as.example/token" }),
        none.clone(),
        "an unusable token_endpoint",
    )
    .await;
    check(
        json!({ "authorization_endpoint": "javascript:alert(1)" }),
        none.clone(),
        "an unusable authorization_endpoint",
    )
    .await;
    check(
        json!({ "authorization_endpoint": "https://a@b.example/" }),
        none.clone(),
        "contains a user name",
    )
    .await;
    check(
        json!({ "code_challenge_methods_supported": null }),
        none.clone(),
        "does not say that it supports PKCE",
    )
    .await;
    check(
        json!({ "code_challenge_methods_supported": ["plain"] }),
        none.clone(),
        "S256",
    )
    .await;
    check(
        json!({ "issuer": "https://other.example" }),
        none,
        "issuer mismatch",
    )
    .await;
}

/// T17: a redirect of metadata cannot lead to a forbidden address either.
#[tokio::test]
async fn t17_a_redirect_of_metadata_cannot_reach_a_forbidden_address() {
    for target in [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://10.0.0.1/",
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let elsewhere = listener.local_addr().unwrap();
        let (came, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let redirecting = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.unwrap();
                let _ = came.send(
                    String::from_utf8_lossy(&request[..read])
                        .lines()
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                );
                let answer = format!(
                    "HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let test = LoginTest::new();
        test.server.set(|terms| {
            terms.resource = json!({ "authorization_servers": [format!("http://{elsewhere}/as")] })
        });
        let began = std::time::Instant::now();
        let message = test.login().await.unwrap_err();
        assert!(
            message.contains(&format!(
                "redirect to non-same-origin URL rejected: {}",
                Url::parse(target).unwrap()
            )),
            "{message}"
        );
        assert!(
            asked.try_recv().is_ok(),
            "{target}: it was asked, and redirected"
        );
        // Nothing was connected to, so nothing was waited for.
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{target}: {:?}",
            began.elapsed()
        );
        assert_eq!(
            (test.server.seen_at("/as1/authorize"), test.token_requests()),
            (Vec::new(), 0),
            "{target}"
        );
        redirecting.abort();
    }
}

/// T17: a token is revoked at the endpoint that its authorization server names, but not at a
/// forbidden address, nor along a redirect.
#[tokio::test]
async fn t17_a_token_is_never_sent_to_a_forbidden_revocation_endpoint() {
    for endpoint in [
        "https://169.254.169.254/revoke",
        "https://10.0.0.1/revoke",
        "http://as.example/revoke",
        "file:///etc/passwd",
    ] {
        let test = LoginTest::new();
        test.login().await.unwrap();
        test.server
            .set(|terms| terms.metadata = json!({ "revocation_endpoint": endpoint }));
        let began = std::time::Instant::now();
        let given_back = logout(&test.entry(), &Environment::default(), &test.context)
            .await
            .unwrap();
        assert_eq!(
            (given_back.was_logged_in, given_back.revoked),
            (true, false),
            "{endpoint}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{endpoint}: {:?}",
            began.elapsed()
        );
        assert_eq!(
            header(&*test.credentials()).await,
            None,
            "{endpoint}: it is forgotten all the same"
        );
    }
}

/// F19: a hundred requests rejected at once cause one refresh, and all continue with the same
/// token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_one_refresh_serves_all_waiting_requests() {
    let test = Arc::new(LoginTest::new());
    test.login().await.unwrap();
    let credentials = test.credentials();
    let sent = header(&*credentials).await;
    test.server.end_tokens();
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        let (test, credentials, sent) = (test.clone(), credentials.clone(), sent.clone());
        waiting.spawn(async move {
            test.refused(&*credentials, 401, "", sent.as_ref())
                .await
                .unwrap();
            header(&*credentials).await.unwrap().expose().to_owned()
        });
    }
    let headers: BTreeSet<String> = waiting.join_all().await.into_iter().collect();
    assert_eq!(headers.len(), 1, "{headers:?}");
    assert_eq!(test.token_requests(), 2, "the login, and one renewal");
    assert_eq!(
        test.server.seen_at("/as1/token")[1].fields["grant_type"],
        "refresh_token"
    );
}

/// F19: processes that share only the vault share the refresh too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_processes_share_a_refresh_through_the_vault() {
    let folder = tempfile::tempdir().unwrap();
    let mut test = LoginTest::new();
    let vault = || Arc::new(SystemVault::open(folder.path(), VaultChoice::File).unwrap());
    test.context.vault = vault();
    test.login().await.unwrap();
    let mut processes = Vec::new();
    for _ in 0..4 {
        // Each with its own lock on the same file, as processes have.
        test.context.vault = vault();
        processes.push(test.credentials());
    }
    let mut sent = Vec::new();
    for process in &processes {
        sent.push(header(&**process).await);
    }
    test.server.end_tokens();
    let test = Arc::new(test);
    let mut waiting = JoinSet::new();
    for (process, sent) in processes.into_iter().zip(sent) {
        let test = test.clone();
        waiting.spawn(async move {
            test.refused(&*process, 401, "", sent.as_ref())
                .await
                .unwrap();
            header(&*process).await.unwrap().expose().to_owned()
        });
    }
    let headers: BTreeSet<String> = waiting.join_all().await.into_iter().collect();
    assert_eq!(
        (headers.len(), test.token_requests()),
        (1, 2),
        "{headers:?}"
    );
}

/// F19: a login that cannot be refreshed fails all waiting requests once, without a loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_a_login_that_cannot_be_refreshed_is_tried_once() {
    let test = Arc::new(LoginTest::new());
    test.login().await.unwrap();
    let credentials = test.credentials();
    let sent = header(&*credentials).await;
    test.server.end_tokens();
    test.server
        .set(|terms| terms.token_fault = Some((400, json!({ "error": "invalid_grant" }))));
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        let (test, credentials, sent) = (test.clone(), credentials.clone(), sent.clone());
        waiting.spawn(async move { test.refused(&*credentials, 401, "", sent.as_ref()).await });
    }
    let answers: BTreeSet<_> = waiting.join_all().await.into_iter().collect();
    assert_eq!(
        answers,
        BTreeSet::from([Err("the login has expired".to_owned())])
    );
    assert_eq!(test.token_requests(), 2);
    // A login stored by another process is used.
    test.server.set(|terms| terms.token_fault = None);
    test.login().await.unwrap();
    assert_eq!(
        test.refused(&*credentials, 401, "", sent.as_ref()).await,
        Ok(())
    );
    assert_ne!(header(&*credentials).await, sent);
}

/// F19: the authorization server is down for a moment. No page is shown, and the same login works
/// again afterwards.
#[tokio::test]
async fn f19_a_refresh_that_fails_for_a_moment_asks_for_no_login() {
    let test = LoginTest::new().with_logins();
    test.login().await.unwrap();
    let credentials = test.credentials();
    let sent = header(&*credentials).await;
    test.server.end_tokens();
    test.server
        .set(|terms| terms.token_fault = Some((503, json!({}))));
    let pages = test.server.seen_at("/as1/authorize").len();
    let challenge = test.challenge("");
    let rejection = AuthRejection {
        status: 401,
        challenge: Some(&challenge),
        sent: sent.as_ref(),
    };
    let failed = credentials.rejected(rejection).await.unwrap_err();
    assert_eq!(failed.hint, Hint::Examine);
    assert!(
        failed.reason.starts_with("renewing the login failed"),
        "{failed:?}"
    );
    test.server.set(|terms| terms.token_fault = None);
    let renewed = test.refused(&*credentials, 401, "", sent.as_ref()).await;
    assert_eq!(renewed, Ok(()));
    assert_eq!(test.server.seen_at("/as1/authorize").len(), pages);
}

/// F32: the wall clock decides when a token expires, a minute ahead.
#[tokio::test]
async fn f32_a_token_is_refreshed_a_minute_before_it_expires() {
    let test = LoginTest::new();
    test.login().await.unwrap();
    let credentials = test.credentials();
    let first = header(&*credentials).await.unwrap();
    test.now.fetch_add(3_539, Ordering::SeqCst);
    assert_eq!(header(&*credentials).await.unwrap(), first);
    assert_eq!(test.token_requests(), 1);
    test.now.fetch_add(1, Ordering::SeqCst);
    let second = header(&*credentials).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(test.token_requests(), 2);
    test.now.fetch_add(31_536_000, Ordering::SeqCst);
    assert_ne!(header(&*credentials).await.unwrap(), second);
    assert_eq!(test.token_requests(), 3);
    // If the authorization server is unreachable, the old token is used for a while, without a
    // refresh at each request.
    test.server
        .set(|terms| terms.token_fault = Some((503, json!({}))));
    test.now.fetch_add(3_600, Ordering::SeqCst);
    let third = header(&*credentials).await;
    assert_eq!(
        (header(&*credentials).await, test.token_requests()),
        (third, 4)
    );
}

#[tokio::test]
async fn without_an_opener_a_required_login_is_reported_with_its_reason() {
    let test = LoginTest::new();
    let credentials = test.credentials();
    assert_eq!(header(&*credentials).await, None);
    assert_eq!(
        test.refused(&*credentials, 401, "", None).await,
        Err("there is no login".to_owned())
    );
    assert_eq!(test.server.seen(), []);
    // A login stored by another process is used.
    test.login().await.unwrap();
    assert_eq!(test.refused(&*credentials, 401, "", None).await, Ok(()));
    assert!(header(&*credentials).await.is_some());
}

#[tokio::test]
async fn a_configured_token_or_header_prevents_logins() {
    let mut test = LoginTest::new().with_logins();
    test.auth.bearer_token = Some(Secret::new("canary-own"));
    let credentials = test.credentials();
    let sent = header(&*credentials).await;
    assert_eq!(sent.as_ref().unwrap().expose(), "Bearer canary-own");
    let message = test.refused(&*credentials, 401, "", sent.as_ref()).await;
    assert_eq!(
        message,
        Err("the server refused the token (HTTP 401)".to_owned())
    );
    assert!(
        test.login()
            .await
            .unwrap_err()
            .contains("there is nothing to log in to")
    );
    assert_eq!(test.server.seen(), []);
    assert!(!format!("{credentials:?}").contains("canary"));
}

/// SEP-2352: credentials of one authorization server are never sent to another.
#[tokio::test]
async fn a_changed_authorization_server_gets_a_new_registration() {
    let test = LoginTest::new().with_logins();
    let credentials = test.credentials();
    test.refused(&*credentials, 401, "", None).await.unwrap();
    let sent = header(&*credentials).await;
    test.server.end_tokens();
    let issuer = format!("http://{}/as2", test.server.authority);
    test.server.set(|terms| {
        terms.issuer = "as2".to_owned();
        terms.iss = Some(issuer);
    });
    test.refused(&*credentials, 401, "", sent.as_ref())
        .await
        .unwrap();
    assert!(
        header(&*credentials)
            .await
            .unwrap()
            .expose()
            .starts_with("Bearer canary-access-as2-")
    );
    assert_eq!(test.server.seen_at("/as2/register").len(), 1);
    let shown = test
        .server
        .seen()
        .into_iter()
        .filter(|request| request.path.starts_with("/as2/"));
    for request in shown {
        let text = format!("{request:?}");
        assert!(
            !text.contains("as1-registered") && !text.contains("canary-refresh-as1"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_configured_client_id_is_never_sent_to_another_authorization_server() {
    let mut test = LoginTest::new();
    test.auth.client_id = Some("by-hand".to_owned());
    test.login().await.unwrap();
    let issuer = format!("http://{}/as2", test.server.authority);
    test.server.set(|terms| {
        terms.issuer = "as2".to_owned();
        terms.iss = Some(issuer);
    });
    assert!(
        test.login()
            .await
            .unwrap_err()
            .contains("belongs to the old one")
    );
    assert_eq!(test.server.seen_at("/as2/authorize"), []);
    logout(&test.entry(), &Environment::default(), &test.context)
        .await
        .unwrap();
    assert!(test.login().await.is_ok());
}

/// The specification's order: a configured client id, a metadata document, a registration; an
/// earlier registration is used again.
#[tokio::test]
async fn the_client_id_is_chosen_in_the_specifications_order() {
    let asked_as = |test: &LoginTest| {
        test.server.seen_at("/as1/authorize").last().unwrap().fields["client_id"].clone()
    };
    let documents = json!({ "client_id_metadata_document_supported": true });
    let mut test = LoginTest::new();
    test.auth.client_metadata_url = Some("https://us.example/client.json".to_owned());
    test.login().await.unwrap();
    assert_eq!(asked_as(&test), "as1-registered-1");
    test.login().await.unwrap();
    assert_eq!(
        (
            asked_as(&test).as_str(),
            test.server.seen_at("/as1/register").len()
        ),
        ("as1-registered-1", 1)
    );
    test.server.set(|terms| terms.metadata = documents);
    test.login().await.unwrap();
    assert_eq!(asked_as(&test), "https://us.example/client.json");
    test.auth.client_id = Some("by-hand".to_owned());
    test.auth.client_secret = Some(Secret::new("canary-client"));
    test.login().await.unwrap();
    assert_eq!(asked_as(&test), "by-hand");
    let redeemed = test.server.seen_at("/as1/token").pop().unwrap();
    assert!(redeemed.authorization.unwrap().starts_with("Basic "));
    assert_eq!(test.server.seen_at("/as1/register").len(), 1);
}

/// A registration may be lost at the authorization server, or its secret expire: the next login
/// registers once more, and so does the one that is rejected for it.
#[tokio::test]
async fn a_client_that_the_authorization_server_forgot_is_registered_once_more() {
    let test = LoginTest::new().with_logins();
    let asked = || -> Vec<String> {
        let pages = test.server.seen_at("/as1/authorize").into_iter();
        pages.map(|page| page.fields["client_id"].clone()).collect()
    };
    let forget = |client: &str| {
        let client = client.to_owned();
        test.server
            .set(|terms| terms.forgotten_clients.push(client));
    };
    test.login().await.unwrap();
    forget(&asked()[0]);
    test.login().await.unwrap();
    let [first, again, second] = asked().try_into().unwrap();
    assert_eq!(first, again);
    assert_ne!(first, second);

    // While a token is refreshed: no page is shown for the lost client.
    let credentials = test.credentials();
    let sent = header(&*credentials).await;
    test.server.end_tokens();
    forget(&second);
    test.refused(&*credentials, 401, "", sent.as_ref())
        .await
        .unwrap();
    assert_ne!(header(&*credentials).await, sent);
    assert_eq!(asked().len(), 4);
    assert_eq!(test.server.seen_at("/as1/register").len(), 3);

    // A new registration that is rejected is not replaced.
    let test = LoginTest::new();
    let rejects = (401, json!({ "error": "invalid_client" }));
    test.server.set(|terms| terms.token_fault = Some(rejects));
    let refused = test.login().await.unwrap_err();
    assert!(refused.contains("invalid_client"), "{refused}");
    assert_eq!(test.server.seen_at("/as1/register").len(), 1);
}

/// SEP-2350: a step-up also requests the earlier scopes; F19: once.
#[tokio::test]
async fn f19_a_step_up_requests_missing_scopes_once() {
    let test = LoginTest::new().with_logins();
    let credentials = test.credentials();
    test.refused(&*credentials, 401, ", scope=\"read\"", None)
        .await
        .unwrap();
    let sent = header(&*credentials).await;
    let wants = ", error=\"insufficient_scope\", scope=\"write\"";
    test.refused(&*credentials, 403, wants, sent.as_ref())
        .await
        .unwrap();
    let asked: Vec<_> = test
        .server
        .seen_at("/as1/authorize")
        .iter()
        .map(|page| page.fields["scope"].clone())
        .collect();
    assert_eq!(asked, ["read", "read write"]);
    let sent = header(&*credentials).await;
    let message = test.refused(&*credentials, 403, wants, sent.as_ref()).await;
    assert_eq!(
        message,
        Err(
            "the server requires scope \"write\", which this login has already requested"
                .to_owned()
        )
    );
    assert_eq!(test.server.seen_at("/as1/authorize").len(), 2);
}

#[tokio::test]
async fn f19_a_server_can_trigger_at_most_three_logins() {
    let test = LoginTest::new().with_logins();
    let credentials = test.credentials();
    for number in 1..=5 {
        let sent = header(&*credentials).await;
        let wants = format!(", error=\"insufficient_scope\", scope=\"scope-{number}\"");
        let message = test
            .refused(&*credentials, 403, &wants, sent.as_ref())
            .await;
        assert_eq!(message.is_ok(), number <= 3, "{number}: {message:?}");
    }
    assert_eq!(test.server.seen_at("/as1/authorize").len(), 3);
}

#[tokio::test]
async fn missing_scopes_are_remembered_for_the_next_login() {
    let test = LoginTest::new();
    test.server
        .set(|terms| terms.scope = Some("read".to_owned()));
    test.login().await.unwrap();
    let credentials = test.credentials();
    let sent = header(&*credentials).await;
    let message = test
        .refused(
            &*credentials,
            403,
            ", error=\"insufficient_scope\", scope=\"write\"",
            sent.as_ref(),
        )
        .await;
    assert_eq!(
        message,
        Err("the server requires more scopes than this login has: \"write\"".to_owned())
    );
    assert_eq!(test.login().await.unwrap().scopes, ["read", "write"]);
}

#[tokio::test]
async fn client_credentials_log_in_with_a_secret_or_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    std::fs::write(&key, KEY).unwrap();
    let by = async |secret: Option<&str>, key: Option<String>, methods: &str| {
        let mut test = LoginTest::new();
        test.auth = HttpAuth {
            grant: OAuthGrant::ClientCredentials,
            client_id: Some("robot".to_owned()),
            client_secret: secret.map(Secret::new),
            client_key: key,
            scopes: vec!["read".to_owned()],
            ..HttpAuth::default()
        };
        let metadata = json!({ "token_endpoint_auth_methods_supported": [methods], "grant_types_supported": ["client_credentials"],
            "code_challenge_methods_supported": null });
        test.server.set(|terms| terms.metadata = metadata);
        let credentials = test.credentials();
        test.refused(&*credentials, 401, "", None).await.unwrap();
        assert!(header(&*credentials).await.is_some());
        // Expired: without a refresh token, it logs in again, without a person.
        test.now.fetch_add(3_600, Ordering::SeqCst);
        let before = header(&*credentials).await;
        test.refused(&*credentials, 401, "", before.as_ref())
            .await
            .unwrap();
        test.server.seen_at("/as1/token").remove(0)
    };
    let posted = by(Some("canary-client"), None, "client_secret_post").await;
    assert_eq!(
        (
            posted.fields["client_secret"].as_str(),
            posted.fields["scope"].as_str()
        ),
        ("canary-client", "read")
    );
    let basic = by(Some("canary-client"), None, "client_secret_basic").await;
    assert!(basic.authorization.unwrap().starts_with("Basic "));
    let signed = by(None, Some(key.display().to_string()), "private_key_jwt").await;
    assert_eq!(signed.fields["client_assertion"].split('.').count(), 3);
    assert_eq!(signed.fields["grant_type"], "client_credentials");
}

/// The server's metadata names the resource, whoever logs in.
#[tokio::test]
async fn a_program_requests_a_token_for_the_same_resource_as_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    std::fs::write(&key, KEY).unwrap();
    let requested = async |auth: HttpAuth, methods: &str, is_machine_only: bool| {
        let mut test = LoginTest::new();
        test.auth = auth;
        let whole_server = format!("http://{}", test.server.authority);
        let mut metadata = json!({ "token_endpoint_auth_methods_supported": [methods] });
        if is_machine_only {
            metadata["grant_types_supported"] = json!(["client_credentials"]);
            metadata["response_types_supported"] = json!([]);
            metadata["code_challenge_methods_supported"] = Value::Null;
        }
        test.server.set(|terms| {
            terms.resource = json!({ "resource": whole_server });
            terms.metadata = metadata;
        });
        test.login().await.unwrap();
        let request = test.server.seen_at("/as1/token").remove(0);
        assert_eq!(request.fields["resource"], whole_server, "{methods}");
    };
    let program = HttpAuth {
        grant: OAuthGrant::ClientCredentials,
        client_id: Some("robot".to_owned()),
        ..HttpAuth::default()
    };
    let with_secret = HttpAuth {
        client_secret: Some(Secret::new("canary-client")),
        ..program.clone()
    };
    let with_key = HttpAuth {
        client_key: Some(key.display().to_string()),
        ..program
    };
    requested(HttpAuth::default(), "none", false).await;
    for is_machine_only in [false, true] {
        requested(with_secret.clone(), "client_secret_post", is_machine_only).await;
        requested(with_key.clone(), "private_key_jwt", is_machine_only).await;
    }
}

#[tokio::test]
async fn a_secret_in_the_query_is_not_sent_to_the_authorization_server() {
    let test = LoginTest::new();
    let mut entry = test.entry();
    let url = format!("{}?key=canary-in-the-query", test.server.url());
    entry.endpoint = Endpoint::Http(HttpEndpoint::new(url));
    let (environment, opener) = (Environment::default(), FollowingOpener::default());
    let given = login(&entry, &environment, &test.context, &opener).await;
    given.unwrap();
    let seen = test.server.seen();
    let to_issuer: Vec<_> = seen.iter().filter(|one| one.path != "/mcp").collect();
    assert!(
        !format!("{to_issuer:?}").contains("canary-in-the-query"),
        "{to_issuer:?}"
    );
    let asked = &test.server.seen_at("/as1/authorize")[0].fields;
    assert_eq!(asked["resource"], test.server.url());
}

#[tokio::test]
async fn a_logout_revokes_and_deletes_the_token() {
    let test = LoginTest::new();
    test.login().await.unwrap();
    let out = async || {
        logout(&test.entry(), &Environment::default(), &test.context)
            .await
            .unwrap()
    };
    let server = test.entry().name;
    assert_eq!(
        out().await,
        LoggedOut {
            server: server.clone(),
            was_logged_in: true,
            revoked: true
        }
    );
    let revoked = &test.server.seen_at("/as1/revoke")[0].fields;
    assert_eq!(
        (
            revoked["token_type_hint"].as_str(),
            revoked["token"].as_str()
        ),
        ("refresh_token", "canary-refresh-as1-3")
    );
    assert_eq!(header(&*test.credentials()).await, None);
    assert_eq!(
        out().await,
        LoggedOut {
            server,
            was_logged_in: false,
            revoked: false
        }
    );
}

/// T25: stored tokens are redacted from all displayed text, and no `Debug` output contains them.
#[tokio::test]
async fn t25_tokens_are_redacted_from_displayed_text() {
    let test = LoginTest::new();
    test.login().await.unwrap();
    let credentials = test.credentials();
    let redactor = crate::secret::Redactor::default().and_live(credentials.secrets());
    let sent = header(&*credentials).await;
    test.server.end_tokens();
    test.refused(&*credentials, 401, "", sent.as_ref())
        .await
        .unwrap();
    let now = header(&*credentials).await.unwrap();
    let text = format!(
        "{} {} canary-refresh-as1-3",
        sent.unwrap().expose(),
        now.expose()
    );
    assert_eq!(
        redactor.redact(&text),
        "Bearer [secret] Bearer [secret] [secret]"
    );
    assert!(!format!("{credentials:?} {:?} {:?}", test.context, now).contains("canary"));
}

/// Created for these tests only.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQguY1axaU8hrbvC17B\n\
wKrQPVMLny0n6PV3LDAaDYQQpwChRANCAARlxrXZPBYKilviTtHNj6ozrqdm2iP8\n\
8J/LYy2nWJ1f2Qw3f3i4jVSCLMhoT8zFZo0dS3hJIRgN7V3pawCNgg/h\n\
-----END PRIVATE KEY-----\n";
