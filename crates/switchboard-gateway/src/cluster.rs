//! What replicas of the gateway share: sealed texts, one-time claims, and requests to one another.
//!
//! `Alone` implements them for a gateway of one process. Nothing here is on the path of a call.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use bytes::Bytes;
use switchboard::BoxFuture;
use switchboard::sync::lock;
use tokio::sync::mpsc;

use crate::seal::{
    OpenedSeal, ReplicaId, SealFault, SealKeys, SealKind, SealNonce, SealedContent, random,
};

/// The most claims that [`Alone`] remembers; beyond it, nothing can be claimed until some expire.
const MAX_CLAIMS: usize = 100_000;

/// The outcome of claiming a sealed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It was never used, and is used from now on.
    Claimed,
    /// It was used before.
    Taken,
    /// Whether it was used is not known; it counts as used.
    Unknown,
}

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
    /// It may still run.
    #[error("the gateway process that has this cannot be reached")]
    Unreachable,
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

    /// Claims a sealed text, which only one request of one replica can do.
    fn claim_once<'a>(&'a self, opened: &'a OpenedSeal) -> BoxFuture<'a, Claim>;

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
    /// What was claimed, until it expires.
    claims: Mutex<HashMap<SealNonce, SystemTime>>,
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
            claims: Mutex::default(),
        })
    }

    fn claim(&self, opened: &OpenedSeal, now: SystemTime, limit: usize) -> Claim {
        // An earlier process may have run it: its claims are forgotten.
        if opened.content.replica != self.replica {
            return Claim::Unknown;
        }
        let mut claims = lock(&self.claims);
        if claims.len() >= limit {
            claims.retain(|_, expires| *expires > now);
        }
        let is_full = claims.len() >= limit;
        match claims.entry(opened.nonce) {
            Entry::Occupied(_) => Claim::Taken,
            Entry::Vacant(_) if is_full || opened.content.expires <= now => Claim::Unknown,
            Entry::Vacant(entry) => {
                entry.insert(opened.content.expires);
                Claim::Claimed
            }
        }
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

    fn claim_once<'a>(&'a self, opened: &'a OpenedSeal) -> BoxFuture<'a, Claim> {
        let claim = self.claim(opened, SystemTime::now(), MAX_CLAIMS);
        Box::pin(std::future::ready(claim))
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

    fn seal(alone: &Alone, expires: SystemTime) -> OpenedSeal {
        let content = SealedContent {
            replica: alone.replica,
            expires,
            digest: [0; 32],
            payload: Vec::new(),
        };
        let sealed = alone.seal(SealKind::State, "codex", &content);
        alone
            .open_sealed(SealKind::State, "codex", &sealed)
            .unwrap()
    }

    /// T36: a state that is sent twice runs once, also across a restart.
    #[tokio::test]
    async fn t36_a_replayed_state_is_claimed_once() {
        let folder = tempfile::tempdir().unwrap();
        let alone = Alone::open(folder.path()).unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        let opened = seal(&alone, later);
        assert_eq!(alone.claim_once(&opened).await, Claim::Claimed);
        assert_eq!(alone.claim_once(&opened).await, Claim::Taken);
        assert_eq!(alone.claim_once(&seal(&alone, later)).await, Claim::Claimed);
        let restarted = Alone::open(folder.path()).unwrap();
        assert_eq!(restarted.claim_once(&opened).await, Claim::Unknown);
    }

    #[test]
    fn claims_are_bounded_and_room_returns_when_they_expire() {
        let alone = Alone::ephemeral().unwrap();
        let now = SystemTime::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let opened: Vec<_> = (1..=4)
            .map(|number| seal(&alone, after(60 * number)))
            .collect();
        assert_eq!(alone.claim(&opened[0], now, 2), Claim::Claimed);
        assert_eq!(alone.claim(&opened[1], now, 2), Claim::Claimed);
        assert_eq!(alone.claim(&opened[2], now, 2), Claim::Unknown);
        assert_eq!(alone.claim(&opened[2], after(61), 2), Claim::Claimed);
        assert_eq!(alone.claim(&opened[3], after(61), 2), Claim::Unknown);
    }

    #[tokio::test]
    async fn no_other_replica_can_be_asked() {
        let alone = Alone::ephemeral().unwrap();
        let request = ReplicaRequest {
            deadline: SystemTime::now(),
            body: Bytes::new(),
        };
        let asked = alone.ask_replica(ReplicaId(1), request).await;
        assert_eq!(asked.err(), Some(ReplicaFault::Gone));
    }
}
