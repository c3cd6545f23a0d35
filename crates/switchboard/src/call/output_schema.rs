//! Checks a result against its tool's output schema. A violation is reported; the result is
//! returned unchanged.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::shown;
use crate::caller::Caller;
use crate::catalog::Tool;
use crate::host::HostState;
use crate::wire::RawJson;

/// Larger results are not checked.
const MAX_BYTES: usize = 1024 * 1024;

/// Larger results are checked on a blocking thread, so that other calls continue, and for at most
/// this time.
const MAX_INLINE_BYTES: usize = 16 * 1024;
const MAX_TIME: Duration = Duration::from_secs(1);

impl HostState {
    /// Checks the result against the tool's output schema, and notifies the caller of violations.
    pub(super) async fn check(
        &self,
        tool: &Tool,
        result: &RawJson,
        caller: &Arc<dyn Caller>,
    ) -> Option<String> {
        let schema_violation = find_violation(self, tool, result).await?;
        caller.notice(&format!(
            "server \"{}\", tool {}: {schema_violation}",
            tool.id.server,
            shown(tool)
        ));
        Some(schema_violation)
    }
}

/// The violation, in one line safe to show.
async fn find_violation(host: &HostState, tool: &Tool, result: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<'a> {
        // `null` is a value; only an absent member is missing.
        #[serde(borrow, default, deserialize_with = "present")]
        structured_content: Option<&'a RawValue>,
        #[serde(borrow)]
        is_error: Option<&'a RawValue>,
    }
    let schema = tool.definition.output_schema.as_ref()?;
    let Ok(fields) = result.decode::<Fields<'_>>() else {
        return None;
    };
    // An error result needs no structured content.
    if fields.is_error.is_some_and(|flag| flag.get() == "true") {
        return None;
    }
    let Some(structured) = fields.structured_content.map(|raw| result.part(raw)) else {
        return Some(
            "its result has no structuredContent, though its output schema promises it".to_owned(),
        );
    };
    let (hash, bytes) = (tool.definition.hash, structured.as_bytes().len());
    let schema_violation = if bytes <= MAX_INLINE_BYTES {
        host.validators.check_result(hash, schema, &structured)
    } else if bytes <= MAX_BYTES {
        let (validators, schema) = (host.validators.clone(), schema.clone());
        let checking = tokio::task::spawn_blocking(move || {
            validators.check_result(hash, &schema, &structured)
        });
        timeout(MAX_TIME, checking).await.ok()?.ok()?
    } else {
        None
    };
    schema_violation.map(|schema_violation| {
        format!("its structuredContent does not fit its output schema: {schema_violation}")
    })
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}
