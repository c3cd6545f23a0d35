//! Sends the OAuth library's requests through `GuardedHttp` and the configured proxies.

use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use crate::auth::guarded_http::GuardedHttp;

/// The response type that the library expects; the library does not export its name.
type OAuthHttpResponse = <<OAuthHttpClientFuture<'static> as Future>::Output as IntoIterator>::Item;

/// The longest response that is read.
const MAX_BYTES: usize = 1024 * 1024;

/// Redirects are never followed here; the library follows those of metadata itself, through this
/// function.
impl OAuthHttpClient for GuardedHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut answer = self
                .send(reqwest::Request::try_from(request.request)?)
                .await?;
            let body = bounded_body(&mut answer).await?;
            let mut response = OAuthHttpResponse::new(body);
            *response.status_mut() = answer.status();
            *response.headers_mut() = std::mem::take(answer.headers_mut());
            Ok(response)
        })
    }
}

/// The body of a response, unless it is too long.
pub(super) async fn bounded_body(
    answer: &mut reqwest::Response,
) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return Err(format!("the answer is longer than {MAX_BYTES} bytes").into());
        }
    }
    Ok(body)
}
