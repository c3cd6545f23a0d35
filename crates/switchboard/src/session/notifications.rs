//! Notifications of the server: progress, logs, changes. Each goes to the call that it belongs to,
//! or to the host's events.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::in_flight::InFlightCall;
use super::receiver::Receiver;
use super::subscriptions::ListenAcknowledgement;
use crate::event::{Event, LogLevel, is_update_for};
use crate::secret::Redactor;
use crate::store::LogStream;
use crate::transport::MessageOrigin;
use crate::wire::{RawJson, RequestId, string_text};

impl Receiver {
    /// Dispatches a notification.
    pub(super) fn notification(
        &self,
        method: &str,
        params: Option<&RawJson>,
        origin: MessageOrigin,
    ) {
        match method {
            "notifications/progress" => self.progress(params, origin),
            "notifications/message" => self.log(params, origin),
            "notifications/subscriptions/acknowledged" => self.acknowledged(params, origin),
            "notifications/elicitation/complete" => self.elicitation_complete(params),
            "notifications/tasks" | "notifications/tasks/status" => self.task_changed(params),
            "notifications/cancelled" => {
                if let Some(CancelledParams { request_id }) =
                    params.and_then(|params| params.decode().ok())
                {
                    let id = RequestId::read(request_id.get());
                    self.era().cancelled(self, id);
                }
            }
            _ if !self.era().is_subscribed(self, params, origin) => {}
            "notifications/tools/list_changed" => self.lists_changed(&["tools/list"]),
            "notifications/prompts/list_changed" => self.lists_changed(&["prompts/list"]),
            "notifications/resources/list_changed" => {
                self.lists_changed(&["resources/list", "resources/templates/list"])
            }
            "notifications/resources/updated" => self.updated(params),
            _ => {}
        }
    }

    fn elicitation_complete(&self, params: Option<&RawJson>) {
        let Some((params, ElicitationCompleteParams { elicitation_id })) =
            params.and_then(|params| Some((params, params.decode().ok()?)))
        else {
            return;
        };
        let visits = &self.url_elicitations;
        if !visits.contains(&elicitation_id) {
            return;
        }
        let (server, params) = (
            &self.options.server,
            redacted(params, &self.options.redactor),
        );
        for caller in visits.complete(server, &elicitation_id, &params) {
            if let Some(events) = &self.options.events {
                // There may be no listener.
                let _ = events.send(Event::ElicitationComplete {
                    server: server.clone(),
                    caller,
                    params: params.clone(),
                });
            }
        }
    }

    fn progress(&self, params: Option<&RawJson>, origin: MessageOrigin) {
        let Some(progress) = params.and_then(|params| params.decode::<ProgressParams>().ok())
        else {
            return;
        };
        if let Some(call) = self.call(progress.progress_token) {
            // Progress on the stream of one call's response cannot belong to another call. A task's
            // may come with any of its requests.
            if let MessageOrigin::Response(request) = origin
                && self
                    .call(request)
                    .is_some_and(|other| !Arc::ptr_eq(&other, &call))
            {
                return;
            }
            self.record_task_progress(progress.progress_token, progress.progress, progress.total);
            call.progress(
                progress.progress,
                progress.total,
                progress
                    .message
                    .map(|words| self.options.redactor.words(&words)),
                params
                    .map(|params| redacted(params, &self.options.redactor))
                    .as_ref(),
            );
        }
    }

    fn acknowledged(&self, params: Option<&RawJson>, origin: MessageOrigin) {
        #[derive(Deserialize)]
        struct AcknowledgedParams {
            #[serde(default)]
            notifications: ListenAcknowledgement,
        }
        let Some(id) = subscription(params, origin).filter(|id| self.pending.contains(*id)) else {
            return;
        };
        if let Some(AcknowledgedParams { notifications }) =
            params.and_then(|params| params.decode().ok())
        {
            self.subscription_status
                .acknowledge(id, notifications, |id| self.pending.contains(id));
        }
    }

