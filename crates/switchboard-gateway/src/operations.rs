//! What an operator sees and decides: waiting approvals, the audit log, metrics, running requests.
//! The gateway reports here; the status page and the commands of the socket read from here.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde_json::{Value, json};
use switchboard::caller::{DecisionKind, SamplingDecision};
use switchboard::hint::Hint;
use switchboard::reload::ReloadReport;
use switchboard::{Approval, BoxFuture, Host, RawJson, ServerName};

use crate::approval_queue::{ApprovalEffect, ApprovalQueue, REVOKED, WaitingCall};
use crate::approvals::{Approvals, HeldCall};
use crate::audit::{AuditLine, AuditLog};
use crate::command_words::{CommandWords, plain_command};
use crate::loaded_config::LoadedConfig;
use crate::metrics::{GatewayMetrics, MetricSources};
use crate::outbound::OutboundMeter;
use crate::pending_changes::{ShownChange, pending_changes};
use crate::recorder::{Recorder, RequestOutcome, RequestRecord};
use crate::refusal::RefusalLimit;
use crate::running::RunningRequests;
use crate::settings::GatewaySettings;
use crate::tokens::ClientTokens;
use crate::{Principal, Refusal};

/// The operator's side of one gateway.
#[derive(Debug)]
pub struct Operations {
    pub(crate) host: Host,
    pub(crate) approvals: Arc<ApprovalQueue>,
    pub(crate) audit: AuditLog,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) running: Arc<RunningRequests>,
    pub(crate) config: LoadedConfig,
    pub(crate) started: Instant,
    outbound: Arc<OutboundMeter>,
    words: OnceLock<(HintWords, CommandWords)>,
    /// Set if clients have tokens.
    tokens: OnceLock<ClientTokens>,
    refusal_limit: RefusalLimit,
}

/// Words a hint about a server, with commands of the program between backticks.
pub type HintWords = fn(Hint, &ServerName) -> Option<String>;

impl Operations {
    /// For a gateway over this host, which was configured by these files.
    pub fn new(host: Host, audit: AuditLog, config_files: Vec<PathBuf>) -> Arc<Self> {
        let approvals = Arc::new(ApprovalQueue::with_random_ids());
        let running = Arc::new(RunningRequests::default());
        let outbound = Arc::new(OutboundMeter::default());
        let metrics = GatewayMetrics::new(MetricSources {
            host: host.clone(),
            approvals: approvals.clone(),
            running: running.clone(),
            outbound: outbound.clone(),
            audit: audit.clone(),
        });
        Arc::new(Self {
            config: LoadedConfig::new(&host, config_files),
            host,
            approvals,
            audit,
            metrics,
            running,
            started: Instant::now(),
            outbound,
            words: OnceLock::new(),
            tokens: OnceLock::new(),
            refusal_limit: RefusalLimit::new(Instant::now()),
        })
    }

    /// The status page shows that the configuration was read now. Reloads that change a server or a rule
    /// are noticed without this.
    pub fn set_config_read(&self) {
        self.config.set_read();
    }

    /// Sets how hints and commands of the program are worded. Later calls have no effect.
    pub fn set_words(&self, hint: HintWords, command: CommandWords) {
        let _ = self.words.set((hint, command));
    }

    /// Sets the tokens of clients: when one is revoked, the calls that wait for approval and the
    /// approvals that were given are removed. Later calls have no effect.
    pub fn set_tokens(&self, tokens: ClientTokens) {
        let _ = self.tokens.set(tokens);
    }

    /// Removes the waiting calls and the permits of clients whose token was revoked.
    pub(crate) fn remove_revoked_clients(&self) {
        let Some(tokens) = self.tokens.get() else {
            return;
        };
        for call in self.approvals.remove_clients(tokens.is_revoked()) {
            self.record_approval(
                &call,
                ApprovalEffect::Denied,
                "the client's token was revoked",
            );
        }
    }

