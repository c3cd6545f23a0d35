//! Files that only their owner can read, changed under a lock. How they are read and replaced is the
//! library's.

use std::io;
use std::path::Path;

use switchboard::store::private;

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let text = private::read(path)?.map(String::from_utf8);
    text.transpose()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Changes a file under a lock that also holds against other processes. `change` gets the text that
/// is there and returns the new one, or `None` to leave it. The file is replaced atomically.
pub(crate) fn update<T>(
    path: &Path,
    change: impl FnOnce(Option<String>) -> io::Result<(Option<String>, T)>,
) -> io::Result<T> {
    if let Some(folder) = path.parent() {
        private::make_folder(folder)?;
    }
    let lock = private::open_lock(&path.with_extension("lock"))?;
    lock.lock()?;
    let (text, outcome) = change(read(path)?)?;
    if let Some(text) = text {
        private::replace(path, text.as_bytes())?;
    }
    Ok(outcome)
}
