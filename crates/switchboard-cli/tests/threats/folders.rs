use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::project_files::{CORE_AGENT, GEMINI};
use crate::support::{Home, PROGRAM, ProgramOutput};
use crate::untrusted_servers::FILES;

/// A folder that is not accepted, whose files create the canary when they run.
fn hostile(home: &Home) -> (PathBuf, PathBuf) {
    let folder = home.path("hostile");
    std::fs::create_dir_all(&folder).unwrap();
    (folder, home.path("canary"))
}

fn script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn run_in(home: &Home, folder: &Path, words: &[&str]) -> ProgramOutput {
    ProgramOutput::of(&home.command(words).current_dir(folder).output().unwrap())
}

/// A program that leaves the folder it runs in, then serves.
fn leaves_its_folder(home: &Home) -> String {
    let left = home.path("left");
    script(
        &home.path("serve"),
        &format!("pwd > '{}'\nexec '{PROGRAM}' __demo-server", left.display()),
    );
    home.path("serve").display().to_string()
}

fn left(home: &Home) -> PathBuf {
    PathBuf::from(
        std::fs::read_to_string(home.path("left"))
            .unwrap()
            .trim_end(),
    )
}

/// A repository links the folder of an accepted project's file: the entry would run the
/// repository's own `run.sh`.
#[test]
fn t1_a_link_to_an_accepted_projects_folder_starts_nothing() {
    for file in [CORE_AGENT, GEMINI] {
        let home = Home::new();
        let (folder, canary) = hostile(&home);
        let good = home.path("good");
        file.write(
            &good,
            &[("srv", json!({ "command": "sh", "args": ["run.sh"] }))],
        );
        script(&good.join("run.sh"), "exit 1");
        assert_eq!(
            run_in(&home, &good, &["trust", "srv", "--yes"]).code,
            Some(0)
        );
        script(
            &folder.join("run.sh"),
            &format!("touch '{}'", canary.display()),
        );
        let own_folder = Path::new(file.path).parent().unwrap();
        symlink(good.join(own_folder), folder.join(own_folder)).unwrap();

        for words in [
            &["status"][..],
            &["tools"],
            &["doctor"],
            &["call", "srv/x", "--yes"],
        ] {
            let ran = run_in(&home, &folder, words);
            assert!(
                !canary.exists(),
                "{file:?}: {words:?} ran the repository's script: {ran:?}"
            );
            // The report of `doctor` has the notices in it.
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(
                said.contains(file.path) && said.contains("is a symbolic link"),
                "{file:?}: {words:?}: {ran:?}"
            );
        }
        assert_eq!(
            run_in(&home, &folder, &["status", "--json"]).json()["servers"],
            json!([])
        );
    }
}

#[test]
fn t1_a_project_file_that_is_a_link_is_not_read() {
    for file in FILES {
        let home = Home::new();
        let (folder, canary) = hostile(&home);
        let other = home.path("other");
        file.write(
            &other,
            &[(
                "evil",
                json!({ "command": "touch", "args": [canary.display().to_string()] }),
            )],
        );
        std::fs::create_dir_all(folder.join(file.path).parent().unwrap()).unwrap();
        symlink(other.join(file.path), folder.join(file.path)).unwrap();
        let ran = run_in(&home, &folder, &["trust", "evil", "--yes"]);
        assert_eq!(ran.code, Some(2), "{file:?}: {ran:?}");
        let ran = run_in(&home, &folder, &["status"]);
        assert!(
            ran.stderr.contains("is a symbolic link") && !canary.exists(),
            "{file:?}: {ran:?}"
        );
    }
}

