//! The two host tools that give a model the servers' resources: one lists them, one reads one.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::caller::Caller;
use crate::catalog::{Catalog, LIST_RESOURCES, READ_RESOURCE, ToolEffect};
use crate::host::{Host, HostReference};
use crate::host_tools::{HostTool, HostToolDefinition, HostToolFuture};
use crate::name::ServerName;
use crate::result::CallResult;
use crate::untrusted::quoted;
use crate::wire::RawJson;

/// How long to wait for servers that are still connecting.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Both tools, for this host.
pub(crate) fn tools(host: &HostReference) -> Vec<Arc<dyn HostTool>> {
    vec![
        Arc::new(ListResourcesTool(host.clone())),
        Arc::new(ReadResourceTool(host.clone())),
    ]
}

struct ListResourcesTool(HostReference);

struct ReadResourceTool(HostReference);

#[derive(Deserialize)]
struct ResourceArgs {
    uri: Option<String>,
    server: Option<String>,
}

impl HostTool for ListResourcesTool {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {"server": {"type": "string", "description": "Only the resources of this server"}},
            "additionalProperties": false,
        });
        HostToolDefinition::new(
            LIST_RESOURCES,
            "Lists the resources that the connected MCP servers offer, with the server of each.",
            schema,
        )
        .effect(ToolEffect::Read)
    }

    fn call<'a>(&'a self, arguments: &'a RawJson, _: &'a Arc<dyn Caller>) -> HostToolFuture<'a> {
        Box::pin(async move {
            let (host, args) = (Host(self.0.get()?), parse_args(arguments)?);
            host.wait_until_settled(SETTLE_TIMEOUT).await;
            let catalog = host.catalog();
            if let Some(server) = &args.server {
                find_server(&catalog, server)?;
            }
            Ok(CallResult::success(
                resource_list(&catalog, args.server.as_deref()).to_string(),
            ))
        })
    }
}

impl HostTool for ReadResourceTool {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {
                "uri": {"type": "string", "description": "The address of the resource"},
                "server": {"type": "string", "description": "The server that has it, where several do or none lists it"},
            },
            "required": ["uri"],
            "additionalProperties": false,
        });
        HostToolDefinition::new(
            READ_RESOURCE,
            "Reads one resource of an MCP server by its URI.",
            schema,
        )
        .effect(ToolEffect::Read)
    }

    fn call<'a>(
        &'a self,
        arguments: &'a RawJson,
        caller: &'a Arc<dyn Caller>,
    ) -> HostToolFuture<'a> {
        Box::pin(async move {
            let (host, args) = (Host(self.0.get()?), parse_args(arguments)?);
            let uri = args.uri.unwrap_or_default();
            host.wait_until_settled(SETTLE_TIMEOUT).await;
            let server = server_of(&host.catalog(), &uri, args.server.as_deref())?;
            host.0.may_read(&server, caller.id())?;
            let answer = host.read(&server, &uri, caller).await;
            let answer = answer.map_err(|error| error.to_string())?;
            contents(&answer)
                .ok_or_else(|| format!("server \"{server}\": its answer has no contents"))
        })
    }
}

fn parse_args(arguments: &RawJson) -> Result<ResourceArgs, String> {
    arguments
        .decode()
        .map_err(|error| format!("the arguments cannot be read: {error}"))
}

fn find_server(catalog: &Catalog, server: &str) -> Result<ServerName, String> {
    let mut servers = catalog.offerings().iter().map(|(name, _)| name);
    let found = servers.find(|name| name.as_str() == server).cloned();
    found.ok_or_else(|| format!("no server {} is configured", quoted(server)))
}

/// The named server; otherwise the one that lists the URI.
fn server_of(catalog: &Catalog, uri: &str, server: Option<&str>) -> Result<ServerName, String> {
    if let Some(server) = server {
        return find_server(catalog, server);
    }
    match catalog.servers_of_resource(uri).as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!(
            "no server lists the resource {}; {LIST_RESOURCES} lists what there is",
            quoted(uri)
        )),
        many => {
            let names: Vec<_> = many.iter().map(|name| format!("\"{name}\"")).collect();
            Err(format!(
                "servers {} offer {}; say which with the argument \"server\"",
                names.join(" and "),
                quoted(uri)
            ))
        }
    }
}

/// Every resource with its server, as the servers define them.
fn resource_list(catalog: &Catalog, server: Option<&str>) -> Value {
    let tagged = |name: &ServerName, raw: &RawJson| {
        let mut fields = Map::from_iter([("server".to_owned(), Value::from(name.as_str()))]);
        if let Ok(Value::Object(theirs)) = raw.to_value() {
            fields.extend(theirs.into_iter().filter(|(key, _)| key != "server"));
        }
        Value::Object(fields)
    };
    let (mut resources, mut templates) = (Vec::new(), Vec::new());
    for (name, offered) in catalog
        .offerings()
        .iter()
        .filter(|(name, _)| server.is_none_or(|server| server == name.as_str()))
    {
        resources.extend(
            offered
                .resources
                .iter()
                .map(|resource| tagged(name, &resource.raw)),
        );
        templates.extend(
            offered
                .templates
                .iter()
                .map(|template| tagged(name, &template.raw)),
        );
    }
    let mut listed = json!({"resources": resources});
    if !templates.is_empty() {
        listed["resourceTemplates"] = templates.into();
    }
    listed
}

/// The result of `resources/read` as the content of a call's result.
fn contents(answer: &RawJson) -> Option<CallResult> {
    let answer = answer.to_value().ok()?;
    let parts = answer.get("contents")?.as_array()?;
    let content: Vec<_> = parts
        .iter()
        .map(|part| json!({"type": "resource", "resource": part}))
        .collect();
    Some(CallResult::new(RawJson::from_value(
        &json!({"content": content}),
    )))
}
