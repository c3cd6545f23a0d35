//! What a server wants of a caller's model, through the gate: it is the tool `server/@sampling`.

use std::sync::Arc;

use serde_json::json;

use crate::caller::{ApprovalRequest, BoxFuture, Caller, Sampling};
use crate::catalog::SAMPLING;
use crate::catalog::Tool;
use crate::gate::Decision;
use crate::host::{HostReference, HostState};
use crate::name::ServerName;
use crate::session::Overseer;

/// Sees to it that no server has an answer of a model without the gate. The sessions hold it.
#[derive(Debug)]
pub(crate) struct SamplingOverseer(pub(crate) HostReference);

impl Overseer for SamplingOverseer {
    fn permit<'a>(
        &'a self,
        request: &'a Sampling,
        caller: &'a Arc<dyn Caller>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.0.get()?.permit_sampling(request, caller).await })
    }
}

impl HostState {
    async fn permit_sampling(
        &self,
        request: &Sampling,
        caller: &Arc<dyn Caller>,
    ) -> Result<(), String> {
        let tool = self.sampling_tool(&request.server)?;
        // A yes that was said beforehand was said of the call, not of what it leads to.
        match self.decide(&tool, &caller.id(), false) {
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
                self.approve(&tool, &approval, caller)
                    .await
                    .map(drop)
                    .map_err(|(reason, _)| reason.to_string())
            }
        }
    }

    /// Sampling as the gate sees it: always defined alike, so a remembered yes is bound to the
    /// server's launch alone.
    fn sampling_tool(&self, server: &ServerName) -> Result<Arc<Tool>, String> {
        let definition = json!({
            "name": SAMPLING,
            "description": "The server wants an answer of your model to the messages below. It sees the answer.",
            "inputSchema": {"type": "object"},
        });
        self.unlisted(server, &definition).map(Arc::new)
    }
}
