//! `approvals`: lists and answers the calls and configuration changes that wait for an operator of
//! the running gateway.

use std::borrow::Cow;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard::result::{indent_json, readable_json};
use switchboard::untrusted::Untrusted;

use super::reload::send;
use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::{hints, output};

/// Arguments of `approvals`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
A call waits here if it needs approval and its client cannot be asked. It waits for 50 seconds and is then answered with an error; if you allow it after that, the client's next call with the same arguments runs, once, within ten minutes.

A change of the configuration waits here if it would start or allow something new. Its id stands for exactly what is shown of it.

Examples:
  switchboard approvals                list what waits
  switchboard approvals allow 7        let call 7 run
  switchboard approvals deny 7         deny it
  switchboard approvals allow change-… accept a change by its id, and start its server"
)]
pub(crate) struct ApprovalsArgs {
    /// Print a link to the status page that logs one browser in, once
    #[arg(long)]
    page: bool,
    #[command(subcommand)]
    answer: Option<ApprovalAnswer>,
}

#[derive(Debug, Clone, Subcommand)]
enum ApprovalAnswer {
    /// Let a waiting call run, or accept a change
    Allow {
        /// The number of the call, or the id of the change
        #[arg(value_parser = approval_id)]
        id: String,
    },
    /// Deny a waiting call
    Deny {
        /// The number of the call
        #[arg(value_parser = approval_id)]
        id: String,
    },
}

/// An id as the gateway lists it: one word.
fn approval_id(text: &str) -> Result<String, String> {
    let is_change =
        text.starts_with("change-") && text.chars().all(|c| c == '-' || c.is_alphanumeric());
    match is_change || text.parse::<u64>().is_ok() {
        true => Ok(text.to_owned()),
        false => {
            Err("expected the number of a call, or the id of a change (`change-…`)".to_owned())
        }
    }
}

pub(crate) fn run(options: &Options, args: &ApprovalsArgs) -> Result<u8, Failure> {
    let command = match &args.answer {
        None if args.page => "page".to_owned(),
        None => "approvals".to_owned(),
        Some(ApprovalAnswer::Allow { id }) => format!("approvals allow {id}"),
        Some(ApprovalAnswer::Deny { id }) => format!("approvals deny {id}"),
    };
    let answer = send(options, &command)?;
    let read = read_answer(&answer)?;
    if let Some(error) = &read.error {
        return Err(Failure::new(Code::Usage, line(error)).hint(format!(
            "see what waits with {}",
            hints::command(&["approvals"])
        )));
    }
    if options.json {
        output::print_json(&answer)?;
        return Ok(0);
    }
    if let Some(url) = &read.url {
        output::print(&format!("{}\n", line(url)))?;
        return Ok(0);
    }
    output::print(&match read.effect.as_deref() {
        Some("accepted") => "accepted: the change is in use\n".to_owned(),
        Some("runs") => format!("allowed: {} runs\n", read.call()),
        Some("kept") => format!(
            "allowed: {} was answered with an error already, but the next one with the same arguments runs, once, within ten minutes\n",
            read.call()
        ),
        Some(_) => format!("denied: {}\n", read.call()),
        None => render_list(&read.waiting, &read.changes),
    })?;
    Ok(0)
}

/// What the gateway answers: an error, a link, an effect, or what waits.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GatewayAnswer {
    error: Option<String>,
    url: Option<String>,
    effect: Option<String>,
    /// The call that was answered.
    client: String,
    server: String,
    tool: String,
    waiting: Vec<ListedCall>,
    changes: Vec<Value>,
}

impl GatewayAnswer {
    /// The call that was answered.
    fn call(&self) -> String {
        let Self {
            client,
            server,
            tool,
            ..
        } = self;
        format!("{}'s call of {}/{}", line(client), line(server), line(tool))
    }
}

/// A call that waits.
#[derive(Debug, Deserialize)]
struct ListedCall {
    id: u64,
    client: String,
    server: String,
    tool: String,
    because: String,
    /// As the client sent them.
    arguments: Box<RawValue>,
    changed: Vec<String>,
    held_for_s: Option<u64>,
}

fn read_answer(answer: &str) -> Result<GatewayAnswer, Failure> {
    serde_json::from_str(answer).map_err(|error| {
        let message = format!("the gateway's answer cannot be read: {error}");
        Failure::new(Code::Unreachable, message)
            .hint("the gateway may be of another version of this program")
    })
}

