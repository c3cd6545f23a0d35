//! The session of an agent: records it, continues it, forks it, starts another.

use std::path::Path;

use super::Agent;
use super::offered::OfferedTools;
use crate::conversation::{Conversation, ModelTurn};
use crate::price::CostSum;
use crate::session::recorder::SessionRecorder;
use crate::session::{
    LoadedSession, SessionError, SessionHeader, SessionRecord, SessionRepair, SessionStore,
};
use crate::usage::TokenUsage;
use crate::wire::WireRequest;

impl Agent {
    /// With a session file: each step is recorded in a new session of this store, from the first
    /// message on.
    pub fn sessions(mut self, store: SessionStore) -> Self {
        self.recorder = SessionRecorder::new(store);
        self
    }

    /// The session that is recorded. `None` before the first message.
    pub fn session(&self) -> Option<&SessionHeader> {
        self.recorder.header()
    }

    /// The file of the session.
    pub fn session_path(&self) -> Option<&Path> {
        self.recorder.path()
    }

    /// Continues a stored session in its file, instead of the current conversation. Returns the
    /// repairs after a crash.
    ///
    /// With the model that the session had, requests begin with the same bytes as before; tools
    /// that came since are appended.
    pub fn resume(&mut self, session: LoadedSession) -> Vec<SessionRepair> {
        self.clear();
        let settings = self.model.settings();
        let is_same = |model: &crate::ModelSettings| model.origin() == settings.origin();
        if let (Some(prefix), true) = (session.prefix, session.model.as_ref().is_some_and(is_same))
        {
            self.prefix = Some(prefix);
            self.tools = OfferedTools::resumed(settings, session.tools);
        }
        self.recorded_model = session.model;
        self.conversation = session.conversation;
        self.usage = session.usage;
        self.cost = session.cost;
        self.recorder.resume(session.file, session.last_body);
        session.repairs
    }

    /// Starts a new conversation. The old one stays in its file.
    pub fn clear(&mut self) {
        self.close_turn();
        self.recorder = self.recorder.restarted();
        self.recorded_model = None;
        self.conversation = Conversation::new();
        self.usage = TokenUsage::default();
        self.cost = CostSum::default();
        self.tools.restart(self.model.settings());
        self.forget_prefix();
    }

    /// Continues in a copy of the session; the session itself stays unchanged. The copy also has what
    /// could not be written to the session. Returns the id of the
    /// copy, or `None` if nothing was recorded.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the copy cannot be written: then the session continues in its file.
    pub fn fork(&mut self) -> Result<Option<String>, SessionError> {
        self.close_turn();
        Ok(self.recorder.fork()?.map(|header| header.id.clone()))
    }

    /// Copies the session into a new file. Returns `false` where nothing was recorded.
    ///
    /// # Errors
    ///
    /// [`SessionError`] where the file exists or cannot be written.
    pub fn save_copy(&mut self, path: &Path) -> Result<bool, SessionError> {
        self.close_turn();
        self.recorder.copy_to(path)
    }

    /// The next request has a new beginning. Its list of tools must have been started again.
    pub(super) fn forget_prefix(&mut self) {
        self.prefix = None;
        self.recorded_refusals.clear();
    }

    /// Records which model is asked, where that changed.
    pub(super) fn record_model(&mut self) {
        let mut settings = self.model.settings().clone();
        settings.api_key = None;
        if self.recorded_model.as_ref() != Some(&settings) {
            let record = SessionRecord::Model(Box::new(settings.clone()));
            self.recorder.record(&record);
            self.recorded_model = Some(settings);
        }
    }

    /// Records a turn with the request that it answers.
    pub(super) fn record_turn(&mut self, turn: &ModelTurn, request: Option<Box<WireRequest>>) {
        if !self.recorder.is_recording() {
            return;
        }
        for spec in self.tools.list().loaded() {
            if let Some(treatment) = self.model.treatment(spec)
                && self.recorded_refusals.insert(spec.name.clone())
            {
                let name = spec.name.clone();
                self.recorder
                    .record(&SessionRecord::ToolRefused { name, treatment });
            }
        }
        if let Some(request) = request {
            self.recorder.record_request(*request);
        }
        let record = SessionRecord::Turn(Box::new(turn.clone()));
        self.recorder.record(&record);
    }
}
