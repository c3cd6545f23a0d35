//! `chat`: a conversation with a model that has the tools of all servers, at a terminal or through
//! a pipe.
//!
//! The modules, in the order of one input: `input` reads a line (`editor` on a terminal, with
//! `completion`), `slash` runs a command, `mentions` and `prompts` add resources and prompts of
//! servers to a message, `turn` sends it to the model and shows the answer (`markdown`, `calls`), and
//! `caller` answers questions of the gate and of servers, according to the `mode`.

use std::sync::Arc;

use clap::Args;
use switchboard::Host;
use switchboard::config::{Environment, ModelEntry};
use switchboard::server::{ServerHandle, State};
use switchboard_agent::builtin_tools::Denylist;
use switchboard_agent::{Agent, Model};

use crate::arguments::Options;
use crate::command::agent_args::{AgentArgs, system_prompt};
use crate::failure::{Code, Failure};
use crate::interrupt::Interrupts;
use crate::paths::Paths;
use crate::progress::{self, WaitLimit};
use crate::setup::{OutputScope, Setup};
use crate::{hints, output};

use caller::ChatCaller;
use editor::InputEvent;
use input::Input;
use mode::{ApprovalMode, SharedMode};
use slash::Next;

/// The caller of the conversation: approval, forms, sampling.
mod caller;
/// How calls and their results are shown.
mod calls;
/// What Tab completes.
mod completion;
/// The line editor, on a thread of its own.
mod editor;
/// The end of a stored conversation, for a person.
mod history;
/// Inputs: from the line editor, from a pipe, or typed ahead while a turn runs.
mod input;
/// A model's Markdown as styled lines, block by block.
mod markdown;
/// `@server:uri` and `@file` in a message.
mod mentions;
/// Modes of approval.
mod mode;
/// The model's answers to sampling requests of servers.
mod model;
/// Prompts of servers as commands.
mod prompts;
/// Printing above the status line.
mod screen;
/// Reports servers that fail and recover during the conversation.
mod server_watch;
/// Slash commands.
mod slash;
/// One turn: a message to the model, its answer and its calls.
mod turn;

/// The beginning of the system prompt.
const SYSTEM_PROMPT: &str = "You talk to a person at a terminal. Use the tools that are offered \
    where they help. The person may be asked before a call runs; a denied call says why. Answer \
    in short Markdown.";

/// Arguments of `chat`.
#[derive(Debug, Args)]
#[command(after_help = "\
The model is the one in [model] of switchboard.toml; without it, `/mcp`, `/tools`, `/call` and all
other commands work, and --model demo starts a built-in script. /help lists the commands.

Examples:
  switchboard chat
  switchboard chat --model demo             nothing to install and no key
  switchboard chat --mode plan              tools that only read
  switchboard chat --continue               the last conversation of this project
  echo '/tools' | switchboard chat          one input for each line; calls that would be asked about
                                            are denied unless a terminal can be asked; the exit code
                                            is that of the last input that failed")]
pub(crate) struct ChatArgs {
    /// What runs without asking; Shift-Tab switches it
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    mode: ApprovalMode,
    #[command(flatten)]
    agent: AgentArgs,
}

pub(crate) fn run(options: &Options, args: &ChatArgs) -> Result<u8, Failure> {
    if options.json {
        return Err(Failure::new(Code::Usage, "`chat` has no --json")
            .hint("`switchboard run --output json` has one"));
    }
    let mut setup = Setup::read_for(options, OutputScope::Conversation)?;
    setup.offer_sampling();
    args.agent.add_builtin_tools(&mut setup, options);
    let models = ModelSource {
        entry: setup.config.model.clone(),
        environment: setup.environment.clone(),
    };
    let model = match (&args.agent.model, &models.entry) {
        (None, None) => None,
        (given, _) => Some(models.choose(given.as_deref())?),
    };
    let denylist = setup.denylist.clone();
    let system_prompt = system_prompt(SYSTEM_PROMPT, &setup);
    let session = args.agent.session.load(&setup.paths.sessions())?;
    if session.is_some() && model.is_none() {
        return Err(no_model());
    }
    setup.run(None, async |host, paths| {
        hints::enter_chat();
        let mode = SharedMode::new(args.mode);
        let caller = ChatCaller::new(mode.clone());
        let input = Input::start(host, paths, &mode, Interrupts::listen()?);
        let mut chat = Chat {
            host,
            paths,
            options,
            system_prompt,
            models,
            denylist,
            caller,
            mode,
            input,
            agent: None,
            has_waited: false,
            last_failure: None,
        };
        chat.greet(model.as_deref());
        if let Some(model) = model {
            chat.set_model(model);
        }
        if let Some(session) = session {
            chat.continue_session(session);
        }
        server_watch::during(host, chat.read_inputs()).await
    })
}

/// Chooses another model while the conversation runs.
struct ModelSource {
    entry: Option<ModelEntry>,
    environment: Environment,
}

impl ModelSource {
    fn choose(&self, name: Option<&str>) -> Result<Box<dyn Model>, Failure> {
        super::run::model::choose_from(self.entry.as_ref(), &self.environment, name)
    }
}

