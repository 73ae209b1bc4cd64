//! CEL validation rules of a schema (`x-kubernetes-validations`), compiled once.

mod cost;
mod types;
mod validator;
mod values;

use cel::{CompileError, Environment, Program, Type};
use serde_json::Value;

use super::schema::{Additional, Schema};
use crate::expressions;
use crate::path::{OwnedStep, PathBuf};

pub(super) use self::cost::{Cardinality, MAX_EXPRESSION_COST, MAX_SCHEMA_COST, excess, size_estimate_of};
pub(super) use self::types::type_of;
pub(super) use self::validator::validate;

/// A rule of `x-kubernetes-validations`, compiled.
#[derive(Debug)]
pub(super) struct Rule {
    text: Box<str>,
    /// The program, or the compile error.
    program: Result<Program, String>,
    message: Box<str>,
    message_program: Option<Program>,
    reason: Box<str>,
    field: Box<str>,
    /// `optionalOldSelf`: `oldSelf` is an optional, and the rule is also evaluated without an old value.
    optional_old_self: bool,
    pub uses_old_self: bool,
}

/// An invalid rule: the field of the rule and the error.
pub(super) struct RuleError {
    pub field: &'static str,
    pub why: String,
}

impl Rule {
    /// Compiles a rule for values of the type `of`.
    ///
    /// # Errors
    /// If a field of the rule is invalid. The error names it.
    pub fn compile(rule: &Value, of: &Type) -> Result<Self, RuleError> {
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default().trim();
        let optional_old_self = rule.get("optionalOldSelf").is_some_and(|flag| *flag == true);
        let old = if optional_old_self { Type::optional(of.clone()) } else { of.clone() };
        let environment = expressions::environment().with("self", of.clone()).with("oldSelf", old);
        let program = compile(text("rule"), &environment)
            .map_err(|error| RuleError { field: "rule", why: format!("compilation failed: {error}") })?;
        if !matches!(program.returns(), Type::Bool | Type::Dyn) {
            return Err(RuleError {
                field: "rule",
                why: "cel expression must evaluate to a bool".to_owned(),
            });
        }
        let wrong = |why: String| RuleError { field: "messageExpression", why };
        let message_program = match text("messageExpression") {
            "" => None,
            text => Some(
                compile(text, &environment)
                    .map_err(|error| wrong(format!("messageExpression compilation failed: {error}")))?,
            ),
        };
        let is_text = |program: &Program| matches!(program.returns(), Type::String | Type::Dyn);
        if !message_program.as_ref().is_none_or(is_text) {
            return Err(wrong("messageExpression must evaluate to a string".to_owned()));
        }
        Ok(Self {
            uses_old_self: program.names("oldSelf"),
            program: Ok(program),
            message_program,
            optional_old_self,
            ..Self::broken(rule, String::new())
        })
    }

    /// Creates a rule that does not compile. It rejects every value until the definition is corrected.
    fn broken(rule: &Value, why: String) -> Self {
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default().trim();
        Self {
            text: text("rule").into(),
            program: Err(why),
            message: text("message").into(),
            message_program: None,
            reason: text("reason").into(),
            field: text("fieldPath").into(),
            optional_old_self: false,
            uses_old_self: false,
        }
    }
}

fn compile(text: &str, environment: &Environment) -> Result<Program, CompileError> {
    Program::compile(text, environment)
}

impl Schema {
    /// Compiles all rules in this schema. A stored rule can fail to compile if another server, with other CEL
    /// functions, accepted it.
    pub(super) fn with_rules(mut self, json: &Value) -> Self {
        attach(&mut self, json, true);
        self
    }
}

/// Attaches the rules to a schema and the schemas below it. Returns true if there are any.
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
    schema.has_rules = has_some;
    has_some
}

/// Parses a path to a field in a value of the type `schema`.
///
/// # Errors
/// If the path is malformed or leads to no field of the schema.
pub(in crate::crd) fn field_path(text: &str, schema: &Schema) -> Result<PathBuf, String> {
    let mut steps = Vec::new();
    let mut at = schema;
    let mut rest = text;
    while !rest.is_empty() {
        let name = if let Some(tail) = rest.strip_prefix("['") {
            let (name, tail) = tail.split_once("']").ok_or("expected ]")?;
            rest = tail;
            name.replace("\\'", "'")
        } else if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(['.', '[']).unwrap_or(tail.len());
            let (name, tail) = tail.split_at(end);
            rest = tail;
            name.to_owned()
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        let missing = || "does not refer to a valid field".to_owned();
        at = match (at.property(&name), &at.additional) {
            (Some(property), _) => {
                steps.push(OwnedStep::Field(name));
                property
            }
            (None, Additional::Schema(values)) if at.properties.is_empty() => {
                steps.push(OwnedStep::Key(name));
                values
            }
            (None, _) => return Err(missing()),
        };
    }
    if steps.is_empty() { Err("is empty".to_owned()) } else { Ok(PathBuf(steps)) }
}
