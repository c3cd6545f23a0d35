//! Arguments that a tool requires in HTTP headers (`x-mcp-header`): finds them in the schema, and
//! reads their values from a call's arguments.

use crate::schema::{JsonTree, subschemas};
use crate::untrusted::quoted;
use crate::wire::RawJson;

const KEYWORD: &str = "x-mcp-header";

/// An argument that a header repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirrored {
    /// The part of the header's name after `Mcp-Param-`.
    pub header: String,
    /// The keys that lead to the argument from the root.
    pub path: Vec<String>,
}

/// Finds the annotations of an input schema. The error says why a transport with headers cannot
/// call this tool.
pub(super) fn find(schema: &JsonTree<'_>, text: &RawJson) -> Result<Vec<Mirrored>, String> {
    // Few tools have an annotation, and ten thousand tools may be listed at once: the text is
    // searched before the schema is walked.
    if memchr::memmem::find(text.as_bytes(), KEYWORD.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    // The root itself is not an argument.
    let mut waiting = vec![(Some(Vec::new()), schema)];
    while let Some((path, schema)) = waiting.pop() {
        if let Some(annotation) = schema.get(KEYWORD) {
            found.push(read(path.as_deref(), annotation, schema.get("type"))?);
        }
        let properties = schema.get("properties");
        waiting.extend(subschemas(schema).map(|subschema| {
            let name = path
                .as_ref()
                .and_then(|path| Some((path, key_of(properties?, subschema)?)));
            (
                name.map(|(path, name)| [path.as_slice(), &[name.to_owned()]].concat()),
                subschema,
            )
        }));
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let mut names: Vec<String> = found
        .iter()
        .map(|mirrored| mirrored.header.to_ascii_lowercase())
        .collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!(
            "{KEYWORD} {} annotates two of its arguments",
            quoted(&pair[0])
        )),
        None => Ok(found),
    }
}

/// The key of this very schema in `properties`.
fn key_of<'t>(properties: &'t JsonTree<'_>, subschema: &JsonTree<'_>) -> Option<&'t str> {
    let JsonTree::Object(entries) = properties else {
        return None;
    };
    entries
        .iter()
        .find(|(_, value)| std::ptr::eq(value, subschema))
        .map(|(key, _)| &**key)
}

fn read(
    path: Option<&[String]>,
    annotation: &JsonTree<'_>,
    kind: Option<&JsonTree<'_>>,
) -> Result<Mirrored, String> {
    let Some(header) = annotation.as_str() else {
        return Err(format!("its {KEYWORD} is not a string"));
    };
    if header.is_empty() || !header.bytes().all(is_token) {
        return Err(format!(
            "its {KEYWORD} {} cannot be part of a header's name",
            quoted(header)
        ));
    }
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Err(format!(
            "its {KEYWORD} {} does not annotate a single argument",
            quoted(header)
        ));
    };
    match kind.and_then(JsonTree::as_str) {
        Some("string" | "integer" | "boolean") => Ok(Mirrored {
            header: header.to_owned(),
            path: path.to_vec(),
        }),
        _ => Err(format!(
            "its {KEYWORD} {} annotates an argument that is not a string, integer or boolean",
            quoted(header)
        )),
    }
}

/// `tchar` of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The headers of a call with these arguments: the part of the name, and the value as text. Absent
/// and null arguments are left out. The error says why no header can carry a value: integers are
/// limited to the range that every language represents exactly.
pub(crate) fn parameters(
    mirrored: &[Mirrored],
    arguments: &RawJson,
) -> Result<Vec<(String, String)>, String> {
    let values = values(mirrored, arguments.as_str())?.into_iter();
    let present = values.filter_map(|argument| Some((argument.header.to_owned(), argument.value?)));
    Ok(present.collect())
}

/// An argument that a header of its call must repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredArgument<'a> {
    /// The part of the header's name after `Mcp-Param-`.
    pub header: &'a str,
    /// The value of the header; `None` if the argument is absent or null, as the header must be.
    pub value: Option<String>,
    is_number: bool,
}

