//! Metrics for Prometheus; `names` is the table of them.
//!
//! A tool's handles are looked up once for each call. Only tools that exist get a label of their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use switchboard::caller::{CallReport, DecisionKind};
use switchboard::server::State;
use switchboard::sync::lock;
use switchboard::{Host, ToolId};

use crate::approval_queue::ApprovalQueue;
use crate::audit::AuditLog;
use crate::outbound::OutboundMeter;
use crate::recorder::{RequestOutcome, RequestRecord};
use crate::running::RunningRequests;
pub use latency::Latency;
use latency::{Latencies, ServerLatency};
pub use names::{METRICS, MetricKind, MetricName};

mod latency;
mod names;

/// The convention's buckets, in seconds.
const BUCKETS: [f64; 14] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// Our own share is far below the convention's smallest bucket.
const OWN_BUCKETS: [f64; 10] = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 2e-2, 1e-1];

/// Sessions last from seconds to days.
const SESSION_BUCKETS: [f64; 9] = [
    1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 43200.0, 86400.0,
];

/// Tools with a label of their own; others are counted together.
const MAX_TOOLS: usize = 2000;

/// Rules with a label of their own; others are counted together.
const MAX_RULES: usize = 500;

/// The label for everything without a label of its own.
const OTHER: &str = "_other";

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The gateway's metrics.
pub struct GatewayMetrics {
    registry: Registry,
    server_duration: Histograms,
    client_duration: Histograms,
    session_duration: Histogram,
    server_session_duration: Histogram,
    decisions: Family<Labels, Counter>,
    /// How many labels `decisions` has.
    rules: AtomicUsize,
    approval: Histogram,
    own: Histogram,
    refused: Family<Labels, Counter>,
    tools: RwLock<HashMap<ToolId, Arc<ToolMetrics>, RandomState>>,
    other: Arc<ToolMetrics>,
    latencies: Latencies,
}

/// The handles of one tool.
struct ToolMetrics {
    labels: Labels,
    answered: Histogram,
    wire: Histogram,
    /// Of its server; `None` for tools that are counted together.
    latency: Option<Arc<ServerLatency>>,
    /// The rule that allowed it last, and its counter.
    allowed: Mutex<Option<(Arc<str>, Counter)>>,
}

/// The sources of current values.
#[derive(Debug)]
pub(crate) struct MetricSources {
    pub(crate) host: Host,
    pub(crate) approvals: Arc<ApprovalQueue>,
    pub(crate) running: Arc<RunningRequests>,
    pub(crate) outbound: Arc<OutboundMeter>,
    pub(crate) audit: AuditLog,
}

