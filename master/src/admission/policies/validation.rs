//! Validates policies and bindings when they are written. Expressions must compile, and the writer must be allowed
//! to read the parameters.

use std::sync::Arc;

use api::strategy::Cause;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::auth::{Attributes, Auth, ResourceAttributes};
use apiserver::registry::Registry;
use async_trait::async_trait;

use super::GROUP;
use super::compiled::Policy;
use super::objects::{AdmissionPolicy, ParamKind, PolicyBinding};
use crate::objects;

/// The plugin that validates policies and bindings.
pub struct PolicyValidation {
    registry: Arc<Registry>,
    auth: Arc<Auth>,
}

impl PolicyValidation {
    /// Creates the plugin. `auth` decides who may read parameters.
    pub fn new(registry: Arc<Registry>, auth: Arc<Auth>) -> Self {
        Self { registry, auth }
    }

    /// The errors of a policy.
    fn policy(&self, attempt: &AdmissionRequest<'_>) -> Vec<Cause> {
        let policy: AdmissionPolicy = objects::read(&attempt.object);
        let (mut causes, kind) = (Policy::compile(&policy).1, policy.spec.param_kind);
        let before = attempt.old.and_then(|old| objects::read::<AdmissionPolicy>(old).spec.param_kind);
        if causes.is_empty() && kind.is_some() && kind != before {
            let any = || "*".to_owned();
            let every = ResourceAttributes { namespace: any(), name: any(), ..self.params(kind.as_ref()) };
            causes.extend(self.missing_read_permission(
                attempt,
                every,
                "spec.paramKind",
                "all objects of the referenced paramKind",
            ));
        }
        causes
    }

    /// The error for a binding whose writer may not read its parameters, because messages could reveal them.
    fn binding(&self, attempt: &AdmissionRequest<'_>, policies: &str) -> Option<Cause> {
        let binding = objects::read::<PolicyBinding>(&attempt.object).spec;
        let reference = binding.param_ref?;
        let policy = self.registry.cache().get(&format!("{policies}.{GROUP}"), "", &binding.policy_name);
        let policy = policy.map(|policy| objects::decode::<AdmissionPolicy>(policy.json()));
        let kind = policy.and_then(|policy| policy.spec.param_kind);
        let on = ResourceAttributes {
            namespace: reference.namespace.into(),
            name: reference.name.into(),
            ..self.params(kind.as_ref())
        };
        self.missing_read_permission(attempt, on, "spec.paramRef", "the object referenced by paramRef")
    }

    /// The resource of a parameter kind. If it is unknown, all resources.
    fn params(&self, kind: Option<&ParamKind>) -> ResourceAttributes {
        let any = || "*".to_owned();
        let Some(ParamKind { api_version, kind }) = kind else {
            return ResourceAttributes {
                group: any(),
                version: any(),
                resource: any(),
                ..ResourceAttributes::default()
            };
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let rows = self.registry.rows();
        let row = rows.kind(group, version, kind);
        ResourceAttributes {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: row.map_or_else(any, |row| row.plural.to_string()),
            ..ResourceAttributes::default()
        }
    }

    /// The error if the user may not read the parameters.
    fn missing_read_permission(
        &self,
        attempt: &AdmissionRequest<'_>,
        on: ResourceAttributes,
        field: &str,
        these: &str,
    ) -> Option<Cause> {
        let decision = self.auth.decide(attempt.user, &Attributes::on("get", on));
        let why = format!("user \"{}\" must have \"get\" permission on {these}", attempt.user.user);
        (!decision.is_allowed()).then(|| Cause::forbidden(field, &why))
    }
}

#[async_trait]
impl Admission for PolicyValidation {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let resource = attempt.resource;
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if !is_written || resource.group != GROUP || attempt.subresource.is_some() {
            return Ok(());
        }
        // An unchanged spec was valid before.
        if attempt.old.is_some_and(|old| old.get("spec") == attempt.object.get("spec")) {
            return Ok(());
        }
        let causes = match &*resource.plural {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => self.policy(attempt),
            "validatingadmissionpolicybindings" => {
                self.binding(attempt, "validatingadmissionpolicies").into_iter().collect()
            }
            "mutatingadmissionpolicybindings" => {
                self.binding(attempt, "mutatingadmissionpolicies").into_iter().collect()
            }
            _ => Vec::new(),
        };
        if causes.is_empty() { Ok(()) } else { Err(Status::invalid(resource, attempt.name, &causes)) }
    }
}
