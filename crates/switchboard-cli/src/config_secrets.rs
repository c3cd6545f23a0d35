//! The values of a configuration that must not be logged.

use std::sync::Arc;

use switchboard::config::{self, Config, Endpoint, Environment};
use switchboard::secret::Secret;
use switchboard::store::Store;
use switchboard::trust::{self, TrustState};

/// Finds the values that must not be logged, in any version of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ConfigSecrets {
    pub(crate) environment: Environment,
    pub(crate) store: Arc<dyn Store>,
}

impl ConfigSecrets {
    /// Those of this configuration: as written, and as expanded if the entry is trusted.
    pub(crate) fn of(&self, config: &Config) -> Vec<Secret> {
        let environment = &self.environment;
        let mut secrets = Vec::new();
        if let Some(model) = &config.model {
            let resolved = model.resolve(environment).ok();
            let keys = resolved.into_iter().chain([model.clone()]);
            secrets.extend(keys.filter_map(|model| model.api_key));
        }
        for server in config.servers.values() {
            let is_trusted =
                || trust::trust_state(server, environment, &*self.store) == TrustState::Trusted;
            match &server.endpoint {
                Endpoint::Http(http) => {
                    secrets.extend(http.headers.values().cloned());
                    let auth = [&http.auth.bearer_token, &http.auth.client_secret];
                    secrets.extend(auth.into_iter().flatten().cloned());
                    if is_trusted() {
                        let resolved = config::resolve_url(http, environment);
                        secrets.extend(resolved.into_iter().flat_map(|resolved| resolved.secrets));
                    }
                }
                Endpoint::Stdio(stdio) => {
                    secrets.extend(stdio.env.values().cloned());
                    if is_trusted() {
                        let launch =
                            config::resolve_launch(stdio, &server.source.folder, environment);
                        secrets.extend(launch.into_iter().flat_map(|launch| launch.secrets));
                    }
                }
                Endpoint::Invalid(_) => {}
            }
        }
        secrets
    }
}