    /// Whether the token that a client was authenticated with was revoked since.
    fn is_revoked(&self, client: &Principal) -> bool {
        let tokens = self.tokens.get();
        tokens.is_some_and(|tokens| tokens.is_revoked()(client))
    }

    /// The configuration was read again, with this effect in words.
    pub fn record_reload(&self, effect: &str, by: &'static str) {
        self.audit.add(&AuditLine {
            event: "reload",
            by,
            name: effect,
            ..AuditLine::default()
        });
    }

    fn record_approval(&self, call: &WaitingCall, effect: ApprovalEffect, by: &'static str) {
        self.audit.add(&AuditLine {
            event: "approval",
            approval_id: Some(call.id),
            by,
            client: call.principal.as_str(),
            server: call.tool.server.as_str(),
            name: call.tool.tool.as_wire(),
            approval: match effect {
                ApprovalEffect::Runs | ApprovalEffect::Kept => "yes",
                ApprovalEffect::Denied => "no",
            },
            outcome: effect.as_str(),
            arguments: Some(&call.arguments),
            ..AuditLine::default()
        });
    }

    /// What a person could do about a server.
    pub(crate) fn hint(&self, hint: Hint, server: &ServerName) -> Option<String> {
        let (words, _) = self.words.get()?;
        words(hint, server)
    }

    /// Words a command of the program.
    pub(crate) fn command_words(&self) -> CommandWords {
        self.words.get().map_or(plain_command, |(_, words)| *words)
    }

    /// What the gateway is made with.
    pub fn settings(self: &Arc<Self>) -> GatewaySettings {
        GatewaySettings {
            approvals: self.clone(),
            recorder: self.clone(),
            running: self.running.clone(),
            outbound: self.outbound.clone(),
            command_words: self.command_words(),
            ..GatewaySettings::default()
        }
    }

    /// The calls that wait for an operator.
    pub fn approvals(&self) -> &ApprovalQueue {
        &self.approvals
    }

    /// The audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// The metrics.
    pub fn metrics(&self) -> &GatewayMetrics {
        &self.metrics
    }

    /// An operator's answer, given on the page or by a command; `None` if no such approval waits.
    pub fn decide(
        &self,
        id: u64,
        is_allowed: bool,
        by: &'static str,
    ) -> Option<(WaitingCall, ApprovalEffect)> {
        self.remove_revoked_clients();
        let (call, effect) = self.approvals.decide(id, is_allowed)?;
        self.record_approval(&call, effect, by);
        Some((call, effect))
    }

    /// An operator cancels a request; false if it has ended.
    pub fn cancel(&self, id: u64, by: &'static str) -> bool {
        let is_running = self.running.cancel(id);
        if is_running {
            self.audit.add(&AuditLine {
                event: "cancel",
                request: Some(id),
                by,
                ..AuditLine::default()
            });
        }
        is_running
    }

    /// An operator restarts a server; false if there is none of this name.
    pub async fn restart(self: &Arc<Self>, server: &str, by: &'static str) -> bool {
        let Some(handle) = self.host.server(server) else {
            return false;
        };
        self.audit.add(&AuditLine {
            event: "restart",
            server,
            by,
            ..AuditLine::default()
        });
        let _ = tokio::spawn(async move { handle.restart().await }).await;
        true
    }

    /// Changes that would start or allow something, and wait for a person.
    pub fn pending_changes(&self) -> Vec<ShownChange> {
        pending_changes(&self.host)
    }

    /// An operator accepts a change of a server's entry as it was shown; the error says why it was
    /// not accepted.
    pub async fn accept(self: &Arc<Self>, id: &str, by: &'static str) -> Result<(), String> {
        let changes = self.pending_changes();
        let change = changes.into_iter().find(|change| change.id == id);
        let Some((change, disclosure)) = change.and_then(|change| {
            let disclosure = change.disclosure.clone()?;
            Some((change, disclosure))
        }) else {
            return Err(
                "no such change waits; it was accepted, or the file has changed again".into(),
            );
        };
        let operations = self.clone();
        // A task of its own: a browser that is closed meanwhile does not end what it has begun, and the
        // audit log has it.
        let accepting = tokio::spawn(async move {
            let accepted = operations.host.accept(&disclosure).await;
            operations.audit.add(&AuditLine {
                event: "accept",
                server: disclosure.name.as_str(),
                name: &change.id,
                by,
                outcome: if accepted.is_ok() {
                    "accepted"
                } else {
                    "failed"
                },
                ..AuditLine::default()
            });
            accepted.map(drop).map_err(|error| error.to_string())
        });
        accepting.await.map_err(|error| error.to_string())?
    }

