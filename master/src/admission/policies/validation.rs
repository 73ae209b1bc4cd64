//! Validates policies and bindings when they are written. Expressions must compile, and the writer must be allowed
//! to read the parameters.

use std::sync::Arc;

use api::strategy::{Cause, Json};
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::auth::{Attributes, Auth, ResourceAttributes};
use apiserver::registry::Registry;
use async_trait::async_trait;
use serde_json::Value;

use super::GROUP;
use super::compiled::Policy;

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
        let (mut causes, kind) = (Policy::read(&attempt.object).1, spec(&attempt.object, "paramKind"));
        if causes.is_empty()
            && kind.is_object()
            && attempt.old.is_none_or(|old| spec(old, "paramKind") != kind)
        {
            let any = || "*".to_owned();
            let every = ResourceAttributes { namespace: any(), name: any(), ..self.params(kind) };
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
        let reference = spec(&attempt.object, "paramRef");
        let policy = text(spec(&attempt.object, "policyName"));
        if !reference.is_object() {
            return None;
        }
        let policy = self.registry.cache().get(&format!("{policies}.{GROUP}"), "", policy);
        let policy = policy.map(|policy| policy.decode()).unwrap_or_default();
        let of = |field: &str| text(&reference[field]).to_owned();
        let on = ResourceAttributes {
            namespace: of("namespace"),
            name: of("name"),
            ..self.params(spec(&policy, "paramKind"))
        };
        self.missing_read_permission(attempt, on, "spec.paramRef", "the object referenced by paramRef")
    }

    /// The resource of a parameter kind. If it is unknown, all resources.
    fn params(&self, kind: &Value) -> ResourceAttributes {
        let any = || "*".to_owned();
        if !kind.is_object() {
            return ResourceAttributes {
                group: any(),
                version: any(),
                resource: any(),
                ..ResourceAttributes::default()
            };
        }
        let api_version = text(&kind["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let rows = self.registry.rows();
        let row = rows.kind(group, version, text(&kind["kind"]));
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

fn spec<'a>(object: &'a Json, field: &str) -> &'a Value {
    object.get("spec").and_then(|spec| spec.get(field)).unwrap_or(&Value::Null)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
