use std::io::{BufRead, BufReader};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Home, PROGRAM};

/// The demo server, which does not start again once the file `dead` is there.
fn home() -> Home {
    let home = Home::new();
    let (dead, pid) = (home.path("dead"), home.path("pid"));
    let script =
        format!("[ -e {dead:?} ] && exit 9; echo $$$$ > {pid:?}; exec {PROGRAM} __demo-server");
    home.user_file(&format!(
        "[servers.s]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n"
    ));
    home
}

/// Ends the server permanently.
fn end_server(home: &Home) {
    std::fs::write(home.path("dead"), "").unwrap();
    let pid = std::fs::read_to_string(home.path("pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

/// P9: `watch` reports a lost connection at once; when the server has failed for good, it ends with
/// the reason and exit code 3.
#[test]
fn p9_watch_says_that_its_server_was_given_up_and_exits_with_3() {
    let home = home();
    let terminal = home.run_in_terminal(&["watch", "demo://counter"]);
    terminal.wait_for("Ctrl-C to stop");
    end_server(&home);
    terminal.wait_for("connection lost");
    let ended = terminal.end();
    assert_eq!(ended.code, 3, "{}", ended.screen);
    let last = ended
        .screen
        .rsplit("error: ")
        .next()
        .unwrap()
        .replace('\n', "");
    assert!(
        last.starts_with("server \"s\": exited with status 9")
            && last.contains("switchboard doctor s"),
        "{}",
        ended.screen
    );
}

#[test]
fn p9_watch_with_json_ends_with_one_json_line() {
    let home = home();
    // Its log tells when the server can be ended; the failure is the last line.
    let mut child = home
        .command(&["--debug", "watch", "demo://counter", "--json"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(lines.any(|line| line.contains("server \"s\": ready")));
    end_server(&home);
    let last = lines.last().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{last}");
    let error: serde_json::Value =
        serde_json::from_str(&last).unwrap_or_else(|fault| panic!("{fault}: {last}"));
    assert_eq!(
        (
            error["error"]["code"].as_u64(),
            error["error"]["server"].as_str()
        ),
        (Some(3), Some("s")),
        "{last}"
    );
}

/// Removing the server from the configuration ends `watch` too.
#[test]
fn watch_ends_when_its_server_is_taken_out_of_the_configuration() {
    let home = home();
    let terminal = home.run_in_terminal(&["watch", "demo://counter"]);
    terminal.wait_for("Ctrl-C to stop");
    home.user_file("[servers.other]\ncommand = \"true\"\nenabled = false\n");
    let ended = terminal.end();
    assert_eq!(ended.code, 3, "{}", ended.screen);
    assert!(
        ended.screen.contains("is no longer in the configuration"),
        "{}",
        ended.screen
    );
}

/// As in `switchboard watch URI | head -1`.
#[test]
fn watch_ends_when_nobody_reads_its_lines() {
    let home = Home::new();
    home.user_file(&format!(
        "[servers.s]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\", \"--tick\", \"30\"]\n"
    ));
    for words in [
        &["watch", "demo://counter"][..],
        &["watch", "demo://counter", "--json"],
    ] {
        let mut child = home.command(words).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut String::new()).unwrap();
        drop(lines);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    }
}
