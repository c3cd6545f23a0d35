//! HTTP responses: the same head and body however the bytes are chunked, and no byte in a body that
//! was not sent.

use switchboard::fuzzing::{ParsedBody, read_http_response};

use super::{Target, cuts};

pub(super) const TARGET: Target = Target {
    name: "http",
    seeds: &[
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX: 1\r\n\r\nrest",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\nConnection: close\r\n\r\nuntil the end",
        "HTTP/1.0 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ],
    words: &[
        "\r\n",
        "\r\n\r\n",
        "\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "Content-Encoding: gzip\r\n",
        "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "1\r\na\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 ",
        "Connection: close\r\n",
        ";",
    ],
    check,
};

fn check(input: &[u8]) {
    let whole = read_http_response(&[input]);
    // A head is parsed again with each chunk, so many chunks of a long head are slow.
    if input.len() <= 2048 {
        assert_eq!(
            whole,
            read_http_response(&cuts(input)),
            "chunking changes the result"
        );
    }
    let Ok(Some(response)) = whole else { return };
    assert!((100..1000).contains(&response.status));
    let (body, rest) = match &response.body {
        ParsedBody::Complete { body, rest } => (body, rest),
        ParsedBody::Incomplete { body } => (body, &Vec::new()),
        ParsedBody::Malformed => return,
    };
    assert!(
        input.ends_with(rest),
        "what follows the body is not what was sent"
    );
    let head = input.len() - response.after_head;
    let sent = &input[head..input.len() - rest.len()];
    assert!(
        body.len() <= sent.len(),
        "the body is longer than what was sent"
    );
    if response.has_plain_body {
        assert_eq!(body, sent);
        return;
    }
    // Chunked: what is left of what was sent, without sizes and line ends, is the body.
    let mut from = sent.iter();
    assert!(
        body.iter().all(|byte| from.any(|sent| sent == byte)),
        "the body has a byte that was not sent"
    );
}
