//! Sampling through the gate, as the tool `server/@sampling`.

use std::sync::Arc;

use serde_json::json;

use crate::caller::{ApprovalRequest, BoxFuture, Caller, Sampling, SamplingDecision};
use crate::catalog::SAMPLING;
use crate::catalog::Tool;
use crate::config::Fingerprint;
use crate::gate::Decision;
use crate::host::{HostReference, HostState};
use crate::name::ServerName;
use crate::session::SamplingPolicy;

/// Passes every sampling request through the gate. Shared with the sessions.
#[derive(Debug)]
pub(crate) struct GateSamplingPolicy(pub(crate) HostReference);

impl SamplingPolicy for GateSamplingPolicy {
    fn permit<'a>(
        &'a self,
        request: &'a Sampling,
        launch: Fingerprint,
        caller: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.0.get()?.permit_sampling(request, launch, caller).await })
    }
}

impl HostState {
    async fn permit_sampling(
        &self,
        request: &Sampling,
        launch: Fingerprint,
        caller: &Arc<dyn Caller>,
    ) -> Result<(), String> {
        let tool = self.sampling_tool(&request.server)?;
        if tool.launch != launch {
            let server = &request.server;
            return Err(format!("a reload has replaced server \"{server}\""));
        }
        // An approval beforehand covers the call, not the sampling that it causes.
        let decision = self.decide(&tool, caller.id(), false);
        let kind = decision.kind();
        let rule = match &decision {
            Decision::Allow { because } => because.to_string(),
            Decision::Ask { because, .. } => because.clone(),
            Decision::Deny { rule } => rule.clone(),
        };
        let permitted = match decision {
            Decision::Allow { .. } => Ok(()),
            Decision::Deny { rule } => Err(rule),
            Decision::Ask {
                because,
                once_only,
                changed,
            } => {
                let approval = ApprovalRequest {
                    changed,
                    once_only,
                    ..ApprovalRequest::new(&tool, request.params.clone(), because)
                };
                let approved = self.approve(&tool, &approval, caller).await;
                approved
                    .map_err(|(reason, _)| reason.to_string())
                    // The rules may have changed during the wait.
                    .and_then(|_| match self.decide(&tool, caller.id(), false) {
                        Decision::Deny { rule } => Err(rule),
                        Decision::Allow { .. } | Decision::Ask { .. } => Ok(()),
                    })
            }
        };
        caller.sampling_decided(&SamplingDecision {
            server: &request.server,
            decision: kind,
            rule: &rule,
            denied: permitted.as_ref().err().map(String::as_str),
        });
        permitted
    }

    /// The tool that represents sampling: its definition never changes, so a grant is bound to the
    /// server's launch alone.
    fn sampling_tool(&self, server: &ServerName) -> Result<Arc<Tool>, String> {
        let definition = json!({
            "name": SAMPLING,
            "description": "The server asks your model to answer these messages, and receives the answer.",
            "inputSchema": {"type": "object"},
        });
        self.unlisted(server, &definition).map(Arc::new)
    }
}
