//! Models over HTTP: sends a wire's request, reads the answer, and retries transient faults.
//!
//! Dropping the future of a turn closes its connection. Every wait has a limit: for the connection,
//! between two pieces of an answer, and between two attempts. So has every buffer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard::secret::Redactor;
use switchboard::store::Store;
use switchboard::sync::lock;

use crate::conversation::ModelTurn;
use crate::fault::{FaultKind, ModelFault};
use crate::model::{Model, TurnEvent, TurnFuture};
use crate::refusal::RefusalMemory;
use crate::settings::{ModelSettings, SettingsError};
use crate::tools::ToolSpec;
use crate::tools::ToolTreatment;
use crate::wire::{ModelWire, wire_of};
use crate::wire::{TurnContext, TurnDelta};

mod attempt;
mod repair;
mod retry;

/// How long the driver waits, how often it tries, and how much it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverLimits {
    /// For the connection.
    pub connect_timeout: Duration,
    /// For the first byte of an answer and between two pieces of it. There is no limit on the
    /// whole answer: a model may write for long.
    pub idle_timeout: Duration,
    /// For what may follow after the model said why it stopped, such as the counts.
    pub end_timeout: Duration,
    /// How often a request is sent again.
    pub max_retries: u32,
    /// The pause before the first retry where the vendor names none. It doubles each time.
    pub first_pause: Duration,
    /// The longest pause that the driver waits for; a longer one is part of the fault.
    pub max_pause: Duration,
    /// The largest event, or answer without events.
    pub max_event_bytes: usize,
    /// The largest answer.
    pub max_answer_bytes: usize,
}

impl Default for DriverLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(300),
            end_timeout: Duration::from_secs(3),
            max_retries: 5,
            first_pause: Duration::from_millis(500),
            max_pause: Duration::from_secs(60),
            max_event_bytes: 16 << 20,
            max_answer_bytes: 64 << 20,
        }
    }
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelSetupError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The demo is not reached over HTTP.
    #[error("[model] `vendor = \"demo\"` is built in and not reached over HTTP")]
    Demo,
    /// The HTTP client could not be set up.
    #[error("HTTP could not be set up: {0}")]
    Http(String),
}

/// A model that is reached over one of the four wires.
pub struct HttpModel {
    settings: ModelSettings,
    limits: DriverLimits,
    wire: &'static dyn ModelWire,
    http: reqwest::Client,
    /// Tools that this vendor refused; shared by all turns.
    refusals: Mutex<RefusalMemory>,
    /// Stores refusals for the next run.
    store: Option<Arc<dyn Store>>,
}

impl HttpModel {
    /// A model with the usual limits.
    pub fn new(settings: ModelSettings) -> Result<Self, ModelSetupError> {
        Self::with_limits(settings, DriverLimits::default())
    }

    /// A model with other limits.
    pub fn with_limits(
        settings: ModelSettings,
        limits: DriverLimits,
    ) -> Result<Self, ModelSetupError> {
        settings.check()?;
        let wire = wire_of(settings.vendor).ok_or(ModelSetupError::Demo)?;
        let mut http = switchboard::transport::http::reqwest_builder()
            .connect_timeout(limits.connect_timeout)
            // A key must not be sent to another address.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")));
        if settings.is_on_this_machine() {
            http = http.no_proxy();
        }
        let http = http
            .build()
            .map_err(|error| ModelSetupError::Http(error.to_string()))?;
        let refusals = Mutex::new(RefusalMemory::default());
        Ok(Self {
            settings,
            limits,
            wire,
            http,
            refusals,
            store: None,
        })
    }

    /// With a store for refused tools, for the next run.
    pub fn remember_in(mut self, store: Arc<dyn Store>) -> Self {
        self.refusals = Mutex::new(RefusalMemory::load(&*store));
        self.store = Some(store);
        self
    }

    /// Which tools the vendor refused so far.
    pub fn refusals(&self) -> RefusalMemory {
        self.lock_refusals().clone()
    }

    /// The same model with other settings, and what is known about its tools.
    fn with_settings(&self, settings: ModelSettings) -> Self {
        Self {
            settings,
            limits: self.limits.clone(),
            wire: self.wire,
            http: self.http.clone(),
            refusals: Mutex::new(self.refusals()),
            store: self.store.clone(),
        }
    }

