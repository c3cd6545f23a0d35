//! The login of an operator's browser: a one-time code in a link becomes a cookie; each form carries
//! a token that is bound to the cookie.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hyper::HeaderMap;
use hyper::header::{COOKIE, HOST, ORIGIN};

use crate::seal::random;
use switchboard::sync::lock;

/// How long a code can be used.
const CODE_LIFETIME: Duration = Duration::from_secs(3600);

/// How long a browser stays logged in.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Browsers that are logged in at the same time; beyond them, the oldest login ends.
const MAX_SESSIONS: usize = 16;

/// Logins of browsers, in memory only: a restart ends them.
#[derive(Debug)]
pub(super) struct BrowserLogins {
    /// The name of the cookie. All ports of a host share cookies, so each gateway has its own name.
    cookie: String,
    key: [u8; 32],
    state: Mutex<LoginState>,
}

#[derive(Debug, Default)]
struct LoginState {
    /// The digest of the code that can be used, and until when.
    code: Option<(blake3::Hash, Instant)>,
    /// The digests of the cookies, the oldest first.
    sessions: VecDeque<(blake3::Hash, Instant)>,
}

impl BrowserLogins {
    pub(super) fn new() -> io::Result<Self> {
        let id: [u8; 6] = random()?;
        Ok(Self {
            cookie: format!("switchboard_{}", BASE64.encode(id)),
            key: random()?,
            state: Mutex::default(),
        })
    }

    /// A new code, which replaces the one before.
    pub(super) fn new_code(&self) -> io::Result<String> {
        let code = secret()?;
        let until = Instant::now() + CODE_LIFETIME;
        lock(&self.state).code = Some((blake3::hash(code.as_bytes()), until));
        Ok(code)
    }

    /// Uses the code up; returns the header that sets the cookie.
    pub(super) fn use_code(&self, code: &str) -> Option<String> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let (digest, until) = state.code?;
        if digest != blake3::hash(code.as_bytes()) || until < now {
            return None;
        }
        state.code = None;
        let session = secret().ok()?;
        if state.sessions.len() >= MAX_SESSIONS {
            state.sessions.pop_front();
        }
        let digest = blake3::hash(session.as_bytes());
        state.sessions.push_back((digest, now + SESSION_LIFETIME));
        Some(format!(
            "{}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}",
            self.cookie,
            SESSION_LIFETIME.as_secs()
        ))
    }

    /// Ends the login of a browser; returns the header that removes the cookie.
    pub(super) fn log_out(&self, headers: &HeaderMap) -> String {
        if let Some(session) = self.session(headers) {
            let digest = blake3::hash(session.as_bytes());
            let sessions = &mut lock(&self.state).sessions;
            sessions.retain(|(known, _)| *known != digest);
        }
        format!(
            "{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0",
            self.cookie
        )
    }

    /// The token of the forms of a browser that is logged in.
    pub(super) fn form_token(&self, headers: &HeaderMap) -> Option<String> {
        let session = self.session(headers)?;
        let digest = blake3::hash(session.as_bytes());
        let now = Instant::now();
        let is_known = lock(&self.state)
            .sessions
            .iter()
            .any(|(known, until)| *known == digest && *until > now);
        let token = blake3::keyed_hash(&self.key, session.as_bytes());
        is_known.then(|| token.to_hex().to_string())
    }

    /// Whether a form was sent by a page of ours: from the same origin, with its token.
    pub(super) fn is_our_form(&self, headers: &HeaderMap, body: &[u8], token: &str) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_same_origin = match (text(ORIGIN.as_str()), text(HOST.as_str())) {
            (Some(origin), Some(host)) => {
                origin.strip_prefix("http://") == Some(host)
                    || origin.strip_prefix("https://") == Some(host)
            }
            _ => text("sec-fetch-site") == Some("same-origin"),
        };
        let sent = form_field(body, "token").unwrap_or_default();
        // Compared as digests, so that the time reveals nothing about the token.
        let is_same_token = blake3::hash(sent.as_bytes()) == blake3::hash(token.as_bytes());
        is_same_origin && is_same_token
    }

    fn session<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        pairs
            .find(|(name, _)| *name == self.cookie)
            .map(|(_, session)| session)
    }
}

/// A field of a form.
pub(super) fn form_field(body: &[u8], name: &str) -> Option<String> {
    let mut fields = url::form_urlencoded::parse(body);
    fields
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

fn secret() -> io::Result<String> {
    let bytes: [u8; 32] = random()?;
    Ok(BASE64.encode(bytes))
}
