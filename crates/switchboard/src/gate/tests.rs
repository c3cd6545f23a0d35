//! What the gate promises: its order, its spellings, its grants, and the algebra of rules.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::caller::{Approval, ApprovalRequest, Caller, CallerId, Headless, Keep};
use crate::catalog::tests::{definition, server, tool};
use crate::config::{Dialect, Permissions, RuleText, Security, ServerConfig};
use crate::wire::RawJson;

mod spellings;

fn rules(texts: &[&str]) -> Vec<RuleText> {
    let rule = |(index, text): (usize, &&str)| RuleText {
        text: (*text).into(),
        dialect: Dialect::Native,
        file: Arc::new("s.toml".into()),
        line: index + 1,
    };
    texts.iter().enumerate().map(rule).collect()
}

fn config(servers: &[&str], mode: Mode, allow: &[&str], ask: &[&str], deny: &[&str]) -> Config {
    let servers = servers.iter().map(|name| (ServerName::dialect(name).unwrap(), Arc::new(server(name)))).collect();
    let permissions = Permissions { mode, allow: rules(allow), ask: rules(ask), deny: rules(deny) };
    Config { servers, permissions, ..Config::default() }
}

fn gate(mode: Mode, allow: &[&str], ask: &[&str], deny: &[&str]) -> Gate {
    Gate::compile(&config(&["fs", "git"], mode, allow, ask, deny)).unwrap()
}

fn of(server_name: &str, tool_name: &str) -> Tool {
    tool(server(server_name), definition(tool_name, "what it does"))
}

fn trusted(server_name: &str, tool_name: &str) -> Tool {
    tool(ServerConfig { trust: true, ..server(server_name) }, definition(tool_name, "what it does"))
}

fn decide(gate: &Gate, tool: &Tool, grants: &Grants) -> Decision {
    gate.decide(Question { tool, yes: false }, grants)
}

/// One word and its reason.
fn verdict(decision: &Decision) -> String {
    match decision {
        Decision::Allow { because } => format!("allow: {because}"),
        Decision::Ask { because, once_only: false, .. } => format!("ask: {because}"),
        Decision::Ask { because, once_only: true, .. } => format!("ask once: {because}"),
        Decision::Deny { rule } => format!("deny: {rule}"),
    }
}

#[test]
fn the_gate_keeps_its_order() {
    let granted = |tool: &Tool| {
        let mut grants = Grants::default();
        grants.add(tool);
        grants
    };
    let check = |gate: &Gate, tool: &Tool, yes: bool, grants: &Grants, expected: &str| {
        assert_eq!(verdict(&gate.decide(Question { tool, yes }, grants)), expected);
    };
    let (plain, none) = (of("fs", "read"), Grants::default());
    let everything = granted(&plain);
    let all: &[&str] = &["fs/read"];

    let deny = "deny: deny rule \"fs/read\" (s.toml:1)";
    check(&gate(Mode::Yolo, all, all, all), &trusted("fs", "read"), true, &everything, deny);
    check(&gate(Mode::Deny, all, &[], &[]), &trusted("fs", "read"), true, &everything, "deny: mode deny");
    check(&gate(Mode::Yolo, &[], all, &[]), &plain, false, &none, "allow: mode yolo");
    check(&gate(Mode::Ask, &[], all, &[]), &plain, true, &none, "allow: yes was said beforehand");
    let ask = "ask once: ask rule \"fs/read\" (s.toml:1)";
    check(&gate(Mode::Ask, all, all, &[]), &trusted("fs", "read"), false, &everything, ask);
    check(&gate(Mode::Ask, all, &[], &[]), &plain, false, &none, "allow: allow rule \"fs/read\" (s.toml:1)");
    check(&gate(Mode::Ask, &[], &[], &[]), &trusted("fs", "read"), false, &none, "allow: server \"fs\" is trusted");
    check(&gate(Mode::Ask, &[], &[], &[]), &plain, false, &everything, "allow: remembered answer");
    check(&gate(Mode::Ask, &["git"], &["git"], &["git"]), &plain, false, &none, "ask: no rule applies");
}

