//! Tool schemas, and arguments against them: compiled within limits or rejected with a message that
//! is short and has no hidden characters.

use switchboard::catalog::ToolDefinition;
use switchboard::schema::Validators;
use switchboard::wire::RawJson;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "schemas",
    seeds: &[
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^(a|b)*$\"}},\"required\":[\"a\"]}\n{\"a\":\"c\"}",
        "{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"t\":{\"$ref\":\"#/$defs/t\"}}}},\"$ref\":\"#/$defs/t\"}\n{\"t\":{\"t\":1}}",
        "{\"patternProperties\":{\"^x-[0-9]{1,9}\":{\"enum\":[1,null]}},\"additionalProperties\":false,\"minProperties\":1}\n{\"x-1\":2}",
        "{\"anyOf\":[{\"required\":[\"a\"]},{\"not\":{\"const\":{}}}],\"if\":{\"maxProperties\":0},\"then\":false}\n{}",
        "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"items\":[{\"type\":\"integer\"}],\"multipleOf\":0.1}\n{\"a\":[1]}",
    ],
    words: &[
        "\"$ref\":\"#\"",
        "\"$ref\":\"https://x.example\"",
        "\"pattern\":\"(?=a)\"",
        "\"pattern\":\"a{1000}{1000}\"",
        "\\\\p{L}",
        "(((",
        "\"allOf\":[",
        "\"not\":{",
        "\"$dynamicRef\":\"#a\"",
        "\"$anchor\":\"a\"",
        "\"$id\":\"x\"",
        "1e308",
        "-1",
        "null",
        "true",
        "{",
        "}",
        "[",
        "]",
        "\n",
    ],
    check,
};

fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (schema, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    let raw = RawJson::parse(format!("{{\"name\":\"x\",\"inputSchema\":{schema}}}"));
    let Ok(raw) = raw else { return };
    let definition = match ToolDefinition::parse(&raw) {
        Ok(definition) => definition,
        Err((_, reason)) => return assert_is_sentence(&reason),
    };
    let validators = Validators::default();
    validators
        .warnings(definition.hash, &definition.input_schema)
        .iter()
        .for_each(|warning| assert_is_sentence(warning));
    let Ok(arguments) = RawJson::parse(arguments.to_owned()) else {
        return;
    };
    if let Err(schema_violation) =
        validators.validate(definition.hash, &definition.input_schema, &arguments)
    {
        assert_is_sentence(&schema_violation.to_string());
    }
}

fn assert_is_sentence(text: &str) {
    assert!(
        !text.is_empty() && text.len() < 16_000 && !text.contains(|c: char| c.is_control()),
        "{text:?}"
    );
}
