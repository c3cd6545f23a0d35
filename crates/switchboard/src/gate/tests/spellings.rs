//! Tests of the spellings of rules, and what each matches.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::name::Style;

/// The (server, tool) pairs that a rule matches, as a deny and as an allow.
fn check_spelling(
    servers: &[&str],
    rule: &str,
    matching: &[(&str, &str)],
    others: &[(&str, &str)],
) {
    let denying = Gate::compile(&config(servers, Mode::Ask, &[], &[], &[rule])).unwrap();
    let allowing = Gate::compile(&config(servers, Mode::Ask, &[rule], &[], &[])).ok();
    for (expected, pairs) in [(true, matching), (false, others)] {
        for (server, tool) in pairs {
            let decided = |gate: &Gate| decide(gate, &of(server, tool), &Grants::default());
            assert_eq!(
                matches!(decided(&denying), Decision::Deny { .. }),
                expected,
                "deny {rule} for {server}/{tool}"
            );
            if let Some(allowing) = &allowing {
                assert_eq!(
                    matches!(decided(allowing), Decision::Allow { .. }),
                    expected,
                    "allow {rule} for {server}/{tool}"
                );
            }
        }
    }
}

#[test]
fn c14_every_spelling_matches_the_right_pairs() {
    let servers = &["fs", "fs2", "git", "my-server"];
    let check = |rule: &str, matching: &[_], others: &[_]| {
        assert!(
            Gate::compile(&config(servers, Mode::Ask, &[rule], &[], &[])).is_ok(),
            "{rule}"
        );
        check_spelling(servers, rule, matching, others);
    };
    check(
        "fs",
        &[("fs", "read"), ("fs", "x/y")],
        &[("fs2", "read"), ("git", "fs"), ("FS", "read")],
    );
    check(
        "fs/read",
        &[("fs", "read")],
        &[("fs", "read2"), ("fs", "Read"), ("fs2", "read")],
    );
    check("fs/*", &[("fs", "a"), ("fs", "a/b")], &[("fs2", "a")]);
    check(
        "*/read_*",
        &[("fs", "read_"), ("git", "read_x")],
        &[("fs", "write"), ("fs", "xread_")],
    );
    check("f*", &[("fs", "a"), ("fs2", "b")], &[("git", "f")]);
    check("*", &[("fs", "a"), ("git", "b")], &[]);
    check(
        "fs/{get,list}_*",
        &[("fs", "get_x"), ("fs", "list_y")],
        &[("fs", "put_x")],
    );
    // Only the spelling of sanitised names is read as one.
    check(
        "my_server/do",
        &[("my_server", "do")],
        &[("my-server", "do")],
    );
    // S1-18, S1-28: the bare prefix matches that server and no other.
    check("mcp__fs", &[("fs", "a")], &[("fs2", "a"), ("git", "a")]);
    // S1-19, S1-20, S4-17.
    check(
        "mcp__git__create",
        &[("git", "create")],
        &[("git", "create2"), ("fs", "create")],
    );
    check("mcp__*", &[("fs", "a"), ("git", "b")], &[]);
    check(
        "mcp__git__*",
        &[("git", "a"), ("git", "b__c")],
        &[("fs", "a")],
    );
    check(
        "mcp__*__create",
        &[("git", "create"), ("fs", "create")],
        &[("fs", "creat")],
    );
    check(
        "mcp__git__a__b",
        &[("git", "a__b")],
        &[("git", "a"), ("git", "b")],
    );
    // S0-23: exactly that one.
    check(
        "mcp:fs_read",
        &[("fs", "read")],
        &[("fs", "read_x"), ("fs2", "read"), ("git", "fs_read")],
    );
    check(
        "mcp:my_server_do",
        &[("my-server", "do")],
        &[("my-server", "dont"), ("fs", "do")],
    );
    check("mcp:git_*", &[("git", "a")], &[("fs", "git_a")]);
    check("mcp:*", &[("git", "a"), ("fs", "b")], &[]);
    // S2-39.
    check(
        "git.log",
        &[("git", "log")],
        &[("git", "log2"), ("fs", "log")],
    );
    // A server that is not configured is no error.
    check("gone/x", &[("gone", "x")], &[("git", "x")]);
}

#[test]
fn an_ambiguous_rule_denies_every_reading_and_allows_none() {
    let servers = &["a", "a_b"];
    check_spelling(
        servers,
        "mcp:a_b_c",
        &[("a", "b_c"), ("a_b", "c")],
        &[("a", "c"), ("a_b", "b_c")],
    );
    let errors = Gate::compile(&config(
        servers,
        Mode::Ask,
        &["a/x", "mcp:a_b_c", "mcp:a_*"],
        &[],
        &[],
    ))
    .unwrap_err();
    assert_eq!(
        errors.to_string(),
        "s.toml:2:1: permissions.allow: \"mcp:a_b_c\" can be read as a/b_c or as a_b/c; write one of these instead\n\
         s.toml:3:1: permissions.allow: \"mcp:a_*\" can be read as a/* or as a_*/*; write one of these instead"
    );
    // Also in a dialect whose names make the double underscore ambiguous.
    let errors =
        Gate::compile(&config(&["a", "a__b"], Mode::Ask, &["mcp__a__b"], &[], &[])).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "s.toml:1:1: permissions.allow: \"mcp__a__b\" can be read as a__b/* or as a/b; write one of these instead"
    );
}

