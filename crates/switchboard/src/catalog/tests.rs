//! What the catalog promises, and the entries and tools that other tests build theirs from.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::config::{Endpoint, Scope, Source, StdioEndpoint};
use crate::wire::RawJson;

/// An entry that nothing is special about.
pub(crate) fn server(name: &str) -> ServerConfig {
    let source = Source::new(Arc::new("test.toml".into()), 1, Scope::User);
    ServerConfig::new(ServerName::dialect(name).unwrap(), source, Endpoint::Stdio(StdioEndpoint::new(name, [""; 0])))
}

/// A definition with nothing but a name and a description.
pub(crate) fn definition(name: &str, description: &str) -> Arc<ToolDefinition> {
    let json = json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
    Arc::new(ToolDefinition::parse(&RawJson::from_value(&json)).unwrap())
}

/// A tool on offer.
pub(crate) fn tool(server: ServerConfig, definition: Arc<ToolDefinition>) -> Tool {
    let id = ToolId { server: server.name.clone(), tool: definition.name.clone() };
    let exposed = Style::Mcp.expose(std::slice::from_ref(&id)).remove(0).unwrap();
    Tool {
        id,
        exposed,
        definition,
        launch: launch(&server),
        server: Arc::new(server),
        idempotent: false,
        place: 0,
        server_place: 0,
        ruling: Ruling::default(),
    }
}

pub(crate) fn launch(server: &ServerConfig) -> Fingerprint {
    Fingerprint(*blake3::hash(format!("{:?}", server.endpoint).as_bytes()).as_bytes())
}

fn offers(server: ServerConfig, tools: &[&str]) -> (Arc<ServerConfig>, Arc<Offerings>) {
    let tools = tools.iter().map(|name| definition(name, "")).collect();
    (Arc::new(server), Arc::new(Offerings { tools, ..Offerings::default() }))
}

fn build(style: Style, builtin: &[&str], servers: &[(Arc<ServerConfig>, Arc<Offerings>)]) -> Catalog {
    let part = |(config, offerings): &(Arc<ServerConfig>, Arc<Offerings>)| (config.clone(), launch(config), offerings.clone());
    Catalog::build(1, style, builtin, &servers.iter().map(part).collect::<Vec<_>>())
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools().iter().map(|tool| tool.exposed.as_str()).collect()
}

fn withheld(catalog: &Catalog) -> Vec<String> {
    catalog.withheld().iter().map(|no| format!("{}/{}: {}", no.server, no.tool.as_wire(), no.reason)).collect()
}

#[test]
fn tools_stand_in_config_order_and_then_in_the_servers() {
    let catalog = build(Style::Mcp, &[], &[offers(server("z"), &["b", "a"]), offers(server("a"), &["b"])]);
    assert_eq!(names(&catalog), ["mcp__z__b", "mcp__z__a", "mcp__a__b"]);
    assert_eq!(catalog.offerings().len(), 2);
}

#[test]
fn f16_bad_tools_are_withheld_one_by_one() {
    let (config, offered) = offers(server("s"), &["a", "b", "a"]);
    let offered = Offerings { withheld: vec![(ToolName::new("c"), "it has no inputSchema".into())], ..(*offered).clone() };
    let catalog = build(Style::Mcp, &[], &[(config, Arc::new(offered))]);
    assert_eq!(names(&catalog), ["mcp__s__a", "mcp__s__b"]);
    assert_eq!(
        withheld(&catalog),
        ["s/c: it has no inputSchema", "s/a: its server lists another tool of the same name before it"]
    );
    assert_eq!(catalog.resolve("s/a").unwrap().exposed.as_str(), "mcp__s__a");
    for name in ["s/c", "mcp__s__c"] {
        let reason = catalog.resolve(name).map(|tool| tool.exposed.clone()).unwrap_err();
        assert_eq!(reason, Unresolved::Withheld(catalog.withheld()[0].clone()), "{name}");
    }
}

#[test]
fn s1_21_a_tool_that_is_named_like_a_built_in_is_withheld() {
    let catalog = build(Style::Mcp, &["Bash", "Read"], &[offers(server("s"), &["Bash", "bash", "Reader"])]);
    assert_eq!(names(&catalog), ["mcp__s__bash", "mcp__s__Reader"]);
    assert_eq!(withheld(&catalog), ["s/Bash: its name is that of a built-in tool"]);
}

