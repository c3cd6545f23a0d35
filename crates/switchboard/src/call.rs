//! The story of one call: resolve, validate, decide, approve, call, return. Each station is a leaf that returns.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::caller::{Approval, ApprovalRequest, Caller, Keep};
use crate::catalog::{Catalog, Tool, Unresolved};
use crate::event::Event;
use crate::gate::{Decision, Permit, Question};
use crate::host::{Host, Shared};
use crate::name::ServerName;
use crate::result::CallResult;
use crate::schema::Misfit;
use crate::server::{ServerHandle, State};
use crate::session::RequestFault;
use crate::store::Shelf;
use crate::wire::RawJson;

/// How long a person may take to approve; then the call is denied.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

impl Host {
    /// Makes one call, through the gate.
    pub async fn call(&self, call: Call) -> Result<CallResult, CallError> {
        let host = &*self.0;
        let tool = host.resolve(&call).await?;
        host.validate(&tool, &call)?;
        let permit = host.permit(&tool, &call).await?;
        let server = host.server(&tool.id.server)?;
        let session = server.ready(tool.server.timeouts.connect).await?;
        host.confirm(server, &tool)?;
        let answer = session.call(permit, &tool, &call.arguments, &call.caller, call.timeouts(&tool)).await;
        host.finish(server, answer).await.map(|raw| CallResult { raw })
    }
}

impl Shared {
    /// Which tool is meant, in the catalog that the caller listed from.
    async fn resolve(&self, call: &Call) -> Result<Arc<Tool>, CallError> {
        let found = match &call.listed {
            Some(catalog) => catalog.resolve(&call.tool).cloned(),
            None => self.catalog().resolve(&call.tool).cloned(),
        };
        match found {
            Err(Unresolved::Unknown { .. }) if call.listed.is_none() && self.late_for(&call.tool).await? => {
                self.catalog().resolve(&call.tool).cloned()
            }
            found => found,
        }
        .map_err(|why| CallError::Unresolved { name: call.tool.clone(), why })
    }

    /// A name that is not known yet may belong to a server that is not there yet: waits for it. False if none is awaited.
    async fn late_for(&self, name: &str) -> Result<bool, CallError> {
        let named = self
            .servers
            .iter()
            .find(|server| name.strip_prefix(server.config.name.as_str()).is_some_and(|rest| rest.starts_with('/')));
        if let Some(server) = named {
            server.ready(server.config.timeouts.connect).await?;
        } else {
            let connecting = || self.servers.iter().filter(|server| matches!(server.snapshot().state, State::Connecting { .. }));
            if connecting().next().is_none() {
                return Ok(false);
            }
            for server in connecting() {
                // Bounded by the server's own deadline for connecting.
                server.settled().await;
            }
        }
        self.rebuild();
        Ok(true)
    }

    /// Do the arguments fit its schema?
    fn validate(&self, tool: &Tool, call: &Call) -> Result<(), CallError> {
        self.validators
            .validate(tool.definition.hash, &tool.definition.input_schema, &call.arguments)
            .map_err(|misfit| CallError::Misfit { server: tool.id.server.clone(), tool: shown(tool), misfit })
    }

    /// May it run? Asks the caller where the gate says so.
    async fn permit(&self, tool: &Arc<Tool>, call: &Call) -> Result<Permit, CallError> {
        let decision = self.decide(tool, call.yes);
        if let Some(permit) = decision.permit(tool, &call.arguments, &call.caller.id()) {
            return Ok(permit);
        }
        let denied = |reason: String| CallError::Denied { server: tool.id.server.clone(), tool: shown(tool), reason };
        match decision {
            Decision::Ask { because, once_only, changed } => {
                let request = ApprovalRequest {
                    id: tool.id.clone(),
                    exposed: tool.exposed.clone(),
                    arguments: call.arguments.clone(),
                    definition: tool.definition.clone(),
                    because,
                    changed,
                    once_only,
                };
                self.approve(tool, &request, &call.caller).await.map_err(denied)
            }
            Decision::Deny { rule } => Err(denied(rule)),
            Decision::Allow { because } => Err(denied(because)),
        }
    }

    /// What rules and remembered answers say.
    fn decide(&self, tool: &Tool, yes: bool) -> Decision {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        self.gate.decide(Question { tool, yes }, &grants)
    }

    /// What the caller says; an *always* is remembered. The error is why not.
    async fn approve(&self, tool: &Arc<Tool>, request: &ApprovalRequest, caller: &Arc<dyn Caller>) -> Result<Permit, String> {
        // Taken before the question: what a server puts there while a person reads was not what they said yes to.
        let offered = self.tools_with(tool);
        let answer = match tokio::time::timeout(ANSWER_TIMEOUT, caller.approve(request)).await {
            Ok(answer) => answer,
            Err(_) => return Err(format!("nobody answered within {} s", ANSWER_TIMEOUT.as_secs())),
        };
        match answer {
            Approval::AlwaysTool(keep) if !request.once_only => self.remember(&[tool.clone()], keep),
            Approval::AlwaysServer(keep) if !request.once_only => self.remember(&offered, keep),
            _ => {}
        }
        Permit::approved(request, answer, &caller.id()).ok_or_else(|| match answer {
            Approval::Unavailable => "nobody is there to ask; allow it by a rule in [permissions], or with `--yes`".to_owned(),
            _ => "the answer was no".to_owned(),
        })
    }

