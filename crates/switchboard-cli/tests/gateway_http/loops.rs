//! Gateways that lead to each other.

use serde_json::json;

use super::client::{Gateway, request};
use super::operator::{Operator, until};

/// The entry of one gateway in the other's file.
fn entry(name: &str, to: &Gateway) -> String {
    format!(
        "[servers.{name}]\nurl = \"http://{}/mcp\"\nbearer_token = \"{}\"\n",
        to.address, to.token
    )
}

fn tools(gateway: &Gateway, session: &str) -> String {
    let list = request(5, "tools/list", json!({}));
    let headers = [("Mcp-Session-Id", session)];
    gateway.send("POST", "/mcp", &headers, &list).body
}

/// The connection that closes the circle is closed with a sentence, on the page too; nothing else is
/// affected: the other way round the servers are still offered.
#[test]
fn a_circle_of_two_gateways_is_recognised_and_refused() {
    let first = Gateway::start();
    let allow = "[permissions]\nallow = [\"*\"]\n";
    let second = Gateway::start_with(&format!("{allow}{}", entry("first", &first)), &[]);
    let session = second.initialize("/mcp");
    until(|| {
        tools(&second, &session)
            .contains("mcp__first__mcp__demo__echo")
            .then_some(())
    });

    // The first gateway's file leads to the second one from now on.
    first
        .home
        .user_file(&format!("{}{}", first.config, entry("second", &second)));
    let reloaded = first.home.run(&["reload"]);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    let operator = Operator::log_in(&first);
    let page = until(|| {
        let page = operator.page(&first, "/");
        page.contains("connects back to this gateway")
            .then_some(page)
    });
    assert!(page.contains("remove its entry here"), "{page}");
    let own = first.initialize("/mcp");
    until(|| {
        let listed = tools(&first, &own);
        (listed.contains("mcp__demo__echo") && !listed.contains("mcp__second__")).then_some(())
    });
    until(|| {
        let listed = tools(&second, &session);
        (listed.contains("mcp__first__mcp__demo__echo")
            && !listed.contains("mcp__first__mcp__second__"))
        .then_some(())
    });
}
