//! `bench soak`: our gateway for some minutes, with server crashes, faulty servers, client drops,
//! reloads and approvals at random. Afterwards no process and no task may be left, memory may
//! not have grown, and every call must have ended.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::faults::faulty_entry;
use crate::gateway_start::Setting;
use crate::http::DEMO_MARKER;
use crate::measure::{Contestant, EchoTool, Era, Fault, Tool};
use crate::options::Options;
use crate::process_memory::{self, Memory};
use crate::raw::{Process, Raw};
use crate::raw_http::RawHttp;

/// The longest that a call may take: one that waits for approval is held for 50 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);

/// How long all work may take to end after the load.
const REST: Duration = Duration::from_secs(60);

/// How long the gateway may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How much the memory may grow, and how many tasks may come and go with restarts of servers.
const MEMORY_GROWTH: f64 = 1.2;
const TASK_ALLOWANCE: usize = 16;

/// The fraction of the time after which memory is measured for the comparison.
const WARM_UP: f64 = 0.1;

struct Soak {
    setting: Setting,
    config: PathBuf,
    address: String,
    token: String,
    gateway: u32,
    /// A link to this program in the run's folder, which identifies its processes.
    server: String,
    until: Instant,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    errors: AtomicU64,
    dropped: AtomicU64,
    /// Calls that did not end in time.
    unanswered: AtomicU64,
    crashes: AtomicU64,
    reloads: AtomicU64,
    approvals: AtomicU64,
}

/// Runs the soak, and reports what was left.
pub(crate) async fn run(options: &Options) -> Result<ExitCode, Fault> {
    let span = Duration::from_secs_f64(options.minutes * 60.0);
    let (soak, process) = Soak::start(options, span).await?;
    let (tasks, idle) = (soak.tasks().await?, soak.memory()?);
    let mut work = JoinSet::new();
    for number in 0..8 {
        let era = [Era::Legacy, Era::Modern][number % 2];
        work.spawn(http_client(soak.clone(), era, number < 2));
    }
    work.spawn(attached_clients(soak.clone()));
    work.spawn(crashes(soak.clone()));
    work.spawn(reloads(soak.clone()));
    work.spawn(approvals(soak.clone()));
    sleep(span.mul_f64(WARM_UP)).await;
    let warm = soak.memory()?;
    while let Some(ended) = work.join_next().await {
        ended??;
    }
    let (rest_tasks, rest) = soak.rest(tasks + TASK_ALLOWANCE).await?;
    let loaded = soak.counts.summary();
    let stopped = stop(process).await?;
    let left = soak.processes();
    println!("{:.1} minutes: {loaded}", options.minutes);
    println!("tasks: {tasks} at the start, {rest_tasks} at rest");
    let mib = |bytes: f64| bytes / 1024.0 / 1024.0;
    println!(
        "memory (RSS, RssAnon): {:.1}, {:.1} MiB at the start; {:.1}, {:.1} after the warm-up; {:.1}, {:.1} at rest",
        mib(idle.resident),
        mib(idle.anonymous),
        mib(warm.resident),
        mib(warm.anonymous),
        mib(rest.resident),
        mib(rest.anonymous)
    );
    println!(
        "the gateway stopped in {:.1} s; processes left: {left:?}",
        stopped.as_secs_f64()
    );
    let faults = [
        (soak.counts.unanswered.load(Relaxed) > 0, "calls had no end"),
        (rest_tasks > tasks + TASK_ALLOWANCE, "tasks are left"),
        (
            rest.resident > warm.resident * MEMORY_GROWTH,
            "memory has grown",
        ),
        (!left.is_empty(), "processes are left"),
    ];
    let faults: Vec<_> = faults
        .iter()
        .filter(|fault| fault.0)
        .map(|fault| fault.1)
        .collect();
    Ok(match faults.as_slice() {
        [] => ExitCode::SUCCESS,
        faults => {
            println!("FAILED: {}", faults.join(", "));
            ExitCode::FAILURE
        }
    })
}

