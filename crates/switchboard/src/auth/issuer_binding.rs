//! Which authorization server a login may use: the one in `oauth_issuer`; else, for a configured
//! client id, the first one that it was used with. A server's metadata can name another one at any
//! time, and a secret must not be sent there.

use std::sync::Arc;

use super::issuer::{Issuer, quoted};
use super::login::{LoginFault, LoginFaultReason};
use super::record::{LoginRecord, Registration};
use super::target::AuthTarget;
use crate::hint::Hint;

/// Checks that the configuration permits a login at this authorization server.
pub(super) fn check(
    target: &AuthTarget,
    issuer: &Issuer,
    record: &LoginRecord,
) -> Result<(), LoginFault> {
    let refuse = |fact, hint| {
        let fault = LoginFault::new(&target.server, LoginFaultReason::Issuer(fact));
        Err(fault.with_hint(hint))
    };
    let new = quoted(&issuer.id);
    if let Some(own) = &target.auth.issuer {
        return match is_same(own, &issuer.id) {
            true => Ok(()),
            false => {
                let own = quoted(own);
                let fact = format!(
                    "its authorization server is {new}, and `oauth_issuer` of its entry says {own}"
                );
                refuse(fact, Hint::SetIssuer)
            }
        };
    }
    let Some(client_id) = &target.auth.client_id else {
        return Ok(());
    };
    match bound_elsewhere(record, client_id, &issuer.id).next() {
        None => Ok(()),
        Some(old) => {
            let old = quoted(&old);
            let fact = format!(
                "its authorization server was {old} and is now {new}, and `oauth_client_id` belongs to the old one"
            );
            refuse(fact, Hint::ReplaceClient)
        }
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

/// Compares issuers; a trailing slash makes no difference.
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