#[test]
fn include_and_exclude_choose_what_is_offered() {
    let filtered = |include: Option<&[&str]>, exclude: &[&str]| {
        let owned = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
        let entry = ServerConfig { include_tools: include.map(owned), exclude_tools: owned(exclude), ..server("s") };
        build(Style::Identity, &[], &[offers(entry, &["read_a", "read_b", "write_a"])])
    };
    assert_eq!(names(&filtered(None, &[])), ["read_a", "read_b", "write_a"]);
    assert_eq!(names(&filtered(Some(&["read_*"]), &["*_b"])), ["read_a"]);
    assert_eq!(
        withheld(&filtered(Some(&["read_*"]), &["*_b"])),
        ["s/read_b: exclude_tools names it", "s/write_a: include_tools does not name it"]
    );
    assert_eq!(names(&filtered(Some(&[]), &[])), [""; 0]);
    // What cannot be read keeps everything out.
    assert_eq!(names(&filtered(None, &["[a"])), [""; 0]);
}

#[test]
fn p5_only_tools_that_the_entry_names_are_idempotent() {
    let entry = ServerConfig { idempotent_tools: vec!["get_*".into()], ..server("s") };
    let catalog = build(Style::Mcp, &[], &[offers(entry, &["get_x", "put_x"])]);
    assert_eq!(catalog.tools().iter().map(|tool| tool.idempotent).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn t10_tools_whose_names_meet_are_withheld_with_the_other_named() {
    let catalog = build(Style::Identity, &[], &[offers(server("a"), &["x", "y"]), offers(server("b"), &["x"])]);
    assert_eq!(names(&catalog), ["y"]);
    assert_eq!(withheld(&catalog), ["a/x: its name x is also that of b/x", "b/x: its name x is also that of a/x"]);
}

#[test]
fn s4_25_a_name_is_found_as_exposed_then_as_a_pair_or_told_what_is_near() {
    let servers = [offers(server("github"), &["create_issue", "a/b", "close_issue"]), offers(server("fs"), &["read_file"])];
    let catalog = build(Style::Mcp, &[], &servers);
    let check = |name: &str, expected: Result<&str, &[&str]>| {
        let found = catalog.resolve(name).map(|tool| tool.id.tool.as_wire().to_owned());
        let expected = expected
            .map(str::to_owned)
            .map_err(|nearest| Unresolved::Unknown { nearest: nearest.iter().map(|name| (*name).to_owned()).collect() });
        assert_eq!(found, expected, "{name}");
    };
    check("mcp__github__create_issue", Ok("create_issue"));
    check("github/create_issue", Ok("create_issue"));
    check("github/a/b", Ok("a/b"));
    check("fs/create_issue", Err(&["mcp__github__create_issue", "mcp__github__close_issue"]));
    check("mcp__github__craete_issue", Err(&["mcp__github__create_issue", "mcp__github__close_issue"]));
    check("read_file", Err(&["mcp__fs__read_file"]));
    check("gitlab/zzz", Err(&[]));
    check("", Err(&[]));
}

#[test]
fn p8_a_pair_leads_to_its_tool() {
    let catalog = build(Style::Mcp, &["y"], &[offers(server("s"), &["x", "y"])]);
    let id = |tool: &str| ToolId { server: ServerName::new("s").unwrap(), tool: ToolName::new(tool) };
    assert_eq!(catalog.by_id(&id("x")).unwrap().id, id("x"));
    assert!(catalog.by_id(&id("y")).is_none());
    assert!(catalog.by_id(&id("z")).is_none());
}

#[test]
fn f16_ten_thousand_tools_share_what_they_were_read_from() {
    let names: Vec<String> = (0..10_000).map(|index| format!("tool_{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let servers = [offers(server("s"), &names)];
    let catalog = build(Style::Mcp, &[], &servers);
    assert_eq!(catalog.tools().len(), 10_000);
    assert!(Arc::ptr_eq(&catalog.tools()[77].definition, &servers[0].1.tools[77]));
    assert_eq!(catalog.resolve("s/tool_9999").unwrap().id.tool.as_wire(), "tool_9999");
}
