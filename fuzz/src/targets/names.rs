//! Exposed names: within their style's characters and length, unique for each pair, and stable.

use std::collections::HashSet;

use switchboard::name::{ServerName, Style, ToolId, ToolName};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "names",
    seeds: &[
        "a/x\na/y\nb/x",
        "a_b/c\na/b_c\nA/X\na/x",
        "git-hub/a.b\ngit_hub/a-b\né/ü\n../..",
        "s/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\ns/",
    ],
    words: &[
        "/", "_", "__", "-", ".", "mcp__", "a", "A", "\u{200b}", "\u{1b}", " ", "é", "\n", "@host",
        "0",
    ],
    check,
};

/// Each style with its maximal length and its characters besides letters and digits.
const STYLES: [(Style, usize, &[u8]); 5] = [
    (Style::Mcp, 256, b"_-./:@"),
    (Style::ServerTool, 64, b"_"),
    (Style::ServerDashTool, 64, b"-"),
    (Style::FirstWins, 63, b"_-."),
    (Style::Identity, 128, b"_-."),
];

fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let mut pairs: Vec<ToolId> = Vec::new();
    for line in text.lines().take(50) {
        let (server, tool) = line.split_once('/').unwrap_or((line, ""));
        if let Ok(native) = ServerName::new(server) {
            assert_eq!(
                Ok(&native),
                ServerName::lenient(server).as_ref(),
                "a native name is valid everywhere"
            );
        }
        let Ok(server) = ServerName::lenient(server) else {
            continue;
        };
        let pair = ToolId {
            server,
            tool: ToolName::new(tool),
        };
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    for (style, longest, signs) in STYLES {
        let names = style.expose(&pairs);
        assert_eq!(names.len(), pairs.len());
        assert_eq!(names, style.expose(&pairs), "not deterministic");
        let mut seen = HashSet::new();
        for (name, pair) in names.iter().zip(&pairs) {
            let Ok(name) = name else { continue };
            let name = name.as_str();
            assert!((1..=longest).contains(&name.len()), "{name:?}: {style:?}");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte)),
                "{name:?}: {style:?}"
            );
            assert!(
                seen.insert(name.to_owned()),
                "{name:?} is given twice, also to {pair:?}: {style:?}"
            );
        }
    }
}
