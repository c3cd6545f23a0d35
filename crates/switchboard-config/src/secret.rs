//! Secrets (values of variables and headers, tokens), and the redactor that removes them from text
//! that is shown.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use arc_swap::ArcSwap;
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};
use secrecy::{ExposeSecret, SecretString};

use crate::untrusted::Untrusted;

/// A value that neither `Debug` nor `Display` shows, wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps a value.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Replaces every known secret in a text by `[secret]`, and its base64, URL-encoded and
/// JSON-escaped forms too.
#[derive(Clone, Default)]
pub struct Redactor {
    /// `None` if there are no secrets: then redacting costs nothing.
    forms: Option<Arc<AhoCorasick>>,
    known: usize,
    /// Secrets that change while the redactor is in use.
    live: Option<LiveSecrets>,
}

/// Secrets that change over time, such as tokens. Clones share them, and every redactor uses the
/// current ones.
#[derive(Clone, Default)]
pub struct LiveSecrets(Arc<ArcSwap<Redactor>>);

impl LiveSecrets {
    /// Replaces the current secrets.
    pub fn set(&self, secrets: impl IntoIterator<Item = Secret>) {
        self.0.store(Arc::new(Redactor::new(secrets)));
    }
}

impl fmt::Debug for LiveSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveSecrets")
    }
}

/// Replaces a secret in text.
const MASK: &str = "[secret]";

impl Redactor {
    /// A redactor of these values. Values shorter than four characters are ignored: they would
    /// match ordinary words.
    pub fn new(known: impl IntoIterator<Item = Secret>) -> Self {
        let mut forms = BTreeSet::new();
        let mut count = 0;
        for secret in known {
            let value = secret.expose();
            if value.chars().count() >= 4 {
                count += 1;
                add_forms(value, &mut forms);
            }
        }
        if forms.is_empty() {
            return Self::default();
        }
        // A DFA, the default for few patterns, takes time and memory that grow with the square of a
        // value's length if the value repeats itself.
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms);
        Self {
            forms: Some(Arc::new(
                automaton.expect("a configuration's values fit an automaton"),
            )),
            known: count,
            live: None,
        }
    }

    /// Also redacts these secrets, with their values at the time of redacting.
    pub fn and_live(self, live: LiveSecrets) -> Self {
        Self {
            live: Some(live),
            ..self
        }
    }

    /// The text with every known secret replaced.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(live) = &self.live else {
            return self.without_known(text);
        };
        match self.without_known(text) {
            Cow::Borrowed(text) => live.0.load().without_known(text),
            Cow::Owned(text) => Cow::Owned(live.0.load().without_known(&text).into_owned()),
        }
    }

    /// Redacts a server's text.
    pub fn words(&self, text: &str) -> Redacted {
        Redacted(Untrusted::new(self.redact(text)))
    }

    fn without_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(forms) = &self.forms else {
            return Cow::Borrowed(text);
        };
        if !forms.is_match(text) {
            return Cow::Borrowed(text);
        }
        let mut redacted = String::with_capacity(text.len());
        forms.replace_all_with(text, &mut redacted, |_, _, redacted| {
            redacted.push_str(MASK);
            true
        });
        Cow::Owned(redacted)
    }
}

/// Untrusted text without the secrets known when it arrived. Only a [`Redactor`] creates it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Redacted(Untrusted);

impl Deref for Redacted {
    type Target = Untrusted;

    fn deref(&self) -> &Untrusted {
        &self.0
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.known)
    }
}

fn add_forms(value: &str, forms: &mut BTreeSet<String>) {
    forms.insert(value.to_owned());
    let trimmed = value.trim();
    if trimmed.chars().count() >= 4 {
        forms.insert(trimmed.to_owned());
    }
    // A key of several lines may be printed line by line.
    forms.extend(
        value
            .lines()
            .map(str::trim)
            .filter(|line| line.len() >= 16)
            .map(str::to_owned),
    );
    for encoding in [&BASE64_NOPAD, &BASE64URL_NOPAD] {
        let whole = encoding.encode(value.as_bytes());
        forms.insert(format!("{whole}{}", &"=="[..(4 - whole.len() % 4) % 4]));
        forms.insert(whole);
        // Inside a longer encoded text, as in `Basic base64(user:token)`: the characters that
        // depend on the value alone, at each of the three alignments.
        for offset in 0..3 {
            let shifted = encoding.encode(&[&[0; 2][..offset], value.as_bytes()].concat());
            let core = &shifted[(offset * 8).div_ceil(6)..(offset + value.len()) * 8 / 6];
            if core.len() >= 8 {
                forms.insert(core.to_owned());
            }
        }
    }
    let percent = percent_encode(value);
    forms.insert(percent.replace("%20", "+"));
    forms.insert(percent_lower(&percent));
    forms.insert(percent);
    let quoted = serde_json::to_string(value).expect("a string serialises");
    forms.insert(quoted[1..quoted.len() - 1].to_owned());
}

