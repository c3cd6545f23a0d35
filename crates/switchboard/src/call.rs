//! One call: resolve, validate, decide, approve, send, return. Each step is a function.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::Instrument;

pub use crate::caller::CallReport;
use crate::caller::Caller;
use crate::catalog::{Catalog, PossibleOwners, Tool, ToolDefinition, Unresolved, possible_owners};
use crate::gate::Permit;
use crate::hint::Hint;
use crate::host::{Host, HostState, MAX_RELOADS, ServerLease};
use crate::name::ServerName;
use crate::result::CallResult;
use crate::server::{EraRefusal, ServerHandle};
use crate::session::{CallOptions, RequestFault};
use crate::transport::WireFault;
use crate::wire::RawJson;

use approval::Permission;
use deadline::CallDeadline;
pub(crate) use era::refusal_in;
pub use error::{CallError, DenialReason};
pub(crate) use sampling::SamplingOverseer;
use trace::{CallPhase, CallTrace};

mod approval;
mod deadline;
mod era;
mod error;
mod host_tool;
mod misfit;
mod permissions;
mod sampling;
mod trace;
mod unlisted;

// Rare branches are boxed, here and below: they would make every call's future larger.
impl Host {
    /// Calls a tool, through the gate, for the host's default caller
    /// ([`HostBuilder::caller`](crate::HostBuilder::caller)). Like [`call_with`](Self::call_with)
    /// with a plain [`Call`].
    pub async fn call(
        &self,
        tool: impl Into<String>,
        arguments: impl Into<RawJson>,
    ) -> Result<CallResult, CallError> {
        self.call_with(Call::new(tool, arguments)).await
    }

    /// Makes one call, through the gate: resolves the name, validates the arguments against the
    /// tool's schema, lets the gate decide and the caller approve, and sends the call.
    ///
    /// # Cancellation
    ///
    /// Dropping the future cancels the call: a question to the caller is withdrawn, and a server
    /// that has the request is sent `notifications/cancelled`. The server may have executed it all
    /// the same.
    ///
    /// # Errors
    ///
    /// [`CallError`] means that the call did not complete. A tool that returns `isError` has
    /// completed: that is `Ok`, and [`CallResult::is_error`] is true.
    ///
    /// # Retries
    ///
    /// A call that may have been executed is not sent twice. A call is sent again only if its
    /// server says that it was not executed (a lost HTTP session, refused headers), and, for tools
    /// that the entry names in `idempotent_tools`, after a lost response. A server that is down is
    /// not retried here: the call waits until it is connected, or fails with the reason.
    ///
    /// # Deadlines
    ///
    /// Connecting ends after the entry's `connect_timeout`, the time without progress after
    /// `call_timeout`, the whole request after `call_timeout_max` or the call's own
    /// [`timeout`](Call::timeout). A caller has five minutes to approve, which do not count as the
    /// call's time.
    pub async fn call_with(&self, call: Call) -> Result<CallResult, CallError> {
        let caller = call.caller.as_ref().unwrap_or(&self.0.caller);
        self.0.check_offers(caller);
        let mut context = CallContext {
            call: &call,
            caller,
            deadline: CallDeadline::start(call.timeout),
            trace: CallTrace::start(caller, &call),
        };
        let outcome = match context.trace.span().cloned() {
            None => self.0.make_call(&mut context).await,
            Some(span) => {
                Box::pin(self.0.make_call(&mut context))
                    .instrument(span)
                    .await
            }
        };
        let outcome = outcome.map_err(|error| *error);
        context.trace.ended(&outcome);
        outcome
    }
}

/// An answer that is not simply a result.
struct UnusualAnswer {
    answer: Result<RawJson, CallError>,
    /// It says that the server is connected with the wrong era.
    refusal: Option<EraRefusal>,
}

impl From<CallError> for Box<UnusualAnswer> {
    fn from(error: CallError) -> Self {
        Self::new(UnusualAnswer {
            answer: Err(error),
            refusal: None,
        })
    }
}

/// The context of one call in flight.
pub(crate) struct CallContext<'a> {
    call: &'a Call,
    caller: &'a Arc<dyn Caller>,
    deadline: CallDeadline,
    trace: CallTrace,
}

