//! The target of a client's request: its server, and the call of the host.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use switchboard::call::CallError;
use switchboard::revision::Era;
use switchboard::server::ServerHandle;
use switchboard::{Call, Caller, Host, RawJson, ServerName};

use super::Answer;
use crate::caller::RequestCaller;
use crate::client_request::ClientRequest;
use crate::gateway_state::GatewayState;
use crate::listing::search;
use crate::reply::{self, ErrorReply};
use crate::settings::ServerSelection;
use crate::skills;

/// The server and the operation of a request.
pub(super) struct ServerRequest {
    /// `None` if the host finds it by the tool's name.
    pub(super) server: Option<ServerName>,
    /// The server's own name of the tool or prompt, or the URI of the resource.
    pub(super) name: Arc<str>,
    pub(super) arguments: Option<RawJson>,
    /// The members of `params` that are not the client's to pass on: the host writes them itself if the
    /// server needs them.
    pub(super) host_members: &'static [&'static str],
    /// A member that replaces the client's own.
    pub(super) replacement: Option<(&'static str, RawJson)>,
}

impl ServerRequest {
    /// The era of the server, which is started if it is not connected. `None` if there is no such
    /// server.
    pub(super) async fn server_era(&self, host: &Host) -> Result<Option<Era>, CallError> {
        let Some(server) = self.server_handle(host) else {
            return Ok(None);
        };
        if let Some(session) = &server.snapshot().session {
            return Ok(Some(session.hello().era()));
        }
        let session = server.ready(server.config.longest_connect()).await?;
        // The host finds the tools of this server from now on.
        drop(host.catalog());
        Ok(Some(session.hello().era()))
    }

    fn server_handle(&self, host: &Host) -> Option<ServerHandle> {
        let catalog = host.catalog();
        let of_tool = || catalog.resolve(&self.name).ok().map(|tool| &tool.id.server);
        match self.server.as_ref().or_else(of_tool) {
            Some(server) => host.server(server.as_str()),
            // A server that is not connected yet may offer the tool.
            None => host.servers_for(&self.name).into_iter().next(),
        }
    }

    /// Whether the URI may be that of a skill, which only lists of skills name: no server is known to
    /// have it, or not all of them have been asked.
    pub(super) fn is_of_unknown_skill(gateway: &GatewayState, request: &ClientRequest) -> bool {
        let is_of_address = matches!(
            &*request.method,
            "skills/get" | "resources/directory/read" | "resources/read"
        );
        is_of_address
            && request.params.text("uri").is_some_and(|uri| {
                let selection = &request.client.selection;
                skills::are_unknown(gateway, selection)
                    || gateway.server_of_resource(selection, &uri).is_none()
            })
    }

    /// Parses the request, and finds its server. The error is for the client.
    pub(super) fn read(
        gateway: &GatewayState,
        request: &ClientRequest,
    ) -> Result<Self, ErrorReply> {
        match &*request.method {
            "tools/call" => Self::tool_call(gateway, request),
            "prompts/get" => Self::prompt(gateway, request),
            "resources/read" => Self::resource(gateway, request),
            "skills/get" | "resources/directory/read" => Self::by_address(gateway, request),
            _ => Self::completion(gateway, request),
        }
    }

    fn tool_call(gateway: &GatewayState, request: &ClientRequest) -> Result<Self, ErrorReply> {
        let params = &request.params;
        let name = params
            .text("name")
            .ok_or_else(|| ErrorReply::invalid_params("name is missing"))?;
        let arguments = params.get("arguments").cloned();
        let arguments = arguments.unwrap_or_else(|| RawJson::from(json!({})));
        // Resolved first, so that rules, checks and records see the tool itself.
        let (name, arguments) = match gateway.is_search_call(request, search::CALL_TOOL) {
            true => {
                let inner = search::inner_call(params).map_err(ErrorReply::invalid_params)?;
                let arguments = inner.1.unwrap_or_else(|| RawJson::from(json!({})));
                (inner.0.into(), arguments)
            }
            false => (name, arguments),
        };
        let name = request.client.selection.tool_name(name).into();
        Ok(Self {
            server: None,
            name,
            arguments: Some(arguments),
            // A task that a client asks for is the gateway's.
            host_members: &["name", "arguments", "task"],
            replacement: None,
        })
    }

