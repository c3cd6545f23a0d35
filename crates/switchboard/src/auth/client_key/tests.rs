//! Keys in each format, and what they sign.

#![allow(clippy::unwrap_used)]

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, KeyPair, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};

use super::*;

/// Keys in `keys/` were made for these tests, and are used for nothing else.
macro_rules! key {
    ($name:literal) => {
        include_str!(concat!("keys/", $name, ".pem"))
    };
}

#[test]
fn a_key_of_each_kind_and_encoding_signs() {
    let check = |pem: &str, algorithm: &str, verification: &'static dyn VerificationAlgorithm| {
        let key = ClientKey::parse(pem).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        let public = match &key {
            ClientKey::Rs256(key) => key.public_key().as_ref(),
            ClientKey::Es256(key) | ClientKey::Es384(key) => key.public_key().as_ref(),
        };
        let signature = key.sign(b"a message").unwrap();
        UnparsedPublicKey::new(verification, public)
            .verify(b"a message", &signature)
            .unwrap();
    };
    check(key!("rsa_pkcs1"), "RS256", &RSA_PKCS1_2048_8192_SHA256);
    check(key!("rsa_pkcs8"), "RS256", &RSA_PKCS1_2048_8192_SHA256);
    check(key!("p256_sec1"), "ES256", &ECDSA_P256_SHA256_FIXED);
    check(key!("p256_pkcs8"), "ES256", &ECDSA_P256_SHA256_FIXED);
    check(key!("p384_sec1"), "ES384", &ECDSA_P384_SHA384_FIXED);
    check(key!("p384_pkcs8"), "ES384", &ECDSA_P384_SHA384_FIXED);
}

#[test]
fn what_is_no_usable_key_is_refused_with_the_reason() {
    let pem = |label: &str, bytes: &[u8]| {
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            BASE64.encode(bytes)
        )
    };
    let check =
        |text: &str, reason| assert_eq!(ClientKey::parse(text).unwrap_err(), reason, "{text}");
    check("", NO_KEY);
    check(&pem("PUBLIC KEY", &[1]), NO_KEY);
    check(&pem("PRIVATE KEY", &[1]), NO_KEY);
    check(&pem("RSA PRIVATE KEY", &[1]), UNUSABLE);
    check(
        &pem("EC PRIVATE KEY", &[0x30, 0x2b, 0x81, 0x04, 0x00, 0x22, 1]),
        UNUSABLE,
    );
    check(key!("p256_without_public_half"), UNUSABLE);
}
