//! Tests of servers of core-agent files: start, status, end and reload.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switchboard::call::Call;
use switchboard::caller::CallerCapabilities;
use switchboard::config::{self, Config, ConfigFile, Dialect, Scope};
use switchboard::event::{Event, NextEvent};
use switchboard::launch::Launcher;
use switchboard::name::{ServerName, ToolName};
use switchboard::server::{DialectStatus, ServerHandle, State};
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Entry, Launch, Step, is_alive};

use crate::support::{
    TIMEOUT, TestHost, good, is_ready, result_of, settled, snapshot, stuck, text_of, until,
    until_state,
};

/// The file's servers as entries of a core-agent file; those named `gemini…` as of a gemini file,
/// `native…` unchanged.
fn core_agent(file: &PathBuf) -> Config {
    let mut config = config::load(&[ConfigFile::new(file, Scope::Given)]).unwrap();
    for (name, server) in &mut config.servers {
        Arc::make_mut(server).dialect = match name.as_str() {
            name if name.starts_with("native") => Dialect::Native,
            name if name.starts_with("gemini") => Dialect::Gemini,
            _ => Dialect::CoreAgent,
        };
    }
    config
}

async fn start(test: &TestHost, entries: &[Entry]) -> Host {
    let launcher = Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
    let offers = CallerCapabilities {
        elicit_form: true,
        ..CallerCapabilities::default()
    };
    let builder = HostBuilder::new(core_agent(&test.scratch.config(entries)))
        .environment(test.environment.clone())
        .capabilities(offers)
        .launcher(launcher);
    builder.start().await.unwrap()
}

/// The status of a server of a core-agent file.
fn record(
    name: &str,
    status: &'static str,
    error: Option<String>,
    tools: &[&str],
) -> DialectStatus {
    let tools = tools.iter().map(|tool| ToolName::new(tool)).collect();
    DialectStatus {
        name: ServerName::new(name).unwrap(),
        dialect: Dialect::CoreAgent,
        status,
        error,
        tools,
    }
}

#[tokio::test]
async fn s0_32_a_stdio_server_is_sent_sigterm_at_once_and_sigkill_three_seconds_later() {
    let test = TestHost::new();
    let termed = test.scratch.path("termed");
    let mut deaf = stuck();
    deaf.script.on_term = Step::touch(&termed).into();
    // This one ends on SIGTERM, but not at the end of its input.
    let host = start(
        &test,
        &[
            test.entry("deaf", deaf),
            test.entry("heeding", good().ignore_eof()),
        ],
    )
    .await;
    settled(&host).await;
    let (deaf, heeding) = (
        host.server("deaf").unwrap(),
        host.server("heeding").unwrap(),
    );

    let began = Instant::now();
    heeding.stop().await;
    assert!(
        began.elapsed() < Duration::from_millis(1900),
        "the native rule would wait 2 s: {:?}",
        began.elapsed()
    );

    let began = Instant::now();
    let stopping = tokio::spawn(async move { deaf.stop().await });
    until("SIGTERM came", TIMEOUT, || termed.exists()).await;
    assert!(
        began.elapsed() < Duration::from_millis(1900),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(test.of("deaf").len(), 1, "it lives on");
    stopping.await.unwrap();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(5),
        "{took:?}"
    );
    assert_eq!(test.all(), []);
}

/// S0-02, S2-61: all servers start without a call; S0-28: concurrently.
#[tokio::test]
async fn s0_02_s2_61_s0_28_servers_start_concurrently_with_the_host() {
    let test = TestHost::new();
    let go = test.scratch.path("go");
    let slow = good().on_start(Step::WaitFile(go.clone()));
    let mut entries = vec![test.entry("slow", slow)];
    let prompt = ["one", "two", "native", "gemini"];
    entries.extend(prompt.map(|name| test.entry(name, good())));
    let host = start(&test, &entries).await;
    for name in prompt {
        until_state(&host, name, is_ready).await;
    }
    until("the slow one was started beside them", TIMEOUT, || {
        test.of("slow").len() == 1
    })
    .await;
    assert!(matches!(
        snapshot(&host, "slow").state,
        State::Connecting { .. }
    ));
    std::fs::write(&go, "").unwrap();
    until_state(&host, "slow", is_ready).await;
    host.stop().await;
}

