//! Tests of the formats: their trees with offsets, their errors, and that no text makes a parser
//! panic.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::format::Format;
use super::tree::{Node, Tree};
use super::*;
use crate::diagnostic::Diagnostics;

/// The tree of a text, and the diagnostics.
fn parsed(format: Format, text: &str) -> (Node, Vec<String>) {
    let mut diagnostics = Diagnostics::new(Arc::new("f".into()), text);
    let node = format.parse(text, &mut diagnostics);
    let (errors, _) = diagnostics.finish();
    (node, errors.iter().map(Diagnostic::to_string).collect())
}

/// A tree on one line: each key and each scalar with its offset.
fn shown(node: &Node) -> String {
    let at = node.at;
    match &node.value {
        Tree::Text(text) => format!("{text:?}@{at}"),
        Tree::Number(digits) => format!("{digits}@{at}"),
        Tree::Flag(flag) => format!("{flag}@{at}"),
        Tree::Null => format!("null@{at}"),
        Tree::Other(_) => format!("other@{at}"),
        Tree::List(items) => format!(
            "[{}]",
            items.iter().map(shown).collect::<Vec<_>>().join(" ")
        ),
        Tree::Table(entries) => {
            let entry = |entry: &super::tree::TableEntry| {
                format!("{}@{}={}", entry.key, entry.at, shown(&entry.value))
            };
            format!(
                "{{{}}}",
                entries.iter().map(entry).collect::<Vec<_>>().join(" ")
            )
        }
    }
}

#[track_caller]
fn check(format: Format, text: &str, expected: &str) {
    let (node, messages) = parsed(format, text);
    assert_eq!(
        (shown(&node).as_str(), &messages[..]),
        (expected, &[][..]),
        "{text}"
    );
}

#[track_caller]
fn check_refused(format: Format, text: &str, expected: &str) {
    assert_eq!(parsed(format, text).1, [expected], "{text}");
}

#[test]
fn hcl_blocks_and_attributes_are_entries_and_repeated_blocks_are_kept() {
    let check = |text, expected| check(Format::Hcl, text, expected);
    check("", "{}");
    check("a = 1\nb = \"x\"", "{a@0=1@4 b@6=\"x\"@10}");
    check(
        "s {\n  a = true\n}\ns {\n  a = null\n}\n",
        "{s@0={a@6=true@10} s@17={a@23=null@27}}",
    );
    check(
        "s \"one\" \"two\" {\n  a = []\n}\n",
        "{s@0={one@2={two@8={a@18=[]}}}}",
    );
    check(
        "a = { b = [1, \"x\"], \"c d\" : 2.5 }\n",
        "{a@0={b@6=[1@11 \"x\"@14] c d@20=2.5@28}}",
    );
    check("# note\n// note\n/* note */ a = 1 # note\n", "{a@26=1@30}");
    check("\u{feff}a = \"é\"\nb = 1\n", "{a@3=\"é\"@7 b@12=1@16}");
    check("a = <<EOT\nx $y\nEOT\n", "{a@0=\"x $$y\\n\"@4}");
}

