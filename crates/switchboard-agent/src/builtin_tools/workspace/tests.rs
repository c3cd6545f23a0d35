//! Nothing outside the folders is opened, whatever a path, a link or a race says.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A workspace `w` with `in.txt`, `sub/deep.txt`, and a secret beside it.
fn workspace() -> (tempfile::TempDir, Workspace) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("w");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("in.txt"), "in").unwrap();
    std::fs::write(root.join("sub/deep.txt"), "deep").unwrap();
    std::fs::create_dir(scratch.path().join("out")).unwrap();
    std::fs::write(scratch.path().join("out/deep.txt"), "secret").unwrap();
    let workspace = Workspace::open([root]).unwrap();
    (scratch, workspace)
}

fn read(place: &WorkspacePath<'_>, links: FollowLinks) -> Result<String, String> {
    let file = place.open(OFlag::O_RDONLY, links)?;
    Ok(io::read_to_string(std::fs::File::from(file)).unwrap())
}

fn text(workspace: &Workspace, path: &str) -> Result<String, String> {
    read(&workspace.locate(Some(path))?, FollowLinks::Inside)
}

#[test]
fn a_path_is_found_from_the_first_folder_or_whole() {
    let (_scratch, workspace) = workspace();
    let whole = workspace.first().join("sub/deep.txt");
    for path in ["sub/deep.txt", "./sub//./deep.txt", whole.to_str().unwrap()] {
        assert_eq!(text(&workspace, path).unwrap(), "deep", "{path}");
    }
    assert_eq!(workspace.locate(None).unwrap().path(), workspace.first());
}

#[test]
fn paths_outside_the_workspace_and_empty_paths_are_refused() {
    let (scratch, workspace) = workspace();
    let beside = scratch.path().canonicalize().unwrap().join("out/deep.txt");
    let prefix = format!("{}x/in.txt", workspace.first().display());
    let check = |path: &str, fact: &str| {
        let error = text(&workspace, path).unwrap_err();
        assert!(error.contains(fact), "{path:?}: {error}");
    };
    check("../out/deep.txt", "it has \"..\"");
    check("sub/../in.txt", "it has \"..\"");
    check("sub/..", "it has \"..\"");
    check(beside.to_str().unwrap(), "it is outside the workspace (");
    check("/etc/passwd", "it is outside the workspace (");
    check(&prefix, "it is outside the workspace (");
    check("", "it is empty");
    check("in.txt\0x", "it has a NUL character");
    check("none.txt", "there is no such file");
    check("in.txt/x", "a part of it is not a folder");
}

#[test]
fn links_are_followed_inside_and_never_out() {
    let (scratch, workspace) = workspace();
    let root = workspace.first();
    let out = scratch.path().canonicalize().unwrap().join("out");
    symlink("in.txt", root.join("inside")).unwrap();
    symlink("sub", root.join("folder")).unwrap();
    symlink("../out/deep.txt", root.join("relative")).unwrap();
    symlink(out.join("deep.txt"), root.join("absolute")).unwrap();
    symlink(&out, root.join("away")).unwrap();
    symlink("relative", root.join("chain")).unwrap();
    symlink("/proc/self/root/etc/passwd", root.join("magic")).unwrap();
    assert_eq!(text(&workspace, "inside").unwrap(), "in");
    assert_eq!(text(&workspace, "folder/deep.txt").unwrap(), "deep");
    for path in ["relative", "absolute", "away/deep.txt", "chain", "magic"] {
        let error = text(&workspace, path).unwrap_err();
        assert!(
            error.contains("leads out of the workspace"),
            "{path}: {error}"
        );
    }
    for path in ["inside", "folder/deep.txt", "relative"] {
        let place = workspace.locate(Some(path)).unwrap();
        let error = read(&place, FollowLinks::No).unwrap_err();
        assert!(error.contains("which is not followed"), "{path}: {error}");
    }
}

/// The way without `openat2` follows no link at all.
#[test]
fn opening_name_by_name_follows_no_link() {
    let (_scratch, workspace) = workspace();
    let root = workspace.first();
    symlink("in.txt", root.join("inside")).unwrap();
    symlink("../out", root.join("away")).unwrap();
    let folder = &workspace.folders[0].folder;
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    assert!(open_each(folder, Path::new("sub/deep.txt"), flags).is_ok());
    assert!(open_each(folder, Path::new("."), flags).is_ok());
    for path in ["inside", "away/deep.txt"] {
        let error = open_each(folder, Path::new(path), flags).unwrap_err();
        assert!(
            matches!(error, Errno::ELOOP | Errno::ENOTDIR),
            "{path}: {error}"
        );
    }
}

/// A folder that is swapped for a link while it is read: the secret is never seen.
#[test]
fn a_folder_replaced_by_a_link_is_not_followed() {
    let (_scratch, workspace) = workspace();
    let root = workspace.first().to_owned();
    symlink("../out", root.join("link")).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (done, root) = (done.clone(), root.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let _ = std::fs::rename(root.join("sub"), root.join("kept"));
                let _ = std::fs::rename(root.join("link"), root.join("sub"));
                let _ = std::fs::rename(root.join("sub"), root.join("link"));
                let _ = std::fs::rename(root.join("kept"), root.join("sub"));
            }
        })
    };
    let place = workspace.locate(Some("sub/deep.txt")).unwrap();
    let folder = &workspace.folders[0].folder;
    let (mut good, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let by_name = open_each(folder, &place.relative, OFlag::O_RDONLY | OFlag::O_CLOEXEC);
        if let Ok(file) = by_name {
            let text = io::read_to_string(std::fs::File::from(file)).unwrap();
            assert_eq!(text, "deep");
        }
        match read(&place, FollowLinks::Inside) {
            Ok(text) => {
                assert_eq!(text, "deep");
                good += 1;
            }
            Err(_) => refused += 1,
        }
        if good > 50 && refused > 50 {
            break;
        }
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(good > 0 && refused > 0, "no race: {good} {refused}");
}
