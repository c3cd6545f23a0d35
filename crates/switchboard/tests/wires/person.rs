//! Somebody who calls, is asked, and hears of progress; remembers all of it.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard::caller::{
    Approval, ApprovalRequest, BoxFuture, Caller, CallerId, ElicitAnswer, Elicitation,
    ElicitationKind, Offers, Progress, Root, SampleAnswer, Sampling,
};
use switchboard::wire::RawJson;
use tokio::sync::watch;

pub(crate) struct Person {
    id: CallerId,
    heard: watch::Sender<Heard>,
}

/// What reached them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Heard {
    /// The words of forms.
    pub(crate) questions: Vec<String>,
    /// The params of samplings.
    pub(crate) samplings: Vec<String>,
    pub(crate) progress: Vec<f64>,
}

impl Person {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            id: CallerId::new(name),
            heard: watch::Sender::default(),
        })
    }

    pub(crate) fn offers() -> Offers {
        Offers {
            elicit_form: true,
            elicit_url: true,
            sampling: true,
            ..Offers::default()
        }
    }

    pub(crate) fn heard(&self) -> Heard {
        self.heard.borrow().clone()
    }

    pub(crate) async fn until(&self, condition: impl FnMut(&Heard) -> bool) {
        self.heard.subscribe().wait_for(condition).await.unwrap();
    }
}

impl Caller for Person {
    fn id(&self) -> CallerId {
        self.id.clone()
    }

    fn offers(&self) -> Offers {
        Self::offers()
    }

    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Once })
    }

    /// Fills in the name `Ada` and `yes`, whatever the form has besides.
    fn elicit<'a>(&'a self, question: &'a Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        let (ElicitationKind::Form { message, .. } | ElicitationKind::Url { message, .. }) =
            &question.kind;
        self.heard
            .send_modify(|heard| heard.questions.push(message.raw().to_owned()));
        let Value::Object(content) = json!({"name": "Ada", "yes": true}) else {
            unreachable!("it is one")
        };
        Box::pin(async move { ElicitAnswer::Accept(content) })
    }

    fn sample<'a>(&'a self, request: &'a Sampling) -> BoxFuture<'a, SampleAnswer> {
        self.heard
            .send_modify(|heard| heard.samplings.push(request.params.as_str().to_owned()));
        let content = json!({"type": "text", "text": "fine"});
        let answer = RawJson::from_value(
            &json!({"role": "assistant", "model": "parrot", "content": content}),
        );
        Box::pin(async move { SampleAnswer::Answer(answer) })
    }

    fn roots(&self) -> Option<Vec<Root>> {
        Some(vec![Root {
            uri: "file:///work".to_owned(),
            name: None,
        }])
    }

    fn progress(&self, progress: &Progress) {
        self.heard
            .send_modify(|heard| heard.progress.push(progress.progress));
    }
}
