//! Tests of the file store: private files, no lost changes, no links followed.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;

const TABLES: [StoreTable; 5] = [
    StoreTable::Grants,
    StoreTable::Pins,
    StoreTable::Trust,
    StoreTable::Eras,
    StoreTable::Catalogs,
];

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn every_table_persists_and_removes_values() {
    let folder = tempfile::tempdir().unwrap();
    for table in TABLES {
        let store = FileStore::open(folder.path()).unwrap();
        assert_eq!(store.get(table, "a").unwrap(), None);
        store
            .put(table, "b/../c\n", r#"{"n": 1.0, "m":[1,2]}"#)
            .unwrap();
        store.put(table, "a", "1").unwrap();
        store.put(table, "a", "\"two\"").unwrap();

        let again = FileStore::open(folder.path()).unwrap();
        assert_eq!(again.get(table, "a").unwrap().as_deref(), Some("\"two\""));
        let all = vec![
            ("a".to_owned(), "\"two\"".to_owned()),
            ("b/../c\n".to_owned(), r#"{"n": 1.0, "m":[1,2]}"#.to_owned()),
        ];
        assert_eq!(again.all(table).unwrap(), all);
        again.remove(table, "a").unwrap();
        again.remove(table, "never there").unwrap();
        assert_eq!(store.all(table).unwrap(), all[1..]);
    }
}

#[test]
fn a_value_that_is_not_json_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    for table in TABLES {
        store.put(table, "k", "1").unwrap();
        assert!(store.put(table, "k", "{broken").is_err());
        assert_eq!(store.get(table, "k").unwrap().as_deref(), Some("1"));
    }
}

/// The umask belongs to the whole process, so the test's body runs in a process of its own.
#[test]
fn t35_with_umask_0_the_folder_is_0700_and_every_file_0600() {
    if let Some(folder) = std::env::var_os("SWITCHBOARD_TEST_UMASK_FOLDER") {
        nix::sys::stat::umask(nix::sys::stat::Mode::empty());
        let store = FileStore::open(folder).unwrap();
        TABLES
            .iter()
            .for_each(|table| store.put(*table, "k", "1").unwrap());
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("state/switchboard");
    let name = "store::file::tests::t35_with_umask_0_the_folder_is_0700_and_every_file_0600";
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env("SWITCHBOARD_TEST_UMASK_FOLDER", &folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(mode(&folder), 0o700);
    let files = files_below(&folder);
    assert!(files.len() >= 2 * TABLES.len(), "{files:?}");
    for path in files {
        assert_eq!(
            mode(&path),
            if path.is_dir() { 0o700 } else { 0o600 },
            "{path:?}"
        );
    }
}

#[test]
fn t35_a_folder_open_to_others_is_made_private() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    FileStore::open(folder.path()).unwrap();
    assert_eq!(mode(folder.path()), 0o700);
}

#[test]
fn t35_a_planted_link_is_neither_read_nor_written_through() {
    for table in TABLES {
        for suffix in ["", ".new", "lock"] {
            let folder = tempfile::tempdir().unwrap();
            let victim = folder.path().join("victim");
            std::fs::write(&victim, r#"{"k":"planted"}"#).unwrap();
            let store = FileStore::open(folder.path().join("state")).unwrap();
            let file = store.file(table, "k");
            let planted = match suffix {
                "lock" => file.with_file_name(format!("{}.lock", table_name(table))),
                suffix => file.with_file_name(format!(
                    "{}{suffix}",
                    file.file_name().unwrap().to_str().unwrap()
                )),
            };
            std::fs::create_dir_all(planted.parent().unwrap()).unwrap();
            symlink(&victim, &planted).unwrap();

            let read = store.get(table, "k");
            assert!(!matches!(read, Ok(Some(_))), "{table:?} {suffix}: {read:?}");
            let _ = store.put(table, "k", "\"ours\"");
            assert_eq!(
                std::fs::read_to_string(&victim).unwrap(),
                r#"{"k":"planted"}"#,
                "{table:?} {suffix}"
            );
            if suffix.is_empty() && table != StoreTable::Catalogs {
                let said = store.get(table, "k").unwrap_err().to_string();
                assert_eq!(
                    said,
                    format!(
                        "cannot use {}: it is a symbolic link, which is never followed here; remove it",
                        planted.display()
                    )
                );
            }
        }
    }
}

#[test]
fn t35_a_crash_between_write_and_rename_leaves_the_old_values_and_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    for table in TABLES {
        store.put(table, "k", "1").unwrap();
        // What a process that was killed while writing the new file leaves behind.
        let mut half = store.file(table, "k").into_os_string();
        half.push(".new");
        std::fs::write(&half, "{\"k\":").unwrap();
        assert_eq!(store.get(table, "k").unwrap().as_deref(), Some("1"));
        assert_eq!(
            store.all(table).unwrap(),
            [("k".to_owned(), "1".to_owned())]
        );
        store.put(table, "k", "2").unwrap();
        assert_eq!(store.get(table, "k").unwrap().as_deref(), Some("2"));
        assert!(!Path::new(&half).exists());
    }
}

#[test]
fn f31_a_corrupt_file_is_renamed_and_reported_and_affects_no_other_table() {
    for (table, damage) in TABLES
        .iter()
        .flat_map(|table| ["", "{\"k\":", "[]", "\0\0\0"].map(|damage| (*table, damage)))
    {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        TABLES
            .iter()
            .for_each(|table| store.put(*table, "k", "1").unwrap());
        let path = store.file(table, "k");
        std::fs::write(&path, damage).unwrap();

        let Err(StoreError::Damaged {
            path: said,
            kept_as,
        }) = store.get(table, "k")
        else {
            panic!("{table:?} {damage:?}")
        };
        assert_eq!(said, path);
        assert_eq!(std::fs::read_to_string(&kept_as).unwrap(), damage);
        assert_eq!(store.get(table, "k").unwrap(), None);
        store.put(table, "k", "2").unwrap();
        for other in TABLES {
            let expected = if other == table { "2" } else { "1" };
            assert_eq!(store.get(other, "k").unwrap().as_deref(), Some(expected));
        }
        // A second corrupt file does not overwrite the copy of the first.
        std::fs::write(&path, "again").unwrap();
        let Err(StoreError::Damaged {
            kept_as: second, ..
        }) = store.all(table)
        else {
            panic!("{table:?}")
        };
        assert_ne!(second, kept_as);
        assert_eq!(store.damaged(), [kept_as.clone(), second]);
        assert_eq!(std::fs::read_to_string(&kept_as).unwrap(), damage);
    }
}

#[test]
fn f31_a_corrupt_file_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let path = store.file(StoreTable::Grants, "");
    std::fs::write(&path, "precious").unwrap();
    let Err(StoreError::Damaged { kept_as, .. }) = store.put(StoreTable::Grants, "k", "1") else {
        panic!()
    };
    assert_eq!(std::fs::read_to_string(kept_as).unwrap(), "precious");
}

#[test]
fn f31_a_failed_write_is_an_error_and_keeps_the_old_values() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    for table in TABLES {
        store.put(table, "k", "1").unwrap();
        // Represents every reason why the new file cannot be written.
        let mut in_the_way = store.file(table, "k").into_os_string();
        in_the_way.push(".new");
        std::fs::create_dir(in_the_way).unwrap();
        assert!(matches!(
            store.put(table, "k", "2"),
            Err(StoreError::Io { .. })
        ));
        assert_eq!(store.get(table, "k").unwrap().as_deref(), Some("1"));
    }
}

