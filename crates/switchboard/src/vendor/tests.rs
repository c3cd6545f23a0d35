//! Tests of each vendor's rules with schemas as servers write them, and of mapping a model's call
//! back.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::catalog::tests::{server, tool};
use crate::catalog::{Catalog, CatalogSource, Offerings, ToolDefinition};
use crate::config::{Dialect, Fingerprint, ServerConfig};
use crate::name::Style;

mod corpus;

fn of(dialect: Dialect, name: &str, description: &str, schema: Value) -> Arc<Tool> {
    let raw = json!({"name": name, "description": description, "inputSchema": schema});
    let definition = ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap();
    Arc::new(tool(
        ServerConfig {
            dialect,
            ..server("s")
        },
        Arc::new(definition),
    ))
}

/// One tool with this schema as a vendor's API gets it.
fn adapted(vendor: Vendor, schema: Value) -> Value {
    let set = Toolset::new(vendor, [&of(Dialect::Native, "t", "d", schema)]);
    assert!(set.withheld().is_empty(), "{:?}", set.withheld());
    let array: Value = serde_json::from_str(&set.to_json()).unwrap();
    if vendor == Vendor::Gemini {
        array[0]["functionDeclarations"][0].clone()
    } else {
        array[0].clone()
    }
}

/// The schema that a model is shown of a gemini server's tool.
fn shown(schema: Value) -> Value {
    of(Dialect::Gemini, "t", "d", schema)
        .shown_schema()
        .to_value()
        .unwrap()
}

#[test]
fn s2_30_schema_is_removed() {
    assert_eq!(
        shown(json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})),
        json!({"type": "object"})
    );
}

#[test]
fn s2_31_additional_properties_are_always_removed() {
    for further in [json!(false), json!(true), json!({"type": "string"})] {
        assert_eq!(
            shown(json!({"type": "object", "additionalProperties": further})),
            json!({"type": "object"})
        );
    }
}

#[test]
fn s2_32_a_default_is_removed_only_next_to_anyof() {
    let choice = json!([{"type": "string", "default": "kept"}, {"type": "null"}]);
    assert_eq!(
        shown(json!({"type": "object", "properties": {
            "with": {"anyOf": choice, "default": null},
            "without": {"type": "string", "default": "x"},
        }})),
        json!({"type": "object", "properties": {"with": {"anyOf": choice}, "without": {"type": "string", "default": "x"}}})
    );
}

#[test]
fn s2_33_nested_schemas_are_cleaned_and_properties_of_those_names_survive() {
    let bad = json!({"$schema": "x", "additionalProperties": false, "type": "object", "anyOf": [], "default": 1});
    let clean = json!({"type": "object", "anyOf": []});
    let wrapped = |inner: &Value| {
        json!({
            "type": "object",
            "properties": {
                "default": {"type": "string", "default": "a default"},
                "$schema": {"type": "string"},
                "additionalProperties": inner,
                "anyOf": {"type": "string"},
                "list": {"type": "array", "items": inner},
                "pair": {"type": "array", "prefixItems": [inner], "items": false},
                "choice": {"anyOf": [inner], "oneOf": [inner], "allOf": [inner]},
                "deep": {"type": "object", "properties": {"properties": {"type": "object", "properties": {"default": inner}}}},
            },
            "required": ["default", "$schema", "additionalProperties"],
            "$defs": {"default": inner},
            "definitions": {"default": inner},
            "patternProperties": {"^default": inner},
            "dependencies": {"default": inner, "list": ["pair"]},
            "dependentSchemas": {"default": inner},
            "if": inner,
            "then": inner,
            "else": inner,
            "not": inner,
            "enum": [{"$schema": "data", "default": 1, "anyOf": 2}],
        })
    };
    assert_eq!(shown(wrapped(&bad)), wrapped(&clean));
}

