//! For tests only: a scripted misbehaving server, a faulty network, a recording tee, and helpers
//! for tests with processes.
//!
//! # `chaosd`
//!
//! `chaosd SCRIPT` is an MCP server over stdio. SCRIPT is JSON, or `@FILE`. The common case is one
//! line: a table of tools and what a call of each does.
//!
//! ```text
//! chaosd '{"tools": {"ok": {"text": "hi"}, "never": "drop", "die": {"exit": 7}}, "record": "/tmp/seen"}'
//! ```
//!
//! In Rust the same is [`Chaos`]:
//!
//! ```no_run
//! use switchboard_testkit::{Chaos, Scratch, Step};
//!
//! let scratch = Scratch::new();
//! let server = Chaos::new().tool("ok", Step::text("hi")).tool("never", Step::Drop).record(scratch.path("seen"));
//! let config = scratch.config(&[server.entry("chaos").set("call_timeout", "500ms")]);
//! ```
//!
//! A *behaviour* is one step, or a list of steps. It is run for each call on its own, so calls do
//! not wait for each other; steps that cannot wait are done in the order the requests came. A
//! request that its steps neither answered nor dropped gets the usual answer in the end: `{"sleep":
//! 500}` is a slow tool.
//!
//! | field of the script | what it is |
//! |---|---|
//! | `tools` | tool → behaviour, in the order they are listed |
//! | `define` | tool → fields of its definition: `description`, `inputSchema`, `annotations`, … |
//! | `flips` | `{tool, after_lists, after_calls, after_file, define}`: a definition that changes |
//! | `list` | `fill` N tools, `extra` raw entries, `page_size`, `cursor`: `repeat`, `endless`, `{"huge": BYTES}` |
//! | `on` | method or notification → behaviour instead of the usual answer |
//! | `era` | `legacy`, `modern`, `dual`, `refuses_after_probe` |
//! | `name`, `version`, `instructions`, `capabilities` | what it says of itself |
//! | `on_start`, `background` | steps before the first message is read; steps beside everything |
//! | `on_eof`, `on_term` | steps when stdin ends; when SIGTERM, SIGINT or SIGHUP comes |
//! | `ignore_eof`, `ignore_term` | it lives on |
//! | `record` | the file that all it receives is appended to, read by [`Record`] |
//!
//! | step | what it does |
//! |---|---|
//! | `"answer"`, `{"text": T}`, `{"result": JSON}`, `{"error": {code, message, data}}`, `"echo"`, `"inspect"` | answers: as usual, a text, these bytes, an error, the arguments, what the process sees of itself |
//! | `{"answer_raw": LINE}`, `{"answer_as": F}`, `"half_answer"` | answers with a whole line (`@id@` is the id); under an id that is `wrong`, `float`, `string`, `null`, `missing`; with half a line |
//! | `{"huge": {bytes, id}}`, `{"deep": N}` | answers with a line too long (id `first`, `last`, `none`), too deep |
//! | `"drop"` | never answers |
//! | `{"input_required": {inputRequests, requestState}}`, `"answer_input"` | a modern result that asks, the steps after it being those of the retry; answers with what the retry brought |
//! | `{"request": {method, params}}`, `{"ask": PARAMS}`, `"ping"`, `"answer_reply"` | asks the host and waits; answers with what it said |
//! | `{"notify": {method, params}}`, `{"progress": X}`, `{"list_changed": N}`, `{"flood_notifications": N}`, `{"flood_pings": N}` | notifications; requests whose answers it does not wait for |
//! | `{"say": T}`, `{"part": T}`, `{"junk": N}`, `{"stderr": T}`, `{"flood_stderr": BYTES}` | raw output: a line, no newline, lines that are no messages, stderr |
//! | `{"sleep": MS}`, `{"wait_file": PATH}`, `"await_cancel"`, `{"await_method": M}`, `{"touch": PATH}`, `{"write": {path, text}}` | waits, and tells; writes a file |
//! | `{"exit": N}`, `{"signal": NAME}`, `"close_stdout"`, `"close_stderr"`, `"stop_reading"` | ends, in part or in whole |
//! | `"fork"`, `"fork_holding_stdout"`, `"daemon"` | starts a process that ignores SIGTERM; that holds stdout; by double fork and setsid |
//! | `{"turns": [B, B, …]}` | the first time this behaviour, then that one; the last repeats |
//! | `{"once": {marker, steps}}` | only if the marker file is not there, which is then made: once over all restarts |
//!
//! Two answers to one request are `["answer", "answer"]`; one after the cancel is `["await_cancel",
//! "answer"]`; a question during the second call is `{"turns": ["answer", [{"ask": {…}},
//! "answer_reply"]]}`. A request that is not waited for (a modern session has no answer to it) is a
//! `say`. Nothing that `chaosd` starts lives longer than ten minutes, `chaosd` with `ignore_eof`
//! included.
//!
//! # `wiretee`
//!
//! `wiretee --record FILE -- COMMAND ARGUMENTS…` runs a server and writes down what passes;
//! [`Passed`] reads it. [`Launch::teed`] puts it in front of any server.
//!
//! # `FaultProxy`
//!
//! A network that misbehaves: a TCP proxy in this process, in front of any address. Each connection
//! follows a [`Plan`]: a list of steps for the way up to the server, and one for the way back.
//! After its last step everything passes.
//!
//! ```no_run
//! use std::time::Duration;
//! use switchboard_testkit::{Fault, FaultProxy, Plan};
//!
//! # async fn example(server: std::net::SocketAddr) -> std::io::Result<()> {
//! let proxy = FaultProxy::start(server).await?;
//! proxy.next(Plan::down([Fault::Pass(200), Fault::Reset])); // the first connection breaks within an answer
//! proxy.next(Plan::down([Fault::Delay(Duration::from_secs(2)), Fault::Slice(1)])); // the second is late, then in pieces
//! proxy.always(Plan::clean());
//! let url = proxy.url("/mcp");
//! # Ok(())
//! # }
//! ```
//!
//! | step | what it does |
//! |---|---|
//! | `Pass(n)` | so many bytes pass |
//! | `Delay(d)` | the next bytes wait, from when they came |
//! | `Slice(n)`, `Throttle(n)` | from here on: at most n bytes in one write, n bytes in a second |
//! | `HalfClose` | the receiver sees the end of this direction, the other one goes on |
//! | `Drop`, `Reset` | the connection ends for both: in an orderly way, with a reset |
//! | `Blackhole` | nothing passes any more, and no side is notified |
//!
//! [`FaultProxy::cut`] resets what is open; [`FaultProxy::traffic`] counts connections and bytes.

pub mod fault_proxy;

pub mod script;

pub mod chaos;

pub mod record;

pub mod program;

pub mod scratch;

/// A server that wants a login, and the authorization server that gives one.
pub mod login;
pub mod outside;
pub mod processes;

pub use chaos::Chaos;
pub use fault_proxy::{Fault, FaultProxy, Plan, Traffic};
pub use login::{LoginRequest, LoginServer, LoginTerms};
pub use outside::{outside_data, skipped};
pub use processes::{
    KilledOnDrop, Process, descendants_with_env, is_alive, peak_rss_bytes, rss_bytes, until,
    wait_until,
};
pub use program::{Launch, program};
pub use record::{Passed, Record};
pub use scratch::{Entry, Scratch};
pub use script::{Step, Steps};
