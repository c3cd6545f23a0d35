//! A text file: read whole, with bounds, from a descriptor that was found to be a regular file.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, SFlag, fstat};

use super::workspace::{FollowLinks, WorkspacePath};

/// The largest file that Read, Write and Edit take.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 20;

const BOM: &str = "\u{feff}";

/// The content of a text file.
#[derive(Debug, Clone)]
pub(super) struct TextFile {
    /// With `\n` at the end of lines, and without a byte order mark.
    pub(super) text: String,
    layout: TextLayout,
    /// The hash of the file's bytes.
    pub(super) hash: blake3::Hash,
    pub(super) stat: FileStat,
}

/// How text is written to a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TextLayout {
    has_bom: bool,
    /// Every line ends with `\r\n`.
    has_crlf: bool,
}

impl TextFile {
    /// Reads a file that is to be replaced; `None` where there is none. No link is followed.
    pub(super) fn open_to_replace(place: &WorkspacePath<'_>) -> Result<Option<Self>, String> {
        let access = OFlag::O_RDWR | OFlag::O_NONBLOCK;
        match place.try_open(access, FollowLinks::No) {
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(place.explain(error)),
            Ok(file) => {
                Self::new(read_bounded(check_regular(file, place)?, place)?, place).map(Some)
            }
        }
    }

    /// The text in these bytes of a file.
    pub(super) fn new(
        (bytes, stat): (Vec<u8>, FileStat),
        place: &WorkspacePath<'_>,
    ) -> Result<Self, String> {
        let wrong = |fact: String| Err(format!("path {}: {fact}", place.shown()));
        if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
            return wrong(format!("it is a binary file: byte {at} is NUL"));
        }
        let hash = blake3::hash(&bytes);
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let line = error.as_bytes()[..at]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count()
                    + 1;
                return wrong(format!(
                    "it is not UTF-8 text: byte {at}, on line {line}, is invalid"
                ));
            }
        };
        let (layout, text) = TextLayout::of(text);
        Ok(Self {
            text,
            layout,
            hash,
            stat,
        })
    }

    /// The bytes of another text, written as this file is.
    pub(super) fn bytes_of(&self, text: &str) -> Vec<u8> {
        self.layout.bytes_of(text)
    }
}

impl TextLayout {
    fn of(text: String) -> (Self, String) {
        let has_bom = text.starts_with(BOM);
        let text = match text.strip_prefix(BOM) {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        let lines = text.matches('\n').count();
        let has_crlf = lines > 0 && text.matches("\r\n").count() == lines;
        let text = match has_crlf {
            true => text.replace("\r\n", "\n"),
            false => text,
        };
        (Self { has_bom, has_crlf }, text)
    }

    fn bytes_of(self, text: &str) -> Vec<u8> {
        let bom = if self.has_bom && !text.starts_with(BOM) {
            BOM
        } else {
            ""
        };
        let text = match self.has_crlf {
            true => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            false => text.to_owned(),
        };
        format!("{bom}{text}").into_bytes()
    }
}

/// Opens and reads a regular file.
pub(super) fn read_regular(place: &WorkspacePath<'_>) -> Result<(Vec<u8>, FileStat), String> {
    read_bounded(open_regular(place)?, place)
}

fn read_bounded(
    (file, stat): (OwnedFd, FileStat),
    place: &WorkspacePath<'_>,
) -> Result<(Vec<u8>, FileStat), String> {
    let wrong = |fact: String| Err(format!("path {}: {fact}", place.shown()));
    let mut bytes = Vec::new();
    // A file can be longer than its metadata says: it grows, or the kernel generates it (/proc).
    let read = File::from(file)
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes);
    if let Err(error) = read {
        return wrong(format!("it cannot be read: {error}"));
    }
    if bytes.len() as u64 > MAX_FILE_BYTES || stat.st_size as u64 > MAX_FILE_BYTES {
        let size = stat.st_size.max(bytes.len() as i64);
        return wrong(format!(
            "it has {size} bytes, and files of up to {MAX_FILE_BYTES} are read; Grep finds lines in it"
        ));
    }
    Ok((bytes, stat))
}

/// Opens a regular file and nothing else. A FIFO does not make it wait.
pub(super) fn open_regular(place: &WorkspacePath<'_>) -> Result<(OwnedFd, FileStat), String> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
    check_regular(place.open(flags, FollowLinks::Inside)?, place)
}

fn check_regular(file: OwnedFd, place: &WorkspacePath<'_>) -> Result<(OwnedFd, FileStat), String> {
    let stat = fstat(&file).map_err(|error| place.explain(error))?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    let fact = match kind {
        SFlag::S_IFREG => return Ok((file, stat)),
        SFlag::S_IFDIR => "it is a folder; Glob lists its files",
        SFlag::S_IFIFO => "it is a FIFO, not a regular file",
        SFlag::S_IFSOCK => "it is a socket, not a regular file",
        SFlag::S_IFCHR | SFlag::S_IFBLK => "it is a device, not a regular file",
        _ => "it is not a regular file",
    };
    Err(format!("path {}: {fact}", place.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_and_byte_order_marks_are_kept() {
        let check = |before: &str, text: &str, after: &str, written: &str| {
            let (layout, read) = TextLayout::of(before.to_owned());
            assert_eq!(read, text, "{before:?}");
            let bytes = layout.bytes_of(after);
            assert_eq!(String::from_utf8_lossy(&bytes), written, "{before:?}");
        };
        check("a\nb\n", "a\nb\n", "a\nc\n", "a\nc\n");
        check("a\r\nb\r\n", "a\nb\n", "a\nc\n", "a\r\nc\r\n");
        check("a\r\nb\r\n", "a\nb\n", "a\r\nc", "a\r\nc");
        check("a\r\nb\n", "a\r\nb\n", "x\r\ny\n", "x\r\ny\n");
        check("\u{feff}a\n", "a\n", "b\n", "\u{feff}b\n");
        check("a", "a", "b\nc", "b\nc");
    }
}
