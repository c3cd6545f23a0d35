//! Rules that name a client hold for the authenticated one and for no other caller.

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
fn a_rule_that_names_a_client_holds_for_each_session_of_it_and_for_nobody_else() {
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
    // A session's number is no part of the client's name, and a name that begins alike is another.
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
    // Whoever was first: the answers of one caller are not those of another.
    check(&gate, &codex, &log, allowed);
}
