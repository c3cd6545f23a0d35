//! One call: resolve, validate, decide, approve, send, return. Each step is a function.
//!
//! | file | what it does |
//! |---|---|
//! | `builder`, `error` | the call to make, and its errors |
//! | `wait` | waits for the server of an unknown name, and for a session |
//! | `approval`, `permissions` | asks the caller, remembers and revokes approvals; decisions before a call |
//! | `recover` | after an error: the call is made again, or ends with a hint |
//! | `output_schema` | checks a result against the tool's output schema |
//! | `host_tool`, `host_tool_caller` | calls of tools that this program runs, and what they may do for the caller |
//! | `sampling`, `unlisted` | sampling and resources, which the gate decides on as tools |
//! | `trace` | the report of each call |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use crate::caller::{ApprovalRequest, BoxFuture, Caller};
use crate::catalog::{Tool, ToolDefinition};
use crate::config::{MAX_TIMEOUT, Protocol, Timeouts};
use crate::gate::{DecisionRequest, Gate, NotAllowed, Permit};
use crate::host::{Host, HostState, MAX_RELOADS, ServerLease};
use crate::name::ServerName;
use crate::result::CallResult;
use crate::server::{CallerSession, EraEvidence};
use crate::session::{CallOptions, PermittedCall};
use crate::sync;
use crate::wire::RawJson;

use approval::denied;
pub use builder::Call;
pub use error::{CallError, DenialReason};
use recover::NextStep;
pub(crate) use recover::refusal_in;
pub(crate) use sampling::GateSamplingPolicy;
use trace::{CallTrace, ReportGuard};

mod approval;
mod builder;
mod error;
mod host_tool;
mod host_tool_caller;
mod output_schema;
mod permissions;
mod recover;
mod sampling;
mod trace;
mod unlisted;
mod wait;

impl Host {
    /// Calls a tool, through the gate, for the host's default caller
    /// ([`HostBuilder::caller`](crate::HostBuilder::caller)). Like [`call_with`](Self::call_with)
    /// with a plain [`Call`]: cancellation, errors, retries and deadlines are described there.
    pub fn call(
        &self,
        tool: impl Into<Arc<str>>,
        arguments: impl Into<RawJson>,
    ) -> BoxFuture<'_, Result<CallResult, CallError>> {
        self.call_with(Call::new(tool, arguments))
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
    /// A call that may have been executed is not sent twice. A call is sent again if its server says
    /// that it was not executed: it lost the HTTP session, refused the headers, or requires a step on
    /// a page first (error -32042), which the caller then completed. For tools that the entry names in
    /// `idempotent_tools` it is also sent again after a lost response, after HTTP 429 or 503 with
    /// `Retry-After`, and when the tool needs the other protocol era. A server that is idle or has
    /// failed is started by the call, which waits until it is connected, or fails with the reason.
    ///
    /// # Deadlines
    ///
    /// Connecting ends after the entry's `connect_timeout` (a first start that may install a package
    /// has [longer](crate::config::ServerConfig::first_connect)), the time without progress after
    /// `call_timeout`, the whole request after `call_timeout_max` or the call's own
    /// [`timeout`](Call::timeout). A caller has five minutes to approve, which do not count as the
    /// call's time.
    pub fn call_with(&self, call: Call) -> BoxFuture<'_, Result<CallResult, CallError>> {
        let host = &*self.0;
        // Boxed here: otherwise the caller's crate would compile all futures of a call into its own,
        // and move them. Written into its box: `Box::pin` would copy all its bytes, of which only
        // the call's are set.
        match ReportGuard::start(call.caller.as_ref().unwrap_or(&host.caller), &call) {
            None => {
                let boxed = Box::write(Box::new_uninit(), host.make_call(call, CallTrace::NONE));
                Box::into_pin(boxed)
            }
            Some(report) => Box::pin(host.make_reported_call(call, report)),
        }
    }
}

/// The context of one call in flight.
pub(crate) struct CallContext<'a> {
    call: &'a Call,
    caller: &'a Arc<dyn Caller>,
    deadline: CallDeadline,
    trace: CallTrace<'a>,
}

