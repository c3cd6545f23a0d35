//! Which configuration is in force: a hash of its files, and when they were read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use switchboard::Host;
use switchboard::event::{Event, NextEvent};
use tokio::task::AbortHandle;

use switchboard::sync::lock;

/// The configuration in force.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    files: Vec<PathBuf>,
    read: Arc<Mutex<ConfigRead>>,
    /// Notices reloads; ends with this.
    task: Option<AbortHandle>,
}

/// One load of the files.
#[derive(Debug, Clone)]
pub(crate) struct ConfigRead {
    pub(crate) at: SystemTime,
    /// Of the bytes of all files, in order.
    pub(crate) hash: String,
}

impl LoadedConfig {
    /// These files have just been read.
    pub(crate) fn new(host: &Host, files: Vec<PathBuf>) -> Self {
        let read = Arc::new(Mutex::new(ConfigRead::of(&files)));
        let task = tokio::runtime::Handle::try_current().ok().map(|runtime| {
            let (mut events, files, read) = (host.events(), files.clone(), read.clone());
            let task = runtime.spawn(async move {
                while let Some(event) = events.next().await {
                    if matches!(event, NextEvent::Event(Event::Reloaded(_))) {
                        *lock(&read) = ConfigRead::of(&files);
                    }
                }
            });
            task.abort_handle()
        });
        Self { files, read, task }
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The files have just been read again, and the host has accepted them.
    pub(crate) fn set_read(&self) {
        *lock(&self.read) = ConfigRead::of(&self.files);
    }

    /// The last load that the host accepted.
    pub(crate) fn read(&self) -> ConfigRead {
        lock(&self.read).clone()
    }
}

impl Drop for LoadedConfig {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl ConfigRead {
    fn of(files: &[PathBuf]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for file in files {
            // A missing file has no bytes.
            hasher.update(&std::fs::read(file).unwrap_or_default());
        }
        Self {
            at: SystemTime::now(),
            hash: hasher.finalize().to_hex()[..12].to_owned(),
        }
    }
}
