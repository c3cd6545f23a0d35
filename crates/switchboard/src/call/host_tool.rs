//! A call of a host tool: validated and approved like any other, and run by this program.

use std::sync::Arc;

use serde_json::json;
use tokio::time::timeout;

use super::host_tool_caller::HostToolCaller;
use super::{CallContext, CallError, DenialReason, Permission, definition_changed, shown};
use crate::caller::CallerId;
use crate::catalog::READ_RESOURCE;
use crate::catalog::Tool;
use crate::gate::Decision;
use crate::host::HostState;
use crate::name::ServerName;
use crate::result::CallResult;
use crate::session::RequestFault;

impl HostState {
    /// Validates, decides, approves, and runs the tool.
    pub(super) async fn call_host_tool(
        &self,
        tool: &Arc<Tool>,
        context: &mut CallContext<'_>,
    ) -> Result<CallResult, CallError> {
        self.validate(tool, context.call)?;
        self.check_denied(tool, context)?;
        let permit = match self.permit(tool, &self.roster().gate, context)? {
            Permission::Granted(permit) => permit,
            Permission::MustAsk(request) => {
                let permit = self.ask(tool, request, None, context).await?;
                // The rules may have changed during the wait.
                self.decide_again(tool, true, context)?;
                permit
            }
        };
        // The caller's catalog may be that of another host, with other host tools.
        let Some(implementation) =
            (self.own.implementation(tool)).filter(|_| self.catalog().same_tool(tool).is_some())
        else {
            return Err(definition_changed(tool));
        };
        let limit = context.deadline.timeouts(tool).call_max;
        let rest = context.deadline.within(limit);
        let caller = HostToolCaller::wrap(permit.caller());
        let running = implementation.call(permit.arguments(), &caller);
        match timeout(rest, running).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(why)) => Ok(CallResult::failure(why)),
            Err(_) => Err(CallError::Request {
                server: tool.id.server.clone(),
                fault: RequestFault::Timeout {
                    after: limit,
                    total: true,
                },
                detail: None,
                hint: None,
            }),
        }
    }

    /// Checks whether the tool itself denies the call.
    fn check_denied(&self, tool: &Tool, context: &mut CallContext<'_>) -> Result<(), CallError> {
        let implementation = self.own.implementation(tool);
        let denial = implementation.and_then(|own| own.denies(&context.call.arguments));
        let Some(rule) = denial else { return Ok(()) };
        context
            .trace
            .decided(&Decision::Deny { rule: rule.clone() });
        Err(CallError::Denied {
            server: tool.id.server.clone(),
            tool: shown(tool),
            reason: DenialReason::Rule(rule),
            hint: None,
        })
    }

    /// Whether a model may read a server's resources: a rule that denies the server also denies
    /// reading, as if it were one of the server's tools.
    pub(crate) fn may_read(&self, server: &ServerName, caller: &CallerId) -> Result<(), String> {
        let tool = self.unlisted(
            server,
            &json!({"name": READ_RESOURCE, "inputSchema": {"type": "object"}}),
        )?;
        match self.decide(&tool, caller, false) {
            Decision::Deny { rule } => Err(format!("server \"{server}\": denied: {rule}")),
            Decision::Allow { .. } | Decision::Ask { .. } => Ok(()),
        }
    }
}