/// S2-43: arguments are validated against the original schema, and the original name is sent.
#[test]
fn s2_43_the_original_schema_and_name_are_kept() {
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}});
    let tool = of(Dialect::Gemini, "t", "d", schema.clone());
    assert_eq!(
        tool.shown_schema().to_value().unwrap(),
        json!({"type": "object", "properties": {"a": {"type": "string"}}})
    );
    let definition = tool.shown_definition().to_value().unwrap();
    assert_eq!(
        (&definition["inputSchema"], &definition["name"]),
        (&tool.shown_schema().to_value().unwrap(), &json!("t"))
    );
    assert_eq!(tool.definition.input_schema.to_value().unwrap(), schema);
    let schema_violation = crate::schema::Validators::default();
    let stray = RawJson::from_value(&json!({"b": 1}));
    assert!(
        schema_violation
            .validate(tool.definition.hash, &tool.definition.input_schema, &stray)
            .is_err()
    );
}

#[test]
fn schemas_of_other_dialects_are_shown_unchanged() {
    let schema = json!({"$schema": "x", "type": "object", "additionalProperties": false});
    assert_eq!(
        of(Dialect::AgentCode, "t", "d", schema.clone())
            .shown_schema()
            .to_value()
            .unwrap(),
        schema
    );
}

#[test]
fn unsupported_keywords_are_described_to_gemini() {
    let check = |property: Value, expected: Value| {
        let schema = json!({"type": "object", "properties": {"p": property}, "$defs": {"x": {"type": "string"}}});
        assert_eq!(
            adapted(Vendor::Gemini, schema)["parametersJsonSchema"]["properties"]["p"],
            expected
        );
    };
    check(
        json!({"const": "a"}),
        json!({"enum": ["a"], "type": "string"}),
    );
    check(
        json!({"type": "integer", "enum": [1, 2]}),
        json!({"type": "integer", "description": "one of 1, 2"}),
    );
    check(
        json!({"const": 7, "description": "d"}),
        json!({"description": "d (always 7)"}),
    );
    check(
        json!({"type": "string", "format": "uri"}),
        json!({"type": "string", "description": "format: uri"}),
    );
    check(
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "format": "date-time"}),
    );
    check(
        json!({"type": "number", "exclusiveMinimum": 0}),
        json!({"type": "number", "description": "more than 0"}),
    );
    check(
        json!({"type": "array"}),
        json!({"type": "array", "items": {"type": "string"}}),
    );
    check(
        json!({"type": "object", "title": "T", "properties": {"title": {"type": "string", "title": "x"}}, "required": ["title", "gone"]}),
        json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}),
    );
    check(
        json!({"if": {}, "then": {}, "else": {}, "not": {}, "type": "string"}),
        json!({"type": "string"}),
    );
    let schema = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}});
    let property = &adapted(Vendor::Gemini, schema)["parametersJsonSchema"]["properties"]["p"];
    assert_eq!(*property, json!({"$ref": "#/$defs/x"}));
}

#[test]
fn a_gemini_function_without_parameters_has_no_schema_and_no_function_is_an_empty_array() {
    let adapted = adapted(
        Vendor::Gemini,
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
    );
    assert_eq!(adapted, json!({"name": "mcp__s__t", "description": "d"}));
    assert_eq!(Toolset::new(Vendor::Gemini, []).to_json(), "[]");
}

/// As generators write references to generic types.
#[test]
fn an_encoded_reference_finds_its_definition_for_every_vendor() {
    let schema = json!({
        "type": "object",
        "properties": {"p": {"$ref": "#/definitions/Foo%3CBar~1Baz%3E"}},
        "allOf": [{"$ref": "#/definitions/More%20of~0it"}],
        "definitions": {
            "Foo<Bar/Baz>": {"type": "string", "enum": ["x"]},
            "More of~it": {"type": "object", "properties": {"q": {"type": "null"}}},
        },
    });
    let openai = adapted(Vendor::OpenAi, schema.clone());
    let parameters = &openai["parameters"];
    assert_eq!(
        parameters["definitions"]["Foo<Bar/Baz>"]["enum"],
        json!(["x"]),
        "{openai}"
    );
    assert_eq!(parameters["properties"]["q"]["type"], "null", "{openai}");
    let local = adapted(Vendor::Local, schema);
    let property = &local["function"]["parameters"]["properties"]["p"];
    assert_eq!(property["enum"], json!(["x"]), "{local}");
}