    fn prompt(gateway: &GatewayState, request: &ClientRequest) -> Result<Self, ErrorReply> {
        let params = &request.params;
        let name = params
            .text("name")
            .ok_or_else(|| ErrorReply::invalid_params("name is missing"))?;
        let (server, name) = server_of_prompt(gateway, &request.client.selection, &name)?;
        Ok(Self {
            server: Some(server),
            replacement: Some(("name", RawJson::from(Value::from(name.as_str())))),
            name: name.into(),
            arguments: None,
            host_members: &[],
        })
    }

    fn resource(gateway: &GatewayState, request: &ClientRequest) -> Result<Self, ErrorReply> {
        let uri = request
            .params
            .text("uri")
            .ok_or_else(|| ErrorReply::invalid_params("uri is missing"))?;
        let server = gateway
            .server_of_resource(&request.client.selection, &uri)
            .ok_or_else(|| ErrorReply::no_resource(&uri, request.era))?;
        Ok(Self {
            server: Some(server),
            name: uri.into(),
            arguments: None,
            host_members: &["uri"],
            replacement: None,
        })
    }

    /// A request about a URI that is passed to its server unchanged.
    fn by_address(gateway: &GatewayState, request: &ClientRequest) -> Result<Self, ErrorReply> {
        let target = Self {
            host_members: &[],
            ..Self::resource(gateway, request)?
        };
        if request.method == "resources/directory/read"
            && let Some(server) = &target.server
            && !skills::may_list_folders(&gateway.host, server)
        {
            let message = format!("server \"{server}\" does not list the files of a skill");
            return Err(ErrorReply::new(reply::METHOD_NOT_FOUND, message));
        }
        Ok(target)
    }

    fn completion(gateway: &GatewayState, request: &ClientRequest) -> Result<Self, ErrorReply> {
        #[derive(Deserialize)]
        struct CompletionReference {
            #[serde(rename = "type")]
            kind: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            uri: String,
        }
        let read = request.params.get("ref");
        let reference: CompletionReference = read
            .ok_or_else(|| ErrorReply::invalid_params("ref is missing"))?
            .decode()
            .map_err(|fault| ErrorReply::invalid_params(format!("ref: {fault}")))?;
        if reference.kind == "ref/prompt" {
            let (server, name) =
                server_of_prompt(gateway, &request.client.selection, &reference.name)?;
            let mut renamed = read
                .and_then(|read| read.to_value().ok())
                .unwrap_or_default();
            renamed["name"] = name.as_str().into();
            // Only a name that differs for clients is replaced.
            let is_renamed = name != reference.name;
            return Ok(Self {
                server: Some(server),
                name: name.into(),
                arguments: None,
                host_members: &[],
                replacement: is_renamed.then(|| ("ref", RawJson::from(renamed))),
            });
        }
        let server = gateway
            .server_of_resource(&request.client.selection, &reference.uri)
            .ok_or_else(|| ErrorReply::no_resource(&reference.uri, request.era))?;
        Ok(Self {
            server: Some(server),
            name: reference.uri.into(),
            arguments: None,
            host_members: &[],
            replacement: None,
        })
    }

    /// Calls the host.
    pub(super) fn start(
        &self,
        host: &Host,
        request: &ClientRequest,
        caller: &Arc<RequestCaller>,
    ) -> impl Future<Output = Answer> + Send + use<> {
        let host = host.clone();
        let caller: Arc<dyn Caller> = caller.clone();
        let (server, name) = (self.server.clone(), self.name.clone());
        let arguments = self.arguments.clone();
        let other = server.map(|server| (server, request.method.clone()));
        async move {
            let Some((server, method)) = other else {
                let arguments = arguments.unwrap_or_else(|| RawJson::from(json!({})));
                let call = Call::new(name, arguments).caller(caller);
                return host.call_with(call).await.map(|result| result.raw);
            };
            // Boxed, because only tool calls are frequent.
            match &*method {
                "resources/read" => Box::pin(host.read(&server, &name, &caller)).await,
                "prompts/get" => {
                    Box::pin(host.forward(&server, &method, Some(&name), &caller)).await
                }
                _ => Box::pin(host.forward(&server, &method, None, &caller)).await,
            }
        }
    }
}

/// The server of a prompt that the client is offered, and its name there.
fn server_of_prompt(
    gateway: &GatewayState,
    selection: &ServerSelection,
    name: &str,
) -> Result<(ServerName, String), ErrorReply> {
    if let Some(found) = gateway.catalog(selection).prompt(name) {
        return Ok(found.clone());
    }
    match selection {
        // A server may have prompts that it does not list.
        ServerSelection::One(server) => Ok((server.clone(), name.to_owned())),
        ServerSelection::All => Err(ErrorReply::invalid_params(format!(
            "no prompt {name:.100?}"
        ))),
    }
}
