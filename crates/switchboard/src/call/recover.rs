//! After an answer that is not simply a result: the call is made again, or ends with an error that
//! has the cause and a hint.

use std::sync::Arc;

use super::{Attempt, CallContext, CallError, definition_changed};
use crate::caller::Caller;
use crate::catalog::Tool;
use crate::config::Dialect;
use crate::hint::Hint;
use crate::host::{HostState, ServerLease};
use crate::name::ToolName;
use crate::server::{CallerSession, EraEvidence, EraRefusal, ServerHandle};
use crate::session::RequestFault;
use crate::transport::TransportFault;
use crate::wire::RawJson;

/// What follows from an answer.
pub(super) enum NextStep {
    Return(RawJson),
    /// The call was not executed, or may be repeated. The tool may be defined differently now, so
    /// it needs a new decision.
    CallAgain(Arc<Tool>),
}

/// The refusal in a response that shows which era the server's handler needs, if it is one. `tool`
/// is the called one.
pub(crate) fn refusal_in(
    answer: Result<&RawJson, &RequestFault>,
    session: &CallerSession,
    tool: Option<&ToolName>,
) -> Option<EraRefusal> {
    let evidence = EraEvidence::in_response(answer)?;
    Some(EraRefusal {
        era: session.session().hello().era(),
        evidence,
        tool: tool.cloned(),
        route: session.route(),
    })
}

impl HostState {
    /// Decides what follows from an answer. A call is made again at most once.
    pub(super) async fn recover(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
        session: CallerSession,
        answer: Result<RawJson, Box<RequestFault>>,
        attempt: Attempt,
        context: &CallContext<'_>,
    ) -> Result<NextStep, CallError> {
        let is_first = attempt != Attempt::Repeated;
        let answer = answer.map_err(|fault| *fault);
        let refusal = refusal_in(answer.as_ref(), &session, Some(&tool.definition.name));
        let answer = match answer {
            Err(RequestFault::DefinitionChanged) => Err(definition_changed(tool)),
            answer => self.finish(session.handle(server), answer).await,
        };
        drop(session);
        if let Some(refusal) = refusal {
            let may_repeat = is_first && tool.idempotent;
            if self
                .era_refused(server, refusal, context.caller, may_repeat)
                .await
            {
                let defined_now = self.defined_now(tool, server, context.deadline).await?;
                return Ok(NextStep::CallAgain(defined_now));
            }
        }
        match answer {
            // The call was not executed: the schema requires other headers now.
            Err(CallError::Request {
                fault: RequestFault::HeaderMismatch { .. },
                ..
            }) if is_first => {
                let listed_again = self.listed_again(tool, server, context.deadline).await?;
                Ok(NextStep::CallAgain(listed_again))
            }
            answer => answer.map(NextStep::Return),
        }
    }

    /// Records success; adds the cause to the error of a lost connection.
    pub(crate) async fn finish(
        &self,
        server: &ServerHandle,
        answer: Result<RawJson, RequestFault>,
    ) -> Result<RawJson, CallError> {
        match answer {
            Ok(raw) => {
                server.record_success();
                Ok(raw)
            }
            Err(fault) => Err(Box::pin(explain_fault(server, fault)).await),
        }
    }

    /// Reopens the server with the other era, if that may help, and notifies the caller. True if
    /// the call may be repeated at once: the handler may have begun, so only with `may_repeat`.
    pub(crate) async fn era_refused(
        &self,
        server: &ServerHandle,
        refusal: EraRefusal,
        caller: &Arc<dyn Caller>,
        may_repeat: bool,
    ) -> bool {
        let Some(outcome) = server.era_refused(refusal, caller.capabilities()).await else {
            return false;
        };
        let repeats = may_repeat && outcome.is_switched();
        caller.notice(&server.era_notice(outcome, repeats));
        repeats
    }
}

/// The error of a server's fault, with its cause and a hint.
async fn explain_fault(server: &ServerHandle, fault: RequestFault) -> CallError {
    let fault = fault.redacted(|text| server.stderr.redact(text));
    let (mut detail, mut hint) = (None, None);
    match &fault {
        RequestFault::Transport(TransportFault::NeedsLogin(needed)) => {
            server.needs_login(needed.clone()).await;
            hint = Some(needed.hint);
        }
        // If the end has no other cause than the reason, the reason is stated once.
        RequestFault::Closed(reason) => {
            detail = server
                .connection_end()
                .await
                .filter(|death| death != reason);
            hint = Some(Hint::Examine);
        }
        RequestFault::Timeout { total, .. } => {
            hint = Some(Hint::AllowTime(server.config.time_field(*total)))
        }
        RequestFault::QueueTimeout { .. } => {
            // Only the native file has that field.
            hint = Some(match server.config.dialect {
                Dialect::Native => Hint::SeparateCallers,
                _ => Hint::CallLater,
            })
        }
        RequestFault::Transport(_) => hint = Some(Hint::Examine),
        _ => {}
    }
    CallError::Request {
        server: server.config.name.clone(),
        fault,
        detail,
        hint,
    }
}
