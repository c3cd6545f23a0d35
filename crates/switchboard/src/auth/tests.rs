//! Logins against a scripted authorization server on this machine.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use switchboard_testkit::LoginServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use url::Url;

use super::*;
use crate::config::{Endpoint, Environment, HttpEndpoint, OAuthGrant, Scope, Source, resolve_url};
use crate::future::BoxFuture;
use crate::name::ServerName;
use crate::secret::Secret;

/// Goes wherever the page leads, as a browser would, but does not visit the end: it hands its
/// address over.
#[derive(Debug, Default)]
struct Follower {
    /// Visits the end as well.
    visits: bool,
}

impl Opener for Follower {
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

/// Nobody is there.
#[derive(Debug)]
struct Nobody;

impl Opener for Nobody {
    fn open<'a>(&'a self, _: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        Box::pin(async { PageOutcome::Refused("nobody is there".to_owned()) })
    }
}

struct Scene {
    server: LoginServer,
    context: AuthContext,
    auth: HttpAuth,
    now: Arc<AtomicU64>,
}

impl Scene {
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
        self.context.logins = Some(Arc::new(Follower::default()));
        self
    }

    async fn login(&self) -> Result<LoggedIn, String> {
        let entry = self.entry();
        login(
            &entry,
            &Environment::default(),
            &self.context,
            &Follower::default(),
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

    /// What became of a request that was answered with this status.
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

/// The whole login goes through the proxy that the environment names, and through none that the
/// process has; with one that is not there, nobody is asked.
#[tokio::test]
async fn a_login_takes_its_proxies_from_the_environment_that_the_host_was_handed() {
    let scene = Scene::new();
    let proxy = switchboard_testkit::FaultProxy::start(scene.server.authority.parse().unwrap())
        .await
        .unwrap();
    let through = |proxy: String| Environment::new([("http_proxy".to_owned(), proxy)]);
    let given = login(
        &scene.entry(),
        &through(proxy.url("")),
        &scene.context,
        &Follower::default(),
    )
    .await;
    assert!(given.is_ok(), "{given:?}");
    // The server takes one request a connection; the page is visited by somebody else.
    let ours = scene
        .server
        .seen()
        .iter()
        .filter(|request| !request.path.ends_with("/authorize"))
        .count();
    assert_eq!((ours > 3, proxy.traffic().connections), (true, ours as u64));

    let before = scene.server.seen().len();
    let away = login(
        &scene.entry(),
        &through("http://127.0.0.1:9".to_owned()),
        &scene.context,
        &Follower::default(),
    )
    .await;
    assert!(away.is_err(), "{away:?}");
    let odd = login(
        &scene.entry(),
        &through("http://".to_owned()),
        &scene.context,
        &Follower::default(),
    )
    .await;
    let said = "server \"guarded\": invalid proxy URL in the environment (HTTP_PROXY, HTTPS_PROXY or ALL_PROXY)";
    assert_eq!(odd.unwrap_err().to_string(), said);
    assert_eq!(scene.server.seen().len(), before, "nobody was asked");
}

#[tokio::test]
async fn t18_a_login_is_asked_for_with_pkce_state_and_resource_and_kept() {
    let scene = Scene::new();
    scene
        .server
        .set(|terms| terms.scope = Some("read".to_owned()));
    let given = scene.login().await.unwrap();
    let issuer = format!("http://{}/as1", scene.server.authority);
    assert_eq!(
        given,
        LoggedIn {
            server: scene.entry().name,
            issuer,
            scopes: vec!["read".to_owned()],
            lasts: true
        }
    );

    let asked = &scene.server.seen_at("/as1/authorize")[0].fields;
    assert_eq!(
        (
            asked["code_challenge_method"].as_str(),
            asked["scope"].as_str()
        ),
        ("S256", "read")
    );
    assert_eq!(
        (asked["resource"].as_str(), asked["client_id"].as_str()),
        (scene.server.url().as_str(), "as1-registered-1")
    );
    assert!(
        asked["redirect_uri"].starts_with("http://127.0.0.1:")
            && asked["redirect_uri"].ends_with("/callback")
    );
    assert!(asked["state"].len() >= 16 && asked["code_challenge"].len() == 43);
    let redeemed = &scene.server.seen_at("/as1/token")[0].fields;
    assert_eq!(redeemed["resource"], scene.server.url());
    assert!(redeemed["code_verifier"].len() >= 43);

    // A process that comes later finds it.
    assert_eq!(
        header(&*scene.credentials()).await.unwrap().expose(),
        "Bearer canary-access-as1-3"
    );
}

#[tokio::test]
async fn t18_the_answer_may_come_to_the_address_that_is_listened_on() {
    let scene = Scene::new();
    let entry = scene.entry();
    let given = login(
        &entry,
        &Environment::default(),
        &scene.context,
        &Follower { visits: true },
    )
    .await;
    assert!(given.is_ok(), "{given:?}");
}

#[tokio::test]
async fn t18_an_answer_of_another_issuer_is_never_redeemed() {
    let unproven = "server \"guarded\": login failed: the response does not name the authorization server that was asked as its issuer";
    let evil = "https://evil.example";
    // `/` stands for what it would be after normalising.
    for (name, iss, announced) in [
        ("missing", None, true),
        ("wrong", Some(evil), true),
        ("not announced", Some(evil), false),
        ("normalised", Some("/"), true),
    ] {
        let scene = Scene::new();
        let own = format!("http://{}/as1/", scene.server.authority);
        let iss = iss.map(|iss| if iss == "/" { own } else { iss.to_owned() });
        scene.server.set(|terms| {
            terms.iss = iss;
            terms.metadata = json!({ "authorization_response_iss_parameter_supported": announced });
        });
        assert_eq!(scene.login().await, Err(unproven.to_owned()), "{name}");
        assert_eq!(scene.token_requests(), 0, "{name}");
    }
    // Where it is neither announced nor sent, it is not missed.
    let scene = Scene::new();
    scene.server.set(|terms| {
        terms.iss = None;
        terms.metadata = json!({ "authorization_response_iss_parameter_supported": null });
    });
    assert!(scene.login().await.is_ok());
    // An error of somebody else's is not repeated.
    let scene = Scene::new();
    scene.server.set(|terms| {
        terms.denied = Some("see https://evil.example".to_owned());
        terms.iss = Some("https://evil.example".to_owned());
    });
    assert_eq!(scene.login().await, Err(unproven.to_owned()));
}

/// Shows the page to nobody: from then on the clock runs ahead whenever all wait.
#[derive(Debug, Default)]
struct Away(std::sync::Mutex<String>);

impl Opener for Away {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        *self.0.lock().unwrap() = page.redirect.clone();
        tokio::time::pause();
        Box::pin(async { PageOutcome::Shown })
    }
}

/// T18: the address that is listened on is of this machine alone, and nobody listens there after
/// ten minutes.
#[tokio::test]
async fn t18_a_login_that_nobody_gives_ends_after_ten_minutes_and_stops_listening() {
    let scene = Scene::new();
    let away = Away::default();
    let began = tokio::time::Instant::now();
    let fault = login(
        &scene.entry(),
        &Environment::default(),
        &scene.context,
        &away,
    )
    .await
    .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "server \"guarded\": nobody logged in within 10 minutes"
    );
    assert!(fault.is_denied());
    let waited = began.elapsed();
    assert!((600..605).contains(&waited.as_secs()), "{waited:?}");
    let redirect = Url::parse(&away.0.lock().unwrap()).unwrap();
    assert_eq!(redirect.host_str(), Some("127.0.0.1"));
    assert!(std::net::TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).is_err());
}

