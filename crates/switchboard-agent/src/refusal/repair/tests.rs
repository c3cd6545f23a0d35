use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("tool{index}")).collect()
}

fn refusal(tool: RefusedTool) -> ToolRefusal {
    let pointer = None;
    ToolRefusal { tool, pointer }
}

/// A vendor that refuses requests with one of these tools, and says which only if `names_it`.
/// Tools in `strict` are refused when they are loosened, too.
fn run(
    count: usize,
    bad: &HashSet<usize>,
    strict: &HashSet<usize>,
    names_it: bool,
) -> (Vec<String>, Vec<String>, usize) {
    let mut repair = RefusalRepair::new(names(count));
    let mut requests = 0;
    let mut step = RepairStep::Send;
    loop {
        requests += 1;
        assert!(requests < 400, "no end");
        let offer: Vec<(String, bool)> = repair
            .offer()
            .map(|(name, treatment)| (name.to_owned(), treatment.is_some()))
            .collect();
        let culprit = offer.iter().position(|(name, is_loosened)| {
            let index: usize = name["tool".len()..].parse().expect("an index");
            bad.contains(&index) && (!is_loosened || strict.contains(&index))
        });
        step = match (culprit, step) {
            (Some(at), _) if names_it => repair.refused(&refusal(RefusedTool::Index(at)), "no"),
            (Some(_), _) => repair.refused(&refusal(RefusedTool::Unnamed), "no"),
            (None, RepairStep::Probe) => repair.accepted(),
            (None, _) => {
                let is_withheld =
                    |treatment: &ToolTreatment| matches!(treatment, ToolTreatment::Withheld { .. });
                let of = |withheld: bool| {
                    let treated = repair.treated();
                    let treated =
                        treated.filter(|(_, treatment)| is_withheld(treatment) == withheld);
                    treated.map(|(name, _)| name.to_owned()).collect()
                };
                return (of(false), of(true), requests);
            }
        };
        assert_ne!(step, RepairStep::GiveUp);
    }
}

#[test]
fn a_named_tool_is_loosened_then_withheld_and_the_others_stay() {
    let bad = HashSet::from([3]);
    let (loosened, withheld, requests) = run(10, &bad, &HashSet::new(), true);
    assert_eq!(
        (loosened, withheld, requests),
        (vec!["tool3".to_owned()], vec![], 2)
    );
    let (loosened, withheld, requests) = run(10, &bad, &bad, true);
    assert_eq!(
        (loosened, withheld, requests),
        (vec![], vec!["tool3".to_owned()], 3)
    );
}

#[test]
fn an_unnamed_tool_is_found_in_few_requests() {
    let bad = HashSet::from([77]);
    let (loosened, withheld, requests) = run(100, &bad, &HashSet::new(), false);
    assert_eq!((loosened, withheld), (vec!["tool77".to_owned()], vec![]));
    assert!(requests <= 10, "{requests}");
}

#[test]
fn a_request_that_is_refused_without_tools_is_not_about_tools() {
    let mut repair = RefusalRepair::new(names(4));
    let unnamed = refusal(RefusedTool::Unnamed);
    assert_eq!(repair.refused(&unnamed, "no"), RepairStep::Probe);
    assert_eq!(repair.offer().count(), 0);
    assert_eq!(repair.refused(&unnamed, "no"), RepairStep::GiveUp);
    assert_eq!(repair.treated().count(), 0);
}

#[test]
fn a_refusal_of_an_unknown_tool_name_starts_a_search() {
    let mut repair = RefusalRepair::new(names(4));
    let named = refusal(RefusedTool::Name("other".to_owned()));
    assert_eq!(repair.refused(&named, "no"), RepairStep::Probe);
}

proptest! {
    #[test]
    fn exactly_the_refused_tools_are_treated(
        count in 1usize..40,
        picks in proptest::collection::vec((0usize..40, any::<bool>()), 0..5),
        names_it in any::<bool>(),
    ) {
        let bad: HashSet<usize> = picks.iter().map(|pick| pick.0 % count).collect();
        let strict = picks.iter().filter(|pick| pick.1).map(|pick| pick.0 % count);
        let strict: HashSet<usize> = strict.collect();
        let (loosened, withheld, _) = run(count, &bad, &strict, names_it);
        let name = |index: &usize| format!("tool{index}");
        let expected: HashSet<String> = strict.iter().map(name).collect();
        prop_assert_eq!(withheld.into_iter().collect::<HashSet<_>>(), expected);
        let expected: HashSet<String> = bad.difference(&strict).map(name).collect();
        prop_assert_eq!(loosened.into_iter().collect::<HashSet<_>>(), expected);
    }
}
