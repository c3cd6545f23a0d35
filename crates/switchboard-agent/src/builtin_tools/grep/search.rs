//! The search of one file after the other, until there is enough or the time is up.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use super::GrepOutput;
use crate::builtin_tools::blocking::StopSignal;

/// How many lines of results there are.
const MAX_RESULTS: usize = 250;
const MAX_LINE_CHARS: usize = 500;
/// How long a line of a searched file may be.
const MAX_LINE_BYTES: usize = 16 << 20;

/// A search over many files.
pub(super) struct FileSearch {
    matcher: RegexMatcher,
    searcher: Searcher,
    output: GrepOutput,
    stop: StopSignal,
    results: Vec<String>,
    is_cut: bool,
    has_context: bool,
}

impl FileSearch {
    pub(super) fn new(
        matcher: RegexMatcher,
        output: GrepOutput,
        context: usize,
        stop: StopSignal,
    ) -> Self {
        let context = match output {
            GrepOutput::Lines => context,
            GrepOutput::Files | GrepOutput::Count => 0,
        };
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(MAX_LINE_BYTES))
            .build();
        Self {
            matcher,
            searcher,
            output,
            stop,
            results: Vec::new(),
            is_cut: false,
            has_context: context > 0,
        }
    }

    /// Searches one file. What cannot be read to its end is searched as far as it was read.
    pub(super) fn file(&mut self, file: OwnedFd, path: &str) {
        let reader = StoppableRead {
            file: File::from(file),
            stop: self.stop.clone(),
        };
        let mut found = FoundLines {
            path,
            output: self.output,
            room: MAX_RESULTS - self.results.len(),
            lines: Vec::new(),
            matches: 0,
            is_cut: false,
        };
        if self.has_context && !self.results.is_empty() {
            found.lines.push("--".to_owned());
        }
        let _ = self
            .searcher
            .search_reader(&self.matcher, reader, &mut found);
        if found.matches == 0 {
            return;
        }
        self.is_cut |= found.is_cut;
        match self.output {
            GrepOutput::Lines => self.results.append(&mut found.lines),
            GrepOutput::Files => self.results.push(path.to_owned()),
            GrepOutput::Count => self.results.push(format!("{path}:{}", found.matches)),
        }
    }

    pub(super) fn wants_more(&mut self) -> bool {
        let is_full = self.results.len() >= MAX_RESULTS;
        self.is_cut |= is_full;
        !is_full && !self.stop.is_set()
    }

    /// The results, and what was left out.
    pub(super) fn finish(mut self, limit: Duration) -> String {
        if self.is_cut {
            let note =
                format!("[cut after {MAX_RESULTS} results; give a narrower pattern, path or glob]");
            self.results.push(note);
        } else if self.stop.is_late() {
            let note = format!(
                "[stopped after {} s; give a narrower path or glob]",
                limit.as_secs()
            );
            self.results.push(note);
        }
        match self.results.is_empty() {
            true => "[nothing matches]".to_owned(),
            false => self.results.join("\n"),
        }
    }
}

/// A file whose reading ends when the signal is set.
struct StoppableRead {
    file: File,
    stop: StopSignal,
}

impl Read for StoppableRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.is_set() {
            true => Err(io::Error::other("stopped")),
            false => self.file.read(buffer),
        }
    }
}

/// What was found in one file.
struct FoundLines<'p> {
    path: &'p str,
    output: GrepOutput,
    /// How many lines there is room for.
    room: usize,
    lines: Vec<String>,
    matches: u64,
    is_cut: bool,
}

impl FoundLines<'_> {
    fn add(&mut self, number: Option<u64>, mark: char, line: &[u8]) -> bool {
        if self.lines.len() >= self.room {
            self.is_cut = true;
            return false;
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let cut = line.char_indices().nth(MAX_LINE_CHARS);
        let (line, more) = match cut {
            Some((at, _)) => (&line[..at], " […]"),
            None => (line, ""),
        };
        let number = number.unwrap_or_default();
        let path = self.path;
        self.lines
            .push(format!("{path}{mark}{number}{mark}{line}{more}"));
        true
    }
}

impl Sink for FoundLines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        match self.output {
            GrepOutput::Lines => Ok(self.add(found.line_number(), ':', found.bytes())),
            GrepOutput::Files => Ok(false),
            GrepOutput::Count => Ok(true),
        }
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        match around.kind() {
            SinkContextKind::Other => Ok(true),
            _ => Ok(self.add(around.line_number(), '-', around.bytes())),
        }
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.lines.push("--".to_owned());
        Ok(true)
    }
}
