//! Generates random objects as protobuf and as the expected JSON.

use std::collections::BTreeSet;

use api::schema::{Field, Kind, Struct, all};
use serde_json::{Map, Value, json};

/// Generates objects of any type.
pub struct Fill {
    rng: fastrand::Rng,
    /// The number of fields that may still be filled, which ends recursive types.
    fields_left: usize,
    depth: u8,
    /// All fields that were filled, by type.
    pub filled: BTreeSet<(&'static str, &'static str)>,
}

/// The body that a Go client sends.
pub fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    bytes_field(&mut type_meta, 1, api_version.as_bytes());
    bytes_field(&mut type_meta, 2, kind.as_bytes());
    let mut body = b"k8s\0".to_vec();
    bytes_field(&mut body, 1, &type_meta);
    bytes_field(&mut body, 2, raw);
    bytes_field(&mut body, 3, b"");
    bytes_field(&mut body, 4, b"");
    body
}

impl Fill {
    pub fn new(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), fields_left: 1000, depth: 0, filled: BTreeSet::new() }
    }

    /// An object of that type.
    pub fn object(&mut self, of: &Struct) -> (Vec<u8>, Value) {
        let (mut wire, mut object) = (Vec::new(), Map::new());
        // Fewer fields at deeper levels.
        let percent = 70_u8.saturating_sub(6 * self.depth);
        self.depth += 1;
        for field in of.fields().iter().filter(|field| !field.numbers.is_empty()) {
            if !field.required && (self.fields_left == 0 || self.rng.u8(..100) >= percent) {
                continue;
            }
            self.filled.insert((of.name, field.name));
            self.fields_left = self.fields_left.saturating_sub(1);
            let (values, json) = self.field(field);
            object.insert(field.name.to_owned(), json);
            wire.push(values.into_iter().map(|value| (&*field.numbers, value)).collect::<Vec<_>>());
        }
        self.depth -= 1;
        // Fields may be in any order, the elements of a list keep theirs.
        self.rng.shuffle(&mut wire);
        (assemble(wire.into_iter().flatten().collect()), Value::Object(object))
    }

    /// The encoded value of a field, with all tags but its own.
    fn field(&mut self, field: &Field) -> (Vec<Wire>, Value) {
        match &field.kind {
            Kind::List(of) => {
                let (wires, values) = self.list(of);
                (wires, Value::Array(values))
            }
            Kind::Map(of) => {
                let (mut wires, mut map) = (Vec::new(), Map::new());
                for number in 0..self.rng.usize(1..3) {
                    let key = format!("key.{number}");
                    let (wire, value) = self.value(of, true);
                    wires.push(Wire::Bytes(assemble(vec![(&[1], text(&key)), (&[2], wire)])));
                    map.insert(key, value);
                }
                (wires, Value::Object(map))
            }
            kind => {
                let (wire, value) = self.value(kind, field.pointer || field.required);
                (vec![wire], value)
            }
        }
    }

    fn list(&mut self, of: &Kind) -> (Vec<Wire>, Vec<Value>) {
        (0..self.rng.usize(1..3)).map(|_| self.value(of, true)).unzip()
    }

    /// A random value; zero only if it is kept.
    fn value(&mut self, of: &Kind, may_be_zero: bool) -> (Wire, Value) {
        let zero = may_be_zero && self.rng.u8(..4) == 0;
        let rng = &mut self.rng;
        match of {
            Kind::String if zero => (text(""), json!("")),
            Kind::String => {
                let random_text: String = (0..rng.usize(1..8)).map(|_| rng.char('a'..'\u{400}')).collect();
                (text(&random_text), random_text.into())
            }
            Kind::Bool => (Wire::Varint(u64::from(!zero)), (!zero).into()),
            Kind::Int32 => {
                let number = if zero { 0 } else { rng.i32(..) | 1 };
                (Wire::Varint(i64::from(number).cast_unsigned()), number.into())
            }
            Kind::Int64 => {
                let number = if zero { 0 } else { rng.i64(..) | 1 };
                (Wire::Varint(number.cast_unsigned()), number.into())
            }
            Kind::Double => {
                let number = f64::from(rng.i32(..)) + 0.5;
                (Wire::Fixed64(number.to_bits()), number.into())
            }
            Kind::Bytes => {
                use base64::Engine as _;
                let bytes: Vec<u8> = (0..rng.usize(1..9)).map(|_| rng.u8(..)).collect();
                let json = base64::engine::general_purpose::STANDARD.encode(&bytes).into();
                (Wire::Bytes(bytes), json)
            }
            Kind::Quantity => {
                let amount = format!("{}Mi", rng.u16(..));
                (Wire::Bytes(assemble(vec![(&[1], text(&amount))])), amount.into())
            }
            Kind::IntOrString => {
                let (is_text, number) = (rng.bool(), rng.i32(1..));
                let wire = vec![
                    (&[1][..], Wire::Varint(u64::from(is_text))),
                    (&[2][..], Wire::Varint(if is_text { 0 } else { i64::from(number).cast_unsigned() })),
                    (&[3][..], text(if is_text { "25%" } else { "" })),
                ];
                (Wire::Bytes(assemble(wire)), if is_text { json!("25%") } else { number.into() })
            }
            Kind::Time => {
                let day = rng.u64(1..=28);
                let seconds = 1_767_225_600 + (day - 1) * 86_400;
                (moment(seconds, 0), format!("2026-01-{day:02}T00:00:00Z").into())
            }
            Kind::MicroTime => {
                let micros = rng.u64(..1_000_000);
                let json = format!("2026-01-01T00:00:00.{micros:06}Z");
                (moment(1_767_225_600, micros * 1000), json.into())
            }
            Kind::Any => {
                let value = json!({"a": rng.u8(..), "b": [null, true, {"c": "d"}]});
                (Wire::Bytes(assemble(vec![(&[1], text(&value.to_string()))])), value)
            }
            Kind::Object(name) => {
                let (raw, value) = self.object(all().get(name).unwrap());
                (Wire::Bytes(raw), value)
            }
            Kind::OneOf(name) => {
                let fields = all().get(name).unwrap().fields();
                let field = &fields[self.rng.usize(..fields.len())];
                let (wires, value) = self.field(field);
                let wires = wires.into_iter().map(|wire| (&*field.numbers, wire)).collect();
                (Wire::Bytes(assemble(wires)), value)
            }
            Kind::List(of) => {
                let (wires, values) = self.list(of);
                let wires = wires.into_iter().map(|wire| (&[1][..], wire)).collect();
                (Wire::Bytes(assemble(wires)), Value::Array(values))
            }
            Kind::Map(_) => panic!("there are no maps in maps or lists"),
        }
    }
}

