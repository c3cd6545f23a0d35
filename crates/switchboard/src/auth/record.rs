//! What is kept of one server between runs: its login, bound to the issuer that gave it, and our
//! registrations, one for each issuer.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::VaultFault;
use crate::secret::Secret;

/// A token is renewed this long before its end, and a clock may be wrong by as much.
const SKEW: Duration = Duration::from_secs(60);

/// Everything that is kept of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) login: Option<Login>,
    /// Who we are, by issuer. An id that one authorization server gave is never shown to another.
    #[serde(default)]
    pub(super) registrations: BTreeMap<String, Registration>,
    /// Scopes that the server wanted and the login lacks: the next login asks for them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted: Vec<String>,
}

/// A token, and how to get the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Login {
    /// Who gave it.
    pub(super) issuer: String,
    /// Whom it was given to.
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
    /// What it permits, as far as was said.
    #[serde(default)]
    pub(super) granted: Vec<String>,
    /// What was asked for.
    #[serde(default)]
    pub(super) asked: Vec<String>,
}

/// Our id with one issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) client_id: String,
    #[serde(
        default,
        with = "plain_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) client_secret: Option<Secret>,
    /// The address that was registered; empty where none was.
    #[serde(default)]
    pub(super) redirect: String,
    /// The id stands in the entry: it was not ours to register.
    #[serde(default)]
    pub(super) given: bool,
}

impl Registration {
    /// The id stands in the entry, and so does what goes with it.
    pub(super) fn given(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            client_secret: None,
            redirect: String::new(),
            given: true,
        }
    }
}

impl Record {
    pub(super) fn read(text: &Secret) -> Result<Self, VaultFault> {
        serde_json::from_str(text.expose()).map_err(|_| {
            VaultFault("what is kept of the login cannot be read; log in again".to_owned())
        })
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

    /// F32: whether the token should be renewed now. A clock that was set back before its beginning
    /// says nothing about its age.
    pub(super) fn is_stale(&self, now: SystemTime) -> bool {
        let Some(expires_at) = self.expires_at else {
            return false;
        };
        let now = seconds(now);
        now + SKEW.as_secs() >= expires_at || now + SKEW.as_secs() < self.received_at
    }
}

/// Seconds since 1970; 0 before.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Both lists, each scope once, the first's first.
pub(super) fn union(one: &[String], other: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::with_capacity(one.len() + other.len());
    for scope in one.iter().chain(other) {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

/// The vault is the one place where a secret is written out.
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
            asked: vec!["a".to_owned(), "b".to_owned()],
        }
    }

    #[test]
    fn f32_a_token_is_renewed_a_minute_ahead_whichever_way_the_clock_jumps() {
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
        // Set back a little: within what a clock may be wrong by. Set back a day: the age is not
        // known.
        check(9_950, Some(13_600), false);
        check(9_000, Some(13_600), true);
        check(99_999, None, false);
    }

    #[test]
    fn what_is_kept_comes_back_whole_and_does_not_print() {
        let mut record = Record {
            login: Some(login(1, Some(2))),
            ..Record::default()
        };
        let registration = Registration {
            client_id: "us".into(),
            client_secret: Some(Secret::new("canary-client")),
            redirect: String::new(),
            given: false,
        };
        record
            .registrations
            .insert("https://as.example".to_owned(), registration);
        assert_eq!(Record::read(&record.write()).unwrap(), record);
        assert!(!format!("{record:?}").contains("canary"), "{record:?}");
        assert_eq!(Record::read(&Secret::new("{}")).unwrap(), Record::default());
        let fault = Record::read(&Secret::new("canary")).unwrap_err();
        assert!(!fault.to_string().contains("canary"));
    }
}
