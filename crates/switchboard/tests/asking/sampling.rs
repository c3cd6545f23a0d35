//! Tests that sampling passes the gate, as the tool `server/@sampling` (T32).

use serde_json::json;
use switchboard::caller::{Approval, ApprovalLifetime};
use switchboard::config::{self, ConfigFile, Dialect, Scope};
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Scratch, Step};

use crate::support::{TIMEOUT, YOLO, call, open, open_as, person};

const PARAMS: &str = r#"{"messages":[],"maxTokens":1}"#;

fn legacy() -> Chaos {
    Chaos::new().tool(
        "sample",
        [
            Step::request("sampling/createMessage", Some(PARAMS)),
            Step::AnswerReply,
        ],
    )
}

fn modern() -> Chaos {
    let requests = format!(r#"{{"q":{{"method":"sampling/createMessage","params":{PARAMS}}}}}"#);
    Chaos::new().era(Era::Modern).tool(
        "sample",
        [
            Step::input_required(Some(&requests), None),
            Step::AnswerInput,
        ],
    )
}

/// Calls the tool twice with these permissions; checks what the caller saw, and how the last call
/// ended.
async fn check(chaos: &Chaos, permissions: &str, approval: Approval, came: &[&str], ended: &str) {
    let scratch = Scratch::new();
    let tables = format!(
        "[permissions]\n{permissions}\n{}",
        chaos.entry("chaos").render()
    );
    let host = open(&scratch, &tables).await;
    let ada = person("ada").approves(approval).arc();
    let mut last = String::new();
    for _ in 0..2 {
        last = call(&host, "chaos/sample", &json!({}), &ada)
            .await
            .unwrap_or_else(|error| error.to_string());
    }
    let folder = format!("{}/", scratch.folder().display());
    let seen: Vec<String> = ada
        .lines()
        .iter()
        .map(|line| line.replace(&folder, ""))
        .collect();
    assert_eq!(
        (
            seen.iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .as_slice(),
            last.as_str()
        ),
        (came, ended),
        "{permissions}"
    );
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t32_sampling_that_is_denied_while_a_person_is_asked_is_refused() {
    let scratch = Scratch::new();
    let chaos = legacy();
    let tables = |rules: &str| {
        let entry = chaos.entry("chaos").render();
        format!("[permissions]\nallow = [\"chaos/sample\"]\n{rules}\n{entry}")
    };
    let host = open(&scratch, &tables("")).await;
    let denying = scratch.write("denying.toml", &tables("deny = [\"chaos/@sampling\"]"));
    let denying = config::load(&[ConfigFile::new(denying, Scope::Given)]).unwrap();
    let reloading = host.clone();
    let ada = person("ada").on_approval(move || {
        let (host, denying) = (reloading.clone(), denying.clone());
        Box::pin(async move {
            host.reload(denying).await.unwrap();
            Approval::Once
        })
    });
    let ada = ada.arc();
    let answer = call(&host, "chaos/sample", &json!({}), &ada).await;
    assert!(answer.unwrap().contains("\"error\""), "{:?}", ada.lines());
    assert_eq!(ada.seen().samplings, [""; 0]);
    host.stop().await;
}

/// The question and the grants would be those of the new process.
#[tokio::test(flavor = "multi_thread")]
async fn t32_a_process_that_a_reload_has_replaced_cannot_sample() {
    let scratch = Scratch::new();
    let (called, go) = (scratch.path("called"), scratch.path("go"));
    let steps = [
        Step::touch(&called),
        Step::wait_file(&go),
        Step::request("sampling/createMessage", Some(PARAMS)),
        Step::AnswerReply,
    ];
    let chaos = Chaos::new().tool("sample", steps);
    let tables = |version: &str| {
        let entry = chaos.entry("chaos").env("VERSION", version);
        format!("{YOLO}{}", entry.render())
    };
    let host = open(&scratch, &tables("1")).await;
    let ada = person("ada").arc();
    let (calling, caller) = (host.clone(), ada.clone());
    let answer = tokio::spawn(async move {
        call(&calling, "chaos/sample", &json!({}), &caller)
            .await
            .unwrap()
    });
    let is_called = async {
        while !called.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, is_called).await.unwrap();
    let file = scratch.write("switchboard.toml", &tables("2"));
    let changed = config::load(&[ConfigFile::new(file, Scope::Given)]).unwrap();
    assert_eq!(host.reload(changed).await.unwrap().restarted.len(), 1);
    std::fs::write(&go, "").unwrap();
    assert!(
        answer.await.unwrap().contains("\"error\""),
        "{:?}",
        ada.lines()
    );
    assert_eq!(
        ada.lines(),
        [
            "notice a sampling request of server \"chaos\" was refused: a reload has replaced server \"chaos\""
        ]
    );
    host.stop().await;
}

const ASKED: &str = r#"approve chaos/@sampling {"messages":[],"maxTokens":1}"#;
const SAMPLED: &str = r#"sample {"messages":[],"maxTokens":1}"#;

#[tokio::test(flavor = "multi_thread")]
async fn t32_legacy_sampling_is_decided_by_the_gate() {
    let answer =
        r#"{"result":{"role":"assistant","model":"ada","content":{"type":"text","text":"hi"}}}"#;
    let rejected = r#"{"error":{"code":-1,"message":"User rejected sampling request"}}"#;
    let output =
        |why: &str| format!("notice a sampling request of server \"chaos\" was refused: {why}");
    let allow = r#"allow = ["chaos/sample"]"#;
    check(
        &legacy(),
        allow,
        Approval::Once,
        &[ASKED, SAMPLED, ASKED, SAMPLED],
        answer,
    )
    .await;
    check(
        &legacy(),
        allow,
        Approval::AlwaysTool(ApprovalLifetime::Run),
        &[ASKED, SAMPLED, SAMPLED],
        answer,
    )
    .await;
    let no = output("the caller declined");
    check(
        &legacy(),
        allow,
        Approval::No { reason: None },
        &[ASKED, &no, ASKED, &no],
        rejected,
    )
    .await;
    check(
        &legacy(),
        r#"allow = ["chaos/sample", "chaos/@sampling"]"#,
        Approval::No { reason: None },
        &[SAMPLED, SAMPLED],
        answer,
    )
    .await;
    let deny = output(r#"deny rule "chaos/@sampling" (switchboard.toml:3)"#);
    let denied = "allow = [\"chaos\"]\ndeny = [\"chaos/@sampling\"]";
    check(&legacy(), denied, Approval::Once, &[&deny, &deny], rejected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t32_modern_sampling_is_decided_by_the_gate_and_a_denial_ends_the_call() {
    let allow = r#"allow = ["chaos/sample"]"#;
    let answer = r#"{"inputResponses":{"q":{"role":"assistant","model":"ada","content":{"type":"text","text":"hi"}}}}"#;
    check(
        &modern(),
        allow,
        Approval::Once,
        &[ASKED, SAMPLED, ASKED, SAMPLED],
        answer,
    )
    .await;
    let ended = "server \"chaos\": not completed: a sampling request of the server was refused: the caller declined";
    check(
        &modern(),
        allow,
        Approval::No { reason: None },
        &[ASKED, ASKED],
        ended,
    )
    .await;
}

/// T32: an approval of all tools of a server, given for one of them, does not cover sampling; and
/// no tool can have its name.
#[tokio::test(flavor = "multi_thread")]
async fn t32_approval_of_a_servers_tools_does_not_cover_its_sampling() {
    let scratch = Scratch::new();
    let chaos = legacy().extra_tool(r#"{"name":"@sampling","inputSchema":{"type":"object"}}"#);
    let host = open(&scratch, &chaos.entry("chaos").render()).await;
    let ada = person("ada")
        .approves(Approval::AlwaysServer(ApprovalLifetime::Run))
        .arc();
    call(&host, "chaos/sample", &json!({}), &ada).await.unwrap();
    assert_eq!(ada.lines(), ["approve chaos/sample {}", ASKED, SAMPLED]);
    let withheld = call(&host, "chaos/@sampling", &json!({}), &ada)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        withheld.contains("its name is that of a built-in tool"),
        "{withheld}"
    );
    host.stop().await;
}

/// An *always* for a prompt to the model is no *always* for the server's tools.
#[tokio::test(flavor = "multi_thread")]
async fn t32_an_approval_of_sampling_covers_no_tool() {
    for dialect in [Dialect::Native, Dialect::Gemini] {
        let scratch = Scratch::new();
        let tables = format!(
            "[permissions]\nallow = [\"chaos/sample\"]\n{}",
            legacy()
                .tool("other", Step::text("fine"))
                .entry("chaos")
                .render()
        );
        let file = scratch.write("switchboard.toml", &tables);
        let host = open_as(ConfigFile::new(file, Scope::Given), dialect).await;
        let ada = person("ada")
            .approves(Approval::AlwaysServer(ApprovalLifetime::Run))
            .arc();
        for _ in 0..2 {
            call(&host, "chaos/sample", &json!({}), &ada).await.unwrap();
        }
        assert_eq!(ada.lines(), [ASKED, SAMPLED, SAMPLED], "{dialect:?}");
        call(&host, "chaos/other", &json!({}), &ada).await.unwrap();
        assert_eq!(
            ada.seen().approvals,
            [
                ("chaos/@sampling".to_owned(), false),
                ("chaos/other".to_owned(), false)
            ],
            "{dialect:?}"
        );
        host.stop().await;
    }
}
