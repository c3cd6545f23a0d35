//! Tests of the gate in each dialect: its own spellings, its own choices, and no gate where it is
//! documented so.

#![allow(clippy::unwrap_used)]

use super::own::own;
use super::*;
use crate::catalog::RuleMatchCache;
use crate::config::Scope;
use crate::name::Style;

/// A tool with the name that its server's file gives it.
fn tool_in(dialect: Dialect, server_name: &str, tool_name: &str) -> Tool {
    let mut tool = tool(
        ServerConfig {
            dialect,
            ..server(server_name)
        },
        definition(tool_name, "what it does"),
    );
    let style = dialect.profile().naming.unwrap_or(Style::Mcp);
    tool.exposed = style
        .expose(std::slice::from_ref(&tool.id))
        .remove(0)
        .unwrap();
    tool
}

fn config_in(dialect: Dialect, servers: &[&str], allow: &[&str], deny: &[&str]) -> Config {
    let mut config = config(servers, Mode::Ask, &[], &[], &[]);
    config.permissions.allow = rules_in(dialect, allow);
    config.permissions.deny = rules_in(dialect, deny);
    config
}

/// The pairs that a rule of this dialect matches: the same ones as an allow and as a deny.
fn check(
    dialect: Dialect,
    servers: &[&str],
    rule: &str,
    matching: &[(&str, &str)],
    others: &[(&str, &str)],
) {
    let allowing = Gate::compile(&config_in(dialect, servers, &[rule], &[])).unwrap();
    let denying = Gate::compile(&config_in(dialect, servers, &[], &[rule])).unwrap();
    for (expected, pairs) in [(true, matching), (false, others)] {
        for (server, name) in pairs {
            let decided =
                |gate: &Gate| decide(gate, &tool_in(dialect, server, name), &Grants::default());
            assert_eq!(
                matches!(decided(&allowing), Decision::Allow { .. }),
                expected,
                "allow {rule} for {server}/{name}"
            );
            assert_eq!(
                matches!(decided(&denying), Decision::Deny { .. }),
                expected,
                "deny {rule} for {server}/{name}"
            );
        }
    }
}

#[test]
fn s0_23_an_allow_entry_is_for_exactly_that_namespaced_tool() {
    let servers = &["filesystem", "filesystem2", "my-server", "file.system"];
    let check = |rule: &str, matching: &[_], others: &[_]| {
        check(Dialect::CoreAgent, servers, rule, matching, others)
    };
    check(
        "mcp:filesystem_read_file",
        &[("filesystem", "read_file")],
        &[
            ("filesystem", "read_file2"),
            ("filesystem", "write_file"),
            ("filesystem2", "read_file"),
            ("my-server", "read_file"),
        ],
    );
    // Sanitised names are names: the entry matches the tool with that name.
    check(
        "mcp:my_server_do",
        &[("my-server", "do")],
        &[("my-server", "dont"), ("filesystem", "do")],
    );
    check(
        "mcp:file_system_read_file",
        &[("file.system", "read.file")],
        &[("file.system", "read_files")],
    );
    // S0-22: only the namespace counts. An entry for another program's tool, or in another
    // spelling, matches none of these.
    let all = &[("filesystem", "read_file"), ("my-server", "do")];
    for rule in [
        "filesystem_read_file",
        "filesystem",
        "filesystem/read_file",
        "filesystem.read_file",
        "mcp__filesystem",
        "bash:*",
        "*",
    ] {
        check(rule, &[], all);
    }
}

