//! The scheduling gates plugin. New pods get a gate for each configured pod initializer. The initializers run one after
//! the other: each completes the pod and removes its gate.
//!
//! The initializer of the first gate may set missing fields (`pods/finalize`) and remove the gate. RBAC grants this
//! by gate name, with the verb `finalize` on the virtual resource `schedulinggates`.

mod update;

use std::sync::Arc;

use api::strategy::{Cause, Json};
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::auth::nodes::references::is_mirror;
use apiserver::auth::{Attributes, Auth, ResourceAttributes};
use apiserver::{Identity, Status};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pods::{field, forbidden, is_new_pod, list, list_mut, spec, text};

/// Group whose members may create pods without gates. Nodes may do so too, for mirror pods. Service accounts may
/// not, because controllers create pods from templates of other users.
const ADMINISTRATORS: &str = "system:masters";
const NODES: &str = "system:nodes";
/// The namespace whose pods get no gates, because pod initializers themselves may run there.
const EXEMPT: &str = "kube-system";
/// The virtual resource and the verb that RBAC rules grant.
const GATES_RESOURCE: &str = "schedulinggates";
const FINALIZE_VERB: &str = "finalize";
/// The subresource that completes a pod.
const FINALIZE_SUBRESOURCE: &str = "finalize";

/// The scheduling gates plugin.
#[derive(Clone, Debug)]
pub struct SchedulingGates {
    names: Vec<String>,
    auth: Arc<Auth>,
}

impl SchedulingGates {
    /// Creates the plugin, which adds these gates in order. `auth` decides who may act for a gate.
    pub fn new(names: Vec<String>, auth: Arc<Auth>) -> Self {
        Self { names, auth }
    }

    fn is_configured(&self, gate: &str) -> bool {
        self.names.iter().any(|name| name == gate)
    }

    /// Rejects users who may not act for a gate.
    fn check(&self, attempt: &AdmissionRequest<'_>, gate: &str) -> Result<(), Status> {
        let on = ResourceAttributes {
            version: "v1".to_owned(),
            resource: GATES_RESOURCE.to_owned(),
            name: gate.to_owned(),
            namespace: attempt.namespace.unwrap_or_default().to_owned(),
            ..ResourceAttributes::default()
        };
        if self.auth.decide(attempt.user, &Attributes::on(FINALIZE_VERB, on)).is_allowed() {
            return Ok(());
        }
        let user = &attempt.user.user;
        let why = format!(
            "gate {gate} is next, and user \"{user}\" may not act for it: grant the verb \"{FINALIZE_VERB}\" on {GATES_RESOURCE} \"{gate}\""
        );
        Err(forbidden(attempt, &why))
    }
}

/// Adds the gates in front of those that the pod has.
fn add_gates(pod: &mut Json, names: &[String]) {
    let Some(gates) = field(pod, "spec").and_then(|spec| list_mut(spec, "schedulingGates")) else { return };
    let existing = std::mem::take(gates);
    gates.extend(names.iter().map(|name| json!({"name": name})));
    let is_known =
        |gate: &Value| names.iter().any(|name| gate.get("name") == Some(&Value::from(name.as_str())));
    gates.extend(existing.into_iter().filter(|gate| !is_known(gate)));
}

/// Returns the names of a pod's gates.
fn gates(pod: &Json) -> Vec<&str> {
    let gates = spec(pod).into_iter().flat_map(|spec| list(spec, "schedulingGates"));
    gates.filter_map(|gate| gate.get("name")?.as_str()).collect()
}

/// Whether the user may create this pod without gates.
fn is_privileged(user: &Identity, pod: &Json) -> bool {
    user.is_in(ADMINISTRATORS) || user.is_in(NODES) && is_mirror(pod)
}

