use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Home, PROGRAM, ProgramOutput};

/// T27: any hostile file is rejected quickly, with a short message and exit code 2.
#[test]
fn t27_configuration_bombs_fail_quickly_with_a_short_message() {
    let bombs: Vec<(&str, Vec<u8>)> = vec![
        (
            "deep arrays",
            format!("a = {}", "[".repeat(200_000)).into_bytes(),
        ),
        (
            "deep closed arrays",
            format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes(),
        ),
        (
            "deep tables",
            format!("a = {}", "{a=".repeat(100_000)).into_bytes(),
        ),
        (
            "deep dotted key",
            format!("{}b = 1", "a.".repeat(200_000)).into_bytes(),
        ),
        (
            "deep heading",
            format!("[{}b]", "a.".repeat(200_000)).into_bytes(),
        ),
        ("many headings", "[a]\n[a]\n".repeat(60_000).into_bytes()),
        (
            "many bad servers",
            (0..20_000)
                .map(|number| format!("[servers.\"s {number}\"]\n"))
                .collect::<String>()
                .into_bytes(),
        ),
        (
            "long line",
            [b"x = \"".as_slice(), &vec![b'y'; 900_000]].concat(),
        ),
        (
            "open text",
            [b"x = '''".as_slice(), &b"\n".repeat(500_000)].concat(),
        ),
        ("zero bytes", vec![0; 500_000]),
        ("no text", (0..=255).cycle().take(500_000).collect()),
        ("half a letter", b"[servers.a]\ncommand = \"\xc3".to_vec()),
        (
            "control letters",
            b"[servers.a]\ncommand = \"\x1b[2J\"\n".to_vec(),
        ),
        ("too large", vec![b'#'; 20 << 20]),
        (
            "huge number",
            format!(
                "[servers.a]\ncommand = 'x'\nconnect_timeout = {}\n",
                "9".repeat(100_000)
            )
            .into_bytes(),
        ),
        (
            "control letters in a rule",
            b"[permissions]\ndeny = [\"[b-\\u001b]\"]\n".to_vec(),
        ),
        ("long rule", rule(&"*a".repeat(100_000)).into_bytes()),
        (
            "long rule without a wildcard",
            rule(&format!("mcp:{}", "a_".repeat(100_000))).into_bytes(),
        ),
        (
            "deep alternatives in a rule",
            rule(&format!("a/{}b{}", "{".repeat(300), "}".repeat(300))).into_bytes(),
        ),
        (
            "rule with many readings",
            rule(&format!("mcp:{}", "*_".repeat(400))).into_bytes(),
        ),
        (
            "long tool pattern",
            tool_pattern(&"[a-z]".repeat(100_000)).into_bytes(),
        ),
        (
            "deep alternatives in a tool pattern",
            tool_pattern(&format!("{}b{}", "{".repeat(300), "}".repeat(300))).into_bytes(),
        ),
        (
            "hostile names",
            "[servers.\"../../etc/x\"]\ncommand='x'\n[servers.\"\\u001b[2J\"]\ncommand='x'\n"
                .into(),
        ),
    ];
    for (name, bytes) in bombs {
        let home = Home::new();
        for file in [
            "config/switchboard/switchboard.toml",
            "project/switchboard.toml",
        ] {
            std::fs::write(home.path(file), &bytes).unwrap();
            check(&home, name);
            std::fs::remove_file(home.path(file)).unwrap();
        }
    }
}

fn rule(text: &str) -> String {
    format!("[servers.a]\ncommand = 'x'\n[permissions]\ndeny = ['{text}']\n")
}

fn tool_pattern(text: &str) -> String {
    format!("[servers.a]\ncommand = 'x'\nexclude_tools = ['{text}']\n")
}

