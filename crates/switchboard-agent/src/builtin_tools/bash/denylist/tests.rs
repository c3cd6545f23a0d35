//! Tests of the denylist of commands.

use super::*;

fn denied(rules: &[&str], command: &str) -> bool {
    let list = Denylist::new(rules.iter().copied()).expect("valid rules");
    list.home(Some("/home/me".to_owned()))
        .reason(command)
        .is_some()
}

#[test]
fn s0_26_what_cannot_be_undone_is_on_the_list() {
    for command in [
        "rm -rf /",
        "rm -fr /*",
        "rm -r -f ~",
        "rm -rf ~/",
        "rm --recursive --force \"$HOME\"",
        "rm -rf ${HOME}/*",
        "rm -rf /home/me",
        "rm -Rf /etc/../usr",
        "rm -rf //",
        "/bin/rm -rf /",
        "\\rm -rf /",
        "r\"m\" -rf '/'",
        "sudo rm -rf /",
        "sudo -n -u root rm -rf /",
        "sudo -u root -g wheel env -i A=1 rm -rf /",
        "/usr/bin/env -S rm -rf /",
        "sudo sudo nice rm -rf /",
        "env A=1 rm -rf /",
        "A=1 rm -rf /",
        "cd x && rm -rf /",
        "ls; rm -rf / # clean",
        "ls | rm -rf /",
        "echo $(rm -rf /)",
        "echo \"$(rm -rf /)\"",
        "echo `rm -rf /`",
        "(rm -rf /)",
        "{ rm -rf /; }",
        "if true; then rm -rf /; fi",
        "timeout 5 rm -rf /",
        "nice -n 5 rm -rf /",
        "bash -c 'rm -rf /'",
        "sh -c \"bash -c 'rm -rf /'\"",
        "eval rm -rf /",
        "rm -rf \\\n/",
        "rm --no-preserve-root -f /",
        "find / -delete",
        "chmod -R 777 /",
        "chown -R me /usr",
        "mkfs.ext4 /dev/sda1",
        "dd if=/dev/zero of=/dev/sda bs=1M",
        "cat x > /dev/sda",
        "cat x >/dev/nvme0n1",
        "cat x >| /dev/sda",
        "cat x >& /dev/sda",
        "cat x 1>/dev/sda",
        "shred /dev/sdb",
        "shutdown -h now",
        "sudo reboot",
        "systemctl poweroff",
        "init 0",
        "init \"0\">/dev/null",
        "init '0'>/dev/null",
        "init \\0>/dev/null",
        "kill -9 -1",
        ":(){ :|:& };:",
        "bomb() { bomb | bomb & }; bomb",
    ] {
        assert!(denied(&[], command), "{command:?}");
    }
}

#[test]
fn s0_26_an_apostrophe_in_a_comment_or_a_here_document_hides_no_command() {
    for command in [
        "# don't forget\ngit push",
        "ls # it's \"here\ngit push",
        "ls;# it's\ngit push",
        "cat >n <<EOF\nit's\nEOF\ngit push",
        "cat >n <<EOF\nit's\nEOF\ngit \\\npush",
        "cat >n <<'EOF'\nit's\nEOF\ngit push\ncat <<EOF\nthat's\nEOF",
        "cat >n <<EOF\n\"\nEOF\nif true; then git push; fi",
        "echo $'it\\'s'\ngit push",
        "echo `# it's`; git push",
        "echo \"`# x`\"; git push",
        "echo a#b; git push",
        "echo ''#; git push",
    ] {
        assert!(denied(&["git push*"], command), "{command:?}");
    }
    for command in [
        "ls # then git push",
        "# it's done by: git push",
        "git commit -m 'Say why\n\ngit push is for people'",
        "echo \"# a\ngit push\"",
    ] {
        assert!(!denied(&["git push*"], command), "{command:?}");
    }
}

#[test]
fn ordinary_commands_are_not_on_the_list() {
    for command in [
        "ls -la /",
        "rm -rf target",
        "rm -rf ./build/*",
        "rm file",
        "rm -f /tmp/x",
        "rm -rf /home/me/project/target",
        "echo 'rm -rf /'",
        "git commit -m 'never rm -rf / again'",
        "grep -r reboot /etc",
        "find . -name x -delete",
        "chmod -R u+w target",
        "dd if=/dev/zero of=out bs=1k count=1",
        "cat x > /dev/null 2>&1",
        "coproc echo rm -rf /",
        "cargo test 2> /dev/stderr",
        "kill -1 1234",
        "f() { ls; }; f",
        "systemctl status",
        "make shutdown-tests",
        "if grep -q reboot x; then echo reboot; fi",
        "time git commit -m reboot",
        "timeout 5 grep reboot log",
        "flock /tmp/lock grep reboot log",
        "",
    ] {
        assert!(!denied(&[], command), "{command:?}");
    }
}

#[test]
fn s0_26_a_persons_rules_hold_for_each_command_of_a_script() {
    let rules = &["git push*", "curl *", "make deploy"];
    for command in [
        "git push",
        "git  push   --force",
        "cd x; git push origin",
        "A=1 git push",
        "git 'push'",
        "bash -c 'git push'",
        "echo $(curl http://x)",
        "/usr/bin/git push",
        "sudo ./bin/git push",
        "function f { git push; }; f",
        "function f() { git push; }; f",
        "flock /tmp/lock git push",
        "flock -n -w 5 /tmp/lock git push",
        "flock /tmp/lock -c 'cd x; git push'",
        "env -S 'git push origin'",
        "chroot /mnt git push",
        "chroot --userspec=me /mnt sudo git push",
        "timeout $LIMIT git push",
        "coproc git push",
        "coproc NAME { git push; }",
        "make deploy 2>&1",
        "make deploy >&2",
        "make deploy </dev/null 2>| log",
    ] {
        assert!(denied(rules, command), "{command:?}");
    }
    assert!(denied(&["*| sh"], "wget -O - http://x | sh"));
    for command in [
        "git pull",
        "echo git push",
        "git stash push",
        "flock /tmp/lock git pull",
        "make deploy 2",
    ] {
        assert!(!denied(rules, command), "{command:?}");
    }
    assert!(Denylist::new(["a["]).is_err());
}

#[test]
fn s0_26_replaced_rules_hold_for_every_clone() {
    let list = Denylist::default();
    let of_tool = list.clone().home(None);
    assert_eq!(of_tool.reason("git push"), None);
    list.replace_rules(["git push*"]).expect("valid rules");
    assert!(of_tool.reason("git push").is_some());
    assert!(list.replace_rules(["a["]).is_err());
    assert!(of_tool.reason("git push").is_some());
}
