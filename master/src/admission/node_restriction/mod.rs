//! The NodeRestriction plugin: nodes may write only their own Node, Lease, mirror pods, and the status of their pods.

mod mirror_pods;
mod own_node;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::auth::nodes::node_of;
use async_trait::async_trait;
use serde_json::Value;

use super::lister::Lister;
use super::pods::{forbidden, spec, text};
use crate::objects::{self, CertificateSigningRequest, PartialObject};
use crate::pki::{Request, Signer, node};

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The fields of a claim's status that a node may change after a volume was resized.
const CLAIM_STATUS_FIELDS: [&str; 4] =
    ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

/// The stock plugin `NodeRestriction`, except for tokens. `apiserver::auth::nodes` restricts these.
#[derive(Clone, Debug)]
pub struct NodeRestriction {
    lister: Lister,
}

impl NodeRestriction {
    /// Creates the plugin, which reads Nodes from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }

    fn check(&self, node: &str, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        if attempt.is_of("pods")
            && attempt.subresource.is_none()
            && attempt.operation == Operation::Create
            && !node.is_empty()
        {
            let refused = |why: String| forbidden(attempt, &why);
            let owner = mirror_pods::owner(node, &attempt.object).map_err(refused)?;
            let found: Option<PartialObject> = self.lister.get("nodes", "", node);
            let found = found.ok_or_else(|| Status::not_found("nodes", node))?;
            return mirror_pods::check(node, &attempt.object, &owner, &found.metadata.uid).map_err(refused);
        }
        decide(node, attempt).map_err(|why| forbidden(attempt, &why))
    }
}

#[async_trait]
impl Admission for NodeRestriction {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        match node_of(attempt.user) {
            // The authorizer decides about connections such as exec.
            Some(node) if attempt.operation != Operation::Connect => self.check(node, attempt),
            _ => Ok(()),
        }
    }
}

/// Checks a node's write without lookups. Errors have the text of stock Kubernetes.
fn decide(node: &str, attempt: &AdmissionRequest<'_>) -> Result<(), String> {
    use Operation::{Create, Delete, Update};
    let operation = attempt.operation;
    let unexpected = || Err(format!("unexpected operation {:?}", operation.as_str()));
    let is_ours = attempt.old.is_some_and(|old| node_name(old) == node);
    let only = |what: &str| if is_ours { Ok(()) } else { Err(format!("node {node:?} can only {what}")) };
    if node.is_empty() {
        return Err(format!("could not determine node from user {:?}", attempt.user.user));
    }
    match (attempt.resource.stored(), attempt.subresource) {
        // An allowed eviction is checked again as a deletion.
        ("pods", None | Some("eviction")) if operation == Delete => {
            only("delete pods with spec.nodeName set to itself")
        }
        ("pods", None) => Err(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            operation.as_str()
        )),
        ("pods", Some("status")) if operation == Update => {
            only("update pod status for pods with spec.nodeName set to itself")?;
            attempt.old.map_or(Ok(()), |old| mirror_pods::check_status(node, old, &attempt.object))
        }
        ("pods", Some("eviction")) if operation == Create => {
            only("evict pods with spec.nodeName set to itself")
        }
        ("pods", Some("status" | "eviction")) => unexpected(),
        ("pods", Some(part)) => {
            Err(format!("unexpected pod subresource {part:?}, only 'status' and 'eviction' are allowed"))
        }
        ("nodes", _) => own_node::check(node, attempt.name, &attempt.object, attempt.old),
        ("persistentvolumeclaims", Some("status")) if operation == Update => {
            claim(node, attempt.old, &attempt.object)
        }
        ("persistentvolumeclaims", Some("status")) => unexpected(),
        ("persistentvolumeclaims", _) => Err("may only update PVC status".to_owned()),
        (REQUESTS, None) if operation == Create => check_certificate_request(node, &attempt.object),
        ("leases.coordination.k8s.io", _) if attempt.namespace != Some(LEASE_NAMESPACE) => {
            Err(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"))
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

/// Rejects changes of a claim other than its resize status.
fn claim(node: &str, old: Option<&Json>, new: &Json) -> Result<(), String> {
    let rest = |claim: &Json| {
        let mut claim = claim.clone();
        remove(&mut claim, "metadata", &["resourceVersion", "managedFields"]);
        remove(&mut claim, "status", &CLAIM_STATUS_FIELDS);
        claim
    };
    if old.map(rest) == Some(rest(new)) {
        return Ok(());
    }
    Err(format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
    ))
}

/// Removes fields of a top-level object, and the object itself if it becomes empty.
fn remove(object: &mut Json, part: &str, fields: &[&str]) {
    let Some(own) = object.get_mut(part).and_then(Value::as_object_mut) else { return };
    own.retain(|name, _| !fields.contains(&name.as_str()));
    if own.is_empty() {
        object.remove(part);
    }
}

/// Returns `spec.nodeName`; empty if it is not set.
fn node_name(object: &Json) -> &str {
    spec(object).map(|spec| text(spec, "nodeName")).unwrap_or_default()
}

/// Returns a field of a top-level object. Empty values count as missing.
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

/// The resource name of CertificateSigningRequests.
const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

/// Rejects requests for the name of another node.
///
/// # Errors
/// If the request is rejected. The error is the stock message.
fn check_certificate_request(node: &str, request: &Json) -> Result<(), String> {
    let request: CertificateSigningRequest = objects::read(request);
    match Signer::of(&request.spec.signer_name) {
        Some(Signer::NodeClient | Signer::NodeServing) => {}
        // RBAC and administrators decide about other certificates.
        Some(Signer::Client) | None => return Ok(()),
    }
    let pem = request.request().map_err(|error| format!("unable to parse csr: {error}"))?;
    let csr = Request::read(&pem).map_err(|why| format!("unable to parse csr: {why}"))?;
    if node::of_user(&csr.common_name) == Some(node) {
        return Ok(());
    }
    Err(format!("can only create a node CSR with CN=system:node:{node}"))
}

#[cfg(test)]
mod tests;
