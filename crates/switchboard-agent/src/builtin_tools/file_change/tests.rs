//! What happens between the plan of a change and its writing.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::builtin_tools::blocking::run_blocking;
use crate::builtin_tools::workspace::Workspace;

/// Plans `a.txt` to become "new", lets something happen in its folder, and applies the plan.
async fn apply_after(
    before: Option<&str>,
    limit: Duration,
    meanwhile: impl FnOnce(&Path) + Send + 'static,
) -> (Result<(), String>, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().to_owned();
    if let Some(text) = before {
        std::fs::write(folder.join("a.txt"), text).unwrap();
    }
    let known = before.map(|text| blake3::hash(text.as_bytes()));
    let work = move |stop: &StopSignal| {
        let workspace = Workspace::open([&folder]).unwrap();
        let place = workspace.locate(Some("a.txt")).unwrap();
        let plan = FileChange::plan(place, known, |_| Ok("new".to_owned()))?;
        meanwhile(&folder);
        plan.apply(stop).map(drop)
    };
    let applied = run_blocking(limit, work).await;
    let left = std::fs::read_dir(scratch.path()).unwrap();
    let is_temporary = |name: &str| name.ends_with(".tmp");
    for entry in left.flatten() {
        let name = entry.file_name().into_string().unwrap();
        assert!(!is_temporary(&name), "{name} was left");
    }
    (applied, scratch)
}

fn text(scratch: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(scratch.path().join(name)).unwrap()
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_change_is_applied_to_an_unchanged_file() {
    let (applied, scratch) = apply_after(Some("old"), LONG, |_| {}).await;
    assert_eq!((applied, &*text(&scratch, "a.txt")), (Ok(()), "new"));
    let (applied, scratch) = apply_after(None, LONG, |_| {}).await;
    assert_eq!((applied, &*text(&scratch, "a.txt")), (Ok(()), "new"));
}

#[tokio::test]
async fn t33_a_concurrent_write_is_not_overwritten() {
    let write = |folder: &Path| std::fs::write(folder.join("a.txt"), "theirs").unwrap();
    for before in [Some("old"), None] {
        let (applied, scratch) = apply_after(before, LONG, write).await;
        assert!(applied.unwrap_err().contains("Read it"), "{before:?}");
        assert_eq!(text(&scratch, "a.txt"), "theirs");
    }
    let replace = |folder: &Path| {
        std::fs::write(folder.join("b"), "old").unwrap();
        std::fs::rename(folder.join("b"), folder.join("a.txt")).unwrap();
    };
    let (applied, scratch) = apply_after(Some("old"), LONG, replace).await;
    assert!(applied.is_err());
    assert_eq!(text(&scratch, "a.txt"), "old");
}

#[tokio::test]
async fn t33_a_link_that_appears_meanwhile_is_not_followed() {
    let link = |folder: &Path| {
        std::fs::write(folder.join("target"), "theirs").unwrap();
        let _ = std::fs::remove_file(folder.join("a.txt"));
        symlink("target", folder.join("a.txt")).unwrap();
    };
    for before in [Some("old"), None] {
        let (applied, scratch) = apply_after(before, LONG, link).await;
        assert!(applied.is_err(), "{before:?}");
        assert_eq!(text(&scratch, "target"), "theirs");
    }
}

#[tokio::test]
async fn a_cancelled_change_is_not_applied() {
    let (applied, scratch) = apply_after(Some("old"), Duration::ZERO, |_| {}).await;
    assert_eq!(applied.unwrap_err(), "stopped before the file was changed");
    assert_eq!(text(&scratch, "a.txt"), "old");
}

/// The folder of a new file is swapped for a link that leads out of the workspace.
#[tokio::test]
async fn t33_a_folder_replaced_by_a_link_is_not_written_through() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, out) = (scratch.path().join("w"), scratch.path().join("out"));
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::create_dir(&out).unwrap();
    let target = out.clone();
    let work = move |stop: &StopSignal| {
        let workspace = Workspace::open([&folder]).unwrap();
        let place = workspace.locate(Some("sub/deep/a.txt")).unwrap();
        let plan = FileChange::plan(place, None, |_| Ok("new".to_owned()))?;
        std::fs::remove_dir(folder.join("sub")).unwrap();
        symlink(&target, folder.join("sub")).unwrap();
        plan.apply(stop).map(drop)
    };
    let applied = run_blocking(LONG, work).await;
    assert!(applied.is_err());
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 0);
}

/// As on a file system without hard links.
#[test]
fn t33_a_new_file_without_hard_links_replaces_no_other_file() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = OwnedFd::from(File::open(scratch.path()).unwrap());
    let create = |content: &[u8]| {
        let mut temporary = TemporaryFile::create(&folder, true).unwrap();
        temporary.file.write_all(content).unwrap();
        temporary.reserve_and_replace(OsStr::new("a.txt"))
    };
    assert_eq!(create(b"new"), Ok(()));
    assert_eq!(create(b"newer"), Err(Errno::EEXIST));
    assert_eq!(text(&scratch, "a.txt"), "new");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
}
