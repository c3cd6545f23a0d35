//! What is wrong with a program's own tools is found when the host starts; what is right stands
//! first in the catalog.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::builder::resource_tools;
use crate::catalog::tests::{launch, server};
use crate::catalog::{Catalog, CatalogSource, Offerings};
use crate::config::Dialect;
use crate::host::HostReference;
use crate::name::Style;

struct Named(&'static str, Value);

impl HostTool for Named {
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

fn own(tools: Vec<Named>, resource_tools: bool) -> Result<RegisteredTools, ConfigErrors> {
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

fn build(own: &RegisteredTools, part: CatalogSource) -> Catalog {
    let tools: Vec<_> = own.beside([&part.config]).cloned().collect();
    Catalog::build(&Catalog::default(), Style::Mcp, &tools, &[part])
}

fn object() -> Value {
    json!({"type": "object"})
}

#[test]
fn a_wrong_tool_of_the_program_is_an_error_that_names_it() {
    let check = |tools: Vec<Named>, message: &str| {
        let errors = own(tools, false).unwrap_err();
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
        vec![Named("a b", object())],
        "\"a b\" cannot name a tool; expected 1 to 64 of A-Z a-z 0-9 _ -",
    );
    check(
        vec![Named("", object())],
        "\"\" cannot name a tool; expected 1 to 64 of A-Z a-z 0-9 _ -",
    );
    check(
        vec![Named("x", object()), Named("x", object())],
        "there are two tools named x; a name is one tool's",
    );
    check(
        vec![Named("x", json!({"type": "string"}))],
        "tool x: its inputSchema describes no object at its root",
    );
    check(
        vec![Named("ReadMcpResource", object())],
        "there are two tools named ReadMcpResource; a name is one tool's",
    );
}

/// S4-12, S4-13: the resource tools are there for servers of agent-code files, and where a library
/// user wants them.
#[test]
fn s4_12_s4_13_the_resource_tools_are_on_offer_where_something_asks_for_them() {
    let names = |own: &RegisteredTools, dialect: Dialect| {
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
        let catalog = build(own, part);
        catalog
            .tools()
            .iter()
            .map(|tool| tool.exposed.to_string())
            .collect::<Vec<_>>()
    };
    let both = ["Bash", "ListMcpResources", "ReadMcpResource"];
    let bash = || vec![Named("Bash", object())];
    assert_eq!(
        names(&own(bash(), false).unwrap(), Dialect::AgentCode),
        both
    );
    assert_eq!(
        names(&own(bash(), false).unwrap(), Dialect::Gemini),
        both[..1]
    );
    assert_eq!(names(&own(bash(), true).unwrap(), Dialect::Gemini), both);
}

/// S0-19, S4-11: a tool of the program and a server's tool of the same base name stand side by
/// side, but where the document says that no server's tool may have the name of a built-in one
/// (S1-21).
#[test]
fn s0_19_s4_11_a_consumers_tool_keeps_its_name_beside_a_servers_tool_of_that_name() {
    let own = own(vec![Named("search", object())], false).unwrap();
    let check = |dialect: Dialect, theirs: &str| {
        let catalog = beside(&own, dialect, "search");
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

/// What is on offer where a server of this dialect has this tool.
fn beside(own: &RegisteredTools, dialect: Dialect, tool: &str) -> Catalog {
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
    build(own, part)
}

/// S1-21: a library user's own tools are built-in ones, in capitals or not.
#[test]
fn s1_21_a_servers_tool_named_like_the_programs_own_is_withheld_where_the_document_says_so() {
    let own = own(vec![Named("search", object())], false).unwrap();
    for dialect in [Dialect::A3s, Dialect::Native] {
        for name in ["search", "Search", "SEARCH"] {
            let catalog = beside(&own, dialect, name);
            assert_eq!(catalog.tools().len(), 1, "{dialect:?}: {name}");
            assert_eq!(
                catalog.withheld()[0].reason,
                "its name is that of a built-in tool",
                "{dialect:?}: {name}"
            );
        }
        assert_eq!(
            beside(&own, dialect, "searches").tools().len(),
            2,
            "{dialect:?}"
        );
    }
}
