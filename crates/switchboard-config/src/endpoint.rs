//! The endpoint of a server as written in its file: a program to start, or a URL.

use indexmap::IndexMap;

use super::environment::is_passed_on;
use super::{Diagnostic, ReferenceSyntax, package_runner};
use crate::secret::Secret;

/// The endpoint of a server. Texts are as written; references are expanded by
/// [`resolve_launch`](crate::resolve_launch) when the server starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A child process that speaks over its standard streams.
    Stdio(StdioEndpoint),
    /// A URL.
    Http(HttpEndpoint),
    /// An entry with an error, in a dialect in which one invalid entry does not prevent the others
    /// from running.
    Invalid(Diagnostic),
}

impl Endpoint {
    /// The reference syntax of its texts.
    pub fn syntax(&self) -> ReferenceSyntax {
        match self {
            Self::Stdio(stdio) => stdio.syntax,
            Self::Http(http) => http.syntax,
            Self::Invalid(_) => ReferenceSyntax::Literal,
        }
    }

    /// The package runner that may have to install the server before it starts.
    pub fn package_runner(&self) -> Option<&'static str> {
        match self {
            Self::Stdio(stdio) => package_runner::package_runner(&stdio.command, &stdio.args),
            Self::Http(_) | Self::Invalid(_) => None,
        }
    }

    /// Whether the entry itself has credentials, so that no login by a person is needed.
    pub fn has_own_token(&self) -> bool {
        let Self::Http(http) = self else { return false };
        http.auth.bearer_token.is_some()
            || http.auth.grant == OAuthGrant::ClientCredentials
            || http
                .headers
                .keys()
                .any(|name| name.eq_ignore_ascii_case("authorization"))
    }
}

/// A child process, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioEndpoint {
    /// The program: a name looked up in the child's PATH, or a path (`./x` is relative to the
    /// file's folder).
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// The program's own variables; values are secret.
    pub env: IndexMap<String, Secret>,
    /// Variables that are removed from the inherited ones.
    pub unset: Vec<String>,
    /// Whether the program gets the host's whole environment instead of the short list.
    pub inherit_env: bool,
    /// The working folder, relative to the file's folder; the host's own if absent.
    pub cwd: Option<String>,
    /// The reference syntax of these texts.
    pub syntax: ReferenceSyntax,
}

impl StdioEndpoint {
    /// A program and its arguments, with the short list of variables and the host's working folder.
    pub fn new(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self {
            command: command.into(),
            args,
            env: IndexMap::new(),
            unset: Vec::new(),
            inherit_env: false,
            cwd: None,
            syntax: ReferenceSyntax::default(),
        }
    }

    /// Whether the program gets this variable from the host's environment, if it is set there.
    pub fn inherits(&self, variable: &str) -> bool {
        let is_unset = self.unset.iter().any(|unset| unset == variable);
        (self.inherit_env || is_passed_on(variable)) && !is_unset
    }
}

/// A URL, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// The endpoint.
    pub url: String,
    /// Sent with each request; values are secret.
    pub headers: IndexMap<String, Secret>,
    /// The HTTP transport.
    pub wire: HttpTransportKind,
    /// Credentials, besides the headers.
    pub auth: HttpAuth,
    /// The reference syntax of these texts.
    pub syntax: ReferenceSyntax,
}

impl HttpEndpoint {
    /// A URL without headers or credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: IndexMap::new(),
            wire: HttpTransportKind::default(),
            auth: HttpAuth::default(),
            syntax: ReferenceSyntax::default(),
        }
    }
}

/// Credentials: a token, or the client to log in as. Texts are as written in an [`HttpEndpoint`]
/// and expanded in a [`ResolvedUrl`](crate::ResolvedUrl).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpAuth {
    /// Sent with each request, instead of a login.
    pub bearer_token: Option<Secret>,
    /// How a token is obtained.
    pub grant: OAuthGrant,
    /// The only authorization server that the fields below may be sent to; if absent, the first one
    /// they are used with.
    pub issuer: Option<String>,
    /// The client id, if the client was registered beforehand.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// The PEM file with the key of that client, relative to the file's folder.
    pub client_key: Option<String>,
    /// The https URL of a client ID metadata document.
    pub client_metadata_url: Option<String>,
    /// The scopes to request; if empty, those that the server names.
    pub scopes: Vec<String>,
    /// The port of the login callback; a free one if absent.
    pub callback_port: Option<u16>,
}

/// How a token is obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OAuthGrant {
    /// A person logs in.
    #[default]
    AuthorizationCode,
    /// The client logs in by itself.
    ClientCredentials,
}

/// Which HTTP transport to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpTransportKind {
    /// Streamable HTTP, then HTTP+SSE as the specification says.
    #[default]
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE.
    Sse,
}
