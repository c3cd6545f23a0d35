//! What checking and validating promise: bounds, no network, linear patterns, messages that help.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

fn raw(value: &Value) -> RawJson {
    RawJson::from_value(value)
}

fn hash(value: &Value) -> DefinitionHash {
    DefinitionHash(*blake3::hash(value.to_string().as_bytes()).as_bytes())
}

fn validate(schema: &Value, arguments: &Value) -> Result<(), ValidationFault> {
    Validators::default().validate(hash(schema), &raw(schema), &raw(arguments))
}

fn mismatches(pairs: &[(&str, &str)]) -> Result<(), ValidationFault> {
    Err(ValidationFault::Arguments(
        pairs
            .iter()
            .map(|(at, what)| ((*at).to_owned(), (*what).to_owned()))
            .collect(),
    ))
}

#[test]
fn t14_a_schema_is_checked_cheaply_when_it_is_listed() {
    let check = |schema: Value, fault: Option<&str>| {
        assert_eq!(
            super::check(&raw(&schema))
                .err()
                .map(|fault| fault.0)
                .as_deref(),
            fault,
            "{schema}"
        );
    };
    check(json!({}), None);
    check(json!({"type": "object"}), None);
    check(json!({"type": ["object", "null"]}), None);
    check(
        json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": true}}),
        None,
    );
    check(json!(true), Some("describes no object at its root"));
    check(json!([]), Some("describes no object at its root"));
    check(
        json!({"type": "string"}),
        Some("describes no object at its root"),
    );
    check(
        json!({"type": ["string"]}),
        Some("describes no object at its root"),
    );
    check(
        json!({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}),
        Some("refers to \"http://127.0.0.1:1/x\": only references inside the schema are followed"),
    );
    check(
        json!({"anyOf": [{"items": {"$dynamicRef": "other.json#x"}}]}),
        Some("refers to \"other.json#x\": only references inside the schema are followed"),
    );
    // A property may have any name, and data any shape.
    check(
        json!({"properties": {"$ref": {"type": "string"}}, "default": {"$ref": "http://x"}}),
        None,
    );
    let mut deep = json!({});
    for _ in 0..33 {
        deep = json!({"properties": {"a": deep}});
    }
    check(deep, Some("is nested deeper than 64"));
    check(
        json!({"properties": (0..2_000).map(|index| (index.to_string(), json!({}))).collect::<serde_json::Map<_, _>>()}),
        Some("has more than 2000 subschemas"),
    );
    check(
        json!({"description": "x".repeat(256 * 1024)}),
        Some("is larger than 256 KiB (257 KiB)"),
    );
    check(
        json!({"allOf": [{"$ref": "#"}]}),
        Some("refers to itself endlessly"),
    );
    check(
        json!({"$ref": "#/$defs/none"}),
        Some("refers to \"#/$defs/none\", which is not in it"),
    );
    check(
        json!({"$ref": "#none"}),
        Some("refers to \"none\", which is not in it"),
    );
    check(
        json!({"$ref": "#one", "$defs": {"a": {"$anchor": "one"}}}),
        None,
    );
    check(
        json!({"properties": []}),
        Some("has a \"properties\" that is not an object"),
    );
    check(
        json!({"properties": {"a": {"type": "strnig"}}}),
        Some("has an unknown type \"strnig\""),
    );
    check(
        json!({"properties": {"a": {"type": 7}}}),
        Some("has a \"type\" that is not a text or a list of texts"),
    );
    check(
        json!({"properties": {"a": "string"}}),
        Some("has a \"properties\" with a value that is not a schema"),
    );
    check(
        json!({"required": true}),
        Some("has a \"required\" that is not a list of texts"),
    );
    check(
        json!({"anyOf": {}}),
        Some("has a \"anyOf\" that is not a list"),
    );
    check(
        json!({"properties": {"properties": {"type": "array"}, "type": {}}}),
        None,
    );
}