#[tokio::test]
async fn a_login_that_is_denied_says_so() {
    let scene = Scene::new();
    scene
        .server
        .set(|terms| terms.denied = Some("access_denied".to_owned()));
    let said = "server \"guarded\": login failed: the authorization server answered access_denied";
    assert_eq!(scene.login().await, Err(said.to_owned()));
    let fault = login(
        &scene.entry(),
        &Environment::default(),
        &scene.context,
        &Nobody,
    )
    .await
    .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "server \"guarded\": login failed: nobody is there"
    );
    assert!(fault.is_denied());
}

/// T17, T18: what metadata may not name is neither asked nor opened.
#[tokio::test]
async fn t17_t18_metadata_cannot_lead_elsewhere() {
    let check = async |metadata: serde_json::Value, resource: serde_json::Value, expected: &str| {
        let scene = Scene::new();
        scene.server.set(|terms| {
            terms.metadata = metadata.clone();
            terms.resource = resource.clone();
        });
        let said = scene.login().await.unwrap_err();
        assert!(said.contains(expected), "{metadata} {resource}: {said}");
        assert_eq!(scene.token_requests(), 0, "{metadata} {resource}");
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
        "redeeming the login failed",
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

/// T17: metadata that is answered with a redirect leads to none of these places either.
#[tokio::test]
async fn t17_a_redirect_cannot_lead_where_metadata_may_not() {
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
        let scene = Scene::new();
        scene.server.set(|terms| {
            terms.resource = json!({ "authorization_servers": [format!("http://{elsewhere}/as")] })
        });
        let began = std::time::Instant::now();
        let said = scene.login().await.unwrap_err();
        assert!(
            said.contains(&format!(
                "redirect to non-same-origin URL rejected: {}",
                Url::parse(target).unwrap()
            )),
            "{said}"
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
            (
                scene.server.seen_at("/as1/authorize"),
                scene.token_requests()
            ),
            (Vec::new(), 0),
            "{target}"
        );
        redirecting.abort();
    }
}

/// T17: a token is given back where its authorization server says, but not where metadata may not
/// lead, nor along a redirect.
#[tokio::test]
async fn t17_a_token_is_not_given_back_at_any_address() {
    for endpoint in [
        "https://169.254.169.254/revoke",
        "https://10.0.0.1/revoke",
        "http://as.example/revoke",
        "file:///etc/passwd",
    ] {
        let scene = Scene::new();
        scene.login().await.unwrap();
        scene
            .server
            .set(|terms| terms.metadata = json!({ "revocation_endpoint": endpoint }));
        let began = std::time::Instant::now();
        let given_back = logout(&scene.entry(), &Environment::default(), &scene.context)
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
            header(&*scene.credentials()).await,
            None,
            "{endpoint}: it is forgotten all the same"
        );
    }
}

