//! Who is sent to a login page: the seam between a login and whatever shows pages.

use std::fmt;

use url::Url;

use crate::caller::BoxFuture;
use crate::name::ServerName;

/// Brings a login page before whoever logs in. A terminal asks and opens a browser; a program may
/// follow the page by itself.
pub trait Opener: Send + Sync + fmt::Debug {
    /// Shows the page. The answer may come to the redirect address meanwhile; then this is dropped.
    fn open<'a>(&'a self, page: &'a LoginPage) -> BoxFuture<'a, Opened>;
}

/// The page of one login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginPage {
    /// The server that wants the login.
    pub server: ServerName,
    /// Where to go: https, or http on this machine; without a user name.
    pub url: Url,
    /// The scopes that are asked for, safe to show.
    pub scopes: Vec<String>,
    /// Where the page leads in the end: an address of this machine, which is listened on until
    /// then.
    pub redirect: String,
}

/// What became of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// It is being looked at: the answer comes to the redirect address.
    Shown,
    /// It was followed to its end: the whole address that it led to.
    Returned(String),
    /// Nobody will look at it; one line that says why.
    Refused(String),
}
