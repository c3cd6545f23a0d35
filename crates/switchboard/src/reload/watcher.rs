//! Detects changes of configuration files. Watches their folders, because editors write a new file
//! and rename it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::{ConfigSource, ReloadCause};
use crate::config::visible_path;
use crate::config::{Config, ConfigErrors};
use crate::host::HostState;
use crate::name::ServerName;
use crate::panics::{CaughtPanic, catch_panic};
use crate::sync::lock;

/// Files are loaded after this long without a write.
const QUIET_TIME: Duration = Duration::from_millis(200);

/// Files that are written continuously are loaded after this long.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Files that have lost servers may be partially written: they are loaded again after this long
/// without a write.
const LONG_QUIET_TIME: Duration = Duration::from_secs(1);

/// Why files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("the configuration is not watched, a change needs a restart: {0}")]
pub struct WatchError(#[from] notify::Error);

/// Starts watching; replaces an earlier watcher.
pub(super) fn begin(
    host: &Arc<HostState>,
    files: Vec<PathBuf>,
    source: Arc<dyn ConfigSource>,
) -> Result<(), WatchError> {
    let files: Vec<PathBuf> = files.iter().flat_map(|file| watched_paths(file)).collect();
    let changed = Arc::new(Notify::new());
    let mut folders = WatchedFolders::new(files.clone(), changed.clone())?;
    folders.watch()?;
    let watcher = FileWatcher {
        host: Arc::downgrade(host),
        files,
        source,
        changed,
        folders,
    };
    let task = tokio::spawn(watcher.run());
    if let Some(before) = lock(&host.reload.watcher).replace(task.abort_handle()) {
        before.abort();
    }
    Ok(())
}

/// The path of a file, and of the file that a link points to.
fn watched_paths(file: &Path) -> Vec<PathBuf> {
    let here = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let there = here.canonicalize().ok().filter(|there| *there != here);
    [here].into_iter().chain(there).collect()
}

/// Watches the folders of files, or their nearest existing parents.
struct WatchedFolders {
    files: Vec<PathBuf>,
    watcher: RecommendedWatcher,
}

impl WatchedFolders {
    fn new(files: Vec<PathBuf>, changed: Arc<Notify>) -> Result<Self, notify::Error> {
        let wanted = files.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error may hide any change.
            if event.is_ok_and(|event| !may_change(&event, &wanted)) {
                return;
            }
            changed.notify_one();
        })?;
        Ok(Self { files, watcher })
    }

    /// Watches the folders that exist now. Called again after each change, for new folders and for
    /// those that were replaced: the system watches a folder, not its path.
    fn watch(&mut self) -> Result<(), notify::Error> {
        let nearest = |file: &'_ PathBuf| {
            let mut folders = file.ancestors().skip(1);
            folders.find(|folder| folder.is_dir()).map(Path::to_owned)
        };
        let folders: BTreeSet<PathBuf> = self.files.iter().filter_map(nearest).collect();
        folders
            .iter()
            .try_for_each(|folder| self.watcher.watch(folder, RecursiveMode::NonRecursive))
    }
}

/// Whether an event may mean that one of the files changed.
fn may_change(event: &notify::Event, files: &[PathBuf]) -> bool {
    let is_reading = matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write));
    let leads_to_one = |path: &PathBuf| files.iter().any(|file| file.starts_with(path));
    !is_reading && (event.need_rescan() || event.paths.iter().any(leads_to_one))
}

struct FileWatcher {
    /// Weak, so that the watcher ends with the host.
    host: Weak<HostState>,
    files: Vec<PathBuf>,
    source: Arc<dyn ConfigSource>,
    changed: Arc<Notify>,
    folders: WatchedFolders,
}

impl FileWatcher {
    async fn run(mut self) {
        // Files may have changed since they were loaded.
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
            // After a panic, later changes are still handled.
            if let Err(panicked) = catch_panic(self.load_and_apply(&host)).await {
                host.set_load_errors(vec![format!("the files could not be applied: {panicked}")]);
            }
        }
    }

    /// Waits until nothing was written for this long. False if nothing was written at all.
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
                .map_err(lines),
            Err(errors) => Err(errors),
        };
        match outcome {
            Ok(_) => self.source.accepted(&host.latest_config()),
            Err(errors) => {
                host.drop_revoked_grants().await;
                host.set_load_errors(errors);
            }
        }
    }

    async fn load(&self, host: &HostState) -> Result<Config, Vec<String>> {
        if let Some(file) = self.files.iter().find(|file| is_emptied(host, file)) {
            return Err(vec![format!(
                "{}: the file is empty; remove it, or its servers one by one",
                visible_path(file)
            )]);
        }
        let source = self.source.clone();
        match tokio::task::spawn_blocking(move || source.load()).await {
            Ok(Ok(mut config)) => {
                host.in_code.add_to(&mut config);
                Ok(config)
            }
            Ok(Err(errors)) => Err(lines(errors)),
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

/// Whether a file with servers is now empty, which means that it is about to be written.
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