impl MirroredArgument<'_> {
    /// Whether a header with this value repeats the argument. Numbers are compared as numbers.
    pub fn is_repeated_by(&self, header: &str) -> bool {
        let Some(value) = &self.value else {
            return false;
        };
        let is_same_number = || {
            let numbers = (header.parse::<f64>(), value.parse::<f64>());
            matches!(numbers, (Ok(one), Ok(other)) if one == other)
        };
        header == value || self.is_number && is_same_number()
    }
}

/// Every mirrored argument, in order.
pub(super) fn values<'a>(
    mirrored: &'a [Mirrored],
    arguments: &str,
) -> Result<Vec<MirroredArgument<'a>>, String> {
    if mirrored.is_empty() {
        return Ok(Vec::new());
    }
    let Ok(arguments) = serde_json::from_str::<JsonTree<'_>>(arguments) else {
        return Ok(Vec::new());
    };
    let argument = |Mirrored { header, path }: &'a Mirrored| {
        let found = path
            .iter()
            .try_fold(&arguments, |value, key| value.get(key));
        let value = found.map(text).transpose().map_err(|number| {
            let argument = quoted(&path.join("/"));
            format!(
                "the argument {argument} is sent in a header, which allows integers from -{MAX_INTEGER} to {MAX_INTEGER}, not {number}"
            )
        })?;
        Ok(MirroredArgument {
            header,
            value: value.flatten(),
            is_number: matches!(found, Some(JsonTree::Number(_))),
        })
    };
    mirrored.iter().map(argument).collect()
}

/// The largest integer that a header may carry, 2^53 - 1.
const MAX_INTEGER: i64 = 9_007_199_254_740_991;

