//! `/metrics`, read as strictly as a scraper for OpenMetrics reads it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use switchboard_gateway::{METRICS, MetricKind};

use super::client::Gateway;
use super::operator::{call, call_with, until};

/// One family: its type, and its samples as (name, labels, value).
#[derive(Debug, Default)]
struct MetricFamily {
    kind: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads the whole text; panics where it is not valid.
#[track_caller]
fn parse(text: &str) -> BTreeMap<String, MetricFamily> {
    let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let mut families = BTreeMap::<String, MetricFamily>::new();
    let mut series = BTreeSet::new();
    let mut current = String::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (keyword, name) = (words.next().unwrap(), words.next().unwrap());
            let rest = words.next().unwrap_or_default();
            match keyword {
                "HELP" => {
                    assert!(!families.contains_key(name), "{name} is written twice");
                    families.insert(name.to_owned(), MetricFamily::default());
                    current = name.to_owned();
                }
                "TYPE" => families.get_mut(name).unwrap().kind = rest.to_owned(),
                "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                _ => panic!("{line}"),
            }
            assert_eq!(name, current, "{line}");
            continue;
        }
        let (name, labels, value) = sample(line);
        let family = families
            .get_mut(&current)
            .expect("a family before its samples");
        let suffix = name.strip_prefix(&current).expect("a sample of the family");
        let expected: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            kind => panic!("{kind}"),
        };
        assert!(expected.contains(&suffix), "{line}");
        assert!(
            series.insert((name.clone(), labels.clone())),
            "{line} is written twice"
        );
        family.samples.push((name, labels, value));
    }
    families
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let name = &line[..end];
    assert!(
        name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()),
        "{line}"
    );
    let mut labels = BTreeMap::new();
    let mut rest = &line[end..];
    if let Some(mut inner) = rest.strip_prefix('{') {
        while !inner.starts_with('}') {
            let (key, after) = inner.split_once("=\"").unwrap();
            let (value, after) = quoted(after);
            assert!(labels.insert(key.to_owned(), value).is_none(), "{line}");
            inner = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &inner[1..];
    }
    let value = rest
        .strip_prefix(' ')
        .unwrap()
        .parse()
        .unwrap_or_else(|_| panic!("{line}"));
    (name.to_owned(), labels, value)
}

/// A value up to its closing quote, and what follows.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next().unwrap().1 {
                'n' => value.push('\n'),
                escaped @ ('"' | '\\') => value.push(escaped),
                other => panic!("\\{other}"),
            },
            character => value.push(character),
        }
    }
    panic!("no closing quote: {text}")
}

/// Each bucket holds those before it, and the last one all.
fn check_histogram(family: &MetricFamily) {
    let mut buckets = BTreeMap::<_, Vec<(f64, f64)>>::new();
    let mut counts = BTreeMap::new();
    for (name, labels, value) in &family.samples {
        let mut labels = labels.clone();
        match labels.remove("le") {
            Some(bound) => {
                let bound = match bound.as_str() {
                    "+Inf" => f64::INFINITY,
                    bound => bound.parse().unwrap(),
                };
                buckets.entry(labels).or_default().push((bound, *value));
            }
            None if name.ends_with("_count") => assert!(counts.insert(labels, *value).is_none()),
            None => {}
        }
    }
    assert_eq!(buckets.len(), counts.len());
    for (labels, buckets) in buckets {
        assert!(buckets.is_sorted(), "{labels:?}: {buckets:?}");
        assert_eq!(
            buckets.last(),
            Some(&(f64::INFINITY, counts[&labels])),
            "{labels:?}"
        );
    }
}

#[test]
fn metrics_are_valid_and_documented_and_count_what_happened() {
    let rules = "[permissions]\nallow = [\"demo/echo\"]\ndeny = [{ tool = \"demo/slow\", client = \"tester\" }]\n";
    let gateway = Gateway::start_with(rules, &[]);
    let session = gateway.initialize("/mcp");
    let echo = gateway.tool("/mcp", &session, "echo");
    let slow = gateway.tool("/mcp", &session, "slow");
    call(&gateway, &session, &echo, "a\"b\\c\nd");
    call(&gateway, &session, &echo, "again");
    call_with(&gateway, &session, &slow, json!({}));
    assert_eq!(
        gateway
            .send("POST", "/mcp", &[("Authorization", "")], "{}")
            .status,
        401
    );
    let ended = [("Mcp-Session-Id", session.as_str())];
    assert!(matches!(
        gateway.send("DELETE", "/mcp", &ended, "").status,
        200..=204
    ));

    let families = until(|| {
        let families = parse(&gateway.send("GET", "/metrics", &[], "").body);
        let sessions = &families["mcp_server_session_duration_seconds"].samples;
        let is_counted = |name: &str, value: f64| name.ends_with("_count") && value >= 1.0;
        let has_ended = sessions
            .iter()
            .any(|(name, _, value)| is_counted(name, *value));
        has_ended.then_some(families)
    });
    for (name, family) in &families {
        let known = METRICS
            .iter()
            .find(|metric| metric.scraped().trim_end_matches("_total") == name);
        let known = known.unwrap_or_else(|| panic!("{name} is not in the table"));
        let kind = match known.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Seconds => "histogram",
        };
        assert_eq!(family.kind, kind, "{name}");
        if known.kind == MetricKind::Seconds {
            check_histogram(family);
        }
        for (_, labels, _) in &family.samples {
            let labels = labels.keys().filter(|label| *label != "le");
            labels.for_each(|label| {
                assert!(known.labels.contains(&label.as_str()), "{name}: {label}")
            });
        }
    }
    assert_eq!(families.len(), METRICS.len(), "{:?}", families.keys());
    let value = |family: &str, wanted: &[(&str, &str)]| {
        let has = |labels: &BTreeMap<_, _>| {
            wanted
                .iter()
                .all(|(key, value)| labels.get(*key) == Some(&(*value).to_owned()))
        };
        let samples = families[family]
            .samples
            .iter()
            .filter(|(_, labels, _)| has(labels));
        samples.map(|(_, _, value)| value).sum::<f64>()
    };
    let decisions = "switchboard_gate_decisions";
    assert_eq!(value(decisions, &[("decision", "allow")]), 2.0);
    assert_eq!(value(decisions, &[("decision", "deny")]), 1.0);
    let rules = &families[decisions].samples;
    assert!(
        rules
            .iter()
            .any(|(_, labels, _)| labels["rule"].contains("demo/echo")),
        "{rules:?}"
    );
    assert_eq!(value("switchboard_refused_requests", &[]), 1.0);
    assert_eq!(value("switchboard_cut_off_readers", &[]), 0.0);
    assert_eq!(value("switchboard_queue_depth", &[]), 0.0);
    assert_eq!(value("switchboard_server_up", &[("server", "demo")]), 1.0);
    // Its entry goes, and so does the connection.
    gateway.home.user_file("");
    assert_eq!(gateway.home.run(&["reload"]).code, Some(0));
    until(|| {
        let families = parse(&gateway.send("GET", "/metrics", &[], "").body);
        let sessions = &families["mcp_client_session_duration_seconds"].samples;
        let mut counts = sessions
            .iter()
            .filter(|(name, _, _)| name.ends_with("_count"));
        counts.any(|(_, _, value)| *value >= 1.0).then_some(())
    });
}