/// Neither its permissions file nor a file of which only the servers are counted.
#[test]
fn t1_a_projects_other_files_are_not_read_through_links_either() {
    let home = Home::new();
    let (folder, _) = hostile(&home);
    let other = home.path("other");
    std::fs::create_dir_all(&other).unwrap();
    let servers = r#"{"servers": {"one": {"command": "true"}}}"#;
    std::fs::write(other.join("mcp.json"), servers).unwrap();
    for name in [".vscode", ".cursor"] {
        std::fs::create_dir(folder.join(name)).unwrap();
        symlink(other.join("mcp.json"), folder.join(name).join("mcp.json")).unwrap();
    }
    let ran = run_in(&home, &folder, &["status"]);
    assert!(!ran.stderr.contains("has 1 server"), "{ran:?}");

    std::fs::write(other.join("config.json"), "{\"permissions\": {}}").unwrap();
    CORE_AGENT.write(&folder, &[("srv", json!({ "command": "true" }))]);
    symlink(
        other.join("config.json"),
        folder.join(".agents/config.json"),
    )
    .unwrap();
    let ran = run_in(&home, &folder, &["status"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("config.json: is a symbolic link"),
        "{ran:?}"
    );
}

#[test]
fn t1_the_folder_that_a_projects_server_runs_in_is_shown_and_is_the_projects() {
    for file in FILES {
        let home = Home::new();
        let serve = leaves_its_folder(&home);
        let project = home.path("project").canonicalize().unwrap();
        file.write(&project, &[("here", json!({ "command": serve }))]);
        let ran = home.run(&["trust", "here", "--yes"]);
        assert!(
            ran.stderr.contains(&format!("working folder: {project:?}")),
            "{file:?}: {ran:?}"
        );
        let ran = home.run(&["status"]);
        assert_eq!(left(&home), project, "{file:?}: {ran:?}");
    }
}

/// T1, T6: what a folder contains is run by the person's own servers only where they accepted that
/// folder.
#[test]
fn t1_t6_the_users_own_servers_run_nothing_of_a_folder_that_nobody_accepted() {
    let home = Home::new();
    let (folder, canary) = hostile(&home);
    let touch = format!("touch '{}'", canary.display());
    script(&folder.join("bin/srv"), &touch);
    script(&folder.join("run.sh"), &touch);
    std::fs::write(
        folder.join("my_server.py"),
        format!("open({:?}, 'w')\n", canary.display().to_string()),
    )
    .unwrap();
    home.user_file(
        "[servers.relative]\ncommand = \"./bin/srv\"\n[servers.argument]\ncommand = \"sh\"\nargs = [\"run.sh\"]\n\
         [servers.module]\ncommand = \"python3\"\nargs = [\"-m\", \"my_server\"]\n",
    );
    let entry = json!({ "command": "./bin/srv" });
    GEMINI.write(
        home.folder.path(),
        &[
            ("gemini", entry.clone()),
            ("gemini-cwd", json!({ "command": "srv", "cwd": "bin" })),
        ],
    );
    CORE_AGENT.write(home.folder.path(), &[("core", entry)]);
    for words in [
        &["status"][..],
        &["tools"],
        &["doctor"],
        &["call", "gemini/x", "--yes"],
    ] {
        let ran = run_in(&home, &folder, words);
        assert!(!canary.exists(), "{words:?}: {ran:?}");
        assert!(
            format!("{}{}", ran.stdout, ran.stderr).contains("switchboard trust --folder"),
            "{words:?}: {ran:?}"
        );
    }
}

/// The folder is private and each server's own; one line says so and names what changes it; a yes
/// changes it.
#[test]
fn t1_t6_a_server_without_a_folder_runs_in_a_private_one_until_the_current_one_is_accepted() {
    let home = Home::new();
    let (folder, _) = hostile(&home);
    let serve = leaves_its_folder(&home);
    home.user_file(&format!("[servers.mine]\ncommand = {serve:?}\n"));

    let ran = run_in(&home, &folder, &["status"]);
    let private = left(&home);
    let state = home.path("state/switchboard").canonicalize().unwrap();
    assert!(
        private.starts_with(&state) && private != state,
        "{private:?}: {ran:?}"
    );
    assert_eq!(
        std::fs::metadata(&private).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let lines: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("switchboard trust --folder"))
        .collect();
    assert!(lines.len() == 1 && lines[0].contains("\"mine\""), "{ran:?}");

    let ran = run_in(&home, &folder, &["trust", "--folder"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = run_in(&home, &folder, &["status"]);
    assert_eq!(
        (left(&home), ran.stderr.as_str()),
        (folder.canonicalize().unwrap(), "")
    );
    // By canonical path: a link to it is that folder, a folder in it is another one.
    let link = home.path("link");
    symlink(&folder, &link).unwrap();
    run_in(&home, &link, &["status"]);
    assert_eq!(left(&home), folder.canonicalize().unwrap());
    std::fs::create_dir(folder.join("inside")).unwrap();
    run_in(&home, &folder.join("inside"), &["status"]);
    assert_eq!(left(&home), private);

    let listed = run_in(&home, &folder, &["trust", "--list"]);
    assert!(
        listed
            .stdout
            .contains(&folder.canonicalize().unwrap().display().to_string()),
        "{listed:?}"
    );
    let ran = run_in(&home, &folder, &["trust", "--folder", "--revoke"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    run_in(&home, &folder, &["status"]);
    assert_eq!(left(&home), private);
    let again = run_in(&home, &folder, &["trust", "--folder", "--revoke"]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (Some(2), ""),
        "{again:?}"
    );
}

#[test]
fn a_folder_that_cannot_be_accepted_is_not_blamed_on_the_state_folder() {
    let home = Home::new();
    let folder = home.folder.path().join(OsStr::from_bytes(b"n\xff"));
    std::fs::create_dir(&folder).unwrap();
    let ran = run_in(&home, &folder, &["trust", "--folder"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("its path is not Unicode") && !ran.stderr.contains("XDG_STATE_HOME"),
        "{ran:?}"
    );
}

#[test]
fn t1_t6_a_file_that_is_given_and_a_folder_that_is_written_decide_for_themselves() {
    let home = Home::new();
    let (folder, _) = hostile(&home);
    let serve = leaves_its_folder(&home);
    let file = home.path("given.toml");
    std::fs::write(&file, format!("[servers.given]\ncommand = {serve:?}\n")).unwrap();
    let ran = run_in(&home, &folder, &["-c", file.to_str().unwrap(), "status"]);
    assert_eq!(
        (left(&home), ran.stderr.as_str()),
        (folder.canonicalize().unwrap(), "")
    );
    std::fs::create_dir(home.path("own")).unwrap();
    let own = home.path("own").canonicalize().unwrap();
    home.user_file(&format!(
        "[servers.mine]\ncommand = {serve:?}\ncwd = {own:?}\n"
    ));
    let ran = run_in(&home, &folder, &["status"]);
    assert_eq!((left(&home), ran.stderr.as_str()), (own, ""));
}

/// At a terminal the program asks once in each folder, and Enter is no.
#[test]
fn t1_t6_a_person_is_asked_once_about_a_folder() {
    for (key, accepted) in [("\r", false), ("y\r", true)] {
        let home = Home::new();
        let (folder, _) = hostile(&home);
        let serve = leaves_its_folder(&home);
        home.user_file(&format!("[servers.mine]\ncommand = {serve:?}\n"));
        let there = folder.display().to_string();
        let mut terminal = home.spawn_in_terminal(&["env", "-C", &there, PROGRAM, "tools"]);
        let screen = terminal.wait_for("[y/N]");
        assert!(
            screen.contains("mine") && screen.contains("hostile"),
            "{screen}"
        );
        terminal.send(key);
        let ended = terminal.end();
        assert!(ended.code == 0 && ended.restored, "{ended:?}");
        assert_eq!(
            left(&home) == folder.canonicalize().unwrap(),
            accepted,
            "{ended:?}"
        );
        let again = home
            .spawn_in_terminal(&["env", "-C", &there, PROGRAM, "tools"])
            .end();
        assert!(
            again.code == 0 && !again.screen.contains("[y/N]"),
            "{again:?}"
        );
    }
}

/// `doctor`'s command to copy runs where the server ran.
#[test]
fn the_command_to_run_by_hand_runs_in_the_servers_private_folder() {
    let home = Home::new();
    let (folder, _) = hostile(&home);
    script(&home.path("fails"), "pwd >&2\nexit 3");
    let fails = home.path("fails").display().to_string();
    home.user_file(&format!("[servers.mine]\ncommand = {fails:?}\n"));
    let doctor = run_in(&home, &folder, &["doctor", "--json"]).json();
    let advice = doctor["servers"][0]["try"].as_array().unwrap();
    let line = advice
        .iter()
        .find_map(|line| line.as_str().unwrap().strip_prefix("run it by hand: "))
        .unwrap();
    let by_hand = std::process::Command::new("/bin/sh")
        .args(["-c", line])
        .output()
        .unwrap();
    let ran = ProgramOutput::of(&by_hand);
    let private = home
        .path("state/switchboard/private")
        .canonicalize()
        .unwrap();
    assert_eq!(ran.code, Some(3), "{line}: {ran:?}");
    assert_eq!(
        ran.stderr.trim_end(),
        private.join("mine.cwd").display().to_string(),
        "{line}"
    );
}

/// As git does with repositories: a file above the current folder counts only if it is one's own.
#[test]
fn t1_a_projects_file_above_the_current_folder_that_is_another_users_is_not_read() {
    if !nix::unistd::Uid::effective().is_root() {
        return switchboard_testkit::skipped("only root can give a file away");
    }
    let home = Home::new();
    let serve = leaves_its_folder(&home);
    let root = home.path("repository");
    let deep = root.join("a");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(root.join(".git")).unwrap();
    let file = root.join(".mcp.json");
    let text = json!({"mcpServers": {"planted": {"command": serve}}}).to_string();
    std::fs::write(&file, text).unwrap();
    std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
    let ran = run_in(&home, &deep, &["status", "--json"]);
    assert_eq!(ran.json()["servers"], json!([]), "{ran:?}");
    let notices: Vec<_> = ran
        .stderr
        .lines()
        .filter(|line| line.contains(".mcp.json") && line.contains("belongs to another user"))
        .collect();
    assert_eq!(notices.len(), 1, "{ran:?}");
    let given = run_in(&home, &deep, &["-c", "../.mcp.json", "status", "--json"]);
    assert_eq!(
        given.json()["servers"][0]["name"],
        json!("planted"),
        "{given:?}"
    );
}

/// A project's files hold in its folders too, up to the repository's root, and one line says which
/// file is used.
#[test]
fn project_files_are_found_from_a_subfolder_up_to_the_repositorys_root() {
    for file in FILES {
        let home = Home::new();
        let serve = leaves_its_folder(&home);
        let root = home.path("repository");
        let deep = root.join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        file.write(&root, &[("here", json!({ "command": serve }))]);
        // Without a repository nothing above the current folder counts.
        assert_eq!(
            run_in(&home, &deep, &["status", "--json"]).json()["servers"],
            json!([]),
            "{file:?}"
        );
        std::fs::create_dir(root.join(".git")).unwrap();
        let ran = run_in(&home, &deep, &["status"]);
        let used = root
            .canonicalize()
            .unwrap()
            .join(file.path)
            .display()
            .to_string();
        assert_eq!(
            ran.stderr
                .lines()
                .filter(|line| line.contains(&used))
                .count(),
            1,
            "{file:?}: {ran:?}"
        );
        assert!(
            !home.path("left").exists() && ran.stderr.contains("switchboard trust"),
            "{file:?}: {ran:?}"
        );
        assert_eq!(
            run_in(&home, &deep, &["trust", "here", "--yes"]).code,
            Some(0),
            "{file:?}"
        );
        run_in(&home, &deep, &["status"]);
        assert_eq!(
            left(&home),
            root.canonicalize().unwrap(),
            "{file:?}: it runs in the project's folder"
        );
        // The nearest folder that has a file is the project's; above the repository's root nothing
        // is looked at.
        file.write(&deep, &[("nearer", json!({ "command": "true" }))]);
        let names = |ran: ProgramOutput| {
            ran.json()["servers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|server| server["name"].clone())
                .collect()
        };
        let found: Vec<_> = names(run_in(&home, &deep, &["status", "--json"]));
        assert_eq!(found, [json!("nearer")], "{file:?}");
        let other = root.join("a/other");
        std::fs::create_dir_all(other.join(".git")).unwrap();
        let found: Vec<_> = names(run_in(&home, &other, &["status", "--json"]));
        assert!(found.is_empty(), "{file:?}: {found:?}");
    }
}