    fn updated(&self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        struct ResourceUpdatedParams {
            uri: String,
        }
        let Some(ResourceUpdatedParams { uri }) = params.and_then(|params| params.decode().ok())
        else {
            return;
        };
        self.options.cache.resource_changed(&uri);
        if let Some(events) = &self.options.events
            && self.is_resource_subscribed(&uri)
            && self.update_events.allows()
        {
            // There may be no listener.
            let _ = events.send(Event::ResourceUpdated {
                server: self.options.server.clone(),
                uri: uri.into(),
            });
        }
    }

    /// Whether this resource is subscribed to, or one that it is a part of.
    fn is_resource_subscribed(&self, uri: &str) -> bool {
        let desired = self.options.subscriptions.follow();
        let resources = &desired.borrow().resources;
        resources.iter().any(|known| is_update_for(known, uri))
    }

    /// The call that a log message belongs to; `true` if the call is certain, not only its caller.
    fn call_that_logs(&self, origin: MessageOrigin) -> Option<(Arc<InFlightCall>, bool)> {
        match origin {
            MessageOrigin::Response(id) => self.call(id).map(|call| (call, true)),
            MessageOrigin::Shared => self.era().call_that_logs(self),
        }
    }

    /// Writes a log message to the server's log file, and passes it to its call, or to the readers of
    /// events.
    fn log(&self, params: Option<&RawJson>, origin: MessageOrigin) {
        let call = self.call_that_logs(origin);
        let events = self
            .options
            .events
            .as_ref()
            .filter(|_| call.is_none() && self.log_events.allows());
        let file = &self.options.log;
        let file = file.as_ref().filter(|file| file.has_room_for_message());
        // Of a flood most messages end here.
        if call.is_none() && events.is_none() && file.is_none() {
            return;
        }
        let Some((log, params)) =
            params.and_then(|params| Some((params.decode::<LogParams<'_>>().ok()?, params)))
        else {
            return;
        };
        let redactor = &self.options.redactor;
        let text = match log.data {
            None => Cow::Borrowed("null"),
            Some(data) => string_text(data.get())
                // Redacted as JSON: escapes may hide a secret.
                .unwrap_or_else(|| {
                    redacted(&params.part(data), redactor)
                        .as_str()
                        .to_owned()
                        .into()
                }),
        };
        if let Some(file) = file {
            file.write(LogStream::Message, &format!("{}: {text}", log.level));
        }
        if let Some((call, is_certain)) = call {
            let logger = log.logger.map(|logger| redactor.words(&logger));
            return call.log(
                LogLevel::read(&log.level),
                logger,
                redactor.words(&text),
                &redacted(params, redactor),
                is_certain,
            );
        }
        let Some(events) = events else {
            return;
        };
        // There may be no listener.
        let level = redactor.words(&log.level).for_terminal_line().to_string();
        let _ = events.send(Event::Log {
            server: self.options.server.clone(),
            level,
            text: redactor.words(&text),
            params: redacted(params, redactor),
            callers: self.pending.callers(),
        });
    }
}

/// The longest params that are parsed to redact them: a value of a few bytes takes many times as much
/// memory once it is parsed.
const MAX_PARSED_BYTES: usize = 1024 * 1024;

/// Redacts the entry's secrets; returns the same bytes if there are none.
fn redacted(params: &RawJson, redactor: &Redactor) -> RawJson {
    fn replace(value: &mut Value, redactor: &Redactor) -> bool {
        match value {
            Value::String(text) => {
                let words = redactor.words(text);
                let differs = words.raw() != *text;
                if differs {
                    *text = words.raw().to_owned();
                }
                differs
            }
            Value::Array(items) => {
                let replaced = items.iter_mut().map(|item| replace(item, redactor));
                replaced.fold(false, |any, one| any | one)
            }
            Value::Object(members) => {
                let replaced = members.values_mut().map(|member| replace(member, redactor));
                let any = replaced.fold(false, |any, one| any | one);
                if !members.keys().any(|key| redactor.redact(key) != *key) {
                    return any;
                }
                let clean = |(key, value): (String, Value)| (redactor.redact(&key).into(), value);
                *members = std::mem::take(members).into_iter().map(clean).collect();
                true
            }
            _ => false,
        }
    }
    let text = params.as_str();
    let is_clean = redactor.redact(text) == text;
    // Without escapes the text is what the strings are.
    if is_clean && memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return params.clone();
    }
    if text.len() > MAX_PARSED_BYTES {
        return RawJson::from_value(&json!({}));
    }
    let Ok(mut value) = params.to_value() else {
        // Nested too deep to be changed.
        return match is_clean {
            true => params.clone(),
            false => RawJson::from_value(&json!({})),
        };
    };
    match replace(&mut value, redactor) {
        true => RawJson::from_value(&value),
        false => params.clone(),
    }
}

#[derive(Deserialize)]
struct CancelledParams<'a> {
    /// As the server wrote it, so that it equals the id of its question.
    #[serde(borrow, rename = "requestId")]
    request_id: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitationCompleteParams {
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

/// The `subscriptions/listen` request that a notification belongs to: the one it names, or the one
/// whose stream it came on.
pub(super) fn subscription(params: Option<&RawJson>, origin: MessageOrigin) -> Option<u64> {
    #[derive(Deserialize)]
    struct SubscribedParams {
        #[serde(rename = "_meta")]
        meta: SubscribedMeta,
    }
    #[derive(Deserialize)]
    struct SubscribedMeta {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        id: u64,
    }
    let named = params
        .and_then(|params| params.decode::<SubscribedParams>().ok())
        .map(|params| params.meta.id);
    named.or(match origin {
        MessageOrigin::Response(id) => Some(id),
        MessageOrigin::Shared => None,
    })
}

#[derive(Deserialize)]
struct LogParams<'a> {
    #[serde(default)]
    level: String,
    #[serde(default)]
    logger: Option<String>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn t25_params_have_no_secret_in_keys_or_values_at_any_depth() {
        let redactor = Redactor::new([Secret::new("hunter22")]);
        let check = |text: &str, expected: &str| {
            let params: RawJson = text.parse().unwrap();
            assert_eq!(redacted(&params, &redactor).as_str(), expected, "{text}");
        };
        check(r#"{ "a": [1e2] }"#, r#"{ "a": [1e2] }"#);
        let mask = redactor.redact("hunter22").into_owned();
        check(r#"{"a":["hunter22"]}"#, &format!(r#"{{"a":["{mask}"]}}"#));
        check(
            r#"{"a":{"hunter22":1}}"#,
            &format!(r#"{{"a":{{"{mask}":1}}}}"#),
        );
        let deep =
            |inner: &str| format!(r#"{{"a":{}{inner}{}}}"#, "[".repeat(200), "]".repeat(200));
        check(&deep("1"), &deep("1"));
        check(&deep(r#""hunter22""#), "{}");
        let escaped = r#"{"a":"\u0068unter22"}"#;
        check(escaped, &format!(r#"{{"a":"{mask}"}}"#));
    }

    #[test]
    fn p3_long_params_are_not_parsed_to_redact_them() {
        let redactor = Redactor::new([Secret::new("hunter22")]);
        let long = |first: &str| format!(r#"["{first}"{}]"#, ",[]".repeat(MAX_PARSED_BYTES / 3));
        let check = |first: &str, is_kept: bool| {
            let params: RawJson = long(first).parse().unwrap();
            let redacted = redacted(&params, &redactor);
            assert_eq!(redacted == params, is_kept, "{first}");
            assert_eq!(redacted.as_str() == "{}", !is_kept, "{first}");
        };
        check("plain", true);
        check("hunter22", false);
        check(r"\u0068unter22", false);
    }
}
