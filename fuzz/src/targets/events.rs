//! Server-sent events: the same as a plain implementation of the specification, however the bytes
//! are chunked.

use switchboard::wire::events::{EventFrames, ServerEvent};

use super::{Target, cuts};

pub(super) const TARGET: Target = Target {
    name: "events",
    seeds: &[
        "event: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
        ": a comment\n\nretry: 100\ndata\ndata:\ndata:  two\r\n\r\ndata: three\r\rid\n\n",
        "\u{feff}data: with a mark\n\n",
        "data: longer than the bound of this target, which is why only the id at its end is kept {\"id\":3}\n\nid: 2\n\n",
    ],
    words: &[
        "data:", "data: ", "event:", "id:", "id: \0", "retry:", "\n\n", "\r\n", "\r", ":",
        "\u{feff}",
    ],
    check,
};

const MAX_BYTES: usize = 48;

/// Name, data (`None` over the limit), own id.
type Event = (String, Option<Vec<u8>>, Option<String>);

fn check(input: &[u8]) {
    let whole = read(&[input]);
    assert_eq!(whole, read(&cuts(input)), "chunking changes the result");
    assert_eq!(whole.0, reference(input));
}

fn read(pieces: &[&[u8]]) -> (Vec<Event>, Option<String>) {
    let mut frames = EventFrames::new(MAX_BYTES);
    let mut events = Vec::new();
    for piece in pieces {
        frames.push(piece, &mut |event| match event {
            ServerEvent::Event { name, data, id } => {
                assert!(
                    data.as_ref().len() <= MAX_BYTES,
                    "more than the limit is buffered"
                );
                events.push((
                    name.to_owned(),
                    Some(data.as_ref().to_vec()),
                    id.map(str::to_owned),
                ));
            }
            ServerEvent::Oversized(_) => events.push((String::new(), None, None)),
        });
    }
    let last_id = frames.last_id().map(str::to_owned);
    assert!(
        last_id
            .as_ref()
            .is_none_or(|id| !id.is_empty() && !id.contains(|c: char| c.is_ascii_control()))
    );
    (events, last_id)
}

/// A literal implementation of the specification.
fn reference(input: &[u8]) -> Vec<Event> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let mut events = Vec::new();
    let (mut name, mut data, mut id) = (Vec::new(), None::<Vec<u8>>, None::<Vec<u8>>);
    for line in lines(input) {
        if line.is_empty() {
            let id = id
                .take()
                .filter(|id| id.len() <= 1024 && !id.iter().any(u8::is_ascii_control));
            let id = id
                .and_then(|id| String::from_utf8(id).ok())
                .filter(|id| !id.is_empty());
            match data.take() {
                Some(data) if data.len() > MAX_BYTES => events.push((String::new(), None, None)),
                Some(data) => events.push((
                    String::from_utf8(name.clone()).unwrap_or_else(|_| "?".to_owned()),
                    Some(data),
                    id,
                )),
                None => {}
            }
            name.clear();
            continue;
        }
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => match &mut data {
                Some(data) => data.extend_from_slice(&[b"\n", value].concat()),
                None => data = Some(value.to_vec()),
            },
            b"event" => name = value[..value.len().min(1025)].to_vec(),
            b"id" => id = Some(value.to_vec()),
            _ => {}
        }
    }
    events
}

/// Lines that have ended, by CR, LF or both.
fn lines(input: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut start, mut at) = (Vec::new(), 0, 0);
    while at < input.len() {
        if matches!(input[at], b'\r' | b'\n') {
            lines.push(&input[start..at]);
            at += usize::from(input[at..].starts_with(b"\r\n"));
            start = at + 1;
        }
        at += 1;
    }
    lines
}
