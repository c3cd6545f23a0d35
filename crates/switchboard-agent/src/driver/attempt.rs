//! One request and its answer.

use std::error::Error;
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};

use super::HttpModel;
use super::retry::read_retry_after;
use crate::conversation::ModelTurn;
use crate::fault::read::read_error;
use crate::fault::{FaultKind, ModelFault, plain_line};
use crate::sse::SseFrames;
use crate::wire::TurnDelta;
use crate::wire::WireRequest;

/// How much of an error's body is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long the end of a body is waited for after the last event.
const MAX_WAIT_FOR_END: Duration = Duration::from_millis(50);

impl HttpModel {
    /// Sends the request once and reads the answer.
    pub(super) async fn attempt(
        &self,
        request: &WireRequest,
        show: &mut (dyn FnMut(TurnDelta) + Send),
    ) -> Result<ModelTurn, ModelFault> {
        let response = self.open(request).await?;
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        match content_type.unwrap_or_default() {
            kind if kind.starts_with("text/event-stream") => self.read_stream(response, show).await,
            kind if kind.contains("json") => self.read_document(response, show).await,
            kind => {
                let kind = plain_line(kind);
                let message = format!("expected an event stream or JSON, not \"{kind}\"");
                Err(ModelFault::new(FaultKind::Unreadable, message))
            }
        }
    }

    /// Sends the request and waits until the vendor accepts it.
    pub(super) async fn open(&self, request: &WireRequest) -> Result<Response, ModelFault> {
        let url = join_url(self.settings.endpoint(), &request.path);
        let headers = self.headers(request)?;
        let body = request.body.clone();
        let request = self.http.post(url).headers(headers).body(body);
        let response = self.within_idle(request.send()).await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        Err(self.read_refusal(response).await)
    }

    fn headers(&self, request: &WireRequest) -> Result<HeaderMap, ModelFault> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &request.headers {
            let value = HeaderValue::from_str(value).expect("a header of a wire is plain text");
            headers.insert(HeaderName::from_static(name), value);
        }
        if let Some(key) = &self.settings.api_key {
            let (name, prefix) = request.key_header;
            let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()));
            let mut value = value.map_err(|_| {
                let message = "the key has characters that an HTTP header cannot carry";
                ModelFault::new(FaultKind::Authentication, message)
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }

    async fn read_stream(
        &self,
        mut response: Response,
        show: &mut (dyn FnMut(TurnDelta) + Send),
    ) -> Result<ModelTurn, ModelFault> {
        let mut reader = self.wire.reader(self.settings.origin());
        let mut frames = SseFrames::new(self.limits.max_event_bytes);
        let mut deltas = Vec::new();
        let mut total_bytes = 0;
        while !reader.has_ended() {
            let limit = match reader.has_stop_reason() {
                true => self.limits.end_timeout,
                false => self.limits.idle_timeout,
            };
            let chunk = match within(limit, response.chunk()).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // The answer is complete: the vendor charges for it, and would for another one.
                Err(_) if reader.has_stop_reason() => return reader.finish(),
                Err(fault) => return Err(fault),
            };
            total_bytes += chunk.len();
            if total_bytes > self.limits.max_answer_bytes {
                let bytes = self.limits.max_answer_bytes;
                let message = format!("the answer is larger than {bytes} bytes");
                return Err(ModelFault::new(FaultKind::Unreadable, message));
            }
            let mut fault = Ok(());
            let read = frames.read(&chunk, |_, data| {
                if fault.is_ok() {
                    fault = reader.event(data, &mut deltas);
                    deltas.drain(..).for_each(&mut *show);
                }
            });
            read.map_err(ModelFault::unreadable)?;
            fault?;
        }
        read_to_end(response).await;
        reader.finish()
    }

    /// Some servers answer with one document although a stream was asked for.
    async fn read_document(
        &self,
        response: Response,
        show: &mut (dyn FnMut(TurnDelta) + Send),
    ) -> Result<ModelTurn, ModelFault> {
        let limit = self.limits.max_event_bytes;
        let (body, is_whole) = self.read_body(response, limit).await?;
        if !is_whole {
            let message = format!("the answer is larger than {limit} bytes");
            return Err(ModelFault::new(FaultKind::Unreadable, message));
        }
        let turn = self.wire.read_document(self.settings.origin(), &body)?;
        if !turn.text().is_empty() {
            show(TurnDelta::Text(turn.text()));
        }
        Ok(turn)
    }

    /// The fault that an answer with another status than 200 means.
    async fn read_refusal(&self, response: Response) -> ModelFault {
        let status = response.status();
        let headers = response.headers().clone();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let body = self.read_body(response, MAX_ERROR_BYTES).await;
        let body = body.map(|(body, _)| body).unwrap_or_default();
        if status.is_redirection() {
            let target = plain_line(text("location").unwrap_or_default());
            let message = format!("the server redirects to \"{target}\", which is not followed");
            let mut fault = ModelFault::new(FaultKind::InvalidRequest, message);
            fault.details.status = Some(status.as_u16());
            return fault;
        }
        let mut fault = read_error(status.as_u16(), &body);
        let (milliseconds, seconds) = (text("retry-after-ms"), text("retry-after"));
        let by_header = read_retry_after(milliseconds, seconds, SystemTime::now());
        fault.details.retry_after = by_header.or(fault.details.retry_after);
        fault.details.should_retry = match text("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        let id = text("request-id").or(text("x-request-id")).map(plain_line);
        fault.details.request_id = fault.details.request_id.or(id);
        fault
    }

    /// At most `limit` bytes of a body as text, and whether that is all of it.
    async fn read_body(
        &self,
        mut response: Response,
        limit: usize,
    ) -> Result<(String, bool), ModelFault> {
        let mut body = Vec::new();
        while let Some(chunk) = self.within_idle(response.chunk()).await? {
            body.extend_from_slice(&chunk);
            if body.len() > limit {
                body.truncate(limit);
                return Ok((String::from_utf8_lossy(&body).into_owned(), false));
            }
        }
        Ok((String::from_utf8_lossy(&body).into_owned(), true))
    }

    async fn within_idle<T>(
        &self,
        step: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ModelFault> {
        within(self.limits.idle_timeout, step).await
    }
}

async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, ModelFault> {
    match tokio::time::timeout(limit, step).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(network_fault(error)),
        Err(_) => {
            let message = format!("nothing came for {} s", limit.as_secs_f64());
            Err(ModelFault::new(FaultKind::TimedOut, message))
        }
    }
}

