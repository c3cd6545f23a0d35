//! The options of the command line.

use std::path::PathBuf;

use crate::cores::Pin;
use crate::http::Answers;
use crate::measure::{Era, Fault};

/// The usage text.
pub(crate) const USAGE: &str = "usage: bench stdio|calls|http|startup|list|flood|turn|chat|gateway|faults|soak [--json] [--rounds N] [--quick] [--runtime current|multi] \
[--era legacy|modern] [--pin apart|together|none] [--answers json|sse] [--sdks DIR] [--peers DIR] [--minutes N] [--without floor|raw|rmcp|us|ts|python|attach|peers]…";

/// What to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Calls over one session.
    Stdio,
    /// Nothing but small calls over one session, many at once.
    Calls,
    /// Calls over Streamable HTTP.
    Http,
    /// Fifty servers at once.
    Startup,
    /// Large catalogs.
    List,
    /// A healthy server next to flooding ones.
    Flood,
    /// Turns of the agent with a model.
    Turn,
    /// The start and the memory of the console.
    Chat,
    /// Clients through a gateway.
    Gateway,
    /// A healthy server next to faulty ones, through a gateway.
    Faults,
    /// A gateway for minutes, with faults of all kinds.
    Soak,
}

/// The options of one run.
pub(crate) struct Options {
    pub(crate) work: Work,
    pub(crate) json: bool,
    pub(crate) rounds: usize,
    /// Fewer calls in each round.
    pub(crate) quick: bool,
    /// The runtime of every contestant has one thread, or one for each core.
    pub(crate) multi_thread: bool,
    pub(crate) era: Era,
    /// Which cores the two sides run on, in `stdio`, `http` and `gateway`.
    pub(crate) pin: Pin,
    /// How the server answers in `http`; `None` for both ways in turn.
    pub(crate) answers: Option<Answers>,
    /// The folder that `baseline/sdks` installed into.
    pub(crate) sdks: Option<PathBuf>,
    /// The folder that `baseline/gateways` installed into.
    pub(crate) peers: Option<PathBuf>,
    /// How long `soak` runs.
    pub(crate) minutes: f64,
    without: Vec<String>,
}

impl Options {
    /// Parses the arguments.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, Fault> {
        let mut words = words.peekable();
        let work = match words.next().as_deref() {
            Some("stdio") => Work::Stdio,
            Some("calls") => Work::Calls,
            Some("http") => Work::Http,
            Some("startup") => Work::Startup,
            Some("list") => Work::List,
            Some("flood") => Work::Flood,
            Some("turn") => Work::Turn,
            Some("chat") => Work::Chat,
            Some("gateway") => Work::Gateway,
            Some("faults") => Work::Faults,
            Some("soak") => Work::Soak,
            _ => return Err(USAGE.into()),
        };
        let (mut json, mut rounds, mut quick, mut multi_thread, mut era, mut pin, mut without) =
            (false, None, false, false, Era::Legacy, None, Vec::new());
        let (mut answers, mut sdks, mut peers, mut minutes) = (None, None, None, 10.0);
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("{word} needs a value\n{USAGE}"))
            };
            match word.as_str() {
                "--json" => json = true,
                "--quick" => quick = true,
                "--rounds" => {
                    rounds = Some(one_of(&word, &value()?, |text| {
                        text.parse().ok().filter(|&count: &usize| count > 0)
                    })?)
                }
                "--runtime" => {
                    multi_thread =
                        one_of(&word, &value()?, |text| pick(text, ["current", "multi"]))? == 1
                }
                "--era" => {
                    era = [Era::Legacy, Era::Modern]
                        [one_of(&word, &value()?, |text| pick(text, ["legacy", "modern"]))?];
                }
                "--pin" => {
                    let choices = [Pin::Apart, Pin::Together, Pin::Nowhere];
                    pin = Some(
                        choices[one_of(&word, &value()?, |text| {
                            pick(text, ["apart", "together", "none"])
                        })?],
                    );
                }
                "--answers" => {
                    let choices = [Answers::Json, Answers::Events];
                    answers = Some(
                        choices[one_of(&word, &value()?, |text| pick(text, ["json", "sse"]))?],
                    );
                }
                "--sdks" => sdks = Some(PathBuf::from(value()?)),
                "--minutes" => {
                    minutes = one_of(&word, &value()?, |text| {
                        text.parse().ok().filter(|&minutes: &f64| minutes > 0.0)
                    })?;
                }
                "--peers" => peers = Some(PathBuf::from(value()?)),
                "--without" => {
                    let who = value()?;
                    one_of(&word, &who, |text| {
                        let known = [
                            "floor", "raw", "rmcp", "us", "ts", "python", "attach", "peers",
                        ];
                        pick(text, known)
                    })?;
                    without.push(who);
                }
                _ => return Err(format!("unknown argument {word:?}\n{USAGE}").into()),
            }
        }
        // Several threads on one pinned core would only block each other.
        let is_pinned = !multi_thread && !matches!(work, Work::Faults | Work::Soak);
        let pin = pin.unwrap_or(if !is_pinned { Pin::Nowhere } else { Pin::Apart });
        let rounds = rounds.unwrap_or(if quick { 4 } else { 10 });
        Ok(Self {
            work,
            json,
            rounds,
            quick,
            multi_thread,
            era,
            pin,
            answers,
            sdks,
            peers,
            minutes,
            without,
        })
    }

    /// Whether a contestant takes part.
    pub(crate) fn with(&self, who: &str) -> bool {
        !self.without.iter().any(|left_out| left_out == who)
    }

    /// Lines for the report on contestants that were left out.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.without
            .iter()
            .map(|who| format!("{who}: skipped by --without {who}"))
            .collect()
    }

    /// The size of the work, smaller with `--quick`.
    pub(crate) fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    pub(crate) fn runtime_name(&self) -> &'static str {
        if self.multi_thread {
            "multi-thread"
        } else {
            "current-thread"
        }
    }
}

fn pick<const N: usize>(text: &str, choices: [&str; N]) -> Option<usize> {
    choices.iter().position(|&choice| choice == text)
}

fn one_of<T>(word: &str, text: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, String> {
    read(text).ok_or_else(|| format!("{word}: invalid value {text:?}\n{USAGE}"))
}
