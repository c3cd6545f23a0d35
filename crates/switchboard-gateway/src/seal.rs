//! Authenticated encryption of what clients store for us: session ids, states and question ids.
//!
//! A sealed text is `v1.KID.NONCE.CIPHERTEXT`, the last two in URL-safe base64 (AES-256-GCM). The
//! `SealKind` is authenticated with it, so that a text of one kind cannot be used as another; the
//! principal, the expiry and the digest of the request are encrypted. The current key seals; the
//! current and the previous key open. [`crate::cluster`] decides whether a text was used before.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::private_file;

/// The file of the keys, in the state folder.
const KEY_FILE: &str = "gateway-keys";

/// After this time a new key is made; what the old one sealed can be opened for as long again.
const ROTATION: Duration = Duration::from_secs(30 * 24 * 3600);

const VERSION: &str = "v1";
const KEY_BYTES: usize = 32;
const DIGEST_BYTES: usize = 32;

/// One process of the gateway; a restarted one is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplicaId(pub u64);

/// What a sealed text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealKind {
    /// The `Mcp-Session-Id` of a legacy client.
    Session,
    /// The `requestState` of a modern client's suspended call.
    State,
    /// The id of a question that was sent to a legacy client.
    Question,
}

/// What is sealed, besides the principal that it is sealed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedContent {
    /// The replica that sealed it.
    pub replica: ReplicaId,
    /// After this moment it cannot be opened.
    pub expires: SystemTime,
    /// The digest of the request that it belongs to; zeros where it belongs to none.
    pub digest: [u8; DIGEST_BYTES],
    /// Anything else, as its kind defines.
    pub payload: Vec<u8>,
}

/// A sealed text that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSeal {
    /// Different for each sealed text: what [`Cluster::claim_once`](crate::cluster::Cluster) claims.
    pub nonce: SealNonce,
    /// What was sealed.
    pub content: SealedContent,
}

/// The nonce of a sealed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SealNonce([u8; NONCE_LEN]);

/// Why a sealed text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealFault {
    /// It was changed, is of another kind, or was sealed with a key that is not ours.
    #[error("not sealed by this gateway, or changed since")]
    Invalid,
    /// It has expired.
    #[error("expired")]
    Expired,
    /// It was sealed for another client.
    #[error("it belongs to another client")]
    OtherPrincipal,
    /// It was sealed for another request.
    #[error("it belongs to another request")]
    OtherRequest,
}

/// The keys that seal and open.
pub struct SealKeys {
    current: SealKey,
    previous: Option<SealKey>,
}

struct SealKey {
    id: String,
    key: LessSafeKey,
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SealKeys").finish_non_exhaustive()
    }
}

impl SealKeys {
    /// The keys of the state folder. Creates the file (0600) on first use, and replaces a key that
    /// is 30 days old: the old one becomes the previous key.
    pub fn open(state_folder: &Path) -> io::Result<Self> {
        let path = state_folder.join(KEY_FILE);
        private_file::update(&path, |text| {
            let modified = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
            let is_old = modified
                .is_ok_and(|modified| modified.elapsed().is_ok_and(|elapsed| elapsed >= ROTATION));
            let mut keys = text.as_deref().and_then(parse_keys).unwrap_or_default();
            let changed = keys.is_empty() || is_old;
            if changed {
                keys.insert(0, random()?);
                keys.truncate(2);
            }
            let text = keys.iter().map(|key| BASE64.encode(key) + "\n").collect();
            Ok((changed.then_some(text), Self::new(&keys)))
        })
    }

    /// Keys that only this process has: what it seals cannot be opened after it.
    pub fn ephemeral() -> io::Result<Self> {
        Ok(Self::new(&[random()?]))
    }

    /// From the current key and, where there is one, the previous key.
    fn new(keys: &[[u8; KEY_BYTES]]) -> Self {
        Self {
            current: SealKey::new(&keys[0]),
            previous: keys.get(1).map(SealKey::new),
        }
    }

