//! Tools with side effects: `toggle_tool`, `count_up`, `log`.

use serde::Deserialize;
use serde_json::json;

use crate::demo::Change;
use crate::era::Level;
use crate::exchange::Call;
use crate::rpc::Body;

/// Adds or removes the tool `surprise`, and notifies that the list changed.
pub(crate) fn toggle_tool(call: &Call<'_>) -> Body {
    let demo = &call.peer.demo;
    let is_there = demo.tools.toggle();
    demo.announce(Change::Tools);
    Body::from_message(if is_there {
        "the tool surprise is there now"
    } else {
        "the tool surprise is gone"
    })
}

/// Increments the counter.
pub(super) fn count_up(call: &Call<'_>) -> Body {
    Body::from_message(format!(
        "the counter stands at {}",
        call.peer.demo.count_up()
    ))
}

/// Logs one message at each level, from `debug` up, or at the given level.
pub(super) fn log(call: &Call<'_>) -> Body {
    #[derive(Deserialize)]
    #[serde(default)]
    struct Arguments {
        level: Option<String>,
        message: String,
    }
    impl Default for Arguments {
        fn default() -> Self {
            Self {
                level: None,
                message: "something worth a line".to_owned(),
            }
        }
    }
    let arguments: Arguments = match call.arguments() {
        Ok(arguments) => arguments,
        Err(failure) => return failure,
    };
    let levels = match arguments
        .level
        .as_deref()
        .map(|name| (name, Level::named(name)))
    {
        None => Level::ALL.to_vec(),
        Some((_, Some(level))) => vec![level],
        Some((name, None)) => return Body::from_failure(format!("unknown log level {name:?}")),
    };
    let sent = levels
        .iter()
        .filter(|level| call.log(**level, &json!({"message": arguments.message})))
        .count();
    Body::from_message(format!("{sent} of {} messages were sent", levels.len()))
}
