//! Tests of what happens to servers and rules when a configuration changes, as tables and as
//! properties.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::rules::{is_same_rule, stricter};
use super::*;
use crate::config::{Dialect, Protocol, RuleText, Scope, Source, StdioEndpoint, Timeouts};

fn name(text: &str) -> ServerName {
    ServerName::new(text).unwrap()
}

fn server(text: &str, command: &str) -> ServerConfig {
    let source = Source::new(
        Arc::new(PathBuf::from("/etc/switchboard.toml")),
        3,
        Scope::User,
    );
    ServerConfig::new(
        name(text),
        source,
        Endpoint::Stdio(StdioEndpoint::new(command, [""; 0])),
    )
}

fn config(servers: impl IntoIterator<Item = ServerConfig>) -> Config {
    servers.into_iter().collect()
}

fn rule(text: &str) -> RuleText {
    RuleText {
        text: text.to_owned(),
        client: None,
        dialect: Dialect::Native,
        file: Arc::new(PathBuf::from("f")),
        line: 1,
    }
}

fn started(_: &ServerName) -> Option<String> {
    None
}

/// The difference without a person's approval.
fn changed(old: &Config, new: &Config) -> Difference {
    difference(old, &started, new, ReloadApproval::FileChange(&|_| false))
}

fn words(change: &ServerChange) -> &str {
    match change {
        ServerChange::Keep => "keep",
        ServerChange::UpdateConfig => "adopt",
        ServerChange::Start => "begin",
        ServerChange::StartTogether => "begin together",
        ServerChange::Wait(_) => "wait",
    }
}

