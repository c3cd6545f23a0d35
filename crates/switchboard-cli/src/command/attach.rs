//! `attach`: copies bytes between the standard streams and the socket of the running gateway, which
//! it starts if none runs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use switchboard::store::StoreError;
use switchboard::untrusted::Untrusted;
use switchboard_gateway::edge::socket::{ATTACHED, attach_line};
use switchboard_gateway::tokens::check_client_name;

use crate::arguments::{Options, seconds};
use crate::failure::{Code, Failure};
use crate::hints;
use crate::paths::Paths;

/// The default name of the client.
const DEFAULT_CLIENT: &str = "local";

/// How long a new gateway may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// How long the last responses may take after the client closed its end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

const BUFFER_BYTES: usize = 64 << 10;

/// Arguments of `attach`.
#[derive(Debug, Args)]
#[command(after_help = "\
An MCP client starts this command as its server, and one gateway serves all clients. If no gateway runs for these configuration files, this command starts one, which ends by itself after its last client has disconnected.

Examples:
  switchboard attach --as codex
  claude mcp add switchboard -- switchboard attach --as claude-code")]
pub(crate) struct AttachArgs {
    /// Name of the client, which rules can name (`client = "NAME"`)
    #[arg(long = "as", value_name = "CLIENT", default_value = DEFAULT_CLIENT)]
    client: String,
    /// Seconds without a client after which a gateway that this command starts ends
    #[arg(long, value_name = "SECS", default_value = IDLE_SECONDS, value_parser = seconds)]
    idle_timeout: Duration,
}

/// The default of `--idle-timeout`.
pub(super) const IDLE_SECONDS: &str = "300";

pub(crate) fn run(options: &Options, args: &AttachArgs) -> Result<u8, Failure> {
    check_client_name(&args.client)
        .map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    let paths = Paths::find()?;
    let socket = paths.gateway_socket(options);
    let deadline = Instant::now() + START_TIMEOUT;
    let stream = loop {
        let stream = match UnixStream::connect(&socket) {
            Ok(stream) => stream,
            Err(_) => start_gateway(options, args, &paths, &socket)?,
        };
        match attach(&stream, &args.client) {
            Ok(()) => break stream,
            // The gateway is ending; a new one is started.
            Err(_) if Instant::now() < deadline => std::thread::sleep(CONNECT_PAUSE),
            Err(error) => return Err(lost(&error)),
        }
    };
    // One such process for each client waits for as long as the client runs.
    switchboard::launch::release_code();
    let client_has_ended = Arc::new(AtomicBool::new(false));
    pump(&stream, client_has_ended.clone()).map_err(|error| lost(&error))?;
    match client_has_ended.load(Ordering::Relaxed) {
        true => Ok(0),
        false if is_alive(&socket, &args.client) => Err(Failure::new(
            Code::Unreachable,
            "the gateway has closed the connection, and requests that it had not answered are lost",
        )
        .hint("connect again; it disconnects a client that does not read what it sends")),
        false => Err(Failure::new(
            Code::Unreachable,
            "the gateway has ended, and requests that it had not answered are lost",
        )
        .hint("connect again: that starts a gateway if none runs")),
    }
}

/// Whether a gateway admits the client. One that is being killed may still have its socket.
fn is_alive(socket: &Path, client: &str) -> bool {
    UnixStream::connect(socket).is_ok_and(|stream| attach(&stream, client).is_ok())
}

fn lost(error: &io::Error) -> Failure {
    Failure::new(
        Code::Unreachable,
        format!("the connection to the gateway was lost: {error}"),
    )
}

/// Sends the client's name. An error means that the gateway has read nothing of the client.
fn attach(mut stream: &UnixStream, client: &str) -> io::Result<()> {
    stream.write_all(attach_line(client).as_bytes())?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    let mut answer = [0; ATTACHED.len()];
    stream.read_exact(&mut answer)?;
    stream.set_read_timeout(None)?;
    match answer == ATTACHED.as_bytes() {
        true => Ok(()),
        false => Err(io::Error::other("another program answers there")),
    }
}