/// F19: a hundred requests that are refused at the same time cost one renewal, and all go on with
/// the same token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_one_renewal_serves_all_who_wait() {
    let scene = Arc::new(Scene::new());
    scene.login().await.unwrap();
    let credentials = scene.credentials();
    let sent = header(&*credentials).await;
    scene.server.end_tokens();
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        let (scene, credentials, sent) = (scene.clone(), credentials.clone(), sent.clone());
        waiting.spawn(async move {
            scene
                .refused(&*credentials, 401, "", sent.as_ref())
                .await
                .unwrap();
            header(&*credentials).await.unwrap().expose().to_owned()
        });
    }
    let headers: BTreeSet<String> = waiting.join_all().await.into_iter().collect();
    assert_eq!(headers.len(), 1, "{headers:?}");
    assert_eq!(scene.token_requests(), 2, "the login, and one renewal");
    assert_eq!(
        scene.server.seen_at("/as1/token")[1].fields["grant_type"],
        "refresh_token"
    );
}

/// F19: also among processes, which share nothing but the vault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_processes_share_a_renewal_through_the_vault() {
    let folder = tempfile::tempdir().unwrap();
    let mut scene = Scene::new();
    let vault = || Arc::new(SystemVault::open(folder.path(), VaultChoice::File).unwrap());
    scene.context.vault = vault();
    scene.login().await.unwrap();
    let mut processes = Vec::new();
    for _ in 0..4 {
        // Each with a lock of its own on the same file, as processes have.
        scene.context.vault = vault();
        processes.push(scene.credentials());
    }
    let mut sent = Vec::new();
    for process in &processes {
        sent.push(header(&**process).await);
    }
    scene.server.end_tokens();
    let scene = Arc::new(scene);
    let mut waiting = JoinSet::new();
    for (process, sent) in processes.into_iter().zip(sent) {
        let scene = scene.clone();
        waiting.spawn(async move {
            scene
                .refused(&*process, 401, "", sent.as_ref())
                .await
                .unwrap();
            header(&*process).await.unwrap().expose().to_owned()
        });
    }
    let headers: BTreeSet<String> = waiting.join_all().await.into_iter().collect();
    assert_eq!(
        (headers.len(), scene.token_requests()),
        (1, 2),
        "{headers:?}"
    );
}

