//! The gate's decisions on tools before they are called, and revoking grants.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::caller::CallerId;
use crate::catalog::Tool;
use crate::gate::Decision;
use crate::host::Host;
use crate::name::ToolId;
use crate::store::StoreError;
use crate::sync;

impl Host {
    /// The gate's decision on a call of this tool now.
    pub fn decision(&self, tool: &Tool, caller: &CallerId) -> Decision {
        self.0.decide(tool, caller, false)
    }

    /// When the grant that covers this tool was given; `None` if there is none, or it is older than
    /// such dates.
    pub fn granted_at(&self, tool: &Tool) -> Option<SystemTime> {
        let since = sync::read(&self.0.grants).since(tool)?;
        Some(UNIX_EPOCH + Duration::from_secs(since))
    }

    /// Every remembered approval with its date, where that is known: also of servers that are not
    /// connected, and of sampling.
    pub fn granted(&self) -> Vec<(ToolId, Option<SystemTime>)> {
        let granted = sync::read(&self.0.grants).granted();
        let granted = granted.into_iter().map(|(id, since)| {
            let at = since.map(|since| UNIX_EPOCH + Duration::from_secs(since));
            (id, at)
        });
        granted.collect()
    }

    /// Revokes the grants of these tools, in this run and in the store. Returns how many tools had
    /// one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be changed: then they apply again in the next run.
    pub async fn revoke(&self, tools: &[ToolId]) -> Result<usize, StoreError> {
        let (count, keys) = sync::write(&self.0.grants).revoke(tools);
        let writer = self.0.stored_grants.clone();
        let remove = tokio::task::spawn_blocking(move || writer.remove(&keys));
        let removed = remove.await.map_err(|_| StoreError::Failed)?;
        removed.map(|()| count)
    }
}
