//! `ListMcpResources` and `ReadMcpResource`: a model's way to the servers' resources, through the
//! gate like any other tool.

use serde_json::{Value, json};
use switchboard::caller::Approval;
use switchboard::config::Dialect;
use switchboard_testkit::{Chaos, Step};

use crate::support::{Stage, person_who_says};

/// A server that offers these addresses, and whose every resource says this.
fn offering(uris: &[&str], text: &str) -> Chaos {
    let listed: Vec<_> = uris
        .iter()
        .map(|uri| json!({"uri": uri, "name": format!("of {uri}")}))
        .collect();
    let read = json!({"contents": [{"uri": uris[0], "mimeType": "text/plain", "text": text}]});
    Chaos::new()
        .tool("t", Step::text("ok"))
        .on(
            "resources/list",
            [Step::result(&json!({"resources": listed}).to_string())],
        )
        .on("resources/read", [Step::result(&read.to_string())])
}

fn two() -> [(Dialect, &'static str, Chaos); 2] {
    [
        (
            Dialect::AgentCode,
            "one",
            offering(&["mem://shared", "mem://one"], "one's"),
        ),
        (
            Dialect::AgentCode,
            "two",
            offering(&["mem://shared"], "two's"),
        ),
    ]
}

/// S4-01: resources beside tools. S4-12: across all servers.
#[tokio::test]
async fn s4_01_s4_12_the_resources_of_all_connected_servers_are_listed_beside_their_tools() {
    let stage = Stage::settled("", &two(), |builder| builder).await;
    assert_eq!(
        stage.names(),
        [
            "ListMcpResources",
            "ReadMcpResource",
            "mcp__one__t",
            "mcp__two__t"
        ]
    );
    let listed: Value =
        serde_json::from_str(&stage.told("ListMcpResources", json!({})).await).unwrap();
    assert_eq!(
        listed,
        json!({"resources": [
            {"server": "one", "uri": "mem://shared", "name": "of mem://shared"},
            {"server": "one", "uri": "mem://one", "name": "of mem://one"},
            {"server": "two", "uri": "mem://shared", "name": "of mem://shared"},
        ]})
    );
    let of_two: Value = serde_json::from_str(
        &stage
            .told("ListMcpResources", json!({"server": "two"}))
            .await,
    )
    .unwrap();
    assert_eq!(of_two["resources"].as_array().unwrap().len(), 1);
    assert_eq!(
        stage
            .told("ListMcpResources", json!({"server": "three"}))
            .await,
        "error: no server \"three\" is configured"
    );
    stage.host.stop().await;
}

/// S4-13: one resource, by its URI.
#[tokio::test]
async fn s4_13_one_resource_is_read_by_its_uri_after_the_gate_was_asked() {
    let stage = Stage::settled("", &two(), |builder| builder).await;
    let person = person_who_says(Approval::Once);
    let result = stage
        .call("ReadMcpResource", json!({"uri": "mem://one"}), &person)
        .await
        .unwrap();
    assert_eq!(
        result.untrusted_text().unwrap().raw(),
        "[resource mem://shared]\none's"
    );
    assert_eq!(person.exposed(), ["ReadMcpResource"]);
    assert_eq!(
        (
            stage.record("one").count("resources/read"),
            stage.record("two").count("resources/read")
        ),
        (1, 0)
    );
    let refusing = person_who_says(Approval::No { reason: None });
    let no = stage
        .call("ReadMcpResource", json!({"uri": "mem://one"}), &refusing)
        .await
        .unwrap_err();
    assert_eq!(
        no.to_string(),
        "tool ReadMcpResource: denied: the answer was no"
    );
    assert_eq!(stage.record("one").count("resources/read"), 1);
    assert_eq!(
        stage
            .told("ReadMcpResource", json!({"uri": "mem://none"}))
            .await,
        "error: no server lists the resource \"mem://none\"; ListMcpResources lists what there is"
    );
    stage.host.stop().await;
}

/// S4-26: two servers offer the address.
#[tokio::test]
async fn s4_26_a_uri_that_two_servers_offer_wants_a_server_and_the_error_names_both() {
    let stage = Stage::settled("", &two(), |builder| builder).await;
    assert_eq!(
        stage
            .told("ReadMcpResource", json!({"uri": "mem://shared"}))
            .await,
        "error: servers \"one\" and \"two\" offer \"mem://shared\"; say which with the argument \"server\""
    );
    let read = stage
        .told(
            "ReadMcpResource",
            json!({"uri": "mem://shared", "server": "two"}),
        )
        .await;
    assert_eq!(read, "[resource mem://shared]\ntwo's");
    assert_eq!(
        (
            stage.record("one").count("resources/read"),
            stage.record("two").count("resources/read")
        ),
        (0, 1)
    );
    stage.host.stop().await;
}

#[tokio::test]
async fn a_rule_that_keeps_a_model_from_a_server_keeps_it_from_its_resources() {
    let rules = "[permissions]\nallow = [\"ReadMcpResource\"]\ndeny = [\"one\"]\n";
    let stage = Stage::settled(rules, &two(), |builder| builder).await;
    let denied = stage
        .told("ReadMcpResource", json!({"uri": "mem://one"}))
        .await;
    assert!(
        denied.starts_with("error: server \"one\": denied: deny rule \"one\""),
        "{denied}"
    );
    assert_eq!(stage.record("one").count("resources/read"), 0);
    let read = stage
        .told(
            "ReadMcpResource",
            json!({"uri": "mem://shared", "server": "two"}),
        )
        .await;
    assert_eq!(read, "[resource mem://shared]\ntwo's");
    stage.host.stop().await;
}

#[tokio::test]
async fn the_resource_tools_are_offered_to_other_dialects_where_the_library_user_wants_them() {
    let servers = || [(Dialect::Gemini, "g", offering(&["mem://g"], "g's"))];
    let without = Stage::settled("", &servers(), |builder| builder).await;
    assert_eq!(without.names(), ["t"]);
    without.host.stop().await;
    let with = Stage::settled("", &servers(), |builder| builder.resource_tools()).await;
    assert_eq!(with.names(), ["ListMcpResources", "ReadMcpResource", "t"]);
    assert_eq!(
        with.told("ReadMcpResource", json!({"uri": "mem://g"}))
            .await,
        "[resource mem://g]\ng's"
    );
    with.host.stop().await;
}
