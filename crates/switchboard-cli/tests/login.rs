//! Logins through the real program: with and without a terminal, with a browser and by hand, and how
//! they are stored.
#![allow(clippy::unwrap_used)]

mod browser_visit;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;
use std::time::Duration;

use browser_visit::visit;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use support::{Home, PROGRAM, ProgramOutput};
use switchboard_testkit::{LoginServer, wait_until};

/// Long enough for a busy machine; a test that passes never waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A person with one server that wants a login.
fn guarded() -> (Home, LoginServer) {
    let (home, server) = (Home::new(), LoginServer::start());
    home.user_file(&format!(
        "[servers.guarded]\nurl = \"{}\"\n[permissions]\nallow = [\"guarded\"]\n",
        server.url()
    ));
    (home, server)
}

/// Logs in by hand: the address is printed, and the one it leads to is given back.
fn log_in(home: &Home, more: &[&str]) -> ProgramOutput {
    let mut command = home.command(&[&["login", "guarded", "--no-browser"], more].concat());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut stderr = String::new();
    let address = loop {
        let mut line = String::new();
        assert!(
            errors.read_line(&mut line).unwrap() > 0,
            "no address was printed:\n{stderr}"
        );
        stderr.push_str(&line);
        if line.starts_with("http://") {
            break line.trim_end().to_owned();
        }
    };
    writeln!(child.stdin.take().unwrap(), "{}", visit(&address)).unwrap();
    errors.read_to_string(&mut stderr).unwrap();
    let output = child.wait_with_output().unwrap();
    ProgramOutput {
        stderr,
        ..ProgramOutput::of(&output)
    }
}

#[test]
fn a_login_by_hand_makes_the_server_usable_until_the_logout() {
    let (home, server) = guarded();
    let before = home.run(&["call", "guarded/whoami"]);
    assert_eq!(
        (before.code, before.stdout.as_str()),
        (Some(4), ""),
        "{before:?}"
    );
    assert!(
        before.stderr.contains("server \"guarded\"")
            && before.stderr.contains("switchboard login guarded"),
        "{before:?}"
    );
    assert_eq!(
        home.run(&["call", "guarded/whoami", "--json"]).error()["code"],
        4
    );

    let login = log_in(&home, &[]);
    let said = format!(
        "logged in to server \"guarded\" (by http://{}/as1)\n",
        server.authority
    );
    assert_eq!((login.code, login.stdout), (Some(0), said));
    assert_eq!(home.run(&["call", "guarded/whoami"]).stdout, "somebody\n");
    // The access token has ended, and is renewed.
    server.end_tokens();
    assert_eq!(home.run(&["call", "guarded/whoami"]).stdout, "somebody\n");
    assert_eq!(server.seen_at("/as1/token").len(), 2);

    let out = home.run(&["logout", "guarded"]);
    let said = "logged out of server \"guarded\": the token was revoked and deleted\n";
    assert_eq!(
        out,
        ProgramOutput {
            code: Some(0),
            stdout: said.to_owned(),
            stderr: String::new()
        }
    );
    assert_eq!(home.run(&["call", "guarded/whoami"]).code, Some(4));
}

#[test]
fn login_and_logout_with_json_print_one_document() {
    let (home, server) = guarded();
    server.set(|terms| terms.scope = Some("read write".to_owned()));
    let issuer = format!("http://{}/as1", server.authority);
    let expected = json!({ "server": "guarded", "loggedIn": true, "issuer": issuer, "scopes": ["read", "write"], "renews": true });
    assert_eq!(log_in(&home, &["--json"]).json(), expected);
    let expected = json!({ "server": "guarded", "wasLoggedIn": true, "revoked": true });
    assert_eq!(home.run(&["logout", "guarded", "--json"]).json(), expected);
    let expected = json!({ "server": "guarded", "wasLoggedIn": false, "revoked": false });
    assert_eq!(home.run(&["logout", "guarded", "--json"]).json(), expected);
    let kept = home.run(&["doctor", "--json"]).json()["logins"].clone();
    assert!(
        kept.as_str()
            .unwrap()
            .ends_with("logins.json (readable by you alone)"),
        "{kept}"
    );
}

