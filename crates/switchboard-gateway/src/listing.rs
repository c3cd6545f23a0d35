//! The list of tools for clients: schemas in a form that strict clients accept, and a search instead
//! of a long list.

use std::borrow::Cow;

use switchboard::RawJson;
use switchboard::catalog::{Catalog, Tool};
use switchboard::name::ToolId;
use switchboard::vendor::{ListingRepair, repair_definition};

use crate::reply;

pub(crate) mod search;

/// How tools are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListingSettings {
    /// Lists schemas and names unchanged, also those that strict clients reject.
    pub schemas_as_is: bool,
    /// Which tools are listed.
    pub tools: ToolListing,
}

/// Which tools a client's list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolListing {
    /// All of them.
    #[default]
    All,
    /// `search_tools` and `call_tool`, through which all others are found and called.
    Search,
    /// The search if the list is long and the client has no search of its own.
    Auto,
}

/// A change of a listed definition, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRepair {
    /// The tool.
    pub tool: ToolId,
    /// Where and what.
    pub repair: ListingRepair,
}

/// Every change that the list of these tools needs for strict clients.
pub fn repairs(catalog: &Catalog) -> Vec<ToolRepair> {
    let of_tool = |tool: &std::sync::Arc<Tool>| {
        let id = tool.id.clone();
        let name = tool.strict_name().map(|_| ListingRepair {
            pointer: "/name".to_owned(),
            change: "too long or with other characters than A-Z a-z 0-9 _ -: shortened, with a hash",
        });
        let repaired = repaired(tool).map(|repaired| repaired.repairs);
        let repairs = name.into_iter().chain(repaired.into_iter().flatten());
        repairs.map(move |repair| ToolRepair {
            tool: id.clone(),
            repair,
        })
    };
    catalog.tools().iter().flat_map(of_tool).collect()
}

/// The definition of a tool as strict clients accept it, under its own name; `None` if it needs no
/// change.
pub(crate) fn repaired_definition(tool: &Tool) -> Option<RawJson> {
    let repaired = repaired(tool)?;
    let mut written: Vec<(Cow<'_, str>, String)> = Vec::new();
    for (key, value) in tool.definition.raw.members().unwrap_or_default() {
        let value = match &*key {
            "inputSchema" => repaired.input_schema.clone(),
            "outputSchema" => match &repaired.output_schema {
                Some(None) => continue,
                changed => changed.clone().flatten(),
            },
            "description" => repaired
                .description
                .as_deref()
                .map(|text| serde_json::Value::from(text).to_string()),
            _ => None,
        }
        .unwrap_or_else(|| value.as_str().to_owned());
        written.push((key, value));
    }
    let object = reply::object(
        written
            .iter()
            .map(|(key, value)| (&**key, value.as_bytes())),
    );
    RawJson::parse(object).ok()
}

fn repaired(tool: &Tool) -> Option<switchboard::vendor::RepairedDefinition> {
    let definition = &tool.definition;
    // Without the characters that a person cannot see.
    let description = definition.description.as_ref();
    let description = description.map(|text| text.for_model().0);
    repair_definition(
        description.as_deref(),
        &definition.input_schema,
        definition.output_schema.as_ref(),
    )
}
