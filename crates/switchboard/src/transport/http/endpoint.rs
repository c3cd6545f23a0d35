//! One request to an endpoint: authorized, sent again where a refusal was answered by a login, followed only within its origin.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Method, Request, Response, StatusCode};
use url::Url;

use super::direct::Direct;
use super::{HttpStack, HttpTarget, headers, refusal, trouble};
use crate::auth::{Credentials, Refusal};
use crate::secret::Secret;
use crate::transport::{ConnectFault, WireFault};
use crate::untrusted::quoted;

/// A refresh may be followed by a step-up; what is refused after that stays refused.
const MAX_REFUSALS: usize = 3;

/// Redirects followed in a row.
const MAX_REDIRECTS: usize = 5;

/// Where requests go, and what all of them say.
pub(in crate::transport) struct Endpoint {
    pool: reqwest::Client,
    /// The shorter way, where there is one.
    direct: Option<Direct>,
    pub(in crate::transport) url: Url,
    /// The headers of every POST.
    pub(in crate::transport) posting: HeaderMap,
    /// The headers of every request that opens a stream.
    pub(in crate::transport) listening: HeaderMap,
    credentials: Arc<dyn Credentials>,
    pub(in crate::transport) max_message_bytes: usize,
    /// Host and port, for sentences.
    pub(in crate::transport) place: String,
    /// The same, with the proxy that stands before it.
    way: String,
}

impl Endpoint {
    pub(in crate::transport) fn new(stack: &HttpStack, target: &HttpTarget) -> Result<Self, ConnectFault> {
        let mut url = target.url.clone();
        let host = match url.scheme() {
            "http" | "https" => url.host_str().unwrap_or_default().to_owned(),
            scheme => return Err(ConnectFault(format!("its URL begins with {}; expected http or https", quoted(scheme)))),
        };
        let posting = headers::posting(&url, &target.headers)?;
        // A user and a password go as a header, and a fragment nowhere. These cannot fail on a URL with a host.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        url.set_fragment(None);
        let place = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
        Ok(Self {
            pool: stack.pool.clone(),
            direct: if stack.has_proxies() { None } else { Direct::to(&url) },
            listening: headers::listening(&posting),
            posting,
            credentials: target.credentials.clone(),
            max_message_bytes: target.max_message_bytes,
            way: stack.way_to(&url, &place),
            place,
            url,
        })
    }

    /// Sends a request and answers with the response, whatever its status; a refused one is sent again after a login, if that helps.
    pub(in crate::transport) async fn ask(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Response, WireFault> {
        let mut refusals = 0;
        loop {
            let sent = self.credentials.authorization().await.map_err(WireFault::NeedsLogin)?;
            let authorized = sent.as_ref().map(|sent| with_token(headers, sent)).transpose()?;
            let response = self.follow(&method, url, authorized.as_ref().unwrap_or(headers), body.as_ref()).await?;
            let Some(challenge) = refused(&response) else { return Ok(response) };
            refusals += 1;
            if refusals > MAX_REFUSALS {
                return Err(Box::pin(refusal::read(response, None)).await);
            }
            self.answer_refusal(response.status(), challenge.as_deref(), sent.as_ref()).await?;
        }
    }

    async fn answer_refusal(&self, status: StatusCode, challenge: Option<&str>, sent: Option<&Secret>) -> Result<(), WireFault> {
        let refusal = Refusal { status: status.as_u16(), challenge, sent };
        self.credentials.refused(refusal).await.map_err(WireFault::NeedsLogin)
    }

    /// Follows redirects that keep method and body, within the origin: nothing of ours goes anywhere else.
    async fn follow(&self, method: &Method, url: &Url, headers: &HeaderMap, body: Option<&Bytes>) -> Result<Response, WireFault> {
        let response = self.send(method, url.clone(), headers, body).await?;
        if response.status().is_redirection() {
            // Boxed, like all that few requests come to: a task's future is copied when it begins, with room for the largest part.
            return Box::pin(self.redirected(method, headers, body, response)).await;
        }
        Ok(response)
    }

    async fn redirected(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: Option<&Bytes>,
        mut response: Response,
    ) -> Result<Response, WireFault> {
        for _ in 0..MAX_REDIRECTS {
            let next = redirect(response.url(), &response)?;
            response = self.send(method, next, headers, body).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
        }
        Err(not_followed(response.status(), &format!("more than {MAX_REDIRECTS} redirects in a row")))
    }

    async fn send(&self, method: &Method, url: Url, headers: &HeaderMap, body: Option<&Bytes>) -> Result<Response, WireFault> {
        if let Some(direct) = &self.direct {
            return direct.send(method, url, headers, body, &self.place).await;
        }
        let mut request = Request::new(method.clone(), url);
        *request.headers_mut() = headers.clone();
        *request.body_mut() = body.map(|body| body.clone().into());
        Box::pin(self.pool.execute(request)).await.map_err(|error| trouble::unsent(&error, &self.way))
    }
}

fn with_token(headers: &HeaderMap, token: &Secret) -> Result<HeaderMap, WireFault> {
    let value = headers::secret(token)
        .ok_or_else(|| WireFault::NotSent("the token to authorize with is no header value; log in again".to_owned()))?;
    let mut headers = headers.clone();
    headers.insert(AUTHORIZATION, value);
    Ok(headers)
}

/// The challenge, where a login could change the answer.
fn refused(response: &Response) -> Option<Option<String>> {
    let status = response.status();
    if status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN {
        return None;
    }
    let challenges: Vec<_> =
        response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let challenge = (!challenges.is_empty()).then(|| challenges.join(", "));
    let scope = challenge.as_deref().is_some_and(|challenge| challenge.contains("insufficient_scope"));
    (status == StatusCode::UNAUTHORIZED || scope).then_some(challenge)
}

/// Where a redirect leads, if it may be followed.
fn redirect(from: &Url, response: &Response) -> Result<Url, WireFault> {
    let status = response.status();
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(next) = location.and_then(|location| from.join(location).ok()) else {
        return Err(not_followed(status, "a redirect without a place to go to"));
    };
    if next.origin() != from.origin() {
        let origin = next.origin().ascii_serialization();
        return Err(not_followed(
            status,
            &format!("it redirects to another origin, {}; put that URL into its entry if you trust it", quoted(&origin)),
        ));
    }
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return Err(not_followed(status, &format!("it redirects to {}; put that URL into its entry", quoted(next.path()))));
    }
    Ok(next)
}

fn not_followed(status: StatusCode, fact: &str) -> WireFault {
    WireFault::Status { status: status.as_u16(), said: format!(": {fact}"), retry_after: None, error: None }
}
