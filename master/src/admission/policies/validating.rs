//! The ValidatingAdmissionPolicy plugin.

use std::sync::Arc;

use api::expressions::{self, OBJECT_COST_BUDGET};
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest};
use apiserver::auth::Auth;
use apiserver::registry::Registry;
use async_trait::async_trait;
use cel::{Bindings, Budget, Value};
use serde_json::json;

use super::compiled::{Policy, Validation};
use super::input::{self, Input};
use super::{ActiveBinding, Policies, params};

/// The stock plugin `ValidatingAdmissionPolicy`.
pub struct ValidatingAdmissionPolicy(Policies);

/// A failed validation.
#[derive(Debug, PartialEq, Eq)]
pub struct Denial {
    pub message: String,
    /// The reason in the policy. Empty means `Invalid`.
    pub reason: String,
}

impl ValidatingAdmissionPolicy {
    /// Creates the plugin, which applies the policies in a registry.
    pub fn new(registry: Arc<Registry>, auth: Arc<Auth>) -> Self {
        let (policies, bindings) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
        Self(Policies::new(registry, auth, policies, bindings))
    }

    /// The failed validations of one active binding.
    fn denials(
        &self,
        attempt: &AdmissionRequest<'_>,
        input: &Input,
        of: &ActiveBinding,
        budget: &mut Budget,
    ) -> Result<Vec<Denial>, String> {
        let (kind, reference) = (of.policy.param_kind.as_ref(), of.binding.spec.param_ref.as_ref());
        let params = params::collect(&self.0.registry, kind, reference, attempt.namespace)?;
        let each = params.iter().flat_map(|params| evaluate(&of.policy, input, &Value::from(params), budget));
        Ok(each.collect())
    }
}

#[async_trait]
impl Admission for ValidatingAdmissionPolicy {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let (active_bindings, namespace) = self.0.active_bindings(attempt);
        if active_bindings.is_empty() {
            return Ok(());
        }
        let input = Input::of(attempt, namespace.as_ref(), &self.0.auth);
        let mut budget = Budget::of(OBJECT_COST_BUDGET);
        let mut first = None;
        for of in &active_bindings {
            let (policy, binding) = (&of.policy.name, of.name());
            let denials = match self.denials(attempt, &input, of, &mut budget) {
                Ok(denials) => denials,
                Err(_) if !of.policy.fails_closed => continue,
                Err(why) => {
                    let message = format!("failed to configure binding: {why}");
                    first = first.or(Some((policy, binding, Denial { message, reason: String::new() })));
                    continue;
                }
            };
            let actions = &of.binding.spec.validation_actions;
            let does = |action: &str| actions.iter().any(|one| **one == *action);
            for denial in denials {
                if does("Warn") {
                    let message = &denial.message;
                    attempt.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
                    ));
                }
                if does("Deny") {
                    first = first.or(Some((policy, binding, denial)));
                }
            }
        }
        first.map_or(Ok(()), |(policy, binding, denial)| Err(refusal(attempt, policy, binding, &denial)))
    }
}

/// The failed validations with these parameters.
pub fn evaluate(policy: &Policy, input: &Input, params: &Value, budget: &mut Budget) -> Vec<Denial> {
    let unsure = |message: String| policy.fails_closed.then(|| Denial { message, reason: String::new() });
    let bindings = match input.bindings_for(policy, params, budget) {
        Ok(Some(bindings)) => bindings,
        Ok(None) => return Vec::new(),
        Err(why) => return unsure(why).into_iter().collect(),
    };
    let validations = policy.validations.iter();
    validations
        .filter_map(|validation| match input::run(&validation.program, &bindings, budget) {
            Ok(Value::Bool(true)) => None,
            Ok(_) => Some(Denial {
                message: message(validation, &bindings, budget),
                reason: validation.reason.clone(),
            }),
            Err(error) => unsure(format!("expression '{}' resulted in error: {error}", validation.text)),
        })
        .collect()
}

fn message(validation: &Validation, bindings: &Bindings, budget: &mut Budget) -> String {
    let program = validation.message_program.as_ref();
    let made = program.and_then(|program| input::run(program, bindings, budget).ok());
    expressions::message(made, &validation.message, || format!("failed expression: {}", validation.text))
}

fn refusal(attempt: &AdmissionRequest<'_>, policy: &str, binding: &str, denial: &Denial) -> Status {
    let why = format!(
        "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
        denial.message
    );
    let mut status = super::super::pods::forbidden(attempt, &why);
    (status.reason, status.code) = match denial.reason.as_str() {
        "Unauthorized" => ("Unauthorized", 401),
        "Forbidden" => ("Forbidden", 403),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        _ => ("Invalid", 422),
    };
    if let Some(details) = &mut status.details {
        details["causes"] = json!([{"message": why}]);
    }
    status
}
