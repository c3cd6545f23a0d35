//! The source address of a tool.

use std::fmt::Write;

use super::Tool;
use crate::name::{Style, kebab};

impl Tool {
    /// The tool's source: `mcp://SERVER/TOOL`, both in lower case with a hyphen for each run of
    /// other characters. A host tool has none.
    pub fn source_uri(&self) -> Option<String> {
        if self.is_host_tool() {
            return None;
        }
        let (server, mut tool) = (part(self.id.server.as_str()), part(self.id.tool.as_wire()));
        let style = Style::ServerDashTool;
        // If two tools of one server have the same exposed name, the later one's ends in its hash;
        // so does its address.
        let plain = style
            .plain(&self.id)
            .is_ok_and(|plain| plain == self.exposed.as_str());
        if self.server.dialect.profile().naming == Some(style) && !plain {
            tool = format!("{tool}-{}", Style::hash_of(&self.id));
        }
        Some(format!("mcp://{server}/{tool}"))
    }
}

/// The text in kebab case; percent-encoded if it contains no letter or digit.
fn part(text: &str) -> String {
    let mut part = kebab(text);
    if part.is_empty() {
        for byte in text.bytes() {
            write!(part, "%{byte:02X}").expect("a string takes all");
        }
    }
    part
}
