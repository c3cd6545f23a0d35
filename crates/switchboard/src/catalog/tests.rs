//! Tests of the catalog, and the entries and tools that other tests build theirs from.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::config::{Dialect, Endpoint, Scope, Source, StdioEndpoint};
use crate::name::Style;
use crate::wire::RawJson;

/// An entry with every default.
pub(crate) fn server(name: &str) -> ServerConfig {
    let source = Source::new(Arc::new("test.toml".into()), 1, Scope::User);
    ServerConfig::new(
        ServerName::lenient(name).unwrap(),
        source,
        Endpoint::Stdio(StdioEndpoint::new(name, [""; 0])),
    )
}

/// A definition with only a name and a description.
pub(crate) fn definition(name: &str, description: &str) -> Arc<ToolDefinition> {
    let json = json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
    Arc::new(ToolDefinition::parse(&RawJson::from_value(&json)).unwrap())
}

/// A tool on offer.
pub(crate) fn tool(server: ServerConfig, definition: Arc<ToolDefinition>) -> Tool {
    let id = ToolId {
        server: server.name.clone(),
        tool: definition.name.clone(),
    };
    let exposed = Style::Mcp
        .expose(std::slice::from_ref(&id))
        .remove(0)
        .unwrap();
    Tool {
        id,
        exposed,
        definition,
        launch: launch(&server),
        server: Arc::new(server),
        idempotent: false,
        place: 0,
        server_index: 0,
        rule_matches: RuleMatchCache::default(),
        effect: None,
    }
}

pub(crate) fn launch(server: &ServerConfig) -> Fingerprint {
    Fingerprint(*blake3::hash(format!("{:?}", server.endpoint).as_bytes()).as_bytes())
}

fn offers(server: ServerConfig, tools: &[&str]) -> (Arc<ServerConfig>, Arc<Offerings>) {
    let tools = tools.iter().map(|name| definition(name, "")).collect();
    (
        Arc::new(server),
        Arc::new(Offerings {
            tools,
            ..Offerings::default()
        }),
    )
}

fn part((config, offerings): &(Arc<ServerConfig>, Arc<Offerings>)) -> CatalogSource {
    CatalogSource {
        config: config.clone(),
        launch: launch(config),
        offerings: offerings.clone(),
        settled: true,
    }
}

fn build(style: Style, servers: &[(Arc<ServerConfig>, Arc<Offerings>)]) -> Catalog {
    Catalog::build(
        &Catalog::default(),
        style,
        &[],
        &servers.iter().map(part).collect::<Vec<_>>(),
    )
}

