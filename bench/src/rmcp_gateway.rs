//! The naive gateway: the official SDK's server in front of the official SDK's client, with its
//! typed messages and nothing between. No gate, no log, one server.
//!
//! `__rmcp-gateway COMMAND…` serves its standard streams; `__rmcp-gateway --http COMMAND…` prints
//! the address that it listens on and serves Streamable HTTP at `/mcp`.

use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, RunningService, ServiceError};
use rmcp::transport::TokioChildProcess;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, ErrorData, RoleClient, ServerHandler,
    ServiceExt as _,
};

use crate::measure::Fault;

/// The hidden subcommand.
pub(crate) const MARKER: &str = "__rmcp-gateway";

#[derive(Clone)]
struct NaiveGateway(Arc<RunningService<RoleClient, ()>>);

/// Serves until the client ends.
pub(crate) async fn run(words: impl Iterator<Item = String>) -> Result<(), Fault> {
    let mut words = words.peekable();
    let is_http = words.next_if(|word| word == "--http").is_some();
    let mut command = tokio::process::Command::new(words.next().ok_or("a command is missing")?);
    command.args(words);
    let server = ().serve_with_lifecycle(
        TokioChildProcess::new(command)?,
        ClientLifecycleMode::Initialize,
    );
    let gateway = NaiveGateway(Arc::new(server.await?));
    if !is_http {
        gateway
            .serve(rmcp::transport::stdio())
            .await?
            .waiting()
            .await?;
        return Ok(());
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let service = StreamableHttpService::new(
        move || Ok(gateway.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default().with_json_response(true),
    );
    // As every other contestant: a response does not wait for another packet.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}

impl ServerHandler for NaiveGateway {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_tools(request).await.map_err(fault)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(self.0.call_tool(request).await.map_err(fault)?.into())
    }
}

fn fault(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