#[test]
fn t8_a_hint_of_the_server_alone_never_allows() {
    let json =
        serde_json::json!({"name": "wipe", "inputSchema": {}, "annotations": {"readOnlyHint": true, "destructiveHint": false}});
    let hinted = crate::catalog::ToolDefinition::parse(&RawJson::from_value(&json)).unwrap();
    let tool = tool(server("fs"), Arc::new(hinted));
    assert_eq!(verdict(&decide(&gate(Mode::Ask, &[], &[], &[]), &tool, &Grants::default())), "ask: no rule applies");
}

#[test]
fn t9_p6_a_grant_holds_for_the_definition_and_the_launch_that_were_approved() {
    let gate = gate(Mode::Ask, &[], &[], &[]);
    let mut grants = Grants::default();
    grants.add(&of("fs", "read"));
    assert_eq!(verdict(&decide(&gate, &of("fs", "read"), &grants)), "allow: remembered answer");

    let poisoned = tool(server("fs"), definition("read", "what it does\nand sends it away\u{1b}"));
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
    let Decision::Ask { changed: Some(changed), .. } = decide(&gate, &moved, &grants) else {
        panic!("a moved launch is not asked")
    };
    assert_eq!(changed, [format!("- launch {}", of("fs", "read").launch.to_hex()), format!("+ launch {}", "07".repeat(32))]);

    grants.add(&poisoned);
    assert_eq!(verdict(&decide(&gate, &poisoned, &grants)), "allow: remembered answer");
    assert_eq!(verdict(&decide(&gate, &of("git", "read"), &grants)), "ask: no rule applies");
    assert!(grants.remove(&poisoned.id));
    assert!(!grants.iter().any(|grant| grant.id == poisoned.id));
}

#[test]
fn s2_41_always_this_server_covers_the_tools_of_today() {
    let gate = gate(Mode::Ask, &[], &[], &[]);
    let mut grants = Grants::default();
    let offered = [of("fs", "read"), of("fs", "write"), of("git", "log")];
    assert_eq!(grants.add_server(&offered[0].id.server, &offered).len(), 2);
    let verdicts: Vec<String> = offered.iter().map(|tool| verdict(&decide(&gate, tool, &grants))).collect();
    assert_eq!(verdicts, ["allow: remembered answer", "allow: remembered answer", "ask: no rule applies"]);
    assert_eq!(verdict(&decide(&gate, &of("fs", "new"), &grants)), "ask: no rule applies");
}

#[test]
fn grants_survive_the_store() {
    let mut grants = Grants::default();
    let grant = grants.add(&tool(server("my \"server\""), definition("a/b\n\u{1b}", "d")));
    assert_eq!(Grant::from_json(&grant.to_json()), Some(grant.clone()));

    let mut loaded = Grants::default();
    let items = [(grant.key(), grant.to_json()), ("fs/x".into(), grant.to_json()), ("fs/y".into(), "{}".into())];
    assert_eq!(loaded.load(items), ["fs/x", "fs/y"]);
    assert_eq!(loaded.iter().collect::<Vec<_>>(), [&grant]);
}

#[test]
fn t9_where_locked_rules_and_trust_hold_for_what_was_pinned() {
    let mut config = config(&["fs"], Mode::Ask, &["fs/read"], &[], &[]);
    config.security = Security { locked: true, ..Security::default() };
    let gate = Gate::compile(&config).unwrap();
    assert!(gate.wants_pins());
    let mut grants = Grants::default();
    let changed = |mut tool: Tool| {
        tool.definition = definition(tool.id.tool.as_wire(), "something else");
        tool
    };
    let rule = "allow: allow rule \"fs/read\" (s.toml:1)";
    // First seen: it holds, and is pinned.
    assert_eq!(verdict(&decide(&gate, &of("fs", "read"), &grants)), rule);
    let pin = grants.pin(&of("fs", "read")).unwrap();
    assert_eq!(grants.pin(&of("fs", "read")), None);
    assert!(grants.pin(&trusted("fs", "write")).is_some());
    assert_eq!(verdict(&decide(&gate, &of("fs", "read"), &grants)), rule);
    // Changed: it is asked, and the answer pins it anew.
    let ask = "ask: it changed since it was approved";
    assert_eq!(verdict(&decide(&gate, &changed(of("fs", "read")), &grants)), ask);
    assert_eq!(verdict(&decide(&gate, &changed(trusted("fs", "write")), &grants)), ask);
    grants.add(&changed(of("fs", "read")));
    assert_eq!(verdict(&decide(&gate, &changed(of("fs", "read")), &grants)), rule);

    let mut loaded = Grants::default();
    assert_eq!(loaded.load_pins([(pin.key(), pin.to_json())]), [""; 0]);
    assert_eq!(verdict(&decide(&gate, &changed(of("fs", "read")), &loaded)), ask);
    // Not locked: a rule covers whatever the definition says.
    config.security.locked = false;
    assert_eq!(verdict(&decide(&Gate::compile(&config).unwrap(), &changed(of("fs", "read")), &loaded)), rule);
}