/// A conversation.
struct Chat<'a> {
    host: &'a Host,
    paths: &'a Paths,
    options: &'a Options,
    system_prompt: String,
    models: ModelSource,
    /// The commands that Bash never runs, replaced by `/reload`.
    denylist: Denylist,
    caller: Arc<ChatCaller>,
    mode: SharedMode,
    input: Input,
    /// `None` without a model.
    agent: Option<Agent>,
    /// Whether a message has waited for the servers to connect. Later messages do not wait: the
    /// tools of a slow server are offered when it is ready.
    has_waited: bool,
    /// The last input that failed: the exit code of a conversation in a pipe.
    last_failure: Option<Code>,
}

impl Chat<'_> {
    /// Prints the lines before the first prompt.
    fn greet(&self, model: Option<&dyn Model>) {
        if !self.input.is_interactive() {
            return;
        }
        let servers = crate::view::counted(self.host.servers().len(), "server");
        let model = match model {
            Some(model) => format!("model {}", model.settings().name),
            None => "no model".to_owned(),
        };
        let keys = "/help lists commands, Shift-Tab switches the mode, Ctrl-D exits";
        screen::print(&format!("switchboard chat: {model}, {servers}\n{keys}\n"));
        if self.models.entry.is_none() && model == "no model" {
            screen::print(&format!("{NO_MODEL}\n"));
        }
    }

    /// Handles inputs until the person exits or the input ends.
    async fn read_inputs(&mut self) -> Result<u8, Failure> {
        // A command in a pipe cannot be repeated once the servers are connected.
        if !self.input.is_interactive() && !self.wait_for_servers().await {
            return Err(Failure::new(Code::Interrupted, "interrupted"));
        }
        // The second Ctrl-C in a row exits.
        let mut was_interrupted = false;
        loop {
            match self.input.next().await {
                InputEvent::End => return Ok(self.exit_code()),
                // Exiting by Ctrl-C prints no error.
                InputEvent::Interrupted if was_interrupted => return Ok(Code::Interrupted as u8),
                InputEvent::Cleared => was_interrupted = false,
                InputEvent::Interrupted if !self.input.is_interactive() => {
                    return Err(Failure::new(Code::Interrupted, "interrupted"));
                }
                InputEvent::Interrupted => {
                    was_interrupted = true;
                    screen::note("press Ctrl-C again to exit");
                }
                InputEvent::Unreadable(reason) => return Err(Failure::new(Code::Usage, reason)),
                // Handled by `Input`.
                InputEvent::SwitchMode | InputEvent::EditorFailed(_) => {}
                InputEvent::Line(line) => match self.handle(&line).await {
                    Next::Continue => was_interrupted = false,
                    Next::Interrupted => was_interrupted = true,
                    Next::End => return Ok(self.exit_code()),
                },
            }
        }
    }

    /// At a terminal a person has seen each failure.
    fn exit_code(&self) -> u8 {
        let failure = self.last_failure.filter(|_| !self.input.is_interactive());
        failure.map_or(0, |code| code as u8)
    }

    /// Runs a command or a turn. A failure is printed, and the conversation goes on.
    async fn handle(&mut self, line: &str) -> Next {
        let outcome = match line.trim() {
            "" => Ok(Next::Continue),
            text => match (text.strip_prefix('/'), text.strip_prefix('!')) {
                (Some(command), _) => self.command(command).await,
                (None, Some(command)) => self.run_in_shell(command.trim()).await,
                (None, None) => self.send_text(text).await,
            },
        };
        outcome.unwrap_or_else(|failure| {
            screen::failure(&failure);
            self.last_failure = Some(failure.code);
            Next::Continue
        })
    }

    /// Waits until the servers are connected or have failed, once and for a limited time. `false`
    /// after Ctrl-C.
    async fn wait_for_servers(&mut self) -> bool {
        if self.has_waited {
            return true;
        }
        let limit = WaitLimit::unattended(self.options);
        let settled = progress::wait_until_settled(self.host, limit);
        self.has_waited = self.input.during(settled).await.is_some();
        self.has_waited
    }

    /// Starts the lazy servers whose offers are not known yet.
    /// `false` after Ctrl-C.
    async fn start_lazy_servers(&mut self) -> bool {
        let servers = self.host.servers();
        let is_idle = |server: &&ServerHandle| {
            matches!(server.snapshot().state, State::Idle) && server.may_offer_more()
        };
        let idle = servers.iter().filter(is_idle).cloned().collect();
        let started = super::start_servers(idle, WaitLimit::unattended(self.options));
        self.input.during(started).await.is_some()
    }

    /// Continues with this model.
    fn set_model(&mut self, model: Box<dyn Model>) {
        let model: Arc<dyn Model> = model.into();
        self.caller.set_model(model.clone());
        match &mut self.agent {
            Some(agent) => agent.set_model(model),
            None => {
                let agent = Agent::from_shared(self.host.clone(), model, self.caller.clone())
                    .system(self.system_prompt.clone())
                    .results_in(self.paths.conversation_results())
                    .sessions(self.paths.sessions());
                self.agent = Some(agent);
            }
        }
    }
}

/// Printed where a model is needed and none is configured.
const NO_MODEL: &str = "no model is configured: add [model] with `vendor` and `name` to \
    your own switchboard.toml, or try the built-in script with `/model demo`";

/// The failure of a message without a model.
fn no_model() -> Failure {
    Failure::new(Code::Usage, NO_MODEL)
}

/// A notice of the conversation.
fn notice(line: &str) {
    output::log(line.to_owned());
}
