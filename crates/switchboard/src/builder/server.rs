//! A server that a program describes in its own code, instead of in a file.

use std::time::Duration;

use crate::config::{
    Endpoint, HttpEndpoint, MAX_TIMEOUT, Protocol, ReferenceSyntax, ServerConfig, Source, Start,
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
    protocol: Protocol,
    include_tools: Vec<String>,
    exclude_tools: Vec<String>,
    idempotent_tools: Vec<String>,
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
            protocol: Protocol::default(),
            include_tools: Vec::new(),
            exclude_tools: Vec::new(),
            idempotent_tools: Vec::new(),
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

    /// Sets how long a call may take in all, at most [`MAX_TIMEOUT`].
    pub fn call_timeout_max(mut self, limit: Duration) -> Self {
        let limit = limit.min(MAX_TIMEOUT);
        self.timeouts.call_max = limit;
        self.timeouts.call = self.timeouts.call.min(limit);
        self
    }

    /// Fixes the protocol era, which is otherwise detected.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Marks tools, as globs, whose calls may be sent again after a lost response.
    pub fn idempotent_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.idempotent_tools
            .extend(tools.into_iter().map(Into::into));
        self
    }

    /// Includes only these tools, as globs.
    pub fn include_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.include_tools.extend(tools.into_iter().map(Into::into));
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
            _ => self.refuse(format!(
                "`{field}` applies to a server with a command; this one has a URL"
            )),
        }
        self
    }

    fn url(mut self, field: &str, set: impl FnOnce(&mut HttpEndpoint)) -> Self {
        match &mut self.endpoint {
            Endpoint::Http(endpoint) => set(endpoint),
            _ => self.refuse(format!(
                "`{field}` applies to a server with a URL; this one has a command"
            )),
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
        config.protocol = self.protocol;
        config.exclude_tools = self.exclude_tools;
        config.idempotent_tools = self.idempotent_tools;
        if !self.include_tools.is_empty() {
            config.include_tools = Some(self.include_tools);
        }
        if let Some(limit) = self.connect_timeout {
            // The limit applies to a first start too.
            config.timeouts.connect = limit;
            config.first_connect = None;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_in_code_become_those_of_the_entry() {
        let server = Server::stdio("files", "serve-files")
            .protocol(Protocol::Legacy)
            .include_tools(["read_*"])
            .exclude_tools(["read_secret"])
            .idempotent_tools(["read_file"])
            .call_timeout_max(Duration::from_secs(20));
        let config = server.into_config().expect("it is valid");
        assert_eq!(config.protocol, Protocol::Legacy);
        assert_eq!(config.include_tools, Some(vec!["read_*".to_owned()]));
        assert_eq!(config.exclude_tools, ["read_secret"]);
        assert_eq!(config.idempotent_tools, ["read_file"]);
        let twenty = Duration::from_secs(20);
        assert_eq!(config.timeouts.call_max, twenty);
        assert!(config.timeouts.call <= twenty, "no longer than the maximum");
        let plain = Server::stdio("files", "serve-files").into_config();
        let plain = plain.expect("it is valid");
        assert_eq!(
            (plain.include_tools, plain.protocol),
            (None, Protocol::Auto)
        );
    }
}