    /// An operator's reload has taken effect: each change that was accepted with it is one line.
    pub fn record_accepted(&self, report: &ReloadReport, by: &'static str) {
        for change in &report.accepted {
            let server = change.server.as_ref();
            let lines = change.lines.iter();
            let shown: Vec<_> = std::iter::once(&change.reason)
                .chain(lines)
                .cloned()
                .collect();
            self.audit.add(&AuditLine {
                event: "accept",
                by,
                server: server.map_or("", |server| server.as_str()),
                name: &shown.join("; "),
                outcome: "accepted",
                ..AuditLine::default()
            });
        }
    }

    /// A command of the socket: `approvals`, `approvals allow ID`, `approvals deny ID`. The answer is
    /// one line of JSON; `None` for another command.
    pub async fn command(self: &Arc<Self>, command: &str) -> Option<String> {
        const BY: &str = "switchboard approvals";
        let words: Vec<&str> = command.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["approvals"] => return Some(self.list_waiting()),
            ["approvals", "allow", id] if id.starts_with(ShownChange::ID_PREFIX) => {
                match self.accept(id, BY).await {
                    Ok(()) => json!({"effect": "accepted"}),
                    Err(error) => json!({"error": error}),
                }
            }
            ["approvals", "deny", id] if id.starts_with(ShownChange::ID_PREFIX) => {
                json!({"error": "a change has no effect until it is allowed; to discard it, take it out of its file"})
            }
            ["approvals", word @ ("allow" | "deny"), id] => {
                let decided = id
                    .parse()
                    .ok()
                    .and_then(|id| self.decide(id, *word == "allow", BY));
                match decided {
                    Some((call, effect)) => json!({
                        "effect": effect.as_str(),
                        "client": call.principal.as_str(),
                        "server": call.tool.server.as_str(),
                        "tool": call.tool.tool.as_wire(),
                    }),
                    None => json!({"error": "no such approval waits"}),
                }
            }
            _ => return None,
        };
        Some(answer.to_string())
    }
}

impl Operations {
    /// What waits for an operator, as one line of JSON.
    fn list_waiting(&self) -> String {
        self.remove_revoked_clients();
        let waiting = self.approvals.waiting();
        let list = WaitingList {
            waiting: waiting.iter().map(ShownCall::of).collect(),
            changes: self
                .pending_changes()
                .iter()
                .map(ShownChange::json)
                .collect(),
        };
        serde_json::to_string(&list).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct WaitingList<'a> {
    waiting: Vec<ShownCall<'a>>,
    changes: Vec<Value>,
}

/// A waiting call. Its arguments are written as the client sent them.
#[derive(Serialize)]
struct ShownCall<'a> {
    id: u64,
    client: &'a str,
    server: &'a str,
    tool: &'a str,
    arguments: &'a RawJson,
    because: &'a str,
    changed: &'a [String],
    held_for_s: Option<u64>,
}

impl<'a> ShownCall<'a> {
    fn of(call: &'a WaitingCall) -> Self {
        Self {
            id: call.id,
            client: call.principal.as_str(),
            server: call.tool.server.as_str(),
            tool: call.tool.tool.as_wire(),
            arguments: &call.arguments,
            because: &call.because,
            changed: &call.changed,
            held_for_s: call.held_until.map(|until| {
                let left = until.duration_since(SystemTime::now());
                left.unwrap_or_default().as_secs()
            }),
        }
    }
}