impl GatewayMetrics {
    /// The metrics of a gateway.
    pub(crate) fn new(sources: MetricSources) -> Self {
        let durations = || Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
        let (server_duration, client_duration) = (durations(), durations());
        let session_duration = Histogram::new(SESSION_BUCKETS);
        let server_session_duration = Histogram::new(SESSION_BUCKETS);
        let (decisions, refused) = (Family::default(), Family::default());
        let (approval, own) = (Histogram::new(BUCKETS), Histogram::new(OWN_BUCKETS));
        let mut registry = Registry::default();
        register(&mut registry, names::SERVER_DURATION, &server_duration);
        register(&mut registry, names::CLIENT_DURATION, &client_duration);
        register(&mut registry, names::SESSION_DURATION, &session_duration);
        let name = names::CLIENT_SESSION_DURATION;
        register(&mut registry, name, &server_session_duration);
        register(&mut registry, names::DECISIONS, &decisions);
        register(&mut registry, names::APPROVAL, &approval);
        register(&mut registry, names::OWN, &own);
        register(&mut registry, names::REFUSED, &refused);
        registry.register_collector(Box::new(sources));
        let labels = vec![("gen_ai_tool_name", OTHER.to_owned())];
        let other = ToolMetrics::new(&server_duration, &client_duration, labels, None);
        Self {
            registry,
            server_duration,
            client_duration,
            session_duration,
            server_session_duration,
            decisions,
            rules: AtomicUsize::new(0),
            approval,
            own,
            refused,
            tools: RwLock::default(),
            other: Arc::new(other),
            latencies: Latencies::default(),
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
        match report.decision {
            Some(DecisionKind::Allow) => self.count_allowed(&tool, &report.rule),
            decision => {
                let word = decision.map_or("none", DecisionKind::as_str);
                self.decision(word, &report.rule).inc();
            }
        }
        match (report.decision, record.outcome) {
            (Some(DecisionKind::Allow), RequestOutcome::Answered) => tool.answered.observe(seconds),
            _ => {
                let mut labels = tool.labels.clone();
                labels.push(("mcp_method_name", record.method.to_owned()));
                self.observe(labels, record, seconds);
            }
        }
        if !report.approval.is_zero() {
            self.approval.observe(report.approval.as_secs_f64());
        }
        if !report.server_time.is_zero() {
            tool.wire.observe(report.server_time.as_secs_f64());
            let waits = report.approval + report.waiting + report.questions;
            let elsewhere = report.server_time + waits;
            let own = record.duration.saturating_sub(elsewhere);
            self.own.observe(own.as_secs_f64());
            if let Some(latency) = &tool.latency {
                latency.add(report.server_time);
            }
        }
    }

    /// A legacy client's session has ended.
    pub(crate) fn session_ended(&self, duration: Duration) {
        self.session_duration.observe(duration.as_secs_f64());
    }

    /// A server's connection has ended.
    pub(crate) fn server_session_ended(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.server_session_duration.observe(seconds);
    }

    /// A request was refused for this reason.
    pub(crate) fn request_refused(&self, reason: &str) {
        let labels = vec![("reason", reason.to_owned())];
        self.refused.get_or_create(&labels).inc();
    }

    /// How long a server's last calls took; `None` before the first.
    pub(crate) fn latency(&self, server: &str) -> Option<Latency> {
        self.latencies.of(server)
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

    /// Most calls of a tool are allowed by the rule that allowed the one before.
    fn count_allowed(&self, tool: &ToolMetrics, rule: &Arc<str>) {
        let mut allowed = lock(&tool.allowed);
        match &*allowed {
            Some((known, counter)) if known == rule => {
                counter.inc();
            }
            _ => {
                let counter = self.decision(DecisionKind::Allow.as_str(), rule);
                counter.inc();
                *allowed = Some((rule.clone(), counter));
            }
        }
    }

    fn decision(&self, decision: &str, rule: &str) -> Counter {
        let labels =
            |rule: &str| vec![("decision", decision.to_owned()), ("rule", rule.to_owned())];
        if let Some(known) = self.decisions.get(&labels(rule)) {
            return known.clone();
        }
        let rule = match self.rules.fetch_add(1, Ordering::Relaxed) < MAX_RULES {
            true => rule,
            false => OTHER,
        };
        self.decisions.get_or_create_owned(&labels(rule))
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
            let latency = Some(self.latencies.of_server(tool.id.server.as_str()));
            let (server, client) = (&self.server_duration, &self.client_duration);
            let new = ToolMetrics::new(server, client, labels, latency);
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
        labels: Labels,
        latency: Option<Arc<ServerLatency>>,
    ) -> Self {
        let mut of_calls = labels.clone();
        of_calls.push(("mcp_method_name", "tools/call".to_owned()));
        Self {
            answered: server.get_or_create_owned(&of_calls),
            wire: client.get_or_create_owned(&of_calls),
            latency,
            allowed: Mutex::default(),
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

fn register(registry: &mut Registry, name: MetricName, metric: &(impl Metric + Clone)) {
    match name.kind {
        MetricKind::Seconds => {
            registry.register_with_unit(name.name, name.help, Unit::Seconds, metric.clone());
        }
        _ => registry.register(name.name, name.help, metric.clone()),
    }
}

impl Collector for MetricSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, value) in [
            (names::WAITING, self.approvals.waiting().len()),
            (names::RUNNING, self.running.count()),
            (names::QUEUE_DEPTH, self.outbound.waiting()),
            (names::TASKS, tasks()),
        ] {
            let gauge = ConstGauge::new(value as i64);
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name.name, name.help, None, kind)?)?;
        }
        for (name, value) in [
            (names::CUT_OFF_READERS, self.outbound.cut_off_readers()),
            (names::AUDIT_DROPPED, self.audit.dropped()),
        ] {
            let counter = ConstCounter::new(value);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name.name, name.help, None, kind)?)?;
        }
        let servers = self.host.servers();
        let kind = ConstGauge::new(0i64).metric_type();
        let name = names::SERVER_UP;
        let mut up = encoder.encode_descriptor(name.name, name.help, None, kind)?;
        for server in servers.iter() {
            let is_up = matches!(server.snapshot().state, State::Ready { .. });
            let labels = [("server", server.config.name.as_str())];
            ConstGauge::new(i64::from(is_up)).encode(up.encode_family(&labels)?)?;
        }
        let kind = ConstCounter::new(0u64).metric_type();
        let name = names::SERVER_RESTARTS;
        let mut restarts = encoder.encode_descriptor(name.name, name.help, None, kind)?;
        for server in servers.iter() {
            let labels = [("server", server.config.name.as_str())];
            let count = u64::from(server.snapshot().restarts);
            ConstCounter::new(count).encode(restarts.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// How many tasks the runtime has; a number that only grows is a leak.
fn tasks() -> usize {
    let runtime = tokio::runtime::Handle::try_current();
    runtime.map_or(0, |runtime| runtime.metrics().num_alive_tasks())
}

impl fmt::Debug for GatewayMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayMetrics")
    }
}
