//! Finds the tool of a call: which servers to start for its name, and the error if there is none.

use std::sync::Arc;

use switchboard::Host;
use switchboard::call::CallError;
use switchboard::catalog::{
    Catalog, PossibleOwners, Tool, Unresolved, likely_owner, possible_owners,
};
use switchboard::name::ServerName;
use tokio::task::JoinSet;

use crate::arguments::Options;
use crate::command::{report_unavailable_servers, wait_until_ready};
use crate::failure::{Code, Failure};
use crate::progress::WaitLimit;
use crate::setup::Setup;
use crate::{cached_catalog, hints, progress};

/// The only server to start, if the name determines it.
pub(in crate::command) fn server_to_start(
    setup: &Setup,
    tool: &str,
) -> Result<Option<ServerName>, Failure> {
    let config = &setup.config;
    let owners = possible_owners(config, tool);
    let has_none = matches!(owners, PossibleOwners::AnyOf(able) if able.is_empty());
    if let (Some((server, _)), true) = (tool.split_once('/'), has_none) {
        setup.entry(server)?;
    }
    let cached = || cached_catalog::catalog(config, &*setup.store);
    match likely_owner(config, cached, tool) {
        Some(server) => Ok(Some(
            setup.trusted_entry(server.name.as_str())?.name.clone(),
        )),
        None => Ok(None),
    }
}

/// The servers to start for a tool of this server: `server/tool` needs no other, an exposed name
/// may depend on several.
pub(in crate::command) fn servers_to_start(
    setup: &Setup,
    tool: &str,
    server: Option<&ServerName>,
) -> Option<Vec<ServerName>> {
    let server = server?;
    Some(if is_tool_of(tool, server) {
        vec![server.clone()]
    } else {
        setup.needed_to_name(server)
    })
}

/// Whether a name is `server/tool` of this server.
fn is_tool_of(tool: &str, server: &ServerName) -> bool {
    tool.strip_prefix(server.as_str())
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Prefixes a tool's own name with the only server.
pub(super) fn qualify_with_server(setup: &Setup, name: String) -> String {
    match setup.config.servers.keys().next() {
        Some(server) if !name.starts_with(&format!("{server}/")) && !name.starts_with("mcp__") => {
            format!("{server}/{name}")
        }
        _ => name,
    }
}

/// An error if the cached catalogs have no tool of this name but a similar one: then no server
/// needs to start.
pub(super) fn misspelled_tool(setup: &Setup, name: &str) -> Option<Failure> {
    let named = match possible_owners(&setup.config, name) {
        PossibleOwners::Named(server) => Some(&server.name),
        PossibleOwners::AnyOf(_) => None,
    };
    if named.is_none() && name.contains('/') {
        // The server is not configured, which is an error of its own.
        return None;
    }
    let catalog = cached_catalog::catalog_of_all(setup, named)?;
    let nearest = suggested_names(&catalog, name, catalog.resolve(name).err()?)?;
    let look_again =
        hints::command(&[&["tools"], named.map(ServerName::as_str).as_slice()].concat());
    let message = format!("no tool {name:?} in the cached catalogs");
    Some(Failure::new(Code::Usage, message).hint(format!(
        "did you mean {}? {look_again} lists the current tools",
        nearest.join(", ")
    )))
}

/// Finds the tool as soon as its server is ready, without waiting for other servers.
pub(in crate::command) async fn find_tool(
    host: &Host,
    name: &str,
    server: Option<&ServerName>,
    options: &Options,
) -> Result<Arc<Tool>, Failure> {
    let limit = WaitLimit::start(options);
    if let Some(handle) = server.and_then(|server| host.server(server.as_str())) {
        if let Ok(tool) = host.catalog().resolve(name) {
            // Known now or from the cache: the call itself waits for the server.
            return Ok(tool.clone());
        }
        let wait = options
            .wait
            .unwrap_or_else(|| handle.config.longest_connect());
        progress::with_spinner(
            format!("connecting {}", handle.config.name),
            handle.ready(wait),
        )
        .await?;
    }
    if let Some(tool) = wait_for_tool(host, name, limit).await {
        return Ok(tool);
    }
    if !server.is_some_and(|server| is_tool_of(name, server)) {
        // The cached catalog was wrong, or a lazy server has none: start every server that may have
        // the tool.
        start_candidates(host, name, limit).await;
        if let Some(tool) = wait_for_tool(host, name, limit).await {
            return Ok(tool);
        }
    }
    progress::clear();
    if server.is_none() {
        report_unavailable_servers(host);
    }
    Err(unknown_tool(host, name))
}

/// The error for an unknown tool. If the name is a server's, it says so; for `server/tool` it
/// suggests similar pairs.
fn unknown_tool(host: &Host, name: &str) -> Failure {
    let catalog = host.catalog();
    if let Some(handle) = host.server(name.trim_end_matches('/')) {
        let server = &handle.config.name;
        return Failure::new(
            Code::Usage,
            format!("\"{server}\" is a server; name one of its tools as {server}/TOOL"),
        )
        .server(server)
        .hint(format!(
            "{} lists them",
            hints::command(&["tools", server.as_str()])
        ));
    }
    let mut why = catalog.resolve(name).err().unwrap_or(Unresolved::Unknown {
        nearest: Vec::new(),
    });
    if let Some(pairs) = suggested_names(&catalog, name, why.clone()) {
        why = Unresolved::Unknown { nearest: pairs };
    }
    CallError::Unresolved {
        name: name.to_owned(),
        why,
    }
    .into()
}

/// Similar names, as `server/tool` if that form was given; `None` if there are none.
fn suggested_names(catalog: &Catalog, name: &str, why: Unresolved) -> Option<Vec<String>> {
    let Unresolved::Unknown { nearest } = why else {
        return None;
    };
    let pair = |near: &String| match catalog.resolve(near) {
        Ok(tool) if name.contains('/') => format!(
            "{}/{}",
            tool.id.server,
            tool.id.tool.untrusted().for_terminal_line()
        ),
        _ => near.clone(),
    };
    let pairs: Vec<_> = nearest.iter().map(pair).collect();
    (!pairs.is_empty()).then_some(pairs)
}

/// Waits until a tool of this name is listed, or every server is settled.
async fn wait_for_tool(host: &Host, name: &str, limit: WaitLimit) -> Option<Arc<Tool>> {
    let mut events = host.events();
    let settled = progress::wait_until_settled(host, limit);
    tokio::pin!(settled);
    loop {
        if let Ok(tool) = host.catalog().resolve(name) {
            return Some(tool.clone());
        }
        tokio::select! {
            _ = &mut settled => return host.catalog().resolve(name).ok().cloned(),
            _ = events.next() => {}
        }
    }
}

async fn start_candidates(host: &Host, name: &str, limit: WaitLimit) {
    let mut starting = JoinSet::new();
    for handle in host.servers_for(name) {
        starting.spawn(async move { wait_until_ready(&handle, limit).await.is_ok() });
    }
    while starting.join_next().await.is_some() {}
}
