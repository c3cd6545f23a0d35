//! What one selection of servers offers its clients, serialised once for each change of the host's
//! catalog.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use switchboard::catalog::{Catalog, Offerings, PromptDefinition, Tool};
use switchboard::revision::Era;
use switchboard::{Host, RawJson, ServerName};

use crate::listing::search::{self, ListedToolIndex};
use crate::listing::{self, ListingSettings};
use crate::params::{RequestParams, SERVER_INFO};
use crate::prompt_names::PromptNames;
use crate::reply;
use crate::settings::ServerSelection;

/// How long a modern client may use a list without asking again. Clients that listen are notified of
/// changes at once.
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
    /// The generation of the host's catalog.
    generation: u64,
    /// The servers that are left out, because they are lost.
    unlisted: Arc<HashSet<ServerName>>,
    /// By kind: the result for a legacy and for a modern client.
    lists: [[Bytes; 2]; 4],
    /// The same for the list of tools of a client that is offered the search.
    search_lists: [Bytes; 2],
    search_index: OnceLock<ListedToolIndex>,
    /// By the name that clients see: the server, and its own name for the prompt.
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
        let is_one = matches!(selection, ServerSelection::One(_));
        let mut items = ListItems::default();
        for tool in catalog.tools() {
            if selection.includes(&tool.id.server) && !unlisted.contains(&tool.id.server) {
                items.add_tool(tool, is_one, settings.schemas_as_is);
            }
        }
        let mut prompt_names = PromptNames::new(host);
        let offerings = catalog.offerings().iter();
        for (server, offered) in offerings.filter(|(server, _)| selection.includes(server)) {
            let is_listed = !unlisted.contains(server);
            for prompt in &offered.prompts {
                let name = match is_one {
                    true => Some(prompt.name.clone()),
                    false => prompt_names.assign(server, &prompt.name).name,
                };
                items.add_prompt(server, prompt, name, is_listed);
            }
            if is_listed {
                items.add_resources(server, offered);
            }
        }
        let both_eras = |kind, of_kind: &[Bytes]| {
            [Era::Legacy, Era::Modern].map(|era| write_list(kind, of_kind, era))
        };
        let lists = ListKind::ALL.map(|kind| both_eras(kind, &items.by_kind[kind as usize]));
        let listed = listed_tools(catalog, &unlisted);
        let search_tools = search::definitions(listed).map(|tool| tool.to_string().into());
        Self {
            generation: catalog.generation,
            unlisted,
            lists,
            search_lists: both_eras(ListKind::Tools, &search_tools),
            search_index: OnceLock::new(),
            prompts: items.prompts,
            resources: items.resources,
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
        let index = self
            .search_index
            .get_or_init(|| ListedToolIndex::new(listed_tools(catalog, &self.unlisted)));
        search::run(catalog, index, params)
    }

    /// The server that has this prompt, and its own name for it.
    pub(crate) fn prompt(&self, name: &str) -> Option<&(ServerName, String)> {
        self.prompts.get(name)
    }

    /// The server that lists this resource: the first in config order.
    pub(crate) fn server_that_lists(&self, uri: &str) -> Option<&ServerName> {
        self.resources.get(uri)
    }

    /// The server that has a template for this resource, or is lost and listed it: the first in config
    /// order.
    pub(crate) fn server_with_template(&self, uri: &str) -> Option<ServerName> {
        let servers = self.host_catalog.servers_of_resource(uri);
        servers.into_iter().next()
    }
}

/// The tools of all servers but those that are lost.
fn listed_tools<'a>(
    catalog: &'a Catalog,
    unlisted: &HashSet<ServerName>,
) -> impl Iterator<Item = &'a Arc<Tool>> {
    let tools = catalog.tools().iter();
    tools.filter(|tool| !unlisted.contains(&tool.id.server))
}

/// The items of all lists while they are collected.
#[derive(Default)]
struct ListItems {
    by_kind: [Vec<Bytes>; 4],
    prompts: HashMap<String, (ServerName, String)>,
    resources: HashMap<String, ServerName>,
    templates: HashSet<String>,
}

impl ListItems {
    fn add_tool(&mut self, tool: &Tool, is_one: bool, schemas_as_is: bool) {
        let original = &tool.definition.raw;
        let (repaired, strict_name) = match schemas_as_is {
            true => (None, None),
            false => (listing::repaired_definition(tool), tool.strict_name()),
        };
        let definition = repaired.as_ref().unwrap_or(original);
        let item = if is_one {
            definition.as_bytes().clone()
        } else {
            renamed(
                definition,
                strict_name.as_deref().unwrap_or(tool.exposed.as_str()),
            )
        };
        self.by_kind[ListKind::Tools as usize].push(item);
    }

    /// Adds a prompt under the name that clients see. Without a name, or with the name of another
    /// prompt, it cannot be requested.
    fn add_prompt(
        &mut self,
        server: &ServerName,
        prompt: &PromptDefinition,
        name: Option<String>,
        is_listed: bool,
    ) {
        let Some(name) = name.filter(|name| !self.prompts.contains_key(name)) else {
            return;
        };
        if is_listed {
            self.by_kind[ListKind::Prompts as usize].push(match name == prompt.name {
                true => prompt.raw.as_bytes().clone(),
                false => renamed(&prompt.raw, &name),
            });
        }
        // A lost server's prompts can be requested, too: the error says that the server is down.
        self.prompts
            .insert(name, (server.clone(), prompt.name.clone()));
    }

    fn add_resources(&mut self, server: &ServerName, offered: &Offerings) {
        for resource in &offered.resources {
            if !self.resources.contains_key(&resource.uri) {
                self.resources.insert(resource.uri.clone(), server.clone());
                self.by_kind[ListKind::Resources as usize].push(resource.raw.as_bytes().clone());
            }
        }
        for template in &offered.templates {
            if self.templates.insert(template.uri_template.clone()) {
                self.by_kind[ListKind::Templates as usize].push(template.raw.as_bytes().clone());
            }
        }
    }
}

/// A definition under another name; the rest as it came.
fn renamed(definition: &RawJson, name: &str) -> Bytes {
    let name = Value::from(name).to_string();
    let members = definition.members().unwrap_or_default();
    let text = members.iter().map(|(key, value)| match &**key {
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
