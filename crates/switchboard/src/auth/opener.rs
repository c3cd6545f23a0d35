//! The interface between a login and whatever shows its page.

use std::fmt;

use url::Url;

use crate::future::BoxFuture;
use crate::name::ServerName;

/// Shows a login page to a person. A terminal asks and opens a browser; a program may follow the
/// page itself.
pub trait Opener: Send + Sync + fmt::Debug {
    /// Shows the page. Dropped if the response arrives at the redirect address first.
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, PageOutcome>;
}

/// The page of one login.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginPage {
    /// The server that requires the login.
    pub server: ServerName,
    /// The address of the page: https, or http on this machine; without a user name.
    pub url: Url,
    /// The requested scopes, safe to show.
    pub scopes: Vec<String>,
    /// The redirect address: a listener on this machine.
    pub redirect: String,
}

/// The outcome of showing a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageOutcome {
    /// The page was opened: the response comes to the redirect address.
    Shown,
    /// The page was followed: the whole address that it redirected to.
    Returned(String),
    /// The page was not opened: the reason as one line.
    Refused(String),
}
