//! Web pages of allowed origins.

use serde_json::json;
use switchboard_gateway::edge::http::HttpLimits;

use super::client::{TestEdge, TestResponse, request};

const PAGE: &str = "https://page.example";

/// A browser lets a page read a response only if its headers name the page's origin.
fn assert_readable(response: &TestResponse, expected: bool) {
    let header = |name: &str| response.headers.get(name).map(String::as_str);
    let named = (
        header("access-control-allow-origin"),
        header("access-control-expose-headers"),
        header("vary"),
    );
    match expected {
        true => assert_eq!(named, (Some(PAGE), Some("Mcp-Session-Id"), Some("Origin"))),
        false => assert_eq!(named, (None, None, None), "{response:?}"),
    }
}

/// A browser asks beforehand, without a token, whether the page may send the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_a_browser_is_told_that_a_page_of_an_allowed_origin_may_send_requests() {
    let edge = TestEdge::start_with_origins("", HttpLimits::default(), &[PAGE]).await;
    let preflight = |path: &str, origin: &str| {
        format!(
            "OPTIONS {path} HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\nConnection: close\r\n\
             Access-Control-Request-Method: POST\r\n\
             Access-Control-Request-Headers: authorization, mcp-protocol-version, x-own\r\n\r\n",
            edge.edge.address()
        )
    };
    for path in ["/mcp", "/mcp/s", "/sse"] {
        let answers = edge.send(&preflight(path, PAGE)).await;
        let headers = &answers[0].headers;
        assert_eq!((answers[0].status, answers[0].body.as_str()), (204, ""));
        assert_readable(&answers[0], true);
        assert_eq!(headers["access-control-allow-methods"], "GET, POST, DELETE");
        assert_eq!(
            headers["access-control-allow-headers"],
            "authorization, mcp-protocol-version, x-own"
        );
    }
    let foreign = edge.send(&preflight("/mcp", "https://evil.example")).await;
    assert_eq!(foreign[0].status, 403);
    assert_readable(&foreign[0], false);
    // Not a preflight, and no page's path.
    let address = edge.edge.address();
    let options = format!("OPTIONS /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    assert_eq!(edge.send(&options).await[0].status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_an_allowed_origin_can_read_each_response() {
    let edge = TestEdge::start_with_origins("", HttpLimits::default(), &[PAGE]).await;
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "page", "version": "1"},
    });
    let initialize = request(0, "initialize", params);
    let address = edge.edge.address();
    let page = format!("Origin: {PAGE}\r\nConnection: close\r\n");
    let own = format!("Origin: http://{address}\r\nConnection: close\r\n");
    for (lines, expected) in [
        (&page, true),
        (&own, false),
        (&"Connection: close\r\n".to_owned(), false),
    ] {
        // A plain request, and one that is hyper's.
        for chunked in [false, true] {
            let post = match chunked {
                false => edge.post("/mcp", lines, &initialize),
                true => format!(
                    "{}{lines}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{initialize}\r\n0\r\n\r\n",
                    edge.post_lines("/mcp"),
                    initialize.len()
                ),
            };
            let response = &edge.send(&post).await[0];
            assert_eq!(response.status, 200, "{response:?}");
            assert_readable(response, expected);
        }
    }
    // Refusals can be read, too.
    let unknown = edge.get("/mcp", "wrong", &page);
    let refused = &edge.send(&unknown).await[0];
    assert_eq!(refused.status, 401);
    assert_readable(refused, true);
}
