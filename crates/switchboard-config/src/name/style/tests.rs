//! Tests of the naming styles: tables from the dialects' documentation, and properties over
//! adversarial names.

#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::super::{ServerName, ToolName};
use super::*;

fn pair(server: &str, tool: &str) -> ToolId {
    ToolId {
        server: ServerName::lenient(server).unwrap(),
        tool: ToolName::new(tool),
    }
}

/// Names the pairs; a withheld one is its reason in angle brackets.
fn expose(style: Style, pairs: &[(&str, &str)]) -> Vec<String> {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(server, tool)| pair(server, tool))
        .collect();
    style
        .expose(&pairs)
        .into_iter()
        .map(|name| name.map_or_else(|no| format!("<{no}>"), |name| name.to_string()))
        .collect()
}

#[test]
fn every_style_has_one_word() {
    for style in [
        Style::Mcp,
        Style::ServerTool,
        Style::ServerDashTool,
        Style::FirstWins,
        Style::Identity,
    ] {
        assert_eq!(Style::parse(style.word()), Some(style));
    }
    assert_eq!(
        Style::words().collect::<Vec<_>>(),
        [
            "mcp",
            "server_tool",
            "server-tool",
            "first-wins",
            "identity"
        ]
    );
    assert_eq!(Style::parse("MCP"), None);
}

#[test]
fn s1_16_s1_27_s4_03_native_names_are_spelled_as_documented() {
    let long = "t".repeat(128);
    let pairs = [
        ("filesystem", "read_file"),
        ("remote-tools", "x"),
        ("github", "create_repository"),
        ("a", "b__c"),
        ("a", "_b"),
        ("srv", "a.b"),
        ("file.system", "v1/get:all"),
        ("fs", &long),
    ];
    let spelled = pairs.map(|(server, tool)| format!("mcp__{server}__{tool}"));
    assert_eq!(expose(Style::Mcp, &pairs), spelled);
}

#[test]
fn c2_changed_or_truncated_native_names_end_in_the_hash_of_their_pair() {
    let long = "t".repeat(260);
    let spaced = pair_hash(&pair("fs", "read file"));
    let lengthy = pair_hash(&pair("fs", &long));
    let imitated = format!("read_file_{spaced}");
    let imitation = pair_hash(&pair("fs", &imitated));
    let unclear = pair_hash(&pair("a__b", "c"));
    assert_eq!(
        expose(
            Style::Mcp,
            &[
                ("fs", "read file"),
                ("fs", &long),
                ("fs", &imitated),
                ("a__b", "c"),
                ("a", "b__c")
            ]
        ),
        [
            format!("mcp__fs__read_file_{spaced}"),
            format!("mcp__fs__{}_{lengthy}", "t".repeat(44)),
            format!("mcp__fs__{imitated}_{imitation}"),
            format!("mcp__a__b__c_{unclear}"),
            "mcp__a__b__c".to_owned(),
        ]
    );
}

#[test]
fn the_hash_of_a_pair_never_changes_between_versions() {
    assert_eq!(pair_hash(&pair("fs", "read.file")), "43hxmzdjuy");
    assert_ne!(pair_hash(&pair("a", "bc")), pair_hash(&pair("ab", "c")));
}

#[test]
fn c2_a_collision_that_remains_withholds_both() {
    let both = expose(Style::Mcp, &[("a", "x"), ("a", "x"), ("a", "y")]);
    assert_eq!(
        both,
        [
            "<its name mcp__a__x is also that of a/x>",
            "<its name mcp__a__x is also that of a/x>",
            "mcp__a__y"
        ]
        .map(str::to_owned)
    );
}

