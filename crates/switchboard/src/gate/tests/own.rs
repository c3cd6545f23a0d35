//! Tests of host tools under the same rules.

use super::*;

/// A host tool.
pub(super) fn own(name: &str) -> Tool {
    let id = crate::name::ToolId {
        server: ServerName::host(),
        tool: crate::name::ToolName::new(name),
    };
    Tool {
        id,
        ..tool(server("host"), definition(name, "what it does"))
    }
}

/// S0-24: each form that decides on a built-in tool by its name decides on a server's tool by its
/// name after `mcp:`. S1-17, S4-16: one system for both.
#[test]
fn s0_24_s1_17_s4_16_rules_decide_built_in_and_server_tools_alike() {
    let forms = ["{}", "{}*", "*{}", "?ead_file"];
    for form in forms {
        let (builtin, theirs) = match form {
            "?ead_file" => (form.to_owned(), format!("mcp:fs_{form}")),
            "*{}" => (
                form.replace("{}", "ead_file"),
                "mcp:fs_*ead_file".to_owned(),
            ),
            _ => (
                form.replace("{}", "read_file"),
                form.replace("{}", "mcp:fs_read_file"),
            ),
        };
        let check = |allow: &[&str], ask: &[&str], deny: &[&str], word: &str| {
            let gate = Gate::compile_with(
                &config(&["fs"], Mode::Ask, allow, ask, deny),
                &["read_file", "Bash"],
                &|_| false,
            )
            .unwrap();
            for tool in [own("read_file"), of("fs", "read_file")] {
                let said = verdict(&decide(&gate, &tool, &Grants::default()));
                assert!(said.starts_with(word), "{builtin} {theirs}: {said}");
            }
            for other in [own("Bash"), of("fs", "write_file")] {
                assert_eq!(
                    verdict(&decide(&gate, &other, &Grants::default())),
                    "ask: no rule applies",
                    "{builtin} {theirs}"
                );
            }
        };
        let rules = [builtin.as_str(), theirs.as_str()];
        check(&rules, &[], &[], "allow: ");
        check(&[], &rules, &[], "ask once: ");
        check(&rules, &rules, &rules, "deny: ");
    }
}

/// S1-20, S0-22: the namespace of servers' tools contains none of the host tools.
#[test]
fn s1_20_a_rule_for_all_mcp_tools_is_for_no_built_in_tool() {
    let check = |dialect: Dialect, rule: &str, for_own: bool| {
        for allows in [true, false] {
            let mut config = config(&["fs"], Mode::Ask, &[], &[], &[]);
            let (allow, deny) = (&mut config.permissions.allow, &mut config.permissions.deny);
            *(if allows { allow } else { deny }) = rules_in(dialect, &[rule]);
            let gate = Gate::compile_with(&config, &["Bash"], &|_| false).unwrap();
            let decided = |tool: &Tool| reach(&decide(&gate, tool, &Grants::default())) != 2;
            assert_eq!(
                (decided(&of("fs", "Bash")), decided(&own("Bash"))),
                (true, for_own),
                "{dialect:?}: {rule}"
            );
        }
    };
    for dialect in [Dialect::Native, Dialect::A3s, Dialect::AgentCode] {
        check(dialect, "mcp__*", false);
    }
    for dialect in [Dialect::Native, Dialect::CoreAgent] {
        check(dialect, "mcp:*", false);
    }
    for dialect in [Dialect::Native, Dialect::AgentCode] {
        check(dialect, "*", true);
    }
}

#[test]
fn a_rule_that_may_be_a_host_tool_or_a_server_is_refused_for_allow_and_denies_both() {
    let both = |allow: &[&str], deny: &[&str]| {
        Gate::compile_with(
            &config(&["Bash"], Mode::Ask, allow, &[], deny),
            &["Bash"],
            &|_| false,
        )
    };
    let errors = both(&["Bash"], &[]).unwrap_err();
    assert_eq!(
        errors.0[0].message,
        "\"Bash\" can be read as the tool Bash or as Bash/*; write one of these instead"
    );
    assert!(
        both(&["@host/Bash"], &[]).is_ok()
            && both(&["Bash/*"], &[]).is_ok()
            && both(&["*"], &[]).is_ok()
    );
    let gate = both(&[], &["Bash"]).unwrap();
    for tool in [own("Bash"), of("Bash", "x")] {
        assert!(matches!(
            decide(&gate, &tool, &Grants::default()),
            Decision::Deny { .. }
        ));
    }
    assert_eq!(both(&["@host/Bash"], &["Bash"]).unwrap().warnings(), []);
}

#[test]
fn a_grant_for_a_host_tool_survives_the_store() {
    let mut grants = Grants::default();
    let grant = grants.add(&own("Bash"));
    assert_eq!(Grant::from_json(&grant.to_json()), Some(grant));
}