/// A server with `read.file` and `read_file`: the second one's name ends in a hash.
#[test]
fn s0_23_an_allow_entry_covers_one_of_two_tools_that_share_a_spelling() {
    let mut tools = ["read.file", "read_file"].map(|name| tool_in(Dialect::CoreAgent, "fs", name));
    let pairs = tools.each_ref().map(|tool| tool.id.clone());
    let names = Style::ServerTool.expose(&pairs);
    for (tool, name) in tools.iter_mut().zip(names) {
        tool.exposed = name.unwrap();
    }
    let decided = |allow: &[&str], deny: &[&str]| {
        let gate = Gate::compile(&config_in(Dialect::CoreAgent, &["fs"], allow, deny)).unwrap();
        tools
            .each_ref()
            .map(|tool| decide(&gate, tool, &Grants::default()))
    };
    let allowed = |rule: &str| {
        decided(&[rule], &[]).map(|decision| matches!(decision, Decision::Allow { .. }))
    };
    assert_eq!(tools[0].exposed.as_str(), "fs_read_file");
    assert_eq!(allowed("mcp:fs_read_file"), [true, false]);
    assert_eq!(allowed(&format!("mcp:{}", tools[1].exposed)), [false, true]);
    assert_eq!(allowed("mcp:fs_*"), [true, true]);
    let denied = decided(&[], &["mcp:fs_read_file"]);
    assert!(
        denied
            .iter()
            .all(|decision| matches!(decision, Decision::Deny { .. }))
    );
}

/// Rules for another program's own tools are that program's, whatever their syntax; a deny that
/// cannot be read stays an error.
#[test]
fn a_malformed_rule_for_the_programs_own_tools_stops_nothing() {
    for (dialect, rule) in [
        (Dialect::CoreAgent, "bash:[ -f *"),
        (Dialect::A3s, "Bash([a)"),
    ] {
        let gate = Gate::compile(&config_in(dialect, &["fs"], &[rule, "mcp:fs_x"], &[])).unwrap();
        let warnings: Vec<_> = gate.warnings().iter().map(ToString::to_string).collect();
        assert!(
            warnings.iter().any(|line| line.contains("is left out")),
            "{warnings:?}"
        );
        Gate::compile(&config_in(dialect, &["fs"], &[], &[rule])).unwrap_err();
    }
    Gate::compile(&config_in(Dialect::CoreAgent, &["fs"], &["mcp:fs_[x"], &[])).unwrap_err();
}

/// A glob on names matches names of that style, and of the server that the rule was read to mean.
#[test]
fn s0_23_an_allow_by_name_covers_no_tool_of_another_name() {
    let asked = |servers: &[&str], rule: &str, tool: &Tool| {
        let gate = Gate::compile(&config_in(Dialect::CoreAgent, servers, &[rule], &[])).unwrap();
        assert_eq!(
            verdict(&decide(&gate, tool, &Grants::default())),
            "ask: no rule applies",
            "{rule}: {tool:?}"
        );
    };
    // In its own file's style this tool's bare name matches the rule; the rule means another tool.
    asked(
        &["fs"],
        "mcp:fs_read_file",
        &tool_in(Dialect::Gemini, "fs", "fs_read_file"),
    );
    // In a native file the tool has its own name, so the spelling is ambiguous.
    asked(
        &["fs"],
        "mcp:fs_read_file",
        &tool_in(Dialect::Native, "fs", "read.file"),
    );
    // `?` could match the `_` between the parts of another server's name; that is not the reading.
    asked(
        &["a", "a_b"],
        "mcp:a_b?x",
        &tool_in(Dialect::CoreAgent, "a_b", "x"),
    );
}

/// A name that is too long to be exposed whole is denied by its whole spelling, too.
#[test]
fn s0_44_a_deny_by_the_whole_spelling_applies_to_a_truncated_name() {
    let name = format!("read.{}", "x".repeat(80));
    let rule = format!("mcp:fs_{}", name.replace('.', "_"));
    let gate = Gate::compile(&config_in(Dialect::CoreAgent, &["fs"], &[], &[&rule])).unwrap();
    let tool = tool_in(Dialect::CoreAgent, "fs", &name);
    assert!(tool.exposed.as_str().len() <= 64);
    assert!(matches!(
        decide(&gate, &tool, &Grants::default()),
        Decision::Deny { .. }
    ));
}

