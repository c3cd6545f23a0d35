//! The fields of an entry with a URL: headers, transport, and credentials.

use std::collections::HashSet;

use super::{BARE_REFERENCE, ServerEntry, by_name, looks_like_a_bare_reference, plain};
use crate::diagnostic::{Diagnostics, visible_key};
use crate::raw::AtOffset;
use crate::reference::{ReferenceSyntax, TextRole};
use crate::secret::Secret;
use crate::{Endpoint, HttpAuth, HttpEndpoint, HttpWire, OAuthGrant};

impl ServerEntry<'_> {
    pub(super) fn http(
        &self,
        transport: Option<&str>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Endpoint> {
        let url = self.fields.text("url")?;
        let at = self.fields.offset_of("url")?;
        let headers = self.fields.secrets("headers");
        let mut sound = self.check_text(url, at, "url", diagnostics);
        // A reference may expand to any part of a URL, so a URL with references is checked when it
        // is expanded.
        if sound
            && !self.rules.syntax.reads(TextRole::Launch, url)
            && let Err(message) = check_url(url)
        {
            self.error("url", message, diagnostics);
            sound = false;
        }
        let mut seen = HashSet::new();
        for AtOffset {
            at,
            value: (name, value),
        } in headers
        {
            let path = self.path_of(&format!("headers.{}", visible_key(name)));
            let lower = name.to_ascii_lowercase();
            if let Err(message) = check_header(name, value) {
                diagnostics.error(*at, path, message);
                sound = false;
            } else if !seen.insert(lower) {
                diagnostics.error(
                    *at,
                    path,
                    "set twice; header names are case-insensitive: remove one of them",
                );
                sound = false;
            } else if matches!(
                self.rules.syntax,
                ReferenceSyntax::Native | ReferenceSyntax::Braced
            ) && looks_like_a_bare_reference(value)
            {
                diagnostics.warn(*at, path, BARE_REFERENCE);
            }
        }
        let wire = match transport {
            Some("http") => HttpWire::Streamable,
            Some("sse") => HttpWire::Sse,
            _ => self.rules.wire,
        };
        let auth = self.auth(diagnostics);
        let syntax = self.rules.syntax;
        let endpoint = HttpEndpoint {
            url: url.to_owned(),
            headers: by_name(headers),
            wire,
            auth: auth?,
            syntax,
        };
        sound.then_some(Endpoint::Http(endpoint))
    }

    /// Reads the credentials. Contradicting fields are errors, since one of them would be ignored.
    fn auth(&self, diagnostics: &mut Diagnostics<'_>) -> Option<HttpAuth> {
        let text = |field: &str| self.fields.text(field).map(str::to_owned);
        let auth = HttpAuth {
            bearer_token: self.fields.secret("bearer_token").cloned(),
            grant: match self.fields.choice("oauth_grant") {
                Some("client_credentials") => OAuthGrant::ClientCredentials,
                _ => OAuthGrant::AuthorizationCode,
            },
            issuer: text("oauth_issuer"),
            client_id: text("oauth_client_id"),
            client_secret: self.fields.secret("oauth_client_secret").cloned(),
            client_key: text("oauth_client_key"),
            client_metadata_url: text("oauth_client_metadata_url"),
            scopes: self
                .fields
                .texts("oauth_scopes")
                .map(plain)
                .unwrap_or_default(),
            callback_port: self.fields.port("oauth_callback_port"),
        };
        let mut sound = true;
        for field in [
            "oauth_issuer",
            "oauth_client_id",
            "oauth_client_key",
            "oauth_client_metadata_url",
        ] {
            if let (Some(text), Some(at)) = (self.fields.text(field), self.fields.offset_of(field))
            {
                sound &= self.check_text(text, at, field, diagnostics);
            }
        }
        for field in ["bearer_token", "oauth_client_secret"] {
            if self
                .fields
                .secret(field)
                .is_some_and(looks_like_a_bare_reference)
            {
                self.warn(field, BARE_REFERENCE, diagnostics);
            }
        }
        let headers = self.fields.secrets("headers");
        let own = headers
            .iter()
            .any(|header| header.value.0.eq_ignore_ascii_case("authorization"));
        let mut clash = |is: bool, field: &str, message: &str| {
            if is {
                self.error(field, message, diagnostics);
                sound = false;
            }
        };
        clash(
            own && auth.bearer_token.is_some(),
            "bearer_token",
            "`headers` has an Authorization already: remove one of them",
        );
        let lone = "has no effect without `oauth_client_id`; set the id that it belongs to";
        clash(
            auth.client_secret.is_some() && auth.client_id.is_none(),
            "oauth_client_secret",
            lone,
        );
        clash(
            auth.client_key.is_some() && auth.client_id.is_none(),
            "oauth_client_key",
            lone,
        );
        let both = "`oauth_client_secret` is set as well; only one of them can authenticate the client: remove the other";
        clash(
            auth.client_secret.is_some() && auth.client_key.is_some(),
            "oauth_client_key",
            both,
        );
        let alone = auth.grant == OAuthGrant::ClientCredentials
            && (auth.client_id.is_none()
                || (auth.client_secret.is_none() && auth.client_key.is_none()));
        let needs = "\"client_credentials\" needs `oauth_client_id`, and `oauth_client_secret` or `oauth_client_key`";
        clash(alone, "oauth_grant", needs);
        let person = auth.grant == OAuthGrant::AuthorizationCode && auth.client_key.is_some();
        clash(
            person,
            "oauth_client_key",
            "is used with `oauth_grant = \"client_credentials\"` only",
        );
        let url = auth
            .client_metadata_url
            .as_deref()
            .filter(|url| !self.rules.syntax.reads(TextRole::Launch, url));
        let bad = url.is_some_and(|url| {
            !url::Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
        });
        clash(
            bad,
            "oauth_client_metadata_url",
            "expected an https address with a path, such as \"https://example.com/client.json\"",
        );
        sound.then_some(auth)
    }
}

/// Parses a URL. The message does not repeat it: it may hold a key.
pub(crate) fn check_url(text: &str) -> Result<url::Url, String> {
    let expected = "expected one such as \"https://example.com/mcp\"";
    let url = url::Url::parse(text).map_err(|fault| format!("not a URL: {fault}; {expected}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!(
            "unsupported scheme {other:?}; expected http or https"
        )),
    }
}

pub(crate) fn check_header(name: &str, value: &Secret) -> Result<(), &'static str> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        Err("not the name of a header; expected letters, digits and -")
    } else if value.expose().contains(['\r', '\n', '\0']) {
        Err("contains a line break or a zero byte, which a header cannot contain")
    } else {
        Ok(())
    }
}
