//! The bearer tokens of clients: one per client, stored as digests in a file that only its owner
//! can read. Clients that run a command for their headers have theirs in clear, in another such file.
//!
//! The name of a token is the client's principal: rules, sessions and the audit log use it.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use switchboard::sync::lock;

use crate::principal::{Principal, TokenId};
use crate::private_file;
use crate::seal::random;

/// The tokens of clients that run a command for their headers.
const HEADER_TOKEN_FILE: &str = "header-tokens.json";

/// The file of the tokens, in the state folder.
const TOKEN_FILE: &str = "gateway-tokens.json";

/// The prefix of every token, by which secret scanners recognise it.
pub const TOKEN_PREFIX: &str = "swb_";

/// A revoked token is refused after this time at the latest.
const REREAD_INTERVAL: Duration = Duration::from_millis(250);

/// The tokens in the state folder.
#[derive(Debug)]
pub struct ClientTokens {
    path: PathBuf,
    cache: Mutex<TokenCache>,
}

/// A token as it is stored and listed: never the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// The BLAKE3 digest of the token, in hexadecimal.
    digest: String,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
}

/// The tokens of clients that run a command for their headers.
type HeaderTokens = BTreeMap<String, HeaderToken>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum HeaderToken {
    Token(String),
    /// The token was revoked: no other is made until a person makes it.
    Revoked {
        /// Whether the client runs a command for its headers, which then prints the next token.
        has_command: bool,
    },
}

#[derive(Debug, Default)]
struct TokenCache {
    tokens: Vec<(Principal, blake3::Hash)>,
    /// How often the file was read.
    generation: TokenGeneration,
    /// The file's modification time and inode when it was read.
    version: Option<(SystemTime, u64)>,
    checked: Option<Instant>,
    /// The last read failed, which was logged.
    is_unreadable: bool,
}

/// Which read of the file a token was found in. A later read may not find it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TokenGeneration(u64);

