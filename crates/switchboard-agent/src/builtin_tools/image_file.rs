//! The content of an image file as a tool's result.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use switchboard::CallResult;

use crate::conversation::ImageData;

/// The image as a result. A model that accepts no images gets a sentence instead.
pub(super) fn image_result(image_type: &str, bytes: &[u8]) -> Result<CallResult, String> {
    let (size, most) = (bytes.len(), ImageData::MAX_BYTES);
    if size > most {
        return Err(format!(
            "it is an {image_type} of {size} bytes, and images of up to {most} are read"
        ));
    }
    let base64 = BASE64_STANDARD.encode(bytes);
    Ok(CallResult::image(image_type, &base64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t26_an_image_that_is_too_large_is_refused() {
        let error = image_result("image/png", &vec![0; ImageData::MAX_BYTES + 1]);
        let error = error.err().unwrap_or_default();
        assert!(
            error.contains("images of up to 3750000 are read"),
            "{error}"
        );
        assert!(image_result("image/png", &vec![0; ImageData::MAX_BYTES]).is_ok());
    }
}
