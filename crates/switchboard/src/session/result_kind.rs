//! What a result is, by its `resultType`: complete, a task, or one that requires input.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::RequestFault;
use crate::untrusted::quoted;
use crate::wire::RawJson;
use crate::wire::bounded::{BoundedMap, TooMany};

/// The most inputs that a server may require at once.
pub(super) const MAX_REQUESTS: usize = 64;

/// The member that names a result's kind.
static RESULT_TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"resultType\""));

/// The start of an escape that a key may have in place of a letter.
static LETTER_ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u00"));

/// The kind of a modern result.
pub(super) enum ResultKind {
    Complete,
    /// The result comes later.
    Task,
    InputRequired {
        requests: Vec<(String, RawJson)>,
        state: Option<RawJson>,
    },
}

impl ResultKind {
    pub(super) fn read(result: &RawJson) -> Result<Self, RequestFault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ResultFields<'a> {
            #[serde(borrow, default)]
            result_type: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            input_requests: Option<BoundedMap<'a, MAX_REQUESTS>>,
            #[serde(borrow, default)]
            request_state: Option<&'a RawValue>,
        }
        if is_plainly_complete(result) {
            return Ok(Self::Complete);
        }
        let read: ResultFields<'_> = result
            .decode()
            .map_err(|fault| RequestFault::Invalid(fault.to_string()))?;
        match read.result_type.as_deref() {
            None | Some("complete") => Ok(Self::Complete),
            Some("task") => Ok(Self::Task),
            Some("input_required")
                if read.input_requests.is_none() && read.request_state.is_none() =>
            {
                Err(RequestFault::Invalid(
                    "it requires input without inputRequests or requestState".into(),
                ))
            }
            Some("input_required") => Ok(Self::InputRequired {
                requests: input_requests(result, read.input_requests)?,
                state: read.request_state.map(|state| result.part(state)),
            }),
            Some(other) => Err(RequestFault::Invalid(format!(
                "resultType {} is not known",
                quoted(other)
            ))),
        }
    }
}

/// Whether the result contains no `resultType` other than `complete`. Most results do not, and some are
/// large: the others alone are parsed.
#[inline]
pub(super) fn is_plainly_complete(result: &RawJson) -> bool {
    let bytes = result.as_bytes();
    // The key has a `T`, or a backslash in an escape in its place: most short results have neither.
    memchr2(b'T', b'\\', bytes).is_none() || has_no_other_type(bytes)
}

/// The search for the key itself.
#[inline(never)]
fn has_no_other_type(bytes: &[u8]) -> bool {
    let is_complete = |at: usize| {
        let value = bytes[at + RESULT_TYPE.needle().len()..]
            .trim_ascii_start()
            .strip_prefix(b":");
        value.is_some_and(|value| value.trim_ascii_start().starts_with(b"\"complete\""))
    };
    let may_escape_letters =
        || memchr(b'\\', bytes).is_some_and(|first| LETTER_ESCAPE.find(&bytes[first..]).is_some());
    RESULT_TYPE.find_iter(bytes).all(is_complete) && !may_escape_letters()
}

/// Refuses a modern result that is not complete where no other kind is possible.
pub(super) fn check_complete(result: &RawJson) -> Result<(), RequestFault> {
    let kind = match ResultKind::read(result)? {
        ResultKind::Complete => return Ok(()),
        ResultKind::Task => "a task",
        ResultKind::InputRequired { .. } => "input is required",
    };
    Err(RequestFault::Invalid(format!("{kind} instead of a result")))
}

/// The inputs that a result or a task requires, by key.
pub(super) fn input_requests(
    whole: &RawJson,
    requests: Option<BoundedMap<'_, MAX_REQUESTS>>,
) -> Result<Vec<(String, RawJson)>, RequestFault> {
    let Some(requests) = requests else {
        return Ok(Vec::new());
    };
    let members = requests.members().map_err(|TooMany(count)| {
        let fact = format!("it requires {count} inputs at once; the limit is {MAX_REQUESTS}");
        RequestFault::Invalid(fact)
    })?;
    let part = |(key, raw): (String, &RawValue)| (key, whole.part(raw));
    Ok(members.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_a_top_level_result_type_decides_the_kind_of_a_result() {
        let read = |text: &str| match ResultKind::read(&RawJson::parse(text.to_owned()).unwrap()) {
            Ok(ResultKind::Complete) => "complete",
            Ok(ResultKind::Task) => "task",
            Ok(ResultKind::InputRequired { .. }) => "input",
            Err(_) => "wrong",
        };
        for (text, expected) in [
            (r#"{}"#, "complete"),
            (r#"{"content":[],"resultType":"complete"}"#, "complete"),
            ("{\"resultType\"\n:\t\"complete\" }", "complete"),
            (r#"{"resultType":"task"}"#, "task"),
            (
                r#"{"structuredContent":{"resultType":"complete"},"resultType":"task"}"#,
                "task",
            ),
            (
                r#"{"structuredContent":{"resultType":"task"},"resultType":"complete"}"#,
                "complete",
            ),
            (r#"{"structuredContent":{"resultType":"task"}}"#, "complete"),
            (
                r#"{"text":"\"resultType\":\"task\"","resultType":"complete"}"#,
                "complete",
            ),
            (
                r#"{"resultType":"input_required","requestState":"s"}"#,
                "input",
            ),
            (r#"{"resultType":"input_required"}"#, "wrong"),
            (
                r#"{"result\u0054ype":"input_required","requestState":"s"}"#,
                "input",
            ),
            (
                r#"{"resultType":"complete","result\u0054ype":"task"}"#,
                "wrong",
            ),
            (
                r#"{"text":"\n\u001b[1m","resultType":"complete"}"#,
                "complete",
            ),
            (r#"{"resultType":"completed"}"#, "wrong"),
            (r#"{"resultType":7}"#, "wrong"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
