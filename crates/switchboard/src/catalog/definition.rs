//! A tool as its server defines it: the raw object, the parsed fields, and the hash that approvals
//! are bound to.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use unicode_security::{MixedScript, skeleton};

use super::ToolAnnotations;
use super::icon::{self, Icon};
use super::mirror::{self, Mirrored, MirroredArgument};
use super::tool::Offer;
use crate::name::ToolName;
use crate::schema::{self, DefinitionHash, JsonTree, SimpleSchema};
use crate::untrusted::{Untrusted, is_hidden};
use crate::wire::{NotJson, RawJson};

/// A tool as its server defines it.
#[derive(Debug, Clone)]
pub struct ToolDefinition {
    /// The tool's name on its server.
    pub name: ToolName,
    /// The name as JSON, as the server wrote it: sent in calls.
    pub(crate) name_json: RawJson,
    /// The title for people.
    pub title: Option<Untrusted>,
    /// The description for the model.
    pub description: Option<Untrusted>,
    /// The schema of the arguments.
    pub input_schema: RawJson,
    /// Recognises most arguments that fit the schema. Set at the first call, so that later ones look
    /// nothing up.
    pub(crate) simple_schema: OnceLock<Arc<SimpleSchema>>,
    /// The schema of the structured result.
    pub output_schema: Option<RawJson>,
    /// The arguments that a transport with headers repeats in headers; or why such a transport
    /// cannot call this tool, in one line safe to show.
    pub(crate) mirrored: Result<Vec<Mirrored>, String>,
    /// Whether the tool must be called as a task.
    pub(crate) is_task: bool,
    /// Whether the tool is for its server's own app, not for models.
    pub(crate) is_for_app_only: bool,
    /// The server's claims about effects: for display, never for permission.
    pub annotations: ToolAnnotations,
    /// The whole object, byte for byte.
    pub raw: RawJson,
    /// The hash that grants are bound to.
    pub hash: DefinitionHash,
    /// Whether a call approved with this definition may still be sent.
    pub(crate) offer: Offer,
    /// Warnings for people: a name that imitates another, hidden characters. Lines safe to show.
    pub warnings: Vec<String>,
}

/// The fields that a person approves, in the order in which they are hashed and shown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Approved<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
    #[serde(borrow)]
    output_schema: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

impl ToolDefinition {
    /// The arguments that the HTTP headers of a call must repeat (`x-mcp-header`). Empty if the
    /// schema's annotations are invalid. The error says why no header can carry a value.
    pub fn mirrored_arguments(&self, arguments: &str) -> Result<Vec<MirroredArgument<'_>>, String> {
        match &self.mirrored {
            Ok(mirrored) => mirror::values(mirrored, arguments),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Parses one element of a `tools/list` result. The error is one line, safe to show, with the
    /// name if there is one.
    pub fn parse(raw: &RawJson) -> Result<Self, (ToolName, String)> {
        // serde accepts an array for a struct.
        if !raw.as_str().starts_with('{') {
            return Err((
                ToolName::new(""),
                "its definition is not an object".to_owned(),
            ));
        }
        let approved: Approved<'_> = raw.decode().map_err(|error| {
            (
                ToolName::new(""),
                format!("its definition is not usable: {error}"),
            )
        })?;
        let name = text("name", approved.name)
            .and_then(|name| {
                name.filter(|name| !name.raw().is_empty())
                    .ok_or_else(|| "it has no name".to_owned())
            })
            .map_err(|reason| (ToolName::new(""), reason))?;
        Self::with_name(ToolName::new(name.raw()), raw, &approved)
            .map_err(|reason| (ToolName::new(name.raw()), reason))
    }

    fn with_name(name: ToolName, raw: &RawJson, approved: &Approved<'_>) -> Result<Self, String> {
        let title = text("title", approved.title)?;
        let description = text("description", approved.description)?;
        let input = object("inputSchema", approved.input_schema)?.ok_or("it has no inputSchema")?;
        let output = schema_of_result(approved.output_schema)?;
        let annotations = object("annotations", approved.annotations)?;
        let input_schema = raw.part(approved.input_schema.ok_or("it has no inputSchema")?);
        schema::check_tree(&input, input_schema.as_bytes().len())
            .map_err(|fault| format!("its inputSchema {fault}"))?;

        let mut digest = Digest(Vec::with_capacity(raw.as_bytes().len()));
        digest.add("name", Some(name.as_wire()));
        digest.add("title", title.as_ref().map(Untrusted::raw));
        digest.add("description", description.as_ref().map(Untrusted::raw));
        digest.add("inputSchema", Some(&input));
        digest.add("outputSchema", output.as_ref());
        digest.add("annotations", annotations.as_ref());
        Ok(Self {
            warnings: name_warnings(name.as_wire()),
            name_json: raw.part(approved.name.ok_or("it has no name")?),
            hash: DefinitionHash(*blake3::hash(&digest.0).as_bytes()),
            offer: Offer::default(),
            output_schema: output
                .and(approved.output_schema)
                .map(|schema| raw.part(schema)),
            mirrored: mirror::find(&input, &input_schema),
            annotations: ToolAnnotations::of(approved.annotations),
            is_task: is_task(raw),
            is_for_app_only: is_for_app_only(raw),
            raw: raw.clone(),
            name,
            title,
            description,
            input_schema,
            simple_schema: OnceLock::new(),
        })
    }

    /// The icons that may be shown. Nothing is fetched here.
    pub fn icons(&self) -> Vec<Icon> {
        icon::usable(&self.raw)
    }

    /// The approved fields as lines for a diff. As the server wrote them: escape each line before
    /// it is shown.
    pub fn text(&self) -> String {
        use std::fmt::Write;
        let mut lines = String::new();
        let mut words = |field: &str, text: &str| {
            for line in text.split('\n') {
                writeln!(lines, "{field}: {line}").expect("writing to a String cannot fail");
            }
        };
        words("name", self.name.as_wire());
        words("title", self.title.as_ref().map_or("", Untrusted::raw));
        words(
            "description",
            self.description.as_ref().map_or("", Untrusted::raw),
        );
        if let Ok(approved) = self.raw.decode::<Approved<'_>>() {
            let fields = [
                ("inputSchema", approved.input_schema),
                ("outputSchema", approved.output_schema),
                ("annotations", approved.annotations),
            ];
            for (field, value) in fields {
                let tree = if field == "outputSchema" {
                    schema_of_result(value)
                } else {
                    object(field, value)
                };
                if let Ok(Some(tree)) = tree {
                    words(
                        field,
                        &serde_json::to_string_pretty(&tree).expect("a tree serialises"),
                    );
                }
            }
        }
        lines
    }
}

