//! Who has a say in what is written: webhooks, and policies with their bindings.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, Columns, NAME, Object, age, at, field, list, name, number, or_unset, shown, text};

const PARAMETERS: Column = shown("ParamKind", "Of what kind its parameters are.");

/// ValidatingWebhookConfigurations and MutatingWebhookConfigurations.
pub const WEBHOOK_CONFIGURATIONS: Columns = Columns {
    heads: &[NAME, number("Webhooks", "How many webhooks it has."), AGE],
    cells: |object, now| {
        let webhooks = object.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len);
        vec![name(object), webhooks.into(), age::of(object, now)]
    },
};

/// ValidatingAdmissionPolicies.
pub const VALIDATING_POLICIES: Columns = Columns {
    heads: &[NAME, number("Validations", "How many rules it has."), PARAMETERS, AGE],
    cells: |object, now| policy(object, "validations", now),
};

/// MutatingAdmissionPolicies.
pub const MUTATING_POLICIES: Columns = Columns {
    heads: &[NAME, number("Mutations", "How many rules it has."), PARAMETERS, AGE],
    cells: |object, now| policy(object, "mutations", now),
};

/// What binds either kind of policy.
pub const BINDINGS_OF_POLICIES: Columns = Columns {
    heads: &[
        NAME,
        shown("PolicyName", "Which policy it puts in force."),
        shown("ParamRef", "With which parameters."),
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
