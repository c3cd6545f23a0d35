//! What a call waits for before it can be sent: its approval, its server, the server of an unknown
//! name, a new list of its server's tools.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::trace::CallPhase;
use super::{CallContext, CallDeadline, CallError, Permission, ReadyCall, definition_changed};
use crate::catalog::{PossibleOwners, Tool, possible_owners};
use crate::host::{HostState, MAX_RELOADS, Roster, ServerLease};
use crate::server::{CallerSession, ServerHandle};

impl HostState {
    /// Waits for the caller's approval and for the server, as far as they are missing. Then the gate
    /// decides again: the rules may have changed.
    pub(super) async fn wait_until_ready(
        &self,
        tool: &Arc<Tool>,
        permission: Permission,
        server: &mut ServerLease,
        context: &mut CallContext<'_>,
    ) -> Result<ReadyCall, CallError> {
        let mut permission = permission;
        loop {
            let is_approved = matches!(permission, Permission::MustAsk(_));
            let permit = match permission {
                Permission::Granted(permit) => permit,
                Permission::MustAsk(request) => {
                    self.ask(tool, request, Some(server), context).await?
                }
            };
            let session = match server.session_now() {
                Some(session) => session,
                None => self.wait_for_session(tool, server, context).await?,
            };
            match self.decide_again(tool, is_approved, context)? {
                None => return Ok(self.ready_call(tool, server, permit, session, false, context)?),
                Some(request) => permission = Permission::MustAsk(request),
            }
        }
    }

    /// The session for a call of this tool, once its server is connected.
    async fn wait_for_session(
        &self,
        tool: &Tool,
        server: &ServerLease,
        context: &mut CallContext<'_>,
    ) -> Result<CallerSession, CallError> {
        let began = context.trace.now();
        let wait = context.deadline.within(tool.server.longest_connect());
        let caller = context.caller.id();
        let session = server.session_for_tool(&tool.definition, caller, wait);
        let session = session.await;
        context.trace.spent(CallPhase::Waiting, began);
        Ok(session?)
    }

    /// Resolves a name that is not known yet: it may belong to a server that is still connecting.
    pub(super) async fn resolve_unlisted(
        &self,
        context: &mut CallContext<'_>,
    ) -> Result<(Arc<Tool>, Option<ServerLease>), CallError> {
        let began = context.trace.now();
        let mut reloads = 0;
        let resolved = loop {
            let roster = self.roster();
            let waited = self
                .wait_for_server_of(&roster, &context.call.tool, context.deadline)
                .await;
            let resolved = waited.and_then(|()| Ok(self.resolve(context.call)?));
            // A reload may have replaced the server that was waited for: then the new one is.
            let is_current = self.roster().number == roster.number;
            if resolved.is_ok() || is_current || reloads == MAX_RELOADS {
                break resolved;
            }
            reloads += 1;
        };
        context.trace.spent(CallPhase::Waiting, began);
        resolved
    }

    /// Waits for the servers that the name may belong to. If only one server can have the tool and
    /// cannot be connected, the error is that server's.
    async fn wait_for_server_of(
        &self,
        roster: &Roster,
        name: &str,
        deadline: CallDeadline,
    ) -> Result<(), CallError> {
        let owners = possible_owners(&roster.config, name);
        let is_named = matches!(owners, PossibleOwners::Named(_));
        let may_have_it = |server: &&ServerHandle| {
            owners.contains(&server.config.name)
                && (is_named || server.may_offer_more() || (owners.is_one() && server.is_down()))
        };
        let awaited: Vec<_> = roster.servers.iter().filter(may_have_it).cloned().collect();
        if awaited.is_empty() {
            return Ok(());
        }
        if owners.is_one() {
            for server in awaited {
                let wait = deadline.within(server.config.longest_connect());
                server.ready(wait).await?;
            }
        } else {
            let mut coming = JoinSet::new();
            for server in awaited {
                // Also bounded by the server's own connect timeout. A server that fails reports
                // that by its state.
                let wait = deadline.within(server.config.longest_connect());
                coming.spawn(async move { server.ready(wait).await.is_ok() });
            }
            coming.join_all().await;
        }
        self.rebuild();
        Ok(())
    }

    /// The same tool as its server defines it now.
    pub(super) async fn listed_again(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
        deadline: CallDeadline,
    ) -> Result<Arc<Tool>, CallError> {
        server
            .relist(deadline.within(tool.server.longest_connect()))
            .await;
        self.tool_of_current_catalog(tool)
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
        self.tool_of_current_catalog(tool)
    }

    fn tool_of_current_catalog(&self, tool: &Arc<Tool>) -> Result<Arc<Tool>, CallError> {
        let current = self.current_for(tool);
        let found = current.catalog.by_id(&tool.id).cloned();
        found.ok_or_else(|| definition_changed(tool))
    }
}
