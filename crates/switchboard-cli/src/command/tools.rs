//! `tools`: lists tools, and those that are withheld with the reason.

use std::sync::Arc;

use anstyle::Style;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use switchboard::catalog::{Catalog, Tool};
use switchboard::name::ServerName;
use switchboard::vendor::{Toolset, Vendor};

use crate::arguments::{Options, server_names};
use crate::failure::Failure;
use crate::setup::Setup;
use crate::terminal::json::pretty_json;
use crate::view::server::escaped;
use crate::view::{counted, signature, table};
use crate::{cached_catalog, hints, output, progress};

/// Arguments of `tools`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard tools\n  switchboard tools git                 of one server\n  switchboard tools git/git_log         one tool: what it takes, how to call it\n  switchboard tools git --schema\n  switchboard tools --json | jq -r '.tools[].name'\n  switchboard tools --vendor gemini      for a request to a model"
)]
pub(crate) struct ToolsArgs {
    /// Only this server, and start only it; or one tool, with its arguments
    #[arg(value_name = "SERVER|TOOL", add = server_names())]
    server: Option<String>,
    /// Show the schema of each tool's arguments
    #[arg(long)]
    schema: bool,
    /// Print the JSON array of tools for a request to this vendor's API
    #[arg(long, value_parser = vendors())]
    vendor: Option<Vendor>,
    /// Use a server that is in no file: a command line or a URL
    #[arg(long = "server", value_name = "COMMAND|URL")]
    ad_hoc: Option<String>,
    /// Start the server of --server without asking
    #[arg(long, requires = "ad_hoc")]
    yes: bool,
}

/// The name of a vendor's API on the command line.
fn word(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Gemini => "gemini",
        Vendor::OpenAi => "openai",
        Vendor::OpenAiChat => "openai-chat",
        Vendor::Anthropic => "anthropic",
        Vendor::Local => "local",
    }
}

/// Parses the name of a vendor's API.
fn vendors() -> impl TypedValueParser<Value = Vendor> {
    PossibleValuesParser::new(Vendor::ALL.map(word)).try_map(|given| {
        let vendor = Vendor::ALL
            .into_iter()
            .find(|vendor| word(*vendor) == given);
        vendor.ok_or("unknown vendor")
    })
}

pub(crate) fn run(options: &Options, args: &ToolsArgs) -> Result<u8, Failure> {
    let mut setup = Setup::read(options)?;
    if let Some(ad_hoc) = &args.ad_hoc {
        setup = setup.with_server(ad_hoc, args.yes)?;
    }
    let ad_hoc = args.ad_hoc.as_ref();
    let only_server = ad_hoc.and_then(|_| setup.config.servers.keys().next().cloned());
    let server = args.server.as_deref();
    if let Some(tool) = server.filter(|name| is_tool(&setup, name)) {
        return print_one(options, setup, tool, args);
    }
    let only = setup
        .servers_to_start(server)?
        .and_then(|only| only.first().map(|name| setup.needed_to_name(name)));
    setup.run(only, async |host, _| {
        // A server of the command line is the only one: if it fails, the command does.
        let needed = server.or(only_server.as_ref().map(ServerName::as_str));
        super::wait_for_servers(host, options, needed).await?;
        if server.is_some() {
            progress::wait_until_settled(host, progress::WaitLimit::start(options)).await;
        }
        let catalog = host.catalog();
        if let Some(vendor) = args.vendor {
            print_for_vendor(
                vendor,
                catalog
                    .tools()
                    .iter()
                    .filter(|tool| is_selected(server, &tool.id.server)),
            )?;
        } else if options.json {
            output::print_json(&json(&catalog, server))?;
        } else {
            if catalog
                .tools()
                .iter()
                .all(|tool| !is_selected(server, &tool.id.server))
                && !host.servers().is_empty()
            {
                output::notice("no tools available");
            }
            output::print(&text(
                &catalog,
                server,
                args.schema,
                output::stdout_columns(),
            ))?;
        }
        Ok(0)
    })
}

/// Whether a name is a tool's: it has a slash, or it is no server's name and has `__` or is in a
/// cached catalog.
fn is_tool(setup: &Setup, name: &str) -> bool {
    let is_server = setup
        .config
        .servers
        .keys()
        .any(|server| server.as_str() == name);
    let cached = || cached_catalog::catalog(&setup.config, &*setup.store);
    let was_tool = || cached().resolve(name).is_ok();
    !is_server && (name.contains('/') || name.contains("__") || was_tool())
}

/// Prints the array for a vendor's API, and a notice for each tool that the API would reject.
fn print_for_vendor<'a>(
    vendor: Vendor,
    tools: impl Iterator<Item = &'a Arc<Tool>>,
) -> Result<(), Failure> {
    let set = Toolset::new(vendor, tools);
    for withheld in set.withheld() {
        let tool = withheld.tool.untrusted();
        output::notice(&format!(
            "server \"{}\", tool {}: left out: {}",
            withheld.server,
            tool.for_terminal_line(),
            escaped(&withheld.reason)
        ));
    }
    output::print_json(&set.to_json())
}

/// Prints one tool in detail.
fn print_one(options: &Options, setup: Setup, name: &str, args: &ToolsArgs) -> Result<u8, Failure> {
    let server = super::call::server_to_start(&setup, name)?;
    let only = super::call::servers_to_start(&setup, name, server.as_ref());
    setup.run(only, async |host, _| {
        let tool = super::call::find_tool(host, name, server.as_ref(), options).await?;
        if let Some(vendor) = args.vendor {
            print_for_vendor(vendor, std::iter::once(&tool))?;
        } else if options.json {
            output::print_json(&format!(
                r#"{{"tools":[{}],"withheld":[]}}"#,
                as_json(&tool)
            ))?;
        } else {
            let schema = if args.schema {
                format!("\nSchema:\n{}", indented_schema(&tool.shown_schema()))
            } else {
                String::new()
            };
            output::print(
                &(signature::page(
                    &hints::unquoted_command("call"),
                    &tool,
                    output::stdout_columns(),
                ) + &schema),
            )?;
        }
        Ok(0)
    })
}

