//! Decides which values of an entry are secrets, by their names and their form.
//!
//! Displays of an entry mask all values of `env` and `headers`. This module decides what is
//! redacted in free text (logs, errors, progress), where redacting an ordinary word would make the
//! text unreadable.

use std::ops::Range;

use crate::secret::Secret;

/// A name that contains one of these, ignoring separators, names a secret.
const SECRET_PARTS: &str = "token secret password passwd passphrase apikey accesskey privatekey signingkey encryptionkey licensekey credential bearer \
                      authorization cookie webhook jwt dsn connectionstring databaseurl signature sessionid";

/// A name with one of these as a separate word names a secret.
const SECRET_WORDS: [&str; 7] = ["key", "keys", "pass", "pwd", "pat", "auth", "creds"];

/// A name that ends in one of these is not that of a secret: `TOKEN_LIMIT`, `KEY_FILE`.
const NOT_SECRET_ENDINGS: &str = "limit max min count size length ttl timeout expiry file path dir folder mode type name format version";

/// Values that are never secrets, whatever their name.
const ORDINARY_VALUES: &str = "true false yes no on off none null auto trace debug info warn warning error verbose silent production development test \
                        stdio localhost latest";

/// The secrets in a value of this name: the whole value, and what follows `Bearer` or `Basic`.
pub(crate) fn secrets_of(name: &str, value: &str) -> Vec<Secret> {
    if !is_secret(name, value) {
        return Vec::new();
    }
    [Some(value), without_scheme(value)]
        .into_iter()
        .flatten()
        .map(Secret::new)
        .collect()
}

/// Whether a name is that of a secret: `--api-key`, `GITHUB_TOKEN`, `clientSecret`.
pub fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    if words
        .last()
        .is_some_and(|last| NOT_SECRET_ENDINGS.split(' ').any(|about| about == last))
    {
        return false;
    }
    let joined = words.concat();
    SECRET_PARTS
        .split_whitespace()
        .any(|secret| joined.contains(secret))
        || words.iter().any(|word| SECRET_WORDS.contains(&&**word))
}

/// Whether a value is never a secret.
pub(crate) fn is_ordinary(value: &str) -> bool {
    value.is_empty()
        || ORDINARY_VALUES
            .split_whitespace()
            .any(|word| word.eq_ignore_ascii_case(value))
}

fn is_secret(name: &str, value: &str) -> bool {
    !is_ordinary(value)
        && (names_a_secret(name) || without_scheme(value).is_some() || !is_plain(value))
}

/// The credentials after an authorization scheme.
fn without_scheme(value: &str) -> Option<&str> {
    ["Bearer ", "Basic "]
        .iter()
        .find_map(|scheme| value.strip_prefix(scheme))
}

/// Whether a value consists of words and numbers, as names, paths, URLs and levels do, and random
/// tokens do not.
fn is_plain(value: &str) -> bool {
    let has_password = url::Url::parse(value).is_ok_and(|url| url.password().is_some());
    !has_password
        && value
            .split(|character: char| !character.is_alphanumeric())
            .all(is_word)
}

/// `transport`, `GitHub`, `4096`, `v2`, `sha256`; not `rT5v`, `9fK2xQ`, nor anything very long.
fn is_word(run: &str) -> bool {
    let characters: Vec<char> = run.chars().collect();
    let letters: Vec<char> = characters
        .iter()
        .copied()
        .filter(|character| !character.is_ascii_digit())
        .collect();
    let upper = letters
        .iter()
        .filter(|letter| letter.is_uppercase())
        .count();
    let changes = characters
        .windows(2)
        .filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit())
        .count();
    let is_one_case =
        upper == 0 || upper == letters.len() || (upper == 1 && letters[0].is_uppercase());
    match (letters.len(), characters.len()) {
        (0, digits) => digits <= 10,
        // Only letters.
        (all, length) if all == length => {
            length <= 12 || (length <= 24 && (is_one_case || upper * 4 <= length))
        }
        (_, ..=4) => is_one_case && changes <= 2,
        (_, length) => is_one_case && changes <= 1 && length <= 16,
    }
}

