//! Sends one request to an endpoint: authorizes it, repeats it after a login, and follows redirects
//! within the origin.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Method, StatusCode};
use url::Url;

use super::direct::DirectPool;
use super::request::HttpRequest;
use super::response::HttpResponse;
use super::{HttpStack, HttpTarget, connection_fault, headers, status_fault};
use crate::secret::Secret;
use crate::transport::{AuthRejection, Credentials};
use crate::transport::{ConnectFault, TransportFault};
use crate::untrusted::quoted;

/// A token refresh may be followed by a login for more scopes; a further rejection is final.
const MAX_REJECTIONS: usize = 3;

/// The most redirects that are followed in a row.
const MAX_REDIRECTS: usize = 5;

/// An MCP endpoint and what all requests to it share.
pub(in crate::transport) struct McpEndpoint {
    pool: reqwest::Client,
    /// Our own pool, if it applies.
    direct: Option<DirectPool>,
    pub(in crate::transport) url: Url,
    /// The headers of every POST.
    pub(in crate::transport) post_headers: HeaderMap,
    /// The headers of every GET that opens an event stream.
    pub(in crate::transport) get_headers: HeaderMap,
    credentials: Arc<dyn Credentials>,
    pub(in crate::transport) max_message_bytes: usize,
    /// Host and port, for messages.
    pub(in crate::transport) address: String,
    /// The address and the proxy in front of it.
    route: String,
}

impl McpEndpoint {
    /// The endpoint for our messages, and the same over other connections for responses to the
    /// server, which our requests cannot block.
    pub(in crate::transport) fn with_reply_endpoint(
        stack: &HttpStack,
        target: &HttpTarget,
    ) -> Result<(Self, Self), ConnectFault> {
        let reply_endpoint = Self::new(&stack.for_replies(), target)?;
        Ok((Self::new(stack, target)?, reply_endpoint))
    }

    fn new(stack: &HttpStack, target: &HttpTarget) -> Result<Self, ConnectFault> {
        let mut url = target.url.clone();
        let host = match url.scheme() {
            "http" | "https" => url.host_str().unwrap_or_default().to_owned(),
            scheme => {
                return Err(ConnectFault(format!(
                    "its URL begins with {}; expected http or https",
                    quoted(scheme)
                )));
            }
        };
        let post_headers = headers::for_post(&url, &target.headers)?;
        // User and password are sent as a header; a fragment is not sent. These calls cannot fail
        // on a URL with a host.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        url.set_fragment(None);
        let address = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
        Ok(Self {
            pool: stack.pool.clone(),
            direct: if stack.has_proxies() {
                None
            } else {
                DirectPool::for_url(&url)
            },
            get_headers: headers::for_get(&post_headers),
            post_headers,
            credentials: target.credentials.clone(),
            max_message_bytes: target.max_message_bytes,
            route: stack.describe_route(&url, &address),
            address,
            url,
        })
    }

    /// Sends a request and returns the response, whatever its status. A rejected request is sent
    /// again if the credentials could be renewed.
    pub(in crate::transport) async fn send(
        &self,
        request: HttpRequest<'_>,
    ) -> Result<HttpResponse, TransportFault> {
        let mut rejections = 0;
        loop {
            let sent = self
                .credentials
                .authorization()
                .await
                .map_err(TransportFault::NeedsLogin)?;
            let authorized = sent
                .as_ref()
                .map(|sent| with_token(request.extra_headers, sent))
                .transpose()?;
            let authorized =
                request.with_extra_headers(authorized.as_ref().or(request.extra_headers));
            let mut response = self.send_once(&authorized).await?;
            if response.status().is_redirection() {
                // Rare branches are boxed: they would make every request's future larger.
                response = Box::pin(self.follow_redirects(&authorized, response)).await?;
            }
            // The end of a session is not worth a login.
            let challenge =
                login_challenge(&response).filter(|_| *request.method != Method::DELETE);
            let Some(challenge) = challenge else {
                return Ok(response);
            };
            rejections += 1;
            if rejections > MAX_REJECTIONS {
                return Err(Box::pin(status_fault::read(response, None)).await);
            }
            self.handle_rejection(response.status(), challenge.as_deref(), sent.as_ref())
                .await?;
        }
    }

