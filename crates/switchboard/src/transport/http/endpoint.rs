//! One request to an endpoint: authorized, sent again where a refusal was answered by a login,
//! followed only within its origin.

use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION, WWW_AUTHENTICATE};
use url::Url;

use super::direct::Direct;
use super::request::Request;
use super::response::Response;
use super::{HttpStack, HttpTarget, headers, refusal, trouble};
use crate::auth::{AuthRejection, Credentials};
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
    pub(in crate::transport) fn new(
        stack: &HttpStack,
        target: &HttpTarget,
    ) -> Result<Self, ConnectFault> {
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
        let posting = headers::posting(&url, &target.headers)?;
        // A user and a password go as a header, and a fragment nowhere. These cannot fail on a URL
        // with a host.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        url.set_fragment(None);
        let place = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
        Ok(Self {
            pool: stack.pool.clone(),
            direct: if stack.has_proxies() {
                None
            } else {
                Direct::to(&url)
            },
            listening: headers::listening(&posting),
            posting,
            credentials: target.credentials.clone(),
            max_message_bytes: target.max_message_bytes,
            way: stack.way_to(&url, &place),
            place,
            url,
        })
    }

    /// Sends a request and answers with the response, whatever its status; a refused one is sent
    /// again after a login, if that helps.
    pub(in crate::transport) async fn ask(
        &self,
        request: Request<'_>,
    ) -> Result<Response, WireFault> {
        let mut refusals = 0;
        loop {
            let sent = self
                .credentials
                .authorization()
                .await
                .map_err(WireFault::NeedsLogin)?;
            let authorized = sent
                .as_ref()
                .map(|sent| with_token(request.own, sent))
                .transpose()?;
            let authorized = request.beside(authorized.as_ref().or(request.own));
            let mut response = self.send(&authorized).await?;
            if response.status().is_redirection() {
                // Boxed, like all that few requests come to: what carries a request has room for
                // the largest part of it.
                response = Box::pin(self.redirected(&authorized, response)).await?;
            }
            let Some(challenge) = refused(&response) else {
                return Ok(response);
            };
            refusals += 1;
            if refusals > MAX_REFUSALS {
                return Err(Box::pin(refusal::read(response, None)).await);
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
    ) -> Result<(), WireFault> {
        let rejection = AuthRejection {
            status: status.as_u16(),
            challenge,
            sent,
        };
        self.credentials
            .rejected(rejection)
            .await
            .map_err(WireFault::NeedsLogin)
    }

    /// Follows redirects that keep method and body, within the origin: nothing of ours goes
    /// anywhere else.
    async fn redirected(
        &self,
        request: &Request<'_>,
        mut response: Response,
    ) -> Result<Response, WireFault> {
        let mut url = request.url.clone();
        for _ in 0..MAX_REDIRECTS {
            url = redirect(&url, &response)?;
            response = self.send(&request.at(&url)).await?;
            if !response.status().is_redirection() {
                response.moved = Some(Box::new(url));
                return Ok(response);
            }
        }
        Err(not_followed(
            response.status(),
            &format!("more than {MAX_REDIRECTS} redirects in a row"),
        ))
    }

    async fn send(&self, request: &Request<'_>) -> Result<Response, WireFault> {
        if let Some(direct) = &self.direct {
            return direct.send(request, &self.place).await.map(Response::from);
        }
        let sent = Box::pin(self.pool.execute(request.for_stack())).await;
        sent.map(Response::from)
            .map_err(|error| trouble::unsent(&error, &self.way))
    }
}

fn with_token(own: Option<&HeaderMap>, token: &Secret) -> Result<HeaderMap, WireFault> {
    let value = headers::secret(token).ok_or_else(|| {
        WireFault::NotSent(
            "the token contains characters that a header cannot carry; log in again".to_owned(),
        )
    })?;
    let mut own = own.cloned().unwrap_or_default();
    own.insert(AUTHORIZATION, value);
    Ok(own)
}

/// The challenge, where a login could change the answer.
fn refused(response: &Response) -> Option<Option<String>> {
    let status = response.status();
    if status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN {
        return None;
    }
    let challenges = response.texts(&WWW_AUTHENTICATE);
    let challenge = (!challenges.is_empty()).then(|| challenges.join(", "));
    let scope = challenge
        .as_deref()
        .is_some_and(|challenge| challenge.contains("insufficient_scope"));
    (status == StatusCode::UNAUTHORIZED || scope).then_some(challenge)
}

/// Where a redirect leads, if it may be followed.
fn redirect(from: &Url, response: &Response) -> Result<Url, WireFault> {
    let status = response.status();
    let Some(next) = response
        .text(&LOCATION)
        .and_then(|location| from.join(location).ok())
    else {
        return Err(not_followed(status, "a redirect without a place to go to"));
    };
    if next.origin() != from.origin() {
        let origin = next.origin().ascii_serialization();
        return Err(not_followed(
            status,
            &format!(
                "it redirects to another origin, {}; put that URL into its entry if that is where it should go",
                quoted(&origin)
            ),
        ));
    }
    if !matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    ) {
        return Err(not_followed(
            status,
            &format!(
                "it redirects to {}; put that URL into its entry",
                quoted(next.path())
            ),
        ));
    }
    Ok(next)
}

fn not_followed(status: StatusCode, fact: &str) -> WireFault {
    WireFault::Status {
        status: status.as_u16(),
        said: format!(": {fact}"),
        retry_after: None,
        error: None,
    }
}
