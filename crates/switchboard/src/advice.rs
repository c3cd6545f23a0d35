//! What a person could do about a failure, as a value: whoever shows it words it, in commands and
//! fields that the person has.

pub use crate::config::TimeField;

/// What a person could do about a failure of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Look closer at the server.
    Examine,
    /// Log in to it.
    LogIn,
    /// Look at its entry, and accept it.
    Accept,
    /// Give its calls more time by this field of its entry.
    AllowTime(TimeField),
    /// Allow the tool by a rule; `beforehand`: or say yes with the call.
    AllowTool {
        /// A yes that is said with the call counts for it.
        beforehand: bool,
    },
}
