//! Configuration files, each format in each dialect: no panic; findings that are short, without
//! hidden characters, and inside the file; edited files load again.

use std::path::PathBuf;

use switchboard::config::{Config, ConfigFile, Dialect, Scope};
use switchboard::fuzzing::{add_server, is_json_text, load_text};
use switchboard::gate::Gate;

use super::Target;

pub(super) const TOML: Target = Target {
    name: "config-toml",
    seeds: &[
        "[servers.git]\ncommand = \"npx\"\nargs = [\"-y\", \"${HOME}/x\"]\nenv = { TOKEN = \"${TOKEN:-a}\" }\ncall_timeout = \"5s\"\n",
        "[servers.a]\nurl = \"https://x.example/mcp\"\nheaders = { A = 'b' }\n[permissions]\nmode = \"ask\"\ndeny = [\"a/*\"]\n",
        "[mcp_servers.a]\ncommand = \"x\"\nargs = []\n[mcp_servers.b]\nurl = \"http://127.0.0.1:1/\"\n[permissions]\ndefault_mode = \"ask\"\n",
        "servers.\"a-b\".command = '''x'''\n[[rules]]\ntool = \"mcp__a__*\"\n[security]\nlocked = true\n",
    ],
    words: &[
        "[servers.x]\n",
        "[permissions]\n",
        "allow = [\"*\"]\n",
        "deny = ['{a,b}[']\n",
        "command = \"x\"\n",
        "${A}",
        "$${",
        "\"\"\"",
        "'''",
        "\\u0000",
        "\\U0010FFFF",
        "[[",
        "]]",
        "{a=",
        "1979-05-27T07:32:00Z",
        "0x7f",
        "inf",
        "\"99999999999h\"",
        "#",
    ],
    check: |input| check(input, "toml"),
};

pub(super) const JSON: Target = Target {
    name: "config-json",
    seeds: &[
        r#"{"mcpServers":{"a":{"command":"npx","args":["-y","x"],"env":{"K":"${V:-w}"},"cwd":"."}}}"#,
        r#"{"mcpServers":{"a":{"httpUrl":"https://x.example","headers":{"A":"$B"},"timeout":5000,"trust":true,"includeTools":["a*"]}}}"#,
        r#"{"mcp":{"allowed":["a"],"excluded":["b"]},"mcpServers":{"a":{"url":"https://x.example/sse"}},"coreTools":[]}"#,
        "{ // a comment\n \"servers\": { \"a\": { \"type\": \"http\", \"url\": \"https://x.example\", }, }, }",
        r#"{"projects":{"/p":{"mcpServers":{"a":{"command":"x"}}}},"permissions":{"allow":["mcp__a__b"],"deny":["Bash(x:*)"]}}"#,
    ],
    words: &[
        "\"mcpServers\":",
        "\"command\":\"x\"",
        "\"url\":",
        "\"env\":{}",
        "\"permissions\":",
        "\\u0000",
        "\\ud800",
        "//",
        "/*",
        "*/",
        "null",
        "true",
        "1e999",
        "-0",
        "{",
        "}",
        "[",
        "]",
        "\u{feff}",
        "\"\":",
    ],
    check: |input| check(input, "json"),
};

pub(super) const YAML: Target = Target {
    name: "config-yaml",
    seeds: &[
        "metadata:\n  mcp:\n    servers:\n      - name: a\n        transport: stdio\n        command: x\n        args: [\"-y\"]\n        env:\n          K: ${V}\n",
        "metadata:\n  mcp:\n    - server: a\n      url: https://x.example/mcp\n      tools: [\"a\", 'b']\n",
        "---\nname: app\nmetadata:\n  mcp:\n    servers: &s\n      a: {command: x}\n    more: *s\n---\n# Text\n",
        "a: |\n  text\nb: >-\n  folded\n? key\n: value\n- !!str x\n",
    ],
    words: &[
        "- ",
        ": ",
        "&a ",
        "*a",
        "<<: *a\n",
        "|\n",
        ">-\n",
        "---\n",
        "...\n",
        "!!binary ",
        "? ",
        "{",
        "[",
        "\t",
        "\"\\x00\"",
        "~",
        "# ",
    ],
    check: |input| {
        check(input, "yaml");
        check(input, "md");
    },
};

