//! What a command leaves on stdout, on stderr and on disk, with the real program: results, damage,
//! signals, steps.
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

/// The commands that `demo` prints.
mod demo;
/// What a person sees of a server's text, and what a program reads.
mod showing;
/// Signals that end a question.
mod signals;
/// What `--debug` logs.
mod steps;
/// Results and state on a disk that does not take them, or takes too many.
mod storing;
/// A resource whose server goes away.
mod watching;
