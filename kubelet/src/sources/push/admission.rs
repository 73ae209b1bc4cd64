//! Admission of writes to the node's API: pushed objects may change, objects of other sources may not.

use api::problem::ObjectName;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::identity::Identity;
use apiserver::resource::Resource;
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::watch;

use super::store::PushedObjects;
use super::{NAMESPACES, PODS, SERVICES, SYSTEM_NAMESPACES};
use crate::desired::{Desired, SourceKind};
use crate::sources::identity;

/// Annotations that only the kubelet sets.
const OWN_ANNOTATIONS: [&str; 4] = [identity::SOURCE, identity::HASH, identity::SEEN, identity::MIRROR];

/// Admits writes of pushed objects.
pub struct PushedOnly {
    node: String,
    store: PushedObjects,
    desired: watch::Receiver<Arc<Desired>>,
    is_of_cluster: bool,
}

impl PushedOnly {
    /// Creates the plugin. `desired` has the owners of the objects of other sources. The node of a cluster admits no
    /// Services.
    pub fn new(
        node: String,
        store: PushedObjects,
        desired: watch::Receiver<Arc<Desired>>,
        is_of_cluster: bool,
    ) -> Self {
        Self { node, store, desired, is_of_cluster }
    }

    /// Rejects the write of an object that was not pushed.
    fn check_owner(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let (stored, namespace) = (request.resource.stored(), request.namespace.unwrap_or_default());
        if request.name.is_empty() || self.store.contains(stored, namespace, request.name) {
            return Ok(());
        }
        let name = ObjectName {
            kind: request.resource.kind.to_string(),
            namespace: namespace.to_owned(),
            name: request.name.to_owned(),
        };
        let owner = self.desired.borrow().owners.get(&name).map(|owner| match owner.source {
            SourceKind::File => format!(
                "it belongs to the file {} (--pod-manifest-path): edit or remove it there",
                owner.origin
            ),
            SourceKind::Http => {
                format!("it belongs to the URL {} (--manifest-url): edit or remove it there", owner.origin)
            }
            SourceKind::Api => format!(
                "it belongs to {}: change or delete it there, with the kubeconfig of the cluster",
                owner.origin
            ),
            SourceKind::Push => "it was deleted a moment ago: retry".to_owned(),
        });
        let why = owner.unwrap_or_else(|| {
            if stored == NAMESPACES {
                "the kubelet shows it for the objects in it; only namespaces that were created here can be \
                 changed"
                    .to_owned()
            } else {
                "the kubelet is removing it".to_owned()
            }
        });
        Err(Status::forbidden(&request.resource.qualified().to_string(), request.name, &why))
    }

    /// Assigns a new pod to this node.
    fn assign(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let spec = request.object.get("spec");
        let wanted = spec.and_then(|spec| spec.get("nodeName")).and_then(Value::as_str).unwrap_or_default();
        if !wanted.is_empty() && wanted != self.node {
            let why = format!(
                "spec.nodeName is {wanted}, but this is the API of the node {}: remove spec.nodeName",
                self.node
            );
            return Err(Status::forbidden(PODS, request.name, &why));
        }
        if let Some(Value::Object(spec)) = request.object.get_mut("spec") {
            spec.insert("nodeName".to_owned(), self.node.as_str().into());
        }
        Ok(())
    }
}

/// Removes annotations that mark pods of other sources.
fn remove_own_annotations(request: &mut AdmissionRequest<'_>) {
    let annotations = |object: &Map<String, Value>| {
        let metadata = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
        metadata
            .and_then(Value::as_object)
            .is_some_and(|all| OWN_ANNOTATIONS.iter().any(|annotation| all.contains_key(*annotation)))
    };
    if !annotations(&request.object) {
        return;
    }
    let metadata = request.object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Object(all)) = metadata {
        all.retain(|name, _| !OWN_ANNOTATIONS.contains(&name.as_str()));
    }
}

#[async_trait]
impl Admission for PushedOnly {
    async fn mutate(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_pod = request.is_of(PODS);
        match (request.operation, request.subresource) {
            (Operation::Create, None) if is_pod => self.assign(request)?,
            (Operation::Create, None) if self.is_of_cluster && request.is_of(SERVICES) => {
                let why = "this node belongs to a cluster: create the Service there, with the kubeconfig of the cluster";
                return Err(Status::forbidden(SERVICES, request.name, why));
            }
            (Operation::Create, None) => {}
            (Operation::Create | Operation::Update | Operation::Delete | Operation::Connect, _) => {
                self.check_owner(request)?;
            }
        }
        if request.subresource == Some("status") && is_pod {
            let why = "the kubelet reports the status of pods, and no other client may";
            return Err(Status::forbidden(PODS, request.name, why));
        }
        if is_pod && matches!(request.operation, Operation::Create | Operation::Update) {
            remove_own_annotations(request);
        }
        Ok(())
    }

    fn is_placeholder(&self, resource: &Resource, there: &Map<String, Value>, _: &Identity) -> bool {
        let name = there.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        let name = name.unwrap_or_default();
        resource.stored() == NAMESPACES
            && !SYSTEM_NAMESPACES.contains(&name)
            && !self.store.contains(NAMESPACES, "", name)
    }
}