/// F19: a login that cannot be renewed is told once to all who wait, and nothing loops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_a_login_that_has_ended_is_asked_about_once() {
    let scene = Arc::new(Scene::new());
    scene.login().await.unwrap();
    let credentials = scene.credentials();
    let sent = header(&*credentials).await;
    scene.server.end_tokens();
    scene
        .server
        .set(|terms| terms.token_fault = Some((400, json!({ "error": "invalid_grant" }))));
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        let (scene, credentials, sent) = (scene.clone(), credentials.clone(), sent.clone());
        waiting.spawn(async move { scene.refused(&*credentials, 401, "", sent.as_ref()).await });
    }
    let answers: BTreeSet<_> = waiting.join_all().await.into_iter().collect();
    assert_eq!(
        answers,
        BTreeSet::from([Err("the login has ended".to_owned())])
    );
    assert_eq!(scene.token_requests(), 2);
    // What another process got by a login is taken up.
    scene.server.set(|terms| terms.token_fault = None);
    scene.login().await.unwrap();
    assert_eq!(
        scene.refused(&*credentials, 401, "", sent.as_ref()).await,
        Ok(())
    );
    assert_ne!(header(&*credentials).await, sent);
}

/// F32: the wall clock decides when a token ends, a minute ahead; nothing else moves it.
#[tokio::test]
async fn f32_a_token_is_renewed_a_minute_before_its_end() {
    let scene = Scene::new();
    scene.login().await.unwrap();
    let credentials = scene.credentials();
    let first = header(&*credentials).await.unwrap();
    scene.now.fetch_add(3_539, Ordering::SeqCst);
    assert_eq!(header(&*credentials).await.unwrap(), first);
    assert_eq!(scene.token_requests(), 1);
    scene.now.fetch_add(1, Ordering::SeqCst);
    let second = header(&*credentials).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(scene.token_requests(), 2);
    // Asleep for a year.
    scene.now.fetch_add(31_536_000, Ordering::SeqCst);
    assert_ne!(header(&*credentials).await.unwrap(), second);
    assert_eq!(scene.token_requests(), 3);
    // An authorization server that is away: the old token is used for a while, without asking at
    // each request.
    scene
        .server
        .set(|terms| terms.token_fault = Some((503, json!({}))));
    scene.now.fetch_add(3_600, Ordering::SeqCst);
    let third = header(&*credentials).await;
    assert_eq!(
        (header(&*credentials).await, scene.token_requests()),
        (third, 4)
    );
}

#[tokio::test]
async fn a_server_that_wants_a_login_says_why_where_nobody_can_be_asked() {
    let scene = Scene::new();
    let credentials = scene.credentials();
    assert_eq!(header(&*credentials).await, None);
    assert_eq!(
        scene.refused(&*credentials, 401, "", None).await,
        Err("nobody is logged in".to_owned())
    );
    assert_eq!(scene.server.seen(), []);
    // A login that is given meanwhile, by another process, is taken up.
    scene.login().await.unwrap();
    assert_eq!(scene.refused(&*credentials, 401, "", None).await, Ok(()));
    assert!(header(&*credentials).await.is_some());
}

#[tokio::test]
async fn a_bearer_token_or_a_header_of_the_entry_keeps_logins_off() {
    let mut scene = Scene::new().with_logins();
    scene.auth.bearer_token = Some(Secret::new("canary-own"));
    let credentials = scene.credentials();
    let sent = header(&*credentials).await;
    assert_eq!(sent.as_ref().unwrap().expose(), "Bearer canary-own");
    let said = scene.refused(&*credentials, 401, "", sent.as_ref()).await;
    assert_eq!(
        said,
        Err("the server refused the token (HTTP 401)".to_owned())
    );
    assert!(
        scene
            .login()
            .await
            .unwrap_err()
            .contains("there is nothing to log in to")
    );
    assert_eq!(scene.server.seen(), []);
    assert!(!format!("{credentials:?}").contains("canary"));
}

