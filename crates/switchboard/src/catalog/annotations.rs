//! A tool's annotations: what its server claims about its effects.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

/// What a server claims about a tool's effects. The claims are not trusted: they are shown, and
/// decide nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy data.
    pub destructive: Option<bool>,
    /// Calling it twice has the same effect as once.
    pub idempotent: Option<bool>,
    /// It reaches beyond the server's own data, for example the web.
    pub open_world: Option<bool>,
}

impl ToolAnnotations {
    /// Values that are not booleans are ignored.
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
