//! Events as the standard reads them, in any pieces.

use proptest::prelude::*;

use super::*;

/// Every event as text, then the last id and the pause that were heard.
fn heard(pieces: &[&[u8]], max_bytes: usize) -> (Vec<String>, Option<String>, Option<u64>) {
    let mut frames = EventFrames::new(max_bytes);
    let mut found = Vec::new();
    for piece in pieces {
        frames.push(piece, &mut |event| {
            found.push(match event {
                ServerEvent::Event { name, data, .. } => {
                    format!("{name}|{}", String::from_utf8_lossy(data.as_ref()))
                }
                ServerEvent::Oversized(message) => format!("oversized {message:?}"),
            });
        });
    }
    let retry = frames
        .retry()
        .map(|retry| u64::try_from(retry.as_millis()).expect("small"));
    (found, frames.last_id().map(str::to_owned), retry)
}

#[track_caller]
fn check(stream: &str, events: &[&str], last_id: Option<&str>, retry: Option<u64>) {
    for size in [1, 2, 3, 7, stream.len().max(1)] {
        let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
        let (found, id, pause) = heard(&pieces, 1024);
        assert_eq!(
            (&*found, id.as_deref(), pause),
            (
                &*events
                    .iter()
                    .map(|text| (*text).to_owned())
                    .collect::<Vec<_>>(),
                last_id,
                retry
            ),
            "{stream:?} in pieces of {size}"
        );
    }
}

#[test]
fn events_are_read_as_the_standard_says() {
    check("data: a\n\n", &["|a"], None, None);
    check("data:a\r\rdata:  b\r\n\r\n", &["|a", "| b"], None, None);
    check(
        "event: message\ndata: {\ndata: }\n\n",
        &["message|{\n}"],
        None,
        None,
    );
    check("\u{feff}data: a\n\n", &["|a"], None, None);
    check("\u{feff}\u{feff}data: a\n\n", &[], None, None);
    check(": keep-alive\n\n:\n\ndata: ä€𝄞\n\n", &["|ä€𝄞"], None, None);
    check("id: 7\nretry: 250\ndata:\n\n", &["|"], Some("7"), Some(250));
    check(
        "id: 7\ndata: a\n\ndata: b\n\nid: 9\n\n",
        &["|a", "|b"],
        Some("9"),
        None,
    );
    check("id: 7\ndata: a\n\nid\n\n", &["|a"], None, None);
    check(
        "retry: soon\nretry: -1\nretry\nretry: \n\n",
        &[],
        None,
        None,
    );
    check("data\n\ndata\ndata\n\n", &["|", "|\n"], None, None);
    check(
        "datas: x\nevent: a\nevent: b\ndata: 1\n\ndata: 2\n\n",
        &["b|1", "|2"],
        None,
        None,
    );
    check("dataaaaaaaaaaaaaaaaa: x\n\n", &[], None, None);
}

#[test]
fn f25_what_is_cut_off_is_no_event_and_its_id_does_not_count() {
    check(
        "id: 1\ndata: a\n\nid: 2\ndata: b\n",
        &["|a"],
        Some("1"),
        None,
    );
    check("id: 1\ndata: a\n\nid: 2\ndata: b", &["|a"], Some("1"), None);
}

#[test]
fn f4_past_the_bound_the_message_is_named_and_the_next_event_works() {
    let padding = "y".repeat(2000);
    check(
        &format!("data: {{\"id\":3,\"result\":\"{padding}\"}}\n\ndata: n\n\n"),
        &["oversized Some(Response(Number(3)))", "|n"],
        None,
        None,
    );
    check(
        &format!("data: {{\"result\":\"{padding}\",\ndata: \"id\":3}}\nid: 4\n\ndata: n\n\n"),
        &["oversized Some(Response(Number(3)))", "|n"],
        Some("4"),
        None,
    );
    // The newline between two lines of data ends the number.
    check(
        &format!("data: {{\"id\": 3\ndata: ,\"result\":\"{padding}\"}}\n\ndata: n\n\n"),
        &["oversized Some(Response(Number(3)))", "|n"],
        None,
        None,
    );
    check(
        &format!("data: {{\"result\":\"{padding}\"}}\n\ndata: n\n\n"),
        &["oversized None", "|n"],
        None,
        None,
    );
    check(
        &format!("id: {padding}\nevent: {padding}\n\ndata: n\n\n"),
        &["|n"],
        None,
        None,
    );
}

#[test]
fn t29_what_never_ends_is_noticed_before_it_ends() {
    for (stream, expected) in [
        ("data: short\n", false),
        (": a comment\n: and another\n: and a third\n", false),
        (": a comment that goes on", true),
        ("data: this goes on", true),
        ("data: this\ndata: goes\ndata: on\n", true),
        ("data: this goes on\n\n", false),
    ] {
        let mut frames = EventFrames::new(8);
        let long = stream.replace("goes on", &"goes on".repeat(200));
        frames.push(long.as_bytes(), &mut |_| {});
        assert_eq!(frames.is_oversized(), expected, "{stream:?}");
    }
}

#[test]
fn a_long_event_is_handed_out_whole() {
    let long = "x".repeat(SHARED_LINE_BYTES);
    let stream = format!("data: {long}\n\ndata: n\n\n");
    let pieces: Vec<&[u8]> = stream.as_bytes().chunks(1000).collect();
    assert_eq!(
        heard(&pieces, 1 << 20).0,
        [format!("|{long}"), "|n".to_owned()]
    );
}

proptest! {
    /// However the bytes are cut, the events are the same.
    #[test]
    fn events_do_not_depend_on_how_the_bytes_came(
        words in prop::collection::vec(prop::sample::select(vec!["data", "id", "event", "retry", ":", " ", "\n", "\r", "\r\n", "\n\n", "1", "{\"id\":5,", "ä", "\u{feff}", "x"]), 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stream = words.concat();
        let bytes = stream.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(heard(&pieces, 16), heard(&[bytes], 16));
    }
}
