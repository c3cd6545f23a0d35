use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use switchboard_testkit::{Chaos, Step};

use crate::served;
use crate::support::{Home, PROGRAM};

/// A result of 2 MiB: more than is printed on a terminal.
const LONG: usize = 2 * 1024 * 1024;

/// A server whose tool answers with a long text, a short one, and one with escape sequences at its
/// end.
fn home() -> Home {
    let chaos = Chaos::new()
        .tool("long", [Step::text(&("x".repeat(LONG) + "end-of-it"))])
        .tool("short", [Step::text("all of it")])
        .tool(
            "sequences",
            [Step::text(
                &("x".repeat(LONG) + "\u{1b}[2J\u{1b}]52;c;aGk=\u{7}end-of-it"),
            )],
        );
    served(&chaos)
}

/// F31: the tool has run, so its result is printed although the state folder cannot be made.
#[test]
fn f31_a_result_reaches_stdout_where_the_state_folder_cannot_be_made() {
    let home = home();
    fs::remove_dir_all(home.path("state")).unwrap();
    fs::write(home.path("state"), "a file in the way").unwrap();
    for (tool, expected) in [
        ("s/short", "all of it\n".len()),
        ("s/long", LONG + "end-of-it\n".len()),
    ] {
        let ran = home.run(&["call", tool, "--yes"]);
        assert_eq!(
            (ran.code, ran.stdout.len()),
            (Some(0), expected),
            "{tool}: {:.500}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("only for this run"),
            "{tool}: {:.500}",
            ran.stderr
        );
    }
}

/// F31: a disk that takes no more than 64 KiB (a limit of the system, which fails a write as a full
/// disk does).
#[test]
fn f31_a_long_result_reaches_stdout_on_a_full_disk() {
    let home = home();
    let limited = |words: &str| format!("trap '' XFSZ; ulimit -f 64; exec {PROGRAM} {words}");
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", &limited("call s/long --yes")])
        .env_clear()
        .envs(home.command(&[]).get_envs().filter_map(both));
    let ran = crate::support::ProgramOutput::of(
        &command.current_dir(home.path("project")).output().unwrap(),
    );
    assert_eq!(
        (ran.code, ran.stdout.len()),
        (Some(0), LONG + "end-of-it\n".len()),
        "{:.500}",
        ran.stderr
    );
    // On a terminal a long result is cut and stored in a file; if that fails, all of it is printed.
    let ended = home
        .spawn_in_terminal(&["bash", "-c", &limited("call s/long --yes")])
        .end();
    let text = String::from_utf8_lossy(&ended.bytes).into_owned();
    assert_eq!(ended.code, 0, "{:.500}", ended.screen);
    assert!(
        text.contains("end-of-it") && text.contains("could not be saved"),
        "{:.500}",
        ended.screen
    );
    assert_eq!(files(&home).len(), 0, "half a result is not kept");
}

fn both<'a>(
    (name, value): (&'a std::ffi::OsStr, Option<&'a std::ffi::OsStr>),
) -> Option<(&'a std::ffi::OsStr, &'a std::ffi::OsStr)> {
    Some((name, value?))
}

fn files(home: &Home) -> Vec<std::path::PathBuf> {
    let listed = fs::read_dir(home.path("state/switchboard/results"));
    listed
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.path())
        .collect()
}

/// T12, T26: the file has the escaped text that the terminal would show, so that `cat` is harmless.
#[test]
fn t12_the_file_of_a_long_result_has_no_escape_sequences() {
    let home = home();
    let ended = home
        .run_in_terminal(&["call", "s/sequences", "--yes"])
        .end();
    assert!(
        ended.screen.contains("all of it is in"),
        "{:.500}",
        ended.screen
    );
    let [file] = &files(&home)[..] else {
        panic!("one file is kept")
    };
    let kept = fs::read_to_string(file).unwrap();
    assert!(
        kept.ends_with("\\u{1b}[2J\\u{1b}]52;c;aGk=\\u{7}end-of-it"),
        "{:?}",
        &kept[LONG..]
    );
    assert_eq!(
        fs::metadata(file).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

/// Files of long results do not pile up: none stays for longer than a week, and those of earlier days
/// have a limit together. Those of a day stay: someone may still have to read them.
#[test]
fn files_of_long_results_are_bounded_and_none_is_old() {
    let home = home();
    let folder = home.path("state/switchboard/results");
    fs::create_dir_all(&folder).unwrap();
    let aged = |name: &str, days: u64, mebibytes: u64| {
        let file = fs::File::create(folder.join(name)).unwrap();
        file.set_len(mebibytes << 20).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(days * 24 * 3600 + 60))
            .unwrap();
    };
    aged("result-00000000000000aa.txt", 7, 0);
    aged("mine.txt", 400, 0);
    let ran = home.run(&["call", "s/short", "--yes"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        files(&home),
        [folder.join("mine.txt")],
        "what is older than a week goes, and what is not ours stays"
    );
    for number in 0..30 {
        aged(&format!("result-today{number}.txt"), 0, 5);
    }
    aged("result-kept.txt", 1, 100);
    aged("result-beyond.txt", 2, 10);
    home.run_in_terminal(&["call", "s/long", "--yes"]).end();
    let left = files(&home);
    // The new one is there as well.
    assert_eq!(left.len(), 33, "{left:?}");
    assert!(
        !left.contains(&folder.join("result-beyond.txt")),
        "{left:?}"
    );
}

/// F31: a damaged state file is renamed and reported: by the command that finds it, and by `status`
/// and `doctor` until a person deletes it.
#[test]
fn f31_a_damaged_store_is_reported() {
    for words in [
        &["status"][..],
        &["tools"],
        &["call", "s/short", "--yes"],
        &["trust"],
        &["doctor"],
    ] {
        let home = home();
        fs::create_dir_all(home.path("state/switchboard")).unwrap();
        fs::write(home.path("state/switchboard/grants.json"), "{\"half a").unwrap();
        let ran = home.run(words);
        let told = |ran: &crate::support::ProgramOutput| {
            let text = format!("{}{}", ran.stdout, ran.stderr);
            text.contains("grants.json") && text.contains("damaged")
        };
        assert!(told(&ran), "{words:?}: {ran:?}");
        for again in [&["status"][..], &["doctor"], &["status", "--json"]] {
            let ran = home.run(again);
            assert!(told(&ran), "{again:?} after {words:?}: {ran:?}");
        }
        let ran = home.run(&["tools"]);
        assert!(!told(&ran), "other commands say it once: {ran:?}");
        let folder = home.path("state/switchboard");
        let kept = fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|file| file.path());
        kept.filter(|path| path.to_string_lossy().contains("damaged"))
            .for_each(|path| fs::remove_file(path).unwrap());
        let ran = home.run(&["status"]);
        assert!(!told(&ran), "{ran:?}");
    }
}

/// A yes that is lost at once is no success.
#[test]
fn f31_trust_and_revoke_fail_where_nothing_can_be_stored() {
    let home = Home::new();
    home.project_file(&format!(
        "[servers.demo]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n"
    ));
    fs::remove_dir_all(home.path("state")).unwrap();
    fs::write(home.path("state"), "a file in the way").unwrap();
    for words in [
        &["trust", "demo", "--yes"][..],
        &["trust", "--folder"],
        &["trust", "--revoke", "demo"],
        &["permissions", "revoke", "--all"],
    ] {
        let ran = home.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(
            ran.stderr.contains("the state folder cannot be used"),
            "{ran:?}"
        );
    }
}
