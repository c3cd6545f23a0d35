//! `tools`: what is on offer, and what is withheld and why.

use std::sync::Arc;

use anstyle::Style;
use clap::{Args, ValueEnum};
use switchboard::catalog::{Catalog, Tool};
use switchboard::name::ServerName;

use crate::arguments::{Options, server_names};
use crate::failure::{Code, Failure};
use crate::opening::Setup;
use crate::output;
use crate::view::server::escaped;
use crate::view::{counted, signature, table};

/// Which tools, and how.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard tools\n  switchboard tools git                 of one server\n  switchboard tools git/git_log         one tool: what it takes, how to call it\n  switchboard tools git --schema\n  switchboard tools --json | jq -r '.tools[].name'"
)]
pub(crate) struct Wanted {
    /// Only this server's, and start only this one; or one tool, with what it takes
    #[arg(value_name = "SERVER|TOOL", add = server_names())]
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
    // No server's name has a slash or two underscores in a row; every tool's has.
    if let Some(tool) = server.filter(|name| name.contains('/') || name.contains("__")) {
        return one(options, setup, tool, wanted.schema);
    }
    let only = setup.only(server)?;
    setup.run(only, async |host, _| {
        super::settle(host, options, server).await?;
        let catalog = host.catalog();
        if options.json {
            output::print_json(&json(&catalog, server))?;
        } else {
            if catalog.tools().iter().all(|tool| !is_wanted(server, &tool.id.server)) && !host.servers().is_empty() {
                output::notice("no tool is on offer");
            }
            output::print(&text(&catalog, server, wanted.schema, output::stdout_columns()))?;
        }
        Ok(0)
    })
}

/// One tool, whole.
fn one(options: &Options, setup: Setup, name: &str, schema: bool) -> Result<u8, Failure> {
    let server = super::call::server_of(&setup, name)?;
    setup.run(server.clone().map(|name| vec![name]), async |host, _| {
        let tool = super::call::find(host, name, server.as_ref(), options.settle()).await?;
        if options.json {
            output::print_json(&format!(r#"{{"tools":[{}],"withheld":[]}}"#, as_json(&tool)))?;
        } else {
            let schema =
                if schema { format!("\nSchema:\n{}", indented_schema(&tool.definition.input_schema)) } else { String::new() };
            output::print(&(signature::page(&tool, output::stdout_columns()) + &schema))?;
        }
        Ok(0)
    })
}

fn is_wanted(server: Option<&str>, name: &ServerName) -> bool {
    server.is_none_or(|server| server == name.as_str())
}

/// `{"tools":[{"name","server","tool",…}],"withheld":[{"server","tool","reason"}]}`, each definition as its server sent it.
fn json(catalog: &Catalog, server: Option<&str>) -> String {
    let tools: Vec<_> =
        catalog.tools().iter().filter(|tool| is_wanted(server, &tool.id.server)).map(|tool| as_json(tool)).collect();
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

fn as_json(tool: &Tool) -> String {
    let ours = [("name", tool.exposed.as_str()), ("server", tool.id.server.as_str()), ("tool", tool.id.tool.as_wire())];
    super::tagged(&tool.definition.raw, &ours)
}

/// A pipe gets a line for each tool: name, server, what it does. A screen gets the servers as headings.
fn text(catalog: &Catalog, server: Option<&str>, schema: bool, columns: Option<usize>) -> String {
    let tools: Vec<_> = catalog.tools().iter().filter(|tool| is_wanted(server, &tool.id.server)).collect();
    let mut text = match columns {
        Some(columns) => headed(&tools, schema, columns),
        None => {
            let rows = tools.iter().map(|tool| vec![tool.exposed.to_string(), tool.id.server.to_string(), about(tool)]).collect();
            with_schemas(rows, &tools, schema, None)
        }
    };
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

fn headed(tools: &[&Arc<Tool>], schema: bool, columns: usize) -> String {
    let mut text = String::new();
    for of_one in tools.chunk_by(|one, next| one.id.server == next.id.server) {
        let heading = Style::new().bold();
        let count = counted(of_one.len(), "tool");
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}{heading}{}{heading:#}, {count}\n", of_one[0].id.server));
        let longest = of_one.iter().map(|tool| tool.exposed.as_str().len()).max().unwrap_or_default();
        if longest + 30 <= columns {
            let rows = of_one.iter().map(|tool| vec![format!("  {}", tool.exposed), about(tool)]).collect();
            text.push_str(&with_schemas(rows, of_one, schema, Some(columns)));
        } else {
            // Too narrow for two columns: what it does stands below its name.
            for tool in of_one {
                text.push_str(&format!("  {}\n", tool.exposed));
                let about = about(tool);
                if !about.is_empty() {
                    text.push_str(&format!("      {}\n", table::cut(&about, columns.saturating_sub(6).max(12))));
                }
                text.push_str(&schema_of(tool, schema));
            }
        }
    }
    text
}

fn with_schemas(rows: Vec<Vec<String>>, tools: &[&Arc<Tool>], schema: bool, columns: Option<usize>) -> String {
    let mut text = String::new();
    for (line, tool) in table::aligned(&rows, columns).lines().zip(tools) {
        text.push_str(line);
        text.push('\n');
        text.push_str(&schema_of(tool, schema));
    }
    text
}

fn schema_of(tool: &Tool, wanted: bool) -> String {
    if wanted { indented_schema(&tool.definition.input_schema) } else { String::new() }
}

fn about(tool: &Tool) -> String {
    tool.definition.description.as_ref().map(|text| first_line(text.raw())).unwrap_or_default()
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
