//! Tests of the projections of a result for a model and for a person.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn result(json: &str) -> CallResult {
    CallResult {
        raw: RawJson::parse(json.to_owned()).unwrap(),
        schema_violation: None,
    }
}

fn check(json: &str, model: &str, person: &str) {
    let result = result(json);
    assert_eq!(result.untrusted_text().unwrap().raw(), model);
    assert_eq!(result.for_person().unwrap().raw(), person);
}

#[test]
fn s2_44_s2_67_every_kind_has_a_text_for_the_model_and_one_for_a_person() {
    check(
        r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\nc"}]}"#,
        "a\nb\nc",
        "a\nb\nc",
    );
    check(
        r#"{"content":[{"type":"text","text":"{\"b\":1,\"a\":[]}"}]}"#,
        r#"{"b":1,"a":[]}"#,
        "```json\n{\n  \"b\": 1,\n  \"a\": []\n}\n```",
    );
    check(
        r#"{"content":[{"type":"text","text":"[not json"}]}"#,
        "[not json",
        "[not json",
    );
    let image = "[image image/png, 3 bytes]";
    check(
        r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#,
        image,
        image,
    );
    let audio = "[audio audio/wav, 12.3 KiB]";
    let data = "A".repeat(16_796);
    check(
        &format!(r#"{{"content":[{{"type":"audio","mimeType":"audio/wav","data":"{data}"}}]}}"#),
        audio,
        audio,
    );
    let link = "[resource file:///a (A)]";
    check(
        r#"{"content":[{"type":"resource_link","uri":"file:///a","name":"A"}]}"#,
        link,
        link,
    );
    check(
        r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"hello"}}]}"#,
        "[resource file:///a]\nhello",
        "[resource file:///a]\nhello",
    );
    let blob = "[resource file:///a image/png, 2 bytes]";
    check(
        r#"{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"image/png","blob":"AAA="}}]}"#,
        blob,
        blob,
    );
    check(
        r#"{"content":[{"type":"hologram","x":1}]}"#,
        r#"{"type":"hologram","x":1}"#,
        "```json\n{\n  \"type\": \"hologram\",\n  \"x\": 1\n}\n```",
    );
    check(
        r#"{"content":[{"type":"text","text":7}]}"#,
        r#"{"type":"text","text":7}"#,
        "```json\n{\n  \"type\": \"text\",\n  \"text\": 7\n}\n```",
    );
    check(r#"{"content":[]}"#, "", "");
    check("{}", "", "");
}

#[test]
fn s2_44_structured_content_is_shown_if_there_is_no_text() {
    check(
        r#"{"content":[],"structuredContent":{"b": 1.0, "a":2}}"#,
        r#"{"b": 1.0, "a":2}"#,
        "```json\n{\n  \"b\": 1.0,\n  \"a\": 2\n}\n```",
    );
    check(
        r#"{"content":[{"type":"text","text":"t"}],"structuredContent":{"a":1}}"#,
        "t",
        "t",
    );
}

#[test]
fn t11_a_model_gets_images_as_images_and_no_hidden_characters() {
    let result = result(
        r#"{"content":[{"type":"text","text":"a\u200bb"},{"type":"image","mimeType":"image/png","data":"AAAA"},
                {"type":"audio","mimeType":"audio/wav","data":"BBBB"},{"type":"image","data":"CCCC"},
                {"type":"resource","resource":{"uri":"file:///a","mimeType":"image/png","blob":"DDDD"}},
                {"type":"hologram","x":"\u202e"}]}"#,
    );
    let text = |text: &str| ModelContent::Text(text.to_owned());
    let image = |data: &str| ModelContent::Image {
        mime_type: "image/png".to_owned(),
        data: data.to_owned(),
    };
    assert_eq!(
        result.for_model(),
        [
            text("ab"),
            image("AAAA"),
            ModelContent::Audio {
                mime_type: "audio/wav".to_owned(),
                data: "BBBB".to_owned()
            },
            text("[image, 3 bytes]"),
            image("DDDD"),
            text(r#"{"type":"hologram","x":"\u202e"}"#),
        ]
    );
    assert!(
        result
            .text()
            .starts_with("ab\n[image image/png, 3 bytes]\n")
    );
    assert!(matches!(
        result.content().as_slice(),
        [
            Content::Text(_),
            Content::Image(_),
            Content::Audio(_),
            Content::Image(_),
            Content::Resource(_),
            Content::Unknown(_)
        ]
    ));
}

#[test]
fn an_error_result_is_a_result_and_only_true_means_error() {
    let check =
        |json: &str, expected: bool| assert_eq!(result(json).is_error(), expected, "{json}");
    check(r#"{"isError":true,"content":[]}"#, true);
    check(r#"{"isError":false}"#, false);
    check(r#"{"isError":"true"}"#, false);
    check("{}", false);
    check(
        &format!(
            r#"{{"x":{}{},"isError":true}}"#,
            "[".repeat(1_000),
            "]".repeat(1_000)
        ),
        true,
    );
}

#[test]
fn f5_a_result_nested_too_deep_is_an_error_of_its_projection() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for json in [
        format!(r#"{{"content":[{{"type":"x","y":{deep}}}]}}"#),
        format!(r#"{{"structuredContent":{deep}}}"#),
    ] {
        assert_eq!(
            result(&json).for_person().unwrap_err().to_string(),
            "nested deeper than 128"
        );
        assert_eq!(
            result(&json).untrusted_text().unwrap_err().to_string(),
            "nested deeper than 128"
        );
    }
}

#[test]
fn t26_a_text_beyond_the_limit_is_written_to_a_private_file() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("results/of today");
    let text = "héllo".repeat(10);
    let fitted = fit(Untrusted::new(text.clone()), 8, &folder).unwrap();
    let path = fitted.spilled.unwrap();
    assert_eq!(
        fitted.text.raw(),
        format!(
            "hélloh\n[cut here: 7 of 60 bytes; the whole is in {}]",
            path.display()
        )
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
}

#[test]
fn t26_both_ends_of_a_long_text_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let text = format!("{}é{}", "a".repeat(99), "z".repeat(99));
    let fitted = fit_ends(Untrusted::new(&*text), 199, scratch.path()).unwrap();
    let path = fitted.spilled.unwrap();
    let (head, tail) = ("a".repeat(99), "z".repeat(99));
    let file = path.display();
    assert_eq!(
        fitted.text.raw(),
        format!("{head}\n[… 2 of 200 bytes are left out here; the whole is in {file}]\n{tail}")
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let short = fit_ends(Untrusted::new("short"), 5, scratch.path()).unwrap();
    assert_eq!((short.text.raw(), short.spilled), ("short", None));
}

#[test]
fn a_cut_never_splits_a_character() {
    let scratch = tempfile::tempdir().unwrap();
    let fitted = fit(Untrusted::new("aé漢"), 2, scratch.path()).unwrap();
    assert!(
        fitted.text.raw().starts_with("a\n[cut here: 1 of 6 bytes;"),
        "{:?}",
        fitted.text
    );
    let whole = fit(Untrusted::new("aé漢"), 6, scratch.path()).unwrap();
    assert_eq!(
        whole,
        Projection {
            text: Untrusted::new("aé漢"),
            spilled: None
        }
    );
}