/// One paragraph for each call and each change.
fn render_list(waiting: &[ListedCall], changes: &[Value]) -> String {
    if waiting.is_empty() && changes.is_empty() {
        return "nothing waits for approval\n".to_owned();
    }
    let calls = waiting.iter().map(call_paragraph);
    calls.chain(changes.iter().map(change_paragraph)).collect()
}

fn change_paragraph(change: &Value) -> String {
    let text = |key: &str| line(change[key].as_str().unwrap_or_default());
    let about = match change["server"].as_str() {
        Some(server) => format!("server \"{}\": ", line(server)),
        None => String::new(),
    };
    if change["can_accept"] != true {
        let reload = hints::command(&["reload"]);
        return format!(
            "{about}{} (to apply it and all other changes, run {reload})\n",
            text("reason")
        );
    }
    let mut shown = format!("{}  {about}{}\n", text("id"), text("reason"));
    for fact in change["lines"].as_array().into_iter().flatten() {
        shown.push_str(&format!(
            "    {}\n",
            line(fact.as_str().unwrap_or_default())
        ));
    }
    shown
}

fn call_paragraph(call: &ListedCall) -> String {
    let state = match call.held_for_s {
        Some(seconds) => format!("waits {seconds} more seconds"),
        None => "answered with an error; allowing it lets the next attempt run".to_owned(),
    };
    let mut shown = format!(
        "{}  {} calls {}/{}  ({state})\n    because   {}\n    arguments {}\n",
        call.id,
        line(&call.client),
        line(&call.server),
        line(&call.tool),
        line(&call.because),
        shown_arguments(call.arguments.get()),
    );
    for changed in &call.changed {
        shown.push_str(&format!("    {}\n", line(changed)));
    }
    shown
}

/// The arguments, one value in a line. Numbers and the order of members stay as they were sent.
fn shown_arguments(arguments: &str) -> String {
    const MAX_INDENT: usize = 20;
    let shown = indent_json(arguments, MAX_INDENT, |token| {
        Cow::Owned(line(&readable_json(token)))
    });
    shown.replace('\n', "\n    ")
}

fn line(text: &str) -> String {
    Untrusted::new(text).for_terminal_line().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn t12_what_a_client_sends_cannot_move_the_cursor_of_the_operator() {
        let call = json!({
            "id": 7, "client": "codex", "server": "files", "tool": "write\u{1b}[2J", "because": "no rule applies",
            "arguments": {"path": "a\u{202e}b\nc"}, "changed": ["- old\r"], "held_for_s": 41,
        });
        let call = serde_json::from_str(&call.to_string()).expect("a call");
        assert_eq!(
            render_list(&[call], &[]),
            "7  codex calls files/write\\u{1b}[2J  (waits 41 more seconds)\n    because   no rule applies\n    arguments {\n      \"path\": \"a\\u{202e}b\\nc\"\n    }\n    - old\\u{d}\n"
        );
        assert_eq!(render_list(&[], &[]), "nothing waits for approval\n");
        let change = json!({
            "id": "change-00", "server": "files", "reason": "is new\u{1b}[2J", "lines": ["runs \"x\u{202e}\""], "can_accept": true,
        });
        assert_eq!(
            render_list(&[], &[change]),
            "change-00  server \"files\": is new\\u{1b}[2J\n    runs \"x\\u{202e}\"\n"
        );
    }

    /// T13: an operator sees the arguments that run, however they are written.
    #[test]
    fn t13_waiting_calls_show_their_arguments_as_they_were_sent_and_hide_no_others() {
        let call = |id: u64, arguments: &str| {
            format!(
                r#"{{"id":{id},"client":"codex","server":"s","tool":"t","because":"x","arguments":{arguments},"changed":[],"held_for_s":null}}"#
            )
        };
        let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
        let exact = call(1, r#"{"to":1234567890123456789012,"a":1.00}"#);
        let answer = format!(r#"{{"waiting":[{exact},{}],"changes":[]}}"#, call(2, &deep));
        let read = read_answer(&answer).expect("it is read");
        let shown = render_list(&read.waiting, &read.changes);
        assert!(
            shown.contains("\"to\": 1234567890123456789012,\n      \"a\": 1.00\n"),
            "{shown}"
        );
        assert!(shown.contains("\n2  codex calls s/t"), "{shown}");
        assert!(read_answer("{\"waiting\":[{}]}").is_err());
        assert!(read_answer("nonsense").is_err());
    }
}
