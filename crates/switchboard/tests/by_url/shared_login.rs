//! Tests of one login for all connections to a server, with a real authorization server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use switchboard::auth::{LoginPage, Opener, PageOutcome};
use switchboard::call::{Call, CallError};
use switchboard::caller::{BoxFuture, Headless};
use switchboard::config::{Config, Mode, Sharing};
use switchboard::result::CallResult;
use switchboard::{Host, HostBuilder};
use switchboard_testkit::LoginServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{TIMEOUT, entry, found};

/// Logs in on each page until it refuses.
#[derive(Debug, Default)]
struct Browser {
    pages: AtomicUsize,
    refuses: AtomicBool,
}

impl Opener for Browser {
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome> {
        self.pages.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.refuses.load(Ordering::SeqCst) {
                true => PageOutcome::Refused("nobody is there".to_owned()),
                false => PageOutcome::Returned(redirect_of(&page.url).await),
            }
        })
    }
}

/// Where the login page redirects to.
async fn redirect_of(page: &url::Url) -> String {
    let authority = (page.host_str().unwrap(), page.port().unwrap());
    let mut stream = TcpStream::connect(authority).await.unwrap();
    let target = format!("{}?{}", page.path(), page.query().unwrap());
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let location = response
        .lines()
        .find_map(|line| line.strip_prefix("Location: "));
    location.unwrap().to_owned()
}

/// A host that has logged in to the server.
async fn logged_in(server: &LoginServer, sharing: Sharing) -> (Host, Arc<Browser>) {
    let browser = Arc::new(Browser::default());
    let mut entry = entry(&server.url());
    entry.session = sharing;
    let mut config: Config = [entry].into_iter().collect();
    config.permissions.mode = Mode::Yolo;
    let builder = HostBuilder::new(config).logins(browser.clone());
    let host = builder.start().await.unwrap();
    assert!(
        host.wait_until_settled(TIMEOUT).await,
        "the server does not settle"
    );
    found(&host);
    (host, browser)
}

async fn call(host: &Host, caller: &str) -> Result<CallResult, CallError> {
    let call = Call::new("peer/whoami", serde_json::json!({}));
    host.call_with(call.caller(Arc::new(Headless::new(caller))))
        .await
}

#[tokio::test]
async fn f19_the_connections_of_all_callers_show_at_most_three_login_pages() {
    let server = LoginServer::start();
    server.set(|terms| terms.renews = false);
    let (host, browser) = logged_in(&server, Sharing::PerCaller).await;
    call(&host, "caller-0").await.unwrap();
    assert_eq!(browser.pages.load(Ordering::SeqCst), 1);

    server.end_tokens();
    browser.refuses.store(true, Ordering::SeqCst);
    for number in 1..=5 {
        let refused = call(&host, &format!("caller-{number}")).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    assert_eq!(browser.pages.load(Ordering::SeqCst), 3);
    host.stop().await;
}

#[tokio::test]
async fn a_token_is_not_used_after_a_logout() {
    let server = LoginServer::start();
    let (host, browser) = logged_in(&server, Sharing::Shared).await;
    call(&host, "caller").await.unwrap();
    browser.refuses.store(true, Ordering::SeqCst);
    let name = host.servers()[0].config.name.clone();
    host.logout(&name).await.unwrap();

    let (sent, refused) = (server.seen_at("/mcp").len(), call(&host, "caller").await);
    assert!(refused.is_err(), "{refused:?}");
    let since = &server.seen_at("/mcp")[sent..];
    assert!(!since.is_empty());
    assert!(
        since.iter().all(|request| request.authorization.is_none()),
        "{since:?}"
    );
    host.stop().await;
}
