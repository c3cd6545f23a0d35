//! One call to make: what [`Host::call_with`](crate::Host::call_with) is given.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::caller::Caller;
use crate::catalog::Catalog;
use crate::wire::RawJson;

/// One call to make: the tool, the arguments and the caller.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// use serde_json::json;
/// use switchboard::{Call, Headless};
///
/// let call = Call::new("files/read_file", json!({"path": "README.md"}))
///     .caller(Arc::new(Headless::new("my-agent")))
///     .timeout(Duration::from_secs(20));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Call {
    /// The name under which the tool is listed, `server/tool`, or the name that a model vendor's API
    /// got instead ([`Toolset`](crate::Toolset)).
    pub tool: Arc<str>,
    /// The arguments, a JSON object.
    pub arguments: RawJson,
    /// Who calls, and is asked for approval; the host's default caller if absent.
    pub caller: Option<Arc<dyn Caller>>,
    /// The catalog that the caller listed from: names are resolved there. `None` uses the current
    /// one.
    pub listed: Option<Arc<Catalog>>,
    /// The time limit of the whole call; the entry's `call_timeout_max` if absent.
    pub timeout: Option<Duration>,
    /// Whether a person has approved the call beforehand.
    pub pre_approved: bool,
}

impl Call {
    /// A call with the current catalog and the entry's deadlines, which needs approval if the gate
    /// says so. A name that is an `Arc<str>` already is shared, any other is copied.
    pub fn new(tool: impl Into<Arc<str>>, arguments: impl Into<RawJson>) -> Self {
        Self {
            tool: tool.into(),
            arguments: arguments.into(),
            caller: None,
            listed: None,
            timeout: None,
            pre_approved: false,
        }
    }

    /// Sets the caller, who is asked for approval.
    #[inline(always)] // Otherwise the call is copied once more.
    pub fn caller(mut self, caller: Arc<dyn Caller>) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Sets the catalog in which the name is resolved.
    pub fn listed(mut self, catalog: Arc<Catalog>) -> Self {
        self.listed = Some(catalog);
        self
    }

    /// Sets the time limit of the whole call; more than
    /// [`MAX_TIMEOUT`](crate::config::MAX_TIMEOUT) counts as that.
    pub fn timeout(mut self, most: Duration) -> Self {
        self.timeout = Some(most);
        self
    }

    /// Marks the call as approved beforehand by a person. Deny rules still apply.
    pub fn pre_approved(mut self) -> Self {
        self.pre_approved = true;
        self
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("tool", &self.tool)
            .field("caller", &self.caller.as_ref().map(|caller| caller.id()))
            .finish_non_exhaustive()
    }
}
