//! Tests of malicious files (T27), and of secrets in messages about a file (T25).

use proptest::prelude::*;

use super::*;

#[test]
fn t27_malicious_files_give_a_clean_error() {
    let check = |what: &str, text: String| {
        let started = std::time::Instant::now();
        let messages = diagnostics_of(text, Scope::Project);
        assert!(
            messages.contains("nested too deeply"),
            "{what}: {messages:.300}"
        );
        assert!(
            messages.len() < 10_000,
            "{what}: says {} bytes",
            messages.len()
        );
        assert!(started.elapsed().as_secs() < 20, "{what}");
    };
    check(
        "arrays",
        format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000)),
    );
    check(
        "inline tables",
        format!("a = {}1{}", "{a=".repeat(100_000), "}".repeat(100_000)),
    );
    check(
        "open inline tables",
        format!("a = {}", "{a=".repeat(100_000)),
    );
    check("dotted key", format!("{}a = 1", "a.".repeat(100_000)));
    check("dotted head", format!("[{}a]", "a.".repeat(100_000)));
    check(
        "dotted head of lists",
        format!("[[{}a]]", "a.".repeat(100_000)),
    );
    check(
        "below a server",
        format!("[servers.a]\ncommand = {}", "[".repeat(100_000)),
    );
}

#[test]
fn t27_a_hundred_thousand_errors_are_reported_in_a_hundred_lines() {
    let messages = diagnostics_of(
        "[servers._]\n".to_owned()
            + &(0..50_000)
                .map(|number| format!("{number}\n"))
                .collect::<String>(),
        Scope::User,
    );
    assert!(
        messages.lines().count() <= 101,
        "{} lines",
        messages.lines().count()
    );
    assert!(
        messages.contains("more of the same file; correct the first ones and try again"),
        "{messages:.300}"
    );
}

const VALID: &str = r#"# a comment
[servers.git]
command = "npx"
args = ["-y", "CANARY-arg", "--token=${TOKEN}"]
cwd = "sub"
env = { TOKEN = "CANARY-env", OTHER = 'CANARY-literal', LONG = """CANARY
lines""" }

[servers.remote]
url = "https://user:CANARY-user@x.example/mcp?key=CANARY-query"
headers = { Authorization = "Bearer CANARY-header" }
call_timeout = "5s"

[permissions]
mode = "ask"
deny = ["git/push"]
"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// However a file is damaged, no value of env, headers, args or url appears in a message.
    #[test]
    fn t25_no_secret_appears_in_messages_about_a_damaged_file(
        at in 0..VALID.len(), remove in 0usize..40, insert in "[\\[\\]{}=\"'\\n#.,a1$ ]{0,3}"
    ) {
        let at = VALID.floor_char_boundary(at);
        let end = VALID.floor_char_boundary((at + remove).min(VALID.len()));
        // Damage inside the canary itself would hide it from this test only.
        let text = format!("{}{insert}{}", &VALID[..at], &VALID[end..]);
        let messages = diagnostics_of(&text, Scope::User);
        let shown_as_key = text.lines().any(|line| line.split('=').next().is_some_and(|key| key.contains("CANARY")));
        prop_assert!(!messages.contains("CANARY") || shown_as_key, "{text}\n{messages}");
    }

    #[test]
    fn no_input_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = diagnostics_of(&bytes, Scope::Project);
    }
}

#[test]
fn t27_one_line_of_a_million_bytes_takes_linear_time() {
    let started = std::time::Instant::now();
    let wrong = diagnostics_of(
        format!(
            "[servers.a]\ncommand = 'x'\nargs = [{}]",
            "1,".repeat(500_000)
        ),
        Scope::User,
    );
    assert!(wrong.lines().count() <= 101);
    let servers: String = (0..20_000)
        .map(|number| format!("s{number}={{command='x'}},"))
        .collect();
    let config = load_text(format!("servers = {{{servers}}}"), Scope::User).expect("a valid file");
    assert_eq!(config.servers.len(), 20_000);
    let rules = load_text(
        format!("[permissions]\ndeny = [{}]", "'a',".repeat(200_000)),
        Scope::User,
    )
    .expect("a valid file");
    assert_eq!(rules.permissions.deny.len(), 200_000);
    // Minutes, if any of these were quadratic.
    assert!(started.elapsed().as_secs() < 60);
}
