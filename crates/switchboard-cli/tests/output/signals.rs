use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Home, PROGRAM};

/// F28, F30: each signal that ends the program restores the terminal and is named.
#[test]
fn f30_sighup_and_sigquit_give_the_terminal_back() {
    for (signal, code) in [
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
    ] {
        let home = Home::with_demo("");
        // The shell outlives the program, and shows the settings of the terminal.
        let line = format!(
            "(echo pid-$BASHPID-; exec {PROGRAM} call demo/echo message=x); echo code-$?-; stty -a"
        );
        let shell = home.spawn_in_terminal(&["bash", "-c", &line]);
        shell.wait_for("[n] no");
        let bytes = shell.bytes();
        let text = String::from_utf8_lossy(&bytes);
        let pid = text
            .split("pid-")
            .nth(1)
            .unwrap()
            .split('-')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
        let screen = shell.wait_for("icanon");
        assert!(
            screen.contains(&format!("code-{code}-")),
            "{signal}: {screen}"
        );
        assert!(
            !screen.contains("-icanon"),
            "{signal}: the terminal is left raw: {screen}"
        );
        assert!(shell.end().restored, "{signal}");
    }
}

/// A SIGHUP that `nohup` ignores stays ignored.
#[test]
fn nohup_still_means_no_hangup() {
    let home = Home::with_demo("");
    let line = format!("trap '' HUP; exec {PROGRAM} watch demo://counter");
    let mut terminal = home.spawn_in_terminal(&["bash", "-c", &line]);
    terminal.wait_for("Ctrl-C to stop");
    let pid = Pid::from_raw(terminal.pid());
    kill(pid, Signal::SIGHUP).unwrap();
    terminal.send("\x03");
    assert_eq!(
        terminal.end().code,
        130,
        "the hangup was ignored, and Ctrl-C was not"
    );
}
