//! Pods may be posted unfinished: a new one gets a gate for everybody who has a part in finishing it, in order.

use api::strategy::Json;
use apiserver::admission::{Admission, Attempt};
use apiserver::{Identity, Status};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pods::{field, forbidden, is_new_pod, list, list_mut, spec, text};

/// Who may post a pod that is finished: the administrators, nodes (the pods they made by themselves), and the master's own.
const PRIVILEGED: &[&str] = &["system:masters", "system:nodes", "system:serviceaccounts:kube-system"];

/// The gates that new pods get.
#[derive(Clone, Debug)]
pub struct SchedulingGates {
    names: Vec<String>,
}

impl SchedulingGates {
    /// These, the first to be taken off first.
    pub fn new(names: Vec<String>) -> Self {
        Self { names }
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

fn is_privileged(user: &Identity) -> bool {
    PRIVILEGED.iter().any(|group| user.is_in(group))
}

#[async_trait]
impl Admission for SchedulingGates {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if self.names.is_empty() || !is_new_pod(attempt) {
            return Ok(());
        }
        let is_bound = spec(&attempt.object).is_some_and(|spec| !text(spec, "nodeName").is_empty());
        if !is_bound {
            gate(&mut attempt.object, &self.names);
            return Ok(());
        }
        let has_gates =
            spec(&attempt.object).is_some_and(|spec| list(spec, "schedulingGates").next().is_some());
        if is_privileged(attempt.user) || has_gates {
            // A bound pod with gates makes no sense, which its validation says.
            return Ok(());
        }
        let why = format!(
            "spec.nodeName may not be set: pods of this cluster are finished by {} first; leave it out",
            self.names.join(", ")
        );
        Err(forbidden(attempt, &why))
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