#[test]
fn the_number_of_catalogs_is_limited_and_the_oldest_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    store.put(StoreTable::Catalogs, "old", "1").unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    File::options()
        .write(true)
        .open(store.file(StoreTable::Catalogs, "old"))
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    (1..MAX_CATALOGS).for_each(|number| {
        store
            .put(StoreTable::Catalogs, &number.to_string(), "1")
            .unwrap()
    });
    assert_eq!(store.all(StoreTable::Catalogs).unwrap().len(), MAX_CATALOGS);
    assert!(store.get(StoreTable::Catalogs, "old").unwrap().is_some());
    store.put(StoreTable::Catalogs, "1", "2").unwrap();
    assert!(
        store.get(StoreTable::Catalogs, "old").unwrap().is_some(),
        "replacing needs no room"
    );
    store.put(StoreTable::Catalogs, "new", "1").unwrap();
    assert_eq!(store.all(StoreTable::Catalogs).unwrap().len(), MAX_CATALOGS);
    assert_eq!(store.get(StoreTable::Catalogs, "old").unwrap(), None);
}

#[test]
fn f31_two_processes_lose_none_of_each_others_changes() {
    if let Some(folder) = std::env::var_os("SWITCHBOARD_TEST_LOCK_FOLDER") {
        let store = FileStore::open(folder).unwrap();
        let who = std::env::var("SWITCHBOARD_TEST_LOCK_WHO").unwrap();
        (0..25).for_each(|number| {
            store
                .put(StoreTable::Grants, &format!("{who}-{number}"), "1")
                .unwrap()
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "store::file::tests::f31_two_processes_lose_none_of_each_others_changes";
    let start = |who: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("SWITCHBOARD_TEST_LOCK_FOLDER", folder.path())
            .env("SWITCHBOARD_TEST_LOCK_WHO", who)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut started = [start("a"), start("b")];
    let store = FileStore::open(folder.path()).unwrap();
    (0..25).for_each(|number| {
        store
            .put(StoreTable::Grants, &format!("c-{number}"), "1")
            .unwrap()
    });
    assert!(
        started
            .iter_mut()
            .all(|child| child.wait().unwrap().success())
    );
    let mut expected: Vec<_> = ["a", "b", "c"]
        .iter()
        .flat_map(|who| (0..25).map(move |number| (format!("{who}-{number}"), "1".to_owned())))
        .collect();
    expected.sort();
    assert_eq!(store.all(StoreTable::Grants).unwrap(), expected);
}

#[test]
fn f31_a_lock_of_another_process_is_awaited_and_then_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    store.put(StoreTable::Grants, "k", "1").unwrap();
    let wait = Duration::from_millis(200);
    let held = store.lock(StoreTable::Grants).unwrap();
    let path = folder.path().join("grants.lock");
    assert!(path.exists());
    let began = Instant::now();
    let fault = lock(&path, wait).unwrap_err();
    assert!(
        began.elapsed() >= wait && fault.kind() == io::ErrorKind::TimedOut,
        "{fault:?}"
    );
    assert!(
        fault
            .to_string()
            .starts_with("another process has held this lock"),
        "{fault}"
    );
    // Reading does not wait, and other tables are not locked.
    assert_eq!(
        store.get(StoreTable::Grants, "k").unwrap().as_deref(),
        Some("1")
    );
    store.put(StoreTable::Pins, "k", "1").unwrap();
    // The wait ends when the holder ends.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.put(StoreTable::Grants, "k", "2"));
        drop(held);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(
        store.get(StoreTable::Grants, "k").unwrap().as_deref(),
        Some("2")
    );
}

#[test]
fn f31_a_folder_that_cannot_be_created_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let said = FileStore::open(file.join("state")).unwrap_err().to_string();
    let named = format!("cannot use {}: ", file.join("state").display());
    assert!(said.starts_with(&named), "{said}");
}
