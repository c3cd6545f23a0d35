//! The initial state of a server, determined before anything is spawned.

use crate::config::{Config, Endpoint, ServerConfig, Start};
use crate::name::ServerName;
use crate::server::ServerResources;
use crate::state::{ConnectStep, State};
use crate::trust::{self, TrustState};

/// The state of a server that may not start, and why; otherwise whether it starts now or when used.
pub(crate) fn initial_state(
    server: &ServerConfig,
    config: &Config,
    only: Option<&[ServerName]>,
    resources: &ServerResources,
) -> State {
    let name = server.name.as_str();
    if !server.enabled {
        return State::Disabled;
    }
    if let Some(rule) = config.security.blocks(&server.name) {
        return State::Blocked {
            rule: rule.to_owned(),
        };
    }
    if let Endpoint::Invalid(fault) = &server.endpoint {
        return State::Failed {
            error: fault.to_string(),
        };
    }
    match trust::trust_state(server, &resources.environment, &*resources.store) {
        TrustState::Trusted => {}
        TrustState::New => {
            return State::Untrusted {
                reason: "this project's entry has not been accepted".to_owned(),
            };
        }
        TrustState::Changed { .. } => {
            return State::Untrusted {
                reason: "the entry changed since it was accepted".to_owned(),
            };
        }
    }
    match (server.start, only) {
        (Start::Eager, None) => State::connecting(ConnectStep::Starting),
        (_, Some(wanted)) if wanted.iter().any(|wanted| wanted.as_str() == name) => {
            State::connecting(ConnectStep::Starting)
        }
        _ => State::Idle,
    }
}
