//! The node registration plugin. It records the identity and address of new Nodes, protects these annotations, and
//! keeps pods off untrusted nodes.

use api::strategy::{Cause, Json};
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::auth::nodes::node_of;
use apiserver::auth::nodes::references::is_mirror;
use apiserver::{Identity, Resource, Status};
use async_trait::async_trait;
use jiff::Timestamp;

use super::lister::Lister;
use super::pods::{forbidden, spec, text};
use crate::options::NodeAdmission;
use crate::trust;

/// The node registration plugin.
#[derive(Clone, Debug)]
pub struct NodeRegistration {
    lister: Lister,
    admission: NodeAdmission,
}

impl NodeRegistration {
    /// Creates the plugin with this registration mode. It reads Nodes from the lister.
    pub fn new(lister: Lister, admission: NodeAdmission) -> Self {
        Self { lister, admission }
    }

    /// Handles the creation of a Node by the node itself or by another user. It keeps the annotations of the other
    /// user.
    fn register(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if let Some(node) = node_of(attempt.user) {
            trust::admit(&self.admission, attempt.user.peer).map_err(|why| forbidden(attempt, &why))?;
            trust::record_registration(&mut attempt.object, attempt.user);
            if let Some(reserved) = self.lister.get::<Json>("nodes", "", node).filter(trust::is_reserved) {
                trust::adopt_reserved(&mut attempt.object, &reserved);
            }
        }
        if let Some(found) = trust::evaluate(&self.admission, &attempt.object) {
            trust::apply(&mut attempt.object, &found, Timestamp::now());
        }
        Ok(())
    }

    /// Rejects a pod on an untrusted node unless it tolerates the trust taint.
    fn check_pod(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let node = |pod| spec(pod).map(|spec| text(spec, "nodeName").to_owned()).unwrap_or_default();
        let (before, node) = (attempt.old.map(node).unwrap_or_default(), node(&attempt.object));
        // Mirror pods run already.
        if node.is_empty()
            || node == before
            || is_mirror(&attempt.object)
            || trust::tolerates(&attempt.object)
        {
            return Ok(());
        }
        let found: Option<Json> = self.lister.get("nodes", "", &node);
        if found.is_some_and(|node| trust::is_tainted(&node)) {
            let taint = trust::TAINT;
            let why = format!(
                "node {node:?} is not trusted to run pods, and the pod does not tolerate its taint {taint}"
            );
            return Err(forbidden(attempt, &why));
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for NodeRegistration {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if !attempt.is_of("nodes") {
            return Ok(());
        }
        match (attempt.operation, attempt.subresource, attempt.old) {
            (Operation::Create, None, _) => self.register(attempt),
            (Operation::Update, _, Some(old)) if node_of(attempt.user).is_some() => {
                trust::restore_condition(&mut attempt.object, old);
                if trust::has_new_signer(old, attempt.user) {
                    trust::record_signer(&mut attempt.object, attempt.user);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if attempt.is_of("pods") && is_written && matches!(attempt.subresource, None | Some("binding")) {
            return self.check_pod(attempt);
        }
        if attempt.is_of("nodes") && is_written && attempt.subresource.is_none() {
            let nonsense = trust::invalid_annotation(&attempt.object).filter(|found| {
                // Invalid values that existed before do not block updates.
                attempt.old.and_then(trust::invalid_annotation).as_ref() != Some(found)
            });
            if let Some((annotation, value, why)) = nonsense {
                let cause = Cause::invalid(format!("metadata.annotations[{annotation}]"), value, why);
                return Err(Status::invalid(attempt.resource, attempt.name, &[cause]));
            }
        }
        Ok(())
    }

    fn is_placeholder(&self, resource: &Resource, there: &Json, user: &Identity) -> bool {
        let name = there.get("metadata").and_then(|metadata| metadata.get("name")?.as_str());
        resource.stored() == "nodes" && trust::is_reserved(there) && name.is_some() && node_of(user) == name
    }
}
