//! `read`: reads one resource and prints its contents.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use switchboard::Host;
use switchboard::name::ServerName;
use switchboard::untrusted::Untrusted;
use switchboard::wire::RawJson;

use crate::arguments::{Options, path_completer, resource_addresses, server_names};
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::view::table;
use crate::{cached_catalog, hints, output, progress, save_files, suggestion, terminal};

/// Arguments of `read`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard read demo://greeting/Ada\n  switchboard read file:///etc/hosts --server files --json"
)]
pub(crate) struct ReadArgs {
    /// URI of the resource
    #[arg(add = resource_addresses())]
    uri: String,
    /// The server that has it, if several do or none lists it
    #[arg(long, short, add = server_names())]
    server: Option<String>,
    /// Write binary contents to files in this folder
    #[arg(long, value_name = "DIR", add = path_completer())]
    save: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, args: &ReadArgs) -> Result<u8, Failure> {
    args.save.as_deref().map(save_files::prepare).transpose()?;
    let setup = Setup::read(options)?;
    // If the cached catalogs determine the server, no other is started.
    let cached =
        || cached_catalog::only_server(&setup, |catalog| catalog.servers_of_resource(&args.uri));
    let server = args
        .server
        .clone()
        .or_else(|| cached().map(|name| name.to_string()));
    super::with_servers_of(setup, options, server.as_deref(), async |host| {
        let server = server_with_resource(host, &args.uri, server.as_deref())?;
        let caller = terminal::caller();
        let result = progress::with_spinner(
            format!("reading from {server}"),
            host.read(&server, &args.uri, &caller),
        )
        .await?;
        if options.json {
            output::print_json(result.as_str())?;
        } else {
            output::print(&super::with_final_newline(
                contents(&result)?.for_terminal().to_string(),
            ))?;
        }
        args.save
            .as_deref()
            .map(|folder| save_files::save(&result, folder))
            .transpose()?;
        Ok(0)
    })
}

/// The named server; otherwise the one that lists the URI; otherwise the only one with a matching
/// template.
pub(super) fn server_with_resource(
    host: &Host,
    uri: &str,
    server: Option<&str>,
) -> Result<ServerName, Failure> {
    if let Some(handle) = server.and_then(|name| host.server(name)) {
        return Ok(handle.config.name.clone());
    }
    let shown = escaped(uri);
    super::single_server(&host.catalog().servers_of_resource(uri), &shown, || {
        let offerings = super::offerings(host, server);
        let known = offerings.iter().flat_map(|(_, offered)| {
            offered
                .resources
                .iter()
                .map(|resource| resource.uri.as_str())
        });
        let suggestion = suggestion::did_you_mean(uri, known);
        let hint = format!(
            "{suggestion}{} lists them; --server SERVER reads from a server that does not list it",
            hints::command(&["resources"])
        );
        Failure::new(Code::Usage, format!("no server lists the resource {shown}")).hint(hint)
    })
}

/// Text as text, other contents by type and size.
fn contents(result: &RawJson) -> Result<Untrusted, Failure> {
    let value = result.to_value().map_err(|error| {
        Failure::new(
            Code::Answered,
            format!("the contents cannot be shown: {error}"),
        )
        .hint("--json prints them unchanged")
    })?;
    let parts = value
        .get("contents")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let shown: Vec<_> = parts
        .iter()
        .map(|part| one(part, parts.len() > 1))
        .collect();
    Ok(Untrusted::new(shown.join("\n")))
}

fn one(part: &Value, several: bool) -> String {
    let field = |name: &str| part.get(name).and_then(Value::as_str);
    let head = if several {
        format!("{}:\n", field("uri").unwrap_or("?"))
    } else {
        String::new()
    };
    let body = match (field("text"), field("blob")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(blob)) => {
            let size = table::bytes((blob.trim_end_matches('=').len() * 3 / 4) as u64);
            format!("[{}, {size}]", field("mimeType").unwrap_or("binary"))
        }
        (None, None) => part.to_string(),
    };
    head + &body
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn s2_67_text_is_shown_as_text_and_other_kinds_by_type_and_size() {
        let check = |json: &str, expected: &str| {
            let raw = RawJson::parse(json.as_bytes().to_vec()).unwrap();
            assert_eq!(contents(&raw).unwrap().raw(), expected);
        };
        check(
            r#"{"contents":[{"uri":"a","text":"hello\nthere"}]}"#,
            "hello\nthere",
        );
        check(
            r#"{"contents":[{"uri":"a","mimeType":"image/png","blob":"AAAA"}]}"#,
            "[image/png, 3 bytes]",
        );
        check(
            r#"{"contents":[{"uri":"a","text":"x"},{"uri":"b","text":"y"}]}"#,
            "a:\nx\nb:\ny",
        );
    }
}
