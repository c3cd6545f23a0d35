//! Tests of the approval queue.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use switchboard::catalog::ToolDefinition;
use switchboard::name::{ServerName, ToolName};
use switchboard::{ApprovalRequest, Host};

use super::*;
use crate::Operations;
use crate::audit::AuditLog;
use crate::command_words::plain_command;
use crate::tokens::ClientTokens;

/// Requests for approval of one tool.
struct Requests(ApprovalRequest);

impl Requests {
    async fn new() -> Self {
        let host = Host::builder().resource_tools().start().await.unwrap();
        let tool = host.catalog().tools()[0].clone();
        let mut request = ApprovalRequest::new(&tool, RawJson::from(json!({})), "no rule applies");
        request.id = ToolId {
            server: ServerName::new("files").unwrap(),
            tool: ToolName::new("write"),
        };
        Self(request)
    }

    fn request(&self, description: &str, arguments: Value) -> ApprovalRequest {
        let definition =
            json!({"name": "write", "description": description, "inputSchema": {"type": "object"}});
        let definition = ToolDefinition::parse(&RawJson::from(definition)).unwrap();
        let mut request = self.0.clone();
        request.definition = Arc::new(definition);
        request.arguments = RawJson::from(arguments);
        request
    }
}

/// One call of a client.
async fn call(queue: &ApprovalQueue, client: &str, request: &ApprovalRequest) -> Approval {
    let held = HeldCall {
        principal: &Principal::new(client),
        request,
        keep_alive: &|_| {},
        command_words: plain_command,
    };
    queue.approve(&held).await
}

async fn waiting(queue: &ApprovalQueue, count: usize) -> Vec<WaitingCall> {
    let mut changes = queue.changes();
    loop {
        let waiting = queue.waiting();
        if waiting.len() == count {
            return waiting;
        }
        changes.changed().await.unwrap();
    }
}

