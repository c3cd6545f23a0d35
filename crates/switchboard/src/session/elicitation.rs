//! Elicitation, in either era: parses the server's request, asks the caller, and encodes the
//! answer.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::in_flight::InFlightCall;
use crate::caller::{ElicitAnswer, Elicitation, ElicitationKind};
use crate::name::ToolId;
use crate::untrusted::Untrusted;
use crate::wire::RawJson;

/// How long a person may take to answer a server's question; then it is cancelled.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

impl InFlightCall {
    /// Asks the caller; the time to answer does not count against the deadlines. Fields that the
    /// answer omits get the schema's defaults (SEP-1034).
    pub(super) async fn elicit(
        &self,
        kind: ElicitationKind,
        params: RawJson,
        tool: Option<ToolId>,
    ) -> ElicitAnswer {
        let _pause = self.pause_deadlines();
        let question = Elicitation {
            server: self.server().clone(),
            tool,
            kind,
            params,
        };
        let answer = timeout(ANSWER_TIMEOUT, self.caller().elicit(&question))
            .await
            .unwrap_or(ElicitAnswer::Cancel);
        match (answer, &question.kind) {
            (ElicitAnswer::Accept(mut fields), ElicitationKind::Form { schema, .. }) => {
                fill_defaults(schema, &mut fields);
                ElicitAnswer::Accept(fields)
            }
            (answer, _) => answer,
        }
    }
}

fn fill_defaults(schema: &RawJson, fields: &mut Map<String, Value>) {
    let Ok(schema) = schema.to_value() else {
        return;
    };
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        if let Some(default) = property.get("default")
            && !fields.contains_key(name)
        {
            fields.insert(name.clone(), default.clone());
        }
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

/// Encodes the result of `elicitation/create`. In URL mode it has no content: what a person enters
/// on the page does not pass through the host.
pub(super) fn elicit_result(answer: ElicitAnswer, is_form: bool) -> Value {
    match answer {
        ElicitAnswer::Accept(content) if is_form => json!({"action": "accept", "content": content}),
        ElicitAnswer::Accept(_) => json!({"action": "accept"}),
        ElicitAnswer::Decline => json!({"action": "decline"}),
        ElicitAnswer::Cancel => json!({"action": "cancel"}),
    }
}
