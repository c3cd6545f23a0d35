//! The caller of `run`, which cannot ask a person: a call that needs approval is denied, and a notice
//! names the rule that would allow it.

use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerCapabilities, CallerId, ElicitAnswer,
    Elicitation,
};

use crate::view::server::escaped;
use crate::{hints, output};

/// The caller of a run without a person.
#[derive(Debug)]
pub(super) struct RunCaller;

impl Caller for RunCaller {
    fn id(&self) -> &CallerId {
        static ID: CallerId = CallerId::from_static("run");
        &ID
    }

    /// Offered as by other commands without a terminal: each question is declined, with a notice.
    fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities {
            elicit_form: true,
            elicit_url: true,
            ..CallerCapabilities::default()
        }
    }

    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        let (server, tool) = (&request.id.server, request.id.tool.as_wire());
        let because = &request.because;
        let advice = match request.once_only {
            true => format!("approval needed each time ({because}), and `run` cannot ask"),
            false => {
                let rule = match server.is_host() {
                    true => hints::quoted(tool),
                    false => hints::quoted(&format!("{server}/{tool}")),
                };
                format!("approval needed, and `run` cannot ask; allow it with `--allow {rule}`")
            }
        };
        let advice = escaped(&advice);
        let whose = match server.is_host() {
            true => "built-in".to_owned(),
            false => format!("server \"{server}\","),
        };
        let tool = escaped(tool);
        output::notice(&format!("{whose} tool {tool}: denied: {advice}"));
        Box::pin(async { Approval::no(advice) })
    }

    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        output::log(format!(
            "server \"{}\" asked a question: declined, because `run` cannot ask",
            question.server
        ));
        Box::pin(async { ElicitAnswer::Decline })
    }

    fn notice(&self, line: &str) {
        output::notice(line);
    }
}