#[test]
fn hcl_env_calls_are_native_references_and_every_other_dollar_is_escaped() {
    let check = |value: &str, expected: &str| {
        check(
            Format::Hcl,
            &format!("a = {value}\n"),
            &format!("{{a@0={expected}@4}}"),
        )
    };
    check(r#"env("TOKEN")"#, r#""${TOKEN}""#);
    check(r#""a $ $b $$c""#, r#""a $$ $$b $$$$c""#);
    check(r#""$${TOKEN}""#, r#""$${TOKEN}""#);
    check(r#""Bearer ${env("TOKEN")}$""#, r#""Bearer ${TOKEN}$$""#);
    check(r#""${env("A")}${env("B")}""#, r#""${A}${B}""#);
    check(r#"upper("x")"#, "other");
    check(r#""${x}""#, "other");
    check("-5", "-5");
}

#[test]
fn json_has_comments_trailing_commas_and_offsets() {
    let check = |text: &str, expected: &str| check(Format::Json, text, expected);
    check("{}", "{}");
    check(
        r#"{"a": 1, "b": "x", "c": [true, null, -2.5e3]}"#,
        r#"{a@1=1@6 b@9="x"@14 c@19=[true@25 null@31 -2.5e3@37]}"#,
    );
    check("// note\n{ /* note */ \"a\": 1, } // note\n", "{a@21=1@26}");
    check("\u{feff}{\"é\": \"\\u00e9\\n\"}", "{é@4=\"é\\n\"@10}");
    check(r#"{"a": {"b": {}}, "c": []}"#, "{a@1={b@7={}} c@17=[]}");
}

#[test]
fn json_errors_have_a_position_and_no_value() {
    let check = |text: &str, expected: &str| check_refused(Format::Json, text, expected);
    check("", "f: empty; expected a JSON object, { … }");
    check("[1]", "f:1:1: expected an object, { … }, found a list");
    check(
        "{\n  \"a\": 1,\n  \"a\": 2\n}",
        "f:3:3: a is already set in line 2; each key may occur once",
    );
    check(
        "{\"s\": {\"b\": 1,\n\"c\": 2, \"b\": 3}}",
        "f:2:9: b is already set in line 1; each key may occur once",
    );
    check(
        "{\"a\": }",
        "f:1:7: not valid JSON: a closing brace without its opening one",
    );
    check(
        "{\"a\" 1}",
        "f:1:6: not valid JSON: expected `\"key\": value`, with one colon between them",
    );
    check(
        "{a: 1}",
        "f:1:2: not valid JSON: a key must be in double quotes: \"…\"",
    );
    check(
        "{\"a\": 'x'}",
        "f:1:7: not valid JSON: a string must be in double quotes, not in single quotes",
    );
    check(
        "{\"a\": 1 \"b\": 2}",
        "f:1:8: not valid JSON: expected a comma before this",
    );
    check(
        "{\"a\": [1",
        "f:1:7: not valid JSON: the list that begins here is not closed; expected ]",
    );
    check(
        "{\"a\": 1}}",
        "f:1:9: not valid JSON: more follows after the closing brace; a file is one object, { … }",
    );
}

#[test]
fn yaml_has_the_core_types_with_offsets() {
    let check = |text: &str, expected: &str| check(Format::Yaml, text, expected);
    check("", "{}");
    check("# nothing\n", "{}");
    check(
        "a: x y\nb: 'q'\nc: \"\\u00e9\\n\"\n",
        "{a@0=\"x y\"@3 b@7=\"q\"@10 c@14=\"é\\n\"@17}",
    );
    check(
        "é: [1, -2, 0x1F, 0o17, 1.5, 1e3, .inf]\n",
        "{é@0=[1@5 -2@8 31@12 15@18 1.5@24 1e3@29 .inf@34]}",
    );
    check(
        "a: [true, False, ~, null, 'true', yes, 0x+1, 1.2.3, '']\n",
        "{a@0=[true@4 false@10 null@17 null@20 \"true\"@26 \"yes\"@34 \"0x+1\"@39 \"1.2.3\"@45 \"\"@52]}",
    );
    check(
        "a:\n  b:\n    - c: 1\n    - d\n",
        "{a@0={b@5=[{c@14=1@17} \"d\"@25]}}",
    );
    check("1: a\ntrue: b\n", "{1@0=\"a\"@3 true@5=\"b\"@11}");
    check(
        "a: |\n  x\n  y\nb: >-\n  z\n",
        "{a@0=\"x\\ny\\n\"@7 b@13=\"z\"@21}",
    );
    check(
        "a: !!str 5\nb: !!int 5\nc: !own x\n",
        "{a@0=\"5\"@9 b@11=other@20 c@22=other@30}",
    );
    check(
        "a: &x { b: 1 }\nc: *x\n",
        "{a@0={b@8=1@11} c@15={b@8=1@11}}",
    );
}

#[test]
fn s3_21_a_backslash_before_a_dollar_is_kept_in_every_kind_of_scalar() {
    let check = |text: &str, expected: &str| check(Format::Yaml, text, expected);
    check(r#"a: "\${T}" "#, r#"{a@0="\\${T}"@3}"#);
    check(r"a: '\${T}' ", r#"{a@0="\\${T}"@3}"#);
    check(r"a: \${T} ", r#"{a@0="\\${T}"@3}"#);
    // YAML's own escape of a backslash.
    check(r#"a: "\\${T}" "#, r#"{a@0="\\${T}"@3}"#);
    check(r#"a: "\\\${T}" "#, r#"{a@0="\\\\${T}"@3}"#);
    check(
        r#"a: ["\$", "\n\$Ѐ\$", x]"#,
        r#"{a@0=["\\$"@4 "\n\\$Ѐ\\$"@10 "x"@22]}"#,
    );
    check(r#""\$k": v"#, r#"{\$k@0="v"@7}"#);
}

#[test]
fn yaml_refuses_what_no_configuration_needs() {
    let check = |text: &str, expected: &str| check_refused(Format::Yaml, text, expected);
    check(
        "a: 1\na: 2\n",
        "f:2:1: this name is already set above; each may occur once",
    );
    check(
        "{ a: { b: 1, b: 2 } }",
        "f:1:14: this name is already set above; each may occur once",
    );
    check(
        "[a]: 1\n",
        "f:1:1: a key must be a plain string, not a list or a table",
    );
    check(
        "a: 1\n---\nb: 2\n",
        "f:2:1: a second document begins here; expected one",
    );
    check("a: &x [*x]\n", "f:1:8: this alias is inside its own anchor");
    check("a: [1\n", "f:1:4: not valid YAML: unclosed bracket '['");
}

#[test]
fn front_matter_is_between_the_first_two_fences() {
    let check = |text: &str, expected: &str| check(Format::FrontMatter, text, expected);
    check("---\na: 1\n---\n# Title\nb: [\n", "{a@4=1@7}");
    check("\u{feff}---  \r\na: 1\r\n---\r\n", "{a@10=1@13}");
    check("---\n---\n", "{}");
    check("---\na: 1\n---", "{a@4=1@7}");
    let refused = |text: &str, expected: &str| check_refused(Format::FrontMatter, text, expected);
    let none = "f:1:1: no front matter; expected the line `---` first, then YAML, then `---` again";
    refused("# Title\n---\na: 1\n---\n", none);
    refused("", none);
    refused(
        "---\na: 1\n",
        "f:1:1: the front matter is not closed; expected a second line `---` after it",
    );
    refused(
        "---\na: 1\nb: [\n---\n",
        "f:3:4: not valid YAML: unclosed bracket '['",
    );
}

/// T27: no text takes much longer than its length, however it nests or copies.
#[test]
fn t27_malicious_files_of_every_format_give_a_clean_error() {
    let check = |format: Format, what: &str, text: String, expected: &str| {
        let started = std::time::Instant::now();
        let (_, messages) = parsed(format, &text);
        assert!(
            messages.len() == 1 && messages[0].contains(expected),
            "{what}: {messages:?}"
        );
        assert!(started.elapsed().as_secs() < 20, "{what}");
    };
    let deep = "nested too deeply";
    check(
        Format::Hcl,
        "lists",
        format!("a = {}", "[".repeat(100_000)),
        deep,
    );
    check(
        Format::Hcl,
        "objects",
        format!("a = {}", "{a=".repeat(50_000)),
        deep,
    );
    check(Format::Hcl, "blocks", "a {\n".repeat(50_000), deep);
    check(
        Format::Hcl,
        "templates",
        format!("a = {}", "\"${".repeat(50_000)),
        deep,
    );
    // Each level with operators takes the parser several times as long.
    check(
        Format::Hcl,
        "operators",
        format!("a = {}<", "1 + 2 * (3 - c[ ".repeat(30)),
        deep,
    );
    check(
        Format::Hcl,
        "length",
        "#".repeat(300_000),
        "larger than 256 KiB",
    );
    check(
        Format::Json,
        "lists",
        format!("{{\"a\": {}", "[".repeat(100_000)),
        deep,
    );
    check(Format::Json, "objects", "{\"a\": ".repeat(100_000), deep);
    check(Format::Yaml, "flow lists", "[".repeat(100_000), deep);
    check(Format::Yaml, "flow tables", "{a: ".repeat(100_000), deep);
    check(Format::Yaml, "block lists", "- ".repeat(100_000), deep);
    let laughs: String = (1..40)
        .map(|n| format!("a{n}: &a{n} [*a{m}, *a{m}, *a{m}]\n", m = n - 1))
        .collect();
    check(
        Format::Yaml,
        "billion laughs",
        format!("a0: &a0 lol\n{laughs}"),
        "aliases expand to more",
    );
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(100_000),
        "*a,".repeat(100)
    );
    check(
        Format::Yaml,
        "one long text, often",
        long,
        "aliases expand to more",
    );
    let nests: String = (1..40)
        .map(|n| format!("a{n}: &a{n} [[[[*a{m}]]]]\n", m = n - 1))
        .collect();
    check(
        Format::Yaml,
        "aliases that nest",
        format!("a0: &a0 [x]\n{nests}"),
        deep,
    );
}

const FORMATS: [Format; 5] = [
    Format::Toml,
    Format::Json,
    Format::Yaml,
    Format::FrontMatter,
    Format::Hcl,
];

/// Whether every offset of a tree lies within the text.
fn all_within(node: &Node, text: &str) -> bool {
    let inside = match &node.value {
        Tree::List(items) => items.iter().all(|item| all_within(item, text)),
        Tree::Table(entries) => entries
            .iter()
            .all(|entry| entry.at <= text.len() && all_within(&entry.value, text)),
        _ => true,
    };
    inside && node.at <= text.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_parser_panic(text in "[a-c0-9 \\t\\n\\r\"'\\\\$%{}\\[\\]()<>=:,.#&*!|?~/-]{0,60}|.{0,40}|(---\n)?[ab:{}\\[\\]\\\\$\"'& *\n-]{0,60}") {
        for format in FORMATS {
            let (node, _) = parsed(format, &text);
            prop_assert!(all_within(&node, &text), "{format:?}: {text:?}");
        }
    }

    /// T25: however a file is damaged, no value of env, args or url appears in a message.
    #[test]
    fn t25_no_secret_appears_in_messages_about_a_damaged_file(
        which in 0..4usize, at in 0..400usize, remove in 0usize..40, insert in "[\\[\\]{}=:\"'\\n#.,a1$ ]{0,3}"
    ) {
        let (dialect, name, whole) = [
            (Dialect::A3s, "f.hcl", HCL),
            (Dialect::AgentApps, "f.yaml", YAML),
            (Dialect::Gemini, "f.json", JSON),
            (Dialect::McpJson, "f.json", JSON),
        ][which];
        let at = whole.floor_char_boundary(at.min(whole.len()));
        let end = whole.floor_char_boundary((at + remove).min(whole.len()));
        let text = format!("{}{insert}{}", &whole[..at], &whole[end..]);
        let messages = match load_foreign(dialect, name, &text) {
            Ok(foreign) => format!("{:?} {:?}", foreign.warnings(), foreign.faults()),
            Err(messages) => messages,
        };
        // Damage may turn a value into a key, and keys are shown.
        let shown_as_key = text.lines().any(|line| line.rsplit(['=', ':']).skip(1).any(|key| key.contains("CANARY")));
        prop_assert!(!messages.contains("CANARY") || shown_as_key, "{text}\n{messages}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// No tree makes a dialect panic: the same keys and kinds of values, at any place.
    #[test]
    fn no_document_makes_a_dialect_panic(
        text in "((metadata|mcp|mcp_servers|mcpServers|servers|permissions|security|rules|env|args|url|name|x)(: ?| ?= ?| ?\\{\n?|\\}\n)|\"[a$\\\\{}]{0,4}\"|[\\[\\]{}:,\n 1-]){0,40}"
    ) {
        for dialect in Dialect::ALL {
            for name in ["f.toml", "f.json", "f.yaml", "f.md", "f.hcl"] {
                let _ = load_foreign(dialect, name, &text);
            }
        }
    }
}

const JSON: &str = r#"{
  "mcpServers": {
    "a": {"command": "npx", "args": ["-y", "--token=CANARY-arg"], "env": {"TOKEN": "CANARY-env", "B": "${CANARY}"}},
    "b": {
      "httpUrl": "https://user:CANARY-user@x.example/mcp?key=CANARY-query",
      "headers": {"Authorization": "Bearer CANARY-header"}, "timeout": 5000
    }
  }
}"#;

const HCL: &str = r#"mcp_servers {
  name = "git"
  command = "npx"
  args = ["-y", "CANARY-arg", "--token=CANARY-flag"]
  env = {
    TOKEN = "CANARY-env"
    OTHER = env("HOME")
  }
}
mcp_servers {
  name = "remote"
  transport = "sse"
  url = "https://user@x.example/mcp?key=CANARY-query"
}
"#;

const YAML: &str = r#"metadata:
  mcp:
    git:
      command: npx
      args: [-y, CANARY-arg, "CANARY-quoted"]
      env:
        TOKEN: CANARY-env
        OTHER: "\${HOME} CANARY"
    remote:
      url: https://user@x.example/mcp?key=CANARY-query
"#;

/// T2: the format of an entry does not matter, only its meaning.
#[test]
fn t2_one_entry_has_one_fingerprint_in_every_format() {
    let toml = "[servers.a]\ncommand = \"npx\"\nargs = [\"-y\", \"$$x\"]\nenv = { TOKEN = \"${TOKEN}\", B = \"é\" }\n";
    let yaml = "servers:\n  a:\n    env: { B: é, TOKEN: '${TOKEN}' }\n    args: [-y, $$x]\n    command: npx\n";
    let markdown = format!("---\n{yaml}---\n# Title\n");
    let hcl = "servers {\n  a {\n    command = \"npx\"\n    args = [\"-y\", \"$x\"]\n    env = { TOKEN = env(\"TOKEN\"), B = \"é\" }\n  }\n}\n";
    let json = r#"{"servers": {"a": {"command": "npx", "args": ["-y", "$$x"], "env": {"TOKEN": "${TOKEN}", "B": "\u00e9"}}}}"#;
    let texts = [
        ("f.toml", toml),
        ("f.yaml", yaml),
        ("f.md", &markdown),
        ("f.hcl", hcl),
        ("f.json", json),
    ];
    let launch = |name: &str, text: &str| {
        let [server] = &load_foreign(Dialect::Native, name, text).unwrap().servers()[..] else {
            panic!("{name}")
        };
        (server.fingerprint(), server.endpoint.clone())
    };
    let first = launch(texts[0].0, texts[0].1);
    for (name, text) in texts {
        assert_eq!(launch(name, text), first, "{name}");
    }
}
