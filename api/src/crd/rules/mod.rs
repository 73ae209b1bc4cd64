//! Rules of a schema (`x-kubernetes-validations`): expressions over the value they stand at, compiled once.

mod field_path;
mod judge;
mod names;
mod types;
mod values;

use cel::{CompileError, Environment, Program, Type};
use serde_json::Value;

pub(super) use self::field_path::field_path;
pub(super) use self::judge::judge;
pub(super) use self::types::type_of;
use super::schema::{Additional, Schema};
use crate::expressions;

/// A rule, ready to run.
#[derive(Debug)]
pub(super) struct Rule {
    text: Box<str>,
    /// Ready to run, or why it is not.
    program: Result<Program, String>,
    message: Box<str>,
    message_program: Option<Program>,
    reason: Box<str>,
    field: Box<str>,
    /// `oldSelf` is an optional, and the rule runs without an old value too.
    takes_none: bool,
    pub uses_old: bool,
}

/// What is wrong with a rule, and with which of its fields.
pub(super) struct Refusal {
    pub field: &'static str,
    pub why: String,
}

impl Rule {
    /// Compiles a rule for values of that type.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(rule: &Value, of: &Type) -> Result<Self, Refusal> {
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default().trim();
        let takes_none = rule.get("optionalOldSelf").is_some_and(|flag| *flag == true);
        let old = if takes_none { Type::optional(of.clone()) } else { of.clone() };
        let environment = expressions::environment().with("self", of.clone()).with("oldSelf", old);
        let program = compile(text("rule"), &environment)
            .map_err(|error| Refusal { field: "rule", why: format!("compilation failed: {error}") })?;
        if !matches!(program.gives(), Type::Bool | Type::Dyn) {
            return Err(Refusal { field: "rule", why: "cel expression must evaluate to a bool".to_owned() });
        }
        let wrong = |why: String| Refusal { field: "messageExpression", why };
        let message_program = match text("messageExpression") {
            "" => None,
            text => Some(
                compile(text, &environment)
                    .map_err(|error| wrong(format!("messageExpression compilation failed: {error}")))?,
            ),
        };
        let is_text = |program: &Program| matches!(program.gives(), Type::String | Type::Dyn);
        if !message_program.as_ref().is_none_or(is_text) {
            return Err(wrong("messageExpression must evaluate to a string".to_owned()));
        }
        Ok(Self {
            uses_old: program.names("oldSelf"),
            program: Ok(program),
            message_program,
            takes_none,
            ..Self::broken(rule, String::new())
        })
    }

    /// A rule that cannot be tried: whatever it is for is refused until it is mended.
    fn broken(rule: &Value, why: String) -> Self {
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default().trim();
        Self {
            text: text("rule").into(),
            program: Err(why),
            message: text("message").into(),
            message_program: None,
            reason: text("reason").into(),
            field: text("fieldPath").into(),
            takes_none: false,
            uses_old: false,
        }
    }
}

fn compile(text: &str, environment: &Environment) -> Result<Program, CompileError> {
    Program::compile(text, environment)
}

impl Schema {
    /// Makes every rule ready that stands in this schema. One that does not compile was stored by a server with other rules.
    pub(super) fn with_rules(mut self, json: &Value) -> Self {
        attach(&mut self, json, true);
        self
    }
}

/// Puts the rules of a part where they stand; true when there are any, here or below.
fn attach(schema: &mut Schema, json: &Value, is_resource: bool) -> bool {
    let below = |keyword: &str| json.get(keyword).unwrap_or(&Value::Null);
    let mut has_some = false;
    let texts = below("x-kubernetes-validations").as_array().map(Vec::as_slice).unwrap_or_default();
    if !texts.is_empty() {
        let of = type_of(schema, is_resource);
        let made = |rule| Rule::compile(rule, &of).unwrap_or_else(|refusal| Rule::broken(rule, refusal.why));
        schema.validations = texts.iter().map(made).collect();
        has_some = true;
    }
    for (name, property) in &mut schema.properties {
        let json = below("properties").get(&**name).unwrap_or(&Value::Null);
        let is_resource = property.is_embedded;
        has_some |= attach(property, json, is_resource);
    }
    if let Additional::Schema(values) = &mut schema.additional {
        let is_resource = values.is_embedded;
        has_some |= attach(values, below("additionalProperties"), is_resource);
    }
    if let Some(items) = &mut schema.items {
        let is_resource = items.is_embedded;
        has_some |= attach(items, below("items"), is_resource);
    }
    schema.is_judged = has_some;
    has_some
}
