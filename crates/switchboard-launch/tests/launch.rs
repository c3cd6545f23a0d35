//! Tests with real processes through the real launcher: their environment, how they end, and that
//! none is left (Linux).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switchboard_launch::{Child, Command, Containment, Exit, Launcher, StderrTail, StopTiming};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Ends on SIGTERM and at the end of its input.
const PLAIN: &str = "echo up; exec cat >/dev/null";
/// Ignores both, with a child that does, too.
const STUBBORN: &str = "trap '' TERM; sleep 600 & echo up; while :; do sleep 600; done";
/// Leaves a process in a session of its own behind, of which it is no longer the parent.
const DAEMON: &str =
    "(trap '' TERM; setsid sleep 600 </dev/null >/dev/null 2>&1 &); echo up; exec cat >/dev/null";

/// The longest that any step may take, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

fn launcher() -> Launcher {
    Launcher::start(PathBuf::from(env!("CARGO_BIN_EXE_switchboard-launcher"))).unwrap()
}

/// Marks processes, so that they are found in /proc wherever they are.
fn canary() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

fn shell(canary: &str, script: &str) -> Command {
    Command::new("/bin/sh")
        .arg0("sh")
        .args(["-c", script])
        .envs([("CANARY", canary), ("PATH", "/usr/bin:/bin")])
}

/// Starts a child whose stderr is not read.
async fn start(launcher: &Launcher, canary: &str, script: &str) -> Child {
    launcher.spawn(&shell(canary, script)).await.unwrap()
}

/// Like [`start`], and waits until the child has written `up`.
async fn start_up(launcher: &Launcher, canary: &str, script: &str) -> Child {
    let mut child = start(launcher, canary, script).await;
    wait_until_up(&mut child).await;
    child
}

async fn wait_until_up(child: &mut Child) {
    let mut word = [0; 3];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut word)
        .await
        .unwrap();
    assert_eq!(&word, b"up\n");
}

fn living(canary: &str) -> BTreeSet<u32> {
    let wanted = format!("CANARY={canary}");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    };
    pids.filter(marked).filter(|pid| is_alive(*pid)).collect()
}

fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| !matches!(fields[0].as_str(), "Z" | "X"))
}

/// State, parent, group, session, terminal, …
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(
        text[text.rfind(')')? + 2..]
            .split(' ')
            .map(str::to_owned)
            .collect(),
    )
}

fn parent(pid: u32) -> u32 {
    stat(pid).unwrap()[1].parse().unwrap()
}

/// Polls for a condition without an event, and returns how long it took.
async fn until(what: &str, limit: Duration, condition: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    began.elapsed()
}

/// Asserts that no process is left after a stop. Members of a group have been killed by then, but
/// not reaped.
async fn assert_none_left(launcher: &Launcher, canary: &str) {
    if launcher.containment() == Containment::ProcessGroups {
        until("the group is gone", TIMEOUT, || living(canary).is_empty()).await;
    }
    assert_eq!(living(canary), BTreeSet::new());
}