fn of(dialect: Dialect, name: &str) -> ServerConfig {
    ServerConfig {
        dialect,
        ..server(name)
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog
        .tools()
        .iter()
        .map(|tool| tool.exposed.as_str())
        .collect()
}

fn withheld(catalog: &Catalog) -> Vec<String> {
    catalog
        .withheld()
        .iter()
        .map(|no| format!("{}/{}: {}", no.server, no.tool.as_wire(), no.reason))
        .collect()
}

#[test]
fn tools_are_in_config_order_and_then_in_the_servers_order() {
    let catalog = build(
        Style::Mcp,
        &[
            offers(server("z"), &["b", "a"]),
            offers(server("a"), &["b"]),
        ],
    );
    assert_eq!(names(&catalog), ["mcp__z__b", "mcp__z__a", "mcp__a__b"]);
    assert_eq!(catalog.offerings().len(), 2);
}

#[test]
fn f16_invalid_tools_are_withheld_one_by_one() {
    let (config, offered) = offers(server("s"), &["a", "b", "a"]);
    let offered = Offerings {
        withheld: vec![(ToolName::new("c"), "it has no inputSchema".into())],
        ..(*offered).clone()
    };
    let catalog = build(Style::Mcp, &[(config, Arc::new(offered))]);
    assert_eq!(names(&catalog), ["mcp__s__a", "mcp__s__b"]);
    assert_eq!(
        withheld(&catalog),
        [
            "s/c: it has no inputSchema",
            "s/a: its server lists another tool of the same name before it"
        ]
    );
    assert_eq!(
        catalog.resolve("s/a").unwrap().exposed.as_str(),
        "mcp__s__a"
    );
    for name in ["s/c", "mcp__s__c"] {
        let reason = catalog
            .resolve(name)
            .map(|tool| tool.exposed.clone())
            .unwrap_err();
        assert_eq!(
            reason,
            Unresolved::Withheld(catalog.withheld()[0].clone()),
            "{name}"
        );
    }
}

#[test]
fn s1_21_a_tool_with_a_built_in_name_is_withheld_in_dialects_that_forbid_it() {
    let check = |dialect: Dialect, expected: &[&str], reasons: &[&str]| {
        let catalog = build(
            Style::Mcp,
            &[offers(
                of(dialect, "s"),
                &["Bash", "bash", "Reader", "@sampling"],
            )],
        );
        assert_eq!(names(&catalog), expected, "{dialect:?}");
        assert_eq!(withheld(&catalog), reasons, "{dialect:?}");
    };
    let refused = ["Bash", "bash", "@sampling"]
        .map(|name| format!("s/{name}: its name is that of a built-in tool"));
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    check(Dialect::A3s, &["mcp__s__Reader"], &refused);
    check(Dialect::Native, &["mcp__s__Reader"], &refused);
    check(
        Dialect::CoreAgent,
        &["s_Bash", "s_bash", "s_Reader"],
        &refused[2..],
    );
    check(
        Dialect::AgentCode,
        &["mcp__s__Bash", "mcp__s__bash", "mcp__s__Reader"],
        &refused[2..],
    );
    // A prefix distinguishes it from the built-in tool.
    check(
        Dialect::Gemini,
        &["s__Bash", "s__bash", "Reader"],
        &refused[2..],
    );
}

/// A tool for its server's own app is not offered to a model; the reason is shown to people.
#[test]
fn a_tool_that_is_for_an_app_only_is_withheld_with_the_reason() {
    let seen_by = |name: &str, meta: serde_json::Value| {
        let json = json!({"name": name, "inputSchema": {"type": "object"}, "_meta": meta});
        Arc::new(ToolDefinition::parse(&RawJson::from_value(&json)).unwrap())
    };
    let tools = vec![
        seen_by("refresh", json!({"ui": {"visibility": ["app"]}})),
        seen_by("both", json!({"ui": {"visibility": ["model", "app"]}})),
        seen_by("model", json!({"ui": {"visibility": ["model"]}})),
        seen_by("unsaid", json!({"ui": {"resourceUri": "ui://x"}})),
        seen_by("empty", json!({"ui": {"visibility": []}})),
        seen_by("odd", json!({"ui": {"visibility": "app"}})),
    ];
    let offered = (
        Arc::new(server("s")),
        Arc::new(Offerings {
            tools,
            ..Offerings::default()
        }),
    );
    let catalog = build(Style::Identity, &[offered]);
    assert_eq!(names(&catalog), ["both", "model", "unsaid", "empty", "odd"]);
    assert_eq!(
        withheld(&catalog),
        ["s/refresh: it is for its server's own app, not for models (_meta.ui.visibility)"]
    );
}

/// S1-16: a tool whose exposed name a vendor does not accept can be called by the projected name,
/// which no other tool has.
#[test]
fn s1_16_a_projected_name_resolves_to_its_tool() {
    let catalog = build(
        Style::Mcp,
        &[offers(of(Dialect::A3s, "srv"), &["a.b", "a_b", "a:b"])],
    );
    assert_eq!(
        names(&catalog),
        ["mcp__srv__a.b", "mcp__srv__a_b", "mcp__srv__a:b"]
    );
    for vendor in Vendor::ALL {
        let set = crate::vendor::Toolset::new(vendor, catalog.tools());
        assert_eq!(set.tools().len(), 3, "{vendor:?}");
        for adapted in set.tools() {
            assert_eq!(
                catalog.resolve(&adapted.name).unwrap().id,
                adapted.tool.id,
                "{vendor:?}: {}",
                adapted.name
            );
        }
    }
}

/// S1-21, T10: every built-in name, not only the best known.
#[test]
fn s1_21_no_name_of_a_built_in_tool_is_on_offer() {
    let built_in = [
        "Bash",
        "Read",
        "Write",
        "Edit",
        "MultiEdit",
        "NotebookEdit",
        "Glob",
        "Grep",
        "LS",
        "Task",
        "TodoWrite",
        "WebFetch",
        "WebSearch",
        "ListMcpResources",
        "ReadMcpResource",
    ];
    let catalog = build(Style::Mcp, &[offers(of(Dialect::A3s, "s"), &built_in)]);
    assert_eq!(names(&catalog), [""; 0]);
    assert_eq!(
        withheld(&catalog),
        built_in.map(|name| format!("s/{name}: its name is that of a built-in tool"))
    );
}

/// S0-18: core-agent; S1-16: a3s; S3-10: agent-apps. Each server's tools are named in its dialect's
/// style.
#[test]
fn s0_18_s1_16_s3_10_tools_are_named_in_the_style_of_their_servers_dialect() {
    let tools = ["read_file"];
    let catalog = build(
        Style::Identity,
        &[
            offers(of(Dialect::CoreAgent, "filesystem"), &tools),
            offers(of(Dialect::A3s, "filesystem2"), &tools),
            offers(of(Dialect::A3s, "remote-tools"), &["x"]),
            offers(of(Dialect::AgentApps, "filesystem3"), &tools),
            offers(of(Dialect::AgentCode, "github"), &["create_issue"]),
            offers(of(Dialect::Gemini, "py"), &["calculate_sum"]),
            offers(of(Dialect::McpJson, "m"), &["own"]),
        ],
    );
    assert_eq!(
        names(&catalog),
        [
            "filesystem_read_file",
            "mcp__filesystem2__read_file",
            "mcp__remote-tools__x",
            "filesystem3-read-file",
            "mcp__github__create_issue",
            "calculate_sum",
            "own"
        ]
    );
}

/// S0-20, S0-21, S0-44 through a catalog: exposed names of a core-agent server match
/// `[A-Za-z0-9_]{1,64}`, whatever the original names.
#[test]
fn s0_20_s0_21_s0_44_core_agent_names_are_sanitised_and_short() {
    let long = "t".repeat(80);
    let catalog = build(
        Style::Mcp,
        &[
            offers(of(Dialect::CoreAgent, "my-server"), &["x", "a.b"]),
            offers(of(Dialect::CoreAgent, "file.system"), &["x", &long]),
        ],
    );
    assert_eq!(
        names(&catalog)[..3],
        ["my_server_x", "my_server_a_b", "file_system_x"]
    );
    let fits = |name: &&str| {
        name.len() <= 64
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    assert!(names(&catalog).iter().all(fits), "{:?}", names(&catalog));
    assert_eq!(names(&catalog)[3].len(), 64);
}

/// S2-24: an invalid definition does not affect other tools. S2-25, S2-26: characters and length.
#[test]
fn s2_24_s2_25_s2_26_gemini_names_are_valid_and_an_invalid_tool_affects_no_other() {
    let long = format!("{}{}", "a".repeat(40), "z".repeat(40));
    let (config, offered) = offers(of(Dialect::Gemini, "g"), &["do it!", "ok.1-x_y", &long]);
    let broken = vec![(
        ToolName::new("broken"),
        "its inputSchema is not an object".into(),
    )];
    let offered = Offerings {
        withheld: broken,
        ..(*offered).clone()
    };
    let catalog = build(Style::Mcp, &[(config, Arc::new(offered))]);
    assert_eq!(
        names(&catalog),
        [
            "do_it_",
            "ok.1-x_y",
            &format!("{}___{}", "a".repeat(28), "z".repeat(32))
        ]
    );
    assert_eq!(
        withheld(&catalog),
        ["g/broken: its inputSchema is not an object"]
    );
}

/// S2-27, S2-28: the first in config order gets the bare name. S2-29: from the name to the server
/// and back.
#[test]
fn s2_27_s2_28_s2_29_the_first_server_gets_the_bare_name() {
    let servers = [
        offers(of(Dialect::Gemini, "b"), &["search", "only_b"]),
        offers(of(Dialect::Gemini, "a"), &["search"]),
    ];
    let catalog = build(Style::Mcp, &servers);
    assert_eq!(names(&catalog), ["search", "only_b", "a__search"]);
    for tool in catalog.tools() {
        assert_eq!(catalog.resolve(tool.exposed.as_str()).unwrap().id, tool.id);
        assert_eq!(catalog.by_id(&tool.id).unwrap().exposed, tool.exposed);
    }
    let of_a: Vec<_> = catalog
        .tools()
        .iter()
        .filter(|tool| tool.id.server.as_str() == "a")
        .map(|tool| &tool.exposed)
        .collect();
    assert_eq!(
        of_a.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
        ["a__search"]
    );
}

/// S2-27, S2-28 over time: a bare name is published when no earlier server can claim it, and stays
/// with its tool.
#[test]
fn s2_27_s2_28_a_bare_name_waits_for_earlier_servers_and_never_moves_to_another_tool() {
    let (a, b) = (
        offers(of(Dialect::Gemini, "a"), &["search"]),
        offers(of(Dialect::Gemini, "b"), &["search"]),
    );
    let nothing = |server: &(Arc<ServerConfig>, Arc<Offerings>)| CatalogSource {
        offerings: Arc::default(),
        ..part(server)
    };
    let build =
        |before: &Catalog, parts: &[CatalogSource]| Catalog::build(before, Style::Mcp, &[], parts);

    let waiting = build(
        &Catalog::default(),
        &[
            CatalogSource {
                settled: false,
                ..nothing(&a)
            },
            part(&b),
        ],
    );
    assert_eq!(names(&waiting), [""; 0]);
    assert_eq!(
        withheld(&waiting),
        ["b/search: its name is not known until server \"a\" is ready or has failed"]
    );
    // The pair works all the same, and the name is not reported as unknown.
    assert_eq!(waiting.resolve("b/search").unwrap().id.server.as_str(), "b");
    assert_eq!(
        waiting.resolve("search").map(|_| ()).unwrap_err(),
        Unresolved::Unknown { nearest: vec![] }
    );
    assert!(waiting.can_name_more(|index| index == 0) && !waiting.can_name_more(|_| false));

    let in_time = build(&waiting, &[part(&a), part(&b)]);
    assert_eq!(names(&in_time), ["search", "b__search"]);
    let failed = build(&waiting, &[nothing(&a), part(&b)]);
    assert_eq!(names(&failed), ["search"]);
    assert_eq!(failed.changed_since(&waiting), ["b/search"]);
    let late = build(&failed, &[part(&a), part(&b)]);
    assert_eq!(names(&late), ["a__search", "search"]);
    assert_eq!(late.resolve("search").unwrap().id.server.as_str(), "b");
    let gone = build(&late, &[part(&a), nothing(&b)]);
    assert_eq!(
        (names(&gone), gone.resolve("search").is_err()),
        (vec!["a__search"], true)
    );
}

#[test]
fn s3_12_a_tool_has_a_source_uri_of_its_server_and_its_sanitised_name() {
    let catalog = build(
        Style::Mcp,
        &[
            offers(
                of(Dialect::AgentApps, "filesystem"),
                &["read_file", "Read--File"],
            ),
            offers(server("git"), &["git_log", "…"]),
        ],
    );
    let sources: Vec<_> = catalog
        .tools()
        .iter()
        .map(|tool| tool.source_uri().unwrap())
        .collect();
    let hash = Style::hash_of(&catalog.tools()[1].id);
    assert_eq!(
        sources,
        [
            "mcp://filesystem/read-file",
            &format!("mcp://filesystem/read-file-{hash}"),
            "mcp://git/git-log",
            "mcp://git/%E2%80%A6"
        ]
    );
}

/// S3-11: sanitising; S3-24: a name that is empty afterwards is withheld with its reason.
#[test]
fn s3_11_s3_24_agent_apps_names_are_kebab_case_and_an_empty_one_is_withheld() {
    let catalog = build(
        Style::Mcp,
        &[offers(
            of(Dialect::AgentApps, "My  Apps"),
            &["--Do__The Thing!--", "…", "ok"],
        )],
    );
    assert_eq!(names(&catalog), ["my-apps-do-the-thing", "my-apps-ok"]);
    assert_eq!(
        withheld(&catalog),
        ["My  Apps/…: its name has no letter or digit left after sanitising"]
    );
}

#[test]
fn include_and_exclude_filter_the_offered_tools() {
    let filtered = |include: Option<&[&str]>, exclude: &[&str]| {
        let owned = |patterns: &[&str]| {
            patterns
                .iter()
                .map(|pattern| (*pattern).to_owned())
                .collect::<Vec<_>>()
        };
        let entry = ServerConfig {
            include_tools: include.map(owned),
            exclude_tools: owned(exclude),
            ..server("s")
        };
        build(
            Style::Identity,
            &[offers(entry, &["read_a", "read_b", "write_a"])],
        )
    };
    assert_eq!(names(&filtered(None, &[])), ["read_a", "read_b", "write_a"]);
    assert_eq!(names(&filtered(Some(&["read_*"]), &["*_b"])), ["read_a"]);
    assert_eq!(
        withheld(&filtered(Some(&["read_*"]), &["*_b"])),
        [
            "s/read_b: exclude_tools names it",
            "s/write_a: include_tools does not name it"
        ]
    );
    assert_eq!(names(&filtered(Some(&[]), &[])), [""; 0]);
    // An invalid pattern excludes everything.
    assert_eq!(names(&filtered(None, &["[a"])), [""; 0]);
}

#[test]
fn p5_only_tools_that_the_entry_names_are_idempotent() {
    let entry = ServerConfig {
        idempotent_tools: vec!["get_*".into()],
        ..server("s")
    };
    let catalog = build(Style::Mcp, &[offers(entry, &["get_x", "put_x"])]);
    assert_eq!(
        catalog
            .tools()
            .iter()
            .map(|tool| tool.idempotent)
            .collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn t10_tools_with_colliding_names_are_withheld_naming_each_other() {
    let catalog = build(
        Style::Identity,
        &[
            offers(server("a"), &["x", "y"]),
            offers(server("b"), &["x"]),
        ],
    );
    assert_eq!(names(&catalog), ["y"]);
    assert_eq!(
        withheld(&catalog),
        [
            "a/x: its name x is also that of b/x",
            "b/x: its name x is also that of a/x"
        ]
    );
}

#[test]
fn s4_25_a_name_resolves_as_exposed_then_as_a_pair_or_suggests_near_ones() {
    let servers = [
        offers(server("github"), &["create_issue", "a/b", "close_issue"]),
        offers(server("fs"), &["read_file"]),
    ];
    let catalog = build(Style::Mcp, &servers);
    let check = |name: &str, expected: Result<&str, &[&str]>| {
        let found = catalog
            .resolve(name)
            .map(|tool| tool.id.tool.as_wire().to_owned());
        let expected = expected
            .map(str::to_owned)
            .map_err(|nearest| Unresolved::Unknown {
                nearest: nearest.iter().map(|name| (*name).to_owned()).collect(),
            });
        assert_eq!(found, expected, "{name}");
    };
    check("mcp__github__create_issue", Ok("create_issue"));
    check("github/create_issue", Ok("create_issue"));
    check("github/a/b", Ok("a/b"));
    check(
        "fs/create_issue",
        Err(&["mcp__github__create_issue", "mcp__github__close_issue"]),
    );
    check(
        "mcp__github__craete_issue",
        Err(&["mcp__github__create_issue", "mcp__github__close_issue"]),
    );
    check("read_file", Err(&["mcp__fs__read_file"]));
    check("gitlab/zzz", Err(&[]));
    check("", Err(&[]));
}

#[test]
fn p8_a_pair_resolves_to_its_tool() {
    let entry = ServerConfig {
        exclude_tools: vec!["y".into()],
        ..server("s")
    };
    let catalog = build(Style::Mcp, &[offers(entry, &["x", "y"])]);
    let id = |tool: &str| ToolId {
        server: ServerName::new("s").unwrap(),
        tool: ToolName::new(tool),
    };
    assert_eq!(catalog.by_id(&id("x")).unwrap().id, id("x"));
    assert!(catalog.by_id(&id("y")).is_none());
    assert!(catalog.by_id(&id("z")).is_none());
}

#[test]
fn f16_ten_thousand_tools_are_all_offered_without_copies_of_their_definitions() {
    let names: Vec<String> = (0..10_000).map(|index| format!("tool_{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let servers = [offers(server("s"), &names)];
    let catalog = build(Style::Mcp, &servers);
    assert_eq!(catalog.tools().len(), 10_000);
    let listed = catalog.tools().iter().zip(&servers[0].1.tools);
    for (tool, definition) in listed {
        assert!(Arc::ptr_eq(&tool.definition, definition));
    }
    assert_eq!(
        catalog.resolve("s/tool_9999").unwrap().id.tool.as_wire(),
        "tool_9999"
    );
}
