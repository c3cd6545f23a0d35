use super::*;

fn check(status: u16, body: &str, kind: FaultKind) -> ModelFault {
    let fault = read_error(status, body);
    assert_eq!(fault.kind, kind, "{status} {body}");
    fault
}

#[test]
fn errors_of_each_vendor_are_classified() {
    let anthropic = |kind: &str, message: &str| {
        format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
        )
    };
    let overloaded = anthropic("overloaded_error", "Overloaded");
    let fault = check(529, &overloaded, FaultKind::Overloaded);
    assert_eq!(fault.details.request_id.as_deref(), Some("req_1"));
    assert_eq!(fault.details.code.as_deref(), Some("overloaded_error"));
    let wrong_key = anthropic("authentication_error", "API key is invalid.");
    check(401, &wrong_key, FaultKind::Authentication);
    let model = anthropic("not_found_error", "model: claude-none");
    check(404, &model, FaultKind::UnknownModel);
    let long = anthropic(
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000",
    );
    check(400, &long, FaultKind::ContextOverflow { limit: None });
    let reserved = anthropic(
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
    );
    check(400, &reserved, FaultKind::ContextOverflow { limit: None });
    let spend = r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    check(429, spend, FaultKind::QuotaExceeded);

    let quota = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    check(429, quota, FaultKind::QuotaExceeded);
    let rate = r#"{"error":{"message":"Rate limit reached. Please try again in 1.2s.","type":"tokens","code":"rate_limit_exceeded"}}"#;
    let fault = check(429, rate, FaultKind::RateLimited);
    assert_eq!(fault.details.retry_after, Some(Duration::from_millis(1200)));
    let model = r#"{"error":{"code":"model_not_found","message":"The requested model 'x' does not exist.","param":"model"}}"#;
    check(400, model, FaultKind::UnknownModel);
    let routed =
        r#"{"error":{"code":400,"message":"openai/none is not a valid model ID"},"user_id":"u"}"#;
    check(400, routed, FaultKind::UnknownModel);
    let context = r#"{"error":{"code":400,"message":"request (2009 tokens) exceeds the available context size (512 tokens), try increasing it","n_ctx":512,"n_prompt_tokens":2009,"type":"exceed_context_size_error"}}"#;
    check(
        400,
        context,
        FaultKind::ContextOverflow { limit: Some(512) },
    );
    let jinja = r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#;
    check(500, jinja, FaultKind::InvalidRequest);
    let arguments = r#"{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: parse error","type":"server_error"}}"#;
    check(500, arguments, FaultKind::InvalidRequest);

    let key = r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#;
    check(400, key, FaultKind::Authentication);
    let delay = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}"#;
    let fault = check(429, delay, FaultKind::RateLimited);
    assert_eq!(fault.details.retry_after, Some(Duration::from_secs(34)));
    let daily = r#"{"error":{"code":429,"message":"quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]}]}}"#;
    check(429, daily, FaultKind::QuotaExceeded);
    let minute = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"26s"}]}}"#;
    let fault = check(429, minute, FaultKind::RateLimited);
    assert_eq!(fault.details.retry_after, Some(Duration::from_secs(26)));
    let credits = r#"{"error":{"code":402,"message":"Insufficient credits"}}"#;
    check(402, credits, FaultKind::QuotaExceeded);
}

#[test]
fn what_is_no_json_is_shown_bounded_and_plain() {
    let page = "<html><head><title>502 Bad Gateway</title></head><body>…</body></html>";
    let fault = check(502, page, FaultKind::Overloaded);
    assert_eq!(fault.message, "502 Bad Gateway");
    assert_eq!(check(503, "", FaultKind::Overloaded).message, "no message");
    assert_eq!(
        check(400, "a\u{1b}b", FaultKind::InvalidRequest).message,
        "ab"
    );
    assert_eq!(
        check(400, "null", FaultKind::InvalidRequest).message,
        "null"
    );
}

#[test]
fn errors_inside_a_stream_are_read() {
    for (data, kind) in [
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            FaultKind::Overloaded,
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 20ms."}}}"#,
            FaultKind::RateLimited,
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"too long"}}}"#,
            FaultKind::ContextOverflow { limit: None },
        ),
        (
            r#"{"error":{"code":502,"message":"Provider returned error"},"choices":[]}"#,
            FaultKind::Overloaded,
        ),
        (
            r#"{"error":{"code":401,"message":"no"}}"#,
            FaultKind::Authentication,
        ),
    ] {
        assert_eq!(read_stream_error(data).kind, kind, "{data}");
    }
}

#[test]
fn delays_in_messages_are_read() {
    for (message, expected) in [
        ("Please try again in 20ms.", Some(20)),
        ("try again in 6 seconds", Some(6000)),
        ("Try again in 1m30s", Some(90_000)),
        ("try again in a while", None),
        ("try again in 99999999999999999999999s", None),
        ("try again in 18446744073709551000s9999s", None),
    ] {
        let found = delay_in_text(message).map(|delay| delay.as_millis());
        assert_eq!(found, expected, "{message}");
    }
}
