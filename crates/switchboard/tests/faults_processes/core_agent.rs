//! Servers of core-agent files: how they start and are told of, how they end, and how they are
//! built again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switchboard::call::Call;
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerId, ElicitAnswer, Elicitation, Offers,
};
use switchboard::config::{self, Config, ConfigFile, Dialect, Scope};
use switchboard::event::{Event, NextEvent};
use switchboard::launch::Launcher;
use switchboard::name::{ServerName, ToolName};
use switchboard::server::{DialectStatus, ServerHandle, State};
use switchboard::wire::RawJson;
use switchboard::{Host, HostBuilder};
use switchboard_testkit::script::Era;
use switchboard_testkit::{Chaos, Entry, Launch, Step, is_alive};

use crate::support::{
    PATIENCE, Stage, good, is_ready, result_of, settled, snapshot, stuck, text_of, until,
    until_state,
};

/// The file's servers, as if they stood in a core-agent file; those named `gemini…` as in a gemini
/// file, `native…` as they are.
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

async fn start(stage: &Stage, entries: &[Entry]) -> Host {
    let launcher = Launcher::start(switchboard_testkit::program("switchboard-launcher")).unwrap();
    let offers = Offers {
        elicit_form: true,
        ..Offers::default()
    };
    let builder = HostBuilder::new(core_agent(&stage.scratch.config(entries)))
        .environment(stage.environment.clone())
        .offers(offers)
        .launcher(launcher);
    builder.start().await.unwrap()
}