/// How often a call was made, and where its tool was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The first time, with a tool of the current catalog. Until something is awaited, the catalog
    /// and the lease's roster are current.
    Current,
    /// The first time, with a tool of the catalog that the caller listed from. Until something is
    /// awaited, the lease's roster is current.
    Listed,
    /// Once more after an answer.
    Repeated,
}

/// A call that has its permit, and the session to send it on.
struct ReadyCall {
    session: CallerSession,
    call: PermittedCall,
}

/// A call whose arguments are valid and that the gate does not deny.
enum PreparedCall {
    Ready(ReadyCall),
    /// The caller must be asked, or the server is not connected. Boxed, since it is rare.
    MustWait(Box<Permission>),
}

/// The gate's decision on a call that it does not deny.
enum Permission {
    Granted(Permit),
    /// The caller must be asked.
    MustAsk(Box<ApprovalRequest>),
}

impl HostState {
    /// Makes a call that has a report.
    async fn make_reported_call(
        &self,
        call: Call,
        mut report: ReportGuard,
    ) -> Result<CallResult, CallError> {
        let outcome = match report.span() {
            None => self.make_call(call, report.trace()).await,
            Some(span) => {
                let calling = self.make_call(call, report.trace());
                calling.instrument(span).await
            }
        };
        report.ended(&outcome);
        outcome
    }

    // Not an `async fn`: its future would have the call twice, as an argument and as a variable.
    // Errors of the steps are boxed: each step moves its outcome, which would be as large as the
    // error. Rare branches are boxed: they would make every call's future larger.
    #[allow(clippy::manual_async_fn)]
    fn make_call(
        &self,
        call: Call,
        trace: CallTrace<'_>,
    ) -> impl Future<Output = Result<CallResult, CallError>> + Send {
        async move {
            let caller = call.caller.as_ref().unwrap_or(&self.caller);
            self.check_offers(caller);
            let mut context = CallContext {
                call: &call,
                caller,
                deadline: CallDeadline::start(call.timeout),
                trace,
            };
            let context = &mut context;
            let (mut tool, server) = match self.resolve(&call) {
                Err(error) if error.is_unknown_name() && call.listed.is_none() => {
                    Box::pin(self.resolve_unlisted(context)).await?
                }
                resolved => resolved?,
            };
            context.trace.resolved(&tool, &call);
            let Some(mut server) = server else {
                return Box::pin(self.call_host_tool(&tool, context)).await;
            };
            let mut attempt = match call.listed {
                None => Attempt::Current,
                Some(_) => Attempt::Listed,
            };
            let raw = loop {
                let ReadyCall { session, call } = match self
                    .prepare(&tool, &server, attempt, context)?
                {
                    PreparedCall::Ready(ready) => ready,
                    PreparedCall::MustWait(permission) => {
                        Box::pin(self.wait_until_ready(&tool, *permission, &mut server, context))
                            .await?
                    }
                };
                context.trace.sent(&tool, &call);
                let answer = session.session().call(call).await;
                context.trace.answered(&tool, answer.is_ok());
                let answer = match answer {
                    // An entry that fixes the era is never switched to the other.
                    Ok(raw)
                        if server.config.protocol != Protocol::Auto
                            || EraEvidence::in_response(Ok(&raw)).is_none() =>
                    {
                        session.handle(&server).record_success();
                        break raw;
                    }
                    answer => answer,
                };
                let recovering = self.recover(&tool, &server, session, answer, attempt, context);
                match Box::pin(recovering).await? {
                    NextStep::Return(raw) => break raw,
                    NextStep::CallAgain(defined_now) => tool = defined_now,
                }
                attempt = Attempt::Repeated;
            };
            let schema_violation = match tool.definition.output_schema {
                Some(_) => Box::pin(self.check(&tool, &raw, caller)).await,
                None => None,
            };
            Ok(CallResult {
                raw,
                schema_violation,
            })
        }
    }

