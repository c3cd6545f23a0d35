//! The options that `chat` and `run` share: the model, the stored conversation to continue, and the
//! built-in tools.

use clap::Args;
use switchboard_agent::SessionError;
use switchboard_agent::session::{LoadedSession, SessionStore};

use crate::arguments::Options;
use crate::failure::{Code, Failure};
use crate::setup::Setup;
use crate::view::server::escaped;
use crate::{agent_tools, hints};

/// Options of `chat` and `run`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Use this model instead of the one in [model]: NAME, VENDOR/NAME, or demo
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) session: SessionChoice,
    /// Offer only the tools of servers, not Read, Write, Edit, Glob, Grep, Bash and WebFetch
    #[arg(long)]
    no_builtin_tools: bool,
}

impl AgentArgs {
    /// Gives the built-in tools their folders, unless they are left out.
    pub(crate) fn add_builtin_tools(&self, setup: &mut Setup, options: &Options) {
        if !self.no_builtin_tools {
            setup.workspace = agent_tools::workspace(&setup.paths, options);
        }
    }
}

/// The system prompt: its beginning, the folder of the built-in tools, and the `AGENTS.md` files.
pub(crate) fn system_prompt(beginning: &str, setup: &Setup) -> String {
    let folder = match setup.workspace.is_empty() {
        true => String::new(),
        false => {
            let folder = setup.paths.current.display();
            format!(" The built-in tools work in the folder {folder}.")
        }
    };
    format!("{beginning}{folder}\n\n{}", setup.paths.agents_prompt())
}

/// The stored conversation to continue.
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
    /// Opens the session; `None` for a new conversation.
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
            SessionError::UnknownId(_) | SessionError::AmbiguousId(_) if hints::is_in_chat() => {
                failure.hint("`/resume` lists them")
            }
            SessionError::UnknownId(_) | SessionError::AmbiguousId(_) => {
                failure.hint("`/resume` in `switchboard chat` lists them")
            }
            SessionError::InUse(_) if hints::is_in_chat() => {
                failure.hint("end that one, or write `/resume ID --fork` to continue in a copy")
            }
            SessionError::InUse(_) => {
                failure.hint("end that one, or add --fork to continue in a copy")
            }
            _ => failure,
        }
    }
}
