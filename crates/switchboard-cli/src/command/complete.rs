//! `complete`: completes the value of an argument of a prompt or resource template, as its server
//! suggests.

use clap::Args;
use serde_json::{Map, Value};
use switchboard::Host;
use switchboard::catalog::Offerings;
use switchboard::name::ServerName;
use switchboard::session::CompletionTarget;
use switchboard::untrusted::Untrusted;
use switchboard::wire::RawJson;

use crate::arguments::{Options, prompt_names, server_names};
use crate::coerce;
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::{hints, output, progress, suggestion};

/// Arguments of `complete`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  switchboard complete review language ru\n  switchboard complete 'demo://greeting/{name}' name A\n  switchboard complete review framework --with language=python"
)]
pub(crate) struct CompleteArgs {
    /// A prompt's name or server/name, or the URI of a resource template
    #[arg(value_name = "PROMPT|TEMPLATE", add = prompt_names())]
    of: String,
    /// Name of the argument
    argument: String,
    /// The beginning of its value
    #[arg(default_value = "", hide_default_value = true)]
    value: String,
    /// The value of another argument (repeatable)
    #[arg(long = "with", value_name = "KEY=VALUE", value_parser = coerce::text_pair)]
    others: Vec<(String, String)>,
    /// The server that offers it, if several do
    #[arg(long, short, add = server_names())]
    server: Option<String>,
}

pub(crate) fn run(options: &Options, args: &CompleteArgs) -> Result<u8, Failure> {
    let setup = Setup::read(options)?;
    let (server, of) = super::prompt::split_name(&setup, args.server.as_deref(), &args.of);
    super::with_servers_of(setup, options, server.as_deref(), async |host| {
        let (server, of) = find_reference(host, server.as_deref(), of)?;
        let others: Map<_, _> = args
            .others
            .iter()
            .map(|(key, text)| (key.clone(), Value::from(text.as_str())))
            .collect();
        let request = host.complete(&server, &of, &args.argument, &args.value, &others);
        let result = progress::with_spinner(format!("asking {server}"), request).await?;
        if options.json {
            output::print_json(result.as_str())?;
        } else {
            print_values(&result)?;
        }
        Ok(0)
    })
}

/// The server that offers a prompt of this name; otherwise the server that offers this template.
fn find_reference(
    host: &Host,
    server: Option<&str>,
    of: &str,
) -> Result<(ServerName, CompletionTarget), Failure> {
    let offerings = super::offerings(host, server);
    let prompts = super::servers_offering(&offerings, |offered| {
        offered.prompts.iter().any(|prompt| prompt.name == of)
    });
    let (found, reference) = if prompts.is_empty() {
        let has = |offered: &Offerings| {
            offered
                .templates
                .iter()
                .any(|template| template.uri_template == of)
        };
        (
            super::servers_offering(&offerings, has),
            CompletionTarget::Resource(of.to_owned()),
        )
    } else {
        (prompts, CompletionTarget::Prompt(of.to_owned()))
    };
    let server = super::single_server(&found, &format!("\"{}\"", escaped(of)), || {
        let names = offerings.iter().flat_map(|(_, offered)| {
            let prompts = offered.prompts.iter().map(|prompt| prompt.name.as_str());
            prompts.chain(
                offered
                    .templates
                    .iter()
                    .map(|template| template.uri_template.as_str()),
            )
        });
        let hint = format!(
            "{}{} and {} list them",
            suggestion::did_you_mean(of, names),
            hints::command(&["prompts"]),
            hints::command(&["resources"])
        );
        Failure::new(
            Code::Usage,
            format!("no server offers a prompt or template \"{}\"", escaped(of)),
        )
        .hint(hint)
    })?;
    Ok((server, reference))
}

/// Prints one value per line, and a notice if there are more.
fn print_values(result: &RawJson) -> Result<(), Failure> {
    let (lines, more) = lines(result).ok_or_else(|| {
        Failure::new(Code::Answered, "the response has no values")
            .hint("--json prints it unchanged")
    })?;
    output::print(&lines)?;
    if let Some(more) = more {
        output::notice(&more);
    }
    Ok(())
}

fn lines(result: &RawJson) -> Option<(String, Option<String>)> {
    let result = result.to_value().ok()?;
    let completion = result.get("completion")?;
    let values = completion.get("values")?.as_array()?;
    let text = values
        .iter()
        .filter_map(Value::as_str)
        .map(|value| format!("{}\n", Untrusted::new(value).for_terminal_line()));
    let more = (completion.get("hasMore") == Some(&Value::Bool(true))).then(|| {
        match completion.get("total") {
            Some(Value::Number(total)) => format!(
                "{} of {total} values; type more characters to see others",
                values.len()
            ),
            _ => "there are more values; type more characters to see others".to_owned(),
        }
    });
    Some((text.collect(), more))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_are_printed_one_per_line_and_omitted_ones_are_counted() {
        let check = |result: &str, expected: Option<(&str, Option<&str>)>| {
            let shown = lines(&RawJson::parse(result.to_owned()).unwrap());
            assert_eq!(
                shown,
                expected.map(|(text, more)| (text.to_owned(), more.map(str::to_owned))),
                "{result}"
            );
        };
        check(
            r#"{"completion":{"values":["a","b"]}}"#,
            Some(("a\nb\n", None)),
        );
        check(
            r#"{"completion":{"values":["a"],"total":9,"hasMore":true}}"#,
            Some((
                "a\n",
                Some("1 of 9 values; type more characters to see others"),
            )),
        );
        check(
            r#"{"completion":{"values":[],"hasMore":true}}"#,
            Some((
                "",
                Some("there are more values; type more characters to see others"),
            )),
        );
        check(r#"{"completion":{}}"#, None);
        check("{}", None);
    }
}