impl Soak {
    async fn start(options: &Options, span: Duration) -> Result<(Arc<Self>, Process), Fault> {
        let setting = Setting::new(options)?;
        let server = setting.folder.path().join("server");
        std::os::unix::fs::symlink(&setting.program, &server)?;
        let server = server.to_str().ok_or("the path is not text")?.to_owned();
        let config = setting.folder.path().join("soak.toml");
        write_config(&config, &server, false)?;
        let token = setting.token(&config)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let address = format!("127.0.0.1:{port}");
        let log = std::fs::File::create(setting.folder.path().join("gateway.log"))?;
        let mut command = setting.our_command(&config, &["serve", "--http", &address]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = Process(command.spawn()?);
        let soak = Arc::new(Self {
            setting,
            config,
            address,
            token,
            gateway: process.0.id(),
            server,
            until: Instant::now() + span,
            counts: Counts::default(),
        });
        let first = async {
            loop {
                if let Ok(client) = soak.connect(Era::Legacy, "mcp__old__echo").await
                    && client.call(Tool::Echo).await.is_ok()
                {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(REST, first)
            .await
            .map_err(|_| "the gateway does not answer")?;
        // By then the faulty servers have failed once.
        sleep(Duration::from_secs(3)).await;
        Ok((soak, process))
    }

    async fn connect(&self, era: Era, tool: &str) -> Result<RawHttp, Fault> {
        let url = format!("http://{}/mcp", self.address);
        RawHttp::open_with(&url, era, EchoTool::of_demo(tool), Some(&self.token)).await
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Makes one call, which must end in time.
    async fn call(&self, client: &impl Contestant) {
        let counts = &self.counts;
        match timeout(CALL_TIMEOUT, client.call(Tool::Echo)).await {
            Ok(Ok(_)) => counts.answered.fetch_add(1, Relaxed),
            Ok(Err(_)) => counts.errors.fetch_add(1, Relaxed),
            Err(_) => counts.unanswered.fetch_add(1, Relaxed),
        };
    }

    /// Makes one call, and disconnects before its answer.
    async fn drop_call(&self, client: &impl Contestant) {
        let patience = Duration::from_micros(fastrand::u64(0..5000));
        let _ = timeout(patience, client.call(Tool::Echo)).await;
        self.counts.dropped.fetch_add(1, Relaxed);
    }

    fn memory(&self) -> Result<Memory, Fault> {
        process_memory::of_process(self.gateway, &[self.server.as_str()])
    }

    /// The gauge of `/metrics`.
    async fn tasks(&self) -> Result<usize, Fault> {
        let request = switchboard::transport::http::reqwest_builder()
            .build()?
            .get(format!("http://{}/metrics", self.address))
            .bearer_auth(&self.token);
        let text = request.send().await?.text().await?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("switchboard_tasks "));
        Ok(line
            .ok_or("/metrics has no switchboard_tasks")?
            .trim()
            .parse()?)
    }

    /// Waits until at most `most` tasks are left; returns tasks and memory.
    async fn rest(&self, most: usize) -> Result<(usize, Memory), Fault> {
        let deadline = Instant::now() + REST;
        loop {
            let tasks = self.tasks().await?;
            if tasks <= most || Instant::now() >= deadline {
                return Ok((tasks, self.memory()?));
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Our own command, with its output.
    async fn switchboard(&self, words: &[&str]) -> Result<String, Fault> {
        let mut command =
            tokio::process::Command::from(self.setting.our_command(&self.config, words));
        let output = timeout(REST, command.kill_on_drop(true).output()).await??;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// All live processes of this run, by their command lines.
    fn processes(&self) -> Vec<u32> {
        let folder = self.setting.folder.path().to_string_lossy().into_owned();
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &u32| {
            let line = std::fs::read_to_string(format!("/proc/{id}/cmdline"));
            line.is_ok_and(|line| line.contains(&folder))
        })
        .collect()
    }
}

/// Calls over HTTP, in one era; some of them need an operator.
async fn http_client(soak: Arc<Soak>, era: Era, is_asking: bool) -> Result<(), Fault> {
    let tools = match is_asking {
        true => &["mcp__new__echo"][..],
        false => &[
            "mcp__old__echo",
            "mcp__crashing__echo",
            "mcp__hanging__echo",
            "mcp__extra__echo",
        ],
    };
    while !soak.is_over() {
        // Half of the sessions are with the first server, which works.
        let tool = match fastrand::bool() {
            true => tools[0],
            false => tools[fastrand::usize(0..tools.len())],
        };
        let Ok(client) = soak.connect(era, tool).await else {
            soak.counts.errors.fetch_add(1, Relaxed);
            continue;
        };
        let ends = Instant::now() + Duration::from_secs(fastrand::u64(1..10));
        while Instant::now() < ends && !soak.is_over() {
            match fastrand::u8(0..10) {
                0 => soak.drop_call(&client).await,
                _ => soak.call(&client).await,
            }
        }
        // One in four goes away without a word. A modern client has no session to end.
        if era == Era::Legacy && fastrand::u8(0..4) > 0 {
            let _ = client.end().await;
        }
    }
    Ok(())
}

/// `attach` processes that are killed.
async fn attached_clients(soak: Arc<Soak>) -> Result<(), Fault> {
    while !soak.is_over() {
        let command = soak
            .setting
            .our_command(&soak.config, &["attach", "--as", "soak"]);
        let echo = EchoTool::of_demo("mcp__old__echo");
        let client = timeout(REST, Raw::open(Raw::spawn(command)?, Era::Legacy, echo)).await??;
        let ends = Instant::now() + Duration::from_secs(fastrand::u64(1..5));
        while Instant::now() < ends && !soak.is_over() {
            soak.call(&client).await;
        }
        soak.drop_call(&client).await;
    }
    Ok(())
}

/// Kills a server of the gateway every now and then.
async fn crashes(soak: Arc<Soak>) -> Result<(), Fault> {
    while !soak.is_over() {
        sleep(Duration::from_millis(fastrand::u64(500..4000))).await;
        let servers = soak.processes().into_iter().filter(|id| {
            let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.starts_with(&soak.server) && line.contains(DEMO_MARKER)
        });
        let servers: Vec<u32> = servers.collect();
        if let Some(&server) = fastrand::choice(&servers) {
            let _ = kill(Pid::from_raw(i32::try_from(server)?), Signal::SIGKILL);
            soak.counts.crashes.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

/// Adds and removes a server.
async fn reloads(soak: Arc<Soak>) -> Result<(), Fault> {
    let mut has_extra = false;
    while !soak.is_over() {
        sleep(Duration::from_millis(fastrand::u64(1000..5000))).await;
        has_extra = !has_extra;
        write_config(&soak.config, &soak.server, has_extra)?;
        soak.switchboard(&["reload"]).await?;
        soak.counts.reloads.fetch_add(1, Relaxed);
    }
    write_config(&soak.config, &soak.server, false)?;
    soak.switchboard(&["reload"]).await?;
    Ok(())
}

/// An operator who decides at random.
async fn approvals(soak: Arc<Soak>) -> Result<(), Fault> {
    // Longer than the clients, because their last calls still wait for an answer.
    let until = soak.until + Duration::from_secs(5);
    while Instant::now() < until {
        sleep(Duration::from_millis(500)).await;
        let listed = soak.switchboard(&["--json", "approvals"]).await?;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        for call in listed["waiting"].as_array().into_iter().flatten() {
            let word = if fastrand::bool() { "allow" } else { "deny" };
            soak.switchboard(&["approvals", word, &call["id"].to_string()])
                .await?;
            soak.counts.approvals.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

impl Counts {
    fn summary(&self) -> String {
        let count = |count: &AtomicU64| count.load(Relaxed);
        format!(
            "{} calls answered, {} ended with an error, {} dropped by their client, {} without an end; \
             {} servers killed, {} reloads, {} approvals",
            count(&self.answered),
            count(&self.errors),
            count(&self.dropped),
            count(&self.unanswered),
            count(&self.crashes),
            count(&self.reloads),
            count(&self.approvals)
        )
    }
}

/// Writes to another file and renames it, so that the gateway never reads a part of it.
fn write_config(path: &std::path::Path, server: &str, has_extra: bool) -> Result<(), Fault> {
    let demo = |name: &str, era: &str| {
        format!(
            "[servers.{name}]\ncommand = {server:?}\nargs = [{DEMO_MARKER:?}, \"--era\", {era:?}]\n"
        )
    };
    let mut text =
        "[permissions]\nmode = \"ask\"\nallow = [\"old\", \"extra\", \"crashing\", \"hanging\", \"flooding\"]\n"
            .to_owned();
    text += &demo("old", "legacy");
    text += &demo("new", "modern");
    if has_extra {
        text += &demo("extra", "legacy");
    }
    for kind in ["crashing", "hanging", "flooding"] {
        text += &faulty_entry(server, kind);
    }
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)?;
    Ok(())
}

/// Sends SIGTERM; returns how long the process took to end.
async fn stop(mut process: Process) -> Result<Duration, Fault> {
    let start = Instant::now();
    kill(
        Pid::from_raw(i32::try_from(process.0.id())?),
        Signal::SIGTERM,
    )?;
    while process.0.try_wait()?.is_none() {
        if start.elapsed() > STOP_TIMEOUT {
            return Err("the gateway does not stop".into());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(start.elapsed())
}
