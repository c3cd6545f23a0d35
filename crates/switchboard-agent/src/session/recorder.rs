//! Appends the steps of an agent's conversation to its session file.

use std::path::Path;

use super::{
    RecordedRequest, SessionError, SessionFile, SessionHeader, SessionRecord, SessionStore,
};
use crate::wire::WireRequest;

/// The session of an agent. The file is created with the first record, so that an unused agent leaves
/// none.
#[derive(Debug, Default)]
pub(crate) struct SessionRecorder {
    store: Option<SessionStore>,
    file: Option<SessionFile>,
    /// The body of the last request that was recorded.
    last_body: String,
    /// Why nothing more is recorded. A file with a gap could not be continued.
    failed: bool,
    error: Option<SessionError>,
}

impl SessionRecorder {
    /// Records into a new session of this store.
    pub(crate) fn new(store: SessionStore) -> Self {
        Self {
            store: Some(store),
            ..Self::default()
        }
    }

    /// The same store, with a new session.
    pub(crate) fn restarted(&self) -> Self {
        Self {
            store: self.store.clone(),
            ..Self::default()
        }
    }

    /// Continues in a file that was loaded.
    pub(crate) fn resume(&mut self, file: SessionFile, last_body: String) {
        self.file = Some(file);
        self.last_body = last_body;
        self.failed = false;
    }

    pub(crate) fn header(&self) -> Option<&SessionHeader> {
        self.file.as_ref().map(SessionFile::header)
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(SessionFile::path)
    }

    /// Whether the beginning of the session is in the file.
    pub(crate) fn is_recording(&self) -> bool {
        !self.failed && (self.file.is_some() || self.store.is_some())
    }

    pub(crate) fn record(&mut self, record: &SessionRecord) {
        if !self.is_recording() {
            return;
        }
        let appended = self.open().and_then(|file| file.append(record));
        if let Err(error) = appended {
            self.failed = true;
            self.error = Some(error);
        }
    }

    pub(crate) fn record_request(&mut self, request: WireRequest) {
        if self.is_recording() {
            let recorded = RecordedRequest::new(&self.last_body, &request);
            self.record(&SessionRecord::Request(recorded));
            self.last_body = request.body;
        }
    }

    /// Why recording ended, once.
    pub(crate) fn take_error(&mut self) -> Option<SessionError> {
        self.error.take()
    }

    /// Whether a write failed, so that nothing is recorded until the next copy.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Continues in a copy, also after a failed write: what was not written is missing in it. `None`
    /// if nothing was recorded.
    pub(crate) fn fork(&mut self) -> Result<Option<&SessionHeader>, SessionError> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        let own_folder = file.path().parent().map(Path::to_owned);
        let store = self.store.as_ref().map(|store| store.folder().to_owned());
        if let Some(folder) = store.or(own_folder) {
            *file = file.fork(&folder)?;
            if std::mem::take(&mut self.failed) {
                // The last body may not be in the file.
                self.last_body.clear();
            }
        }
        Ok(Some(file.header()))
    }

    /// Copies what was recorded into a new file.
    pub(crate) fn copy_to(&mut self, path: &Path) -> Result<bool, SessionError> {
        match &mut self.file {
            None => Ok(false),
            Some(file) => file.copy_to(path).map(|()| true),
        }
    }

    fn open(&mut self) -> Result<&mut SessionFile, SessionError> {
        if self.file.is_none() {
            let store = self.store.as_ref().ok_or(SessionError::NoSession)?;
            self.file = Some(store.create()?);
        }
        self.file.as_mut().ok_or(SessionError::NoSession)
    }
}
