//! The order of a turn's calls: changes and commands run one after the other, reads in parallel.

use serde_json::json;
use switchboard_agent::{Agent, AgentEvent, DemoModel, UserMessage};

use crate::fixture::Fixture;

/// Runs the calls of one turn; returns the index of each call where it started and where it ended.
async fn starts_and_ends(fixture: &Fixture, calls: &[&str]) -> (Vec<String>, String) {
    let mut agent = Agent::new(fixture.host.clone(), DemoModel, fixture.caller.clone());
    let mut seen = Vec::new();
    let mut sink = |event| match event {
        AgentEvent::CallStarted { index, .. } => seen.push(format!("start {index}")),
        AgentEvent::CallEnded { index, .. } => seen.push(format!("end {index}")),
        _ => {}
    };
    let lines: Vec<_> = calls.iter().map(|call| format!("call {call}")).collect();
    let message = UserMessage::text(lines.join("\n"));
    let summary = agent.run(message, &mut sink).await.unwrap();
    (seen, summary.text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_sees_the_change_that_the_model_made_before_it() {
    let fixture = Fixture::new().await;
    let calls = [
        r#"Glob {"pattern": "*"}"#,
        r#"Glob {"pattern": "*.txt"}"#,
        r#"Write {"path": "a.txt", "content": "new text"}"#,
        r#"Bash {"command": "cat a.txt"}"#,
        r#"Read {"path": "a.txt"}"#,
        r#"Glob {"pattern": "*"}"#,
    ];
    let (mut seen, text) = starts_and_ends(&fixture, &calls).await;
    // Calls that overlap end in any order.
    seen[2..4].sort();
    seen[10..12].sort();
    let expected = [
        "start 0", "start 1", "end 0", "end 1", "start 2", "end 2", "start 3", "end 3", "start 4",
        "start 5", "end 4", "end 5",
    ];
    assert_eq!(seen, expected);
    assert!(text.contains("new text"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_of_one_file_at_the_same_time_are_all_made() {
    let fixture = Fixture::new().await;
    let lines: Vec<_> = (0..8).map(|number| format!("old {number};\n")).collect();
    fixture.file("a.txt", lines.concat());
    fixture
        .call("Read", json!({"path": "a.txt"}))
        .await
        .unwrap();
    let edit = |number: usize| {
        let (old, new) = (format!("old {number};"), format!("new {number};"));
        let edit = json!({"path": "a.txt", "old_text": old, "new_text": new});
        fixture.call("Edit", edit)
    };
    let edits = tokio::join!(
        edit(0),
        edit(1),
        edit(2),
        edit(3),
        edit(4),
        edit(5),
        edit(6),
        edit(7)
    );
    let edits: [Result<String, String>; 8] = edits.into();
    assert!(edits.iter().all(Result::is_ok), "{edits:?}");
    assert_eq!(fixture.text("a.txt"), lines.concat().replace("old", "new"));
}
