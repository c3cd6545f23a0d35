//! All servers together. Nothing below this module knows two servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, CallError};
use crate::caller::{Caller, Offers};
use crate::catalog::Catalog;
use crate::config::{Config, ConfigErrors, Environment};
use crate::event::Events;
use crate::launch::{Keeping, Launcher};
use crate::name::ServerName;
use crate::result::CallResult;
use crate::server::ServerHandle;
use crate::store::Store;
use crate::wire::RawJson;

/// What a host is made of.
#[derive(Debug)]
pub struct HostBuilder {
    /// What the files say.
    pub config: Config,
    /// What references expand to.
    pub environment: Environment,
    /// What is remembered. A [`crate::store::MemoryStore`] forgets at the end.
    pub store: Arc<dyn Store>,
    /// Starts processes.
    pub launcher: Launcher,
    /// Where servers' logs go.
    pub log_folder: Option<PathBuf>,
    /// What legacy sessions advertise.
    pub offers: Offers,
    /// The folders a legacy server may ask for.
    pub roots: Option<Vec<String>>,
    /// Start only these servers; the others stay idle until used. `None` starts every eager one.
    pub only: Option<Vec<ServerName>>,
}

/// All servers behind one gate.
#[derive(Debug, Clone)]
pub struct Host {}

impl HostBuilder {
    /// Starts the host. Servers come up in parallel behind it; nothing waits for them here.
    pub async fn start(self) -> Result<Host, ConfigErrors> {
        todo!()
    }
}

impl Host {
    /// What is on offer now.
    pub fn catalog(&self) -> Arc<Catalog> {
        todo!()
    }

    /// Every configured server, in config order.
    pub fn servers(&self) -> &[ServerHandle] {
        todo!()
    }

    /// One server.
    pub fn server(&self, name: &str) -> Option<&ServerHandle> {
        let _ = name;
        todo!()
    }

    /// Waits until every server is settled, or for `wait`. True if all are.
    pub async fn settled(&self, wait: Duration) -> bool {
        let _ = wait;
        todo!()
    }

    /// Makes one call, through the gate.
    pub async fn call(&self, call: Call) -> Result<CallResult, CallError> {
        let _ = call;
        todo!()
    }

    /// Reads a resource of a server: its result, byte for byte.
    pub async fn read(&self, server: &ServerName, uri: &str, caller: &Arc<dyn Caller>) -> Result<RawJson, CallError> {
        let _ = (server, uri, caller);
        todo!()
    }

    /// Gets a prompt of a server: its result, byte for byte.
    pub async fn prompt(
        &self,
        server: &ServerName,
        name: &str,
        arguments: &RawJson,
        caller: &Arc<dyn Caller>,
    ) -> Result<RawJson, CallError> {
        let _ = (server, name, arguments, caller);
        todo!()
    }

    /// What happens from now on.
    pub fn events(&self) -> Events {
        todo!()
    }

    /// How children are kept from outliving us.
    pub fn keeping(&self) -> Keeping {
        todo!()
    }

    /// Stops every server, in parallel, within the stop timing.
    pub async fn stop(&self) {
        todo!()
    }
}
