//! Tests of the text of a page.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use super::*;
use crate::builtin_tools::blocking::run_blocking;

async fn text_within(limit: Duration, html: String) -> String {
    let base = Url::parse("https://example.com/a/b").unwrap();
    run_blocking(limit, move |stop| Ok(to_text(&html, &base, stop)))
        .await
        .unwrap()
}

async fn text(html: impl Into<String>) -> String {
    text_within(Duration::from_secs(120), html.into()).await
}

#[tokio::test]
async fn a_page_becomes_text_with_headings_lists_and_links() {
    let page = "<!doctype html><html><head><title>The  page</title><style>p { color: red }</style>\
        <script>document.write('<p>no')</script></head><body><h2>One &amp; two</h2>\
        <p>Some <b>bold</b>\n text, <a href='../c?x=1'>a link</a>.</p><ul><li>first<li>second</ul>\
        <pre>  a\n    b</pre><noscript>turn it on</noscript><table><tr><td>1<td>2<tr><td>3</table>\
        <img alt='a cat' src=x><a href='javascript:x()'>plain</a></body></html>";
    let expected = "The page\n\n## One & two\n\nSome bold text, [a link](https://example.com/c?x=1).\n\n\
        - first\n- second\n\n  a\n    b\n\n1 2\n3\n\n[image: a cat]plain";
    assert_eq!(text(page).await, expected);
}

#[tokio::test]
async fn script_and_style_never_show() {
    for html in [
        "<script>secret</script>seen",
        "<SCRIPT>secret</SCRIPT >seen",
        "<style>secret</style>seen",
        "<script><!-- <script>secret</script> --></script>seen",
        "<script>a = '</scr' + 'ipt>secret'</script>seen",
        "<!-- secret -->seen",
        "<iframe>secret</iframe>seen",
        "seen<script>secret",
    ] {
        assert_eq!(text(html).await, "seen", "{html}");
    }
}

/// Nesting costs no stack and no more than linear time.
#[tokio::test]
async fn t26_deep_nesting_takes_linear_time() {
    for tag in [
        "div",
        "b",
        "a href=x",
        "ul><li",
        "table><tr><td",
        "pre",
        "svg",
        "template",
    ] {
        let began = Instant::now();
        let page = format!("{}deep", format!("<{tag}>").repeat(100_000));
        let shown = text(page).await;
        assert!(shown.contains("deep"), "{tag}");
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{tag}: {:?}",
            began.elapsed()
        );
    }
}

/// A tag with hundreds of thousands of attributes is quadratic in the tokenizer: time ends it.
#[tokio::test]
async fn t26_a_page_that_takes_too_long_is_cut() {
    let attributes: String = (0..400_000).map(|number| format!(" a{number}")).collect();
    let began = Instant::now();
    let shown = text_within(
        Duration::from_millis(300),
        format!("start<p{attributes}>end"),
    )
    .await;
    assert_eq!(
        shown,
        "start\n[cut: the rest of the page takes too long to read]"
    );
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}