pub(super) const HCL: Target = Target {
    name: "config-hcl",
    seeds: &[
        "mcp_servers {\n  name = \"a\"\n  transport = \"stdio\"\n  command = \"x\"\n  args = [\"-y\"]\n  env = { K = env(\"V\") }\n}\n",
        "mcp_servers \"a\" {\n  url = \"https://x.example\"\n  tool_timeout_secs = 5\n}\npermissions {\n  deny = [\"mcp__a__*\"]\n}\n",
        "a = <<EOT\ntext ${b}\nEOT\nb = 1 + 2 * (3 - c[0].d)\nc = true ? [for x in y : x] : {}\n",
    ],
    words: &[
        "{",
        "}",
        "\"${",
        "<<-E\n",
        "E\n",
        "env(\"X\")",
        "[for ",
        "? :",
        "(",
        ")",
        "%{",
        "/*",
        "*/",
        "#",
        "...",
        "!",
        "-",
        "mcp_servers {\n",
    ],
    check: |input| check(input, "hcl"),
};

const DIALECTS: [Option<Dialect>; 8] = [
    None,
    Some(Dialect::Native),
    Some(Dialect::CoreAgent),
    Some(Dialect::A3s),
    Some(Dialect::Gemini),
    Some(Dialect::AgentApps),
    Some(Dialect::AgentCode),
    Some(Dialect::McpJson),
];

fn check(input: &[u8], extension: &str) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let lines = text.split('\n').count();
    for (index, dialect) in DIALECTS.into_iter().enumerate() {
        let file = ConfigFile {
            path: PathBuf::from(format!("/nonexistent/file.{extension}")),
            scope: Scope::Project,
            dialect,
        };
        let loaded = load_text(&file, text);
        let findings = match &loaded {
            Ok(config) => &config.warnings,
            Err(errors) => &errors.0,
        };
        assert!(
            loaded.is_ok() || !findings.is_empty(),
            "refused without a reason"
        );
        for finding in findings {
            let told = finding.to_string();
            assert!(finding.line <= lines, "{told}: the file has {lines} lines");
            assert!(
                !told.contains(|c: char| c.is_control()),
                "{told:?} has a control character"
            );
            assert!(
                told.len() < 4_000,
                "{} bytes are told of one finding",
                told.len()
            );
        }
        let Ok(config) = loaded else { continue };
        // Its rules compile, or are rejected with a message.
        if let Err(errors) = Gate::compile(&config) {
            assert!(
                !errors.0.is_empty()
                    && errors.0.iter().all(|error| error.to_string().len() < 4_000)
            );
        }
        // In one dialect only: an edit reads the file three more times.
        if input.len() % DIALECTS.len() == index
            && let Some(edited) = add_server(&file, text, "added")
        {
            let again = load_text(
                &ConfigFile {
                    dialect: Some(edited.dialect),
                    ..file
                },
                &edited.text,
            )
            .expect("an edited file loads");
            let names = |config: &Config| -> Vec<String> {
                let names = config.servers.keys();
                names.map(|name| name.as_str().to_owned()).collect()
            };
            // Where the new entry is listed depends on its table: a file may have several.
            let (added, others): (Vec<_>, Vec<_>) =
                names(&again).into_iter().partition(|name| name == "added");
            assert_eq!(added.len(), 1, "the new entry is listed once");
            assert_eq!(others, names(&config), "an edit changed other entries");
        }
    }
    if let ("json", Ok(tree)) = (extension, serde_json::from_str::<serde_json::Value>(text)) {
        // Serialised again, each key is unique: `serde_json` accepts repeated keys. A
        // configuration is an object.
        assert!(
            !tree.is_object() || depth(&tree) > 32 || is_json_text(&tree.to_string()),
            "refused, and JSON to serde_json"
        );
    }
}

fn depth(tree: &serde_json::Value) -> usize {
    match tree {
        serde_json::Value::Array(parts) => 1 + parts.iter().map(depth).max().unwrap_or_default(),
        serde_json::Value::Object(parts) => 1 + parts.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