#[test]
fn s0_18_to_s0_21_and_s0_44_server_tool() {
    let long = "t".repeat(70);
    let met = pair_hash(&pair("a_b", "c"));
    let cut = pair_hash(&pair("fs", &long));
    assert_eq!(
        expose(
            Style::ServerTool,
            &[
                ("filesystem", "read_file"),
                ("my-server", "x"),
                ("file.system", "a.b"),
                ("a", "b_c"),
                ("a_b", "c"),
                ("fs", &long)
            ]
        ),
        [
            "filesystem_read_file".to_owned(),
            "my_server_x".to_owned(),
            "file_system_a_b".to_owned(),
            "a_b_c".to_owned(),
            format!("a_b_c_{met}"),
            format!("fs_{}_{cut}", "t".repeat(50)),
        ]
    );
}

#[test]
fn s3_10_s3_11_s3_24_server_dash_tool() {
    let met = pair_hash(&pair("filesystem", "Read--File"));
    assert_eq!(
        expose(
            Style::ServerDashTool,
            &[
                ("filesystem", "read_file"),
                ("filesystem", "Read--File"),
                ("My Server", "_do  it_"),
                ("x", "…"),
                ("x", "")
            ]
        ),
        [
            "filesystem-read-file".to_owned(),
            format!("filesystem-read-file-{met}"),
            "my-server-do-it".to_owned(),
            "<its name has no letter or digit left after sanitising>".to_owned(),
            "<its name has no letter or digit left after sanitising>".to_owned(),
        ]
    );
}

#[test]
fn s2_25_to_s2_28_first_wins() {
    let long = format!("{}{}", "a".repeat(40), "z".repeat(40));
    let third = pair_hash(&pair("b", "search"));
    assert_eq!(
        expose(
            Style::FirstWins,
            &[
                ("a", "search"),
                ("b", "b__search"),
                ("b", "search"),
                ("c", "search"),
                ("c", "a b:c.d-é"),
                ("c", &long),
                ("c", "")
            ]
        ),
        [
            "search".to_owned(),
            "b__search".to_owned(),
            format!("b__search_{third}"),
            "c__search".to_owned(),
            "a_b_c.d-_".to_owned(),
            format!("{}___{}", "a".repeat(28), "z".repeat(32)),
            "<its name is empty>".to_owned(),
        ]
    );
}

/// S2-26: 63 characters are kept, and longer names are cut in the middle; a prefix counts too.
#[test]
fn s2_26_a_name_longer_than_63_characters_is_cut_in_the_middle() {
    let long = |length: usize| {
        "abcdefghijklmnopqrstuvwxyz0123456789"
            .chars()
            .cycle()
            .take(length)
            .collect::<String>()
    };
    let cut = |name: &str| format!("{}___{}", &name[..28], &name[name.len() - 32..]);
    let check = |pairs: &[(&str, &str)], expected: &[String]| {
        assert_eq!(expose(Style::FirstWins, pairs), expected)
    };
    check(&[("a", &long(63))], &[long(63)]);
    check(&[("a", &long(64))], &[cut(&long(64))]);
    assert_eq!(cut(&long(64)).len(), 63);
    check(
        &[("a", &long(60)), ("b", &long(60))],
        &[long(60), format!("b__{}", long(60))],
    );
    check(
        &[("a", &long(61)), ("b", &long(61))],
        &[long(61), cut(&format!("b__{}", long(61)))],
    );
}

#[test]
fn identity_changes_no_names_and_withholds_collisions() {
    assert_eq!(
        expose(
            Style::Identity,
            &[("a", "x.y"), ("a", "z"), ("b", "z"), ("b", "no way")]
        ),
        [
            "x.y",
            "<its name z is also that of b/z>",
            "<its name z is also that of a/z>",
            "<its name is not 1 to 128 of A-Z a-z 0-9 _ . -, and this naming style changes no names>"
        ]
    );
}

#[test]
fn ten_thousand_colliding_tools_are_named_in_linear_time() {
    let pairs: Vec<_> = (0..10_000)
        .map(|index| pair(&format!("s{index}"), "same"))
        .collect();
    for style in [
        Style::Mcp,
        Style::ServerTool,
        Style::ServerDashTool,
        Style::FirstWins,
        Style::Identity,
    ] {
        assert_eq!(style.expose(&pairs).len(), pairs.len());
    }
}

