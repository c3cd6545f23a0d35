//! `resources`: lists resources and resource templates.

use clap::Args;
use switchboard::Host;
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
        if options.json {
            return output::print_json(&json(host, server)).map(|()| 0);
        }
        let rows = rows(host, server);
        if rows.is_empty() && !host.servers().is_empty() {
            output::notice("no resources available");
        }
        output::print(&table::aligned(&rows, output::stdout_columns()))?;
        Ok(0)
    })
}

/// `{"resources":[…],"resourceTemplates":[…]}`, each as its server sent it.
fn json(host: &Host, server: Option<&str>) -> String {
    let mut resources = Vec::new();
    let mut templates = Vec::new();
    for (name, offerings) in super::offerings(host, server) {
        let of_server = [("server", name.as_str())];
        let listed = offerings.resources.iter();
        resources.extend(listed.map(|resource| super::with_fields(&resource.raw, &of_server)));
        let listed = offerings.templates.iter();
        templates.extend(listed.map(|template| super::with_fields(&template.raw, &of_server)));
    }
    let (resources, templates) = (resources.join(","), templates.join(","));
    format!(r#"{{"resources":[{resources}],"resourceTemplates":[{templates}]}}"#)
}

/// A row for each resource and template: address, server, type, title.
pub(super) fn rows(host: &Host, server: Option<&str>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, offerings) in super::offerings(host, server) {
        for resource in &offerings.resources {
            let kind = resource.mime_type.as_ref().map(line).unwrap_or_default();
            rows.push(vec![
                escaped(&resource.uri),
                name.to_string(),
                kind,
                line(resource.title.as_ref().unwrap_or(&resource.name)),
            ]);
        }
        for template in &offerings.templates {
            rows.push(vec![
                escaped(&template.uri_template),
                name.to_string(),
                "template".into(),
                line(template.title.as_ref().unwrap_or(&template.name)),
            ]);
        }
    }
    rows
}

fn line(text: &Untrusted) -> String {
    text.for_terminal_line().to_string()
}
