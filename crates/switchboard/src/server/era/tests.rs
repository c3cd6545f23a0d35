//! Tests of the evidence that decides a server's era.

#![allow(clippy::unwrap_used)]

use super::SwitchBackReason::{Mixed, NeitherWorks};
use super::*;

const LEGACY: EraEvidence = EraEvidence::NeedsLegacy {
    only_sampling: false,
};
const SAMPLING: EraEvidence = EraEvidence::NeedsLegacy {
    only_sampling: true,
};

fn error(code: i64, message: &str) -> Result<RawJson, RequestFault> {
    Err(RequestFault::ErrorResponse {
        code,
        message: message.to_owned(),
        data: None,
    })
}

fn result(text: &str) -> Result<RawJson, RequestFault> {
    Ok(RawJson::parse(text.to_owned()).unwrap())
}

/// Texts as recorded from the servers.
#[test]
fn a_refusal_is_evidence_only_in_errors_and_error_results() {
    let no_way_back = "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.";
    let guard = "Tool 'newer' returned an InputRequiredResult to request client input, but the multi-round-trip result type \
                     (SEP-2322) only exists at MCP 2026-07-28; this connection negotiated '2025-11-25'.";
    let unavailable =
        "elicitation via server-initiated requests is unavailable on 2026-07-28 connections.";
    let said = |is_error: bool| {
        result(&format!(
            r#"{{"content":[{{"type":"text","text":"{unavailable}"}}],"isError":{is_error}}}"#
        ))
    };
    let cases = [
        (error(-32600, no_way_back), Some(LEGACY)),
        (
            error(
                -32600,
                "Cannot send 'sampling/createMessage': this transport context has no back-channel",
            ),
            Some(SAMPLING),
        ),
        (error(-32600, "Cannot send 'roots/list': …"), Some(LEGACY)),
        (
            error(
                -32603,
                "Server-to-client requests are not available on protocol revision 2026-07-28",
            ),
            Some(LEGACY),
        ),
        (
            error(
                -32603,
                "server-to-client requests are not allowed on protocol 2026-07-28 or later; return …",
            ),
            Some(LEGACY),
        ),
        (said(true), Some(LEGACY)),
        (said(false), None),
        (result(r#"{"content":[],"isError":true}"#), None),
        (
            result(
                r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}],"isError":true}"#,
            ),
            None,
        ),
        (error(-32602, guard), Some(EraEvidence::NeedsModern)),
        (
            error(
                -32600,
                "InputRequiredResult requires negotiated protocol version 2026-07-28 or newer",
            ),
            Some(EraEvidence::NeedsModern),
        ),
        (
            error(-32603, "Handler returned an invalid result"),
            Some(EraEvidence::NeedsModern),
        ),
        (error(-32000, "Handler returned an invalid result"), None),
        (error(-32600, "Invalid request"), None),
        (Err(RequestFault::Closed(no_way_back.to_owned())), None),
    ];
    for (answer, expected) in cases {
        assert_eq!(
            EraEvidence::in_response(answer.as_ref()),
            expected,
            "{answer:?}"
        );
    }
}

#[test]
fn a_launch_is_switched_once_and_back_once() {
    let now = UNIX_EPOCH + Duration::from_secs(9);
    let legacy = |confirmed| EraVerdict::Legacy {
        since: 9,
        confirmed,
    };
    let modern = |why| EraVerdict::Modern { since: 9, why };
    let table = [
        (
            Era::Modern,
            None,
            LEGACY,
            EraDecision::Switch(legacy(false)),
        ),
        (
            Era::Modern,
            Some(modern(Mixed)),
            LEGACY,
            EraDecision::Stay(Mixed),
        ),
        (
            Era::Modern,
            Some(modern(NeitherWorks)),
            LEGACY,
            EraDecision::Stay(NeitherWorks),
        ),
        (
            Era::Modern,
            None,
            EraEvidence::NeedsModern,
            EraDecision::Ignore,
        ),
        (Era::Legacy, None, LEGACY, EraDecision::Ignore),
        (
            Era::Legacy,
            None,
            EraEvidence::NeedsModern,
            EraDecision::Switch(modern(Mixed)),
        ),
        (
            Era::Legacy,
            Some(legacy(false)),
            LEGACY,
            EraDecision::Switch(modern(NeitherWorks)),
        ),
        (
            Era::Legacy,
            Some(legacy(true)),
            LEGACY,
            EraDecision::Switch(modern(NeitherWorks)),
        ),
        (
            Era::Legacy,
            Some(legacy(false)),
            EraEvidence::NeedsModern,
            EraDecision::Switch(modern(Mixed)),
        ),
        (
            Era::Legacy,
            Some(legacy(true)),
            EraEvidence::NeedsModern,
            EraDecision::Stay(Mixed),
        ),
        (
            Era::Legacy,
            Some(modern(Mixed)),
            EraEvidence::NeedsModern,
            EraDecision::Ignore,
        ),
    ];
    for (era, verdict, evidence, expected) in table {
        assert_eq!(
            decide(era, verdict, evidence, now),
            expected,
            "{era:?}, {verdict:?}, {evidence:?}"
        );
    }
}

#[test]
fn only_a_confirmed_switch_is_remembered_for_good() {
    let day = |days: u64| UNIX_EPOCH + Duration::from_secs(days * 24 * 3600);
    let table = [
        (
            EraVerdict::Legacy {
                since: 0,
                confirmed: true,
            },
            3650,
            false,
        ),
        (
            EraVerdict::Legacy {
                since: 0,
                confirmed: false,
            },
            6,
            false,
        ),
        (
            EraVerdict::Legacy {
                since: 0,
                confirmed: false,
            },
            8,
            true,
        ),
        (
            EraVerdict::Modern {
                since: 0,
                why: Mixed,
            },
            29,
            false,
        ),
        (
            EraVerdict::Modern {
                since: 0,
                why: NeitherWorks,
            },
            31,
            true,
        ),
    ];
    for (verdict, days, expired) in table {
        assert_eq!(
            verdict.is_expired(day(days)),
            expired,
            "{verdict:?} after {days} days"
        );
    }
}

/// Profiles of earlier versions are read.
#[test]
fn a_verdict_is_stored_as_it_always_was() {
    let check = |why, text: &str| {
        let verdict = EraVerdict::Modern { since: 9, why };
        assert_eq!(serde_json::to_string(&verdict).unwrap(), text);
        assert_eq!(serde_json::from_str::<EraVerdict>(text).unwrap(), verdict);
    };
    check(Mixed, r#"{"era":"modern","since":9,"both":true}"#);
    check(NeitherWorks, r#"{"era":"modern","since":9,"both":false}"#);
}
