//! Which tools to send next after a vendor refused some: named ones at once, others by bisection.

use super::{RefusedTool, ToolRefusal};
use crate::tools::ToolTreatment;

/// More tools than this are not repaired in one turn: then something else is wrong.
const MAX_TREATED: usize = 16;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairStep {
    /// Send the request with the tools of [`RefusalRepair::offer`]: it may be the real one.
    Send,
    /// Send it with these tools to see whether it is accepted, then cancel it and call
    /// [`RefusalRepair::accepted`].
    Probe,
    /// The tools are not what is refused, or too many of them are.
    GiveUp,
}

/// The search for refused tools in one turn. Pure: the caller sends.
#[derive(Debug)]
pub struct RefusalRepair {
    /// The tools in the order of the request.
    names: Vec<String>,
    treatments: Vec<Option<ToolTreatment>>,
    /// How many tools, from the first one, the next request has.
    prefix: usize,
    /// This many tools were accepted together. `None` until a request without tools was accepted.
    accepted: Option<usize>,
    /// This many tools were refused together, while a bisection is under way.
    refused: Option<usize>,
    /// The vendor's words in the last refusal.
    words: String,
}

impl RefusalRepair {
    /// Begins with all tools, in the order of the request.
    pub fn new(names: Vec<String>) -> Self {
        Self {
            treatments: vec![None; names.len()],
            prefix: names.len(),
            names,
            accepted: None,
            refused: None,
            words: String::new(),
        }
    }

    /// The tools that the next request has, with their treatment.
    pub fn offer(&self) -> impl Iterator<Item = (&str, Option<&ToolTreatment>)> {
        let tools = self.names.iter().zip(&self.treatments).take(self.prefix);
        let tools = tools.filter(|(_, treatment)| !is_withheld(treatment));
        tools.map(|(name, treatment)| (name.as_str(), treatment.as_ref()))
    }

    /// Every tool that was loosened or withheld.
    pub fn treated(&self) -> impl Iterator<Item = (&str, &ToolTreatment)> {
        let tools = self.names.iter().zip(&self.treatments);
        tools.filter_map(|(name, treatment)| Some((name.as_str(), treatment.as_ref()?)))
    }

    /// The last request was refused because of a tool, in these words.
    pub fn refused(&mut self, refusal: &ToolRefusal, words: &str) -> RepairStep {
        words.clone_into(&mut self.words);
        let named = match &refusal.tool {
            RefusedTool::Index(index) => self.offer_index(*index),
            RefusedTool::Name(name) => self.names.iter().position(|known| known == name),
            RefusedTool::Unnamed => None,
        };
        if let Some(index) = named {
            return self.treat(index);
        }
        if self.prefix == 0 {
            return RepairStep::GiveUp;
        }
        self.refused = Some(self.prefix);
        self.bisect()
    }

    /// The last probe was accepted.
    pub fn accepted(&mut self) -> RepairStep {
        self.accepted = Some(self.prefix);
        self.bisect()
    }

    fn bisect(&mut self) -> RepairStep {
        let Some(accepted) = self.accepted else {
            // Without any tool it must work, or the tools are not the reason.
            self.prefix = 0;
            return RepairStep::Probe;
        };
        match self.refused {
            None => self.send_all(),
            Some(refused) if refused <= accepted + 1 => self.treat(refused - 1),
            Some(refused) => {
                self.prefix = accepted + (refused - accepted) / 2;
                RepairStep::Probe
            }
        }
    }

    /// Loosens a tool, or withholds it where that did not help.
    fn treat(&mut self, index: usize) -> RepairStep {
        let treated = self.treatments.iter().flatten().count();
        let treatment = &mut self.treatments[index];
        if is_withheld(treatment) || treated >= MAX_TREATED {
            return RepairStep::GiveUp;
        }
        let words = self.words.clone();
        *treatment = Some(match treatment {
            None => ToolTreatment::Loosened { words },
            Some(_) => ToolTreatment::Withheld { words },
        });
        self.send_all()
    }

    fn send_all(&mut self) -> RepairStep {
        self.refused = None;
        self.prefix = self.names.len();
        RepairStep::Send
    }

    /// The index in `names` of a tool of the last request.
    fn offer_index(&self, index: usize) -> Option<usize> {
        let name = self.offer().nth(index)?.0.to_owned();
        self.names.iter().position(|known| *known == name)
    }
}

fn is_withheld(treatment: &Option<ToolTreatment>) -> bool {
    matches!(treatment, Some(ToolTreatment::Withheld { .. }))
}

#[cfg(test)]
mod tests;
