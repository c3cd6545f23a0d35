//! `resources`: lists resources and resource templates.

use clap::Args;
use switchboard::untrusted::Untrusted;

use crate::arguments::{Options, server_names};
use crate::failure::Failure;
use crate::output;
use crate::view::server::escaped;
use crate::view::table;

/// Arguments of `resources`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  switchboard resources\n  switchboard resources demo --json")]
pub(crate) struct ResourcesArgs {
    /// Only this server, and start only it
    #[arg(add = server_names())]
    server: Option<String>,
}

pub(crate) fn run(options: &Options, args: &ResourcesArgs) -> Result<u8, Failure> {
    let server = args.server.as_deref();
    super::with_servers(options, server, async |host| {
        let mut resources = Vec::new();
        let mut templates = Vec::new();
        let mut rows = Vec::new();
        for (name, offerings) in super::offerings(host, server) {
            for resource in &offerings.resources {
                resources.push(super::with_fields(
                    &resource.raw,
                    &[("server", name.as_str())],
                ));
                let kind = resource.mime_type.as_ref().map(line).unwrap_or_default();
                rows.push(vec![
                    escaped(&resource.uri),
                    name.to_string(),
                    kind,
                    line(resource.title.as_ref().unwrap_or(&resource.name)),
                ]);
            }
            for template in &offerings.templates {
                templates.push(super::with_fields(
                    &template.raw,
                    &[("server", name.as_str())],
                ));
                rows.push(vec![
                    escaped(&template.uri_template),
                    name.to_string(),
                    "template".into(),
                    line(template.title.as_ref().unwrap_or(&template.name)),
                ]);
            }
        }
        if options.json {
            let (resources, templates) = (resources.join(","), templates.join(","));
            output::print_json(&format!(
                r#"{{"resources":[{resources}],"resourceTemplates":[{templates}]}}"#
            ))?;
        } else {
            if rows.is_empty() && !host.servers().is_empty() {
                output::notice("no resources available");
            }
            output::print(&table::aligned(&rows, output::stdout_columns()))?;
        }
        Ok(0)
    })
}

fn line(text: &Untrusted) -> String {
    text.for_terminal_line().to_string()
}