/// SEP-2352: what one authorization server gave is never shown to another.
#[tokio::test]
async fn an_authorization_server_that_changes_is_registered_with_anew() {
    let scene = Scene::new().with_logins();
    let credentials = scene.credentials();
    scene.refused(&*credentials, 401, "", None).await.unwrap();
    let sent = header(&*credentials).await;
    scene.server.end_tokens();
    let issuer = format!("http://{}/as2", scene.server.authority);
    scene.server.set(|terms| {
        terms.issuer = "as2".to_owned();
        terms.iss = Some(issuer);
    });
    scene
        .refused(&*credentials, 401, "", sent.as_ref())
        .await
        .unwrap();
    assert!(
        header(&*credentials)
            .await
            .unwrap()
            .expose()
            .starts_with("Bearer canary-access-as2-")
    );
    assert_eq!(scene.server.seen_at("/as2/register").len(), 1);
    let shown = scene
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
async fn an_id_that_was_given_by_hand_does_not_follow_to_another_authorization_server() {
    let mut scene = Scene::new();
    scene.auth.client_id = Some("by-hand".to_owned());
    scene.login().await.unwrap();
    let issuer = format!("http://{}/as2", scene.server.authority);
    scene.server.set(|terms| {
        terms.issuer = "as2".to_owned();
        terms.iss = Some(issuer);
    });
    assert!(
        scene
            .login()
            .await
            .unwrap_err()
            .contains("belongs to the old one")
    );
    assert_eq!(scene.server.seen_at("/as2/authorize"), []);
    logout(&scene.entry(), &Environment::default(), &scene.context)
        .await
        .unwrap();
    assert!(scene.login().await.is_ok());
}

/// The specification's order: an id from the entry, a document, a registration; and a registration
/// of before is used again.
#[tokio::test]
async fn who_we_are_is_decided_in_the_specifications_order() {
    let asked_as = |scene: &Scene| {
        scene
            .server
            .seen_at("/as1/authorize")
            .last()
            .unwrap()
            .fields["client_id"]
            .clone()
    };
    let documents = json!({ "client_id_metadata_document_supported": true });
    let mut scene = Scene::new();
    scene.auth.client_metadata_url = Some("https://us.example/client.json".to_owned());
    scene.login().await.unwrap();
    assert_eq!(asked_as(&scene), "as1-registered-1");
    scene.login().await.unwrap();
    assert_eq!(
        (
            asked_as(&scene).as_str(),
            scene.server.seen_at("/as1/register").len()
        ),
        ("as1-registered-1", 1)
    );
    scene.server.set(|terms| terms.metadata = documents);
    scene.login().await.unwrap();
    assert_eq!(asked_as(&scene), "https://us.example/client.json");
    scene.auth.client_id = Some("by-hand".to_owned());
    scene.auth.client_secret = Some(Secret::new("canary-client"));
    scene.login().await.unwrap();
    assert_eq!(asked_as(&scene), "by-hand");
    let redeemed = scene.server.seen_at("/as1/token").pop().unwrap();
    assert!(redeemed.authorization.unwrap().starts_with("Basic "));
    assert_eq!(scene.server.seen_at("/as1/register").len(), 1);
}

/// SEP-2350: a step up asks for what was asked before as well; F19: once.
#[tokio::test]
async fn f19_a_step_up_asks_for_more_once_and_never_for_the_same_again() {
    let scene = Scene::new().with_logins();
    let credentials = scene.credentials();
    scene
        .refused(&*credentials, 401, ", scope=\"read\"", None)
        .await
        .unwrap();
    let sent = header(&*credentials).await;
    let wants = ", error=\"insufficient_scope\", scope=\"write\"";
    scene
        .refused(&*credentials, 403, wants, sent.as_ref())
        .await
        .unwrap();
    let asked: Vec<_> = scene
        .server
        .seen_at("/as1/authorize")
        .iter()
        .map(|page| page.fields["scope"].clone())
        .collect();
    assert_eq!(asked, ["read", "read write"]);
    let sent = header(&*credentials).await;
    let said = scene
        .refused(&*credentials, 403, wants, sent.as_ref())
        .await;
    assert_eq!(
        said,
        Err(
            "the server requires scope \"write\", which this login has already requested"
                .to_owned()
        )
    );
    assert_eq!(scene.server.seen_at("/as1/authorize").len(), 2);
}

#[tokio::test]
async fn f19_a_server_that_is_never_content_causes_three_logins_and_no_more() {
    let scene = Scene::new().with_logins();
    let credentials = scene.credentials();
    for number in 1..=5 {
        let sent = header(&*credentials).await;
        let wants = format!(", error=\"insufficient_scope\", scope=\"scope-{number}\"");
        let said = scene
            .refused(&*credentials, 403, &wants, sent.as_ref())
            .await;
        assert_eq!(said.is_ok(), number <= 3, "{number}: {said:?}");
    }
    assert_eq!(scene.server.seen_at("/as1/authorize").len(), 3);
}

#[tokio::test]
async fn a_step_up_that_nobody_can_give_is_remembered_for_the_next_login() {
    let scene = Scene::new();
    scene
        .server
        .set(|terms| terms.scope = Some("read".to_owned()));
    scene.login().await.unwrap();
    let credentials = scene.credentials();
    let sent = header(&*credentials).await;
    let said = scene
        .refused(
            &*credentials,
            403,
            ", error=\"insufficient_scope\", scope=\"write\"",
            sent.as_ref(),
        )
        .await;
    assert_eq!(
        said,
        Err("the server requires more scopes than this login has: \"write\"".to_owned())
    );
    assert_eq!(scene.login().await.unwrap().scopes, ["read", "write"]);
}

#[tokio::test]
async fn a_program_logs_in_by_itself_with_a_secret_or_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    std::fs::write(&key, KEY).unwrap();
    let by = async |secret: Option<&str>, key: Option<String>, methods: &str| {
        let mut scene = Scene::new();
        scene.auth = HttpAuth {
            grant: OAuthGrant::ClientCredentials,
            client_id: Some("robot".to_owned()),
            client_secret: secret.map(Secret::new),
            client_key: key,
            scopes: vec!["read".to_owned()],
            ..HttpAuth::default()
        };
        let metadata = json!({ "token_endpoint_auth_methods_supported": [methods], "grant_types_supported": ["client_credentials"],
            "code_challenge_methods_supported": null });
        scene.server.set(|terms| terms.metadata = metadata);
        let credentials = scene.credentials();
        scene.refused(&*credentials, 401, "", None).await.unwrap();
        assert!(header(&*credentials).await.is_some());
        // Ended: there is nothing to renew, so it logs in again, without anybody.
        scene.now.fetch_add(3_600, Ordering::SeqCst);
        let before = header(&*credentials).await;
        scene
            .refused(&*credentials, 401, "", before.as_ref())
            .await
            .unwrap();
        scene.server.seen_at("/as1/token").remove(0)
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

#[tokio::test]
async fn a_logout_gives_the_token_back_and_forgets_it() {
    let scene = Scene::new();
    scene.login().await.unwrap();
    let out = async || {
        logout(&scene.entry(), &Environment::default(), &scene.context)
            .await
            .unwrap()
    };
    let server = scene.entry().name;
    assert_eq!(
        out().await,
        LoggedOut {
            server: server.clone(),
            was_logged_in: true,
            revoked: true
        }
    );
    let revoked = &scene.server.seen_at("/as1/revoke")[0].fields;
    assert_eq!(
        (
            revoked["token_type_hint"].as_str(),
            revoked["token"].as_str()
        ),
        ("refresh_token", "canary-refresh-as1-3")
    );
    assert_eq!(header(&*scene.credentials()).await, None);
    assert_eq!(
        out().await,
        LoggedOut {
            server,
            was_logged_in: false,
            revoked: false
        }
    );
}

/// T25: what is kept is known to whatever shows text, and nothing of ours prints it.
#[tokio::test]
async fn t25_tokens_are_kept_out_of_what_is_shown() {
    let scene = Scene::new();
    scene.login().await.unwrap();
    let credentials = scene.credentials();
    let redactor = crate::secret::Redactor::default().and_live(credentials.secrets());
    let sent = header(&*credentials).await;
    scene.server.end_tokens();
    scene
        .refused(&*credentials, 401, "", sent.as_ref())
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
    assert!(!format!("{credentials:?} {:?} {:?}", scene.context, now).contains("canary"));
}

/// Made for these tests, and used for nothing else.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQguY1axaU8hrbvC17B\n\
wKrQPVMLny0n6PV3LDAaDYQQpwChRANCAARlxrXZPBYKilviTtHNj6ozrqdm2iP8\n\
8J/LYy2nWJ1f2Qw3f3i4jVSCLMhoT8zFZo0dS3hJIRgN7V3pawCNgg/h\n\
-----END PRIVATE KEY-----\n";