/// Every form of a pattern decides the same on a built-in tool's name and, after `mcp:`, on the
/// same name of an MCP tool.
#[test]
fn s0_24_each_pattern_form_decides_the_same_behind_the_namespace() {
    let tools = [
        "read_file",
        "read_files",
        "read",
        "write_file",
        "x_read_file",
        "Read_File",
        "list_dir",
    ];
    let names: Vec<String> = tools.iter().map(|tool| format!("fs_{tool}")).collect();
    let forms = [
        "fs_read_file",
        "fs_*",
        "*",
        "fs_read*",
        "*_file",
        "*read*",
        "fs_read_file?",
        "fs_[rw]*",
        "fs_{read,write}_file",
        "fs_[!r]*",
        "f*s_read*",
        "other_*",
    ];
    for form in forms {
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let builtin = Gate::compile_with(
            &config_in(Dialect::CoreAgent, &["fs"], &[form], &[]),
            &known,
            &|_| false,
        )
        .unwrap();
        let is_allowed = |name: &str| {
            matches!(
                decide(&builtin, &own(name), &Grants::default()),
                Decision::Allow { .. }
            )
        };
        let (matching, others): (Vec<_>, Vec<_>) = tools
            .iter()
            .zip(&names)
            .partition(|(_, name)| is_allowed(name));
        assert_eq!(
            matching.is_empty(),
            form == "other_*",
            "{form} was tried on something"
        );
        let pairs = |tools: Vec<(&&'static str, &String)>| {
            tools
                .iter()
                .map(|(tool, _)| ("fs", **tool))
                .collect::<Vec<_>>()
        };
        check(
            Dialect::CoreAgent,
            &["fs"],
            &format!("mcp:{form}"),
            &pairs(matching),
            &pairs(others),
        );
    }
}

/// S0-22, S0-26, S0-27: whether a call of a core-agent file's server is gated, by the permissions
/// of its files.
#[test]
fn s0_26_s0_27_without_a_gate_and_with_yolo_only_another_files_deny_applies() {
    let tool = tool_in(Dialect::CoreAgent, "fs", "bash");
    let check = |what: &str, change: &dyn Fn(&mut Config, &mut Tool), expected: &str| {
        let mut config = config_in(Dialect::CoreAgent, &["fs"], &[], &[]);
        config.permissions.configured = false;
        let mut tool = Tool {
            rule_matches: RuleMatchCache::default(),
            ..tool_in(Dialect::CoreAgent, "fs", "bash")
        };
        change(&mut config, &mut tool);
        let config = with_entry_of(&tool, config);
        let decision = decide(&Gate::compile(&config).unwrap(), &tool, &Grants::default());
        assert_eq!(verdict(&decision), expected, "{what}");
    };
    check(
        "S0-27: nothing speaks of permissions",
        &|_, _| {},
        "allow: no permissions are configured",
    );
    check(
        "S0-22: a file does",
        &|config, _| config.permissions.configured = true,
        "ask: no rule applies",
    );
    check(
        "S0-26: yolo",
        &|config, _| {
            config.permissions.configured = true;
            config.permissions.mode = Mode::Yolo;
        },
        "allow: mode yolo",
    );
    check(
        "another file's deny",
        &|config, _| config.permissions.deny = rules(&["fs/bash"]),
        "deny: deny rule \"fs/bash\" (s.toml:1)",
    );
    check(
        "another file's ask",
        &|config, _| config.permissions.ask = rules(&["fs"]),
        "ask once: ask rule \"fs\" (s.toml:1)",
    );
    let of = |dialect: Dialect, scope: Scope| {
        move |_: &mut Config, tool: &mut Tool| {
            let mut server = (*tool.server).clone();
            server.dialect = dialect;
            server.source.scope = scope;
            tool.server = Arc::new(server);
        }
    };
    check(
        "given with -c",
        &of(Dialect::CoreAgent, Scope::Given),
        "allow: no permissions are configured",
    );
    check(
        "a project's file that was not accepted",
        &of(Dialect::CoreAgent, Scope::Project),
        "ask: no rule applies",
    );
    check(
        "S3-13: a document without a gate",
        &of(Dialect::AgentApps, Scope::Given),
        "allow: no permissions are configured",
    );
    for dialect in Dialect::ALL
        .into_iter()
        .filter(|dialect| !matches!(dialect, Dialect::CoreAgent | Dialect::AgentApps))
    {
        check(
            "every other document has a gate",
            &of(dialect, Scope::User),
            "ask: no rule applies",
        );
    }
    // Without a gate there is still a permit, for one call.
    let (tool, arguments) = (Arc::new(tool), RawJson::parse("{}").unwrap());
    assert!(
        Decision::Allow {
            because: "no permissions are configured".into()
        }
        .permit(&tool, &arguments, &headless())
        .is_ok()
    );
}