/// T3: what a reload accepts is listed, also from files that are not watched, and nothing else is.
#[test]
fn t3_a_persons_reload_lists_each_new_launch_and_each_wider_rule() {
    for dialect in [Dialect::Native, Dialect::CoreAgent] {
        let of = |server: ServerConfig| ServerConfig { dialect, ..server };
        let old = [server("a", "old"), server("b", "same"), server("gone", "x")];
        let mut old = config(old.map(of));
        let new = [server("a", "new"), server("b", "same"), server("c", "more")];
        let mut new = config(new.map(of));
        for config in [&mut old, &mut new] {
            config.permissions.configured = true;
            config.permissions.only_unwatched = dialect == Dialect::CoreAgent;
        }
        let rule = |text: &str| RuleText {
            dialect,
            ..rule(text)
        };
        old.permissions.deny = vec![rule("b/drop")];
        new.permissions.allow = vec![rule("b")];
        new.permissions.deny = vec![rule("c")];
        let found = widening(&old, &started, &new, &|_| false);
        let found: Vec<_> = (found.iter())
            .map(|change| {
                (
                    change.server.as_ref().map(ServerName::as_str),
                    &*change.reason,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (Some("c"), "it is new (/etc/switchboard.toml:3)"),
                (None, "a new rule would allow \"b\""),
                (None, "\"b/drop\" would no longer be denied"),
                (
                    Some("a"),
                    "what it runs has changed (/etc/switchboard.toml:3)"
                ),
            ],
            "{dialect:?}"
        );
        assert_eq!(widening(&new, &started, &new, &|_| false), []);
    }
}

/// Checks what happens to server `a` when its file changes and when a person reloads; and the
/// number of pending changes.
fn check(old: ServerConfig, new: ServerConfig, watched: &str, pending: usize, on_request: &str) {
    let (old, new) = (config([old]), config([new]));
    let found = changed(&old, &new);
    assert_eq!(
        (words(&found.changes["a"]), found.pending.len()),
        (watched, pending),
        "{new:?}: {:?}",
        found.pending
    );
    let found = difference(&old, &started, &new, ReloadApproval::Person);
    assert_eq!(
        (
            words(&found.changes["a"]),
            found.pending.len(),
            found.config
        ),
        (on_request, 0, new)
    );
}

#[test]
fn c20_a_changed_entry_keeps_updates_or_restarts_its_server() {
    let a = || server("a", "x");
    let line = Source {
        line: 90,
        ..a().source
    };
    let timeouts = Timeouts {
        call: Duration::from_secs(1),
        ..Timeouts::default()
    };
    check(a(), a(), "keep", 0, "keep");
    check(
        a(),
        ServerConfig {
            source: line,
            ..a()
        },
        "keep",
        0,
        "keep",
    );
    check(a(), ServerConfig { timeouts, ..a() }, "adopt", 0, "adopt");
    check(
        a(),
        ServerConfig {
            exclude_tools: vec!["t".into()],
            ..a()
        },
        "adopt",
        0,
        "adopt",
    );
    check(
        ServerConfig {
            exclude_tools: vec!["t".into()],
            ..a()
        },
        a(),
        "adopt",
        0,
        "adopt",
    );
    check(
        a(),
        ServerConfig {
            protocol: Protocol::Legacy,
            ..a()
        },
        "begin",
        0,
        "begin",
    );
    check(
        a(),
        ServerConfig {
            enabled: false,
            ..a()
        },
        "begin",
        0,
        "begin",
    );
    check(a(), server("a", "y"), "keep", 1, "begin");
    check(
        a(),
        ServerConfig {
            timeouts,
            ..server("a", "y")
        },
        "adopt",
        1,
        "begin",
    );
    check(
        a(),
        ServerConfig {
            dialect: Dialect::Gemini,
            ..a()
        },
        "keep",
        1,
        "begin",
    );
    check(
        ServerConfig {
            enabled: false,
            ..a()
        },
        a(),
        "wait",
        0,
        "begin",
    );
    check(a(), ServerConfig { trust: true, ..a() }, "keep", 1, "adopt");
    check(
        ServerConfig { trust: true, ..a() },
        a(),
        "adopt",
        0,
        "adopt",
    );
    // Its tools run without approval, so the filter is what restricts them.
    let trusted = |exclude: &[&str]| ServerConfig {
        trust: true,
        exclude_tools: exclude.iter().map(|&tool| tool.to_owned()).collect(),
        ..a()
    };
    check(trusted(&["t"]), trusted(&[]), "keep", 1, "adopt");
    check(trusted(&[]), trusted(&["t"]), "adopt", 0, "adopt");
}

#[test]
fn t3_a_new_server_waits_in_every_scope_until_exactly_it_is_accepted() {
    for scope in [Scope::User, Scope::Project, Scope::Given] {
        let source = Source::new(Arc::new(PathBuf::from("/etc/switchboard.toml")), 7, scope);
        let (old, new) = (
            config([server("a", "x")]),
            config([
                server("a", "x"),
                ServerConfig {
                    source,
                    ..server("b", "y")
                },
            ]),
        );
        let found = changed(&old, &new);
        let reason = "it is new (/etc/switchboard.toml:7); it starts once a person has accepted it"
            .to_owned();
        assert_eq!(
            (&found.changes["a"], &found.changes["b"]),
            (&ServerChange::Keep, &ServerChange::Wait(reason.clone()))
        );

        // Another edit does not start it either, and the reason stays that of the first.
        let waits = |server: &ServerName| (server.as_str() == "b").then(|| reason.clone());
        let again = difference(
            &found.config,
            &waits,
            &new,
            ReloadApproval::FileChange(&|_| false),
        );
        assert_eq!(again, found);
        let yes = difference(
            &found.config,
            &waits,
            &new,
            ReloadApproval::FileChange(&|server| server.name.as_str() == "b"),
        );
        assert_eq!(
            (words(&yes.changes["a"]), words(&yes.changes["b"])),
            ("keep", "begin")
        );
    }
}

#[test]
fn an_unblocked_server_waits_and_a_blocked_one_stops_also_in_a_file_that_is_not_watched() {
    for dialect in [Dialect::Native, Dialect::CoreAgent] {
        let of = |text: &str| ServerConfig {
            dialect,
            ..server(text, "x")
        };
        let free = config([of("a"), of("b")]);
        let mut denied = free.clone();
        denied.security.deny_servers = vec!["a".to_owned()];
        let mut only_b = free.clone();
        only_b.security.allow_servers = vec!["b".to_owned()];
        for blocked in [denied, only_b] {
            let check = |old: &Config, new: &Config, expected: [&str; 2]| {
                let changes = changed(old, new).changes;
                let found: Vec<_> = changes.values().map(words).collect();
                assert_eq!(found, expected, "{dialect:?}");
            };
            check(&free, &blocked, ["begin", "keep"]);
            check(&blocked, &free, ["wait", "keep"]);
        }
    }
}

#[test]
fn tightened_rules_apply_at_once_and_widened_ones_are_pending() {
    let mut old = config([server("a", "x")]);
    (old.permissions.allow, old.permissions.ask) = (vec![rule("a/one")], vec![rule("a/two")]);
    (old.permissions.deny, old.permissions.mode) = (vec![rule("a/three")], Mode::Ask);
    let mut new = old.clone();
    (new.permissions.allow, new.permissions.ask) = (vec![rule("a/four")], vec![rule("a/five")]);
    (new.permissions.deny, new.permissions.mode) = (vec![rule("a/six")], Mode::Yolo);

    let found = changed(&old, &new);
    let texts = |rules: &[RuleText]| {
        rules
            .iter()
            .map(|rule| rule.text.clone())
            .collect::<Vec<_>>()
    };
    let now = &found.config.permissions;
    assert_eq!(
        (
            now.mode,
            texts(&now.allow),
            texts(&now.ask),
            texts(&now.deny)
        ),
        (
            Mode::Ask,
            vec![],
            vec!["a/five".to_owned(), "a/two".to_owned()],
            vec!["a/six".to_owned(), "a/three".to_owned()]
        )
    );
    let reasons: Vec<&str> = found
        .pending
        .iter()
        .map(|pending| pending.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "the mode would be less strict",
            "a new rule would allow \"a/four\"",
            "\"a/two\" would no longer be asked about",
            "\"a/three\" would no longer be denied",
        ]
    );
    assert_eq!(
        difference(&old, &started, &new, ReloadApproval::Person)
            .config
            .permissions,
        new.permissions
    );
}

