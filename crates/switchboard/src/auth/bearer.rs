//! The bearer token of a server's entry.

use crate::future::BoxFuture;
use crate::hint::Hint;
use crate::secret::Secret;
use crate::transport::{AuthRejection, Credentials, NeedsLogin};

/// The configured token, as the value of a header.
#[derive(Debug)]
pub(super) struct BearerToken(Secret);

impl BearerToken {
    pub(super) fn new(token: &Secret) -> Self {
        Self(Secret::new(format!("Bearer {}", token.expose())))
    }
}

impl Credentials for BearerToken {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<Secret>, NeedsLogin>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }

    fn rejected<'a>(
        &'a self,
        rejection: AuthRejection<'a>,
    ) -> BoxFuture<'a, Result<(), NeedsLogin>> {
        let reason = format!("the server refused the token (HTTP {})", rejection.status);
        let hint = Hint::CheckToken;
        Box::pin(async move { Err(NeedsLogin { reason, hint }) })
    }
}
