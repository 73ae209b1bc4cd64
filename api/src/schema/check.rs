//! Walks a value along its type: every unknown field and every wrong type at once, and small repairs on the way.

use serde_json::{Map, Value};

use super::suggest;
use super::types::{Kind, Schema, Type};
use super::{scalar, types};
use crate::fault::{Aim, Faults};
use crate::path::Path;

/// Checks that `value` is what `of` says, and notes everything that is not. Repairs what the API takes differently from
/// the typed objects: `null` means absent, an amount may be a bare number, base64 may be broken into lines. What is
/// wrong is taken out, so that the rest can still be read.
pub fn check(schema: &'static Schema, of: &Kind, value: &mut Value, path: &Path<'_>, faults: &mut Faults) {
    Walk { schema, faults }.value(of, value, path, None);
}

struct Walk<'f> {
    schema: &'static Schema,
    faults: &'f mut Faults,
}

/// The types around a field, innermost first, to tell where a misplaced field belongs.
struct Around<'a> {
    of: &'static Type,
    outer: Option<&'a Around<'a>>,
}

impl Walk<'_> {
    fn value(&mut self, of: &Kind, value: &mut Value, path: &Path<'_>, around: Option<&Around<'_>>) {
        match (of, &mut *value) {
            (Kind::Any | Kind::OneOf(_), _) => {}
            (Kind::Object(name), Value::Object(fields)) => {
                if let Some(of) = self.schema.get(name) {
                    self.fields(of, fields, path, around);
                }
            }
            (Kind::List(of), Value::Array(elements)) => {
                for (index, element) in elements.iter_mut().enumerate() {
                    self.value(of, element, &path.index(index), around);
                }
                elements.retain(|element| !element.is_null());
            }
            (Kind::Map(of), Value::Object(entries)) => {
                remove_nulls(entries);
                for (key, entry) in entries.iter_mut() {
                    self.value(of, entry, &path.key(key), around);
                }
                remove_nulls(entries);
            }
            (Kind::Object(_) | Kind::List(_) | Kind::Map(_), found) => {
                let (what, remedy) = mismatch(of, found);
                self.faults.add(path, what, remedy);
                *value = Value::Null;
            }
            (scalar, _) => scalar::check(scalar, value, path, self.faults),
        }
    }

    fn fields(
        &mut self,
        of: &'static Type,
        fields: &mut Map<String, Value>,
        path: &Path<'_>,
        outer: Option<&Around<'_>>,
    ) {
        remove_nulls(fields);
        let around = Around { of, outer };
        for (name, value) in fields.iter_mut() {
            let here = path.field(name);
            match of.field(name) {
                Some(kind) => self.value(kind, value, &here, Some(&around)),
                None => {
                    let what = format!("unknown field `{name}`");
                    let remedy = self.remedy_for_unknown(name, &around);
                    self.faults.aim(&here, Aim::Name, what, remedy);
                    *value = Value::Null;
                }
            }
        }
        remove_nulls(fields);
    }

    fn remedy_for_unknown(&self, name: &str, around: &Around<'_>) -> String {
        if self.faults.are_full() {
            return String::new();
        }
        if let Some(near) = suggest::nearest(name, around.of.fields.iter().map(|(field, _)| *field)) {
            return format!("did you mean `{near}`?");
        }
        let mut outer = around.outer;
        while let Some(Around { of, outer: next }) = outer {
            if of.field(name).is_some() {
                return format!("move it out: `{name}` is a field of {}", described(of.name));
            }
            outer = *next;
        }
        let inner = around.of.fields.iter().find_map(|(field, kind)| {
            let of = self.schema.get(kind.object()?)?;
            of.field(name).map(|_| field)
        });
        if let Some(field) = inner {
            return format!("move it in: `{name}` is a field of `{field}`");
        }
        let known: Vec<&str> = around.of.fields.iter().map(|(field, _)| *field).collect();
        format!("remove it, or write one of {}", known.join(", "))
    }
}

/// In the API `null` and absence are one.
fn remove_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
}

/// `what` and `remedy` for a value that is not the list, map or object it should be.
fn mismatch(of: &Kind, found: &Value) -> (String, String) {
    let what = format!("expected {}, found {}", of.described(), scalar::described(found));
    let remedy = match (of, found) {
        (Kind::List(_), Value::Object(_)) => "start each element with `- `",
        (Kind::List(_), Value::Array(_)) => "write a list",
        (Kind::List(_), _) => "write a list, even of one: `[...]`, or a line that starts with `- `",
        (_, Value::Null) => "remove it, or write its fields, indented",
        (_, Value::Array(_)) => "remove the `- ` or the brackets: there is only one here",
        (Kind::Map(_), _) => "write `key: value` lines, indented",
        _ => "write its fields, indented",
    };
    (what, remedy.to_owned())
}

impl Kind {
    /// The object type this is, or is made of.
    fn object(&self) -> Option<&'static str> {
        match self {
            Self::Object(name) => Some(name),
            Self::List(of) | Self::Map(of) => of.object(),
            _ => None,
        }
    }

    /// One of it: `a list of strings`.
    pub(super) fn described(&self) -> String {
        match self {
            Self::String => "a string".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Int32 | Self::Int64 => "a whole number".to_owned(),
            Self::Double => "a number".to_owned(),
            Self::IntOrString => "a whole number or a string".to_owned(),
            Self::Quantity => "an amount".to_owned(),
            Self::Time | Self::MicroTime => "a time".to_owned(),
            Self::Bytes => "a string in base64".to_owned(),
            Self::Any | Self::OneOf(_) => "anything".to_owned(),
            Self::Object(name) => described(name),
            Self::List(of) => format!("a list of {}", of.several()),
            Self::Map(of) => format!("a map of {}", of.several()),
        }
    }

    fn several(&self) -> String {
        match self {
            Self::String => "strings".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Int32 | Self::Int64 => "whole numbers".to_owned(),
            Self::Double => "numbers".to_owned(),
            Self::IntOrString => "whole numbers or strings".to_owned(),
            Self::Quantity => "amounts".to_owned(),
            Self::Time | Self::MicroTime => "times".to_owned(),
            Self::Bytes => "strings in base64".to_owned(),
            Self::Any | Self::OneOf(_) => "anything".to_owned(),
            Self::Object(name) => format!("{name} objects"),
            Self::List(_) => "lists".to_owned(),
            Self::Map(_) => "maps".to_owned(),
        }
    }
}

fn described(type_name: &str) -> String {
    let article = if type_name.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
    format!("{article} {type_name}")
}

/// Checks a value of the v1 type `name`.
pub(crate) fn v1_object(name: &'static str, value: &mut Value, path: &Path<'_>, faults: &mut Faults) {
    check(types::v1(), &Kind::Object(name), value, path, faults);
}
