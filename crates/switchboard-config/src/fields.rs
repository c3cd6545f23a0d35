//! The table of all fields of `switchboard.toml`: used for reading, suggestions and the JSON
//! schema.

/// One `[section]`, or one `[servers.NAME]`.
#[derive(Debug)]
pub(super) struct Section {
    /// Its key at the top of the file.
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) fields: &'static [FieldSpec],
}

/// One field.
#[derive(Debug)]
pub(super) struct FieldSpec {
    pub(super) name: &'static str,
    pub(super) kind: ValueKind,
    /// Which transports have it.
    pub(super) applies_to: FieldTransport,
    /// Its purpose, shown by editors.
    pub(super) description: &'static str,
    /// The default, as it would be written.
    pub(super) default: Option<&'static str>,
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueKind {
    Text,
    Texts,
    /// Texts, or tables that name a tool and a client.
    Rules,
    /// Names and secret values.
    Secrets,
    /// A string that is never shown.
    Secret,
    /// A TCP port.
    Port,
    Flag,
    Duration,
    /// A duration as a bare number.
    Milliseconds,
    Bytes,
    /// A whole number above zero.
    Count,
    /// A table of amounts of money, each with one of these names.
    Amounts(&'static [&'static str]),
    /// One of these words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
}

/// Which transports a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldTransport {
    Both,
    /// A child process only.
    Stdio,
    /// A URL only.
    Http,
}

pub(super) const fn field(
    name: &'static str,
    kind: ValueKind,
    applies_to: FieldTransport,
    default: Option<&'static str>,
    description: &'static str,
) -> FieldSpec {
    FieldSpec {
        name,
        kind,
        applies_to,
        description,
        default,
    }
}

