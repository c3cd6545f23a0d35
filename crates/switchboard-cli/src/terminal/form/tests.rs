//! The form as a person fills it in.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

const SIZE: Size = Size {
    columns: 70,
    rows: 40,
};

fn form(schema: Value) -> Form {
    Form::of(
        "demo".into(),
        "Please fill in".into(),
        read::fields(&RawJson::from_value(&schema)).unwrap(),
    )
}

fn of_one(property: Value, required: bool) -> Form {
    let names: &[&str] = if required { &["x"] } else { &[] };
    form(json!({ "type": "object", "properties": { "x": property }, "required": names }))
}

fn keys(text: &str) -> Vec<Key> {
    text.chars()
        .map(|character| match character {
            '\n' => Key::Enter,
            '\t' => Key::Tab,
            '→' => Key::Right,
            '←' => Key::Left,
            '⌫' => Key::Backspace,
            other => Key::Char(other),
        })
        .collect()
}

/// Types into a form, and returns its answer or its first error.
fn fill(mut form: Form, typed: &str) -> Result<Value, String> {
    for key in keys(typed) {
        match form.press(key, SIZE) {
            Some(ElicitAnswer::Accept(fields)) => return Ok(Value::Object(fields)),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
    Err(form
        .fields
        .iter()
        .find_map(|field| field.fault.clone())
        .unwrap_or_default())
}

#[test]
fn every_primitive_kind_is_filled_in_and_validated() {
    let check = |property: Value, required: bool, typed: &str, expected: Result<Value, &str>| {
        let found = fill(of_one(property.clone(), required), typed);
        assert_eq!(
            found,
            expected.map_err(str::to_owned),
            "{property} {typed:?}"
        );
    };
    let text = json!({ "type": "string", "minLength": 2, "maxLength": 4 });
    check(text.clone(), true, "abé\n\n", Ok(json!({ "x": "abé" })));
    check(
        text.clone(),
        true,
        "a\n\n",
        Err("expected at least 2 characters, found 1"),
    );
    check(
        text.clone(),
        true,
        "abcde\n\n",
        Err("expected at most 4 characters, found 5"),
    );
    check(text.clone(), true, "abcde⌫\n\n", Ok(json!({ "x": "abcd" })));
    check(text.clone(), true, "\n\n", Err("expected some text"));
    check(text, false, "\n\n", Ok(json!({})));
    let email = json!({ "type": "string", "format": "email", "default": "ada@example.com" });
    check(
        email.clone(),
        true,
        "\n\n",
        Ok(json!({ "x": "ada@example.com" })),
    );
    check(
        email,
        true,
        "@\n\n",
        Err("expected an e-mail address, such as ada@example.com"),
    );
    let integer = json!({ "type": "integer", "minimum": 1, "maximum": 10 });
    check(integer.clone(), true, "7\n\n", Ok(json!({ "x": 7 })));
    check(
        integer.clone(),
        true,
        "7.5\n\n",
        Err("expected a whole number, such as 42"),
    );
    check(integer.clone(), true, "0\n\n", Err("expected at least 1"));
    check(integer, true, "11\n\n", Err("expected at most 10"));
    check(
        json!({ "type": "number", "default": 1.5 }),
        false,
        "\n\n",
        Ok(json!({ "x": 1.5 })),
    );
    check(
        json!({ "type": "number" }),
        false,
        "x\n\n",
        Err("expected a number, such as 42"),
    );
    check(
        json!({ "type": "boolean" }),
        true,
        "\n\n",
        Err("expected yes or no"),
    );
    check(
        json!({ "type": "boolean" }),
        true,
        "n\n\n",
        Ok(json!({ "x": false })),
    );
    check(
        json!({ "type": "boolean", "default": true }),
        true,
        "\n\n",
        Ok(json!({ "x": true })),
    );
    let plain = json!({ "type": "string", "enum": ["red", "green"] });
    check(plain.clone(), true, "→→\n\n", Ok(json!({ "x": "green" })));
    check(plain.clone(), true, "g\n\n", Ok(json!({ "x": "green" })));
    check(plain.clone(), true, "\n\n", Err("expected one of these"));
    check(plain, false, "\n\n", Ok(json!({})));
    let legacy = json!({ "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "default": "g" });
    check(legacy, true, "\n\n", Ok(json!({ "x": "g" })));
    let titled = json!({ "type": "string", "oneOf": [{ "const": "r", "title": "Red" }, { "const": "g", "title": "Green" }] });
    check(titled, true, "←\n\n", Ok(json!({ "x": "g" })));
    let many = json!({
        "type": "array", "minItems": 1, "maxItems": 2, "default": ["b"],
        "items": { "anyOf": [{ "const": "a", "title": "A" }, { "const": "b", "title": "B" }, { "const": "c", "title": "C" }] }
    });
    check(many.clone(), true, "\n\n", Ok(json!({ "x": ["b"] })));
    check(many.clone(), true, " \n\n", Ok(json!({ "x": ["a", "b"] })));
    check(
        many.clone(),
        true,
        " →→ \n\n",
        Err("expected at most 2, found 3"),
    );
    check(many, true, "→ \n\n", Err("expected at least 1, found 0"));
}

#[test]
fn fields_keep_the_schemas_order_and_an_invalid_one_gets_the_cursor() {
    let schema = r#"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["a"]}"#;
    let fields = read::fields(&RawJson::parse(schema.as_bytes().to_vec()).unwrap()).unwrap();
    assert_eq!(
        fields
            .iter()
            .map(|field| field.name.as_str())
            .collect::<Vec<_>>(),
        ["z", "a"]
    );
    let mut form = Form::of("s".into(), String::new(), fields);
    keys("\n\n\n")
        .into_iter()
        .for_each(|key| assert_eq!(form.press(key, SIZE), None));
    assert_eq!(form.focus, 1);
}

#[test]
fn decline_and_cancel_are_told_apart() {
    let mut form = of_one(json!({ "type": "string" }), true);
    assert_eq!(
        form.press(Key::Ctrl('d'), SIZE),
        Some(ElicitAnswer::Decline)
    );
    assert_eq!(form.press(Key::Esc, SIZE), Some(ElicitAnswer::Cancel));
}

#[test]
fn a_form_without_fields_is_sent_with_one_key() {
    let mut form = form(json!({ "type": "object", "properties": {} }));
    assert_eq!(
        form.press(Key::Enter, SIZE),
        Some(ElicitAnswer::Accept(Map::new()))
    );
}

#[test]
fn an_unsupported_field_type_is_reported() {
    let schema = RawJson::from_value(
        &json!({ "type": "object", "properties": { "x": { "type": "object" } } }),
    );
    assert_eq!(
        read::fields(&schema),
        Err("field x has a type that forms do not support".to_owned())
    );
}

#[test]
fn t31_fields_that_look_secret_are_warned_about() {
    let check = |name: &str, title: &str, expected: bool| {
        let form = form(json!({ "properties": { name: { "type": "string", "title": title } } }));
        assert_eq!(form.fields[0].looks_secret(), expected, "{name} {title}");
    };
    check("api_key", "", true);
    check("x", "Your Password", true);
    check("access-token", "", true);
    check("pin", "", true);
    check("name", "Your name", false);
    check("opinion", "Shipping address", false);
}

#[test]
fn t31_server_text_is_behind_a_bar_and_the_banner_is_ours() {
    let schema = json!({ "properties": { "password": { "type": "string", "title": "Server \"bank\" asks\nx", "default": "a" } } });
    let mut form = form(schema);
    form.message = "Server \"bank\" asks\u{1b}[H".into();
    let page = form.page(70);
    let text: Vec<_> = page
        .head
        .iter()
        .chain(&page.body)
        .chain(&page.foot)
        .map(|line| line.text.as_str())
        .collect();
    let expected = [
        "Server \"demo\" asks",
        "Text behind a bar is the server's. You do not have to answer.",
        "│ Server \"bank\" asks\\u{1b}[H",
        "",
        "1 of 1 · text, optional",
        "│ Server \"bank\" asks",
        "│ x",
        "  This looks like a secret. A server should not ask for one here:",
        "    decline if in doubt.",
        "  > a▏",
        "",
        "  [ Send ]",
        "Tab ↑ ↓ move · ← → choose · space ticks",
        "[Enter] next, send   [Ctrl-D] decline: answer no",
        "[Esc] cancel: no answer",
    ];
    assert_eq!(text, expected);
}
