//! Walks an object along its schema and says everything that is wrong with it, in the words clients know.
//!
//! What an update leaves as it is was right once and is not held against it: such parts are passed over.

mod combine;
mod format;
mod list;
mod number;
mod text;
mod words;

use serde_json::Value;

pub(crate) use self::format::fits as is_of_format;
pub(super) use self::list::partners;
use self::words::{invalid, mistyped, too_many, type_of};
use super::rules;
use super::schema::{Additional, Kind, Rules, Schema};
use crate::path::Path;
use crate::strategy::{Cause, Json, Reason};

/// What is said of one object at most: more than anyone reads.
const MAX_CAUSES: usize = 100;

impl Schema {
    /// Everything that is wrong with an object, but for what an update leaves as it is.
    pub fn check(&self, object: &Json, before: Option<&Json>) -> Vec<Cause> {
        let mut walk = Walk { causes: Vec::new() };
        walk.fields(self, object, before, &Path::ROOT);
        if let Some(rules) = self.rules.as_deref().filter(|rules| rules.combines()) {
            walk.combinations(rules, &Value::Object(object.clone()), &Path::ROOT);
        }
        let mut causes = walk.causes;
        if self.is_judged {
            causes.extend(self.judged(object, before, &causes));
        }
        causes
    }

    /// What its expressions say, unless so much is wrong already that they would stumble over it.
    fn judged(&self, object: &Json, before: Option<&Json>, causes: &[Cause]) -> Vec<Cause> {
        use Reason::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocks =
            |cause: &Cause| matches!(cause.reason, NotSupported | Required | TooLong | TooMany | TypeInvalid);
        if causes.iter().any(blocks) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            return vec![Cause::invalid("<nil>", "null", why)];
        }
        let before = before.map(|before| Value::Object(before.clone()));
        rules::judge(self, &Value::Object(object.clone()), before.as_ref())
    }

    /// Everything that is wrong with a value that stands at `path`.
    pub(super) fn check_value(&self, value: &Value, path: &Path<'_>) -> Vec<Cause> {
        let mut walk = Walk { causes: Vec::new() };
        walk.value(self, value, None, path);
        walk.causes
    }
}

pub(super) struct Walk {
    causes: Vec<Cause>,
}

impl Walk {
    fn add(&mut self, cause: Cause) {
        if self.causes.len() < MAX_CAUSES {
            self.causes.push(cause);
        }
    }

    fn value(&mut self, schema: &Schema, value: &Value, before: Option<&Value>, path: &Path<'_>) {
        if before == Some(value) || self.causes.len() >= MAX_CAUSES {
            return;
        }
        if value.is_null() && schema.nullable {
            return;
        }
        if !schema.kind.takes(value) {
            let name = path.to_owned().to_string();
            self.add(mistyped(&name, schema.kind.word(), type_of(value)));
            return;
        }
        match value {
            Value::Object(fields) => {
                self.fields(schema, fields, before.and_then(Value::as_object), path);
            }
            Value::Array(elements) => {
                self.list(schema, elements, before.and_then(Value::as_array), path);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        let Some(rules) = schema.rules.as_deref() else { return };
        match value {
            Value::String(text) => self.text(rules, text, path),
            Value::Number(number) => self.number(rules, schema.kind, number, path),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
        }
        if let Some(values) = rules.values.as_deref().filter(|values| !values.contains(value)) {
            self.add(words::not_supported(&path.to_owned().to_string(), value, values));
        }
        self.combinations(rules, value, path);
    }

    fn fields(&mut self, schema: &Schema, fields: &Json, before: Option<&Json>, path: &Path<'_>) {
        if let Some(rules) = schema.rules.as_deref() {
            self.field_rules(rules, fields, path);
        }
        if schema.is_embedded && path.is_inside() {
            for name in ["apiVersion", "kind"] {
                if fields.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
                    self.add(Cause::required(path.field(name).to_owned().to_string(), "must not be empty"));
                }
            }
        }
        for (name, value) in fields {
            let of = match (schema.property(name), &schema.additional) {
                (Some(property), _) => property,
                (None, Additional::Schema(values)) if !schema.is_meta(name) => values,
                (None, _) => continue,
            };
            self.value(of, value, before.and_then(|before| before.get(name)), &path.field(name));
        }
    }

    fn field_rules(&mut self, rules: &Rules, fields: &Json, path: &Path<'_>) {
        for name in &rules.required {
            if !fields.contains_key(&**name) {
                self.add(Cause::required(path.field(name).to_owned().to_string(), ""));
            }
        }
        let count = fields.len() as u64;
        let name = || path.to_owned().to_string();
        if let Some(most) = rules.properties.most.filter(|most| count > *most) {
            self.add(too_many(&name(), count, most));
        }
        if let Some(least) = rules.properties.least.filter(|least| count < *least) {
            let what = format!("should have at least {least} properties");
            self.add(invalid(&name(), &Value::from(count), &what));
        }
    }
}

impl Kind {
    /// True when a value is of this type.
    fn takes(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Integer => number::is_whole(value),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::IntOrString => value.is_string() || number::is_whole(value),
        }
    }
}

impl Rules {
    fn combines(&self) -> bool {
        !(self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() && self.not.is_none())
    }
}

/// A cause that takes nothing of the value into its words.
fn plain(field: &str, reason: Reason, message: String) -> Cause {
    Cause { field: field.to_owned(), reason, message }
}
