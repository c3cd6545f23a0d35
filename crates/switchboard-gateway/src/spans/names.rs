//! The table of all attributes of spans. Names follow the OpenTelemetry conventions for MCP; ours
//! begin with `switchboard.`. `docs/tracing.md` shows the same table, `metrics/names.rs` is that of
//! the metrics.

/// One attribute of the spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanAttribute {
    /// Its name.
    pub name: &'static str,
    /// Which spans have it: `server`, `client` or `both`.
    pub spans: &'static str,
    /// Its description.
    pub help: &'static str,
}

macro_rules! attributes {
    ($($constant:ident = $spans:ident $name:literal $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(super) const $constant: &str = $name;
        )*
        /// All attributes.
        pub const SPAN_ATTRIBUTES: &[SpanAttribute] = &[$(SpanAttribute {
            name: $name,
            spans: stringify!($spans),
            help: $help,
        }),*];
    };
}

attributes! {
    METHOD = both "mcp.method.name"
        "The method, as `tools/call`";
    TOOL = both "gen_ai.tool.name"
        "The tool: as the client named it, or the server's own name for it";
    PROMPT = both "gen_ai.prompt.name"
        "The same for a prompt";
    OPERATION = both "gen_ai.operation.name"
        "`execute_tool`, for `tools/call` alone";
    PROTOCOL_VERSION = both "mcp.protocol.version"
        "The revision of the protocol that is spoken with the client, or with the server";
    SESSION = server "mcp.session.id"
        "A digest of a legacy client's session id, which is itself a credential: the first 16 hexadecimal digits of its BLAKE3 hash";
    REQUEST_ID = server "jsonrpc.request.id"
        "The id of the client's request";
    STATUS_CODE = both "rpc.response.status_code"
        "The code of a JSON-RPC error";
    ERROR = both "error.type"
        "Why it failed: the code of a JSON-RPC error, `tool_error` for a result with `isError`, or a word as `not_ready`, `timeout`, `denied`, `cancelled`";
    TRANSPORT = both "network.transport"
        "`tcp` for HTTP; `pipe` for standard streams, and for a client on the Unix socket";
    PROTOCOL_NAME = both "network.protocol.name"
        "`http`, over HTTP";
    SERVER_ADDRESS = client "server.address"
        "The host in the server's URL";
    SERVER_PORT = client "server.port"
        "The port in the server's URL";
    CLIENT_ADDRESS = server "client.address"
        "The IP address that a request over HTTP came from";
    SERVER_NAME = client "switchboard.server.name"
        "The server's name in the configuration";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_documented_table_is_this_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tracing.md");
        let text = std::fs::read_to_string(file).unwrap();
        let table = text.split("## Attributes").nth(1).unwrap();
        let documented: Vec<_> = table
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let row = |attribute: &SpanAttribute| {
            let SpanAttribute { name, spans, help } = attribute;
            format!("| `{name}` | {spans} | {help} |")
        };
        let expected: Vec<_> = SPAN_ATTRIBUTES.iter().map(row).collect();
        assert_eq!(documented, expected);
    }
}
