use std::process::Command;

use crate::support::{Home, PROGRAM, ProgramOutput};

/// Every command that the demo prints is run by a shell, in a home of its own, in the order they
/// were printed.
#[test]
fn the_commands_that_demo_prints_can_be_copied() {
    let home = Home::new();
    let printed = home.run(&["demo"]).stdout;
    let lines: Vec<_> = printed
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("$ "))
        .collect();
    assert!(lines.len() >= 5, "{printed}");
    for line in lines {
        let folder = std::path::Path::new(PROGRAM).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).env_clear();
        shell
            .envs(
                home.command(&[])
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("PATH", path);
        let ran = ProgramOutput::of(&shell.current_dir(home.path("project")).output().unwrap());
        assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
        if line.contains("call") {
            assert_eq!(
                ran.stdout, "hello from the other side of the gate\n",
                "{line}"
            );
        }
    }
}
