//! Notices that configuration files changed: their folders are watched, since editors write another
//! file and rename it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::ReloadCause;
use crate::config::visible_path;
use crate::config::{Config, ConfigErrors};
use crate::host::HostState;
use crate::name::ServerName;
use crate::panics::{CaughtPanic, catch_panic};
use crate::sync::lock;

/// What is written is read when nothing was written for so long.
const QUIET_TIME: Duration = Duration::from_millis(200);

/// A file that is never left alone is read all the same.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// A file that has lost servers may be half written: it is looked at again when nothing was written
/// for so long.
const LONG_QUIET_TIME: Duration = Duration::from_secs(1);

type LoadConfig = Arc<dyn Fn() -> Result<Config, ConfigErrors> + Send + Sync>;

/// Why files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("the configuration is not watched, a change needs a restart: {0}")]
pub struct WatchError(#[from] notify::Error);

/// Watches from here on, in place of what was watched before.
pub(super) fn begin(
    host: &Arc<HostState>,
    files: Vec<PathBuf>,
    load: LoadConfig,
) -> Result<(), WatchError> {
    let files: Vec<PathBuf> = files.iter().flat_map(|file| watched_paths(file)).collect();
    let changed = Arc::new(Notify::new());
    let mut folders = WatchedFolders::new(files.clone(), changed.clone())?;
    folders.watch()?;
    let watcher = FileWatcher {
        host: Arc::downgrade(host),
        files,
        load,
        changed,
        folders,
    };
    let task = tokio::spawn(watcher.run());
    if let Some(before) = lock(&host.reload.watcher).replace(task.abort_handle()) {
        before.abort();
    }
    Ok(())
}

/// Where a file is, and where the file is that a link leads to.
fn watched_paths(file: &Path) -> Vec<PathBuf> {
    let here = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let there = here.canonicalize().ok().filter(|there| *there != here);
    [here].into_iter().chain(there).collect()
}

/// The folders of files, or as much of the way to them as there is.
struct WatchedFolders {
    files: Vec<PathBuf>,
    watcher: RecommendedWatcher,
    watched: HashSet<PathBuf>,
}

impl WatchedFolders {
    fn new(files: Vec<PathBuf>, changed: Arc<Notify>) -> Result<Self, notify::Error> {
        let wanted = files.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // What cannot be told may have been anything.
            if event.is_ok_and(|event| !may_change(&event, &wanted)) {
                return;
            }
            changed.notify_one();
        })?;
        Ok(Self {
            files,
            watcher,
            watched: HashSet::new(),
        })
    }

    /// Watches what is there now. A folder that appears is watched from the next time on.
    fn watch(&mut self) -> Result<(), notify::Error> {
        for file in &self.files {
            let Some(folder) = file.ancestors().skip(1).find(|folder| folder.is_dir()) else {
                continue;
            };
            if !self.watched.contains(folder) {
                self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
                self.watched.insert(folder.to_owned());
            }
        }
        // A folder that went is another one when it comes back.
        self.watched.retain(|folder| folder.is_dir());
        Ok(())
    }
}

/// Whether a file may be another one since.
fn may_change(event: &notify::Event, files: &[PathBuf]) -> bool {
    let is_reading = matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write));
    let leads_to_one = |path: &PathBuf| files.iter().any(|file| file.starts_with(path));
    !is_reading && (event.need_rescan() || event.paths.iter().any(leads_to_one))
}

struct FileWatcher {
    /// Ends with it.
    host: Weak<HostState>,
    files: Vec<PathBuf>,
    load: LoadConfig,
    changed: Arc<Notify>,
    folders: WatchedFolders,
}

impl FileWatcher {
    async fn run(mut self) {
        // What was written since the files were read counts as well.
        self.changed.notify_one();
        loop {
            self.changed.notified().await;
            self.wait_quiet(QUIET_TIME).await;
            if let Err(fault) = self.folders.watch() {
                tracing::warn!(%fault, "a folder is not watched");
            }
            let Some(host) = self.host.upgrade() else {
                return;
            };
            // Whatever a file did to us, the next edit is noticed.
            if let Err(panicked) = catch_panic(self.load_and_apply(&host)).await {
                host.set_load_errors(vec![format!("the files could not be applied: {panicked}")]);
            }
        }
    }

    /// Waits until nothing was written for a while. False if it was quiet from the start.
    async fn wait_quiet(&self, quiet: Duration) -> bool {
        let began = Instant::now();
        let mut disturbed = false;
        while began.elapsed() < MAX_WAIT && timeout(quiet, self.changed.notified()).await.is_ok() {
            disturbed = true;
        }
        disturbed
    }

    async fn load_and_apply(&self, host: &Arc<HostState>) {
        let mut loaded = self.load(host).await;
        if loaded
            .as_ref()
            .is_ok_and(|config| has_lost_servers(host, config))
            && self.wait_quiet(LONG_QUIET_TIME).await
        {
            loaded = self.load(host).await;
        }
        let outcome = match loaded {
            Ok(config) => host
                .apply(config, ReloadCause::FileChange)
                .await
                .map(drop)
                .map_err(lines),
            Err(errors) => Err(errors),
        };
        if let Err(errors) = outcome {
            host.set_load_errors(errors);
        }
    }

    async fn load(&self, host: &HostState) -> Result<Config, Vec<String>> {
        if let Some(file) = self.files.iter().find(|file| is_emptied(host, file)) {
            return Err(vec![format!(
                "{}: the file is empty; remove it, or its servers one by one",
                visible_path(file)
            )]);
        }
        let load = self.load.clone();
        match tokio::task::spawn_blocking(move || load()).await {
            Ok(loaded) => loaded.map_err(lines),
            Err(fault) => Err(vec![match fault.try_into_panic() {
                Ok(payload) => format!(
                    "the files could not be read: {}",
                    CaughtPanic::new(&*payload)
                ),
                Err(_) => "the files could not be read: the program is ending".to_owned(),
            }]),
        }
    }
}

/// A file that had servers and now has no byte is about to be written.
fn is_emptied(host: &HostState, file: &Path) -> bool {
    let had_servers = || {
        host.roster()
            .config
            .servers
            .values()
            .any(|server| *server.source.file == file)
    };
    file.metadata().is_ok_and(|metadata| metadata.len() == 0) && had_servers()
}

fn has_lost_servers(host: &HostState, config: &Config) -> bool {
    let is_lost = |name: &ServerName| !config.servers.contains_key(name);
    host.roster().config.servers.keys().any(is_lost)
}

fn lines(errors: ConfigErrors) -> Vec<String> {
    errors.0.iter().map(ToString::to_string).collect()
}
