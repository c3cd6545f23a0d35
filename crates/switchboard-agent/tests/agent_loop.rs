//! The loop over a real host and real servers, with the scripted model: each call of a turn has
//! exactly one result, whatever its outcome.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use switchboard::{Approval, Host, HostBuilder};
use switchboard_agent::conversation::FinishReason;
use switchboard_agent::model::TurnFuture;
use switchboard_agent::session::replay;
use switchboard_agent::{
    Agent, AgentEvent, AgentLimits, CallDecision, CallOutcome, ContentPart, Conversation,
    DemoModel, FaultKind, HistoryEntry, Model, ModelFault, ModelSettings, RunSummary, SessionStore,
    StopReason, TurnContext, TurnDelta, TurnEvent, UserMessage,
};
use switchboard_host_testkit::TestCaller;
use switchboard_testkit::{Chaos, Entry, Scratch, Step, until};

const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    agent: Agent,
    host: Host,
    caller: Arc<TestCaller>,
    scratch: Scratch,
}

impl World {
    async fn new(rules: &str, servers: impl FnOnce(&Scratch) -> Vec<Entry>) -> Self {
        Self::with_caller(rules, TestCaller::new("agent"), servers).await
    }

    async fn with_caller(
        rules: &str,
        caller: TestCaller,
        servers: impl FnOnce(&Scratch) -> Vec<Entry>,
    ) -> Self {
        let scratch = Scratch::new();
        let file = scratch.config_with(rules, &servers(&scratch));
        let host = HostBuilder::open(file).unwrap().start().await.unwrap();
        host.wait_until_settled(PATIENCE).await;
        let caller = Arc::new(caller);
        Self {
            agent: Agent::new(host.clone(), DemoModel, caller.clone()),
            host,
            caller,
            scratch,
        }
    }

    /// Runs a message; returns the summary and the events.
    async fn run(&mut self, message: &str) -> (RunSummary, Vec<AgentEvent>) {
        let mut events = Vec::new();
        let message = UserMessage::text(message);
        let mut sink = |event| events.push(event);
        let summary = self.agent.run(message, &mut sink).await.unwrap();
        self.check_events(&summary, &events);
        (summary, events)
    }

    /// Each call has one end, and a beginning only if the host was asked.
    fn check_events(&mut self, summary: &RunSummary, events: &[AgentEvent]) {
        let is_end = |event: &&AgentEvent| matches!(event, AgentEvent::CallEnded { .. });
        assert_eq!(events.iter().filter(is_end).count(), summary.calls.len());
        let outcomes = outcomes(self.agent.history());
        assert!(outcomes.len() >= summary.calls.len());
    }
}

/// Every result in the conversation, in order.
fn outcomes(conversation: &Conversation) -> Vec<CallOutcome> {
    let turns = conversation
        .entries()
        .iter()
        .filter_map(|entry| match entry {
            HistoryEntry::Model(turn) => Some(turn),
            _ => None,
        });
    turns
        .flat_map(|turn| turn.calls().map(|(_, outcome)| outcome.clone()))
        .collect()
}