#[test]
fn each_login_failure_has_its_exit_code() {
    let (home, server) = guarded();
    let unknown = home.run(&["login", "gaurded"]);
    assert_eq!(
        (unknown.code, unknown.stderr.contains("did you mean")),
        (Some(2), true),
        "{unknown:?}"
    );
    server.set(|terms| terms.denied = Some("access_denied".to_owned()));
    let denied = log_in(&home, &[]);
    assert_eq!(denied.code, Some(4));
    assert!(
        denied
            .stderr
            .contains("login failed: the authorization server answered access_denied"),
        "{denied:?}"
    );
    server.set(|terms| terms.metadata = json!({ "code_challenge_methods_supported": null }));
    let unable = home.run(&["login", "guarded", "--no-browser"]);
    assert_eq!(
        (unable.code, unable.stderr.contains("PKCE")),
        (Some(3), true),
        "{unable:?}"
    );
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    home.user_file(&format!(
        "[servers.gone]\nurl = \"http://127.0.0.1:{gone}/mcp\"\n"
    ));
    let nowhere = home.run(&["login", "gone"]);
    let told = format!(
        "error: server \"gone\": 127.0.0.1:{gone} refused the connection (is the server running?)\n"
    );
    assert_eq!((nowhere.code, nowhere.stderr), (Some(3), told));
    let demo = Home::with_demo("");
    let program = demo.run(&["login", "demo"]);
    assert_eq!(
        (
            program.code,
            program
                .stderr
                .contains("only servers with a `url` have logins")
        ),
        (Some(2), true),
        "{program:?}"
    );
}

#[test]
fn a_bearer_token_is_sent_and_says_what_to_check_when_it_is_refused() {
    let (home, server) = guarded();
    let text = |token: &str| {
        format!(
            "[servers.guarded]\nurl = \"{}\"\nbearer_token = \"{token}\"\n",
            server.url()
        )
    };
    server.admit("canary-own", "");
    home.user_file(&text("canary-own"));
    assert_eq!(
        home.run(&["call", "guarded/whoami", "--yes"]).stdout,
        "somebody\n"
    );
    home.user_file(&text("canary-wrong"));
    let refused = home.run(&["call", "guarded/whoami", "--yes"]);
    assert_eq!(refused.code, Some(4));
    assert!(
        refused.stderr.contains("check `bearer_token`") && !refused.stderr.contains("canary"),
        "{refused:?}"
    );
    // A login would change nothing, so nobody is sent there.
    let told = "the server refused the token (HTTP 401); check `bearer_token` of its entry";
    assert_eq!(
        home.run(&["status", "--json"]).json()["servers"][0]["error"],
        told
    );
    let doctor = home.run(&["doctor"]);
    assert!(
        doctor
            .stdout
            .contains("    Try: check `bearer_token` of its entry\n"),
        "{doctor:?}"
    );
    let listed = home.run(&["tools"]);
    assert!(
        listed
            .stderr
            .contains(&format!("server \"guarded\": {told}\n")),
        "{listed:?}"
    );
    for ran in [refused, doctor, listed] {
        assert!(!format!("{ran:?}").contains("switchboard login"), "{ran:?}");
    }
}

/// T25: no token, code or client secret is printed at any verbosity.
#[test]
fn t25_no_token_is_printed_at_any_verbosity() {
    let (home, server) = guarded();
    let mut all = format!("{:?}", log_in(&home, &["-vvv"]));
    server.end_tokens();
    for words in [
        &["call", "guarded/whoami", "-vvv"][..],
        &["status", "-vvv"],
        &["doctor", "-vvv"],
        &["status", "--json"],
        &["logs"],
    ] {
        all.push_str(&format!("{:?}", home.run(words)));
    }
    server.set(|terms| {
        terms.token_fault = Some((
            400,
            json!({ "error": "invalid_grant", "error_description": "no canary-refresh-as1-3" }),
        ))
    });
    server.end_tokens();
    all.push_str(&format!(
        "{:?}",
        home.run(&["call", "guarded/whoami", "-vvv"])
    ));
    all.push_str(&format!("{:?}", home.run(&["logout", "guarded", "-vvv"])));
    assert!(server.seen().iter().any(|request| {
        request
            .authorization
            .as_deref()
            .is_some_and(|sent| sent.contains("canary"))
    }));
    assert!(!all.contains("canary"), "{all}");
}

