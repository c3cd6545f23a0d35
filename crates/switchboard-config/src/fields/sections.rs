//! The fields of all sections of `switchboard.toml` but `[servers.NAME]`.

use super::{FieldTransport, Section, ValueKind, field};
use crate::name::STYLE_CHOICES;

/// `[permissions]`.
pub(crate) const PERMISSIONS: Section = Section {
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
            "Calls that run without approval. In a project's file it counts once you have accepted it (`switchboard trust`).",
        ),
        field(
            "ask",
            ValueKind::Rules,
            FieldTransport::Both,
            Some("[]"),
            "Calls that need approval every time.",
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
pub(crate) const SECURITY: Section = Section {
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
pub(crate) const NAMING: Section = Section {
    name: "naming",
    description: "How tools are named to a model. Ignored in a project's file.",
    fields: &[field(
        "style",
        ValueKind::Choice(STYLE_CHOICES),
        FieldTransport::Both,
        Some("\"mcp\""),
        "The form of the names.",
    )],
};

/// `[model]`.
pub(crate) const MODEL: Section = Section {
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
            "The vendor whose API is used.",
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
pub(crate) const GATEWAY: Section = Section {
    name: "gateway",
    description: "How `switchboard serve` works. Ignored in a project's file.",
    fields: &[
        field(
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
        ),
        field(
            "lost_server_grace",
            ValueKind::Duration,
            FieldTransport::Both,
            Some("\"5m\""),
            "How long the tools of a server that is down stay listed to clients.",
        ),
        field(
            "public_url",
            ValueKind::Text,
            FieldTransport::Both,
            None,
            "Where clients reach `serve --http` from outside, such as https://mcp.example.com. With it, server cards are served.",
        ),
    ],
};
