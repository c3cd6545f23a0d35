//! Whether a logger marked a line of stderr as INFO: such lines report no fault.

/// A level stands within so many bytes of the line's beginning: after a date, a process id, a
/// logger's name.
const NEAR_BYTES: usize = 64;

/// What loggers call what is worse than ordinary. The first level of a line is its level.
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

/// Whether the line's level is INFO. Plain prose that says "info" is kept: a level is in capitals,
/// or set apart by a mark beside it.
pub(super) fn is_info(line: &str) -> bool {
    let near = &line[..line.floor_char_boundary(NEAR_BYTES)];
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
        // A word that the cut may have shortened is no whole word.
        let whole = to < near.len() || near.len() == line.len();
        if whole
            && word.eq_ignore_ascii_case("info")
            && (word == "INFO" || is_set_apart(&line[..from], &line[to..]))
        {
            return true;
        }
        start = to;
    }
    false
}

fn is_set_apart(before: &str, after: &str) -> bool {
    before.ends_with(['[', '(', '<', '|', '=', '"'])
        || after.starts_with([']', ')', '>', '|', ':', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2-51.
    #[test]
    fn s2_51_lines_that_a_logger_marked_info_are_known_and_no_others() {
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
