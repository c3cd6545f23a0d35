//! `prompt`: gets one prompt and prints its messages.

use clap::Args;
use serde_json::{Map, Value};
use switchboard::Host;
use switchboard::catalog::Offerings;
use switchboard::name::ServerName;
use switchboard::untrusted::Untrusted;
use switchboard::wire::RawJson;

use crate::arguments::{Options, prompt_names, server_names};
use crate::coerce;
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::{cached_catalog, hints, output, progress, suggestion, terminal};

/// Arguments of `prompt`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard prompt review language=rust\n  switchboard prompt demo/review language=rust\n  switchboard prompt haiku --server demo --json"
)]
pub(crate) struct PromptArgs {
    /// Its name, or server/name
    #[arg(add = prompt_names())]
    name: String,
    /// Its arguments, as text
    #[arg(value_name = "KEY=VALUE", value_parser = coerce::text_pair)]
    pairs: Vec<(String, String)>,
    /// The server that offers it, if several do
    #[arg(long, short, add = server_names())]
    server: Option<String>,
}

pub(crate) fn run(options: &Options, args: &PromptArgs) -> Result<u8, Failure> {
    let setup = Setup::read(options)?;
    let (server, name) = split_name(&setup, args.server.as_deref(), &args.name);
    super::with_servers_of(setup, options, server.as_deref(), async |host| {
        let server = server_with_prompt(host, server.as_deref(), name)?;
        let arguments: Map<_, _> = args
            .pairs
            .iter()
            .map(|(key, text)| (key.clone(), Value::from(text.as_str())))
            .collect();
        let (arguments, caller) = (RawJson::from_value(&arguments), terminal::caller());
        let request = host.prompt(&server, name, &arguments, &caller);
        let result =
            progress::with_spinner(format!("getting a prompt from {server}"), request).await?;
        if options.json {
            output::print_json(result.as_str())?;
        } else {
            output::print(&super::with_final_newline(
                messages(&result)?.for_terminal().to_string(),
            ))?;
        }
        Ok(0)
    })
}

/// The server, if it is given or the cached catalogs determine it, and the name of its prompt.
pub(super) fn split_name<'a>(
    setup: &Setup,
    server: Option<&str>,
    name: &'a str,
) -> (Option<String>, &'a str) {
    if let Some(server) = server {
        return (Some(server.to_owned()), name);
    }
    let offers = |offered: &Offerings| offered.prompts.iter().any(|prompt| prompt.name == name);
    if let Some(server) = cached_catalog::only_server(setup, |catalog| {
        super::servers_offering(catalog.offerings(), offers)
    }) {
        return (Some(server.to_string()), name);
    }
    match name.split_once('/') {
        Some((server, prompt)) if setup.entry(server).is_ok() => (Some(server.to_owned()), prompt),
        _ => (None, name),
    }
}

fn server_with_prompt(
    host: &Host,
    server: Option<&str>,
    name: &str,
) -> Result<ServerName, Failure> {
    let offerings = super::offerings(host, server);
    let shown = format!("prompt \"{}\"", escaped(name));
    let found = super::servers_offering(&offerings, |offered| {
        offered.prompts.iter().any(|prompt| prompt.name == name)
    });
    super::single_server(&found, &format!("a {shown}"), || {
        let known = offerings
            .iter()
            .flat_map(|(_, offered)| offered.prompts.iter().map(|prompt| prompt.name.as_str()));
        let suggestion = suggestion::did_you_mean(name, known);
        Failure::new(Code::Usage, format!("no {shown}")).hint(format!(
            "{suggestion}{} lists them",
            hints::command(&["prompts"])
        ))
    })
}

/// `role:` and the text of each message.
pub(super) fn messages(result: &RawJson) -> Result<Untrusted, Failure> {
    let value = result.to_value().map_err(|error| {
        Failure::new(
            Code::Answered,
            format!("the prompt cannot be shown: {error}"),
        )
        .hint("--json prints it unchanged")
    })?;
    let listed = value
        .get("messages")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let shown: Vec<_> = listed.iter().map(message).collect();
    Ok(Untrusted::new(shown.join("\n\n")))
}

fn message(message: &Value) -> String {
    let role = message.get("role").and_then(Value::as_str).unwrap_or("?");
    let content = message.get("content").unwrap_or(&Value::Null);
    let parts = content
        .as_array()
        .map_or_else(|| std::slice::from_ref(content), Vec::as_slice);
    let texts: Vec<_> = parts.iter().map(part).collect();
    format!("{role}:\n{}", texts.join("\n"))
}

fn part(part: &Value) -> String {
    let field = |name: &str| part.get(name).and_then(Value::as_str);
    let embedded = part
        .get("resource")
        .and_then(|resource| resource.get("text"))
        .and_then(Value::as_str);
    match field("text").or(embedded) {
        Some(text) => text.to_owned(),
        None => {
            let size = field("data").map_or(0, |data| data.trim_end_matches('=').len() * 3 / 4);
            let kind = field("mimeType").or(field("type")).unwrap_or("content");
            format!("[{kind}, {}]", crate::view::table::bytes(size as u64))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn messages_are_shown_by_role_with_every_kind_of_content() {
        let raw = br#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},
            {"role":"assistant","content":[{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource","resource":{"text":"body"}}]}]}"#;
        let shown = messages(&RawJson::parse(&raw[..]).unwrap()).unwrap();
        assert_eq!(
            shown.raw(),
            "user:\nhi\n\nassistant:\n[image/png, 3 bytes]\nbody"
        );
    }
}
