//! The tool WebFetch: a page of the public web as text.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use encoding_rs::{Encoding, UTF_8};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION, USER_AGENT};
use reqwest::{Method, Response};
use serde::Deserialize;
use serde_json::json;
use switchboard::auth::GuardedHttp;
use switchboard::untrusted::{escaped_line, quoted};
use switchboard::{
    CallResult, Caller, HostTool, HostToolDefinition, HostToolFuture, RawJson, ToolEffect,
};
use tokio::time::timeout;
use url::Url;

use super::blocking::run_blocking;
use super::long_output::LongOutput;
use super::parse_args;

mod html_text;

/// For the request, its redirections and its answer together.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const MAX_PAGE_BYTES: usize = 5 << 20;
/// Where a page names its encoding.
const MAX_META_BYTES: usize = 1024;
const MAX_REDIRECTIONS: usize = 5;
/// For turning a page into text.
const TEXT_TIME_LIMIT: Duration = Duration::from_secs(3);

pub(super) struct WebFetchTool {
    /// Connects to public addresses only; or why there are no connections.
    pub(super) http: Result<GuardedHttp, &'static str>,
    pub(super) long_output: LongOutput,
}

#[derive(Deserialize)]
struct WebFetchArgs {
    url: String,
}

/// A response, read.
struct Page {
    url: Url,
    content_type: String,
    body: Vec<u8>,
    is_cut: bool,
}

impl HostTool for WebFetchTool {
    fn definition(&self) -> HostToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {"url": {"type": "string", "description": "http:// or https://"}},
            "required": ["url"],
            "additionalProperties": false,
        });
        HostToolDefinition::new(
            "WebFetch",
            "Fetches a page of the public web as text. Addresses of this machine and of private networks are refused.",
            schema,
        )
        .effect(ToolEffect::Network)
    }

    fn call<'a>(&'a self, arguments: &'a RawJson, _: &'a Arc<dyn Caller>) -> HostToolFuture<'a> {
        Box::pin(async move {
            let args: WebFetchArgs = parse_args(arguments)?;
            let late = || {
                format!(
                    "{}: no answer within {} s",
                    quoted(&args.url),
                    TIME_LIMIT.as_secs()
                )
            };
            let fetched = timeout(TIME_LIMIT, self.fetch(&args.url)).await;
            let page = fetched.unwrap_or_else(|_| Err(late()))?;
            let text = run_blocking(TEXT_TIME_LIMIT, move |stop| page.into_text(stop)).await?;
            Ok(CallResult::success(self.long_output.fit(text)))
        })
    }
}

impl WebFetchTool {
    async fn fetch(&self, address: &str) -> Result<Page, String> {
        let http = self.http.as_ref().map_err(|fact| (*fact).to_owned())?;
        let wrong = |fact: &str| format!("{}: {fact}", quoted(address));
        let mut url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
        check_address(&url).map_err(wrong)?;
        for _ in 0..=MAX_REDIRECTIONS {
            let request = http.request(Method::GET, url.clone()).await;
            let request = request.ok_or_else(|| wrong(PRIVATE))?;
            let request = request
                .header(ACCEPT, "text/html, text/plain, application/json, */*;q=0.1")
                .header(
                    USER_AGENT,
                    concat!("switchboard/", env!("CARGO_PKG_VERSION")),
                );
            let response = request
                .send()
                .await
                .map_err(|error| wrong(&explain(&error)))?;
            match redirection(&response, &url).map_err(wrong)? {
                None => return read_page(response, url).await.map_err(|fact| wrong(&fact)),
                Some(next) if is_same_place(&url, &next) => url = next,
                Some(next) => {
                    let next = escaped_line(next.as_str()).to_string();
                    return Err(wrong(&format!("it redirects to another place: {next}")));
                }
            }
        }
        Err(wrong("it redirects too often"))
    }
}

const PRIVATE: &str = "its address is of this machine or of a private network";

fn check_address(url: &Url) -> Result<(), &'static str> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http:// and https:// are fetched");
    }
    match url.username().is_empty() && url.password().is_none() {
        true => Ok(()),
        false => Err("it has a user name or a password; give it without"),
    }
}

/// The target of a redirect.
fn redirection(response: &Response, from: &Url) -> Result<Option<Url>, &'static str> {
    if !response.status().is_redirection() {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let next = location.to_str().ok().and_then(|text| from.join(text).ok());
    let next = next.ok_or("it redirects to an invalid address")?;
    check_address(&next)?;
    Ok(Some(next))
}

/// Whether the approval of one address covers the other: the same host, and not less safe.
fn is_same_place(from: &Url, to: &Url) -> bool {
    let is_upgrade = from.scheme() == "http" && to.scheme() == "https";
    let is_same_origin = from.origin() == to.origin();
    from.host_str() == to.host_str()
        && (is_same_origin || is_upgrade && from.port().is_none() && to.port().is_none())
}

/// Why a connection failed, for the model.
fn explain(error: &reqwest::Error) -> String {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    let mut deepest = String::new();
    while let Some(cause) = source {
        deepest = cause.to_string();
        source = cause.source();
    }
    match &*deepest {
        "it resolves to no permitted address" => PRIVATE.to_owned(),
        other => format!("it cannot be fetched: {}", escaped_line(other)),
    }
}

