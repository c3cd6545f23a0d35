//! The options of the command line.

use std::path::PathBuf;

use crate::cores::Pin;
use crate::http::Answers;
use crate::measure::{Era, Fault};

/// Shown when the words make no sense.
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
    /// A healthy server beside some that send without pause.
    Flood,
    /// Turns of the agent with a model.
    Turn,
    /// The start and the memory of the console.
    Chat,
    /// Clients through a gateway.
    Gateway,
    /// A healthy server beside faulty ones, through a gateway.
    Faults,
    /// A gateway for minutes, with faults of all kinds.
    Soak,
}

/// One run, as asked for.
pub(crate) struct Options {
    pub(crate) work: Work,
    pub(crate) json: bool,
    pub(crate) rounds: usize,
    /// Fewer calls in each round.
    pub(crate) quick: bool,
    /// The runtime of every contestant has one thread, or one for each core.
    pub(crate) multi_thread: bool,
    pub(crate) era: Era,
    /// Which cores the two sides run on, in `stdio` and `http`.
    pub(crate) pin: Pin,
    /// How the server answers in `http`; both ways, one after the other, where absent.
    pub(crate) answers: Option<Answers>,
    /// Where `baseline/sdks` put the SDKs of other languages.
    pub(crate) sdks: Option<PathBuf>,
    /// Where `baseline/gateways` put the other gateways.
    pub(crate) peers: Option<PathBuf>,
    /// How long `soak` runs.
    pub(crate) minutes: f64,
    without: Vec<String>,
}

impl Options {
    /// Reads the words after the program's name.
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
                _ => return Err(format!("unknown word {word:?}\n{USAGE}").into()),
            }
        }
        // Threads that may not leave a core would only stand in each other's way.
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

    /// Lines for the report on who was left out.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.without
            .iter()
            .map(|who| format!("{who}: skipped, as told by --without {who}"))
            .collect()
    }

    /// A size of the work, smaller when in a hurry.
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
    read(text).ok_or_else(|| format!("{word} cannot be {text:?}\n{USAGE}"))
}
