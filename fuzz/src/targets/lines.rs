//! Newline framing: the same lines as a plain split, however the bytes are chunked, and nothing
//! beyond the limit is kept.

use switchboard::wire::lines::{Frame, LineFrames};

use super::{Target, cuts};

pub(super) const TARGET: Target = Target {
    name: "lines",
    seeds: &[
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n",
        "\n\r\n\n",
        "no newline at the end",
        "{\"a\":\"a long line that is past the bound of this target, with its id at the end of it\",\"id\":7}\nnext\n",
    ],
    words: &[
        "\n",
        "\r\n",
        "\"id\":",
        "\"id\":18446744073709551615",
        "{\"id\":\"x\\\"\"",
        "\\u0022",
        "{}",
        "[",
        "]",
    ],
    check,
};

/// Small, so that many lines exceed it.
const MAX_BYTES: usize = 64;

fn check(input: &[u8]) {
    let mut expected: Vec<Option<Vec<u8>>> = input
        .split(|byte| *byte == b'\n')
        .map(|line| (line.len() <= MAX_BYTES).then(|| line.to_vec()))
        .collect();
    // What follows the last newline counts as a line; so does its absence, as an empty one.
    let whole = frames(&[input]);
    let lines = |found: &[Found]| -> Vec<Option<Vec<u8>>> {
        found.iter().map(|frame| frame.0.clone()).collect()
    };
    if lines(&whole).len() < expected.len() && expected.last() == Some(&Some(Vec::new())) {
        expected.pop();
    }
    assert_eq!(lines(&whole), expected);
    assert_eq!(whole, frames(&cuts(input)), "chunking changes the result");
}

/// A line, or `None` for one over the limit, with the id that was found in it.
#[derive(Debug, PartialEq)]
struct Found(Option<Vec<u8>>, Option<String>);

fn frames(pieces: &[&[u8]]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut each = |frame: Frame<'_>| {
        found.push(match frame {
            Frame::Short(line) => Found(Some(line.to_vec()), None),
            Frame::Long(line) => Found(Some(line.to_vec()), None),
            Frame::Oversized(message) => Found(None, Some(format!("{message:?}"))),
            Frame::OversizedUnknown => Found(None, None),
        });
    };
    let mut lines = LineFrames::new(MAX_BYTES);
    for piece in pieces {
        lines.buffer(piece.len()).extend_from_slice(piece);
        lines.drain(&mut each);
        assert!(
            lines.buffer(0).len() <= MAX_BYTES,
            "more than the limit is buffered"
        );
    }
    lines.finish(&mut each);
    found
}