/// Reads the body to its end after the last event. Otherwise the connection would be closed, and the
/// next turn would have to open another one.
async fn read_to_end(mut response: Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // A server that does not end the body loses the connection, which costs less than waiting.
    let _ = tokio::time::timeout(MAX_WAIT_FOR_END, rest).await;
}

/// The base URL with the vendor's path. Many servers document a base URL that already has the path,
/// or its beginning: that is not repeated.
fn join_url(endpoint: &str, path: &str) -> String {
    let ends = path.match_indices('/').skip(1).map(|(at, _)| at);
    let mut ends: Vec<usize> = ends.chain([path.len()]).collect();
    ends.reverse();
    let shared = ends
        .into_iter()
        .find(|end| endpoint.ends_with(&path[..*end]));
    format!("{endpoint}{}", &path[shared.unwrap_or_default()..])
}

fn network_fault(error: reqwest::Error) -> ModelFault {
    let kind = match error.is_timeout() {
        true => FaultKind::TimedOut,
        false => FaultKind::Network,
    };
    // The innermost cause is the reason, such as "connection refused"; the rest says where in the
    // HTTP client it was noticed.
    let error = error.without_url();
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let message = causes
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    ModelFault::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendors_path_is_appended_once() {
        for (endpoint, path, expected) in [
            ("http://h", "/v1/messages", "http://h/v1/messages"),
            (
                "http://h/v1",
                "/v1/chat/completions",
                "http://h/v1/chat/completions",
            ),
            (
                "http://h/v1/chat/completions",
                "/v1/chat/completions",
                "http://h/v1/chat/completions",
            ),
            ("http://h/api", "/v1/responses", "http://h/api/v1/responses"),
            (
                "http://h/v1beta",
                "/v1beta/models/m:x",
                "http://h/v1beta/models/m:x",
            ),
        ] {
            assert_eq!(join_url(endpoint, path), expected);
        }
    }
}