/// A value without its field number.
#[derive(Debug)]
enum Wire {
    Varint(u64),
    Fixed64(u64),
    Bytes(Vec<u8>),
}

fn text(text: &str) -> Wire {
    Wire::Bytes(text.as_bytes().to_vec())
}

fn moment(seconds: u64, nanos: u64) -> Wire {
    Wire::Bytes(assemble(vec![(&[1], Wire::Varint(seconds)), (&[2], Wire::Varint(nanos))]))
}

/// A message of these values. Values with longer number paths are wrapped in nested messages.
fn assemble(values: Vec<(&[u32], Wire)>) -> Vec<u8> {
    let mut message = Vec::new();
    for (numbers, value) in values {
        match (numbers, value) {
            ([number], Wire::Varint(value)) => {
                varint(&mut message, u64::from(*number) << 3);
                varint(&mut message, value);
            }
            ([number], Wire::Fixed64(value)) => {
                varint(&mut message, u64::from(*number) << 3 | 1);
                message.extend(value.to_le_bytes());
            }
            ([number], Wire::Bytes(value)) => bytes_field(&mut message, *number, &value),
            // A nested message may occur several times; the parts are merged.
            ([number, rest @ ..], value) => {
                bytes_field(&mut message, *number, &assemble(vec![(rest, value)]))
            }
            ([], _) => panic!("a value without a number"),
        }
    }
    message
}

fn bytes_field(message: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(message, u64::from(number) << 3 | 2);
    varint(message, bytes.len() as u64);
    message.extend(bytes);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