/// Copies bytes both ways until the gateway closes its end. Sets `client_has_ended` if the client
/// closed its end first.
fn pump(stream: &UnixStream, client_has_ended: Arc<AtomicBool>) -> io::Result<()> {
    let to_gateway = stream.try_clone()?;
    let has_ended = client_has_ended.clone();
    std::thread::spawn(move || {
        if copy(&mut io::stdin(), &mut &to_gateway).is_ok() {
            has_ended.store(true, Ordering::Relaxed);
        }
        let _ = to_gateway.shutdown(Shutdown::Write);
        // The gateway answers what is in flight and closes its end, which ends this process.
        std::thread::sleep(DRAIN_TIMEOUT);
        let _ = to_gateway.shutdown(Shutdown::Both);
    });
    // A client that no longer reads has disconnected.
    match copy(
        &mut &*stream,
        &mut File::from(io::stdout().as_fd().try_clone_to_owned()?),
    ) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            client_has_ended.store(true, Ordering::Relaxed);
            Ok(())
        }
        copied => copied,
    }
}

/// Copies each chunk as it comes.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Starts a gateway and connects to it. Only one process does so at a time.
fn start_gateway(
    options: &Options,
    args: &AttachArgs,
    paths: &Paths,
    socket: &Path,
) -> Result<UnixStream, Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    let log = log_path(paths, socket);
    let failure = |error: io::Error| {
        Failure::new(
            Code::Unreachable,
            format!("the gateway cannot be started: {error}"),
        )
    };
    let unusable = |source: io::Error| {
        Failure::from(StoreError::Io {
            path: paths.state.clone(),
            source,
        })
    };
    std::fs::create_dir_all(&paths.state).map_err(unusable)?;
    let start_lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(paths.state.join("gateway-start.lock"))
        .map_err(unusable)?;
    while start_lock.try_lock().is_err() {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        if Instant::now() >= deadline {
            return Err(not_started(&log));
        }
        std::thread::sleep(CONNECT_PAUSE);
    }
    if let Ok(stream) = UnixStream::connect(socket) {
        return Ok(stream);
    }
    let mut gateway = spawn(options, args, &log).map_err(failure)?;
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        let has_ended = gateway.try_wait().map_err(failure)?.is_some();
        if has_ended || Instant::now() >= deadline {
            // A gateway that does not listen serves nobody.
            let _ = gateway.kill();
            return Err(not_started(&log));
        }
        std::thread::sleep(CONNECT_PAUSE);
    }
}

/// The log of the gateway behind this socket. Each gateway has its own: those of other projects run
/// at the same time.
fn log_path(paths: &Paths, socket: &Path) -> PathBuf {
    let name = socket.with_extension("log");
    paths.state.join(name.file_name().unwrap_or_default())
}

/// A gateway that outlives this process and ends when it is idle.
fn spawn(options: &Options, args: &AttachArgs, log: &Path) -> io::Result<Child> {
    let log = File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(log)?;
    log.set_len(0)?;
    let mut command = Command::new(std::env::current_exe()?);
    for file in &options.config {
        command.arg("-c").arg(file);
    }
    if let Some(dialect) = options.dialect {
        command.arg("--dialect").arg(dialect.profile().name);
    }
    for root in &options.root {
        command.arg("--root").arg(root);
    }
    command
        .args(["serve", "--detached", "--idle-timeout"])
        .arg(args.idle_timeout.as_secs_f64().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // SAFETY: setsid is async-signal-safe. The gateway must not get this terminal's signals.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            Ok(())
        });
    }
    command.spawn()
}

fn not_started(log: &Path) -> Failure {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let reason = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it did not listen in time");
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    Failure::new(
        Code::Unreachable,
        format!(
            "the gateway did not start: {}",
            Untrusted::new(reason).for_terminal_line()
        ),
    )
    .hint(format!(
        "run {} to see its whole output",
        hints::command_with(&["serve", "--http", "127.0.0.1:8808"], &[])
    ))
}
