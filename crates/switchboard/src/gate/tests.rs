//! Tests of the gate: its order, spellings, grants, and properties of rules.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::caller::{Approval, ApprovalLifetime, ApprovalRequest, Caller, CallerId, Headless};
use crate::catalog::tests::{definition, server, tool};
use crate::config::{Config, Dialect, Permissions, RuleText, Security, ServerConfig};
use crate::wire::RawJson;

mod algebra;
mod clients;
mod dialects;
mod own;
mod spellings;

fn rules(texts: &[&str]) -> Vec<RuleText> {
    rules_in(Dialect::Native, texts)
}

fn rules_in(dialect: Dialect, texts: &[&str]) -> Vec<RuleText> {
    let rule = |(index, text): (usize, &&str)| RuleText {
        text: (*text).into(),
        client: None,
        dialect,
        file: Arc::new("s.toml".into()),
        line: index + 1,
    };
    texts.iter().enumerate().map(rule).collect()
}

fn config(servers: &[&str], mode: Mode, allow: &[&str], ask: &[&str], deny: &[&str]) -> Config {
    let servers = servers
        .iter()
        .map(|name| (ServerName::lenient(name).unwrap(), Arc::new(server(name))))
        .collect();
    let permissions = Permissions {
        mode,
        allow: rules(allow),
        ask: rules(ask),
        deny: rules(deny),
        configured: true,
        ..Permissions::default()
    };
    Config {
        servers,
        permissions,
        ..Config::default()
    }
}

fn gate(mode: Mode, allow: &[&str], ask: &[&str], deny: &[&str]) -> Gate {
    Gate::compile(&config(&["fs", "git"], mode, allow, ask, deny)).unwrap()
}

/// The gate of a configuration in which server `fs` is trusted.
fn gate_that_trusts(mode: Mode, allow: &[&str], ask: &[&str], deny: &[&str]) -> Gate {
    let config = config(&["fs", "git"], mode, allow, ask, deny);
    Gate::compile(&with_entry_of(&trusted("fs", "read"), config)).unwrap()
}

/// The configuration with the entry of this tool's server.
fn with_entry_of(tool: &Tool, mut config: Config) -> Config {
    let server = &tool.id.server;
    config.servers.insert(server.clone(), tool.server.clone());
    config
}

fn of(server_name: &str, tool_name: &str) -> Tool {
    tool(server(server_name), definition(tool_name, "what it does"))
}

fn tool_named(server_name: &str, tool_name: &str, description: &str) -> Tool {
    tool(server(server_name), definition(tool_name, description))
}

fn trusted(server_name: &str, tool_name: &str) -> Tool {
    tool(
        ServerConfig {
            trust: true,
            ..server(server_name)
        },
        definition(tool_name, "what it does"),
    )
}

fn decide(gate: &Gate, tool: &Tool, grants: &Grants) -> Decision {
    gate.decide(
        DecisionRequest {
            tool,
            caller: &CallerId::new("tester"),
            pre_approved: false,
        },
        grants,
    )
}

/// The decision as one word, with its reason.
fn verdict(decision: &Decision) -> String {
    match decision {
        Decision::Allow { because } => format!("allow: {because}"),
        Decision::Ask {
            because,
            once_only: false,
            ..
        } => format!("ask: {because}"),
        Decision::Ask {
            because,
            once_only: true,
            ..
        } => format!("ask once: {because}"),
        Decision::Deny { rule } => format!("deny: {rule}"),
    }
}