/// Whether a definition requires that the tool is called as a task. Malformed values are ignored.
fn is_task(raw: &RawJson) -> bool {
    #[derive(Deserialize)]
    struct ToolMembers<'a> {
        #[serde(borrow)]
        execution: Execution<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Execution<'a> {
        #[serde(borrow)]
        task_support: Cow<'a, str>,
    }
    may_have(raw, b"taskSupport")
        && raw
            .decode::<ToolMembers<'_>>()
            .is_ok_and(|wire| wire.execution.task_support == "required")
}

/// Whether a definition restricts the tool's visibility and models are excluded (MCP Apps).
/// Malformed values are ignored.
fn is_for_app_only(raw: &RawJson) -> bool {
    #[derive(Deserialize)]
    struct Definition<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Meta<'a>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow)]
        ui: Ui<'a>,
    }
    #[derive(Deserialize)]
    struct Ui<'a> {
        #[serde(borrow)]
        visibility: Vec<Cow<'a, str>>,
    }
    may_have(raw, b"visibility")
        && raw.decode::<Definition<'_>>().is_ok_and(|definition| {
            let visibility = definition.meta.ui.visibility;
            !visibility.is_empty() && !visibility.iter().any(|who| who == "model")
        })
}

/// Whether a key may occur in a definition. Few definitions have the rare ones, and parsing one to
/// find that out takes 9,600 instructions.
fn may_have(raw: &RawJson, key: &[u8]) -> bool {
    let text = raw.as_bytes();
    // A key may be written with escapes.
    memmem::find(text, key).is_some() || memmem::find(text, b"\\u").is_some()
}

/// Collects fields as JSON, each after its name, so that no two sets of fields have the same bytes.
struct Digest(Vec<u8>);

impl Digest {
    fn add<T: serde::Serialize + ?Sized>(&mut self, field: &str, value: Option<&T>) {
        let Some(value) = value else { return };
        self.0.extend_from_slice(field.as_bytes());
        self.0.push(b':');
        serde_json::to_writer(&mut self.0, value).expect("a vector takes all");
        self.0.push(b'\n');
    }
}

fn name_warnings(name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if name.is_ascii() && !name.contains(is_hidden) {
        return warnings;
    }
    if name.contains(is_hidden) {
        warnings.push("its name has control or hidden characters".to_owned());
    }
    if !name.is_single_script() {
        warnings.push("its name mixes scripts".to_owned());
    }
    let mut lookalike = String::new();
    for (at, character) in name.char_indices() {
        // A skeleton also rewrites ASCII ("m" as "rn"), so it is used for non-ASCII characters
        // only.
        let letter = &name[at..at + character.len_utf8()];
        if character.is_ascii() {
            lookalike.push(character)
        } else {
            lookalike.extend(skeleton(letter))
        }
    }
    if !name.is_ascii() && lookalike.is_ascii() && !lookalike.contains(is_hidden) {
        warnings.push(format!("its name looks like \"{lookalike}\" and is not"));
    }
    warnings
}

fn text(field: &str, raw: Option<&RawValue>) -> Result<Option<Untrusted>, String> {
    let Some(raw) = raw else { return Ok(None) };
    serde_json::from_str::<String>(raw.get())
        .map(|text| Some(Untrusted::new(text)))
        .map_err(|_| format!("its {field} is not a string"))
}

/// Since 2026-07-28 a structured result may be of any type, and so may its schema.
fn schema_of_result(raw: Option<&RawValue>) -> Result<Option<JsonTree<'_>>, String> {
    match raw.map(RawValue::get) {
        Some("true") => Ok(Some(JsonTree::Bool(true))),
        Some("false") => Ok(Some(JsonTree::Bool(false))),
        _ => object("outputSchema", raw),
    }
}

fn object<'a>(field: &str, raw: Option<&'a RawValue>) -> Result<Option<JsonTree<'a>>, String> {
    let Some(raw) = raw else { return Ok(None) };
    if !raw.get().starts_with('{') {
        return Err(format!("its {field} is not an object"));
    }
    match serde_json::from_str(raw.get()) {
        Ok(tree) => Ok(Some(tree)),
        Err(error) if error.to_string().contains("recursion limit") => {
            Err(format!("its {field} is nested deeper than 128"))
        }
        Err(error) => Err(format!(
            "its {field} is not usable: {}",
            NotJson::from(error)
        )),
    }
}

#[cfg(test)]
mod tests;
