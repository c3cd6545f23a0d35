//! `--save DIR`: images, audio and other binary parts of a result, each in a file of its own.
//!
//! File names are a kind, a number and an extension by media type. No server text becomes part of a
//! path, and no existing file is overwritten.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use serde_json::Value;
use switchboard::wire::RawJson;

use crate::failure::{Code, Failure};
use crate::output;
use crate::view::server::escaped;

/// Some servers omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bounds the search for a free file name.
const MAX_FILE_NUMBER: usize = 100_000;

/// A binary part of a result.
struct BinaryPart<'a> {
    /// `image`, `audio` or `resource`.
    kind: &'static str,
    mime_type: &'a str,
    base64: &'a str,
}

/// Creates the folder and checks that it is writable, before the tool runs: then a failure costs
/// nothing.
pub(crate) fn prepare(folder: &Path) -> Result<(), Failure> {
    let usable =
        std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder).map(drop));
    usable.map_err(|error| {
        Failure::new(
            Code::Usage,
            format!("--save: {folder:?} cannot be written to: {error}"),
        )
    })
}

/// Writes the binary parts of a result and prints their paths.
pub(crate) fn save(result: &RawJson, folder: &Path) -> Result<(), Failure> {
    let wrong = |message: String| Failure::new(Code::Usage, format!("--save: {message}"));
    let value = result
        .to_value()
        .map_err(|error| wrong(format!("the result is not valid JSON: {error}")))?;
    for binary in binary_parts(&value) {
        let Ok(bytes) = BASE64.decode(binary.base64) else {
            output::notice(&format!(
                "a part of type {} was not saved: its data is not base64",
                escaped(binary.mime_type)
            ));
            continue;
        };
        let path = write_new_file(folder, &binary, &bytes)
            .map_err(|error| wrong(format!("{folder:?}: {error}")))?;
        output::notice(&format!("saved {}", escaped(&path.display().to_string())));
    }
    Ok(())
}

/// The parts of a tool's `content`, or of a resource's `contents`, that are not text.
fn binary_parts(result: &Value) -> Vec<BinaryPart<'_>> {
    let parts = ["content", "contents"]
        .into_iter()
        .filter_map(|key| result.get(key)?.as_array())
        .flatten();
    parts.filter_map(binary_part).collect()
}

fn binary_part(part: &Value) -> Option<BinaryPart<'_>> {
    let inner = part.get("resource").unwrap_or(part);
    let (kind, key) = match part.get("type").and_then(Value::as_str) {
        Some("image") => ("image", "data"),
        Some("audio") => ("audio", "data"),
        _ => ("resource", "blob"),
    };
    let mime_type = inner
        .get("mimeType")
        .and_then(Value::as_str)
        .unwrap_or("unknown");
    Some(BinaryPart {
        kind,
        mime_type,
        base64: inner.get(key)?.as_str()?,
    })
}

/// Writes to the first file name that is free.
fn write_new_file(folder: &Path, binary: &BinaryPart<'_>, bytes: &[u8]) -> io::Result<PathBuf> {
    for number in 1..MAX_FILE_NUMBER {
        let path = folder.join(format!(
            "{}-{number}.{}",
            binary.kind,
            extension(binary.mime_type)
        ));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                return match file.write_all(bytes) {
                    Ok(()) => Ok(path),
                    // A truncated file must not look complete.
                    Err(error) => {
                        let _ = std::fs::remove_file(&path);
                        Err(error)
                    }
                };
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "no file name is free",
    ))
}

fn extension(mime_type: &str) -> &'static str {
    match mime_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "audio/flac" => "flac",
        "video/mp4" => "mp4",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/json" => "json",
        "text/plain" => "txt",
        "text/html" => "html",
        "text/csv" => "csv",
        _ => "bin",
    }
}