/// T35: only the user can read the vault's file, and no link is followed.
#[test]
fn t35_the_file_of_the_vault_is_private_and_no_link_is_followed() {
    let (home, _server) = guarded();
    let file = home.path("state/switchboard/logins.json");
    // Created with a permissive umask.
    let mut command = std::process::Command::new("sh");
    let words = format!("umask 0; exec {PROGRAM} logout guarded");
    command
        .args(["-c", &words])
        .env_clear()
        .current_dir(home.path("project"));
    for (name, value) in [
        ("HOME", ""),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
    ] {
        command.env(name, home.path(value));
    }
    assert!(
        command
            .env("SWITCHBOARD_VAULT", "file")
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(log_in(&home, &[]).code, Some(0));
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    for entry in std::fs::read_dir(file.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        }
    }
    // A file that a crash left between write and rename is neither read nor an obstacle.
    std::fs::write(file.with_extension("json.new"), "{").unwrap();
    assert_eq!(home.run(&["call", "guarded/whoami"]).stdout, "somebody\n");

    let target = home.path("target");
    std::fs::write(&target, "{}").unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink(&target, &file).unwrap();
    let refused = home.run(&["login", "guarded", "--no-browser"]);
    assert_eq!(
        (refused.code, refused.stderr.contains("symbolic link")),
        (Some(3), true),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "{}");
}

/// T16: what an authorization server names is opened as one argument, or not at all.
#[test]
fn t16_the_browser_gets_one_argument_and_only_after_a_yes() {
    let (home, server) = guarded();
    let (browser, seen) = home.recording_browser();
    let sit = || home.spawn_in_terminal(&["env", &browser, PROGRAM, "login", "guarded"]);

    for hostile in [
        "http://as.example/authorize",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://user@as.example/",
        "https://as.example/\u{1b}]0;x",
        "--upload-pack=touch",
        "ms-settings:x",
    ] {
        server.set(|terms| terms.metadata = json!({ "authorization_endpoint": hostile }));
        let ended = sit().end();
        assert_eq!(
            (ended.code, ended.restored),
            (3, true),
            "{hostile}: {}",
            ended.screen
        );
    }
    for hostile in [
        "https://as.example/$(touch pwned)",
        "https://as.example/a?x=';calc;'%20--new-window",
        "https://as.example/`id`|sh",
    ] {
        let hostile = hostile.replace(' ', "%20");
        server.set(|terms| terms.metadata = json!({ "authorization_endpoint": hostile }));
        let mut terminal = sit();
        let screen = terminal.wait_for("[o] open it");
        assert!(screen.contains("as.example") && !seen.exists(), "{screen}");
        terminal.send("o");
        assert!(
            wait_until(PATIENCE, || seen.exists()),
            "the browser was started"
        );
        let recorded = std::fs::read_to_string(&seen).unwrap();
        let lines: Vec<_> = recorded.lines().collect();
        assert!(
            lines.len() == 2 && lines[0] == "1" && lines[1].starts_with("https://as.example/"),
            "{hostile}: {recorded}"
        );
        std::fs::remove_file(&seen).unwrap();
        terminal.send("\u{3}");
        assert_eq!(terminal.end().code, 130);
    }
    // A valid address works.
    server.set(|terms| terms.metadata = json!({}));
    let mut terminal = sit();
    terminal.wait_for("[o] open it");
    terminal.send("o");
    assert!(
        wait_until(PATIENCE, || seen.exists()),
        "the browser was started"
    );
    let address = std::fs::read_to_string(&seen)
        .unwrap()
        .lines()
        .nth(1)
        .unwrap()
        .to_owned();
    let page = visit(&visit(&address));
    assert!(page.contains("Switchboard received the login"), "{page}");
    let ended = terminal.end();
    assert_eq!(
        (
            ended.code,
            ended.restored,
            ended.screen.contains("logged in to server \"guarded\"")
        ),
        (0, true, true),
        "{}",
        ended.screen
    );
}

#[test]
fn an_address_is_pasted_at_a_terminal_too() {
    let (home, server) = guarded();
    let mut terminal = home.run_in_terminal(&["login", "guarded", "--no-browser"]);
    terminal.wait_for("Paste the address");
    assert!(
        wait_until(PATIENCE, || !server.seen_at("/as1/register").is_empty()),
        "it has registered"
    );
    // A wrong one is refused, and nothing is redeemed.
    terminal.send("http://127.0.0.1:1/callback?code=x&state=y\n");
    let ended = terminal.end();
    assert_eq!(ended.code, 4, "{}", ended.screen);
    assert_eq!(server.seen_at("/as1/token"), []);
}

