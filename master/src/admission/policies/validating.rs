//! ValidatingAdmissionPolicies: what has to hold for a write to be made.

use std::sync::Arc;

use api::expressions::{self, STEPS_AN_OBJECT};
use apiserver::Status;
use apiserver::admission::{Admission, Attempt};
use apiserver::auth::Auth;
use apiserver::registry::Registry;
use async_trait::async_trait;
use cel::{Bindings, Budget, Value};
use serde_json::json;

use super::compiled::{Policy, Validation};
use super::input::{self, Input};
use super::{InForce, Policies, params};

/// The stock server's `ValidatingAdmissionPolicy`.
pub struct Validating(Policies);

/// Why a write does not pass.
#[derive(Debug, PartialEq, Eq)]
pub struct Denial {
    pub message: String,
    /// The reason the policy gives; empty for `Invalid`.
    pub reason: String,
}

impl Validating {
    /// Decides by the policies in that registry.
    pub fn new(registry: Arc<Registry>, auth: Arc<Auth>) -> Self {
        let (policies, bindings) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
        Self(Policies::new(registry, auth, policies, bindings))
    }

    /// Every reason against a write that a policy in force gives.
    fn denials(
        &self,
        attempt: &Attempt<'_>,
        input: &Input,
        of: &InForce,
        budget: &mut Budget,
    ) -> Result<Vec<Denial>, String> {
        let (kind, reference) = (of.policy.param_kind.as_ref(), &of.binding["spec"]["paramRef"]);
        let params = params::collect(&self.0.registry, kind, reference, attempt.namespace)?;
        let each = params.iter().flat_map(|params| judge(&of.policy, input, &Value::from(params), budget));
        Ok(each.collect())
    }
}

#[async_trait]
impl Admission for Validating {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let (in_force, namespace) = self.0.in_force(attempt);
        if in_force.is_empty() {
            return Ok(());
        }
        let input = Input::of(attempt, namespace.as_ref(), &self.0.auth);
        let mut budget = Budget::of(STEPS_AN_OBJECT);
        let mut first = None;
        for of in &in_force {
            let (policy, binding) = (&of.policy.name, of.name());
            let denials = match self.denials(attempt, &input, of, &mut budget) {
                Ok(denials) => denials,
                Err(_) if !of.policy.fails => continue,
                Err(why) => {
                    let message = format!("failed to configure binding: {why}");
                    first = first.or(Some((policy, binding, Denial { message, reason: String::new() })));
                    continue;
                }
            };
            let actions = &of.binding["spec"]["validationActions"];
            let does =
                |action: &str| actions.as_array().is_some_and(|all| all.iter().any(|one| one == action));
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

/// Every reason against a write with these parameters.
pub fn judge(policy: &Policy, input: &Input, params: &Value, budget: &mut Budget) -> Vec<Denial> {
    let unsure = |message: String| policy.fails.then(|| Denial { message, reason: String::new() });
    let bindings = match input.seen(policy, params, budget) {
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

fn refusal(attempt: &Attempt<'_>, policy: &str, binding: &str, denial: &Denial) -> Status {
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
