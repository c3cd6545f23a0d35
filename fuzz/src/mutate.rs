//! Makes inputs from a target's seeds: bytes changed, pieces moved, repeated and joined, words of
//! the format inserted.

use fastrand::Rng;

use crate::targets::Target;

/// The longest input.
const MAX_BYTES: usize = 64 * 1024;

/// Bytes that mean something in most formats.
const NOTABLE: &[u8] = b"\0\n\r\t \"'\\/{}[]<>()$%&*?!#:;,.=-_|~^0179aAzZ\x1b\x7f\x80\xc3\xff";

/// The input of one round.
pub(crate) fn input(target: &Target, seed: u64, round: u64) -> Vec<u8> {
    // Consecutive seeds would give similar sequences.
    let mut rng = Rng::with_seed(Rng::with_seed(seed).u64(..) ^ Rng::with_seed(round).u64(..));
    let mut input = pick(&mut rng, target.seeds).as_bytes().to_vec();
    for _ in 0..rng.usize(..8) {
        change(&mut input, target, &mut rng);
        input.truncate(MAX_BYTES);
    }
    input
}

fn change(input: &mut Vec<u8>, target: &Target, rng: &mut Rng) {
    let at = rng.usize(..=input.len());
    match rng.u8(..9) {
        0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
        1 if at < input.len() => input[at] = NOTABLE[rng.usize(..NOTABLE.len())],
        0..=2 => input.insert(
            at,
            if rng.bool() {
                rng.u8(..)
            } else {
                NOTABLE[rng.usize(..NOTABLE.len())]
            },
        ),
        3 => drop(input.drain(piece(input, rng))),
        4 => insert(input, at, pick(rng, target.words).as_bytes()),
        5 => {
            let other = pick(rng, target.seeds).as_bytes();
            insert(input, at, &other[piece(other, rng)]);
        }
        6 => {
            let moved = input[piece(input, rng)].to_vec();
            insert(input, at, &moved);
        }
        7 => {
            // Repetition makes deep and long inputs.
            let range = piece(input, rng);
            let short = range.start..range.end.min(range.start + 16);
            let most = rng.u32(1..14);
            let times = 1 << rng.u32(..most);
            let repeated = input[short].repeat(times.min(MAX_BYTES / 16));
            insert(input, range.start, &repeated);
        }
        _ => input.truncate(at),
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// A random part; short ones are more likely.
fn piece(bytes: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let start = rng.usize(..=bytes.len());
    let most = (bytes.len() - start).min(1 << rng.u32(..12));
    start..start + rng.usize(..=most)
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    rng.choice(from).copied().unwrap_or_default()
}