/// An entry that logs in by itself, with a secret.
fn machine(home: &Home, server: &LoginServer, more: &str) {
    home.user_file(&format!(
        "[servers.guarded]\nurl = \"{}\"\noauth_grant = \"client_credentials\"\noauth_client_id = \"robot\"\n\
         oauth_client_secret = \"canary-client\"\n{more}[permissions]\nallow = [\"guarded\"]\n",
        server.url()
    ));
    let metadata = json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] });
    server.set(|terms| terms.metadata = metadata);
}

/// T18: a client secret goes to the authorization server that it was first used with. Where the
/// server names another one, nothing is sent there; the sentence says what to do, and doing it
/// works.
#[test]
fn t18_a_client_secret_is_not_sent_to_an_authorization_server_that_took_the_place_of_another() {
    let (home, server) = (Home::new(), LoginServer::start());
    machine(&home, &server, "");
    assert_eq!(home.run(&["call", "guarded/whoami"]).stdout, "somebody\n");
    assert_eq!(
        server.seen_at("/as1/token")[0].fields["client_secret"],
        "canary-client"
    );

    server.end_tokens();
    server.set(|terms| terms.issuer = "as2".to_owned());
    for words in [
        &["call", "guarded/whoami"][..],
        &["login", "guarded"],
        &["status"],
        &["doctor"],
    ] {
        let refused = home.run(words);
        let all = format!("{}{}", refused.stdout, refused.stderr);
        assert!(
            all.contains("`switchboard logout guarded`"),
            "{words:?}: {all}"
        );
        assert!(
            all.contains(&format!("http://{}/as2", server.authority))
                && !all.contains("switchboard login"),
            "{words:?}: {all}"
        );
    }
    assert_eq!(home.run(&["call", "guarded/whoami"]).code, Some(4));
    let sent: Vec<_> = server
        .seen()
        .into_iter()
        .filter(|request| request.path.starts_with("/as2"))
        .collect();
    assert_eq!(sent, [], "nothing was sent to the other one");

    assert_eq!(home.run(&["logout", "guarded"]).code, Some(0));
    assert_eq!(home.run(&["call", "guarded/whoami"]).stdout, "somebody\n");
    assert_eq!(server.seen_at("/as2/token").len(), 1);
}

/// T18: an authorization server that rejected the secret, or gave no usable answer, has seen it: the
/// secret stays bound to it.
#[test]
fn t18_a_client_secret_is_bound_before_it_is_sent_for_the_first_time() {
    let (home, server) = (Home::new(), LoginServer::start());
    machine(&home, &server, "");
    server.set(|terms| terms.token_fault = Some((401, json!({ "error": "invalid_client" }))));
    let refused = home.run(&["call", "guarded/whoami"]);
    assert_eq!(
        (
            refused.code,
            refused.stderr.contains("check `oauth_client_id`")
        ),
        (Some(4), true),
        "{refused:?}"
    );
    server.set(|terms| (terms.token_fault, terms.issuer) = (None, "as2".to_owned()));
    assert_eq!(home.run(&["call", "guarded/whoami"]).code, Some(4));
    assert_eq!(server.seen_at("/as2/token"), []);
}

/// T18: `oauth_issuer` says beforehand whom the secret is for; it is also how to accept another
/// one.
#[test]
fn t18_oauth_issuer_binds_a_client_secret_to_its_authorization_server() {
    let (home, server) = (Home::new(), LoginServer::start());
    let issuer = |name: &str| format!("oauth_issuer = \"http://{}/{name}\"\n", server.authority);
    machine(&home, &server, &issuer("as2"));
    let refused = home.run(&["call", "guarded/whoami"]);
    assert_eq!(
        (refused.code, refused.stderr.contains("`oauth_issuer`")),
        (Some(4), true),
        "{refused:?}"
    );
    assert_eq!(server.seen_at("/as1/token"), []);
    for name in ["as1", "as2"] {
        server.end_tokens();
        server.set(|terms| terms.issuer = name.to_owned());
        machine(&home, &server, &issuer(name));
        assert_eq!(
            home.run(&["call", "guarded/whoami"]).stdout,
            "somebody\n",
            "{name}"
        );
        assert_eq!(server.seen_at(&format!("/{name}/token")).len(), 1);
    }
    // Without the field, the last binding still holds.
    machine(&home, &server, "");
    server.end_tokens();
    server.set(|terms| terms.issuer = "as1".to_owned());
    assert_eq!(home.run(&["call", "guarded/whoami"]).code, Some(4));
    assert_eq!(server.seen_at("/as1/token").len(), 1);
}

