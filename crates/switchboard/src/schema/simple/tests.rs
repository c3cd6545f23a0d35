#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::schema::RootType;
use crate::schema::compile::CompiledSchema;
use crate::wire::RawJson;

const FILE: &str = r#"{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":false,
    "required":["path"],"properties":{
        "path":{"type":"string","minLength":1,"maxLength":10,"description":"which"},
        "count":{"type":"integer","minimum":1,"maximum":100},
        "ratio":{"type":"number"},
        "mode":{"type":"string","enum":["r","w"]},
        "tags":{"type":"array","items":{"type":"string"}},
        "limit":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null},
        "options":{"type":"object","properties":{"all":{"type":"boolean"}}},
        "name":{"type":"string","pattern":"^a"}}}"#;

fn simple(schema: &str) -> SimpleSchema {
    let schema = RawJson::parse(schema.to_owned()).unwrap();
    SimpleSchema::read(&schema.decode().unwrap())
}

/// What the validator says by itself.
fn is_valid(schema: &str, arguments: &str) -> bool {
    let schema = RawJson::parse(schema.to_owned()).unwrap();
    let arguments = RawJson::parse(arguments.to_owned()).unwrap();
    let compiled = CompiledSchema::new(&schema, RootType::Object).unwrap();
    let arguments: Result<JsonTree<'_>, _> = arguments.decode();
    arguments.is_ok_and(|arguments| {
        arguments.repeated_key().is_none() && compiled.validate(&arguments).is_ok()
    })
}

#[test]
fn what_fits_is_recognised_and_the_rest_is_left_to_the_validator() {
    let schema = simple(FILE);
    for fits in [
        r#"{"path":"a"}"#,
        r#" { "path" : "a" , "count" : 100 } "#,
        r#"{"path":"a","ratio":-2.5,"mode":"w","tags":["x",""],"limit":null}"#,
        r#"{"tags":[],"path":"0123456789","limit":7,"options":{"all":true}}"#,
        r#"{"path":"a","options":{}}"#,
    ] {
        assert!(schema.fits(fits), "{fits}");
        assert!(is_valid(FILE, fits), "{fits}");
    }
    for unsure in [
        "{}",
        "[]",
        r#"{"path":""}"#,
        r#"{"path":"01234567890"}"#,
        r#"{"path":"a\u0062"}"#,
        r#"{"pa\u0074h":"a"}"#,
        r#"{"path":"a","path":"b"}"#,
        r#"{"path":"a","other":1}"#,
        r#"{"path":"a","count":0}"#,
        r#"{"path":"a","count":101}"#,
        r#"{"path":"a","count":1.0}"#,
        r#"{"path":"a","count":1e1}"#,
        r#"{"path":"a","count":"1"}"#,
        r#"{"path":"a","ratio":1e400}"#,
        r#"{"path":"a","mode":"x"}"#,
        r#"{"path":"a","tags":[1]}"#,
        r#"{"path":"a","limit":true}"#,
        r#"{"path":"a","options":{"all":true,"all":false}}"#,
        r#"{"path":"a","name":"abc"}"#,
    ] {
        assert!(!schema.fits(unsure), "{unsure}");
    }
}

#[test]
fn a_schema_with_other_keywords_is_unknown() {
    for schema in [
        "{}",
        r#"{"type":"object","minProperties":1}"#,
        r#"{"type":"object","required":["a"]}"#,
        r##"{"type":"object","$ref":"#/$defs/a","$defs":{"a":{}}}"##,
        r#"{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"null"}}}"#,
        r#"{"type":["object","null"]}"#,
        r#"{"type":"object","not":{}}"#,
        r#"{"required":["a"],"anyOf":[{"type":"object","properties":{"b":{"type":"null"}}}]}"#,
        r#"{"additionalProperties":false,"anyOf":[{"type":"object","properties":{"b":{}}}]}"#,
        r#"{"minLength":2,"anyOf":[{"type":"string"}]}"#,
        r#"{"type":"string","enum":["a","ab"],"minLength":2}"#,
    ] {
        assert!(matches!(simple(schema), SimpleSchema::Unknown), "{schema}");
    }
}

/// Keywords that may stand beside `anyOf`.
const BESIDE_ANY_OF: &[&str] = &[
    "",
    r#","title":"x""#,
    r#","required":["a"]"#,
    r#","properties":{"a":{"type":"string"}}"#,
    r#","additionalProperties":false"#,
    r#","items":{"type":"integer"}"#,
    r#","minLength":2"#,
    r#","maximum":1"#,
];

fn property() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just(r#"{"type":"string"}"#.to_owned()),
        (0..3usize, 0..6usize).prop_map(|(least, most)| format!(
            r#"{{"type":"string","minLength":{least},"maxLength":{most}}}"#
        )),
        (-3..3i64, -3..6i64).prop_map(|(least, most)| format!(
            r#"{{"type":"integer","minimum":{least},"maximum":{most}}}"#
        )),
        Just(r#"{"type":"number"}"#.to_owned()),
        Just(r#"{"type":"number","minimum":1}"#.to_owned()),
        Just(r#"{"type":"boolean"}"#.to_owned()),
        Just(r#"{"type":"null"}"#.to_owned()),
        Just(r#"{"type":"string","enum":["a","ab"]}"#.to_owned()),
        Just(r#"{"type":"string","enum":["a","ab"],"minLength":2}"#.to_owned()),
        Just(r#"{"type":["string","null"]}"#.to_owned()),
        Just(r#"{"type":"string","pattern":"^a"}"#.to_owned()),
        Just("true".to_owned()),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|items| format!(r#"{{"type":"array","items":{items}}}"#)),
            inner
                .clone()
                .prop_map(|items| format!(r#"{{"type":"array","items":{items},"minItems":1}}"#)),
            (
                proptest::collection::vec(inner.clone(), 1..3),
                proptest::sample::select(BESIDE_ANY_OF)
            )
                .prop_map(|(schemas, beside)| format!(
                    r#"{{"anyOf":[{}]{beside}}}"#,
                    schemas.join(",")
                )),
            object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (proptest::collection::vec(inner, 0..3), 0..3usize, any::<bool>()).prop_map(
        |(schemas, required, is_closed)| {
            let names = ["a", "b", "é"];
            let members: Vec<_> = names.iter().zip(&schemas).map(|(name, schema)| format!("\"{name}\":{schema}")).collect();
            let required: Vec<_> = names.iter().take(required).map(|name| format!("\"{name}\"")).collect();
            format!(
                r#"{{"type":"object","properties":{{{}}},"required":[{}],"additionalProperties":{}}}"#,
                members.join(","),
                required.join(","),
                !is_closed
            )
        },
    )
}

fn json() -> impl Strategy<Value = String> {
    let scalar = proptest::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "3",
        "-2",
        "2.0",
        "2.5",
        "1e2",
        "1e400",
        "12345678901234567890",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"é\"",
        "\"\\u0061\"",
        "\"abcdef\"",
    ])
    .prop_map(str::to_owned);
    scalar.prop_recursive(3, 12, 3, |inner| {
        let name = proptest::sample::select(vec!["a", "b", "é", "\\u0061", "c"]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::vec((name, inner), 0..3).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\" : {value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Nothing that the validator refuses is accepted.
    #[test]
    fn what_fits_is_valid(schema in object(property()), arguments in json()) {
        if simple(&schema).fits(&arguments) {
            prop_assert!(is_valid(&schema, &arguments), "{schema} {arguments}");
        }
    }
}
