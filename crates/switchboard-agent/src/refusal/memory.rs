//! Refusals that are remembered, so that the next turn and the next session need no search.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use switchboard::store::{Store, StoreTable};

use crate::settings::ModelSettings;
use crate::tools::{ToolSpec, ToolTreatment};

/// Treatments by vendor, model and definition. A changed definition is tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalMemory {
    treatments: BTreeMap<String, ToolTreatment>,
}

impl RefusalMemory {
    /// Remembers a treatment.
    pub fn remember(&mut self, model: &ModelSettings, tool: &ToolSpec, treatment: ToolTreatment) {
        self.treatments.insert(key(model, tool), treatment);
    }

    /// Reads all treatments of a store. Unreadable ones are determined again.
    pub fn load(store: &dyn Store) -> Self {
        let stored = store.all(StoreTable::Refusals).unwrap_or_default();
        let stored = stored.into_iter();
        let read = stored.filter_map(|(key, text)| Some((key, serde_json::from_str(&text).ok()?)));
        Self {
            treatments: read.collect(),
        }
    }

    /// Stores one treatment, for the next run.
    pub(crate) fn store(&self, store: &dyn Store, model: &ModelSettings, tool: &ToolSpec) {
        let key = key(model, tool);
        if let Some(treatment) = self.treatments.get(&key) {
            let text = serde_json::to_string(treatment).expect("a treatment serialises");
            // If this fails, the next run determines the treatment again.
            let _ = store.put(StoreTable::Refusals, &key, &text);
        }
    }

    /// Removes all treatments from a store.
    pub(crate) fn remove_from(&self, store: &dyn Store) {
        for key in self.treatments.keys() {
            // If this fails, the tool is withheld again in the next run.
            let _ = store.remove(StoreTable::Refusals, key);
        }
    }

    /// What is known about this definition.
    pub fn get(&self, model: &ModelSettings, tool: &ToolSpec) -> Option<&ToolTreatment> {
        // Usually nothing was refused, and no definition needs to be hashed.
        if self.treatments.is_empty() {
            return None;
        }
        self.treatments.get(&key(model, tool))
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.treatments.is_empty()
    }

    /// Forgets everything, so that every tool is tried again.
    pub fn clear(&mut self) {
        self.treatments.clear();
    }
}

fn key(model: &ModelSettings, tool: &ToolSpec) -> String {
    let mut hasher = blake3::Hasher::new();
    let endpoint = model.endpoint();
    let schema = tool.schema.as_str();
    // Lengths separate the fields.
    for field in [endpoint, &model.name, &tool.name, &tool.description, schema] {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field.as_bytes());
    }
    let hash = hasher.finalize().to_hex();
    format!("{}:{hash}", model.vendor.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonText;
    use crate::settings::ModelVendor;

    #[test]
    fn a_treatment_holds_for_its_vendor_model_and_definition_alone() {
        let model = ModelSettings::new(ModelVendor::Gemini, "gemini-3");
        let mut tool = ToolSpec {
            name: "a".to_owned(),
            server: String::new(),
            tool: String::new(),
            description: "b".to_owned(),
            schema: JsonText::parse("{}").expect("JSON"),
        };
        let words = "no".to_owned();
        let treatment = ToolTreatment::Withheld { words };
        let mut memory = RefusalMemory::default();
        memory.remember(&model, &tool, treatment.clone());
        let text = serde_json::to_string(&memory).expect("serialises");
        let memory: RefusalMemory = serde_json::from_str(&text).expect("reads");
        assert_eq!(memory.get(&model, &tool), Some(&treatment));
        let other = ModelSettings::new(ModelVendor::Gemini, "gemini-4");
        assert_eq!(memory.get(&other, &tool), None);
        tool.description.push('!');
        assert_eq!(memory.get(&model, &tool), None);
    }
}
