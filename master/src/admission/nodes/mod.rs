//! What nodes may write: themselves, images of the pods that they have from elsewhere, and what becomes of their pods.

mod asked;
mod mirror;
mod own;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::auth::nodes::node_of;
use async_trait::async_trait;
use serde_json::Value;

use super::lookup::Lookup;
use super::pods::{forbidden, spec, text};

/// Where every node has its heartbeat.
const LEASES: &str = "kube-node-lease";
/// What a node may change of a claim: how large its volume has become.
const OF_CLAIMS: [&str; 4] = ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

/// The stock server's `NodeRestriction`, but for tokens, which are no objects: those `apiserver::auth::nodes` sees to.
#[derive(Clone, Debug)]
pub struct NodeRestriction {
    lookup: Lookup,
}

impl NodeRestriction {
    /// Finds nodes there.
    pub fn new(lookup: Lookup) -> Self {
        Self { lookup }
    }

    fn check(&self, node: &str, attempt: &Attempt<'_>) -> Result<(), Status> {
        if attempt.is_of("pods")
            && attempt.subresource.is_none()
            && attempt.operation == Operation::Create
            && !node.is_empty()
        {
            let refused = |why: String| forbidden(attempt, &why);
            let owner = mirror::owner(node, &attempt.object).map_err(refused)?;
            let found = self.lookup.get("nodes", "", node).ok_or_else(|| Status::not_found("nodes", node))?;
            return mirror::check(node, &attempt.object, owner, uid(&found)).map_err(refused);
        }
        decide(node, attempt).map_err(|why| forbidden(attempt, &why))
    }
}

#[async_trait]
impl Admission for NodeRestriction {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        match node_of(attempt.user) {
            // What is reached through an object is the authorizer's to decide.
            Some(node) if attempt.operation != Operation::Connect => self.check(node, attempt),
            _ => Ok(()),
        }
    }
}

/// Why a node may not write that, where nothing needs to be looked up.
fn decide(node: &str, attempt: &Attempt<'_>) -> Result<(), String> {
    use Operation::{Create, Delete, Update};
    let operation = attempt.operation;
    let unexpected = || Err(format!("unexpected operation {:?}", operation.as_str()));
    let is_ours = attempt.old.is_some_and(|old| node_name(old) == node);
    let only = |what: &str| if is_ours { Ok(()) } else { Err(format!("node {node:?} can only {what}")) };
    if node.is_empty() {
        return Err(format!("could not determine node from user {:?}", attempt.user.user));
    }
    match (attempt.resource.stored(), attempt.subresource) {
        // An eviction that has passed deletes, which is asked about again.
        ("pods", None | Some("eviction")) if operation == Delete => {
            only("delete pods with spec.nodeName set to itself")
        }
        ("pods", None) => Err(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            operation.as_str()
        )),
        ("pods", Some("status")) if operation == Update => {
            only("update pod status for pods with spec.nodeName set to itself")?;
            attempt.old.map_or(Ok(()), |old| mirror::check_status(node, old, &attempt.object))
        }
        ("pods", Some("eviction")) if operation == Create => {
            only("evict pods with spec.nodeName set to itself")
        }
        ("pods", Some("status" | "eviction")) => unexpected(),
        ("pods", Some(part)) => {
            Err(format!("unexpected pod subresource {part:?}, only 'status' and 'eviction' are allowed"))
        }
        ("nodes", _) => own::check(node, attempt.name, &attempt.object, attempt.old),
        ("persistentvolumeclaims", Some("status")) if operation == Update => {
            claim(node, attempt.old, &attempt.object)
        }
        ("persistentvolumeclaims", Some("status")) => unexpected(),
        ("persistentvolumeclaims", _) => Err("may only update PVC status".to_owned()),
        (asked::REQUESTS, None) if operation == Create => asked::check(node, &attempt.object),
        ("leases.coordination.k8s.io", _) if attempt.namespace != Some(LEASES) => {
            Err(format!("can only access leases in the {LEASES:?} system namespace"))
        }
        ("leases.coordination.k8s.io", _) if attempt.name != node => {
            Err("can only access node lease with the same name as the requesting node".to_owned())
        }
        ("csinodes.storage.k8s.io", _) if attempt.name != node => {
            Err("can only access CSINode with the same name as the requesting node".to_owned())
        }
        ("resourceslices.resource.k8s.io", _)
            if operation == Create && node_name(&attempt.object) != node =>
        {
            Err("can only create ResourceSlice with the same NodeName as the requesting node".to_owned())
        }
        ("resourceslices.resource.k8s.io", _) if operation == Delete && !is_ours => {
            Err("can only delete ResourceSlice with the same NodeName as the requesting node".to_owned())
        }
        _ => Ok(()),
    }
}

/// Refuses to change more of a claim than how large its volume has become.
fn claim(node: &str, old: Option<&Json>, new: &Json) -> Result<(), String> {
    let rest = |claim: &Json| {
        let mut claim = claim.clone();
        remove(&mut claim, "metadata", &["resourceVersion", "managedFields"]);
        remove(&mut claim, "status", &OF_CLAIMS);
        claim
    };
    if old.map(rest) == Some(rest(new)) {
        return Ok(());
    }
    Err(format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
    ))
}

/// Takes fields out of a part, and the part when nothing is left of it.
fn remove(object: &mut Json, part: &str, fields: &[&str]) {
    let Some(own) = object.get_mut(part).and_then(Value::as_object_mut) else { return };
    own.retain(|name, _| !fields.contains(&name.as_str()));
    if own.is_empty() {
        object.remove(part);
    }
}

/// The node that an object is on, empty for none.
fn node_name(object: &Json) -> &str {
    spec(object).map(|spec| text(spec, "nodeName")).unwrap_or_default()
}

fn metadata(object: &Json) -> Option<&Json> {
    object.get("metadata").and_then(Value::as_object)
}

fn uid(object: &Json) -> &str {
    metadata(object).map(|metadata| text(metadata, "uid")).unwrap_or_default()
}

/// A part of an object, by its path; what is empty is as good as not there.
fn part<'a>(object: &'a Json, of: &str, name: &str) -> Option<&'a Value> {
    let value = object.get(of)?.get(name)?;
    let is_empty = match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => false,
    };
    (!is_empty).then_some(value)
}

#[cfg(test)]
mod tests;
