//! How much of the context definitions of tools may fill, and which are deferred beyond that.

use std::collections::HashSet;

use super::ToolSpec;
use crate::usage::TokenEstimate;

/// The share of the context that definitions may fill, in percent.
pub const DEFAULT_SHARE_PERCENT: u64 = 10;

/// About how many bytes a definition has in a request.
pub fn definition_bytes(spec: &ToolSpec) -> usize {
    // The names of the fields around it.
    let frame = 60;
    frame + spec.name.len() + spec.description.len() + spec.schema.as_str().len()
}

/// The names of the tools whose definitions are deferred.
///
/// Where all fit into `max_tokens`, none is. Otherwise all are, but for those that
/// `is_always_loaded` names: a mixture by size would make it unpredictable which tools a model
/// sees.
pub fn choose_deferred(
    specs: &[ToolSpec],
    max_tokens: u64,
    estimate: &TokenEstimate,
    is_always_loaded: impl Fn(&ToolSpec) -> bool,
) -> HashSet<String> {
    let bytes: usize = specs.iter().map(definition_bytes).sum();
    if estimate.tokens(bytes) <= max_tokens {
        return HashSet::new();
    }
    let deferred = specs.iter().filter(|spec| !is_always_loaded(spec));
    deferred.map(|spec| spec.name.clone()).collect()
}

/// How many tokens definitions may fill of a context of this size.
pub fn max_definition_tokens(context_tokens: u64, share_percent: u64) -> u64 {
    context_tokens / 100 * share_percent.min(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::search_tool;

    #[test]
    fn definitions_that_do_not_fit_are_deferred_together() {
        let mut specs = vec![search_tool::spec()];
        for index in 0..10 {
            let mut spec = search_tool::spec();
            spec.name = format!("tool{index}");
            specs.push(spec);
        }
        let is_always_loaded = |spec: &ToolSpec| spec.name == search_tool::SEARCH_TOOL;
        let choose = |max_tokens| {
            choose_deferred(
                &specs,
                max_tokens,
                &TokenEstimate::default(),
                is_always_loaded,
            )
            .len()
        };
        assert_eq!((choose(100_000), choose(100)), (0, 10));
        assert_eq!(
            max_definition_tokens(200_000, DEFAULT_SHARE_PERCENT),
            20_000
        );
    }
}
