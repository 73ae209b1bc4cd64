//! Admission policies and their bindings as structs.

use serde::Deserialize;

use crate::objects::{LabelSelector, List, ObjectMeta};

/// A ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AdmissionPolicy {
    pub metadata: ObjectMeta,
    pub spec: AdmissionPolicySpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdmissionPolicySpec {
    /// `Fail` or `Ignore`; empty is `Fail`.
    pub failure_policy: Box<str>,
    /// Requests that the policy applies to; `None` for all.
    pub match_constraints: Option<MatchResources>,
    pub match_conditions: List<NamedExpression>,
    pub variables: List<NamedExpression>,
    /// The kind of the parameters; `None` if the policy takes none.
    pub param_kind: Option<ParamKind>,
    /// Only in validating policies.
    pub validations: List<ValidationRule>,
    /// Only in validating policies.
    pub audit_annotations: List<AuditAnnotation>,
    /// Only in mutating policies.
    pub mutations: List<MutationRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedExpression {
    pub name: Box<str>,
    pub expression: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParamKind {
    pub api_version: Box<str>,
    pub kind: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ValidationRule {
    pub expression: Box<str>,
    pub message: Box<str>,
    pub message_expression: Box<str>,
    pub reason: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditAnnotation {
    pub value_expression: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MutationRule {
    /// `ApplyConfiguration` or `JSONPatch`.
    pub patch_type: Box<str>,
    pub apply_configuration: Expression,
    pub json_patch: Expression,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Expression {
    pub expression: Box<str>,
}

/// A ValidatingAdmissionPolicyBinding or MutatingAdmissionPolicyBinding.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PolicyBinding {
    pub metadata: ObjectMeta,
    pub spec: PolicyBindingSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyBindingSpec {
    pub policy_name: Box<str>,
    /// The parameters; `None` without any.
    pub param_ref: Option<ParamRef>,
    /// Requests that the binding applies to; `None` for all.
    pub match_resources: Option<MatchResources>,
    /// `Deny`, `Warn` and `Audit`.
    pub validation_actions: List<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParamRef {
    /// Name of the only parameter object; empty for those that the selector selects.
    pub name: Box<str>,
    /// Namespace of the parameter objects; empty for that of the request.
    pub namespace: Box<str>,
    pub selector: LabelSelector,
    /// `Allow` or `Deny`.
    pub parameter_not_found_action: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MatchResources {
    /// `Exact` or `Equivalent`.
    pub match_policy: Box<str>,
    pub resource_rules: List<MatchRule>,
    pub exclude_resource_rules: List<MatchRule>,
    pub namespace_selector: LabelSelector,
    pub object_selector: LabelSelector,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MatchRule {
    pub operations: List<Box<str>>,
    pub api_groups: List<Box<str>>,
    pub api_versions: List<Box<str>>,
    /// Plural names with an optional subresource, such as `pods`, `pods/*` or `*/scale`.
    pub resources: List<Box<str>>,
    /// Names of objects; empty for all.
    pub resource_names: List<Box<str>>,
    /// `Cluster`, `Namespaced` or `*`.
    pub scope: Box<str>,
}