    fn lock_refusals(&self) -> std::sync::MutexGuard<'_, RefusalMemory> {
        lock(&self.refusals)
    }

    /// Sends the request until it is answered, or a retry would not help.
    async fn turn_with_retries(
        &self,
        context: TurnContext<'_>,
        sink: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<ModelTurn, ModelFault> {
        let mut attempt = 1;
        let request = self.wire.request(&self.settings, &context);
        sink(TurnEvent::RequestSent(Box::new(request.clone())));
        loop {
            let mut has_started_call = false;
            let mut show = |delta: TurnDelta| {
                has_started_call |= matches!(delta, TurnDelta::CallStarted { .. });
                sink(TurnEvent::Delta(delta));
            };
            let fault = match self.attempt(&request, &mut show).await {
                Ok(turn) => return Ok(turn),
                Err(fault) => fault,
            };
            self.pause(fault, &mut attempt, has_started_call, sink)
                .await?;
        }
    }

    /// Waits before the next attempt. Returns the fault if another one would not help.
    async fn pause(
        &self,
        fault: ModelFault,
        attempt: &mut u32,
        has_started_call: bool,
        sink: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<(), ModelFault> {
        let fault = self.without_key(fault);
        let pause = retry::pause_before_retry(&fault, *attempt, has_started_call, &self.limits);
        let Some(wait) = pause else {
            return Err(fault);
        };
        *attempt += 1;
        sink(TurnEvent::Retrying {
            wait,
            attempt: *attempt,
            fault,
        });
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// The same fault without the key: some vendors repeat it when they reject it.
    fn without_key(&self, mut fault: ModelFault) -> ModelFault {
        let redactor = Redactor::new(self.settings.api_key.clone());
        fault.message = redactor.redact(&fault.message).into_owned();
        fault
    }

    /// The same fault with the model named.
    fn name_in(&self, mut fault: ModelFault) -> ModelFault {
        let (name, host) = (&self.settings.name, self.settings.host());
        fault.details.model = Some(format!("\"{name}\" at {host}"));
        if fault.kind == FaultKind::Authentication && self.settings.api_key.is_none() {
            fault.message = match self.settings.key_variables() {
                [variable, ..] => format!("there is no key; set `api_key` or {variable}"),
                [] => "there is no key; set `api_key`".to_owned(),
            };
        }
        fault
    }
}

impl std::fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpModel")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Model for HttpModel {
    fn description(&self) -> String {
        let vendor = self.settings.vendor.name();
        let (name, host) = (&self.settings.name, self.settings.host());
        format!("{name} ({vendor} at {host})")
    }

    fn settings(&self) -> &ModelSettings {
        &self.settings
    }

    fn turn<'a>(
        &'a self,
        context: TurnContext<'a>,
        sink: &'a mut (dyn FnMut(TurnEvent) + Send),
    ) -> TurnFuture<'a> {
        Box::pin(async move {
            let turn = self.turn_with_repair(context, sink).await;
            turn.map_err(|fault| self.name_in(fault))
        })
    }

    fn treatment(&self, tool: &ToolSpec) -> Option<ToolTreatment> {
        self.lock_refusals().get(&self.settings, tool).cloned()
    }

    fn limited(&self, max_output_tokens: u32) -> Option<Box<dyn Model>> {
        let mut settings = self.settings.clone();
        let configured = settings.max_output_tokens.unwrap_or(u32::MAX);
        settings.max_output_tokens = Some(configured.min(max_output_tokens));
        // Anthropic reserves room beside the thoughts: then the answer could be longer.
        settings.thinking_tokens = None;
        Some(Box::new(self.with_settings(settings)))
    }

    fn with_room_for(&self, output_tokens: u32) -> Option<Box<dyn Model>> {
        let configured = self.settings.max_output_tokens?;
        let settings = ModelSettings {
            max_output_tokens: Some(output_tokens),
            ..self.settings.clone()
        };
        (configured < output_tokens).then(|| Box::new(self.with_settings(settings)) as _)
    }

    fn forget_refusals(&self) {
        let mut memory = self.lock_refusals();
        if let Some(store) = &self.store {
            memory.remove_from(&**store);
        }
        memory.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ModelVendor;

    #[test]
    fn a_small_limit_on_answers_can_be_raised_and_no_limit_is_lowered() {
        let mut settings = ModelSettings::new(ModelVendor::OpenAiChat, "m");
        settings.base_url = Some("http://127.0.0.1:1".to_owned());
        let room = |configured: Option<u32>| {
            settings.max_output_tokens = configured;
            let model = HttpModel::new(settings.clone()).expect("a model");
            let raised = model.with_room_for(4096);
            raised.map(|model| model.settings().max_output_tokens)
        };
        let found = [None, Some(12), Some(4096), Some(5000)].map(room);
        assert_eq!(found, [None, Some(Some(4096)), None, None]);
    }
}