    /// Every tool that the server offers today, this one as it is asked about.
    fn tools_with(&self, tool: &Arc<Tool>) -> Vec<Arc<Tool>> {
        let catalog = self.catalog();
        let others = catalog.tools().iter().filter(|other| other.id.server == tool.id.server && other.id != tool.id);
        others.chain([tool]).cloned().collect()
    }

    /// Remembers a yes for these tools as they are now.
    fn remember(&self, tools: &[Arc<Tool>], keep: Keep) {
        let mut grants = self.grants.write().unwrap_or_else(PoisonError::into_inner);
        for tool in tools {
            let grant = grants.add(tool);
            if keep == Keep::ForGood
                && let Err(fault) = self.store.put(Shelf::Grants, &grant.key(), &grant.to_json())
            {
                let line = format!("the answer holds for this run only: {fault}");
                let _ = self.events.send(Event::Notice { server: Some(tool.id.server.clone()), line });
            }
        }
    }

    /// Is the tool still the one that was approved?
    fn confirm(&self, server: &ServerHandle, tool: &Tool) -> Result<(), CallError> {
        match self.catalog_with(server).by_id(&tool.id) {
            Some(now) if now.definition.hash == tool.definition.hash => Ok(()),
            _ => Err(CallError::Moved { server: tool.id.server.clone(), tool: shown(tool) }),
        }
    }

    /// Counts good work; gives a lost connection its cause.
    pub(crate) async fn finish(
        &self,
        server: &ServerHandle,
        answer: Result<RawJson, RequestFault>,
    ) -> Result<RawJson, CallError> {
        match answer {
            Ok(raw) => {
                server.worked();
                Ok(raw)
            }
            Err(fault) => {
                let fault = fault.redacted(|text| server.stderr.redact(text));
                let detail = match fault {
                    RequestFault::Closed(_) => server.death().await,
                    _ => None,
                };
                Err(CallError::Request { server: server.config.name.clone(), fault, detail })
            }
        }
    }
}

/// The tool's own name, safe to show.
fn shown(tool: &Tool) -> String {
    tool.id.tool.untrusted().for_terminal_line().to_string()
}

/// What a caller wants done.
#[derive(Clone)]
pub struct Call {
    /// An exposed name, or `server/tool`.
    pub tool: String,
    /// A JSON object.
    pub arguments: RawJson,
    /// Who asks, and who is asked.
    pub caller: Arc<dyn Caller>,
    /// The catalog that the caller listed from: a name means what it meant there. `None` takes the present one.
    pub listed: Option<Arc<Catalog>>,
    /// The longest it may take in all; the entry's `call_timeout_max` where absent.
    pub timeout: Option<Duration>,
    /// The person said yes beforehand.
    pub yes: bool,
}

impl Call {
    /// The entry's deadlines, with the caller's own maximum where it gave one.
    fn timeouts(&self, tool: &Tool) -> crate::config::Timeouts {
        let mut timeouts = tool.server.timeouts;
        if let Some(most) = self.timeout {
            timeouts.call_max = most;
            timeouts.call = timeouts.call.min(most);
        }
        timeouts
    }
}

/// Why a call did not complete. A tool that answered `isError` is not among these.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// No such tool.
    #[error("no tool {name:?}{}", unresolved_hint(.why))]
    Unresolved {
        /// As asked for.
        name: String,
        /// Why.
        why: Unresolved,
    },
    /// No such server.
    #[error("no server \"{server}\" is configured; `switchboard status` lists them")]
    UnknownServer {
        /// As asked for.
        server: ServerName,
    },
    /// The arguments do not fit.
    #[error("server \"{server}\", tool {tool}: {misfit}")]
    Misfit {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
        /// How.
        misfit: Misfit,
    },
    /// A rule, a mode, or a person said no.
    #[error("server \"{server}\", tool {tool}: denied: {reason}")]
    Denied {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
        /// Who or what said no, and what to try.
        reason: String,
    },
    /// The server cannot be used.
    #[error(transparent)]
    NotReady(#[from] crate::server::NotReady),
    /// The definition changed between approval and call.
    #[error(
        "server \"{server}\", tool {tool}: its definition changed after it was approved; look at it again and repeat the call"
    )]
    Moved {
        /// Which server.
        server: ServerName,
        /// Which tool, escaped.
        tool: String,
    },
    /// The request did not complete.
    #[error("server \"{server}\": {fault}{}", .detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default())]
    Request {
        /// Which server.
        server: ServerName,
        /// What happened.
        fault: crate::session::RequestFault,
        /// Exit status and last stderr, where the server died.
        detail: Option<String>,
    },
}

fn unresolved_hint(why: &Unresolved) -> String {
    match why {
        Unresolved::Unknown { nearest } if nearest.is_empty() => "; `switchboard tools` lists what is on offer".to_owned(),
        Unresolved::Unknown { nearest } => format!("; did you mean {}?", nearest.join(", ")),
        Unresolved::Withheld(withheld) => {
            format!("; server \"{}\" offers it, but it is withheld: {}", withheld.server, withheld.reason)
        }
    }
}
