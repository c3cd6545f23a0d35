//! Carries the requests of the library that speaks OAuth over our own connections: guarded, and
//! through the proxies that we were handed.

use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use crate::auth::guarded::Guarded;

/// The answer as the library takes it; it gives the type no name of its own.
type Answer = <<OAuthHttpClientFuture<'static> as Future>::Output as IntoIterator>::Item;

/// The longest answer that is read.
const MAX_BYTES: usize = 1024 * 1024;

/// No redirect is followed, whatever the library would permit: metadata says where things are, and
/// it follows those of metadata itself.
impl OAuthHttpClient for Guarded {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut answer = self
                .carry(reqwest::Request::try_from(request.request)?)
                .await?;
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                body.extend_from_slice(&chunk);
                if body.len() > MAX_BYTES {
                    return Err(format!("the answer is longer than {MAX_BYTES} bytes").into());
                }
            }
            let mut response = Answer::new(body);
            *response.status_mut() = answer.status();
            *response.headers_mut() = std::mem::take(answer.headers_mut());
            Ok(response)
        })
    }
}
