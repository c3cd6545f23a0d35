//! Whether a server's connection is kept, given what it offers. Pure.

use super::backoff::Retry;
use super::endpoint::Failure;
use crate::catalog::{Offerings, includes_any};
use crate::config::ServerConfig;

/// Keeps a server that offers a tool, a prompt or a resource, or declares an extension such as
/// skills. In dialects whose programs keep only servers with tools: one that offers a tool that the
/// entry's filter includes. Any other server is closed, with the reason, until its next use.
pub(super) fn check_offerings(
    config: &ServerConfig,
    declares_extension: bool,
    offerings: &Offerings,
) -> Result<(), Failure> {
    if let Some((method, fault)) = offerings
        .faults
        .iter()
        .find(|(method, _)| *method == "tools/list")
    {
        return Err(Failure {
            fact: format!("connected, but {method} failed: {fault}"),
            retry: Retry::Soon,
        });
    }
    let closed = |fact: String| {
        Err(Failure {
            fact,
            retry: Retry::OnUseWithdrawn,
        })
    };
    let Offerings {
        tools,
        withheld,
        prompts,
        resources,
        templates,
        faults,
    } = offerings;
    let has_others = !(prompts.is_empty() && resources.is_empty() && templates.is_empty());
    if config.dialect.profile().closes_without_tools && !includes_any(config, tools) {
        return closed(match (withheld.first(), tools.is_empty(), has_others) {
            // Once the server is closed, only this message reports what is wrong with its tools.
            (Some((tool, reason)), ..) => {
                let tool = tool.untrusted();
                format!(
                    "closed: no tools discovered that can be used ({}: {reason})",
                    tool.for_terminal_line()
                )
            }
            (None, true, true) => {
                "closed: no tools discovered, only prompts or resources".to_owned()
            }
            (None, true, false) => "closed: no tools discovered".to_owned(),
            (None, false, _) => "closed: no tools discovered that can be used".to_owned(),
        });
    }
    let is_empty = tools.is_empty() && withheld.is_empty() && faults.is_empty() && !has_others;
    if is_empty && !declares_extension {
        return closed("closed: it offers no tools, prompts or resources".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use crate::catalog::{
        PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition,
    };
    use crate::config::{Dialect, Endpoint, Source, StdioEndpoint};
    use crate::name::{ServerName, ToolName};
    use crate::wire::RawJson;

    fn server(dialect: Dialect) -> ServerConfig {
        let endpoint = Endpoint::Stdio(StdioEndpoint::new("x", [""; 0]));
        ServerConfig {
            dialect,
            ..ServerConfig::new(ServerName::new("s").unwrap(), Source::code(), endpoint)
        }
    }

    fn tool(name: &str) -> Offerings {
        let raw = RawJson::from_value(
            &serde_json::json!({"name": name, "inputSchema": {"type": "object"}}),
        );
        Offerings {
            tools: vec![Arc::new(ToolDefinition::parse(&raw).unwrap())],
            ..Offerings::default()
        }
    }

    fn prompt() -> Offerings {
        let raw = RawJson::from_value(&serde_json::json!({"name": "greet"}));
        Offerings {
            prompts: vec![Arc::new(PromptDefinition::parse(&raw).unwrap())],
            ..Offerings::default()
        }
    }

    fn resource() -> Offerings {
        let raw = RawJson::from_value(&serde_json::json!({"name": "r", "uri": "a:b"}));
        Offerings {
            resources: vec![Arc::new(ResourceDefinition::parse(&raw).unwrap())],
            ..Offerings::default()
        }
    }

    fn template() -> Offerings {
        let raw = RawJson::from_value(&serde_json::json!({"name": "t", "uriTemplate": "a:{b}"}));
        Offerings {
            templates: vec![Arc::new(TemplateDefinition::parse(&raw).unwrap())],
            ..Offerings::default()
        }
    }

    fn check(config: &ServerConfig, offerings: &Offerings, closed: Option<&str>) {
        let decision = check_offerings(config, false, offerings);
        let expected = closed.map_or(Ok(()), |fact| {
            Err(Failure {
                fact: fact.to_owned(),
                retry: Retry::OnUseWithdrawn,
            })
        });
        assert_eq!(decision, expected, "{:?}", config.dialect);
    }

    #[test]
    fn c13_a_server_is_kept_while_it_offers_anything() {
        let native = server(Dialect::Native);
        check(
            &native,
            &Offerings::default(),
            Some("closed: it offers no tools, prompts or resources"),
        );
        check(&native, &tool("t"), None);
        check(&native, &prompt(), None);
        check(&native, &resource(), None);
        check(&native, &template(), None);
        let withheld = vec![(ToolName::new("odd"), "its schema is no object".to_owned())];
        check(
            &native,
            &Offerings {
                withheld,
                ..Offerings::default()
            },
            None,
        );
        let faults = vec![("prompts/list", "error -32603".to_owned())];
        check(
            &native,
            &Offerings {
                faults,
                ..Offerings::default()
            },
            None,
        );
        // What an extension offers appears in none of the lists.
        let lists = Offerings::default();
        assert_eq!(check_offerings(&native, true, &lists), Ok(()));
        // A filter that excludes everything does not close the server: its resources may still be
        // read.
        let filtered = ServerConfig {
            include_tools: Some(Vec::new()),
            ..server(Dialect::Native)
        };
        check(&filtered, &tool("t"), None);
    }

    #[test]
    fn s2_34_a_gemini_server_with_a_usable_tool_stays_open() {
        check(&server(Dialect::Gemini), &tool("t"), None);
        let filtered = ServerConfig {
            include_tools: Some(vec!["t".to_owned()]),
            ..server(Dialect::Gemini)
        };
        check(&filtered, &tool("t"), None);
    }

    /// S2-24: if every tool is invalid, the reason appears only in this message.
    #[test]
    fn s2_35_a_gemini_server_without_usable_tools_is_closed() {
        let gemini = server(Dialect::Gemini);
        check(
            &gemini,
            &Offerings::default(),
            Some("closed: no tools discovered"),
        );
        check(
            &gemini,
            &prompt(),
            Some("closed: no tools discovered, only prompts or resources"),
        );
        let withheld = vec![(ToolName::new("odd"), "its schema is no object".to_owned())];
        check(
            &gemini,
            &Offerings {
                withheld,
                ..Offerings::default()
            },
            Some("closed: no tools discovered that can be used (odd: its schema is no object)"),
        );
        let filtered = ServerConfig {
            exclude_tools: vec!["t".to_owned()],
            ..server(Dialect::Gemini)
        };
        check(
            &filtered,
            &tool("t"),
            Some("closed: no tools discovered that can be used"),
        );
    }

    #[test]
    fn s0_31_a_server_whose_tools_cannot_be_listed_has_failed() {
        let faults = vec![(
            "tools/list",
            "the server answered with error -32603: boom".to_owned(),
        )];
        let expected = Failure {
            fact: "connected, but tools/list failed: the server answered with error -32603: boom"
                .to_owned(),
            retry: Retry::Soon,
        };
        let offerings = Offerings {
            faults,
            ..Offerings::default()
        };
        assert_eq!(
            check_offerings(&server(Dialect::CoreAgent), false, &offerings),
            Err(expected)
        );
    }
}
