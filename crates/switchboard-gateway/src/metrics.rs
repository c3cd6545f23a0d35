//! Metrics for Prometheus. Names and labels follow the OpenTelemetry conventions for MCP where there
//! are any (dots become underscores, the unit comes last); ours begin with `switchboard_`.
//!
//! A tool's handles are looked up once for each call. Only tools that exist get a label of their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use switchboard::call::CallReport;
use switchboard::server::State;
use switchboard::sync::lock;
use switchboard::{Host, ToolId};

use crate::approval_queue::ApprovalQueue;
use crate::audit::AuditLog;
use crate::recorder::{RequestOutcome, RequestRecord};
use crate::running::RunningRequests;

/// From a client's request to our response.
const SERVER_DURATION: &str = "mcp_server_operation_duration";
/// From our request to the server's response.
const CLIENT_DURATION: &str = "mcp_client_operation_duration";
/// What the gate said.
const DECISIONS: &str = "switchboard_gate_decisions";
/// How long callers took to approve.
const APPROVAL: &str = "switchboard_approval";
/// The time of a call that was spent in the gateway itself.
const OWN: &str = "switchboard_own";
/// Requests that were refused before anything ran.
const REFUSED: &str = "switchboard_refused_requests";
const WAITING: &str = "switchboard_approvals_waiting";
const RUNNING: &str = "switchboard_running_requests";
const AUDIT_DROPPED: &str = "switchboard_audit_dropped";
const SERVER_UP: &str = "switchboard_server_up";
const SERVER_RESTARTS: &str = "switchboard_server_restarts";

/// The convention's buckets, in seconds.
const BUCKETS: [f64; 14] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// Our own share is far below the convention's smallest bucket.
const OWN_BUCKETS: [f64; 10] = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 2e-2, 1e-1];

/// Tools with a label of their own; others are counted together.
const MAX_TOOLS: usize = 2000;

/// The label of what has none of its own.
const OTHER: &str = "_other";

/// How many of a server's last calls the latencies on the page are taken from.
const LATENCY_SAMPLES: usize = 256;

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The gateway's metrics.
pub struct GatewayMetrics {
    registry: Registry,
    server_duration: Histograms,
    client_duration: Histograms,
    decisions: Family<Labels, Counter>,
    approval: Histogram,
    own: Histogram,
    refused: Family<Labels, Counter>,
    tools: RwLock<HashMap<ToolId, Arc<ToolMetrics>>>,
    other: Arc<ToolMetrics>,
    latencies: Mutex<HashMap<String, LatencySamples>>,
}

/// The handles of one tool.
struct ToolMetrics {
    labels: Labels,
    answered: Histogram,
    wire: Histogram,
    allowed: Counter,
}

#[derive(Debug, Default)]
struct LatencySamples {
    micros: Vec<u32>,
    next: usize,
}

/// How long a server's last calls took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The median.
    pub p50: Duration,
    /// One in a hundred takes longer.
    pub p99: Duration,
}

impl GatewayMetrics {
    /// The metrics of a gateway over this host.
    pub fn new(
        host: Host,
        approvals: Arc<ApprovalQueue>,
        running: Arc<RunningRequests>,
        audit: AuditLog,
    ) -> Self {
        let durations = || Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
        let (server_duration, client_duration) = (durations(), durations());
        let (decisions, refused) = (Family::default(), Family::default());
        let approval = Histogram::new(BUCKETS);
        let own = Histogram::new(OWN_BUCKETS);
        let mut registry = Registry::default();
        let seconds = || Unit::Seconds;
        registry.register_with_unit(
            SERVER_DURATION,
            "From a client's request to the response",
            seconds(),
            server_duration.clone(),
        );
        registry.register_with_unit(
            CLIENT_DURATION,
            "From the request to a server to its response",
            seconds(),
            client_duration.clone(),
        );
        registry.register(DECISIONS, "What the gate said of calls", decisions.clone());
        registry.register_with_unit(
            APPROVAL,
            "How long callers took to approve",
            seconds(),
            approval.clone(),
        );
        registry.register_with_unit(
            OWN,
            "The time of a call that was spent in the gateway itself",
            seconds(),
            own.clone(),
        );
        registry.register(
            REFUSED,
            "Requests that were refused before anything ran",
            refused.clone(),
        );
        registry.register_collector(Box::new(CurrentState {
            host,
            approvals,
            running,
            audit,
        }));
        let labels = vec![("gen_ai_tool_name", OTHER.to_owned())];
        let other = ToolMetrics::new(&server_duration, &client_duration, &decisions, labels);
        Self {
            registry,
            server_duration,
            client_duration,
            decisions,
            approval,
            own,
            refused,
            tools: RwLock::default(),
            other: Arc::new(other),
            latencies: Mutex::default(),
        }
    }