/// A refresh token that was sent is spent: the answer is stored before the program ends, whatever
/// signal ends it, and the next run goes on with it.
#[test]
fn f19_a_signal_during_a_token_refresh_does_not_lose_the_login() {
    let (home, server) = guarded();
    assert_eq!(log_in(&home, &[]).code, Some(0));
    for (signals, code) in [
        (&[Signal::SIGINT][..], 130),
        (&[Signal::SIGTERM], 143),
        (&[Signal::SIGINT, Signal::SIGINT], 130),
    ] {
        let before = server.seen_at("/as1/token").len();
        server.end_tokens();
        server.set(|terms| terms.holds_tokens = true);
        let mut command = home.command(&["-vv", "call", "guarded/whoami"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(
            wait_until(PATIENCE, || server.seen_at("/as1/token").len() > before),
            "the token is being exchanged"
        );
        for signal in signals {
            kill(Pid::from_raw(child.id().try_into().unwrap()), *signal).unwrap();
            let mut lines = lines.by_ref().map(Result::unwrap);
            assert!(lines.any(|line| line.contains("received a signal")));
        }
        server.set(|terms| terms.holds_tokens = false);
        let said: Vec<_> = lines.map(Result::unwrap).collect();
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), Some(code), "{said:#?}");
        assert_eq!(
            home.run(&["call", "guarded/whoami"]).stdout,
            "somebody\n",
            "{signals:?}"
        );
        assert_eq!(
            server.seen_at("/as1/token").len(),
            before + 1,
            "{signals:?}: the stored token serves"
        );
    }
}

/// An authorization server that does not answer does not delay the exit for long.
#[test]
fn f19_a_token_refresh_without_an_answer_ends_within_its_bound_after_a_signal() {
    let (home, server) = guarded();
    assert_eq!(log_in(&home, &[]).code, Some(0));
    server.end_tokens();
    server.set(|terms| terms.holds_tokens = true);
    let child = home.command(&["call", "guarded/whoami"]).spawn().unwrap();
    assert!(
        wait_until(PATIENCE, || server.seen_at("/as1/token").len() > 1),
        "the token is being exchanged"
    );
    let begun = std::time::Instant::now();
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    // Sooner than the request's own deadline of 30 s.
    assert!(
        begun.elapsed() < Duration::from_secs(25),
        "{:?}",
        begun.elapsed()
    );
    server.set(|terms| terms.holds_tokens = false);
}

/// Without a terminal nothing is opened: the address is printed, and so is what is waited for.
#[test]
fn a_login_without_a_terminal_says_what_it_waits_for() {
    let (home, _server) = guarded();
    for words in [
        &["login", "guarded"][..],
        &["login", "guarded", "--no-browser"],
    ] {
        let mut child = home.command(words).stdin(Stdio::null()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let (mut address, mut awaited) = (String::new(), String::new());
        while awaited.is_empty() {
            let mut line = String::new();
            assert!(
                errors.read_line(&mut line).unwrap() > 0,
                "{words:?} ended without a word about what it waits for"
            );
            match line {
                line if line.starts_with("http://") => address = line.trim_end().to_owned(),
                line if line.starts_with("waiting up to 10 minutes") => awaited = line,
                _ => {}
            }
        }
        let back = visit(&address);
        let redirect = back.split('?').next().unwrap();
        assert!(
            awaited.contains(&format!("this machine to return to {redirect}; ")),
            "{awaited}"
        );
        assert!(
            awaited.contains("`switchboard login --no-browser guarded`"),
            "{awaited}"
        );
        visit(&back);
        assert_eq!(
            child.wait_with_output().unwrap().status.code(),
            Some(0),
            "{words:?}"
        );
    }
}
