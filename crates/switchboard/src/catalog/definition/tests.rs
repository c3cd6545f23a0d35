//! Tests of which definitions are valid, and what their hash depends on.

#![allow(clippy::unwrap_used)]

use super::*;

fn tool(json: &str) -> Result<ToolDefinition, (String, String)> {
    let parsed = ToolDefinition::parse(&RawJson::parse(json.to_owned()).unwrap());
    parsed.map_err(|(name, reason)| (name.as_wire().to_owned(), reason))
}

#[test]
fn unknown_fields_survive_in_the_raw_object() {
    let json =
        r#"{"name":"x","inputSchema":{"type":"object"},"execution":{"taskSupport":"no"},"new":1}"#;
    let tool = tool(json).unwrap();
    assert_eq!(tool.raw.as_str(), json);
    assert_eq!(tool.input_schema.as_str(), r#"{"type":"object"}"#);
    assert_eq!(
        (tool.title, tool.description, tool.output_schema),
        (None, None, None)
    );
}

#[test]
fn schemas_share_the_bytes_of_the_list() {
    let list = RawJson::parse(r#"{"name":"x","inputSchema":{"type":"object"}}"#).unwrap();
    let tool = ToolDefinition::parse(&list).unwrap();
    let (start, end) = (
        list.as_str().as_ptr() as usize,
        list.as_str().as_ptr() as usize + list.as_str().len(),
    );
    assert!((start..end).contains(&(tool.input_schema.as_str().as_ptr() as usize)));
}

#[test]
fn s2_24_s2_66_f16_a_wrong_definition_names_its_field() {
    let check = |json: &str, name: &str, reason: &str| {
        assert_eq!(
            tool(json).unwrap_err(),
            (name.to_owned(), reason.to_owned())
        );
    };
    check(r#"{"inputSchema":{}}"#, "", "it has no name");
    check(r#"{"name":"","inputSchema":{}}"#, "", "it has no name");
    check(
        r#"{"name":7,"inputSchema":{}}"#,
        "",
        "its name is not a string",
    );
    check(r#"{"name":"x"}"#, "x", "it has no inputSchema");
    check(
        r#"{"name":"x","inputSchema":true}"#,
        "x",
        "its inputSchema is not an object",
    );
    check(
        r#"{"name":"x","inputSchema":{"type":"string"}}"#,
        "x",
        "its inputSchema describes no object at its root",
    );
    check(
        r#"{"name":"x","inputSchema":{},"description":[]}"#,
        "x",
        "its description is not a string",
    );
    check(
        r#"{"name":"x","inputSchema":{},"outputSchema":1}"#,
        "x",
        "its outputSchema is not an object",
    );
    check(
        r#"{"name":"x","inputSchema":{},"annotations":"y"}"#,
        "x",
        "its annotations is not an object",
    );
    check(
        r#"{"name":"x","name":"y","inputSchema":{}}"#,
        "",
        "its definition is not usable: duplicate field `name` at line 1 column 18",
    );
    check(
        r#"["x",null,null,{},null,null]"#,
        "",
        "its definition is not an object",
    );
    let deep = format!(
        r#"{{"name":"x","inputSchema":{{"a":{}{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    check(&deep, "x", "its inputSchema is nested deeper than 128");
}

#[test]
fn an_output_schema_may_be_any_schema() {
    for schema in [
        "true",
        "false",
        r#"{"type":"array"}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
    ] {
        let json = format!(r#"{{"name":"x","inputSchema":{{}},"outputSchema":{schema}}}"#);
        assert_eq!(tool(&json).unwrap().output_schema.unwrap().as_str(), schema);
    }
}

#[test]
fn t9_the_hash_covers_what_is_approved_and_nothing_else() {
    let base = r#"{"name":"x","title":"t","description":"d","inputSchema":{"type":"object","a":1},"annotations":{"readOnlyHint":true}}"#;
    let same = [
        r#"{ "annotations":{"readOnlyHint":true}, "inputSchema":{"a":1,"type":"object"}, "description":"\u0064","title":"t","name":"x"}"#,
        r#"{"name":"x","title":"t","description":"d","inputSchema":{"type":"object","a":1},"annotations":{"readOnlyHint":true},"_meta":{"v":2},"outputSchema":null}"#,
    ];
    let other = [
        base.replace(r#""x""#, r#""y""#),
        base.replace(r#""title":"t""#, r#""title":"u""#),
        base.replace(r#""description":"d""#, r#""description":"e""#),
        base.replace(r#""a":1"#, r#""a":2"#),
        base.replace(r#""a":1"#, r#""a":1,"a":1"#),
        base.replace("true", "false"),
        base.replace(r#""title":"t","#, ""),
        base.replace(r#""annotations""#, r#""outputSchema""#),
    ];
    let hash = |json: &str| tool(json).unwrap().hash;
    for json in same {
        assert_eq!(hash(json), hash(base), "{json}");
    }
    for json in other {
        assert_ne!(hash(&json), hash(base), "{json}");
    }
}

#[test]
fn t11_names_that_imitate_are_flagged() {
    let check = |name: &str, expected: &[&str]| {
        let json = serde_json::json!({"name": name, "inputSchema": {}}).to_string();
        assert_eq!(tool(&json).unwrap().warnings, expected, "{name:?}");
    };
    check("read_file", &[]);
    check("読む", &[]);
    check(
        "re\u{430}d_file",
        &[
            "its name mixes scripts",
            "its name looks like \"read_file\" and is not",
        ],
    );
    check(
        "read\u{200b}_file",
        &[
            "its name has control or hidden characters",
            "its name looks like \"read_file\" and is not",
        ],
    );
}

#[test]
fn the_text_for_a_diff_keeps_the_servers_lines() {
    let json = r#"{"name":"x","description":"one\ntwo","inputSchema":{"type":"object","a":1}}"#;
    assert_eq!(
        tool(json).unwrap().text(),
        "name: x\ntitle: \ndescription: one\ndescription: two\n\
             inputSchema: {\ninputSchema:   \"a\": 1,\ninputSchema:   \"type\": \"object\"\ninputSchema: }\n"
    );
}
