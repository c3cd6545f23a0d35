//! A server that requires a login, and its authorization server: both on one local port, with
//! behaviour that a test sets.
//!
//! It is an ordinary MCP server otherwise (legacy Streamable HTTP, JSON answers, one tool), so that
//! a whole host can be tested with it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// The two servers. They end with the process.
#[derive(Debug, Clone)]
pub struct LoginServer {
    /// `127.0.0.1:PORT`.
    pub authority: String,
    state: Arc<Mutex<State>>,
}

/// The behaviour of the servers; changed at any time with [`LoginServer::set`].
#[derive(Debug, Clone)]
pub struct LoginTerms {
    /// The path of the authorization server in charge: `as1`.
    pub issuer: String,
    /// The scope that the challenge names.
    pub scope: Option<String>,
    /// The scope that `tools/call` requires.
    pub call_scope: Option<String>,
    /// How long a token lasts.
    pub expires_in: Option<u64>,
    /// Whether a token can be refreshed.
    pub renews: bool,
    /// The response of the token endpoint instead of a token: status and body.
    pub token_fault: Option<(u16, Value)>,
    /// Clients that the authorization server no longer knows: its token endpoint rejects them.
    pub forgotten_clients: Vec<String>,
    /// Whether a response of the token endpoint is held back; the token is exchanged all the same.
    pub holds_tokens: bool,
    /// `iss` of the response; `None` sends none.
    pub iss: Option<String>,
    /// The error of the login page.
    pub denied: Option<String>,
    /// Members of the authorization server's metadata that differ; null removes one.
    pub metadata: Value,
    /// Members of the protected resource's metadata that differ.
    pub resource: Value,
}

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginRequest {
    /// `GET`, `POST`.
    pub method: String,
    /// Without the query.
    pub path: String,
    /// The names of its headers in lower case, and their values.
    pub headers: Vec<(String, String)>,
    /// `Authorization`, as it came.
    pub authorization: Option<String>,
    /// The query, or the form.
    pub fields: BTreeMap<String, String>,
    /// The body, as it came.
    pub body: String,
}

#[derive(Debug)]
struct State {
    terms: LoginTerms,
    seen: Vec<LoginRequest>,
    /// Valid access tokens with their scopes.
    tokens: BTreeMap<String, String>,
    /// Valid refresh tokens with their issuers.
    renewals: BTreeMap<String, String>,
    /// Codes with their scopes.
    codes: BTreeMap<String, String>,
    count: u32,
}

impl LoginServer {
    /// Starts both.
    #[allow(clippy::new_without_default, reason = "it starts a thread")]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of this machine");
        let authority = listener.local_addr().expect("it is bound").to_string();
        let terms = LoginTerms {
            issuer: "as1".to_owned(),
            scope: None,
            call_scope: None,
            expires_in: Some(3600),
            renews: true,
            token_fault: None,
            forgotten_clients: Vec::new(),
            holds_tokens: false,
            iss: Some(format!("http://{authority}/as1")),
            denied: None,
            metadata: json!({}),
            resource: json!({}),
        };
        let (seen, tokens, renewals, codes) = Default::default();
        let server = Self {
            authority,
            state: Arc::new(Mutex::new(State {
                terms,
                seen,
                tokens,
                renewals,
                codes,
                count: 0,
            })),
        };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    /// The MCP server's address.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.authority)
    }

    /// Changes what the servers do.
    pub fn set(&self, change: impl FnOnce(&mut LoginTerms)) {
        change(&mut self.state().terms);
    }

    /// Invalidates all issued access tokens; refresh tokens stay valid.
    pub fn end_tokens(&self) {
        self.state().tokens.clear();
    }

    /// A token that is valid without a login.
    pub fn admit(&self, token: &str, scopes: &str) {
        self.state()
            .tokens
            .insert(token.to_owned(), scopes.to_owned());
    }

    /// All received requests.
    pub fn seen(&self) -> Vec<LoginRequest> {
        self.state().seen.clone()
    }

    /// The requests to a path, such as `/as1/token`.
    pub fn seen_at(&self, path: &str) -> Vec<LoginRequest> {
        self.seen()
            .into_iter()
            .filter(|request| request.path == path)
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) {
        let Some(request) = read(&stream) else { return };
        let mut state = self.state();
        state.seen.push(request.clone());
        let answer = state.answer(&request, &self.authority);
        drop(state);
        while request.path.ends_with("/token") && self.state().terms.holds_tokens {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let Answer {
            status,
            headers,
            body,
        } = answer;
        let mut text = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n",
            body.len()
        );
        headers
            .iter()
            .for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        // The requester may be gone.
        let _ = stream.write_all(format!("{text}\r\n{body}").as_bytes());
    }
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Answer {
    fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: body.to_string(),
        }
    }

    fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }
}

