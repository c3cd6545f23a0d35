//! `tools`: what is on offer, and what is withheld and why.

use clap::{Args, ValueEnum};
use switchboard::catalog::Catalog;
use switchboard::name::ServerName;

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::opening::Setup;
use crate::output;
use crate::view::server::escaped;
use crate::view::table;

/// Which tools, and how.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard tools\n  switchboard tools git --schema\n  switchboard tools --json | jq -r '.tools[].name'"
)]
pub(crate) struct Wanted {
    /// Only this server's, and start only this one
    #[arg(add = server_names())]
    server: Option<String>,
    /// Show the schema of each tool's arguments
    #[arg(long)]
    schema: bool,
    /// Show definitions as adapted to a model vendor
    #[arg(long)]
    vendor: Option<Vendor>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Vendor {
    Gemini,
    Openai,
    Anthropic,
}

pub(crate) fn run(options: &Options, wanted: &Wanted) -> Result<u8, Failure> {
    if wanted.vendor.is_some() {
        return Err(Failure::new(Code::Usage, "--vendor comes with the vendor adapters, which are not supported yet")
            .hint("leave it out to see definitions as servers send them"));
    }
    let setup = Setup::read(options)?;
    let server = wanted.server.as_deref();
    let only = setup.only(server)?;
    setup.run(only, async |host, _| {
        super::settle(host, options, server).await?;
        let catalog = host.catalog();
        if options.json {
            output::print_json(&json(&catalog, server))?;
        } else {
            output::print(&text(&catalog, server, wanted.schema, output::stdout_columns()))?;
        }
        Ok(0)
    })
}

fn is_wanted(server: Option<&str>, name: &ServerName) -> bool {
    server.is_none_or(|server| server == name.as_str())
}

/// `{"tools":[{"name","server","tool",…}],"withheld":[{"server","tool","reason"}]}`, each definition as its server sent it.
fn json(catalog: &Catalog, server: Option<&str>) -> String {
    let tools: Vec<_> = catalog
        .tools()
        .iter()
        .filter(|tool| is_wanted(server, &tool.id.server))
        .map(|tool| {
            let ours = [("name", tool.exposed.as_str()), ("server", tool.id.server.as_str()), ("tool", tool.id.tool.as_wire())];
            super::tagged(&tool.definition.raw, &ours)
        })
        .collect();
    let withheld: Vec<_> = catalog
        .withheld()
        .iter()
        .filter(|withheld| is_wanted(server, &withheld.server))
        .map(|withheld| {
            serde_json::json!({
                "server": withheld.server.as_str(), "tool": withheld.tool.as_wire(), "reason": withheld.reason
            })
            .to_string()
        })
        .collect();
    format!(r#"{{"tools":[{}],"withheld":[{}]}}"#, tools.join(","), withheld.join(","))
}

fn text(catalog: &Catalog, server: Option<&str>, schema: bool, columns: Option<usize>) -> String {
    let mut rows = Vec::new();
    let mut schemas = Vec::new();
    for tool in catalog.tools().iter().filter(|tool| is_wanted(server, &tool.id.server)) {
        let description = tool.definition.description.as_ref().map(|text| first_line(text.raw())).unwrap_or_default();
        rows.push(vec![tool.exposed.to_string(), tool.id.server.to_string(), description]);
        schemas.push(if schema { indented_schema(&tool.definition.input_schema) } else { String::new() });
    }
    let mut text = String::new();
    for (line, schema) in table::aligned(&rows, columns).lines().zip(schemas) {
        text.push_str(line);
        text.push('\n');
        text.push_str(&schema);
    }
    let withheld: Vec<_> = catalog.withheld().iter().filter(|withheld| is_wanted(server, &withheld.server)).collect();
    if !withheld.is_empty() {
        text.push_str(if text.is_empty() { "Withheld:\n" } else { "\nWithheld:\n" });
    }
    for withheld in withheld {
        let tool = withheld.tool.untrusted();
        text.push_str(&format!("  {}/{}: {}\n", withheld.server, tool.for_terminal_line(), escaped(&withheld.reason)));
    }
    text
}

fn first_line(text: &str) -> String {
    escaped(text.trim().lines().next().unwrap_or_default().trim_end())
}

fn indented_schema(schema: &switchboard::wire::RawJson) -> String {
    let pretty = schema
        .to_value()
        .and_then(|value| serde_json::to_string_pretty(&value).map_err(|error| switchboard::wire::NotJson(error.to_string())));
    let text = pretty.unwrap_or_else(|error| format!("(cannot be shown: {error})"));
    // Pretty JSON has no line breaks of the server's own inside.
    text.lines().map(|line| format!("    {}\n", escaped(line))).collect()
}