/// S0-26: with `mode: yolo` the denylist for the program's `bash` still applies to it, and not to a
/// server's tool of that name.
#[test]
fn s0_26_with_yolo_the_denylist_of_bash_holds_for_bash_and_for_no_servers_tool() {
    let mut config = config_in(Dialect::CoreAgent, &["fs"], &[], &["bash"]);
    (config.permissions.configured, config.permissions.mode) = (true, Mode::Yolo);
    let gate = Gate::compile_with(&config, &["bash", "read"], &|_| false).unwrap();
    let check = |tool: Tool, expected: &str| {
        assert_eq!(verdict(&decide(&gate, &tool, &Grants::default())), expected)
    };
    check(own("bash"), "deny: deny rule \"bash\" (s.toml:1)");
    check(own("read"), "allow: mode yolo");
    check(
        tool_in(Dialect::CoreAgent, "fs", "bash"),
        "allow: mode yolo",
    );
}

/// `yolo` skips the `mcp:` denies of its own file and of its permissions file, with one warning; a
/// deny of any other file applies.
#[test]
fn s0_26_yolo_skips_its_own_files_denies_for_servers_tools() {
    let tool = || tool_in(Dialect::CoreAgent, "fs", "write");
    let check = |denied_in: &str, dialect: Dialect, text: &str, expected: &str, warnings: usize| {
        let mut config = config_in(Dialect::CoreAgent, &["fs"], &[], &[]);
        let file = |path: &str| Arc::new(std::path::PathBuf::from(path));
        (config.permissions.configured, config.permissions.mode) = (true, Mode::Yolo);
        let place = crate::config::Location {
            file: file("/p/.agents/mcp.json"),
            line: 1,
            column: 1,
        };
        config
            .locations
            .insert("permissions.mode".to_owned(), place);
        config.permissions_files =
            vec![(file("/p/.agents/mcp.json"), file("/p/.agents/config.json"))];
        config.permissions.deny = vec![RuleText {
            text: text.to_owned(),
            client: None,
            dialect,
            file: file(denied_in),
            line: 1,
        }];
        let gate = Gate::compile(&config).unwrap();
        assert_eq!(
            verdict(&decide(&gate, &tool(), &Grants::default())),
            expected,
            "{denied_in} {text}"
        );
        assert_eq!(
            gate.warnings().len(),
            warnings,
            "{denied_in}: {:?}",
            gate.warnings()
        );
    };
    let denied = |file: &str, text: &str| format!("deny: deny rule {text:?} ({file}:1)");
    check(
        "/p/.agents/mcp.json",
        Dialect::CoreAgent,
        "mcp:fs_write",
        "allow: mode yolo",
        1,
    );
    check(
        "/p/.agents/config.json",
        Dialect::CoreAgent,
        "mcp:fs_write",
        "allow: mode yolo",
        1,
    );
    for other in ["/home/.agents/mcp.json", "/p/.agents/more.json"] {
        check(
            other,
            Dialect::CoreAgent,
            "mcp:fs_write",
            &denied(other, "mcp:fs_write"),
            0,
        );
    }
    let own = "/p/switchboard.toml";
    check(
        own,
        Dialect::Native,
        "fs/write",
        &denied(own, "fs/write"),
        0,
    );
}