#[test]
fn s2_42_arguments_are_checked_and_every_misfit_is_told() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"enum": ["x", "y"]}, "c": {"type": "object"}},
        "required": ["a"],
        "additionalProperties": false
    });
    assert_eq!(validate(&schema, &json!({"a": 1, "b": "x"})), Ok(()));
    assert_eq!(
        validate(&schema, &json!({})),
        mismatches(&[("", "\"a\" is a required property")])
    );
    assert_eq!(
        validate(&schema, &json!({"a": "secret", "b": "z", "\u{1b}": 0})),
        mismatches(&[
            ("/a", "value is not of type \"integer\""),
            ("/b", "value is not one of \"x\" or \"y\""),
            (
                "",
                "Additional properties are not allowed ('\\u{1b}' was unexpected)"
            ),
        ])
    );
    assert_eq!(
        validate(&schema, &json!([])),
        mismatches(&[("", "expected a JSON object")])
    );
    let none = Validators::default().validate(
        hash(&schema),
        &raw(&schema),
        &RawJson::parse("{\"a\":1e999}").unwrap(),
    );
    assert!(
        matches!(none, Err(ValidationFault::Arguments(_))),
        "{none:?}"
    );
}

#[test]
fn violations_are_reported_in_one_sentence() {
    assert_eq!(
        validate(
            &json!({"properties": {"a": {"type": "integer"}}, "required": ["b"]}),
            &json!({"a": "x"})
        )
        .unwrap_err()
        .to_string(),
        "the arguments do not fit the tool's input schema: \"b\" is a required property; /a: value is not of type \"integer\""
    );
}

#[test]
fn at_most_ten_schema_violations_are_reported() {
    let schema = json!({"additionalProperties": {"type": "integer"}});
    let arguments = (0..100)
        .map(|index| (format!("k{index}"), json!("x")))
        .collect::<serde_json::Map<_, _>>();
    let Err(ValidationFault::Arguments(reported)) = validate(&schema, &arguments.into()) else {
        panic!("it fits")
    };
    assert_eq!(reported.len(), 10);
}

#[test]
fn t14_a_pattern_that_the_engine_cannot_take_is_skipped_and_reported() {
    let schema = json!({
        "properties": {"a": {"pattern": "^(?=x)y$"}, "b": {"pattern": "^b+$"}, "pattern": {"type": "string"}},
        "patternProperties": {"^(a)\\1$": {"type": "integer"}, "^n": {"type": "integer"}},
        "additionalProperties": false
    });
    let validators = Validators::default();
    let check = |arguments: Value, expected| {
        assert_eq!(
            validators.validate(hash(&schema), &raw(&schema), &raw(&arguments)),
            expected,
            "{arguments}"
        );
    };
    check(
        json!({"a": "anything", "b": "bb", "pattern": "(", "other": 1}),
        Ok(()),
    );
    check(
        json!({"b": "c"}),
        mismatches(&[("/b", "value does not match \"^b+$\"")]),
    );
    check(
        json!({"n1": "c"}),
        mismatches(&[("/n1", "value is not of type \"integer\"")]),
    );
    check(
        json!({"pattern": 1}),
        mismatches(&[("/pattern", "value is not of type \"string\"")]),
    );
    assert_eq!(
        validators.warnings(hash(&schema), &raw(&schema)),
        [
            "the pattern \"^(a)\\1$\" is not checked",
            "the pattern \"^(?=x)y$\" is not checked"
        ]
    );
}

