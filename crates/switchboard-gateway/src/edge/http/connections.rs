//! The open connections of an edge: how many there are, and how many each client has.
//!
//! A connection has no client until its first request with a token. When all places are taken, the
//! oldest one without a client makes room for a new one, so that nobody without a token, and no
//! client with many connections, shuts out the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use switchboard::sync::lock;
use tokio::task::{AbortHandle, JoinSet};

use crate::principal::Principal;
use crate::refusal::RefusalReason;

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    limit: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last_number: u64,
    /// Those without a client, the oldest first.
    anonymous: BTreeMap<u64, AbortHandle>,
    of_clients: HashMap<Principal, usize>,
    /// The sum of `of_clients`.
    with_client: usize,
    has_warned: bool,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    connections: Arc<Connections>,
    number: u64,
    /// The client of its last token.
    client: Mutex<Option<Principal>>,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: Mutex::default(),
        })
    }

    /// Serves a connection. Dropped at once if there is no place and no other to end.
    pub(super) fn spawn<F>(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        serve: impl FnOnce(ConnectionPlace) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        // Locked until it is registered: it may have a client before.
        let mut open = lock(&self.open);
        if open.anonymous.len() + open.with_client >= self.limit {
            if !std::mem::replace(&mut open.has_warned, true) {
                tracing::warn!(
                    "all {} connections are in use: the oldest ones without a token are closed",
                    self.limit
                );
            }
            match open.anonymous.pop_first() {
                Some((_, oldest)) => oldest.abort(),
                None => return,
            }
        }
        open.last_number += 1;
        let number = open.last_number;
        let task = tasks.spawn(serve(ConnectionPlace {
            connections: self.clone(),
            number,
            client: Mutex::default(),
        }));
        open.anonymous.insert(number, task);
    }
}

impl ConnectionPlace {
    /// The only connection.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        let connections = Connections::new(1);
        lock(&connections.open).last_number = 1;
        Self {
            connections,
            number: 1,
            client: Mutex::default(),
        }
    }

    /// Counts the connection as one of this client from now on. A client has at most a quarter of all
    /// places, and some are left for connections that have no client yet.
    pub(super) fn set_client(&self, client: &Principal) -> Result<(), RefusalReason> {
        let Connections { limit, open } = &*self.connections;
        let mut open = lock(open);
        let mut own = lock(&self.client);
        if own.as_ref() == Some(client) {
            return Ok(());
        }
        let count = open.of_clients.get(client).copied().unwrap_or_default();
        let is_full = own.is_none() && open.with_client >= limit - limit / 8;
        if count >= (limit / 4).max(1) || is_full {
            return Err(RefusalReason::TooManyConnections);
        }
        match own.replace(client.clone()) {
            Some(before) => open.remove(&before),
            None => drop(open.anonymous.remove(&self.number)),
        }
        *open.of_clients.entry(client.clone()).or_default() += 1;
        open.with_client += 1;
        Ok(())
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = lock(&self.connections.open);
        match lock(&self.client).take() {
            Some(client) => open.remove(&client),
            None => drop(open.anonymous.remove(&self.number)),
        }
    }
}

impl OpenConnections {
    fn remove(&mut self, client: &Principal) {
        self.with_client -= 1;
        if let Some(count) = self.of_clients.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                self.of_clients.remove(client);
            }
        }
    }
}
