//! Permission rules in every dialect: they compile or are rejected with a message, and one more
//! `deny` or `ask` never allows more.

use std::path::PathBuf;
use std::sync::Arc;

use switchboard::config::{Config, ConfigFile, Dialect, RuleText, Scope};
use switchboard::fuzzing::{decide, load_text};
use switchboard::gate::{Decision, Gate};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "rules",
    seeds: &[
        "a/x\nmcp__a__x\na.x",
        "mcp:a_b_*\nmcp__*\na/*\n*/x",
        "a_b/y\n{a,b}/[xy]\nmcp__a\nmcp:*",
        "b\n*\nlist_*\nmcp__a_b__y",
    ],
    words: &[
        "/", "__", "_", "mcp__", "mcp:", "*", ".", "a", "a_b", "{a,", "}", "[", "]", "\\", "\n",
        "@host", "?",
    ],
    check,
};

const DIALECTS: [Dialect; 6] = [
    Dialect::Native,
    Dialect::CoreAgent,
    Dialect::A3s,
    Dialect::Gemini,
    Dialect::AgentCode,
    Dialect::McpJson,
];

fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    // Short patterns, and long ones that are rejected: those between are too slow in a debug build.
    let mut rules: Vec<&str> = text
        .lines()
        .filter(|line| !(60..1000).contains(&line.len()))
        .take(6)
        .collect();
    let Some(extra) = rules.pop() else { return };
    let file = ConfigFile::new(PathBuf::from("/nonexistent/switchboard.toml"), Scope::Given);
    let servers =
        "[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'x'\n[servers.a_b]\ncommand = 'x'\n";
    let base = load_text(&file, servers).expect("a good file");
    for dialect in DIALECTS {
        let rule = |text: &str| RuleText {
            text: text.to_owned(),
            file: Arc::new(file.path.clone()),
            line: 1,
            client: None,
            dialect,
        };
        let mut config = Config::clone(&base);
        for (index, text) in rules.iter().enumerate() {
            let permissions = &mut config.permissions;
            [
                &mut permissions.deny,
                &mut permissions.ask,
                &mut permissions.allow,
            ][index % 3]
                .push(rule(text));
        }
        let Some(before) = compiled(&config) else {
            continue;
        };
        let (mut denies, mut asks) = (config.clone(), config);
        denies.permissions.deny.push(rule(extra));
        asks.permissions.ask.push(rule(extra));
        for more in [denies, asks].iter().filter_map(compiled) {
            for (server, tool) in [
                ("a", "x"),
                ("a", "b_y"),
                ("b", "x"),
                ("a_b", "y"),
                ("b", "x/y"),
            ] {
                let reach = |gate: &Gate| {
                    decide(gate, &base, server, tool)
                        .as_ref()
                        .map(reach)
                        .expect("a tool of a server")
                };
                assert!(
                    reach(&more) <= reach(&before),
                    "{extra:?} allows more of {server}/{tool}"
                );
            }
        }
    }
}

fn compiled(config: &Config) -> Option<Gate> {
    match Gate::compile(config) {
        Ok(gate) => Some(gate),
        Err(errors) => {
            for error in &errors.0 {
                let told = error.to_string();
                assert!(
                    told.len() < 8_000 && !told.contains(|c: char| c.is_control()),
                    "{told:?}"
                );
            }
            assert!(!errors.0.is_empty());
            None
        }
    }
}

fn reach(decision: &Decision) -> u8 {
    match decision {
        Decision::Deny { .. } => 0,
        Decision::Ask { .. } => 1,
        _ => 2,
    }
}