/// `[servers.NAME]`.
pub(super) const SERVERS: Section = Section {
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
            "Variables for the program, beside the short list it always gets (HOME, PATH, LANG, …). ${NAME} is expanded.",
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
                ("eager", "at once, beside all others"),
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
            "true: no confirmation for any tool of this server. Ignored in a project's file.",
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

/// Fields of the native file that entries of every other dialect may have as well.
pub(super) const OURS: &[&str] = &[
    "connect_timeout",
    "call_timeout",
    "call_timeout_max",
    "protocol",
    "start",
];

/// As [`OURS`], for dialects with one absolute deadline of calls.
pub(super) const OURS_WITH_ONE_DEADLINE: &[&str] =
    &["connect_timeout", "call_timeout", "protocol", "start"];

/// `[permissions]`.
pub(super) const PERMISSIONS: Section = Section {
    name: "permissions",
    description: "Which calls are allowed, asked about or denied. A rule is \"server\" or \"server/tool\", with globs; or { tool = \"server/tool\", client = \"codex\" } for one client of the gateway, as authenticated. What a project's file would allow without asking counts once you have accepted it (`switchboard trust`).",
    fields: &[
        field(
            "mode",
            ValueKind::Choice(&[
                (
                    "ask",
                    "ask, unless a rule or a remembered answer says otherwise",
                ),
                ("yolo", "allow, unless a rule denies"),
                ("deny", "deny everything"),
            ]),
            FieldTransport::Both,
            Some("\"ask\""),
            "Applies where no rule matches.",
        ),
        field(
            "allow",
            ValueKind::Rules,
            FieldTransport::Both,
            Some("[]"),
            "Calls that need no confirmation. Ignored in a project's file.",
        ),
        field(
            "ask",
            ValueKind::Rules,
            FieldTransport::Both,
            Some("[]"),
            "Calls that are confirmed every time.",
        ),
        field(
            "deny",
            ValueKind::Rules,
            FieldTransport::Both,
            Some("[]"),
            "Calls that are never made; nothing overrides this.",
        ),
    ],
};

/// `[security]`.
pub(super) const SECURITY: Section = Section {
    name: "security",
    description: "Which servers may run at all.",
    fields: &[
        field(
            "allow_servers",
            ValueKind::Texts,
            FieldTransport::Both,
            Some("[]"),
            "If not empty, only these servers run. Ignored in a project's file.",
        ),
        field(
            "deny_servers",
            ValueKind::Texts,
            FieldTransport::Both,
            Some("[]"),
            "These servers never run, whatever the allow list says.",
        ),
        field(
            "locked",
            ValueKind::Flag,
            FieldTransport::Both,
            Some("false"),
            "true: a tool whose definition changed is asked about again, even where an allow rule or `trust` covers it.",
        ),
    ],
};

/// `[naming]`.
pub(super) const NAMING: Section = Section {
    name: "naming",
    description: "How tools are named to a model. Ignored in a project's file.",
    fields: &[field(
        "style",
        ValueKind::Choice(&[
            ("mcp", "mcp__server__tool"),
            ("server_tool", "server_tool"),
            ("server-tool", "server-tool, in kebab case"),
            (
                "first-wins",
                "the bare tool name for the first server that has it, server__tool for later ones",
            ),
            (
                "identity",
                "the bare tool name; tools that share one are withheld",
            ),
        ]),
        FieldTransport::Both,
        Some("\"mcp\""),
        "The form of the names.",
    )],
};

/// `[model]`.
pub(super) const MODEL: Section = Section {
    name: "model",
    description: "The model that `chat` and `run` ask. Ignored in a project's file.",
    fields: &[
        field(
            "vendor",
            ValueKind::Choice(&[
                ("anthropic", "the Messages API"),
                ("openai", "the Responses API"),
                (
                    "openai-chat",
                    "the Chat Completions API, also of local servers",
                ),
                ("gemini", "the Gemini API"),
                ("demo", "built in, a script and not a model"),
            ]),
            FieldTransport::Both,
            None,
            "Whose API it is.",
        ),
        field(
            "name",
            ValueKind::Text,
            FieldTransport::Both,
            None,
            "The name of the model, as the vendor spells it. ${NAME} is expanded.",
        ),
        field(
            "base_url",
            ValueKind::Text,
            FieldTransport::Both,
            None,
            "Another server that speaks the vendor's API; the vendor's path is appended. ${NAME} is expanded.",
        ),
        field(
            "api_key",
            ValueKind::Secret,
            FieldTransport::Both,
            None,
            "The key; by default the vendor's usual variable, such as ANTHROPIC_API_KEY, else the one stored by `switchboard login --model`. ${NAME} is expanded.",
        ),
        field(
            "context_tokens",
            ValueKind::Count,
            FieldTransport::Both,
            None,
            "How many tokens the model reads. A conversation that fills them is summarised, and tools that would fill a tenth of them are listed by name only.",
        ),
        field(
            "max_output_tokens",
            ValueKind::Count,
            FieldTransport::Both,
            None,
            "The most tokens of one answer.",
        ),
        field(
            "effort",
            ValueKind::Text,
            FieldTransport::Both,
            None,
            "How hard the model thinks, in the vendor's words, such as low or high.",
        ),
        field(
            "thinking_tokens",
            ValueKind::Count,
            FieldTransport::Both,
            None,
            "How many tokens the model may think, for models that take a number in place of an effort.",
        ),
        field(
            "images",
            ValueKind::Flag,
            FieldTransport::Both,
            None,
            "Whether the model takes images. By default it is assumed that it does.",
        ),
        field(
            "price",
            ValueKind::Amounts(&["input", "output", "cache_read", "cache_write"]),
            FieldTransport::Both,
            None,
            "What a million tokens cost in US dollars, such as { input = 3, output = 15 }, where the built-in table has no row or is wrong.",
        ),
    ],
};

/// `[gateway]`.
pub(super) const GATEWAY: Section = Section {
    name: "gateway",
    description: "How `switchboard serve` works. Ignored in a project's file.",
    fields: &[field(
        "audit_arguments",
        ValueKind::Choice(&[
            (
                "shape",
                "the names of the arguments and the types of their values",
            ),
            ("full", "the arguments as they are, without known secrets"),
            ("none", "nothing"),
        ]),
        FieldTransport::Both,
        Some("\"shape\""),
        "What the audit log records of a call's arguments.",
    )],
};

/// Names of fields in other programs, with the native ones.
const ALIASES: &[(&str, &str)] = &[
    ("mcpServers", "servers"),
    ("mcp_servers", "servers"),
    ("context_servers", "servers"),
    ("server", "servers"),
    ("cmd", "command"),
    ("arguments", "args"),
    ("environment", "env"),
    ("envs", "env"),
    ("env_vars", "env"),
    ("type", "transport"),
    ("httpUrl", "url"),
    ("serverUrl", "url"),
    ("uri", "url"),
    ("http_headers", "headers"),
    ("token", "bearer_token"),
    ("bearer", "bearer_token"),
    ("client_id", "oauth_client_id"),
    ("clientId", "oauth_client_id"),
    ("client_secret", "oauth_client_secret"),
    ("clientSecret", "oauth_client_secret"),
    ("scopes", "oauth_scopes"),
    ("callback_port", "oauth_callback_port"),
    ("timeout", "call_timeout"),
    ("timeout_ms", "call_timeout"),
    ("tool_timeout_sec", "call_timeout"),
    ("startup_timeout_sec", "connect_timeout"),
    ("startup_timeout_ms", "connect_timeout"),
    ("disabled", "enabled"),
    ("working_directory", "cwd"),
    ("includeTools", "include_tools"),
    ("enabled_tools", "include_tools"),
    ("excludeTools", "exclude_tools"),
    ("disabled_tools", "exclude_tools"),
];

/// The known name most similar to an unknown one, if any is similar.
pub(super) fn nearest(
    unknown: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> Option<&'static str> {
    if let Some((_, ours)) = ALIASES.iter().find(|(theirs, _)| *theirs == unknown)
        && known.clone().any(|name| name == *ours)
    {
        return Some(ours);
    }
    // So long a name is no typing mistake, and computing the distance takes quadratic time.
    if unknown.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.replace('-', "_").to_ascii_lowercase();
    let wanted = plain(unknown);
    known
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_finds_its_nearest() {
        let check = |unknown: &str, expected: Option<&str>| {
            assert_eq!(
                nearest(unknown, SERVERS.fields.iter().map(|field| field.name)),
                expected,
                "{unknown}"
            );
        };
        check("comand", Some("command"));
        check("commnad", Some("command"));
        check("Args", Some("args"));
        check("call-timeout", Some("call_timeout"));
        check("call_timout_max", Some("call_timeout_max"));
        check("timeout", Some("call_timeout"));
        check("environment", Some("env"));
        check("type", Some("transport"));
        check("frobnicate", None);
        check("x", None);
    }
}
