//! The raw reference client: the minimal correct asynchronous client over stdio.
//!
//! Non-blocking pipes, an envelope with the id only, a slab of pending calls, coalesced writes. No
//! gate, no validation, no deadlines.

use std::future::poll_fn;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::{Bytes, BytesMut};
use slab::Slab;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::measure::{Contestant, EchoTool, Era, Fault, Tool};

/// The minimal room for one read: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// One running server, and the two tasks that serve its pipes.
#[derive(Clone)]
pub(crate) struct Raw {
    shared: Arc<Shared>,
    /// The end of each request's params: the modern era's `_meta`, or nothing.
    meta: &'static str,
    echo: EchoTool,
    process: Arc<Process>,
}

/// A child that is killed when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    /// Complete lines. The writer takes all of them at once: many calls are one write.
    outgoing: Vec<u8>,
    /// Set while the writer waits.
    writer: Option<Waker>,
    /// The key is the request's id; the caller holds the other end.
    pending: Slab<oneshot::Sender<Bytes>>,
    /// Set by the reader at the end of the server's output.
    closed: bool,
}

impl Raw {
    /// Starts a server and initialises the session.
    pub(crate) async fn start(command: Command, era: Era) -> Result<Self, Fault> {
        Self::open(Self::spawn(command)?, era, EchoTool::of_floor()).await
    }

    /// Starts a process with pipes.
    pub(crate) fn spawn(mut command: Command) -> std::io::Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    /// Opens a session with a server that has this echo tool.
    pub(crate) async fn open(mut child: Child, era: Era, echo: EchoTool) -> Result<Self, Fault> {
        let pipes = child.stdin.take().zip(child.stdout.take());
        let process = Arc::new(Process(child));
        let (stdin, stdout) = pipes.ok_or("the child has no pipes")?;
        let shared = Arc::new(Shared(Mutex::default()));
        tokio::spawn(write(
            pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?,
            shared.clone(),
        ));
        tokio::spawn(read(
            pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?,
            shared.clone(),
        ));
        let raw = Self {
            shared,
            meta: era.meta(),
            echo,
            process,
        };
        let (method, params) = era.hello();
        field(&raw.request(method, &[params])?.await?, b"result")
            .ok_or("the server refused the handshake")?;
        if era == Era::Legacy {
            raw.shared.lock().outgoing.extend_from_slice(
                b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
            );
        }
        Ok(raw)
    }

    /// The process that was started.
    pub(crate) fn process_id(&self) -> u32 {
        self.process.0.id()
    }

    /// The size of the first page of tools.
    pub(crate) async fn list(&self) -> Result<usize, Fault> {
        Ok(self
            .request("tools/list", &["{", self.meta.trim_start_matches(','), "}"])?
            .await?
            .len())
    }

    /// Queues one request; the receiver gets the whole response line. `params` are the parts of one
    /// JSON object.
    fn request(&self, method: &str, params: &[&str]) -> Result<oneshot::Receiver<Bytes>, Fault> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.shared.lock();
        if state.closed {
            return Err("the server has closed".into());
        }
        let id = state.pending.insert(answer);
        let outgoing = &mut state.outgoing;
        write!(
            outgoing,
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":"
        )?;
        params
            .iter()
            .for_each(|piece| outgoing.extend_from_slice(piece.as_bytes()));
        outgoing.extend_from_slice(b"}\n");
        let writer = state.writer.take();
        drop(state);
        writer.inspect(Waker::wake_by_ref);
        Ok(answered)
    }
}

impl Raw {
    /// The whole line that answers a call.
    pub(crate) async fn call_for_answer(&self, tool: Tool) -> Result<Bytes, Fault> {
        let (name, arguments) = match tool {
            Tool::Echo => (&*self.echo.name, self.echo.arguments),
            Tool::Big => (tool.name(), "{}"),
        };
        let params = [
            "{\"name\":\"",
            name,
            "\",\"arguments\":",
            arguments,
            self.meta,
            "}",
        ];
        Ok(self.request("tools/call", &params)?.await?)
    }
}

impl Contestant for Raw {
    async fn call(&self, tool: Tool) -> Result<usize, Fault> {
        Ok(self.call_for_answer(tool).await?.len())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(mut pipe: pipe::Sender, shared: Arc<Shared>) {
    let mut batch = Vec::new();
    loop {
        let open = poll_fn(|cx| {
            let mut state = shared.lock();
            if state.outgoing.is_empty() && !state.closed {
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            std::mem::swap(&mut state.outgoing, &mut batch);
            Poll::Ready(!state.closed)
        });
        if !open.await || pipe.write_all(&batch).await.is_err() {
            return;
        }
        batch.clear();
    }
}

async fn read(mut pipe: pipe::Receiver, shared: Arc<Shared>) {
    let (mut buffer, mut searched, mut answers) = (BytesMut::new(), 0, Vec::new());
    loop {
        buffer.reserve(READ_BYTES);
        if !matches!(pipe.read_buf(&mut buffer).await, Ok(count) if count > 0) {
            break;
        }
        let mut state = shared.lock();
        while let Some(end) = memchr::memchr(b'\n', &buffer[searched..]) {
            let line = buffer.split_to(searched + end + 1).freeze();
            searched = 0;
            let id = field(&line, b"id").and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
            if let Some(caller) = id.and_then(|id| state.pending.try_remove(id)) {
                answers.push((caller, line));
            }
        }
        searched = buffer.len();
        drop(state);
        for (caller, line) in answers.drain(..) {
            let _ = caller.send(line);
        }
    }
    let mut state = shared.lock();
    state.closed = true;
    state.pending.clear();
    let writer = state.writer.take();
    drop(state);
    writer.inspect(Waker::wake_by_ref);
}

/// The raw value of one key of a JSON object. Text after it is not read.
pub(crate) fn field<'a>(object: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let next = |at: usize| {
        Some(
            at + object[at..]
                .iter()
                .position(|byte| !b" \t\r\n,:".contains(byte))?,
        )
    };
    let mut at = object.iter().position(|&byte| byte == b'{')? + 1;
    loop {
        let name = next(at)?;
        let name_end = value_end(object, name)?;
        let value = next(name_end)?;
        at = value_end(object, value)?;
        if object[name..name_end]
            .strip_prefix(b"\"")?
            .strip_suffix(b"\"")?
            == key
        {
            return Some(&object[value..at]);
        }
    }
}

/// Where the value that starts at `start` ends. Trusts the text to be JSON.
fn value_end(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0usize);
    loop {
        match text.get(at)? {
            b'"' => {
                at += 1;
                while *text.get(at)? != b'"' {
                    at += memchr::memchr2(b'"', b'\\', &text[at..])?;
                    at += if text[at] == b'\\' { 2 } else { 0 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            _ => {
                return Some(
                    at + text[at..]
                        .iter()
                        .position(|byte| b",}] \t\r\n".contains(byte))?,
                );
            }
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}