#[test]
fn t14_no_valid_arguments_are_refused_because_a_pattern_is_skipped() {
    let no_digit = json!({"pattern": "^(?!.*[0-9])"});
    let by_reference = json!({"$ref": "#/$defs/plain"});
    let check = |of_a: Value, a: Value| {
        let schema = json!({
            "type": "object", "properties": {"a": of_a},
            "$defs": {"plain": no_digit},
        });
        assert_eq!(validate(&schema, &json!({"a": a})), Ok(()), "{schema}");
    };
    for plain in [&no_digit, &by_reference] {
        check(json!({"not": plain}), json!("a1"));
        check(json!({"oneOf": [plain, {"maxLength": 3}]}), json!("a1"));
        check(
            json!({"oneOf": [plain, {"maxLength": 3}], "anyOf": [true]}),
            json!("a1"),
        );
        check(json!({"if": plain, "then": {"maxLength": 1}}), json!("a1"));
        check(
            json!({"contains": plain, "minContains": 0, "maxContains": 1}),
            json!(["a1", "a2"]),
        );
    }
    check(
        json!({
            "if": {"properties": {"k": no_digit}}, "else": {"properties": {"b": true, "k": true}},
            "unevaluatedProperties": false
        }),
        json!({"k": "1", "b": 1}),
    );
    // A reference through a relaxed keyword still leads somewhere.
    let schema = json!({"properties": {
        "a": {"oneOf": [no_digit, {"maxLength": 3}]}, "b": {"$ref": "#/properties/a/oneOf/1"},
    }});
    assert_eq!(validate(&schema, &json!({"b": "abc"})), Ok(()));
}

/// What any schema may take, in a debug build on a busy machine.
const QUICK: Duration = Duration::from_secs(2);

#[test]
fn t14_hostile_schemas_finish_quickly() {
    let check = |schema: Value, arguments: Value| {
        let started = Instant::now();
        let outcome = validate(&schema, &arguments);
        assert!(outcome.is_err(), "{outcome:?}");
        assert!(
            started.elapsed() < QUICK,
            "{:?} for {}",
            started.elapsed(),
            &schema.to_string()[..60]
        );
    };
    check(
        json!({"properties": {"a": {"pattern": "(a+)+$"}}}),
        json!({"a": format!("{}!", "a".repeat(50_000))}),
    );
    let mut nested = json!({"type": "string"});
    for _ in 0..15 {
        nested = json!({"anyOf": [nested.clone(), {"type": "integer"}, {"oneOf": [{"type": "null"}, {"const": 1}]}]});
    }
    check(json!({"properties": {"a": nested}}), json!({"a": {}}));
    // Thirty doublings in place: a billion checks if it were tried.
    let double = |index: usize, inner: fn(Value) -> Value| {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        (
            format!("d{index}"),
            json!({"anyOf": [inner(next.clone()), inner(next)]}),
        )
    };
    let bomb = |inner: fn(Value) -> Value| {
        let mut doublings: serde_json::Map<_, _> =
            (0..30).map(|index| double(index, inner)).collect();
        doublings.insert("d30".to_owned(), json!({"type": "string"}));
        json!({"allOf": [{"$ref": "#/$defs/d0"}], "$defs": doublings})
    };
    check(bomb(|next| next), json!({}));
    // The same, one step further inside the arguments each time.
    let mut nest = json!({"x": 1});
    for _ in 0..40 {
        nest = json!({"x": nest});
    }
    check(
        bomb(|next| json!({"properties": {"x": next}})),
        nest.clone(),
    );
    let recursive = json!({"anyOf": [{"properties": {"x": {"$ref": "#"}}, "required": ["y"]}, {"properties": {"x": {"$ref": "#"}}, "required": ["z"]}]});
    check(recursive, nest);
}

#[test]
fn recursion_that_is_honest_is_allowed_to_any_depth() {
    let schema = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "v": {"type": "integer"}}});
    let mut tree = json!({"v": 1});
    for _ in 0..100 {
        tree = json!({"left": tree, "right": {"v": 2}});
    }
    assert_eq!(validate(&schema, &tree), Ok(()));
}

