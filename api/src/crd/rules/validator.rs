//! Evaluates the CEL rules of a schema on an object, with the error messages of the stock API server.
//!
//! Transition rules, which use `oldSelf`, are evaluated on every update; other rules only on values that changed. All
//! rules share one cost budget.

use cel::{Bindings, Budget, Error, Value};
use serde_json::Value as Json;

use super::Rule;
use super::values::value_of;
use crate::crd::check::correlated;
use crate::crd::schema::{Additional, Schema};
use crate::expressions::{self, OBJECT_COST_BUDGET};
use crate::path::Path;
use crate::strategy::Cause;

/// Limit for the errors that are reported for one object.
const MAX_CAUSES: usize = 100;

/// Evaluates all rules and returns the errors.
pub(in crate::crd) fn validate(schema: &Schema, object: &Json, before: Option<&Json>) -> Vec<Cause> {
    let mut validator =
        Validator { budget: Budget::of(OBJECT_COST_BUDGET), causes: Vec::new(), is_over: false };
    let context = Context { before, is_same: false, is_resource: true };
    validator.node(schema, object, context, &Path::ROOT);
    validator.causes
}

/// The old value that corresponds to a new value, and where the new value is in the object.
#[derive(Clone, Copy)]
struct Context<'v> {
    /// The old value, if it can be correlated.
    before: Option<&'v Json>,
    /// True if the value is in a part of the object that did not change.
    is_same: bool,
    is_resource: bool,
}

struct Validator {
    budget: Budget,
    causes: Vec<Cause>,
    /// True if the cost budget is exhausted. No more rules are evaluated then.
    is_over: bool,
}

impl Validator {
    fn node(&mut self, schema: &Schema, value: &Json, context: Context<'_>, path: &Path<'_>) {
        if !schema.has_rules || value.is_null() || self.is_over || self.causes.len() >= MAX_CAUSES {
            return;
        }
        let context = Context { is_same: context.is_same || context.before == Some(value), ..context };
        if !schema.validations.is_empty() {
            self.rules(schema, value, context, path);
        }
        match value {
            Json::Object(fields) => {
                let before = context.before.and_then(Json::as_object).filter(|_| !schema.is_atomic);
                for (name, value) in fields {
                    let (of, path) = match (schema.property(name), &schema.additional) {
                        (Some(property), _) => (property, path.field(name)),
                        (None, Additional::Schema(values)) => (&**values, path.key(name)),
                        (None, Additional::Any | Additional::None) => continue,
                    };
                    let before = before.and_then(|before| before.get(name));
                    self.node(of, value, Context { before, is_resource: of.is_embedded, ..context }, &path);
                }
            }
            Json::Array(elements) => {
                let Some(items) = schema.items.as_deref().filter(|items| items.has_rules) else { return };
                let before = correlated(schema, elements, context.before.and_then(Json::as_array));
                for (at, (element, before)) in elements.iter().zip(before).enumerate() {
                    let context = Context { before, is_resource: items.is_embedded, ..context };
                    self.node(items, element, context, &path.index(at));
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    fn rules(&mut self, schema: &Schema, value: &Json, context: Context<'_>, path: &Path<'_>) {
        let is_due = |rule: &&Rule| {
            if rule.uses_old_self {
                context.before.is_some() || rule.optional_old_self
            } else {
                !context.is_same
            }
        };
        if !schema.validations.iter().any(|rule| is_due(&rule)) {
            return;
        }
        let bound = Bindings::default().with("self", value_of(schema, value, context.is_resource));
        let old = context.before.filter(|before| !before.is_null());
        let old = old.map(|before| value_of(schema, before, context.is_resource));
        for rule in schema.validations.iter().filter(is_due) {
            let old = match (rule.optional_old_self, &old) {
                (true, old) => Value::Optional(old.clone().map(std::sync::Arc::new)),
                (false, Some(old)) => old.clone(),
                (false, None) if rule.uses_old_self => continue,
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

    /// The message for a rule that failed.
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
