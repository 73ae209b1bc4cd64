//! Tries every rule of a schema on an object, in the words clients know.
//!
//! Rules about the old value alone hold what does not change against an update. All of them share one budget.

use cel::{Bindings, Budget, Error, Value};
use serde_json::Value as Json;

use super::Rule;
use super::values::value_of;
use crate::crd::check::partners;
use crate::crd::schema::{Additional, Schema};
use crate::expressions::{self, STEPS_AN_OBJECT};
use crate::path::Path;
use crate::strategy::Cause;

/// What is said of one object at most: more than anyone reads.
const MAX_CAUSES: usize = 100;

/// Everything that the rules say against an object.
pub(in crate::crd) fn judge(schema: &Schema, object: &Json, before: Option<&Json>) -> Vec<Cause> {
    let mut judge = Judge { budget: Budget::of(STEPS_AN_OBJECT), causes: Vec::new(), is_over: false };
    let place = Place { before, is_same: false, is_resource: true };
    judge.node(schema, object, place, &Path::ROOT);
    judge.causes
}

/// What is known of a value beside itself.
#[derive(Clone, Copy)]
struct Place<'v> {
    /// The value it replaces, where that can be told.
    before: Option<&'v Json>,
    /// It stands in something that has not changed.
    is_same: bool,
    is_resource: bool,
}

struct Judge {
    budget: Budget,
    causes: Vec<Cause>,
    /// No further rule is run.
    is_over: bool,
}

impl Judge {
    fn node(&mut self, schema: &Schema, value: &Json, place: Place<'_>, path: &Path<'_>) {
        if !schema.is_judged || value.is_null() || self.is_over || self.causes.len() >= MAX_CAUSES {
            return;
        }
        let place = Place { is_same: place.is_same || place.before == Some(value), ..place };
        if !schema.validations.is_empty() {
            self.rules(schema, value, place, path);
        }
        match value {
            Json::Object(fields) => {
                let before = place.before.and_then(Json::as_object).filter(|_| !schema.is_atomic);
                for (name, value) in fields {
                    let (of, path) = match (schema.property(name), &schema.additional) {
                        (Some(property), _) => (property, path.field(name)),
                        (None, Additional::Schema(values)) => (&**values, path.key(name)),
                        (None, Additional::Any | Additional::None) => continue,
                    };
                    let before = before.and_then(|before| before.get(name));
                    self.node(of, value, Place { before, is_resource: of.is_embedded, ..place }, &path);
                }
            }
            Json::Array(elements) => {
                let Some(items) = schema.items.as_deref().filter(|items| items.is_judged) else { return };
                let before = partners(schema, elements, place.before.and_then(Json::as_array));
                for (at, (element, before)) in elements.iter().zip(before).enumerate() {
                    let place = Place { before, is_resource: items.is_embedded, ..place };
                    self.node(items, element, place, &path.index(at));
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    fn rules(&mut self, schema: &Schema, value: &Json, place: Place<'_>, path: &Path<'_>) {
        let is_due = |rule: &&Rule| {
            if rule.uses_old { place.before.is_some() || rule.takes_none } else { !place.is_same }
        };
        if !schema.validations.iter().any(|rule| is_due(&rule)) {
            return;
        }
        let bound = Bindings::default().with("self", value_of(schema, value, place.is_resource));
        let old = place.before.filter(|before| !before.is_null());
        let old = old.map(|before| value_of(schema, before, place.is_resource));
        for rule in schema.validations.iter().filter(is_due) {
            let old = match (rule.takes_none, &old) {
                (true, old) => Value::Optional(old.clone().map(std::sync::Arc::new)),
                (false, Some(old)) => old.clone(),
                (false, None) if rule.uses_old => continue,
                (false, None) => Value::Null,
            };
            let bound = bound.clone().with("oldSelf", old);
            self.rule(rule, schema, &bound, path);
            if self.is_over {
                return;
            }
        }
    }

    fn rule(&mut self, rule: &Rule, schema: &Schema, bound: &Bindings, path: &Path<'_>) {
        let here = path.to_owned();
        let kind = format!("\"{}\"", schema.kind.word());
        let shown = if rule.message.is_empty() { &rule.text } else { &rule.message };
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                let why = format!("rule compile error: {why}");
                return self.causes.push(Cause::invalid(here.to_string(), kind, &why));
            }
        };
        let why = match expressions::run(program, bound, &mut self.budget) {
            Ok(Value::Bool(true)) => return,
            Ok(_) => {
                let field = super::field_path(&rule.field, schema).unwrap_or_default().under(&here);
                let message = self.message(rule, bound);
                self.causes.push(refused(rule, field.to_string(), &kind, &message));
                return;
            }
            Err(Error::OutOfBudget) => {
                self.is_over = true;
                format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}",
                    Error::OutOfBudget
                )
            }
            Err(error @ Error::NoSuchOverload(_)) => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
            ),
            Err(error) => format!("{error} evaluating rule: {shown}"),
        };
        self.causes.push(Cause::invalid(here.to_string(), kind, &why));
    }

    /// What is told of a rule that is broken.
    fn message(&mut self, rule: &Rule, bound: &Bindings) -> String {
        let program = rule.message_program.as_ref();
        let made = program.and_then(|program| expressions::run(program, bound, &mut self.budget).ok());
        expressions::message(made, &rule.message, || format!("failed rule: {}", rule.text))
    }
}

fn refused(rule: &Rule, field: String, kind: &str, message: &str) -> Cause {
    match &*rule.reason {
        "FieldValueForbidden" => Cause::forbidden(field, message),
        "FieldValueRequired" => Cause::required(field, message),
        "FieldValueDuplicate" => Cause::duplicate(field, kind),
        _ => Cause::invalid(field, kind, message),
    }
}
