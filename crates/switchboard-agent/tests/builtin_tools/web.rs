//! WebFetch: what it reads, and the addresses it refuses.

use std::time::Duration;

use serde_json::json;
use switchboard::ToolEffect;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::Fixture;

/// A server that answers each path with the scripted response.
async fn serve(answers: Vec<(&'static str, String)>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    let read = stream.read(&mut buffer).await.unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    request.extend_from_slice(&buffer[..read]);
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let path = request.split(' ').nth(1).unwrap_or_default();
                let answer = answers.iter().find(|(known, _)| *known == path);
                let answer = answer
                    .map_or("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", |found| {
                        &found.1
                    });
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

fn page(kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn redirect(to: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

async fn local_fixture() -> Fixture {
    Fixture::with(|tools| tools.local_web_pages(), |host| host).await
}

#[tokio::test]
async fn a_page_is_fetched_as_text_and_redirects_stay_on_its_origin() {
    let port = serve(vec![
        (
            "/page",
            page("text/html", "<h1>Hello</h1><script>no()</script><p>world"),
        ),
        (
            "/text",
            page("text/plain; charset=utf-8", "<b>as it is</b>"),
        ),
        ("/image", page("image/png", "x")),
        ("/moved", redirect("/page")),
        ("/away", redirect("https://example.com/x")),
        ("/metadata", redirect("http://169.254.169.254/latest/")),
        ("/loop", redirect("/loop")),
        ("/file", redirect("file:///etc/passwd")),
    ])
    .await;
    let fixture = local_fixture().await;
    let check = async |path: &str, expected: &str| {
        let url = format!("http://127.0.0.1:{port}{path}");
        let fetched = fixture.call("WebFetch", json!({"url": url})).await;
        let fetched = fetched.unwrap_or_else(|error| error);
        assert!(fetched.contains(expected), "{path}: {fetched}");
    };
    check("/page", "/page]\n# Hello\n\nworld").await;
    check("/text", "<b>as it is</b>").await;
    check("/moved", "# Hello").await;
    check("/image", "it is not text but image/png").await;
    check(
        "/away",
        "it redirects to another place: https://example.com/x",
    )
    .await;
    check(
        "/metadata",
        "it redirects to another place: http://169.254.169.254/latest/",
    )
    .await;
    check("/loop", "it redirects too often").await;
    check("/file", "only http:// and https:// are fetched").await;
    check("/none", "it answered with status 404").await;
    let asked = fixture.caller.asked.lock().unwrap();
    assert!(
        asked
            .iter()
            .all(|asked| asked.0 == Some(ToolEffect::Network))
    );
}

/// T26: a page that never ends is cut.
#[tokio::test]
async fn t26_a_page_is_read_up_to_its_limit() {
    let body = "a line of text\n".repeat(400_000);
    let port = serve(vec![("/long", page("text/plain", &body))]).await;
    let fixture = local_fixture().await;
    let url = format!("http://127.0.0.1:{port}/long");
    let fetched = fixture.call("WebFetch", json!({"url": url})).await.unwrap();
    assert!(fetched.len() < 40_000, "{}", fetched.len());
    assert!(
        fetched.ends_with("[cut: the page has more than 5242880 bytes]"),
        "{fetched}"
    );
    assert!(fetched.contains("the whole is in "), "{fetched}");
}

/// Addresses of this machine and of private networks are not connected to, however they are spelled.
#[tokio::test]
async fn t17_private_addresses_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let fixture = Fixture::new().await;
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "[fd00::1]",
        "[fe80::1]",
    ] {
        let url = format!("http://{host}:{port}/");
        let error = fixture
            .call("WebFetch", json!({"url": url}))
            .await
            .unwrap_err();
        assert!(
            error.contains("of this machine or of a private network"),
            "{host}: {error}"
        );
    }
    for (url, fact) in [
        (
            "file:///etc/passwd",
            "only http:// and https:// are fetched",
        ),
        (
            "http://user:secret@example.com/",
            "it has a user name or a password",
        ),
        ("example.com", "relative URL without a base"),
    ] {
        let error = fixture
            .call("WebFetch", json!({"url": url}))
            .await
            .unwrap_err();
        assert!(error.contains(fact), "{url}: {error}");
    }
    let nobody = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(nobody.is_err(), "nobody connected");
}
