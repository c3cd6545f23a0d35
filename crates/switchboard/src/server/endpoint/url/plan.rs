//! Which transport and era to try on a URL, and what to try after a failure, by the specification's
//! rules. Pure.
//!
//! The order: what is remembered; then modern and legacy Streamable HTTP, which the session's
//! handshake distinguishes; then HTTP+SSE.

use serde::{Deserialize, Serialize};

use crate::config::{HttpTransportKind, Protocol};
use crate::server::DetectedTransport;
use crate::session::{Era, OpenFault};
use crate::transport::TransportFault;

/// The transport and era that worked last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownWire {
    pub(super) wire: DetectedTransport,
    pub(super) era: Era,
}

/// What the entry permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WirePlan {
    pub(super) wire: HttpTransportKind,
    pub(super) protocol: Protocol,
    /// The URL may be a base URL, with an HTTP+SSE stream at `/sse` below it.
    pub(super) sse_path_fallback: bool,
}

/// One combination of transport and era to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireAttempt {
    pub(super) wire: DetectedTransport,
    pub(super) protocol: Protocol,
    pub(super) known_era: Option<Era>,
    /// At `/sse` below the URL instead of the URL itself.
    pub(super) at_sse_path: bool,
    /// Tried because it worked last time, so its failure says little about the server.
    pub(super) remembered: bool,
}

impl WirePlan {
    /// The known transport, with the era that is remembered for the launch if that differs.
    pub(super) fn with_era(self, known: Option<KnownWire>, era: Option<Era>) -> Option<KnownWire> {
        match (known, era) {
            (
                Some(KnownWire {
                    wire: DetectedTransport::Http,
                    ..
                })
                | None,
                Some(era),
            ) => Some(KnownWire {
                wire: DetectedTransport::Http,
                era,
            }),
            _ => known,
        }
    }

    /// Whether the server, not the entry, determined the era.
    pub(super) fn is_era_from_server(self, found: KnownWire) -> bool {
        self.protocol == Protocol::Auto || found.wire == DetectedTransport::Sse
    }

    /// The first attempt.
    pub(super) fn first(self, known: Option<KnownWire>) -> WireAttempt {
        match (self.wire, known) {
            (HttpTransportKind::Sse, _) => SSE,
            (
                HttpTransportKind::Auto,
                Some(KnownWire {
                    wire: DetectedTransport::Sse,
                    ..
                }),
            ) if self.protocol != Protocol::Modern => WireAttempt {
                remembered: true,
                ..SSE
            },
            // A known modern server is probed like an unknown one.
            (
                _,
                Some(KnownWire {
                    wire: DetectedTransport::Http,
                    era: Era::Legacy,
                }),
            ) if self.protocol == Protocol::Auto => WireAttempt {
                known_era: Some(Era::Legacy),
                remembered: true,
                ..self.probe()
            },
            _ => self.probe(),
        }
    }

    /// What to try after `fault`. Terminates, because each attempt assumes less or uses an older
    /// transport than the previous one.
    pub(super) fn after(self, step: WireAttempt, fault: &OpenFault) -> Option<WireAttempt> {
        match fault {
            // Other transports at the same address would fail in the same way.
            OpenFault::NeedsLogin(_)
            | OpenFault::ProtocolViolation(_)
            | OpenFault::Transport(TransportFault::NotSent(_)) => None,
            _ if step.remembered => Some(self.probe()),
            // Without the probe, the server's refusal states its reason.
            OpenFault::RefusedAfterProbe if step.protocol == Protocol::Auto => Some(WireAttempt {
                protocol: Protocol::Legacy,
                ..step
            }),
            OpenFault::WrongTransport(_)
                if step.wire == DetectedTransport::Http
                    && self.wire == HttpTransportKind::Auto
                    && self.protocol != Protocol::Modern =>
            {
                Some(SSE)
            }
            // The response was not an event stream. A server error (5xx) does not show where the
            // stream is.
            OpenFault::WrongTransport(_)
            | OpenFault::Transport(TransportFault::Status { status: ..500, .. })
                if step.wire == DetectedTransport::Sse
                    && self.sse_path_fallback
                    && !step.at_sse_path =>
            {
                Some(WireAttempt {
                    at_sse_path: true,
                    ..SSE
                })
            }
            _ => None,
        }
    }

    /// The first attempt when nothing is remembered.
    fn probe(self) -> WireAttempt {
        match self.wire {
            HttpTransportKind::Sse => SSE,
            HttpTransportKind::Auto | HttpTransportKind::Streamable => WireAttempt {
                wire: DetectedTransport::Http,
                protocol: self.protocol,
                known_era: None,
                at_sse_path: false,
                remembered: false,
            },
        }
    }
}

