//! Encodes Swagger 2.0 as gnostic protobuf, which kubectl before 1.27 requests. Tables contain the field numbers,
//! and one function follows them.

use serde_json::Value;

/// A message: its fields, and the field number of extensions (`x-...`).
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    extensions: Option<u32>,
}

/// How the value of a field is encoded.
enum Form {
    Text,
    Flag,
    Texts,
    /// Any value, encoded as YAML in a nested message.
    Yaml,
    /// An object. The numbers are the fields of the enclosing messages, outermost first.
    One(&'static [u32], &'static Message),
    /// A list of objects. The numbers are the fields of the enclosing messages, outermost first.
    Many(&'static [u32], &'static Message),
    /// A map. The first number is the repeated field of its entries (name, value). The others are the fields of the
    /// enclosing messages.
    Map(u32, &'static [u32], &'static Message),
    /// A string inside a nested message.
    Wrapped,
    /// `additionalProperties`: a schema or a boolean.
    Values,
    /// Parameters, whose message depends on `in`.
    Parameters,
}

use Form::{Flag, Many, Map, One, Parameters, Text, Texts, Values, Wrapped, Yaml};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&[], &INFO)),
        ("paths", 8, Map(2, &[], &PATH)),
        ("definitions", 9, Map(1, &[], &SCHEMA)),
    ],
    extensions: Some(16),
};
static INFO: Message = Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: Some(7) };
static PATH: Message = Message {
    fields: &[
        ("get", 2, One(&[], &OPERATION)),
        ("put", 3, One(&[], &OPERATION)),
        ("post", 4, One(&[], &OPERATION)),
        ("delete", 5, One(&[], &OPERATION)),
        ("patch", 8, One(&[], &OPERATION)),
        ("parameters", 9, Parameters),
    ],
    extensions: Some(10),
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Parameters),
        ("responses", 9, Map(1, &[1], &RESPONSE)),
    ],
    extensions: Some(13),
};
static BODY: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&[], &SCHEMA)),
    ],
    extensions: Some(6),
};
static QUERY: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: Some(23),
};
static IN_PATH: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: Some(22),
};
static RESPONSE: Message =
    Message { fields: &[("description", 1, Text), ("schema", 2, One(&[1], &SCHEMA))], extensions: Some(5) };
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Yaml),
        ("pattern", 13, Text),
        ("uniqueItems", 16, Flag),
        ("required", 19, Texts),
        ("additionalProperties", 21, Values),
        ("type", 22, Wrapped),
        ("items", 23, One(&[1], &SCHEMA)),
        ("allOf", 24, Many(&[], &SCHEMA)),
        ("properties", 25, Map(1, &[], &SCHEMA)),
        ("example", 30, Yaml),
    ],
    extensions: Some(31),
};

/// Encodes a Swagger 2.0 document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(document, &DOCUMENT, &mut bytes);
    bytes
}

fn message(value: &Value, of: &Message, out: &mut Vec<u8>) {
    let Some(object) = value.as_object() else { return };
    for (name, value) in object {
        if let Some((_, number, form)) = of.fields.iter().find(|(field, ..)| field == name) {
            field(*number, form, value, out);
        } else if let Some(number) = of.extensions.filter(|_| name.starts_with("x-")) {
            nested(number, out, |out| {
                text(1, name, out);
                nested(2, out, |out| yaml(value, out));
            });
        }
    }
}

fn field(number: u32, form: &Form, value: &Value, out: &mut Vec<u8>) {
    match form {
        Text => text(number, value.as_str().unwrap_or_default(), out),
        Flag => flag(number, value.as_bool() == Some(true), out),
        Texts => {
            for value in value.as_array().into_iter().flatten() {
                text(number, value.as_str().unwrap_or_default(), out);
            }
        }
        Yaml => nested(number, out, |out| yaml(value, out)),
        One(around, of) => wrapped(&[&[number], *around].concat(), value, of, out),
        Many(around, of) => {
            for value in value.as_array().into_iter().flatten() {
                wrapped(&[&[number], *around].concat(), value, of, out);
            }
        }
        Map(entries, around, of) => nested(number, out, |out| {
            for (name, value) in value.as_object().into_iter().flatten() {
                nested(*entries, out, |out| {
                    text(1, name, out);
                    wrapped(&[&[2], *around].concat(), value, of, out);
                });
            }
        }),
        Wrapped => nested(number, out, |out| text(1, value.as_str().unwrap_or_default(), out)),
        Values => nested(number, out, |out| match value {
            Value::Bool(anything) => flag(2, *anything, out),
            schema => wrapped(&[1], schema, &SCHEMA, out),
        }),
        Parameters => {
            for value in value.as_array().into_iter().flatten() {
                match value.get("in").and_then(Value::as_str) {
                    Some("body") => wrapped(&[number, 1, 1], value, &BODY, out),
                    Some("path") => wrapped(&[number, 1, 2, 4], value, &IN_PATH, out),
                    _ => wrapped(&[number, 1, 2, 3], value, &QUERY, out),
                }
            }
        }
    }
}

/// Encodes a value inside of nested messages.
fn wrapped(numbers: &[u32], value: &Value, of: &Message, out: &mut Vec<u8>) {
    match numbers.split_first() {
        None => message(value, of, out),
        Some((number, rest)) => nested(*number, out, |out| wrapped(rest, value, of, out)),
    }
}

fn nested(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    varint(u64::from(number) << 3 | 2, out);
    varint(inner.len() as u64, out);
    out.extend(inner);
}

fn text(number: u32, text: &str, out: &mut Vec<u8>) {
    nested(number, out, |out| out.extend(text.as_bytes()));
}

/// Encodes a boolean. `false` is the default and is omitted.
fn flag(number: u32, flag: bool, out: &mut Vec<u8>) {
    if flag {
        varint(u64::from(number) << 3, out);
        varint(1, out);
    }
}

/// Encodes a value as YAML: its JSON, which is also valid YAML.
fn yaml(value: &Value, out: &mut Vec<u8>) {
    text(2, &value.to_string(), out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests;