#[test]
fn s1_17_s1_18_s1_28_a_bare_prefix_is_that_whole_server_and_no_other() {
    let servers = &["filesystem", "filesystem2", "github", "remote-tools"];
    let check = |rule: &str, matching: &[_], others: &[_]| {
        check(Dialect::A3s, servers, rule, matching, others)
    };
    // S1-18, S1-28.
    check(
        "mcp__filesystem",
        &[
            ("filesystem", "read_file"),
            ("filesystem", "write_file"),
            ("filesystem", "a__b"),
        ],
        &[
            ("filesystem2", "read_file"),
            ("github", "filesystem"),
            ("remote-tools", "x"),
        ],
    );
    check(
        "mcp__remote-tools",
        &[("remote-tools", "x")],
        &[("filesystem", "x")],
    );
    // S1-17: a rule for a built-in tool does not match a server's tool of that name.
    check("Bash", &[], &[("filesystem", "Bash"), ("github", "bash")]);
    check("filesystem", &[], &[("filesystem", "read_file")]);
}

#[test]
fn s1_19_a_rule_with_a_tool_matches_one_tool() {
    let servers = &["github", "github2"];
    check(
        Dialect::A3s,
        servers,
        "mcp__github__create_issue",
        &[("github", "create_issue")],
        &[
            ("github", "create_issues"),
            ("github", "issue"),
            ("github2", "create_issue"),
        ],
    );
}

#[test]
fn s1_20_a_rule_with_a_star_matches_all_mcp_tools() {
    let servers = &["github", "remote-tools"];
    check(
        Dialect::A3s,
        servers,
        "mcp__*",
        &[("github", "a"), ("remote-tools", "b__c"), ("github", "x.y")],
        &[],
    );
}

#[test]
fn s4_16_s4_17_a_glob_is_matched_on_the_namespaced_name() {
    let servers = &["github", "git", "other"];
    let check = |rule: &str, matching: &[_], others: &[_]| {
        check(Dialect::AgentCode, servers, rule, matching, others)
    };
    // S4-17.
    check(
        "mcp__github__*",
        &[("github", "create_issue"), ("github", "a__b")],
        &[("git", "hub__create"), ("other", "github")],
    );
    check(
        "mcp__git*",
        &[("github", "x"), ("git", "x")],
        &[("other", "x")],
    );
    check(
        "mcp__*__create_*",
        &[("github", "create_issue"), ("other", "a__create_x")],
        &[("github", "recreate")],
    );
    check(
        "mcp__github__create_issue",
        &[("github", "create_issue")],
        &[("github", "create_issue2")],
    );
    // S4-16: the whole name, as for a built-in tool, and nothing else.
    check("*", &[("github", "x"), ("other", "y")], &[]);
    check(
        "*issue",
        &[("github", "create_issue")],
        &[("github", "issues")],
    );
    check("mcp__github", &[], &[("github", "x")]);
    check("github/x", &[], &[("github", "x")]);
    check("Bash", &[], &[("github", "Bash")]);
}