fn kill_process(pid: u32) {
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn f7_exit_status_and_signal_are_reported_repeatedly() {
    for launcher in [launcher(), Launcher::process_groups()] {
        let check = async |script: &str, expected: Exit| {
            let mut child = start(&launcher, "", script).await;
            assert_eq!(child.exited().await, expected, "{script}");
            assert_eq!(child.exited().await, expected, "{script}, asked again");
            assert_eq!(
                child.stop(StopTiming::default()).await,
                expected,
                "{script}, stopped"
            );
        };
        check("exit 0", Exit::Status(0)).await;
        check("exit 41", Exit::Status(41)).await;
        check("kill -KILL $$", Exit::Signal(9)).await;
        check("kill -SEGV $$", Exit::Signal(11)).await;
        // A real-time signal, which has no name.
        check("kill -40 $$", Exit::Signal(40)).await;
    }
}

#[tokio::test]
async fn f7_waiting_for_the_exit_is_cancel_safe() {
    let launcher = launcher();
    let mut child = start_up(&launcher, "", PLAIN).await;
    for _ in 0..100 {
        assert!(
            tokio::time::timeout(Duration::from_micros(100), child.exited())
                .await
                .is_err()
        );
    }
    drop(child.stdin.take());
    assert_eq!(child.exited().await, Exit::Status(0));
}

#[tokio::test]
async fn f8_a_server_that_ignores_signals_is_stopped_in_time() {
    for launcher in [launcher(), Launcher::process_groups()] {
        let canary = canary();
        let child = start_up(&launcher, &canary, STUBBORN).await;
        let began = Instant::now();
        let exit = child.stop(StopTiming::default()).await;
        let took = began.elapsed();
        assert_eq!(exit, Exit::Signal(9));
        assert_none_left(&launcher, &canary).await;
        assert!((3.0..4.5).contains(&took.as_secs_f64()), "{took:?}");
    }
}

#[tokio::test]
async fn a_server_that_ends_with_its_input_gets_no_signal() {
    let check = async |launcher: &Launcher, script: &str, timing: StopTiming, expected: Exit| {
        let canary = canary();
        let child = start_up(launcher, &canary, script).await;
        let began = Instant::now();
        assert_eq!(child.stop(timing).await, expected, "{script}");
        assert!(
            began.elapsed() < Duration::from_millis(1900),
            "{script}: {:?}",
            began.elapsed()
        );
        assert_none_left(launcher, &canary).await;
    };
    let at_once = StopTiming {
        term: Duration::ZERO,
        ..StopTiming::default()
    };
    let tidy = "trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done";
    for launcher in [launcher(), Launcher::process_groups()] {
        check(&launcher, PLAIN, StopTiming::default(), Exit::Status(0)).await;
        check(&launcher, tidy, at_once, Exit::Status(7)).await;
        // It ends with its input and leaves a child behind, which gets its SIGTERM right then.
        check(
            &launcher,
            "sleep 600 & echo up; read line",
            StopTiming::default(),
            Exit::Status(1),
        )
        .await;
    }
}

#[tokio::test]
async fn f9_grandchildren_are_gone_after_a_stop() {
    for launcher in [launcher(), Launcher::process_groups()] {
        let canary = canary();
        let script = "sleep 600 & sh -c 'sleep 600 & sleep 600' & echo up; sleep 600";
        let child = start_up(&launcher, &canary, script).await;
        // Four or five: some shells replace themselves by their last command.
        until("all run", TIMEOUT, || living(&canary).len() >= 4).await;
        let quick = StopTiming {
            term: Duration::ZERO,
            ..StopTiming::default()
        };
        assert_eq!(child.stop(quick).await, Exit::Signal(15));
        assert_none_left(&launcher, &canary).await;
    }
}

#[tokio::test]
async fn f10_double_forked_daemon_is_found_and_ended() {
    let launcher = launcher();
    let canary = canary();
    let child = start_up(&launcher, &canary, DAEMON).await;
    let daemon = || living(&canary).into_iter().find(|pid| *pid != child.pid);
    until("the daemon leads a session", TIMEOUT, || {
        daemon().is_some_and(|pid| stat(pid).unwrap()[3] == pid.to_string())
    })
    .await;
    let quick = StopTiming {
        kill: Duration::from_millis(2200),
        ..StopTiming::default()
    };
    assert_eq!(child.stop(quick).await, Exit::Status(0));
    assert_eq!(living(&canary), BTreeSet::new());
}

#[tokio::test]
async fn f10_descendants_of_an_ended_server_end_when_the_child_is_dropped() {
    let launcher = launcher();
    let canary = canary();
    let mut child = start_up(
        &launcher,
        &canary,
        &DAEMON.replace("exec cat >/dev/null", "exit 3"),
    )
    .await;
    assert_eq!(child.exited().await, Exit::Status(3));
    until("only the daemon is left", TIMEOUT, || {
        living(&canary).len() == 1
    })
    .await;
    drop(child);
    until("the daemon ends", TIMEOUT, || living(&canary).is_empty()).await;
}

#[tokio::test]
async fn dropping_a_child_kills_it_at_once() {
    for launcher in [launcher(), Launcher::process_groups()] {
        let canary = canary();
        let child = start_up(&launcher, &canary, STUBBORN).await;
        drop(child);
        let took = until("all are gone", TIMEOUT, || living(&canary).is_empty()).await;
        // No grace period: the keeper's own is 1.5 s.
        assert!(took < Duration::from_millis(1400), "{took:?}");
    }
}

/// F11: the child never blocks on us, and its last lines are kept.
#[tokio::test]
async fn f11_a_gigabyte_on_stderr_neither_blocks_nor_is_kept() {
    let stderr = StderrTail::default();
    let script = "yes 'a line of no interest' | head -c 1000000000 >&2; echo >&2; echo last words >&2; exit 5";
    let mut child = launcher().spawn(&shell("", script)).await.unwrap();
    let (count, total) = tokio::sync::watch::channel(0);
    stderr.drain(child.stderr.take().unwrap(), move |chunk| {
        count.send_modify(|count| *count += chunk.len());
    });
    assert_eq!(
        tokio::time::timeout(Duration::from_secs(60), child.exited()).await,
        Ok(Exit::Status(5))
    );
    tokio::time::timeout(TIMEOUT, stderr.drained())
        .await
        .unwrap();
    assert_eq!(
        stderr.last_lines(1, |line| Some(line.to_owned())),
        ["last words"]
    );
    assert_eq!(*total.borrow(), 1_000_000_012);
}

/// T24, T12, T6: a server gets exactly what the command specifies.
#[tokio::test]
async fn t24_a_server_has_three_descriptors_its_own_environment_and_no_terminal() {
    // A descriptor that the embedding program left inheritable.
    let (inheritable, _other) = std::io::pipe().unwrap();
    fcntl(inheritable.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    for launcher in [launcher(), Launcher::process_groups()] {
        let command = shell("x", "echo up; read line")
            .args(["; $( ) && \n", "", "`id` > * 'é\""])
            .current_dir("/usr");
        let mut child = launcher.spawn(&command).await.unwrap();
        // Before that, the loader may still have a library open.
        wait_until_up(&mut child).await;
        let proc = |file: &str| format!("/proc/{}/{file}", child.pid);
        let open: BTreeSet<String> = fs::read_dir(proc("fd"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(open, BTreeSet::from(["0", "1", "2"].map(str::to_owned)));
        assert_eq!(
            fs::read_to_string(proc("environ")).unwrap(),
            "CANARY=x\0PATH=/usr/bin:/bin\0"
        );
        assert_eq!(
            fs::read_to_string(proc("cmdline")).unwrap(),
            "sh\0-c\0echo up; read line\0; $( ) && \n\0\0`id` > * 'é\"\0"
        );
        assert_eq!(fs::read_link(proc("cwd")).unwrap(), PathBuf::from("/usr"));
        let stat = stat(child.pid).unwrap();
        // Its own group, its own session, no terminal.
        let own = child.pid.to_string();
        assert_eq!(stat[2..5], [own.clone(), own, "0".to_owned()]);
        let status = fs::read_to_string(proc("status")).unwrap();
        let signals: Vec<&str> = status
            .lines()
            .filter(|line| line.starts_with("SigBlk") || line.starts_with("SigIgn"))
            .collect();
        assert_eq!(
            signals,
            ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"]
        );
    }
}

#[tokio::test]
async fn bytes_and_the_end_of_input_reach_the_child() {
    let launcher = launcher();
    let mut first = start(&launcher, "", "exec cat").await;
    // If another process had a copy of the first one's pipes, its input would never end.
    let second = start_up(&launcher, "", PLAIN).await;
    let (mut stdin, mut stdout) = (first.stdin.take().unwrap(), first.stdout.take().unwrap());
    let sent: Vec<u8> = (0..3_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let (expected, mut received) = (sent.clone(), Vec::new());
    let writing = async move { stdin.write_all(&sent).await };
    let (written, read) = tokio::join!(writing, stdout.read_to_end(&mut received));
    written.unwrap();
    read.unwrap();
    assert!(received == expected, "{} bytes came back", received.len());
    assert_eq!(first.exited().await, Exit::Status(0));
    drop(second);
}

#[tokio::test]
async fn a_request_larger_than_a_socket_buffer_is_delivered() {
    let launcher = launcher();
    let command = shell("", "test ${#BIG_11} = 100000")
        .envs((0..12).map(|index| (format!("BIG_{index}"), "x".repeat(100_000))));
    let mut child = launcher.spawn(&command).await.unwrap();
    assert_eq!(child.exited().await, Exit::Status(0));
}

/// A program of this machine that names a loader which does not exist.
fn program_without_loader() -> Vec<u8> {
    let loader = b"/no/loader\0";
    let mut elf = fs::read("/proc/self/exe").unwrap();
    elf.truncate(64);
    // The file header: offset, size and number of the program headers.
    elf[32..40].copy_from_slice(&64_u64.to_le_bytes());
    elf[54..58].copy_from_slice(&[56, 0, 1, 0]);
    // The program header: PT_INTERP, flags, then offset, two addresses, two sizes, alignment.
    elf.extend([3, 0, 0, 0, 4, 0, 0, 0]);
    for value in [120, 0, 0, loader.len() as u64, loader.len() as u64, 1] {
        elf.extend(value.to_le_bytes());
    }
    elf.extend(loader);
    elf
}

#[tokio::test]
async fn a_failed_start_reports_why() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let launcher = launcher();
    let check = async |command: Command, expected: &str| {
        assert_eq!(
            launcher.spawn(&command).await.unwrap_err().to_string(),
            expected
        );
    };
    check(
        Command::new("/no/such"),
        "cannot run /no/such: No such file or directory (os error 2)",
    )
    .await;
    check(
        Command::new("/etc/passwd"),
        "cannot run /etc/passwd: Permission denied (os error 13)",
    )
    .await;
    check(
        shell("", "exit 0").current_dir("/no/folder"),
        "cannot run /bin/sh in the folder /no/folder: No such file or directory (os error 2)",
    )
    .await;
    let lost = script("lost", "#!/no/interpreter\n");
    let expected =
        format!("cannot run {lost}: the interpreter that its first line names does not exist");
    check(Command::new(lost), &expected).await;
    let foreign = script("foreign", "");
    fs::write(&foreign, program_without_loader()).unwrap();
    let expected = format!("cannot run {foreign}: its interpreter or loader does not exist");
    check(Command::new(foreign), &expected).await;
    let bare = script("bare", "exit 0\n");
    let expected = format!(
        "cannot run {bare}: Exec format error (os error 8); a script needs a first line such as `#!/bin/sh`"
    );
    check(Command::new(bare), &expected).await;
    // None of these affects the launcher.
    assert_eq!(
        start(&launcher, "", "exit 6").await.exited().await,
        Exit::Status(6)
    );
}

#[tokio::test]
async fn a_cancelled_start_leaves_nothing_behind() {
    let launcher = launcher();
    let canary = canary();
    for micros in (0..4000).step_by(100) {
        let command = shell(&canary, "sleep 600 & sleep 600");
        let starting = launcher.spawn(&command);
        let _ = tokio::time::timeout(Duration::from_micros(micros), starting).await;
    }
    until("all are gone", TIMEOUT, || living(&canary).is_empty()).await;
}

#[tokio::test]
async fn a_program_that_is_not_a_launcher_is_detected() {
    let launcher = Launcher::start("/bin/true".into()).unwrap();
    let error = launcher
        .spawn(&shell("", "exit 0"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("must call `launcher_main()`") || error.contains("cannot be reached"),
        "{error}"
    );
    let error = Launcher::start("/no/such/launcher".into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start the launcher /no/such/launcher: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn the_launcher_ends_with_its_last_clone_but_not_before_its_children() {
    let launcher = launcher();
    assert_eq!(
        (
            launcher.containment(),
            Launcher::process_groups().containment()
        ),
        (Containment::Launcher, Containment::ProcessGroups)
    );
    let mut child = start_up(&launcher.clone(), "", PLAIN).await;
    let process = parent(parent(child.pid));
    drop(launcher);
    drop(child.stdin.take());
    assert_eq!(child.exited().await, Exit::Status(0));
    until("the launcher ends", TIMEOUT, || !is_alive(process)).await;
}

/// Runs only when started by the tests below: a host with 25 servers, until it is killed.
#[tokio::test]
async fn victim_host() {
    let Ok(canary) = std::env::var("VICTIM_HOST") else {
        return;
    };
    let launcher = launcher();
    let mut children = Vec::new();
    for index in 0..25 {
        let script = [PLAIN, STUBBORN, STUBBORN, DAEMON, PLAIN][index % 5];
        children.push(start_up(&launcher, &canary, script).await);
    }
    println!("\nlauncher {}", parent(parent(children[0].pid)));
    std::future::pending::<()>().await;
}

/// The pids of host and launcher, once the host has all its servers and these their descendants:
/// 25, ten with a child, five with a daemon.
async fn start_victim(canary: &str) -> (std::process::Child, u32) {
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim_host", "--nocapture", "--test-threads=1"])
        .env("VICTIM_HOST", canary)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(host.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut words = lines.filter_map(|line| line.strip_prefix("launcher ")?.parse().ok());
    let launcher = words.next().expect("the host starts its servers");
    until("all have their descendants", TIMEOUT, || {
        living(canary).len() >= 25 + 10 + 5
    })
    .await;
    (host, launcher)
}

#[tokio::test]
async fn f29_p4_nothing_survives_a_host_that_is_killed() {
    let canary = canary();
    let (mut host, launcher) = start_victim(&canary).await;
    host.kill().unwrap();
    host.wait().unwrap();
    until("no server is left", Duration::from_secs(3), || {
        living(&canary).is_empty()
    })
    .await;
    until("nor is the launcher", TIMEOUT, || !is_alive(launcher)).await;
}

#[tokio::test]
async fn p4_nothing_survives_a_launcher_that_is_killed() {
    let canary = canary();
    let (mut host, launcher) = start_victim(&canary).await;
    kill_process(launcher);
    until("no server is left", Duration::from_secs(3), || {
        living(&canary).is_empty()
    })
    .await;
    host.kill().unwrap();
    host.wait().unwrap();
}

#[tokio::test]
async fn p4_nothing_survives_host_and_launcher_killed_together() {
    let canary = canary();
    let (mut host, launcher) = start_victim(&canary).await;
    kill_process(launcher);
    host.kill().unwrap();
    host.wait().unwrap();
    until("no server is left", Duration::from_secs(3), || {
        living(&canary).is_empty()
    })
    .await;
}

#[tokio::test]
async fn p4_nothing_survives_a_keeper_that_is_killed() {
    let launcher = launcher();
    let canary = canary();
    let mut neighbour = start_up(&launcher, "", PLAIN).await;
    let mut child = start_up(
        &launcher,
        &canary,
        &format!("{DAEMON} & {STUBBORN}").replacen("echo up;", "", 1),
    )
    .await;
    until("all run", TIMEOUT, || living(&canary).len() >= 4).await;
    kill_process(parent(child.pid));
    assert_eq!(child.exited().await, Exit::Unknown);
    until("all are gone", TIMEOUT, || living(&canary).is_empty()).await;
    // Its neighbour is not affected.
    drop(neighbour.stdin.take());
    assert_eq!(neighbour.exited().await, Exit::Status(0));
}

#[tokio::test]
async fn a_killed_launcher_is_started_again() {
    let launcher = launcher();
    let mut child = start_up(&launcher, "", PLAIN).await;
    kill_process(parent(parent(child.pid)));
    assert_eq!(child.exited().await, Exit::Signal(15));
    assert_eq!(
        start(&launcher, "", "exit 9").await.exited().await,
        Exit::Status(9)
    );
}

/// P7: all at once, not one after the other.
#[tokio::test]
async fn p7_twenty_stuck_servers_stop_within_five_seconds() {
    let launcher = launcher();
    let canary = canary();
    let mut stopping = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let child = start_up(&launcher, &canary, STUBBORN).await;
        stopping.spawn(child.stop(StopTiming::default()));
    }
    let began = Instant::now();
    assert_eq!(stopping.join_all().await, vec![Exit::Signal(9); 20]);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(living(&canary), BTreeSet::new());
}