/// S0-39: entries of a file that is not watched stay as loaded, whatever changes in other files.
#[test]
fn s0_39_an_edit_of_a_core_agent_file_takes_effect_only_on_a_persons_reload() {
    let core = |text: &str, command: &str| ServerConfig {
        dialect: Dialect::CoreAgent,
        ..server(text, command)
    };
    let old = config([core("a", "x"), core("b", "x"), server("c", "x")]);
    let new = config([core("a", "y"), core("d", "x"), server("c", "x")]);
    let found = changed(&old, &new);
    let entries: Vec<_> = found
        .config
        .servers
        .values()
        .map(|server| (**server).clone())
        .collect();
    assert_eq!(entries, [core("a", "x"), server("c", "x"), core("b", "x")]);
    assert!(
        found
            .changes
            .values()
            .all(|change| *change == ServerChange::Keep)
            && found.removed.is_empty()
            && found.pending.is_empty()
    );

    let on_request = difference(&old, &started, &new, ReloadApproval::Person);
    assert_eq!(
        on_request.changes.values().map(words).collect::<Vec<_>>(),
        ["begin together", "begin together", "keep"]
    );
    assert_eq!(
        (on_request.removed, on_request.config),
        (vec![name("b")], new)
    );
}

/// S0-39: the mode and the permissions section of a file that is not watched stay as loaded, too.
#[test]
fn s0_39_an_edit_of_a_core_agent_files_permissions_takes_effect_only_on_a_persons_reload() {
    let of = |mode, dialect, only_unwatched| {
        let mut config = config([]);
        config.permissions.mode = mode;
        config.permissions.mode_dialect = dialect;
        config.permissions.configured = true;
        config.permissions.only_unwatched = only_unwatched;
        config
    };
    let core = |mode| of(mode, Some(Dialect::CoreAgent), true);
    let native = |mode| of(mode, Some(Dialect::Native), false);
    let (unset, none) = (of(Mode::Ask, None, true), config([]));
    let less = "the mode would be less strict";
    for (old, new, mode, pending) in [
        (core(Mode::Yolo), core(Mode::Ask), Mode::Yolo, None),
        (core(Mode::Ask), core(Mode::Yolo), Mode::Ask, None),
        (core(Mode::Yolo), unset.clone(), Mode::Yolo, None),
        (unset, core(Mode::Yolo), Mode::Ask, None),
        (none.clone(), core(Mode::Yolo), Mode::Ask, None),
        (core(Mode::Yolo), none, Mode::Yolo, None),
        // A watched file sets the mode now, or no longer does.
        (core(Mode::Yolo), native(Mode::Deny), Mode::Deny, None),
        (native(Mode::Deny), core(Mode::Yolo), Mode::Deny, Some(less)),
        (
            native(Mode::Deny),
            native(Mode::Ask),
            Mode::Deny,
            Some(less),
        ),
    ] {
        let found = changed(&old, &new);
        let now = &found.config.permissions;
        let is_configured = old.permissions.configured || !new.permissions.only_unwatched;
        let reasons: Vec<_> = found.pending.iter().map(|one| &*one.reason).collect();
        assert_eq!(
            (now.mode, now.configured, reasons),
            (mode, is_configured, pending.into_iter().collect()),
            "{:?} to {:?}",
            old.permissions,
            new.permissions
        );
        assert_eq!(changed(&found.config, &new).config, found.config, "again");
        let on_request = difference(&old, &started, &new, ReloadApproval::Person);
        assert_eq!(on_request.config, new);
    }
}

fn any_server(text: &'static str) -> impl Strategy<Value = ServerConfig> {
    let dialect = prop_oneof![
        Just(Dialect::Native),
        Just(Dialect::CoreAgent),
        Just(Dialect::Gemini)
    ];
    let tools = || {
        prop::collection::vec(
            prop_oneof![Just("t".to_owned()), Just("u".to_owned())],
            0..2,
        )
    };
    let protocol = prop_oneof![Just(Protocol::Auto), Just(Protocol::Legacy)];
    (
        dialect,
        prop_oneof![Just("x"), Just("y")],
        any::<[bool; 2]>(),
        prop::option::of(tools()),
        tools(),
        protocol,
        1..3_u64,
    )
        .prop_map(
            move |(
                dialect,
                command,
                [enabled, trust],
                include_tools,
                exclude_tools,
                protocol,
                seconds,
            )| ServerConfig {
                dialect,
                enabled,
                trust,
                include_tools,
                exclude_tools,
                protocol,
                timeouts: Timeouts {
                    call: Duration::from_secs(seconds),
                    ..Timeouts::default()
                },
                ..server(text, command)
            },
        )
}

