//! Reads the private key of `oauth_client_key` from its PEM file, and finds its algorithm.

use std::path::Path;

use data_encoding::BASE64;

use crate::secret::Secret;

/// The algorithm that signs client assertions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SigningAlgorithm {
    Rs256,
    Es256,
    Es384,
}

/// The longest file that is read as a key.
const MAX_BYTES: u64 = 64 * 1024;

/// Reads a key. Blocks. The error never contains the key.
pub(super) fn read(path: &Path) -> Result<(Secret, SigningAlgorithm), String> {
    let named = |fact: &str| format!("`oauth_client_key`: {} {fact}", path.display());
    let about =
        std::fs::metadata(path).map_err(|error| named(&format!("cannot be read: {error}")))?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(named("is not a PEM file"));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| named(&format!("cannot be read: {error}")))?;
    let algorithm = algorithm(&text)
        .ok_or_else(|| named("contains no RSA, P-256 or P-384 private key in PEM format"))?;
    Ok((Secret::new(text), algorithm))
}

/// Found by the object identifiers in the key.
fn algorithm(pem: &str) -> Option<SigningAlgorithm> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    if label == "RSA PRIVATE KEY" {
        return Some(SigningAlgorithm::Rs256);
    }
    if !matches!(label, "PRIVATE KEY" | "EC PRIVATE KEY") {
        return None;
    }
    let (body, _) = rest.split_once("-----END ")?;
    let body: String = body.split_whitespace().collect();
    let der = BASE64.decode(body.as_bytes()).ok()?;
    let holds = |identifier: &[u8]| {
        der.windows(identifier.len())
            .any(|window| window == identifier)
    };
    match () {
        () if holds(P256) => Some(SigningAlgorithm::Es256),
        () if holds(P384) => Some(SigningAlgorithm::Es384),
        () if holds(RSA) => Some(SigningAlgorithm::Rs256),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_is_told_from_the_key() {
        let pem = |label: &str, bytes: &[u8]| {
            format!(
                "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
                BASE64.encode(bytes)
            )
        };
        let check = |text: &str, expected| assert_eq!(algorithm(text), expected, "{text}");
        check(
            &pem(
                "PRIVATE KEY",
                &[0x30, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 1],
            ),
            Some(SigningAlgorithm::Es256),
        );
        check(
            &pem("EC PRIVATE KEY", &[0x30, 0x2b, 0x81, 0x04, 0x00, 0x22, 1]),
            Some(SigningAlgorithm::Es384),
        );
        check(
            &pem(
                "PRIVATE KEY",
                &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
            ),
            Some(SigningAlgorithm::Rs256),
        );
        check(&pem("RSA PRIVATE KEY", &[1]), Some(SigningAlgorithm::Rs256));
        check(&pem("PUBLIC KEY", &[1]), None);
        check(&pem("PRIVATE KEY", &[1]), None);
        check("", None);
    }
}
