//! Which authorization server a login may use: the one in `oauth_issuer`; else, for a configured
//! client id, the first one that it was used with. A server's metadata can name another one at any
//! time, and a secret must not be sent there.

use std::sync::Arc;

use super::issuer::{Issuer, quoted};
use super::login::{LoginFault, LoginFaultReason};
use super::record::{LoginRecord, Registration};
use super::target::AuthTarget;

/// Checks that the configuration permits a login at this authorization server. The error says why
/// not, and what to do if the change is right.
pub(super) fn check(
    target: &AuthTarget,
    issuer: &Issuer,
    record: &LoginRecord,
) -> Result<(), LoginFault> {
    let refuse = |fact| {
        Err(LoginFault::new(
            &target.server,
            LoginFaultReason::Issuer(fact),
        ))
    };
    let new = quoted(&issuer.id);
    if let Some(own) = &target.auth.issuer {
        return match is_same(own, &issuer.id) {
            true => Ok(()),
            false => refuse(format!(
                "its authorization server is {new}, and `oauth_issuer` of its entry says {}; if the new one is right, set \
                 `oauth_issuer` to it, and the id and secret to those that it gave",
                quoted(own)
            )),
        };
    }
    let Some(client_id) = &target.auth.client_id else {
        return Ok(());
    };
    match bound_elsewhere(record, client_id, &issuer.id).next() {
        None => Ok(()),
        Some(old) => refuse(format!(
            "its authorization server was {} and is now {new}, and `oauth_client_id` belongs to the old one; if the new one is right, run \
             \"switchboard logout {}\", and set the id and secret that the new one gave",
            quoted(&old),
            target.server.for_shell()
        )),
    }
}

/// Stores which authorization server the configured client id belongs to, before its secret is
/// sent: even a server that rejects a secret has seen it.
pub(super) async fn bind(target: &Arc<AuthTarget>, issuer: &Issuer) -> Result<(), LoginFault> {
    let Some(client_id) = &target.auth.client_id else {
        return Ok(());
    };
    let fail = |fault| LoginFault::new(&target.server, LoginFaultReason::Vault(fault));
    let _lock = target.lock().await.map_err(fail)?;
    let mut record = target.load().await.map_err(fail)?;
    check(target, issuer, &record)?;
    let bound = Registration::configured(client_id);
    let old: Vec<String> = bound_elsewhere(&record, client_id, &issuer.id).collect();
    if old.is_empty() && record.registrations.get(&issuer.id) == Some(&bound) {
        return Ok(());
    }
    old.iter()
        .for_each(|old| drop(record.registrations.remove(old)));
    record.registrations.insert(issuer.id.clone(), bound);
    target.save(&record).await.map_err(fail)
}

/// A trailing slash makes no difference.
pub(super) fn is_same(written: &str, issuer: &str) -> bool {
    written.trim_end_matches('/') == issuer.trim_end_matches('/')
}

fn bound_elsewhere(
    record: &LoginRecord,
    client_id: &str,
    issuer: &str,
) -> impl Iterator<Item = String> {
    let others = record
        .registrations
        .iter()
        .filter(move |(known, who)| *known != issuer && who.client_id == client_id);
    others.map(|(known, _)| known.clone())
}
