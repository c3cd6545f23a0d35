//! What a server says unasked: progress, logs, changes; each to the request that it belongs to, or
//! to whoever listens.

use std::sync::Arc;

use serde::Deserialize;

use super::Era;
use super::ongoing::Ongoing;
use super::receiver::Receiver;
use super::wishes::Acknowledged;
use crate::event::{Event, LogLevel};
use crate::store::LogStream;
use crate::transport::Origin;
use crate::wire::RawJson;

impl Receiver {
    /// A notification came.
    pub(super) fn notified(&self, method: &str, params: Option<&RawJson>, origin: Origin) {
        match method {
            "notifications/progress" => self.progress(params, origin),
            "notifications/message" => self.log(params, origin),
            "notifications/subscriptions/acknowledged" => self.acknowledged(params, origin),
            "notifications/elicitation/complete" => {
                if let Some(Completed { elicitation_id }) =
                    params.and_then(|params| params.decode().ok())
                {
                    self.visits.done(&self.options.server, &elicitation_id);
                }
            }
            "notifications/tasks" | "notifications/tasks/status" => self.task_changed(params),
            "notifications/cancelled" => {
                if let Some(Cancelled { request_id }) =
                    params.and_then(|params| params.decode().ok())
                {
                    self.questions.withdraw(request_id);
                }
            }
            _ if !self.is_subscribed(params, origin) => {}
            "notifications/tools/list_changed" => self.lists_changed(&["tools/list"]),
            "notifications/prompts/list_changed" => self.lists_changed(&["prompts/list"]),
            "notifications/resources/list_changed" => {
                self.lists_changed(&["resources/list", "resources/templates/list"])
            }
            "notifications/resources/updated" => self.updated(params),
            _ => {}
        }
    }

    fn progress(&self, params: Option<&RawJson>, origin: Origin) {
        let Some(progress) = params.and_then(|params| params.decode::<ProgressParams>().ok())
        else {
            return;
        };
        if let Some(ongoing) = self.ongoing(progress.progress_token) {
            // What comes with the answer to a call is of that call, whatever it says. A task's may
            // come with any of its requests.
            if let Origin::Answer(request) = origin
                && self
                    .ongoing(request)
                    .is_some_and(|other| !Arc::ptr_eq(&other, &ongoing))
            {
                return;
            }
            self.task_reached(progress.progress_token, progress.progress, progress.total);
            ongoing.progress(
                progress.progress,
                progress.total,
                progress
                    .message
                    .map(|words| self.options.redactor.words(&words)),
            );
        }
    }

    /// A modern server says which standing request it tells something under; one that is over tells
    /// nothing any more.
    fn is_subscribed(&self, params: Option<&RawJson>, origin: Origin) -> bool {
        self.era.get() != Some(&Era::Modern)
            || subscription(params, origin).is_none_or(|id| self.pending.waits_for(id))
    }

    fn acknowledged(&self, params: Option<&RawJson>, origin: Origin) {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            notifications: Acknowledged,
        }
        let Some(id) = subscription(params, origin).filter(|id| self.pending.waits_for(*id)) else {
            return;
        };
        if let Some(Wire { notifications }) = params.and_then(|params| params.decode().ok()) {
            self.told
                .acknowledge(id, notifications, |id| self.pending.waits_for(id));
        }
    }

    fn updated(&self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        struct Wire {
            uri: String,
        }
        let Some(Wire { uri }) = params.and_then(|params| params.decode().ok()) else {
            return;
        };
        self.options.cache.resource_changed(&uri);
        if let Some(events) = &self.options.events {
            // Nobody listening is fine: the event is for whoever wants it.
            let _ = events.send(Event::ResourceUpdated {
                server: self.options.server.clone(),
                uri: uri.into(),
            });
        }
    }

    /// The request that a log message belongs to; `true` where it is certain, and not only its
    /// caller is.
    fn logged_by(&self, origin: Origin) -> Option<(Arc<Ongoing>, bool)> {
        match origin {
            Origin::Answer(id) => self.ongoing(id).map(|ongoing| (ongoing, true)),
            // A modern server logs only for a request that wants it; a legacy one may log whenever
            // it likes.
            Origin::Shared if self.era.get() == Some(&Era::Modern) => {
                let wanted_of_all = self.options.wishes.level().is_some();
                let (mut wanting, _) = self.suspects();
                wanting
                    .retain(|(_, ongoing)| wanted_of_all || ongoing.caller.log_level().is_some());
                let (_, first) = wanting.first()?;
                let is_one_callers = wanting
                    .iter()
                    .all(|(_, other)| other.caller_id == first.caller_id);
                is_one_callers.then(|| (first.clone(), wanting.len() == 1))
            }
            Origin::Shared => None,
        }
    }

    fn log(&self, params: Option<&RawJson>, origin: Origin) {
        let Some(log) = params.and_then(|params| params.decode::<LogParams>().ok()) else {
            return;
        };
        let (text, redactor) = (
            log.data
                .as_str()
                .map_or_else(|| log.data.to_string(), str::to_owned),
            &self.options.redactor,
        );
        if let Some(file) = &self.options.log {
            file.write(LogStream::Message, &format!("{}: {text}", log.level));
        }
        if let Some((ongoing, is_certain)) = self.logged_by(origin) {
            let logger = log.logger.map(|logger| redactor.words(&logger));
            return ongoing.log(
                LogLevel::read(&log.level),
                logger,
                redactor.words(&text),
                is_certain,
            );
        }
        let Some(events) = &self.options.events else {
            return;
        };
        // Nobody listening is fine: the event is for whoever wants it.
        let level = redactor.words(&log.level).for_terminal_line().to_string();
        let _ = events.send(Event::Log {
            server: self.options.server.clone(),
            level,
            text: redactor.words(&text),
        });
    }
}

#[derive(Deserialize)]
struct Cancelled {
    #[serde(rename = "requestId")]
    request_id: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completed {
    elicitation_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams {
    progress_token: u64,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

/// The `subscriptions/listen` request that a notification belongs to: as it says itself, else the
/// one whose stream it came on.
fn subscription(params: Option<&RawJson>, origin: Origin) -> Option<u64> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        id: u64,
    }
    let said = params
        .and_then(|params| params.decode::<Wire>().ok())
        .map(|wire| wire.meta.id);
    said.or(match origin {
        Origin::Answer(id) => Some(id),
        Origin::Shared => None,
    })
}

#[derive(Deserialize)]
struct LogParams {
    #[serde(default)]
    level: String,
    #[serde(default)]
    logger: Option<String>,
    #[serde(default)]
    data: serde_json::Value,
}
