//! The launch fingerprint: BLAKE3 over everything that decides what runs and where it connects.

use std::os::unix::ffi::OsStrExt;

use super::reference::{ReferenceSyntax, TextRole};
use super::source::Scope;
use super::{
    Endpoint, HttpAuth, HttpEndpoint, HttpTransportKind, OAuthGrant, ServerConfig, StdioEndpoint,
};
use crate::secret::Secret;

/// Identifies the launch of a server: BLAKE3 over its endpoint as written, independent of
/// formatting and key order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// As hexadecimal text.
    pub fn to_hex(self) -> String {
        data_encoding::HEXLOWER.encode(&self.0)
    }
}

impl ServerConfig {
    /// The launch fingerprint of the entry as written: literal values count, formatting and key
    /// order do not.
    ///
    /// The file's folder counts if it determines what runs (a relative `command` or `cwd`), and for
    /// every entry of a project: a grant for one project's server, or for the user's own, does not
    /// cover another's of the same name.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut digest = FingerprintHasher::new("switchboard launch 1");
        match &self.endpoint {
            Endpoint::Stdio(stdio) => digest.stdio(stdio),
            Endpoint::Http(http) => digest.http(http),
            Endpoint::Invalid(_) => digest.part("type", b"wrong"),
        }
        // The same text may be a reference in one dialect and literal in another. Only then the
        // syntax is part of the fingerprint.
        if self.endpoint.differs_from_native_syntax() {
            let syntax: &[u8] = match self.endpoint.syntax() {
                ReferenceSyntax::Native => b"native",
                ReferenceSyntax::Braced => b"braced",
                ReferenceSyntax::Placeholder => b"placeholder",
                ReferenceSyntax::Shell => b"shell",
                ReferenceSyntax::Literal => b"literal",
            };
            digest.part("syntax", syntax);
        }
        if self.source.scope == Scope::Project || self.depends_on_folder() {
            digest.part("folder", self.source.folder.as_os_str().as_bytes());
        }
        digest.finish()
    }

    fn depends_on_folder(&self) -> bool {
        let relative = |path: &str| !path.starts_with('/');
        match &self.endpoint {
            // A reference may expand to a relative path.
            Endpoint::Stdio(stdio) => {
                (relative(&stdio.command) && stdio.command.contains(['/', '$']))
                    || stdio.cwd.as_deref().is_some_and(relative)
            }
            Endpoint::Http(http) => http.auth.client_key.as_deref().is_some_and(relative),
            Endpoint::Invalid(_) => false,
        }
    }
}

impl Endpoint {
    /// Whether any of its texts would have another meaning in the native file.
    fn differs_from_native_syntax(&self) -> bool {
        let syntax = self.syntax();
        let differs = |part: TextRole, text: &str| {
            text.contains('$')
                && syntax.meaning(part, text) != ReferenceSyntax::Native.meaning(part, text)
        };
        let launch = |text: &str| differs(TextRole::Launch, text);
        let value = |secret: &Secret| differs(TextRole::Value, secret.expose());
        match self {
            _ if syntax == ReferenceSyntax::Native => false,
            Self::Stdio(stdio) => {
                launch(&stdio.command)
                    || stdio.args.iter().any(|arg| launch(arg))
                    || stdio.cwd.as_deref().is_some_and(launch)
                    || stdio.env.values().any(value)
            }
            Self::Http(http) => {
                let HttpAuth {
                    issuer,
                    client_id,
                    client_key,
                    client_metadata_url,
                    bearer_token,
                    client_secret,
                    ..
                } = &http.auth;
                launch(&http.url)
                    || http.headers.values().any(value)
                    || [issuer, client_id, client_key, client_metadata_url]
                        .into_iter()
                        .flatten()
                        .any(|text| launch(text))
                    || [bearer_token, client_secret]
                        .into_iter()
                        .flatten()
                        .any(value)
            }
            Self::Invalid(_) => false,
        }
    }
}

/// Hashes named parts, each with its length, so that different lists of parts never hash the same
/// bytes.
pub(crate) struct FingerprintHasher(blake3::Hasher);

impl FingerprintHasher {
    pub(crate) fn new(purpose: &str) -> Self {
        let mut digest = Self(blake3::Hasher::new());
        digest.bytes(purpose.as_bytes());
        digest
    }

    pub(crate) fn part(&mut self, name: &str, value: &[u8]) {
        self.bytes(name.as_bytes());
        self.bytes(value);
    }

    pub(crate) fn list<'a>(&mut self, name: &str, values: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.part(name, &(values.len() as u64).to_le_bytes());
        values.for_each(|value| self.bytes(value));
    }

    fn map<'a>(&mut self, name: &str, values: impl ExactSizeIterator<Item = (&'a str, &'a str)>) {
        self.part(name, &(values.len() as u64).to_le_bytes());
        let mut values: Vec<_> = values.collect();
        values.sort_unstable();
        for (key, value) in values {
            self.bytes(key.as_bytes());
            self.bytes(value.as_bytes());
        }
    }

    /// `unset` is hashed only if present, so that entries without it keep the fingerprint of earlier
    /// versions.
    fn stdio(&mut self, stdio: &StdioEndpoint) {
        self.part("type", b"stdio");
        self.part("command", stdio.command.as_bytes());
        self.list("args", stdio.args.iter().map(String::as_bytes));
        self.part("inherit_env", &[u8::from(stdio.inherit_env)]);
        self.list("cwd", stdio.cwd.iter().map(String::as_bytes));
        if !stdio.unset.is_empty() {
            self.list("unset", stdio.unset.iter().map(String::as_bytes));
        }
        let variables = stdio.env.iter();
        self.map(
            "env",
            variables.map(|(name, value)| (name.as_str(), value.expose())),
        );
    }

    /// `auth` is hashed only if present, so that entries without it keep the fingerprint of earlier
    /// versions.
    fn http(&mut self, http: &HttpEndpoint) {
        self.part("type", b"http");
        self.part("url", http.url.as_bytes());
        let headers = http.headers.iter();
        self.map(
            "headers",
            headers.map(|(name, value)| (name.as_str(), value.expose())),
        );
        let wire: &[u8] = match http.wire {
            HttpTransportKind::Auto => b"auto",
            HttpTransportKind::Streamable => b"streamable",
            HttpTransportKind::Sse => b"sse",
        };
        self.part("wire", wire);
        if http.auth != HttpAuth::default() {
            self.auth(&http.auth);
        }
    }

    fn auth(&mut self, auth: &HttpAuth) {
        let HttpAuth {
            bearer_token,
            grant,
            issuer,
            client_id,
            client_secret,
            client_key,
            client_metadata_url,
            scopes,
            callback_port,
        } = auth;
        let secret =
            |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        let texts = [
            ("bearer_token", secret(bearer_token)),
            ("client_id", client_id.clone()),
            ("client_secret", secret(client_secret)),
            ("client_key", client_key.clone()),
            ("client_metadata_url", client_metadata_url.clone()),
        ];
        for (name, text) in &texts {
            self.list(name, text.iter().map(String::as_bytes));
        }
        // Hashed only if present, so that entries accepted before this field existed stay accepted.
        if let Some(issuer) = issuer {
            self.part("issuer", issuer.as_bytes());
        }
        self.part(
            "grant",
            &[u8::from(*grant == OAuthGrant::ClientCredentials)],
        );
        self.list("scopes", scopes.iter().map(String::as_bytes));
        self.part(
            "callback_port",
            &callback_port.unwrap_or_default().to_le_bytes(),
        );
    }

    pub(crate) fn finish(self) -> Fingerprint {
        Fingerprint(*self.0.finalize().as_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}