const ALLOW_ALL: &str = "[permissions]\nallow = [\"*\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reaches_its_server_and_the_model_reads_the_result() {
    let mut world = World::new(ALLOW_ALL, |_| {
        vec![Chaos::new().tool("say", Step::Echo).entry("s")]
    })
    .await;
    let (summary, events) = world.run("call mcp__s__say {\"a\": 1.50}").await;
    assert!(summary.text.contains("1.50"), "{}", summary.text);
    assert_eq!((summary.turns, summary.stop), (2, StopReason::Done));
    let call = &summary.calls[0];
    assert_eq!((&*call.server, &*call.tool), ("s", "say"));
    assert_eq!(
        (call.decision, call.is_error),
        (CallDecision::Allowed, false)
    );
    assert_eq!(summary.cost.total_usd(), Some(0.0));
    let started = AgentEvent::CallStarted {
        index: 0,
        server: "s".to_owned(),
        tool: "say".to_owned(),
        arguments: "{\"a\": 1.50}".to_owned(),
    };
    assert!(events.contains(&started), "{events:?}");
    let (summary, _) = world.run("which tools are there?").await;
    assert!(summary.text.contains("Tools: mcp__s__say."));
    assert!(summary.calls.is_empty());
    world.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_reads_why_a_call_was_denied() {
    let caller = TestCaller::new("agent").approves(Approval::no("not on a Monday"));
    let rules = "[permissions]\ndeny = [\"s/never\"]\n";
    let mut world = World::with_caller(rules, caller, |_| {
        let server = Chaos::new().tool("ask", Step::Answer);
        vec![server.tool("never", Step::Answer).entry("s")]
    })
    .await;
    let (summary, _) = world
        .run("call mcp__s__ask {}\ncall mcp__s__never {}")
        .await;
    assert!(summary.text.contains("not on a Monday"), "{}", summary.text);
    let decisions = summary.calls.iter().map(|call| call.decision);
    assert!(decisions.eq([CallDecision::Denied; 2]));
    let outcomes = outcomes(world.agent.history());
    let [CallOutcome::Denied { .. }, CallOutcome::Denied { reason }] = &*outcomes else {
        panic!("{outcomes:?}");
    };
    assert!(reason.contains("s/never"), "{reason}");
    assert_eq!(world.caller.seen().approvals.len(), 1);
    world.host.stop().await;
}

