//! The private key that a program proves itself with: read from its PEM file, its algorithm told
//! from what it holds.

use std::path::Path;

use data_encoding::BASE64;

use crate::secret::Secret;

/// How assertions are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

/// The longest file that is taken for a key.
const MAX_BYTES: u64 = 64 * 1024;

/// Reads a key. It may block. The sentence never holds the key.
pub(super) fn read(path: &Path) -> Result<(Secret, Algorithm), String> {
    let named = |fact: &str| format!("`oauth_client_key`: {} {fact}", path.display());
    let about =
        std::fs::metadata(path).map_err(|error| named(&format!("cannot be read: {error}")))?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(named("is no PEM file"));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| named(&format!("cannot be read: {error}")))?;
    let algorithm = algorithm(&text)
        .ok_or_else(|| named("holds no RSA, P-256 or P-384 private key in PEM form"))?;
    Ok((Secret::new(text), algorithm))
}

/// Told by the object identifiers inside.
fn algorithm(pem: &str) -> Option<Algorithm> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    if label == "RSA PRIVATE KEY" {
        return Some(Algorithm::Rs256);
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
        () if holds(P256) => Some(Algorithm::Es256),
        () if holds(P384) => Some(Algorithm::Es384),
        () if holds(RSA) => Some(Algorithm::Rs256),
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
            Some(Algorithm::Es256),
        );
        check(
            &pem("EC PRIVATE KEY", &[0x30, 0x2b, 0x81, 0x04, 0x00, 0x22, 1]),
            Some(Algorithm::Es384),
        );
        check(
            &pem(
                "PRIVATE KEY",
                &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
            ),
            Some(Algorithm::Rs256),
        );
        check(&pem("RSA PRIVATE KEY", &[1]), Some(Algorithm::Rs256));
        check(&pem("PUBLIC KEY", &[1]), None);
        check(&pem("PRIVATE KEY", &[1]), None);
        check("", None);
    }
}