// Errors of the steps that are awaited are boxed: each step moves its outcome, which would be as
// large as the error.
impl HostState {
    async fn make_call(&self, context: &mut CallContext<'_>) -> Result<CallResult, Box<CallError>> {
        let (mut tool, server) = match self.resolve(context.call) {
            Err(CallError::Unresolved {
                why: Unresolved::Unknown { .. },
                ..
            }) if context.call.listed.is_none() => Box::pin(self.resolve_unlisted(context)).await?,
            resolved => resolved?,
        };
        context.trace.resolved(&tool);
        tracing::debug!(
            "tool {}/{}: resolved from {:?}",
            tool.id.server,
            shown(&tool),
            context.call.tool
        );
        let Some(mut server) = server else {
            return Ok(Box::pin(self.call_host_tool(&tool, context)).await?);
        };
        let mut is_first = true;
        let raw = loop {
            self.validate(&tool, context.call)?;
            tracing::debug!(
                "tool {}/{}: arguments fit its schema",
                tool.id.server,
                shown(&tool)
            );
            // Nothing is awaited between resolving and the first decision: the lease has the present
            // roster.
            let decided = match is_first {
                true => self.permit(&tool, &server.roster().gate, context),
                false => self.permit(&tool, &self.roster().gate, context),
            };
            let permit = match decided? {
                Permission::Granted(permit) => permit,
                Permission::MustAsk(request) => {
                    Box::pin(self.ask(&tool, request, Some(&mut server), context)).await?
                }
            };
            let UnusualAnswer { answer, refusal } =
                match self.send(&tool, &server, permit, context).await {
                    Ok(raw) => break raw,
                    Err(unusual) => *unusual,
                };
            if let Some(refusal) = refusal {
                let may_repeat = is_first && tool.idempotent;
                if Box::pin(self.era_refused(&server, refusal, context.caller, may_repeat)).await {
                    is_first = false;
                    tool = Box::pin(self.defined_now(&tool, &server, context.deadline)).await?;
                    continue;
                }
            }
            match answer {
                // The call was not executed: the schema requires other headers now. The changed
                // definition needs a new decision.
                Err(CallError::Request {
                    fault: RequestFault::HeaderMismatch { .. },
                    ..
                }) if std::mem::take(&mut is_first) => {
                    tool = Box::pin(self.listed_again(&tool, &server, context.deadline)).await?;
                }
                answer => break answer?,
            }
        };
        let misfit = match tool.definition.output_schema {
            Some(_) => Box::pin(self.check(&tool, &raw, context.caller)).await,
            None => None,
        };
        Ok(CallResult { raw, misfit })
    }

    /// The tool that the name resolves to, in the catalog that the caller listed from, and the
    /// lease of its server, if it has one.
    fn resolve(&self, call: &Call) -> Result<(Arc<Tool>, Option<ServerLease>), CallError> {
        let mut replaced = None;
        for _ in 0..MAX_RELOADS {
            let current = self.current();
            let catalog = call.listed.as_ref().unwrap_or(&current.catalog);
            let found = catalog.resolve(&call.tool);
            let tool = found.cloned().map_err(|why| CallError::Unresolved {
                name: call.tool.clone(),
                why,
            })?;
            if tool.is_host_tool() {
                return Ok((tool, None));
            }
            let roster = &current.roster;
            match roster.lease(roster.index_for(&tool)?) {
                // A tool that was listed before is called as it was listed, or not at all.
                Some(server) if call.listed.is_some() || server.launch == tool.launch => {
                    return Ok((tool, Some(server)));
                }
                // A reload replaced the server: the name is resolved in the new catalog.
                _ => self.rebuild(),
            }
            replaced = Some(tool.id.server.clone());
        }
        Err(CallError::Replaced {
            server: replaced.unwrap_or_else(ServerName::host),
        })
    }

    /// Resolves a name that is not known yet: it may belong to a server that is still connecting.
    async fn resolve_unlisted(
        &self,
        context: &mut CallContext<'_>,
    ) -> Result<(Arc<Tool>, Option<ServerLease>), CallError> {
        let began = context.trace.now();
        let is_awaited = self
            .wait_for_server_of(&context.call.tool, context.deadline)
            .await;
        context.trace.spent(CallPhase::Waiting, began);
        is_awaited?;
        self.resolve(context.call)
    }