async fn read_page(mut response: Response, url: Url) -> Result<Page, String> {
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or("text/plain");
    let content_type = content_type.to_ascii_lowercase();
    if !status.is_success() {
        return Err(format!("it answered with status {status}"));
    }
    if !is_text(&content_type) {
        let kind = escaped_line(&content_type);
        return Err(format!("it is not text but {kind}"));
    }
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(chunk) = response.chunk().await.map_err(|error| explain(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_PAGE_BYTES {
            body.truncate(MAX_PAGE_BYTES);
            is_cut = true;
            break;
        }
    }
    Ok(Page {
        url,
        content_type,
        body,
        is_cut,
    })
}

fn is_text(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let kinds = ["json", "xml", "javascript", "yaml", "toml", "x-sh"];
    kind.starts_with("text/")
        || kind.strip_prefix("application/").is_some_and(|kind| {
            kinds
                .iter()
                .any(|known| kind == *known || kind.ends_with(&format!("+{known}")))
        })
}

/// The value of `charset=` in a content type or in a tag, both in lower case.
fn charset(text: &str) -> Option<&str> {
    let (_, value) = text.split_once("charset=")?;
    let is_end = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ';' | '/');
    value.trim_start_matches(['"', '\'']).split(is_end).next()
}

/// The encoding that a page names in a `<meta>` tag.
fn encoding_of_page(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(MAX_META_BYTES)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut tags = head.split("<meta").skip(1);
    let label = tags.find_map(|tag| charset(tag.split('>').next()?));
    // A page whose tag can be read is not in UTF-16, whatever the tag says.
    Some(Encoding::for_label(label?.as_bytes())?.output_encoding())
}

impl Page {
    /// The text in the encoding that the response or the page names, or in UTF-8.
    fn decoded(&self, is_html: bool) -> Cow<'_, str> {
        let label = charset(&self.content_type);
        let encoding = label.and_then(|label| Encoding::for_label(label.as_bytes()));
        let by_page = || is_html.then(|| encoding_of_page(&self.body)).flatten();
        encoding
            .or_else(by_page)
            .unwrap_or(UTF_8)
            .decode(&self.body)
            .0
    }

    fn into_text(self, stop: &super::blocking::StopSignal) -> Result<String, String> {
        let is_html = self.content_type.contains("html");
        let body = self.decoded(is_html);
        let mut text = match is_html {
            true => html_text::to_text(&body, &self.url, stop),
            false => body.into_owned(),
        };
        if self.is_cut {
            text.push_str(&format!(
                "\n[cut: the page has more than {MAX_PAGE_BYTES} bytes]"
            ));
        }
        Ok(format!("[{}]\n{text}", self.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_followed_on_the_same_origin_only() {
        let check = |from: &str, to: &str, expected: bool| {
            let url = |text: &str| Url::parse(text).expect("a URL");
            assert_eq!(
                is_same_place(&url(from), &url(to)),
                expected,
                "{from} → {to}"
            );
        };
        check("https://a.example/x", "https://a.example/y", true);
        check("http://a.example/x", "https://a.example/x", true);
        check("https://a.example/x", "http://a.example/x", false);
        check("https://a.example/x", "https://b.example/x", false);
        check("https://a.example/x", "https://www.a.example/x", false);
        check("http://a.example/x", "https://b.example/x", false);
        check("https://a.example/x", "https://a.example:8443/x", false);
        check("http://a.example:80/x", "https://a.example:8443/x", false);
    }

    #[test]
    fn a_page_is_read_in_its_own_encoding() {
        let check = |kind: &str, body: &[u8], expected: &str| {
            let page = Page {
                url: Url::parse("http://h/").expect("a URL"),
                content_type: kind.to_owned(),
                body: body.to_vec(),
                is_cut: false,
            };
            let text = page.decoded(kind.contains("html"));
            assert!(text.ends_with(expected), "{kind}: {text}");
        };
        check("text/plain; charset=iso-8859-1", b"caf\xe9", "café");
        check(
            "text/plain; charset=\"shift_jis\"",
            b"\x93\xfa\x96\x7b",
            "日本",
        );
        check("text/html", b"<meta charset='gbk'>\xc4\xe3", "你");
        let old = b"<META http-equiv=x content=\"text/html; charset=windows-1252\">\x80";
        check("text/html", old, "€");
        check("text/html", b"<meta charset=\"utf-16\">\xc3\xa9", "é");
        check("text/plain", "<meta charset=gbk>é".as_bytes(), "é");
        check("text/plain; charset=nonsense", "é".as_bytes(), "é");
    }

    #[test]
    fn only_text_is_read() {
        for kind in [
            "text/html; charset=utf-8",
            "application/json",
            "application/rss+xml",
        ] {
            assert!(is_text(kind), "{kind}");
        }
        for kind in [
            "image/png",
            "application/octet-stream",
            "application/pdf",
            "",
        ] {
            assert!(!is_text(kind), "{kind}");
        }
    }
}
