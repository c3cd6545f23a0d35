//! The Unix socket of the gateway: clients of the same user, and commands to the gateway.
//!
//! The first line says what the connection is for: `attach CLIENT`, which is answered with
//! `attached`, after which messages follow as lines; or `command WORDS`, which is answered with one
//! line. Only the user can open the socket's folder (0700), and the user id of the peer is checked, so
//! a client needs no token.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use switchboard::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::{closed, lines};
use crate::digest::digest_of;
use crate::gateway::Gateway;
use crate::principal::Principal;
use crate::refusal::{Refusal, RefusalReason};
use crate::settings::ServerSelection;
use crate::tokens::check_client_name;

/// How long the first line may take.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest first line.
const MAX_FIRST_LINE: u64 = 4096;

/// Clients at the same time; more wait.
const MAX_CONNECTIONS: usize = 1024;

/// How long calls may continue after the edge began to close.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

const ATTACH: &str = "attach ";
const COMMAND: &str = "command ";

/// What the gateway sends first to a client that it serves.
pub const ATTACHED: &str = "attached\n";

/// The extension of the file beside a socket that the gateway has locked while it runs.
const LOCK_EXTENSION: &str = "lock";

/// Runs the commands that are sent to the gateway.
pub trait SocketCommands: Send + Sync {
    /// Runs one; the answer is one line.
    fn run<'a>(&'a self, command: &'a str) -> BoxFuture<'a, String>;
}

/// A socket that this process alone listens on. The file is removed when it is dropped.
#[derive(Debug)]
pub struct BoundSocket {
    listener: UnixListener,
    /// Removed with the socket.
    _file: SocketFile,
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Held while this process listens; released by the kernel, however the process ends.
    _lock: File,
}

/// A running edge. Dropping it ends all connections at once; [`close`](Self::close) drains them.
#[derive(Debug)]
pub struct SocketEdge {
    closing: watch::Sender<bool>,
    clients: watch::Sender<Option<usize>>,
    serving: JoinHandle<()>,
}

struct SocketState {
    gateway: Gateway,
    selection: ServerSelection,
    commands: Arc<dyn SocketCommands>,
    /// How many clients are connected; `None` once no more are admitted.
    clients: watch::Sender<Option<usize>>,
}

/// The path of the socket of the gateway that these paths identify.
pub fn socket_path(runtime_folder: &Path, identity: &[PathBuf]) -> PathBuf {
    let parts = identity.iter().map(|path| path.as_os_str().as_bytes());
    let hash = digest_of(parts).to_hex();
    runtime_folder.join(format!("gateway-{}.sock", &hash[..16]))
}

/// The sockets in this folder, each with the record of the gateway that listens or listened there.
pub fn recorded_sockets(runtime_folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(runtime_folder).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let mut sockets: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == LOCK_EXTENSION))
        .filter_map(|path| {
            let record = std::fs::read_to_string(&path).ok()?;
            Some((path.with_extension("sock"), record))
        })
        .collect();
    sockets.sort();
    sockets
}

/// What a client sends first.
pub fn attach_line(client: &str) -> String {
    format!("{ATTACH}{client}\n")
}

/// What a command to the gateway sends first.
pub fn command_line(command: &str) -> String {
    format!("{COMMAND}{command}\n")
}

impl BoundSocket {
    /// Listens on a path in a folder of the user's own; `None` if another process listens there.
    /// `record` describes the gateway to other programs; it is the content of the lock file beside
    /// the socket.
    pub fn bind(path: &Path, record: &str) -> io::Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            make_private_folder(folder)?;
        }
        let mut lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.with_extension(LOCK_EXTENSION))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        // A process that still listened here would hold the lock, so the file is a leftover.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        lock.set_len(0)?;
        lock.write_all(record.as_bytes())?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let file = SocketFile {
            path: path.to_owned(),
            _lock: lock,
        };
        Ok(Some(Self {
            listener,
            _file: file,
        }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn make_private_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let metadata = std::fs::symlink_metadata(folder)?;
    let is_ours = metadata.is_dir() && metadata.uid() == nix::unistd::geteuid().as_raw();
    if !is_ours || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} must be a folder that only you can enter",
                folder.display()
            ),
        ));
    }
    Ok(())
}

