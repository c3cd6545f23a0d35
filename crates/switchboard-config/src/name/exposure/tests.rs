//! Tests of names across servers of different styles, and over a run.

#![allow(clippy::unwrap_used)]

use super::super::ToolName;
use super::*;

fn pair(server: &str, tool: &str) -> ToolId {
    ToolId {
        server: ServerName::lenient(server).unwrap(),
        tool: ToolName::new(tool),
    }
}

/// One request: server, tool, style, whether the bare name is allowed.
type RequestedName<'a> = (&'a str, &'a str, Style, bool);

/// The assigned names; `…` for a pending one, the reason in angle brackets for a withheld one.
fn named(
    requested: &[RequestedName<'_>],
    own: &[&str],
    published: &mut Arc<AssignedNames>,
) -> Vec<String> {
    let pairs: Vec<_> = requested
        .iter()
        .map(|(server, tool, ..)| pair(server, tool))
        .collect();
    let wishes: Vec<_> = requested
        .iter()
        .zip(&pairs)
        .map(|((_, _, style, may_be_bare), pair)| NameRequest {
            pair,
            style: *style,
            may_be_bare: *may_be_bare,
        })
        .collect();
    let own = own.iter().copied().collect();
    let shown = |name: Result<ExposedName, NamingError>| match name {
        Ok(name) => name.to_string(),
        Err(NamingError::Pending) => "…".to_owned(),
        Err(NamingError::Withheld(why)) => format!("<{why}>"),
    };
    expose(
        &wishes,
        ReservedNames {
            own: &own,
            builtin: &["Bash"],
        },
        published,
    )
    .into_iter()
    .map(shown)
    .collect()
}

fn once(requested: &[RequestedName<'_>], own: &[&str]) -> Vec<String> {
    named(requested, own, &mut Arc::default())
}

const BARE: Style = Style::FirstWins;

#[test]
fn c1_each_servers_tools_are_named_in_its_own_style() {
    let named = once(
        &[
            ("filesystem", "read_file", Style::ServerTool, true),
            ("github", "read_file", Style::Mcp, true),
            ("py", "read_file", BARE, true),
            ("js", "read_file", BARE, true),
            ("App", "read_file", Style::ServerDashTool, true),
        ],
        &[],
    );
    assert_eq!(
        named,
        [
            "filesystem_read_file",
            "mcp__github__read_file",
            "read_file",
            "js__read_file",
            "app-read-file"
        ]
    );
}

#[test]
fn c2_in_a_collision_of_styles_the_later_name_ends_in_its_hash() {
    let hash = |server: &str, tool: &str| Style::hash_of(&pair(server, tool));
    let check = |requested: &[RequestedName<'_>; 2], expected: [String; 2]| {
        assert_eq!(once(requested, &[]), expected, "{requested:?}")
    };
    check(
        &[("g", "mcp__a__b", BARE, true), ("a", "b", Style::Mcp, true)],
        [
            "mcp__a__b".to_owned(),
            format!("mcp__a__b_{}", hash("a", "b")),
        ],
    );
    check(
        &[("a", "b", Style::Mcp, true), ("g", "mcp__a__b", BARE, true)],
        ["mcp__a__b".to_owned(), "g__mcp__a__b".to_owned()],
    );
    check(
        &[
            ("g", "a_b", BARE, true),
            ("a", "b", Style::ServerTool, true),
        ],
        ["a_b".to_owned(), format!("a_b_{}", hash("a", "b"))],
    );
    check(
        &[
            ("g", "a-b", BARE, true),
            ("a", "b", Style::ServerDashTool, true),
        ],
        ["a-b".to_owned(), format!("a-b-{}", hash("a", "b"))],
    );
    check(
        &[("g", "x", BARE, true), ("i", "x", Style::Identity, true)],
        [
            "x".to_owned(),
            "<its name x is also that of g/x>".to_owned(),
        ],
    );
}

/// S0-19, S4-11, T10: no server's tool gets the name of a host tool, in any style.
#[test]
fn s0_19_s4_11_names_of_host_tools_take_precedence() {
    let own = ["search", "a_b", "mcp__a__b", "a-b", "z"];
    let hash = Style::hash_of(&pair("a", "b"));
    let named = once(
        &[
            ("g", "search", BARE, true),
            ("a", "b", Style::ServerTool, true),
            ("a", "b", Style::Mcp, true),
            ("a", "b", Style::ServerDashTool, true),
            ("i", "z", Style::Identity, true),
        ],
        &own,
    );
    assert_eq!(
        named,
        [
            "g__search".to_owned(),
            format!("a_b_{hash}"),
            format!("mcp__a__b_{hash}"),
            format!("a-b-{hash}"),
            "<its name z is that of a built-in tool>".to_owned()
        ]
    );
}

#[test]
fn c15_a_bare_name_is_never_that_of_a_built_in_tool() {
    let requested = [
        ("g", "Bash", BARE, true),
        ("i", "Bash", Style::Identity, true),
        ("s", "Bash", Style::ServerTool, true),
    ];
    assert_eq!(
        once(&requested, &[]),
        [
            "g__Bash",
            "<its name Bash is that of a built-in tool>",
            "s_Bash"
        ]
    );
}

/// S2-27, S2-28: a bare name waits for every earlier server, so that config order decides, not
/// which server connects first.
#[test]
fn s2_27_s2_28_config_order_decides_whichever_server_connects_first() {
    let mut published = Arc::default();
    // `a` is still connecting: the tools of `b` have no names yet.
    assert_eq!(
        named(&[("b", "search", BARE, false)], &[], &mut published),
        ["…"]
    );
    let both = [("a", "search", BARE, true), ("b", "search", BARE, true)];
    assert_eq!(named(&both, &[], &mut published), ["search", "b__search"]);
}

#[test]
fn s2_28_a_later_server_gets_the_prefixed_name_and_no_name_moves() {
    let mut published = Arc::default();
    // `a` failed, so `b` got the bare name.
    assert_eq!(
        named(&[("b", "search", BARE, true)], &[], &mut published),
        ["search"]
    );
    let both = [("a", "search", BARE, true), ("b", "search", BARE, true)];
    assert_eq!(named(&both, &[], &mut published), ["a__search", "search"]);
    // `b` is gone; its name stays reserved for its return.
    assert_eq!(named(&both[..1], &[], &mut published), ["a__search"]);
    assert_eq!(named(&both, &[], &mut published), ["a__search", "search"]);
    // Also while an earlier server is reconnecting.
    assert_eq!(
        named(&[("b", "search", BARE, false)], &[], &mut published),
        ["search"]
    );
}

#[test]
fn c2_a_name_of_any_style_belongs_to_its_tool_for_the_whole_run() {
    let mut published = Arc::default();
    assert_eq!(
        named(
            &[("a_b", "c", Style::ServerTool, true)],
            &[],
            &mut published
        ),
        ["a_b_c"]
    );
    let hash = Style::hash_of(&pair("a", "b_c"));
    let both = [
        ("a", "b_c", Style::ServerTool, true),
        ("a_b", "c", Style::ServerTool, true),
    ];
    assert_eq!(
        named(&both, &[], &mut published),
        [format!("a_b_c_{hash}"), "a_b_c".to_owned()]
    );
}

#[test]
fn the_names_of_a_server_that_keeps_changing_its_tools_are_bounded() {
    let mut published = Arc::default();
    let names: Vec<_> = (0..MAX_NAMES + 1)
        .map(|index| format!("t{index}"))
        .collect();
    let requested: Vec<RequestedName<'_>> = names
        .iter()
        .map(|name| ("s", name.as_str(), BARE, true))
        .collect();
    let given = named(&requested, &[], &mut published);
    assert_eq!(given[MAX_NAMES - 1], names[MAX_NAMES - 1]);
    assert_eq!(
        given[MAX_NAMES],
        format!("<tools of its server have had {MAX_NAMES} names in this run>")
    );
    assert_eq!(
        named(&[("other", "x", BARE, true)], &[], &mut published),
        ["x"]
    );
}