fn percent_encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into())
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The encoding with lower-case digits, which some encoders produce.
fn percent_lower(encoded: &str) -> String {
    let mut lower = String::with_capacity(encoded.len());
    let mut digits = 0;
    for character in encoded.chars() {
        lower.push(if digits > 0 {
            character.to_ascii_lowercase()
        } else {
            character
        });
        digits = if character == '%' {
            2
        } else {
            usize::saturating_sub(digits, 1)
        };
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secret: &str, text: &str, expected: &str) {
        assert_eq!(
            Redactor::new([Secret::new(secret)]).redact(text),
            expected,
            "{secret:?} in {text:?}"
        );
    }

    #[test]
    fn t25_a_known_secret_is_replaced_in_every_form() {
        check("hunter2?x>", "token hunter2?x> used", "token [secret] used");
        check(
            "hunter2?x>",
            "aHVudGVyMj94Pg== and aHVudGVyMj94Pg",
            "[secret] and [secret]",
        );
        // The same bytes where the two alphabets differ.
        check("ab?>?>~~", "YWI/Pj8+fn4= YWI_Pj8-fn4", "[secret] [secret]");
        check(
            "a b/c&d",
            "?t=a%20b%2Fc%26d&u=a+b%2Fc%26d&v=a%20b%2fc%26d",
            "?t=[secret]&u=[secret]&v=[secret]",
        );
        check(
            "say \"hi\"\\",
            r#"{"t":"say \"hi\"\\"}"#,
            r#"{"t":"[secret]"}"#,
        );
        check("wörter", "w%C3%B6rter wörter", "[secret] [secret]");
        check("  padded-token\n", "got padded-token.", "got [secret].");
    }

    #[test]
    fn t25_a_secret_inside_a_longer_base64_text_is_replaced() {
        for prefix in ["", "u", "us", "use", "user:"] {
            let header =
                data_encoding::BASE64.encode(format!("{prefix}canary-4711-token:x").as_bytes());
            let redacted = Redactor::new([Secret::new("canary-4711-token")])
                .redact(&header)
                .into_owned();
            assert!(redacted.contains(MASK), "{prefix}: {redacted}");
            assert!(redacted.len() < MASK.len() + 14, "{prefix}: {redacted}");
        }
    }

    #[test]
    fn t25_lines_of_a_long_key_are_replaced_one_by_one() {
        check(
            "-----BEGIN KEY-----\nMIIEvgIBADANBgkqh\nkiG9w0BAQEFAASC\n",
            "line: MIIEvgIBADANBgkqh end",
            "line: [secret] end",
        );
    }

    #[test]
    fn short_values_are_not_redacted() {
        check("", "any text", "any text");
        check("yes", "yes, yes", "yes, yes");
        check("true", "it is true", "it is [secret]");
    }

    #[test]
    fn the_longest_of_nested_secrets_is_redacted() {
        let redactor = Redactor::new([Secret::new("token"), Secret::new("token-and-more")]);
        assert_eq!(
            redactor.redact("a token-and-more b token c"),
            "a [secret] b [secret] c"
        );
    }

    #[test]
    fn text_without_secrets_is_not_copied() {
        assert!(matches!(
            Redactor::default().redact("text"),
            Cow::Borrowed("text")
        ));
        assert!(matches!(
            Redactor::new([Secret::new("other")]).redact("text"),
            Cow::Borrowed("text")
        ));
    }

    #[test]
    fn t25_a_refreshed_token_is_redacted_with_its_current_value() {
        let live = LiveSecrets::default();
        let redactor = Redactor::new([Secret::new("fixed-value")]).and_live(live.clone());
        assert!(matches!(
            redactor.redact("token-one"),
            Cow::Borrowed("token-one")
        ));
        live.set([Secret::new("token-one")]);
        assert_eq!(
            redactor.redact("fixed-value token-one token-two"),
            "[secret] [secret] token-two"
        );
        live.set([Secret::new("token-one"), Secret::new("token-two")]);
        assert_eq!(redactor.redact("token-one token-two"), "[secret] [secret]");
        assert_eq!(format!("{live:?}"), "LiveSecrets");
    }

    /// With a DFA this takes minutes.
    #[test]
    fn t25_a_long_value_that_repeats_itself_is_redacted_too() {
        let value = "x".repeat(100_000);
        check(&value, &format!("a {value} b"), "a [secret] b");
    }

    #[test]
    fn t25_debug_output_contains_no_secret() {
        let secret = Secret::new("canary");
        let redactor = Redactor::new([secret.clone()]);
        assert_eq!(
            format!("{secret:?} {redactor:?}"),
            "[secret] Redactor(1 secrets)"
        );
    }
}
