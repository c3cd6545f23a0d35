//! A small image and a small sound, as base64.

use std::sync::LazyLock;

use data_encoding::BASE64;

/// A PNG of 16 by 16 pixels: a lamp on a dark disc.
pub(crate) const PICTURE: &str = concat!(
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAMAAAAoLQ9TAAAACVBMVEX////wtCgoPFolEU8MAAAAA3RSTlMA//9EUNYhAAAAM0lEQVR42mNg",
    "wAqYwACdjxBhYkIVYWJCFQEzGIEAJgLjQ0TIF0AxFMNaTIdhOh3Tc8gAAJXQARlmX+ZSAAAAAElFTkSuQmCC",
);

/// A WAV of a twentieth of a second: 440 Hz, 8 bit, mono.
pub(crate) fn tone() -> &'static str {
    static TONE: LazyLock<String> = LazyLock::new(|| BASE64.encode(&wave()));
    &TONE
}

fn wave() -> Vec<u8> {
    const RATE: u32 = 8000;
    const SAMPLES: u32 = RATE / 20;
    let mut bytes = Vec::with_capacity(44 + SAMPLES as usize);
    bytes.extend_from_slice(b"RIFF");
    bytes.extend_from_slice(&(36 + SAMPLES).to_le_bytes());
    bytes.extend_from_slice(b"WAVEfmt ");
    bytes.extend_from_slice(&16_u32.to_le_bytes());
    bytes.extend_from_slice(&1_u16.to_le_bytes());
    bytes.extend_from_slice(&1_u16.to_le_bytes());
    bytes.extend_from_slice(&RATE.to_le_bytes());
    bytes.extend_from_slice(&RATE.to_le_bytes());
    bytes.extend_from_slice(&1_u16.to_le_bytes());
    bytes.extend_from_slice(&8_u16.to_le_bytes());
    bytes.extend_from_slice(b"data");
    bytes.extend_from_slice(&SAMPLES.to_le_bytes());
    bytes.extend((0..SAMPLES).map(|index| {
        let phase = f64::from(index) * 440.0 * std::f64::consts::TAU / f64::from(RATE);
        (128.0 + 80.0 * phase.sin()) as u8
    }));
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn image_and_audio_match_their_media_types() {
        assert_eq!(
            &BASE64.decode(PICTURE.as_bytes()).unwrap()[..8],
            b"\x89PNG\r\n\x1a\n"
        );
        let tone = BASE64.decode(tone().as_bytes()).unwrap();
        assert_eq!(
            (&tone[..4], &tone[8..12], tone.len()),
            (&b"RIFF"[..], &b"WAVE"[..], 444)
        );
    }
}