    /// A request has ended.
    pub(crate) fn request_ended(&self, record: &RequestRecord<'_>) {
        let seconds = record.duration.as_secs_f64();
        let Some(report) = record.report else {
            let labels = vec![("mcp_method_name", record.method.to_owned())];
            return self.observe(labels, record, seconds);
        };
        let tool = self.tool(report);
        match (report.decision, record.outcome) {
            ("allow", RequestOutcome::Answered) => {
                tool.allowed.inc();
                tool.answered.observe(seconds);
            }
            (decision, _) => {
                let labels = vec![("decision", decision.to_owned())];
                self.decisions.get_or_create(&labels).inc();
                let mut labels = tool.labels.clone();
                labels.push(("mcp_method_name", record.method.to_owned()));
                self.observe(labels, record, seconds);
            }
        }
        if !report.approval.is_zero() {
            self.approval.observe(report.approval.as_secs_f64());
        }
        if !report.wire.is_zero() {
            tool.wire.observe(report.wire.as_secs_f64());
            let elsewhere = report.wire + report.approval + report.waiting;
            let own = record.duration.saturating_sub(elsewhere);
            self.own.observe(own.as_secs_f64());
            if let Some(tool) = &report.tool {
                let mut latencies = lock(&self.latencies);
                let server = tool.id.server.as_str();
                match latencies.get_mut(server) {
                    Some(samples) => samples.add(report.wire),
                    None => latencies
                        .entry(server.to_owned())
                        .or_default()
                        .add(report.wire),
                }
            }
        }
    }

    /// A request was refused for this reason.
    pub(crate) fn request_refused(&self, reason: &str) {
        let labels = vec![("reason", reason.to_owned())];
        self.refused.get_or_create(&labels).inc();
    }