#[test]
fn f5_deep_recursion_does_not_overflow_the_stack() {
    let check = |chain: usize, depth: usize, expected| {
        let mut definitions = serde_json::Map::new();
        for index in 0..chain {
            definitions.insert(
                format!("d{index}"),
                json!({"allOf": [{"$ref": format!("#/$defs/d{}", index + 1)}]}),
            );
        }
        definitions.insert(
            format!("d{chain}"),
            json!({"properties": {"x": {"$ref": "#/$defs/d0"}}}),
        );
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        let mut nest = json!({"x": 1});
        for _ in 1..depth {
            nest = json!({"x": nest});
        }
        assert_eq!(
            validate(&schema, &nest),
            expected,
            "a chain of {chain}, {depth} deep"
        );
    };
    // About as many checks in one another as are allowed, in the two ways to get there. A test has
    // 2 MiB of stack, as a worker.
    check(3, 120, Ok(()));
    check(150, 2, Ok(()));
    check(
        7,
        120,
        mismatches(&[(
            "",
            "nested deeper than 61, the most that this recursive schema allows to check",
        )]),
    );
    check(
        600,
        1,
        Err(ValidationFault::Schema(SchemaFault::new(
            "expands into too many checks",
        ))),
    );
}

#[test]
fn t14_nothing_is_fetched_and_strange_drafts_are_read_as_the_newest() {
    let schema = json!({"$schema": "http://127.0.0.1:1/meta", "properties": {"a": {"prefixItems": [{"type": "string"}]}}});
    assert_eq!(
        validate(&schema, &json!({"a": [1]})),
        mismatches(&[("/a/0", "value is not of type \"string\"")])
    );
    let draft7 = json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{"type": "string"}]}}});
    assert_eq!(
        validate(&draft7, &json!({"a": [1]})),
        mismatches(&[("/a/0", "value is not of type \"string\"")])
    );
}

#[test]
fn a_schema_that_cannot_be_compiled_says_why() {
    let check = |schema: Value, expected: &str| {
        let Err(ValidationFault::Schema(SchemaFault(fault))) = validate(&schema, &json!({})) else {
            panic!("{schema} compiles")
        };
        assert_eq!(fault, expected);
    };
    check(
        json!({"title": 7}),
        "is not a valid schema: /title: value is not of type \"string\"",
    );
    check(
        json!({"minProperties": -1}),
        "is not a valid schema: /minProperties: value is less than the minimum of 0",
    );
}

#[test]
fn p3_only_so_many_compiled_schemas_are_kept() {
    let validators = Validators::default();
    for index in 0..MAX_COMPILED + 10 {
        let schema = json!({"title": index.to_string()});
        validators
            .validate(hash(&schema), &raw(&schema), &raw(&json!({})))
            .unwrap();
    }
    let cache = validators.cache.read().unwrap();
    assert_eq!(
        (cache.compiled.len(), cache.order.len()),
        (MAX_COMPILED, MAX_COMPILED)
    );
    assert!(!cache.compiled.contains_key(&hash(&json!({"title": "0"}))));
    assert!(
        cache
            .compiled
            .contains_key(&hash(&json!({"title": (MAX_COMPILED + 9).to_string()})))
    );
}

/// Parsers differ in which of two equal keys they take: what was checked might not be what the
/// server reads.
#[test]
fn t34_arguments_with_a_key_that_stands_twice_are_refused() {
    let schema = RawJson::parse(r#"{"type":"object"}"#).unwrap();
    let validators = Validators::default();
    let check = |arguments: &str| {
        let arguments = RawJson::parse(arguments.to_owned()).unwrap();
        validators
            .validate(DefinitionHash([7; 32]), &schema, &arguments)
            .map_err(|schema_violation| schema_violation.to_string())
    };
    let refusal = "the arguments do not fit the tool's input schema: the key \"a\" occurs twice in one object";
    assert_eq!(check(r#"{"a":1,"b":{"a":2}}"#), Ok(()));
    assert_eq!(check(r#"{"a":1,"b":2,"a":3}"#), Err(refusal.to_owned()));
    assert_eq!(
        check(r#"{"c":[{"a":1,"\u0061":2}]}"#),
        Err(refusal.to_owned())
    );
}
