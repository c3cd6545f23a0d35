//! A stream that ends anywhere is a fault or a complete turn, never a part of a call that runs.

use fastrand::Rng;
use switchboard_agent::ModelVendor;

use crate::fixtures::STREAMS;
use crate::independent::{Reading, read, reading_of};
use crate::reading::read_stream;
use crate::recordings::load;

/// Cuts one stream at `at` and checks what comes of it.
fn check(place: &str, vendor: ModelVendor, body: &str, whole: &Reading, at: usize) -> bool {
    let Ok(turn) = read_stream(vendor, "m", &body.as_bytes()[..at], 1024) else {
        return false;
    };
    let found = reading_of(&turn);
    // The calls that can run are those of the whole answer. The counts may be missing.
    let runnable = |calls: &[(String, serde_json::Value)]| {
        let calls = calls.iter().filter(|call| call.1.is_object());
        calls.cloned().collect::<Vec<_>>()
    };
    let expected = runnable(&whole.calls);
    assert_eq!(runnable(&found.calls), expected, "{place} cut at {at}");
    // Gemini may send several reasons to stop, each after a part of the text.
    let has_several_ends = body.matches("\"finishReason\"").count() > 1;
    match has_several_ends {
        true => assert!(whole.text.starts_with(&found.text), "{place} cut at {at}"),
        false => assert_eq!(found.text, whole.text, "{place} cut at {at}"),
    }
    true
}

fn check_everywhere(place: &str, vendor: ModelVendor, body: &str, random: &mut Rng) {
    let whole = read(vendor, true, body);
    // Events end with an empty line.
    let ends = ["\n\n", "\n\r\n"].into_iter();
    let ends = ends.flat_map(|end| body.match_indices(end));
    let ends = ends.map(|(at, end)| at + end.len());
    let mut complete = 0;
    for at in ends {
        complete += usize::from(check(place, vendor, body, &whole, at));
    }
    for _ in 0..20 {
        check(place, vendor, body, &whole, random.usize(..body.len()));
    }
    assert!(complete >= 1, "{place} is never complete");
    assert!(
        !check(place, vendor, body, &whole, 0),
        "{place}: nothing is a turn"
    );
}

#[test]
fn a_recorded_stream_that_is_cut_anywhere_is_a_fault_or_complete() {
    let Some(interactions) = load("a_recorded_stream_that_is_cut_anywhere") else {
        return;
    };
    // The same positions in every run.
    let mut random = Rng::with_seed(12);
    let mut streams = 0;
    for one in interactions
        .iter()
        .filter(|one| one.is_stream && one.status == 200)
    {
        check_everywhere(&one.place, one.vendor, &one.body, &mut random);
        streams += 1;
    }
    eprintln!("{streams} streams were cut at every event and at 20 random bytes each");
}

#[test]
fn a_fixture_that_is_cut_at_any_byte_is_a_fault_or_complete() {
    for (name, vendor, body) in STREAMS {
        let whole = read(*vendor, true, body);
        for at in 0..body.len() {
            check(name, *vendor, body, &whole, at);
        }
    }
}
