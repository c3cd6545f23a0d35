//! The params of a client's request: the members that are routed on, and the rest as it came.

use std::borrow::Cow;
use std::collections::HashSet;

use switchboard::caller::ForwardedParams;
use switchboard::event::LogLevel;
use switchboard::revision::{Era, Revision};
use switchboard::wire::JsonMember;
use switchboard::{CallerCapabilities, RawJson};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The extension of the modern era for calls whose result comes later.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The key of the `subscriptions/listen` request that a notification belongs to.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The key of the task that a legacy message belongs to.
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The key of the server's name and version.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The keys of so many members are compared in pairs; those of more are put into a set.
const MAX_COMPARED_MEMBERS: usize = 16;

/// The params of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestParams {
    /// All members but `_meta`.
    members: Vec<JsonMember>,
    /// Boxed, because the params are moved several times, and most legacy ones have none.
    meta: Option<Box<RequestMeta>>,
}

/// The `_meta` of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestMeta {
    /// A modern request names its revision.
    pub(crate) version: Option<String>,
    pub(crate) capabilities: Option<RawJson>,
    pub(crate) client_info: Option<RawJson>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) progress_token: Option<RawJson>,
    /// Members that are passed on, because they are not about the connection with the client.
    others: Vec<JsonMember>,
}

static NO_META: RequestMeta = RequestMeta {
    version: None,
    capabilities: None,
    client_info: None,
    log_level: None,
    progress_token: None,
    others: Vec::new(),
};

/// Params that were read; the error is for the client.
pub(crate) type ReadParams = Result<RequestParams, &'static str>;

impl RequestParams {
    /// Reads params. The error is for the client.
    pub(crate) fn read(params: Option<&RawJson>) -> ReadParams {
        let Some(params) = params else {
            return Ok(Self::default());
        };
        let mut members = params.members().ok_or("params must be an object")?;
        // Requests are routed on the first member of a name, and most servers read the last.
        if has_repeated_key(&members) {
            return Err("params must not have two members of one name");
        }
        let mut meta = None;
        if let Some(index) = members.iter().position(|(key, _)| key == "_meta") {
            let read = RequestMeta::read(&members.remove(index).1)?;
            meta = Some(Box::new(read));
        }
        Ok(Self { members, meta })
    }

    pub(crate) fn meta(&self) -> &RequestMeta {
        self.meta.as_deref().unwrap_or(&NO_META)
    }

    /// A member, as it came.
    pub(crate) fn get(&self, key: &str) -> Option<&RawJson> {
        let found = self.members.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value)
    }

    /// A member that is a string.
    pub(crate) fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key)?.text()
    }

    /// The params for the server: all members except those that the host writes itself.
    pub(crate) fn forwarded(&self, host_members: &[&str]) -> ForwardedParams {
        let is_forwarded = |(key, _): &&JsonMember| !host_members.contains(&&**key);
        ForwardedParams {
            params: self.members.iter().filter(is_forwarded).cloned().collect(),
            meta: self.meta().others.clone(),
        }
    }
}

fn has_repeated_key(members: &[JsonMember]) -> bool {
    if members.len() > MAX_COMPARED_MEMBERS {
        let mut keys = HashSet::with_capacity(members.len());
        return !members.iter().all(|(key, _)| keys.insert(&**key));
    }
    let mut rest = members;
    while let [(key, _), others @ ..] = rest {
        if others.iter().any(|(other, _)| other == key) {
            return true;
        }
        rest = others;
    }
    false
}

impl RequestMeta {
    fn read(meta: &RawJson) -> Result<Self, &'static str> {
        let mut read = Self::default();
        for (key, value) in meta.members().ok_or("_meta must be an object")? {
            match &*key {
                VERSION => {
                    let version = value.decode().map_err(|_| "the version must be a string");
                    read.version = Some(version?);
                }
                CAPABILITIES => read.capabilities = Some(value),
                CLIENT_INFO => read.client_info = Some(value),
                LOG_LEVEL => {
                    let word: String = value.decode().map_err(|_| "logLevel must be a string")?;
                    read.log_level = Some(LogLevel::read(&word).ok_or("unknown log level")?);
                }
                "progressToken" => read.progress_token = Some(value),
                SUBSCRIPTION_ID | SERVER_INFO | RELATED_TASK => {}
                _ => read.others.push((key, value)),
            }
        }
        Ok(read)
    }

    /// The era of a request whose `_meta` this is.
    pub(crate) fn era(&self) -> Era {
        match self.version {
            Some(_) => Era::Modern,
            None => Era::Legacy,
        }
    }

    /// A member that is passed on, if it is a string.
    #[cfg(feature = "otel")]
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let found = self.others.iter().find(|(known, _)| known == key);
        found?.1.decode().ok()
    }

    /// The revision of a modern request, if we speak it.
    pub(crate) fn revision(&self) -> Option<Revision> {
        Revision::parse_in(Era::Modern, self.version.as_deref()?)
    }
}

