//! Decides which values of an entry are secrets, by their names and their form.
//!
//! Displays of an entry mask all values of `env` and `headers`. This module decides what is
//! redacted in free text (logs, errors, progress), where redacting an ordinary word would make the
//! text unreadable.

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
                        stdio localhost";

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

/// Secrets in arguments, by the name of the option: `--token=x`, `--api-key x`, `-e API_KEY=x`, `-H
/// "Authorization: x"`; and passwords in URLs.
pub(crate) fn secrets_in_arguments(args: &[String]) -> Vec<Secret> {
    let mut found = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        // A header in an argument of its own: `Authorization: Bearer x`.
        let (flag, value) = match arg.split_once('=').or_else(|| arg.split_once(": ")) {
            Some((flag, value)) => (flag, Some(value)),
            None if arg.starts_with('-') => (arg.as_str(), args.get(index + 1).map(String::as_str)),
            None => (arg.as_str(), None),
        };
        if let Some(value) = value.filter(|value| !value.starts_with('-'))
            && names_a_secret(flag)
        {
            found.extend(secrets_of(flag, value));
        }
        found.extend(
            url::Url::parse(arg)
                .ok()
                .and_then(|url| url.password().map(Secret::new)),
        );
    }
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
}
