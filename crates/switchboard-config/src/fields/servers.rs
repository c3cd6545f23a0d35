//! The fields of `[servers.NAME]` in `switchboard.toml`.

use super::{FieldTransport, Section, ValueKind, field};

/// `[servers.NAME]`.
pub(crate) const SERVERS: Section = Section {
    name: "servers",
    description: "The MCP servers, by name. A name is 1 to 32 of A-Z a-z 0-9 _ -, without \"__\" and without \"_\" at either end.",
    fields: &[
        field(
            "command",
            ValueKind::Text,
            FieldTransport::Stdio,
            None,
            "The program to start: a name looked up in the child's PATH, or a path; a relative path starts at this file's folder. \
             ${NAME} is expanded.",
        ),
        field(
            "args",
            ValueKind::Texts,
            FieldTransport::Stdio,
            Some("[]"),
            "The program's arguments, passed as they are, without a shell. ${NAME} is expanded.",
        ),
        field(
            "env",
            ValueKind::Secrets,
            FieldTransport::Stdio,
            Some("{}"),
            "Variables for the program, in addition to the short list it always gets (HOME, PATH, LANG, …). ${NAME} is expanded.",
        ),
        field(
            "inherit_env",
            ValueKind::Flag,
            FieldTransport::Stdio,
            Some("false"),
            "Pass the whole environment to the program instead of the short list.",
        ),
        field(
            "cwd",
            ValueKind::Text,
            FieldTransport::Stdio,
            None,
            "The program's working folder; a relative path starts at this file's folder. ${NAME} is expanded. Without it: the project's folder, \
             or for your own file the current folder once you accepted it.",
        ),
        field(
            "url",
            ValueKind::Text,
            FieldTransport::Http,
            None,
            "The URL of a remote server, http:// or https://. ${NAME} is expanded.",
        ),
        field(
            "headers",
            ValueKind::Secrets,
            FieldTransport::Http,
            Some("{}"),
            "HTTP headers sent with every request. ${NAME} is expanded.",
        ),
        field(
            "bearer_token",
            ValueKind::Secret,
            FieldTransport::Http,
            None,
            "Sent as \"Authorization: Bearer …\" with every request, instead of a login. ${NAME} is expanded.",
        ),
        field(
            "oauth_grant",
            ValueKind::Choice(&[
                (
                    "authorization_code",
                    "a person logs in with `switchboard login NAME`",
                ),
                (
                    "client_credentials",
                    "a program logs in by itself, with its own id and secret or key",
                ),
            ]),
            FieldTransport::Http,
            Some("\"authorization_code\""),
            "How a token is obtained where the server asks for one.",
        ),
        field(
            "oauth_issuer",
            ValueKind::Text,
            FieldTransport::Http,
            None,
            "The authorization server that logins, oauth_client_id and oauth_client_secret are for, as it names itself (its issuer): no \
             other one gets them. Left out, the first one that oauth_client_id is used with. ${NAME} is expanded.",
        ),
        field(
            "oauth_client_id",
            ValueKind::Text,
            FieldTransport::Http,
            None,
            "The id under which Switchboard was registered with the authorization server beforehand. If absent, it registers itself. \
             ${NAME} is expanded.",
        ),
        field(
            "oauth_client_secret",
            ValueKind::Secret,
            FieldTransport::Http,
            None,
            "The secret that goes with oauth_client_id. ${NAME} is expanded.",
        ),
        field(
            "oauth_client_key",
            ValueKind::Text,
            FieldTransport::Http,
            None,
            "The PEM file of the private key that goes with oauth_client_id, in place of a secret (private_key_jwt); a relative path \
             starts at this file's folder. ${NAME} is expanded.",
        ),
        field(
            "oauth_client_metadata_url",
            ValueKind::Text,
            FieldTransport::Http,
            None,
            "The https address of a client ID metadata document: used as the id if the authorization server supports it.",
        ),
        field(
            "oauth_scopes",
            ValueKind::Texts,
            FieldTransport::Http,
            None,
            "The scopes to request. If absent, those that the server names.",
        ),
        field(
            "oauth_callback_port",
            ValueKind::Port,
            FieldTransport::Http,
            None,
            "The port of this machine to which the browser returns after a login, where the authorization server must know it. Left out, \
             a free one.",
        ),
        field(
            "transport",
            ValueKind::Choice(&[
                ("stdio", "a program that speaks over its standard streams"),
                ("http", "Streamable HTTP"),
                ("sse", "HTTP with server-sent events, the older transport"),
            ]),
            FieldTransport::Both,
            None,
            "Which transport to use. If absent, a command means stdio, and a url tries Streamable HTTP first, then HTTP+SSE.",
        ),
        field(
            "protocol",
            ValueKind::Choice(&[
                ("auto", "detected once, and remembered"),
                ("legacy", "with the initialize handshake"),
                ("modern", "without a handshake"),
            ]),
            FieldTransport::Both,
            Some("\"auto\""),
            "Which era of the protocol the server speaks.",
        ),
        field(
            "start",
            ValueKind::Choice(&[
                ("eager", "with the host, together with the others"),
                ("lazy", "on first use"),
            ]),
            FieldTransport::Both,
            Some("\"eager\""),
            "When the server is started.",
        ),
        field(
            "enabled",
            ValueKind::Flag,
            FieldTransport::Both,
            Some("true"),
            "false: never started, still listed.",
        ),
        field(
            "trust",
            ValueKind::Flag,
            FieldTransport::Both,
            Some("false"),
            "true: tools of this server run without approval. In a project's file it counts once you have accepted it (`switchboard trust`).",
        ),
        field(
            "asks",
            ValueKind::Choice(&[
                ("auto", "detected at its first question, and remembered"),
                ("yes", "it asks"),
                ("no", "it does not ask"),
            ]),
            FieldTransport::Both,
            Some("\"auto\""),
            "Whether the server asks questions during calls; if so, calls of different callers do not overlap on one session.",
        ),
        field(
            "session",
            ValueKind::Choice(&[
                ("shared", "one session for all callers"),
                ("per-caller", "one session for each caller"),
            ]),
            FieldTransport::Both,
            Some("\"shared\""),
            "Whether callers share one session with the server.",
        ),
        field(
            "connect_timeout",
            ValueKind::Duration,
            FieldTransport::Both,
            Some("\"30s\""),
            "From start to ready.",
        ),
        field(
            "call_timeout",
            ValueKind::Duration,
            FieldTransport::Both,
            Some("\"60s\""),
            "How long a call may take without reporting progress.",
        ),
        field(
            "call_timeout_max",
            ValueKind::Duration,
            FieldTransport::Both,
            Some("\"10m\""),
            "How long a call may take in total, progress or not.",
        ),
        field(
            "include_tools",
            ValueKind::Texts,
            FieldTransport::Both,
            None,
            "If set, only tools that match one of these globs are offered.",
        ),
        field(
            "exclude_tools",
            ValueKind::Texts,
            FieldTransport::Both,
            Some("[]"),
            "Tools that match one of these globs are not offered.",
        ),
        field(
            "idempotent_tools",
            ValueKind::Texts,
            FieldTransport::Both,
            Some("[]"),
            "Tools that do no harm when they run twice: a call is sent once more when its answer was lost over HTTP, and when the \
             server was busy and said until when.",
        ),
        field(
            "description",
            ValueKind::Text,
            FieldTransport::Both,
            None,
            "What this server is for, in your words.",
        ),
        field(
            "max_message",
            ValueKind::Bytes,
            FieldTransport::Both,
            Some("\"64MiB\""),
            "The longest message accepted from the server.",
        ),
    ],
};