#[test]
fn a_deny_by_glob_applies_to_every_matching_exposed_name() {
    let gate = gate(Mode::Ask, &["mcp__g*__log"], &[], &["mcp__g*__x"]);
    let check = |tool: &str, expected: &str| {
        assert_eq!(
            verdict(&decide(&gate, &of("git", tool), &Grants::default())),
            expected
        )
    };
    check("a__x", "deny: deny rule \"mcp__g*__x\" (s.toml:1)");
    check("log", "allow: allow rule \"mcp__g*__log\" (s.toml:1)");
    // An allow is a glob per part: its star does not span them.
    check("a__log", "ask: no rule applies");
}

#[test]
fn s0_20_a_deny_by_exposed_spelling_matches_however_the_server_spells_the_tool() {
    let gate = gate(
        Mode::Ask,
        &["mcp:fs_read_file"],
        &[],
        &["mcp:fs_drop_table"],
    );
    assert_eq!(
        verdict(&decide(&gate, &of("fs", "drop.table"), &Grants::default())),
        "deny: deny rule \"mcp:fs_drop_table\" (s.toml:1)"
    );
    // An allow is literal: another tool could share the spelling.
    assert_eq!(
        verdict(&decide(&gate, &of("fs", "read.file"), &Grants::default())),
        "ask: no rule applies"
    );
}

#[test]
fn an_invalid_rule_is_a_config_error_with_its_location() {
    let errors =
        Gate::compile(&config(&["fs"], Mode::Ask, &[""], &["fs/"], &["fs/[a"])).unwrap_err();
    let shown = errors.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "s.toml:1:1: permissions.allow: \"\" is not a valid rule; expected \"server\" or \"server/tool\", a glob per part",
            "s.toml:1:1: permissions.ask: \"fs/\" is not a valid rule; expected \"server\" or \"server/tool\", a glob per part",
        ]
    );
    assert!(
        lines[2].starts_with("s.toml:1:1: permissions.deny: \"fs/[a\" cannot be read: \"[a\": "),
        "{shown}"
    );
}

#[test]
fn a_rule_for_no_configured_server_is_warned_about() {
    let gate = gate(Mode::Ask, &["git"], &[], &["gti/push"]);
    let shown: Vec<String> = gate.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["s.toml:1:1: permissions.deny: \"gti/push\" matches no configured server"]
    );
}

#[test]
fn an_exposed_name_with_a_hash_works_as_a_rule() {
    let dotted = of("fs", "read.file");
    let native = dotted.exposed.as_str();
    let projected = Style::Mcp.spellings(&dotted.id).pop().unwrap();
    let words = Style::ServerTool.spellings(&dotted.id).pop().unwrap();
    for rule in [native, &projected, &format!("mcp:{words}")] {
        check_spelling(
            &["fs", "git"],
            rule,
            &[("fs", "read.file")],
            &[
                ("fs", "read_file"),
                ("fs", "read:file"),
                ("git", "read.file"),
            ],
        );
    }
}

/// T27: the length of a rule is limited before it is split and compiled; one for another program's
/// own tools may be longer.
#[test]
fn t27_a_rule_is_limited_in_length_and_splits() {
    let check = |dialect: Dialect, text: &str, expected: Option<&str>| {
        let mut config = config(&["a"], Mode::Ask, &[], &[], &[]);
        config.permissions.deny = rules_in(dialect, &[text]);
        let told = Gate::compile(&config)
            .err()
            .map(|errors| errors.to_string());
        assert_eq!(told.is_some(), expected.is_some(), "{text:.100}: {told:?}");
        assert!(told.is_none_or(|told| told.ends_with(expected.unwrap_or_default()) && told.len() < 400), "{text:.100}");
    };
    let too_long = Some("a rule has at most 1024");
    check(Dialect::Native, &"a*".repeat(513), too_long);
    check(Dialect::Native, &"a*".repeat(100_000), too_long);
    check(
        Dialect::A3s,
        &format!("mcp__{}", "a".repeat(2000)),
        too_long,
    );
    check(Dialect::Gemini, &".a".repeat(100_000), too_long);
    check(Dialect::A3s, &format!("Bash({})", "a".repeat(2000)), None);
    check(
        Dialect::CoreAgent,
        &format!("bash:{}", "a".repeat(2000)),
        None,
    );
    check(
        Dialect::CoreAgent,
        &format!("mcp:{}", "*_".repeat(100)),
        Some("expected \"mcp:server_tool\""),
    );
    check(Dialect::CoreAgent, "mcp:a_b_c_d_e_f", None);
}

/// T27: many rules together are limited too; rules without wildcards are limited by the file's size
/// only.
#[test]
fn t27_rules_with_wildcards_are_limited_together() {
    let compiled = |count: usize, rule: &str| {
        let mut config = config(&["a"], Mode::Ask, &[], &[], &[]);
        config.permissions.deny = rules_in(Dialect::Native, &vec![rule; count]);
        Gate::compile(&config).map_err(|errors| errors.to_string())
    };
    assert!(compiled(50_000, "a/b").is_ok());
    assert!(compiled(1_000, "a/b*").is_ok());
    let told = compiled(50_000, "a/b*").err().unwrap();
    assert_eq!(
        told,
        "s.toml:10001:1: permissions.deny: too many rules with wildcards: they have more than 10000 readings; write fewer"
    );
}
