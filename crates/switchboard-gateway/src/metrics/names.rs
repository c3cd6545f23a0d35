//! The table of all metrics. Names follow the OpenTelemetry conventions for MCP where there are any
//! (dots become underscores); ours begin with `switchboard_`. `docs/metrics.md` shows the same table.

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricName {
    /// Its name, without the suffixes of unit and kind.
    pub name: &'static str,
    /// What Prometheus calls its kind.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its description.
    pub help: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// A current value.
    Gauge,
    /// Durations in seconds.
    Seconds,
}

impl MetricName {
    /// The name as it is scraped, without the suffixes of a histogram's samples.
    pub fn scraped(&self) -> String {
        match self.kind {
            MetricKind::Counter => format!("{}_total", self.name),
            MetricKind::Gauge => self.name.to_owned(),
            MetricKind::Seconds => format!("{}_seconds", self.name),
        }
    }
}

macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(super) const $constant: MetricName = MetricName {
                name: $name,
                kind: MetricKind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// All metrics.
        pub const METRICS: &[MetricName] = &[$($constant),*];
    };
}

metrics! {
    SERVER_DURATION = Seconds "mcp_server_operation_duration"
        ["mcp_method_name", "gen_ai_tool_name", "server", "error_type"]
        "From a client's request to the response";
    CLIENT_DURATION = Seconds "mcp_client_operation_duration"
        ["mcp_method_name", "gen_ai_tool_name", "server"]
        "Of a tool call: from the request to its server to the response, without waiting for other calls or for the client's answers";
    SESSION_DURATION = Seconds "mcp_server_session_duration" []
        "From a legacy client's connection to its end";
    CLIENT_SESSION_DURATION = Seconds "mcp_client_session_duration" []
        "From a server's connection to its end";
    DECISIONS = Counter "switchboard_gate_decisions" ["decision", "rule"]
        "Decisions of the gate on calls, by rule";
    APPROVAL = Seconds "switchboard_approval" []
        "Time until an approval was answered";
    OWN = Seconds "switchboard_own" []
        "The time of a call that was spent in the gateway itself";
    REFUSED = Counter "switchboard_refused_requests" ["reason"]
        "Requests that were refused before anything ran";
    WAITING = Gauge "switchboard_approvals_waiting" []
        "Calls that wait for an operator";
    RUNNING = Gauge "switchboard_running_requests" []
        "Requests in flight at servers";
    TASKS = Gauge "switchboard_tasks" []
        "Tasks of the async runtime; a number that only grows is a leak";
    QUEUE_DEPTH = Gauge "switchboard_queue_depth" []
        "Messages that wait to be written to clients";
    CUT_OFF_READERS = Counter "switchboard_cut_off_readers" []
        "Clients that were disconnected because they read too slowly";
    AUDIT_DROPPED = Counter "switchboard_audit_dropped" []
        "Lines of the audit log that could not be written";
    SERVER_UP = Gauge "switchboard_server_up" ["server"]
        "1 while the server can be used";
    SERVER_RESTARTS = Counter "switchboard_server_restarts" ["server"]
        "How often the server was restarted";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_documented_table_is_this_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let text = std::fs::read_to_string(file).unwrap();
        let documented: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let expected: Vec<_> = METRICS.iter().map(row).collect();
        assert_eq!(documented, expected);
    }

    fn row(metric: &MetricName) -> String {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Seconds => "histogram",
        };
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        format!(
            "| `{}` | {kind} | {} | {} |",
            metric.scraped(),
            labels.join(", "),
            metric.help
        )
    }
}
