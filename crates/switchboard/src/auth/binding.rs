//! Which authorization server a login may use: the one that `oauth_issuer` names; for the client id
//! of an entry, else the first one that it was used with (T18). A server's metadata can name
//! another one at any time, and a secret must not follow it there.

use std::sync::Arc;

use super::issuer::{Issuer, quoted};
use super::login::{LoginFault, Why};
use super::record::{Record, Registration};
use super::site::Site;

/// Whether the entry permits a login at this authorization server. The error says why not, and what
/// to do where the change is right.
pub(super) fn check(site: &Site, issuer: &Issuer, record: &Record) -> Result<(), LoginFault> {
    let refuse = |fact| Err(LoginFault::new(&site.server, Why::Issuer(fact)));
    let new = quoted(&issuer.id);
    if let Some(own) = &site.auth.issuer {
        return match is_same(own, &issuer.id) {
            true => Ok(()),
            false => refuse(format!(
                "its authorization server is {new}, and `oauth_issuer` of its entry says {}; if the new one is right, set \
                 `oauth_issuer` to it, and the id and secret to those that it gave",
                quoted(own)
            )),
        };
    }
    let Some(client_id) = &site.auth.client_id else {
        return Ok(());
    };
    match bound_elsewhere(record, client_id, &issuer.id).next() {
        None => Ok(()),
        Some(old) => refuse(format!(
            "its authorization server was {} and is now {new}, and `oauth_client_id` belongs to the old one; if the new one is right, run \
             \"switchboard logout {}\", and set the id and secret that the new one gave",
            quoted(&old),
            site.server.for_shell()
        )),
    }
}

/// Remembers whom the entry's client id belongs to, before what proves it is sent there: who
/// refused a secret has seen it too.
pub(super) async fn bind(site: &Arc<Site>, issuer: &Issuer) -> Result<(), LoginFault> {
    let Some(client_id) = &site.auth.client_id else {
        return Ok(());
    };
    let fail = |fault| LoginFault::new(&site.server, Why::Vault(fault));
    let _lock = site.lock().await.map_err(fail)?;
    let mut record = site.recall().await.map_err(fail)?;
    check(site, issuer, &record)?;
    let bound = Registration::given(client_id);
    let old: Vec<String> = bound_elsewhere(&record, client_id, &issuer.id).collect();
    if old.is_empty() && record.registrations.get(&issuer.id) == Some(&bound) {
        return Ok(());
    }
    old.iter()
        .for_each(|old| drop(record.registrations.remove(old)));
    record.registrations.insert(issuer.id.clone(), bound);
    site.keep(&record).await.map_err(fail)
}

/// A person may leave out, or add, the last slash.
pub(super) fn is_same(written: &str, issuer: &str) -> bool {
    written.trim_end_matches('/') == issuer.trim_end_matches('/')
}

fn bound_elsewhere(record: &Record, client_id: &str, issuer: &str) -> impl Iterator<Item = String> {
    let others = record
        .registrations
        .iter()
        .filter(move |(known, who)| *known != issuer && who.client_id == client_id);
    others.map(|(known, _)| known.clone())
}
