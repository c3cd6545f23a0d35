//! What a server says of a tool's effects.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

/// What a server says of a tool's effects. A server may say anything here: it is shown, and nothing
/// is decided by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Doing it twice is doing it once.
    pub idempotent: Option<bool>,
    /// It reaches beyond its server's own world, such as the web.
    pub open_world: Option<bool>,
}

impl ToolAnnotations {
    /// What is no boolean says nothing.
    pub(super) fn of(annotations: Option<&RawValue>) -> Self {
        let flags: HashMap<Cow<'_, str>, &RawValue> = annotations
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        let flag = |name: &str| serde_json::from_str(flags.get(name)?.get()).ok();
        Self {
            read_only: flag("readOnlyHint"),
            destructive: flag("destructiveHint"),
            idempotent: flag("idempotentHint"),
            open_world: flag("openWorldHint"),
        }
    }
}
