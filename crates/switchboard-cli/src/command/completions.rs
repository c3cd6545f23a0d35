//! `completions`: prints a shell's completion script. The script runs this program for candidates,
//! which come from files only: nothing is started.

use clap::Args;
use clap_complete::env::Shells;

use crate::failure::{Code, Failure};
use crate::output;

/// The variable that the script sets when it asks for candidates.
pub(crate) const VARIABLE: &str = "SWITCHBOARD_COMPLETE";

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(switchboard completions bash)                                   bash, in ~/.bashrc
  source <(switchboard completions zsh)                                    zsh, in ~/.zshrc
  switchboard completions fish > ~/.config/fish/completions/switchboard.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish", "elvish", "powershell"])]
    shell: String,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<u8, Failure> {
    let shells = Shells::builtins();
    let shell = shells
        .completer(&args.shell)
        .ok_or_else(|| Failure::new(Code::Usage, format!("no completions for {:?}", args.shell)))?;
    let mut script = Vec::new();
    shell
        .write_registration(
            VARIABLE,
            "switchboard",
            "switchboard",
            "switchboard",
            &mut script,
        )
        .map_err(|error| {
            Failure::new(Code::Usage, format!("cannot generate the script: {error}"))
        })?;
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
