//! Errors that vendors answer with, read into faults.

use std::time::Duration;

use serde_json::Value;

use super::{FaultKind, ModelFault, plain_line};
use crate::refusal::ToolRefusal;

/// How vendors say that a conversation is too long for the model.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "exceed_context_size",
    "exceed context limit",
    "available context size",
    "context length",
    "maximum number of tokens",
    "maximum prompt length",
    "input token count",
    "too many tokens in the prompt",
    "reduce the length of the messages",
    "request_too_large",
];

/// How they say that money or a quota of days is used up.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "enforced_spend_limit_reached",
    "credit balance",
    "billing_hard_limit",
    "perday",
];

/// What local servers answer with status 500 although the request is at fault.
const LOCAL_REQUEST_FAULTS: &[&str] = &[
    "--jinja",
    "mmproj",
    "grammar",
    "json schema",
    "generate parser",
    "response_format",
    "failed to parse tool call arguments as json",
];

/// Reads the body of an answer with an error status.
pub fn read_error(status: u16, body: &str) -> ModelFault {
    let error = ErrorBody::read(body);
    let mut fault = ModelFault::new(classify(Some(status), &error), error.sentence(status));
    fault.details.status = Some(status);
    error.complete(fault)
}

/// Reads an error that came inside a stream which began well.
pub(crate) fn read_stream_error(data: &str) -> ModelFault {
    let error = ErrorBody::read(data);
    let status = error.code.parse().ok();
    let status = status.filter(|status| (400..600).contains(status));
    let fault = ModelFault::new(classify(status, &error), error.sentence(0));
    error.complete(fault)
}

/// What vendors' error bodies have in common.
#[derive(Debug, Default)]
struct ErrorBody {
    message: String,
    /// `type`, `code` and `status`, as far as they are there.
    words: Vec<String>,
    code: String,
    param: Option<String>,
    request_id: Option<String>,
    /// `details` and `metadata`: Gemini's delay and quota, Anthropic's spend limit.
    details: Value,
    limit: Option<u64>,
}

impl ErrorBody {
    fn read(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            let message = page_title(body).unwrap_or(body).to_owned();
            return Self {
                message,
                ..Self::default()
            };
        };
        // Gemini wraps the error in a list when the answer would have been a stream.
        let value = match &value {
            Value::Array(list) => list.first().cloned().unwrap_or_default(),
            _ => value,
        };
        // Responses: {"type":"response.failed","response":{"error":{…}}}.
        let outer = value.get("response").unwrap_or(&value);
        let error = outer.get("error").filter(|error| !error.is_null());
        let error = error.unwrap_or(outer);
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = match error {
            Value::String(message) => message.clone(),
            _ => [
                error.get("message"),
                error.get("detail"),
                outer.get("message"),
            ]
            .into_iter()
            .map(text)
            .find(|message| !message.is_empty())
            .unwrap_or_else(|| error.to_string()),
        };
        let words = ["type", "code", "status"].map(|key| text(error.get(key)));
        let code = text(error.get("code"));
        let metadata = error.get("metadata").or(error.get("details"));
        Self {
            message,
            words: words.into_iter().filter(|word| !word.is_empty()).collect(),
            code,
            param: error
                .get("param")
                .and_then(Value::as_str)
                .map(str::to_owned),
            request_id: value
                .get("request_id")
                .and_then(Value::as_str)
                .map(str::to_owned),
            details: metadata.cloned().unwrap_or_default(),
            limit: error.get("n_ctx").and_then(Value::as_u64),
        }
    }

    fn sentence(&self, status: u16) -> &str {
        match (self.message.trim(), status) {
            ("", 0) => "the vendor reported an error without a message",
            ("", _) => "no message",
            (message, _) => message,
        }
    }

    fn complete(self, mut fault: ModelFault) -> ModelFault {
        fault.details.retry_after =
            retry_delay(&self.details).or_else(|| delay_in_text(&self.message));
        fault.details.refusal = ToolRefusal::read(
            &self.message,
            self.param.as_deref(),
            &self.details.to_string(),
        );
        fault.details.request_id = self.request_id.map(|id| plain_line(&id));
        if let FaultKind::ContextOverflow { limit } = &mut fault.kind {
            *limit = self.limit;
        }
        let word = self
            .words
            .into_iter()
            .find(|word| word.parse::<u16>().is_err());
        fault.details.code = word.map(|word| plain_line(&word));
        fault
    }
}

fn classify(status: Option<u16>, error: &ErrorBody) -> FaultKind {
    let all = format!(
        "{} {} {}",
        error.message,
        error.words.join(" "),
        error.details
    )
    .to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| all.contains(phrase));
    if has(QUOTA) {
        return FaultKind::QuotaExceeded;
    }
    if status != Some(429) && has(OVERFLOW) {
        return FaultKind::ContextOverflow { limit: None };
    }
    if has(&["api_key_invalid", "authentication_error", "invalid_api_key"]) {
        return FaultKind::Authentication;
    }
    if has(&["model_not_found", "not a valid model", "not_found_error"]) {
        return FaultKind::UnknownModel;
    }
    match status {
        Some(401 | 403) => FaultKind::Authentication,
        Some(402) => FaultKind::QuotaExceeded,
        Some(404) => FaultKind::UnknownModel,
        Some(429) => FaultKind::RateLimited,
        Some(500) if has(LOCAL_REQUEST_FAULTS) => FaultKind::InvalidRequest,
        Some(408 | 409 | 500..=599) => FaultKind::Overloaded,
        Some(_) => FaultKind::InvalidRequest,
        None if has(&["rate_limit", "resource_exhausted"]) => FaultKind::RateLimited,
        None if has(&["invalid_request", "invalid_argument", "invalid_prompt"]) => {
            FaultKind::InvalidRequest
        }
        None => FaultKind::Overloaded,
    }
}

/// Gemini's `RetryInfo`.
fn retry_delay(details: &Value) -> Option<Duration> {
    let details = details.as_array()?.iter();
    let mut delays = details.filter_map(|detail| detail.get("retryDelay")?.as_str());
    let seconds: f64 = delays.next()?.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// "Please try again in 1.2s", "in 20ms", "in 1m30s", "in 6 seconds".
fn delay_in_text(message: &str) -> Option<Duration> {
    let lower = message.to_lowercase();
    let start = lower.find("try again in ")? + "try again in ".len();
    let mut rest = &lower[start..];
    let mut total = Duration::ZERO;
    let mut is_found = false;
    loop {
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let Ok(number) = rest[..end].parse::<f64>() else {
            break;
        };
        let unit = rest[end..].trim_start();
        let (seconds, unit_length) = match unit {
            _ if unit.starts_with("ms") => (number / 1000.0, 2),
            _ if unit.starts_with('s') => (number, 1),
            _ if unit.starts_with('m') => (number * 60.0, 1),
            _ if unit.starts_with('h') => (number * 3600.0, 1),
            _ => break,
        };
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        is_found = true;
        rest = &unit[unit_length..];
    }
    is_found.then_some(total)
}

/// Of a page in HTML only the title is shown.
fn page_title(body: &str) -> Option<&str> {
    let is_page = body.trim_start().starts_with('<');
    let start = body.find("<title>").map(|at| at + "<title>".len());
    match (is_page, start) {
        (true, Some(start)) => {
            let title = &body[start..];
            Some(&title[..title.find('<').unwrap_or(title.len())])
        }
        (true, None) => Some("an HTML page"),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests;
