//! Masks what looks secret in arguments and addresses.

use switchboard::config::{names_a_secret, secret_value};

const MASK: &str = "***";

/// Prefixes of tokens of well-known services.
const TOKEN_PREFIXES: [&str; 12] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "eyJ",
    "npm_",
];

/// Each argument, with secret-looking values masked.
pub(crate) fn arguments(words: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(words.len());
    let mut value_of_a_key = false;
    for word in words {
        if value_of_a_key && !word.starts_with('-') {
            shown.push(hide_value(word));
            value_of_a_key = false;
            continue;
        }
        value_of_a_key = word.starts_with('-') && !word.contains('=') && names_a_secret(word);
        shown.push(one(word));
    }
    shown
}

/// An address without user info, query and fragment.
pub(crate) fn url(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match split_address(text) {
        Some((scheme, authority, path)) => format!(
            "{scheme}{}{}",
            without_user_info(authority),
            path_without_tokens(path)
        ),
        None => text.to_owned(),
    }
}

fn one(word: &str) -> String {
    let scheme = word.split("://").next().unwrap_or_default();
    if scheme.len() < word.len()
        && scheme
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "+.-".contains(character))
    {
        return free_standing(word);
    }
    if let Some(value) = secret_value(word) {
        let name = &word[..word.len() - value.len()];
        return format!("{name}{}", hide_value(value));
    }
    if let Some((name, value)) = word.split_once('=')
        && name.starts_with('-')
    {
        return format!("{name}={}", free_standing(value));
    }
    free_standing(word)
}

/// A single word: a token is masked as a whole, a URL only in its secret parts.
fn free_standing(word: &str) -> String {
    if let Some((scheme, authority, rest)) = split_address(word) {
        let (path, query) = match rest.find(['?', '#']) {
            Some(at) => (&rest[..at], &rest[at..at + 1]),
            None => (rest, ""),
        };
        let user = if authority.contains('@') {
            format!("{MASK}@")
        } else {
            String::new()
        };
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("{query}{MASK}")
        };
        return format!(
            "{scheme}{user}{}{}{query}",
            without_user_info(authority),
            path_without_tokens(path)
        );
    }
    if is_token(word) {
        MASK.to_owned()
    } else {
        word.to_owned()
    }
}

/// References are masked too: which spellings are references depends on the file.
fn hide_value(value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        MASK.to_owned()
    }
}

/// `scheme://authority` and the rest, as written: with references in it, it is no valid URL.
fn split_address(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find("://")? + 3;
    let (scheme, rest) = text.split_at(at);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password may contain a slash: the last `@` before the query ends the user info.
    let before_query = rest.find(['?', '#']).unwrap_or(rest.len());
    let end = match rest[..before_query].rfind('@') {
        Some(user_end) if user_end > end && rest[..end].contains(':') => rest[user_end..]
            .find(['/', '?', '#'])
            .map_or(rest.len(), |after| user_end + after),
        _ => end,
    };
    Some((scheme, &rest[..end], &rest[end..]))
}

fn without_user_info(authority: &str) -> &str {
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

fn path_without_tokens(path: &str) -> String {
    path.split('/')
        .map(|part| if is_token(part) { MASK } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

fn is_token(word: &str) -> bool {
    let plain = word
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "_-+=.~".contains(character));
    if !plain {
        return false;
    }
    if word.len() >= 16 && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
        return true;
    }
    let has = |is_kind: fn(&char) -> bool| word.chars().any(|character| is_kind(&character));
    let mixed =
        has(char::is_ascii_digit) && has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase);
    let hexadecimal =
        word.len() >= 32 && word.chars().all(|character| character.is_ascii_hexdigit());
    (word.len() >= 20 && mixed && bits_per_character(word) > 3.5) || hexadecimal
}

/// Shannon entropy of the characters.
fn bits_per_character(word: &str) -> f64 {
    let mut counts = std::collections::HashMap::<char, f64>::new();
    for character in word.chars() {
        *counts.entry(character).or_default() += 1.0;
    }
    let length: f64 = counts.values().sum();
    counts
        .values()
        .map(|count| -(count / length) * (count / length).log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_45_secret_looking_arguments_are_masked_and_ordinary_ones_are_not() {
        let check = |words: &[&str], shown: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(arguments(&words), shown, "{words:?}");
        };
        check(&["--token=canary1", "-v"], &["--token=***", "-v"]);
        check(&["--api-key", "canary2", "x"], &["--api-key", "***", "x"]);
        check(&["--apiKey", "canary3"], &["--apiKey", "***"]);
        check(&["--password", "--verbose"], &["--password", "--verbose"]);
        check(
            &["--token", "${TOKEN}", "$TOKEN"],
            &["--token", "***", "$TOKEN"],
        );
        check(&["--token", "$TOKEN"], &["--token", "***"]);
        check(
            &["--token=${TOKEN}", "-e", "API_KEY=${KEY}"],
            &["--token=***", "-e", "API_KEY=***"],
        );
        check(&["--token", "${TOKEN:-canary}"], &["--token", "***"]);
        check(&["-e", "API_KEY=canary4"], &["-e", "API_KEY=***"]);
        check(
            &["-H", "Authorization: Bearer canary5"],
            &["-H", "Authorization: ***"],
        );
        check(
            &["Authorization: Basic canary==", "--env=API_KEY=canary"],
            &["Authorization: ***", "--env=API_KEY=***"],
        );
        check(
            &["https://me:canary6@host/x?key=canary7#canary8"],
            &["https://***@host/x?***"],
        );
        check(
            &["postgres://u:can/ary@db/name"],
            &["postgres://***@db/name"],
        );
        check(&["--url=https://u:canary@h/"], &["--url=https://***@h/"]);
        check(&["ghp_abcdefghijklmnop1234"], &["***"]);
        check(&["aB3dE6gH9jK2mN5pQ8sT"], &["***"]);
        check(&["0123456789abcdef0123456789abcdef"], &["***"]);
        check(
            &[
                "run",
                "-i",
                "--rm",
                "-e",
                "API_KEY",
                "my-mcp-server:latest",
                "@modelcontextprotocol/server-everything@1.2.3",
            ],
            &[
                "run",
                "-i",
                "--rm",
                "-e",
                "API_KEY",
                "my-mcp-server:latest",
                "@modelcontextprotocol/server-everything@1.2.3",
            ],
        );
        check(
            &["SENTRY_DSN=canary9", "--webhook", "canary10"],
            &["SENTRY_DSN=***", "--webhook", "***"],
        );
        check(
            &["--token-file", "/run/token"],
            &["--token-file", "/run/token"],
        );
        check(
            &["--port", "8080", "--keyboard", "us"],
            &["--port", "8080", "--keyboard", "us"],
        );
    }

    #[test]
    fn s2_45_an_address_is_shown_without_user_info_and_query() {
        assert_eq!(
            url("https://me:canary@host:8080/mcp?token=canary#x"),
            "https://host:8080/mcp"
        );
        assert_eq!(url("https://${HOST}/mcp"), "https://${HOST}/mcp");
        assert_eq!(
            url("https://h/s/aB3dE6gH9jK2mN5pQ8sT/mcp"),
            "https://h/s/***/mcp"
        );
        assert_eq!(url("not an address"), "not an address");
    }
}
