//! Finds the tool for which a vendor refuses a request, and continues without it.
//!
//! One definition that a vendor does not accept makes it refuse every request. `ToolRefusal`
//! reads which tool the vendor names; `RefusalRepair` decides what to send next, and finds the
//! tool by bisection where the vendor names none. A tool is first [loosened](switchboard::vendor::loosened_schema), then
//! withheld. `RefusalMemory` remembers the outcome for a vendor, a model and a definition.

pub use memory::RefusalMemory;
pub use repair::{RefusalRepair, RepairStep};

mod memory;
mod repair;

/// A vendor's message about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRefusal {
    /// Which tool.
    pub tool: RefusedTool,
    /// Where in the tool's definition, in the vendor's notation.
    pub pointer: Option<String>,
}

/// Which tool a vendor refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedTool {
    /// The one at this place in the request's list.
    Index(usize),
    /// The one with this name.
    Name(String),
    /// The message names none.
    Unnamed,
}

/// Messages that are about tools, or may be, and name none.
const UNNAMED: &[&str] = &[
    "request contains an invalid argument",
    "too many states for serving",
    "maximum schema depth",
    "failed to parse grammar",
    "failed to initialize samplers",
    "json schema conversion failed",
    "json schema error",
    "unable to generate parser",
    "schema is too complex",
    "grammar compilation",
];

impl ToolRefusal {
    /// Reads a vendor's message, the `param` and the details beside it. `None` if they are not
    /// about a tool's definition.
    pub fn read(message: &str, param: Option<&str>, details: &str) -> Option<Self> {
        let by_index = [message, param.unwrap_or_default(), details]
            .into_iter()
            .find_map(read_index);
        if let Some(name) = quoted_after(message, "for function '") {
            let pointer = by_index.and_then(|refusal| refusal.pointer);
            let pointer = context_of(message).or(pointer);
            return Some(Self {
                tool: RefusedTool::Name(name.to_owned()),
                pointer,
            });
        }
        let lower = message.to_lowercase();
        let is_unnamed = UNNAMED.iter().any(|phrase| lower.contains(phrase));
        by_index.or_else(|| {
            is_unnamed.then_some(Self {
                tool: RefusedTool::Unnamed,
                pointer: None,
            })
        })
    }
}

/// `tools.47.custom.input_schema…`, `tools[85].parameters`, and
/// `tools[0].function_declarations[9].parameters…`.
fn read_index(text: &str) -> Option<ToolRefusal> {
    let nested = "function_declarations[";
    let start = match text.find(nested) {
        Some(at) => at + nested.len(),
        None => {
            let at = text.find("tools.").or_else(|| text.find("tools["))?;
            at + "tools[".len()
        }
    };
    let rest = &text[start..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let index = rest[..digits].parse().ok()?;
    let path = rest[digits..].trim_start_matches([']', '.']);
    let path = path.strip_prefix("custom.").unwrap_or(path);
    let is_path = |character: char| {
        character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '[' | ']' | '$' | '-')
    };
    let end = path.find(|character| !is_path(character));
    let path = path[..end.unwrap_or(path.len())].trim_end_matches('.');
    Some(ToolRefusal {
        tool: RefusedTool::Index(index),
        pointer: (!path.is_empty()).then(|| path.to_owned()),
    })
}

fn quoted_after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let rest = &text[text.find(start)? + start.len()..];
    Some(&rest[..rest.find('\'')?])
}

/// OpenAI's `In context=('properties', 'ports', …)` as a path with dots.
fn context_of(message: &str) -> Option<String> {
    let start = "context=(";
    let rest = &message[message.find(start)? + start.len()..];
    let inner = &rest[..rest.find(')')?];
    let names = inner.split(',').map(|name| name.trim().trim_matches('\''));
    let path: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    (!path.is_empty()).then(|| path.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_messages_about_tools_are_read() {
        let index = |index| Some(RefusedTool::Index(index));
        let name = |name: &str| Some(RefusedTool::Name(name.to_owned()));
        let unnamed = Some(RefusedTool::Unnamed);
        let gemini = "Invalid JSON payload received. Unknown name \"const\" at \
                      'tools[0].function_declarations[9].parameters.properties[0].value': \
                      Cannot find field.";
        let context = "Invalid schema for function 'open_ports': In context=('properties', \
                       'ports'), array schema missing items.";
        for (message, param, tool, pointer) in [
            (
                "tools.47.custom.input_schema: input_schema does not support oneOf",
                None,
                index(47),
                Some("input_schema"),
            ),
            (
                "tools.0.custom.input_schema.type: Field required",
                None,
                index(0),
                Some("input_schema.type"),
            ),
            (
                "Invalid schema",
                Some("tools[85].parameters"),
                index(85),
                Some("parameters"),
            ),
            (
                context,
                Some("tools[3].parameters"),
                name("open_ports"),
                Some("properties.ports"),
            ),
            (
                gemini,
                None,
                index(9),
                Some("parameters.properties[0].value"),
            ),
            (
                "Request contains an invalid argument.",
                None,
                unnamed.clone(),
                None,
            ),
            (
                "Failed to initialize samplers: failed to parse grammar",
                None,
                unnamed.clone(),
                None,
            ),
            ("tools param requires --jinja flag", None, None, None),
            ("Overloaded", None, None, None),
            (
                "messages.1: `tool_use` ids were found without `tool_result`",
                None,
                None,
                None,
            ),
        ] {
            let read = ToolRefusal::read(message, param, "null");
            let found = read.as_ref().map(|refusal| refusal.tool.clone());
            assert_eq!(found, tool, "{message}");
            let found = read.as_ref().and_then(|refusal| refusal.pointer.as_deref());
            assert_eq!(found, pointer, "{message}");
        }
    }
}
