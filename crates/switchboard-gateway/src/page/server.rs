//! The page `/servers/NAME`: one server, its history, its last stderr, and its tools with their
//! schemas and what was repaired in them for strict clients.

use maud::{Markup, html};
use switchboard::catalog::Tool;
use switchboard::server::ServerHandle;

use super::overview::{class, document, latency, reason, word};
use super::text::{ForeignText, foreign, json};
use crate::path_segment;
use crate::{ListingSettings, Operations, repairs};

/// Lines of stderr and history.
const LINES: usize = 20;

pub(super) fn render(
    operations: &Operations,
    server: &ServerHandle,
    listing: ListingSettings,
    token: &str,
) -> Markup {
    let name = server.config.name.as_str();
    let snapshot = server.snapshot();
    let state = snapshot.shown_state();
    let stderr = server.stderr.last_lines(LINES);
    document(
        name,
        html! {
            div id="server" data-part {
                h1 { (name) " is " span .(class(&state)) { (word(&state)) } }
                p { (foreign(&reason(&state))) }
                dl {
                    dt { "State" } dd { (foreign(&state.to_string())) }
                    dt { "Restarts" } dd { (snapshot.restarts) }
                    dt { "p50 / p99" } dd { (latency(operations, name)) }
                    @if let Some(pid) = snapshot.pid { dt { "Process" } dd { (pid) } }
                    @if let Some(exit) = &snapshot.last_exit { dt { "Last end" } dd { (foreign(exit)) } }
                    dt { "Entry" }
                    dd { code { (foreign(&server.config.source.file.display().to_string())) ":" (server.config.source.line) } }
                }
                @if !stderr.is_empty() {
                    h2 { "Last lines of stderr" }
                    pre { @for line in &stderr { (ForeignText(line)) "\n" } }
                }
                h2 { "History" }
                pre { @for (_, line) in snapshot.history.iter().rev().take(LINES) { (foreign(line)) "\n" } }
            }
            details id="restart" {
                summary { "Restart this server" }
                p { "Its running calls end." }
                form method="post" action={ "/servers/" (path_segment::encode(name)) "/restart" } {
                    input type="hidden" name="token" value=(token);
                    button { "Restart" }
                }
            }
            (tools(operations, server, listing))
        },
    )
}

fn tools(operations: &Operations, server: &ServerHandle, listing: ListingSettings) -> Markup {
    let catalog = operations.host.catalog();
    let tools = catalog
        .tools()
        .iter()
        .filter(|tool| tool.id.server == server.config.name);
    let is_as_is = listing.schemas_as_is;
    let repaired = match is_as_is {
        true => Vec::new(),
        false => repairs(&catalog),
    };
    let listed_name = |tool: &Tool| {
        let strict = tool.strict_name().filter(|_| !is_as_is);
        strict.unwrap_or_else(|| tool.exposed.as_str().to_owned())
    };
    html! {
        div id="tools" data-part {
            h2 { "Tools" }
            @for tool in tools {
                details.card id={ "tool-" (blake3::hash(tool.id.tool.as_wire().as_bytes()).to_hex().get(..16).unwrap_or_default()) } {
                    summary { code { (ForeignText(&tool.id.tool.untrusted())) } }
                    p.soft { "Listed as " code { (foreign(&listed_name(tool))) } }
                    @if let Some(description) = &tool.definition.description { p { (ForeignText(description)) } }
                    @for warning in &tool.definition.warnings { p.bad { (foreign(warning)) } }
                    @for repair in repaired.iter().filter(|repair| repair.tool == tool.id) {
                        p.wait-text { "Repaired for strict clients: " code { (foreign(&repair.repair.pointer)) } " " (repair.repair.change) }
                    }
                    pre { (json(tool.definition.input_schema.as_str())) }
                }
            }
        }
    }
}
