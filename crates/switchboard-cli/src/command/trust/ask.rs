//! The prompts of `trust` at a terminal: one server after the other, or all at once.

use crate::setup::Setup;
use crate::terminal::tty::Tty;

use super::{UntrustedServer, show};

/// An answer about one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Yes,
    No,
    /// This server and all that follow.
    All,
    /// Neither this server nor any that follows.
    None,
    Details,
    /// Discards all answers.
    Quit,
}

impl Choice {
    /// Enter is no. With one server, "all" and "none" are not answers.
    fn parse(line: &str, several: bool) -> Option<Self> {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Some(Self::Yes),
            "" | "n" | "no" => Some(Self::No),
            "a" | "all" if several => Some(Self::All),
            "none" if several => Some(Self::None),
            "d" | "details" => Some(Self::Details),
            "q" | "quit" => Some(Self::Quit),
            _ => None,
        }
    }

    fn legend(several: bool) -> &'static str {
        if several {
            "all, none, details, quit"
        } else {
            "details, quit"
        }
    }
}

/// The indexes of the accepted servers. Nothing is recorded here.
pub(super) async fn each(
    terminal: &Tty,
    setup: &Setup,
    waiting: &[UntrustedServer<'_>],
) -> Vec<usize> {
    let several = waiting.len() > 1;
    if several {
        let names: Vec<_> = waiting
            .iter()
            .map(|(_, _, disclosure)| format!("{:?}", disclosure.name))
            .collect();
        terminal.write_lines(&format!(
            "{} servers need trust: {}\n",
            names.len(),
            names.join(", ")
        ));
    }
    let mut accepted = Vec::new();
    for (index, (server, standing, disclosure)) in waiting.iter().enumerate() {
        let text = show::entry(server, standing, disclosure);
        if !disclosure.refused.is_empty() {
            terminal.write_lines(&text);
            continue;
        }
        terminal.pages(&text).await;
        match one(terminal, setup, waiting, index).await {
            Choice::Yes => accepted.push(index),
            Choice::No | Choice::Details => {}
            Choice::All => {
                accepted.extend(
                    (index..waiting.len()).filter(|index| waiting[*index].2.refused.is_empty()),
                );
                return accepted;
            }
            Choice::None => return accepted,
            Choice::Quit => return Vec::new(),
        }
    }
    accepted
}

/// The final answer about one server: asks again after the details, and after an "all" that was not
/// confirmed.
async fn one(
    terminal: &Tty,
    setup: &Setup,
    waiting: &[UntrustedServer<'_>],
    index: usize,
) -> Choice {
    let several = waiting.len() > 1;
    let (server, _, disclosure) = &waiting[index];
    let position = if several {
        format!("{} of {}; ", index + 1, waiting.len())
    } else {
        String::new()
    };
    let legend = Choice::legend(several);
    let question = format!(
        "({position}y, n, {legend})\nTrust server {:?} exactly as shown? [y/N] ",
        disclosure.name
    );
    let mut before = String::new();
    loop {
        match choice(terminal, &before, &question, several).await {
            Choice::Details => before = show::details(setup, server),
            Choice::All if !confirm_all(terminal, &waiting[index..]).await => before.clear(),
            choice => return choice,
        }
    }
}

/// Asks until the answer is valid; a closed terminal means quit. `before` is shown with the first
/// question.
async fn choice(terminal: &Tty, before: &str, question: &str, several: bool) -> Choice {
    let mut text = format!("{before}{question}");
    loop {
        let Some(line) = terminal.line(&text).await else {
            return Choice::Quit;
        };
        if let Some(choice) = Choice::parse(&line, several) {
            return choice;
        }
        text = format!(
            "Answer y or n, or one of: {}.\n{question}",
            Choice::legend(several)
        );
    }
}

/// Shows the other servers before all of them are accepted.
async fn confirm_all(terminal: &Tty, rest: &[UntrustedServer<'_>]) -> bool {
    let others = rest.iter().skip(1);
    let text: String = others
        .map(|(server, standing, disclosure)| show::entry(server, standing, disclosure))
        .collect();
    terminal.pages(&text).await;
    let names: Vec<_> = rest
        .iter()
        .filter(|(_, _, disclosure)| disclosure.refused.is_empty())
        .map(|(_, _, disclosure)| format!("{:?}", disclosure.name))
        .collect();
    let question = format!(
        "Trust these {} servers exactly as shown: {}? [y/N] ",
        names.len(),
        names.join(", ")
    );
    choice(terminal, "", &question, false).await == Choice::Yes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_answer_is_none_and_enter_is_no() {
        let check = |line: &str, several: bool, expected: Option<Choice>| {
            assert_eq!(Choice::parse(line, several), expected, "{line}")
        };
        check("\n", true, Some(Choice::No));
        check(" Yes\n", true, Some(Choice::Yes));
        check("all\n", true, Some(Choice::All));
        check("all\n", false, None);
        check("none\n", true, Some(Choice::None));
        check("none\n", false, None);
        check("d\n", false, Some(Choice::Details));
        check("quit\n", false, Some(Choice::Quit));
        check("yy\n", true, None);
        check("ja\n", true, None);
    }
}
