//! The private key of `oauth_client_key`: read from its PEM file, it signs client assertions.

use std::fmt;
use std::path::Path;

use data_encoding::BASE64;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, RSA_PKCS1_SHA256, RsaKeyPair,
};

/// A private key and the algorithm that it signs with.
pub(super) enum ClientKey {
    Rs256(RsaKeyPair),
    Es256(EcdsaKeyPair),
    Es384(EcdsaKeyPair),
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientKey").field(&self.algorithm()).finish()
    }
}

/// The longest file that is read as a key.
const MAX_BYTES: u64 = 64 * 1024;

/// Reads a key. Blocks. The error never contains the key.
pub(super) fn read(path: &Path) -> Result<ClientKey, String> {
    let named = |fact: &str| format!("`oauth_client_key`: {} {fact}", path.display());
    let about =
        std::fs::metadata(path).map_err(|error| named(&format!("cannot be read: {error}")))?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(named("is not a PEM file"));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| named(&format!("cannot be read: {error}")))?;
    ClientKey::parse(&text).map_err(named)
}

const NO_KEY: &str = "contains no RSA, P-256 or P-384 private key in PEM format";
const UNUSABLE: &str = "contains a private key that cannot be used: RSA keys need 2048 to 4096 bits, \
     P-256 and P-384 keys their public half (`openssl pkey` adds it)";

impl ClientKey {
    /// The name of its algorithm in JSON Web Tokens.
    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::Rs256(_) => "RS256",
            Self::Es256(_) => "ES256",
            Self::Es384(_) => "ES384",
        }
    }

    /// The signature of a message, as JSON Web Tokens carry it; `None` if the system has no
    /// randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .ok()?;
                Some(signature)
            }
            Self::Es256(key) | Self::Es384(key) => {
                Some(key.sign(&random, message).ok()?.as_ref().to_vec())
            }
        }
    }

    /// PKCS #8 (`PRIVATE KEY`), PKCS #1 (`RSA PRIVATE KEY`) or SEC 1 (`EC PRIVATE KEY`); the
    /// algorithm is found by the object identifiers in the key.
    fn parse(pem: &str) -> Result<Self, &'static str> {
        const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
        const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
        let (label, der) = decode_pem(pem).ok_or(NO_KEY)?;
        let holds = |identifier: &[u8]| {
            der.windows(identifier.len())
                .any(|window| window == identifier)
        };
        match label {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der).ok().map(Self::Rs256),
            "PRIVATE KEY" | "EC PRIVATE KEY" if holds(P256) => {
                elliptic_key(&ECDSA_P256_SHA256_FIXED_SIGNING, label, &der).map(Self::Es256)
            }
            "PRIVATE KEY" | "EC PRIVATE KEY" if holds(P384) => {
                elliptic_key(&ECDSA_P384_SHA384_FIXED_SIGNING, label, &der).map(Self::Es384)
            }
            "PRIVATE KEY" if holds(RSA) => RsaKeyPair::from_pkcs8(&der).ok().map(Self::Rs256),
            _ => return Err(NO_KEY),
        }
        .ok_or(UNUSABLE)
    }
}

/// The label and the bytes of the first PEM block.
fn decode_pem(pem: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let body: String = body.split_whitespace().collect();
    Some((label, BASE64.decode(body.as_bytes()).ok()?))
}

/// From SEC 1, by itself or inside PKCS #8. `ring` reads it only inside PKCS #8, and not if it
/// names its curve.
fn elliptic_key(
    algorithm: &'static EcdsaSigningAlgorithm,
    label: &str,
    der: &[u8],
) -> Option<EcdsaKeyPair> {
    let sec1 = match label {
        "PRIVATE KEY" => {
            let (_, key, _) = der_element(der)?;
            let (_, _version, rest) = der_element(key)?;
            let (_, _algorithm, rest) = der_element(rest)?;
            der_element(rest)?.1
        }
        _ => der,
    };
    let (_, key, _) = der_element(sec1)?;
    let (_, _version, rest) = der_element(key)?;
    let (_, private, mut rest) = der_element(rest)?;
    loop {
        let (tag, content, after) = der_element(rest)?;
        if tag == PUBLIC_KEY {
            let (_, bits, _) = der_element(content)?;
            // The first byte of a bit string counts its unused bits.
            let public = bits.strip_prefix(&[0])?;
            let random = SystemRandom::new();
            return EcdsaKeyPair::from_private_key_and_public_key(
                algorithm, private, public, &random,
            )
            .ok();
        }
        rest = after;
    }
}

/// The tag of the public key in SEC 1: [1].
const PUBLIC_KEY: u8 = 0xa1;

/// The first element of DER: its tag, its content, and what follows.
fn der_element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let bytes;
        (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.len() > 2 {
            return None;
        }
        length = bytes
            .iter()
            .fold(0, |length, &byte| length << 8 | usize::from(byte));
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

#[cfg(test)]
mod tests;