/// T27: a running program refuses such a file, says so, and notices the next edit.
#[test]
fn t27_a_running_program_notices_edits_after_a_configuration_bomb() {
    for bomb in [
        rule(&"*a".repeat(100_000)),
        rule(&format!("a/{}b{}", "{".repeat(300), "}".repeat(300))),
    ] {
        let home = Home::with_demo("");
        let good =
            std::fs::read_to_string(home.path("config/switchboard/switchboard.toml")).unwrap();
        let mut child = home
            .command(&["watch", "demo://counter"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (line, lines) = std::sync::mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr
                .lines()
                .map_while(Result::ok)
                .for_each(|text| drop(line.send(text)))
        });
        let wait_for = |words: &str| {
            let deadline = Instant::now() + Duration::from_secs(30);
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let line = lines
                    .recv_timeout(left)
                    .unwrap_or_else(|_| panic!("{words:?} is not told"));
                assert!(!line.contains("panicked"), "{line}");
                if line.contains(words) {
                    return line;
                }
            }
        };
        wait_for("watching demo://counter");
        home.user_file(&format!(
            "{good}{}",
            bomb.replace("command = 'x'", "command = 'x'\nenabled = false")
        ));
        wait_for("the changed configuration is invalid");
        let reason = wait_for("switchboard.toml:");
        assert!(
            reason.contains("permissions.deny") && reason.len() < 1_000,
            "{reason}"
        );
        home.user_file(&format!("{good}connect_timeout = \"59s\"\n"));
        wait_for("\"demo\" changed without a restart");
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(child.id().cast_signed()),
            nix::sys::signal::Signal::SIGINT,
        )
        .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
}

/// Puts something at a path.
type Plant = fn(&Path);

/// T27: the program neither waits for nor endlessly reads something that is not a regular file.
#[test]
fn t27_non_regular_files_are_refused_quickly() {
    // A project's file that is a link is not even opened; the user's own may be one.
    let (project, user) = (
        "project/switchboard.toml",
        "config/switchboard/switchboard.toml",
    );
    let plant: [(&str, &str, Plant); 4] = [
        ("pipe", project, |path| {
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap()
        }),
        ("device", user, |path| {
            std::os::unix::fs::symlink("/dev/zero", path).unwrap()
        }),
        ("folder", project, |path| std::fs::create_dir(path).unwrap()),
        ("loop", user, |path| {
            std::os::unix::fs::symlink(path, path).unwrap()
        }),
    ];
    for (name, file, plant) in plant {
        let home = Home::new();
        plant(&home.path(file));
        check(&home, name);
    }
}

fn check(home: &Home, name: &str) {
    for words in [&["status"][..], &["status", "--json"]] {
        let began = Instant::now();
        let ran = home.run(words);
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{name}: {:?}",
            began.elapsed()
        );
        let told = &ran.stderr[..ran.stderr.floor_char_boundary(2000)];
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(2), ""),
            "{name}: {told}"
        );
        assert!(
            !ran.stderr.is_empty() && ran.stderr.len() < 64 * 1024,
            "{name}: {} bytes: {told}",
            ran.stderr.len()
        );
        let power = |character: char| character.is_control() && character != '\n';
        assert!(!ran.stderr.contains(power), "{name}: {told:?}");
    }
}

/// Everything below a folder that is no link, with its mode.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = vec![(
        folder.to_owned(),
        std::fs::symlink_metadata(folder)
            .unwrap()
            .permissions()
            .mode()
            & 0o7777,
    )];
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(modes(&entry.path()));
        } else {
            found.push((
                entry.path(),
                entry.metadata().unwrap().permissions().mode() & 0o7777,
            ));
        }
    }
    found
}

/// Runs commands that write every kind of state: trust, a grant, a pin, an era, a catalog, a log, a
/// long result.
fn live(home: &Home, mask: &str) {
    home.user_file("[security]\nlocked = true\n");
    home.project_file(&format!(
        "[servers.here]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n"
    ));
    let with_mask = |words: &str| {
        vec![
            "sh".to_owned(),
            "-c".to_owned(),
            format!("umask {mask}; exec {PROGRAM} {words}"),
        ]
    };
    let run = |words: &str| {
        let all = with_mask(words);
        let command = home.command(&[]);
        let mut shell = std::process::Command::new(&all[0]);
        shell.args(&all[1..]).env_clear().envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        shell
            .current_dir(home.path("project"))
            .stdin(std::process::Stdio::null());
        ProgramOutput::of(&shell.output().unwrap())
    };
    let ran = run("trust here --yes");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let words = with_mask("call here/echo message=x");
    let mut terminal =
        home.spawn_in_terminal(&words.iter().map(String::as_str).collect::<Vec<_>>());
    terminal.wait_for("[t] always this tool");
    terminal.send("t");
    terminal.wait_for("[g] for good");
    terminal.send("g");
    assert_eq!(terminal.end().code, 0);
    let words = with_mask("call here/big bytes=3000000 --yes");
    let ended = home
        .spawn_in_terminal(&words.iter().map(String::as_str).collect::<Vec<_>>())
        .end();
    assert_eq!(ended.code, 0, "{}", ended.screen);
}

