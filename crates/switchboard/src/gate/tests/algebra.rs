//! Properties of rules: more rules never allow more than the allow rules do, and every spelling of
//! a pair decides the same.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::name::{Style, ToolId, ToolName};

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

    /// T33: more deny or ask rules never allow more; more allow rules never lift a deny or an ask.
    #[test]
    fn t33_additional_rules_never_allow_more(
        (allow, ask, deny) in (some_rules(), some_rules(), some_rules()),
        extra in proptest::sample::select(SPELLINGS),
        mode in proptest::sample::select(&[Mode::Ask, Mode::Yolo, Mode::Deny][..]),
        (yes, trust, grant) in any::<(bool, bool, bool)>(),
    ) {
        let servers = &["a", "b", "a_b"];
        let with = |rules: &[&'static str]| [rules, &[extra]].concat();
        let tool_of = |server: &str, tool: &str| if trust { trusted(server, tool) } else { of(server, tool) };
        let compile = |allow: &[&str], ask: &[&str], deny: &[&str]| {
            let plain = config(servers, mode, allow, ask, deny);
            let config = servers.iter().fold(plain, |config, server| with_entry_of(&tool_of(server, "x"), config));
            Gate::compile(&config).unwrap()
        };
        let before = compile(&allow, &ask, &deny);
        let more_deny = compile(&allow, &ask, &with(&deny));
        let more_ask = compile(&allow, &with(&ask), &deny);
        let more_allow = compile(&with(&allow), &ask, &deny);
        for (server_name, tool_name) in [("a", "x"), ("a", "y"), ("b", "x"), ("b", "x_y"), ("a_b", "x"), ("a_b", "y")] {
            let tool = tool_of(server_name, tool_name);
            let mut grants = Grants::default();
            if grant {
                grants.add(&tool);
            }
            let decide = |gate: &Gate| gate.decide(DecisionRequest { tool: &tool, caller: &crate::caller::CallerId::new("tester"), pre_approved: yes }, &grants);
            let was = reach(&decide(&before));
            prop_assert!(reach(&decide(&more_deny)) <= was);
            prop_assert!(reach(&decide(&more_ask)) <= was);
            let allowed = reach(&decide(&more_allow));
            prop_assert!(allowed >= was);
            prop_assert!(was >= 2 || allowed == was);
            // The cache of matches changes nothing.
            prop_assert_eq!(decide(&before), decide(&before));
        }
    }
}

/// Every spelling of one pair (C14), each with a dialect in which it is valid.
fn spellings_of(server: &str, tool: &str) -> Vec<(Dialect, String)> {
    let (dashes, colon, dot) = (
        format!("mcp__{server}__{tool}"),
        format!("mcp:{server}_{tool}"),
        format!("{server}.{tool}"),
    );
    vec![
        (Dialect::Native, format!("{server}/{tool}")),
        (Dialect::Native, dashes.clone()),
        (Dialect::A3s, dashes.clone()),
        (Dialect::AgentCode, dashes),
        (Dialect::Native, colon.clone()),
        (Dialect::CoreAgent, colon),
        (Dialect::Native, dot.clone()),
        (Dialect::Gemini, dot),
    ]
}

/// Every spelling of a whole server.
fn spellings_of_server(server: &str) -> Vec<(Dialect, String)> {
    vec![
        (Dialect::Native, server.to_owned()),
        (Dialect::Native, format!("{server}/*")),
        (Dialect::Native, format!("mcp__{server}")),
        (Dialect::A3s, format!("mcp__{server}")),
        (Dialect::AgentCode, format!("mcp__{server}__*")),
        (Dialect::CoreAgent, format!("mcp:{server}_*")),
        (Dialect::Gemini, server.to_owned()),
    ]
}

/// The decisions of a gate with this one rule in this list on each pair, as `reach`; `None` if the
/// rule was refused.
fn ruled(
    servers: &[&str],
    list: &str,
    (dialect, text): &(Dialect, String),
    pairs: &[(&str, &str)],
) -> Option<Vec<u8>> {
    let mut config = config(servers, Mode::Ask, &[], &[], &[]);
    let rules = rules_in(*dialect, &[text]);
    match list {
        "allow" => config.permissions.allow = rules,
        "ask" => config.permissions.ask = rules,
        _ => config.permissions.deny = rules,
    }
    let gate = Gate::compile(&config).ok()?;
    Some(
        pairs
            .iter()
            .map(|(server, tool)| reach(&decide(&gate, &of(server, tool), &Grants::default())))
            .collect(),
    )
}

/// Server names with common prefixes, so that it is ambiguous where one ends.
const SERVERS: &[&str] = &["a", "b", "a_b", "ab", "a-b", "files"];
const TOOLS: &[&str] = &["x", "b_x", "b", "x_y", "read_file", "xy"];

