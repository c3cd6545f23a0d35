//! Glob patterns over names: the same result as `globset`, within the limit.

use globset::GlobBuilder;
use switchboard::name::Glob;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "globs",
    seeds: &[
        "read_*\nread_file",
        "{get,list}_[a-c]?\nlist_bx",
        "a**b/**/c\na/x/b/c",
        "[!a-z]\\*{x,{y,z}}\nA*y",
        "[a-\u{1b}]\na",
        "*a*a*a*a*a*a*a*b\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ],
    words: &[
        "*", "**", "**/", "/**", "?", "[", "]", "[!", "[a-z]", "[]]", "{", "}", ",", "{a,b}", "\\",
        "\n", "-",
    ],
    check,
};

/// The longest pattern that is read.
const MAX_PATTERN_BYTES: usize = 1024;

fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (pattern, name) = text.split_once('\n').unwrap_or((text, ""));
    let ours = Glob::new(pattern);
    if pattern.len() > MAX_PATTERN_BYTES {
        assert!(ours.is_err(), "longer than the bound");
        return;
    }
    let reference = GlobBuilder::new(pattern)
        .literal_separator(false)
        .backslash_escape(true)
        .build();
    match (ours, reference) {
        (Ok(ours), Ok(reference)) => {
            let expected = reference.compile_matcher().is_match(name);
            assert_eq!(ours.matches(name), expected, "{pattern:?} against {name:?}");
            assert!(!matches!(pattern, "*") || ours.matches(name));
        }
        (Err(fault), _) => {
            assert!(
                fault.len() < 1_000 && !fault.contains(|c: char| c.is_control()),
                "{fault:?}"
            );
        }
        (Ok(_), Err(fault)) => panic!("{pattern:?} was accepted, but globset rejects it: {fault}"),
    }
}
