//! A call of a tool that is no server's: the same stations, and then this program does it itself.

use std::sync::Arc;

use serde_json::json;
use tokio::time::timeout;

use super::deadline::CallDeadline;
use super::{Call, CallError, moved};
use crate::builtin::READ_RESOURCE;
use crate::caller::Caller;
use crate::catalog::Tool;
use crate::gate::Decision;
use crate::host::HostState;
use crate::name::ServerName;
use crate::result::CallResult;
use crate::session::RequestFault;

impl HostState {
    /// Validates, decides, approves, and does it.
    pub(super) async fn call_host_tool(
        &self,
        tool: &Arc<Tool>,
        call: &Call,
        caller: &Arc<dyn Caller>,
        mut deadline: CallDeadline,
    ) -> Result<CallResult, CallError> {
        self.validate(tool, call)?;
        let permit = self.permit(tool, None, call, caller, &mut deadline).await?;
        // A caller may have listed from the catalog of another host, whose tools are not this
        // one's.
        let Some(doer) = tool
            .host_tool
            .as_ref()
            .filter(|_| self.catalog().same_tool(tool).is_some())
        else {
            return Err(moved(tool));
        };
        let most = deadline.within(deadline.timeouts(tool).call_max);
        match timeout(most, doer.0.call(permit.arguments(), permit.caller())).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(why)) => Ok(CallResult::failure(why)),
            Err(_) => Err(CallError::Request {
                server: tool.id.server.clone(),
                fault: RequestFault::Timeout {
                    after: most,
                    total: true,
                },
                detail: None,
                advice: None,
            }),
        }
    }

    /// A model that may read resources may not read those of a server that a rule keeps it from:
    /// the rule holds as if reading were one of the server's tools.
    pub(crate) fn may_read(&self, server: &ServerName) -> Result<(), String> {
        let tool = self.unlisted(
            server,
            &json!({"name": READ_RESOURCE, "inputSchema": {"type": "object"}}),
        )?;
        match self.decide(&tool, false) {
            Decision::Deny { rule } => Err(format!("server \"{server}\": denied: {rule}")),
            Decision::Allow { .. } | Decision::Ask { .. } => Ok(()),
        }
    }
}
