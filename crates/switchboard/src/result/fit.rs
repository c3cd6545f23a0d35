//! Long results: cut at a limit, with the whole of them in a private file.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::untrusted::Untrusted;

/// One projection, cut at a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// The text, as far as the limit allows.
    pub text: Untrusted,
    /// Where the full text is, if it did not fit.
    pub spilled: Option<PathBuf>,
}

/// How many files of long results are kept, and for how long.
const MAX_RESULTS: usize = 20;
const OLDEST_RESULT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Cuts a text at `limit` bytes (at a character), writing the whole of it to a 0600 file in
/// `folder` that is named in the text. The file holds what a terminal would show, so that looking
/// at it is harmless; nothing in it is redacted.
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

/// As [`fit`], for output whose end matters as well: its beginning, its end, and between them how
/// much is left out and where the whole of it is.
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

/// Removes files of long results that are more than a few, or old. What cannot be removed stays.
pub fn forget_old(folder: &Path) {
    let Ok(files) = std::fs::read_dir(folder) else {
        return;
    };
    let is_ours = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(RESULT_NAME))
    };
    let mut known: Vec<_> = files
        .flatten()
        .filter(|file| is_ours(&file.path()))
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    known.sort_by(|one, other| other.cmp(one));
    for (number, (written, path)) in known.iter().enumerate() {
        if number >= MAX_RESULTS || written.elapsed().is_ok_and(|age| age > OLDEST_RESULT) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How the files of long results begin.
const RESULT_NAME: &str = "result-";

/// Writes to a file that did not exist before, so that nothing planted there is followed or
/// overwritten.
fn spill(bytes: &[u8], folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    loop {
        let path = folder.join(format!("{RESULT_NAME}{:016x}.txt", fastrand::u64(..)));
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
        {
            Ok(mut file) => {
                if let Err(error) = file.write_all(bytes) {
                    // Half a result must not pass for a whole one; the first error is the one to
                    // tell.
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