#[test]
fn t35_all_files_are_private_whatever_the_umask() {
    let home = Home::new();
    live(&home, "0");
    let state = home.path("state/switchboard");
    let found = modes(&state);
    for (path, mode) in &found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(*mode, expected, "{}: {mode:o}", path.display());
    }
    let named = |part: &str| {
        found
            .iter()
            .any(|(path, _)| path.display().to_string().contains(part))
    };
    for part in [
        "trust.json",
        "grants.json",
        "pins.json",
        "eras.json",
        "catalogs/",
        "logs/here.log",
        "results/",
    ] {
        assert!(
            named(part),
            "{part} is missing, so nothing was shown of it: {found:?}"
        );
    }
    assert!(!named(".new"), "half a file was left: {found:?}");
}

/// A umask that removes the owner's rights must not keep the program from its own files.
#[test]
fn t35_a_strict_umask_is_no_obstacle() {
    let home = Home::new();
    live(&home, "077");
    assert_eq!(
        home.run(&["call", "here/echo", "message=x"]).code,
        Some(0),
        "the yes for good was remembered"
    );
}

#[test]
fn t35_planted_links_are_neither_read_nor_written_through() {
    let home = Home::new();
    live(&home, "022");
    let state = home.path("state/switchboard");
    let bait = home.path("bait");
    let files: Vec<_> = modes(&state)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.is_file())
        .collect();
    for path in files {
        let name = path.strip_prefix(&state).unwrap().display().to_string();
        let kept = std::fs::read(&path).unwrap();
        std::fs::write(&bait, &kept).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&bait, &path).unwrap();
        let ran = home.run(&["call", "here/echo", "message=x"]);
        if name == "trust.json" || name == "grants.json" {
            assert_eq!(
                ran.code,
                Some(5),
                "{name}: an answer was taken from where a link points: {ran:?}"
            );
        }
        home.run(&["call", "here/big", "bytes=3000000", "--yes"]);
        home.run(&["trust", "here", "--yes"]);
        assert_eq!(
            std::fs::read(&bait).unwrap(),
            kept,
            "{name}: written through a link"
        );
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, &kept).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(
        home.run(&["call", "here/echo", "message=x"]).code,
        Some(0),
        "and all is well once they are gone"
    );
}

/// A crash between write and rename leaves a temporary file, complete or not: the old answers hold,
/// and new ones can be stored.
#[test]
fn t35_leftovers_of_a_crash_neither_block_nor_approve() {
    let home = Home::new();
    live(&home, "022");
    let state = home.path("state/switchboard");
    for half in ["", "{\"here", "{}", "\0\0\0\0"] {
        for file in [
            "trust.json.new",
            "grants.json.new",
            "eras.json.new",
            "pins.json.new",
        ] {
            std::fs::write(state.join(file), half).unwrap();
        }
        assert_eq!(
            home.run(&["call", "here/echo", "message=x"]).code,
            Some(0),
            "{half:?}: the old answers hold"
        );
        home.project_file(
            &format!("[servers.here]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\nenv = {{ N = {half:?} }}\n")
                .replace("\\0", ""),
        );
        let ran = home.run(&["trust", "here", "--yes"]);
        assert_eq!(ran.code, Some(0), "{half:?}: {ran:?}");
        assert_eq!(
            home.run(&["call", "here/echo", "message=x", "--yes"]).code,
            Some(0),
            "{half:?}: new answers are kept"
        );
        home.project_file(&format!(
            "[servers.here]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\n"
        ));
        assert_eq!(home.run(&["trust", "here", "--yes"]).code, Some(0));
    }
}
