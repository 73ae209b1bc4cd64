//! Printer columns of webhook configurations, admission policies and their bindings.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, Columns, NAME, Object, age, at, field, list, name, number, or_unset, shown, text};

const PARAMETERS: Column = shown("ParamKind", "The kind of the parameters.");

/// The printer columns of ValidatingWebhookConfigurations and MutatingWebhookConfigurations.
pub const WEBHOOK_CONFIGURATIONS: Columns = Columns {
    heads: &[NAME, number("Webhooks", "The number of webhooks."), AGE],
    cells: |object, now| {
        let webhooks = object.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len);
        vec![name(object), webhooks.into(), age::of(object, now)]
    },
};

/// The printer columns of ValidatingAdmissionPolicies.
pub const VALIDATING_POLICIES: Columns = Columns {
    heads: &[NAME, number("Validations", "The number of rules."), PARAMETERS, AGE],
    cells: |object, now| policy(object, "validations", now),
};

/// The printer columns of MutatingAdmissionPolicies.
pub const MUTATING_POLICIES: Columns = Columns {
    heads: &[NAME, number("Mutations", "The number of rules."), PARAMETERS, AGE],
    cells: |object, now| policy(object, "mutations", now),
};

/// The printer columns of Bindings of both kinds of policies.
pub const BINDINGS_OF_POLICIES: Columns = Columns {
    heads: &[
        NAME,
        shown("PolicyName", "The policy that is bound."),
        shown("ParamRef", "The parameters."),
        AGE,
    ],
    cells: binding,
};

fn policy(object: &Object, rules: &str, now: Timestamp) -> Vec<Value> {
    let kind = at(object, &["spec", "paramKind"])
        .map_or_else(String::new, |kind| format!("{}/{}", field(kind, "apiVersion"), field(kind, "kind")));
    vec![name(object), list(object, "spec", rules).len().into(), or_unset(&kind), age::of(object, now)]
}

fn binding(object: &Object, now: Timestamp) -> Vec<Value> {
    let parameters = at(object, &["spec", "paramRef"]).map_or_else(String::new, |reference| {
        match (field(reference, "namespace"), field(reference, "name")) {
            (_, "") => "*".to_owned(),
            ("", name) => format!("*/{name}"),
            (namespace, name) => format!("{namespace}/{name}"),
        }
    });
    let policy = text(object, "spec", "policyName");
    vec![name(object), policy.into(), or_unset(&parameters), age::of(object, now)]
}