    /// Waits for the servers that the name may belong to.
    async fn wait_for_server_of(
        &self,
        name: &str,
        deadline: CallDeadline,
    ) -> Result<(), CallError> {
        let roster = self.roster();
        let owners = possible_owners(&roster.config, name);
        let is_named = matches!(owners, PossibleOwners::Named(_));
        let may_have_it = |server: &&ServerHandle| {
            owners.contains(&server.config.name) && (is_named || server.may_offer_more())
        };
        let awaited: Vec<_> = roster.servers.iter().filter(may_have_it).cloned().collect();
        if awaited.is_empty() {
            return Ok(());
        }
        if is_named {
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

    /// Validates the arguments against the tool's input schema.
    fn validate(&self, tool: &Tool, call: &Call) -> Result<(), CallError> {
        let definition = &*tool.definition;
        let (hash, schema) = (definition.hash, &definition.input_schema);
        let simple =
            (definition.simple_schema).get_or_init(|| self.validators.simple(hash, schema));
        if simple.fits(call.arguments.as_str()) {
            return Ok(());
        }
        self.validators
            .validate(hash, schema, &call.arguments)
            .map_err(|misfit| CallError::Misfit {
                server: tool.id.server.clone(),
                tool: shown(tool),
                misfit,
            })
    }

    /// Sends a permitted call on the caller's session, as soon as the server is ready.
    async fn send(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
        permit: Permit,
        context: &mut CallContext<'_>,
    ) -> Result<RawJson, Box<UnusualAnswer>> {
        let deadline = context.deadline;
        let began = context.trace.now();
        let session = match server.session_now() {
            Some(session) => session,
            None => {
                let (caller, wait) = (context.caller.id(), tool.server.longest_connect());
                let session =
                    server.session_for_tool(&tool.definition, &caller, deadline.within(wait));
                Box::pin(session).await.map_err(CallError::from)?
            }
        };
        context.trace.spent(CallPhase::Waiting, began);
        let approved = self.approved_definition(tool, server);
        let (Some(definition), Ok(own_definition)) =
            (approved, session.own_definition(&tool.definition))
        else {
            return Err(moved(tool).into());
        };
        let options = CallOptions {
            timeouts: deadline.timeouts(tool),
            since: deadline.since,
            definition,
            own_definition,
        };
        tracing::debug!("tool {}/{}: sent", tool.id.server, shown(tool));
        let sent = context.trace.now();
        let answer = session.session().call(permit, options).await;
        context.trace.spent(CallPhase::Wire, sent);
        let outcome = if answer.is_ok() { "answered" } else { "failed" };
        tracing::debug!(
            "tool {}/{}: {outcome} after {} ms",
            tool.id.server,
            shown(tool),
            sent.map_or(0, |sent| sent.elapsed().as_millis())
        );
        let handle = session.handle(server);
        let refusal = refusal_in(
            answer.as_ref().map_err(|fault| &**fault),
            &session,
            Some(&tool.definition.name),
        );
        match (answer, refusal) {
            (Ok(raw), None) => {
                handle.record_success();
                Ok(raw)
            }
            (answer, refusal) => {
                let answer = answer.map_err(|fault| *fault);
                let answer = match answer {
                    Err(RequestFault::DefinitionChanged) => Err(moved(tool)),
                    answer => Box::pin(self.finish(handle, answer)).await,
                };
                Err(Box::new(UnusualAnswer { answer, refusal }))
            }
        }
    }

    /// The same tool as its server defines it now.
    async fn listed_again(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
        deadline: CallDeadline,
    ) -> Result<Arc<Tool>, CallError> {
        server
            .relist(deadline.within(tool.server.longest_connect()))
            .await;
        self.current_for(tool)
            .catalog
            .by_id(&tool.id)
            .cloned()
            .ok_or_else(|| moved(tool))
    }

    /// Checks the result against the tool's output schema, and notifies the caller of violations.
    async fn check(
        &self,
        tool: &Tool,
        result: &RawJson,
        caller: &Arc<dyn Caller>,
    ) -> Option<String> {
        let misfit = misfit::of_result(self, tool, result).await?;
        caller.notice(&format!(
            "server \"{}\", tool {}: {misfit}",
            tool.id.server,
            shown(tool)
        ));
        Some(misfit)
    }

    /// The approved definition, if it is still the tool's. The session compares it again right
    /// before sending.
    fn approved_definition(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
    ) -> Option<Arc<ToolDefinition>> {
        let current = self.current_for(tool);
        if let Some(now) = current.catalog.same_tool(tool) {
            return Some(now.definition.clone());
        }
        // A server that a reload has replaced ends with the calls that it has.
        let was_replaced = !server.is_in(&current.roster);
        (was_replaced && server.launch == tool.launch)
            .then(|| server.definition(&tool.definition))
            .flatten()
    }

    /// Gives a notice, once, if a caller has capabilities that servers are not told of: legacy
    /// servers learn them when they are connected.
    fn check_offers(&self, caller: &Arc<dyn Caller>) {
        if !self.resources.offers.include(caller.offers())
            && !self.warned_of_offers.swap(true, Ordering::Relaxed)
        {
            caller.notice(
                "this caller can answer more questions than the host was built with; servers that are told at connection \
                 ask none of them (HostBuilder::caller, HostBuilder::offers)",
            );
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
}

/// The error of a server's fault, with its cause and a hint.
async fn explain_fault(server: &ServerHandle, fault: RequestFault) -> CallError {
    let fault = fault.redacted(|text| server.stderr.redact(text));
    let (mut detail, mut hint) = (None, None);
    match &fault {
        RequestFault::Wire(WireFault::NeedsLogin(needed)) => {
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
        RequestFault::QueueTimeout { .. } | RequestFault::Wire(_) => hint = Some(Hint::Examine),
        _ => {}
    }
    CallError::Request {
        server: server.config.name.clone(),
        fault,
        detail,
        hint,
    }
}

fn moved(tool: &Tool) -> CallError {
    CallError::Moved {
        server: tool.id.server.clone(),
        tool: shown(tool),
    }
}

/// The tool's own name, safe to show.
fn shown(tool: &Tool) -> String {
    tool.id.tool.untrusted().for_terminal_line().to_string()
}

/// One call to make: the tool, the arguments and the caller.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// use serde_json::json;
/// use switchboard::{Call, Headless};
///
/// let call = Call::new("files/read_file", json!({"path": "README.md"}))
///     .caller(Arc::new(Headless::new("my-agent")))
///     .timeout(Duration::from_secs(20));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Call {
    /// An exposed name, or `server/tool`.
    pub tool: String,
    /// The arguments, a JSON object.
    pub arguments: RawJson,
    /// Who calls, and is asked for approval; the host's default caller if absent.
    pub caller: Option<Arc<dyn Caller>>,
    /// The catalog that the caller listed from: names are resolved there. `None` uses the current
    /// one.
    pub listed: Option<Arc<Catalog>>,
    /// The time limit of the whole call; the entry's `call_timeout_max` if absent.
    pub timeout: Option<Duration>,
    /// Whether a person has approved the call beforehand.
    pub pre_approved: bool,
}

impl Call {
    /// A call with the current catalog and the entry's deadlines, which needs approval if the gate
    /// says so.
    pub fn new(tool: impl Into<String>, arguments: impl Into<RawJson>) -> Self {
        Self {
            tool: tool.into(),
            arguments: arguments.into(),
            caller: None,
            listed: None,
            timeout: None,
            pre_approved: false,
        }
    }

    /// Sets the caller, who is asked for approval.
    pub fn caller(mut self, caller: Arc<dyn Caller>) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Sets the catalog in which the name is resolved.
    pub fn listed(mut self, catalog: Arc<Catalog>) -> Self {
        self.listed = Some(catalog);
        self
    }

    /// Sets the time limit of the whole call.
    pub fn timeout(mut self, most: Duration) -> Self {
        self.timeout = Some(most);
        self
    }

    /// Marks the call as approved beforehand by a person. Deny rules still apply.
    pub fn pre_approved(mut self) -> Self {
        self.pre_approved = true;
        self
    }
}
