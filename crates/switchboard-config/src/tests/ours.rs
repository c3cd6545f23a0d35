//! Tests of native fields in the files of other programs.

use super::*;

/// Every dialect accepts the deadlines, the era and the start of the native file.
#[test]
fn every_dialect_accepts_native_deadlines_protocol_and_start() {
    let fields = [
        ("connect_timeout", "45s"),
        ("call_timeout", "90s"),
        ("protocol", "legacy"),
        ("start", "lazy"),
    ];
    let json = |before: &str| {
        let own = fields.map(|(name, value)| format!("\"{name}\": \"{value}\""));
        format!("{{ {before} \"command\": \"run\", {} }}", own.join(", "))
    };
    let lines = |before: &str, equals: &str| {
        let own = fields.map(|(name, value)| format!("{before}{name}{equals}\"{value}\"\n"));
        format!("{before}command{equals}\"run\"\n{}", own.concat())
    };
    let files = [
        (
            Dialect::Native,
            "switchboard.toml",
            format!("[servers.x]\n{}", lines("", " = ")),
        ),
        (
            Dialect::McpJson,
            ".mcp.json",
            format!("{{ \"mcpServers\": {{ \"x\": {} }} }}", json("")),
        ),
        (
            Dialect::Gemini,
            "settings.json",
            format!("{{ \"mcpServers\": {{ \"x\": {} }} }}", json("")),
        ),
        (
            Dialect::CoreAgent,
            "mcp.json",
            format!(
                "{{ \"servers\": {{ \"x\": {} }} }}",
                json("\"transport\": \"stdio\",")
            ),
        ),
        (
            Dialect::AgentCode,
            "config.toml",
            format!("[mcp_servers.x]\n{}", lines("", " = ")),
        ),
        (
            Dialect::A3s,
            "agent.hcl",
            format!("mcp_servers {{\n  name = \"x\"\n{}}}\n", lines("  ", " = ")),
        ),
        (
            Dialect::AgentApps,
            "app.yaml",
            format!("metadata:\n  mcp:\n    x:\n{}", lines("      ", ": ")),
        ),
    ];
    for (dialect, name, text) in files {
        let Foreign { config, .. } =
            load_foreign(dialect, name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(config.warnings, [], "{name}");
        let server = &config.servers[0];
        let (connect, call) = (
            server.timeouts.connect.as_secs(),
            server.timeouts.call.as_secs(),
        );
        assert_eq!(
            (connect, call, server.protocol, server.start),
            (45, 90, Protocol::Legacy, Start::Lazy),
            "{name}"
        );
    }
}

/// If both the dialect's own field and the native one are set, the native one applies, and the
/// other is reported under its own name.
#[test]
fn two_fields_for_one_deadline_are_reported() {
    let text =
        r#"{ "mcpServers": { "x": { "command": "run", "timeout": 5000, "call_timeout": "7s" } } }"#;
    let Foreign { config, .. } = load_foreign(Dialect::Gemini, "settings.json", text)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.servers[0].timeouts.call.as_secs(), 7);
    let messages: Vec<_> = config
        .warnings
        .iter()
        .map(|warning| format!("{}: {}", warning.field, warning.message))
        .collect();
    assert_eq!(
        messages,
        ["mcpServers.x.timeout: ignored: `call_timeout` is set as well; remove one of them"]
    );
}

/// C16: a diagnostic names a field as its file does.
#[test]
fn a_warning_names_a_field_as_its_file_does() {
    let text = "[mcp_servers.x]\ncommand = \"run\"\n[security]\nmcp_server_allowlist = []\n";
    let Foreign { config, .. } = load_foreign(Dialect::AgentCode, "config.toml", text)
        .unwrap_or_else(|error| panic!("{error}"));
    let messages: Vec<_> = config
        .warnings
        .iter()
        .map(|warning| warning.field.as_str())
        .collect();
    assert_eq!(messages, ["security.mcp_server_allowlist"]);
}
