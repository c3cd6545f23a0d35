//! The options, from flags and variables: `--tools 1000` or `SWITCHBOARD_DEMO_TOOLS=1000`.

use std::fmt;
use std::time::Duration;

use crate::http::{Answers, HttpOptions, Questions};

/// How the server behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which eras it speaks.
    pub eras: Eras,
    /// How many generated tools are listed after the real ones.
    pub extra_tools: usize,
    /// How many items a page of a list holds.
    pub page_size: usize,
    /// How long it waits before it reads anything.
    pub start_delay: Duration,
    /// How often the counter counts by itself; `None` for never.
    pub tick: Option<Duration>,
    /// Its name.
    pub name: String,
    /// The address for HTTP; `None` for stdin and stdout.
    pub listen: Option<String>,
    /// Options of HTTP.
    pub http: HttpOptions,
    /// Whether it also offers what the conformance suite calls by name.
    pub has_fixtures: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            eras: Eras::Both,
            extra_tools: 0,
            page_size: 100,
            start_delay: Duration::ZERO,
            tick: None,
            name: "switchboard-demo".to_owned(),
            listen: None,
            http: HttpOptions::default(),
            has_fixtures: false,
        }
    }
}

/// Which eras the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// Only `initialize` and what follows from it.
    Legacy,
    /// Only requests that carry their revision.
    Modern,
    /// Both, also on one connection.
    Both,
}

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one per process")]
pub enum Invocation {
    /// Serve with these options.
    Serve(Options),
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
}

/// A flag, variable or value that means nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageFault(String);

impl fmt::Display for UsageFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UsageFault {}

/// What `--help` prints.
pub const USAGE: &str = "\
usage: switchboard-demo [options]     an MCP server on stdin and stdout, or on HTTP

  --era legacy|modern|both   which protocol eras to speak (both)
  --tools N                  add N generated tools to the list (0)
  --page-size N              items on one page of a list (100)
  --delay-start MS           wait before reading anything (0)
  --tick MS                  let demo://counter count by itself (never)
  --name NAME                what the server calls itself (switchboard-demo)
  --fixtures none|conformance  also offer what the protocol's conformance suite calls (none)
  --http ADDR                listen there (port 0: any; the address is printed) with /mcp, and /sse for 2024-11-05
  --answers json|sse         how HTTP answers quick requests (json)
  --questions post|get       whether legacy questions come on the stream of their call (post)
  --token T                  what HTTP requests must bring as a bearer token (nothing)
  --keep-alive MS            how often a silent stream says that it is alive (15000)
  --retry MS                 how long to wait before resuming a stream (500)
  --sessions N               how many legacy sessions may be open (1024)

each option can be set as a variable too, as in SWITCHBOARD_DEMO_PAGE_SIZE=10
";

const FLAGS: [&str; 14] = [
    "era",
    "tools",
    "page-size",
    "delay-start",
    "tick",
    "name",
    "fixtures",
    "http",
    "answers",
    "questions",
    "token",
    "keep-alive",
    "retry",
    "sessions",
];