/// What a server of a core-agent file tells of itself.
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
    let stage = Stage::new();
    let termed = stage.scratch.path("termed");
    let mut deaf = stuck();
    deaf.script.on_term = Step::touch(&termed).into();
    // This one heeds SIGTERM, but not the end of its input.
    let host = start(
        &stage,
        &[
            stage.entry("deaf", deaf),
            stage.entry("heeding", good().ignore_eof()),
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
    until("SIGTERM came", PATIENCE, || termed.exists()).await;
    assert!(
        began.elapsed() < Duration::from_millis(1900),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(stage.of("deaf").len(), 1, "it lives on");
    stopping.await.unwrap();
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(5),
        "{took:?}"
    );
    assert_eq!(stage.all(), []);
}

/// S0-02, S2-61: nothing is asked of them, and yet all are there; S0-28: not one after the other.
#[tokio::test]
async fn s0_02_s2_61_s0_28_servers_start_with_the_host_all_at_once_and_a_slow_one_keeps_none_waiting()
 {
    let stage = Stage::new();
    let go = stage.scratch.path("go");
    let slow = good().on_start(Step::WaitFile(go.clone()));
    let mut entries = vec![stage.entry("slow", slow)];
    let prompt = ["one", "two", "native", "gemini"];
    entries.extend(prompt.map(|name| stage.entry(name, good())));
    let host = start(&stage, &entries).await;
    for name in prompt {
        until_state(&host, name, is_ready).await;
    }
    until("the slow one was started beside them", PATIENCE, || {
        stage.of("slow").len() == 1
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

/// S2-63: the word and the reason of a connection that was lost, for as long as the server does not
/// come back.
#[tokio::test]
async fn s2_63_a_gemini_server_whose_process_is_killed_is_disconnected_with_the_reason() {
    let stage = Stage::new();
    let again = stage.scratch.path("again").display().to_string();
    let launch = good().launch();
    let [script] = &launch.args[..] else {
        panic!("{launch:?}")
    };
    // Starts once only.
    let line = format!(
        "[ -e '{again}' ] && exit 7; : > '{again}'; exec '{}' '{script}'",
        launch.command.display()
    );
    let host = start(
        &stage,
        &[Entry::new(
            "gemini",
            &Launch::new("/bin/sh").arg("-c").arg(line),
        )],
    )
    .await;
    settled(&host).await;
    let server = host.server("gemini").unwrap();
    assert_eq!(
        (server.record().status, server.record().error),
        ("CONNECTED", None)
    );
    let pid = Pid::from_raw(i32::try_from(server.snapshot().pid.unwrap()).unwrap());
    kill(pid, Signal::SIGKILL).unwrap();
    let lost = || Some(server.record()).filter(|told| told.status == "DISCONNECTED");
    until("it is DISCONNECTED", PATIENCE, || {
        lost().is_some_and(|told| told.error.is_some())
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

/// S0-29, S0-34: the record of each server says what became of it, and the others run.
#[tokio::test]
async fn s0_29_s0_34_a_missing_binary_is_an_error_of_its_server_alone_and_every_server_has_a_record()
 {
    let stage = Stage::new();
    let missing = Entry::new("missing", &Launch::new("/nowhere/at-all"));
    let host = start(&stage, &[missing, stage.entry("fine", good())]).await;
    settled(&host).await;
    let [missing, fine] = &host
        .servers()
        .iter()
        .map(ServerHandle::record)
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

/// S0-31: before anything is called, a server whose list of tools fails or does not come has
/// failed, and says at which step.
#[tokio::test]
async fn s0_31_a_list_of_tools_that_fails_or_hangs_is_an_error_in_the_servers_record() {
    let stage = Stage::new();
    let failing = good().on("tools/list", Step::error(-32603, "boom"));
    let hanging = good().on("tools/list", Step::Drop);
    let entries = [
        stage.entry("failing", failing),
        stage
            .entry("hanging", hanging)
            .set("connect_timeout", "1500ms"),
        stage.entry("fine", good()),
    ];
    let host = start(&stage, &entries).await;
    settled(&host).await;
    let check = |server: &str, facts: &[&str]| {
        let record = host.server(server).unwrap().record();
        assert_eq!((record.status, record.tools), ("error", vec![]), "{server}");
        let error = record.error.unwrap();
        assert!(
            facts.iter().all(|fact| error.contains(fact)),
            "{server}: {error}"
        );
    };
    check("failing", &["tools/list", "boom"]);
    check(
        "hanging",
        &["gave no answer within 1.5 s when asked what it offers"],
    );
    let fine = host.server("fine").unwrap().record();
    assert_eq!((fine.status, fine.error, fine.tools.len()), ("ok", None, 1));
    host.stop().await;
}

/// S0-36, S0-37: as a library's user gets it who has wired nothing, in both eras, by a form and by
/// a page. What was not advertised is declined like what was.
#[tokio::test]
async fn s0_36_s0_37_a_question_to_a_host_that_wired_nobody_is_declined_at_once_with_one_notice() {
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
        let check = async |server: &str, chaos: Chaos, offers: Offers| {
            let stage = Stage::new();
            let config = core_agent(&stage.scratch.config(&[stage.entry(server, chaos)]));
            let builder = HostBuilder::new(config)
                .environment(stage.environment.clone())
                .offers(offers);
            let host = builder.start().await.unwrap();
            settled(&host).await;
            let mut events = host.events();
            let said =
                result_of(&host, &format!("{server}/ask")).await.unwrap()["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned();
            assert!(said.contains(r#""action":"decline""#), "{server}: {said}");
            let notices: Vec<String> = std::iter::from_fn(|| events.happened())
                .filter_map(|next| match next {
                    NextEvent::Event(Event::Notice { server, line }) => {
                        Some(format!("{}: {line}", server.unwrap()))
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(
                notices,
                [format!(
                    "{server}: a question of the server was declined: nobody here answers"
                )]
            );
            let begun = stage.record(server).with_method("initialize");
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
                offers != Offers::default() && server == "legacy"
            );
            host.stop().await;
        };
        check(
            "legacy",
            Chaos::new().tool("ask", legacy.clone()),
            Offers::default(),
        )
        .await;
        // Advertised, but this caller answers nothing.
        let both = Offers {
            elicit_form: true,
            elicit_url: true,
            ..Offers::default()
        };
        check("legacy", Chaos::new().tool("ask", legacy), both).await;
        check(
            "modern",
            Chaos::new().era(Era::Modern).tool("ask", modern),
            Offers::default(),
        )
        .await;
    }
}

#[tokio::test]
async fn s0_37_a_question_that_nobody_can_answer_is_declined_and_the_call_ends() {
    let stage = Stage::new();
    let ask = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
    let asking = Chaos::new().tool(
        "ask",
        [
            Step::Ask(serde_json::from_str(ask).unwrap()),
            Step::AnswerReply,
        ],
    );
    let host = start(&stage, &[stage.entry("asking", asking)]).await;
    settled(&host).await;
    let began = Instant::now();
    let said = result_of(&host, "asking/ask").await.unwrap()["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(said.contains(r#""action":"decline""#), "{said}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    host.stop().await;
}

/// S0-40: although nothing but a deadline changed, each is closed; and no new one starts while an
/// old one lives.
#[tokio::test]
async fn s0_40_a_reload_closes_every_old_server_before_it_builds_the_new_ones() {
    let stage = Stage::new();
    let entries = || {
        [
            stage.entry("deaf", stuck()),
            stage.entry("quick", good()),
            stage.entry("native", good()),
        ]
    };
    let host = start(&stage, &entries()).await;
    settled(&host).await;
    let pid = |server: &str| snapshot(&host, server).pid.unwrap();
    let (deaf, quick, native) = (pid("deaf"), pid("quick"), pid("native"));

    let reloaded = host
        .reload(core_agent(&stage.scratch.config(&entries())))
        .await
        .unwrap();
    let names = |servers: &[switchboard::name::ServerName]| {
        servers.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&reloaded.restarted), names(&reloaded.adjusted)),
        (vec!["deaf".to_owned(), "quick".to_owned()], vec![])
    );
    until("the new ones start", PATIENCE, || {
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
    assert_eq!(stage.all(), []);
}

/// S0-39: the change of the native server beside it shows that the file was read.
#[tokio::test]
async fn s0_39_a_core_agent_file_is_not_watched() {
    let stage = Stage::new();
    let host = start(
        &stage,
        &[stage.entry("core", good()), stage.entry("native", good())],
    )
    .await;
    settled(&host).await;
    let before = (
        snapshot(&host, "core").pid,
        host.server("core").unwrap().config.clone(),
    );
    let file = stage.scratch.path("switchboard.toml");
    let watched = file.clone();
    host.watch([file], move || Ok(core_agent(&watched)))
        .unwrap();
    let mut events = host.events();
    let changed = [
        stage
            .entry("core", good())
            .set("call_timeout", "7s")
            .env("MORE", "1"),
        stage.entry("more", good()),
        stage.entry("native", good()).set("call_timeout", "7s"),
    ];
    stage.scratch.config(&changed);
    let reloaded = loop {
        match tokio::time::timeout(PATIENCE, events.next()).await.unwrap() {
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

/// Whoever answers what servers ask.
struct Elicitor;

impl Caller for Elicitor {
    fn id(&self) -> CallerId {
        CallerId::new("elicitor")
    }

    fn offers(&self) -> Offers {
        Offers {
            elicit_form: true,
            ..Offers::default()
        }
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let name = serde_json::json!({"name": "the elicitor"});
        Box::pin(async move { ElicitAnswer::Accept(name.as_object().unwrap().clone()) })
    }
}

/// S0-45: from a configuration and an elicitor, with a record of each server; and again once they
/// are closed, by a new host and by the same.
#[tokio::test]
async fn s0_45_servers_are_built_again_in_the_same_process_after_closing() {
    let stage = Stage::new();
    let form = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
    let asking = good().tool(
        "ask",
        [
            Step::Ask(serde_json::from_str(form).unwrap()),
            Step::AnswerReply,
        ],
    );
    let check = async |host: &Host, round: &str| {
        settled(host).await;
        assert_eq!(
            host.server("one").unwrap().record(),
            record("one", "ok", None, &["ok", "ask"]),
            "{round}"
        );
        assert_eq!(text_of(host, "one/ok").await.unwrap(), "fine", "{round}");
        let ask = Call::new("one/ask", "{}".parse::<RawJson>().unwrap())
            .caller(Arc::new(Elicitor) as Arc<dyn Caller>);
        let said = host.call_with(ask).await.unwrap();
        let said = said.untrusted_text().unwrap().raw().to_owned();
        assert!(
            said.contains(r#""action":"accept""#) && said.contains("the elicitor"),
            "{round}: {said}"
        );
        host.stop().await;
        assert_eq!(stage.all(), [], "{round}");
    };
    for round in ["first", "second"] {
        let host = start(&stage, &[stage.entry("one", asking.clone())]).await;
        check(&host, round).await;
        host.reload(core_agent(&stage.scratch.path("switchboard.toml")))
            .await
            .unwrap();
        check(&host, &format!("{round}, again")).await;
    }
}