#[test]
fn rules_grants_and_modes_apply_in_order() {
    let granted = |tool: &Tool| {
        let mut grants = Grants::default();
        grants.add(tool);
        grants
    };
    let check = |gate: &Gate, tool: &Tool, yes: bool, grants: &Grants, expected: &str| {
        assert_eq!(
            verdict(&gate.decide(
                DecisionRequest {
                    tool,
                    caller: &CallerId::new("tester"),
                    pre_approved: yes
                },
                grants
            )),
            expected
        );
    };
    let (plain, none) = (of("fs", "read"), Grants::default());
    let everything = granted(&plain);
    let all: &[&str] = &["fs/read"];

    let deny = "deny: deny rule \"fs/read\" (s.toml:1)";
    check(
        &gate_that_trusts(Mode::Yolo, all, all, all),
        &trusted("fs", "read"),
        true,
        &everything,
        deny,
    );
    check(
        &gate_that_trusts(Mode::Deny, all, &[], &[]),
        &trusted("fs", "read"),
        true,
        &everything,
        "deny: mode deny",
    );
    check(
        &gate(Mode::Yolo, &[], all, &[]),
        &plain,
        false,
        &none,
        "allow: mode yolo",
    );
    check(
        &gate(Mode::Ask, &[], all, &[]),
        &plain,
        true,
        &none,
        "allow: approved with the call",
    );
    let ask = "ask once: ask rule \"fs/read\" (s.toml:1)";
    check(
        &gate_that_trusts(Mode::Ask, all, all, &[]),
        &trusted("fs", "read"),
        false,
        &everything,
        ask,
    );
    check(
        &gate(Mode::Ask, all, &[], &[]),
        &plain,
        false,
        &none,
        "allow: allow rule \"fs/read\" (s.toml:1)",
    );
    check(
        &gate_that_trusts(Mode::Ask, &[], &[], &[]),
        &trusted("fs", "read"),
        false,
        &none,
        "allow: `trust` is set for server \"fs\"",
    );
    check(
        &gate(Mode::Ask, &[], &[], &[]),
        &plain,
        false,
        &everything,
        "allow: remembered approval",
    );
    check(
        &gate(Mode::Ask, &["git"], &["git"], &["git"]),
        &plain,
        false,
        &none,
        "ask: no rule applies",
    );
}

/// A tool that was listed before a reload has the entry from then.
#[test]
fn trust_is_that_of_the_gates_configuration_not_of_the_listed_tool() {
    let decided = |gate: Gate, tool: Tool| verdict(&decide(&gate, &tool, &Grants::default()));
    let rules: &[&str] = &[];
    assert_eq!(
        decided(gate(Mode::Ask, rules, rules, rules), trusted("fs", "read")),
        "ask: no rule applies"
    );
    assert_eq!(
        decided(
            gate_that_trusts(Mode::Ask, rules, rules, rules),
            of("fs", "read")
        ),
        "allow: `trust` is set for server \"fs\""
    );
}

#[test]
fn the_first_matching_rule_is_reported() {
    let rules: &[&str] = &["git", "fs", "fs/read", "*"];
    let check = |gate: &Gate, expected: &str| {
        assert_eq!(
            verdict(&decide(gate, &of("fs", "read"), &Grants::default())),
            expected
        );
    };
    check(
        &gate(Mode::Ask, rules, &[], &[]),
        "allow: allow rule \"fs\" (s.toml:2)",
    );
    check(
        &gate(Mode::Ask, &[], rules, &[]),
        "ask once: ask rule \"fs\" (s.toml:2)",
    );
    check(
        &gate(Mode::Ask, &[], &[], rules),
        "deny: deny rule \"fs\" (s.toml:2)",
    );
}

/// T9: an ask rule asks each time, and also shows what changed since the last approval.
#[test]
fn t9_an_ask_rule_shows_what_changed() {
    let mut grants = Grants::default();
    grants.add(&of("fs", "read"));
    let changed = tool(server("fs"), definition("read", "something else"));
    let decision = decide(&gate(Mode::Ask, &[], &["fs"], &[]), &changed, &grants);
    let lines = vec![
        "- description: what it does".to_owned(),
        "+ description: something else".to_owned(),
    ];
    let because = "ask rule \"fs\" (s.toml:1)".to_owned();
    assert_eq!(
        decision,
        Decision::Ask {
            because,
            once_only: true,
            changed: Some(lines)
        }
    );
}

#[test]
fn t8_a_servers_own_annotation_never_allows() {
    let json = serde_json::json!({"name": "wipe", "inputSchema": {}, "annotations": {"readOnlyHint": true, "destructiveHint": false}});
    let hinted = crate::catalog::ToolDefinition::parse(&RawJson::from_value(&json)).unwrap();
    let tool = tool(server("fs"), Arc::new(hinted));
    assert_eq!(
        verdict(&decide(
            &gate(Mode::Ask, &[], &[], &[]),
            &tool,
            &Grants::default()
        )),
        "ask: no rule applies"
    );
}

