//! `prompts`: lists prompts with their arguments.

use clap::Args;

use crate::arguments::{Options, server_names};
use crate::failure::Failure;
use crate::output;
use crate::view::server::escaped;
use crate::view::table;

/// Arguments of `prompts`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  switchboard prompts\n  switchboard prompts demo --json")]
pub(crate) struct PromptsArgs {
    /// Only this server, and start only it
    #[arg(add = server_names())]
    server: Option<String>,
}

pub(crate) fn run(options: &Options, args: &PromptsArgs) -> Result<u8, Failure> {
    let server = args.server.as_deref();
    super::with_servers(options, server, async |host| {
        let mut prompts = Vec::new();
        let mut rows = Vec::new();
        for (name, offerings) in super::offerings(host, server) {
            for prompt in &offerings.prompts {
                prompts.push(super::with_fields(
                    &prompt.raw,
                    &[("server", name.as_str())],
                ));
                let arguments: Vec<_> = prompt
                    .arguments
                    .iter()
                    .map(|(name, _, required)| {
                        if *required {
                            escaped(name)
                        } else {
                            format!("[{}]", escaped(name))
                        }
                    })
                    .collect();
                let about = prompt
                    .description
                    .as_ref()
                    .or(prompt.title.as_ref())
                    .map(|text| text.for_terminal_line().to_string())
                    .unwrap_or_default();
                rows.push(vec![
                    escaped(&prompt.name),
                    name.to_string(),
                    arguments.join(" "),
                    about,
                ]);
            }
        }
        if options.json {
            output::print_json(&format!(r#"{{"prompts":[{}]}}"#, prompts.join(",")))?;
        } else {
            if rows.is_empty() && !host.servers().is_empty() {
                output::notice("no prompts available");
            }
            output::print(&table::aligned(&rows, output::stdout_columns()))?;
        }
        Ok(0)
    })
}
