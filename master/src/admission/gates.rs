//! Pods may be posted unfinished: a new one gets a gate for everybody who has a part in finishing it, in order.
//!
//! Whose gate is the first takes it off, and may fill in before what is missing (`pods/finalize`, of which the kind says what
//! that is). Roles say who that is: the verb `finalize` on `schedulinggates`, which are no objects, by their names.

mod turn;

use std::sync::Arc;

use api::strategy::{Cause, Json};
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::auth::{Attributes, Auth, ResourceAttributes};
use apiserver::{Identity, Status};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pods::{field, forbidden, is_new_pod, list, list_mut, spec, text};

/// Who may post a pod that is finished: the administrators, nodes (the pods they made by themselves), and the master's own.
const PRIVILEGED: &[&str] = &["system:masters", "system:nodes", "system:serviceaccounts:kube-system"];
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

fn is_privileged(user: &Identity) -> bool {
    PRIVILEGED.iter().any(|group| user.is_in(group))
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
        if is_privileged(attempt.user) || !gates(&attempt.object).is_empty() {
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
    fn who_may_finish_a_pod() {
        let user = |group: &str| Identity::authenticated("u", [group.to_owned()]);
        assert!(is_privileged(&user("system:masters")) && is_privileged(&user("system:nodes")));
        assert!(
            !is_privileged(&user("system:serviceaccounts:shop")) && !is_privileged(&Identity::anonymous())
        );
    }
}
