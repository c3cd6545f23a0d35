//! The fields of an entry with a URL: headers, transport, and credentials.

use std::collections::HashSet;

use super::{BARE_REFERENCE, ServerEntry, by_name, looks_like_a_bare_reference, plain};
use crate::diagnostic::{Diagnostics, visible_key};
use crate::raw::AtOffset;
use crate::reference::{ReferenceSyntax, TextRole};
use crate::secret::Secret;
use crate::untrusted::quoted;
use crate::{Endpoint, HttpAuth, HttpEndpoint, HttpTransportKind, OAuthGrant};

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
        sound &= self.check_headers(headers, diagnostics);
        let wire = match transport {
            Some("http") => HttpTransportKind::Streamable,
            Some("sse") => HttpTransportKind::Sse,
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

    /// Reports headers that cannot be sent. False if there are any.
    fn check_headers(
        &self,
        headers: &[AtOffset<(String, Secret)>],
        diagnostics: &mut Diagnostics<'_>,
    ) -> bool {
        let expands_bare = !matches!(
            self.rules.syntax,
            ReferenceSyntax::Native | ReferenceSyntax::Braced
        );
        let mut sound = true;
        let mut seen = HashSet::new();
        for header in headers {
            let (name, value) = &header.value;
            let path = self.path_of(&format!("headers.{}", visible_key(name)));
            if let Err(message) = check_header(name, value) {
                diagnostics.error(header.at, path, message);
                sound = false;
            } else if !seen.insert(name.to_ascii_lowercase()) {
                let message = "set twice; header names are case-insensitive: remove one of them";
                diagnostics.error(header.at, path, message);
                sound = false;
            } else if !expands_bare && looks_like_a_bare_reference(value) {
                diagnostics.warn(header.at, path, BARE_REFERENCE);
            }
        }
        sound
    }

    /// Reads the credentials. Contradicting fields are errors, since one of them would be ignored.
    fn auth(&self, diagnostics: &mut Diagnostics<'_>) -> Option<HttpAuth> {
        let auth = self.auth_fields();
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
        let has_header = headers
            .iter()
            .any(|header| header.value.0.eq_ignore_ascii_case("authorization"));
        for (field, message) in contradictions(&auth, has_header) {
            self.error(field, message, diagnostics);
            sound = false;
        }
        // A URL with references is checked when it is expanded.
        let metadata_url = auth
            .client_metadata_url
            .as_deref()
            .filter(|url| !self.rules.syntax.reads(TextRole::Launch, url));
        if metadata_url.is_some_and(|url| !is_metadata_url(url)) {
            let message = "expected an https address with a path, such as \"https://example.com/client.json\"";
            self.error("oauth_client_metadata_url", message, diagnostics);
            sound = false;
        }
        sound.then_some(auth)
    }

    /// The fields of the credentials, as written.
    fn auth_fields(&self) -> HttpAuth {
        let text = |field: &str| self.fields.text(field).map(str::to_owned);
        HttpAuth {
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
        }
    }
}

/// The fields of the credentials that cannot be used together, and what to do. `has_header`: the
/// entry sets `Authorization` itself.
fn contradictions(
    auth: &HttpAuth,
    has_header: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    const LONE: &str = "has no effect without `oauth_client_id`; set the id that it belongs to";
    let has_id = auth.client_id.is_some();
    let has_secret = auth.client_secret.is_some();
    let has_key = auth.client_key.is_some();
    let is_unattended = auth.grant == OAuthGrant::ClientCredentials;
    [
        (
            has_header && auth.bearer_token.is_some(),
            "bearer_token",
            "`headers` has an Authorization already: remove one of them",
        ),
        (has_secret && !has_id, "oauth_client_secret", LONE),
        (has_key && !has_id, "oauth_client_key", LONE),
        (
            has_secret && has_key,
            "oauth_client_key",
            "`oauth_client_secret` is set as well; only one of them can authenticate the client: remove the other",
        ),
        (
            is_unattended && !(has_id && (has_secret || has_key)),
            "oauth_grant",
            "\"client_credentials\" needs `oauth_client_id`, and `oauth_client_secret` or `oauth_client_key`",
        ),
        (
            has_key && !is_unattended,
            "oauth_client_key",
            "is used with `oauth_grant = \"client_credentials\"` only",
        ),
    ]
    .into_iter()
    .filter_map(|(is_contradiction, field, message)| is_contradiction.then_some((field, message)))
}

/// Whether this can be the address of a client's metadata document.
fn is_metadata_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
}

/// Parses a URL. The message does not repeat it: it may hold a key.
pub(crate) fn check_url(text: &str) -> Result<url::Url, String> {
    let expected = "expected one such as \"https://example.com/mcp\"";
    let url = url::Url::parse(text).map_err(|fault| format!("not a URL: {fault}; {expected}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!(
            "unsupported scheme {}; expected http or https",
            quoted(other)
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
