//! What turns cost: a small table of prices, which settings can override. A model that is not in
//! the table has an unknown cost, never zero.

use serde::{Deserialize, Serialize};

use crate::usage::TokenUsage;

/// What a million tokens cost, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Input outside the cache.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache; by default as much as other input.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Input written to the cache; by default as much as other input.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

/// Names of models and their prices (input, output, cache read, cache write). A row applies to its
/// name and to dated releases of it. Only prices that were compared with a published list; others
/// are unknown until the settings have them.
const PRICES: &[(&str, f64, f64, f64, f64)] = &[
    ("claude-3-haiku", 0.25, 1.25, 0.03, 0.30),
    ("claude-3-5-haiku", 0.80, 4.0, 0.08, 1.0),
    ("claude-haiku-4-5", 1.0, 5.0, 0.10, 1.25),
    ("claude-3-5-sonnet", 3.0, 15.0, 0.30, 3.75),
    ("claude-3-7-sonnet", 3.0, 15.0, 0.30, 3.75),
    ("claude-sonnet-4", 3.0, 15.0, 0.30, 3.75),
    ("claude-sonnet-4-0", 3.0, 15.0, 0.30, 3.75),
    ("claude-sonnet-4-5", 3.0, 15.0, 0.30, 3.75),
    ("claude-sonnet-4-6", 3.0, 15.0, 0.30, 3.75),
    ("claude-opus-4", 15.0, 75.0, 1.50, 18.75),
    ("claude-opus-4-0", 15.0, 75.0, 1.50, 18.75),
    ("claude-opus-4-1", 15.0, 75.0, 1.50, 18.75),
    ("claude-opus-4-5", 5.0, 25.0, 0.50, 6.25),
    ("claude-opus-4-6", 5.0, 25.0, 0.50, 6.25),
    ("gpt-4o", 2.5, 10.0, 1.25, 2.5),
    ("gpt-4o-mini", 0.15, 0.60, 0.075, 0.15),
    ("gpt-4.1", 2.0, 8.0, 0.50, 2.0),
    ("gpt-4.1-mini", 0.40, 1.60, 0.10, 0.40),
    ("gpt-4.1-nano", 0.10, 0.40, 0.025, 0.10),
    ("o4-mini", 1.10, 4.40, 0.275, 1.10),
    ("gpt-5-mini", 0.25, 2.0, 0.025, 0.25),
];

impl ModelPrice {
    /// The price of a vendor's own model. `None` if the table does not have it.
    pub fn listed(model: &str) -> Option<Self> {
        let mut rows = PRICES.iter();
        let row = rows.find(|(name, ..)| is_release_of(model, name));
        row.map(|&(_, input, output, cache_read, cache_write)| Self {
            input,
            output,
            cache_read: Some(cache_read),
            cache_write: Some(cache_write),
        })
    }

    /// The cost of tokens, in US dollars. `None` if the vendor did not report the counts.
    pub fn cost(&self, usage: &TokenUsage) -> Option<f64> {
        let million = 1_000_000.0;
        let part = |tokens: u64, price: f64| tokens as f64 * price / million;
        let read = part(
            usage.cache_read.unwrap_or(0),
            self.cache_read.unwrap_or(self.input),
        );
        let write = part(
            usage.cache_write.unwrap_or(0),
            self.cache_write.unwrap_or(self.input),
        );
        Some(part(usage.input?, self.input) + part(usage.output?, self.output) + read + write)
    }
}

/// The cost of several turns. One turn of unknown cost makes the sum a lower bound.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CostSum {
    /// The cost of all turns whose cost is known, in US dollars.
    pub known_usd: f64,
    /// How many turns have an unknown cost.
    pub unknown_turns: u32,
}

impl CostSum {
    /// Adds one turn.
    pub fn add(&mut self, cost: Option<f64>) {
        match cost {
            Some(cost) => self.known_usd += cost,
            None => self.unknown_turns += 1,
        }
    }

    /// The sum, where every turn's cost is known.
    pub fn total_usd(&self) -> Option<f64> {
        (self.unknown_turns == 0).then_some(self.known_usd)
    }
}

/// Whether `model` is `name` or a dated release of it: `gpt-4.1-2025-04-14` is a release of
/// `gpt-4.1`, `gpt-4.1-mini` is not.
fn is_release_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else {
        return false;
    };
    let Some(date) = rest.strip_prefix('-') else {
        return rest.is_empty();
    };
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    let is_date = digits == 8 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    is_date || date == "latest"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_model_itself_and_its_dated_releases_have_its_price() {
        let price = ModelPrice::listed;
        assert_eq!(price("gpt-4.1").map(|price| price.input), Some(2.0));
        assert_eq!(price("gpt-4.1-2025-04-14"), price("gpt-4.1"));
        assert_eq!(price("gpt-4.1-mini").map(|price| price.input), Some(0.4));
        for unknown in ["gpt-4.2", "gpt-4.1-pro", "gpt-4.10", "llama"] {
            assert_eq!(price(unknown), None, "{unknown}");
        }
        assert_eq!(
            price("claude-sonnet-4-5-20250929"),
            price("claude-sonnet-4-5")
        );
    }

    #[test]
    fn a_turn_of_unknown_cost_makes_the_total_unknown() {
        let mut sum = CostSum::default();
        sum.add(Some(0.5));
        assert_eq!(sum.total_usd(), Some(0.5));
        sum.add(None);
        assert_eq!(sum.total_usd(), None);
        assert_eq!((sum.known_usd, sum.unknown_turns), (0.5, 1));
    }
}
