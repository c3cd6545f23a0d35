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
    /// The records since the first one that could not be written. The file gets none of them, since
    /// one with a gap could not be continued; the next fork gets them all.
    unwritten: Vec<SessionRecord>,
    /// Why writing failed.
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
        self.unwritten.clear();
    }

    pub(crate) fn header(&self) -> Option<&SessionHeader> {
        self.file.as_ref().map(SessionFile::header)
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(SessionFile::path)
    }

    /// Whether there is a file or a place for one.
    pub(crate) fn is_recording(&self) -> bool {
        self.file.is_some() || self.store.is_some()
    }

    pub(crate) fn record(&mut self, record: &SessionRecord) {
        if !self.is_recording() {
            return;
        }
        let has_failed = !self.unwritten.is_empty();
        if !has_failed {
            let appended = self.open().and_then(|file| file.append(record));
            self.error = match appended {
                Ok(()) => return,
                Err(error) => Some(error),
            };
        }
        self.unwritten.push(record.clone());
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

    /// Continues in a copy, which also gets what could not be written. `None` if nothing was
    /// recorded.
    pub(crate) fn fork(&mut self) -> Result<Option<&SessionHeader>, SessionError> {
        let mut fork = match (&mut self.file, &self.store) {
            (Some(file), store) => {
                let own_folder = file.path().parent().map(Path::to_owned);
                let store = store.as_ref().map(|store| store.folder().to_owned());
                file.fork(&store.or(own_folder).unwrap_or_default())?
            }
            (None, Some(store)) if !self.unwritten.is_empty() => store.create()?,
            (None, _) => return Ok(None),
        };
        let mut records = self.unwritten.iter();
        if let Err(error) = records.try_for_each(|record| fork.append(record)) {
            // The session itself has as much. If it cannot be removed, it stays as a shorter copy.
            let _ = std::fs::remove_file(fork.path());
            return Err(error);
        }
        self.unwritten.clear();
        Ok(Some(self.file.insert(fork).header()))
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
