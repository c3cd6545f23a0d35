//! Definitions adapted to what a model vendor's API accepts, and the model's calls mapped back to
//! the server's names.
//!
//! A vendor refuses a whole request for one definition that it does not accept, so a tool that
//! cannot be adapted is left out with the reason. An adapted schema may allow more than the
//! server's, never less: arguments are checked against the server's own schema before a call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use crate::catalog::Vendor;
use crate::catalog::{Tool, Withheld};
use crate::untrusted::Untrusted;
use crate::wire::{NotJson, RawJson};
use json::Json;

pub use strict::{ListingRepair, RepairedDefinition, repair_definition};

mod anthropic;
mod gemini;
mod json;
mod local;
mod openai;
mod strict;
mod walk;

#[cfg(test)]
mod tests;

/// The tools of a catalog as a vendor's API accepts them. A model's call is mapped back by
/// [`Toolset::to_server_call`].
#[derive(Debug)]
pub struct Toolset {
    vendor: Vendor,
    tools: Vec<AdaptedTool>,
    by_name: HashMap<String, usize>,
    withheld: Vec<Withheld>,
}

/// One tool as a vendor's API accepts it.
#[derive(Debug)]
pub struct AdaptedTool {
    /// The name that the model sees: the exposed one if the vendor accepts it.
    pub name: String,
    /// The tool, whose own definition its calls are validated against.
    pub tool: Arc<Tool>,
    /// The definition that the vendor accepts.
    definition: Json,
    /// Renamed arguments: (name for the model, the server's name).
    renamed: Vec<(String, String)>,
}

/// A schema and a description while they are adapted.
struct ToolDraft {
    description: String,
    schema: Json,
    renamed: Vec<(String, String)>,
}

impl Toolset {
    /// Adapts each of these tools; those that cannot be are withheld.
    pub fn new<'a>(vendor: Vendor, tools: impl IntoIterator<Item = &'a Arc<Tool>>) -> Self {
        let mut set = Self {
            vendor,
            tools: Vec::new(),
            by_name: HashMap::new(),
            withheld: Vec::new(),
        };
        let tools: Vec<_> = tools.into_iter().collect();
        let exposed = tools.iter().map(|tool| tool.exposed.as_str());
        let mut taken: HashSet<String> = exposed
            .filter(|name| vendor.accepts_name(name))
            .map(str::to_owned)
            .collect();
        for tool in tools {
            let named = match vendor.projected_name(tool) {
                None => Ok(tool.exposed.to_string()),
                Some(name) => Some(name).filter(|name| taken.insert(name.clone())).ok_or_else(|| {
                    "the vendor does not accept its name, and the adapted name belongs to another tool".to_owned()
                }),
            };
            match named.and_then(|name| adapt(vendor, tool, name)) {
                Ok(adapted) => {
                    set.by_name.insert(adapted.name.clone(), set.tools.len());
                    set.tools.push(adapted);
                }
                Err(reason) => {
                    let (server, tool) = (tool.id.server.clone(), tool.id.tool.clone());
                    set.withheld.push(Withheld {
                        server,
                        tool,
                        reason,
                    });
                }
            }
        }
        set
    }

    /// The tools that could be adapted.
    pub fn tools(&self) -> &[AdaptedTool] {
        &self.tools
    }

    /// The tool that the model sees under this name.
    pub fn get(&self, name: &str) -> Option<&AdaptedTool> {
        let index = self.by_name.get(name)?;
        Some(&self.tools[*index])
    }

    /// The tools that could not be adapted, with reasons.
    pub fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// The `tools` array of a request, as JSON; empty if there is no tool.
    pub fn to_json(&self) -> String {
        let tools: Vec<&Json> = self.tools.iter().map(|tool| &tool.definition).collect();
        let text = |value: &Vec<&Json>| serde_json::to_string(value).expect("JSON serialises");
        match self.vendor {
            // An empty list of declarations is refused.
            Vendor::Gemini if tools.is_empty() => "[]".to_owned(),
            Vendor::Gemini => format!("[{{\"functionDeclarations\":{}}}]", text(&tools)),
            _ => text(&tools),
        }
    }

    /// Maps a model's call back: the name to call, and the arguments with the server's names.
    /// `None` if there is no such tool.
    pub fn to_server_call(
        &self,
        name: &str,
        arguments: &RawJson,
    ) -> Option<Result<(String, RawJson), NotJson>> {
        let adapted = self.get(name)?;
        Some(
            adapted
                .own_arguments(arguments)
                .map(|arguments| (adapted.tool.exposed.to_string(), arguments)),
        )
    }
}

impl AdaptedTool {
    /// The description as the vendor accepts it, without hidden characters.
    pub fn description(&self) -> String {
        let text = self.member("description").and_then(Json::as_str);
        let text = Untrusted::new(text.unwrap_or_default());
        text.for_model().0.into_owned()
    }

    /// The schema of the arguments, as the vendor accepts it.
    pub fn schema(&self) -> RawJson {
        let fields = ["input_schema", "parameters", "parametersJsonSchema"];
        match fields.into_iter().find_map(|field| self.member(field)) {
            Some(schema) => RawJson::from_value(schema),
            None => RawJson::from(json!({"type": "object", "properties": {}})),
        }
    }

