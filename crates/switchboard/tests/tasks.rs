//! Tests of calls that become tasks, against a real server in both eras: progress, questions,
//! cancellation, deadlines, failures, parallel tasks.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::call::{Call, CallError};
use switchboard::caller::{Caller, CallerCapabilities};
use switchboard::config::{ConfigFile, Environment, Scope, load};
use switchboard::launch::Launcher;
use switchboard::session::RequestFault;
use switchboard::{Host, HostBuilder};
use switchboard_host_testkit::TestCaller;
#[cfg(feature = "http")]
use switchboard_testkit::KilledOnDrop;
use switchboard_testkit::{Entry, Launch, Passed, Scratch, program, wait_until};

const TIMEOUT: Duration = Duration::from_secs(20);
const ERAS: [&str; 2] = ["legacy", "modern"];

/// A host with the demo server in each era, named by the era, and a record of the messages.
struct TaskHosts {
    host: Host,
    scratch: Scratch,
}

impl TaskHosts {
    async fn new() -> Self {
        let scratch = Scratch::new();
        let entry = |era: &str| {
            let launch = Launch::new(program("switchboard-demo"))
                .arg("--era")
                .arg(era);
            Entry::new(era, &launch).teed(&scratch.path(era))
        };
        let host = start(scratch.config(&ERAS.map(entry))).await;
        Self { host, scratch }
    }

    fn errand(era: &str, arguments: Value, caller: &Arc<TestCaller>) -> Call {
        Call::new(format!("{era}/errand"), arguments).caller(caller.clone() as Arc<dyn Caller>)
    }

    /// The methods of our requests, from the call on.
    fn sent(&self, era: &str) -> Vec<String> {
        let lines = Passed::read(&self.scratch.path(era)).to_server;
        let method = |line: &Vec<u8>| {
            serde_json::from_slice::<Value>(line).unwrap()["method"]
                .as_str()
                .map(str::to_owned)
        };
        lines
            .iter()
            .filter_map(method)
            .skip_while(|method| method != "tools/call")
            .collect()
    }
}

/// A host of the servers in this file, all of them settled.
async fn start(path: PathBuf) -> Host {
    let host = HostBuilder::new(load(&[ConfigFile::new(path, Scope::User)]).unwrap())
        .environment(Environment::new(
            std::env::vars().filter(|(name, _)| name == "PATH"),
        ))
        .launcher(Launcher::start(program("switchboard-launcher")).unwrap())
        .capabilities(CallerCapabilities {
            elicit_form: true,
            ..CallerCapabilities::default()
        });
    let host = host.start().await.unwrap();
    assert!(host.wait_until_settled(TIMEOUT).await);
    host
}

