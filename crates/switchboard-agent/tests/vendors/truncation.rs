//! A stream that ends anywhere is a fault or a complete turn, never a part of a call that runs.

use fastrand::Rng;
use serde_json::Value;
use switchboard_agent::sse::SseFrames;
use switchboard_agent::wire::wire_of;
use switchboard_agent::{ModelFault, ModelTurn, ModelVendor};

use crate::fixtures::STREAMS;
use crate::independent_reader::{Reading, read, reading_of};
use crate::recorded_answers::{origin, read_stream};
use crate::recordings::load;

/// Checks the outcome of a truncated stream. Returns whether it is a complete turn.
fn check(place: &str, body: &str, whole: &Reading, cut: Result<ModelTurn, ModelFault>) -> bool {
    let Ok(turn) = cut else {
        return false;
    };
    let found = reading_of(&turn);
    // The calls that can run are those of the whole answer. The counts may be missing.
    let runnable = |calls: &[(String, Value)]| {
        let calls = calls.iter().filter(|call| call.1.is_object());
        calls.cloned().collect::<Vec<_>>()
    };
    assert_eq!(runnable(&found.calls), runnable(&whole.calls), "{place}");
    // Gemini may send several reasons to stop, each after a part of the text.
    let has_several_ends = body.matches("\"finishReason\"").count() > 1;
    match has_several_ends {
        true => assert!(whole.text.starts_with(&found.text), "{place}"),
        false => assert_eq!(found.text, whole.text, "{place}"),
    }
    true
}

/// Ends the stream after each of its events. Returns how many ends there were.
fn check_each_event(place: &str, vendor: ModelVendor, body: &str, whole: &Reading) -> usize {
    let mut events = Vec::new();
    let mut frames = SseFrames::new(1 << 24);
    let read = frames.read(body.as_bytes(), |_, data| {
        events.push(data.to_owned());
    });
    read.expect("events");
    let mut reader = wire_of(vendor).expect("a wire").reader(origin(vendor, "m"));
    assert!(reader.finish().is_err(), "{place}: nothing is a turn");
    let mut complete = 0;
    for (number, data) in events.iter().enumerate() {
        let read = reader.event(data, &mut Vec::new());
        read.expect("a recorded event");
        let place = format!("{place} after event {number}");
        complete += usize::from(check(&place, body, whole, reader.finish()));
    }
    assert!(complete >= 1, "{place} is never complete");
    events.len()
}

#[test]
fn a_recorded_stream_that_is_cut_anywhere_is_a_fault_or_complete() {
    let Some(interactions) = load() else {
        return;
    };
    // The same positions in every run.
    let mut random = Rng::with_seed(12);
    let (mut streams, mut events) = (0, 0);
    for one in interactions
        .iter()
        .filter(|one| one.is_stream && one.status == 200)
    {
        let whole = read(one.vendor, true, &one.body);
        events += check_each_event(&one.place, one.vendor, &one.body, &whole);
        for _ in 0..4 {
            let at = random.usize(..one.body.len());
            let place = format!("{} cut at byte {at}", one.place);
            let cut = read_stream(one.vendor, "m", &one.body.as_bytes()[..at], 1024);
            check(&place, &one.body, &whole, cut);
        }
        streams += 1;
    }
    eprintln!("{streams} streams, cut after each of {events} events and at 4 random bytes each");
}

#[test]
fn a_fixture_that_is_cut_at_any_byte_is_a_fault_or_complete() {
    for (name, vendor, body) in STREAMS {
        let whole = read(*vendor, true, body);
        for at in 0..body.len() {
            let place = format!("{name} cut at byte {at}");
            let cut = read_stream(*vendor, "m", &body.as_bytes()[..at], 1024);
            check(&place, body, &whole, cut);
        }
    }
}

/// Events with wrong bytes, missing members and other types in them are faults or turns, never a
/// panic.
#[test]
fn damaged_streams_never_panic() {
    let mut random = Rng::with_seed(34);
    let replacements = [
        "null",
        "0",
        "-1",
        "1e999",
        "\"\"",
        "[]",
        "{}",
        "18446744073709551615",
        ",",
    ];
    for (_, vendor, body) in STREAMS {
        for _ in 0..1500 {
            let mut damaged = (*body).to_owned();
            for _ in 0..random.usize(1..4) {
                // The value after a colon, or any one character.
                let colons: Vec<usize> = damaged.match_indices(':').map(|(at, _)| at + 1).collect();
                let start = colons[random.usize(..colons.len())];
                let end = damaged[start..]
                    .find([',', '}', '\n'])
                    .map_or(damaged.len(), |at| start + at);
                damaged.replace_range(start..end, random.choice(replacements).expect("one"));
            }
            let _ = read_stream(*vendor, "m", damaged.as_bytes(), 1024);
        }
    }
}
