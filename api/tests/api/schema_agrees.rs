//! Checks that the type table matches the Rust types: each type is deserialized from a recording deserializer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::rc::Rc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// All fields by type, each with its type in the notation of the table.
type Seen = Rc<RefCell<BTreeMap<&'static str, Vec<(&'static str, String)>>>>;

#[derive(Clone, Default)]
struct Probe {
    seen: Seen,
    /// The type that was requested last.
    probed: Rc<RefCell<String>>,
}

impl Probe {
    fn record(&self, kind: impl Into<String>) {
        *self.probed.borrow_mut() = kind.into();
    }
}

struct Expecting<'a, V>(&'a V);

impl<'de, V: Visitor<'de>> fmt::Display for Expecting<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match Expecting(&visitor).to_string().as_str() {
            "IntOrString" => {
                self.record("intOrString");
                visitor.visit_i64(0)
            }
            "Quantity" => visitor.visit_i64(0),
            _ => {
                self.record("any");
                visitor.visit_unit()
            }
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.record("bool");
        visitor.visit_bool(false)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.record("int32");
        visitor.visit_i32(0)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.record("int64");
        visitor.visit_i64(0)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let expecting = Expecting(&visitor).to_string();
        self.record(if expecting.contains("base64") { "bytes" } else { "string" });
        // Times are requested as strings. This value is a string and a time, but not base64, which is handled above.
        visitor.visit_str(if expecting.contains("base64") { "" } else { "2026-01-01T00:00:00Z" })
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let probed = Rc::clone(&self.probed);
        let value = visitor.visit_newtype_struct(self)?;
        match name {
            "Quantity" => *probed.borrow_mut() = "quantity".to_owned(),
            "Time" | "MicroTime" => *probed.borrow_mut() = "time".to_owned(),
            _ => {}
        }
        Ok(value)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let probed = Rc::clone(&self.probed);
        let value = visitor.visit_seq(Once { probe: Some(self) })?;
        let of = probed.take();
        *probed.borrow_mut() = format!("[]{of}");
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let probed = Rc::clone(&self.probed);
        let value = visitor.visit_map(Once { probe: Some(self) })?;
        let of = probed.take();
        *probed.borrow_mut() = format!("map {of}");
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (seen, probed) = (Rc::clone(&self.seen), Rc::clone(&self.probed));
        let mut field_visitor = Fields { probe: self, fields: fields.iter(), kinds: Vec::new() };
        let value = visitor.visit_map(&mut field_visitor)?;
        let mut kinds = field_visitor.kinds;
        kinds.sort();
        let before = seen.borrow_mut().insert(name, kinds.clone());
        assert!(before.is_none_or(|before| before == kinds), "two types are called {name}");
        *probed.borrow_mut() = name.to_owned();
        Ok(value)
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum
        identifier ignored_any
    }
}

/// A list or map with one element.
struct Once {
    probe: Option<Probe>,
}

impl<'de> SeqAccess<'de> for Once {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.probe.take().map(|probe| seed.deserialize(probe)).transpose()
    }
}

impl<'de> MapAccess<'de> for Once {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let key: StrDeserializer<'_, Error> = "key".into_deserializer();
        self.probe.as_ref().map(|_| seed.deserialize(key)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.probe.take().unwrap())
    }
}

/// A struct with all its fields.
struct Fields {
    probe: Probe,
    fields: std::slice::Iter<'static, &'static str>,
    kinds: Vec<(&'static str, String)>,
}

impl<'de> MapAccess<'de> for &mut Fields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(field) = self.fields.next() else { return Ok(None) };
        // Top-level types accept only their own `apiVersion` and `kind`.
        if matches!(*field, "apiVersion" | "kind") {
            self.kinds.push((field, "string".to_owned()));
            return self.next_key_seed(seed);
        }
        self.kinds.push((field, String::new()));
        let key: StrDeserializer<'_, Error> = (*field).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (field, kind) = self.kinds.last_mut().unwrap();
        self.probe.record("");
        let value = seed.deserialize(self.probe.clone())?;
        *kind = self.probe.probed.take();
        assert!(!kind.is_empty(), "{field} was asked for in no known way");
        Ok(value)
    }
}

#[test]
fn the_table_agrees_with_the_types() {
    let probe = Probe::default();
    Pod::deserialize(probe.clone()).unwrap();
    ConfigMap::deserialize(probe.clone()).unwrap();
    Secret::deserialize(probe.clone()).unwrap();
    let mut table = String::from(
        "# All types of v1 Pods, ConfigMaps and Secrets. Generated by `UPDATE=1 cargo test -p api --test api schema_agrees`.\n",
    );
    for (name, fields) in probe.seen.borrow().iter() {
        writeln!(table, "{name}").unwrap();
        for (field, kind) in fields {
            writeln!(table, "  {field} {kind}").unwrap();
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/v1.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        table == checked_in,
        "src/schema/v1.txt is stale: UPDATE=1 cargo test -p api --test api schema_agrees"
    );
}