/// A caller that answers every form with its name.
fn person(name: &str) -> Arc<TestCaller> {
    let offers = CallerCapabilities {
        elicit_form: true,
        ..CallerCapabilities::default()
    };
    let caller = TestCaller::new(name).capabilities(offers);
    caller.fills_in(json!({"name": name})).arc()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_to_its_end_with_progress_in_both_eras() {
    let world = TaskHosts::new().await;
    for era in ERAS {
        let anna = person("anna");
        let result = world
            .host
            .call_with(TaskHosts::errand(
                era,
                json!({"seconds": 0.9, "steps": 2}),
                &anna,
            ))
            .await
            .unwrap();
        let passed = Passed::read(&world.scratch.path(era));
        match era {
            "legacy" => assert_eq!(passed.results_of("tasks/result"), [result.raw.as_str()]),
            _ => {
                let last = passed.results_of("tasks/get").pop().unwrap();
                assert!(
                    last.contains(&format!(r#""result":{}"#, result.raw.as_str())),
                    "{last}"
                );
            }
        }
        assert!(
            result.raw.as_str().contains("ran for 0.9 s in 2 steps"),
            "{}",
            result.raw.as_str()
        );
        let message = anna.seen().progress_messages;
        assert_eq!(message[..2], ["on its way", "step 1 of 2"], "{message:?}");
        assert_eq!(
            world
                .sent(era)
                .iter()
                .filter(|method| *method == "tasks/cancel")
                .count(),
            0
        );
    }
    world.host.stop().await;
}

/// S3-16: two concurrent callers, each asked by its own task.
#[tokio::test(flavor = "multi_thread")]
async fn s3_16_questions_of_parallel_tasks_reach_their_own_callers() {
    let world = TaskHosts::new().await;
    for era in ERAS {
        let people = ["anna", "bert"].map(person);
        let calls: Vec<_> = (0..20)
            .map(|number| {
                let (host, person) = (world.host.clone(), people[number % 2].clone());
                let arguments = json!({"seconds": 0.2, "steps": 2, "ask": true});
                tokio::spawn(async move {
                    (
                        person.id().as_str().to_owned(),
                        host.call_with(TaskHosts::errand(era, arguments, &person))
                            .await
                            .unwrap(),
                    )
                })
            })
            .collect();
        for calling in calls {
            let (name, result) = calling.await.unwrap();
            let expected = format!("ran for 0.2 s in 2 steps for {name}");
            assert!(
                result.raw.as_str().contains(&expected),
                "{era}: {}",
                result.raw.as_str()
            );
        }
        assert_eq!(
            people.map(|person| person.seen().questions.len()),
            [10, 10],
            "{era}"
        );
    }
    world.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f28_a_task_is_cancelled_when_its_call_is_dropped_or_late() {
    let world = TaskHosts::new().await;
    for era in ERAS {
        let anna = person("anna");
        let call = TaskHosts::errand(era, json!({"seconds": 3000}), &anna);
        let late = world
            .host
            .call_with(call.clone().timeout(Duration::from_millis(500)))
            .await
            .unwrap_err();
        let CallError::Request { fault, .. } = late else {
            panic!("{late:?}")
        };
        assert_eq!(
            fault,
            RequestFault::Timeout {
                after: Duration::from_millis(500),
                total: true
            },
            "{era}"
        );

        let host = world.host.clone();
        let going = tokio::spawn(async move { host.call_with(call).await });
        // Before its response it is an ordinary request, not a task yet.
        let polled = || {
            let sent = world.sent(era);
            sent.iter().filter(|method| *method == "tools/call").count() == 2
                && sent.last().is_some_and(|last| last == "tasks/get")
        };
        assert!(wait_until(TIMEOUT, polled));
        going.abort();
        let cancelled = || {
            world
                .sent(era)
                .iter()
                .filter(|method| *method == "tasks/cancel")
                .count()
                == 2
        };
        assert!(
            wait_until(TIMEOUT, cancelled),
            "{era}: {:?}",
            world.sent(era)
        );
        // The server acknowledges both.
        assert!(wait_until(TIMEOUT, || Passed::read(
            &world.scratch.path(era)
        )
        .results_of("tasks/cancel")
        .len()
            == 2));
    }
    world.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_result_reports_why_in_both_eras() {
    let world = TaskHosts::new().await;
    let gone = "the task expired before its result was fetched";
    let cases = [
        (
            "legacy",
            "fail",
            "error -32603: the errand came to nothing (of the task: out of luck)",
        ),
        ("modern", "fail", "error -32603: the errand came to nothing"),
        (
            "legacy",
            "cancel",
            "the server cancelled the task: somebody else did it",
        ),
        (
            "modern",
            "cancel",
            "the server cancelled the task: somebody else did it",
        ),
        ("legacy", "forget", gone),
        ("modern", "forget", gone),
    ];
    for (era, end, expected) in cases {
        let call = TaskHosts::errand(
            era,
            json!({"seconds": 0.1, "steps": 1, "end": end}),
            &person("anna"),
        );
        let fault = world.host.call_with(call).await.unwrap_err().to_string();
        assert!(
            fault.contains(expected) && fault.contains(era),
            "{era} {end}: {fault}"
        );
    }
    world.host.stop().await;
}

/// The demo server by URL, ended with the test.
#[cfg(feature = "http")]
struct Served {
    _process: KilledOnDrop,
    address: String,
}

#[cfg(feature = "http")]
impl Served {
    fn start() -> Self {
        use std::io::BufRead;
        let launch = Launch::new(program("switchboard-demo"))
            .arg("--http")
            .arg("127.0.0.1:0");
        let mut command = launch.command();
        let command = command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped());
        let mut child = KilledOnDrop(command.spawn().unwrap());
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(!line.is_empty(), "the demo server prints its address");
        Self {
            _process: child,
            address: format!("http://{}", line.trim_end()),
        }
    }
}

/// Streamable HTTP in both eras, and HTTP+SSE: progress, questions, and the deadline.
#[cfg(feature = "http")]
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_asked_and_cancelled_over_http_too() {
    let served = Served::start();
    let entry = |(name, path, more): (&str, &str, &str)| {
        format!(
            "[servers.{name}]\nurl = \"{}{path}\"\n{more}\n",
            served.address
        )
    };
    let entries = [
        ("modern", "/mcp", "protocol = \"modern\""),
        ("legacy", "/mcp", "protocol = \"legacy\""),
        ("sse", "/sse", "transport = \"sse\""),
    ];
    let scratch = Scratch::new();
    let text = entries.map(entry).join("\n");
    let host = start(scratch.write(
        "switchboard.toml",
        &format!("[permissions]\nmode = \"yolo\"\n\n{text}"),
    ))
    .await;
    for (name, ..) in entries {
        let anna = person("anna");
        let asking = TaskHosts::errand(
            name,
            json!({"seconds": 0.2, "steps": 2, "ask": true}),
            &anna,
        );
        let result = host
            .call_with(asking)
            .await
            .unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert!(
            result
                .raw
                .as_str()
                .contains("ran for 0.2 s in 2 steps for anna"),
            "{name}: {}",
            result.raw.as_str()
        );
        assert_eq!(anna.seen().questions.len(), 1, "{name}");

        let long = TaskHosts::errand(name, json!({"seconds": 3000}), &anna)
            .timeout(Duration::from_millis(500));
        let CallError::Request { fault, .. } = host.call_with(long).await.unwrap_err() else {
            panic!("{name}")
        };
        assert_eq!(
            fault,
            RequestFault::Timeout {
                after: Duration::from_millis(500),
                total: true
            },
            "{name}"
        );
    }
    host.stop().await;
}
