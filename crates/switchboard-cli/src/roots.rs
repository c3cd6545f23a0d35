//! The roots that are offered to servers: the folders given with `--root`, and no others.

use std::path::{Path, PathBuf};

use switchboard::caller::Root;
use switchboard::untrusted::Untrusted;

use crate::failure::{Code, Failure};

/// The roots to offer; `None` if no folder was given, so that the capability is not offered.
pub(crate) fn from_options(folders: &[PathBuf]) -> Result<Option<Vec<Root>>, Failure> {
    if folders.is_empty() {
        return Ok(None);
    }
    folders
        .iter()
        .map(|folder| to_root(folder))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn to_root(folder: &Path) -> Result<Root, Failure> {
    let wrong = |why: String| {
        let shown = Untrusted::new(folder.display().to_string());
        Failure::new(
            Code::Usage,
            format!("--root {}: {why}", shown.for_terminal_line()),
        )
        .hint("give an existing folder")
    };
    let path = folder
        .canonicalize()
        .map_err(|error| wrong(error.to_string()))?;
    if !path.is_dir() {
        return Err(wrong("it is not a folder".to_owned()));
    }
    let uri = url::Url::from_file_path(&path)
        .map_err(|()| wrong("its path cannot be written as a URI".to_owned()))?;
    Ok(Root {
        uri: uri.into(),
        name: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// T32: a server learns of no folder that was not named.
    #[test]
    fn t32_only_named_folders_are_offered_as_roots() {
        assert_eq!(from_options(&[]).unwrap_or_default(), None);
        let path = std::env::temp_dir().canonicalize().unwrap();
        let uri = url::Url::from_file_path(&path).unwrap().to_string();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        assert_eq!(
            from_options(&[std::env::temp_dir()]).unwrap_or_default(),
            Some(vec![Root { uri, name }])
        );
        let failure = from_options(&[PathBuf::from("/nowhere/at/all")]).unwrap_err();
        assert_eq!(failure.code, Code::Usage);
    }
}
