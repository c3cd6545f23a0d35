//! An image of a conversation, and whether a vendor accepts it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// The most base64 of one image that every vendor accepts.
const MAX_BASE64_BYTES: usize = 5_000_000;

/// An image. A server or a person labelled it: [`checked`](Self::checked) says whether it can be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageData {
    /// Such as `image/png`.
    pub media_type: String,
    /// The bytes in base64.
    pub base64: String,
}

impl ImageData {
    /// The most bytes of an image that can be sent.
    pub const MAX_BYTES: usize = MAX_BASE64_BYTES / 4 * 3;

    /// The image in these bytes. `None` if they are not an image that every vendor accepts.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            media_type: image_type(bytes)?.to_owned(),
            base64: BASE64_STANDARD.encode(bytes),
        })
    }

    /// The image with the media type of its bytes, or the text that replaces it: a vendor refuses
    /// the whole conversation if one image is too large, or is not what its label says.
    pub fn checked(&self) -> Result<Self, String> {
        if self.base64.len() > MAX_BASE64_BYTES {
            let reason = format!("images of up to {} bytes are sent", Self::MAX_BYTES);
            return Err(self.left_out(&reason));
        }
        let Ok(bytes) = BASE64_STANDARD.decode(&self.base64) else {
            return Err(self.left_out("its data is not valid base64"));
        };
        match image_type(&bytes) {
            Some(media_type) => Ok(Self {
                media_type: media_type.to_owned(),
                base64: self.base64.clone(),
            }),
            None => Err(self.left_out("only PNG, JPEG, GIF and WebP images are sent")),
        }
    }

    /// The text that replaces it for a model that accepts no images.
    pub fn placeholder(&self) -> String {
        self.left_out("this model takes no images")
    }

    /// How many bytes the image has.
    pub fn byte_len(&self) -> usize {
        let data = self.base64.trim_end_matches('=');
        data.len() * 3 / 4
    }

    fn left_out(&self, reason: &str) -> String {
        let (kind, bytes) = (&self.media_type, self.byte_len());
        format!("[{kind} of {bytes} bytes, left out: {reason}]")
    }
}

/// The media type of an image in a format that every vendor accepts, by its first bytes.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => Some("image/webp"),
        _ => None,
    }
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

    fn labelled(media_type: &str, bytes: &[u8]) -> ImageData {
        ImageData {
            media_type: media_type.to_owned(),
            base64: BASE64_STANDARD.encode(bytes),
        }
    }

    #[test]
    fn an_image_has_the_media_type_of_its_bytes() {
        let jpeg = labelled("image/png", b"\xff\xd8\xff\xe0");
        let checked = jpeg.checked().expect("an image");
        assert_eq!(checked, labelled("image/jpeg", b"\xff\xd8\xff\xe0"));
        assert_eq!(ImageData::from_bytes(b"\xff\xd8\xff\xe0"), Some(checked));
        assert_eq!(ImageData::from_bytes(b"text"), None);
    }

    #[test]
    fn an_image_that_no_vendor_accepts_is_replaced_by_text() {
        let check = |image: ImageData, expected: &str| {
            assert_eq!(image.checked(), Err(expected.to_owned()));
        };
        check(
            labelled("image/svg+xml", b"<svg/>"),
            "[image/svg+xml of 6 bytes, left out: only PNG, JPEG, GIF and WebP images are sent]",
        );
        let mut broken = labelled("image/png", b"\x89PNG\r\n\x1a\n");
        broken.base64.replace_range(..1, "!");
        check(
            broken,
            "[image/png of 8 bytes, left out: its data is not valid base64]",
        );
        let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
        large.resize(ImageData::MAX_BYTES, 0);
        assert!(labelled("image/png", &large).checked().is_ok());
        large.push(0);
        check(
            labelled("image/png", &large),
            "[image/png of 3750001 bytes, left out: images of up to 3750000 bytes are sent]",
        );
    }
}
