//! Resources that several servers list under one URI: the first server in config order answers.

use std::collections::HashMap;

use switchboard::ServerName;
use switchboard::catalog::Catalog;
use switchboard::untrusted::Untrusted;

/// A URI, or a URI template, that several servers list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceClash {
    /// As the servers list it.
    pub uri: Untrusted,
    /// In config order: the first one answers, the others only under an address of their own.
    pub servers: Vec<ServerName>,
}

/// Every clash, in config order.
pub fn resource_clashes(catalog: &Catalog) -> Vec<ResourceClash> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut listed: Vec<(&str, Vec<&ServerName>)> = Vec::new();
    for (server, offered) in catalog.offerings() {
        let resources = offered.resources.iter().map(|resource| &resource.uri);
        let templates = offered.templates.iter();
        let templates = templates.map(|template| &template.uri_template);
        for uri in resources.chain(templates) {
            let place = *places.entry(uri).or_insert(listed.len());
            if place == listed.len() {
                listed.push((uri, Vec::new()));
            }
            let servers = &mut listed[place].1;
            // A server may list one URI twice.
            if servers.last() != Some(&server) {
                servers.push(server);
            }
        }
    }
    let clashes = listed.into_iter().filter(|(_, servers)| servers.len() > 1);
    clashes
        .map(|(uri, servers)| ResourceClash {
            uri: Untrusted::new(uri),
            servers: servers.into_iter().cloned().collect(),
        })
        .collect()
}
