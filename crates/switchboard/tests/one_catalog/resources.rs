//! Tests of `ListMcpResources` and `ReadMcpResource`, which give a model the servers' resources
//! through the gate.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard::call::Call;
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation,
};
use switchboard::config::Dialect;
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Step};

use crate::support::{TestHost, caller_that_answers};

/// A server that offers these URIs, each with this text.
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

/// S4-01: resources along with tools. S4-12: across all servers.
#[tokio::test]
async fn s4_01_s4_12_the_resources_of_all_connected_servers_are_listed() {
    let test = TestHost::settled("", &two(), |builder| builder).await;
    assert_eq!(
        test.names(),
        [
            "ListMcpResources",
            "ReadMcpResource",
            "mcp__one__t",
            "mcp__two__t"
        ]
    );
    let listed: Value =
        serde_json::from_str(&test.text_for_model("ListMcpResources", json!({})).await).unwrap();
    assert_eq!(
        listed,
        json!({"resources": [
            {"server": "one", "uri": "mem://shared", "name": "of mem://shared"},
            {"server": "one", "uri": "mem://one", "name": "of mem://one"},
            {"server": "two", "uri": "mem://shared", "name": "of mem://shared"},
        ]})
    );
    let of_two: Value = serde_json::from_str(
        &test
            .text_for_model("ListMcpResources", json!({"server": "two"}))
            .await,
    )
    .unwrap();
    assert_eq!(of_two["resources"].as_array().unwrap().len(), 1);
    assert_eq!(
        test.text_for_model("ListMcpResources", json!({"server": "three"}))
            .await,
        "error: no server \"three\" is configured"
    );
    test.host.stop().await;
}

/// S4-13: one resource, by its URI.
#[tokio::test]
async fn s4_13_a_resource_is_read_by_its_uri_after_approval() {
    let test = TestHost::settled("", &two(), |builder| builder).await;
    let person = caller_that_answers(Approval::Once);
    let result = test
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
            test.record("one").count("resources/read"),
            test.record("two").count("resources/read")
        ),
        (1, 0)
    );
    let params = &test.record("one").with_method("resources/read")[0].params;
    let params: Value = serde_json::from_str(params.as_ref().unwrap().get()).unwrap();
    assert_eq!(params["uri"], "mem://one");
    let refusing = caller_that_answers(Approval::No { reason: None });
    let no = test
        .call("ReadMcpResource", json!({"uri": "mem://one"}), &refusing)
        .await
        .unwrap_err();
    assert_eq!(
        no.to_string(),
        "tool ReadMcpResource: denied: the caller declined"
    );
    assert_eq!(test.record("one").count("resources/read"), 1);
    assert_eq!(
        test.text_for_model("ReadMcpResource", json!({"uri": "mem://none"}))
            .await,
        "error: no server lists the resource \"mem://none\"; ListMcpResources lists what there is"
    );
    test.host.stop().await;
}

/// A client that answers a server's `input_required` with another request, as modern ones do.
struct ModernClient(Arc<TestCaller>);

impl Caller for ModernClient {
    fn id(&self) -> &CallerId {
        self.0.id()
    }

    fn capabilities(&self) -> CallerCapabilities {
        Caller::capabilities(&*self.0)
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        self.0.approve(request)
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        self.0.elicit(question)
    }

    fn handles_input_required(&self) -> bool {
        true
    }
}

/// S4-13: the client called the host tool, so it never gets the server's `input_required`.
#[tokio::test]
async fn s4_13_a_question_about_a_resource_is_asked_of_the_caller() {
    let form = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}"#;
    let requests = format!(r#"{{"q":{{"method":"elicitation/create","params":{form}}}}}"#);
    let read = json!({"contents": [{"uri": "mem://one", "text": "yours"}]});
    let server = offering(&["mem://one"], "").era(Era::Modern).on(
        "resources/read",
        [
            Step::input_required(Some(&requests), Some("state 1")),
            Step::result(&read.to_string()),
        ],
    );
    let servers = [(Dialect::AgentCode, "one", server)];
    let test = TestHost::settled("", &servers, |builder| builder).await;
    let person = TestCaller::new("ada").capabilities(CallerCapabilities {
        elicit_form: true,
        ..CallerCapabilities::default()
    });
    let person = person.arc();
    let call = Call::new("ReadMcpResource", json!({"uri": "mem://one"}));
    let client: Arc<dyn Caller> = Arc::new(ModernClient(person.clone()));
    let result = test.host.call_with(call.caller(client)).await.unwrap();
    assert_eq!(
        result.untrusted_text().unwrap().raw(),
        "[resource mem://one]\nyours"
    );
    assert_eq!(person.seen().questions, ["who?"]);
    test.host.stop().await;
}

/// S4-26: two servers offer the URI.
#[tokio::test]
async fn s4_26_a_uri_of_two_servers_needs_a_server_and_the_error_names_both() {
    let test = TestHost::settled("", &two(), |builder| builder).await;
    assert_eq!(
        test.text_for_model("ReadMcpResource", json!({"uri": "mem://shared"}))
            .await,
        "error: servers \"one\" and \"two\" offer \"mem://shared\"; say which with the argument \"server\""
    );
    let read = test
        .text_for_model(
            "ReadMcpResource",
            json!({"uri": "mem://shared", "server": "two"}),
        )
        .await;
    assert_eq!(read, "[resource mem://shared]\ntwo's");
    assert_eq!(
        (
            test.record("one").count("resources/read"),
            test.record("two").count("resources/read")
        ),
        (0, 1)
    );
    test.host.stop().await;
}

#[tokio::test]
async fn a_rule_that_denies_a_server_also_denies_its_resources() {
    let rules = "[permissions]\nallow = [\"ReadMcpResource\"]\ndeny = [\"one\"]\n";
    let test = TestHost::settled(rules, &two(), |builder| builder).await;
    let denied = test
        .text_for_model("ReadMcpResource", json!({"uri": "mem://one"}))
        .await;
    assert!(
        denied.starts_with("error: server \"one\": denied: deny rule \"one\""),
        "{denied}"
    );
    assert_eq!(test.record("one").count("resources/read"), 0);
    let read = test
        .text_for_model(
            "ReadMcpResource",
            json!({"uri": "mem://shared", "server": "two"}),
        )
        .await;
    assert_eq!(read, "[resource mem://shared]\ntwo's");
    test.host.stop().await;
}

#[tokio::test]
async fn the_resource_tools_are_offered_to_other_dialects_on_request() {
    let servers = || [(Dialect::Gemini, "g", offering(&["mem://g"], "g's"))];
    let without = TestHost::settled("", &servers(), |builder| builder).await;
    assert_eq!(without.names(), ["t"]);
    without.host.stop().await;
    let with = TestHost::settled("", &servers(), |builder| builder.resource_tools()).await;
    assert_eq!(with.names(), ["ListMcpResources", "ReadMcpResource", "t"]);
    assert_eq!(
        with.text_for_model("ReadMcpResource", json!({"uri": "mem://g"}))
            .await,
        "[resource mem://g]\ng's"
    );
    with.host.stop().await;
}
