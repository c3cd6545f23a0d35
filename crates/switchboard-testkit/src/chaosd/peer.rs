//! The connection to the host: writes whole lines, reads messages, and lets steps wait for them.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_testkit::record::{Entry, Event};
use switchboard_testkit::script::Script;

use crate::behave::Request;

/// State that all threads share.
pub(crate) struct Peer {
    pub(crate) script: Script,
    /// Descriptors that were open when the process started.
    pub(crate) inherited_descriptors: Vec<i32>,
    /// Locked while a line is written, so that lines of different calls do not mix.
    output: Mutex<()>,
    record: Option<Mutex<File>>,
    started: Instant,
    seen: Mutex<Seen>,
    /// Notified when `seen` changes.
    changed: Condvar,
}

/// The messages so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// How often each method came.
    methods: HashMap<String, usize>,
    /// How often each tool was called, and each other method used, for `turns`.
    turns: HashMap<String, usize>,
    /// The ids, as written, of requests that were cancelled.
    cancelled: HashSet<String>,
    /// The host's responses to our requests, by id: `{"result": …}` or `{"error": …}`.
    replies: HashMap<u64, String>,
    /// The number of requests we sent.
    asked: u64,
    /// The number of `tools/list` responses.
    pub(crate) lists: usize,
    /// The open `subscriptions/listen` request, by its id as written.
    pub(crate) subscription: Option<String>,
    stopped_reading: bool,
}

impl Seen {
    pub(crate) fn count(&self, method: &str) -> usize {
        self.methods.get(method).copied().unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Peer {
    pub(crate) fn new(script: Script, inherited_descriptors: Vec<i32>) -> std::io::Result<Self> {
        let record = match &script.record {
            Some(path) => Some(Mutex::new(
                OpenOptions::new().append(true).create(true).open(path)?,
            )),
            None => None,
        };
        Ok(Self {
            script,
            inherited_descriptors,
            output: Mutex::default(),
            record,
            started: Instant::now(),
            seen: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Appends one line to the record in one write, so that restarts and other processes do not mix
    /// with it.
    pub(crate) fn record(&self, event: Event) {
        let Some(record) = &self.record else { return };
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let entry = Entry {
            pid: std::process::id(),
            ms,
            event,
        };
        let mut line = serde_json::to_vec(&entry).expect("an entry is plain text and numbers");
        line.push(b'\n');
        if let Err(error) = lock(record).write_all(&line) {
            crate::fail(&format!("cannot record: {error}"));
        }
    }

    /// Handles one line. Returns the request or notification that needs a behaviour.
    pub(crate) fn receive(&self, line: &str) -> Option<Request> {
        self.record(Event::Received {
            line: line.to_owned(),
        });
        let message: Message<'_> = serde_json::from_str(line).ok()?;
        let id = message.id.map(|id| id.get().to_owned());
        let params = message.params.map_or("{}", RawValue::get).to_owned();
        let mut seen = self.seen();
        let request = match message.method {
            Some(method) => {
                *seen.methods.entry(method.clone()).or_default() += 1;
                if method == "notifications/cancelled" {
                    seen.cancelled.extend(cancelled_id(&params));
                }
                let mut request = Request::new(id, method, params);
                let turn = seen.turns.entry(request.key().to_owned()).or_default();
                request.turn = *turn;
                *turn += 1;
                Some(request)
            }
            None => {
                let reply = match (message.result, message.error) {
                    (Some(result), _) => Some(format!(r#"{{"result":{result}}}"#)),
                    (None, Some(error)) => Some(format!(r#"{{"error":{error}}}"#)),
                    (None, None) => None,
                };
                let id = id.and_then(|id| id.parse().ok());
                seen.replies.extend(id.zip(reply));
                None
            }
        };
        drop(seen);
        self.changed.notify_all();
        request
    }

    /// Sends a request and waits for the host's response.
    pub(crate) fn request(&self, method: &str, params: Option<&str>) -> String {
        let id = {
            let mut seen = self.seen();
            seen.asked += 1;
            seen.asked
        };
        // Plain numbers from 1 on, as a host likely uses itself: they must not confuse it.
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{}}}"#,
            member("params", params)
        ));
        self.wait(|seen| seen.replies.remove(&id))
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: Option<&str>) {
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}"{}}}"#,
            member("params", params)
        ));
    }

    pub(crate) fn wait_for_cancel(&self, id: &str) {
        self.wait(|seen| seen.cancelled.contains(id).then_some(()));
    }

    pub(crate) fn wait_for_method(&self, method: &str) {
        self.wait(|seen| (seen.count(method) > 0).then_some(()));
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut Seen) -> Option<T>) -> T {
        let mut seen = self.seen();
        loop {
            if let Some(value) = ready(&mut seen) {
                return value;
            }
            seen = self
                .changed
                .wait(seen)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    pub(crate) fn is_reading(&self) -> bool {
        !self.seen().stopped_reading
    }

    pub(crate) fn stop_reading(&self) {
        self.seen().stopped_reading = true;
    }

    /// Writes one line to stdout.
    pub(crate) fn line(&self, text: &str) {
        self.bytes(format!("{text}\n").as_bytes());
    }

    /// Writes to stdout, as it is.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        self.chunks(std::iter::once(bytes));
    }

    /// Writes to stdout in chunks, with no other line in between, for messages larger than memory
    /// should hold.
    pub(crate) fn chunks<'a>(&self, chunks: impl Iterator<Item = &'a [u8]>) {
        let _line = lock(&self.output);
        for chunk in chunks {
            // The host may be gone, or the script closed stdout: then nobody reads, and the script
            // continues.
            if write_all(chunk).is_err() {
                return;
            }
        }
    }
}

/// Writes past Rust's own buffer, which would hold back text without a newline.
fn write_all(mut bytes: &[u8]) -> nix::Result<()> {
    let stdout = std::io::stdout();
    while !bytes.is_empty() {
        match nix::unistd::write(&stdout, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn cancelled_id(params: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    serde_json::from_str::<Cancelled<'_>>(params)
        .ok()
        .map(|cancelled| cancelled.request_id.get().to_owned())
}

/// One more member of an object, or nothing.
pub(crate) fn member(name: &str, value: Option<&str>) -> String {
    value
        .map(|value| format!(r#","{name}":{value}"#))
        .unwrap_or_default()
}

/// A thread that panicked while writing leaves no partial state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
