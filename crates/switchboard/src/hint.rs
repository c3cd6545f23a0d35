//! What a person could do about a failure, as a value: the front end words it in its own commands
//! and field names.

use crate::config::Dialect;
pub use crate::config::TimeField;

/// What a person could do about a failure of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Diagnose the server.
    Examine,
    /// Log in to the server.
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
    /// Review the entry and accept it.
    Accept,
    /// Enable it in its entry, in a file of this dialect.
    Enable(Dialect),
    /// Change the list that blocks it.
    ChangeServerList,
    /// Restart it.
    StartAgain,
    /// Call again when another call has ended.
    CallLater,
    /// Give each caller a session of its own in its entry.
    SeparateCallers,
    /// Increase this time limit in its entry.
    AllowTime(TimeField),
    /// Allow the tool with a rule; `beforehand`: or approve it along with the call.
    AllowTool {
        /// Whether an approval given along with the call counts.
        beforehand: bool,
    },
}
