//! W3C trace context: read from a client's `_meta` or HTTP headers, written into the `_meta` that a
//! server gets.

use hyper::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde_json::Value;
use switchboard::RawJson;
use switchboard::caller::ForwardedParams;

use crate::params::RequestMeta;

const TRACE_PARENT: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

/// A longer `tracestate` is ignored: it comes from outside, and goes with every span.
const MAX_TRACE_STATE: usize = 4096;

/// The span of the client that a request belongs to; without one, or with one that is not valid, a
/// context that begins a new trace.
pub(super) fn parent(meta: &RequestMeta) -> Context {
    extract(meta.text(TRACE_PARENT), || meta.text(TRACE_STATE))
}

/// The span that the headers of a request name.
pub(super) fn of_headers(headers: &HeaderMap) -> Option<SpanContext> {
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let context = extract(header(TRACE_PARENT), || header(TRACE_STATE));
    let named = context.span().span_context().clone();
    named.is_valid().then_some(named)
}

/// The same params with our span as the parent. Everything else, baggage too, stays as it came.
pub(super) fn with_parent(forwarded: &ForwardedParams, span: &SpanContext) -> ForwardedParams {
    let mut forwarded = forwarded.clone();
    forwarded
        .meta
        .retain(|(key, _)| key != TRACE_PARENT && key != TRACE_STATE);
    let mut add = |key: &'static str, text: String| {
        let text = RawJson::from(Value::from(text));
        forwarded.meta.push((key.into(), text));
    };
    let flags = span.trace_flags() & TraceFlags::SAMPLED;
    let (trace, id) = (span.trace_id(), span.span_id());
    add(TRACE_PARENT, format!("00-{trace}-{id}-{flags:02x}"));
    let state = span.trace_state().header();
    if !state.is_empty() {
        add(TRACE_STATE, state);
    }
    forwarded
}

fn extract(parent: Option<String>, state: impl FnOnce() -> Option<String>) -> Context {
    // The SDK takes shorter ids too.
    let has_whole_ids = |text: &String| {
        let lengths = text.split('-').map(str::len);
        lengths.take(4).eq([2, 32, 16, 2])
    };
    let Some(parent) = parent.filter(has_whole_ids) else {
        return Context::new();
    };
    let carrier = TraceTexts {
        parent,
        state: state().filter(|state| state.len() <= MAX_TRACE_STATE),
    };
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
}

struct TraceTexts {
    parent: String,
    state: Option<String>,
}

impl Extractor for TraceTexts {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACE_PARENT => Some(&self.parent),
            TRACE_STATE => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACE_PARENT, TRACE_STATE]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::params::RequestParams;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn forwarded(meta: &str) -> (Context, ForwardedParams) {
        let params: RawJson = format!(r#"{{"_meta":{meta}}}"#).parse().unwrap();
        let read = RequestParams::read(Some(&params)).unwrap();
        (parent(read.meta()), read.forwarded(&[]))
    }

    #[test]
    fn what_is_not_a_trace_context_begins_a_new_trace() {
        let check = |meta: &str, expected: bool, state: &str| {
            let (context, _) = forwarded(meta);
            let span = context.span().span_context().clone();
            assert_eq!(span.is_valid(), expected, "{meta}");
            assert_eq!(span.trace_state().header(), state, "{meta}");
        };
        let long = "x".repeat(MAX_TRACE_STATE);
        check("{}", false, "");
        check(r#"{"traceparent":7}"#, false, "");
        check(r#"{"traceparent":"00-1-2-01"}"#, false, "");
        check(r#"{"tracestate":"a=1"}"#, false, "");
        check(&format!(r#"{{"traceparent":"{PARENT}"}}"#), true, "");
        check(
            &format!(r#"{{"traceparent":"{PARENT}","tracestate":"a=1,b=2"}}"#),
            true,
            "a=1,b=2",
        );
        check(
            &format!(r#"{{"traceparent":"{PARENT}","tracestate":"a={long}"}}"#),
            true,
            "",
        );
    }

    #[test]
    fn a_server_gets_our_span_and_everything_else_as_it_came() {
        let (context, own) = forwarded(&format!(
            r#"{{"tracestate":"old=1","baggage": "a=1","traceparent":"{PARENT}","x":1.00}}"#
        ));
        let span = context.span().span_context().clone();
        let written = with_parent(&own, &span).meta;
        let written: Vec<_> = written
            .iter()
            .map(|(key, value)| (&**key, value.as_str().to_owned()))
            .collect();
        let expected = [
            ("baggage", "\"a=1\"".to_owned()),
            ("x", "1.00".to_owned()),
            ("traceparent", format!("\"{PARENT}\"")),
            ("tracestate", "\"old=1\"".to_owned()),
        ];
        assert_eq!(written, expected);
    }
}
