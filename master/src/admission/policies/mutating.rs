//! The MutatingAdmissionPolicy plugin.

use std::sync::Arc;

use api::expressions::OBJECT_COST_BUDGET;
use api::strategy::Json;
use api::{apply, patch};
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::auth::Auth;
use apiserver::registry::Registry;
use async_trait::async_trait;
use cel::{Budget, Value};
use serde_json::Value as Tree;

use super::super::pods::forbidden;
use super::compiled::{Mutation, Policy};
use super::input::{self, Input};
use super::{ActiveBinding, Policies, params};

/// Metadata that no policy may change.
const IMMUTABLE_METADATA: [&str; 8] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
];

/// The stock plugin `MutatingAdmissionPolicy`. Policies do not run again after later mutations.
pub struct MutatingAdmissionPolicy(Policies);

impl MutatingAdmissionPolicy {
    /// Creates the plugin, which applies the policies in a registry.
    pub fn new(registry: Arc<Registry>, auth: Arc<Auth>) -> Self {
        let (policies, bindings) = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");
        Self(Policies::new(registry, auth, policies, bindings))
    }

    /// Applies one active binding to the object.
    fn mutate_by(
        &self,
        attempt: &mut AdmissionRequest<'_>,
        namespace: Option<&Tree>,
        of: &ActiveBinding,
        budget: &mut Budget,
    ) -> Result<(), String> {
        let (kind, reference) = (of.policy.param_kind.as_ref(), of.binding.spec.param_ref.as_ref());
        let all = params::collect(&self.0.registry, kind, reference, attempt.namespace)?;
        for params in &all {
            let input = Input::of(attempt, namespace, &self.0.auth);
            *attempt.object = apply_mutations(&of.policy, &input, &Value::from(params), attempt, budget)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for MutatingAdmissionPolicy {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if !matches!(attempt.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let mut budget = Budget::of(OBJECT_COST_BUDGET);
        let (active_bindings, namespace) = self.0.active_bindings(attempt);
        for of in active_bindings {
            // As in the stock server, an earlier mutation does not change which bindings are active for this request.
            match self.mutate_by(attempt, namespace.as_ref(), &of, &mut budget) {
                Err(why) if of.policy.fails_closed => {
                    let (policy, binding) = (&of.policy.name, of.name());
                    let why = format!("policy '{policy}' with binding '{binding}' denied request: {why}");
                    return Err(forbidden(attempt, &why));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Applies all mutations of a policy.
fn apply_mutations(
    policy: &Policy,
    input: &Input,
    params: &Value,
    attempt: &AdmissionRequest<'_>,
    budget: &mut Budget,
) -> Result<Json, String> {
    let mut object = Json::clone(&attempt.object);
    let Some(mut bindings) = input.bindings_for(policy, params, budget)? else { return Ok(object) };
    for (at, mutation) in policy.mutations.iter().enumerate() {
        let (Mutation::Configuration(program) | Mutation::Patch(program)) = mutation;
        let mutation_error = |why: &dyn std::fmt::Display| format!("mutation {at} resulted in error: {why}");
        let made = input::run(program, &bindings, budget).and_then(|value| value.to_json(budget));
        let made = made.map_err(|error| mutation_error(&error))?;
        let tree = Tree::Object(object.clone());
        let new = match mutation {
            Mutation::Configuration(_) => apply::merge_over(&tree, &made, attempt.resource.shape())
                .map_err(|why| mutation_error(&why))?,
            Mutation::Patch(_) => patch::json::apply(tree, &made).map_err(|error| mutation_error(&error))?,
        };
        let Tree::Object(mut new) = new else {
            return Err(mutation_error(&"nothing but an object may be left"));
        };
        if let Some(field) = attempt.resource.prune(&mut new).first() {
            return Err(mutation_error(&format!("unknown field \"{field}\"")));
        }
        object = kept(&object, new);
        bindings = input::changed(policy, &bindings, &object, budget);
    }
    Ok(object)
}

/// Restores the fields that no policy may change.
fn kept(old: &Json, mut new: Json) -> Json {
    let keep = |old: &Json, new: &mut Json, fields: &[&str]| {
        for field in fields {
            match old.get(*field) {
                Some(value) => drop(new.insert((*field).to_owned(), value.clone())),
                None => drop(new.remove(*field)),
            }
        }
    };
    keep(old, &mut new, &["apiVersion", "kind"]);
    let old = old.get("metadata").and_then(Tree::as_object).cloned().unwrap_or_default();
    match new.get_mut("metadata") {
        Some(Tree::Object(metadata)) => keep(&old, metadata, &IMMUTABLE_METADATA),
        _ => drop(new.insert("metadata".to_owned(), old.into())),
    }
    new
}