    /// How long a server's last calls took; `None` before the first.
    pub fn latency(&self, server: &str) -> Option<Latency> {
        lock(&self.latencies).get(server)?.latency()
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn observe(&self, mut labels: Labels, record: &RequestRecord<'_>, seconds: f64) {
        if let Some(error) = error_type(record.outcome) {
            labels.push(("error_type", error.to_owned()));
        }
        self.server_duration.get_or_create(&labels).observe(seconds);
    }

    fn tool(&self, report: &CallReport) -> Arc<ToolMetrics> {
        let Some(tool) = &report.tool else {
            return self.other.clone();
        };
        let known = self
            .tools
            .read()
            .ok()
            .and_then(|tools| tools.get(&tool.id).cloned());
        known.unwrap_or_else(|| {
            let Ok(mut tools) = self.tools.write() else {
                return self.other.clone();
            };
            if tools.len() >= MAX_TOOLS {
                return self.other.clone();
            }
            let labels = vec![
                ("gen_ai_tool_name", tool.id.tool.as_wire().to_owned()),
                ("server", tool.id.server.to_string()),
            ];
            let new = ToolMetrics::new(
                &self.server_duration,
                &self.client_duration,
                &self.decisions,
                labels,
            );
            tools
                .entry(tool.id.clone())
                .or_insert(Arc::new(new))
                .clone()
        })
    }
}

impl ToolMetrics {
    fn new(
        server: &Histograms,
        client: &Histograms,
        decisions: &Family<Labels, Counter>,
        labels: Labels,
    ) -> Self {
        let mut of_calls = labels.clone();
        of_calls.push(("mcp_method_name", "tools/call".to_owned()));
        let allowed = vec![("decision", "allow".to_owned())];
        Self {
            answered: server.get_or_create_owned(&of_calls),
            wire: client.get_or_create_owned(&of_calls),
            allowed: decisions.get_or_create_owned(&allowed),
            labels,
        }
    }
}

/// The convention's `error.type`.
fn error_type(outcome: RequestOutcome<'_>) -> Option<&'static str> {
    match outcome {
        RequestOutcome::Answered | RequestOutcome::InputRequired => None,
        RequestOutcome::ToolError => Some("tool_error"),
        RequestOutcome::Denied(_) => Some("denied"),
        RequestOutcome::Failed(_) => Some("failed"),
        RequestOutcome::Cancelled => Some("cancelled"),
    }
}

impl LatencySamples {
    fn add(&mut self, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        match self.micros.get_mut(self.next) {
            Some(oldest) => *oldest = micros,
            None => self.micros.push(micros),
        }
        self.next = (self.next + 1) % LATENCY_SAMPLES;
    }

    fn latency(&self) -> Option<Latency> {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let index = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
            Some(Duration::from_micros(u64::from(*sorted.get(index)?)))
        };
        Some(Latency {
            p50: at(50)?,
            p99: at(99)?,
        })
    }
}

/// What is read when the metrics are.
struct CurrentState {
    host: Host,
    approvals: Arc<ApprovalQueue>,
    running: Arc<RunningRequests>,
    audit: AuditLog,
}

impl Collector for CurrentState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in [
            (
                WAITING,
                "Calls that wait for an operator",
                self.approvals.waiting().len(),
            ),
            (
                RUNNING,
                "Requests that are with servers",
                self.running.count(),
            ),
        ] {
            let gauge = ConstGauge::new(value as i64);
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        let dropped = ConstCounter::new(self.audit.dropped());
        let help = "Lines of the audit log that could not be written";
        let metric = encoder.encode_descriptor(AUDIT_DROPPED, help, None, dropped.metric_type())?;
        dropped.encode(metric)?;
        let servers = self.host.servers();
        let help = "1 while the server can be used";
        let kind = ConstGauge::new(0i64).metric_type();
        let mut up = encoder.encode_descriptor(SERVER_UP, help, None, kind)?;
        for server in servers.iter() {
            let is_up = matches!(server.snapshot().state, State::Ready { .. });
            let labels = [("server", server.config.name.as_str())];
            ConstGauge::new(i64::from(is_up)).encode(up.encode_family(&labels)?)?;
        }
        let help = "How often the server was restarted";
        let kind = ConstCounter::new(0u64).metric_type();
        let mut restarts = encoder.encode_descriptor(SERVER_RESTARTS, help, None, kind)?;
        for server in servers.iter() {
            let labels = [("server", server.config.name.as_str())];
            let count = u64::from(server.snapshot().restarts);
            ConstCounter::new(count).encode(restarts.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for CurrentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CurrentState")
    }
}

impl fmt::Debug for GatewayMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayMetrics")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn latencies_are_those_of_the_last_calls() {
        let mut samples = LatencySamples::default();
        assert_eq!(samples.latency(), None);
        for millis in 1..=1000 {
            samples.add(Duration::from_millis(millis));
        }
        assert_eq!(samples.micros.len(), LATENCY_SAMPLES);
        let Latency { p50, p99 } = samples.latency().unwrap();
        assert_eq!((p50.as_millis(), p99.as_millis()), (872, 998));
    }
}
