//! Repeats a turn without the tools that the vendor refuses.

use std::borrow::Cow;
use std::collections::HashMap;

use super::HttpModel;
use crate::conversation::ModelTurn;
use crate::fault::{FaultKind, ModelFault};
use crate::model::TurnEvent;
use crate::refusal::{RefusalRepair, RepairStep};
use crate::tools::ToolList;
use crate::tools::ToolTreatment;
use crate::wire::TurnContext;

impl HttpModel {
    /// As a plain turn, but tools that the vendor refuses are loosened or withheld, and that is
    /// remembered.
    pub(super) async fn turn_with_repair(
        &self,
        context: TurnContext<'_>,
        sink: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<ModelTurn, ModelFault> {
        let known = self.known_tools(context.tools);
        let first = TurnContext {
            tools: &known,
            ..context
        };
        let fault = match self.turn_with_retries(first, sink).await {
            Err(fault) if is_about_tools(&fault) => fault,
            done => return done,
        };
        let names = known.loaded().map(|spec| spec.name.clone()).collect();
        let mut repair = RefusalRepair::new(names);
        let turn = self
            .repair(&mut repair, fault, &known, context, sink)
            .await?;
        self.remember(&repair, context.tools, sink);
        Ok(turn)
    }

    /// Sends the requests of the repair until one is accepted with all remaining tools.
    async fn repair(
        &self,
        repair: &mut RefusalRepair,
        first_fault: ModelFault,
        tools: &ToolList,
        context: TurnContext<'_>,
        sink: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<ModelTurn, ModelFault> {
        let mut step = step_after(first_fault.clone(), repair)?;
        loop {
            let offered = offered_tools(tools, repair);
            let repaired = TurnContext {
                tools: &offered,
                ..context
            };
            step = match step {
                RepairStep::GiveUp => return Err(first_fault),
                RepairStep::Send => match self.turn_with_retries(repaired, sink).await {
                    Ok(turn) => return Ok(turn),
                    Err(fault) => step_after(fault, repair)?,
                },
                RepairStep::Probe => match self.probe(&repaired, sink).await {
                    Ok(()) => repair.accepted(),
                    Err(fault) => step_after(fault, repair)?,
                },
            };
        }
    }

    /// Whether the vendor accepts the request. Dropping the response cancels it.
    async fn probe(
        &self,
        context: &TurnContext<'_>,
        sink: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<(), ModelFault> {
        let request = self.wire.request(&self.settings, context);
        let mut attempt = 1;
        loop {
            match self.open(&request).await {
                Ok(_) => return Ok(()),
                Err(fault) => self.pause(fault, &mut attempt, false, sink).await?,
            }
        }
    }

    /// The tools, with what is remembered about them applied.
    fn known_tools<'a>(&self, tools: &'a ToolList) -> Cow<'a, ToolList> {
        let memory = self.lock_refusals();
        match memory.is_empty() {
            true => Cow::Borrowed(tools),
            false => {
                Cow::Owned(tools.with_treatments(|spec| memory.get(&self.settings, spec).cloned()))
            }
        }
    }

    fn remember(
        &self,
        repair: &RefusalRepair,
        tools: &ToolList,
        sink: &mut (dyn FnMut(TurnEvent) + Send),
    ) {
        for (name, treatment) in repair.treated() {
            if let Some(tool) = tools.get(name) {
                let mut memory = self.lock_refusals();
                memory.remember(&self.settings, &tool.spec, treatment.clone());
                if let Some(store) = &self.store {
                    memory.store(&**store, &self.settings, &tool.spec);
                }
            }
            sink(TurnEvent::ToolRefused {
                name: name.to_owned(),
                treatment: treatment.clone(),
            });
        }
    }
}

fn is_about_tools(fault: &ModelFault) -> bool {
    fault.kind == FaultKind::InvalidRequest && fault.details.refusal.is_some()
}

/// The step after a refused request. A fault that is not about tools ends the repair.
fn step_after(fault: ModelFault, repair: &mut RefusalRepair) -> Result<RepairStep, ModelFault> {
    match &fault.details.refusal {
        Some(refusal) if is_about_tools(&fault) => Ok(repair.refused(refusal, &fault.message)),
        _ => Err(fault),
    }
}

/// The tools that the next request of the repair has.
fn offered_tools(tools: &ToolList, repair: &RefusalRepair) -> ToolList {
    let offer: HashMap<&str, Option<&ToolTreatment>> = repair.offer().collect();
    tools.with_treatments(|spec| match offer.get(spec.name.as_str()) {
        Some(treatment) => treatment.cloned(),
        None => Some(ToolTreatment::Withheld {
            words: String::new(),
        }),
    })
}
