//! An image file: its format, found by its first bytes, and its content as a tool's result.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use switchboard::CallResult;

/// The largest image: vendors take 5 MB of base64.
const MAX_IMAGE_BYTES: usize = 3_750_000;

/// The media type of an image in a format that every vendor takes.
pub(super) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// The image as a result. A model that accepts no images gets a sentence instead.
pub(super) fn image_result(image_type: &str, bytes: &[u8]) -> Result<CallResult, String> {
    if bytes.len() > MAX_IMAGE_BYTES {
        let size = bytes.len();
        return Err(format!(
            "it is an {image_type} of {size} bytes, and images of up to {MAX_IMAGE_BYTES} are read"
        ));
    }
    let base64 = BASE64_STANDARD.encode(bytes);
    Ok(CallResult::image(image_type, &base64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0WAVE", None),
            (b"GIF as text", None),
            (b"\x89PNG", None),
            (b"", None),
        ] {
            assert_eq!(image_type(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn t26_an_image_that_is_too_large_is_refused() {
        let error = image_result("image/png", &vec![0; MAX_IMAGE_BYTES + 1]);
        let error = error.err().unwrap_or_default();
        assert!(
            error.contains("images of up to 3750000 are read"),
            "{error}"
        );
        assert!(image_result("image/png", &vec![0; MAX_IMAGE_BYTES]).is_ok());
    }
}