/// S2-63: the status and the reason of a lost connection, until the server is connected again.
#[tokio::test]
async fn s2_63_a_gemini_server_whose_process_is_killed_is_disconnected_with_the_reason() {
    let test = TestHost::new();
    let again = test.scratch.path("again").display().to_string();
    let launch = good().launch();
    let [script] = &launch.args[..] else {
        panic!("{launch:?}")
    };
    // Starts only once.
    let line = format!(
        "[ -e '{again}' ] && exit 7; : > '{again}'; exec '{}' '{script}'",
        launch.command.display()
    );
    let host = start(
        &test,
        &[Entry::new(
            "gemini",
            &Launch::new("/bin/sh").arg("-c").arg(line),
        )],
    )
    .await;
    settled(&host).await;
    let server = host.server("gemini").unwrap();
    assert_eq!(
        (
            server.dialect_status().status,
            server.dialect_status().error
        ),
        ("CONNECTED", None)
    );
    let pid = Pid::from_raw(i32::try_from(server.snapshot().pid.unwrap()).unwrap());
    kill(pid, Signal::SIGKILL).unwrap();
    let lost = || Some(server.dialect_status()).filter(|text| text.status == "DISCONNECTED");
    until("it is DISCONNECTED", TIMEOUT, || {
        lost().is_some_and(|text| text.error.is_some())
    })
    .await;
    let history = server.snapshot().history.clone();
    assert!(
        history
            .iter()
            .any(|(_, line)| line.contains("was killed by SIGKILL")),
        "{history:?}"
    );
    host.stop().await;
}

/// S0-29, S0-34: each server has its own status, and the others run.
#[tokio::test]
async fn s0_29_s0_34_a_missing_binary_is_an_error_of_its_server_alone_and_every_server_has_a_record()
 {
    let test = TestHost::new();
    let missing = Entry::new("missing", &Launch::new("/nowhere/at-all"));
    let host = start(&test, &[missing, test.entry("fine", good())]).await;
    settled(&host).await;
    let [missing, fine] = &host
        .servers()
        .iter()
        .map(ServerHandle::dialect_status)
        .collect::<Vec<_>>()[..]
    else {
        panic!("two records")
    };
    let error = missing.error.clone().unwrap();
    assert!(error.contains("/nowhere/at-all"), "{error}");
    assert_eq!(missing, &record("missing", "error", Some(error), &[]));
    assert_eq!(fine, &record("fine", "ok", None, &["ok"]));
    assert_eq!(text_of(&host, "fine/ok").await.unwrap(), "fine");
    host.stop().await;
}

/// S0-31: a server whose tool list fails or does not come has failed before any call, and reports the
/// step.
#[tokio::test]
async fn s0_31_a_list_of_tools_that_fails_or_hangs_is_an_error_in_the_servers_record() {
    let test = TestHost::new();
    let failing = good().on("tools/list", Step::error(-32603, "boom"));
    let hanging = good().on("tools/list", Step::Drop);
    let entries = [
        test.entry("failing", failing),
        test.entry("hanging", hanging)
            .set("connect_timeout", "1500ms"),
        test.entry("fine", good()),
    ];
    let host = start(&test, &entries).await;
    settled(&host).await;
    let check = |server: &str, facts: &[&str]| {
        let record = host.server(server).unwrap().dialect_status();
        assert_eq!((record.status, record.tools), ("error", vec![]), "{server}");
        let error = record.error.unwrap();
        assert!(
            facts.iter().all(|fact| error.contains(fact)),
            "{server}: {error}"
        );
    };
    check("failing", &["tools/list", "boom"]);
    check("hanging", &["did not list its tools within 1.5 s"]);
    let fine = host.server("fine").unwrap().dialect_status();
    assert_eq!((fine.status, fine.error, fine.tools.len()), ("ok", None, 1));
    host.stop().await;
}