impl Options {
    /// Reads variables first, then arguments, so that an argument wins.
    pub fn parse(
        arguments: impl IntoIterator<Item = String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Invocation, UsageFault> {
        let mut options = Self::default();
        for flag in FLAGS {
            let name = format!("SWITCHBOARD_DEMO_{}", flag.to_uppercase().replace('-', "_"));
            if let Some(value) = variable(&name) {
                options.set(flag, &value).map_err(|expected| {
                    UsageFault(format!("{name}={value}: expected {expected}"))
                })?;
            }
        }
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (flag, inline) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            match flag {
                "--help" | "-h" => return Ok(Invocation::Help),
                "--version" | "-V" => return Ok(Invocation::Version),
                _ => {}
            }
            let known = flag.strip_prefix("--").filter(|flag| FLAGS.contains(flag));
            let Some(known) = known else {
                return Err(UsageFault(format!("unknown option {flag}; try --help")));
            };
            let Some(value) = inline.or_else(|| arguments.next()) else {
                return Err(UsageFault(format!("{flag} needs a value; try --help")));
            };
            options
                .set(known, &value)
                .map_err(|expected| UsageFault(format!("{flag} {value}: expected {expected}")))?;
        }
        Ok(Invocation::Serve(options))
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), &'static str> {
        let number = || value.parse::<u32>().map_err(|_| "a whole number");
        match flag {
            "era" => {
                self.eras = match value {
                    "legacy" => Eras::Legacy,
                    "modern" => Eras::Modern,
                    "both" => Eras::Both,
                    _ => return Err("legacy, modern or both"),
                }
            }
            "tools" => self.extra_tools = number()? as usize,
            "page-size" => match number()? {
                0 => return Err("at least 1"),
                size => self.page_size = size as usize,
            },
            "delay-start" => self.start_delay = Duration::from_millis(number()?.into()),
            "tick" => {
                self.tick =
                    Some(Duration::from_millis(number()?.into())).filter(|tick| !tick.is_zero())
            }
            "name" => self.name = value.to_owned(),
            "fixtures" => {
                self.has_fixtures = match value {
                    "none" => false,
                    "conformance" => true,
                    _ => return Err("none or conformance"),
                }
            }
            "http" => self.listen = Some(value.to_owned()),
            "answers" => {
                self.http.answers = match value {
                    "json" => Answers::Json,
                    "sse" => Answers::Sse,
                    _ => return Err("json or sse"),
                }
            }
            "questions" => {
                self.http.questions = match value {
                    "post" => Questions::Post,
                    "get" => Questions::Get,
                    _ => return Err("post or get"),
                }
            }
            "token" => self.http.token = Some(value.to_owned()),
            "keep-alive" => match number()? {
                0 => return Err("at least 1"),
                pause => self.http.keep_alive = Duration::from_millis(pause.into()),
            },
            "retry" => self.http.retry = Duration::from_millis(number()?.into()),
            "sessions" => match number()? {
                0 => return Err("at least 1"),
                count => self.http.max_sessions = count as usize,
            },
            _ => return Err("a known option"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], variables: &[(&str, &str)], expected: Result<Invocation, &str>) {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let actual = Options::parse(
            arguments.iter().map(|argument| (*argument).to_owned()),
            variable,
        );
        assert_eq!(
            actual.map_err(|fault| fault.to_string()),
            expected.map_err(str::to_owned),
            "{arguments:?}"
        );
    }

    #[test]
    fn flags_win_over_variables_and_wrong_ones_say_what_was_expected() {
        let serve = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            Ok(Invocation::Serve(options))
        };
        check(&[], &[], serve(|_| {}));
        check(
            &["--era", "modern", "--tools=7"],
            &[],
            serve(|o| (o.eras, o.extra_tools) = (Eras::Modern, 7)),
        );
        check(
            &["--tools", "2"],
            &[("SWITCHBOARD_DEMO_TOOLS", "9")],
            serve(|o| o.extra_tools = 2),
        );
        check(
            &[],
            &[("SWITCHBOARD_DEMO_PAGE_SIZE", "9")],
            serve(|o| o.page_size = 9),
        );
        check(&["--tick", "0"], &[], serve(|_| {}));
        check(
            &["--http", "127.0.0.1:0"],
            &[],
            serve(|o| o.listen = Some("127.0.0.1:0".to_owned())),
        );
        check(
            &["--answers", "sse", "--questions=get"],
            &[],
            serve(|o| (o.http.answers, o.http.questions) = (Answers::Sse, Questions::Get)),
        );
        check(
            &["--answers", "xml"],
            &[],
            Err("--answers xml: expected json or sse"),
        );
        check(&["--help"], &[], Ok(Invocation::Help));
        check(
            &["--era", "stone"],
            &[],
            Err("--era stone: expected legacy, modern or both"),
        );
        check(
            &["--page-size", "0"],
            &[],
            Err("--page-size 0: expected at least 1"),
        );
        check(&["--tools"], &[], Err("--tools needs a value; try --help"));
        check(
            &["--colour"],
            &[],
            Err("unknown option --colour; try --help"),
        );
        check(
            &[],
            &[("SWITCHBOARD_DEMO_TICK", "x")],
            Err("SWITCHBOARD_DEMO_TICK=x: expected a whole number"),
        );
    }
}
