//! Detects lines of stderr that a logger marked as INFO: such lines report no fault.

/// A level appears within this many bytes of the line's start, after a date, a process id or a
/// logger's name.
const LEVEL_SEARCH_BYTES: usize = 64;

/// Level names of loggers other than INFO. The first level in a line is the line's level.
const WORSE: [&str; 9] = [
    "error",
    "err",
    "warn",
    "warning",
    "fatal",
    "critical",
    "panic",
    "severe",
    "exception",
];

/// Whether the line's level is INFO. Prose that contains "info" does not count: a level is in
/// capitals or delimited by punctuation.
pub(super) fn is_info(line: &str) -> bool {
    let near = &line[..line.floor_char_boundary(LEVEL_SEARCH_BYTES)];
    let mut start = 0;
    while start < near.len() {
        let rest = &near[start..];
        let Some(from) = rest.find(|letter: char| letter.is_alphanumeric()) else {
            return false;
        };
        let from = start + from;
        let length = near[from..]
            .find(|letter: char| !letter.is_alphanumeric())
            .unwrap_or(near.len() - from);
        let (word, to) = (&near[from..from + length], from + length);
        if WORSE.iter().any(|worse| word.eq_ignore_ascii_case(worse)) {
            return false;
        }
        // The byte limit may have cut the last word.
        let whole = to < near.len() || near.len() == line.len();
        if whole
            && word.eq_ignore_ascii_case("info")
            && (word == "INFO" || is_delimited(&line[..from], &line[to..]))
        {
            return true;
        }
        start = to;
    }
    false
}

fn is_delimited(before: &str, after: &str) -> bool {
    before.ends_with(['[', '(', '<', '|', '=', '"'])
        || after.starts_with([']', ')', '>', '|', ':', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_51_only_lines_that_a_logger_marked_info_are_recognised() {
        let check = |line: &str, expected: bool| assert_eq!(is_info(line), expected, "{line}");
        check("INFO: started", true);
        check("INFO     Uvicorn running on http://127.0.0.1:8000", true);
        check("[INFO] listening", true);
        check("info: listening", true);
        check("2026-11-15 09:30:00,123 - root - INFO - ready", true);
        check("2026-11-15T09:30:00Z [server] [info] ready", true);
        check(
            "time=\"2026-11-15T09:30:00Z\" level=info msg=\"ready\"",
            true,
        );
        check("{\"level\":\"info\",\"msg\":\"ready\"}", true);
        check("Info: ready", true);
        check("", false);
        check("ready", false);
        check("ERROR: no INFO section in the file", false);
        check("WARNING [INFO] was asked for", false);
        check("no info about that key", false);
        check("INFORMATION lost", false);
        check("information: lost", false);
        check("Traceback (most recent call last):", false);
        check(
            "a line of ordinary words that goes on and on until, at its end, INFO stands",
            false,
        );
        check(&format!("{}INFO", "é".repeat(31)), false);
    }
}
