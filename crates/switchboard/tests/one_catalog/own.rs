//! Tests of host tools and tools of servers: side by side, under one permission system.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use switchboard::HostBuilder;
use switchboard::call::{Call, CallError};
use switchboard::caller::{
    Approval, ApprovalLifetime, ApprovalRequest, BoxFuture, Caller, CallerId, ForwardedParams,
};
use switchboard::config::{self, Config, ConfigFile, Dialect, Scope};
use switchboard::host_tools::{HostTool, HostToolDefinition, HostToolFuture};
use switchboard::result::CallResult;
use switchboard::server::State;
use switchboard::session::RequestFault;
use switchboard::wire::RawJson;
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{EchoTool, TIMEOUT, TestHost, caller_that_answers, start};

/// S0-19, S4-11: three tools with one base name, each called by its own name.
#[tokio::test]
async fn s0_19_s4_11_host_and_server_tools_of_one_base_name_are_distinct() {
    let (search, ran) = EchoTool::new("search");
    let chaos = |text: &str| Chaos::new().tool("search", Step::text(text));
    let servers = [
        (Dialect::CoreAgent, "one", chaos("one's")),
        (Dialect::AgentCode, "two", chaos("two's")),
    ];
    let test = TestHost::settled("", &servers, |builder| builder.tool(search)).await;
    let expected = [
        "search",
        "ListMcpResources",
        "ReadMcpResource",
        "one_search",
        "mcp__two__search",
    ];
    assert_eq!(
        test.names(),
        expected,
        "an agent-code server brings the resource tools along"
    );
    assert_eq!(
        test.text_for_model("search", json!({"text": "mine"})).await,
        "own: mine"
    );
    assert_eq!(test.text_for_model("one_search", json!({})).await, "one's");
    assert_eq!(
        test.text_for_model("mcp__two__search", json!({})).await,
        "two's"
    );
    assert_eq!(
        (
            ran.load(Ordering::Relaxed),
            test.calls("one").len(),
            test.calls("two").len()
        ),
        (1, 1, 1)
    );
    test.host.stop().await;
}

/// S1-17, S2-49, S4-16: rules, approvals and grants decide on both kinds of tools in the same way.
#[tokio::test]
async fn s1_17_s2_49_s4_16_one_permission_system_for_host_and_server_tools() {
    let rules = "[permissions]\ndeny = [\"Bash\", \"mcp__s__danger\"]\nallow = [\"Read\", \"mcp__s__fine\"]\n";
    let (bash, bash_ran) = EchoTool::new("Bash");
    let (read, _) = EchoTool::new("Read");
    let (other, _) = EchoTool::new("other");
    let chaos = ["danger", "fine", "plain"]
        .iter()
        .fold(Chaos::new(), |chaos, tool| {
            chaos.tool(tool, Step::text("ok"))
        });
    let own = |builder: HostBuilder| builder.tool(bash).tool(read).tool(other);
    let test = TestHost::settled(rules, &[(Dialect::Native, "s", chaos)], own).await;
    let text = json!({"text": "x"});

    let person = caller_that_answers(Approval::AlwaysTool(ApprovalLifetime::Run));
    for denied in ["Bash", "mcp__s__danger"] {
        let error = test.call(denied, text.clone(), &person).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Denied { reason, .. } if reason.to_string().starts_with("deny rule")),
            "{error}"
        );
    }
    assert_eq!(
        (bash_ran.load(Ordering::Relaxed), test.calls("s").len()),
        (0, 0)
    );
    for allowed in ["Read", "mcp__s__fine"] {
        test.call(allowed, text.clone(), &person).await.unwrap();
    }
    assert_eq!(person.exposed(), [""; 0]);
    // No rule applies: asked once, and the answer is remembered.
    for _ in 0..2 {
        for asked in ["other", "mcp__s__plain"] {
            test.call(asked, text.clone(), &person).await.unwrap();
        }
    }
    assert_eq!(person.exposed(), ["other", "mcp__s__plain"]);
    let nobody = caller_that_answers(Approval::Unavailable);
    let (unasked, _) = (
        test.call("other", text.clone(), &nobody).await.unwrap(),
        nobody.exposed(),
    );
    assert!(!unasked.is_error());
    test.host.stop().await;
}

