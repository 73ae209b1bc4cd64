//! Checks a value against its type, and reports all unknown fields and wrong types.

use serde_json::{Map, Value};

use super::types::{Kind, Schema, Type};
use super::{scalar, types};
use crate::field_error::{FieldErrors, Target};
use crate::path::Path;

/// Checks that `value` has the type `of`, and reports all errors. It also normalizes alternative forms: `null`
/// becomes absent, a number becomes a quantity, and base64 loses its line breaks. Invalid values are removed, so
/// that the rest can be deserialized.
pub fn check(
    schema: &'static Schema,
    of: &Kind,
    value: &mut Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    Walk { schema, errors }.value(of, value, path, None);
}

struct Walk<'f> {
    schema: &'static Schema,
    errors: &'f mut FieldErrors,
}

/// The types that enclose a field, innermost first. They serve to find where a misplaced field belongs.
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
                self.errors.add(path, what, remedy);
                *value = Value::Null;
            }
            (scalar, _) => scalar::check(scalar, value, path, self.errors),
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
                    self.errors.add_at(&here, Target::Name, what, remedy);
                    *value = Value::Null;
                }
            }
        }
        remove_nulls(fields);
    }

    fn remedy_for_unknown(&self, name: &str, around: &Around<'_>) -> String {
        if self.errors.is_full() {
            return String::new();
        }
        if let Some((.., field)) =
            OTHER_NAMES.iter().find(|(of, wrong, _)| (*of, *wrong) == (around.of.name, name))
        {
            return format!("write `{field}`");
        }
        if let Some(near) = nearest(name, around.of.fields.iter().map(|(field, _)| *field)) {
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

/// Fields that similar types name differently: the type, the wrong name, and the right name.
const OTHER_NAMES: &[(&str, &str, &str)] = &[
    ("SecretVolumeSource", "name", "secretName"),
    ("SecretProjection", "secretName", "name"),
    ("ConfigMapVolumeSource", "configMapName", "name"),
    ("ConfigMapProjection", "configMapName", "name"),
    ("PersistentVolumeClaimVolumeSource", "name", "claimName"),
    ("PersistentVolumeClaimVolumeSource", "persistentVolumeClaimName", "claimName"),
];

/// Removes `null` fields, because `null` means absent.
fn remove_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
}

/// The message and remedy for a value that is not the expected list, map or object.
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
    /// The object type, or the object type of the elements.
    fn object(&self) -> Option<&'static str> {
        match self {
            Self::Object(name) => Some(name),
            Self::List(of) | Self::Map(of) => of.object(),
            _ => None,
        }
    }

    /// Returns the noun for messages, such as `a list of strings`.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::String => "a string".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Int32 | Self::Int64 => "a whole number".to_owned(),
            Self::Double => "a number".to_owned(),
            Self::IntOrString => "a whole number or a string".to_owned(),
            Self::Quantity => "a quantity".to_owned(),
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
            Self::Quantity => "quantities".to_owned(),
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
pub(crate) fn v1_object(name: &'static str, value: &mut Value, path: &Path<'_>, errors: &mut FieldErrors) {
    check(types::v1(), &Kind::Object(name), value, path, errors);
}

/// Returns the candidate that is most similar to `name`; `None` if none is similar enough.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    candidates
        .filter_map(|candidate| {
            let known = folded(candidate);
            let distance = strsim::damerau_levenshtein(&wanted, &known);
            let longest = wanted.chars().count().max(known.chars().count());
            // Up to a third of the letters may differ. A plural or a prefix of a long name is accepted too.
            let extends = longest >= 5 && (known.starts_with(&wanted) || wanted.starts_with(&known));
            let near = distance * 3 <= longest || (extends && distance <= 4);
            near.then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the name in lower case without `_` and `-`, so that `host_path` matches `hostPath`.
fn folded(name: &str) -> String {
    // Limit the length, so that the comparison stays fast.
    name.chars().filter(|c| !matches!(c, '_' | '-')).take(64).flat_map(char::to_lowercase).collect()
}
