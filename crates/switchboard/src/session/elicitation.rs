//! Elicitation, in either era: parses the server's request, asks the caller, and encodes the
//! answer.

use serde::Deserialize;
use serde_json::{Value, json};

use super::in_flight::InFlightCall;
use crate::caller::{ElicitAnswer, Elicitation, ElicitationKind, result_action};
use crate::name::ToolId;
use crate::untrusted::Untrusted;
use crate::wire::{RawJson, for_each_member, member_of};

/// The most defaults of a form that are used: no person fills in a longer one.
const MAX_DEFAULTS: usize = 1024;

impl InFlightCall {
    /// Asks the caller. Fields that the answer omits get the schema's defaults (SEP-1034).
    pub(super) async fn elicit(
        &self,
        kind: ElicitationKind,
        params: RawJson,
        tool: Option<ToolId>,
    ) -> ElicitAnswer {
        let question = Elicitation {
            server: self.server().clone(),
            tool,
            kind,
            params,
        };
        let answer = self.answer(self.caller().elicit(&question)).await;
        let answer = answer.unwrap_or_else(|reason| {
            let server = self.server();
            self.caller().notice(&format!(
                "a question of server \"{server}\" was cancelled: {reason}"
            ));
            ElicitAnswer::Cancel
        });
        match (answer, &question.kind) {
            (ElicitAnswer::Accept(mut fields), ElicitationKind::Form { schema, .. }) => {
                for (name, default) in defaults(schema) {
                    let value = default.to_value().unwrap_or_default();
                    fields.entry(name).or_insert(value);
                }
                ElicitAnswer::Accept(fields)
            }
            (ElicitAnswer::Result(result), ElicitationKind::Form { schema, .. }) => {
                ElicitAnswer::Result(with_defaults(result, schema))
            }
            (ElicitAnswer::Result(result), ElicitationKind::Url { .. }) => {
                ElicitAnswer::Result(without_content(result))
            }
            (answer, _) => answer,
        }
    }
}

/// The defaults in a form's schema, by field.
fn defaults(schema: &RawJson) -> Vec<(String, RawJson)> {
    let mut defaults = Vec::new();
    let properties = schema.member("properties").unwrap_or_default();
    for_each_member(properties, |name, property| {
        if defaults.len() < MAX_DEFAULTS
            && let Some(default) = member_of(property, "default")
        {
            defaults.push((name.to_owned(), RawJson::share(schema.as_bytes(), default)));
        }
    });
    defaults
}

/// The result with the defaults of the fields that it omits; the rest stays byte for byte.
fn with_defaults(result: RawJson, schema: &RawJson) -> RawJson {
    if result_action(&result).as_deref() != Some("accept") {
        return result;
    }
    let mut members = result.members().unwrap_or_default();
    let place = members.iter().position(|(key, _)| key == "content");
    let content = place.map(|place| members[place].1.clone());
    let Some(mut fields) = content.map_or(Some(Vec::new()), |content| content.members()) else {
        return result;
    };
    let given = fields.len();
    for (name, default) in defaults(schema) {
        if !fields.iter().any(|(key, _)| *key == name) {
            fields.push((name.into(), default));
        }
    }
    if fields.len() == given {
        return result;
    }
    let content = RawJson::from_members(&fields);
    match place {
        Some(place) => members[place].1 = content,
        None => members.push(("content".into(), content)),
    }
    RawJson::from_members(&members)
}

/// The result of a page's visit. It has no content: what a person enters on the page does not pass
/// through the host.
fn without_content(result: RawJson) -> RawJson {
    let mut members = result.members().unwrap_or_default();
    let given = members.len();
    members.retain(|(key, _)| key != "content");
    match members.len() == given {
        true => result,
        false => RawJson::from_members(&members),
    }
}