fn reason(approval: Approval) -> String {
    match approval {
        Approval::No { reason } => reason.unwrap_or_default(),
        Approval::Pending { number, next_step } => {
            assert!(
                next_step.contains(&format!("approvals allow {number}`")),
                "{next_step}"
            );
            format!("approval {number} is pending")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_call_runs_when_an_operator_allows_it_and_the_client_sees_progress() {
    let queue = ApprovalQueue::default();
    let request = Requests::new()
        .await
        .request("Writes.", json!({"path": "a"}));
    let reports = AtomicUsize::new(0);
    let held = HeldCall {
        principal: &Principal::new("codex"),
        request: &request,
        keep_alive: &|_| {
            reports.fetch_add(1, Ordering::Relaxed);
        },
        command_words: plain_command,
    };
    let operator = async {
        let shown = waiting(&queue, 1).await.remove(0);
        assert_eq!(
            (shown.id, shown.principal.as_str(), shown.because.as_str()),
            (1, "codex", "no rule applies")
        );
        assert_eq!(shown.arguments.as_str(), r#"{"path":"a"}"#);
        tokio::time::sleep(Duration::from_secs(12)).await;
        queue.decide(1, true).unwrap().1
    };
    let (answer, effect) = tokio::join!(queue.approve(&held), operator);
    assert_eq!((answer, effect), (Approval::Once, ApprovalEffect::Runs));
    assert_eq!(reports.load(Ordering::Relaxed), 3);
    assert!(queue.waiting().is_empty() && queue.decide(1, true).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_later_yes_is_a_permit_for_exactly_that_call_once_for_ten_minutes() {
    let queue = ApprovalQueue::default();
    let requests = Requests::new().await;
    let asked = requests.request("Writes.", json!({"path": "a"}));
    let refused = reason(call(&queue, "codex", &asked).await);
    assert!(refused.contains("approval 1 is pending"), "{refused}");
    let shown = &queue.waiting()[0];
    assert_eq!((shown.id, shown.held_until), (1, None));
    assert_eq!(queue.decide(1, true).unwrap().1, ApprovalEffect::Kept);
    // Another client, other arguments, a changed definition and a changed launch are other calls.
    let mut launched_otherwise = asked.clone();
    launched_otherwise.launch.0[0] ^= 1;
    let others = [
        ("codex", launched_otherwise),
        ("gemini", requests.request("Writes.", json!({"path": "a"}))),
        ("codex", requests.request("Writes.", json!({"path": "b"}))),
        ("codex", requests.request("Deletes.", json!({"path": "a"}))),
    ];
    for (client, other) in &others {
        assert!(reason(call(&queue, client, other).await).contains("is pending"));
    }
    assert_eq!(call(&queue, "codex", &asked).await, Approval::Once);
    let again = reason(call(&queue, "codex", &asked).await);
    assert!(again.contains("is pending"), "{again}");
    // Unused, it is gone after ten minutes.
    let id = queue.waiting().last().unwrap().id;
    assert_eq!(queue.decide(id, true).unwrap().1, ApprovalEffect::Kept);
    tokio::time::sleep(LIFETIME).await;
    assert!(reason(call(&queue, "codex", &asked).await).contains("is pending"));
}

#[tokio::test(start_paused = true)]
async fn no_answer_means_no_and_an_approval_is_forgotten() {
    let queue = ApprovalQueue::default();
    let asked = Requests::new().await.request("Writes.", json!({}));
    let began = Instant::now();
    assert!(reason(call(&queue, "codex", &asked).await).contains("is pending"));
    assert_eq!(began.elapsed(), HOLD);
    // Its next try is the same approval.
    let denial = async {
        let shown = waiting(&queue, 1).await.remove(0);
        assert_eq!((shown.id, shown.held_until.is_some()), (1, true));
        queue.decide(1, false).unwrap().1
    };
    let (answer, effect) = tokio::join!(call(&queue, "codex", &asked), denial);
    assert_eq!(effect, ApprovalEffect::Denied);
    assert_eq!(reason(answer), "an operator denied it");
    assert!(reason(call(&queue, "codex", &asked).await).contains("approval 2"));
    tokio::time::sleep(LIFETIME).await;
    assert!(queue.waiting().is_empty() && queue.decide(2, true).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_a_client_that_goes_away_leaves_it() {
    let queue = Arc::new(ApprovalQueue::default());
    let requests = Requests::new().await;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..MAX_WAITING_OF_PRINCIPAL {
        let queue = queue.clone();
        let asked = requests.request("Writes.", json!({"n": number}));
        clients.spawn(async move { call(&queue, "codex", &asked).await });
    }
    waiting(&queue, MAX_WAITING_OF_PRINCIPAL).await;
    let one_more = requests.request("Writes.", json!({"n": "more"}));
    assert!(reason(call(&queue, "codex", &one_more).await).contains("try again later"));
    clients.shutdown().await;
    assert!(queue.waiting().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_with_many_answered_calls_takes_no_room_from_others() {
    let queue = ApprovalQueue::with_hold(Duration::from_secs(1));
    let requests = Requests::new().await;
    let calls = (0..=MAX_WAITING_OF_PRINCIPAL).map(|number| {
        let (queue, asked) = (&queue, requests.request("Writes.", json!({"n": number})));
        async move { reason(call(queue, "greedy", &asked).await) }
    });
    for pending in calls {
        assert!(pending.await.contains("is pending"));
    }
    let shown = queue.waiting();
    assert_eq!(shown.len(), MAX_WAITING_OF_PRINCIPAL);
    assert_eq!(shown[0].id, 2, "the oldest is removed");
    let asked = requests.request("Writes.", json!({}));
    assert!(reason(call(&queue, "codex", &asked).await).contains("is pending"));
    assert_eq!(queue.waiting().len(), MAX_WAITING_OF_PRINCIPAL + 1);
}

/// The whole of the arguments is stored until an operator has answered.
#[tokio::test(start_paused = true)]
async fn the_arguments_that_wait_of_one_client_are_bounded() {
    let queue = ApprovalQueue::with_hold(Duration::from_secs(1));
    let requests = Requests::new().await;
    let of_length =
        |length: usize, fill: &str| requests.request("Writes.", Value::from(fill.repeat(length)));
    let too_long = reason(call(&queue, "codex", &of_length(MAX_WAITING_BYTES, "a")).await);
    assert!(too_long.contains("too long"), "{too_long}");
    for fill in ["a", "b", "c"] {
        let pending =
            reason(call(&queue, "codex", &of_length(MAX_WAITING_BYTES / 2 - 2, fill)).await);
        assert!(pending.contains("is pending"), "{pending}");
    }
    let ids: Vec<_> = queue.waiting().iter().map(|shown| shown.id).collect();
    assert_eq!(ids, [2, 3], "the oldest is removed");
}

#[tokio::test]
async fn a_yes_between_the_deadline_and_the_error_lets_the_call_run() {
    let queue = ApprovalQueue::default();
    let request = Requests::new().await.request("Writes.", json!({}));
    for (is_allowed, expected) in [
        (true, Approval::Once),
        (false, Approval::no("an operator denied it")),
    ] {
        let held = HeldCall {
            principal: &Principal::new("codex"),
            request: &request,
            keep_alive: &|_| {},
            command_words: plain_command,
        };
        let Ok(Entered::Waiting(waiting)) = queue.enter(&held) else {
            panic!("it waits");
        };
        queue.decide(waiting.id, is_allowed).unwrap();
        assert_eq!(waiting.release(plain_command), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_token_was_revoked_has_no_waiting_calls_and_no_permits() {
    let queue = ApprovalQueue::default();
    let requests = Requests::new().await;
    let asked = requests.request("Writes.", json!({"path": "a"}));
    assert!(reason(call(&queue, "codex", &asked).await).contains("is pending"));
    assert_eq!(queue.decide(1, true).unwrap().1, ApprovalEffect::Kept);
    let other = requests.request("Writes.", json!({"path": "b"}));
    let revocation = async {
        waiting(&queue, 1).await;
        queue.remove_clients(|client| client.as_str() == "codex")
    };
    let (answer, removed) = tokio::join!(call(&queue, "codex", &other), revocation);
    assert_eq!(reason(answer), "the token of this client was revoked");
    assert_eq!(removed.len(), 1);
    assert!(queue.decide(removed[0].id, true).is_none());
    // Under the same name, with a new token.
    assert!(reason(call(&queue, "codex", &asked).await).contains("is pending"));
}

#[test]
fn of_too_many_permits_the_one_that_expires_first_is_removed() {
    let (mut state, now) = (QueueState::default(), Instant::now());
    let digest = |number: usize| blake3::hash(&number.to_le_bytes());
    for number in 0..=MAX_PERMITS {
        let permit = StoredPermit {
            principal: Principal::new("codex"),
            expires: now + LIFETIME + Duration::from_secs(number as u64),
        };
        state.add_permit(digest(number), permit);
    }
    assert_eq!(state.permits.len(), MAX_PERMITS);
    assert!(!state.permits.contains_key(&digest(0)));
    assert!(state.permits.contains_key(&digest(MAX_PERMITS)));
}

/// T19: the host asks for approval long after the request was admitted, for example once its server
/// is connected. What was already reported of the revocation does not matter.
#[tokio::test(start_paused = true)]
async fn t19_a_call_that_asks_for_approval_after_its_token_was_revoked_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = ClientTokens::new(folder.path());
    let authenticated = || {
        let token = tokens.create("codex").unwrap();
        tokens.client_of(&token).unwrap()
    };
    let host = Host::builder().start().await.unwrap();
    let operations = Operations::new(host, AuditLog::in_memory(), Vec::new());
    operations.set_tokens(ClientTokens::new(folder.path()));
    let request = Requests::new().await.request("Writes.", json!({}));
    let approval = async |principal: &Principal| {
        let held = HeldCall {
            principal,
            request: &request,
            keep_alive: &|_| {},
            command_words: plain_command,
        };
        reason(operations.approve(&held).await)
    };
    let before = authenticated();
    tokens.revoke("codex").unwrap();
    let after = authenticated();
    for _ in 0..2 {
        operations.remove_revoked_clients();
        assert_eq!(approval(&before).await, REVOKED);
    }
    assert!(approval(&after).await.contains("is pending"));
    let by_socket = Principal::new("codex");
    assert!(approval(&by_socket).await.contains("is pending"));
}