/// C14: an ambiguous allow is refused in other dialects too, with its readings.
#[test]
fn c14_an_ambiguous_allow_of_a_dialect_is_refused_with_its_readings() {
    let check = |dialect: Dialect, servers: &[&str], rule: &str, readings: &str| {
        let errors = Gate::compile(&config_in(dialect, servers, &[rule], &[])).unwrap_err();
        let expected = format!(
            "s.toml:1:1: permissions.allow: {rule:?} can be read as {readings}; write one of these instead"
        );
        assert_eq!(errors.to_string(), expected);
        assert!(
            Gate::compile(&config_in(dialect, servers, &[], &[rule])).is_ok(),
            "a deny holds for every reading"
        );
    };
    check(
        Dialect::CoreAgent,
        &["a", "a_b"],
        "mcp:a_b_c",
        "a/b_c or as a_b/c",
    );
    check(
        Dialect::CoreAgent,
        &["my-server", "my_server"],
        "mcp:my_server_do",
        "my-server/do or as my_server/do",
    );
    check(
        Dialect::A3s,
        &["a", "a__b"],
        "mcp__a__b",
        "a__b/* or as a/b",
    );
    check(
        Dialect::AgentCode,
        &["a", "a__b"],
        "mcp__a__*",
        "a/* or as a__*/*",
    );
    check(Dialect::Gemini, &["a", "a.b"], "a.b", "a.b/* or as a/b");
}

#[test]
fn a_rule_in_the_spelling_of_another_file_is_warned_about() {
    let check = |dialect: Dialect, rule: &str, expected: &[&str]| {
        let gate = Gate::compile(&config_in(dialect, &["fs"], &[], &[rule])).unwrap();
        let shown: Vec<&str> = gate
            .warnings()
            .iter()
            .map(|warning| warning.message.as_str())
            .collect();
        assert_eq!(shown, expected, "{rule}");
    };
    check(
        Dialect::CoreAgent,
        "fs",
        &["\"fs\" matches no server's tool here; expected \"mcp:server_tool\""],
    );
    check(Dialect::CoreAgent, "bash:git *", &[]);
    check(
        Dialect::CoreAgent,
        "mcp:gone_x",
        &["\"mcp:gone_x\" matches no configured server"],
    );
    check(
        Dialect::A3s,
        "fs",
        &[
            "\"fs\" matches no server's tool here; expected \"mcp__server\" or \"mcp__server__tool\"",
        ],
    );
    check(
        Dialect::A3s,
        "mcp__gone",
        &["\"mcp__gone\" matches no configured server"],
    );
    check(
        Dialect::A3s,
        "mcp__fs__",
        &["\"mcp__fs__\" matches no configured server"],
    );
    check(Dialect::AgentCode, "Bash", &[]);
    check(Dialect::AgentCode, "mcp__fs__*", &[]);
    check(
        Dialect::Gemini,
        "fs/x",
        &["\"fs/x\" matches no server's tool here; expected \"server\" or \"server.tool\""],
    );
}

#[test]
fn s2_39_keys_are_literal() {
    let servers = &["fs", "my server", "f*", "*"];
    let check = |rule: &str, matching: &[_], others: &[_]| {
        check(Dialect::Gemini, servers, rule, matching, others)
    };
    check(
        "fs",
        &[("fs", "read"), ("fs", "a.b")],
        &[("f*", "read"), ("my server", "fs")],
    );
    check(
        "fs.read",
        &[("fs", "read")],
        &[("fs", "read2"), ("f*", "read")],
    );
    check(
        "my server.do it",
        &[("my server", "do it")],
        &[("my server", "do")],
    );
    check("f*", &[("f*", "x")], &[("fs", "x")]);
    check("fs.a.b", &[("fs", "a.b")], &[("fs", "a")]);
    check("*", &[("*", "x")], &[("fs", "x")]);
    check("fs.*", &[("fs", "*")], &[("fs", "x")]);
}