    fn member(&self, name: &str) -> Option<&Json> {
        let members = self.definition.members()?;
        let function = members.get("function").and_then(Json::members);
        function.unwrap_or(members).get(name)
    }

    fn own_arguments(&self, arguments: &RawJson) -> Result<RawJson, NotJson> {
        if self.renamed.is_empty() {
            return Ok(arguments.clone());
        }
        let given: IndexMap<String, &RawValue> = arguments.decode()?;
        let own = |name: String| match self.renamed.iter().find(|(here, _)| *here == name) {
            Some((_, there)) => there.clone(),
            None => name,
        };
        let own: IndexMap<String, &RawValue> = given
            .into_iter()
            .map(|(name, value)| (own(name), value))
            .collect();
        Ok(RawJson::from_value(&own))
    }
}

/// A schema in the few keywords that every vendor and local server accepts, for a tool whose own
/// schema was refused. Only limits are lost: arguments are still validated against the server's own
/// schema. An unreadable schema becomes an object without properties.
pub fn loosened_schema(schema: &RawJson) -> RawJson {
    let safe = schema.decode::<Json>().ok();
    let safe = safe.and_then(|schema| local::grammar_safe(&schema).ok());
    let mut members = match safe {
        Some(Json::Object(members)) => members,
        _ => IndexMap::new(),
    };
    for keyword in ["anyOf", "oneOf", "allOf", "enum"] {
        members.shift_remove(keyword);
    }
    members.insert("type".to_owned(), Json::Text("object".to_owned()));
    if !matches!(members.get("properties"), Some(Json::Object(_))) {
        members.insert("properties".to_owned(), Json::Object(IndexMap::new()));
    }
    RawJson::from_value(&Json::Object(members))
}

impl Tool {
    /// The schema that a model is shown: the server's own, or as the dialect of its file cleans it.
    pub fn shown_schema(&self) -> RawJson {
        let schema = &self.definition.input_schema;
        if !self.server.dialect.profile().gemini_schemas {
            return schema.clone();
        }
        schema
            .decode::<Json>()
            .map(gemini::cleaned)
            .map_or(schema.clone(), |clean| RawJson::from_value(&clean))
    }
}

impl Tool {
    /// The definition as the server sent it, with the [shown](Self::shown_schema) schema.
    pub fn shown_definition(&self) -> RawJson {
        let raw = &self.definition.raw;
        if !self.server.dialect.profile().gemini_schemas {
            return raw.clone();
        }
        let schema = self.shown_schema();
        let (Ok(mut fields), Ok(schema)) = (
            raw.decode::<IndexMap<String, &RawValue>>(),
            schema.decode::<&RawValue>(),
        ) else {
            return raw.clone();
        };
        fields.insert("inputSchema".to_owned(), schema);
        RawJson::from_value(&fields)
    }
}

fn adapt(vendor: Vendor, tool: &Arc<Tool>, name: String) -> Result<AdaptedTool, String> {
    let schema = tool
        .definition
        .input_schema
        .decode()
        .map_err(|error| format!("/inputSchema: not usable: {error}"))?;
    let description = tool
        .definition
        .description
        .as_ref()
        .map(|text| text.raw().to_owned())
        .unwrap_or_default();
    let mut draft = ToolDraft {
        description,
        schema,
        renamed: Vec::new(),
    };
    match vendor {
        Vendor::Gemini => gemini::adapt(&mut draft)?,
        Vendor::OpenAi | Vendor::OpenAiChat => openai::adapt(&mut draft)?,
        Vendor::Local => local::adapt(&mut draft)?,
        Vendor::Anthropic => anthropic::adapt(&mut draft)?,
    }
    let ToolDraft {
        description,
        schema,
        renamed,
    } = draft;
    let text = |value: Value| Json::from(value);
    let mut fields: Vec<(&str, Json)> = Vec::new();
    if vendor == Vendor::OpenAi {
        fields.push(("type", text(json!("function"))));
    }
    fields.push(("name", text(json!(name))));
    if !description.is_empty() {
        fields.push(("description", text(json!(description))));
    }
    match vendor {
        // A function without parameters has no schema.
        Vendor::Gemini if !walk::has_properties(&schema) => {}
        Vendor::Gemini => fields.push(("parametersJsonSchema", schema)),
        Vendor::OpenAi => fields.extend([("parameters", schema), ("strict", text(json!(false)))]),
        Vendor::OpenAiChat | Vendor::Local => fields.push(("parameters", schema)),
        Vendor::Anthropic => fields.push(("input_schema", schema)),
    }
    let object = |fields: Vec<(&str, Json)>| {
        let fields = fields.into_iter();
        Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let definition = match vendor {
        Vendor::OpenAiChat | Vendor::Local => object(vec![
            ("type", text(json!("function"))),
            ("function", object(fields)),
        ]),
        _ => object(fields),
    };
    Ok(AdaptedTool {
        name,
        tool: tool.clone(),
        definition,
        renamed,
    })
}