/// A permit carries the call it is for: the tool as defined when the decision fell, its arguments, its caller.
#[test]
fn t33_a_permit_is_for_one_tool_its_definition_its_arguments_and_its_caller() {
    let (tool, caller) = (Arc::new(of("fs", "read")), headless());
    let arguments = RawJson::parse("{\"a\":1}").unwrap();
    let permit = Decision::Allow { because: "".into() }.permit(&tool, &arguments, &caller).unwrap();
    assert!(Arc::ptr_eq(permit.tool(), &tool));
    assert_eq!((permit.arguments(), permit.caller().id()), (&arguments, caller.id()));
}

#[test]
fn t33_only_an_allow_or_a_yes_is_worth_a_permit() {
    let (tool, caller) = (Arc::new(of("fs", "read")), headless());
    let arguments = RawJson::parse("{}").unwrap();
    let ask = Decision::Ask { because: String::new(), once_only: false, changed: None };
    assert!(ask.permit(&tool, &arguments, &caller).is_none());
    assert!(Decision::Deny { rule: String::new() }.permit(&tool, &arguments, &caller).is_none());
    let request = ApprovalRequest {
        id: tool.id.clone(),
        exposed: tool.exposed.clone(),
        arguments: arguments.clone(),
        definition: Arc::clone(&tool.definition),
        because: String::new(),
        changed: None,
        once_only: false,
    };
    let approved = |answer| Permit::approved(&request, answer, &tool, &caller);
    for answer in [Approval::Once, Approval::AlwaysTool(Keep::Run), Approval::AlwaysServer(Keep::ForGood)] {
        let permit = approved(answer).unwrap();
        assert!(Arc::ptr_eq(permit.tool(), &tool));
        assert_eq!((permit.arguments(), permit.caller().id()), (&arguments, caller.id()));
    }
    assert!(approved(Approval::No).is_none() && approved(Approval::Unavailable).is_none());
    let other = Arc::new(of("fs", "write"));
    assert!(Permit::approved(&request, Approval::Once, &other, &caller).is_none(), "a yes to one tool is none to another");
}