#[test]
fn s2_39_s2_40_a_key_of_the_server_or_tool_allows_without_asking() {
    let gate = Gate::compile(&config_in(Dialect::Gemini, &["fs", "git"], &[], &[])).unwrap();
    let [named, write, log] = [("fs", "do it!"), ("fs", "write"), ("git", "log")]
        .map(|(server, tool)| tool_in(Dialect::Gemini, server, tool));
    let asked = |grants: &Grants| {
        [&named, &write, &log]
            .map(|tool| matches!(decide(&gate, tool, grants), Decision::Ask { .. }))
    };
    assert_eq!(named.exposed.as_str(), "do_it_");
    let mut grants = Grants::default();
    assert_eq!(asked(&grants), [true, true, true]);
    grants.add(&named);
    // With the server's own name for the tool, whatever its exposed name.
    assert_eq!(asked(&grants), [false, true, true]);
    grants.add_whole_server(&log, [&log]);
    assert_eq!(asked(&grants), [false, true, false]);
    grants.add_whole_server(&write, [&named, &write, &log]);
    assert_eq!(asked(&grants), [false, false, false]);

    // Tools that the server offers later are covered too; a changed tool, or another launch, is not
    // (T9).
    let decided = |tool: &Tool| verdict(&decide(&gate, tool, &grants));
    assert_eq!(
        decided(&tool_in(Dialect::Gemini, "fs", "new")),
        "allow: remembered approval"
    );
    let mut changed = tool_in(Dialect::Gemini, "fs", "write");
    changed.definition = definition("write", "something else");
    assert_eq!(decided(&changed), "ask: it changed since it was approved");
    let mut moved = tool_in(Dialect::Gemini, "fs", "new");
    moved.launch = crate::config::Fingerprint([7; 32]);
    assert_eq!(decided(&moved), "ask: no rule applies");
    assert_eq!(
        decided(&tool_in(Dialect::Gemini, "fs", "@sampling")),
        "ask: no rule applies"
    );
}

#[test]
fn s2_15_s2_38_only_an_untrusted_server_needs_approval() {
    let tool = |trust: bool, name: &str| {
        tool(
            ServerConfig {
                trust,
                dialect: Dialect::Gemini,
                ..server("fs")
            },
            definition(name, "d"),
        )
    };
    for name in ["read", "write", "wipe_everything"] {
        let decided = |trust: bool| {
            let tool = tool(trust, name);
            let config = config_in(Dialect::Gemini, &["fs"], &[], &[]);
            let gate = Gate::compile(&with_entry_of(&tool, config)).unwrap();
            verdict(&decide(&gate, &tool, &Grants::default()))
        };
        assert_eq!(decided(true), "allow: `trust` is set for server \"fs\"");
        assert_eq!(decided(false), "ask: no rule applies");
    }
    assert!(!server("fs").trust, "false by default");
}

/// C19: a change of a trusted server is pinned again after it was shown.
#[test]
fn c19_a_change_of_a_trusted_servers_tool_is_shown_once() {
    let gate = gate_that_trusts(Mode::Ask, &[], &[], &[]);
    let (then, mut now) = (trusted("fs", "read"), trusted("fs", "read"));
    now.definition = definition("read", "something else");
    assert!(gate.wants_pin(&then) && gate.only_shows_changes(&then));
    assert!(!gate.wants_pin(&of("git", "read")) && !gate.only_shows_changes(&of("git", "read")));
    let mut grants = Grants::default();
    assert_eq!(grants.replace_pin(&then), None, "nothing was known");
    grants.pin(&then).unwrap();
    assert_eq!(grants.replace_pin(&then), None, "nothing changed");
    assert_eq!(
        verdict(&decide(&gate, &now, &grants)),
        "allow: `trust` is set for server \"fs\""
    );
    let (lines, pin) = grants.replace_pin(&now).unwrap();
    assert_eq!(
        lines,
        [
            "- description: what it does",
            "+ description: something else"
        ]
    );
    assert_eq!(
        Grant::from_json(&pin.to_json()).unwrap().definition,
        now.definition.hash
    );
    assert_eq!(grants.replace_pin(&now), None, "it is known now");
    assert_eq!(grants.change_of(&now), None);
}
