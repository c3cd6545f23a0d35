//! Approval of a call: where the gate says ask, the call's caller decides.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::host_tool_caller::HostToolCaller;
use super::trace::CallPhase;
use super::{CallContext, CallError, DenialReason, Permission, shown};
use crate::caller::{Approval, ApprovalLifetime, ApprovalRequest, Caller, CallerId};
use crate::catalog::SAMPLING;
use crate::catalog::Tool;
use crate::config::ApprovalChoices;
use crate::gate::{Decision, DecisionRequest, Permit};
use crate::hint::Hint;
use crate::host::{HostState, ServerLease};
use crate::sync;

/// How long a caller may take to approve; then the call is denied.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a host tool may take for its preview; then the caller is asked without one.
const PREVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// The most lines of a change that is shown without asking.
const MAX_CHANGED_LINES: usize = 40;

impl HostState {
    /// Asks the caller. The lease of the tool's server, if there is one, is suspended during the
    /// wait.
    pub(super) async fn ask(
        &self,
        tool: &Arc<Tool>,
        mut request: Box<ApprovalRequest>,
        mut server: Option<&mut ServerLease>,
        context: &mut CallContext<'_>,
    ) -> Result<Permit, CallError> {
        request.preview = self.preview(tool, context).await;
        let asked = Instant::now();
        if let Some(server) = &mut server {
            server.suspend();
        }
        let permit = self.approve(tool, &request, context.caller).await;
        context.deadline.exclude_since(asked);
        context
            .trace
            .spent(CallPhase::Approval, Some(asked.into_std()));
        let permit = permit.map_err(|(reason, hint)| denied(tool, reason, hint))?;
        // The approved definition is called, or nothing is.
        if server.is_none_or(ServerLease::resume) {
            Ok(permit)
        } else {
            Err(CallError::Replaced {
                server: tool.id.server.clone(),
            })
        }
    }

    /// The decision of rules and grants.
    pub(crate) fn decide(&self, tool: &Tool, caller: &CallerId, pre_approved: bool) -> Decision {
        let grants = sync::read(&self.grants);
        let request = DecisionRequest {
            tool,
            caller,
            pre_approved,
        };
        self.roster().gate.decide(request, &grants)
    }

    /// Decides again on a permitted call that has waited. Returns the question that is to be asked
    /// now; none if the call `is_approved`.
    pub(super) fn decide_again(
        &self,
        tool: &Arc<Tool>,
        is_approved: bool,
        context: &mut CallContext<'_>,
    ) -> Result<Option<Box<ApprovalRequest>>, Box<CallError>> {
        let caller = context.caller;
        let is_unchanged = match self.decide(tool, caller.id(), context.call.pre_approved) {
            Decision::Allow { .. } => true,
            Decision::Ask { .. } => is_approved,
            Decision::Deny { .. } => false,
        };
        if is_unchanged && caller.refuses(tool).is_none() {
            return Ok(None);
        }
        match self.permit(tool, &self.roster().gate, context)? {
            Permission::Granted(_) => Ok(None),
            Permission::MustAsk(request) => Ok(Some(request)),
        }
    }