/// S0-36, S0-37: for a library user without a caller, in both eras, with a form and with a page. A
/// question that was not advertised is declined too.
#[tokio::test]
async fn s0_36_s0_37_a_question_without_a_caller_is_declined_at_once_with_one_notice() {
    let form = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
    let page =
        r#"{"mode":"url","message":"there","url":"https://x.example/p","elicitationId":"p"}"#;
    for params in [form, page] {
        let requests = format!(r#"{{"q":{{"method":"elicitation/create","params":{params}}}}}"#);
        let legacy = [
            Step::Ask(serde_json::from_str(params).unwrap()),
            Step::AnswerReply,
        ];
        let modern = [
            Step::input_required(Some(&requests), None),
            Step::AnswerInput,
        ];
        let check = async |server: &str, chaos: Chaos, offers: CallerCapabilities| {
            let test = TestHost::new();
            let config = core_agent(&test.scratch.config(&[test.entry(server, chaos)]));
            let builder = HostBuilder::new(config)
                .environment(test.environment.clone())
                .capabilities(offers);
            let host = builder.start().await.unwrap();
            settled(&host).await;
            let mut events = host.events();
            let output =
                result_of(&host, &format!("{server}/ask")).await.unwrap()["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned();
            assert!(
                output.contains(r#""action":"decline""#),
                "{server}: {output}"
            );
            let notices: Vec<String> = std::iter::from_fn(|| events.try_next())
                .filter_map(|next| match next {
                    NextEvent::Event(Event::QuestionDeclined { server, reason }) => {
                        Some(format!("{server}: {reason}"))
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(notices, [format!("{server}: no caller can answer it")]);
            let begun = test.record(server).with_method("initialize");
            let advertised = begun.iter().any(|message| {
                message
                    .params
                    .as_ref()
                    .unwrap()
                    .get()
                    .contains("elicitation")
            });
            assert_eq!(
                advertised,
                offers != CallerCapabilities::default() && server == "legacy"
            );
            host.stop().await;
        };
        check(
            "legacy",
            Chaos::new().tool("ask", legacy.clone()),
            CallerCapabilities::default(),
        )
        .await;
        // Advertised, but this caller answers nothing.
        let both = CallerCapabilities {
            elicit_form: true,
            elicit_url: true,
            ..CallerCapabilities::default()
        };
        check("legacy", Chaos::new().tool("ask", legacy), both).await;
        check(
            "modern",
            Chaos::new().era(Era::Modern).tool("ask", modern),
            CallerCapabilities::default(),
        )
        .await;
    }
}

#[tokio::test]
async fn s0_37_a_question_that_nobody_can_answer_is_declined_and_the_call_ends() {
    let test = TestHost::new();
    let ask = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
    let asking = Chaos::new().tool(
        "ask",
        [
            Step::Ask(serde_json::from_str(ask).unwrap()),
            Step::AnswerReply,
        ],
    );
    let host = start(&test, &[test.entry("asking", asking)]).await;
    settled(&host).await;
    let began = Instant::now();
    let output = result_of(&host, "asking/ask").await.unwrap()["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(output.contains(r#""action":"decline""#), "{output}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    host.stop().await;
}

/// S0-40: although only a deadline changed, each is closed; and no new one starts while an old one
/// runs.
#[tokio::test]
async fn s0_40_a_reload_closes_every_old_server_before_it_builds_the_new_ones() {
    let test = TestHost::new();
    let entries = || {
        [
            test.entry("deaf", stuck()),
            test.entry("quick", good()),
            test.entry("native", good()),
        ]
    };
    let host = start(&test, &entries()).await;
    settled(&host).await;
    let pid = |server: &str| snapshot(&host, server).pid.unwrap();
    let (deaf, quick, native) = (pid("deaf"), pid("quick"), pid("native"));

    let reloaded = host
        .reload(core_agent(&test.scratch.config(&entries())))
        .await
        .unwrap();
    let names = |servers: &[switchboard::name::ServerName]| {
        servers.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&reloaded.restarted), names(&reloaded.adjusted)),
        (vec!["deaf".to_owned(), "quick".to_owned()], vec![])
    );
    until("the new ones start", TIMEOUT, || {
        snapshot(&host, "quick").pid.is_some()
    })
    .await;
    assert_eq!(
        (is_alive(deaf.cast_signed()), is_alive(quick.cast_signed())),
        (false, false),
        "all old ones are gone"
    );
    settled(&host).await;
    assert_ne!((pid("deaf"), pid("quick")), (deaf, quick));
    assert_eq!(pid("native"), native, "only theirs is the rule");
    assert_eq!(text_of(&host, "quick/ok").await.unwrap(), "fine");
    host.stop().await;
    assert_eq!(test.all(), []);
}

/// S0-39: the change of the native server shows that the file was read.
#[tokio::test]
async fn s0_39_a_core_agent_file_is_not_watched() {
    let test = TestHost::new();
    let host = start(
        &test,
        &[test.entry("core", good()), test.entry("native", good())],
    )
    .await;
    settled(&host).await;
    let before = (
        snapshot(&host, "core").pid,
        host.server("core").unwrap().config.clone(),
    );
    let file = test.scratch.path("switchboard.toml");
    let watched = file.clone();
    host.watch([file], move || Ok(core_agent(&watched)))
        .unwrap();
    let mut events = host.events();
    let changed = [
        test.entry("core", good())
            .set("call_timeout", "7s")
            .env("MORE", "1"),
        test.entry("more", good()),
        test.entry("native", good()).set("call_timeout", "7s"),
    ];
    test.scratch.config(&changed);
    let reloaded = loop {
        match tokio::time::timeout(TIMEOUT, events.next()).await.unwrap() {
            Some(NextEvent::Event(Event::Reloaded(reloaded))) => break reloaded,
            _ => continue,
        }
    };
    assert_eq!(
        reloaded
            .adjusted
            .iter()
            .map(|name| name.as_str())
            .collect::<Vec<_>>(),
        ["native"]
    );
    assert_eq!(
        (
            snapshot(&host, "core").pid,
            host.server("core").unwrap().config.clone()
        ),
        before
    );
    assert_eq!(
        (host.server("more").map(|_| ()), host.pending_changes()),
        (None, vec![])
    );
    host.stop().await;
}

/// S0-45: from a configuration and a caller, with the status of each server; and again after
/// closing, by a new host and by the same.
#[tokio::test]
async fn s0_45_servers_are_built_again_in_the_same_process_after_closing() {
    let test = TestHost::new();
    let form = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
    let asking = good().tool(
        "ask",
        [
            Step::Ask(serde_json::from_str(form).unwrap()),
            Step::AnswerReply,
        ],
    );
    let forms = CallerCapabilities {
        elicit_form: true,
        ..CallerCapabilities::default()
    };
    let elicitor = TestCaller::new("the elicitor").capabilities(forms).arc();
    let check = async |host: &Host, round: &str| {
        settled(host).await;
        assert_eq!(
            host.server("one").unwrap().dialect_status(),
            record("one", "ok", None, &["ok", "ask"]),
            "{round}"
        );
        assert_eq!(text_of(host, "one/ok").await.unwrap(), "fine", "{round}");
        let ask = Call::new("one/ask", "{}".parse::<RawJson>().unwrap()).caller(elicitor.clone());
        let output = host.call_with(ask).await.unwrap();
        let output = output.untrusted_text().unwrap().raw().to_owned();
        assert!(
            output.contains(r#""action":"accept""#) && output.contains("the elicitor"),
            "{round}: {output}"
        );
        host.stop().await;
        assert_eq!(test.all(), [], "{round}");
    };
    for round in ["first", "second"] {
        let host = start(&test, &[test.entry("one", asking.clone())]).await;
        check(&host, round).await;
        host.reload(core_agent(&test.scratch.path("switchboard.toml")))
            .await
            .unwrap();
        check(&host, &format!("{round}, again")).await;
    }
}