#[async_trait]
impl Admission for SchedulingGates {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if self.names.is_empty() || !is_new_pod(attempt) || attempt.namespace == Some(EXEMPT) {
            return Ok(());
        }
        let is_bound = spec(&attempt.object).is_some_and(|spec| !text(spec, "nodeName").is_empty());
        if !is_bound {
            add_gates(&mut attempt.object, &self.names);
            return Ok(());
        }
        if is_privileged(attempt.user, &attempt.object) || !gates(&attempt.object).is_empty() {
            // Validation rejects a bound pod with gates.
            return Ok(());
        }
        let why = format!(
            "spec.nodeName may not be set: pods of this cluster are completed by {} first; remove the field",
            self.names.join(", ")
        );
        Err(forbidden(attempt, &why))
    }

    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_finalize = attempt.subresource == Some(FINALIZE_SUBRESOURCE);
        let is_update = attempt.operation == Operation::Update && attempt.is_of("pods");
        if !is_update || !(is_finalize || attempt.subresource.is_none()) {
            return Ok(());
        }
        let old = attempt.old.map(gates).unwrap_or_default();
        let Some(first) = old.first() else { return Ok(()) };
        if is_finalize && !self.is_configured(first) {
            let why = format!(
                "gate {first} is next and is not in the master's --scheduling-gates: pods/finalize is only for gates listed there"
            );
            return Err(forbidden(attempt, &why));
        }
        // An ordinary update could otherwise replace an image that an initializer has approved.
        if !is_finalize && old.iter().any(|gate| self.is_configured(gate)) {
            let changed = update::changed_images(attempt.old, &attempt.object);
            if !changed.is_empty() {
                let why = format!(
                    "images of a gated pod cannot be changed, and gate {first} is next: its pod initializer may add digests with pods/finalize; to use another image, delete the pod and create it again"
                );
                let causes: Vec<Cause> = changed.iter().map(|field| Cause::forbidden(field, &why)).collect();
                return Err(Status::invalid(attempt.resource, attempt.name, &causes));
            }
        }
        let new = gates(&attempt.object);
        // Gates that the pod's creator added may be removed in any order.
        let is_ordered = |gate: &str| is_finalize || self.is_configured(gate);
        if let Some(why) = update::out_of_turn(&old, &new, is_ordered) {
            let cause = Cause::forbidden("spec.schedulingGates", &why);
            return Err(Status::invalid(attempt.resource, attempt.name, &[cause]));
        }
        let taken = update::taken(&old, &new);
        let mut acted_for: Vec<&str> = taken.into_iter().filter(|gate| is_ordered(gate)).collect();
        if is_finalize && !acted_for.contains(first) {
            acted_for.push(first);
        }
        acted_for.into_iter().try_for_each(|gate| self.check(attempt, gate))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of order of added gates.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn cluster_scheduling_gates_come_first_without_duplicates() {
        let names = ["images".to_owned(), "place".to_owned()];
        for (existing, expected) in [
            (json!({}), json!(["images", "place"])),
            (json!({"schedulingGates": null}), json!(["images", "place"])),
            (
                json!({"schedulingGates": [{"name": "mine"}, {"name": "images"}]}),
                json!(["images", "place", "mine"]),
            ),
        ] {
            let mut pod = json!({"spec": existing}).as_object().unwrap().clone();
            add_gates(&mut pod, &names);
            let found: Vec<Value> =
                list(spec(&pod).unwrap(), "schedulingGates").map(|g| g["name"].clone()).collect();
            assert_eq!(Value::from(found), expected);
        }
    }

    #[test]
    fn only_administrators_and_mirror_pods_of_nodes_are_privileged() {
        for (group, of_a_pod, of_a_mirror) in [
            ("system:masters", true, true),
            ("system:nodes", false, true),
            ("system:serviceaccounts:kube-system", false, false),
            ("system:serviceaccounts:shop", false, false),
            ("system:unauthenticated", false, false),
        ] {
            let user = Identity::authenticated("u", [group.to_owned()]);
            let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
            let found = [json!({}), mirror].map(|pod| is_privileged(&user, pod.as_object().unwrap()));
            assert_eq!(found, [of_a_pod, of_a_mirror], "{group}");
        }
    }
}
