//! The official SDK, `rmcp`, with its own transports and typed results, and nothing around it.

use std::process::Command;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, JsonObject, ProtocolVersion,
};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};

use switchboard::transport::http::reqwest_builder;

use crate::measure::{Contestant, DEMO_ARGUMENTS, ECHO_ARGUMENTS, Era, Fault, Tool};

/// One running server behind the SDK.
#[derive(Clone)]
pub(crate) struct Rmcp {
    service: Arc<RunningService<RoleClient, ()>>,
    arguments: JsonObject,
}

impl Rmcp {
    /// Starts a server and initialises the session.
    pub(crate) async fn start(command: Command, era: Era) -> Result<Self, Fault> {
        let transport = TokioChildProcess::new(tokio::process::Command::from(command))?;
        let service = ().serve_with_lifecycle(transport, lifecycle(era)).await?;
        Ok(Self {
            service: Arc::new(service),
            arguments: serde_json::from_str(ECHO_ARGUMENTS)?,
        })
    }

    /// Opens a session with the demo server at this URL. The SDK's default of 16 requests at once is
    /// raised to `width`.
    pub(crate) async fn connect(url: &str, era: Era, width: usize) -> Result<Self, Fault> {
        let config =
            StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(width);
        let transport =
            StreamableHttpClientTransport::with_client(reqwest_builder().build()?, config);
        let service = ().serve_with_lifecycle(transport, lifecycle(era)).await?;
        Ok(Self {
            service: Arc::new(service),
            arguments: serde_json::from_str(DEMO_ARGUMENTS)?,
        })
    }

    /// Every tool that the server offers, over all pages.
    pub(crate) async fn list(&self) -> Result<Vec<rmcp::model::Tool>, Fault> {
        Ok(self.service.list_all_tools().await?)
    }

    /// Ends the session and its process, and waits for both.
    pub(crate) async fn stop(self) -> Result<(), Fault> {
        if let Ok(service) = Arc::try_unwrap(self.service) {
            service.cancel().await?;
        }
        Ok(())
    }
}

impl Contestant for Rmcp {
    async fn call(&self, tool: Tool) -> Result<usize, Fault> {
        let request = CallToolRequestParams::new(tool.name());
        let request = if tool == Tool::Echo {
            request.with_arguments(self.arguments.clone())
        } else {
            request
        };
        Ok(text_bytes(&self.service.call_tool(request).await?))
    }
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    }
}

fn text_bytes(result: &CallToolResult) -> usize {
    result
        .content
        .iter()
        .map(|block| {
            if let ContentBlock::Text(text) = block {
                text.text.len()
            } else {
                0
            }
        })
        .sum()
}