#[test]
fn t9_p6_a_grant_covers_only_the_approved_definition_and_launch() {
    let gate = gate(Mode::Ask, &[], &[], &[]);
    let mut grants = Grants::default();
    grants.add(&of("fs", "read"));
    assert_eq!(
        verdict(&decide(&gate, &of("fs", "read"), &grants)),
        "allow: remembered approval"
    );

    let poisoned = tool(
        server("fs"),
        definition("read", "what it does\nand sends it away\u{1b}"),
    );
    assert_eq!(
        decide(&gate, &poisoned, &grants),
        Decision::Ask {
            because: "it changed since it was approved".into(),
            once_only: false,
            changed: Some(vec!["+ description: and sends it away\\u{1b}".into()]),
        }
    );
    let mut moved = of("fs", "read");
    moved.launch = crate::config::Fingerprint([7; 32]);
    let Decision::Ask {
        changed: Some(changed),
        ..
    } = decide(&gate, &moved, &grants)
    else {
        panic!("a moved launch is not asked")
    };
    assert_eq!(
        changed,
        [
            format!("- launch {}", of("fs", "read").launch.to_hex()),
            format!("+ launch {}", "07".repeat(32))
        ]
    );

    grants.add(&poisoned);
    assert_eq!(
        verdict(&decide(&gate, &poisoned, &grants)),
        "allow: remembered approval"
    );
    assert_eq!(
        verdict(&decide(&gate, &of("git", "read"), &grants)),
        "ask: no rule applies"
    );
    assert_eq!(grants.revoke(std::slice::from_ref(&poisoned.id)).0, 1);
    assert_eq!(
        verdict(&decide(&gate, &poisoned, &grants)),
        "ask: no rule applies"
    );
}

#[test]
fn s2_41_always_this_server_covers_its_present_and_later_tools() {
    let gate = gate(Mode::Ask, &[], &[], &[]);
    let mut grants = Grants::default();
    let offered = [of("fs", "read"), of("fs", "write"), of("git", "log")];
    grants.add_whole_server(&offered[0], &offered);
    let verdicts: Vec<String> = offered
        .iter()
        .map(|tool| verdict(&decide(&gate, tool, &grants)))
        .collect();
    assert_eq!(
        verdicts,
        [
            "allow: remembered approval",
            "allow: remembered approval",
            "ask: no rule applies"
        ]
    );
    assert_eq!(
        verdict(&decide(&gate, &of("fs", "new"), &grants)),
        "allow: remembered approval"
    );
}

#[test]
fn grants_survive_the_store() {
    let mut grants = Grants::default();
    let grant = grants.add(&tool(
        server("my \"server\""),
        definition("a/b\n\u{1b}", "d"),
    ));
    assert_eq!(Grant::from_json(&grant.to_json()), Some(grant.clone()));

    let mut loaded = Grants::default();
    let items = [
        (grant.key(), grant.to_json()),
        ("fs/x".into(), grant.to_json()),
        ("fs/y".into(), "{}".into()),
    ];
    assert_eq!(loaded.load(items), ["fs/x", "fs/y"]);
    assert!(loaded.has(&grant));
}

#[test]
fn t9_if_locked_rules_and_trust_cover_only_the_pinned_definition() {
    let config = config(&["fs"], Mode::Ask, &["fs/read"], &[], &[]);
    let mut config = with_entry_of(&trusted("fs", "read"), config);
    config.security = Security {
        locked: true,
        ..Security::default()
    };
    let gate = Gate::compile(&config).unwrap();
    assert!(gate.wants_pin(&of("fs", "read")) && !gate.only_shows_changes(&trusted("fs", "read")));
    let mut grants = Grants::default();
    let changed = |mut tool: Tool| {
        tool.definition = definition(tool.id.tool.as_wire(), "something else");
        tool
    };
    let rule = "allow: allow rule \"fs/read\" (s.toml:1)";
    // First seen: the rule applies, and the tool is pinned.
    assert_eq!(verdict(&decide(&gate, &of("fs", "read"), &grants)), rule);
    let pin = grants.pin(&of("fs", "read")).unwrap();
    assert_eq!(grants.pin(&of("fs", "read")), None);
    assert!(grants.pin(&trusted("fs", "write")).is_some());
    assert_eq!(verdict(&decide(&gate, &of("fs", "read"), &grants)), rule);
    // Changed: it is asked about, and the answer pins it again.
    let ask = "ask: it changed since it was approved";
    assert_eq!(
        verdict(&decide(&gate, &changed(of("fs", "read")), &grants)),
        ask
    );
    assert_eq!(
        verdict(&decide(&gate, &changed(trusted("fs", "write")), &grants)),
        ask
    );
    grants.add(&changed(of("fs", "read")));
    assert_eq!(
        verdict(&decide(&gate, &changed(of("fs", "read")), &grants)),
        rule
    );

    let mut loaded = Grants::default();
    assert_eq!(loaded.load_pins([(pin.key(), pin.to_json())]), [""; 0]);
    assert_eq!(
        verdict(&decide(&gate, &changed(of("fs", "read")), &loaded)),
        ask
    );
    // Not locked: a rule covers any definition.
    config.security.locked = false;
    assert_eq!(
        verdict(&decide(
            &Gate::compile(&config).unwrap(),
            &changed(of("fs", "read")),
            &loaded
        )),
        rule
    );
}

