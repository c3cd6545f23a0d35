//! Long results: truncated at a limit, with the complete text in a private file.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::untrusted::Untrusted;

/// A projection, truncated at a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// The text, up to the limit.
    pub text: Untrusted,
    /// The file with the complete text, if it did not fit.
    pub spilled: Option<PathBuf>,
}

/// Files of long results are removed after this time.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many bytes they may have together; beyond that the oldest are removed.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// A younger file is never removed: a model may have been told to read it.
const MIN_AGE: Duration = Duration::from_secs(24 * 3600);

/// Truncates a text at `limit` bytes, at a character boundary, and writes the complete text to a
/// 0600 file in `folder`, which the text names. The file has control characters escaped as for a
/// terminal; nothing in it is redacted.
pub fn fit(text: Untrusted, limit: usize, folder: &Path) -> io::Result<Projection> {
    let whole = text.raw();
    if whole.len() <= limit {
        return Ok(Projection {
            text,
            spilled: None,
        });
    }
    let path = spill(text.for_terminal().to_string().as_bytes(), folder)?;
    forget_old(folder);
    let cut = whole.floor_char_boundary(limit);
    let note = format!(
        "[cut here: {cut} of {} bytes; the whole is in {}]",
        whole.len(),
        path.display()
    );
    Ok(Projection {
        text: Untrusted::new(format!("{}\n{note}", &whole[..cut])),
        spilled: Some(path),
    })
}

/// Like [`fit`], for output whose end matters as well: keeps the beginning and the end, and names
/// the omitted size and the file between them.
pub fn fit_ends(text: Untrusted, limit: usize, folder: &Path) -> io::Result<Projection> {
    let whole = text.raw();
    if whole.len() <= limit {
        return fit(text, limit, folder);
    }
    let path = spill(text.for_terminal().to_string().as_bytes(), folder)?;
    forget_old(folder);
    let head = whole.floor_char_boundary(limit / 2);
    let tail = whole.ceil_char_boundary(whole.len() - limit / 2);
    let note = format!(
        "[… {} of {} bytes are left out here; the whole is in {}]",
        tail - head,
        whole.len(),
        path.display()
    );
    let text = format!("{}\n{note}\n{}", &whole[..head], &whole[tail..]);
    Ok(Projection {
        text: Untrusted::new(text),
        spilled: Some(path),
    })
}

/// Removes files of long results that are old, or too large together. Errors are ignored.
pub fn forget_old(folder: &Path) {
    let Ok(files) = std::fs::read_dir(folder) else {
        return;
    };
    let is_ours = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(FILE_PREFIX))
    };
    let mut known: Vec<_> = files
        .flatten()
        .filter(|file| is_ours(&file.path()))
        .filter_map(|file| {
            let metadata = file.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), file.path()))
        })
        .collect();
    known.sort_by(|one, other| other.cmp(one));
    let mut total = 0;
    for (written, bytes, path) in known {
        total += bytes;
        let limit = match total > MAX_TOTAL_BYTES {
            true => MIN_AGE,
            false => MAX_AGE,
        };
        if written.elapsed().is_ok_and(|age| age > limit) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The prefix of the files' names.
const FILE_PREFIX: &str = "result-";

/// Writes to a file that did not exist before, so that no planted file is followed or overwritten.
fn spill(bytes: &[u8], folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    loop {
        let path = folder.join(format!("{FILE_PREFIX}{:016x}.txt", fastrand::u64(..)));
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
        {
            Ok(mut file) => {
                if let Err(error) = file.write_all(bytes) {
                    // A partial result must not pass for a complete one. Only the first error is
                    // reported.
                    let _ = std::fs::remove_file(&path);
                    return Err(error);
                }
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}