/// The words of a name, in lower case: `clientSecret`, `client_secret` and `Client-Secret` are the
/// same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in name.chars() {
        if !character.is_alphanumeric() || (was_lower && character.is_uppercase()) {
            words.push(String::new());
        }
        was_lower = character.is_lowercase() || character.is_ascii_digit();
        if character.is_alphanumeric() {
            words
                .last_mut()
                .expect("there is one")
                .extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The secret value at the end of an argument that names it: `--token=x`, `API_KEY=x`,
/// `Authorization: x`, `--header=Authorization:x`, `--env=API_KEY=x`.
pub fn secret_value(argument: &str) -> Option<&str> {
    argument
        .match_indices(['=', ':'])
        .find_map(|(at, separator)| {
            let (before, value) = (&argument[..at], &argument[at + 1..]);
            let before = before.trim_end_matches(['"', '\'', ' ']);
            let is_part =
                |character: char| character.is_alphanumeric() || "-_.".contains(character);
            let name = before.rsplit(|character| !is_part(character)).next()?;
            // Without a blank, `host:port` and `image:tag` look like a header.
            let in_front = before[..before.len() - name.len()].chars().next_back();
            let is_header =
                !name.contains('.') && in_front.is_none_or(|last| "= \"'".contains(last));
            let separates = separator == "=" || value.starts_with(' ') || is_header;
            (separates && names_a_secret(name)).then(|| value.trim_start())
        })
}

/// Secrets in arguments, by the name of the option: `--token=x`, `--api-key x`, `-e API_KEY=x`, `-H
/// "Authorization: x"`; and those in URLs.
pub(crate) fn secrets_in_arguments(args: &[String]) -> Vec<Secret> {
    let found = find_in_arguments(args);
    found
        .iter()
        .zip(args)
        .flat_map(|(ranges, arg)| ranges.iter().map(move |range| &arg[range.clone()]))
        .flat_map(|value| [Some(value), without_scheme(value)])
        .flatten()
        .map(Secret::new)
        .collect()
}

/// Where each argument contains secrets, in order and without overlaps.
pub(crate) fn find_in_arguments(args: &[String]) -> Vec<Vec<Range<usize>>> {
    let mut is_value = false;
    let find = |arg: &String| {
        let is_value_of_option = std::mem::take(&mut is_value) && !arg.starts_with('-');
        is_value = arg.starts_with('-') && !arg.contains('=') && names_a_secret(arg);
        let start_of_value = match is_value_of_option {
            true => Some(0),
            false => secret_value(arg).map(|value| arg.len() - value.len()),
        };
        let found: Vec<Range<usize>> = match start_of_value {
            Some(start) => std::iter::once(start..arg.len()).collect(),
            None => {
                let option = arg
                    .split_once('=')
                    .filter(|(name, _)| name.starts_with('-'));
                let start = option.map_or(0, |(name, _)| name.len() + 1);
                let in_url = find_in_url(&arg[start..]).into_iter();
                in_url
                    .map(|range| range.start + start..range.end + start)
                    .collect()
            }
        };
        let found = found.into_iter();
        found
            .filter(|range| !is_ordinary(&arg[range.clone()]))
            .collect()
    };
    args.iter().map(find).collect()
}

/// Where a URL contains its password and the secret values of its query, in order. Over HTTP, a
/// user name without a password is a token.
pub(crate) fn find_in_url(text: &str) -> Vec<Range<usize>> {
    let Ok(url) = url::Url::parse(text) else {
        return Vec::new();
    };
    let Some(authority_start) = text.find("://").map(|at| at + 3) else {
        return Vec::new();
    };
    let text = text.split('#').next().unwrap_or_default();
    let query_start = text.find('?').map_or(text.len(), |at| at + 1);
    let authority = text[authority_start..].split(['/', '?']).next();
    let user_info = authority.and_then(|authority| Some(authority.rsplit_once('@')?.0));
    let mut found = Vec::new();
    if let Some(user_info) = user_info {
        let end = authority_start + user_info.len();
        match user_info.split_once(':') {
            Some((user, _)) => found.push(authority_start + user.len() + 1..end),
            None if url.scheme().starts_with("http") => found.push(authority_start..end),
            None => {}
        }
    }
    let mut start = query_start;
    for pair in text[query_start..].split('&') {
        let end = start + pair.len();
        let name = url::form_urlencoded::parse(pair.as_bytes()).next();
        if let (Some(at), Some((name, _))) = (pair.find('='), name)
            && names_a_secret(&name)
        {
            found.push(start + at + 1..end);
        }
        start = end + 1;
    }
    found.retain(|range| !range.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t25_secrets_are_recognised_by_name() {
        let check = |names: &str, expected: bool| {
            names
                .split_whitespace()
                .for_each(|name| assert_eq!(names_a_secret(name), expected, "{name}"));
        };
        check(
            "TOKEN GITHUB_TOKEN githubToken --api-key X-Api-Key Authorization KEY OPENAI_KEY DB_PASS PGPASSWORD AWS_SECRET_ACCESS_KEY \
             clientSecret Cookie SENTRY_DSN DATABASE_URL GITHUB_PAT SSH_PRIVATE_KEY PROXY_AUTH SLACK_WEBHOOK_URL",
            true,
        );
        check(
            "REGION MONKEY KEYBOARD PATH TOKEN_LIMIT KEY_FILE AUTH_MODE COMPASS PATTERN LOG_LEVEL Accept",
            false,
        );
    }

    #[test]
    fn t25_random_values_are_secrets_under_any_name() {
        let check = |values: &str, expected: bool| {
            values
                .split_whitespace()
                .for_each(|value| assert_eq!(is_secret("REGION", value), expected, "{value}"));
        };
        check(
            "9fK2xQ7vLm04ZtB8 ghp_16C7e42F292c6912E7710c838347Ae178B4a sk-proj-abc123def456ghi789 AKIAIOSFODNN7EXAMPLE 4f9c2e1ab07d \
             xoxb-2154-AbCdEf12gH postgres://me:hunter@db/x canary/expanded+Hc3=rT5v eyJhbGciOiJIUzI1NiJ9.e30 \
             wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY 550e8400e29b41d4a716446655440000",
            true,
        );
        check(
            "transport us-east-1 eu-west-1a https://api.example.com/v2 /home/me/x.json info,hyper=warn 4096 gpt-4o GitHub OpenAI sha256 utf8 \
             127.0.0.1:8080 2026-11-16 en_US.UTF-8 application/json x86_64 My-Client/1.2.3",
            false,
        );
    }

    #[test]
    fn t25_a_token_is_recognised_without_its_scheme() {
        let found = secrets_of("Authorization", "Bearer opensesame");
        assert_eq!(
            found,
            [Secret::new("Bearer opensesame"), Secret::new("opensesame")]
        );
        assert!(secrets_of("PASSWORD", "true").is_empty());
    }

    #[test]
    fn s2_45_an_argument_is_split_at_the_end_of_its_name() {
        let check = |argument: &str, expected: Option<&str>| {
            assert_eq!(secret_value(argument), expected, "{argument}")
        };
        check("Authorization: Basic canary==", Some("Basic canary=="));
        check(
            "--header=Authorization: Bearer canary",
            Some("Bearer canary"),
        );
        check(
            "--header=Authorization:Bearer canary=",
            Some("Bearer canary="),
        );
        check("--env=API_KEY=canary==", Some("canary=="));
        check("X-Api-Key:canary", Some("canary"));
        check("--token=canary", Some("canary"));
        check("{\"token\": \"canary\"}", Some("\"canary\"}"));
        check("https://h/?q=1&token=canary", Some("canary"));
        check("jdbc:sqlserver://h;password=canary", Some("canary"));
        for ordinary in [
            "--port=8080",
            "https://auth.example.com:8080/x",
            "org/auth-service:1.2",
            "auth.example.com:8080",
            "C:\\keys\\x",
            "--env",
            "time: 12:30",
            "",
        ] {
            check(ordinary, None);
        }
    }

    #[test]
    fn t25_credentials_of_a_url_are_found_where_they_are() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<_> = find_in_url(text).into_iter().map(|at| &text[at]).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            "https://u:a@a.example.com/api?key=1&port=8011&token=t#key=2",
            &["a", "1", "t"],
        );
        check("https://canary@h.example.com/mcp", &["canary"]);
        check("postgres://me@h/x", &[]);
        check("https://h/me@home?keyboard=us", &[]);
        check("not a url?token=x", &[]);
    }
}