/// The error is an integer that is too large.
fn text<'t>(value: &'t JsonTree<'_>) -> Result<Option<String>, &'t serde_json::Number> {
    let number = match value {
        JsonTree::Bool(value) => return Ok(Some(value.to_string())),
        JsonTree::Text(text) => return Ok(Some(text.to_string())),
        JsonTree::Null | JsonTree::List(_) | JsonTree::Object(_) => return Ok(None),
        JsonTree::Number(number) => number,
    };
    let integer = match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer,
        // `42.0` is an integer to the schema, and 42 in the header.
        (None, Some(float)) if float.fract() == 0.0 && float.abs() <= MAX_INTEGER as f64 => {
            float as i64
        }
        (None, Some(float)) if float.fract() == 0.0 => return Err(number),
        _ => return Ok(Some(number.to_string())),
    };
    if integer.unsigned_abs() > MAX_INTEGER.unsigned_abs() {
        return Err(number);
    }
    Ok(Some(integer.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn found(schema: &str) -> Result<Vec<(String, String)>, String> {
        let text = RawJson::parse(schema.to_owned()).unwrap();
        let found = find(&text.decode().unwrap(), &text)?;
        Ok(found
            .into_iter()
            .map(|mirrored| (mirrored.header, mirrored.path.join("/")))
            .collect())
    }

    #[track_caller]
    fn check(properties: &str, expected: Result<&[(&str, &str)], &str>) {
        let expected = expected
            .map(|found| {
                found
                    .iter()
                    .map(|(header, path)| ((*header).to_owned(), (*path).to_owned()))
                    .collect::<Vec<_>>()
            })
            .map_err(str::to_owned);
        assert_eq!(
            found(&format!(
                r#"{{"type":"object","properties":{{{properties}}}}}"#
            )),
            expected,
            "{properties}"
        );
    }

    #[test]
    fn arguments_to_mirror_are_found_at_any_depth_of_properties() {
        check(r#""a":{"type":"string"}"#, Ok(&[]));
        check(
            r#""a":{"type":"string","x-mcp-header":"Region"}"#,
            Ok(&[("Region", "a")]),
        );
        check(
            r#""o":{"properties":{"b":{"type":"boolean","x-mcp-header":"B"},"i":{"type":"integer","x-mcp-header":"I"}}}"#,
            Ok(&[("B", "o/b"), ("I", "o/i")]),
        );
        // A property of that name is an argument, not an annotation.
        check(r#""x-mcp-header":{"type":"string"}"#, Ok(&[]));
    }

    #[test]
    fn t15_an_invalid_annotation_is_reported() {
        let value = |value: &str| format!(r#""a":{{"type":"string","x-mcp-header":{value}}}"#);
        for (given, shown) in [
            ("\"\"", "\"\""),
            ("\"a b\"", "\"a b\""),
            ("\"a:b\"", "\"a:b\""),
            ("\"é\"", "\"é\""),
            (r#""a\r\nX-Evil: 1""#, r#""a\u{d}\u{a}X-Evil: 1""#),
            (r#""a\u0000""#, r#""a\u{0}""#),
        ] {
            check(
                &value(given),
                Err(&format!(
                    "its x-mcp-header {shown} cannot be part of a header's name"
                )),
            );
        }
        check(&value("7"), Err("its x-mcp-header is not a string"));
        check(&value("null"), Err("its x-mcp-header is not a string"));
        let typed = |kind: &str| format!(r#""a":{{{kind}"x-mcp-header":"A"}}"#);
        for kind in [
            r#""type":"number","#,
            r#""type":"object","#,
            r#""type":"array","#,
            r#""type":"null","#,
            r#""enum":["a"],"#,
            "",
        ] {
            let expected = "its x-mcp-header \"A\" annotates an argument that is not a string, integer or boolean";
            check(&typed(kind), Err(expected));
        }
        let inner = r#"{"type":"string","x-mcp-header":"A"}"#;
        for place in [
            format!(r#""a":{{"type":"array","items":{inner}}}"#),
            format!(r#""a":{{"anyOf":[{inner}]}}"#),
            format!(r#""a":{{"additionalProperties":{inner}}}"#),
            format!(r#""a":{{"items":{{"properties":{{"b":{inner}}}}}}}"#),
            format!(r#""a":{{"if":{inner}}}"#),
        ] {
            check(
                &place,
                Err("its x-mcp-header \"A\" does not annotate a single argument"),
            );
        }
        for place in [
            format!(r#"{{"$defs":{{"a":{inner}}}}}"#),
            r#"{"type":"object","x-mcp-header":"A"}"#.to_owned(),
        ] {
            assert_eq!(
                found(&place),
                Err("its x-mcp-header \"A\" does not annotate a single argument".to_owned())
            );
        }
        let twice = r#""a":{"type":"string","x-mcp-header":"My"},"b":{"type":"string","x-mcp-header":"mY"}"#;
        check(
            twice,
            Err("x-mcp-header \"my\" annotates two of its arguments"),
        );
    }

    #[test]
    fn a_header_carries_the_argument_as_text() {
        let path = |path: &[&str]| path.iter().map(|key| (*key).to_owned()).collect();
        let mirrored = |name: &str, keys: &[&str]| Mirrored {
            header: name.to_owned(),
            path: path(keys),
        };
        let all = [
            mirrored("A", &["a"]),
            mirrored("B", &["o", "b"]),
            mirrored("C", &["c"]),
            mirrored("D", &["d"]),
        ];
        let tried =
            |arguments: &str| parameters(&all, &RawJson::parse(arguments.to_owned()).unwrap());
        let said = |arguments: &str| tried(arguments).unwrap();
        let pairs = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            said(r#"{"a":" é\r\n","o":{"b":false},"c":42,"d":-7}"#),
            pairs(&[("A", " é\r\n"), ("B", "false"), ("C", "42"), ("D", "-7")])
        );
        assert_eq!(
            said(r#"{"a":"","o":null,"c":42.0,"d":null}"#),
            pairs(&[("A", ""), ("C", "42")])
        );
        assert_eq!(said("{}"), []);
        assert_eq!(
            said(r#"{"c":9007199254740991,"d":-9007199254740991}"#),
            pairs(&[("C", "9007199254740991"), ("D", "-9007199254740991")])
        );
        assert_eq!(
            said(r#"{"a":"9007199254740993","c":1e3}"#),
            pairs(&[("A", "9007199254740993"), ("C", "1000")])
        );
        for number in [
            "9007199254740992",
            "-9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "1e+30",
        ] {
            let fact = format!(
                "the argument \"o/b\" is sent in a header, which allows integers from -9007199254740991 to 9007199254740991, not {number}"
            );
            assert_eq!(
                tried(&format!(r#"{{"a":"x","o":{{"b":{number}}}}}"#)),
                Err(fact)
            );
        }
    }
}
