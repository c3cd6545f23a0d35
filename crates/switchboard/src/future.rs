//! The future that the methods of a `dyn` trait return.

use std::future::Future;
use std::pin::Pin;

/// A boxed future that may borrow for `'a`: what the methods of a `dyn` trait return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