    /// Seals content for a principal.
    pub fn seal(&self, kind: SealKind, principal: &str, content: &SealedContent) -> String {
        let nonce: [u8; NONCE_LEN] = random().expect("the system's randomness is available");
        let mut text = encode(principal, content);
        let SealKey { id, key } = &self.current;
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(authenticated(kind, id)),
            &mut text,
        )
        .expect("a text of this length can be sealed");
        format!(
            "{VERSION}.{id}.{}.{}",
            BASE64.encode(nonce),
            BASE64.encode(text)
        )
    }

    /// Opens a sealed text of this kind that was sealed for this principal and has not expired.
    pub fn open_sealed(
        &self,
        kind: SealKind,
        principal: &str,
        sealed: &str,
        now: SystemTime,
    ) -> Result<OpenedSeal, SealFault> {
        let (nonce, owner, content) = self.decrypt(kind, sealed).ok_or(SealFault::Invalid)?;
        if owner != principal {
            return Err(SealFault::OtherPrincipal);
        }
        if now >= content.expires {
            return Err(SealFault::Expired);
        }
        Ok(OpenedSeal { nonce, content })
    }

    fn decrypt(&self, kind: SealKind, sealed: &str) -> Option<(SealNonce, String, SealedContent)> {
        let mut parts = sealed.split('.');
        let (version, id) = (parts.next()?, parts.next()?);
        let (nonce, text) = (parts.next()?, parts.next()?);
        if version != VERSION || parts.next().is_some() {
            return None;
        }
        let nonce: [u8; NONCE_LEN] = BASE64.decode(nonce).ok()?.try_into().ok()?;
        let mut text = BASE64.decode(text).ok()?;
        let mut keys = std::iter::once(&self.current).chain(&self.previous);
        let SealKey { id, key } = keys.find(|key| key.id == id)?;
        let aad = Aad::from(authenticated(kind, id));
        let plain = key
            .open_in_place(Nonce::assume_unique_for_key(nonce), aad, &mut text)
            .ok()?;
        let (principal, content) = decode(plain)?;
        Some((SealNonce(nonce), principal, content))
    }
}

impl OpenedSeal {
    /// Refuses it unless it was sealed for the request with this digest.
    pub(crate) fn for_request(self, digest: &[u8; DIGEST_BYTES]) -> Result<Self, SealFault> {
        if self.content.digest == *digest {
            Ok(self)
        } else {
            Err(SealFault::OtherRequest)
        }
    }
}

impl SealKey {
    fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("the key has 32 bytes");
        Self {
            id: blake3::derive_key("switchboard gateway 2026 seal key id", bytes)[..4]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            key: LessSafeKey::new(key),
        }
    }
}

/// The associated data of the encryption.
fn authenticated(kind: SealKind, key_id: &str) -> String {
    let kind = match kind {
        SealKind::Session => "session",
        SealKind::State => "state",
        SealKind::Question => "question",
    };
    format!("switchboard {VERSION} {key_id} {kind}")
}

fn encode(principal: &str, content: &SealedContent) -> Vec<u8> {
    let expires = content.expires.duration_since(UNIX_EPOCH);
    let expires = expires.unwrap_or_default().as_millis() as u64;
    let mut bytes = Vec::with_capacity(principal.len() + content.payload.len() + 72);
    bytes.extend_from_slice(&content.replica.0.to_le_bytes());
    bytes.extend_from_slice(&expires.to_le_bytes());
    bytes.extend_from_slice(&content.digest);
    bytes.extend_from_slice(&(principal.len() as u32).to_le_bytes());
    bytes.extend_from_slice(principal.as_bytes());
    bytes.extend_from_slice(&content.payload);
    bytes
}

fn decode(bytes: &[u8]) -> Option<(String, SealedContent)> {
    let (replica, bytes) = bytes.split_first_chunk()?;
    let (expires, bytes) = bytes.split_first_chunk()?;
    let (digest, bytes) = bytes.split_first_chunk()?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let (principal, payload) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let content = SealedContent {
        replica: ReplicaId(u64::from_le_bytes(*replica)),
        expires: UNIX_EPOCH + Duration::from_millis(u64::from_le_bytes(*expires)),
        digest: *digest,
        payload: payload.to_vec(),
    };
    Some((String::from_utf8(principal.to_vec()).ok()?, content))
}

fn parse_keys(text: &str) -> Option<Vec<[u8; KEY_BYTES]>> {
    text.lines()
        .map(|line| BASE64.decode(line).ok()?.try_into().ok())
        .collect()
}

/// Random bytes of the operating system.
pub(crate) fn random<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes)
        .map_err(|_| io::Error::other("the system's randomness is not available"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
