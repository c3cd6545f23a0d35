//! What a command writes to stdout, to stderr and to disk, with the real program.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

use switchboard_testkit::{Chaos, Entry, Launch, program};

/// A home with this server as `s`, its script in a file: some are too long for an argument.
fn served(chaos: &Chaos) -> support::Home {
    let home = support::Home::new();
    let script = home.path("script.json");
    std::fs::write(&script, chaos.json()).unwrap();
    let launch = Launch::new(program("chaosd")).arg(format!("@{}", script.display()));
    // A folder of its own: where the state folder cannot be made there is no private one.
    home.user_file(
        &Entry::new("s", &launch)
            .set("cwd", &home.path("project").display().to_string())
            .render(),
    );
    home
}

/// What `--debug` logs.
mod debug_log;
/// The commands that `demo` prints.
mod demo;
/// Server text as a terminal and as a pipe get it.
mod results;
/// Signals while a question is on the screen.
mod signals;
/// Results and state files on a full, read-only or damaged disk.
mod state_files;
/// `watch` after its server is gone.
mod watch;
