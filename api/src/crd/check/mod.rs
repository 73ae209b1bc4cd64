//! Validates custom resources against their schema, with the error messages of the stock API server.
//!
//! Values that an update does not change are not validated (ratcheting).

mod combine;
mod list;
mod messages;
mod number;

use serde_json::Value;

pub(super) use self::list::correlated;
use self::messages::{invalid, mistyped, mistyped_value, too_long, too_many, type_of};
use super::rules;
use super::schema::{Additional, Kind, Schema, ValueValidation};
use crate::path::Path;
use crate::strategy::{Cause, Json, Reason};
use crate::string_format;

/// Limit for the errors that are reported for one object.
const MAX_CAUSES: usize = 100;

impl Schema {
    /// Validates an object and returns all errors. Values that are equal in `before` are skipped.
    pub fn check(&self, object: &Json, before: Option<&Json>) -> Vec<Cause> {
        let mut walk = Walk { causes: Vec::new() };
        walk.fields(self, object, before, &Path::ROOT);
        if let Some(rules) = self.rules.as_deref().filter(|rules| rules.combines()) {
            walk.combinations(rules, &Value::Object(object.clone()), &Path::ROOT);
        }
        let mut causes = walk.causes;
        if self.has_rules {
            causes.extend(self.check_rules(object, before, &causes));
        }
        causes
    }

    /// Runs the CEL rules, unless there are errors that would make their evaluation fail.
    fn check_rules(&self, object: &Json, before: Option<&Json>, causes: &[Cause]) -> Vec<Cause> {
        use Reason::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocks =
            |cause: &Cause| matches!(cause.reason, NotSupported | Required | TooLong | TooMany | TypeInvalid);
        if causes.iter().any(blocks) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            return vec![Cause::invalid("<nil>", "null", why)];
        }
        let before = before.map(|before| Value::Object(before.clone()));
        rules::validate(self, &Value::Object(object.clone()), before.as_ref())
    }

    /// Validates a value at `path`.
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
            self.add(messages::not_supported(&path.to_owned().to_string(), value, values));
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

    fn field_rules(&mut self, rules: &ValueValidation, fields: &Json, path: &Path<'_>) {
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

    fn text(&mut self, rules: &ValueValidation, text: &str, path: &Path<'_>) {
        let name = || path.to_owned().to_string();
        if rules.length.least.is_some() || rules.length.most.is_some() {
            let length = text.chars().count() as u64;
            if let Some(most) = rules.length.most.filter(|most| length > *most) {
                self.add(too_long(&name(), most));
            }
            if let Some(least) = rules.length.least.filter(|least| length < *least) {
                let what = format!("should be at least {least} chars long");
                self.add(invalid(&name(), &Value::from(text), &what));
            }
        }
        if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
            self.add(invalid(&name(), &Value::from(text), &format!("should match '{}'", pattern.text)));
        }
        if let Some(format) = rules.format.as_deref().filter(|format| !string_format::fits(format, text)) {
            self.add(mistyped_value(&name(), format, text));
        }
    }
}

impl Kind {
    /// True if a value is of this type.
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

impl ValueValidation {
    fn combines(&self) -> bool {
        !(self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() && self.not.is_none())
    }
}

/// Returns an error whose message does not contain the value.
fn plain(field: &str, reason: Reason, message: String) -> Cause {
    Cause { field: field.to_owned(), reason, message }
}
