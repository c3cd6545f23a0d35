//! Reads the protobuf message of an OTLP export (`opentelemetry/proto/collector/trace/v1`), apart
//! from the crates that write it.

use serde_json::{Map, Value};

/// `SPAN_KIND_SERVER` and `SPAN_KIND_CLIENT`.
pub(crate) const SERVER: u64 = 2;
pub(crate) const CLIENT: u64 = 3;

/// One span; ids in hexadecimal digits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Value,
    /// The ids of linked spans.
    pub(crate) links: Vec<String>,
    /// 2 is an error.
    pub(crate) status_code: u64,
    pub(crate) resource: Value,
}

/// One field of a message: its number and its value.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => panic!("expected a number"),
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => panic!("expected bytes"),
        }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn hex(self) -> String {
        self.bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The spans of an `ExportTraceServiceRequest`.
pub(crate) fn spans(message: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_resource in messages(message, 1) {
        let resource = messages(of_resource, 1)
            .first()
            .map(|resource| attributes(resource, 1));
        for of_scope in messages(of_resource, 2) {
            for bytes in messages(of_scope, 2) {
                spans.push(span(bytes, resource.clone().unwrap_or_default()));
            }
        }
    }
    spans
}

fn span(bytes: &[u8], resource: Value) -> Span {
    let mut span = Span {
        trace: String::new(),
        id: String::new(),
        parent: String::new(),
        name: String::new(),
        kind: 0,
        start: 0,
        end: 0,
        attributes: attributes(bytes, 9),
        links: Vec::new(),
        status_code: 0,
        resource,
    };
    for (number, field) in fields(bytes) {
        match number {
            1 => span.trace = field.hex(),
            2 => span.id = field.hex(),
            4 => span.parent = field.hex(),
            5 => span.name = field.text(),
            6 => span.kind = field.number(),
            7 => span.start = field.number(),
            8 => span.end = field.number(),
            13 => {
                let linked = fields(field.bytes())
                    .into_iter()
                    .find(|(number, _)| *number == 2);
                span.links.push(linked.unwrap().1.hex());
            }
            15 => {
                let code = fields(field.bytes())
                    .into_iter()
                    .find(|(number, _)| *number == 3);
                span.status_code = code.map_or(0, |(_, code)| code.number());
            }
            _ => {}
        }
    }
    span
}

/// The attributes in the fields of this number.
fn attributes(message: &[u8], number: u64) -> Value {
    let mut attributes = Map::new();
    for pair in messages(message, number) {
        let (mut key, mut value) = (String::new(), Value::Null);
        for (number, field) in fields(pair) {
            match number {
                1 => key = field.text(),
                _ => {
                    let (kind, field) = fields(field.bytes()).pop().unwrap();
                    value = match kind {
                        1 => field.text().into(),
                        3 => field.number().into(),
                        kind => panic!("a value of the kind {kind}"),
                    };
                }
            }
        }
        attributes.insert(key, value);
    }
    attributes.into()
}

/// The messages in the fields of this number.
fn messages(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let fields = fields(message)
        .into_iter()
        .filter(|(number, _)| *number == wanted);
    fields.map(|(_, field)| field.bytes()).collect()
}

fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => Field::Number(u64::from_le_bytes(cut(&mut message, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut message) as usize;
                Field::Bytes(cut(&mut message, length))
            }
            5 => Field::Number(u32::from_le_bytes(cut(&mut message, 4).try_into().unwrap()).into()),
            kind => panic!("a field of the kind {kind}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = cut(message, 1)[0];
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn cut<'a>(message: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (first, rest) = message.split_at(length);
    *message = rest;
    first
}
