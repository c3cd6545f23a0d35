//! Assigns the exposed names of all tools, across servers with different styles. A name is unique,
//! and never reused for another tool during a run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::style::{Style, Unnameable, name_collision};
use super::{ExposedName, ServerName, ToolId};

/// The most names that the tools of one server may get during a run: bounds the memory for a server
/// that keeps changing its tools.
const MAX_NAMES: usize = 20_000;

/// A tool to be named.
#[derive(Debug, Clone, Copy)]
pub struct NameRequest<'a> {
    /// The tool.
    pub pair: &'a ToolId,
    /// The naming style.
    pub style: Style,
    /// Whether every server before its own is ready, has failed, or is not waited for, so that a
    /// bare name cannot collide with one of theirs later.
    pub may_be_bare: bool,
}

/// Why a tool has no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamingError {
    /// Not yet: a server before its own may still claim the name.
    Pending,
    /// Permanently.
    Withheld(Unnameable),
}

/// Names that no server's tool may get.
#[derive(Debug, Clone, Copy)]
pub struct ReservedNames<'a> {
    /// Names of the host tools.
    pub own: &'a HashSet<&'a str>,
    /// Names of tools that agents commonly have built in, compared case-insensitively. Only for
    /// bare names: a prefix already distinguishes a server's tool.
    pub builtin: &'a [&'a str],
}

impl ReservedNames<'_> {
    fn forbids(self, name: &str, style: Style) -> bool {
        let is_same = |known: &&str| known.eq_ignore_ascii_case(name);
        self.own.contains(name)
            || style.is_bare() && (self.builtin.iter().any(is_same) || self.own.iter().any(is_same))
    }
}

/// The names assigned during a run. Each belongs to its tool permanently, even after the tool is
/// gone.
#[derive(Debug, Clone, Default)]
pub struct AssignedNames {
    names: HashMap<ExposedName, ToolId, RandomState>,
    of_server: HashMap<ServerName, usize, RandomState>,
}

/// Names every tool, with servers in config order. The results are in the same order.
pub fn expose(
    requests: &[NameRequest<'_>],
    reserved: ReservedNames<'_>,
    published: &mut Arc<AssignedNames>,
) -> Vec<Result<ExposedName, NamingError>> {
    let plain: Vec<_> = requests
        .iter()
        .map(|request| request.style.plain(request.pair))
        .collect();
    let claims = Claims::of(requests, &plain);
    let mut names = Vec::with_capacity(requests.len());
    for (index, (request, plain)) in requests.iter().zip(&plain).enumerate() {
        let name = plain
            .clone()
            .map_err(NamingError::Withheld)
            .and_then(|plain| {
                if let Some(other) = claims.other(request.style, &plain, index) {
                    return Err(NamingError::Withheld(name_collision(
                        &plain,
                        requests[other].pair,
                    )));
                }
                pick(request, plain, reserved, published)
            });
        names.push(name);
    }
    names
}

/// The first name of the tool's style that no other tool has or had.
fn pick(
    request: &NameRequest<'_>,
    plain: String,
    reserved: ReservedNames<'_>,
    published: &mut Arc<AssignedNames>,
) -> Result<ExposedName, NamingError> {
    let NameRequest {
        pair,
        style,
        may_be_bare,
    } = *request;
    let holder = |name: &str| published.names.get(name);
    let is_free = |name: &str| {
        !reserved.forbids(name, style) && holder(name).is_none_or(|holder| holder == pair)
    };
    let mut candidate = plain;
    if style == Style::FirstWins {
        if !is_free(&candidate) {
            candidate = Style::prefixed(pair);
        } else if !may_be_bare && holder(&candidate).is_none() {
            return Err(NamingError::Pending);
        }
    }
    // `Identity` never changes names, so it has no fallback.
    if style != Style::Identity && !is_free(&candidate) {
        candidate = style.hashed(&candidate, pair);
    }
    if !is_free(&candidate) {
        let reason = match holder(&candidate) {
            Some(other) => name_collision(&candidate, other),
            None => Unnameable {
                reason: format!("its name {candidate} is that of a built-in tool"),
            },
        };
        return Err(NamingError::Withheld(reason));
    }
    publish(candidate, pair, published).map_err(NamingError::Withheld)
}

fn publish(
    name: String,
    pair: &ToolId,
    published: &mut Arc<AssignedNames>,
) -> Result<ExposedName, Unnameable> {
    if let Some((known, _)) = published.names.get_key_value(name.as_str()) {
        return Ok(known.clone());
    }
    if published
        .of_server
        .get(&pair.server)
        .is_some_and(|&names| names >= MAX_NAMES)
    {
        return Err(Unnameable {
            reason: format!("tools of its server have had {MAX_NAMES} names in this run"),
        });
    }
    let name = ExposedName(name.into());
    // Copies only if an earlier catalog still shares it.
    let published = Arc::make_mut(published);
    *published.of_server.entry(pair.server.clone()).or_default() += 1;
    published.names.insert(name.clone(), pair.clone());
    Ok(name)
}

/// Which tools claim which name, in the styles that withhold both tools of a collision.
struct Claims<'a>(HashMap<(bool, &'a str), (usize, Option<usize>), RandomState>);

impl<'a> Claims<'a> {
    fn of(requests: &[NameRequest<'_>], plain: &'a [Result<String, Unnameable>]) -> Self {
        let mut claims: HashMap<_, (usize, Option<usize>), RandomState> = HashMap::default();
        for (index, (request, plain)) in requests.iter().zip(plain).enumerate() {
            let (Ok(plain), true) = (plain, request.style.withholds_both()) else {
                continue;
            };
            let claim = claims.entry((request.style == Style::Mcp, plain.as_str()));
            claim
                .and_modify(|claim| claim.1 = claim.1.or(Some(index)))
                .or_insert((index, None));
        }
        Self(claims)
    }

    /// Another tool that claims the same name.
    fn other(&self, style: Style, plain: &str, index: usize) -> Option<usize> {
        if !style.withholds_both() {
            return None;
        }
        let (first, second) = self.0.get(&(style == Style::Mcp, plain))?;
        second.map(|second| if *first == index { second } else { *first })
    }
}

#[cfg(test)]
mod tests;
