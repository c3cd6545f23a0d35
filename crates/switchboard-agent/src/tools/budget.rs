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
/// Where all fit into `max_tokens`, none is. Otherwise all tools of servers are: a mixture by size
/// would make it unpredictable which tools a model sees. The program's own tools are deferred only
/// where they alone do not fit, and those that `is_always_loaded` names never.
pub fn choose_deferred(
    specs: &[ToolSpec],
    max_tokens: u64,
    estimate: &TokenEstimate,
    is_always_loaded: impl Fn(&ToolSpec) -> bool,
) -> HashSet<String> {
    let fit = |is_counted: &dyn Fn(&ToolSpec) -> bool| {
        let counted = specs.iter().filter(|spec| is_counted(spec));
        estimate.tokens(counted.map(definition_bytes).sum()) <= max_tokens
    };
    if fit(&|_| true) {
        return HashSet::new();
    }
    let is_own = |spec: &ToolSpec| spec.server.is_empty();
    let keeps_own = fit(&is_own);
    let is_loaded = |spec: &ToolSpec| is_always_loaded(spec) || (keeps_own && is_own(spec));
    let deferred = specs.iter().filter(|spec| !is_loaded(spec));
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
        for (count, server) in [(2, ""), (10, "s")] {
            for index in 0..count {
                let mut spec = search_tool::spec();
                spec.name = format!("{server}tool{index}");
                spec.server = server.to_owned();
                specs.push(spec);
            }
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
        // All fit, only the program's own, or not even these.
        let own = specs[..3].iter().map(definition_bytes).sum();
        let own = TokenEstimate::default().tokens(own);
        assert_eq!([100_000, own, own - 1].map(choose), [0, 10, 12]);
        assert_eq!(
            max_definition_tokens(200_000, DEFAULT_SHARE_PERCENT),
            20_000
        );
    }
}