impl Approvals for Operations {
    fn approve<'a>(&'a self, call: &'a HeldCall<'a>) -> BoxFuture<'a, Approval> {
        // A new token under the same name has no permits of the old one.
        self.remove_revoked_clients();
        // A call that came before the token was revoked may ask long after.
        if self.is_revoked(call.principal) {
            return Box::pin(std::future::ready(Approval::no(REVOKED)));
        }
        self.approvals.approve(call)
    }
}

impl Recorder for Operations {
    fn wants_reports(&self) -> bool {
        true
    }

    fn session_ended(&self, duration: Duration) {
        self.metrics.session_ended(duration);
    }

    fn server_session_ended(&self, duration: Duration) {
        self.metrics.server_session_ended(duration);
    }

    fn request_refused(&self, refusal: &Refusal) {
        let reason = refusal.reason.as_str();
        self.metrics.request_refused(reason);
        let Some(skipped) = self.refusal_limit.admit(Instant::now()) else {
            return;
        };
        if skipped > 0 {
            self.audit.add(&AuditLine {
                event: "refused",
                outcome: "not recorded",
                error: &format!("{skipped} refusals came too fast to be recorded"),
                ..AuditLine::default()
            });
        }
        self.audit.add(&AuditLine {
            event: "refused",
            client: refusal.principal.as_ref().map_or("", Principal::as_str),
            name: &refusal.path,
            rule: reason,
            outcome: "refused",
            peer: refusal.peer,
            ..AuditLine::default()
        });
    }

    fn sampling_decided(&self, principal: &Principal, decision: &SamplingDecision<'_>) {
        self.audit.add(&AuditLine {
            event: "sampling",
            client: principal.as_str(),
            server: decision.server.as_str(),
            decision: decision.decision.as_str(),
            rule: decision.rule,
            approval: match decision.decision {
                DecisionKind::Ask => decision.denied.unwrap_or("yes"),
                _ => "",
            },
            outcome: match decision.denied {
                Some(_) => "denied",
                None => "permitted",
            },
            ..AuditLine::default()
        });
    }

    fn request_ended(&self, record: &RequestRecord<'_>) {
        self.metrics.request_ended(record);
        self.sent_request_ended(record);
    }

    /// Only a line of the audit log: the metrics count requests of clients.
    fn sent_request_ended(&self, record: &RequestRecord<'_>) {
        let report = record.report;
        let tool = report.and_then(|report| report.tool.as_deref());
        let (outcome, error) = match record.outcome {
            RequestOutcome::Answered => ("answered", ""),
            RequestOutcome::ToolError => ("tool error", ""),
            RequestOutcome::InputRequired => ("input required", ""),
            RequestOutcome::Denied(reason) => ("denied", reason),
            RequestOutcome::Failed(reason) => ("failed", reason),
            RequestOutcome::Cancelled => ("cancelled", ""),
        };
        let server = record.server.map(|server| server.as_str());
        let line = AuditLine {
            event: "request",
            request: Some(record.number),
            approval_id: None,
            by: "",
            client: record.principal.as_str(),
            client_info: record.client_info,
            method: record.method,
            server: tool.map_or(server.unwrap_or_default(), |tool| tool.id.server.as_str()),
            name: tool.map_or(record.name, |tool| tool.id.tool.as_wire()),
            decision: report.map_or("", |report| {
                report.decision.map_or("none", DecisionKind::as_str)
            }),
            rule: report.map_or("", |report| &report.rule),
            approval: record.approval.unwrap_or_default(),
            outcome,
            error,
            arguments: record.arguments,
            duration: Some(record.duration),
            server_duration: report.and_then(|report| part(report.server_time)),
            approval_duration: report.and_then(|report| part(report.approval)),
            waiting_duration: report.and_then(|report| part(report.waiting)),
            questions_duration: report.and_then(|report| part(report.questions)),
            peer: None,
        };
        self.audit.add(&line);
    }
}

/// A part of a request's time, if it took any.
fn part(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}