/// Why a token cannot be created or revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The name cannot be a client's name.
    #[error("a client's name has 1 to 64 characters of a-z, A-Z, 0-9, \".\", \"_\" and \"-\"")]
    Name,
    /// There is one already.
    #[error("client \"{0}\" has a token already")]
    Exists(String),
    /// It was revoked, and no other was created since.
    #[error("the token of client \"{0}\" was revoked")]
    Revoked(String),
    /// There is none.
    #[error("client \"{0}\" has no token")]
    Unknown(String),
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl ClientTokens {
    /// The tokens in this state folder. Reads nothing yet.
    pub fn new(state_folder: &Path) -> Self {
        Self {
            path: state_folder.join(TOKEN_FILE),
            cache: Mutex::default(),
        }
    }

    /// Creates a token for a client. It cannot be shown again, except by [`for_headers`]: for a client
    /// that had such a token before, the new one is stored in its place.
    ///
    /// [`for_headers`]: Self::for_headers
    pub fn create(&self, name: &str) -> Result<String, TokenError> {
        check_client_name(name)?;
        self.change_header_tokens(|tokens| {
            let token = self.create_token(name)?;
            match tokens.remove(name) {
                None | Some(HeaderToken::Revoked { has_command: false }) => {}
                Some(_) => {
                    tokens.insert(name.to_owned(), HeaderToken::Token(token.clone()));
                }
            }
            Ok(token)
        })
    }

    /// The token of a client that runs a command for its headers. Created at the first request, and
    /// stored in a file that only the user can read, so that the client's own file has none. A revoked
    /// one is an error until another is [created](Self::create).
    pub fn for_headers(&self, name: &str) -> Result<String, TokenError> {
        check_client_name(name)?;
        self.change_header_tokens(|tokens| {
            if let Some(token) = self.stored_for_headers(tokens, name)? {
                return Ok(token);
            }
            let token = self.create_token(name)?;
            tokens.insert(name.to_owned(), HeaderToken::Token(token.clone()));
            Ok(token)
        })
    }

    /// Whether [`for_headers`](Self::for_headers) would return a token. Creates none.
    pub fn check_headers(&self, name: &str) -> Result<(), TokenError> {
        check_client_name(name)?;
        self.change_header_tokens(|tokens| {
            let stored = self.stored_for_headers(tokens, name)?;
            match stored.is_none() && self.list()?.contains_key(name) {
                true => Err(TokenError::Exists(name.to_owned())),
                false => Ok(()),
            }
        })
    }

    /// The stored token of a client that runs a command for its headers, if it has any.
    fn stored_for_headers(
        &self,
        tokens: &mut HeaderTokens,
        name: &str,
    ) -> Result<Option<String>, TokenError> {
        match tokens.get(name) {
            None => return Ok(None),
            Some(HeaderToken::Token(token)) => {
                let client = self.client_of(token);
                if client.is_some_and(|client| client.as_str() == name) {
                    return Ok(Some(token.clone()));
                }
            }
            Some(HeaderToken::Revoked { .. }) => {}
        }
        // The next token that a person creates is stored for the command.
        let has_command = true;
        tokens.insert(name.to_owned(), HeaderToken::Revoked { has_command });
        Err(TokenError::Revoked(name.to_owned()))
    }

    fn create_token(&self, name: &str) -> Result<String, TokenError> {
        self.change(|tokens| {
            if tokens.contains_key(name) {
                return Ok(Err(TokenError::Exists(name.to_owned())));
            }
            let token = format!("{TOKEN_PREFIX}{}", BASE64.encode(random::<32>()?));
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let stored = StoredToken {
                digest: blake3::hash(token.as_bytes()).to_hex().to_string(),
                created_unix_s: now.unwrap_or_default().as_secs(),
            };
            tokens.insert(name.to_owned(), stored);
            Ok(Ok(token))
        })
    }

    /// Revokes a client's token. A running gateway notices within a second.
    pub fn revoke(&self, name: &str) -> Result<(), TokenError> {
        self.change_header_tokens(|header_tokens| {
            self.change(|tokens| {
                let removed = tokens.remove(name);
                Ok(removed
                    .map(|_| ())
                    .ok_or_else(|| TokenError::Unknown(name.to_owned())))
            })?;
            let known = header_tokens.get(name);
            let has_command =
                known.is_some_and(|known| *known != HeaderToken::Revoked { has_command: false });
            header_tokens.insert(name.to_owned(), HeaderToken::Revoked { has_command });
            Ok(())
        })
    }

    /// All tokens by client.
    pub fn list(&self) -> Result<BTreeMap<String, StoredToken>, TokenError> {
        private_file::read(&self.path)
            .and_then(parse)
            .map_err(|source| self.fault(source))
    }

    /// The client that a token belongs to. The time of the comparison does not depend on the token.
    pub(crate) fn client_of(&self, token: &str) -> Option<Principal> {
        let digest = blake3::hash(token.as_bytes());
        let mut cache = lock(&self.cache);
        self.reread_if_due(&mut cache, Instant::now());
        if let Some(client) = find(&cache.tokens, &digest) {
            return Some(client);
        }
        // A new token works at once.
        self.reread(&mut cache, Instant::now());
        find(&cache.tokens, &digest)
    }

    /// The current generation. A token that was found in it is still valid.
    pub(crate) fn generation(&self, now: Instant) -> TokenGeneration {
        let mut cache = lock(&self.cache);
        self.reread_if_due(&mut cache, now);
        cache.generation
    }

    /// Tells of each client whether the token that it was authenticated with is there no more.
    pub(crate) fn is_revoked(&self) -> impl Fn(&Principal) -> bool + use<> {
        let mut cache = lock(&self.cache);
        self.reread(&mut cache, Instant::now());
        let tokens = cache.tokens.iter().map(|(client, _)| client.token());
        let tokens: HashSet<Option<TokenId>> = tokens.collect();
        move |client| client.token().is_some() && !tokens.contains(&client.token())
    }

    fn reread_if_due(&self, cache: &mut TokenCache, now: Instant) {
        let is_fresh = cache
            .checked
            .is_some_and(|checked| now.saturating_duration_since(checked) < REREAD_INTERVAL);
        if !is_fresh {
            self.reread(cache, now);
        }
    }

    /// As if the interval had passed.
    #[cfg(test)]
    pub(crate) fn expire(&self) {
        lock(&self.cache).checked = None;
    }

    fn reread(&self, cache: &mut TokenCache, now: Instant) {
        use std::os::unix::fs::MetadataExt;
        let version = std::fs::metadata(&self.path)
            .ok()
            .and_then(|metadata| Some((metadata.modified().ok()?, metadata.ino())));
        cache.checked = Some(now);
        if version.is_some() && version == cache.version {
            return;
        }
        cache.generation.0 += 1;
        let read = self.list();
        // A file that could not be read is read again the next time.
        cache.version = version.filter(|_| read.is_ok());
        // Until then no client is admitted.
        let was_unreadable = std::mem::replace(&mut cache.is_unreadable, read.is_err());
        let tokens = read.unwrap_or_else(|error| {
            if !was_unreadable {
                tracing::warn!("no client can connect over HTTP: {error}");
            }
            BTreeMap::new()
        });
        cache.tokens = tokens
            .into_iter()
            .filter_map(|(name, token)| {
                let digest = blake3::Hash::from_hex(&token.digest).ok()?;
                Some((Principal::with_token(&name, TokenId::of(&digest)), digest))
            })
            .collect();
    }

    /// Changes the file of the tokens in clear. The lock of the other file is taken within, never
    /// before.
    fn change_header_tokens<T>(
        &self,
        change: impl FnOnce(&mut HeaderTokens) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let path = self.path.with_file_name(HEADER_TOKEN_FILE);
        let changed = private_file::update(&path, |text| {
            let mut tokens: HeaderTokens = match text {
                Some(text) => serde_json::from_str(&text)?,
                None => BTreeMap::new(),
            };
            let before = tokens.clone();
            let outcome = change(&mut tokens);
            let text = (tokens != before).then(|| serde_json::to_string(&tokens));
            Ok((text.transpose()?, outcome))
        });
        changed.map_err(|source| TokenError::File { path, source })?
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, StoredToken>) -> io::Result<Result<T, TokenError>>,
    ) -> Result<T, TokenError> {
        let changed = private_file::update(&self.path, |text| {
            let mut tokens = parse(text)?;
            let outcome = change(&mut tokens)?;
            let text = outcome
                .is_ok()
                .then(|| serde_json::to_string_pretty(&tokens))
                .transpose()?;
            Ok((text, outcome))
        });
        changed.map_err(|source| self.fault(source))?
    }

    fn fault(&self, source: io::Error) -> TokenError {
        TokenError::File {
            path: self.path.clone(),
            source,
        }
    }
}

