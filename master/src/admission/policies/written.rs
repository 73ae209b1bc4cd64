//! What policies and bindings have to be when they are written: a policy whose expressions cannot be run is refused then,
//! not when it would be needed, and so are parameters that whoever writes it may not read.

use std::sync::Arc;

use api::strategy::{Cause, Json};
use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::auth::{Attributes, Auth, ResourceAttributes};
use apiserver::registry::Registry;
use async_trait::async_trait;
use serde_json::Value;

use super::GROUP;
use super::compiled::Policy;

/// Checks policies of both sorts, and their bindings.
pub struct Written {
    registry: Arc<Registry>,
    auth: Arc<Auth>,
}

impl Written {
    /// Asks there who may read parameters.
    pub fn new(registry: Arc<Registry>, auth: Arc<Auth>) -> Self {
        Self { registry, auth }
    }

    /// What is wrong with a policy.
    fn policy(&self, attempt: &Attempt<'_>) -> Vec<Cause> {
        let (mut causes, kind) = (Policy::read(&attempt.object).1, spec(&attempt.object, "paramKind"));
        if causes.is_empty()
            && kind.is_object()
            && attempt.old.is_none_or(|old| spec(old, "paramKind") != kind)
        {
            let any = || "*".to_owned();
            let every = ResourceAttributes { namespace: any(), name: any(), ..self.params(kind) };
            causes.extend(self.unread(
                attempt,
                every,
                "spec.paramKind",
                "all objects of the referenced paramKind",
            ));
        }
        causes
    }

    /// What is wrong with a binding: expressions would tell whoever sees their messages what stands in its parameters.
    fn binding(&self, attempt: &Attempt<'_>, policies: &str) -> Option<Cause> {
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
        self.unread(attempt, on, "spec.paramRef", "the object referenced by paramRef")
    }

    /// The resource of a kind of parameters; every one that it may be where that is not known.
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

    /// That whoever writes may not read these.
    fn unread(
        &self,
        attempt: &Attempt<'_>,
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
impl Admission for Written {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let resource = attempt.resource;
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if !is_written || resource.group != GROUP || attempt.subresource.is_some() {
            return Ok(());
        }
        // What an update leaves as it is was right once.
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
