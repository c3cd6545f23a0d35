//! Pictures that servers give themselves, their tools, prompts and resources: which of them may be
//! shown. None is ever fetched here.

use serde::Deserialize;

use crate::wire::RawJson;

/// More than any screen needs.
const MOST: usize = 16;

/// A picture that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Icon {
    /// An `https:` or `data:` address, as it came.
    pub src: String,
    /// Its type, as the server says.
    pub mime_type: Option<String>,
    /// `48x48`, or `any`.
    pub sizes: Vec<String>,
}

/// The icons of a definition. Addresses that could run code or be requested (`javascript:`,
/// `file:`, `http:`) are left out.
pub(super) fn usable(definition: &RawJson) -> Vec<Icon> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        icons: Vec<serde_json::Value>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire {
        src: String,
        #[serde(default)]
        mime_type: Option<String>,
        #[serde(default)]
        sizes: Option<Vec<String>>,
    }
    let Ok(fields) = definition.decode::<Fields>() else {
        return Vec::new();
    };
    let read = |icon| {
        serde_json::from_value::<Wire>(icon)
            .ok()
            .filter(|icon| may_be_shown(&icon.src))
    };
    let icon = |wire: Wire| Icon {
        src: wire.src,
        mime_type: wire.mime_type,
        sizes: wire.sizes.unwrap_or_default(),
    };
    fields
        .icons
        .into_iter()
        .filter_map(read)
        .map(icon)
        .take(MOST)
        .collect()
}

fn may_be_shown(src: &str) -> bool {
    // A browser skips white space and control characters before and inside a scheme; an address
    // that has any is none.
    let plain = !src
        .chars()
        .any(|character| character.is_control() || character.is_whitespace());
    let scheme = |scheme: &str| {
        src.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    plain && (scheme("https://") || scheme("data:image/"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn t15_only_icons_that_can_do_nothing_are_offered() {
        let check = |src: &str, expected: bool| {
            let definition = serde_json::json!({"name": "x", "icons": [{"src": src, "sizes": ["48x48"]}, 7, {}]});
            let icons = usable(&definition.into());
            let expected: Vec<_> = expected
                .then(|| Icon {
                    src: src.to_owned(),
                    mime_type: None,
                    sizes: vec!["48x48".to_owned()],
                })
                .into_iter()
                .collect();
            assert_eq!(icons, expected, "{src:?}");
        };
        check("https://example.com/a.png", true);
        check("HTTPS://example.com/a.png", true);
        check("data:image/png;base64,AAAA", true);
        for bad in [
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            " javascript:alert(1)",
            "java\nscript:alert(1)",
            "file:///etc/passwd",
            "http://example.com/a.png",
            "ftp://example.com/a.png",
            "data:text/html,<script>alert(1)</script>",
            "vbscript:x",
            "//example.com/a.png",
            "https:\n//example.com",
            "ws://example.com",
            "",
        ] {
            check(bad, false);
        }
        assert_eq!(
            usable(&serde_json::json!({"icons": "https://example.com"}).into()),
            []
        );
        assert_eq!(usable(&serde_json::json!({}).into()), []);
    }
}