fn any_config() -> impl Strategy<Value = Config> {
    let servers = (
        prop::option::of(any_server("a")),
        prop::option::of(any_server("b")),
        prop::option::of(any_server("c")),
    );
    let rules = || {
        prop::collection::vec(
            prop_oneof![Just("a"), Just("b/t"), Just("*/u")].prop_map(rule),
            0..3,
        )
    };
    let names = || {
        prop::collection::vec(
            prop_oneof![Just("a".to_owned()), Just("b".to_owned())],
            0..2,
        )
    };
    let mode = prop_oneof![Just(Mode::Ask), Just(Mode::Yolo), Just(Mode::Deny)];
    (
        servers,
        rules(),
        rules(),
        rules(),
        names(),
        names(),
        mode,
        any::<bool>(),
    )
        .prop_map(
            |((a, b, c), allow, ask, deny, deny_servers, allow_servers, mode, locked)| {
                let mut config = config([a, b, c].into_iter().flatten());
                (
                    config.permissions.allow,
                    config.permissions.ask,
                    config.permissions.deny,
                ) = (allow, ask, deny);
                (config.permissions.mode, config.security.locked) = (mode, locked);
                (config.security.deny_servers, config.security.allow_servers) =
                    (deny_servers, allow_servers);
                config
            },
        )
}

proptest! {
    /// T3, F33: after a file changed, nothing runs, is trusted or is allowed that was not before.
    #[test]
    fn t3_an_unapproved_change_starts_and_allows_nothing_new(old in any_config(), new in any_config()) {
        let found = changed(&old, &new);
        for (name, change) in &found.changes {
            let (before, now) = (old.servers.get(name), &found.config.servers[name]);
            let ran = before.is_some_and(|before| may_run(before, &old));
            let same = before.is_some_and(|before| is_same_launch(before, now));
            match change {
                ServerChange::Keep | ServerChange::UpdateConfig => prop_assert!(before.is_some() && (same || !ran)),
                ServerChange::Start => prop_assert!((ran && same) || !may_run(now, &new)),
                ServerChange::StartTogether => prop_assert!(false),
                ServerChange::Wait(_) => prop_assert!(!ran),
            }
            if *change != ServerChange::Start && !matches!(change, ServerChange::Wait(_)) {
                prop_assert!(!now.trust || before.is_some_and(|before| before.trust));
            }
        }
        let (before, now) = (&old.permissions, &found.config.permissions);
        let has = |rules: &[RuleText], rule: &RuleText| rules.iter().any(|known| is_same_rule(known, rule));
        prop_assert_eq!(stricter(before.mode, now.mode), now.mode);
        prop_assert!(now.allow.iter().all(|rule| has(&before.allow, rule)));
        prop_assert!(before.deny.iter().all(|rule| has(&now.deny, rule)));
        prop_assert!(before.ask.iter().all(|rule| has(&now.ask, rule)));
        prop_assert!(found.config.security.locked || !old.security.locked);
        // Restrictions take effect.
        prop_assert!(new.permissions.deny.iter().all(|rule| has(&now.deny, rule)));
        prop_assert_eq!(stricter(new.permissions.mode, now.mode), now.mode);
    }

    /// Applying the same change again has no effect, and a person's reload applies all of it.
    #[test]
    fn f33_unchanged_servers_are_not_touched(old in any_config(), new in any_config()) {
        let same = changed(&old, &old);
        prop_assert!(same.changes.values().all(|change| *change == ServerChange::Keep), "{:?}", same.changes);
        prop_assert!(same.removed.is_empty() && same.pending.is_empty());
        prop_assert_eq!(&same.config, &old);

        let first = changed(&old, &new);
        let waits = |name: &ServerName| match &first.changes[name] {
            ServerChange::Wait(why) => Some(why.clone()),
            _ => None,
        };
        let again = difference(&first.config, &waits, &new, ReloadApproval::FileChange(&|_| false));
        prop_assert_eq!(&again.config, &first.config);
        prop_assert_eq!(&again.pending, &first.pending);
        prop_assert!(again.changes.values().all(|change| matches!(change, ServerChange::Keep | ServerChange::Wait(_))), "{:?}", again.changes);

        let on_request = difference(&old, &started, &new, ReloadApproval::Person);
        prop_assert_eq!((&on_request.config, on_request.pending.len()), (&new, 0));
    }
}