/// What a client can answer, from its declared capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientCapabilities {
    pub(crate) offers: CallerCapabilities,
    pub(crate) roots: bool,
    /// The modern extension.
    pub(crate) tasks: bool,
}

impl ClientCapabilities {
    pub(crate) fn read(declared: Option<&RawJson>) -> Self {
        let declared = declared.and_then(|declared| declared.to_value().ok());
        let declared = declared.unwrap_or_default();
        let (elicitation, sampling) = (&declared["elicitation"], &declared["sampling"]);
        let modes = elicitation.as_object();
        Self {
            offers: CallerCapabilities {
                // An empty declaration means forms, as in the first revision with elicitation.
                elicit_form: modes
                    .is_some_and(|modes| modes.is_empty() || modes.contains_key("form")),
                elicit_url: modes.is_some_and(|modes| modes.contains_key("url")),
                sampling: sampling.is_object(),
                sampling_tools: sampling["tools"].is_object(),
            },
            roots: declared["roots"].is_object(),
            tasks: declared["extensions"][TASKS].is_object(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn raw(text: &str) -> RawJson {
        text.parse().unwrap()
    }

    #[test]
    fn params_are_forwarded_byte_for_byte_except_those_of_the_connection() {
        let params = raw(
            r#"{"name":"t","x":1.00,"_meta":{"progressToken":"p","a":{"b": 1e400},"io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":"00-1"},"arguments":{}}"#,
        );
        let read = RequestParams::read(Some(&params)).unwrap();
        assert_eq!(read.meta().era(), Era::Modern);
        assert_eq!(read.meta().progress_token, Some(raw("\"p\"")));
        let forwarded = read.forwarded(&["name", "arguments"]);
        assert_eq!(forwarded.params, [("x".into(), raw("1.00"))]);
        assert_eq!(
            forwarded.meta,
            [
                ("a".into(), raw(r#"{"b": 1e400}"#)),
                ("traceparent".into(), raw("\"00-1\""))
            ]
        );
        assert!(RequestParams::read(Some(&raw("[]"))).is_err());
    }

    /// T21: what a client could send past the gateway in a second member of a name.
    #[test]
    fn t21_params_with_two_members_of_one_name_are_refused() {
        let read = |params: &str| RequestParams::read(Some(&raw(params))).map(drop);
        let refused = Err("params must not have two members of one name");
        assert_eq!(read(r#"{"_meta":{},"name":"a","arguments":{}}"#), Ok(()));
        for repeated in [
            r#"{"_meta":{},"name":"a","_meta":{"progressToken":7}}"#,
            r#"{"_meta":{},"name":"a","\u005fmeta":{"progressToken":7}}"#,
            r#"{"name":"a","name":"b"}"#,
        ] {
            assert_eq!(read(repeated), refused, "{repeated}");
        }
        let many: Vec<_> = (0..100_000).map(|n| format!("\"k{n}\":1")).collect();
        let many = many.join(",");
        assert_eq!(read(&format!("{{{many}}}")), Ok(()));
        assert_eq!(read(&format!("{{{many},\"k0\":2}}")), refused);
    }

    /// T21: which task a message belongs to is said anew on each hop.
    #[test]
    fn t21_a_clients_related_task_is_not_forwarded() {
        let params = raw(
            r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"a":1},"name":"t"}"#,
        );
        let read = RequestParams::read(Some(&params)).unwrap();
        assert_eq!(read.forwarded(&[]).meta, [("a".into(), raw("1"))]);
    }

    #[test]
    fn an_empty_elicitation_capability_means_forms() {
        let check = |declared: &str, form: bool, url: bool| {
            let offers = ClientCapabilities::read(Some(&raw(declared))).offers;
            assert_eq!((offers.elicit_form, offers.elicit_url), (form, url));
        };
        check(r#"{"elicitation":{}}"#, true, false);
        check(r#"{"elicitation":{"url":{}}}"#, false, true);
        check(r#"{"elicitation":{"form":{},"url":{}}}"#, true, true);
        check("{}", false, false);
    }
}