/// Checks a name that a person gives to a client.
pub fn check_client_name(name: &str) -> Result<(), TokenError> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(is_valid) {
        Ok(())
    } else {
        Err(TokenError::Name)
    }
}

fn find(tokens: &[(Principal, blake3::Hash)], digest: &blake3::Hash) -> Option<Principal> {
    // Hashes compare in constant time; all are compared.
    let mut found = None;
    for (client, stored) in tokens {
        if stored == digest {
            found = Some(client);
        }
    }
    found.cloned()
}

fn parse(text: Option<String>) -> io::Result<BTreeMap<String, StoredToken>> {
    text.map_or(Ok(BTreeMap::new()), |text| {
        serde_json::from_str(&text).map_err(io::Error::from)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// T19: a token belongs to one client, is stored as a digest only, and ends when revoked.
    #[test]
    fn t19_a_token_names_its_client_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let (here, elsewhere) = (
            ClientTokens::new(folder.path()),
            ClientTokens::new(folder.path()),
        );
        assert_eq!(here.client_of("swb_unknown"), None);
        let token = elsewhere.create("codex").unwrap();
        assert_eq!(here.client_of(&token), Some(Principal::new("codex")));
        let other = elsewhere.create("gemini").unwrap();
        assert_eq!(here.client_of(&other), Some(Principal::new("gemini")));
        assert_eq!(here.client_of(&token[1..]), None);
        assert_eq!(here.client_of(&format!("{token} ")), None);
        assert!(matches!(
            here.create("codex"),
            Err(TokenError::Exists(name)) if name == "codex"
        ));

        let path = folder.path().join(TOKEN_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&token));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let names: Vec<_> = here.list().unwrap().into_keys().collect();
        assert_eq!(names, ["codex", "gemini"]);

        let generation = here.generation(Instant::now());
        assert_eq!(here.generation(Instant::now()), generation);
        elsewhere.revoke("codex").unwrap();
        here.expire();
        assert_ne!(here.generation(Instant::now()), generation);
        assert_eq!(here.client_of(&token), None);
        assert_eq!(here.client_of(&other), Some(Principal::new("gemini")));
        assert!(matches!(here.revoke("codex"), Err(TokenError::Unknown(_))));
    }

    /// A failed read does not count as the read of this version of the file.
    #[test]
    fn clients_are_admitted_again_once_the_file_can_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = ClientTokens::new(folder.path());
        let token = tokens.create("codex").unwrap();
        let (path, moved) = (folder.path().join(TOKEN_FILE), folder.path().join("moved"));
        // A link is not followed, and looks like the file itself otherwise.
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &path).unwrap();
        assert_eq!(tokens.client_of(&token), None);
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&moved, &path).unwrap();
        assert_eq!(tokens.client_of(&token), Some(Principal::new("codex")));
    }

    /// T19: a command for headers makes no new token instead of a revoked one.
    #[test]
    fn t19_a_revoked_token_stays_revoked_for_a_client_that_runs_a_command_for_its_headers() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = ClientTokens::new(folder.path());
        let stored = || std::fs::read_to_string(folder.path().join(HEADER_TOKEN_FILE)).unwrap();
        let is_revoked = |name: &str| {
            let error = tokens.for_headers(name).unwrap_err();
            matches!(error, TokenError::Revoked(revoked) if revoked == name)
        };
        let first = tokens.for_headers("codex").unwrap();
        assert_eq!(tokens.for_headers("codex").unwrap(), first);
        tokens.revoke("codex").unwrap();
        for _ in 0..2 {
            assert!(is_revoked("codex"));
        }
        assert!(tokens.list().unwrap().is_empty());
        assert!(!stored().contains(&first));
        let second = tokens.create("codex").unwrap();
        assert_eq!(tokens.for_headers("codex").unwrap(), second);

        // That of a client without such a command is not stored in clear, until the command is run.
        tokens.create("gemini").unwrap();
        tokens.revoke("gemini").unwrap();
        let third = tokens.create("gemini").unwrap();
        assert!(!stored().contains(&third));
        tokens.revoke("gemini").unwrap();
        assert!(is_revoked("gemini"));
        let fourth = tokens.create("gemini").unwrap();
        assert_eq!(tokens.for_headers("gemini").unwrap(), fourth);
    }

    #[test]
    fn client_names_that_no_rule_can_name_are_refused() {
        for name in ["", "a b", "ü", "a/b", "a\n", &"a".repeat(65)] {
            assert!(
                matches!(check_client_name(name), Err(TokenError::Name)),
                "{name:?}"
            );
        }
        for name in ["codex", "Claude-Code_2.1", &"a".repeat(64)] {
            assert!(check_client_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn with_a_damaged_token_file_no_client_is_admitted_and_it_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = ClientTokens::new(folder.path());
        let token = tokens.create("codex").unwrap();
        std::fs::write(folder.path().join(TOKEN_FILE), "{").unwrap();
        tokens.expire();
        assert_eq!(tokens.client_of(&token), None);
        assert!(matches!(
            tokens.create("gemini"),
            Err(TokenError::File { .. })
        ));
        assert_eq!(
            std::fs::read_to_string(folder.path().join(TOKEN_FILE)).unwrap(),
            "{"
        );
    }
}