/// Parses the params of `elicitation/create`, in any revision. The error is for the server.
pub(super) fn read_elicitation(params: &RawJson) -> Result<ElicitationKind, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ElicitParams<'a> {
        #[serde(default)]
        mode: Option<String>,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        requested_schema: Option<&'a serde_json::value::RawValue>,
        #[serde(default)]
        url: Option<String>,
        #[serde(default)]
        elicitation_id: Option<String>,
    }
    let read: ElicitParams<'_> = params
        .decode()
        .map_err(|fault| format!("elicitation/create: {fault}"))?;
    let message = Untrusted::new(read.message);
    match (read.mode.as_deref(), read.requested_schema, read.url) {
        (None | Some("form"), Some(schema), _) => Ok(ElicitationKind::Form {
            message,
            schema: params.part(schema),
        }),
        (Some("url"), _, Some(url)) => Ok(ElicitationKind::Url {
            message,
            url: url.into(),
            id: read.elicitation_id,
        }),
        (None | Some("form"), None, _) => {
            Err("elicitation/create: requestedSchema is missing".into())
        }
        (Some("url"), _, None) => Err("elicitation/create: url is missing".into()),
        (Some(_), _, _) => Err("elicitation/create: mode is neither form nor url".into()),
    }
}

/// The response to `elicitation/create`: its result, or an error object. In URL mode the result has no
/// content.
pub(super) fn elicit_response(answer: ElicitAnswer, is_form: bool) -> Result<RawJson, RawJson> {
    let result = match answer {
        ElicitAnswer::Accept(content) if is_form => json!({"action": "accept", "content": content}),
        ElicitAnswer::Accept(_) => action_result("accept"),
        ElicitAnswer::Decline => action_result("decline"),
        ElicitAnswer::Cancel => action_result("cancel"),
        ElicitAnswer::Result(result) => return Ok(result),
        ElicitAnswer::Error(error) => return Err(error),
    };
    Ok(RawJson::from(result))
}

/// A result of `elicitation/create` without content.
pub(super) fn action_result(action: &str) -> Value {
    json!({ "action": action })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A program's result reaches the server as it came; only omitted fields are added (SEP-1034).
    #[test]
    fn a_programs_result_is_unchanged_except_for_omitted_defaults() {
        let schema = r#"{"properties":{"a":{"default":1.50},"b":{},"c":{"default":null}}}"#;
        let schema: RawJson = schema.parse().unwrap();
        for (result, expected) in [
            (
                r#"{ "action":"decline" , "x":1.0}"#,
                r#"{ "action":"decline" , "x":1.0}"#,
            ),
            (
                r#"{ "action":"accept","content":{"c":2.00, "a":0} }"#,
                r#"{ "action":"accept","content":{"c":2.00, "a":0} }"#,
            ),
            (
                r#"{"_meta":{"k": 1},"action":"accept","content":{"b": 2.00},"x":1e400}"#,
                r#"{"_meta":{"k": 1},"action":"accept","content":{"b":2.00,"a":1.50,"c":null},"x":1e400}"#,
            ),
            (
                r#"{"action":"accept"}"#,
                r#"{"action":"accept","content":{"a":1.50,"c":null}}"#,
            ),
            (
                r#"{"action":"accept","content":7}"#,
                r#"{"action":"accept","content":7}"#,
            ),
        ] {
            let result = result.parse().unwrap();
            assert_eq!(with_defaults(result, &schema).as_str(), expected);
        }
    }

    #[test]
    fn p3_defaults_beyond_the_limit_are_not_read() {
        let count = |fields: usize| {
            let fields = vec![r#""a":{"default":0}"#; fields].join(",");
            defaults(&format!(r#"{{"properties":{{{fields}}}}}"#).parse().unwrap()).len()
        };
        assert_eq!(count(3), 3);
        assert_eq!(count(MAX_DEFAULTS + 1), MAX_DEFAULTS);
    }

    #[test]
    fn the_result_of_a_pages_visit_has_no_content() {
        let check = |result: &str, expected: &str| {
            assert_eq!(without_content(result.parse().unwrap()).as_str(), expected);
        };
        check(r#"{"action": "accept"}"#, r#"{"action": "accept"}"#);
        check(
            r#"{"action":"accept","content":{"password":"x"}}"#,
            r#"{"action":"accept"}"#,
        );
    }
}
