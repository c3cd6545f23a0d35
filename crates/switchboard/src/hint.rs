//! What a person could do about a failure, as a value: whoever shows it words it, in commands and
//! fields that the person has.

use crate::config::Dialect;
pub use crate::config::TimeField;

/// What a person could do about a failure of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Look closer at the server.
    Examine,
    /// Log in to it.
    LogIn,
    /// Check the token of its entry.
    CheckToken,
    /// Check the headers of its entry.
    CheckHeaders,
    /// Check the OAuth client id of its entry, with its secret or key.
    CheckClient,
    /// Register a client at its authorization server, or set a token, in its entry.
    SetClient,
    /// Set its authorization server in its entry, if the new one is right.
    SetIssuer,
    /// Forget its login and set the client of its new authorization server, if that is right.
    ReplaceClient,
    /// Look at its entry, and accept it.
    Accept,
    /// Enable it in its entry, in a file of this kind.
    Enable(Dialect),
    /// Change the list that keeps it from running.
    ChangeServerList,
    /// Start it again.
    StartAgain,
    /// Call again when another call has ended.
    CallLater,
    /// Give its calls more time by this field of its entry.
    AllowTime(TimeField),
    /// Allow the tool by a rule; `beforehand`: or say yes with the call.
    AllowTool {
        /// A yes that is said with the call counts for it.
        beforehand: bool,
    },
}