impl SocketEdge {
    /// Serves clients on a socket.
    pub fn serve(
        gateway: Gateway,
        selection: ServerSelection,
        socket: BoundSocket,
        commands: Arc<dyn SocketCommands>,
    ) -> Self {
        let (closing, is_closing) = watch::channel(false);
        let clients = watch::Sender::new(Some(0));
        let state = Arc::new(SocketState {
            gateway,
            selection,
            commands,
            clients: clients.clone(),
        });
        let serving = tokio::spawn(accept(state, socket, is_closing));
        Self {
            closing,
            clients,
            serving,
        }
    }

    /// Waits until no client was connected for this time. From then on none is admitted, so that no
    /// client is lost that connects while the gateway ends.
    pub async fn until_idle(&self, idle: Duration) {
        let mut clients = self.clients.subscribe();
        loop {
            let _ = clients.wait_for(|count| *count == Some(0)).await;
            let busy = clients.wait_for(|count| *count != Some(0));
            let is_idle = tokio::time::timeout(idle, busy).await.is_err();
            let admits_none =
                |count: &mut Option<usize>| count.take_if(|count| *count == 0).is_some();
            if is_idle && self.clients.send_if_modified(admits_none) {
                return;
            }
        }
    }

    /// Stops accepting, and waits up to ten seconds for clients to disconnect.
    pub async fn close(mut self) {
        self.clients.send_replace(None);
        self.closing.send_replace(true);
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut self.serving).await;
    }
}

impl Drop for SocketEdge {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(state: Arc<SocketState>, socket: BoundSocket, is_closing: watch::Receiver<bool>) {
    let mut closing = is_closing.clone();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = async {
            let permit = room.clone().acquire_owned().await;
            (permit, socket.listener.accept().await)
        };
        tokio::select! {
            () = closed(&mut closing) => break,
            (permit, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    let (state, closing) = (state.clone(), is_closing.clone());
                    connections.spawn(async move {
                        if let Err(error) = serve_connection(&state, stream, closing).await {
                            tracing::debug!("a connection of the socket ended: {error}");
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection on the socket: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    drop(socket);
    while connections.join_next().await.is_some() {}
}

async fn serve_connection(
    state: &SocketState,
    stream: UnixStream,
    mut closing: watch::Receiver<bool>,
) -> io::Result<()> {
    let us = nix::unistd::geteuid().as_raw();
    if stream.peer_cred()?.uid() != us {
        state.gateway.recorder().request_refused(&Refusal {
            reason: RefusalReason::OtherUser,
            peer: None,
            principal: None,
            path: String::new(),
        });
        return Ok(());
    }
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(16 << 10, reader);
    let mut line = String::new();
    let mut limited = (&mut reader).take(MAX_FIRST_LINE);
    let read = tokio::time::timeout(FIRST_LINE_TIMEOUT, limited.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(_))) {
        return Ok(());
    }
    let line = line.trim_end();
    if let Some(command) = line.strip_prefix(COMMAND) {
        let answer = state.commands.run(command).await;
        return writer.write_all(format!("{answer}\n").as_bytes()).await;
    }
    let client = line
        .strip_prefix(ATTACH)
        .filter(|client| check_client_name(client).is_ok());
    let Some(client) = client else {
        return Ok(());
    };
    // A client without an answer connects to the next gateway.
    let Some(_connected) = ConnectedClient::new(&state.clients) else {
        return Ok(());
    };
    writer.write_all(ATTACHED.as_bytes()).await?;
    let (principal, selection) = (Principal::new(client), state.selection.clone());
    let closing = closed(&mut closing);
    lines::serve_until(
        &state.gateway,
        principal,
        selection,
        reader,
        writer,
        closing,
    )
    .await
    .inspect_err(|error| {
        if error.kind() == io::ErrorKind::TimedOut {
            tracing::warn!("client \"{client}\" was disconnected: {error}");
        }
    })
}

/// Counts a client while it is connected.
struct ConnectedClient<'a>(&'a watch::Sender<Option<usize>>);

impl<'a> ConnectedClient<'a> {
    /// `None` once no more clients are admitted.
    fn new(clients: &'a watch::Sender<Option<usize>>) -> Option<Self> {
        let admitted = clients.send_if_modified(|count| match count {
            Some(count) => {
                *count += 1;
                true
            }
            None => false,
        });
        admitted.then_some(Self(clients))
    }
}

impl Drop for ConnectedClient<'_> {
    fn drop(&mut self) {
        self.0
            .send_modify(|count| *count = count.map(|count| count - 1));
    }
}
