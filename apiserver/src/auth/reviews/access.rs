//! SubjectAccessReview, its local and self variants, and SelfSubjectRulesReview.

use serde_json::{Map, Value, json};

use super::{AUTHORIZATION, invalid, text, texts};
use crate::auth::rbac::Rule;
use crate::auth::{AccessPolicy, Attributes, Decision, ResourceAttributes, nodes};
use crate::identity::Identity;
use crate::selector::FieldSelector;
use crate::status::Status;

/// Answers a SubjectAccessReview.
pub(super) fn review(policy: &dyn AccessPolicy, spec: &Value) -> Result<Value, Status> {
    let kind = "SubjectAccessReview";
    let attributes = read(kind, spec)?;
    let who = read_subject(spec);
    if who.user.is_empty() && who.groups.is_empty() {
        let what = "Invalid value: \"\": at least one of user or group must be specified";
        return Err(invalid(kind, AUTHORIZATION, "spec.user", what));
    }
    Ok(decided(policy, &who, &attributes))
}

/// Answers a LocalSubjectAccessReview for one namespace.
pub(super) fn local_review(
    policy: &dyn AccessPolicy,
    spec: &Value,
    namespace: &str,
) -> Result<Value, Status> {
    if text(&spec["resourceAttributes"], "namespace") != namespace {
        let message = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(Status::bad_request(message));
    }
    review(policy, spec)
}

/// Answers a SelfSubjectAccessReview.
pub(super) fn self_review(policy: &dyn AccessPolicy, who: &Identity, spec: &Value) -> Result<Value, Status> {
    Ok(decided(policy, who, &read("SelfSubjectAccessReview", spec)?))
}

/// Answers a SelfSubjectRulesReview: all rules of the sender in a namespace.
pub(super) fn rules(policy: &dyn AccessPolicy, who: &Identity, spec: &Value) -> Result<Value, Status> {
    let namespace = text(spec, "namespace");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request: set spec.namespace"));
    }
    let rules = policy.rules(who, namespace);
    let (on_paths, on_resources): (Vec<Rule>, Vec<Rule>) =
        rules.into_iter().partition(|rule| rule.resources.is_empty() && !rule.paths.is_empty());
    let shown = |rules: &[Rule]| -> Value { rules.iter().map(Rule::json).collect() };
    // A node's permissions depend on its pods, which rules cannot express.
    let of_node = nodes::node_of(who).is_some();
    let mut status = json!({"resourceRules": shown(&on_resources), "nonResourceRules": shown(&on_paths), "incomplete": of_node});
    if of_node {
        status["evaluationError"] = "node authorizer does not support user rule resolution".into();
    }
    Ok(status)
}

/// Parses the resource or non-resource attributes of a review.
fn read(kind: &str, spec: &Value) -> Result<Attributes, Status> {
    let part = |field: &str| spec.get(field).and_then(Value::as_object).filter(|part| !part.is_empty());
    match (part("resourceAttributes"), part("nonResourceAttributes")) {
        (Some(resource), None) => {
            let text = |field: &str| text_of(resource, field);
            let on = ResourceAttributes {
                group: text("group"),
                version: text("version"),
                resource: text("resource"),
                subresource: text("subresource"),
                name: text("name"),
                namespace: text("namespace"),
                fields: fields(resource),
            };
            Ok(Attributes::on(&text("verb"), on))
        }
        (None, Some(path)) => Ok(Attributes::on_path(&text_of(path, "verb"), &text_of(path, "path"))),
        _ => {
            let what =
                "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(invalid(kind, AUTHORIZATION, "spec.resourceAttributes", what))
        }
    }
}

/// Parses the field selector of a review. An invalid one is ignored, which never widens access.
fn fields(resource: &Map<String, Value>) -> FieldSelector {
    let Some(selector) = resource.get("fieldSelector").and_then(Value::as_object) else {
        return FieldSelector::default();
    };
    let mut fields = FieldSelector::parse(&text_of(selector, "rawSelector")).unwrap_or_default();
    for requirement in selector.get("requirements").and_then(Value::as_array).into_iter().flatten() {
        let values = requirement.get("values").and_then(Value::as_array).map(Vec::as_slice);
        if let ("In", Some([Value::String(value)])) = (text(requirement, "operator"), values) {
            fields.require(text(requirement, "key"), value);
        }
    }
    fields
}

fn text_of(of: &Map<String, Value>, field: &str) -> String {
    of.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn decided(policy: &dyn AccessPolicy, who: &Identity, attributes: &Attributes) -> Value {
    let decision = policy.decide(who, attributes);
    let mut status = json!({"allowed": decision.is_allowed()});
    let (Decision::Allowed(reason) | Decision::Denied(reason)) = decision;
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

/// The identity as `UserInfo`.
pub(super) fn user_info(who: &Identity) -> Value {
    let mut user = json!({"username": who.user});
    if !who.uid.is_empty() {
        user["uid"] = who.uid.as_str().into();
    }
    if !who.groups.is_empty() {
        user["groups"] = who.groups.clone().into();
    }
    if !who.extra.is_empty() {
        let extra = who.extra.iter().map(|(name, values)| (name.clone(), values.clone().into()));
        user["extra"] = Value::Object(extra.collect::<Map<_, _>>());
    }
    user
}

/// The user of a SubjectAccessReview, exactly as sent: no groups are added.
pub(super) fn read_subject(spec: &Value) -> Identity {
    let extra = spec.get("extra").and_then(Value::as_object);
    Identity {
        user: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(spec, "groups"),
        extra: extra
            .into_iter()
            .flatten()
            .map(|(name, _)| (name.clone(), texts(&spec["extra"], name)))
            .collect(),
        ..Identity::default()
    }
}
