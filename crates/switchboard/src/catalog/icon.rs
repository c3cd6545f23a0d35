//! The icons of servers, tools, prompts and resources: which of them may be shown. Nothing is
//! fetched here.

use serde::Deserialize;

use crate::wire::RawJson;

/// The most icons of one definition.
const MAX_ICONS: usize = 16;

/// An icon that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Icon {
    /// An `https:` or `data:` address, byte for byte.
    pub src: String,
    /// The media type that the server states.
    pub mime_type: Option<String>,
    /// `48x48`, or `any`.
    pub sizes: Vec<String>,
}

/// The icons of a definition that may be shown. Addresses that could run code or be requested
/// (`javascript:`, `file:`, `http:`) are left out.
pub(super) fn usable(definition: &RawJson) -> Vec<Icon> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        icons: Vec<serde_json::Value>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct IconMembers {
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
        serde_json::from_value::<IconMembers>(icon)
            .ok()
            .filter(|icon| may_be_shown(&icon.src))
    };
    let icon = |members: IconMembers| Icon {
        src: members.src,
        mime_type: members.mime_type,
        sizes: members.sizes.unwrap_or_default(),
    };
    fields
        .icons
        .into_iter()
        .filter_map(read)
        .map(icon)
        .take(MAX_ICONS)
        .collect()
}

fn may_be_shown(src: &str) -> bool {
    // Browsers skip white space and control characters before and inside a scheme, so an address
    // that contains any is refused.
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
    fn t15_only_inert_icons_are_offered() {
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