    /// Asks the caller; an *always* is remembered. The error is the denial and a hint.
    pub(super) async fn approve(
        &self,
        tool: &Arc<Tool>,
        request: &ApprovalRequest,
        caller: &Arc<dyn Caller>,
    ) -> Result<Permit, (DenialReason, Option<Hint>)> {
        // Taken before the question: tools that a server adds while a person reads are not covered
        // by the answer.
        let offered = self.tools_with(tool);
        let Ok(answer) = timeout(ANSWER_TIMEOUT, caller.approve(request)).await else {
            let after = ANSWER_TIMEOUT;
            return Err((DenialReason::NoAnswer { after }, None));
        };
        // Sampling is not one of the server's tools, and host tools have no server: such an approval
        // covers nothing else.
        let stands_alone = tool.id.tool.as_wire() == SAMPLING || tool.id.server.is_host();
        match (&answer, request.dialect.profile().approval_choices) {
            _ if request.once_only => {}
            (Approval::AlwaysServer(keep), ApprovalChoices::Stored) if !stands_alone => {
                self.remember(&offered, *keep).await
            }
            (
                Approval::AlwaysTool(keep) | Approval::AlwaysServer(keep),
                ApprovalChoices::Stored,
            ) => self.remember(std::slice::from_ref(tool), *keep).await,
            (Approval::AlwaysTool(_), ApprovalChoices::InMemory) => {
                self.remember(std::slice::from_ref(tool), ApprovalLifetime::Run)
                    .await
            }
            (Approval::AlwaysServer(_), ApprovalChoices::InMemory) if stands_alone => {
                self.remember(std::slice::from_ref(tool), ApprovalLifetime::Run)
                    .await
            }
            (Approval::AlwaysServer(_), ApprovalChoices::InMemory) => {
                let mut grants = sync::write(&self.grants);
                grants.add_whole_server(tool, offered.iter().map(|tool| &**tool));
            }
            _ => {}
        }
        Permit::approved(request, &answer, tool, caller).ok_or_else(|| match answer {
            Approval::Unavailable => {
                // An approval beforehand covers the call, not the sampling that it causes.
                let beforehand = request.id.tool.as_wire() != SAMPLING;
                (
                    DenialReason::ApprovalUnavailable,
                    Some(Hint::AllowTool { beforehand }),
                )
            }
            Approval::Pending { number, next_step } => {
                (DenialReason::ApprovalPending { number, next_step }, None)
            }
            Approval::No { reason } => (DenialReason::Caller { reason }, None),
            _ => (DenialReason::Caller { reason: None }, None),
        })
    }

    /// Shows a changed definition of a trusted server, once, without asking.
    pub(super) fn show_change(&self, tool: &Tool, caller: &Arc<dyn Caller>) {
        if !sync::read(&self.grants).differs_from_pin(tool) {
            return;
        }
        let changed = sync::write(&self.grants).replace_pin(tool);
        let Some((lines, pin)) = changed else { return };
        caller.notice(&format!(
            "server \"{}\", tool {}: it changed since it was last seen (- before, + now); `trust` is set for its server, so it runs",
            tool.id.server,
            shown(tool)
        ));
        let (first, rest) = lines.split_at(lines.len().min(MAX_CHANGED_LINES));
        for line in first {
            caller.notice(&format!("  {line}"));
        }
        if !rest.is_empty() {
            caller.notice(&format!("  … {} more lines", rest.len()));
        }
        self.store_pins(vec![pin]);
    }

    /// Every tool that the server offers now, with this one as it is asked about.
    fn tools_with(&self, tool: &Arc<Tool>) -> Vec<Arc<Tool>> {
        let catalog = self.catalog();
        let is_same = |other: &Tool| other.id.server == tool.id.server && other.id != tool.id;
        let others = catalog.callable().filter(|other| is_same(other));
        others.chain([tool]).cloned().collect()
    }

    /// Remembers an approval of these tools, all of one server, as they are now.
    async fn remember(&self, tools: &[Arc<Tool>], keep: ApprovalLifetime) {
        let new: Vec<_> = {
            let mut grants = sync::write(&self.grants);
            tools.iter().map(|tool| grants.add(tool)).collect()
        };
        if let (ApprovalLifetime::Permanent, Some(tool)) = (keep, tools.first()) {
            self.store_grants(&tool.id.server, new).await;
        }
    }

    /// The preview of a host tool's call.
    async fn preview(&self, tool: &Tool, context: &CallContext<'_>) -> Vec<String> {
        let Some(implementation) = self.own.implementation(tool) else {
            return Vec::new();
        };
        let caller = HostToolCaller::wrap(context.caller);
        let preview = implementation.preview(&context.call.arguments, &caller);
        let limit = context.deadline.within(PREVIEW_TIMEOUT);
        timeout(limit, preview).await.unwrap_or_default()
    }
}

pub(super) fn denied(tool: &Tool, reason: DenialReason, hint: Option<Hint>) -> CallError {
    CallError::Denied {
        server: tool.id.server.clone(),
        tool: shown(tool),
        reason,
        hint,
    }
}
