//! What is stored for one server: its login, bound to the issuer that granted it, and our
//! registrations, one for each issuer.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::VaultFault;
use crate::secret::Secret;

/// A token is renewed this long before it expires, or in the last quarter of its life if that is
/// shorter; clocks may differ by as much.
const SKEW: Duration = Duration::from_secs(60);

/// Everything that is stored for one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoginRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) login: Option<Login>,
    /// Our registrations by issuer. A client id of one authorization server is never sent to
    /// another.
    #[serde(default)]
    pub(super) registrations: BTreeMap<String, Registration>,
    /// Scopes that the server requires and the login lacks: the next login requests them too.
    #[serde(default, rename = "wanted", skip_serializing_if = "Vec::is_empty")]
    pub(super) missing_scopes: Vec<String>,
}

/// A token, and the token to refresh it with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Login {
    /// The authorization server that granted it.
    pub(super) issuer: String,
    /// The client it was granted to.
    pub(super) client_id: String,
    #[serde(with = "plain")]
    pub(super) access_token: Secret,
    #[serde(
        default,
        with = "plain_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) refresh_token: Option<Secret>,
    /// Seconds since 1970, by the wall clock.
    pub(super) received_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    /// The granted scopes, as far as known.
    #[serde(default)]
    pub(super) granted: Vec<String>,
    /// The requested scopes.
    #[serde(default, rename = "asked")]
    pub(super) requested: Vec<String>,
}

/// Our registration at one issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) client_id: String,
    #[serde(
        default,
        with = "plain_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) client_secret: Option<Secret>,
    /// The registered redirect address; empty if there is none.
    #[serde(default)]
    pub(super) redirect: String,
    /// Whether the client id is configured, not registered by us.
    #[serde(default, rename = "given")]
    pub(super) is_configured: bool,
}

impl Registration {
    /// A configured client id; its secret stays in the configuration.
    pub(super) fn configured(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            client_secret: None,
            redirect: String::new(),
            is_configured: true,
        }
    }
}

impl LoginRecord {
    /// Forgets a registration that its authorization server rejects. False if there is no such
    /// registration of ours: a configured client id is a person's to change.
    pub(super) fn forget_registration(&mut self, issuer: &str, client_id: &str) -> bool {
        let is_rejected =
            |known: &Registration| known.client_id == client_id && !known.is_configured;
        let has_it = self.registrations.get(issuer).is_some_and(is_rejected);
        has_it && self.registrations.remove(issuer).is_some()
    }

    pub(super) fn read(text: &Secret) -> Result<Self, VaultFault> {
        serde_json::from_str(text.expose())
            .map_err(|_| VaultFault("the stored login cannot be read".to_owned()))
    }

    pub(super) fn write(&self) -> Secret {
        Secret::new(serde_json::to_string(self).expect("texts and numbers are JSON"))
    }
}

impl Login {
    /// The value of `Authorization`.
    pub(super) fn header(&self) -> Secret {
        Secret::new(format!("Bearer {}", self.access_token.expose()))
    }

    /// Whether the token should be renewed now. If the clock was set back to before the token was
    /// received, its age is unknown, so it is renewed.
    pub(super) fn is_stale(&self, now: SystemTime) -> bool {
        let Some(expires_at) = self.expires_at else {
            return false;
        };
        let (now, skew) = (seconds(now), SKEW.as_secs());
        let ahead = skew.min(expires_at.saturating_sub(self.received_at) / 4);
        now + ahead >= expires_at || now + skew < self.received_at
    }
}

/// Seconds since 1970; 0 before.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Both lists without duplicates, in order.
pub(super) fn union(one: &[String], other: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::with_capacity(one.len() + other.len());
    for scope in one.iter().chain(other) {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

/// Serializes secrets, for the vault only.
mod plain {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::secret::Secret;

    pub(super) fn serialize<S: Serializer>(
        secret: &Secret,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

mod plain_option {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::secret::Secret;

    pub(super) fn serialize<S: Serializer>(
        secret: &Option<Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => serializer.serialize_some(secret.expose()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn login(received_at: u64, expires_at: Option<u64>) -> Login {
        Login {
            issuer: "https://as.example".to_owned(),
            client_id: "us".to_owned(),
            access_token: Secret::new("canary-access"),
            refresh_token: Some(Secret::new("canary-refresh")),
            received_at,
            expires_at,
            granted: vec!["a".to_owned()],
            requested: vec!["a".to_owned(), "b".to_owned()],
        }
    }

    #[test]
    fn f32_a_token_is_refreshed_a_minute_before_expiry_whichever_way_the_clock_jumps() {
        let check = |now: u64, expires_at, stale| {
            assert_eq!(
                login(10_000, expires_at).is_stale(UNIX_EPOCH + Duration::from_secs(now)),
                stale,
                "{now}"
            );
        };
        check(10_000, Some(13_600), false);
        check(13_539, Some(13_600), false);
        check(13_540, Some(13_600), true);
        check(99_999, Some(13_600), true);
        // Set back a little: within the allowed skew. Set back a day: the token's age is unknown.
        check(9_950, Some(13_600), false);
        check(9_000, Some(13_600), true);
        check(99_999, None, false);
        // A token of one minute is not renewed at once.
        check(10_000, Some(10_060), false);
        check(10_044, Some(10_060), false);
        check(10_045, Some(10_060), true);
    }

    #[test]
    fn a_stored_record_is_read_back_and_never_printed() {
        let mut record = LoginRecord {
            login: Some(login(1, Some(2))),
            ..LoginRecord::default()
        };
        let registration = Registration {
            client_id: "us".into(),
            client_secret: Some(Secret::new("canary-client")),
            redirect: String::new(),
            is_configured: false,
        };
        record
            .registrations
            .insert("https://as.example".to_owned(), registration);
        assert_eq!(LoginRecord::read(&record.write()).unwrap(), record);
        assert!(!format!("{record:?}").contains("canary"), "{record:?}");
        assert_eq!(
            LoginRecord::read(&Secret::new("{}")).unwrap(),
            LoginRecord::default()
        );
        let fault = LoginRecord::read(&Secret::new("canary")).unwrap_err();
        assert!(!fault.to_string().contains("canary"));
    }
}
