//! The HTTP routes of an operator: the pages `/`, `/servers/NAME`, `/approvals/NUMBER` and
//! `/calls/NUMBER` with their forms, `/healthz`, `/readyz` and `/metrics`.
//!
//! A browser logs in with a one-time link (`login`); a client's bearer token opens none of the pages.
//! All text is escaped by the template; text of servers passes through `text` as well. The pages are
//! complete without script: the script only fetches them again when something changed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use switchboard::BoxFuture;
use tokio::sync::mpsc;

use crate::RefusalReason;
use crate::edge::http::{HttpBody, HttpRoutes, RouteRequest};
use crate::path_segment;
use crate::{ListingSettings, Operations};
use login::BrowserLogins;

mod login;
mod overview;
mod problems;
mod requests;
mod server;
mod text;

/// Allows only this origin's own style, script and stream, and no HTML from text in scripts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// At most one event is sent in this time.
const EVENT_PAUSE: Duration = Duration::from_millis(500);

/// A stream without events sends one after this time, which also updates the ages on the page.
const EVENT_IDLE: Duration = Duration::from_secs(10);

/// The routes of the operator's page.
#[derive(Debug)]
pub struct OperatorPage {
    operations: Arc<Operations>,
    login: BrowserLogins,
    /// Whether `/metrics` needs no token.
    is_metrics_open: bool,
    listing: ListingSettings,
}

impl OperatorPage {
    /// The page of a gateway.
    pub fn new(operations: Arc<Operations>) -> io::Result<Self> {
        Ok(Self {
            operations,
            login: BrowserLogins::new()?,
            is_metrics_open: false,
            listing: ListingSettings::default(),
        })
    }

    /// How tools are listed: only what is repaired is shown as repaired.
    pub fn with_listing(mut self, listing: ListingSettings) -> Self {
        self.listing = listing;
        self
    }

    /// Anybody who reaches the address may read `/metrics`, without a client's token.
    pub fn with_open_metrics(mut self, is_open: bool) -> Self {
        self.is_metrics_open = is_open;
        self
    }

    /// The path of a link that logs one browser in, once. It replaces an earlier one.
    pub fn login_path(&self) -> io::Result<String> {
        Ok(format!("/login?k={}", self.login.new_code()?))
    }

    async fn answer(&self, request: RouteRequest) -> Option<Response<HttpBody>> {
        let path = request.uri.path().to_owned();
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        let open = match path.as_str() {
            "/healthz" if is_read => plain(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" if is_read => self.readiness(),
            "/metrics" if is_read => self.metrics(&request),
            "/page.css" if is_read => asset("text/css; charset=utf-8", STYLE),
            "/page.js" if is_read => asset("text/javascript; charset=utf-8", SCRIPT),
            "/login" if request.method == Method::GET => self.log_in(&request),
            // Uses no code up: programs that look at a link may send it.
            "/login" if is_read => plain(StatusCode::OK, String::new()),
            _ => return self.answer_operator(&path, is_read, request).await,
        };
        Some(open)
    }

    /// Responses for an operator's browser only.
    async fn answer_operator(
        &self,
        path: &str,
        is_read: bool,
        request: RouteRequest,
    ) -> Option<Response<HttpBody>> {
        let is_known = ["/", "/events", "/logout"].contains(&path)
            || ["/servers/", "/approvals/", "/calls/", "/changes/"]
                .iter()
                .any(|folder| path.starts_with(folder));
        if !is_known {
            return None;
        }
        let Some(token) = self.login.form_token(&request.headers) else {
            let response = page(
                StatusCode::UNAUTHORIZED,
                overview::login_needed(&self.operations),
            );
            // An open page asks again and again after its login ended, which is no attempt to do anything.
            return Some(match is_read {
                true => response,
                false => refused(response, RefusalReason::MissingLogin),
            });
        };
        if !is_read {
            if !self
                .login
                .is_our_form(&request.headers, &request.body, &token)
            {
                let message = "this form was not sent by the page; load the page again\n";
                let response = plain(StatusCode::FORBIDDEN, message.to_owned());
                return Some(refused(response, RefusalReason::ForgedForm));
            }
            if path == "/logout" {
                return Some(with_cookie(
                    see_other("/"),
                    &self.login.log_out(&request.headers),
                ));
            }
            return Some(self.act(path, &request.body).await);
        }
        Some(match path {
            "/" => {
                let filter = requests::AuditFilter::read(request.uri.query());
                let view = overview::render(&self.operations, &filter, &token);
                page(StatusCode::OK, view)
            }
            "/events" => self.events(request),
            _ if path.starts_with("/calls/") => {
                let text = &path["/calls/".len()..];
                let number = text.parse().ok();
                match number.and_then(|number| requests::one(&self.operations, number, &token)) {
                    Some(view) => page(StatusCode::OK, view),
                    None => page(
                        StatusCode::NOT_FOUND,
                        requests::unknown(&self.operations, text),
                    ),
                }
            }
            _ if path.starts_with("/approvals/") => {
                let number = path["/approvals/".len()..].parse().ok();
                match number.and_then(|id| overview::approval(&self.operations, id, &token)) {
                    Some(view) => page(StatusCode::OK, view),
                    None => not_found("This call waits no more"),
                }
            }
            _ => {
                let name = path.strip_prefix("/servers/");
                let name = name.and_then(path_segment::decode);
                match name.and_then(|name| self.operations.host.server(&name)) {
                    Some(server) => {
                        let view = server::render(&self.operations, &server, self.listing, &token);
                        page(StatusCode::OK, view)
                    }
                    None => not_found("No server has this name"),
                }
            }
        })
    }

    /// Handles a form.
    async fn act(&self, path: &str, body: &Bytes) -> Response<HttpBody> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let number = |text: &str| text.parse::<u64>().ok();
        let by = "the status page";
        let is_done = match parts.as_slice() {
            ["approvals", id] => {
                let allowed = match login::form_field(body, "decision").as_deref() {
                    Some("allow") => Some(true),
                    Some("deny") => Some(false),
                    _ => None,
                };
                number(id)
                    .zip(allowed)
                    .and_then(|(id, allowed)| self.operations.decide(id, allowed, by))
                    .is_some()
            }
            ["calls", id, "cancel"] => number(id).is_some_and(|id| self.operations.cancel(id, by)),
            ["servers", name, "restart"] => match path_segment::decode(name) {
                Some(name) if self.operations.restart(&name, by).await => true,
                _ => return conflict("no server has this name; load the page again"),
            },
            ["changes", id, "accept"] => match self.operations.accept(id, by).await {
                Ok(()) => true,
                Err(error) => return conflict(&error),
            },
            _ => false,
        };
        if !is_done {
            return conflict("it has been answered or has ended already; load the page again");
        }
        see_other("/")
    }

