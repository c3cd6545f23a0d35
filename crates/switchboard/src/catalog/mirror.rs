//! Arguments that a tool wants mirrored in HTTP headers (`x-mcp-header`): which they are, and what
//! is said of a call's.

use crate::schema::{JsonTree, subschemas};
use crate::untrusted::quoted;
use crate::wire::RawJson;

const KEYWORD: &str = "x-mcp-header";

/// An argument that is mirrored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirrored {
    /// What follows `Mcp-Param-` in the header's name.
    pub header: String,
    /// The keys that lead to it from the root of the arguments.
    pub path: Vec<String>,
}

/// Finds the annotations of an input schema. The error is why a wire that says headers cannot carry
/// this tool.
pub(super) fn find(schema: &JsonTree<'_>, text: &RawJson) -> Result<Vec<Mirrored>, String> {
    // Hardly any tool has one, and ten thousand tools are listed at once: look for the word before
    // taking the schema apart.
    if memchr::memmem::find(text.as_bytes(), KEYWORD.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    // The root is no argument of anything.
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
            "{KEYWORD} {} stands at two of its arguments",
            quoted(&pair[0])
        )),
        None => Ok(found),
    }
}

/// The key under which this very schema stands in `properties`.
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
        return Err(format!("its {KEYWORD} is not a text"));
    };
    if header.is_empty() || !header.bytes().all(is_token) {
        return Err(format!(
            "its {KEYWORD} {} cannot be part of a header's name",
            quoted(header)
        ));
    }
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Err(format!(
            "its {KEYWORD} {} stands where no single argument is meant",
            quoted(header)
        ));
    };
    match kind.and_then(JsonTree::as_str) {
        Some("string" | "integer" | "boolean") => Ok(Mirrored {
            header: header.to_owned(),
            path: path.to_vec(),
        }),
        _ => Err(format!(
            "its {KEYWORD} {} stands at an argument that is no string, integer or boolean",
            quoted(header)
        )),
    }
}

/// `tchar` of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What the headers of a call with these arguments say: the part of the name, and the value as
/// text. What is absent or null is left out. The error is why no header can say it: integers are
/// only allowed as far as every language counts exactly.
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
    /// What follows `Mcp-Param-` in the header's name.
    pub header: &'a str,
    /// What the header must say; `None` where the argument is absent or null, and so is the header.
    pub value: Option<String>,
    is_number: bool,
}

impl MirroredArgument<'_> {
    /// Whether a header that says this repeats the argument. Numbers are compared as numbers.
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

/// Every mirrored argument in its order.
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
                "the argument {argument} goes into a header, which takes integers of at most {LARGEST} either way, not {number}"
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
const LARGEST: i64 = 9_007_199_254_740_991;

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
        // `42.0` is an integer to the schema, and 42 to the header.
        (None, Some(float)) if float.fract() == 0.0 && float.abs() <= LARGEST as f64 => {
            float as i64
        }
        (None, Some(float)) if float.fract() == 0.0 => return Err(number),
        _ => return Ok(Some(number.to_string())),
    };
    if integer.unsigned_abs() > LARGEST.unsigned_abs() {
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
        // A property of that name is an argument, and no annotation.
        check(r#""x-mcp-header":{"type":"string"}"#, Ok(&[]));
    }

    #[test]
    fn t15_an_annotation_that_no_header_can_follow_is_told() {
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
        check(&value("7"), Err("its x-mcp-header is not a text"));
        check(&value("null"), Err("its x-mcp-header is not a text"));
        let typed = |kind: &str| format!(r#""a":{{{kind}"x-mcp-header":"A"}}"#);
        for kind in [
            r#""type":"number","#,
            r#""type":"object","#,
            r#""type":"array","#,
            r#""type":"null","#,
            r#""enum":["a"],"#,
            "",
        ] {
            let told = "its x-mcp-header \"A\" stands at an argument that is no string, integer or boolean";
            check(&typed(kind), Err(told));
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
                Err("its x-mcp-header \"A\" stands where no single argument is meant"),
            );
        }
        for place in [
            format!(r#"{{"$defs":{{"a":{inner}}}}}"#),
            r#"{"type":"object","x-mcp-header":"A"}"#.to_owned(),
        ] {
            assert_eq!(
                found(&place),
                Err("its x-mcp-header \"A\" stands where no single argument is meant".to_owned())
            );
        }
        let twice = r#""a":{"type":"string","x-mcp-header":"My"},"b":{"type":"string","x-mcp-header":"mY"}"#;
        check(
            twice,
            Err("x-mcp-header \"my\" stands at two of its arguments"),
        );
    }

    #[test]
    fn what_a_header_says_is_the_argument_as_text() {
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
                "the argument \"o/b\" goes into a header, which takes integers of at most 9007199254740991 either way, not {number}"
            );
            assert_eq!(
                tried(&format!(r#"{{"a":"x","o":{{"b":{number}}}}}"#)),
                Err(fact)
            );
        }
    }
}
