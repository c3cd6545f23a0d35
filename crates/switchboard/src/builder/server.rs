//! A server that a program describes in its own code, instead of in a file.

use std::time::Duration;

use crate::config::{
    Endpoint, HttpEndpoint, MAX_TIMEOUT, ReferenceSyntax, ServerConfig, Source, Start,
    StdioEndpoint, Timeouts,
};
use crate::name::ServerName;
use crate::secret::Secret;

/// A server, described in code. Texts are literal: no variable in them is expanded. Errors in it
/// are reported by [`HostBuilder::start`](crate::HostBuilder::start).
///
/// ```
/// use switchboard::Server;
///
/// let files = Server::stdio("files", "npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]);
/// let tracker = Server::http("tracker", "https://tracker.example.com/mcp").bearer("secret-token");
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    name: String,
    endpoint: Endpoint,
    start: Start,
    timeouts: Timeouts,
    connect_timeout: Option<Duration>,
    exclude_tools: Vec<String>,
    /// The first setting that does not apply to its kind of endpoint.
    error: Option<String>,
}

impl Server {
    /// A child process, with its standard streams as transport.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> Self {
        let endpoint = StdioEndpoint {
            syntax: ReferenceSyntax::Literal,
            ..StdioEndpoint::new(command, [""; 0])
        };
        Self::new(name, Endpoint::Stdio(endpoint))
    }

    /// A server with a URL.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        let endpoint = HttpEndpoint {
            syntax: ReferenceSyntax::Literal,
            ..HttpEndpoint::new(url)
        };
        Self::new(name, Endpoint::Http(endpoint))
    }

    fn new(name: impl Into<String>, endpoint: Endpoint) -> Self {
        Self {
            name: name.into(),
            endpoint,
            start: Start::default(),
            timeouts: Timeouts::default(),
            connect_timeout: None,
            exclude_tools: Vec::new(),
            error: None,
        }
    }

    /// Adds arguments of the command.
    pub fn args(self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.process("args", |endpoint| {
            endpoint.args.extend(args.into_iter().map(Into::into));
        })
    }

    /// Sets an environment variable of the process.
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.process("env", |endpoint| {
            endpoint.env.insert(name.into(), Secret::new(value));
        })
    }

    /// Sets the working folder of the process.
    pub fn cwd(self, folder: impl Into<String>) -> Self {
        self.process("cwd", |endpoint| endpoint.cwd = Some(folder.into()))
    }

    /// Sets a token that is sent with each request.
    pub fn bearer(self, token: impl Into<String>) -> Self {
        self.url("bearer", |endpoint| {
            endpoint.auth.bearer_token = Some(Secret::new(token));
        })
    }

    /// Sets a header that is sent with each request.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.url("header", |endpoint| {
            endpoint.headers.insert(name.into(), Secret::new(value));
        })
    }

    /// Starts the server on first use, instead of with the host.
    pub fn lazy(mut self) -> Self {
        self.start = Start::Lazy;
        self
    }

    /// Sets the time limit of connecting, at most [`MAX_TIMEOUT`].
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = Some(limit.min(MAX_TIMEOUT));
        self
    }

    /// Sets how long a call may go without progress, at most [`MAX_TIMEOUT`].
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        let limit = limit.min(MAX_TIMEOUT);
        self.timeouts.call = limit;
        self.timeouts.call_max = self.timeouts.call_max.max(limit);
        self
    }

    /// Excludes tools, as globs.
    pub fn exclude_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.exclude_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    fn process(mut self, field: &str, set: impl FnOnce(&mut StdioEndpoint)) -> Self {
        match &mut self.endpoint {
            Endpoint::Stdio(endpoint) => set(endpoint),
            _ => self.refuse(format!("`{field}` is for a process, and it has a URL")),
        }
        self
    }

    fn url(mut self, field: &str, set: impl FnOnce(&mut HttpEndpoint)) -> Self {
        match &mut self.endpoint {
            Endpoint::Http(endpoint) => set(endpoint),
            _ => self.refuse(format!("`{field}` is for a URL, and it is a process")),
        }
        self
    }

    fn refuse(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    /// Converts it to an entry; the error is the invalid field and the reason.
    pub(super) fn into_config(self) -> Result<ServerConfig, (String, String)> {
        let field = format!("servers.{}", self.name);
        let name =
            ServerName::new(&self.name).map_err(|error| (field.clone(), error.to_string()))?;
        if let Some(error) = self.error {
            return Err((field, error));
        }
        let mut config = ServerConfig::new(name, Source::code(), self.endpoint);
        config.start = self.start;
        config.timeouts = self.timeouts;
        config.exclude_tools = self.exclude_tools;
        if let Some(limit) = self.connect_timeout {
            // The limit applies to a first start too.
            config.timeouts.connect = limit;
            config.first_connect = None;
        }
        Ok(config)
    }
}