/// Similar names: few letters, separators, long names, and names that imitate the hash of another
/// pair.
fn pairs() -> impl Strategy<Value = Vec<ToolId>> {
    let server = prop_oneof![
        "[ab_-]{1,4}".prop_filter("native", |name| ServerName::new(name).is_ok()),
        "[a-b]{30,32}",
        "[ab.:_ -]{1,5}",
        "[ab_]{120}",
    ];
    let tool = prop_oneof![
        "[ab_.-]{1,5}",
        "[A-Ba-b_]{40,80}",
        "\\PC{0,6}",
        any::<String>()
    ];
    let imitating =
        proptest::collection::vec((server, tool, 0..4_u8, any::<prop::sample::Index>()), 1..24);
    imitating.prop_map(|drawn| {
        let mut pairs: Vec<ToolId> = Vec::new();
        let mut seen = HashSet::new();
        for (server, tool, imitate, victim) in drawn {
            let tool = match imitate {
                0 if !pairs.is_empty() => {
                    let victim = &pairs[victim.index(pairs.len())];
                    format!("{}_{}", victim.tool.as_wire(), pair_hash(victim))
                }
                1 if !pairs.is_empty() => {
                    // The exposed name of the victim, without the prefix of the style.
                    let victim = &pairs[victim.index(pairs.len())];
                    let mut name = native(victim);
                    name.split_off(
                        name.len()
                            .min("mcp__".len() + victim.server.as_str().chars().count() + 2),
                    )
                }
                _ => tool,
            };
            let pair = pair(&server, &tool);
            if seen.insert(pair.clone()) {
                pairs.push(pair);
            }
        }
        pairs
    })
}

fn by_pair(style: Style, pairs: &[ToolId]) -> HashMap<ToolId, Option<ExposedName>> {
    pairs
        .iter()
        .cloned()
        .zip(style.expose(pairs).into_iter().map(Result::ok))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn t10_no_two_pairs_share_a_name(pairs in pairs()) {
        for style in [Style::Mcp, Style::ServerTool, Style::ServerDashTool, Style::FirstWins, Style::Identity] {
            let names: Vec<_> = style.expose(&pairs).into_iter().flatten().collect();
            let distinct: HashSet<_> = names.iter().collect();
            prop_assert_eq!(names.len(), distinct.len(), "{:?}", style);
        }
    }

    #[test]
    fn t10_native_names_withhold_nothing_and_depend_on_the_pair_alone(pairs in pairs(), rotate in any::<prop::sample::Index>()) {
        let before = by_pair(Style::Mcp, &pairs);
        prop_assert!(before.values().all(Option::is_some));
        let mut turned = pairs.clone();
        turned.rotate_left(rotate.index(pairs.len()));
        turned.reverse();
        prop_assert_eq!(&before, &by_pair(Style::Mcp, &turned));
        for pair in &pairs {
            prop_assert_eq!(&before[pair], &by_pair(Style::Mcp, std::slice::from_ref(pair))[pair]);
        }
    }

    #[test]
    fn t10_every_style_keeps_to_its_characters_and_length(pairs in pairs()) {
        let check = |style: Style, longest: usize, allowed: fn(u8) -> bool| {
            style.expose(&pairs).into_iter().flatten().all(|name| {
                (1..=longest).contains(&name.as_str().len()) && name.as_str().bytes().all(allowed)
            })
        };
        prop_assert!(check(Style::Mcp, 256, is_inert));
        prop_assert!(check(Style::ServerTool, 64, is_word));
        prop_assert!(check(Style::ServerDashTool, 64, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')));
        prop_assert!(check(Style::FirstWins, 63, is_dotted));
        prop_assert!(check(Style::Identity, 128, is_dotted));
    }
}
