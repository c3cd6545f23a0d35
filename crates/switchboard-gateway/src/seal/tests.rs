//! A sealed text opens only for its kind, its principal, its request and until its expiry.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use super::*;

fn content() -> SealedContent {
    SealedContent {
        replica: ReplicaId(7),
        expires: UNIX_EPOCH + Duration::from_secs(2_000_000_000),
        digest: [9; DIGEST_BYTES],
        payload: b"{\"version\":\"2025-11-25\"}".to_vec(),
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_900_000_000)
}

#[test]
fn a_sealed_text_opens_with_its_content() {
    let keys = SealKeys::ephemeral().unwrap();
    let sealed = keys.seal(SealKind::Session, "codex", &content());
    assert!(sealed.len() <= 400, "{}", sealed.len());
    let opened = keys
        .open_sealed(SealKind::Session, "codex", &sealed, now())
        .unwrap();
    assert_eq!(opened.content, content());
}

/// T36: every changed character is noticed, and so is a missing or an additional one.
#[test]
fn t36_a_sealed_text_that_was_tampered_with_does_not_open() {
    let keys = SealKeys::ephemeral().unwrap();
    let sealed = keys.seal(SealKind::State, "codex", &content());
    let open = |text: &str| keys.open_sealed(SealKind::State, "codex", text, now());
    assert!(open(&sealed).is_ok());
    for index in 0..sealed.len() {
        for other in "Aa0-_."
            .chars()
            .filter(|other| !sealed[index..].starts_with(*other))
        {
            let mut changed = sealed.clone();
            changed.replace_range(index..=index, &other.to_string());
            assert_eq!(open(&changed), Err(SealFault::Invalid), "{changed}");
        }
        let mut shorter = sealed.clone();
        shorter.remove(index);
        assert_eq!(open(&shorter), Err(SealFault::Invalid), "{shorter}");
        let mut longer = sealed.clone();
        longer.insert(index, 'A');
        assert_eq!(open(&longer), Err(SealFault::Invalid), "{longer}");
    }
}

/// T36: a sealed text is valid for one kind, principal and request only, and expires.
#[test]
fn t36_a_sealed_text_opens_only_for_its_kind_principal_request_and_time() {
    let keys = SealKeys::ephemeral().unwrap();
    let sealed = keys.seal(SealKind::State, "codex", &content());
    let open = |kind, principal, now| keys.open_sealed(kind, principal, &sealed, now);
    for kind in [SealKind::Session, SealKind::Question] {
        assert_eq!(open(kind, "codex", now()), Err(SealFault::Invalid));
    }
    for principal in ["", "code", "codex2", "gemini"] {
        let opened = open(SealKind::State, principal, now());
        assert_eq!(opened, Err(SealFault::OtherPrincipal));
    }
    let expires = content().expires;
    assert_eq!(
        open(SealKind::State, "codex", expires),
        Err(SealFault::Expired)
    );
    let opened = open(SealKind::State, "codex", expires - Duration::from_millis(1)).unwrap();
    assert_eq!(
        opened.clone().for_request(&[8; DIGEST_BYTES]),
        Err(SealFault::OtherRequest)
    );
    assert!(opened.for_request(&[9; DIGEST_BYTES]).is_ok());
    let others = SealKeys::ephemeral().unwrap();
    let opened = others.open_sealed(SealKind::State, "codex", &sealed, now());
    assert_eq!(opened, Err(SealFault::Invalid));
}

/// T36: after a rotation the previous key still opens; after the next one it does not.
#[test]
fn t36_the_previous_key_opens_what_it_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let open = |keys: &SealKeys, sealed: &str| {
        keys.open_sealed(SealKind::Session, "codex", sealed, now())
            .map(|opened| opened.content)
    };
    let age = || {
        let file = std::fs::File::options()
            .write(true)
            .open(folder.path().join(KEY_FILE));
        file.unwrap()
            .set_modified(SystemTime::now() - ROTATION)
            .unwrap();
    };
    let first = SealKeys::open(folder.path()).unwrap();
    let sealed = first.seal(SealKind::Session, "codex", &content());
    let mode = std::fs::metadata(folder.path().join(KEY_FILE))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let same = SealKeys::open(folder.path()).unwrap();
    assert_eq!(open(&same, &sealed), Ok(content()));
    assert_eq!(same.current.id, first.current.id);
    age();
    let second = SealKeys::open(folder.path()).unwrap();
    assert_ne!(second.current.id, first.current.id);
    assert_eq!(open(&second, &sealed), Ok(content()));
    age();
    let third = SealKeys::open(folder.path()).unwrap();
    assert_eq!(open(&third, &sealed), Err(SealFault::Invalid));
    let sealed = second.seal(SealKind::Session, "codex", &content());
    assert_eq!(open(&third, &sealed), Ok(content()));
}
