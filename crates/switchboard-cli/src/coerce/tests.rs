//! Arguments of the command line as JSON.

#![allow(clippy::unwrap_used)]
use super::*;

fn schema() -> Value {
    serde_json::json!({
        "type": "object",
        "$defs": { "level": { "enum": [1, 2, "high"] } },
        "properties": {
            "text": { "type": "string" },
            "count": { "type": "integer" },
            "ratio": { "type": "number" },
            "flag": { "type": "boolean" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "numbers": { "type": "array", "items": { "type": "integer" } },
            "options": { "type": "object" },
            "either": { "type": ["integer", "string"] },
            "maybe": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "level": { "$ref": "#/$defs/level" }
        }
    })
}

fn check(words: &[&str], expected: Result<&str, &str>) {
    let pairs: Vec<_> = words.iter().map(|word| pair(word).unwrap()).collect();
    let found = arguments(None, &pairs, &schema());
    let found = found.as_ref().map(RawJson::as_str).map_err(String::as_str);
    assert_eq!(found, expected, "{words:?}");
}

#[test]
fn values_are_coerced_by_the_schema_and_keep_their_text() {
    check(&[], Ok("{}"));
    check(&["text=5"], Ok(r#"{"text":"5"}"#));
    check(&["text=a=b=c"], Ok(r#"{"text":"a=b=c"}"#));
    check(&["text=true"], Ok(r#"{"text":"true"}"#));
    check(
        &["count=12345678901234567890123"],
        Ok(r#"{"count":12345678901234567890123}"#),
    );
    check(
        &["count=1.5"],
        Err(r#"count: expected integer, found "1.5""#),
    );
    check(&["ratio=1.50"], Ok(r#"{"ratio":1.50}"#));
    check(&["ratio=2"], Ok(r#"{"ratio":2}"#));
    check(&["flag=true"], Ok(r#"{"flag":true}"#));
    check(&["flag=yes"], Err(r#"flag: expected boolean, found "yes""#));
    check(&["tags=a,b"], Ok(r#"{"tags":["a,b"]}"#));
    check(&["tags=a", "tags=b"], Ok(r#"{"tags":["a","b"]}"#));
    check(&[r#"tags=["a"]"#], Ok(r#"{"tags":["a"]}"#));
    check(&["numbers=1", "numbers=2"], Ok(r#"{"numbers":[1,2]}"#));
    check(
        &["numbers=x"],
        Err(r#"numbers: expected integer, found "x""#),
    );
    check(&[r#"options={"a":1}"#], Ok(r#"{"options":{"a":1}}"#));
    check(
        &["options=x"],
        Err(r#"options: expected object, found "x""#),
    );
    check(&["either=5"], Ok(r#"{"either":5}"#));
    check(&["either=007"], Ok(r#"{"either":"007"}"#));
    check(&["maybe=null"], Ok(r#"{"maybe":null}"#));
    check(&["level=2"], Ok(r#"{"level":2}"#));
    check(&["level=high"], Ok(r#"{"level":"high"}"#));
    check(&["unknown=5"], Ok(r#"{"unknown":"5"}"#));
    check(&["unknown:=5"], Ok(r#"{"unknown":5}"#));
    check(
        &["text:={"],
        Err("text: not JSON: EOF while parsing an object at line 1 column 1"),
    );
    check(
        &["text=a", "text=b"],
        Err("text: given more than once, and it takes no array"),
    );
    check(&["text=a\"b\n"], Ok(r#"{"text":"a\"b\n"}"#));
}

#[test]
fn a_property_of_a_schema_that_is_referred_to_has_its_type() {
    let schema = serde_json::json!({
        "$defs": { "base": { "properties": { "count": { "type": "integer" } } } },
        "allOf": [{ "$ref": "#/$defs/base" }]
    });
    let found = arguments(None, &[pair("count=5").unwrap()], &schema).unwrap();
    assert_eq!(found.as_str(), r#"{"count":5}"#);
}

#[test]
fn a_key_missing_from_the_schema_is_reported_unless_the_schema_is_open() {
    let pairs = [pair("text=x").unwrap(), pair("txet=x").unwrap()];
    assert_eq!(unknown_keys(&pairs, &schema()), ["txet"]);
    let open = serde_json::json!({ "properties": { "text": {} }, "additionalProperties": true });
    assert!(unknown_keys(&pairs, &open).is_empty());
    assert!(unknown_keys(&pairs, &serde_json::json!({ "type": "object" })).is_empty());
}

#[test]
fn json_arguments_pass_byte_for_byte_and_pairs_override_them() {
    let raw = RawJson::parse(&b"{ \"b\": 1.0,\"a\":2 }"[..]).unwrap();
    assert_eq!(
        arguments(Some(&raw), &[], &schema()).unwrap().as_str(),
        "{ \"b\": 1.0,\"a\":2 }"
    );
    let over = arguments(
        Some(&raw),
        &[pair("a:=3").unwrap(), pair("text=x").unwrap()],
        &schema(),
    )
    .unwrap();
    assert_eq!(over.as_str(), r#"{"b":1.0,"a":3,"text":"x"}"#);
    let list = RawJson::parse(&b"[1]"[..]).unwrap();
    assert_eq!(
        arguments(Some(&list), &[], &schema()).unwrap_err(),
        "expected a JSON object, found a list"
    );
}
