//! `--continue`, `--resume` and `--fork` of `chat` and `run`: which stored conversation goes on.

use clap::Args;
use switchboard_agent::SessionError;
use switchboard_agent::session::{LoadedSession, SessionStore};

use crate::failure::{Code, Failure};
use crate::hints;
use crate::view::server::escaped;

/// Which conversation goes on.
#[derive(Debug, Args)]
pub(crate) struct SessionChoice {
    /// Continue the last conversation of this project
    #[arg(long = "continue", conflicts_with = "resume")]
    continues: bool,
    /// Continue the conversation with this id, or the beginning of one; `/resume` in `chat` lists
    /// them
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// Continue in a copy; the conversation itself stays as it is
    #[arg(long)]
    fork: bool,
}

impl SessionChoice {
    /// Opens the session; `None` where a new conversation begins.
    pub(crate) fn load(&self, store: &SessionStore) -> Result<Option<LoadedSession>, Failure> {
        let path = match &self.resume {
            Some(id) => store.find(id)?,
            None if self.continues => store.latest()?,
            None if self.fork => {
                let message = "--fork needs --continue or --resume ID";
                return Err(Failure::new(Code::Usage, message));
            }
            None => return Ok(None),
        };
        let loaded = match self.fork {
            true => store.fork(&path),
            false => store.load(&path),
        };
        Ok(Some(loaded?))
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let failure = Self::new(Code::Usage, escaped(&error.to_string()));
        match error {
            SessionError::NoSession => failure.hint("start one without `--continue`"),
            SessionError::UnknownId(_) if hints::is_in_chat() => {
                failure.hint("`/resume` lists them")
            }
            SessionError::UnknownId(_) => {
                failure.hint("`/resume` in `switchboard chat` lists them")
            }
            SessionError::InUse(_) if hints::is_in_chat() => {
                failure.hint("end that one, or write `/resume ID --fork` to go on in a copy")
            }
            SessionError::InUse(_) => {
                failure.hint("end that one, or add --fork to go on in a copy")
            }
            _ => failure,
        }
    }
}
