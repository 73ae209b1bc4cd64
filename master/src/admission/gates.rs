//! Pods may be posted unfinished: a new one gets a gate for everybody who has a part in finishing it, in order.
//!
//! Whose gate is the first takes it off, and may fill in before what is missing (`pods/finalize`, of which the kind says what
//! that is). Roles say who that is: the verb `finalize` on `schedulinggates`, which are no objects, by their names.

mod images;
mod turn;

use std::sync::Arc;

use api::strategy::{Cause, Json};
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::auth::nodes::names::is_mirror;
use apiserver::auth::{Attributes, Auth, ResourceAttributes};
use apiserver::{Identity, Status};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pods::{field, forbidden, is_new_pod, list, list_mut, spec, text};

/// Who may post a pod that is finished, and who the image of one that runs already. No account may: a controller's would
/// post for whoever has written the template.
const ADMINISTRATORS: &str = "system:masters";
const NODES: &str = "system:nodes";
/// Where pods wait for nobody: what finishes pods has to start first.
const EXEMPT: &str = "kube-system";
/// What roles call gates, and what is done at one.
const GATES: &str = "schedulinggates";
const VERB: &str = "finalize";
/// The part of a pod that is filled in.
const PART: &str = "finalize";

/// The gates that new pods get.
#[derive(Clone, Debug)]
pub struct SchedulingGates {
    names: Vec<String>,
    auth: Arc<Auth>,
}

impl SchedulingGates {
    /// These, the first to be taken off first, by whom these roles let.
    pub fn new(names: Vec<String>, auth: Arc<Auth>) -> Self {
        Self { names, auth }
    }

    fn is_own(&self, gate: &str) -> bool {
        self.names.iter().any(|name| name == gate)
    }

    /// Refuses whoever may not finish pods at that gate.
    fn check(&self, attempt: &Attempt<'_>, gate: &str) -> Result<(), Status> {
        let on = ResourceAttributes {
            version: "v1".to_owned(),
            resource: GATES.to_owned(),
            name: gate.to_owned(),
            namespace: attempt.namespace.unwrap_or_default().to_owned(),
            ..ResourceAttributes::default()
        };
        if self.auth.decide(attempt.user, &Attributes::on(VERB, on)).is_allowed() {
            return Ok(());
        }
        let user = &attempt.user.user;
        let why = format!(
            "it is the turn of {gate}, for which user \"{user}\" may not act: that needs the verb \"{VERB}\" on {GATES} \"{gate}\""
        );
        Err(forbidden(attempt, &why))
    }
}

/// Puts the gates on, before those that the pod brings.
fn gate(pod: &mut Json, names: &[String]) {
    let Some(gates) = field(pod, "spec").and_then(|spec| list_mut(spec, "schedulingGates")) else { return };
    let own = std::mem::take(gates);
    gates.extend(names.iter().map(|name| json!({"name": name})));
    let is_known =
        |gate: &Value| names.iter().any(|name| gate.get("name") == Some(&Value::from(name.as_str())));
    gates.extend(own.into_iter().filter(|gate| !is_known(gate)));
}

/// The names of a pod's gates.
fn gates(pod: &Json) -> Vec<&str> {
    let gates = spec(pod).into_iter().flat_map(|spec| list(spec, "schedulingGates"));
    gates.filter_map(|gate| gate.get("name")?.as_str()).collect()
}

/// True for whoever may post this pod finished.
fn is_privileged(user: &Identity, pod: &Json) -> bool {
    user.is_in(ADMINISTRATORS) || user.is_in(NODES) && is_mirror(pod)
}

#[async_trait]
impl Admission for SchedulingGates {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if self.names.is_empty() || !is_new_pod(attempt) || attempt.namespace == Some(EXEMPT) {
            return Ok(());
        }
        let is_bound = spec(&attempt.object).is_some_and(|spec| !text(spec, "nodeName").is_empty());
        if !is_bound {
            gate(&mut attempt.object, &self.names);
            return Ok(());
        }
        if is_privileged(attempt.user, &attempt.object) || !gates(&attempt.object).is_empty() {
            // A bound pod with gates makes no sense, which its validation says.
            return Ok(());
        }
        let why = format!(
            "spec.nodeName may not be set: pods of this cluster are finished by {} first; leave it out",
            self.names.join(", ")
        );
        Err(forbidden(attempt, &why))
    }

    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let is_finalize = attempt.subresource == Some(PART);
        let is_update = attempt.operation == Operation::Update && attempt.is_of("pods");
        if !is_update || !(is_finalize || attempt.subresource.is_none()) {
            return Ok(());
        }
        let old = attempt.old.map(gates).unwrap_or_default();
        let Some(first) = old.first() else { return Ok(()) };
        if is_finalize && !self.is_own(first) {
            let why = format!(
                "it is the turn of {first}, which is none of the master's --scheduling-gates: pods/finalize is for those alone"
            );
            return Err(forbidden(attempt, &why));
        }
        // Whoever may update a pod would undo what a finalizer has said of its image.
        if !is_finalize && old.iter().any(|gate| self.is_own(gate)) {
            let changed = images::changed(attempt.old, &attempt.object);
            if !changed.is_empty() {
                let why = format!(
                    "images stay until the pod is finished, and it is the turn of {first}: who finishes it adds digests with pods/finalize; for another image delete the pod and post it anew"
                );
                let causes: Vec<Cause> = changed.iter().map(|field| Cause::forbidden(field, &why)).collect();
                return Err(Status::invalid(attempt.resource, attempt.name, &causes));
            }
        }
        let new = gates(&attempt.object);
        // What somebody has brought along goes by the way of every pod.
        let is_ordered = |gate: &str| is_finalize || self.is_own(gate);
        if let Some(why) = turn::out_of_turn(&old, &new, is_ordered) {
            let cause = Cause::forbidden("spec.schedulingGates", &why);
            return Err(Status::invalid(attempt.resource, attempt.name, &[cause]));
        }
        let taken = turn::taken(&old, &new);
        let mut acted_for: Vec<&str> = taken.into_iter().filter(|gate| is_ordered(gate)).collect();
        if is_finalize && !acted_for.contains(first) {
            acted_for.push(first);
        }
        acted_for.into_iter().try_for_each(|gate| self.check(attempt, gate))
    }
}

#[cfg(test)]
mod tests {
    //! Gates in order.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn the_clusters_gates_come_first_and_each_once() {
        let names = ["images".to_owned(), "place".to_owned()];
        for (own, expected) in [
            (json!({}), json!(["images", "place"])),
            (json!({"schedulingGates": null}), json!(["images", "place"])),
            (
                json!({"schedulingGates": [{"name": "mine"}, {"name": "images"}]}),
                json!(["images", "place", "mine"]),
            ),
        ] {
            let mut pod = json!({"spec": own}).as_object().unwrap().clone();
            gate(&mut pod, &names);
            let found: Vec<Value> =
                list(spec(&pod).unwrap(), "schedulingGates").map(|g| g["name"].clone()).collect();
            assert_eq!(Value::from(found), expected);
        }
    }

    #[test]
    fn who_may_post_a_finished_pod() {
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