impl State {
    fn answer(&mut self, request: &LoginRequest, authority: &str) -> Answer {
        let base = format!("http://{authority}");
        let path = request.path.trim_start_matches('/').to_owned();
        if path == "mcp" {
            return self.mcp(request, &base);
        }
        if path == ".well-known/oauth-protected-resource/mcp" {
            let servers = [format!("{base}/{}", self.terms.issuer)];
            let document =
                json!({ "resource": format!("{base}/mcp"), "authorization_servers": servers });
            return Answer::json(200, &merged(document, &self.terms.resource));
        }
        if let Some(issuer) = path.strip_prefix(".well-known/oauth-authorization-server/") {
            let at = format!("{base}/{issuer}");
            let document = json!({
                "issuer": at, "authorization_endpoint": format!("{at}/authorize"), "token_endpoint": format!("{at}/token"),
                "registration_endpoint": format!("{at}/register"), "revocation_endpoint": format!("{at}/revoke"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            });
            return Answer::json(200, &merged(document, &self.terms.metadata));
        }
        match path.split_once('/') {
            Some((_, "authorize")) => self.authorize(request),
            Some((issuer, "token")) => self.token(request, issuer),
            Some((issuer, "register")) => {
                self.count += 1;
                let redirects = serde_json::from_str::<Value>(&request.body).unwrap_or_default()["redirect_uris"].clone();
                let id = format!("{issuer}-registered-{}", self.count);
                Answer::json(201, &json!({ "client_id": id, "redirect_uris": redirects }))
            }
            Some((_, "revoke")) => Answer::empty(200),
            _ => Answer::empty(404),
        }
    }

    fn authorize(&mut self, request: &LoginRequest) -> Answer {
        let field = |name: &str| request.fields.get(name).cloned().unwrap_or_default();
        self.count += 1;
        let code = format!("code-{}", self.count);
        let mut to = format!(
            "{}?state={}",
            field("redirect_uri"),
            encoded(&field("state"))
        );
        match &self.terms.denied {
            Some(error) => to.push_str(&format!("&error={}", encoded(error))),
            None => to.push_str(&format!("&code={code}")),
        }
        if let Some(iss) = &self.terms.iss {
            to.push_str(&format!("&iss={}", encoded(iss)));
        }
        self.codes.insert(code, field("scope"));
        Answer {
            status: 302,
            headers: vec![("Location", to)],
            body: String::new(),
        }
    }

    fn token(&mut self, request: &LoginRequest, issuer: &str) -> Answer {
        if let Some((status, body)) = &self.terms.token_fault {
            return Answer::json(*status, body);
        }
        let field = |name: &str| request.fields.get(name).cloned().unwrap_or_default();
        if self.terms.forgotten_clients.contains(&field("client_id")) {
            return Answer::json(401, &json!({ "error": "invalid_client" }));
        }
        let refused = || Answer::json(400, &json!({ "error": "invalid_grant" }));
        let scope = match field("grant_type").as_str() {
            "authorization_code" => match self.codes.remove(&field("code")) {
                Some(scope) if !field("code_verifier").is_empty() => scope,
                _ => return refused(),
            },
            // Rotated: a refresh token can be used once.
            "refresh_token" => match self.renewals.remove(&field("refresh_token")) {
                Some(given) if given == issuer => field("scope"),
                _ => return refused(),
            },
            "client_credentials" => field("scope"),
            _ => return refused(),
        };
        self.count += 1;
        let (access, refresh) = (
            format!("canary-access-{issuer}-{}", self.count),
            format!("canary-refresh-{issuer}-{}", self.count),
        );
        self.tokens.insert(access.clone(), scope.clone());
        let mut token = json!({ "access_token": access, "token_type": "Bearer" });
        if let Some(seconds) = self.terms.expires_in {
            token["expires_in"] = seconds.into();
        }
        if self.terms.renews && field("grant_type") != "client_credentials" {
            token["refresh_token"] = refresh.clone().into();
            self.renewals.insert(refresh, issuer.to_owned());
        }
        if !scope.is_empty() {
            token["scope"] = scope.into();
        }
        Answer::json(200, &token)
    }

    fn mcp(&mut self, request: &LoginRequest, base: &str) -> Answer {
        let token = request
            .authorization
            .as_deref()
            .and_then(|value| value.strip_prefix("Bearer "));
        let metadata =
            format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
        let scope = |scope: &Option<String>| {
            scope
                .as_ref()
                .map(|scope| format!(", scope=\"{scope}\""))
                .unwrap_or_default()
        };
        let Some(scopes) = token.and_then(|token| self.tokens.get(token)) else {
            let mut answer = Answer::empty(401);
            answer.headers.push((
                "WWW-Authenticate",
                format!("Bearer {metadata}{}", scope(&self.terms.scope)),
            ));
            return answer;
        };
        if request.method != "POST" {
            return Answer::empty(if request.method == "DELETE" { 200 } else { 405 });
        }
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        if method == "tools/call"
            && let Some(wanted) = &self.terms.call_scope
            && !scopes.split(' ').any(|scope| scope == wanted)
        {
            let mut answer = Answer::empty(403);
            let wants = format!(
                "Bearer error=\"insufficient_scope\", {metadata}{}",
                scope(&self.terms.call_scope)
            );
            answer.headers.push(("WWW-Authenticate", wants));
            return answer;
        }
        if message.get("id").is_none() {
            return Answer::empty(202);
        }
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "guarded", "version": "1" },
            }),
            "ping" => json!({}),
            "tools/list" => {
                json!({ "tools": [{ "name": "whoami", "inputSchema": { "type": "object" } }] })
            }
            "tools/call" => json!({ "content": [{ "type": "text", "text": "somebody" }] }),
            _ => {
                let error = json!({ "code": -32601, "message": "no such method" });
                return Answer::json(
                    200,
                    &json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
                );
            }
        };
        Answer::json(
            200,
            &json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
        )
    }
}

fn merged(mut document: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().into_iter().flatten() {
        match value {
            Value::Null => drop(
                document
                    .as_object_mut()
                    .and_then(|document| document.remove(name)),
            ),
            value => document[name] = value.clone(),
        }
    }
    document
}

fn read(stream: &TcpStream) -> Option<LoginRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    // A request through a proxy names the whole URL.
    let target = target
        .strip_prefix("http://")
        .and_then(|rest| rest.find('/').map(|path| &rest[path..]))
        .unwrap_or(target);
    let target = target.to_owned();
    let (mut length, mut authorization, mut headers) = (0, None, Vec::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else {
            break;
        };
        let name = name.to_ascii_lowercase();
        headers.push((name.clone(), value.trim().to_owned()));
        match name.as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, &body));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let fields = pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect();
    Some(LoginRequest {
        method,
        path: path.to_owned(),
        headers,
        authorization,
        fields,
        body: body.clone(),
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or(b'?')
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
