//! The ways to reach the demo server. A wire is one more row.

use switchboard_testkit::program;

/// One way.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// Nothing on this wire says for which call a question is.
    pub(crate) single_stream: bool,
    reach: fn() -> Reached,
}

/// A demo server that can be reached.
pub(crate) struct Reached {
    /// How its entry begins, as TOML.
    pub(crate) entry: String,
}

impl Way {
    pub(crate) fn reach(&self) -> Reached {
        (self.reach)()
    }
}

pub(crate) const STDIO_LEGACY: Way = Way { name: "stdio, legacy", single_stream: true, reach: || stdio("legacy") };

pub(crate) const STDIO_MODERN: Way = Way { name: "stdio, modern", single_stream: false, reach: || stdio("modern") };

fn stdio(era: &str) -> Reached {
    let command = program("switchboard-demo");
    Reached { entry: format!("command = {command:?}\nargs = [\"--era\", \"{era}\"]\n") }
}
