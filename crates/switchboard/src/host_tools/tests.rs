//! Tests of host tools: invalid ones are reported when the host starts, valid ones come first in
//! the catalog.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::builder::resource_tools;
use crate::catalog::tests::{launch, server};
use crate::catalog::{Catalog, CatalogSource, Offerings};
use crate::config::Dialect;
use crate::host::HostReference;
use crate::name::Style;

struct NamedTool(&'static str, Value);

impl HostTool for NamedTool {
    fn definition(&self) -> HostToolDefinition {
        HostToolDefinition::new(self.0, "what it does", self.1.clone())
    }

    fn call<'a>(
        &'a self,
        _: &'a RawJson,
        _: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<CallResult, String>> {
        Box::pin(async { Ok(CallResult::success("done")) })
    }
}

fn host_tools(
    tools: Vec<NamedTool>,
    resource_tools: bool,
) -> Result<RegisteredTools, ConfigErrors> {
    let tools = tools
        .into_iter()
        .map(|tool| Arc::new(tool) as Arc<dyn HostTool>)
        .collect();
    let tools = HostTools {
        tools,
        resource_tools,
    };
    RegisteredTools::read(tools, resource_tools::tools(&HostReference::default()))
}

fn build(host_tools: &RegisteredTools, part: CatalogSource) -> Catalog {
    let tools: Vec<_> = host_tools.offered_with([&part.config]).cloned().collect();
    Catalog::build(&Catalog::default(), Style::Mcp, &tools, &[part])
}

fn object() -> Value {
    json!({"type": "object"})
}

#[test]
fn an_invalid_host_tool_is_an_error_that_names_it() {
    let check = |tools: Vec<NamedTool>, message: &str| {
        let errors = host_tools(tools, false).unwrap_err();
        assert_eq!(
            errors
                .0
                .iter()
                .map(|error| error.message.as_str())
                .collect::<Vec<_>>(),
            [message]
        );
    };
    check(
        vec![NamedTool("a b", object())],
        "\"a b\" is not a valid tool name; expected 1 to 64 characters of A-Z a-z 0-9 _ -",
    );
    check(
        vec![NamedTool("", object())],
        "\"\" is not a valid tool name; expected 1 to 64 characters of A-Z a-z 0-9 _ -",
    );
    check(
        vec![NamedTool("x", object()), NamedTool("x", object())],
        "there are two tools named x; give each tool its own name",
    );
    check(
        vec![NamedTool("x", json!({"type": "string"}))],
        "tool x: its inputSchema describes no object at its root",
    );
    check(
        vec![NamedTool("ReadMcpResource", object())],
        "there are two tools named ReadMcpResource; give each tool its own name",
    );
}

/// S4-12, S4-13: the resource tools are offered for servers of agent-code files, and if a library
/// user enables them.
#[test]
fn s4_12_s4_13_the_resource_tools_are_offered_on_request_or_for_agent_code() {
    let names = |host_tools: &RegisteredTools, dialect: Dialect| {
        let config = ServerConfig {
            dialect,
            ..server("s")
        };
        let part = CatalogSource {
            launch: launch(&config),
            config: Arc::new(config),
            offerings: Arc::new(Offerings::default()),
            settled: true,
        };
        let catalog = build(host_tools, part);
        catalog
            .tools()
            .iter()
            .map(|tool| tool.exposed.to_string())
            .collect::<Vec<_>>()
    };
    let both = ["Bash", "ListMcpResources", "ReadMcpResource"];
    let bash = || vec![NamedTool("Bash", object())];
    assert_eq!(
        names(&host_tools(bash(), false).unwrap(), Dialect::AgentCode),
        both
    );
    assert_eq!(
        names(&host_tools(bash(), false).unwrap(), Dialect::Gemini),
        both[..1]
    );
    assert_eq!(
        names(&host_tools(bash(), true).unwrap(), Dialect::Gemini),
        both
    );
}

/// S0-19, S4-11: a host tool and a server's tool of the same base name are both offered, except in
/// dialects where no server's tool may have the name of a built-in one (S1-21).
#[test]
fn s0_19_s4_11_a_host_tool_keeps_its_name_when_a_servers_tool_has_the_same() {
    let host_tools = host_tools(vec![NamedTool("search", object())], false).unwrap();
    let check = |dialect: Dialect, theirs: &str| {
        let catalog = offered_with(&host_tools, dialect, "search");
        let names: Vec<_> = catalog
            .tools()
            .iter()
            .map(|tool| tool.exposed.as_str())
            .collect();
        // Between them, the resource tools of agent-code.
        assert_eq!(
            (names.first(), names.last()),
            (Some(&"search"), Some(&theirs)),
            "{dialect:?}"
        );
        assert!(catalog.resolve("search").unwrap().is_host_tool());
        assert_eq!(
            catalog.resolve("@host/search").unwrap().id,
            catalog.tools()[0].id
        );
        assert!(!catalog.resolve(theirs).unwrap().is_host_tool());
    };
    check(Dialect::CoreAgent, "s_search");
    check(Dialect::Gemini, "s__search");
    check(Dialect::AgentApps, "s-search");
    check(Dialect::AgentCode, "mcp__s__search");
}

/// The catalog with a server of this dialect that has this tool.
fn offered_with(host_tools: &RegisteredTools, dialect: Dialect, tool: &str) -> Catalog {
    let config = ServerConfig {
        dialect,
        ..server("s")
    };
    let raw = json!({"name": tool, "inputSchema": {"type": "object"}});
    let tools = vec![Arc::new(ToolDefinition::parse(&raw.into()).unwrap())];
    let offerings = Arc::new(Offerings {
        tools,
        ..Offerings::default()
    });
    let part = CatalogSource {
        launch: launch(&config),
        config: Arc::new(config),
        offerings,
        settled: true,
    };
    build(host_tools, part)
}

/// S1-21: a library user's own tools count as built-in ones, in any case.
#[test]
fn s1_21_a_servers_tool_named_like_a_host_tool_is_withheld_in_dialects_that_forbid_it() {
    let host_tools = host_tools(vec![NamedTool("search", object())], false).unwrap();
    for dialect in [Dialect::A3s, Dialect::Native] {
        for name in ["search", "Search", "SEARCH"] {
            let catalog = offered_with(&host_tools, dialect, name);
            assert_eq!(catalog.tools().len(), 1, "{dialect:?}: {name}");
            assert_eq!(
                catalog.withheld()[0].reason,
                "its name is that of a built-in tool",
                "{dialect:?}: {name}"
            );
        }
        assert_eq!(
            offered_with(&host_tools, dialect, "searches").tools().len(),
            2,
            "{dialect:?}"
        );
    }
}
