//! How many checks a schema can cause. References let a few lines expand into billions of checks,
//! so the expansion is counted before any arguments come.
//!
//! The count is an upper bound for one value of the instance at a given depth.

use std::collections::HashMap;

use super::keyword::{AppliesTo, references, subschemas};
use super::pointer::pointer_steps;
use super::{JsonTree, MAX_SUBSCHEMAS, SchemaFault};
use crate::untrusted::quoted;

/// The most checks that one value of the arguments may cause.
const MAX_CHECKS: u64 = 100_000;
/// How deep checks may be nested; each level uses stack.
const MAX_NESTED: u64 = 1_000;
/// The parser's limit; arguments are never nested deeper.
const DEEPEST: usize = 128;

/// How deep arguments may be nested so that validating them stays cheap: 128 for almost every
/// schema.
pub(super) fn deepest(root: &JsonTree<'_>) -> Result<usize, SchemaFault> {
    let graph = SchemaGraph::of(root)?;
    let mut inside = vec![CheckCost::default(); graph.nodes.len()];
    for depth in 0..=DEEPEST {
        let here = graph.weigh(&inside);
        if here[0].checks > MAX_CHECKS || here[0].nested > MAX_NESTED {
            // A tool whose simplest arguments cannot be validated is not offered.
            return if depth <= 2 {
                Err(SchemaFault::new("expands into too many checks"))
            } else {
                Ok(depth - 1)
            };
        }
        if here == inside {
            break;
        }
        inside = here;
    }
    Ok(DEEPEST)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CheckCost {
    checks: u64,
    nested: u64,
}

/// Schemas by index, the root first.
#[derive(Default)]
struct SchemaGraph {
    nodes: Vec<SchemaNode>,
    /// Topological: each node after those it applies to the same value.
    order: Vec<usize>,
}

#[derive(Default)]
struct SchemaNode {
    same: Vec<usize>,
    one_child: Vec<usize>,
    children: Vec<usize>,
}

impl SchemaGraph {
    fn of(root: &JsonTree<'_>) -> Result<Self, SchemaFault> {
        let mut numbers: HashMap<*const JsonTree<'_>, usize> =
            HashMap::from([(std::ptr::from_ref(root), 0)]);
        let mut schemas = vec![root];
        let mut anchors: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut named: Vec<(usize, &str)> = Vec::new();
        let mut graph = Self::default();
        let mut next = 0;
        while let Some(&schema) = schemas.get(next) {
            let mut number = |schema| {
                *numbers
                    .entry(std::ptr::from_ref(schema))
                    .or_insert_with(|| {
                        schemas.push(schema);
                        schemas.len() - 1
                    })
            };
            let mut node = SchemaNode::default();
            for (applies_to, subschema) in subschemas(schema) {
                let number = number(subschema);
                match applies_to {
                    AppliesTo::Same => node.same.push(number),
                    AppliesTo::OneChild => node.one_child.push(number),
                    AppliesTo::Children => node.children.push(number),
                    AppliesTo::Nothing => {}
                }
            }
            for reference in references(schema) {
                match reference.strip_prefix('#') {
                    Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                        node.same.push(number(
                            follow(root, pointer).ok_or_else(|| dangling(reference))?,
                        ));
                    }
                    Some(anchor) => named.push((next, anchor)),
                    None => {}
                }
            }
            if next > 0 && schema.get("$id").is_some() {
                return Err(SchemaFault::new("has references and an $id below its root"));
            }
            for anchor in ["$anchor", "$dynamicAnchor"] {
                if let Some(anchor) = schema.get(anchor).and_then(JsonTree::as_str) {
                    anchors.entry(anchor).or_default().push(next);
                }
            }
            graph.nodes.push(node);
            next += 1;
            if next > MAX_SUBSCHEMAS {
                return Err(SchemaFault::new(format!(
                    "has more than {MAX_SUBSCHEMAS} subschemas"
                )));
            }
        }
        for (node, anchor) in named {
            graph.nodes[node]
                .same
                .extend(anchors.get(anchor).ok_or_else(|| dangling(anchor))?);
        }
        graph.order = graph.sorted()?;
        Ok(graph)
    }

    /// Depth first without recursion: a chain of references may be as long as there are schemas.
    fn sorted(&self) -> Result<Vec<usize>, SchemaFault> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        for start in 0..self.nodes.len() {
            let mut path = vec![(start, 0)];
            while let Some((node, seen)) = path.pop() {
                if seen == 0 {
                    match marks[node] {
                        Mark::New => marks[node] = Mark::Open,
                        Mark::Open => return Err(SchemaFault::new("refers to itself endlessly")),
                        Mark::Done => continue,
                    }
                }
                if let Some(&inner) = self.nodes[node].same.get(seen) {
                    path.push((node, seen + 1));
                    path.push((inner, 0));
                } else {
                    marks[node] = Mark::Done;
                    order.push(node);
                }
            }
        }
        Ok(order)
    }

    /// The cost of each schema, given the cost of each schema one level deeper.
    fn weigh(&self, inside: &[CheckCost]) -> Vec<CheckCost> {
        let mut here = vec![CheckCost::default(); self.nodes.len()];
        for &number in &self.order {
            let node = &self.nodes[number];
            let mut weight = CheckCost {
                checks: 1,
                nested: 0,
            };
            let mut add = |checks: u64, nested: u64| {
                weight.checks = weight.checks.saturating_add(checks);
                weight.nested = weight.nested.max(nested);
            };
            node.same
                .iter()
                .for_each(|&inner| add(here[inner].checks, here[inner].nested));
            node.children
                .iter()
                .for_each(|&inner| add(inside[inner].checks, inside[inner].nested));
            let dearest = node
                .one_child
                .iter()
                .map(|&inner| inside[inner].checks)
                .max()
                .unwrap_or(0);
            add(
                dearest,
                node.one_child
                    .iter()
                    .map(|&inner| inside[inner].nested)
                    .max()
                    .unwrap_or(0),
            );
            weight.nested += 1;
            here[number] = weight;
        }
        here
    }
}

fn dangling(reference: &str) -> SchemaFault {
    SchemaFault::new(format!(
        "refers to {}, which is not in it",
        quoted(reference)
    ))
}

/// Follows a JSON pointer in URI fragment encoding.
fn follow<'t, 'a>(root: &'t JsonTree<'a>, pointer: &str) -> Option<&'t JsonTree<'a>> {
    let mut steps = pointer_steps(pointer)?.into_iter();
    steps.try_fold(root, |place, step| match place {
        JsonTree::List(items) => items.get(step.parse::<usize>().ok()?),
        object => object.get(&step),
    })
}
