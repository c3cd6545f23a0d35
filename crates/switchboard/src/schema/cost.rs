//! What a schema can cost: references let a few lines unfold into billions of checks, so the
//! unfolding is counted beforehand.
//!
//! The count is an upper bound for one place of the instance at a given depth. It needs no
//! instance.

use std::collections::HashMap;

use super::keyword::{Reach, references, subschemas};
use super::{MAX_SUBSCHEMAS, SchemaFault, Tree};
use crate::untrusted::quoted;

/// How many checks one place of the arguments may take.
const MAX_CHECKS: u64 = 100_000;
/// How many checks may stand in one another; each takes a piece of the stack.
const MAX_NESTED: u64 = 1_000;
/// What the parser accepts; arguments are never deeper.
const DEEPEST: usize = 128;

/// How deep arguments may be nested so that checking them stays cheap: 128 for nearly every schema.
pub(super) fn deepest(root: &Tree<'_>) -> Result<usize, SchemaFault> {
    let graph = Graph::of(root)?;
    let mut inside = vec![Weight::default(); graph.nodes.len()];
    for depth in 0..=DEEPEST {
        let here = graph.weigh(&inside);
        if here[0].checks > MAX_CHECKS || here[0].nested > MAX_NESTED {
            // A tool whose plainest arguments cannot be checked cannot be offered.
            return if depth <= 2 {
                Err(SchemaFault::new("unfolds into too many checks"))
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
struct Weight {
    checks: u64,
    nested: u64,
}

/// Schemas by number, the root first.
#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    /// Every node behind those that it applies to the same place.
    order: Vec<usize>,
}

#[derive(Default)]
struct Node {
    same: Vec<usize>,
    one_child: Vec<usize>,
    children: Vec<usize>,
}

impl Graph {
    fn of(root: &Tree<'_>) -> Result<Self, SchemaFault> {
        let mut numbers: HashMap<*const Tree<'_>, usize> =
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
            let mut node = Node::default();
            for (reach, subschema) in subschemas(schema) {
                let number = number(subschema);
                match reach {
                    Reach::Same => node.same.push(number),
                    Reach::OneChild => node.one_child.push(number),
                    Reach::Children => node.children.push(number),
                    Reach::Nothing => {}
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
                if let Some(anchor) = schema.get(anchor).and_then(Tree::as_str) {
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
                        Mark::Open => return Err(SchemaFault::new("refers to itself without end")),
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

    /// What each schema costs, given what each costs one step further inside.
    fn weigh(&self, inside: &[Weight]) -> Vec<Weight> {
        let mut here = vec![Weight::default(); self.nodes.len()];
        for &number in &self.order {
            let node = &self.nodes[number];
            let mut weight = Weight {
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

/// Follows a JSON pointer as a URI fragment spells it.
fn follow<'t, 'a>(root: &'t Tree<'a>, pointer: &str) -> Option<&'t Tree<'a>> {
    let mut place = root;
    for step in pointer.split('/').skip(1) {
        let step = percent_decode(step)?.replace("~1", "/").replace("~0", "~");
        place = match place {
            Tree::List(items) => items.get(step.parse::<usize>().ok()?)?,
            object => object.get(&step)?,
        };
    }
    Some(place)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
