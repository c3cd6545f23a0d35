//! Which task a legacy message belongs to: an entry of its `_meta`.

use serde_json::json;
use switchboard::RawJson;

use crate::params::RELATED_TASK;
use crate::reply;

/// An object with the task in `_meta`; the rest is unchanged.
pub(crate) fn related(object: &[u8], task: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(object);
    let Ok(object) = text.parse::<RawJson>() else {
        return object.to_vec();
    };
    let mut fields = object.members().unwrap_or_default();
    let known = fields.iter().position(|(key, _)| key == "_meta");
    let meta = known.map(|index| fields.remove(index).1);
    let meta = meta.and_then(|meta| meta.members()).unwrap_or_default();
    let related = RawJson::from(json!({ "taskId": task }));
    let meta = meta
        .iter()
        .filter(|(key, _)| key != RELATED_TASK)
        .map(|(key, value)| (&**key, &value.as_bytes()[..]));
    let meta = reply::object(meta.chain([(RELATED_TASK, &related.as_bytes()[..])]));
    let fields = fields
        .iter()
        .map(|(key, value)| (&**key, &value.as_bytes()[..]));
    reply::object(fields.chain([("_meta", &meta[..])]))
}

/// An object without the task in `_meta`; the rest is unchanged.
pub(crate) fn unrelated(object: RawJson) -> RawJson {
    let mut fields = object.members().unwrap_or_default();
    let Some(place) = fields.iter().position(|(key, _)| key == "_meta") else {
        return object;
    };
    let Some(mut meta) = fields[place].1.members() else {
        return object;
    };
    let given = meta.len();
    meta.retain(|(key, _)| key != RELATED_TASK);
    if meta.len() == given {
        return object;
    }
    if meta.is_empty() {
        fields.remove(place);
    } else {
        fields[place].1 = RawJson::from_members(&meta);
    }
    RawJson::from_members(&fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_result_names_its_task_and_stays_as_it_is_otherwise() {
        let check = |result: &str, expected: &str| {
            let written = related(result.as_bytes(), "t1");
            assert_eq!(String::from_utf8_lossy(&written), expected);
        };
        let own = r#""io.modelcontextprotocol/related-task":{"taskId":"t1"}"#;
        check(
            r#"{"content":[ 1.00 ]}"#,
            &format!(r#"{{"content":[ 1.00 ],"_meta":{{{own}}}}}"#),
        );
        check(
            r#"{"_meta":{"a": 1},"x":2}"#,
            &format!(r#"{{"x":2,"_meta":{{"a":1,{own}}}}}"#),
        );
    }
    #[test]
    fn an_answer_without_its_task_stays_as_it_is_otherwise() {
        let check = |answer: &str, expected: &str| {
            let written = unrelated(answer.parse().unwrap());
            assert_eq!(written.as_str(), expected);
        };
        let own = r#""io.modelcontextprotocol/related-task":{"taskId":"t1"}"#;
        check(r#"{"x": 1.00}"#, r#"{"x": 1.00}"#);
        check(
            r#"{"_meta":{"a": 1},"x":2 }"#,
            r#"{"_meta":{"a": 1},"x":2 }"#,
        );
        check(
            &format!(r#"{{"_meta":{{"a":1.0,{own}}},"x":2.0}}"#),
            r#"{"_meta":{"a":1.0},"x":2.0}"#,
        );
        check(&format!(r#"{{"x":2,"_meta":{{{own}}}}}"#), r#"{"x":2}"#);
    }
}