fn some_servers() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(SERVERS, 1..=SERVERS.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// C14: every spelling of a pair decides the same, for it and for every other pair; except that
    /// an ambiguous allow is refused.
    #[test]
    fn c14_every_spelling_of_one_pair_decides_the_same(
        servers in some_servers(),
        which in any::<prop::sample::Index>(),
        tool in proptest::sample::select(TOOLS),
    ) {
        let server = *which.get(&servers);
        let pairs: Vec<(&str, &str)> = servers.iter().flat_map(|server| TOOLS.iter().map(move |tool| (*server, *tool))).collect();
        let meant = pairs.iter().position(|pair| *pair == (server, tool)).unwrap();
        for list in ["allow", "ask", "deny"] {
            let natively = ruled(&servers, list, &(Dialect::Native, format!("{server}/{tool}")), &pairs).unwrap();
            for spelling in spellings_of(server, tool) {
                match ruled(&servers, list, &spelling, &pairs) {
                    // A refused rule has another reading.
                    None => {
                        prop_assert_eq!(list, "allow");
                        let mut config = config(&servers, Mode::Ask, &[], &[], &[]);
                        config.permissions.allow = rules_in(spelling.0, &[&spelling.1]);
                        let told = Gate::compile(&config).unwrap_err().to_string();
                        prop_assert!(told.contains(" can be read as ") && told.contains(" or as "), "{}", told);
                        prop_assert!(told.contains(&format!("{server}/{tool}")), "{}", told);
                    }
                    Some(decided) if list == "allow" => prop_assert_eq!(&decided, &natively, "{:?}", spelling),
                    // A deny and an ask apply to every reading, including the intended one.
                    Some(decided) => {
                        prop_assert_eq!(decided[meant], natively[meant], "{:?}", spelling);
                        prop_assert!(decided.iter().zip(&natively).all(|(one, other)| one <= other), "{:?}", spelling);
                    }
                }
            }
        }
    }

    /// C14: the same for whole servers.
    #[test]
    fn c14_every_spelling_of_a_server_decides_the_same(servers in some_servers(), which in any::<prop::sample::Index>()) {
        let server = *which.get(&servers);
        let pairs: Vec<(&str, &str)> = servers.iter().flat_map(|server| TOOLS.iter().map(move |tool| (*server, *tool))).collect();
        for list in ["allow", "ask", "deny"] {
            let natively = ruled(&servers, list, &(Dialect::Native, server.to_owned()), &pairs).unwrap();
            for spelling in spellings_of_server(server) {
                match ruled(&servers, list, &spelling, &pairs) {
                    None => prop_assert_eq!(list, "allow", "{:?}", spelling),
                    Some(decided) if list == "allow" => prop_assert_eq!(&decided, &natively, "{:?}", spelling),
                    Some(decided) => prop_assert!(decided.iter().zip(&natively).all(|(one, other)| one <= other), "{:?}", spelling),
                }
            }
        }
    }

    /// An allow that matches pairs of two servers is refused, in any dialect; as a deny it applies
    /// to both.
    #[test]
    fn c14_an_ambiguous_allow_is_refused_and_a_deny_applies_to_both(
        first in "[a-z]{1,4}",
        middle in "[a-z]{1,4}",
        last in "[a-z]{1,4}",
        dialect in proptest::sample::select(&[Dialect::Native, Dialect::CoreAgent][..]),
    ) {
        let longer = format!("{first}_{middle}");
        let servers = [first.as_str(), longer.as_str()];
        let spelling = (dialect, format!("mcp:{first}_{middle}_{last}"));
        let rest = format!("{middle}_{last}");
        let pairs = [(first.as_str(), rest.as_str()), (longer.as_str(), last.as_str())];
        prop_assert_eq!(ruled(&servers, "allow", &spelling, &pairs), None);
        prop_assert_eq!(ruled(&servers, "deny", &spelling, &pairs), Some(vec![0, 0]));
        prop_assert_eq!(ruled(&servers, "ask", &spelling, &pairs), Some(vec![1, 1]));
    }

    /// A deny by the exposed name applies, whatever the names of the tool and of its server.
    #[test]
    fn c14_a_deny_of_the_exposed_name_always_applies(server in "[A-Za-z._ -]{1,6}", tool in "\\PC{1,8}") {
        let id = ToolId { server: ServerName::lenient(&server).unwrap(), tool: ToolName::new(&tool) };
        for (dialect, style, before) in [(Dialect::CoreAgent, Style::ServerTool, "mcp:"), (Dialect::A3s, Style::Mcp, ""), (Dialect::AgentCode, Style::Mcp, "")] {
            let name = style.expose(std::slice::from_ref(&id)).remove(0).unwrap();
            let decided = ruled(&[&server], "deny", &(dialect, format!("{before}{name}")), &[(&server, &tool)]);
            prop_assert_eq!(decided, Some(vec![0]), "{}", name);
        }
    }
}
