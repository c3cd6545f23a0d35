//! Builds each request of a recorded session again, offline, and compares it with what was sent.

use std::path::Path;

use super::load::{read_header, read_lines};
use super::reading::SessionReading;
use super::{SessionError, SessionRecord};

/// How many bytes before and after the first difference are shown.
const CONTEXT_BYTES: usize = 60;

/// The result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// How many requests were compared.
    pub requests: usize,
    /// How many turns of the model were read.
    pub turns: usize,
    /// How many results of calls were read.
    pub results: usize,
    /// Requests that are built differently now.
    pub differences: Vec<ReplayDifference>,
    /// What was missing at the end of the file, such as results of calls.
    pub repairs: Vec<super::SessionRepair>,
}

/// A request that is built differently now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayDifference {
    /// Which request, from 1.
    pub request: usize,
    /// The line of the file, from 1.
    pub line: usize,
    /// The first byte of the body that differs.
    pub at: usize,
    /// What was sent around that place.
    pub recorded: String,
    /// What would be sent now.
    pub rebuilt: String,
}

/// Replays a session file. The file is only read.
pub fn replay(path: &Path) -> Result<ReplayReport, SessionError> {
    let bytes = super::load::read_file(path)?;
    let mut lines = read_lines(path, &bytes);
    read_header(path, lines.next())?;
    let mut reading = SessionReading::default();
    let mut report = ReplayReport::default();
    for next in lines {
        let (line, record) = next?;
        match &record {
            SessionRecord::Turn(_) => report.turns += 1,
            SessionRecord::Result { .. } => report.results += 1,
            _ => {}
        }
        let path_sent = match &record {
            SessionRecord::Request(request) => Some(request.path.clone()),
            _ => None,
        };
        let read = reading.read(record, &mut report.repairs);
        read.map_err(|reason| SessionError::unreadable(path, line, reason))?;
        if let Some(path_sent) = path_sent {
            report.requests += 1;
            let rebuilt = reading.request();
            let rebuilt = rebuilt.map_or_else(String::new, |request| {
                with_path(&request.path, &request.body)
            });
            let recorded = with_path(&path_sent, &reading.body);
            let difference = compare(&recorded, &rebuilt, report.requests, line);
            report.differences.extend(difference);
        }
    }
    reading.close(&mut report.repairs);
    Ok(report)
}

/// The path is compared with the body: it names the model on some wires.
fn with_path(path: &str, body: &str) -> String {
    format!("{path}\n{body}")
}

fn compare(recorded: &str, rebuilt: &str, request: usize, line: usize) -> Option<ReplayDifference> {
    if recorded == rebuilt {
        return None;
    }
    let pairs = recorded.bytes().zip(rebuilt.bytes());
    let at = pairs.take_while(|(one, other)| one == other).count();
    let excerpt = |text: &str| {
        let start = text.floor_char_boundary(at.saturating_sub(CONTEXT_BYTES));
        let end = text.ceil_char_boundary((at + CONTEXT_BYTES).min(text.len()));
        text[start..end].to_owned()
    };
    Some(ReplayDifference {
        request,
        line,
        at,
        recorded: excerpt(recorded),
        rebuilt: excerpt(rebuilt),
    })
}
