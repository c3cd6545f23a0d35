//! A faulty TCP proxy between a caller and a server: each connection follows a script.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The next fault of one direction of a connection. After the last one everything passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This many bytes pass.
    Pass(u64),
    /// The next bytes are delayed by this much, from their arrival.
    Delay(Duration),
    /// From here on, at most this many bytes are written at once.
    Slice(usize),
    /// From here on, this many bytes pass per second.
    Throttle(u64),
    /// The receiver sees the end of this direction; the other one goes on.
    HalfClose,
    /// Both sides see an orderly end of the connection.
    Drop,
    /// Both sides see a reset.
    Reset,
    /// Nothing passes any more, and no side is notified.
    Blackhole,
}

/// The faults of one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// On the way to the server.
    up: Vec<Fault>,
    /// On the way back.
    down: Vec<Fault>,
}

impl Plan {
    /// Everything passes.
    pub fn clean() -> Self {
        Self::default()
    }

    /// These steps on the way to the server.
    pub fn up(steps: impl IntoIterator<Item = Fault>) -> Self {
        Self {
            up: steps.into_iter().collect(),
            ..Self::default()
        }
    }

    /// These steps on the way back.
    pub fn down(steps: impl IntoIterator<Item = Fault>) -> Self {
        Self::default().and_down(steps)
    }

    /// And these on the way back.
    pub fn and_down(mut self, steps: impl IntoIterator<Item = Fault>) -> Self {
        self.down.extend(steps);
        self
    }
}

/// A running proxy. Dropping it ends it with all its connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    plans: Mutex<Plans>,
    connections: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    /// Rung to reset the connections that hold its other end, which they keep as long as they
    /// live.
    cut: Mutex<watch::Sender<()>>,
}

#[derive(Debug, Default)]
struct Plans {
    next: VecDeque<Plan>,
    usual: Plan,
}

/// What a proxy has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Connections accepted.
    pub connections: u64,
    /// Bytes that passed to the server.
    pub bytes_up: u64,
    /// Bytes that passed back.
    pub bytes_down: u64,
}

impl FaultProxy {
    /// Listens on a free port of this machine; connections go to `target`.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            plans: Mutex::default(),
            connections: AtomicU64::new(0),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
            cut: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a page behind it; `path` begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the plan of the next connection without one; may be called several times, for several
    /// connections.
    pub fn next(&self, plan: Plan) {
        self.shared.plans().next.push_back(plan);
    }

    /// Sets the plan of all later connections without one of their own.
    pub fn always(&self, plan: Plan) {
        self.shared.plans().usual = plan;
    }

    /// Resets all open connections, and waits until that is done.
    pub async fn cut(&self) {
        let cut = std::mem::take(
            &mut *self
                .shared
                .cut
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        cut.send_replace(());
        cut.closed().await;
    }

    /// The traffic so far.
    pub fn traffic(&self) -> Traffic {
        let Shared {
            connections,
            bytes_up,
            bytes_down,
            ..
        } = &*self.shared;
        Traffic {
            connections: connections.load(Ordering::Relaxed),
            bytes_up: bytes_up.load(Ordering::Relaxed),
            bytes_down: bytes_down.load(Ordering::Relaxed),
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Aborts its tasks when it is dropped.
    let mut connections = JoinSet::new();
    while let Ok((caller, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let plan = {
            let mut plans = shared.plans();
            plans
                .next
                .pop_front()
                .unwrap_or_else(|| plans.usual.clone())
        };
        let cut = shared
            .cut
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .subscribe();
        connections.spawn(carry(caller, shared.clone(), plan, cut));
    }
}

/// How a direction, and with it the connection, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its sender has closed; the other direction may continue.
    Own,
    Dropped,
    Reset,
}

async fn carry(caller: TcpStream, shared: Arc<Shared>, plan: Plan, mut cut: watch::Receiver<()>) {
    let Ok(server) = TcpStream::connect(shared.target).await else {
        // As if the server's own port had refused.
        let _ = caller.set_zero_linger();
        return;
    };
    // Slices must arrive as slices.
    let _ = (caller.set_nodelay(true), server.set_nodelay(true));
    let (mut from_caller, mut to_caller) = caller.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let end = {
        let up = pass(&mut from_caller, &mut to_server, plan.up, &shared.bytes_up);
        let down = pass(
            &mut from_server,
            &mut to_caller,
            plan.down,
            &shared.bytes_down,
        );
        let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
        let both = async {
            tokio::select! {
                end = &mut up => if end == End::Own { down.await } else { end },
                end = &mut down => if end == End::Own { up.await } else { end },
            }
        };
        tokio::select! {
            end = both => end,
            _ = cut.changed() => End::Reset,
        }
    };
    match end {
        End::Reset => {
            _ = (
                to_caller.as_ref().set_zero_linger(),
                to_server.as_ref().set_zero_linger(),
            )
        }
        End::Own | End::Dropped => _ = (to_caller.shutdown().await, to_server.shutdown().await),
    }
    // A dropped half would close the connection in an orderly way before the reset.
    to_caller.forget();
    to_server.forget();
    drop((from_caller, from_server));
    // Dropped last: only now is the connection closed.
    drop(cut);
}

async fn pass(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    script: Vec<Fault>,
    count: &AtomicU64,
) -> End {
    let mut pace = Pace {
        slice: usize::MAX,
        bytes_per_second: None,
    };
    for step in script {
        match step {
            Fault::Pass(bytes) => {
                if !forward(from, to, bytes, pace, count).await {
                    return End::Own;
                }
            }
            Fault::Delay(pause) => {
                let _ = from.readable().await;
                tokio::time::sleep(pause).await;
            }
            Fault::Slice(bytes) => pace.slice = bytes.max(1),
            Fault::Throttle(bytes) => pace.bytes_per_second = Some(bytes.max(1)),
            Fault::HalfClose => {
                let _ = to.shutdown().await;
                swallow(from).await;
                return End::Own;
            }
            Fault::Drop => return End::Dropped,
            Fault::Reset => return End::Reset,
            Fault::Blackhole => {
                swallow(from).await;
                return std::future::pending().await;
            }
        }
    }
    forward(from, to, u64::MAX, pace, count).await;
    End::Own
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    slice: usize,
    bytes_per_second: Option<u64>,
}

/// Forwards this many bytes; false if the direction ended before.
async fn forward(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    bytes: u64,
    pace: Pace,
    count: &AtomicU64,
) -> bool {
    let mut buffer = vec![0; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let limit = buffer
            .len()
            .min(pace.slice)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = from.read(&mut buffer[..limit]).await.unwrap_or(0);
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            let _ = to.shutdown().await;
            return false;
        }
        count.fetch_add(read as u64, Ordering::Relaxed);
        left -= read as u64;
        if let Some(rate) = pace.bytes_per_second {
            tokio::time::sleep(Duration::from_secs_f64(read as f64 / rate as f64)).await;
        }
    }
    true
}

/// Reads to the end and discards the data.
async fn swallow(from: &mut OwnedReadHalf) {
    let mut buffer = vec![0; 64 << 10];
    while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}