    /// The tool that the name resolves to, in the catalog that the caller listed from, and the
    /// lease of its server, if it has one.
    fn resolve(&self, call: &Call) -> Result<(Arc<Tool>, Option<ServerLease>), Box<CallError>> {
        let mut replaced = None;
        for _ in 0..MAX_RELOADS {
            let current = self.current();
            let catalog = call.listed.as_ref().unwrap_or(&current.catalog);
            let found = catalog.resolve(&call.tool);
            let tool = found.cloned().map_err(|why| CallError::Unresolved {
                name: call.tool.to_string(),
                why,
            })?;
            if tool.is_host_tool() {
                return Ok((tool, None));
            }
            let roster = &current.roster;
            match roster.lease(roster.index_for(&tool).map_err(CallError::from)?) {
                // A tool that was listed before is called as it was listed, or not at all.
                Some(server) if call.listed.is_some() || server.launch == tool.launch => {
                    return Ok((tool, Some(server)));
                }
                // A reload replaced the server: the name is resolved in the new catalog.
                _ => self.rebuild(),
            }
            replaced = Some(tool.id.server.clone());
        }
        Err(Box::new(CallError::Replaced {
            server: replaced.unwrap_or_else(ServerName::host),
        }))
    }

    /// Validates, decides, and takes the session, as far as nothing has to be awaited.
    fn prepare(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
        attempt: Attempt,
        context: &mut CallContext<'_>,
    ) -> Result<PreparedCall, Box<CallError>> {
        self.validate(tool, context.call)?;
        let permission = match attempt {
            Attempt::Current | Attempt::Listed => {
                self.permit(tool, &server.roster().gate, context)?
            }
            Attempt::Repeated => self.permit(tool, &self.roster().gate, context)?,
        };
        match (permission, server.session_now()) {
            (Permission::Granted(permit), Some(session)) => {
                let is_current = attempt == Attempt::Current;
                let ready = self.ready_call(tool, server, permit, session, is_current, context)?;
                Ok(PreparedCall::Ready(ready))
            }
            (permission, _) => Ok(PreparedCall::MustWait(Box::new(permission))),
        }
    }

    /// The error means that the tool is no longer the approved one, or that the session does not
    /// list it. `is_current`: nothing was awaited since the tool was found in the current catalog.
    #[inline(always)]
    fn ready_call(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
        permit: Permit,
        session: CallerSession,
        is_current: bool,
        context: &CallContext<'_>,
    ) -> Result<ReadyCall, Box<CallError>> {
        let own_definition = session.own_definition(&tool.definition);
        let options = CallOptions {
            definition: match is_current {
                true => None,
                false => Some(self.approved_definition(tool, server)?),
            },
            own_definition: own_definition.map_err(|()| definition_changed(tool))?,
            timeouts: context.deadline.timeouts(tool),
            since: context.deadline.since,
        };
        let call = PermittedCall::new(permit, options);
        Ok(ReadyCall { session, call })
    }

    /// Validates the arguments against the tool's input schema.
    #[inline(always)]
    fn validate(&self, tool: &Tool, call: &Call) -> Result<(), Box<CallError>> {
        let definition = &*tool.definition;
        let (hash, schema) = (definition.hash, &definition.input_schema);
        let simple =
            (definition.simple_schema).get_or_init(|| self.validators.simple(hash, schema));
        if !simple.fits(call.arguments.as_str()) {
            let validated = self.validators.validate(hash, schema, &call.arguments);
            validated.map_err(|schema_violation| CallError::InvalidArguments {
                server: tool.id.server.clone(),
                tool: shown(tool),
                schema_violation,
            })?;
        }
        let server = &tool.id.server;
        tracing::debug!("tool {server}/{}: arguments fit its schema", shown(tool));
        Ok(())
    }