fn is_selected(server: Option<&str>, name: &ServerName) -> bool {
    server.is_none_or(|server| server == name.as_str())
}

/// `{"tools":[{"name","server","tool","source",…}],"withheld":[{"server","tool","reason"}]}`. Each
/// definition is as its server sent it, but for changes that the dialect makes to schemas.
fn json(catalog: &Catalog, server: Option<&str>) -> String {
    let tools: Vec<_> = catalog
        .tools()
        .iter()
        .filter(|tool| is_selected(server, &tool.id.server))
        .map(|tool| as_json(tool))
        .collect();
    let withheld: Vec<_> = catalog
        .withheld()
        .iter()
        .filter(|withheld| is_selected(server, &withheld.server))
        .map(|withheld| {
            serde_json::json!({
                "server": withheld.server.as_str(), "tool": withheld.tool.as_wire(), "reason": withheld.reason
            })
            .to_string()
        })
        .collect();
    format!(
        r#"{{"tools":[{}],"withheld":[{}]}}"#,
        tools.join(","),
        withheld.join(",")
    )
}

fn as_json(tool: &Tool) -> String {
    let source = tool.source_uri();
    let mut ours = vec![
        ("name", tool.exposed.as_str()),
        ("server", tool.id.server.as_str()),
        ("tool", tool.id.tool.as_wire()),
    ];
    ours.extend(source.as_deref().map(|source| ("source", source)));
    super::with_fields(&tool.shown_definition(), &ours)
}

/// A pipe gets a line per tool: name, server, description. A terminal gets a heading per server.
pub(super) fn text(
    catalog: &Catalog,
    server: Option<&str>,
    schema: bool,
    columns: Option<usize>,
) -> String {
    let tools: Vec<_> = catalog
        .tools()
        .iter()
        .filter(|tool| is_selected(server, &tool.id.server))
        .collect();
    let mut text = match columns {
        Some(columns) => grouped_by_server(&tools, schema, columns),
        None => {
            let rows = tools
                .iter()
                .map(|tool| {
                    vec![
                        tool.exposed.to_string(),
                        tool.id.server.to_string(),
                        summary(tool),
                    ]
                })
                .collect();
            with_schemas(rows, &tools, schema, None)
        }
    };
    let withheld: Vec<_> = catalog
        .withheld()
        .iter()
        .filter(|withheld| is_selected(server, &withheld.server))
        .collect();
    if !withheld.is_empty() {
        text.push_str(if text.is_empty() {
            "Withheld:\n"
        } else {
            "\nWithheld:\n"
        });
    }
    for withheld in withheld {
        let tool = withheld.tool.untrusted();
        text.push_str(&format!(
            "  {}/{}: {}\n",
            withheld.server,
            tool.for_terminal_line(),
            escaped(&withheld.reason)
        ));
    }
    text
}

fn grouped_by_server(tools: &[&Arc<Tool>], schema: bool, columns: usize) -> String {
    let mut text = String::new();
    for of_one in tools.chunk_by(|one, next| one.id.server == next.id.server) {
        let heading = Style::new().bold();
        let count = counted(of_one.len(), "tool");
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!(
            "{gap}{heading}{}{heading:#}, {count}\n",
            of_one[0].id.server
        ));
        let longest = of_one
            .iter()
            .map(|tool| tool.exposed.as_str().len())
            .max()
            .unwrap_or_default();
        if longest + 30 <= columns {
            let rows = of_one
                .iter()
                .map(|tool| vec![format!("  {}", tool.exposed), summary(tool)])
                .collect();
            text.push_str(&with_schemas(rows, of_one, schema, Some(columns)));
        } else {
            // Too narrow for two columns: the description is below the name.
            for tool in of_one {
                text.push_str(&format!("  {}\n", tool.exposed));
                let about = summary(tool);
                if !about.is_empty() {
                    text.push_str(&format!(
                        "      {}\n",
                        table::cut(&about, columns.saturating_sub(6).max(12))
                    ));
                }
                text.push_str(&schema_of(tool, schema));
            }
        }
    }
    text
}

fn with_schemas(
    rows: Vec<Vec<String>>,
    tools: &[&Arc<Tool>],
    schema: bool,
    columns: Option<usize>,
) -> String {
    let mut text = String::new();
    for (line, tool) in table::aligned(&rows, columns).lines().zip(tools) {
        text.push_str(line);
        text.push('\n');
        text.push_str(&schema_of(tool, schema));
    }
    text
}

fn schema_of(tool: &Tool, show: bool) -> String {
    if show {
        indented_schema(&tool.shown_schema())
    } else {
        String::new()
    }
}

fn summary(tool: &Tool) -> String {
    tool.definition
        .description
        .as_ref()
        .map(|text| first_line(text.raw()))
        .unwrap_or_default()
}

fn first_line(text: &str) -> String {
    escaped(text.trim().lines().next().unwrap_or_default().trim_end())
}

pub(super) fn indented_schema(schema: &switchboard::wire::RawJson) -> String {
    // Line breaks inside JSON strings are escaped, so each line is one of ours.
    pretty_json(schema.as_str(), None)
        .lines()
        .map(|line| format!("    {}\n", escaped(line)))
        .collect()
}