#[test]
fn openai_schemas_have_types_properties_items_and_no_unused_definitions() {
    let schema = json!({
        "properties": {
            "any": true,
            "one": {"const": 3},
            "list": {"prefixItems": [{"type": "string"}]},
            "bare": {"type": "array"},
            "thing": {"type": "object"},
            "low": {"minimum": 1},
            "free": {},
            "ref": {"$ref": "#/$defs/used"},
        },
        "$defs": {"used": {"$ref": "#/$defs/inner"}, "inner": {"type": "string"}, "unused": {"type": "string"}},
    });
    assert_eq!(
        adapted(Vendor::OpenAi, schema),
        json!({"type": "function", "name": "mcp__s__t", "description": "d", "strict": false, "parameters": {
            "type": "object",
            "properties": {
                "any": {"type": "string"},
                "one": {"enum": [3], "type": "number"},
                "list": {"prefixItems": [{"type": "string"}], "type": "array", "items": {"type": "string"}},
                "bare": {"type": "array", "items": {"type": "string"}},
                "thing": {"type": "object", "properties": {}},
                "low": {"minimum": 1, "type": "number"},
                "free": {},
                "ref": {"$ref": "#/$defs/used"},
            },
            "$defs": {"used": {"$ref": "#/$defs/inner"}, "inner": {"type": "string"}},
        }})
    );
}

#[test]
fn alternatives_at_the_root_become_arguments_and_a_description() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "string"}}, "required": ["b"]}],
        "allOf": [{"$ref": "#/$defs/more"}],
        "$defs": {"more": {"properties": {"c": {"type": "string"}}, "required": ["c"]}},
    });
    let text = json!({"type": "string"});
    for vendor in [Vendor::OpenAi, Vendor::Anthropic] {
        let adapted = adapted(vendor, schema.clone());
        let taken = if vendor == Vendor::OpenAi {
            &adapted["parameters"]
        } else {
            &adapted["input_schema"]
        };
        assert_eq!(
            taken["properties"],
            json!({"a": text, "b": text, "c": text}),
            "{vendor:?}"
        );
        assert_eq!(taken["required"], json!(["c"]));
        assert_eq!((taken.get("anyOf"), taken.get("allOf")), (None, None));
        assert_eq!(
            adapted["description"],
            "d\nNeeds one of these sets of arguments: a; or b"
        );
    }
}