    /// Has this gate decide.
    fn permit(
        &self,
        tool: &Arc<Tool>,
        gate: &Gate,
        context: &mut CallContext<'_>,
    ) -> Result<Permission, Box<CallError>> {
        let (call, caller) = (context.call, context.caller);
        let request = DecisionRequest {
            tool,
            caller: caller.id(),
            pre_approved: call.pre_approved,
        };
        let decision = gate.decide(request, &sync::read(&self.grants));
        context.trace.decided(&decision);
        tracing::debug!("tool {}/{}: {decision}", tool.id.server, shown(tool));
        if let Some(reason) = caller.refuses(tool) {
            let reason = Some(reason);
            return Err(denied(tool, DenialReason::Caller { reason }, None).into());
        }
        match decision.permit(tool, &call.arguments, caller) {
            Ok(permit) => {
                if gate.only_shows_changes(tool) {
                    self.show_change(tool, caller);
                }
                Ok(Permission::Granted(permit))
            }
            Err(NotAllowed::Deny { rule }) => {
                Err(denied(tool, DenialReason::Rule(rule), None).into())
            }
            Err(NotAllowed::Ask {
                because,
                once_only,
                changed,
            }) => Ok(Permission::MustAsk(Box::new(ApprovalRequest {
                changed,
                once_only,
                ..ApprovalRequest::new(tool, call.arguments.clone(), because)
            }))),
        }
    }

    /// The approved definition, which must still be the tool's. The session compares it again right
    /// before sending.
    fn approved_definition(
        &self,
        tool: &Arc<Tool>,
        server: &ServerLease,
    ) -> Result<Arc<ToolDefinition>, Box<CallError>> {
        let current = self.current_for(tool);
        if let Some(now) = current.catalog.same_tool(tool) {
            return Ok(now.definition.clone());
        }
        // A server that a reload has replaced ends with the calls that it has.
        let was_replaced = !server.is_in(&current.roster);
        (was_replaced && server.launch == tool.launch)
            .then(|| server.definition(&tool.definition))
            .flatten()
            .ok_or_else(|| definition_changed(tool).into())
    }

    /// Gives a notice, once, if a caller has capabilities that servers are not told of: legacy
    /// servers learn them when they are connected.
    fn check_offers(&self, caller: &Arc<dyn Caller>) {
        if !self.resources.offers.include(caller.capabilities())
            && !self.warned_of_offers.swap(true, Ordering::Relaxed)
        {
            caller.notice(
                "this caller can answer more questions than the host was built with; legacy servers learn the capabilities when \
                 they connect, and will not use the additional ones (HostBuilder::caller, HostBuilder::capabilities)",
            );
        }
    }
}

/// The caller's own limit for the whole call, if there is one. The time that a person takes to
/// approve does not count.
#[derive(Debug, Clone, Copy)]
struct CallDeadline {
    limit: Option<Duration>,
    /// The start of the limit.
    since: Option<Instant>,
}

impl CallDeadline {
    fn start(limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| limit.min(MAX_TIMEOUT));
        Self {
            limit,
            since: limit.map(|_| Instant::now()),
        }
    }

    /// Excludes the time since `start`.
    fn exclude_since(&mut self, start: Instant) {
        self.since = self.since.map(|since| since + start.elapsed());
    }

    /// `wait`, or the rest of the limit if that is less.
    fn within(self, wait: Duration) -> Duration {
        match (self.limit, self.since) {
            (Some(limit), Some(since)) => wait.min(limit.saturating_sub(since.elapsed())),
            _ => wait,
        }
    }

    /// The entry's deadlines, with the caller's own maximum if there is one.
    fn timeouts(self, tool: &Tool) -> Timeouts {
        let mut timeouts = tool.server.timeouts;
        if let Some(limit) = self.limit {
            // If the entry has one deadline for the whole call, the caller's replaces it.
            let is_absolute = timeouts.call == timeouts.call_max;
            timeouts.call_max = limit;
            timeouts.call = if is_absolute {
                limit
            } else {
                timeouts.call.min(limit)
            };
        }
        timeouts
    }
}

fn definition_changed(tool: &Tool) -> CallError {
    CallError::DefinitionChanged {
        server: tool.id.server.clone(),
        tool: shown(tool),
    }
}

/// The tool's own name, safe to show.
fn shown(tool: &Tool) -> String {
    tool.id.tool.untrusted().for_terminal_line().to_string()
}