    async fn handle_rejection(
        &self,
        status: StatusCode,
        challenge: Option<&str>,
        sent: Option<&Secret>,
    ) -> Result<(), TransportFault> {
        let rejection = AuthRejection {
            status: status.as_u16(),
            challenge,
            sent,
        };
        self.credentials
            .rejected(rejection)
            .await
            .map_err(TransportFault::NeedsLogin)
    }

    /// Follows redirects that keep method and body, within the origin: no secret of ours is sent
    /// anywhere else.
    async fn follow_redirects(
        &self,
        request: &HttpRequest<'_>,
        mut response: HttpResponse,
    ) -> Result<HttpResponse, TransportFault> {
        let mut url = request.url.clone();
        for _ in 0..MAX_REDIRECTS {
            url = redirect_target(&url, &response)?;
            response = self.send_once(&request.with_url(&url)).await?;
            if !response.status().is_redirection() {
                response.final_url = Some(Box::new(url));
                return Ok(response);
            }
        }
        Err(redirect_fault(
            response.status(),
            &format!("more than {MAX_REDIRECTS} redirects in a row"),
        ))
    }

    async fn send_once(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportFault> {
        if let Some(direct) = &self.direct {
            return direct
                .send(request, &self.address)
                .await
                .map(HttpResponse::from);
        }
        let sent = Box::pin(self.pool.execute(request.to_reqwest())).await;
        sent.map(HttpResponse::from)
            .map_err(|error| connection_fault::send_fault(&error, &self.route))
    }
}

fn with_token(extra: Option<&HeaderMap>, token: &Secret) -> Result<HeaderMap, TransportFault> {
    let value = headers::secret_value(token).ok_or_else(|| {
        TransportFault::NotSent(
            "the token contains characters that a header cannot carry; log in again".to_owned(),
        )
    })?;
    let mut extra = extra.cloned().unwrap_or_default();
    extra.insert(AUTHORIZATION, value);
    Ok(extra)
}

/// The challenge of a rejected request, if a login could help.
fn login_challenge(response: &HttpResponse) -> Option<Option<String>> {
    let status = response.status();
    if status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN {
        return None;
    }
    let challenges = response.text_headers(&WWW_AUTHENTICATE);
    let challenge = (!challenges.is_empty()).then(|| challenges.join(", "));
    let scope = challenge
        .as_deref()
        .is_some_and(|challenge| challenge.contains("insufficient_scope"));
    (status == StatusCode::UNAUTHORIZED || scope).then_some(challenge)
}

/// The target of a redirect, if it may be followed.
fn redirect_target(from: &Url, response: &HttpResponse) -> Result<Url, TransportFault> {
    let status = response.status();
    let Some(next) = response
        .text_header(&LOCATION)
        .and_then(|location| from.join(location).ok())
    else {
        return Err(redirect_fault(
            status,
            "a redirect without a valid Location",
        ));
    };
    if next.origin() != from.origin() {
        let origin = next.origin().ascii_serialization();
        return Err(redirect_fault(
            status,
            &format!(
                "it redirects to another origin, {}; if that is intended, configure that URL",
                quoted(&origin)
            ),
        ));
    }
    if !matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    ) {
        return Err(redirect_fault(
            status,
            &format!(
                "it redirects to {}; configure that URL",
                quoted(next.path())
            ),
        ));
    }
    Ok(next)
}

fn redirect_fault(status: StatusCode, fact: &str) -> TransportFault {
    TransportFault::Status {
        status: status.as_u16(),
        detail: format!(": {fact}"),
        retry_after: None,
        error: None,
    }
}