/// Two calls that each wait for the other: they end only if both run at once.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_turn_run_in_parallel_and_keep_their_order() {
    let mut world = World::new(ALLOW_ALL, |scratch| {
        let (a, b) = (scratch.path("a"), scratch.path("b"));
        let meet =
            |own, other, text| vec![Step::touch(own), Step::wait_file(other), Step::text(text)];
        let one = Chaos::new().tool("meet", meet(&a, &b, "first"));
        let two = Chaos::new().tool("meet", meet(&b, &a, "second"));
        vec![one.entry("one"), two.entry("two")]
    })
    .await;
    let message = "call mcp__one__meet {}\ncall mcp__two__meet {}";
    let (summary, _) = tokio::time::timeout(PATIENCE, world.run(message))
        .await
        .unwrap();
    let expected = "mcp__one__meet answered: first\nmcp__two__meet answered: second";
    assert_eq!(summary.text, expected);
    world.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_gets_one_result_whatever_its_outcome() {
    let mut world = World::new(ALLOW_ALL, |_| {
        let good = Chaos::new()
            .tool("fine", Step::text("a\u{200b}b"))
            .tool("error", Step::error(-32000, "no disk"))
            .tool(
                "fails",
                Step::result(r#"{"isError":true,"content":[{"type":"text","text":"full"}]}"#),
            )
            .tool(
                "image",
                Step::result(
                    r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#,
                ),
            );
        let dies = Chaos::new().tool("die", Step::Exit(3));
        vec![good.entry("good"), dies.entry("bad")]
    })
    .await;
    let message = "call mcp__good__fine {}\ncall mcp__good__error {}\ncall mcp__good__fails {}\n\
                   call mcp__good__image {}\ncall mcp__bad__die {}\ncall nobody {}\n\
                   call mcp__good__fine {\"cut\ncall mcp__good__fine []";
    let (summary, _) = world.run(message).await;
    let outcomes = outcomes(world.agent.history());
    assert_eq!((outcomes.len(), summary.calls.len()), (8, 8));
    let errors = summary.calls.iter().map(|call| call.is_error);
    assert!(errors.eq([false, true, true, false, true, true, true, true]));
    let texts: Vec<String> = outcomes.iter().map(CallOutcome::text).collect();
    assert_eq!(texts[0], "ab");
    assert!(
        texts[1].contains("no disk") && texts[2] == "full",
        "{texts:?}"
    );
    assert!(texts[4].contains("server \"bad\""), "{texts:?}");
    assert!(texts[5].contains("no tool named \"nobody\""), "{texts:?}");
    let CallOutcome::Answered(output) = &outcomes[3] else {
        panic!("{:?}", outcomes[3]);
    };
    assert!(matches!(&*output.parts, [ContentPart::Image(_)]));
    assert!(output.raw.is_some());
    world.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_a_limit_are_not_made() {
    let mut world = World::new(ALLOW_ALL, |scratch| {
        let steps = vec![Step::touch(scratch.path("ran")), Step::Answer];
        vec![Chaos::new().tool("run", steps).entry("s")]
    })
    .await;
    for (limits, stop) in [
        (
            AgentLimits {
                max_turns: 1,
                max_cost_usd: None,
            },
            StopReason::MaxTurns,
        ),
        (
            AgentLimits {
                max_turns: 9,
                max_cost_usd: Some(0.0),
            },
            StopReason::MaxCost,
        ),
    ] {
        let agent = Agent::new(world.host.clone(), DemoModel, world.caller.clone());
        world.agent = agent.limits(limits);
        let (summary, _) = world.run("call mcp__s__run {}").await;
        assert_eq!((summary.stop, summary.turns), (stop, 1));
        assert_eq!(summary.calls[0].decision, CallDecision::Denied);
        assert!(!world.scratch.path("ran").exists());
    }
    world.host.stop().await;
}

async fn until_exists(file: &Path) {
    until("the server has begun", || file.exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_dropped_leaves_a_conversation_that_can_be_continued() {
    let mut world = World::new(ALLOW_ALL, |scratch| {
        let steps = vec![Step::touch(scratch.path("began")), Step::Drop];
        let server = Chaos::new().tool("hang", steps);
        vec![server.tool("fine", Step::text("well")).entry("s")]
    })
    .await;
    let began = world.scratch.path("began");
    let message = UserMessage::text("call mcp__s__hang {}");
    let mut ignore = |_| {};
    tokio::select! {
        ended = world.agent.run(message, &mut ignore) => panic!("{ended:?}"),
        () = until_exists(&began) => {}
    }
    assert_eq!(outcomes(world.agent.history()), [CallOutcome::Cancelled]);
    let (summary, _) = world.run("call mcp__s__fine {}").await;
    assert_eq!(summary.text, "mcp__s__fine answered: well");
    assert_eq!(outcomes(world.agent.history()).len(), 2);
    world.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_began_is_not_said_to_have_had_effects() {
    let mut world = World::new(ALLOW_ALL, |scratch| {
        let steps = vec![Step::touch(scratch.path("began")), Step::Drop];
        vec![Chaos::new().tool("hang", steps).entry("s")]
    })
    .await;
    let began = world.scratch.path("began");
    // One more call than run at once.
    let message = UserMessage::text(["call mcp__s__hang {}"; 17].join("\n"));
    let mut ignore = |_| {};
    tokio::select! {
        ended = world.agent.run(message, &mut ignore) => panic!("{ended:?}"),
        () = until_exists(&began) => {}
    }
    let outcomes = outcomes(world.agent.history());
    let (begun, waiting) = outcomes.split_at(16);
    assert!(
        begun
            .iter()
            .all(|outcome| *outcome == CallOutcome::Cancelled)
    );
    assert!(
        matches!(waiting, [CallOutcome::Denied { .. }]),
        "{waiting:?}"
    );
    world.host.stop().await;
}

/// A model that writes the beginning of an answer and never ends it.
#[derive(Debug)]
struct ModelWithoutEnd(ModelSettings);

impl Model for ModelWithoutEnd {
    fn description(&self) -> String {
        "no end".to_owned()
    }

    fn settings(&self) -> &ModelSettings {
        &self.0
    }

    fn turn<'a>(
        &'a self,
        _: TurnContext<'a>,
        sink: &'a mut (dyn FnMut(TurnEvent) + Send),
    ) -> TurnFuture<'a> {
        sink(TurnEvent::Delta(TurnDelta::Text(
            "First I\nwill".to_owned(),
        )));
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_answer_is_noted_for_the_model_and_in_the_session() {
    let mut world = World::new("", |_| Vec::new()).await;
    let store = store(&world);
    let model = ModelWithoutEnd(DemoModel.settings().clone());
    world.agent =
        Agent::new(world.host.clone(), model, world.caller.clone()).sessions(store.clone());
    let shown = tokio::sync::Notify::new();
    let mut sink = |_| shown.notify_one();
    tokio::select! {
        ended = world.agent.run(UserMessage::text("delete the tests"), &mut sink) => {
            panic!("{ended:?}")
        }
        () = shown.notified() => {}
    }
    let noted = |conversation: &Conversation| match conversation.entries() {
        [HistoryEntry::User(_), HistoryEntry::Note(note)] => {
            note.contains("was stopped") && note.ends_with("\n\n> First I\n> will")
        }
        _ => false,
    };
    let path = world.agent.session_path().unwrap().to_owned();
    // The end of the agent writes it: nothing else comes after Ctrl-C in a script.
    world.agent = Agent::new(world.host.clone(), DemoModel, world.caller.clone());
    let loaded = store.load(&path).unwrap();
    assert!(noted(&loaded.conversation), "{:?}", loaded.conversation);
    world.agent.resume(loaded);
    world.run("what is there?").await;
    assert_eq!(world.agent.history().entries().len(), 4);
    world.host.stop().await;
}

/// S2-49, S4-04: a model has the program's own tools and the servers' tools in one list, and calls
/// either.
#[test]
fn s2_49_s4_04_a_model_loops_over_own_tools_and_mcp_tools_of_one_catalog() {
    let scratch = Scratch::new();
    let server = Chaos::new().tool("greet", Step::text("hello to you"));
    let config = scratch.config_with("", &[server.entry("chaos")]);
    std::fs::write(scratch.path("note.txt"), "three words here\n").unwrap();
    // The server's tool by its pair, which the demo model finds in the list.
    let message = "call chaos/greet {}\ncall Read {\"path\":\"note.txt\"}";
    let mut command = example("agent");
    let command = command.arg(&config).arg(message);
    let ran = command.current_dir(scratch.path("")).output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let answer = "mcp__chaos__greet answered: hello to you\nRead answered: 1\tthree words here\n\n";
    assert_eq!(String::from_utf8_lossy(&ran.stdout), answer, "{stderr}");
    for tool in ["mcp__chaos__greet", "Read"] {
        let asked = format!("may it call {tool}? yes, once\n");
        assert!(stderr.contains(&asked), "{stderr}");
    }
}

/// An example as `cargo test` has built it. Where only this test was asked for, cargo builds it.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().with_file_name("examples").join(name);
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = folder.join("examples").join(name).with_extension("rs");
    if modified(&built) > modified(&source) {
        return Command::new(built);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // As a part of the whole workspace, so that nothing is built in two ways.
    cargo.args(["build", "--quiet", "--workspace", "--example", name]);
    cargo.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
    Command::new(built)
}

fn store(world: &World) -> SessionStore {
    let folder = world.scratch.path("sessions");
    SessionStore::new(folder, Some("/project".into()))
}

/// Each step is in the file; another agent continues it, and each request is built again the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_recorded_continued_forked_and_replayed() {
    let mut world = World::new(ALLOW_ALL, |_| {
        vec![Chaos::new().tool("say", Step::Echo).entry("s")]
    })
    .await;
    let store = store(&world);
    world.agent = Agent::new(world.host.clone(), DemoModel, world.caller.clone())
        .system("Be brief.")
        .sessions(store.clone());
    assert!(store.list().is_empty());
    world.run("call mcp__s__say {\"a\": 1}").await;
    let first = world.agent.session().unwrap().id.clone();
    let history = world.agent.history().clone();
    let usage = world.agent.usage();
    let context = world.agent.context();
    let server = context
        .servers
        .iter()
        .find(|found| found.server == "s")
        .unwrap();
    assert_eq!((server.loaded_tools, server.deferred_tools), (1, 0));
    assert!(server.definitions > 0 && server.results > 0, "{context:?}");

    let fork = world.agent.fork().unwrap().unwrap();
    world.run("only in the fork").await;
    world.agent =
        Agent::new(world.host.clone(), DemoModel, world.caller.clone()).sessions(store.clone());
    let path = store.find(&first).unwrap();
    assert_eq!(world.agent.resume(store.load(&path).unwrap()), []);
    assert_eq!(world.agent.history(), &history);
    assert_eq!(world.agent.usage(), usage);
    world.run("which tools are there?").await;
    world.agent.clear();
    assert!(world.agent.history().entries().is_empty());
    let mut ids: Vec<String> = store.list().into_iter().map(|info| info.id).collect();
    ids.sort();
    let mut expected = vec![first.clone(), fork.clone()];
    expected.sort();
    assert_eq!(ids, expected);
    for (id, requests) in [(&first, 3), (&fork, 3)] {
        let path = store.folder().join(format!("{id}.jsonl"));
        let report = replay(&path).unwrap();
        assert_eq!(report.differences, [], "{id}");
        assert_eq!((report.requests, report.results), (requests, 1), "{id}");
        // The system prompt of the session is in its requests, whoever continued it.
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("\"type\":\"prefix\"").count(), 1, "{id}");
        assert!(text.contains("Be brief."));
    }
    world.host.stop().await;
}

/// Read finds the file of a long result by the path without links.
#[tokio::test(flavor = "multi_thread")]
async fn t26_the_file_of_a_long_result_is_named_without_links() {
    let mut world = World::new(ALLOW_ALL, |_| {
        let long = Step::text(&"x".repeat(60_000));
        vec![Chaos::new().tool("long", long).entry("s")]
    })
    .await;
    let (state, link) = (world.scratch.path("state"), world.scratch.path("link"));
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(&state, &link).unwrap();
    let agent = Agent::new(world.host.clone(), DemoModel, world.caller.clone());
    world.agent = agent.results_in(&link);
    world.run("call mcp__s__long {}").await;
    let text = outcomes(world.agent.history())[0].text();
    let folder = state.canonicalize().unwrap();
    let named = format!("the whole is in {}/", folder.display());
    assert!(text.contains(&named), "{}", text.replace('x', ""));
    world.host.stop().await;
}

/// A scripted model that writes no summary, or none that can be used.
#[derive(Debug)]
struct ModelWithoutSummary {
    settings: ModelSettings,
    /// Why it stops in the middle of a summary; `None` if it writes no word of it.
    finish: Option<FinishReason>,
}

impl Model for ModelWithoutSummary {
    fn description(&self) -> String {
        "no summary".to_owned()
    }

    fn settings(&self) -> &ModelSettings {
        &self.settings
    }

    fn turn<'a>(
        &'a self,
        context: TurnContext<'a>,
        sink: &'a mut (dyn FnMut(TurnEvent) + Send),
    ) -> TurnFuture<'a> {
        let last = context.conversation.entries().last();
        let asks_for_summary = format!("{last:?}").contains("Summarise this conversation");
        Box::pin(async move {
            let mut turn = DemoModel.turn(context, sink).await?;
            if asks_for_summary {
                match &self.finish {
                    Some(finish) => turn.finish = finish.clone(),
                    None => turn.parts.clear(),
                }
            }
            Ok(turn)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_summary_leaves_a_conversation_that_goes_on() {
    let mut world = World::new("", |_| Vec::new()).await;
    let mut settings = DemoModel.settings().clone();
    settings.context_tokens = Some(300);
    let finish = None;
    let model = ModelWithoutSummary { settings, finish };
    world.agent = Agent::new(world.host.clone(), model, world.caller.clone());
    let mut failures = Vec::new();
    for question in 0..4 {
        let (summary, events) = world.run(&format!("{question} {}", "x".repeat(400))).await;
        assert!(!summary.text.is_empty());
        failures.extend(events.into_iter().filter_map(|event| match event {
            AgentEvent::CompactionFailed(fault) => Some(fault.kind),
            _ => None,
        }));
    }
    assert!(failures.len() > 1, "{failures:?}");
    assert!(failures.iter().all(|kind| *kind == FaultKind::NoSummary));
    // Where a person asks for it, the fault is the answer.
    let fault = world.agent.compact(&mut |_| {}).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::NoSummary);
    world.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_cut_off_or_refused_replaces_nothing() {
    let mut world = World::new("", |_| Vec::new()).await;
    for (finish, reason) in [
        (FinishReason::Length, "it was cut off at the limit"),
        (FinishReason::Refused, "refused to write it"),
        (FinishReason::Other, "stopped before its end"),
    ] {
        let settings = DemoModel.settings().clone();
        let finish = Some(finish);
        let model = ModelWithoutSummary { settings, finish };
        world.agent = Agent::new(world.host.clone(), model, world.caller.clone());
        world.run("a question").await;
        let before = world.agent.history().clone();
        let fault = world.agent.compact(&mut |_| {}).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::NoSummary);
        assert!(fault.message.contains(reason), "{fault}");
        assert_eq!(world.agent.history(), &before);
    }
    world.host.stop().await;
}

/// A scripted model that can read little: it says so where a conversation is longer.
#[derive(Debug)]
struct SmallModel {
    settings: ModelSettings,
    max_entries: usize,
}

impl Model for SmallModel {
    fn description(&self) -> String {
        "small".to_owned()
    }

    fn settings(&self) -> &ModelSettings {
        &self.settings
    }

    fn turn<'a>(
        &'a self,
        context: TurnContext<'a>,
        sink: &'a mut (dyn FnMut(TurnEvent) + Send),
    ) -> TurnFuture<'a> {
        let entries = context.conversation.entries().len();
        if entries > self.max_entries {
            let kind = FaultKind::ContextOverflow { limit: Some(1000) };
            return Box::pin(async move { Err(ModelFault::new(kind, "too long")) });
        }
        DemoModel.turn(context, sink)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_fills_the_context_is_summarised_and_goes_on() {
    let mut world = World::new("", |_| Vec::new()).await;
    let store = store(&world);
    let check = async |world: &mut World, model: SmallModel, questions: usize| {
        world.agent =
            Agent::new(world.host.clone(), model, world.caller.clone()).sessions(store.clone());
        let mut compacted = 0;
        for question in 0..questions {
            let message = format!("question {question} {}", "x".repeat(400));
            let (_, events) = world.run(&message).await;
            let is_compacted = |event: &&AgentEvent| matches!(event, AgentEvent::Compacted(_));
            compacted += events.iter().filter(is_compacted).count();
        }
        let entries = world.agent.history().entries().to_vec();
        assert!(
            matches!(entries[0], HistoryEntry::Summary(_)),
            "{entries:?}"
        );
        let path = world.agent.session_path().unwrap().to_owned();
        assert_eq!(replay(&path).unwrap().differences, []);
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.matches("\"type\":\"summary\"").count(), compacted);
        compacted
    };
    // The settings say how much it reads.
    let mut settings = DemoModel.settings().clone();
    settings.context_tokens = Some(1500);
    let max_entries = usize::MAX;
    let model = SmallModel {
        settings: settings.clone(),
        max_entries,
    };
    assert!(check(&mut world, model, 24).await > 1);
    // Its vendor says so.
    settings.context_tokens = None;
    let max_entries = 6;
    let model = SmallModel {
        settings,
        max_entries,
    };
    assert!(check(&mut world, model, 6).await > 0);
    // A person wants it. This model reads half of the conversation at once, so it takes two.
    for left in [4, 1] {
        world.agent.compact(&mut |_| {}).await.unwrap().unwrap();
        assert_eq!(world.agent.history().entries().len(), left);
    }
    assert_eq!(world.agent.compact(&mut |_| {}).await.unwrap(), None);
    world.host.stop().await;
}
