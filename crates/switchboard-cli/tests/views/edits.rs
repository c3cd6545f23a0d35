//! `add`, `remove`, `enable`, `disable`: what is written where, and what a person is told.

use std::os::unix::fs::PermissionsExt;

use crate::stage::Stage;
use crate::support::{PROGRAM, Ran};

#[test]
fn a_server_is_added_used_disabled_enabled_and_removed() {
    let stage = Stage::new();
    std::fs::remove_dir(stage.home.path("config/switchboard")).unwrap();
    let name = "config/switchboard/switchboard.toml";
    let file = stage.home.path(name);
    let shown = |line: usize| format!("({}:{line})\n", stage.home.path("").canonicalize().unwrap().join(name).display());
    let ran = stage.run(&["add", "demo", "--env", "TOKEN=${TOKEN}", "--", PROGRAM, "__demo-server"]);
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("added, in a new file: \"demo\" {}", shown(1))));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let entry =
        format!("[servers.demo]\ncommand = {PROGRAM:?}\nargs = [\"__demo-server\"]\nenv = {{ TOKEN = \"${{TOKEN}}\" }}\n");
    assert_eq!(stage.read(name), entry);
    let ran = stage.run(&["call", "demo/echo", "message=hi", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hi\n"), "{ran:?}");

    let ran = stage.run(&["add", "web", "https://example.com/mcp", "--header", "X-Key=${KEY}", "--transport", "http"]);
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("added: \"web\" {}", shown(6))));
    let web = "\n[servers.web]\ntransport = \"http\"\nurl = \"https://example.com/mcp\"\nheaders = { X-Key = \"${KEY}\" }\n";
    assert_eq!(stage.read(name), format!("{entry}{web}"));

    let ran = stage.run(&["add", "demo", "--", "x"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("switchboard.toml:1 has a server \"demo\" already"), "{ran:?}");

    assert_eq!(stage.run(&["disable", "demo"]).stdout, format!("disabled: \"demo\" {}", shown(1)));
    assert_eq!(stage.read(name), format!("{entry}enabled = false\n{web}"));
    assert_eq!(stage.run(&["call", "demo/echo", "message=hi", "--yes"]).code, Some(2));
    assert_eq!(stage.run(&["disable", "demo"]).stdout, format!("already disabled: \"demo\" {}", shown(1)));
    assert_eq!(stage.run(&["enable", "demo"]).code, Some(0));
    assert_eq!(stage.run(&["remove", "demo"]).stdout, format!("removed: \"demo\" {}", shown(1)));
    assert_eq!(stage.read(name).trim_start(), web.trim_start());
    let ran = stage.run(&["remove", "demo", "--json"]);
    assert_eq!((ran.code, ran.error()["server"].as_str()), (Some(2), Some("demo")), "{ran:?}");
}

#[test]
fn a_projects_file_is_edited_in_its_own_dialect_and_still_needs_trust() {
    let stage = Stage::new();
    let before = "{\n  // ours\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"true\" }\n  }\n}\n";
    stage.write("project/.gemini/settings.json", before);
    let ran = stage.run(&["add", "demo", "--file", ".gemini/settings.json", "--env", "T=${T}", "--", PROGRAM, "__demo-server"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("look at it with `switchboard trust demo`"), "{ran:?}");
    let text = stage.read("project/.gemini/settings.json");
    assert!(
        text.starts_with(
            "{\n  // ours\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"true\" },\n    \"demo\": {\n"
        ),
        "{text}"
    );
    let Ran { code, .. } = stage.run(&["call", "demo/echo", "message=hi", "--yes"]);
    assert_eq!(code, Some(5), "not trusted yet");
    stage.run(&["trust", "demo", "--yes"]);
    let ran = stage.run(&["call", "demo/echo", "message=hi", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hi\n"), "{ran:?}");
    let ran = stage.run(&["disable", "demo", "--file", ".gemini/settings.json"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("try `switchboard remove demo`"), "{ran:?}");
    assert_eq!(stage.run(&["remove", "demo", "--file", ".gemini/settings.json"]).code, Some(0));
    assert_eq!(stage.read("project/.gemini/settings.json"), before);
}

#[test]
fn hcl_and_yaml_files_are_edited_too_and_read_only_where_given() {
    let stage = Stage::new();
    let hcl = stage.write("project/a3s.hcl", "# mine\nmcp_servers {\n  name    = \"a\"\n  command = \"true\"\n}\n");
    let yaml = stage.write("project/app.yaml", "# mine\nmetadata:\n  mcp:\n    a:\n      command: \"true\"\n");
    for (file, dialect) in [(hcl, "a3s"), (yaml, "agent-apps")] {
        let before = std::fs::read_to_string(&file).unwrap();
        let file = file.display().to_string();
        let ran = stage.run(&["add", "demo", "--file", &file, "--env", "T=${T}", "--", PROGRAM, "__demo-server"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("read only where it is given"), "{ran:?}");
        let ran = stage.run(&["-c", &file, "call", "demo/echo", "message=hi", "--yes"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hi\n"), "{dialect}: {ran:?}");
        assert_eq!(stage.run(&["remove", "demo", "--file", &file]).code, Some(0), "{dialect}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "{dialect}");
    }
}
