//! Deserializes JSON values by the type of their field and appends them to a message.

use std::fmt;

use base64::Engine as _;
use serde::Deserialize as _;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;

use super::write::{begin, bytes_field, double_field, end, integer_field, text_field};
use crate::schema::{Field, Kind, Struct, all};

/// Appends the fields of an object to `out`.
pub(super) struct Message<'a> {
    pub(super) of: &'static Struct,
    pub(super) out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Message<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of type {}", self.of.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(FieldName(self.of))? {
            match field.filter(|field| !field.numbers.is_empty()) {
                Some(field) => map.next_value_seed(FieldValue { field, out: &mut *self.out })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Deserializes a field name. Returns `None` for unknown fields.
struct FieldName(&'static Struct);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(name))
    }
}

/// Encodes the value of a field with the numbers of the field.
struct FieldValue<'a> {
    field: &'static Field,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for FieldValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { field, out } = self;
        let before = out.len();
        let Some((number, around)) = field.numbers.split_last() else { return Ok(()) };
        let starts: Vec<usize> = around.iter().map(|number| begin(out, *number)).collect();
        let inside = out.len();
        Slot { kind: &field.kind, number: *number, repeats: true, out: &mut *out }
            .deserialize(deserializer)?;
        if out.len() == inside {
            // `null`, or an empty list or map: nothing is written.
            out.truncate(before);
        } else {
            starts.into_iter().rev().for_each(|start| end(out, start));
        }
        Ok(())
    }
}

/// Appends a value under a field number.
struct Slot<'a> {
    kind: &'static Kind,
    number: u32,
    /// True for the elements of a list and the entries of a map that use the field number directly. A list or map
    /// inside of another one is wrapped in a message.
    repeats: bool,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Slot<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if *self.kind == Kind::Any {
            // A message with the JSON text in its only field.
            let raw = <&RawValue>::deserialize(deserializer)?.get();
            if raw != "null" {
                let start = begin(self.out, self.number);
                text_field(self.out, 1, raw);
                end(self.out, start);
            }
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Slot<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.described())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.kind {
            Kind::Bool => integer_field(self.out, self.number, i64::from(value)),
            Kind::OneOf(name) => {
                let start = begin(self.out, self.number);
                if let Some(number) = choice(name, |kind| *kind == Kind::Bool).and_then(number) {
                    integer_field(self.out, number, i64::from(value));
                }
                end(self.out, start);
            }
            _ => return Err(Error::invalid_type(Unexpected::Bool(value), &self)),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.kind {
            Kind::Int32 | Kind::Int64 => integer_field(self.out, self.number, value),
            Kind::Double => double_field(self.out, self.number, value as f64),
            Kind::IntOrString => {
                let start = begin(self.out, self.number);
                integer_field(self.out, 1, 0);
                integer_field(self.out, 2, value);
                end(self.out, start);
            }
            Kind::Quantity => quantity(self.out, self.number, &value.to_string()),
            _ => return Err(Error::invalid_type(Unexpected::Signed(value), &self)),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(Error::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.kind {
            Kind::Double => double_field(self.out, self.number, value),
            Kind::Quantity => quantity(self.out, self.number, &value.to_string()),
            _ => return Err(Error::invalid_type(Unexpected::Float(value), &self)),
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let invalid = |slot: &Self| Error::invalid_value(Unexpected::Str(text), slot);
        match self.kind {
            Kind::String => text_field(self.out, self.number, text),
            Kind::Quantity => quantity(self.out, self.number, text),
            Kind::IntOrString => {
                let start = begin(self.out, self.number);
                integer_field(self.out, 1, 1);
                text_field(self.out, 3, text);
                end(self.out, start);
            }
            Kind::Bytes => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                // The value may be secret and must not be in the error.
                let bytes = bytes.map_err(|_| Error::custom("the value is not base64"))?;
                bytes_field(self.out, self.number, &bytes);
            }
            Kind::Time | Kind::MicroTime => {
                let time: jiff::Timestamp = text.parse().map_err(|_| invalid(&self))?;
                let start = begin(self.out, self.number);
                let nanos = i64::from(time.subsec_nanosecond());
                // In Go, the nanoseconds are positive, also before 1970.
                let before = i64::from(nanos < 0);
                integer_field(self.out, 1, time.as_second() - before);
                if *self.kind == Kind::MicroTime {
                    integer_field(self.out, 2, nanos + before * 1_000_000_000);
                }
                end(self.out, start);
            }
            _ => return Err(Error::invalid_type(Unexpected::Str(text), &self)),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match self.kind {
            Kind::List(of) if self.repeats => {
                while seq
                    .next_element_seed(Slot {
                        kind: of,
                        number: self.number,
                        repeats: false,
                        out: &mut *self.out,
                    })?
                    .is_some()
                {}
                Ok(())
            }
            Kind::List(_) => self.within(1, |slot| slot.visit_seq(seq)),
            Kind::OneOf(name) => {
                let of = choice(name, |kind| matches!(kind, Kind::List(_)));
                self.chosen(of, SeqAccessDeserializer::new(seq))
            }
            _ => Err(Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        match self.kind {
            Kind::Object(name) => {
                let Some(of) = all().get(name) else { return Ok(()) };
                let start = begin(self.out, self.number);
                Message { of, out: &mut *self.out }.visit_map(map)?;
                end(self.out, start);
                Ok(())
            }
            Kind::Map(of) if self.repeats => {
                while let Some(key) = map.next_key::<String>()? {
                    let start = begin(self.out, self.number);
                    text_field(self.out, 1, &key);
                    map.next_value_seed(Slot { kind: of, number: 2, repeats: false, out: &mut *self.out })?;
                    end(self.out, start);
                }
                Ok(())
            }
            Kind::Map(_) => self.within(1, |slot| slot.visit_map(map)),
            Kind::OneOf(name) => {
                let of = choice(name, |kind| matches!(kind, Kind::Object(_)));
                self.chosen(of, MapAccessDeserializer::new(map))
            }
            _ => Err(Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}

impl Slot<'_> {
    /// Appends elements or entries as one nested message.
    fn within<E>(self, number: u32, append: impl FnOnce(Slot<'_>) -> Result<(), E>) -> Result<(), E> {
        let start = begin(self.out, self.number);
        append(Slot { kind: self.kind, number, repeats: true, out: &mut *self.out })?;
        end(self.out, start);
        Ok(())
    }

    /// Appends the value to the union field whose type matches it.
    fn chosen<'de, D: Deserializer<'de>>(
        self,
        field: Option<&'static Field>,
        deserializer: D,
    ) -> Result<(), D::Error> {
        let Some(field) = field else { return Ok(()) };
        let start = begin(self.out, self.number);
        // `JSONSchemaPropsOrBool`: Go writes `allows` too.
        if let Kind::OneOf(name) = self.kind
            && let Some(allows) = choice(name, |kind| *kind == Kind::Bool).and_then(number)
        {
            integer_field(self.out, allows, 1);
        }
        FieldValue { field, out: &mut *self.out }.deserialize(deserializer)?;
        end(self.out, start);
        Ok(())
    }
}

/// The field of a union for a value.
fn choice(name: &str, is_it: impl Fn(&Kind) -> bool) -> Option<&'static Field> {
    all().get(name)?.fields().iter().find(|field| is_it(&field.kind))
}

fn number(field: &'static Field) -> Option<u32> {
    field.numbers.last().copied()
}

/// Appends a quantity: a message that contains the text.
fn quantity(out: &mut Vec<u8>, number: u32, text: &str) {
    let start = begin(out, number);
    text_field(out, 1, text);
    end(out, start);
}