/// HTTP+SSE has the legacy era only.
const SSE: WireAttempt = WireAttempt {
    wire: DetectedTransport::Sse,
    protocol: Protocol::Legacy,
    known_era: None,
    at_sse_path: false,
    remembered: false,
};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::auth::NeedsLogin;

    /// Every fault that an attempt can meet.
    fn faults() -> Vec<(&'static str, OpenFault)> {
        let status = |status| TransportFault::Status {
            status,
            detail: String::new(),
            retry_after: None,
            error: None,
        };
        vec![
            (
                "wrong wire",
                OpenFault::WrongTransport("HTTP 404".to_owned()),
            ),
            ("probed", OpenFault::RefusedAfterProbe),
            ("refused", OpenFault::Refused("no".to_owned())),
            ("ended", OpenFault::Channel("ended".to_owned())),
            (
                "lost",
                OpenFault::Transport(TransportFault::Lost("reset".to_owned())),
            ),
            ("500", OpenFault::Transport(status(500))),
            ("a page", OpenFault::Transport(status(200))),
            ("late", OpenFault::Timeout(Duration::from_secs(1))),
            (
                "unreachable",
                OpenFault::Transport(TransportFault::NotSent("refused".to_owned())),
            ),
            ("login", OpenFault::NeedsLogin(NeedsLogin::new("401"))),
            (
                "misconduct",
                OpenFault::ProtocolViolation("junk".to_owned()),
            ),
        ]
    }

    fn shown(step: WireAttempt) -> String {
        let WireAttempt {
            wire,
            protocol,
            known_era,
            at_sse_path,
            remembered,
        } = step;
        let known = known_era
            .map(|era| format!(" known {era:?}"))
            .unwrap_or_default();
        let at_sse_path = if at_sse_path { " at_sse_path" } else { "" };
        format!(
            "{wire:?} {protocol:?}{known}{at_sse_path}{}",
            if remembered { " remembered" } else { "" }
        )
    }

    /// Checks the whole sequence: for each attempt, every fault and what it leads to; then
    /// continues with the fault that led furthest.
    fn check(plan: WirePlan, known: Option<KnownWire>, expected: &[(&str, &[(&str, &str)])]) {
        let mut step = plan.first(known);
        for (index, (name, ways)) in expected.iter().enumerate() {
            assert_eq!(shown(step), *name, "step {index} of {plan:?}, {known:?}");
            let next: Vec<_> = faults()
                .iter()
                .filter_map(|(fault, open)| Some((*fault, plan.after(step, open)?)))
                .collect();
            let shown_next: Vec<_> = next
                .iter()
                .map(|(fault, step)| (*fault, shown(*step)))
                .collect();
            let wanted: Vec<_> = ways
                .iter()
                .map(|(fault, step)| (*fault, (*step).to_owned()))
                .collect();
            assert_eq!(shown_next, wanted, "after {name} of {plan:?}");
            if let Some((_, next)) = next.first() {
                step = *next;
            }
        }
    }

    #[test]
    fn f21_a_url_is_tried_by_the_specifications_rules() {
        use HttpTransportKind::{Auto, Sse, Streamable};
        let plan = |wire, protocol| WirePlan {
            wire,
            protocol,
            sse_path_fallback: false,
        };
        let probe = (
            "Http Auto",
            &[("wrong wire", "Sse Legacy"), ("probed", "Http Legacy")][..],
        );
        let again: &[(&str, &str)] = &[
            ("wrong wire", "Http Auto"),
            ("probed", "Http Auto"),
            ("refused", "Http Auto"),
            ("ended", "Http Auto"),
            ("lost", "Http Auto"),
            ("500", "Http Auto"),
            ("a page", "Http Auto"),
            ("late", "Http Auto"),
        ];
        let sse = Some(KnownWire {
            wire: DetectedTransport::Sse,
            era: Era::Legacy,
        });
        let legacy = Some(KnownWire {
            wire: DetectedTransport::Http,
            era: Era::Legacy,
        });
        let modern = Some(KnownWire {
            wire: DetectedTransport::Http,
            era: Era::Modern,
        });

        check(
            plan(Auto, Protocol::Auto),
            None,
            &[probe, ("Sse Legacy", &[])],
        );
        check(
            plan(Auto, Protocol::Auto),
            modern,
            &[probe, ("Sse Legacy", &[])],
        );
        check(
            plan(Auto, Protocol::Auto),
            legacy,
            &[
                ("Http Auto known Legacy remembered", again),
                probe,
                ("Sse Legacy", &[]),
            ],
        );
        check(
            plan(Auto, Protocol::Auto),
            sse,
            &[("Sse Legacy remembered", again), probe, ("Sse Legacy", &[])],
        );
        check(
            plan(Auto, Protocol::Legacy),
            None,
            &[
                ("Http Legacy", &[("wrong wire", "Sse Legacy")]),
                ("Sse Legacy", &[]),
            ],
        );
        check(plan(Auto, Protocol::Modern), sse, &[("Http Modern", &[])]);
        check(
            plan(Streamable, Protocol::Auto),
            sse,
            &[
                ("Http Auto", &[("probed", "Http Legacy")]),
                ("Http Legacy", &[]),
            ],
        );
        check(plan(Sse, Protocol::Auto), legacy, &[("Sse Legacy", &[])]);
    }
    /// S4-09: a response that is not an event stream leads to `/sse`, once; other faults do not.
    #[test]
    fn s4_09_a_base_url_is_tried_as_given_and_then_with_sse_appended() {
        let plan = |wire| WirePlan {
            wire,
            protocol: Protocol::Auto,
            sse_path_fallback: true,
        };
        let base = (
            "Sse Legacy",
            &[
                ("wrong wire", "Sse Legacy at_sse_path"),
                ("a page", "Sse Legacy at_sse_path"),
            ][..],
        );
        check(
            plan(HttpTransportKind::Sse),
            None,
            &[base, ("Sse Legacy at_sse_path", &[])],
        );
        let probe = (
            "Http Auto",
            &[("wrong wire", "Sse Legacy"), ("probed", "Http Legacy")][..],
        );
        check(
            plan(HttpTransportKind::Auto),
            None,
            &[probe, base, ("Sse Legacy at_sse_path", &[])],
        );
    }
}
