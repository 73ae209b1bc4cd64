//! The CEL variables of a request, and the evaluation of expressions.

use std::any::Any;
use std::sync::Arc;

use api::expressions;
use api::strategy::Json;
use apiserver::Identity;
use apiserver::admission::AdmissionRequest;
use apiserver::auth::{Auth, ResourceAttributes};
use cel::{Bindings, Budget, Error, Key, Opaque, Value};

use super::authorizer::Authorizer;
use super::compiled::{Compiled, Policy};

/// The variables that do not depend on the policy.
pub struct Input {
    bindings: Bindings,
}

/// The evaluated variables of the policy. Each expression that uses a failed variable fails too.
#[derive(Clone, Debug, Default)]
struct Variables {
    all: Vec<(String, Result<Value, Error>)>,
    /// The largest nesting depth of the values.
    below: usize,
}

impl Variables {
    fn add(&mut self, name: &str, value: Result<Value, Error>) {
        self.below = self.below.max(value.as_ref().map_or(0, Value::depth));
        self.all.push((name.to_owned(), value));
    }
}

impl Opaque for Variables {
    fn type_name(&self) -> &'static str {
        "kubernetes.variables"
    }

    fn equals(&self, _other: &dyn Opaque) -> bool {
        false
    }

    fn depth(&self) -> usize {
        self.below + 1
    }

    fn field(&self, name: &str) -> Option<Result<Value, Error>> {
        self.all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Input {
    /// The variables of a request in this namespace.
    pub fn of(
        attempt: &AdmissionRequest<'_>,
        namespace: Option<&serde_json::Value>,
        auth: &Arc<Auth>,
    ) -> Self {
        let on = ResourceAttributes {
            group: attempt.resource.group.to_string(),
            version: attempt.resource.version.to_string(),
            resource: attempt.resource.plural.to_string(),
            subresource: attempt.subresource.unwrap_or_default().to_owned(),
            name: attempt.name.to_owned(),
            namespace: attempt.namespace.unwrap_or_default().to_owned(),
            ..ResourceAttributes::default()
        };
        let question = Authorizer::new(auth.clone(), attempt.user.clone(), on);
        let bindings = Bindings::default()
            .with("object", whole(Some(&attempt.object), attempt.managed_fields.0))
            .with("oldObject", whole(attempt.old, attempt.managed_fields.1))
            .with("namespaceObject", namespace.map_or(Value::Null, Value::from))
            .with("request", request(attempt))
            .with("authorizer", Value::opaque(question));
        Self { bindings }
    }

    /// The variables of a policy with these parameters. `None` if a match condition is false.
    ///
    /// # Errors
    /// If the evaluation of a match condition returns an error.
    pub fn bindings_for(
        &self,
        policy: &Policy,
        params: &Value,
        budget: &mut Budget,
    ) -> Result<Option<Bindings>, String> {
        let bindings = self.bindings.clone().with("params", params.clone());
        let mut wrong = None;
        for (name, condition) in &policy.conditions {
            match run(condition, &bindings, budget) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Ok(None),
                Err(error) => wrong = wrong.or(Some(format!("matchCondition '{name}' failed: {error}"))),
            }
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        Ok(Some(with_variables(policy, bindings, budget)))
    }
}

/// Evaluates the policy's variables in order, and adds them.
fn with_variables(policy: &Policy, bindings: Bindings, budget: &mut Budget) -> Bindings {
    let mut variables = Variables::default();
    for (name, program) in &policy.variables {
        let bound = bindings.clone().with("variables", Value::opaque(variables.clone()));
        variables.add(name, run(program, &bound, budget));
    }
    bindings.with("variables", Value::opaque(variables))
}

/// The variables after a mutation.
pub fn changed(policy: &Policy, bindings: &Bindings, new: &Json, budget: &mut Budget) -> Bindings {
    with_variables(policy, bindings.clone().with("object", object(Some(new))), budget)
}

/// Evaluates an expression within the cost budget.
///
/// # Errors
/// If the expression cannot be compiled or evaluated.
pub fn run(compiled: &Compiled, bindings: &Bindings, budget: &mut Budget) -> Result<Value, Error> {
    let program = compiled.as_ref().map_err(|why| Error::failed(why.clone()))?;
    expressions::run(program, bindings, budget)
}

/// Returns an object with its `managedFields`, which are stored separately.
fn whole(of: Option<&Json>, record: &[u8]) -> Value {
    let Ok(record) = serde_json::from_slice(record) else { return object(of) };
    let mut with_record = of.cloned().unwrap_or_default();
    if let Some(metadata) = with_record.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), record);
    }
    object(Some(&with_record))
}

fn object(object: Option<&Json>) -> Value {
    object.filter(|object| !object.is_empty()).map_or(Value::Null, Value::from)
}

/// The variable `request`: the admission request as webhooks get it, without the objects.
fn request(attempt: &AdmissionRequest<'_>) -> Value {
    let resource = attempt.resource;
    let text = |text: &str| Value::from(text);
    let kind = Value::object([
        ("group", text(&resource.group)),
        ("version", text(&resource.version)),
        ("kind", text(&resource.kind)),
    ]);
    let of = Value::object([
        ("group", text(&resource.group)),
        ("version", text(&resource.version)),
        ("resource", text(&resource.plural)),
    ]);
    let mut fields = vec![
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", of.clone()),
        ("requestResource", of),
        ("name", text(attempt.name)),
        ("operation", text(attempt.operation.as_str())),
        ("userInfo", user(attempt.user)),
        ("dryRun", Value::Bool(attempt.dry_run)),
    ];
    fields.extend(attempt.namespace.map(|namespace| ("namespace", text(namespace))));
    if let Some(part) = attempt.subresource {
        fields.extend([("subResource", text(part)), ("requestSubResource", text(part))]);
    }
    Value::object(fields)
}

fn user(user: &Identity) -> Value {
    let texts = |texts: &[String]| Value::list(texts.iter().map(|text| Value::from(text.as_str())).collect());
    let extra = user.extra.iter().map(|(name, values)| (Key::from(name.as_str()), texts(values)));
    Value::object([
        ("username", Value::from(user.user.as_str())),
        ("uid", Value::from(user.uid.as_str())),
        ("groups", texts(&user.groups)),
        ("extra", Value::map(extra)),
    ])
}
