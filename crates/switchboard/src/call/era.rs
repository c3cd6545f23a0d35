//! Handles a refusal that shows that a call's server is connected with the wrong era.

use std::sync::Arc;

use super::deadline::CallDeadline;
use super::{CallError, moved};
use crate::caller::Caller;
use crate::catalog::Tool;
use crate::host::HostState;
use crate::name::ToolName;
use crate::server::{CallerSession, EraEvidence, EraRefusal, ServerHandle};
use crate::session::RequestFault;
use crate::wire::RawJson;

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
    /// Reopens the server with the other era, if that may help, and notifies the caller. True if
    /// the call may be repeated at once: the handler may have begun, so only with `may_repeat`.
    pub(crate) async fn era_refused(
        &self,
        server: &ServerHandle,
        refusal: EraRefusal,
        caller: &Arc<dyn Caller>,
        may_repeat: bool,
    ) -> bool {
        let Some(outcome) = server.era_refused(refusal, caller.offers()).await else {
            return false;
        };
        let repeats = may_repeat && outcome.is_switched();
        caller.notice(&server.era_notice(outcome, repeats));
        repeats
    }

    /// The tool as its server defines it once it is connected.
    pub(super) async fn defined_now(
        &self,
        tool: &Arc<Tool>,
        server: &ServerHandle,
        deadline: CallDeadline,
    ) -> Result<Arc<Tool>, CallError> {
        server
            .ready(deadline.within(tool.server.timeouts.connect))
            .await?;
        self.rebuild();
        self.current_for(tool)
            .catalog
            .by_id(&tool.id)
            .cloned()
            .ok_or_else(|| moved(tool))
    }
}
