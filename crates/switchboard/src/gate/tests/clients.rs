//! Tests that rules with a client apply to the authenticated client and to no other caller.

use super::*;

fn for_client(list: &[(&str, Option<&str>)]) -> Vec<RuleText> {
    let texts: Vec<&str> = list.iter().map(|(text, _)| *text).collect();
    let mut rules = rules(&texts);
    for (rule, (_, client)) in rules.iter_mut().zip(list) {
        rule.client = client.map(str::to_owned);
    }
    rules
}

fn check(gate: &Gate, caller: &CallerId, tool: &Tool, expected: &str) {
    let request = DecisionRequest {
        tool,
        caller,
        pre_approved: false,
    };
    assert_eq!(
        verdict(&gate.decide(request, &Grants::default())),
        expected,
        "{caller:?}"
    );
}

#[test]
fn a_rule_with_a_client_applies_to_each_of_its_sessions_and_to_nobody_else() {
    let mut config = config(&["fs", "git"], Mode::Ask, &[], &[], &[]);
    config.permissions.allow = for_client(&[("git/*", Some("codex")), ("fs/read", None)]);
    config.permissions.ask = for_client(&[("fs/read", Some("gemini"))]);
    config.permissions.deny = for_client(&[("git/push", Some("codex"))]);
    let gate = Gate::compile(&config).unwrap();
    let (log, push, read) = (of("git", "log"), of("git", "push"), of("fs", "read"));
    let (codex, gemini) = (
        CallerId::of_client("codex", 1),
        CallerId::of_client("gemini", 1),
    );
    let allowed = "allow: allow rule \"git/*\" for client \"codex\" (s.toml:1)";
    check(&gate, &codex, &log, allowed);
    check(&gate, &CallerId::of_client("codex", 2), &log, allowed);
    check(&gate, &gemini, &log, "ask: no rule applies");
    // The session number is not part of the client's name, and a name with the same start is
    // another.
    for other in ["codex#1", "codex2", "code", "Codex"] {
        check(&gate, &CallerId::new(other), &log, "ask: no rule applies");
    }
    let denied = "deny: deny rule \"git/push\" for client \"codex\" (s.toml:1)";
    check(&gate, &codex, &push, denied);
    check(&gate, &gemini, &push, "ask: no rule applies");
    check(
        &gate,
        &codex,
        &read,
        "allow: allow rule \"fs/read\" (s.toml:2)",
    );
    let asked = "ask once: ask rule \"fs/read\" for client \"gemini\" (s.toml:1)";
    check(&gate, &gemini, &read, asked);
    // In any order: the decision for one caller is not cached for another.
    check(&gate, &codex, &log, allowed);
}