#[tokio::test]
async fn a_deny_rule_that_is_added_while_a_person_is_asked_denies_a_host_tool() {
    let (tool, ran) = EchoTool::new("Bash");
    let test = TestHost::settled("", &[], |builder| builder.tool(tool)).await;
    let rules = test
        .scratch
        .config_with("[permissions]\ndeny = [\"Bash\"]\n", &[]);
    let denying = config::load(&[ConfigFile::new(rules, Scope::User)]).unwrap();
    let host = test.host.clone();
    let person = TestCaller::new("ada").on_approval(move || {
        let (host, denying) = (host.clone(), denying.clone());
        Box::pin(async move {
            host.reload(denying).await.unwrap();
            Approval::Once
        })
    });
    let called = test.call("Bash", json!({"text": "x"}), &person.arc()).await;
    let denied = called.unwrap_err().to_string();
    assert!(denied.contains("denied: deny rule \"Bash\""), "{denied}");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    test.host.stop().await;
}

#[tokio::test]
async fn an_always_for_one_host_tool_covers_that_one_alone() {
    let (one, _) = EchoTool::new("one");
    let (two, _) = EchoTool::new("two");
    let test = TestHost::settled("", &[], |builder| builder.tool(one).tool(two)).await;
    let person = caller_that_answers(Approval::AlwaysServer(ApprovalLifetime::Run));
    for tool in ["one", "two", "one", "two"] {
        test.call(tool, json!({"text": "x"}), &person)
            .await
            .unwrap();
    }
    assert_eq!(person.exposed(), ["one", "two"]);
}

#[tokio::test]
async fn a_host_tools_arguments_are_validated_its_failure_is_a_result_and_its_time_is_limited() {
    let (own, ran) = EchoTool::new("own");
    let test = TestHost::settled("[permissions]\nmode = \"yolo\"\n", &[], |builder| {
        builder.tool(own)
    })
    .await;
    let person = caller_that_answers(Approval::No { reason: None });
    let schema_violation = test
        .call("own", json!({"text": 1}), &person)
        .await
        .unwrap_err();
    assert!(
        schema_violation
            .to_string()
            .starts_with("tool own: the arguments do not fit the tool's input schema"),
        "{schema_violation}"
    );
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_eq!(
        test.text_for_model("own", json!({"text": "fail"})).await,
        "error: it did not work"
    );
    let call = Call::new("own", json!({"text": "wait"}))
        .caller(person as Arc<dyn Caller>)
        .timeout(Duration::from_millis(50));
    let late = test.host.call_with(call).await.unwrap_err();
    assert!(
        matches!(
            late,
            CallError::Request {
                fault: RequestFault::Timeout { total: true, .. },
                ..
            }
        ),
        "{late}"
    );
}

