//! Prints the result of a call.

use std::path::Path;

use switchboard::catalog::Tool;
use switchboard::result::{CallResult, Projection, fit, forget_old};
use switchboard::wire::{NotJson, RawJson};

use crate::command::with_final_newline;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::view::server::escaped;
use crate::{output, save_files};

/// How much of a result is printed on a terminal; all of it is in a file that is named.
const PRINTED_BYTES: usize = 1024 * 1024;

/// Prints the result whatever else fails, because the tool has run. With `isError`, the text still
/// goes to stdout, and stderr says that it failed.
pub(in crate::command) fn print_outcome(
    tool: &Tool,
    result: &CallResult,
    json: bool,
    paths: &Paths,
    save: Option<&Path>,
) -> Result<u8, Failure> {
    if json {
        output::print_json(result.raw.as_str())?;
    } else {
        print_text(result, paths)?;
    }
    save.map(|folder| save_files::save(&result.raw, folder))
        .transpose()?;
    if !result.is_error() {
        return Ok(0);
    }
    let (server, name) = (&tool.id.server, tool.id.tool.untrusted());
    let name = name.for_terminal_line();
    Err(Failure::new(
        Code::Answered,
        format!("server \"{server}\", tool {name}: the tool reported a failure"),
    )
    .server(server))
}

/// A terminal gets the text for a person, cut if it is very long; a pipe gets the text for a model,
/// complete.
fn print_text(result: &CallResult, paths: &Paths) -> Result<(), Failure> {
    let unreadable = |error: NotJson| {
        Failure::new(
            Code::Answered,
            format!("the result cannot be shown: {error}"),
        )
        .hint("--json prints it unchanged")
    };
    forget_old(&paths.results());
    if output::stdout_columns().is_none() {
        let text = result.untrusted_text().map_err(unreadable)?;
        // JSON stays valid: control characters become JSON escapes.
        return match RawJson::parse(text.raw().to_owned()) {
            Ok(_) => output::print(&with_final_newline(output::escape_for_terminal(text.raw()))),
            Err(_) => output::print(&with_final_newline(text.for_terminal().to_string())),
        };
    }
    let text = result.for_person().map_err(unreadable)?;
    let folder = paths.results();
    let fitted = fit(text.clone(), PRINTED_BYTES, &folder).unwrap_or_else(|error| {
        output::notice(&format!(
            "the result is long and could not be saved in {}: {error}",
            escaped(&folder.display().to_string())
        ));
        Projection {
            text,
            spilled: None,
        }
    });
    output::print(&with_final_newline(fitted.text.for_terminal().to_string()))?;
    // Printed last, because the text may fill many screens.
    if let Some(file) = &fitted.spilled {
        let file = escaped(&file.display().to_string());
        output::notice(&format!(
            "the result is long; all of it is in {file}, escaped as shown here (--json prints it unchanged)"
        ));
    }
    Ok(())
}