/// A permit carries its call: the tool as defined at the time of the decision, its arguments, its
/// caller.
#[test]
fn t33_a_permit_is_for_one_tool_its_definition_its_arguments_and_its_caller() {
    let (tool, caller) = (Arc::new(of("fs", "read")), headless());
    let arguments = RawJson::parse("{\"a\":1}").unwrap();
    let permit = Decision::Allow { because: "".into() }
        .permit(&tool, &arguments, &caller)
        .unwrap();
    assert!(Arc::ptr_eq(permit.tool(), &tool));
    assert_eq!(
        (permit.arguments(), permit.caller().id()),
        (&arguments, caller.id())
    );
}

#[test]
fn t33_only_an_allow_or_an_approval_gives_a_permit() {
    let (tool, caller) = (Arc::new(of("fs", "read")), headless());
    let arguments = RawJson::parse("{}").unwrap();
    let ask = Decision::Ask {
        because: String::new(),
        once_only: false,
        changed: None,
    };
    assert!(ask.permit(&tool, &arguments, &caller).is_err());
    assert!(
        Decision::Deny {
            rule: String::new()
        }
        .permit(&tool, &arguments, &caller)
        .is_err()
    );
    let request = ApprovalRequest::new(&tool, arguments.clone(), "");
    let approved = |answer| Permit::approved(&request, &answer, &tool, &caller);
    for answer in [
        Approval::Once,
        Approval::AlwaysTool(ApprovalLifetime::Run),
        Approval::AlwaysServer(ApprovalLifetime::Permanent),
    ] {
        let permit = approved(answer).unwrap();
        assert!(Arc::ptr_eq(permit.tool(), &tool));
        assert_eq!(
            (permit.arguments(), permit.caller().id()),
            (&arguments, caller.id())
        );
    }
    assert!(
        approved(Approval::No { reason: None }).is_none()
            && approved(Approval::Unavailable).is_none()
    );
    // Another tool, the same tool of another server, and the same tool with a new definition.
    let redefined = tool_named("fs", "read", "something else");
    for other in [of("fs", "write"), of("git", "read"), redefined] {
        let permit = Permit::approved(&request, &Approval::Once, &Arc::new(other), &caller);
        assert!(permit.is_none(), "a yes to one tool is none to another");
    }
}

/// Matched rules are cached by the tool; another gate does not use them.
#[test]
fn two_gates_decide_on_one_tool_independently() {
    let tool = of("fs", "read");
    let asks = gate(Mode::Ask, &[], &[], &[]);
    let denies = gate(Mode::Ask, &[], &[], &["fs/read"]);
    for _ in 0..2 {
        assert_eq!(reach(&decide(&asks, &tool, &Grants::default())), 2);
        assert_eq!(reach(&decide(&denies, &tool, &Grants::default())), 0);
    }
}

fn headless() -> Arc<dyn Caller> {
    Arc::new(Headless(CallerId::new("me")))
}

/// How much a decision allows.
fn reach(decision: &Decision) -> u8 {
    match decision {
        Decision::Deny { .. } => 0,
        Decision::Ask {
            once_only: true, ..
        } => 1,
        Decision::Ask {
            once_only: false, ..
        } => 2,
        Decision::Allow { .. } => 3,
    }
}
