//! What replicas of the gateway share: sealed texts, one-time claims, and requests to one another.
//!
//! `Alone` implements them for a gateway of one process, which has no other replica to ask: so nothing
//! here calls `Cluster::ask_replica` yet. Nothing here is on the path of a call.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use switchboard::BoxFuture;
use tokio::sync::mpsc;

use crate::seal::{OpenedSeal, ReplicaId, SealFault, SealKeys, SealKind, SealedContent, random};

/// A request to another replica.
#[derive(Debug, Clone)]
pub struct ReplicaRequest {
    /// The receiver drops the request after this moment, so that nothing happens late.
    pub deadline: SystemTime,
    /// The request itself.
    pub body: Bytes,
}

/// Why another replica cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaFault {
    /// It has ended; its state is lost.
    #[error("the gateway process that held this state has ended")]
    Gone,
}

/// The operations that replicas share.
pub trait Cluster: fmt::Debug + Send + Sync {
    /// This process.
    fn replica(&self) -> ReplicaId;

    /// Seals content for a principal.
    fn seal(&self, kind: SealKind, principal: &str, content: &SealedContent) -> String;

    /// Opens a sealed text of this kind and principal, unless it has expired.
    fn open_sealed(
        &self,
        kind: SealKind,
        principal: &str,
        sealed: &str,
    ) -> Result<OpenedSeal, SealFault>;

    /// Claims a sealed text, which only one replica can do, once. False also if it is not known whether
    /// the text was used before. Within this replica, the caller has seen to it that only one request
    /// claims it.
    fn claim_once<'a>(&'a self, opened: &'a OpenedSeal) -> BoxFuture<'a, bool>;

    /// Sends a request to another replica. The messages of its response come through the channel.
    fn ask_replica<'a>(
        &'a self,
        replica: ReplicaId,
        request: ReplicaRequest,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<Bytes>, ReplicaFault>>;
}

/// A gateway of one process.
#[derive(Debug)]
pub struct Alone {
    replica: ReplicaId,
    keys: SealKeys,
}

impl Alone {
    /// With the keys of the state folder, so that sealed texts outlive a restart.
    pub fn open(state_folder: &Path) -> io::Result<Self> {
        Self::with_keys(SealKeys::open(state_folder)?)
    }

    /// With keys that end with this process.
    pub fn ephemeral() -> io::Result<Self> {
        Self::with_keys(SealKeys::ephemeral()?)
    }

    fn with_keys(keys: SealKeys) -> io::Result<Self> {
        Ok(Self {
            replica: ReplicaId(u64::from_le_bytes(random()?)),
            keys,
        })
    }
}

impl Cluster for Alone {
    fn replica(&self) -> ReplicaId {
        self.replica
    }

    fn seal(&self, kind: SealKind, principal: &str, content: &SealedContent) -> String {
        self.keys.seal(kind, principal, content)
    }

    fn open_sealed(
        &self,
        kind: SealKind,
        principal: &str,
        sealed: &str,
    ) -> Result<OpenedSeal, SealFault> {
        let now = SystemTime::now();
        self.keys.open_sealed(kind, principal, sealed, now)
    }

    fn claim_once<'a>(&'a self, opened: &'a OpenedSeal) -> BoxFuture<'a, bool> {
        // What an earlier process sealed may have been used there.
        let is_ours = opened.content.replica == self.replica;
        Box::pin(std::future::ready(is_ours))
    }

    fn ask_replica<'a>(
        &'a self,
        _: ReplicaId,
        _: ReplicaRequest,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<Bytes>, ReplicaFault>> {
        // There is no other process: that replica was this gateway before a restart.
        Box::pin(std::future::ready(Err(ReplicaFault::Gone)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    /// T36: what an earlier process sealed may have been used there.
    #[tokio::test]
    async fn t36_what_an_earlier_process_sealed_is_not_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let alone = Alone::open(folder.path()).unwrap();
        let content = SealedContent {
            replica: alone.replica,
            expires: SystemTime::now() + Duration::from_secs(60),
            digest: [0; 32],
            payload: Vec::new(),
        };
        let sealed = alone.seal(SealKind::State, "codex", &content);
        let restarted = Alone::open(folder.path()).unwrap();
        for (alone, expected) in [(&alone, true), (&restarted, false)] {
            let opened = alone.open_sealed(SealKind::State, "codex", &sealed);
            assert_eq!(alone.claim_once(&opened.unwrap()).await, expected);
        }
    }
}