#[test]
fn argument_names_are_adapted_for_anthropic_and_mapped_back() {
    let schema = json!({"type": "object", "properties": {
        "a b": {"type": "string"}, "a_b": {"type": "string"}, "größe": {"type": "integer"}, "fine.x-1": {"type": "string"},
    }, "required": ["a b", "a_b"]});
    let tool = of(Dialect::Native, "t", "", schema);
    let set = Toolset::new(Vendor::Anthropic, [&tool]);
    let array: Value = serde_json::from_str(&set.to_json()).unwrap();
    assert_eq!(
        array,
        json!([{"name": "mcp__s__t", "input_schema": {"type": "object", "properties": {
            "a_b_2": {"type": "string"}, "a_b": {"type": "string"}, "gr__e": {"type": "integer"}, "fine.x-1": {"type": "string"},
        }, "required": ["a_b_2", "a_b"]}}])
    );
    let given =
        RawJson::parse(r#"{"a_b_2":"1","a_b":"2","gr__e":12345678901234567890,"other":1.00}"#)
            .unwrap();
    let (name, arguments) = set.to_server_call("mcp__s__t", &given).unwrap().unwrap();
    assert_eq!(name, "mcp__s__t");
    assert_eq!(
        arguments.as_str(),
        r#"{"a b":"1","a_b":"2","größe":12345678901234567890,"other":1.00}"#
    );
    assert!(set.to_server_call("unknown", &given).is_none());
}

#[test]
fn a_tool_name_that_a_vendor_refuses_is_adapted_and_mapped_back() {
    let long = "x".repeat(100);
    let definitions = ["1st.tool", "1st_tool", "ok", &long].map(|name| {
        let raw = json!({"name": name, "inputSchema": {"type": "object"}});
        Arc::new(ToolDefinition::parse(&RawJson::from_value(&raw)).unwrap())
    });
    let offerings = Arc::new(Offerings {
        tools: definitions.to_vec(),
        ..Offerings::default()
    });
    let part = CatalogSource {
        config: Arc::new(server("s")),
        launch: Fingerprint([0; 32]),
        offerings,
        settled: true,
    };
    let catalog = Catalog::build(&Catalog::default(), Style::Identity, &[], &[part]);
    for vendor in Vendor::ALL {
        let set = Toolset::new(vendor, catalog.tools());
        assert_eq!(set.tools().len(), 4, "{vendor:?}");
        let distinct: HashSet<_> = set.tools().iter().map(|tool| &tool.name).collect();
        assert_eq!(distinct.len(), 4, "{vendor:?}");
        for adapted in set.tools() {
            assert!(
                vendor.accepts_name(&adapted.name),
                "{vendor:?}: {}",
                adapted.name
            );
            let (exposed, _) = set
                .to_server_call(&adapted.name, &RawJson::from_value(&json!({})))
                .unwrap()
                .unwrap();
            assert_eq!(exposed, adapted.tool.exposed.as_str());
        }
        assert!(
            set.to_server_call("ok", &RawJson::from_value(&json!({})))
                .is_some()
        );
    }
}

#[test]
fn arguments_keep_the_servers_order() {
    let raw = r#"{"name":"t","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}},"$schema":"x"}}"#;
    let definition = ToolDefinition::parse(&RawJson::parse(raw).unwrap()).unwrap();
    let tool = Arc::new(tool(server("s"), Arc::new(definition)));
    assert_eq!(
        Toolset::new(Vendor::Anthropic, [&tool]).to_json(),
        r#"[{"name":"mcp__s__t","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}},"$schema":"x"}}]"#
    );
}

/// Such a server refuses a request with a look-ahead, a large limit or a reference.
#[test]
fn a_local_server_gets_only_keywords_that_become_a_grammar() {
    let schema = json!({
        "$schema": "x", "type": "object", "required": ["pattern"], "anyOf": [{"required": ["list"]}],
        "properties": {
            "pattern": {"type": "string", "pattern": "^(?=a)", "maxLength": 9_999_999},
            "list": {"type": "array", "items": {"$ref": "#/$defs/one"}, "minItems": 1},
            "tree": {"$ref": "#/$defs/node"},
            "a/b": {"const": 1}, "pair": {"items": [{"type": "string"}]},
        },
        "$defs": {
            "one": {"type": "integer", "minimum": 3, "description": "d"},
            "node": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"},
            }},
        },
    });
    let expected = json!({"type": "function", "function": {
        "name": "mcp__s__t", "description": "d\nNeeds one of these sets of arguments: list",
        "parameters": {"type": "object", "required": ["pattern"], "properties": {
            "pattern": {"type": "string"},
            "list": {"type": "array", "items": {"type": "integer", "description": "d"}},
            "tree": {"type": "object", "properties": {"left": {}, "right": {}}},
            "a/b": {"enum": [1]}, "pair": {"items": {}},
        }},
    }});
    assert_eq!(adapted(Vendor::Local, schema.clone()), expected);
    let chat = adapted(Vendor::OpenAiChat, schema.clone());
    assert_eq!(
        chat["function"]["parameters"],
        adapted(Vendor::OpenAi, schema)["parameters"]
    );
    assert_eq!(
        (&chat["type"], &chat["function"]["name"]),
        (&json!("function"), &json!("mcp__s__t"))
    );

    // References that multiply at each level would become an endless schema.
    let mut definitions = serde_json::Map::new();
    definitions.insert("d14".to_owned(), json!({"type": "string"}));
    for level in 0..14 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(
            format!("d{level}"),
            json!({"properties": {"a": next, "b": next, "c": next, "d": next}}),
        );
    }
    let bomb = json!({"type": "object", "properties": {"x/y": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    let set = Toolset::new(Vendor::Local, [&of(Dialect::Native, "t", "d", bomb)]);
    let reason = &set.withheld()[0].reason;
    assert!(
        reason.starts_with("/inputSchema/properties/x~1y/"),
        "{reason}"
    );
}