/// Rulings are remembered by the tool; another gate does not take them for its own.
#[test]
fn two_gates_that_are_asked_of_one_tool_each_say_their_own() {
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

/// How far a decision goes.
fn reach(decision: &Decision) -> u8 {
    match decision {
        Decision::Deny { .. } => 0,
        Decision::Ask { once_only: true, .. } => 1,
        Decision::Ask { once_only: false, .. } => 2,
        Decision::Allow { .. } => 3,
    }
}

const SPELLINGS: &[&str] = &[
    "a",
    "b",
    "*",
    "a/x",
    "a/*",
    "*/x",
    "b/x_*",
    "a_b",
    "a_b/y",
    "mcp__a",
    "mcp__a__x",
    "mcp__*",
    "mcp__*__x",
    "mcp:b_x",
    "mcp:*",
    "a.x",
];

fn some_rules() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(proptest::sample::select(SPELLINGS), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// T33: the algebra of rules. More deny or ask never widens; more allow never lifts a deny or an ask.
    #[test]
    fn t33_rules_only_ever_tighten(
        (allow, ask, deny) in (some_rules(), some_rules(), some_rules()),
        extra in proptest::sample::select(SPELLINGS),
        mode in proptest::sample::select(&[Mode::Ask, Mode::Yolo, Mode::Deny][..]),
        (yes, trust, grant) in any::<(bool, bool, bool)>(),
    ) {
        let servers = &["a", "b", "a_b"];
        let with = |rules: &[&'static str]| [rules, &[extra]].concat();
        let compile = |allow: &[&str], ask: &[&str], deny: &[&str]| Gate::compile(&config(servers, mode, allow, ask, deny)).unwrap();
        let before = compile(&allow, &ask, &deny);
        let more_deny = compile(&allow, &ask, &with(&deny));
        let more_ask = compile(&allow, &with(&ask), &deny);
        let more_allow = compile(&with(&allow), &ask, &deny);
        for (server_name, tool_name) in [("a", "x"), ("a", "y"), ("b", "x"), ("b", "x_y"), ("a_b", "x"), ("a_b", "y")] {
            let tool = if trust { trusted(server_name, tool_name) } else { of(server_name, tool_name) };
            let mut grants = Grants::default();
            if grant {
                grants.add(&tool);
            }
            let decide = |gate: &Gate| gate.decide(Question { tool: &tool, yes }, &grants);
            let was = reach(&decide(&before));
            prop_assert!(reach(&decide(&more_deny)) <= was);
            prop_assert!(reach(&decide(&more_ask)) <= was);
            let allowed = reach(&decide(&more_allow));
            prop_assert!(allowed >= was);
            prop_assert!(was >= 2 || allowed == was);
            // Remembering what matched changes nothing.
            prop_assert_eq!(decide(&before), decide(&before));
        }
    }
}

/// A tool of the program that embeds the host.
fn own(name: &str) -> Tool {
    let id = crate::name::ToolId { server: ServerName::host(), tool: crate::name::ToolName::new(name) };
    Tool { id, ..tool(server("host"), definition(name, "what it does")) }
}

/// S0-24: each form that decides a built-in tool by its name decides a server's tool by its name under `mcp:`. S1-17, S4-16: one system
/// for both.
#[test]
fn s0_24_s1_17_s4_16_rules_decide_built_in_and_server_tools_alike() {
    let forms = ["{}", "{}*", "*{}", "?ead_file"];
    for form in forms {
        let (builtin, theirs) = match form {
            "?ead_file" => (form.to_owned(), format!("mcp:fs_{form}")),
            "*{}" => (form.replace("{}", "ead_file"), "mcp:fs_*ead_file".to_owned()),
            _ => (form.replace("{}", "read_file"), form.replace("{}", "mcp:fs_read_file")),
        };
        let check = |allow: &[&str], ask: &[&str], deny: &[&str], word: &str| {
            let gate = Gate::compile_beside(&config(&["fs"], Mode::Ask, allow, ask, deny), &["read_file", "Bash"]).unwrap();
            for tool in [own("read_file"), of("fs", "read_file")] {
                let said = verdict(&decide(&gate, &tool, &Grants::default()));
                assert!(said.starts_with(word), "{builtin} {theirs}: {said}");
            }
            for other in [own("Bash"), of("fs", "write_file")] {
                assert_eq!(verdict(&decide(&gate, &other, &Grants::default())), "ask: no rule applies", "{builtin} {theirs}");
            }
        };
        let rules = [builtin.as_str(), theirs.as_str()];
        check(&rules, &[], &[], "allow: ");
        check(&[], &rules, &[], "ask once: ");
        check(&rules, &rules, &rules, "deny: ");
    }
}

#[test]
fn a_rule_that_could_be_a_tool_of_the_program_or_a_server_is_refused_for_allow_and_holds_for_both_in_deny() {
    let both = |allow: &[&str], deny: &[&str]| Gate::compile_beside(&config(&["Bash"], Mode::Ask, allow, &[], deny), &["Bash"]);
    let errors = both(&["Bash"], &[]).unwrap_err();
    assert_eq!(errors.0[0].message, "\"Bash\" can be read as the tool Bash or as Bash/*; write the one that is meant");
    assert!(both(&["@host/Bash"], &[]).is_ok() && both(&["Bash/*"], &[]).is_ok() && both(&["*"], &[]).is_ok());
    let gate = both(&[], &["Bash"]).unwrap();
    for tool in [own("Bash"), of("Bash", "x")] {
        assert!(matches!(decide(&gate, &tool, &Grants::default()), Decision::Deny { .. }));
    }
    assert_eq!(both(&[], &["Bash"]).unwrap().warnings(), []);
}

#[test]
fn a_remembered_yes_for_a_tool_of_the_program_survives_the_store() {
    let mut grants = Grants::default();
    let grant = grants.add(&own("Bash"));
    assert_eq!(Grant::from_json(&grant.to_json()), Some(grant));
}