    fn log_in(&self, request: &RouteRequest) -> Response<HttpBody> {
        let code = request.uri.query().and_then(|query| {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs
                .find(|(key, _)| key == "k")
                .map(|(_, code)| code.into_owned())
        });
        match code.and_then(|code| self.login.use_code(&code)) {
            Some(cookie) => with_cookie(see_other("/"), &cookie),
            None => {
                let response = page(
                    StatusCode::UNAUTHORIZED,
                    overview::login_needed(&self.operations),
                );
                refused(response, RefusalReason::WrongLogin)
            }
        }
    }

    /// Ready as soon as clients are served: a server that is down is no reason to stop traffic.
    fn readiness(&self) -> Response<HttpBody> {
        let servers = self.operations.host.servers();
        let ready = servers
            .iter()
            .filter(|server| server.snapshot().session.is_some())
            .count();
        let text = format!("ok\n{ready} of {} servers connected\n", servers.len());
        plain(StatusCode::OK, text)
    }

    fn metrics(&self, request: &RouteRequest) -> Response<HttpBody> {
        if let (false, Err(reason)) = (self.is_metrics_open, &request.principal) {
            let message = "metrics need a client's token (switchboard token new NAME)\n";
            let response = plain(StatusCode::UNAUTHORIZED, message.to_owned());
            return refused(response, *reason);
        }
        let mut response = plain(StatusCode::OK, self.operations.metrics.text());
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    /// An event whenever something on the page changed. The task ends with its reader.
    fn events(&self, request: RouteRequest) -> Response<HttpBody> {
        let (sender, receiver) = mpsc::channel(4);
        let mut closing = request.closing;
        let mut approvals = self.operations.approvals.changes();
        let mut audit = self.operations.audit.changes();
        let mut events = self.operations.host.events();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = closing.wait_for(|closing| *closing) => return,
                    () = sender.closed() => return,
                    changed = approvals.changed() => if changed.is_err() { return },
                    changed = audit.changed() => if changed.is_err() { return },
                    event = events.next() => if event.is_none() { return },
                    () = tokio::time::sleep(EVENT_IDLE) => {}
                }
                let event = Bytes::from_static(b"data: changed\n\n");
                if sender.send(event).await.is_err() {
                    return;
                }
                tokio::time::sleep(EVENT_PAUSE).await;
            }
        });
        let mut response = Response::new(HttpBody::pieces(receiver));
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        guarded(response)
    }
}

impl HttpRoutes for OperatorPage {
    fn respond(&self, request: RouteRequest) -> BoxFuture<'_, Option<Response<HttpBody>>> {
        Box::pin(self.answer(request))
    }
}

/// A response that refuses its request, for the edge to record.
fn refused(mut response: Response<HttpBody>, reason: RefusalReason) -> Response<HttpBody> {
    response.extensions_mut().insert(reason);
    response
}

fn page(status: StatusCode, markup: maud::Markup) -> Response<HttpBody> {
    let mut response = plain(status, markup.into_string());
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn not_found(message: &str) -> Response<HttpBody> {
    page(StatusCode::NOT_FOUND, overview::not_found(message))
}

/// The answer to a form that has no effect any more.
fn conflict(message: &str) -> Response<HttpBody> {
    plain(StatusCode::CONFLICT, format!("{message}\n"))
}

fn asset(kind: &'static str, text: &'static str) -> Response<HttpBody> {
    let mut response = plain(StatusCode::OK, text.to_owned());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn plain(status: StatusCode, text: String) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::whole(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    guarded(response)
}

fn see_other(path: &'static str) -> Response<HttpBody> {
    let mut response = plain(StatusCode::SEE_OTHER, String::new());
    response
        .headers_mut()
        .insert(LOCATION, HeaderValue::from_static(path));
    response
}

fn with_cookie(mut response: Response<HttpBody>, cookie: &str) -> Response<HttpBody> {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The security headers of every response.
fn guarded(mut response: Response<HttpBody>) -> Response<HttpBody> {
    const HEADERS: [(HeaderName, &str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer` a browser sends `Origin: null` with a form, which is then refused.
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
