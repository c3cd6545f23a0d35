//! What one selection of servers offers its clients, serialised once for each change of the host's
//! catalog.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use switchboard::catalog::Catalog;
use switchboard::catalog::search::ToolSearch;
use switchboard::name::ToolId;
use switchboard::revision::Era;
use switchboard::{Host, RawJson, ServerName, ToolName};

use crate::listing::{self, ListingSettings, search};
use crate::params::{RequestParams, SERVER_INFO};
use crate::reply;
use crate::settings::ServerSelection;

/// How long a modern client may use a list without asking again. Changes are reported before.
const LIST_TTL_MS: u32 = 60_000;

/// The kinds of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The list that a method asks for.
    pub(crate) fn of_method(method: &str) -> Option<Self> {
        match method {
            "tools/list" => Some(Self::Tools),
            "prompts/list" => Some(Self::Prompts),
            "resources/list" => Some(Self::Resources),
            "resources/templates/list" => Some(Self::Templates),
            _ => None,
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

/// What clients of one selection are offered.
#[derive(Debug)]
pub(crate) struct ClientCatalog {
    /// Of the host's catalog.
    generation: u64,
    /// The servers that are left out, because they are lost.
    unlisted: Arc<HashSet<ServerName>>,
    /// By kind: the result for a legacy and for a modern client.
    lists: [[Bytes; 2]; 4],
    /// The list of tools of a client that is offered the search, likewise.
    search_lists: [Bytes; 2],
    search_index: OnceLock<ToolSearch>,
    /// The server and its own name, by the name that clients see.
    prompts: HashMap<String, (ServerName, String)>,
    /// The server of each listed address: the first in config order.
    resources: HashMap<String, ServerName>,
    host_catalog: Arc<Catalog>,
}

impl ClientCatalog {
    pub(crate) fn build(
        host: &Host,
        catalog: &Arc<Catalog>,
        selection: &ServerSelection,
        unlisted: Arc<HashSet<ServerName>>,
        settings: ListingSettings,
    ) -> Self {
        let is_listed =
            |server: &ServerName| selection.includes(server) && !unlisted.contains(server);
        let is_one = matches!(selection, ServerSelection::One(_));
        let mut tools = Vec::new();
        // A modern client of a single server gets the definitions unchanged.
        let mut unrepaired = Vec::new();
        for tool in catalog
            .tools()
            .iter()
            .filter(|tool| is_listed(&tool.id.server))
        {
            let repaired = match settings.schemas_as_is {
                true => None,
                false => listing::repaired_definition(tool),
            };
            let definition = repaired.as_ref().unwrap_or(&tool.definition.raw);
            let strict_name = match settings.schemas_as_is {
                true => None,
                false => tool.strict_name(),
            };
            tools.push(match is_one {
                true => definition.as_bytes().clone(),
                false => {
                    let name = strict_name.as_deref().unwrap_or(tool.exposed.as_str());
                    renamed(definition, name)
                }
            });
            unrepaired.extend(is_one.then(|| tool.definition.raw.as_bytes().clone()));
        }
        let (mut prompt_items, mut prompts) = (Vec::new(), HashMap::new());
        let (mut resource_items, mut resources) = (Vec::new(), HashMap::new());
        let (mut template_items, mut templates) = (Vec::new(), HashSet::new());
        let offerings = catalog.offerings().iter();
        for (server, offered) in offerings.filter(|(server, _)| selection.includes(server)) {
            for prompt in &offered.prompts {
                let name = match is_one {
                    true => Some(prompt.name.clone()),
                    false => exposed_prompt(host, server, &prompt.name),
                };
                // A prompt without a name, or with the name of another, cannot be requested.
                if let Some(name) = name.filter(|name| !prompts.contains_key(name)) {
                    if is_listed(server) {
                        prompt_items.push(match is_one {
                            true => prompt.raw.as_bytes().clone(),
                            false => renamed(&prompt.raw, &name),
                        });
                    }
                    // Of a lost server too: who asks for it reads that the server is down.
                    prompts.insert(name, (server.clone(), prompt.name.clone()));
                }
            }
            if !is_listed(server) {
                continue;
            }
            for resource in &offered.resources {
                if !resources.contains_key(&resource.uri) {
                    resources.insert(resource.uri.clone(), server.clone());
                    resource_items.push(resource.raw.as_bytes().clone());
                }
            }
            for template in &offered.templates {
                if templates.insert(template.uri_template.clone()) {
                    template_items.push(template.raw.as_bytes().clone());
                }
            }
        }
        let items = [tools, prompt_items, resource_items, template_items];
        let mut lists: [[Bytes; 2]; 4] = Default::default();
        for kind in ListKind::ALL {
            let write = |era| write_list(kind, &items[kind as usize], era);
            lists[kind as usize] = [write(Era::Legacy), write(Era::Modern)];
        }
        if is_one {
            lists[ListKind::Tools as usize][1] =
                write_list(ListKind::Tools, &unrepaired, Era::Modern);
        }
        let found = search::definitions(catalog).map(|definition| definition.to_string().into());
        let write = |era| write_list(ListKind::Tools, &found, era);
        let search_lists = [write(Era::Legacy), write(Era::Modern)];
        Self {
            generation: catalog.generation,
            unlisted,
            lists,
            search_lists,
            search_index: OnceLock::new(),
            prompts,
            resources,
            host_catalog: catalog.clone(),
        }
    }

    /// Whether it still shows the host's catalog without these servers.
    pub(crate) fn is_current(
        &self,
        catalog: &Catalog,
        unlisted: &Arc<HashSet<ServerName>>,
    ) -> bool {
        self.generation == catalog.generation && Arc::ptr_eq(&self.unlisted, unlisted)
    }

    /// The result of a list request: always one page, since many clients ask for the first alone.
    pub(crate) fn list(&self, kind: ListKind, era: Era) -> &Bytes {
        &self.lists[kind as usize][usize::from(era == Era::Modern)]
    }

    /// The list of tools of a client that is offered the search.
    pub(crate) fn search_list(&self, era: Era) -> &Bytes {
        &self.search_lists[usize::from(era == Era::Modern)]
    }

    /// The result of a `search_tools`.
    pub(crate) fn search(&self, params: &RequestParams) -> RawJson {
        let catalog = &self.host_catalog;
        let index = self.search_index.get_or_init(|| search::index(catalog));
        search::run(catalog, index, params)
    }

    /// The server that has this prompt, and its own name for it.
    pub(crate) fn prompt(&self, name: &str) -> Option<&(ServerName, String)> {
        self.prompts.get(name)
    }

    /// The server that has this resource, by its lists: the first in config order.
    pub(crate) fn server_of_resource(&self, uri: &str) -> Option<ServerName> {
        let listed = self.resources.get(uri).cloned();
        listed.or_else(|| {
            self.host_catalog
                .servers_of_resource(uri)
                .into_iter()
                .next()
        })
    }
}

/// The name that clients see of a prompt, in the style of tools.
fn exposed_prompt(host: &Host, server: &ServerName, name: &str) -> Option<String> {
    let config = host.server(server.as_str())?.config;
    let style = config.dialect.profile().naming.unwrap_or(host.naming());
    let id = ToolId {
        server: server.clone(),
        tool: ToolName::new(name),
    };
    style.plain(&id).ok()
}

/// A definition under another name; the rest as it came.
fn renamed(definition: &RawJson, name: &str) -> Bytes {
    let name = Value::from(name).to_string();
    let members = definition.members().unwrap_or_default();
    let text = members.iter().map(|(key, value)| match key.as_str() {
        "name" => ("name", name.as_bytes()),
        key => (key, &value.as_bytes()[..]),
    });
    reply::object(text).into()
}

fn write_list(kind: ListKind, items: &[Bytes], era: Era) -> Bytes {
    let length: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut out = Vec::with_capacity(length + 256);
    out.push(b'{');
    if era == Era::Modern {
        let info = crate::server_info();
        let head = format!(
            r#""resultType":"complete","ttlMs":{LIST_TTL_MS},"cacheScope":"private","_meta":{{"{SERVER_INFO}":{info}}},"#
        );
        out.extend_from_slice(head.as_bytes());
    }
    out.extend_from_slice(format!(r#""{}":["#, kind.field()).as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.extend_from_slice(b"]}");
    out.into()
}