/// S2-06: the properties of a discovered tool: its approval, its execution, the projections of its
/// result, its server's state, and its timeout.
#[tokio::test]
async fn s2_06_a_tool_carries_confirmation_execution_projections_state_and_timeout() {
    let image = r#"{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]}"#;
    let chaos = Chaos::new()
        .tool("list", Step::text(r#"{"a":1}"#))
        .tool("image", Step::result(image))
        .tool("never", Step::Drop);
    let scratch = Scratch::new();
    let entries = ["py", "trusted"].map(|name| {
        chaos
            .clone()
            .record(scratch.path(name))
            .entry(name)
            .set("call_timeout", "3s")
    });
    let trusting = |mut builder: HostBuilder| {
        Arc::make_mut(&mut builder.config_mut().servers[1]).trust = true;
        builder
    };
    let host = start(&scratch, "", &entries, &[Dialect::Gemini; 2], trusting).await;
    assert!(host.wait_until_settled(TIMEOUT).await);
    let test = TestHost { host, scratch };
    let tool = test.host.catalog().resolve("list").unwrap().clone();
    let person = caller_that_answers(Approval::Once);
    let result = test
        .call(tool.exposed.as_str(), json!({}), &person)
        .await
        .unwrap();
    assert_eq!(person.exposed(), ["list"]);
    assert_eq!(test.calls("py"), [json!({"name": "list", "arguments": {}})]);
    assert_eq!(result.untrusted_text().unwrap().raw(), r#"{"a":1}"#);
    assert_eq!(
        result.for_person().unwrap().raw(),
        "```json\n{\n  \"a\": 1\n}\n```"
    );
    let state = |test: &TestHost| {
        test.host
            .server(tool.id.server.as_str())
            .unwrap()
            .snapshot()
            .state
            .clone()
    };
    assert!(matches!(state(&test), State::Ready { .. }));
    // S2-44: the parts for a model are as they were sent, including image data.
    let picture = test.call("image", json!({}), &person).await.unwrap();
    assert_eq!(
        picture.raw.to_value().unwrap(),
        serde_json::from_str::<serde_json::Value>(image).unwrap()
    );
    let late = test.call("never", json!({}), &person).await.unwrap_err();
    assert!(
        matches!(
            late,
            CallError::Request {
                fault: RequestFault::Timeout { .. },
                ..
            }
        ),
        "{late}"
    );
    assert!(
        late.to_string()
            .ends_with("no answer or progress within 3 s"),
        "{late}"
    );
    assert_eq!(person.exposed(), ["list", "image", "never"]);
    // No approval is needed for a trusted server.
    let nobody = caller_that_answers(Approval::No { reason: None });
    test.call("trusted__list", json!({}), &nobody)
        .await
        .unwrap();
    assert_eq!(nobody.exposed(), [""; 0]);
    test.host.stop().await;
    assert!(matches!(state(&test), State::Stopped));
}

/// A host tool that reports what it is given of the client's request, and whose preview never ends.
struct CallerInspector;

impl HostTool for CallerInspector {
    fn definition(&self) -> HostToolDefinition {
        HostToolDefinition::new("inspect", "Looks at it.", json!({"type": "object"}))
    }

    fn preview<'a>(&'a self, _: &'a RawJson, _: &'a Arc<dyn Caller>) -> BoxFuture<'a, Vec<String>> {
        Box::pin(std::future::pending())
    }

    fn call<'a>(&'a self, _: &'a RawJson, caller: &'a Arc<dyn Caller>) -> HostToolFuture<'a> {
        let (params, handles) = (caller.forwarded(), caller.handles_input_required());
        let text = format!("{:?} {} {handles}", caller.id(), params.is_some());
        Box::pin(async { Ok(CallResult::success(text)) })
    }
}

/// The caller of a client's request, with params of its own.
struct ClientCaller(CallerId, ForwardedParams);

impl Caller for ClientCaller {
    fn id(&self) -> &CallerId {
        &self.0
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        assert_eq!(request.preview, [""; 0]);
        Box::pin(async { Approval::Once })
    }

    fn forwarded(&self) -> Option<&ForwardedParams> {
        Some(&self.1)
    }

    fn handles_input_required(&self) -> bool {
        true
    }
}

/// The params are those of the call of the host tool: a server that the tool calls must not get
/// them. A preview that never ends is left out.
#[tokio::test(start_paused = true)]
async fn a_host_tool_can_forward_no_params_of_the_client_and_its_preview_is_not_awaited_for_ever() {
    let builder = HostBuilder::new(Config::default()).tool(CallerInspector);
    let host = builder.start().await.unwrap();
    let client = ClientCaller(CallerId::new("client"), ForwardedParams::default());
    let call = Call::new("inspect", json!({})).caller(Arc::new(client));
    let result = host.call_with(call).await.unwrap();
    assert_eq!(
        result.untrusted_text().unwrap().raw(),
        "\"client\" false false"
    );
    host.stop().await;
}
