//! The servers of the table: how each is started and connected, and what it offers.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use switchboard::config::{self, ConfigFile, Scope};
use switchboard::launch::Launcher;
use switchboard::{Host, HostBuilder};
use switchboard_demo::{Demo, HttpEdge, HttpOptions};
use switchboard_testkit::{Entry, KilledOnDrop, Launch, Scratch, program};

use super::person::OFFERS;
use super::table::{Era, Wire};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Demo,
    Rmcp,
    #[allow(dead_code, reason = "used by the tests with real servers")]
    Real(&'static str),
}

/// A tool and its arguments.
pub(crate) type Asked = (&'static str, &'static str);

/// What a server has for each cell; `None` if it has nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// A tool, and the text of its result.
    pub(crate) call: (Asked, &'static str),
    /// A resource, and its text.
    pub(crate) read: Option<(&'static str, &'static str)>,
    /// A prompt, its arguments, and its text.
    pub(crate) prompt: Option<(&'static str, &'static str, &'static str)>,
    /// A resource, and the tool that changes it.
    pub(crate) subscribe: Option<(&'static str, Asked)>,
    /// A prompt, its argument, the start of a value, and a completion.
    pub(crate) complete: Option<(&'static str, &'static str, &'static str, &'static str)>,
    /// A tool, its question, and the text of its result.
    pub(crate) elicit: Option<(Asked, &'static str, &'static str)>,
    /// A tool, its sampling request, and the text of its result.
    pub(crate) sample: Option<(Asked, &'static str, &'static str)>,
    /// A tool that reports progress.
    pub(crate) progress: Option<Asked>,
    /// A tool that never ends, and the tool that reports the number of stopped calls, if there is
    /// one, with its text for one.
    pub(crate) cancel: Option<(Asked, Option<(&'static str, &'static str)>)>,
}

const DEMO: Traits = Traits {
    call: (("echo", r#"{"message": "hello"}"#), "hello"),
    read: Some(("demo://text", "A switchboard joins")),
    prompt: Some(("review", r#"{"language": "rust"}"#, "the rust code")),
    subscribe: Some(("demo://counter", ("count_up", "{}"))),
    complete: Some(("review", "language", "ru", r#"["ruby","rust"]"#)),
    elicit: Some((
        ("confirm", r#"{"subject": "it all"}"#),
        "Really erase it all?",
        "accepted: it all would be erased now",
    )),
    sample: Some((
        ("ask_model", r#"{"prompt": "how are you?"}"#),
        "how are you?",
        "parrot said: fine",
    )),
    progress: Some(("slow", r#"{"seconds": 0.05, "steps": 5}"#)),
    cancel: Some((
        ("slow", r#"{"seconds": 600, "steps": 60000}"#),
        Some(("stopped", "1 stopped")),
    )),
};

const RMCP: Traits = Traits {
    call: (("echo", r#"{"message": "hello"}"#), "hello"),
    read: Some(("fixture://text", "a text of the fixture")),
    prompt: Some(("greet", r#"{"name": "Grace"}"#, "Greet Grace.")),
    subscribe: Some(("fixture://counter", ("count_up", "{}"))),
    complete: Some(("greet", "name", "a", r#"["Ada","Alan"]"#)),
    elicit: Some((
        ("ask", r#"{"message": "What is your name?"}"#),
        "What is your name?",
        "accept: Ada",
    )),
    sample: Some((
        ("sample", r#"{"prompt": "how are you?"}"#),
        "how are you?",
        "parrot said: fine",
    )),
    progress: Some(("slow", r#"{"seconds": 0.05}"#)),
    cancel: Some((
        ("slow", r#"{"seconds": 600, "steps": 60000}"#),
        Some(("stopped", "1 stopped")),
    )),
};

/// A server behind a ready host. Dropping it ends what the host does not.
pub(crate) struct Reached {
    pub(crate) kind: Kind,
    pub(crate) wire: Wire,
    pub(crate) era: Era,
    pub(crate) traits: Traits,
    pub(crate) host: Host,
    _behind: Behind,
    _scratch: Scratch,
}

/// The process behind an address.
#[allow(dead_code, reason = "held for its end")]
pub(crate) enum Behind {
    /// The host started it itself.
    Host,
    Edge(HttpEdge),
    Process(KilledOnDrop),
}

pub(crate) async fn demo(wire: Wire, era: Era) -> Reached {
    let (place, behind) = match wire {
        // The demo offers both eras, so that the host chooses.
        Wire::Stdio => (
            Place::Launch(Launch::new(program("switchboard-demo"))),
            Behind::Host,
        ),
        Wire::Http | Wire::Sse => {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let edge = Demo::new(Default::default())
                .serve_http(listener, HttpOptions::default())
                .unwrap();
            (
                Place::Url(if wire == Wire::Http {
                    edge.url()
                } else {
                    edge.sse_url()
                }),
                Behind::Edge(edge),
            )
        }
    };
    reach(Kind::Demo, wire, era, DEMO, place, behind).await
}

pub(crate) async fn rmcp(wire: Wire, era: Era) -> Reached {
    let launch = Launch::new(program("rmcp-fixture"));
    let (place, behind) = match wire {
        Wire::Stdio => (Place::Launch(launch), Behind::Host),
        Wire::Http | Wire::Sse => {
            let mut child = launch
                .arg("--http")
                .arg("127.0.0.1:0")
                .command()
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut address = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut address)
                .unwrap();
            (
                Place::Url(format!("http://{}/mcp", address.trim_end())),
                Behind::Process(KilledOnDrop(child)),
            )
        }
    };
    reach(Kind::Rmcp, wire, era, RMCP, place, behind).await
}

/// The address of a server.
pub(crate) enum Place {
    Launch(Launch),
    Url(String),
}

/// Starts a host with this one server, called `it`, and waits until it is ready.
pub(crate) async fn reach(
    kind: Kind,
    wire: Wire,
    era: Era,
    traits: Traits,
    place: Place,
    behind: Behind,
) -> Reached {
    let scratch = Scratch::new();
    let protocol = if era == Era::Legacy {
        "legacy"
    } else {
        "modern"
    };
    let entry = match place {
        Place::Launch(launch) => Entry::new("it", &launch).set("protocol", protocol).render(),
        Place::Url(url) => {
            let transport = if wire == Wire::Http { "http" } else { "sse" };
            format!(
                "[servers.it]\nurl = \"{url}\"\ntransport = \"{transport}\"\nprotocol = \"{protocol}\"\n"
            )
        }
    };
    let rules = "[permissions]\nmode = \"yolo\"\n";
    let path = scratch.write("switchboard.toml", &format!("{rules}{entry}"));
    let config = config::load(&[ConfigFile::new(path, Scope::Given)]).unwrap();
    let launcher = Launcher::start(program("switchboard-launcher")).unwrap();
    let host = HostBuilder::new(config)
        .launcher(launcher)
        .capabilities(OFFERS)
        .start()
        .await
        .unwrap();
    let ready = host
        .server("it")
        .unwrap()
        .ready(std::time::Duration::from_secs(60))
        .await;
    if let Err(error) = ready {
        panic!("{kind:?} {wire:?} {era:?}: {error:?}");
    }
    Reached {
        kind,
        wire,
        era,
        traits,
        host,
        _behind: behind,
        _scratch: scratch,
    }
}
